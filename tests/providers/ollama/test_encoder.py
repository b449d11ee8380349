"""Encoded content has Ollama's wire format, and parsed again it is the same content."""

from __future__ import annotations

import json
from typing import Any

import ollama
import pytest
import wire_streams
from hypothesis import given
from hypothesis import strategies as st
from shared_data import RecordedStream, recorded_streams

from streamkit import Turn
from streamkit.calls import Usage
from streamkit.history import Content, FileBlock, OpaqueBlock, ReasoningBlock, TextBlock, ToolCallBlock
from streamkit.providers.ollama import PROVIDERS

(OLLAMA,) = PROVIDERS
OWN = {"provider": "ollama", "model": "m"}
RECORDED = recorded_streams("ollama")


def encode(content: Content, **options: Any) -> bytes:
    return b"".join(OLLAMA.emit(content, response_id="", model="m", **options))


def read(data: bytes) -> Turn:
    return wire_streams.run("ollama", [data])[0]


def decode_lines(data: bytes) -> list[dict[str, Any]]:
    assert data.endswith(b"\n")
    lines = [json.loads(line) for line in data.splitlines()]
    for line in lines:
        if "error" not in line:
            ollama.ChatResponse.model_validate(line)
    return lines


def test_content_is_encoded_as_the_server_streams_it() -> None:
    content = Content.ai(
        "",
        ReasoningBlock(text="hm", metadata=OWN),
        TextBlock(text="Both.", metadata=OWN),
        ToolCallBlock(id="x", name="w", parameters={"a": "é"}, metadata={**OWN, "raw_id": "call_1"}),
        ToolCallBlock(id="y", name="now", metadata=OWN),
    )
    lines = decode_lines(encode(content, delta_size=3, usage=Usage(26, 29)))
    head = {"model": "m", "created_at": "1970-01-01T00:00:00Z"}
    assert [line["message"] for line in lines] == [
        {"role": "assistant", "content": "", "thinking": "hm"},
        {"role": "assistant", "content": "Bot"},
        {"role": "assistant", "content": "h."},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "call_1", "function": {"index": 0, "name": "w", "arguments": {"a": "é"}}}],
        },
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"function": {"index": 1, "name": "now", "arguments": {}}}],
        },
        {"role": "assistant", "content": ""},
    ]
    assert [line["done"] for line in lines] == [False] * 5 + [True]
    assert {key: lines[0][key] for key in head} == head
    assert (lines[-1]["done_reason"], lines[-1]["prompt_eval_count"], lines[-1]["eval_count"]) == ("stop", 26, 29)


@pytest.mark.parametrize(
    ("finish", "name", "reason"),
    [
        ("stop", "stop", "stop"),
        ("tool_calls", "stop", "stop"),
        ("length", "length", "length"),
        ("content_filter", "content_filter", "content_filter"),
        ("other", "other", "other"),
        (None, "stop", "stop"),
    ],
)
def test_finish_reasons(finish: Any, name: str, reason: str) -> None:
    turn = read(encode(Content.ai("x"), finish=finish))
    assert turn.finish is not None
    assert (turn.finish.raw, turn.finish.reason, turn.error) == (name, reason, None)


def test_an_error_finish_is_an_error_line() -> None:
    turn = read(encode(Content.ai("x"), finish="error"))
    assert turn.error is not None
    assert (turn.error.kind, turn.text) == ("provider_error", "x")


@pytest.mark.parametrize("raw", ['{"a":"b', "[1]", '{"a":1}{"a":2}'])
def test_a_call_that_is_not_complete_is_left_out_because_a_line_has_complete_calls_alone(raw: str) -> None:
    call = ToolCallBlock(id="t", name="w", metadata={"raw_arguments": raw})
    turn = read(encode(Content.ai("Hi", call), finish="length"))
    assert (turn.text, turn.calls) == ("Hi", [])


def test_content_of_other_providers_is_encoded_in_this_format() -> None:
    content = Content.ai(
        "Hi",
        ReasoningBlock(text="sum", kind="summary", metadata={"provider": "x"}),
        ToolCallBlock(id="t", name="w", parameters="free", kind="custom", metadata={"provider": "x", "raw_id": "r"}),
        FileBlock(media_type="image/png", data="data:image/png;base64,iVBORw0KGgo="),
        FileBlock(media_type="application/pdf", data="x"),
        OpaqueBlock(raw={"type": "x"}),
    )
    turn = read(encode(content, delta_size=1))
    assert (turn.text, turn.reasoning) == ("Hi", "sum")
    assert (turn.calls[0].raw_id, turn.calls[0].arguments) == ("call_t", {"input": "free"})
    assert [(block.media_type, block.data) for block in turn.content.blocks if isinstance(block, FileBlock)] == [
        ("image/png", "iVBORw0KGgo=")
    ]


def test_half_of_a_surrogate_pair_is_escaped() -> None:
    text = TextBlock.model_construct(type="text", text="a\ud83d", metadata={})
    data = encode(Content.model_construct(speaker="ai", blocks=[text], metadata={}))
    assert b"a\\ud83d" in data
    assert read(data).text == "a\ufffd"


def test_error_body() -> None:
    assert OLLAMA.error_body(404, "model 'x' not found") == {"error": "model 'x' not found"}


@pytest.mark.parametrize("stream", RECORDED, ids=str)
def test_a_recorded_stream_encoded_and_parsed_again_is_the_same(stream: RecordedStream) -> None:
    turn = read(stream.data)
    finish = turn.finish.reason if turn.finish else None
    frames = OLLAMA.emit(turn.content, response_id="", model=turn.model or "", finish=finish, usage=turn.usage)
    again = read(b"".join(frames))
    assert again.content == turn.content
    assert again.finish == turn.finish
    assert turn.usage is not None
    assert again.usage is not None
    assert again.usage.updated_with(Usage()) == turn.usage.updated_with(Usage())


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
_block_kinds = st.lists(
    st.sampled_from(["text", "reasoning", "call", "call without id", "file"]), min_size=1, max_size=6
)


@given(st.data(), _block_kinds, st.integers(1, 20))
def test_encoded_content_parsed_again_is_the_same(data: st.DataObject, kinds: list[str], delta_size: int) -> None:
    blocks: list[Any] = []
    for number, kind in enumerate(kinds):
        if kind in ("text", "reasoning") and kind == (kinds[number - 1] if number else ""):
            continue  # adjacent blocks of one kind are one block on this wire
        if kind == "text":
            blocks.append(TextBlock(text=data.draw(st.text(min_size=1)), metadata=OWN))
        elif kind == "reasoning":
            blocks.append(ReasoningBlock(text=data.draw(st.text(min_size=1)), metadata=OWN))
        elif kind == "file":
            blocks.append(FileBlock(media_type="image/jpeg", data="/9j/4AAQ", metadata=OWN))
        else:
            parameters = data.draw(st.dictionaries(st.text(max_size=4), _json, max_size=3))
            metadata = {**OWN, "raw_id": f"call_{number}"} if kind == "call" else OWN
            blocks.append(ToolCallBlock(id="t", name="w", parameters={**parameters, "n": number}, metadata=metadata))
    turn = read(encode(Content.ai("", *blocks), delta_size=delta_size))
    assert turn.error is None
    assert turn.warnings == []
    parsed = [block.model_dump(exclude={"id"}) for block in turn.content.blocks]
    assert parsed == [block.model_dump(exclude={"id"}) for block in blocks]
    assert read(encode(turn.content, delta_size=delta_size + 1)).content == turn.content
