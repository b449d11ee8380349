"""`detect` returns the provider of a body's first bytes, or None if it is ambiguous, but never a wrong one."""

from __future__ import annotations

import json
from typing import Any

import pytest
import wire_streams
from hypothesis import given
from hypothesis import strategies as st
from shared_data import recorded_streams

from streamkit import UsageError, detect, providers
from streamkit.json_text import reader
from streamkit.providers.decoding import decoding, detection

HEAD = 512

CHUNK = {
    "id": "c",
    "object": "chat.completion.chunk",
    "choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": None}],
}


def _event(chunk: Any) -> bytes:
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def _without(name: str) -> dict[str, Any]:
    return {key: value for key, value in CHUNK.items() if key != name}


def test_detect_recognizes_recorded_streams_by_their_first_bytes() -> None:
    detected: dict[str, int] = {}
    for stream in recorded_streams():
        if stream.path.name.endswith(".decoded.jsonl"):
            continue
        name = detect(stream.data[:HEAD])
        assert name is None or type(providers.get(name)) is type(providers.get(stream.provider)), stream
        detected[stream.provider] = detected.get(stream.provider, 0) + (name is not None)
    # Perplexity's first chunk identifies itself only after its sources, far from the beginning
    assert {provider for provider, count in detected.items() if not count} <= {"perplexity"}


@pytest.mark.parametrize(
    "data",
    [
        _event(CHUNK),
        _event(_without("object")),
        _event(_without("choices")),
        b"\xef\xbb\xbf" + _event(CHUNK),
        b"\n\r\n \n" + _event(CHUNK),
        b": OPENROUTER PROCESSING\n\n" * 5 + _event(CHUNK),
        b"retry: 100\nid: 7\n" + _event(CHUNK),
        _event(CHUNK).replace(b"\n", b"\r\n"),
        _event(CHUNK).replace(b"\n", b"\r"),
        b"data:" + json.dumps(CHUNK, indent=1).replace("\n", "\ndata:").encode() + b"\n\n",
        _event({}) + _event({"choices": []}) + _event(CHUNK),
        _event({"id": "", "object": "", "choices": [], "prompt_filter_results": []}),
        _event(CHUNK)[:50],
        _event({"choices": [{"delta": {"content": "Hi"}}]})[:30],
        json.dumps({"object": "chat.completion", "choices": [{"message": {}}]}).encode(),
        json.dumps({"id": "c", "object": "chat.completion", "choices": []}, indent=2).encode()[:50],
        json.dumps({"choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]}).encode(),
    ],
)
def test_detect_recognizes_every_start_of_a_chat_stream(data: bytes) -> None:
    assert detect(data) == "openai_chat"


CHAT_TEXT = 'It is "object":"chat.completion.chunk" with "choices":[{"delta":{}}].'


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n\n",
        b": OPENROUTER PROCESSING\n\n",
        b"data: [DONE]\n\n",
        b"data: {\n\n",
        b"data: " + CHAT_TEXT.encode() + b"\n\n",
        CHAT_TEXT.encode(),
        b"<html>" + CHAT_TEXT.encode(),
        _event({"text": CHAT_TEXT}),
        _event([CHUNK]),
        _event(CHAT_TEXT),
        json.dumps({"text": CHAT_TEXT}).encode(),
        json.dumps({"error": {"message": CHAT_TEXT}}).encode(),
        json.dumps([CHUNK]).encode(),
        b"event: chunk\n" + _event(CHUNK),
        _event({"object": "text_completion", "choices": [{"index": 0, "text": "Hi"}]}),
        _event({"choices": ["Hi"]}),
        _event({"choices": {"delta": 1}}),
    ],
)
def test_detect_ignores_chat_fields_inside_other_data(data: bytes) -> None:
    assert detect(data) != "openai_chat"


@pytest.mark.parametrize("provider", ["anthropic", "gemini", "openai_responses"])
def test_detect_ignores_chat_fields_in_the_text_of_other_wires(provider: str) -> None:
    chunks: list[dict[str, Any]] = {
        "anthropic": [wire_streams.message_start(), *wire_streams.block(0, {"type": "text", "text": CHAT_TEXT})],
        "gemini": [wire_streams.gemini({"text": CHAT_TEXT})],
        "openai_responses": [
            {"type": "response.created", "response": {"id": "r", "object": "response", "note": CHAT_TEXT}}
        ],
    }[provider]
    assert detect(wire_streams.framed(provider, chunks)) in (provider, None)


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({"error": {"message": "No.", "type": "invalid_request_error", "param": None, "code": None}}, None),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "anthropic"),
        ({"error": {"code": 429, "message": "No.", "status": "RESOURCE_EXHAUSTED"}}, "gemini"),
        ({"error": "model not found"}, None),
        ({"message": "invalid api token"}, None),
        ({"detail": "Not Found"}, None),
    ],
)
def test_an_error_body_has_a_provider_only_by_its_shape(body: Any, name: str | None) -> None:
    assert detect(json.dumps(body).encode()) == name
    assert detect(json.dumps(body, indent=2).encode()) == name


@pytest.mark.parametrize(
    "data",
    [
        _event(CHUNK) * 100,
        json.dumps({"object": "chat.completion", "choices": [{"message": {"content": "x" * 9000}}]}).encode(),
        b'{"model":"m","created_at":"x","message":{"content":"a"},"done":false}\n' * 100,
        wire_streams.framed("anthropic", [wire_streams.message_start()]) * 100,
        wire_streams.framed("gemini", [wire_streams.gemini({"text": "x" * 9000})]),
        wire_streams.framed("bedrock_converse", [{"messageStart": {"role": "assistant"}}]) * 100,
    ],
)
def test_detection_decodes_a_chunk_once_for_all_providers(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []

    def count(decode: Any) -> Any:
        def counting(payload: Any) -> Any:
            decoded.append(payload)
            return decode(payload)

        return counting

    monkeypatch.setattr(detection, "read_json", count(decoding.read_json))
    monkeypatch.setattr(reader, "parse_partial_object", count(reader.parse_partial_object))
    assert detect(data) is not None
    assert len(decoded) == 1
    assert len(decoded[0]) <= detection.HEAD_SIZE
    decoded.clear()
    assert detect(b"data: {}\n\n" * 5000) is None
    assert 0 < len(decoded) <= detection.MOST_CHUNKS


@given(st.binary(max_size=64) | st.text(max_size=64).map(str.encode) | st.sampled_from([b"data: ", b"{", b"[", b": "]))
def test_detect_never_raises(data: bytes) -> None:
    for start in (data, b"data: " + data, b"data: {" + data, b'{"choices":[' + data):
        assert detect(start) in (None, *providers.names())


@given(st.integers(0, 200), st.integers(1, 80))
def test_detect_returns_no_wrong_name_for_a_truncated_head(length: int, size: int) -> None:
    data = _event({"id": "x" * size, **_without("id")})
    assert detect(data[:length]) in (None, "openai_chat")


@pytest.mark.parametrize("data", ["data: {}", {"choices": []}, None, 5])
def test_detect_rejects_what_is_no_bytes(data: Any) -> None:
    with pytest.raises(UsageError, match=rf"takes the first bytes of a response, undecoded, not {type(data).__name__}"):
        detect(data)
    assert detect(bytearray(_event(CHUNK))) == detect(memoryview(_event(CHUNK))) == "openai_chat"
