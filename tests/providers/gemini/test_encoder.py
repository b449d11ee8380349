"""Encoded content has Gemini's wire format, and parsed again it is the same content."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shared_data import recorded_streams

from streamkit import providers
from streamkit.calls import Usage
from streamkit.history import (
    Content,
    FileBlock,
    ImageBlock,
    OpaqueBlock,
    ReasoningBlock,
    ServerToolBlock,
    TextBlock,
    ToolCallBlock,
    ToolResponseBlock,
)
from streamkit.reading.turn import Turn

GEMINI = providers.get("gemini")
OWN = {"provider": "gemini", "model": "m"}


def read_turn(data: bytes) -> Turn:
    turn = Turn("gemini", "key")
    turn.feed(data)
    turn.close()
    return turn


# ---------------------------------------------------------------- content of any kind

SIGNED = st.fixed_dictionaries({}, optional={"thoughtSignature": st.sampled_from(["U2ln", "+/8=", "a"])})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)


@st.composite
def blocks(draw: Any) -> list[Any]:
    """Draw blocks that this wire can make: unsigned texts of one kind are never adjacent, and ids are unique."""
    drawn: list[Any] = []
    for number in range(draw(st.integers(0, 5))):
        kind = draw(st.sampled_from(["text", "reasoning", "call", "server", "file", "opaque"]))
        metadata = {**OWN, **draw(SIGNED)}
        if kind in ("text", "reasoning"):
            min_size = 0 if "thoughtSignature" in metadata else 1
            text = draw(st.text(st.characters(exclude_categories=["Cs"]), min_size=min_size, max_size=20))
            block = (
                TextBlock(text=text, metadata=metadata)
                if kind == "text"
                else ReasoningBlock(text=text, metadata=metadata)
            )
            if drawn and drawn[-1].type == block.type and "thoughtSignature" not in {**drawn[-1].metadata, **metadata}:
                continue
            drawn.append(block)
        elif kind == "call":
            if draw(st.booleans()):
                metadata["raw_id"] = f"id{number}"
            parameters = draw(st.dictionaries(st.text(max_size=4), JSON, max_size=2))
            drawn.append(ToolCallBlock(id=f"c{number}", name="w", parameters=parameters, metadata=metadata))
        elif kind == "server":
            code = {"executableCode": {"id": f"s{number}", "code": "1"}, **draw(SIGNED)}
            result = {"codeExecutionResult": {"id": f"s{number}", "output": "2"}}
            drawn.append(
                ServerToolBlock(
                    id=f"s{number}",
                    name="code_execution",
                    arguments={"code": "1"},
                    result={"output": "2"},
                    raw=[code, result],
                    metadata=OWN,
                )
            )
        elif kind == "file":
            raw = {"inlineData": {"mimeType": "image/png", "data": "aGk="}, **draw(SIGNED)}
            drawn.append(FileBlock(media_type="image/png", data="aGk=", metadata={**OWN, "raw": raw}))
        else:
            drawn.append(OpaqueBlock(raw={"new": draw(JSON), "more": 1}, metadata=OWN))
    return drawn


USAGE = st.none() | st.builds(
    Usage,
    input_tokens=st.integers(1, 99),
    output_tokens=st.integers(50, 99),
    reasoning_tokens=st.none() | st.integers(1, 40),
    cache_read_tokens=st.none() | st.integers(1, 99),
)


@given(
    blocks(),
    USAGE,
    st.integers(1, 8),
    st.sampled_from([None, "length", "content_filter", "error", "other"]),
    st.booleans(),
)
def test_encoded_content_parsed_again_is_the_same(
    blocks: list[Any], usage: Usage | None, delta_size: int, finish: Any, array: bool
) -> None:
    content = Content(speaker="ai", blocks=blocks)
    frames: Iterator[bytes] = GEMINI.emit(
        content,
        response_id="r",
        model="m",
        usage=usage,
        finish=finish,
        delta_size=delta_size,
        framing="json_array" if array else None,
    )
    turn = read_turn(b"".join(frames))
    assert turn.error is None

    def plain(block: Any) -> dict[str, Any]:
        data: dict[str, Any] = block.model_dump()
        return {name: value for name, value in data.items() if not (name == "id" and block.type == "tool_call")}

    assert [plain(block) for block in turn.content.blocks] == [plain(block) for block in blocks]
    assert (turn.model, turn.response_id) == ("m", "r")
    assert turn.finish is not None
    has_calls = any(isinstance(block, ToolCallBlock) for block in blocks)
    assert turn.finish.reason == (finish or ("tool_calls" if has_calls else "stop"))
    if usage is None:
        assert turn.usage is None
    else:
        assert turn.usage is not None
        assert [getattr(turn.usage, name) for name in Usage.__struct_fields__[:4]] == [
            getattr(usage, name) for name in Usage.__struct_fields__[:4]
        ]


def test_encoded_bytes_have_the_wire_format() -> None:
    content = Content(speaker="ai", blocks=[TextBlock(text="Hello"), ToolCallBlock(id="1", name="w", parameters={})])
    frames = list(GEMINI.emit(content, response_id="r", model="m", usage=Usage(3, 4, 1), delta_size=4))
    assert all(frame.startswith(b"data: {") and frame.endswith(b"}\r\n\r\n") for frame in frames)
    chunks = [json.loads(frame[6:]) for frame in frames]
    response_type = importlib.import_module("google.genai.types").GenerateContentResponse
    for data in chunks:
        response_type.model_validate(data)
    parts = [data["candidates"][0]["content"]["parts"] for data in chunks]
    assert parts == [[{"text": "Hell"}], [{"text": "o"}], [{"functionCall": {"name": "w", "args": {}}}], [{"text": ""}]]
    assert chunks[0]["usageMetadata"] == {"promptTokenCount": 3}
    assert chunks[-1]["usageMetadata"] == {
        "promptTokenCount": 3,
        "candidatesTokenCount": 3,
        "thoughtsTokenCount": 1,
        "totalTokenCount": 7,
    }
    assert [data["candidates"][0].get("finishReason") for data in chunks] == [None, None, None, "STOP"]
    assert GEMINI.traits.matches_head(frames[0])
    array = list(GEMINI.emit(content, response_id="r", model="m", framing="json_array"))
    assert GEMINI.traits.matches_head(array[0])
    assert len(json.loads(b"".join(array))) == 3


def test_a_scripted_server_tool_is_encoded_as_google_sends_it() -> None:
    block = ServerToolBlock(id="t", name="GOOGLE_SEARCH", arguments={"queries": ["q"]}, result={"x": 1})
    turn = read_turn(b"".join(GEMINI.emit(Content(speaker="ai", blocks=[block]), response_id="r", model="m")))
    (call,) = turn.server_calls
    assert (call.id, call.name, call.arguments, call.result) == ("t", "GOOGLE_SEARCH", {"queries": ["q"]}, {"x": 1})


def test_files_of_no_wire_are_encoded_and_blocks_without_a_form_are_left_out() -> None:
    blocks = [
        ImageBlock(data="data:image/png;base64,aGk="),
        FileBlock(media_type="a/b", data="aGk=", metadata={"thoughtSignature": "U2ln"}),
        OpaqueBlock(raw="odd"),
        ToolResponseBlock(call_id="1"),
        ToolCallBlock(id="1", name="sh", kind="custom", parameters="ls"),
        ServerToolBlock(name="GOOGLE_SEARCH"),
    ]
    turn = read_turn(b"".join(GEMINI.emit(Content(speaker="ai", blocks=blocks), response_id="r", model="m")))
    assert [block.type for block in turn.content.blocks] == ["file", "file", "tool_call", "server_tool"]
    assert turn.calls[0].arguments == {"input": "ls"}


@pytest.mark.parametrize(
    ("status", "name"),
    [(400, "INVALID_ARGUMENT"), (429, "RESOURCE_EXHAUSTED"), (418, "INVALID_ARGUMENT"), (502, "INTERNAL")],
)
def test_error_bodies(status: int, name: str) -> None:
    assert GEMINI.error_body(status, "m") == {"error": {"code": status, "message": "m", "status": name}}


# ---------------------------------------------------------------- recorded streams


def test_recorded_streams_encoded_and_parsed_again_are_the_same() -> None:
    for stream in recorded_streams("gemini"):
        turn = read_turn(stream.data)
        assert turn.error is None
        frames = GEMINI.emit(turn.content, response_id=turn.response_id or "", model=turn.model or "")
        again = read_turn(b"".join(frames))
        assert again.text == turn.text
        assert [block.model_dump(exclude={"metadata": {"citations"}}) for block in again.content.blocks] == [
            block.model_dump(exclude={"metadata": {"citations"}}) for block in turn.content.blocks
        ]
        assert GEMINI.traits.matches_head(stream.data[:4096])
