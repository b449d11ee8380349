"""Which wire the first bytes of a body belong to; ``None`` where they do not tell, never a wrong one."""

from __future__ import annotations

import json
from typing import Any

import pytest
import wire_streams
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_data import recorded_streams

from streamkit import detect, providers

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


def test_recorded_streams_are_told_from_their_first_bytes() -> None:
    detected: dict[str, int] = {}
    for stream in recorded_streams():
        if stream.path.name.endswith(".decoded.jsonl"):
            continue
        found = detect(stream.data[:HEAD])
        assert found is None or type(providers.get(found)) is type(providers.get(stream.provider)), stream
        detected[stream.provider] = detected.get(stream.provider, 0) + (found is not None)
    # Perplexity's first chunk says of itself only behind its sources, far from the beginning
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
def test_chat_is_told_however_it_begins(data: bytes) -> None:
    assert detect(data) == "openai_chat"


WORDS = 'It is "object":"chat.completion.chunk" with "choices":[{"delta":{}}].'


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n\n",
        b": OPENROUTER PROCESSING\n\n",
        b"data: [DONE]\n\n",
        b"data: {\n\n",
        b"data: " + WORDS.encode() + b"\n\n",
        WORDS.encode(),
        b"<html>" + WORDS.encode(),
        _event({"text": WORDS}),
        _event([CHUNK]),
        _event(WORDS),
        json.dumps({"text": WORDS}).encode(),
        json.dumps({"error": {"message": WORDS}}).encode(),
        json.dumps([CHUNK]).encode(),
        b"event: chunk\n" + _event(CHUNK),
        _event({"object": "text_completion", "choices": [{"index": 0, "text": "Hi"}]}),
        _event({"choices": ["Hi"]}),
        _event({"choices": {"delta": 1}}),
    ],
)
def test_words_of_chat_in_something_else_do_not_make_it_chat(data: bytes) -> None:
    assert detect(data) != "openai_chat"


@pytest.mark.parametrize("provider", ["anthropic", "gemini", "openai_responses"])
def test_other_wires_whose_text_speaks_of_chat_keep_their_name(provider: str) -> None:
    chunks: list[dict[str, Any]] = {
        "anthropic": [wire_streams.message_start(), *wire_streams.block(0, {"type": "text", "text": WORDS})],
        "gemini": [wire_streams.gemini({"text": WORDS})],
        "openai_responses": [
            {"type": "response.created", "response": {"id": "r", "object": "response", "note": WORDS}}
        ],
    }[provider]
    assert detect(wire_streams.framed(provider, chunks)) in (provider, None)


@settings(deadline=None)
@given(st.binary(max_size=64) | st.text(max_size=64).map(str.encode) | st.sampled_from([b"data: ", b"{", b"[", b": "]))
def test_no_bytes_raise(data: bytes) -> None:
    for begun in (data, b"data: " + data, b"data: {" + data, b'{"choices":[' + data):
        assert detect(begun) in (None, *providers.names())


@settings(deadline=None)
@given(st.integers(0, 200), st.integers(1, 80))
def test_a_head_that_is_cut_is_never_told_wrong(cut: int, size: int) -> None:
    data = _event({"id": "x" * size, **_without("id")})
    assert detect(data[:cut]) in (None, "openai_chat")
