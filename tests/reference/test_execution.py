"""Known errors of the reference system with tools, one test each, named after the right behaviour.

The system is multi-llm-ts as of July 2026; a test's docstring describes the consequence there. Streams, ids and bodies
that are not streamed are in ``test_streams``.

Left out, since they are right there or a matter of taste: which of two tools of one name takes precedence (here a
``UsageError``), that an approver may end the run (here the owner of the run leaves it), the cooldown between requests,
the notification ``done`` at the end of a round, that Responses continues by ``previous_response_id``.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from execution.chat_chunks import answer, closed_turn
from execution.fake_model import FakeModel, calls_with_status
from execution.provider_streams import (
    BOTH,
    CHAT,
    HISTORY,
    Tools,
    call_delta,
    collect_events,
    complete_response,
    execute_chunks,
    function_call_item,
    gemini_call,
    loop,
    ollama_chunk,
    responses_stream,
    result_events,
    result_values,
    tool_use_block,
)
from waiting import PATIENCE
from wire_streams import Chunk, block, chat, gemini, message_end, message_start

from streamkit import (
    Approval,
    ToolCall,
    execute_one_tool,
    execute_tool_calls_batched,
    execute_tool_calls_sequentially,
    run_loop,
    tool,
)
from streamkit.errors import UsageError
from streamkit.events import Event, RoundStarted, ToolDenied, ToolEvent, ToolRunning
from streamkit.history import ImageBlock
from streamkit.testing import validate_request

PIXEL = "iVBORw0KGgo="


# ---------------------------------------------------------------- what goes wrong with a call


@pytest.mark.anyio
@BOTH
async def test_invalid_arguments_are_that_calls_own_result_and_the_others_run(execute: Any) -> None:
    """There the call raised, with no event, out of everything."""
    tools = Tools()
    execution = execute(closed_turn("", ("f", '{"x":1}{"x":2}oops'), ("f", "{x}"), ("g", {"x": 2})), tools=list(tools))
    events = await collect_events(execution)
    assert [status for _, status, _ in result_values(execution.update)][1:] == ["error", "completed"]
    assert sorted(result_events(events))[-1] == ("g", "tool_completed")
    assert len(result_events(events)) == 3
    assert ("g", 2) in tools.ran
    assert "Not run: the call is not valid" in (execution.update.results[1].error or "")


@pytest.mark.anyio
async def test_the_conversation_continues_after_invalid_arguments() -> None:
    model = FakeModel(answer("", ("f", "{x}")), answer("Sorry."))
    run = loop(model, *Tools())
    events = await collect_events(run)
    assert result_events(events) == [("f", "tool_error")]
    assert "Not run: the call is not valid" in model.requests[1]["messages"][-1]["content"]
    assert (run.ended, run.text) == ("answered", "Sorry.")


@pytest.mark.anyio
async def test_execute_one_tool_returns_and_reports_a_result_for_invalid_arguments() -> None:
    reported: list[ToolEvent] = []
    tools = Tools()
    [call] = closed_turn("", ("f", "{x}")).calls
    result = await execute_one_tool(call, tools=list(tools), report=reported.append)  # type: ignore[arg-type]
    assert (result.status, tools.ran) == ("error", [])
    assert [event.type for event in reported] == ["tool_error"]


@pytest.mark.anyio
async def test_an_unknown_tool_is_an_error_without_a_request_for_approval() -> None:
    """There its state was ``completed``, and approval was requested first."""
    asked: list[str] = []

    async def approve(call: ToolCall, deps: Any) -> bool:
        asked.append(call.name)
        return True

    execution = execute_tool_calls_batched(closed_turn("", ("nope", {})), tools=list(Tools()), approve=approve)
    events = await collect_events(execution)
    assert asked == []
    assert result_events(events) == [("nope", "tool_error")]
    assert "There are: " in (execution.update.results[0].error or "")


@pytest.mark.anyio
async def test_a_tool_that_a_hook_removed_does_not_run_and_one_that_it_added_does() -> None:
    """There a tool that was switched off ran when it was called all the same."""
    ran: list[str] = []

    def old() -> None:
        ran.append("old")

    @tool
    def new() -> None:
        ran.append("new")

    model = FakeModel(answer("", ("old", {})), answer("", ("old", {}), ("new", {})), answer("Done."))
    run = await loop(model, old, before_follow_up=lambda context: replace(context, tools=[new]))
    assert [[each["function"]["name"] for each in request["tools"]] for request in model.requests] == [
        ["old"],
        ["new"],
        ["new"],
    ]
    assert ran == ["old", "new"]
    assert calls_with_status(run.contents) == [("old", "completed"), ("old", "error"), ("new", "completed")]
    assert (
        run.contents[3].blocks[0].error == "Not run: there is no tool 'old'. There are: new. Call one of these instead."
    )


@pytest.mark.anyio
@BOTH
async def test_a_failing_tool_does_not_end_the_round_and_all_results_are_in_the_messages(execute: Any) -> None:
    """There the exception propagated, the model got no result, and batched wrote no messages."""

    async def fail(x: int) -> None:
        raise RuntimeError("disk full")

    first, *_ = Tools()
    calls = [("f", {"x": 1}), ("fail", {"x": 2}), ("f", {"x": 3})]
    execution = execute(closed_turn("", *calls), tools=[first, fail])
    events = await collect_events(execution)
    assert result_values(execution.update) == [("f", "completed", 1), ("fail", "error", None), ("f", "completed", 3)]
    assert sorted(result_events(events)) == [("f", "tool_completed"), ("f", "tool_completed"), ("fail", "tool_error")]
    contents_sent = [message["content"] for message in execution.update.messages if message["role"] == "tool"]
    assert contents_sent == ["1", "fail failed with RuntimeError: disk full.", "3"]


@pytest.mark.anyio
async def test_a_failing_tool_of_responses_has_its_event_and_the_others_have_results() -> None:
    """There the first failure was raised without an event."""

    async def fail() -> None:
        raise RuntimeError("disk full")

    first, *_ = Tools()
    model = FakeModel(
        responses_stream(function_call_item(1, "fail", "{}"), function_call_item(2, "f", '{"x":2}')), responses_stream()
    )
    run = loop(model, fail, first, provider="openai_responses")
    events = await collect_events(run)
    assert sorted(result_events(events)) == [("f", "tool_completed"), ("fail", "tool_error")]
    outputs = [each["output"] for each in model.requests[1]["input"] if "output" in each]
    assert outputs == ["fail failed with RuntimeError: disk full.", "2"]
    assert run.ended == "answered"


@pytest.mark.anyio
@BOTH
@pytest.mark.parametrize("value", [0, "", False, None, [], {}])
async def test_a_falsy_result_is_the_result(execute: Any, value: Any) -> None:
    """There it became ``No result from tool``, in the state ``completed``; none at all raised."""

    async def give() -> Any:
        return value

    update = await execute(closed_turn("", ("give", {})), tools=[give])
    assert [(result.status, result.value) for result in update.results] == [("completed", value)]
    assert type(update.results[0].value) is type(value)
    assert "No result" not in json.dumps(update.messages)


@pytest.mark.anyio
async def test_an_error_that_mentions_cancellation_is_an_error() -> None:
    """There a tool that raised ``Operation cancelled`` was ``canceled`` without a cancellation."""

    async def work() -> None:
        raise RuntimeError("Operation cancelled")

    run = loop(FakeModel(answer("", ("work", {})), answer("Done.")), work)
    events = await collect_events(run)
    assert result_events(events) == [("work", "tool_error")]
    assert run.ended == "answered"


@pytest.mark.anyio
async def test_batched_calls_wait_for_each_other_concurrently() -> None:
    """There "batched" was a format of the thread only."""
    met = anyio.Event()
    waiting = 0

    async def meet() -> str:
        nonlocal waiting
        waiting += 1
        if waiting == 2:
            met.set()
        with anyio.fail_after(PATIENCE):
            await met.wait()
        return "met"

    update = await execute_tool_calls_batched(closed_turn("", ("meet", {}), ("meet", {})), tools=[meet])
    assert result_values(update) == [("meet", "completed", "met"), ("meet", "completed", "met")]


# ---------------------------------------------------------------- denied


DENYING: dict[str, tuple[str, list[Any], list[Any]]] = {
    "chat": ("openai_chat", complete_response(("a", "danger", "{}"), ("b", "f", '{"x":2}')), answer("Done.")),
    "responses": (
        "openai_responses",
        responses_stream(function_call_item(1, "danger", "{}"), function_call_item(2, "f", '{"x":2}')),
        responses_stream(),
    ),
    "not streamed": (
        "openai_chat",
        [
            {
                "id": "c",
                "object": "chat.completion",
                "model": "m",
                "choices": [
                    {
                        "index": 0,
                        "message": {
                            "role": "assistant",
                            "content": None,
                            "tool_calls": [
                                call_delta("{}", index=None, id="a", name="danger"),
                                call_delta('{"x":2}', index=None, id="b", name="f"),
                            ],
                        },
                        "finish_reason": "tool_calls",
                    }
                ],
            }
        ],
        answer("Done."),
    ),
}


@pytest.mark.anyio
@pytest.mark.parametrize("how", DENYING)
async def test_a_denied_call_is_a_result_in_every_executor_and_the_others_run(how: str) -> None:
    """There a denial ended the run on Responses, and raised where the answer was not streamed."""
    provider, asks, answers = DENYING[how]
    tools = Tools()

    @tool(approval="ask")
    async def danger() -> None:
        tools.ran.append(("danger", 0))

    async def approve(call: ToolCall, deps: Any) -> Approval:
        return Approval(False)

    model = FakeModel(asks, answers)
    run = loop(model, danger, *tools, provider=provider, approve=approve)
    events = await collect_events(run)
    assert tools.ran == [("f", 2)]
    assert calls_with_status(run.contents) == [("danger", "denied"), ("f", "completed")]
    [denied] = [event for event in events if isinstance(event, ToolDenied)]
    assert denied.result.error == "Not run: danger was not approved. Do not try it again unasked."
    assert (run.ended, len(model.asked)) == ("answered", 2)


@pytest.mark.anyio
@pytest.mark.parametrize("answered", ["allow", 1, {"allow": True}, "deny", 0, object()])
async def test_a_decision_that_is_neither_a_bool_nor_an_approval_is_an_error(answered: Any) -> None:
    """There whatever was not the word ``deny`` ended as ``completed``, with the error of a denial."""
    tools = Tools()
    danger = [tool(each, approval="ask") for each in tools]

    async def approve(call: ToolCall, deps: Any) -> Any:
        return answered

    with pytest.raises(UsageError, match="approve must return"):
        await execute_tool_calls_batched(closed_turn("", ("f", {"x": 1})), tools=danger, approve=approve)
    assert tools.ran == []


# ---------------------------------------------------------------- left


async def leave_at_once(execution: Any) -> None:
    async with execution:
        pass


async def cancel_while_watched(execution: Any) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await collect_events(execution)


async def cancel_while_awaited(execution: Any) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await execution


@pytest.mark.anyio
@BOTH
@pytest.mark.parametrize("leave", [leave_at_once, cancel_while_watched, cancel_while_awaited])
async def test_leaving_before_the_calls_start_gives_each_a_result_and_starts_none(execute: Any, leave: Any) -> None:
    """There the call ended, no messages were written, and the later calls stayed ``preparing`` for ever."""
    tools = Tools()

    def sync() -> None:
        tools.ran.append(("sync", 0))

    calls = [("f", {"x": 1}), ("sync", {}), ("f", {"x": 3})]
    execution = execute(closed_turn("", *calls), tools=[*tools, sync])
    await leave(execution)
    assert tools.ran == []
    assert result_values(execution.update) == [(name, "canceled", None) for name in ("f", "sync", "f")]
    assert [result.error for result in execution.update.results] == ["Not run: canceled before it began."] * 3
    assert len([message for message in execution.update.messages if message["role"] == "tool"]) == 3


@pytest.mark.anyio
async def test_execute_one_tool_does_not_start_for_a_caller_who_is_already_canceled() -> None:
    reported: list[Any] = []
    tools = Tools()
    [call] = closed_turn("", ("f", {"x": 1})).calls
    with anyio.CancelScope() as scope:
        scope.cancel()
        await execute_one_tool(call, tools=list(tools), report=reported.append)
    assert scope.cancelled_caught
    assert tools.ran == []
    assert [event.type for event in reported] == ["tool_canceled"]


@pytest.mark.anyio
@BOTH
async def test_leaving_while_a_call_runs_gives_it_and_the_later_ones_a_result(execute: Any) -> None:
    """There the running one was ``canceled``, and the later ones had no further notification."""
    left: list[Event] = []

    async def hang() -> None:
        await anyio.sleep_forever()

    calls = [("hang", {}), ("hang", {}), ("f", {"x": 1}), ("nope", {})]
    execution = execute(closed_turn("", *calls), tools=[hang, *Tools()], limit=1)
    async with execution:
        async for event in execution:
            left.append(event)
            if isinstance(event, ToolRunning):
                break
        await execution.aclose()
        left += [event async for event in execution]
    assert sorted(result_events(left)) == [
        ("f", "tool_canceled"),
        ("hang", "tool_canceled"),
        ("hang", "tool_canceled"),
        ("nope", "tool_error"),
    ]
    assert [status for _, status, _ in result_values(execution.update)] == ["canceled", "canceled", "canceled", "error"]


@pytest.mark.anyio
@BOTH
async def test_the_value_that_a_canceled_tool_returns_is_its_result(execute: Any) -> None:
    """There it was discarded, although the tool had its effects."""

    async def book() -> str:  # type: ignore[return]
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            return "booked"

    execution = execute(closed_turn("", ("book", {})), tools=[book])
    async with execution:
        async for event in execution:
            if isinstance(event, ToolRunning):
                await anyio.lowlevel.checkpoint()
                break
    assert result_values(execution.update) == [("book", "completed", "booked")]


@pytest.mark.anyio
async def test_leaving_closes_the_stream_at_once_and_nothing_more_of_it_is_read() -> None:
    """There an abort did not close it, and its chunks went on being read."""
    model = FakeModel([*(chat({"content": f"{n} "}) for n in range(50)), chat(None, "stop")])
    async with loop(model) as run:
        async for event in run:
            if event.type == "text":
                break
        read = model.streams[0].read
    assert model.streams[0].closed
    assert model.streams[0].read == read < 50
    assert run.ended == "canceled"


# ---------------------------------------------------------------- rounds


FORCED = {
    "openai_chat": (complete_response(("a", "f", "{}")), answer("Done."), "tool_choice", "required"),
    "anthropic": (
        [message_start(), *tool_use_block(0, "f"), *message_end("tool_use")],
        [message_start(), *block(0, {"type": "text", "text": "Done."}), *message_end()],
        "tool_choice",
        {"type": "any"},
    ),
    "gemini": (
        [gemini(gemini_call("f"), finish="STOP")],
        [gemini({"text": "Done."}, finish="STOP")],
        "toolConfig",
        {"functionCallingConfig": {"mode": "ANY"}},
    ),
    "mistral": (complete_response(("aaaaaaaaa", "f", "{}")), answer("Done."), "tool_choice", "any"),
    "openai_responses": (
        responses_stream(function_call_item(1, "f", "{}")),
        responses_stream(),
        "tool_choice",
        "required",
    ),
}


@pytest.mark.anyio
@pytest.mark.parametrize("provider", FORCED)
async def test_required_applies_to_the_first_round_only_on_every_wire(provider: str) -> None:
    """There ``required`` was kept, for ever; on Responses a tool's name as well."""
    first, last, field, required = FORCED[provider]
    model = FakeModel(first, last)
    run = await loop(model, *Tools(), provider=provider, tool_choice="required")
    assert [request.get(field) for request in model.requests] == [required, None]
    model = FakeModel(first, last)
    await loop(model, *Tools(), provider=provider, tool_choice="f")
    assert [field in request for request in model.requests] == [True, False]
    assert run.ended == "answered"


