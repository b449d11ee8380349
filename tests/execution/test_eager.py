"""Calls of eager tools start before the turn ends; their results count only when it is confirmed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from streamkit import (
    Content,
    StreamInterrupted,
    ToolContext,
    Turn,
    UsageError,
    execute_tool_calls_batched,
    execute_tool_calls_sequentially,
    read,
    run_loop,
    tool,
)
from streamkit.events import (
    Event,
    Failed,
    Finished,
    ToolCallEnd,
    ToolCanceled,
    ToolCompleted,
    ToolEvent,
    ToolProgress,
    ToolRunning,
)

pytestmark = pytest.mark.anyio

HISTORY = [Content.human("Look.")]


def begin(*calls: tuple[str, Any]) -> list[dict[str, Any]]:
    """Return a response of Anthropic's wire up to its last complete call."""
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": {}}
    chunks: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    for index, (name, arguments) in enumerate(calls):
        chunks += block(index, name, arguments)
    return chunks


def block(index: int, name: str, arguments: Any) -> list[dict[str, Any]]:
    delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
    return [
        {
            "type": "content_block_start",
            "index": index,
            "content_block": {"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": {}},
        },
        {"type": "content_block_delta", "index": index, "delta": delta},
        {"type": "content_block_stop", "index": index},
    ]


