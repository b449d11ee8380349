"""Calls that no function here runs: actions of the client itself, and tools without a function."""

from __future__ import annotations

import json
from typing import Any

import pytest
from execution.chat_chunks import answer

from streamkit import (
    Content,
    RunState,
    Tool,
    ToolFailed,
    Turn,
    UsageError,
    execute_tool_calls_batched,
    execute_tool_calls_sequentially,
    run_loop,
    tool,
)
from streamkit.events import ToolAwaitingResult, ToolCompleted, ToolError, ToolRunning
from streamkit.execution import execute_one_tool, parse_entry

pytestmark = pytest.mark.anyio

HISTORY = [Content.human("Tidy up.")]
FORM = Tool(name="form", description="A form.", parameters={"type": "object"})
SHELL = {
    "type": "shell_call",
    "id": "sh_1",
    "call_id": "c_1",
    "status": "completed",
    "action": {"commands": ["ls"]},
    "environment": {"type": "local"},
}
LOOK = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "c_2",
    "name": "look",
    "arguments": "{}",
    "status": "completed",
}


def response(*items: dict[str, Any]) -> list[dict[str, Any]]:
    body = {"id": "resp_1", "object": "response", "model": "m", "status": "completed", "output": list(items)}
    added = [{"type": "response.output_item.added", "output_index": n, "item": item} for n, item in enumerate(items)]
    done = [{"type": "response.output_item.done", "output_index": n, "item": item} for n, item in enumerate(items)]
    events = [event for pair in zip(added, done, strict=True) for event in pair]
    return [*events, {"type": "response.completed", "response": body}]


def closed_turn(*items: dict[str, Any]) -> Turn:
    turn = Turn("openai_responses", turn_key="t")
    for event in response(*items):
        turn.feed(event)
    turn.close()
    return turn


class Shell:
    """A tool with the name of the client's shell, which must never run."""

    def __init__(self) -> None:
        self.ran = False

    @property
    def tools(self) -> list[Any]:
        @tool(eager=True)
        def shell(commands: list[str]) -> str:
            self.ran = True
            return "ran"

        return [shell, look]


def look() -> str:
    return "saw"


async def test_a_run_awaits_the_result_of_an_action_of_the_client() -> None:
    shell = Shell()
    run = await run_loop(
        lambda _: response(SHELL, LOOK), provider="openai_responses", tools=shell.tools, history=HISTORY, run_key="k"
    )
    assert (run.ended, shell.ran) == ("awaiting_results", False)
    assert [(call.name, call.arguments, call.raw_id) for call in run.pending] == [
        ("shell", {"commands": ["ls"]}, "c_1")
    ]
    assert run.pending[0].metadata["item"] == SHELL
    assert run.contents == []
    assert run.state is not None
    stored = RunState.model_validate_json(run.state.model_dump_json())
    assert stored == run.state
    assert stored.awaiting_results == [run.pending[0].id]
    assert stored.pending == []
    assert [(result.status, result.value) for result in stored.results] == [("completed", "saw")]
    assert stored.calls[0].is_client_item
    assert stored.assistant.blocks[0].metadata["item"] == SHELL


async def test_a_call_that_awaits_its_result_has_an_event() -> None:
    shell = Shell()
    options: dict[str, Any] = {"provider": "openai_responses", "tools": shell.tools, "history": HISTORY}
    async with run_loop(lambda _: response(SHELL, LOOK), **options) as run:
        awaiting = [event.call.id async for event in run if isinstance(event, ToolAwaitingResult)]
    assert awaiting == [run.pending[0].id]


async def test_a_run_that_is_resumed_without_results_awaits_them_again() -> None:
    shell = Shell()
    options: dict[str, Any] = {"tools": shell.tools}
    run = await run_loop(lambda _: response(SHELL), provider="openai_responses", history=HISTORY, **options)
    again = await run_loop(lambda _: response(), resume=run.state, **options)
    assert (again.ended, again.pending) == ("awaiting_results", run.pending)
    assert again.state == run.state


async def test_a_tool_without_a_function_awaits_its_result_in_a_run() -> None:
    shown = Tool(name="show", description="Show a form.", parameters={"type": "object"})
    run = await run_loop(
        lambda _: answer("", ("show", {"a": 1}), ("look", {})),
        provider="openai_chat",
        tools=[shown, look],
        history=HISTORY,
    )
    assert run.ended == "awaiting_results"
    assert [(call.name, call.arguments) for call in run.pending] == [("show", {"a": 1})]


