"""Gemini through ``Turn``: calls, signatures, framings and input kinds."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest

from streamkit import providers
from streamkit.reading.turn import Turn

GEMINI = providers.get("gemini")

OWN = {"provider": "gemini", "model": "m"}


def read_turn(*inputs: Any, complete: bool = False) -> Turn:
    turn = Turn("gemini", "key")
    for data in inputs:
        turn.feed(data)
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
    return [(call.name, call.state, call.arguments) for call in turn.calls]


# ---------------------------------------------------------------- calls


def test_calls_of_one_name_without_ids_are_separate() -> None:
    turn = read_turn(
        sse(
            chunk(call(name="w", args={"city": "Paris"})),
            chunk(call(name="w", args={"city": "Oslo"})),
            chunk(finish="STOP"),
        )
    )
    assert states(turn) == [("w", "complete", {"city": "Paris"}), ("w", "complete", {"city": "Oslo"})]
    assert len({call.id for call in turn.executable}) == 2
    assert turn.finish is not None
    assert (turn.finish.reason, turn.finish.raw) == ("tool_calls", "STOP")


def test_a_call_sent_again_under_its_id_does_not_change_the_call_that_is_ready() -> None:
    first, again = call(name="w", args={"n": 1}, id="x"), call(name="w", args={"n": 2}, id="x")
    turn = read_turn(sse(chunk(first), chunk(again, finish="STOP")))
    assert states(turn) == [("w", "complete", {"n": 1})]
    assert [warning.code for warning in turn.warnings] == ["late_arguments"]


def stream_call(*endings: dict[str, Any]) -> bytes:
    fragment = {"jsonPath": "$.city", "stringValue": "Par", "willContinue": True}
    return sse(
        chunk(call(name="w", willContinue=True)),
        chunk(call(partialArgs=[fragment], willContinue=True)),
        chunk(call(partialArgs=[{"jsonPath": "$.city", "stringValue": "is"}], willContinue=True)),
        *endings,
    )


def test_streamed_arguments_are_complete_at_the_end_of_the_call_or_the_finish() -> None:
    for ending in ([chunk(call()), chunk(finish="STOP")], [chunk(call(), finish="STOP")], [chunk(finish="STOP")]):
        turn = read_turn(stream_call(*ending))
        assert states(turn) == [("w", "complete", {"city": "Paris"})]
        assert turn.executable[0].arguments_text == '{"city":"Paris"}'
        assert turn.warnings == []


def test_truncated_streamed_arguments_are_incomplete() -> None:
    turn = read_turn(stream_call(chunk(finish="MAX_TOKENS")))
    assert states(turn) == [("w", "incomplete", None)]
    assert turn.executable == []
    turn = read_turn(sse(chunk(call(name="w", willContinue=True)), chunk(finish="MAX_TOKENS")))
    assert states(turn) == [("w", "incomplete", None)]
    turn = read_turn(stream_call())
    assert states(turn) == [("w", "incomplete", None)]
    assert turn.error is not None
    assert turn.error.kind == "stream_truncated"


def test_arguments_with_a_gap_in_an_array_are_not_executable() -> None:
    fragment = {"jsonPath": "$.list[2]", "stringValue": "x"}
    turn = read_turn(
        sse(chunk(call(name="w", willContinue=True)), chunk(call(partialArgs=[fragment])), chunk(call(), finish="STOP"))
    )
    assert states(turn) == [("w", "incomplete", None)]
    assert "arguments_unknown" in [warning.code for warning in turn.warnings]


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "SAFETY", "UNEXPECTED_TOOL_CALL"])
def test_no_call_is_executable_after_an_error_or_filter_finish(reason: str) -> None:
    turn = read_turn(sse(chunk(call(name="w", args={}), finish=reason)))
    assert turn.error is None
    assert turn.executable == []


def test_the_signature_of_each_part_is_kept_in_content() -> None:
    turn = read_turn(
        sse(
            chunk({"text": "Looking", "thoughtSignature": "S0"}),
            chunk({"text": " on"}, {"text": "."}),
            chunk({**call(name="w", args={}), "thoughtSignature": "S1"}),
            chunk({"text": "", "thoughtSignature": "S2"}, finish="STOP"),
        )
    )
    blocks = [
        (block.type, getattr(block, "text", None), block.metadata.get("thoughtSignature"))
        for block in turn.content.blocks
    ]
    assert blocks == [
        ("text", "Looking", "S0"),
        ("text", " on.", None),
        ("tool_call", None, "S1"),
        ("text", "", "S2"),
    ]
    (model,) = GEMINI.render([turn.content]).messages
    assert [part.get("thoughtSignature") for part in model["parts"]] == ["S0", None, "S1", "S2"]


# ---------------------------------------------------------------- framings and input kinds


def test_the_array_framing_gives_the_same_turn() -> None:
    chunks = [chunk({"text": "a"}), chunk(call(name="w", args={}), finish="STOP")]
    as_array = json.dumps(chunks, indent=2).encode()
    assert read_turn(as_array).to_dict() == read_turn(sse(*chunks)).to_dict() == read_turn(*chunks).to_dict()
    assert read_turn(*[as_array[at : at + 1] for at in range(len(as_array))]).to_dict() == read_turn(as_array).to_dict()


@pytest.mark.parametrize("array", [False, True])
def test_an_error_body_is_a_provider_error(array: bool) -> None:
    error = {"code": 400, "message": "Bad.", "status": "INVALID_ARGUMENT"}
    turn = read_turn(json.dumps([{"error": error}] if array else {"error": error}).encode())
    assert turn.error is not None
    assert (turn.error.kind, turn.error.message, turn.error.status) == ("provider_error", "Bad.", 400)


def test_an_error_within_the_stream_keeps_the_text_before_it() -> None:
    turn = read_turn(
        sse(chunk({"text": "a"}), {"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}})
    )
    assert turn.text == "a"
    assert turn.error is not None
    assert turn.error.kind == "provider_error"


def test_objects_of_the_sdk_give_the_same_turn() -> None:
    response_type = importlib.import_module("google.genai.types").GenerateContentResponse
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
    objects = [response_type.model_validate(data) for data in chunks]
    expected = read_turn(sse(*chunks))
    for inputs in (
        objects,
        [response.model_dump() for response in objects],
        [response.model_dump(exclude_none=True) for response in objects],
    ):
        turn = read_turn(*inputs)
        data, expected_data = turn.to_dict(), expected.to_dict()
        data["usage"].pop("raw")
        expected_data["usage"].pop("raw")
        assert data == expected_data
        assert [block.model_dump() for block in turn.content.blocks] == [
            block.model_dump() for block in expected.content.blocks
        ]