@pytest.mark.anyio
async def test_a_model_that_always_calls_tools_is_stopped_by_the_default_max_rounds() -> None:
    """There nothing stopped it."""
    tools = Tools()
    model = FakeModel(answer("", ("f", {"x": 1})))
    run = await run_loop(model, provider="openai_chat", tools=list(tools), history=HISTORY)
    assert (run.ended, run.rounds, len(model.asked), len(tools.ran)) == ("max_rounds", 8, 8, 7)
    assert model.requests[-1]["tool_choice"] == "none"


@pytest.mark.anyio
@pytest.mark.parametrize("provider", FORCED)
async def test_rounds_are_counted_the_same_on_every_wire(provider: str) -> None:
    """There Ollama's and Responses' were counted by code of their own, from another number."""
    first, last, *_ = FORCED[provider]
    events = await collect_events(loop(FakeModel(first, first, last), *Tools(), provider=provider))
    assert [event.round for event in events if isinstance(event, RoundStarted)] == [0, 1, 2]


@pytest.mark.anyio
async def test_rounds_of_ollama_are_counted_the_same() -> None:
    calls = [ollama_chunk(("f", {"x": 1})), ollama_chunk(done=True)]
    events = await collect_events(
        loop(FakeModel(calls, [ollama_chunk(text="Done.", done=True)]), *Tools(), provider="ollama")
    )
    assert [event.round for event in events if isinstance(event, RoundStarted)] == [0, 1]


