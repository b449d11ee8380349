"""Every call has one start, one end and then its final state, on every wire and in any order of its deltas."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_data import RecordedStream, recorded_streams

from streamkit import Turn
from streamkit.events import Event, ToolCallEnd, ToolCallReady, ToolCallStart

Chunk = dict[str, Any]
Delta = tuple[int, str]  # the number of a call, and its next text
Builder = Callable[[list[Delta], set[int]], list[Chunk]]  # the deltas, and the calls whose end is reported


def chat(deltas: list[Delta], ended: set[int]) -> list[Chunk]:
    chunks: list[Chunk] = []
    seen: set[int] = set()
    for number, text in deltas:
        call: Chunk = {"index": number, "function": {"arguments": text}}
        if number not in seen:
            seen.add(number)
            call |= {"id": f"call_{number}", "function": {"name": "f", "arguments": text}}
        chunks.append({"id": "c", "choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
    return [*chunks, {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}]


def anthropic(deltas: list[Delta], ended: set[int]) -> list[Chunk]:
    chunks: list[Chunk] = [{"type": "message_start", "message": {"id": "m", "content": []}}]
    seen: set[int] = set()
    for number, text in deltas:
        if number not in seen:
            seen.add(number)
            block = {"type": "tool_use", "id": f"toolu_{number}", "name": "f", "input": {}}
            chunks.append({"type": "content_block_start", "index": number, "content_block": block})
        delta = {"type": "input_json_delta", "partial_json": text}
        chunks.append({"type": "content_block_delta", "index": number, "delta": delta})
    chunks += [{"type": "content_block_stop", "index": number} for number in sorted(ended & seen)]
    return [*chunks, {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}, {"type": "message_stop"}]


def converse(deltas: list[Delta], ended: set[int]) -> list[Chunk]:
    chunks: list[Chunk] = [{"messageStart": {"role": "assistant"}}]
    seen: set[int] = set()
    for number, text in deltas:
        place = {"contentBlockIndex": number}
        if number not in seen:
            seen.add(number)
            use = {"toolUseId": f"t_{number}", "name": "f"}
            chunks.append({"contentBlockStart": {**place, "start": {"toolUse": use}}})
        chunks.append({"contentBlockDelta": {**place, "delta": {"toolUse": {"input": text}}}})
    chunks += [{"contentBlockStop": {"contentBlockIndex": number}} for number in sorted(ended & seen)]
    return [*chunks, {"messageStop": {"stopReason": "tool_use"}}, {"metadata": {}}]


def responses(deltas: list[Delta], ended: set[int]) -> list[Chunk]:
    chunks: list[Chunk] = []
    texts: dict[int, str] = {}
    for number, text in deltas:
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": "f"}
        if number not in texts:
            chunks.append({"type": "response.output_item.added", "output_index": number, "item": item})
        texts[number] = texts.get(number, "") + text
        place = {"item_id": f"fc_{number}", "output_index": number}
        chunks.append({"type": "response.function_call_arguments.delta", **place, "delta": text})
    for number in sorted(ended & texts.keys()):
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": "f"}
        done = {**item, "arguments": texts[number]}
        chunks.append({"type": "response.output_item.done", "output_index": number, "item": done})
    return [*chunks, {"type": "response.completed", "response": {"id": "r", "status": "completed"}}]


def cohere(deltas: list[Delta], ended: set[int]) -> list[Chunk]:
    chunks: list[Chunk] = []
    seen: set[int] = set()
    for number, text in deltas:
        start = {"id": f"c_{number}", "type": "function", "function": {"name": "f", "arguments": text}}
        calls = {"function": {"arguments": text}} if number in seen else start
        kind = "tool-call-delta" if number in seen else "tool-call-start"
        seen.add(number)
        chunks.append({"type": kind, "index": number, "delta": {"message": {"tool_calls": calls}}})
    chunks += [{"type": "tool-call-end", "index": number} for number in sorted(ended & seen)]
    return [*chunks, {"type": "message-end", "delta": {"finish_reason": "TOOL_CALL"}}]


def gemini(deltas: list[Delta], ended: set[int]) -> list[Chunk]:
    parts = [{"functionCall": {"name": "f", "args": {"n": number}}} for number, _ in deltas]
    return [{"candidates": [{"content": {"parts": [part]}}]} for part in parts] + [
        {"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}]}
    ]


def ollama(deltas: list[Delta], ended: set[int]) -> list[Chunk]:
    calls = [{"function": {"name": "f", "arguments": {"n": number}}} for number, _ in deltas]
    lines = [{"model": "m", "message": {"role": "assistant", "tool_calls": [call]}, "done": False} for call in calls]
    return [
        *lines,
        {"model": "m", "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"},
    ]


WIRES: dict[str, Builder] = {
    "openai_chat": chat,
    "vllm": chat,
    "mistral": chat,
    "anthropic": anthropic,
    "bedrock_converse": converse,
    "openai_responses": responses,
    "cohere": cohere,
    "gemini": gemini,
    "ollama": ollama,
}
PARTS = st.sampled_from(['{"a":1}', '{"a":', "1}", "{", "}", '{"a":1}{"b":2}', '"', "x"])


def check(events: list[Event]) -> None:
    """Check the order of the events of each call."""
    ended: set[str] = set()
    started: set[str] = set()
    ready: list[str] = []
    for event in events:
        if isinstance(event, ToolCallStart):
            assert event.call.id not in started
            started.add(event.call.id)
        elif isinstance(event, ToolCallEnd):
            assert event.call.id in started - ended
            ended.add(event.call.id)
        elif isinstance(event, ToolCallReady):
            assert event.call.id in ended
            ready.append(event.call.id)
    assert sorted(ready) == sorted(ended) == sorted(started)


@pytest.mark.parametrize("wire", WIRES)
@settings(max_examples=80, deadline=None)
@given(
    deltas=st.lists(st.tuples(st.integers(0, 2), PARTS), max_size=8),
    ended=st.sets(st.integers(0, 2)),
    size=st.integers(0, 12),
)
def test_the_end_of_a_call_precedes_its_final_state(wire: str, deltas: list[Delta], ended: set[int], size: int) -> None:
    chunks = WIRES[wire](deltas, ended)[: size or None]
    turn = Turn(wire, "t")
    events = [event for chunk in chunks for event in turn.feed(chunk)]
    check([*events, *turn.close()])


@pytest.mark.parametrize("stream", recorded_streams(), ids=str)
def test_the_same_in_recorded_streams(stream: RecordedStream) -> None:
    turn = Turn(stream.provider, "t")
    check([*turn.feed(stream.data), *turn.close(complete=True)])


def test_it_can_fail() -> None:
    turn = Turn("openai_chat", "t")
    events = [event for chunk in chat([(0, "{}")], set()) for event in turn.feed(json.loads(json.dumps(chunk)))]
    events += turn.close()
    with pytest.raises(AssertionError):
        check([event for event in events if not isinstance(event, ToolCallEnd)])
