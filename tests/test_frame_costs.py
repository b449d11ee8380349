"""What one frame may cost: its memory and work are proportional to its size, also if it is made of many small elements.

Memory is measured with ``tracemalloc``, work counted in executed instructions of streamkit, which are counted in a
generator expression as well. Nothing is timed.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from types import FrameType
from typing import Any

import pytest
from compiled import interpreted_only
from properties.test_linear_cost import NO_LIMITS, PACKAGE
from wire_streams import chat_bytes, message_end, message_start

from streamkit import Turn, providers
from streamkit.events import Citation, Unknown
from streamkit.providers.openai_chat.content_blocks import merge_reasoning_details
from streamkit.testing.case import encode_frame

Frame = Callable[[int], dict[str, Any]]

CHUNK = {"id": "c", "object": "chat.completion.chunk", "model": "m"}
URL = "https://a.example/1"


def chat_message(**fields: Any) -> dict[str, Any]:
    return {**CHUNK, "choices": [{"index": 0, "delta": fields}]}


def responses_item(**fields: Any) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": 0, "item": {"id": "i", **fields}}


def responses_text(*annotations: Any) -> dict[str, Any]:
    return responses_item(type="message", content=[{"type": "output_text", "text": "Hi", "annotations": annotations}])


def anthropic_body(content: list[Any]) -> dict[str, Any]:
    return {"type": "message", "id": "m", "model": "m", "role": "assistant", "content": content}


def gemini_body(parts: list[Any], **fields: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP", **fields}]}


def grounding(n: int, text: str) -> dict[str, Any]:
    supports = [{"segment": {"startIndex": 0, "endIndex": 5}, "groundingChunkIndices": [0]}] * n
    chunks = [{"web": {"uri": URL}}]
    return gemini_body([{"text": text}], groundingMetadata={"groundingChunks": chunks, "groundingSupports": supports})


#: Frames of about n small elements.
FRAMES: dict[str, tuple[str, Frame]] = {
    "empty choices": ("openai_chat", lambda n: {**CHUNK, "choices": [{}] * n}),
    "empty choices beside an unknown field": ("openai_chat", lambda n: {**CHUNK, "new": 1, "choices": [{}] * n}),
    "choices without a number": ("openai_chat", lambda n: {**CHUNK, "choices": [{"delta": {"content": "a"}}] * n}),
    "parts of a content": ("openai_chat", lambda n: chat_message(content=[{"type": "vendor", "text": "a"}] * n)),
    "empty parts of a content": ("openai_chat", lambda n: chat_message(content=[[]] * n)),
    "annotations": (
        "openai_chat",
        lambda n: chat_message(content="Hi", annotations=[{"url_citation": {"url": URL}}] * n),
    ),
    "addresses": (
        "perplexity",
        lambda n: {**chat_message(content="Hi"), "citations": [f"{URL}{at}" for at in range(n)]},
    ),
    "messages of a choice": (
        "mistral",
        lambda n: (
            {**CHUNK, "choices": [{"index": 0, "messages": [{"content": "a"}] * n}]}
            | {f"field_{at}": at for at in range(n)}
        ),
    ),
    "empty parts of an item": ("openai_responses", lambda n: responses_item(type="message", content=[{}] * n)),
    "empty summaries": ("openai_responses", lambda n: responses_item(type="reasoning", summary=[{}] * n)),
    "annotations of an item": (
        "openai_responses",
        lambda n: responses_text(*[{"type": "url_citation", "url": URL}] * n),
    ),
    "unknown items": (
        "openai_responses",
        lambda n: {"object": "response", "status": "completed", "output": [{"type": "new", "value": "abcdefgh"}] * n},
    ),
    "empty blocks": ("anthropic", lambda n: anthropic_body([{}] * n)),
    "unknown blocks": ("anthropic", lambda n: anthropic_body([{"type": "new", "value": "abcdefghijklmnop"}] * n)),
    "citations of a block": (
        "anthropic",
        lambda n: anthropic_body([{"type": "text", "text": "Hi", "citations": [{"url": URL, "title": "A"}] * n}]),
    ),
    "members of a delta": (
        "bedrock_converse",
        lambda n: {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {f"member_{at}": at for at in range(n)}}},
    ),
    "citations of a body": (
        "cohere",
        lambda n: {"message": {"content": [{"text": "Hi"}], "citations": [{"start": 0, "end": 2, "text": "Hi"}] * n}},
    ),
    "unknown parts": ("gemini", lambda n: gemini_body([{"new": {"value": "abcdefgh"}}] * n)),
    "supports of an ASCII text": ("gemini", lambda n: grounding(n, "Hi you. " * n)),
    "supports of another text": ("gemini", lambda n: grounding(n, "Zürich. " * n)),
}


def instructions(provider: str, inputs: list[Any]) -> int:
    """Return how many instructions of streamkit feed and close a turn."""
    count = 0

    def trace_instruction(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "opcode"
        return trace_instruction

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return trace_instruction

    turn = Turn(provider, turn_key="turn-1", limits=NO_LIMITS)
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for data in inputs:
            turn.feed(data)
        turn.close()
    finally:
        sys.settrace(before)
    return count


def framed(provider: str, chunk: dict[str, Any]) -> bytes:
    return encode_frame(chunk, providers.get(provider).traits)


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_takes_at_most_twenty_times_its_memory(kind: str) -> None:
    provider, frame = FRAMES[kind]
    Turn(provider).feed(framed(provider, frame(4)))  # imports are not counted
    data = framed(provider, frame(5 * 100))
    data = framed(provider, frame(500 * 32_000 // len(data)))
    gc.collect()
    tracemalloc.start()
    try:
        turn = Turn(provider, "turn-1")
        turn.feed(data)
        turn.close(complete=True)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 * len(data) + 2_000_000, f"{peak / len(data):.0f} times"


@interpreted_only
@pytest.mark.parametrize("kind", FRAMES)
def test_twice_the_elements_of_a_frame_cost_twice_the_work(kind: str) -> None:
    provider, frame = FRAMES[kind]
    small, large = (instructions(provider, [framed(provider, frame(n))]) for n in (300, 600))
    assert large <= 2.3 * small


@pytest.mark.parametrize("form", [bytes, dict])
def test_a_chunk_is_reported_once_for_all_of_its_empty_choices(form: type) -> None:
    chunk = {**CHUNK, "choices": [{}, {"index": 0, "delta": {"content": "Hi"}}, {}, {}]}
    turn = Turn("openai_chat", "turn-1")
    events = turn.feed(chat_bytes([chunk]) if form is bytes else chunk)
    assert [event.raw for event in events if isinstance(event, Unknown)] == [chunk]
    turn.close(complete=True)
    assert turn.text == "Hi"


def test_an_event_is_reported_once_for_all_of_its_unknown_members() -> None:
    event = {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "Hi", "new": 1, "newer": 2}}}
    events = Turn("bedrock_converse", "turn-1").feed(event)
    assert [each.raw for each in events if isinstance(each, Unknown)] == [event]


def test_a_range_in_bytes_is_converted_anywhere_in_a_long_text() -> None:
    text = "".join(chr(0x61 + at % 20) if at % 3 else "ü漢😀"[at % 9 // 3] for at in range(3000))
    encoded = [len(text[:at].encode()) for at in range(len(text) + 1)]
    places = [0, 1, 254, 255, 256, 257, 511, 512, 513, 2999, 3000]
    for start, end in pairwise(places):
        segment = {"startIndex": encoded[start], "endIndex": encoded[end], "text": text[start:end]}
        supports = [{"segment": segment, "groundingChunkIndices": [0]}]
        metadata = {"groundingChunks": [{"web": {"uri": URL}}], "groundingSupports": supports}
        events = Turn("gemini").feed(gemini_body([{"text": text}], groundingMetadata=metadata))
        (found,) = [(event.start, event.end) for event in events if isinstance(event, Citation)]
        assert found == (start, end)


# ---------------------------------------------------------------- streams of small frames after a large one


def large_usage(n: int) -> list[Any]:
    iterations = [{"type": "message", "input_tokens": 1, "output_tokens": 1}] * n
    first = {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 1, "iterations": iterations}}
    later = [{"type": "message_delta", "delta": {}, "usage": {"output_tokens": at}} for at in range(n)]
    return [message_start(), first, *later, *message_end()]


def same_items(n: int) -> list[Any]:
    items = [{"type": "function_call", "id": "i", "name": "count", "arguments": f'{{"n":{at}}}'} for at in range(n)]
    added = [{"type": "response.output_item.added", "output_index": n + at, "item": items[at]} for at in range(n)]
    return [*added, {"type": "response.completed", "response": {"status": "completed", "output": items}}]


def other_kinds_at_the_end(n: int) -> list[Any]:
    delta = {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "delta": "a"}
    content = [{"type": "refusal", "refusal": "b"}] * n
    item = {"type": "message", "id": "m", "content": content}
    deltas = [{**delta, "content_index": at} for at in range(n)]
    return [*deltas, {"type": "response.output_item.done", "output_index": 0, "item": item}]


def ended_again(n: int) -> list[Any]:
    delta = {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "delta": "a"}
    done = {"type": "response.output_item.done", "output_index": 0, "item": {"type": "message", "id": "m"}}
    return [*({**delta, "content_index": at} for at in range(n)), *[done] * n]


def texts_after_refusals(n: int) -> list[Any]:
    refusal = {"type": "response.refusal.delta", "item_id": "m", "output_index": 0, "delta": "a"}
    text = {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "delta": "a"}
    deltas = [{**refusal, "content_index": at + 1} for at in range(n)]
    return [text, *deltas, *[event for at in range(n) for event in (text, {**refusal, "content_index": n + 1 + at})]]


@interpreted_only
@pytest.mark.parametrize(
    ("provider", "stream"),
    [
        ("anthropic", large_usage),
        ("openai_responses", same_items),
        ("openai_responses", other_kinds_at_the_end),
        ("openai_responses", ended_again),
        ("openai_responses", texts_after_refusals),
    ],
    ids=lambda part: part if isinstance(part, str) else part.__name__,
)
def test_twice_the_frames_cost_twice_the_work(provider: str, stream: Callable[[int], list[Any]]) -> None:
    small, large = (instructions(provider, stream(n)) for n in (500, 1000))
    assert large <= 2.3 * small


class Detail(dict[str, Any]):
    """A detail that counts how often its signature is looked up."""

    looked_up = 0

    def get(self, name: str, default: Any = None) -> Any:
        if name == "signature":
            type(self).looked_up += 1
        return super().get(name, default)


def test_details_of_reasoning_are_merged_by_one_look_at_each() -> None:
    details = [Detail(type="reasoning.text", text="a", index=0) for _ in range(100)]
    assert merge_reasoning_details(details) == [{"type": "reasoning.text", "text": "a" * 100, "index": 0}]
    assert Detail.looked_up <= 200