# ---------------------------------------------------------------- the messages


@pytest.mark.anyio
@CHAT
async def test_text_is_only_in_the_first_assistant_message(provider: str) -> None:
    """There every message of a call repeated it."""
    chunks = complete_response(("call_aaaa", "f", "{}"), ("call_bbbb", "g", "{}"), text="Let me look.")
    _, _, update = await execute_chunks(provider, chunks, execute=execute_tool_calls_sequentially)
    assert [message["role"] for message in update.messages] == ["assistant", "tool", "assistant", "tool"]
    assert [message["content"] or "" for message in update.messages[::2]] == ["Let me look.", ""]


@pytest.mark.anyio
async def test_each_round_has_only_its_own_reasoning() -> None:
    """There the reasoning of all earlier rounds preceded it."""

    def thought(text: str, *calls: tuple[str, str, Any]) -> list[Chunk]:
        return [chat({"reasoning_content": text}), *complete_response(*calls)]

    model = FakeModel(thought("First.", ("a", "f", "{}")), thought("Second.", ("b", "g", "{}")), answer("Done."))
    run = await loop(model, *Tools(), provider="deepseek")
    reported = [message for message in model.requests[2]["messages"] if message["role"] == "assistant"]
    assert [message["reasoning_content"] for message in reported] == ["First.", "Second."]
    assert run.text == "Done."