async def test_a_run_continues_with_the_results_of_the_client() -> None:
    shell, requests = Shell(), []

    def ask(context: Any) -> Any:
        requests.append(context.request["input"])
        return response(SHELL, LOOK) if len(requests) == 1 else response()

    run = await run_loop(ask, provider="openai_responses", tools=shell.tools, history=HISTORY, run_key="k")
    state = RunState.model_validate_json(run.state.model_dump_json())  # type: ignore[union-attr]
    output = [{"stdout": "a.txt", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]
    async with run_loop(
        ask, resume=state.answer(results={state.awaiting_results[0]: output}), tools=shell.tools
    ) as run:
        results = [event.result async for event in run if isinstance(event, ToolCompleted)]
    assert (run.ended, shell.ran) == ("answered", False)
    assert [result.value for result in results] == [output]
    items = [{name: value for name, value in item.items() if name != "id"} for item in requests[1] if "call_id" in item]
    assert items == [
        {name: value for name, value in SHELL.items() if name != "id"},
        {"type": "function_call", "call_id": "c_2", "name": "look", "arguments": "{}"},
        {"type": "shell_call_output", "call_id": "c_1", "output": output},
        {"type": "function_call_output", "call_id": "c_2", "output": "saw"},
    ]


async def test_a_result_may_be_a_failure_or_missing() -> None:
    form = Tool(name="show", parameters={"type": "object"})
    options: dict[str, Any] = {"tools": [form]}

    def ask(context: Any) -> Any:
        return answer("Done.") if context.round else answer("", ("show", {"a": 1}), ("show", {"a": 2}))

    run = await run_loop(ask, provider="openai_chat", history=HISTORY, **options)
    first, second = run.pending
    failed = {first.id: ToolFailed("The person closed the form.")}
    run = await run_loop(ask, resume=run.state.answer(results=failed), **options)
    assert (run.ended, run.pending) == ("awaiting_results", [second])
    run = await run_loop(ask, resume=run.state.answer(results={second.id: {"b": 3}}), **options)
    assert run.ended == "answered"
    assert [(block.status, block.result, block.error) for block in run.contents[1].blocks] == [  # type: ignore[union-attr]
        ("error", None, "The person closed the form."),
        ("completed", {"b": 3}, None),
    ]


async def test_results_are_recorded_and_may_be_given_to_a_run_from_its_entries() -> None:
    entries: list[Any] = []

    async def checkpoint(entry: Any) -> None:
        entries.append(parse_entry(entry.to_json()))

    form = Tool(name="show", parameters={"type": "object"})
    options: dict[str, Any] = {"tools": [form, look], "checkpoint": checkpoint}

    def ask(context: Any) -> Any:
        return answer("Done.") if context.round else answer("", ("show", {}), ("look", {}), ("show", {}))

    run = await run_loop(ask, provider="openai_chat", history=HISTORY, **options)
    one, other = run.pending
    run = await run_loop(ask, resume=RunState.from_entries(entries).answer(results={other.id: 2}), **options)
    assert (run.ended, run.pending) == ("awaiting_results", [one])
    state = RunState.from_entries(entries)
    assert state.open_calls == [one.id]
    run = await run_loop(ask, resume=state.answer(results={one.id: 1}), **options)
    assert run.ended == "answered"
    assert [block.result for block in run.contents[1].blocks] == [1, "saw", 2]  # type: ignore[union-attr]


async def test_results_of_other_calls_are_refused() -> None:
    form = Tool(name="show", parameters={"type": "object"})
    run = await run_loop(
        lambda _: answer("", ("show", {}), ("look", {})), provider="openai_chat", tools=[form, look], history=HISTORY
    )
    assert run.state is not None
    shown, looked = run.state.calls
    for wrong, tools, message in (
        ({"nothing": 1}, [form, look], "no call 'nothing' awaits its result"),
        ({looked.id: 1}, [form, look], "awaits its result"),
        ({shown.id: 1}, [look], "pass show in tools= without a function"),
        ([1], [form, look], "results must be a dict"),
    ):
        with pytest.raises(UsageError, match=message):
            run_loop(lambda _: answer(), resume=run.state.answer(results=wrong), tools=tools)  # type: ignore[arg-type]


async def test_calls_that_await_approval_have_precedence() -> None:
    @tool(approval="ask")
    def remove() -> str:
        return "removed"

    shown = Tool(name="show", parameters={"type": "object"})
    options: dict[str, Any] = {"provider": "openai_chat", "tools": [shown, remove], "history": HISTORY}
    run = await run_loop(lambda _: answer("", ("show", {}), ("remove", {})), **options)
    assert run.ended == "awaiting_approval"
    assert [call.name for call in run.pending] == ["show", "remove"]
    approvals = {run.pending[1].id: True}
    again = await run_loop(
        lambda _: answer("Done."), resume=run.state.answer(approvals=approvals), tools=[shown, remove]
    )
    assert (again.ended, [call.name for call in again.pending]) == ("awaiting_results", ["show"])


@pytest.mark.parametrize("execute", [execute_tool_calls_batched, execute_tool_calls_sequentially])
async def test_an_executor_gives_an_action_of_the_client_an_error(execute: Any) -> None:
    shell = Shell()
    update = await execute(closed_turn(SHELL, LOOK), tools=shell.tools)
    assert [result.status for result in update.results] == ["error", "completed"]
    assert not shell.ran
    assert "action of the client itself" in update.results[0].error
    assert [message["type"] for message in update.messages if "output" in message["type"]] == [
        "shell_call_output",
        "function_call_output",
    ]


async def test_a_tool_with_the_name_of_an_action_never_runs_alone_or_early() -> None:
    shell = Shell()
    [call] = closed_turn(SHELL).calls
    result = await execute_one_tool(call, tools=shell.tools)
    assert (result.status, shell.ran) == ("error", False)
    turn = Turn("openai_responses", turn_key="t")
    async with execute_tool_calls_batched(turn, tools=shell.tools) as execution:
        events = [event for data in response(SHELL) for event in execution.feed(turn.feed(data))]
        events += execution.feed(turn.close())
        events += [event async for event in execution]
    assert not shell.ran
    assert [type(event) for event in events if isinstance(event, (ToolRunning, ToolError))] == [ToolError]


async def test_the_last_round_gives_an_action_its_result() -> None:
    run = await run_loop(lambda _: response(SHELL), provider="openai_responses", history=HISTORY, max_rounds=1)
    assert run.ended == "max_rounds"
    assert [block.status for content in run.contents for block in content.blocks if block.type == "tool_response"] == [
        "canceled"
    ]
    assert json.loads(json.dumps(run.thread))[-1]["type"] == "shell_call_output"


async def test_a_reader_who_leaves_at_the_end_finds_every_call_with_a_result() -> None:
    run = run_loop(lambda _: response(SHELL), provider="openai_responses", history=HISTORY)
    async with run:
        async for event in run:
            if event.type == "finished":
                break
    assert run.ended == "canceled"
    assert [block.type for content in run.contents for block in content.blocks] == ["tool_call", "tool_response"]


class Broken(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("exception", "error"),
    [
        (ValueError("no such city"), "form failed with ValueError: no such city."),
        (TimeoutError(), "form failed with TimeoutError."),
        (KeyboardInterrupt(), "form failed with KeyboardInterrupt."),
        (Broken(), "form failed with Broken."),
        (ToolFailed("Ask again."), "Ask again."),
    ],
)
async def test_an_exception_as_a_result_is_the_error_of_the_call(exception: BaseException, error: str) -> None:
    paused = await run_loop(
        lambda _: answer("", ("form", {})), provider="openai_chat", tools=[FORM], history=HISTORY, run_key="r"
    )
    assert paused.state is not None
    answered = paused.state.answer(results={paused.pending[0].id: exception})
    run = await run_loop(lambda _: answer("Done."), tools=[FORM], resume=answered)
    [result] = run.results
    assert (result.status, result.error, result.exception) == ("error", error, exception)
    assert run.text == "Done."


@pytest.mark.parametrize("value", [object(), {"a": [print]}, (number for number in range(3)), ValueError])
async def test_a_result_that_cannot_be_written_is_refused_where_it_is_passed(value: Any) -> None:
    paused = await run_loop(
        lambda _: answer("", ("form", {})), provider="openai_chat", tools=[FORM], history=HISTORY, run_key="r"
    )
    assert paused.state is not None
    with pytest.raises(
        UsageError, match=f"the result of {paused.pending[0].id} cannot be written as JSON: form returned"
    ):
        paused.state.answer(results={paused.pending[0].id: value})
