"""Turns that do not end: what stays of them in the run, and what the run reports."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import msgspec
import pytest
from execution.chat_chunks import answer, chunk
from execution.fake_model import FakeModel, calls_with_status
from wire_streams import block

import streamkit
from streamkit import (
    Content,
    Retries,
    StreamInterrupted,
    execute_tool_calls_batched,
    execute_tool_calls_sequentially,
    run_loop,
    tool,
)
from streamkit.calls import CallRef, ToolCall
from streamkit.events import (
    Finished,
    ResponseStarted,
    Text,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallReady,
    ToolCallStart,
)
from streamkit.execution.round.policies import EagerCalls
from streamkit.history import OpaqueBlock, ReasoningBlock, TextBlock
from streamkit.providers.rendering import conversion
from streamkit.reading.turn import Turn

pytestmark = pytest.mark.anyio

HISTORY = [Content.human("Go.")]
BROKEN = ConnectionResetError("gone")


async def look(at: str) -> str:
    return at


def loop(ask: Any, **more: Any) -> Any:
    return run_loop(ask, **{"provider": "openai_chat", "tools": [look], "history": HISTORY, "run_key": "k"} | more)


CALLS = answer("Now.", ("look", {"at": "sea"}), ("look", '{"at":"s'))[:-1]


@pytest.mark.parametrize("provider", ["openai_chat", "anthropic", "gemini", "openai_responses"])
async def test_a_cut_turn_stays_with_a_result_for_each_call_and_can_be_sent_anywhere(provider: str) -> None:
    run = loop(FakeModel([*CALLS, BROKEN]))
    events: list[Any] = []
    async with run:
        with pytest.raises(StreamInterrupted) as caught:  # noqa: PT012 - the events before it are wanted
            async for event in run:
                events.append(event)  # noqa: PERF401 - kept although it raises
    assert caught.value.results == ()  # no call had started
    assert calls_with_status(run.contents) == [("look", "canceled"), ("look", "error")]
    assert [content.metadata.get("interrupted") for content in run.contents] == [True, None]
    assert run.history == HISTORY + run.contents
    assert [event.type for event in events if event.type in ("tool_canceled", "tool_error")] == [
        "tool_canceled",
        "tool_error",
    ]
    conversion.render([*run.history, Content.human("Go on.")], provider)


async def test_a_cut_turn_with_a_thread_is_appended_to_it() -> None:
    run = loop(FakeModel([*CALLS, BROKEN]), history=None, thread=[{"role": "user", "content": "Go."}])
    with pytest.raises(StreamInterrupted):
        await run
    assert [message["role"] for message in run.thread] == ["user", "assistant", "tool", "tool"]


@pytest.mark.parametrize("at", ["text", "tool_call_start", "tool_call_delta"])
@pytest.mark.parametrize("how", ["break", "cancel", "raise"])
async def test_a_turn_that_is_left_stays(at: str, how: str) -> None:
    run = loop(FakeModel([*CALLS, anyio.Event()]))
    scope = anyio.CancelScope()
    with scope:
        try:
            async with run:
                async for event in run:
                    if event.type == at and how == "cancel":
                        scope.cancel()
                    elif event.type == at and how == "raise":
                        raise LookupError  # noqa: TRY301
                    elif event.type == at:
                        break
        except LookupError:
            pass
    assert run.ended == "canceled"
    assert run.contents[0].blocks[0].text == "Now."
    assert run.contents[0].metadata["interrupted"] is True
    calls_with_status(run.contents)  # each has its result


async def test_a_turn_without_a_block_is_left_out() -> None:
    run = loop(FakeModel([chunk({"index": 0, "delta": {"role": "assistant"}}), BROKEN]))
    with pytest.raises(StreamInterrupted):
        await run
    assert (run.contents, run.history) == ([], HISTORY)


@pytest.mark.slow
async def test_failed_attempts_leave_nothing() -> None:
    model = FakeModel([BROKEN], [BROKEN], [BROKEN], answer("Done."))
    run = await loop(model, retries=Retries(requests=1, fallbacks=["deepseek"]))
    assert [content.metadata.get("interrupted") for content in run.contents] == [None]
    assert run.text == "Done."


async def test_the_warnings_of_every_turn_and_of_rendering_are_the_runs() -> None:
    opaque = Content(speaker="ai", blocks=[OpaqueBlock(raw={"type": "x"}, metadata={"provider": "anthropic"})])
    model = FakeModel(answer("", ("look", {"at": "sea"})), answer("Done.", finish="tool_calls"))
    run = await loop(model, history=[*HISTORY, opaque, Content.human("Go on.")])
    codes = [warning.code for warning in run.warnings]
    assert codes.count("finish_without_calls") == 1
    changes = [warning.message for warning in run.warnings if warning.code == "content_changed"]
    assert changes
    assert len(set(changes)) == len(changes)  # although two requests were rendered


async def test_the_warnings_of_a_turn_are_the_runs_while_it_is_read() -> None:
    async with loop(FakeModel(answer("Done.", finish="tool_calls"))) as run:
        async for event in run:
            if event.type == "finished":
                assert [warning.code for warning in run.warnings] == ["finish_without_calls"]


def test_the_work_for_early_calls_is_linear_in_calls_and_deltas() -> None:
    examined = 0

    class Counting(Turn):
        __slots__ = ()

        def completed_call(self, index: int) -> Any:
            nonlocal examined
            examined += 1
            return super().completed_call(index)

    turn = Counting("openai_chat", turn_key="t")
    eager = EagerCalls(turn, {"look": tool(look, eager=True)})
    count, started = 300, 0
    for index in range(count):  # each object stays open, so that no call is known to be complete
        function = {"name": "look", "arguments": '{"at":'}
        piece = {"index": index, "id": f"c{index}", "type": "function", "function": function}
        events = turn.feed(chunk({"index": 0, "delta": {"tool_calls": [piece]}}))
        started += sum(isinstance(event, ToolCallStart) for event in events)
        list(eager.feed(events))
    assert started == count
    assert examined <= 3 * count


def test_interleaved_early_calls_are_found_when_the_next_call_begins() -> None:
    turn = Turn("openai_chat", turn_key="t")
    eager = EagerCalls(turn, {"look": tool(look, eager=True)})
    found: list[int] = []

    def feed(index: int, arguments: str, **more: Any) -> None:
        piece = {"index": index, "function": {"arguments": arguments, **more}, **({"id": f"c{index}"} if more else {})}
        events = turn.feed(chunk({"index": 0, "delta": {"tool_calls": [piece]}}))
        found.extend(item.index for item in eager.feed(events) if not isinstance(item, tuple))

    feed(0, '{"at":', name="look")
    feed(1, '{"at":', name="look")
    feed(0, '"sea"}')
    feed(1, '"sky"}')
    assert found == []
    feed(2, '{"at":', name="look")
    assert found == [0, 1]


async def test_a_source_that_ends_early_is_cut_too() -> None:
    async def ask(context: Any) -> AsyncIterator[bytes]:
        yield b'data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"No"}}]}\n\n'

    run = loop(ask)
    with pytest.raises(StreamInterrupted, match="stream_truncated"):
        await run
    assert [content.metadata["interrupted"] for content in run.contents] == [True]


# ---------------------------------------------------------------- executed without a run

WIRES = ["anthropic", "bedrock_converse", "bedrock_invoke", "cohere", "gemini", "ollama", "openai_chat"]


def feed_cut(provider: str, *events: Any) -> Turn:
    """Return a closed turn of the stream of these events, which has no end."""
    writer, turn = streamkit.writer(provider), Turn(provider, "turn-1")
    turn.feed(b"".join(writer.write(event) for event in events))
    turn.close()
    return turn


@pytest.mark.parametrize("provider", [*WIRES, "openai_responses"])
@pytest.mark.parametrize("execute", [execute_tool_calls_batched, execute_tool_calls_sequentially])
async def test_a_cut_turn_that_is_executed_is_marked_and_warned_of(provider: str, execute: Any) -> None:
    ref = CallRef("hist_tool_aaaaaaaaaaaaaaaaaaaaaaaa", "look", 0)
    call = ToolCall(id=ref.id, name="look", index=0, arguments={"at": "sea"}, arguments_text='{"at":"sea"}')
    turn = feed_cut(
        provider,
        ResponseStarted("resp_1", "m-1", 0, "other"),
        Text("I look"),
        ToolCallStart(ref),
        ToolCallDelta(ref, '{"at":"sea"}'),
        ToolCallEnd(ref),
        ToolCallReady(msgspec.structs.replace(call, state="complete")),
        Text("Now"),
    )
    assert turn.error is not None
    assert turn.content.metadata["interrupted"] is True
    update = await execute(turn, tools=[look])
    assert [result.status for result in update.results] == ["canceled"] * len(turn.calls)
    assert update.contents[0].metadata["interrupted"] is True
    assert "turn_interrupted" in [warning.code for warning in update.warnings]
    if provider == "openai_responses":  # which stores no item of a response that it has not completed
        assert update.messages[0] == {"type": "message", "role": "assistant", "content": "I look"}
        assert not [item for item in update.messages if "id" in item]


@pytest.mark.parametrize("provider", WIRES)
async def test_a_whole_turn_is_not_marked(provider: str) -> None:
    writer, turn = streamkit.writer(provider), Turn(provider, "turn-1")
    turn.feed(b"".join(writer.write(event) for event in (Text("Hi."), Finished("stop"))) + writer.close())
    assert "interrupted" not in turn.content.metadata  # nothing is known before its end
    turn.close()
    assert "interrupted" not in turn.content.metadata
    update = await execute_tool_calls_batched(turn, tools=[look])
    assert update.warnings == []


@pytest.mark.parametrize("provider", ["anthropic", "bedrock_converse"])
@pytest.mark.parametrize("is_whole", [True, False])
async def test_half_a_signature_is_not_sent_back(provider: str, is_whole: bool) -> None:
    """A wire streams a signature in deltas, so that it is whole only if its block has ended."""
    delta: Any = {"type": "signature_delta", "signature": "c2ln"}
    chunks = [*block(0, {"type": "thinking", "thinking": "Hm."}, delta, stop=is_whole)]
    if provider == "bedrock_converse":
        deltas = [{"reasoningContent": {"text": "Hm."}}, {"reasoningContent": {"signature": "c2ln"}}]
        chunks = [{"contentBlockDelta": {"contentBlockIndex": 0, "delta": delta}} for delta in deltas]
        chunks += [{"contentBlockStop": {"contentBlockIndex": 0}}] if is_whole else []
    turn = Turn(provider, "turn-1", model="m-1")
    for data in chunks:
        turn.feed(data)
    turn.close()
    content = turn.content
    [reasoning] = content.blocks
    assert isinstance(reasoning, ReasoningBlock)
    assert (reasoning.text, reasoning.signature) == ("Hm.", "c2ln" if is_whole else None)
    history = [Content.human("Go."), Content(speaker="ai", blocks=[*content.blocks, TextBlock(text="I")])]
    sent = json.dumps(streamkit.render(history, provider, model="m-1"))
    assert ("c2ln" in sent) is is_whole
