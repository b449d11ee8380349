"""Encoded content has Cohere's wire format, and parsed again it is the same content."""

from __future__ import annotations

import json
from typing import Any

import pytest
import wire_streams
from hypothesis import given
from hypothesis import strategies as st
from shared_data import RecordedStream, recorded_streams

from streamkit import Turn
from streamkit.calls import Usage
from streamkit.history import Content, ImageBlock, OpaqueBlock, ReasoningBlock, TextBlock, ToolCallBlock
from streamkit.providers.cohere import PROVIDERS

(COHERE,) = PROVIDERS
OWN = {"provider": "cohere"}
RECORDED = recorded_streams("cohere", ".sse")


def encode(content: Content, **options: Any) -> bytes:
    return b"".join(COHERE.emit(content, response_id="c-1", model="m", **options))


def read(data: bytes) -> Turn:
    return wire_streams.run("cohere", [data])[0]


def decode_events(data: bytes) -> list[dict[str, Any]]:
    events = []
    *frames, done = data.decode().split("\n\n")[:-1]
    assert done == "data: [DONE]"
    for frame in frames:
        name, payload = frame.split("\n")
        events.append(json.loads(payload.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    return events


def test_a_plan_and_a_call_are_encoded_as_the_api_streams_them() -> None:
    plan = ReasoningBlock(text="I look.", kind="plan", metadata=OWN)
    call = ToolCallBlock(id="x", name="w", parameters={"a": "é"}, metadata={**OWN, "raw_id": "w_1"})
    events = decode_events(encode(Content.ai("", plan, call), delta_size=5, usage=Usage(30, 7, 3, 4)))
    assert events == [
        {
            "id": "c-1",
            "type": "message-start",
            "delta": {
                "message": {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
            },
        },
        {"type": "tool-plan-delta", "delta": {"message": {"tool_plan": "I loo"}}},
        {"type": "tool-plan-delta", "delta": {"message": {"tool_plan": "k."}}},
        {
            "type": "tool-call-start",
            "index": 0,
            "delta": {
                "message": {"tool_calls": {"id": "w_1", "type": "function", "function": {"name": "w", "arguments": ""}}}
            },
        },
        {
            "type": "tool-call-delta",
            "index": 0,
            "delta": {"message": {"tool_calls": {"function": {"arguments": '{"a":'}}}},
        },
        {
            "type": "tool-call-delta",
            "index": 0,
            "delta": {"message": {"tool_calls": {"function": {"arguments": '"é"}'}}}},
        },
        {"type": "tool-call-end", "index": 0},
        {
            "type": "message-end",
            "delta": {
                "finish_reason": "TOOL_CALL",
                "usage": {
                    "billed_units": {"input_tokens": 30, "output_tokens": 7},
                    "tokens": {"input_tokens": 30, "output_tokens": 7, "reasoning_tokens": 3},
                    "cached_tokens": 4,
                },
            },
        },
    ]


def test_contents_are_numbered_and_citations_are_within_their_text() -> None:
    cited = TextBlock(text="b", metadata={**OWN, "citations": [{"text": "b"}]})
    events = decode_events(encode(Content.ai("", ReasoningBlock(text="hm"), cited)))
    assert [(event["type"], event.get("index")) for event in events[1:-1]] == [
        ("content-start", 0),
        ("content-delta", 0),
        ("content-end", 0),
        ("content-start", 1),
        ("content-delta", 1),
        ("citation-start", 0),
        ("citation-end", 0),
        ("content-end", 1),
    ]
    assert events[-1]["delta"] == {"finish_reason": "COMPLETE"}


def test_a_call_without_arguments_has_an_empty_object() -> None:
    events = decode_events(encode(Content.ai("", ToolCallBlock(id="a", name="now"))))
    assert [event["type"] for event in events[1:-1]] == ["tool-call-start", "tool-call-delta", "tool-call-end"]
    assert events[2]["delta"]["message"]["tool_calls"] == {"function": {"arguments": "{}"}}
    assert events[1]["delta"]["message"]["tool_calls"]["id"] == "call_a"


@pytest.mark.parametrize(
    ("finish", "name", "reason"),
    [
        ("stop", "COMPLETE", "stop"),
        ("length", "MAX_TOKENS", "length"),
        ("content_filter", "ERROR_TOXIC", "content_filter"),
        ("refusal", "REFUSAL", "refusal"),
        ("pause", "PAUSE", "pause"),
        ("other", "OTHER", "other"),
        (None, "COMPLETE", "stop"),
    ],
)
def test_finish_reasons(finish: Any, name: str, reason: str) -> None:
    turn = read(encode(Content.ai("x"), finish=finish))
    assert turn.finish is not None
    assert (turn.finish.raw, turn.finish.reason, turn.error) == (name, reason, None)


def test_an_error_finish_is_a_provider_error() -> None:
    turn = read(encode(Content.ai("x"), finish="error"))
    assert turn.error is not None
    assert turn.error.kind == "provider_error"
    assert turn.text == "x"


def test_truncated_arguments_stay_truncated() -> None:
    truncated = ToolCallBlock(id="t", name="w", metadata={"raw_arguments": '{"a":"b'})
    turn = read(encode(Content.ai("", truncated), finish="length"))
    assert [(call.state, call.arguments_text) for call in turn.calls] == [("incomplete", '{"a":"b')]


def test_content_of_other_providers_is_encoded_in_this_format() -> None:
    content = Content.ai(
        "half \ud83d",
        ReasoningBlock(text="sum", kind="summary", metadata={"provider": "x"}),
        ToolCallBlock(id="t", name="w", parameters="free", kind="custom", metadata={"provider": "x", "raw_id": "r"}),
        ImageBlock(data="https://e.org/a.png"),
        OpaqueBlock(raw={"type": "x"}),
        TextBlock(text="", metadata={"provider": "x", "citations": [{"a": 1}]}),
    )
    turn = read(encode(content, delta_size=1))
    assert (turn.text, turn.reasoning) == ("half \ufffd", "sum")
    assert (turn.calls[0].raw_id, turn.calls[0].arguments) == ("call_t", {"input": "free"})
    assert turn.warnings == []


def test_half_of_a_surrogate_pair_is_escaped() -> None:
    text = TextBlock.model_construct(type="text", text="a\ud83d", metadata={})
    data = encode(Content.model_construct(speaker="ai", blocks=[text], metadata={}))
    assert b"a\\ud83d" in data
    assert read(data).text == "a\ufffd"


def test_error_body() -> None:
    assert COHERE.error_body(429, "slow down") == {"message": "slow down"}


@pytest.mark.parametrize("stream", RECORDED, ids=str)
def test_a_recorded_stream_encoded_and_parsed_again_is_the_same(stream: RecordedStream) -> None:
    turn = read(stream.data)
    finish = turn.finish.reason if turn.finish else None
    data = b"".join(
        COHERE.emit(turn.content, response_id=turn.response_id or "", model="", finish=finish, usage=turn.usage)
    )
    again = read(data)
    assert again.content == turn.content
    assert again.finish == turn.finish
    if turn.usage is not None:
        assert again.usage is not None
        assert again.usage.updated_with(Usage()) == turn.usage.updated_with(Usage())


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
_objects = st.dictionaries(st.text(max_size=4), _json, max_size=3)
_blocks = st.one_of(
    st.builds(TextBlock, text=st.text(min_size=1), metadata=st.just(OWN)),
    st.builds(
        TextBlock,
        text=st.text(min_size=1),
        # An empty one is no citation.
        metadata=_objects.filter(bool).map(lambda cited: {**OWN, "citations": [cited]}),
    ),
    st.builds(
        ReasoningBlock,
        text=st.text(min_size=1),
        kind=st.just("text"),
        signature=st.none(),
        opaque=st.none(),
        metadata=st.just(OWN),
    ),
    st.builds(ToolCallBlock, id=st.just("t"), name=st.text(min_size=1, max_size=5), parameters=_objects),
)


@given(st.lists(_blocks, min_size=1, max_size=5), st.text(), st.integers(1, 20))
def test_encoded_content_parsed_again_is_the_same(blocks: list[Any], plan: str, delta_size: int) -> None:
    for number, block in enumerate(blocks):
        if isinstance(block, ToolCallBlock):
            block.kind = "function"
            block.metadata = {**OWN, "raw_id": f"w_{number}"}
    if plan:
        plan_block = ReasoningBlock(text=plan, kind="plan", metadata=OWN)
        blocks.insert(len(plan) % (len(blocks) + 1), plan_block)
    turn = read(encode(Content.ai("", *blocks), delta_size=delta_size))
    assert turn.error is None
    assert turn.warnings == []
    parsed = [block.model_dump(exclude={"id"}) for block in turn.content.blocks]
    assert parsed == [block.model_dump(exclude={"id"}) for block in blocks]
    assert read(encode(turn.content, delta_size=delta_size + 1)).content == turn.content
