"""The public surface as a type checker sees it. Not meant to be executed: mypy checks it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, assert_never, assert_type

import streamkit
from streamkit import (
    Accumulator,
    Content,
    Event,
    Finish,
    Limits,
    NormalizedToolChunk,
    StreamError,
    StreamInterrupted,
    StreamWarning,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
    events,
)
from streamkit.calls import CallRef, ServerCall
from streamkit.events import ToolEvent, TurnEvent
from streamkit.providers import WireTraits
from streamkit.reading import ChoiceView, StreamReader


def a_turn(data: bytes, chunk: dict[str, Any], headers: Mapping[str, str]) -> None:
    turn = Turn("anthropic", turn_key="turn-1", limits=Limits(calls=10), recover_trailing_junk=False)
    assert_type(turn.response(200, headers), None)
    assert_type(turn.feed(data), list[TurnEvent])
    assert_type(turn.feed(chunk), list[TurnEvent])
    assert_type(turn.close(), list[TurnEvent])
    assert_type(turn.close(OSError(), complete=True), list[TurnEvent])
    assert_type(turn.done, bool)
    assert_type(turn.text, str)
    assert_type(turn.reasoning, str)
    assert_type(turn.refusal, str | None)
    assert_type(turn.calls, list[ToolCall])
    assert_type(turn.executable, list[ToolCall])
    assert_type(turn.server_calls, list[ServerCall])
    assert_type(turn.call("hist_tool_x"), ToolCall)
    assert_type(turn.finish, Finish | None)
    assert_type(turn.usage, Usage | None)
    assert_type(turn.error, StreamError | None)
    assert_type(turn.warnings, list[StreamWarning])
    assert_type(turn.content, Content)
    assert_type(turn.model, str | None)
    assert_type(turn.response_id, str | None)
    assert_type(turn.turn_key, str | None)
    assert_type(turn.to_dict(), dict[str, Any])
    assert_type(turn.choices, list[ChoiceView])
    assert_type(turn.completed_call(0), ToolCall | None)
    assert_type(turn.raise_for_error(), None)
    try:
        turn.raise_for_error()
    except StreamInterrupted as interrupted:
        assert_type(interrupted, StreamInterrupted)


def a_call(call: ToolCall, result: ToolResult) -> None:
    assert_type(call.id, str)
    assert_type(call.raw_id, str | None)
    assert_type(call.arguments_text, str)
    assert_type(call.partial, dict[str, Any])
    assert_type(call.ref, CallRef)
    assert_type(call.warnings, tuple[StreamWarning, ...])
    assert_type(result.call, ToolCall)
    assert_type(result.error, str | None)
    if call.state == "complete":
        return
    if call.state == "incomplete":
        return
    if call.state == "invalid":
        return
    assert_never(call.state)


def of_the_stream(event: TurnEvent) -> str:
    """Match every event of a turn by class."""
    match event:
        case events.Text() | events.Reasoning() | events.Refusal():
            return assert_type(event.text, str)
        case events.ResponseStarted():
            return assert_type(event.model, str | None) or ""
        case events.Compaction():
            return assert_type(event.summary, str | None) or ""
        case events.BlockStarted():
            return str(assert_type(event.block, int))
        case events.BlockEnded():
            return assert_type(event.signature, str | None) or event.kind
        case events.ToolCallReady():
            return assert_type(event.call, ToolCall).name
        case events.ToolCallStart() | events.ToolCallEnd():
            return assert_type(event.call, CallRef).name
        case events.ToolCallDelta():
            return assert_type(event.arguments_delta, str)
        case events.ArgumentsRestated():
            return assert_type(event.arguments_text, str)
        case events.ServerTool():
            return assert_type(event.name, str)
        case events.Citation():
            assert_type((event.cited_text, event.start), tuple[str | None, int | None])
            return assert_type(event.url, str | None) or ""
        case events.Unknown():
            return str(event)
        case events.File():
            return assert_type(event.media_type, str | None) or ""
        case events.UsageReport():
            return str(assert_type(event.usage, Usage))
        case events.Finished():
            return event.reason
        case events.Warned():
            return assert_type(event.code, str)
        case events.LogProbabilities():
            return "".join(assert_type(token.token, str) for token in event.tokens)
        case events.Failed():
            return assert_type(event.error, StreamError).message
        case _:
            assert_never(event)


def of_execution(event: ToolEvent) -> int | str:
    """Match every event of execution by class."""
    match event:
        case events.ToolRunning() | events.ToolAwaitingApproval() | events.ToolAwaitingResult():
            return event.call.id
        case events.ToolProgress(value=events.UiData() as data):
            return assert_type(data.name, str)
        case events.ToolProgress():
            return str(event.value)
        case (
            events.ToolCompleted()
            | events.ToolError()
            | events.ToolDenied()
            | events.ToolTimedOut()
            | events.ToolCanceled()
        ):
            return assert_type(event.result, ToolResult).status
        case events.RoundStarted() | events.RoundFinished():
            return assert_type(event.round, int)
        case events.RunEnded():
            assert_type(event.error, StreamError | None)
            assert_type(event.pending, tuple[ToolCall, ...])
            assert_type((event.finish, event.usage, event.cost), tuple[Finish | None, Usage | None, float | None])
            return event.ended
        case _:
            assert_never(event)


def either(event: Event) -> int | str:
    """Narrow an event by its ``type``."""
    if event.type == "text":
        return assert_type(event, events.Text).text
    if event.type == "tool_call_delta":
        return assert_type(event, events.ToolCallDelta).arguments_delta
    return assert_type(event.choice, int)


def to_and_from_json(event: Event) -> None:
    assert_type(events.to_json(event), bytes)
    assert_type(events.from_json(b"{}"), Event)


def the_rest(contents: list[Content], data: bytes) -> None:
    assert_type(streamkit.detect(data), str | None)
    assert_type(streamkit.render(contents, "gemini"), list[dict[str, Any]])
    assert_type(streamkit.render_request(contents, "gemini", tools=[len], tool_choice="auto"), dict[str, Any])
    assert_type(Content.human("Hi"), Content)
    assert_type(Content.system("Be brief."), Content)
    assert_type(Content.ai("Yes."), Content)


def a_parser_of_ones_own(calls: Accumulator) -> None:
    chunk = NormalizedToolChunk("start", id="a", name="f", arguments_delta="{}")
    assert_type(streamkit.process_tool_call_chunk(chunk, calls), list[TurnEvent])
    assert_type(calls.close(), None)
    assert_type(calls.calls, list[ToolCall])
    assert_type(Accumulator("mine", WireTraits(whole_names=False), turn_key="t").warnings, list[StreamWarning])


def a_choice(view: ChoiceView) -> None:
    assert_type(view.index, int)
    assert_type(view.call("hist_tool_x"), ToolCall)
    assert_type(view.executable, list[ToolCall])
    assert_type(view.content, Content)


async def reading(inputs: AsyncIterator[bytes], at_once: Iterable[bytes]) -> None:
    turn = Turn("openai_chat")
    assert_type(streamkit.read(turn, inputs), StreamReader)
    async for event in streamkit.read(turn, inputs):
        assert_type(event, TurnEvent)
    for event_ in streamkit.read(Turn("openai_chat"), at_once):
        assert_type(event_, TurnEvent)
