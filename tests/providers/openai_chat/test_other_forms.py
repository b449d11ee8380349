"""Chunks of gateways that have another form. The conformance cases cover what vendors send."""

from __future__ import annotations

from typing import Any

import pytest
from wire_streams import Chunk, chat, run

PART = {"choices": [{"delta": {"type": "text", "content": "On", "content_list": [{"type": "text", "text": "On"}]}}]}


@pytest.mark.parametrize(
    "chunk",
    [
        {"data": []},
        {"data": {"choices": 5}},
        {"data": {"data": {"choices": [{"index": 0, "delta": {"content": "no"}}]}}},
        {"result": None},
        {"result": {"response": "no", "created_at": "of another wire"}},
        {"response": {"id": "resp_1"}, "type": "response.created"},
        {"response": "no", "model": "llama3", "done": False},
    ],
    ids=lambda chunk: ",".join(chunk),
)
def test_a_chunk_of_no_known_form_is_unknown(chunk: Chunk) -> None:
    turn, seen = run("openai_compatible", [chat({"content": "On"}), chunk, chat({}, "stop")], complete=True)
    assert turn.error is None
    assert turn.text == "On"
    assert [event.raw for event in seen if type(event).__name__ == "Unknown"] == [chunk]


@pytest.mark.parametrize("value", [None, 5, "x", [], [5], [{"type": "tool_use"}], {"a": 1}])
@pytest.mark.parametrize("field", ["content_list", "tool_use_id", "name", "input", "type"])
def test_parts_of_any_type_never_raise(field: str, value: Any) -> None:
    for kind in ("text", "tool_use"):
        for place in ("delta", "message"):
            part = {"type": kind, "content_list": [], field: value}
            chunks: list[Any] = [PART, {"choices": [{place: part}, 5], "usage": value}]
            turn, _ = run("openai_compatible", chunks, complete=True)
            assert turn.text == "On"


def test_the_text_of_a_response_with_a_schema_is_its_object() -> None:
    for response, text in (({"to": "Voss"}, '{"to":"Voss"}'), ([1], "[1]"), (0.5, "0.5"), (True, "true"), (None, "")):
        turn, _ = run("openai_compatible", [{"result": {"response": response}, "success": True}])
        assert turn.error is None
        assert turn.text == text


def test_counts_in_every_chunk_are_no_end_of_a_stream_of_parts() -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    turn, _ = run("openai_compatible", [{**PART, "usage": usage}, {**PART, "usage": usage}])
    assert turn.text == "OnOn"
    assert turn.error is not None
    assert turn.error.kind == "stream_truncated"


def test_text_after_the_end_of_a_stream_of_parts_is_not_read() -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    turn, _ = run("openai_compatible", [{**PART, "usage": {}}, {**PART, "usage": usage}, {**PART, "usage": {}}])
    assert (turn.done, turn.error, turn.text) == (True, None, "OnOn")
