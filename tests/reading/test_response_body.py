"""Bodies of responses: what is not a stream is an error, what arrived at once is a turn."""

from __future__ import annotations

import json
from typing import Any

import pytest
import wire_streams
from wire_streams import HELLO, HTML, chat, chat_bytes, framed, gemini, gemini_array, run

from streamkit.events import Failed

WIRES = ["openai_chat", "anthropic", "gemini"]
each_wire = pytest.mark.parametrize("wire", WIRES)


def kinds(inputs: list[bytes], provider: str = "openai_chat", **options: Any) -> tuple[Any, ...]:
    """Return the kind, message and raw value of the turn's error."""
    error = run(provider, inputs, **options)[0].error
    return (None, None, None) if error is None else (error.kind, error.message, error.raw)


# ---------------------------------------------------------------- bodies that are not streams


@each_wire
def test_an_html_page_is_a_protocol_error(wire: str) -> None:
    for inputs in wire_streams.cuts(HTML):
        kind, message, raw = kinds(inputs, wire)
        assert kind == "protocol_error"
        assert "HTML" in message
        assert raw.startswith("<!DOCTYPE html>")


@each_wire
@pytest.mark.parametrize("size", [1023, 1024, 1025, 5000])
def test_white_space_before_a_body_has_one_meaning_at_every_cut(wire: str, size: int) -> None:
    body = b" " * size + json.dumps({"error": {"message": "No such model", "code": 404}}).encode()
    expected = ("provider_error", "No such model") if size < 1024 else ("stream_truncated", "the body is empty")
    for inputs in [*wire_streams.cuts(body), [body[:size], body[size:]], [body[:1024], body[1024:]]]:
        assert kinds(inputs, wire)[:2] == expected


@each_wire
def test_an_error_body_is_a_provider_error(wire: str) -> None:
    body = json.dumps({"error": {"message": "No such model", "type": "not_found", "code": 404}}).encode()
    for inputs in [*wire_streams.cuts(body), [json.loads(body)]]:
        kind, message, raw = kinds(inputs, wire)
        assert (kind, message) == ("provider_error", "No such model")
        assert raw["type"] == "not_found"


@each_wire
@pytest.mark.parametrize("body", [b'{"detail":"Not Found"}', b'[{"x":1}]', b'{"models":[]}'])
def test_another_json_document_is_a_protocol_error(wire: str, body: bytes) -> None:
    for inputs in wire_streams.cuts(body):
        kind, _, raw = kinds(inputs, wire)
        assert kind == "protocol_error"
        assert raw == body.decode()


@each_wire
def test_plain_text_is_a_protocol_error(wire: str) -> None:
    for inputs in wire_streams.cuts(b"no healthy upstream"):
        assert kinds(inputs, wire)[::2] == ("protocol_error", "no healthy upstream")


@each_wire
def test_the_beginning_of_a_foreign_body_is_in_the_error(wire: str) -> None:
    kind, _, raw = kinds([b"<html>" + b"x" * 5000], wire)
    assert kind == "protocol_error"
    assert len(raw) <= 1024
    assert raw.startswith("<html>xxx")


@each_wire
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf", b"\n  "])
def test_the_beginning_of_a_foreign_body_is_the_same_however_the_body_is_cut(wire: str, start: bytes) -> None:
    body = start + b"y " * 600  # a cut of the excerpt is next to a space
    whole = kinds([body], wire)
    for cut in (1, 500, 1022, 1023, 1024, 1025, 1026, 1027, 1028):
        assert kinds([body[:cut], body[cut:]], wire) == whole


@each_wire
@pytest.mark.parametrize("inputs", [[], [b""], [b"\n\n"], [b"\xef\xbb\xbf"], [b": one\n\n: two\n\n"], [b"  "]])
def test_an_empty_body_is_truncated(wire: str, inputs: list[bytes]) -> None:
    turn, seen = run(wire, inputs)
    assert turn.error is not None
    assert turn.error.kind == "stream_truncated"
    assert [type(event) for event in seen] == [Failed]