def end(reason: str = "tool_use") -> list[dict[str, Any]]:
    return [{"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {}}, {"type": "message_stop"}]


ANSWER = [
    *begin(),
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Done."}},
    {"type": "content_block_stop", "index": 0},
    *end("end_turn"),
]


class Tools:
    """A safe tool that waits to be let on, and another that is not safe."""

    def __init__(self) -> None:
        self.running = 0
        self.began: list[str] = []
        self.begun = anyio.Event()
        self.go_on = anyio.Event()

    def __iter__(self) -> Any:
        @tool(eager=True)
        async def look(at: str) -> str:
            self.began.append(f"look {at}")
            self.begun.set()
            self.running += 1
            try:
                await self.go_on.wait()
            finally:
                self.running -= 1
            return f"saw {at}"

        async def move(what: str) -> str:
            self.began.append(f"move {what}")
            return f"moved {what}"

        return iter([look, move])


def statuses(contents: list[Content]) -> list[tuple[str | None, dict[str, Any]]]:
    asked = [block.id for content in contents for block in content.blocks if block.type == "tool_call"]
    received = [block for content in contents for block in content.blocks if block.type == "tool_response"]
    assert [block.call_id for block in received] == asked  # type: ignore[union-attr]
    origins = [{"provider", "model", "raw_id"} <= block.metadata.keys() for block in received]
    assert all(origins), "for a request with the results alone"
    effects = [
        {name: value for name, value in block.metadata.items() if name == "effects_possible"} for block in received
    ]
    return [(block.status, effect) for block, effect in zip(received, effects, strict=True)]  # type: ignore[union-attr]


async def test_an_eager_tool_starts_while_the_stream_continues_and_results_keep_call_order() -> None:
    tools = Tools()
    order: list[str] = []

    async def stream() -> AsyncIterator[dict[str, Any]]:
        for chunk in begin(("move", {"what": "chair"}), ("look", {"at": "sea"})):
            yield chunk
        await tools.begun.wait()  # it began, though the turn is not over
        order.append("the stream goes on")
        tools.go_on.set()
        for chunk in end():
            yield chunk

    answers = iter([stream(), ANSWER])
    events: list[Event] = []
    async with run_loop(
        lambda context: next(answers), provider="anthropic", tools=list(tools), history=HISTORY, run_key="k"
    ) as run:
        events += [event async for event in run]
    assert run.ended == "answered"
    assert order == ["the stream goes on"]
    assert tools.began == ["look sea", "move chair"]
    results = [block.result for block in run.contents[1].blocks]  # type: ignore[union-attr]
    assert results == ["moved chair", "saw sea"]
    kinds = [(event.type, event.call.name) for event in events if isinstance(event, (ToolRunning, ToolCompleted))]
    assert kinds.index(("tool_running", "look")) < kinds.index(("tool_running", "move"))
    assert sorted(kinds) == sorted(
        (kind, name) for kind in ("tool_running", "tool_completed") for name in ("look", "move")
    )


async def test_the_result_event_of_an_early_call_is_sent_when_the_turn_is_confirmed() -> None:
    tools = Tools()
    tools.go_on.set()

    async def stream() -> AsyncIterator[dict[str, Any]]:
        for chunk in begin(("look", {"at": "sea"})):
            yield chunk
        await tools.begun.wait()
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        assert tools.running == 0  # it is done
        for chunk in [*block(1, "move", {"what": "chair"}), *end()]:
            yield chunk

    answers = iter([stream(), ANSWER])
    async with run_loop(lambda context: next(answers), provider="anthropic", tools=list(tools), history=HISTORY) as run:
        wanted = (ToolRunning, ToolCompleted, ToolCallEnd, Finished)
        seen = [event.type async for event in run if isinstance(event, wanted)]
    assert seen[:4] == ["tool_call_end", "tool_running", "tool_call_end", "finished"]
    assert seen.count("tool_completed") == 2


@pytest.mark.parametrize("done", [True, False])
async def test_a_failed_stream_cancels_running_early_calls_and_discards_finished_ones(done: bool) -> None:
    tools = Tools()
    if done:
        tools.go_on.set()

    async def stream() -> AsyncIterator[dict[str, Any]]:
        for chunk in begin(("look", {"at": "sea"}), ("move", {"what": "chair"})):
            yield chunk
        await tools.begun.wait()
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        raise ConnectionResetError("gone")

    events: list[Event] = []
    run = run_loop(lambda context: stream(), provider="anthropic", tools=list(tools), history=HISTORY)
    with pytest.raises(StreamInterrupted) as caught:  # noqa: PT012 - what is watched raises
        async with run:
            async for event in run:
                events += [event]
    assert run.ended == "error"
    assert statuses(run.contents) == [("canceled", {"effects_possible": True}), ("canceled", {})]
    assert [content.metadata.get("interrupted") for content in run.contents] == [True, None]
    assert [(result.call.name, result.metadata) for result in caught.value.results] == [
        ("look", {"effects_possible": True})
    ]
    [warning] = [warning for warning in run.warnings if warning.code == "effects_possible"]
    assert warning.call_id == caught.value.results[0].call.id
    assert tools.running == 0
    assert tools.began == ["look sea"]
    assert [event.error.kind for event in events if isinstance(event, Failed)] == ["transport_error"]
    endings = [event for event in events if isinstance(event, (ToolCompleted, ToolCanceled))]
    assert [(event.type, event.call.name) for event in endings] == [
        ("tool_canceled", "look"),
        ("tool_canceled", "move"),
    ]
    assert endings[0].result.metadata == {"effects_possible": True}


@pytest.mark.parametrize("reason", ["refusal", "pause_turn"])
async def test_a_turn_without_executable_calls_cancels_early_runs(reason: str) -> None:
    tools = Tools()
    tools.go_on.set()

    async def stream() -> AsyncIterator[dict[str, Any]]:
        for chunk in begin(("look", {"at": "sea"}), ("move", {"what": "chair"})):
            yield chunk
        await tools.begun.wait()
        for chunk in end(reason):
            yield chunk

    answers = iter([stream(), ANSWER])
    run = await run_loop(lambda context: next(answers), provider="anthropic", tools=list(tools), history=HISTORY)
    assert run.ended == ("refusal" if reason == "refusal" else "answered")
    assert statuses(run.contents) == [("canceled", {"effects_possible": True}), ("canceled", {})]
    assert tools.began == ["look sea"]


async def test_a_truncated_response_keeps_its_complete_calls() -> None:
    tools = Tools()
    tools.go_on.set()
    cut = [*begin(("look", {"at": "sea"})), *block(1, "look", {"at": "sky"})[:1], *end("max_tokens")]
    answers = iter([cut, ANSWER])
    run = await run_loop(lambda context: next(answers), provider="anthropic", tools=list(tools), history=HISTORY)
    assert statuses(run.contents) == [("completed", {}), ("error", {})]


async def test_leaving_while_an_early_call_runs_cancels_it_and_closes_the_stream() -> None:
    tools = Tools()
    closed: list[bool] = []

    async def stream() -> AsyncIterator[dict[str, Any]]:
        try:
            for chunk in [*begin(("look", {"at": "sea"})), *block(1, "move", {"what": "chair"})]:
                yield chunk
        finally:
            closed.append(True)

    async with run_loop(lambda context: stream(), provider="anthropic", tools=list(tools), history=HISTORY) as run:
        async for event in run:
            if isinstance(event, ToolRunning):
                break
        await tools.begun.wait()
    assert (run.ended, tools.running, closed) == ("canceled", 0, [True])


async def test_calls_that_may_not_start_eagerly_wait() -> None:
    began: list[str] = []
    over = False

    @tool(eager=True, approval="ask")
    async def asked() -> None:
        began.append(f"asked {over}")

    @tool
    async def unsafe() -> None:
        began.append(f"unsafe {over}")

    async def stream() -> AsyncIterator[dict[str, Any]]:
        nonlocal over
        for chunk in begin(("asked", {}), ("unsafe", {}), ("unsafe", {})):
            yield chunk
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        over = True
        for chunk in end():
            yield chunk

    @tool(eager=True)
    async def also() -> None:
        """Exist as an eager tool, so that the run has an execution for the open turn."""

    answers = iter([stream(), ANSWER])
    await run_loop(
        lambda context: next(answers),
        provider="anthropic",
        tools=[asked, unsafe, also],
        history=HISTORY,
        approve=lambda call, deps: True,
    )
    assert sorted(began) == ["asked True", "unsafe True", "unsafe True"]


async def test_an_eager_call_waits_for_an_earlier_exclusive_call() -> None:
    began: list[str] = []

    @tool(exclusive=True)
    async def write() -> None:
        began.append("write")

    @tool(eager=True)
    async def look() -> None:
        began.append("look")

    async def stream() -> AsyncIterator[dict[str, Any]]:
        for chunk in begin(("write", {}), ("look", {}), ("look", {})):
            yield chunk
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        began.append("the turn is over")
        for chunk in end():
            yield chunk

    answers = iter([stream(), ANSWER])
    await run_loop(lambda context: next(answers), provider="anthropic", tools=[write, look], history=HISTORY)
    assert began == ["the turn is over", "write", "look", "look"]


async def test_the_limit_applies_to_early_and_late_calls_together() -> None:
    most = running = 0

    @tool(eager=True)
    async def look() -> None:
        nonlocal most, running
        running += 1
        most = max(most, running)
        await anyio.sleep(0.001)
        running -= 1

    @tool
    async def move() -> None:
        await look.function()  # type: ignore[misc]

    chunks = [*begin(*[("look", {}), ("move", {})] * 20), *end()]
    answers = iter([chunks, ANSWER])
    run = await run_loop(
        lambda context: next(answers), provider="anthropic", tools=[look, move], history=HISTORY, limit=3
    )
    assert most == 3
    assert statuses(run.contents) == [("completed", {})] * 40


async def test_openai_starts_a_call_when_the_next_one_began_and_other_wires_do_not() -> None:
    def chunk(index: int, arguments: str) -> dict[str, Any]:
        function = {"name": "look", "arguments": arguments}
        delta = {"tool_calls": [{"index": index, "id": f"call_{index}", "type": "function", "function": function}]}
        return {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [{"index": 0, "delta": delta}]}

    async def began_early(provider: str) -> list[str]:
        began: list[str] = []

        @tool(eager=True)
        async def look(n: int) -> None:
            began.append(str(n))

        async def stream() -> AsyncIterator[dict[str, Any]]:
            yield chunk(0, '{"n":0}')
            yield chunk(1, '{"n":1}')
            for _ in range(10):
                await anyio.lowlevel.checkpoint()
            began.append("over")
            yield {"id": "c", "object": "chat.completion.chunk", "model": "m",
                   "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}  # fmt: skip

        turn = Turn(provider, turn_key="t")
        async with execute_tool_calls_batched(turn, tools=[look]) as execution:
            async for event in read(turn, stream()):
                execution.feed([event])
            async for _ in execution:
                pass
        assert [result.status for result in execution.update.results] == ["completed"] * 2
        return began

    assert await began_early("openai_chat") == ["0", "over", "1"]
    assert await began_early("azure_openai") == ["0", "over", "1"]
    assert await began_early("kimi") == ["over", "0", "1"]
    assert await began_early("openai_compatible") == ["over", "0", "1"]


async def test_a_custom_loop_passes_the_events_to_feed() -> None:
    tools = Tools()
    tools.go_on.set()
    turn = Turn("anthropic", turn_key="t")
    received: list[Event] = []
    async with execute_tool_calls_batched(turn, tools=list(tools)) as execution:
        for chunk in [*begin(("look", {"at": "sea"})), *block(1, "look", {"at": "sky"})]:
            received += execution.feed(turn.feed(chunk))
            await anyio.lowlevel.checkpoint()
        await tools.begun.wait()
        for chunk in end():
            turn.feed(chunk)
        received += execution.feed(turn.close())
        received += [event async for event in execution]
    assert [result.value for result in execution.update.results] == ["saw sea", "saw sky"]
    events = [event for event in received if isinstance(event, (ToolRunning, ToolCompleted))]
    assert len(events) == 4


async def test_progress_of_an_early_call_is_reported_at_once() -> None:
    reported = anyio.Event()

    @tool(eager=True)
    async def look(context: ToolContext) -> str:
        context.progress("half")
        reported.set()
        return "done"

    async def stream() -> AsyncIterator[dict[str, Any]]:
        for chunk in begin(("look", {}), ("look", {})):
            yield chunk
        await reported.wait()
        for chunk in end():
            yield chunk

    answers = iter([stream(), ANSWER])
    async with run_loop(lambda context: next(answers), provider="anthropic", tools=[look], history=HISTORY) as run:
        kinds = [event.type async for event in run]
    assert kinds.index("tool_progress") < kinds.index("tool_completed")
    assert kinds.count("tool_progress") == 2


async def test_an_execution_of_an_open_turn_can_be_neither_awaited_nor_iterated() -> None:
    turn = Turn("anthropic", turn_key="t")
    with pytest.raises(UsageError, match="turn is open"):
        await execute_tool_calls_batched(turn, tools=[])
    with pytest.raises(UsageError, match="turn is open"):
        execute_tool_calls_batched(turn, tools=[]).close_without_running()
    with pytest.raises(UsageError, match="inside the block"):
        execute_tool_calls_batched(turn, tools=[]).feed([])
    async with execute_tool_calls_batched(turn, tools=[]) as execution:
        with pytest.raises(UsageError, match="turn is open"):
            await anext(execution)
    with pytest.raises(UsageError, match="not ended"):
        _ = execution.update


async def test_canceled_at_every_step_with_early_calls() -> None:
    """Cancel the reader after 0, 1, 2, ... passes of the event loop: legal contents, nothing left running."""
    seen: set[str | None] = set()
    for step in range(400):
        tools = Tools()
        tools.go_on.set()
        finished = False

        async def stream() -> AsyncIterator[dict[str, Any]]:
            for chunk in [
                *begin(("look", {"at": "sea"}), ("move", {"what": "chair"}), ("look", {"at": "sky"})),
                *end(),
            ]:
                await anyio.lowlevel.checkpoint()
                yield chunk

        answers = iter([stream(), ANSWER])
        run = run_loop(lambda context, answers=answers: next(answers), provider="anthropic", tools=list(tools),  # type: ignore[misc]
                       history=HISTORY)  # fmt: skip

        async def caller(run: Any = run) -> None:
            nonlocal finished
            async with run:
                async for _ in run:
                    await anyio.lowlevel.checkpoint()
            finished = True

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(caller)
            for _ in range(step + 1):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        assert tools.running == 0
        seen |= {status for status, _ in statuses(run.contents)}
        if finished:
            break
    assert finished
    assert seen == {"completed", "canceled", "error"}  # the last: of a call that was left in its arguments


async def test_sequential_early_calls_start_in_turn() -> None:
    tools = Tools()
    tools.go_on.set()
    turn = Turn("anthropic", turn_key="t")
    async with execute_tool_calls_sequentially(turn, tools=list(tools)) as execution:
        for chunk in [*begin(("move", {"what": "chair"}), ("look", {"at": "sea"})), *block(2, "look", {"at": "sky"})]:
            execution.feed(turn.feed(chunk))
            await anyio.lowlevel.checkpoint()
        assert tools.began == []
        for chunk in end():
            turn.feed(chunk)
        execution.feed(turn.close())
        events = [event async for event in execution]
    assert tools.began == ["move chair", "look sea", "look sky"]
    assert not any(isinstance(event, ToolProgress) for event in events)
    assert all(isinstance(event, ToolEvent) for event in events)