@pytest.mark.anyio
async def test_blocks_of_thinking_keep_their_own_signatures_and_redacted_ones_their_data() -> None:
    """There they were one block with the last signature, which Anthropic refuses, and redacted ones were dropped."""

    def thinking(index: int, text: str, signature: str) -> list[Chunk]:
        start = {"type": "thinking", "thinking": "", "signature": ""}
        parts = [{"type": "thinking_delta", "thinking": text}, {"type": "signature_delta", "signature": signature}]
        return block(index, start, *parts)

    chunks = [
        message_start(),
        *thinking(0, "One.", "c2lnMQ=="),
        *block(1, {"type": "redacted_thinking", "data": "Y2lwaGVy"}),
        *thinking(2, "Two.", "c2lnMg=="),
        *tool_use_block(3, "f", '{"x":1}'),
        *message_end("tool_use"),
    ]
    _, _, update = await execute_chunks("anthropic", chunks)
    assert update.messages[0]["content"][:3] == [
        {"type": "thinking", "thinking": "One.", "signature": "c2lnMQ=="},
        {"type": "redacted_thinking", "data": "Y2lwaGVy"},
        {"type": "thinking", "thinking": "Two.", "signature": "c2lnMg=="},
    ]


async def screenshot() -> list[Any]:
    return ["a shot", ImageBlock(data=f"data:image/png;base64,{PIXEL}")]