@each_wire
def test_no_recognized_dict_is_an_error(wire: str) -> None:
    turn, _ = run(wire, [])
    assert turn.error is not None
    assert run(wire, [{"x": 1}])[0].error.kind == "protocol_error"  # type: ignore[union-attr]


def test_an_empty_iterator_is_an_empty_body() -> None:
    turn, _ = run("openai_chat", [], complete=True)
    assert turn.error is not None
    assert turn.error.kind == "stream_truncated"


def test_an_incomplete_document_is_truncated() -> None:
    assert kinds([b'{"id":"chatcmpl-1","choices":[{"ind'])[0] == "stream_truncated"


@each_wire
def test_one_recognized_frame_identifies_the_wire(wire: str) -> None:
    odd = [{"type": "vendor_thing", "n": n} for n in range(9)]
    for inputs in wire_streams.cuts(framed(wire, [*odd, HELLO[wire][0], *odd, *HELLO[wire][1:]])):
        turn, _ = run(wire, inputs)
        assert turn.error is None
        assert turn.text == "Hello"


def test_a_recognized_chunk_with_unknown_fields_is_recognized() -> None:
    """Several unknown fields in one chunk do not count as several unknown chunks."""
    audio = {"audio": {"data": "AA=="}}
    chunks = [
        chat({"role": "assistant", "content": "Hi"}),
        {**chat(), "choices": [{"index": n, "delta": audio, "finish_reason": "stop"} for n in range(3)]},
    ]
    for inputs in [*wire_streams.cuts(chat_bytes(chunks, done=False)), chunks]:
        turn, _ = run("openai_chat", inputs)
        assert turn.error is None
        assert turn.text == "Hi"


def test_a_complete_message_with_an_unknown_block_is_recognized() -> None:
    body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": [5, {"type": "text", "text": "Hi"}],
        "stop_reason": "end_turn",
    }
    for inputs in [*wire_streams.cuts(json.dumps(body).encode()), [body]]:
        turn, _ = run("anthropic", inputs)
        assert turn.error is None
        assert turn.text == "Hi"


# ---------------------------------------------------------------- complete bodies

CHAT_BODY = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "m-1",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "Hi",
                "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}],
            },
            "finish_reason": "tool_calls",
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 4},
}
ANTHROPIC_BODY = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m-1",
    "content": [{"type": "text", "text": "Hi"}, {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}}],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 3, "output_tokens": 4},
}
GEMINI_BODY = gemini(
    {"text": "Hi"},
    {"functionCall": {"id": "a", "name": "f", "args": {"x": 1}}},
    finish="STOP",
    usageMetadata={"promptTokenCount": 3, "candidatesTokenCount": 4},
)


@pytest.mark.parametrize(
    ("wire", "body"), [("openai_chat", CHAT_BODY), ("anthropic", ANTHROPIC_BODY), ("gemini", GEMINI_BODY)]
)
def test_a_body_that_was_not_streamed_is_read_as_a_turn(wire: str, body: dict[str, Any]) -> None:
    input_kinds = [*wire_streams.cuts(json.dumps(body, indent=1).encode()), [body]]
    if wire == "gemini":
        input_kinds += wire_streams.cuts(gemini_array([body]))
    for inputs in input_kinds:
        turn, _ = run(wire, inputs)
        assert turn.error is None
        assert turn.text == "Hi"
        assert [(call.raw_id, call.name, call.arguments) for call in turn.executable] == [("a", "f", {"x": 1})]
        assert turn.finish is not None
        assert turn.finish.reason == "tool_calls"
        assert turn.usage is not None
        assert (turn.usage.input_tokens, turn.usage.output_tokens) == (3, 4)


@each_wire
def test_an_array_of_chunks_is_read_as_a_stream(wire: str) -> None:
    for inputs in wire_streams.cuts(gemini_array(HELLO[wire])):
        turn, _ = run(wire, inputs)
        assert turn.text == "Hello"
        assert turn.error is None
