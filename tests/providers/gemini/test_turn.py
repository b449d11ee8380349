"""Gemini through ``Turn``: whatever the framing, the cut or the door; and an answer emitted is the same answer read."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
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
from streamkit.turn import Turn

GEMINI = providers.get("gemini")

OWN = {"provider": "gemini", "model": "m"}


def turn_of(*pieces: Any, complete: bool = False) -> Turn:
    turn = Turn("gemini", "key")
    for piece in pieces:
        turn.feed(piece)
    turn.close(complete=complete)
    return turn


def sse(*chunks: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\r\n\r\n" for chunk in chunks)


def chunk(*parts: Any, finish: Any = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate]}


def call(**fields: Any) -> dict[str, Any]:
    return {"functionCall": fields}


def states(turn: Turn) -> list[tuple[str, str, Any]]:
    return [(one.name, one.state, one.arguments) for one in turn.calls]


# ---------------------------------------------------------------- calls


def test_calls_of_one_name_without_ids_stay_apart() -> None:
    turn = turn_of(
        sse(
            chunk(call(name="w", args={"city": "Paris"})),
            chunk(call(name="w", args={"city": "Oslo"})),
            chunk(finish="STOP"),
        )
    )
    assert states(turn) == [("w", "complete", {"city": "Paris"}), ("w", "complete", {"city": "Oslo"})]
    assert len({one.id for one in turn.executable}) == 2
    assert turn.finish is not None
    assert (turn.finish.reason, turn.finish.raw) == ("tool_calls", "STOP")


def test_a_call_sent_again_under_its_id_replaces_itself() -> None:
    first, again = call(name="w", args={"n": 1}, id="x"), call(name="w", args={"n": 2}, id="x")
    assert states(turn_of(sse(chunk(first), chunk(again, finish="STOP")))) == [("w", "complete", {"n": 2})]


def streamed(*endings: dict[str, Any]) -> bytes:
    going = {"jsonPath": "$.city", "stringValue": "Par", "willContinue": True}
    return sse(
        chunk(call(name="w", willContinue=True)),
        chunk(call(partialArgs=[going], willContinue=True)),
        chunk(call(partialArgs=[{"jsonPath": "$.city", "stringValue": "is"}], willContinue=True)),
        *endings,
    )


def test_streamed_arguments_are_whole_once_the_wire_says_so() -> None:
    for ending in ([chunk(call()), chunk(finish="STOP")], [chunk(call(), finish="STOP")], [chunk(finish="STOP")]):
        turn = turn_of(streamed(*ending))
        assert states(turn) == [("w", "complete", {"city": "Paris"})]
        assert turn.executable[0].arguments_text == '{"city":"Paris"}'
        assert turn.warnings == []


def test_streamed_arguments_that_were_cut_are_incomplete() -> None:
    turn = turn_of(streamed(chunk(finish="MAX_TOKENS")))
    assert states(turn) == [("w", "incomplete", None)]
    assert turn.executable == []
    turn = turn_of(sse(chunk(call(name="w", willContinue=True)), chunk(finish="MAX_TOKENS")))
    assert states(turn) == [("w", "incomplete", None)]
    turn = turn_of(streamed())
    assert states(turn) == [("w", "incomplete", None)]
    assert turn.error is not None
    assert turn.error.kind == "stream_truncated"


def test_arguments_with_a_hole_never_run() -> None:
    holed = {"jsonPath": "$.list[2]", "stringValue": "x"}
    turn = turn_of(
        sse(chunk(call(name="w", willContinue=True)), chunk(call(partialArgs=[holed])), chunk(call(), finish="STOP"))
    )
    assert states(turn) == [("w", "incomplete", None)]
    assert "arguments_unknown" in [warning.code for warning in turn.warnings]


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "SAFETY", "UNEXPECTED_TOOL_CALL"])
def test_nothing_runs_after_a_finish_that_forbids_it(reason: str) -> None:
    turn = turn_of(sse(chunk(call(name="w", args={}), finish=reason)))
    assert turn.error is None
    assert turn.executable == []


def test_a_signature_of_each_part_is_kept_in_content() -> None:
    turn = turn_of(
        sse(
            chunk({"text": "Looking", "thoughtSignature": "S0"}),
            chunk({"text": " on"}, {"text": "."}),
            chunk({**call(name="w", args={}), "thoughtSignature": "S1"}),
            chunk({"text": "", "thoughtSignature": "S2"}, finish="STOP"),
        )
    )
    kept = [
        (block.type, getattr(block, "text", None), block.metadata.get("thoughtSignature"))
        for block in turn.content.blocks
    ]
    assert kept == [
        ("text", "Looking", "S0"),
        ("text", " on.", None),
        ("tool_call", None, "S1"),
        ("text", "", "S2"),
    ]
    (model,) = GEMINI.render([turn.content]).messages
    assert [part.get("thoughtSignature") for part in model["parts"]] == ["S0", None, "S1", "S2"]


# ---------------------------------------------------------------- framings and doors


def test_the_array_framing_is_the_same() -> None:
    chunks = [chunk({"text": "a"}), chunk(call(name="w", args={}), finish="STOP")]
    as_array = json.dumps(chunks, indent=2).encode()
    assert turn_of(as_array).to_dict() == turn_of(sse(*chunks)).to_dict() == turn_of(*chunks).to_dict()
    assert turn_of(*[as_array[at : at + 1] for at in range(len(as_array))]).to_dict() == turn_of(as_array).to_dict()


@pytest.mark.parametrize("array", [False, True])
def test_an_error_body_is_the_providers_error(array: bool) -> None:
    error = {"code": 400, "message": "Bad.", "status": "INVALID_ARGUMENT"}
    turn = turn_of(json.dumps([{"error": error}] if array else {"error": error}).encode())
    assert turn.error is not None
    assert (turn.error.kind, turn.error.message, turn.error.status) == ("provider_error", "Bad.", 400)


def test_an_error_in_the_midst_leaves_what_came_before() -> None:
    turn = turn_of(
        sse(chunk({"text": "a"}), {"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}})
    )
    assert turn.text == "a"
    assert turn.error is not None
    assert turn.error.kind == "provider_error"


def test_objects_of_the_sdk_are_the_same() -> None:
    kind = importlib.import_module("google.genai.types").GenerateContentResponse
    chunks = [
        chunk({"text": "Hm.", "thought": True}),
        {
            **chunk({**call(name="w", args={"a": [1, {"b_c": None}]}, id="i"), "thoughtSignature": "CmIB+/+/"}),
            "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 5, "thoughtsTokenCount": 2},
        },
        chunk(
            {"executableCode": {"language": "PYTHON", "code": "1"}}, {"inlineData": {"mimeType": "a/b", "data": "aGk="}}
        ),
        chunk({"text": "", "thoughtSignature": "+/+/"}, finish="STOP"),
    ]
    objects = [kind.model_validate(one) for one in chunks]
    wanted = turn_of(sse(*chunks))
    for pieces in (
        objects,
        [one.model_dump() for one in objects],
        [one.model_dump(exclude_none=True) for one in objects],
    ):
        turn = turn_of(*pieces)
        got, want = turn.to_dict(), wanted.to_dict()
        got["usage"].pop("raw")
        want["usage"].pop("raw")
        assert got == want
        assert [block.model_dump() for block in turn.content.blocks] == [
            block.model_dump() for block in wanted.content.blocks
        ]


# ---------------------------------------------------------------- emit

SIGNED = st.fixed_dictionaries({}, optional={"thoughtSignature": st.sampled_from(["U2ln", "+/8=", "a"])})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)


@st.composite
def blocks(draw: Any) -> list[Any]:
    """Blocks as this wire makes them: unsigned texts of one kind never stand side by side, ids are unique."""
    made: list[Any] = []
    for number in range(draw(st.integers(0, 5))):
        kind = draw(st.sampled_from(["text", "reasoning", "call", "server", "file", "opaque"]))
        metadata = {**OWN, **draw(SIGNED)}
        if kind in ("text", "reasoning"):
            least = 0 if "thoughtSignature" in metadata else 1
            text = draw(st.text(st.characters(exclude_categories=["Cs"]), min_size=least, max_size=20))
            block = (
                TextBlock(text=text, metadata=metadata)
                if kind == "text"
                else ReasoningBlock(text=text, metadata=metadata)
            )
            if made and made[-1].type == block.type and "thoughtSignature" not in {**made[-1].metadata, **metadata}:
                continue
            made.append(block)
        elif kind == "call":
            if draw(st.booleans()):
                metadata["raw_id"] = f"id{number}"
            parameters = draw(st.dictionaries(st.text(max_size=4), JSON, max_size=2))
            made.append(ToolCallBlock(id=f"c{number}", name="w", parameters=parameters, metadata=metadata))
        elif kind == "server":
            code = {"executableCode": {"id": f"s{number}", "code": "1"}, **draw(SIGNED)}
            result = {"codeExecutionResult": {"id": f"s{number}", "output": "2"}}
            made.append(
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
            made.append(FileBlock(media_type="image/png", data="aGk=", metadata={**OWN, "raw": raw}))
        else:
            made.append(OpaqueBlock(raw={"new": draw(JSON), "more": 1}, metadata=OWN))
    return made


USAGE = st.none() | st.builds(
    Usage,
    input_tokens=st.integers(1, 99),
    output_tokens=st.integers(50, 99),
    reasoning_tokens=st.none() | st.integers(1, 40),
    cache_read_tokens=st.none() | st.integers(1, 99),
)


@settings(deadline=None)
@given(
    blocks(),
    USAGE,
    st.integers(1, 8),
    st.sampled_from([None, "length", "content_filter", "error", "other"]),
    st.booleans(),
)
def test_an_answer_emitted_and_read_is_the_same(
    made: list[Any], usage: Usage | None, piece: int, finish: Any, array: bool
) -> None:
    content = Content(speaker="ai", blocks=made)
    frames: Iterator[bytes] = GEMINI.emit(
        content,
        response_id="r",
        model="m",
        usage=usage,
        finish=finish,
        delta_size=piece,
        framing="json_array" if array else None,
    )
    turn = turn_of(b"".join(frames))
    assert turn.error is None

    def plain(block: Any) -> dict[str, Any]:
        data: dict[str, Any] = block.model_dump()
        return {name: value for name, value in data.items() if not (name == "id" and block.type == "tool_call")}

    assert [plain(block) for block in turn.content.blocks] == [plain(block) for block in made]
    assert (turn.model, turn.response_id) == ("m", "r")
    assert turn.finish is not None
    has_calls = any(isinstance(block, ToolCallBlock) for block in made)
    assert turn.finish.reason == (finish or ("tool_calls" if has_calls else "stop"))
    if usage is None:
        assert turn.usage is None
    else:
        assert turn.usage is not None
        assert [getattr(turn.usage, name) for name in Usage.__struct_fields__[:4]] == [
            getattr(usage, name) for name in Usage.__struct_fields__[:4]
        ]


def test_the_bytes_are_the_wires() -> None:
    content = Content(speaker="ai", blocks=[TextBlock(text="Hello"), ToolCallBlock(id="1", name="w", parameters={})])
    frames = list(GEMINI.emit(content, response_id="r", model="m", usage=Usage(3, 4, 1), delta_size=4))
    assert all(frame.startswith(b"data: {") and frame.endswith(b"}\r\n\r\n") for frame in frames)
    chunks = [json.loads(frame[6:]) for frame in frames]
    kind = importlib.import_module("google.genai.types").GenerateContentResponse
    for one in chunks:
        kind.model_validate(one)
    parts = [one["candidates"][0]["content"]["parts"] for one in chunks]
    assert parts == [[{"text": "Hell"}], [{"text": "o"}], [call(name="w", args={})], [{"text": ""}]]
    assert chunks[0]["usageMetadata"] == {"promptTokenCount": 3}
    assert chunks[-1]["usageMetadata"] == {
        "promptTokenCount": 3,
        "candidatesTokenCount": 3,
        "thoughtsTokenCount": 1,
        "totalTokenCount": 7,
    }
    assert [one["candidates"][0].get("finishReason") for one in chunks] == [None, None, None, "STOP"]
    assert GEMINI.traits.matches_head(frames[0])
    array = list(GEMINI.emit(content, response_id="r", model="m", framing="json_array"))
    assert GEMINI.traits.matches_head(array[0])
    assert len(json.loads(b"".join(array))) == 3


def test_a_scripted_server_tool_is_spoken_as_google_would() -> None:
    block = ServerToolBlock(id="t", name="GOOGLE_SEARCH", arguments={"queries": ["q"]}, result={"x": 1})
    turn = turn_of(b"".join(GEMINI.emit(Content(speaker="ai", blocks=[block]), response_id="r", model="m")))
    (ran,) = turn.server_calls
    assert (ran.id, ran.name, ran.arguments, ran.result) == ("t", "GOOGLE_SEARCH", {"queries": ["q"]}, {"x": 1})


def test_files_that_no_wire_made_are_spoken_too_and_what_cannot_be_is_not() -> None:
    blocks = [
        ImageBlock(data="data:image/png;base64,aGk="),
        FileBlock(media_type="a/b", data="aGk=", metadata={"thoughtSignature": "U2ln"}),
        OpaqueBlock(raw="odd"),
        ToolResponseBlock(call_id="1"),
        ToolCallBlock(id="1", name="sh", kind="custom", parameters="ls"),
        ServerToolBlock(name="GOOGLE_SEARCH"),
    ]
    turn = turn_of(b"".join(GEMINI.emit(Content(speaker="ai", blocks=blocks), response_id="r", model="m")))
    assert [block.type for block in turn.content.blocks] == ["file", "file", "tool_call", "server_tool"]
    assert turn.calls[0].arguments == {"input": "ls"}


@pytest.mark.parametrize(
    ("status", "word"),
    [(400, "INVALID_ARGUMENT"), (429, "RESOURCE_EXHAUSTED"), (418, "INVALID_ARGUMENT"), (502, "INTERNAL")],
)
def test_error_bodies(status: int, word: str) -> None:
    assert GEMINI.error_body(status, "m") == {"error": {"code": status, "message": "m", "status": word}}


# ---------------------------------------------------------------- recorded streams


def test_recorded_answers_are_the_same_when_sent_again() -> None:
    for stream in recorded_streams("gemini"):
        turn = turn_of(stream.data)
        assert turn.error is None
        emitted = GEMINI.emit(turn.content, response_id=turn.response_id or "", model=turn.model or "")
        again = turn_of(b"".join(emitted))
        assert again.text == turn.text
        assert [block.model_dump(exclude={"metadata": {"citations"}}) for block in again.content.blocks] == [
            block.model_dump(exclude={"metadata": {"citations"}}) for block in turn.content.blocks
        ]
        assert GEMINI.traits.matches_head(stream.data[:4096])