@pytest.mark.anyio
async def test_the_images_of_a_computer_tool_stay_images() -> None:
    """There the update of the thread replaced them by JSON text; in the rounds that follow they stay, too."""
    shot = [message_start(), *tool_use_block(0, "screenshot"), *message_end("tool_use")]
    model = FakeModel(
        shot, [message_start(), *tool_use_block(0, "f"), *message_end("tool_use")], FORCED["anthropic"][1]
    )
    await loop(model, screenshot, *Tools(), provider="anthropic")
    for request in model.requests[1:]:
        [result] = request["messages"][2]["content"]
        assert result["type"] == "tool_result"
        assert result["content"] == [
            {"type": "text", "text": "a shot"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
        ]


OLDER: dict[str, list[dict[str, Any]]] = {
    "gemini": [
        {"role": "user", "parts": [{"text": "Go."}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"x": 9}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"result": "older"}}}]},
        {"role": "model", "parts": [{"text": "Older."}]},
        {"role": "user", "parts": [{"text": "Again."}]},
    ],
    "ollama": [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 9}}}]},
        {"role": "tool", "content": "older", "tool_name": "f"},
        {"role": "assistant", "content": "Older."},
        {"role": "user", "content": "Again."},
    ],
}
NEWER = {
    "gemini": ([gemini(gemini_call("f", x=1), finish="STOP")], [gemini({"text": "Done."}, finish="STOP")]),
    "ollama": ([ollama_chunk(("f", {"x": 1})), ollama_chunk(done=True)], [ollama_chunk(text="Done.", done=True)]),
}


@pytest.mark.anyio
@pytest.mark.parametrize("provider", OLDER)
async def test_results_of_earlier_rounds_stay_as_they_were(provider: str) -> None:
    """There results were matched by position from the start of the thread, and so written over the earlier ones."""
    older = OLDER[provider]
    before = json.loads(json.dumps(older))
    model = FakeModel(*NEWER[provider])
    run = await loop(model, *Tools(), provider=provider, thread=older)
    assert run.thread[:5] == before == older
    newer = json.dumps(run.thread[5:])
    assert '"older"' not in newer
    assert validate_request(provider, model.requests[1]) == []
