"""Chunks as the bytes of a provider's wire, by its declared traits."""

from __future__ import annotations

import json
from typing import Any

import pytest
import third_party_provider

from streamkit import Content, providers
from streamkit.framing import framer_for
from streamkit.history import ToolCallBlock
from streamkit.providers.provider import Traits
from streamkit.testing.case import encode_stream

CHUNKS = [{"type": "first", "n": 1}, {"type": "last", "text": "é"}]


@pytest.mark.parametrize(
    ("provider", "framed"),
    [
        ("openai_chat", 'data: {"type":"first","n":1}\n\ndata: {"type":"last","text":"é"}\n\ndata: [DONE]\n\n'),
        (
            "anthropic",
            'event: first\ndata: {"type":"first","n":1}\n\nevent: last\ndata: {"type":"last","text":"é"}\n\n',
        ),
        ("gemini", 'data: {"type":"first","n":1}\r\n\r\ndata: {"type":"last","text":"é"}\r\n\r\n'),
        (third_party_provider.PROVIDER, '{"type":"first","n":1}\n{"type":"last","text":"é"}\n'),
    ],
)
def test_chunks_are_framed_by_the_traits_of_the_provider(provider: Any, framed: str) -> None:
    traits = providers.get(provider).traits
    assert encode_stream(CHUNKS, traits, end_marker=traits.end_marker) == framed.encode()


@pytest.mark.parametrize(
    ("framing", "framed"),
    [("sse", b'data: {"a":1}\n\ndata: {"b":2}\n\n'), ("json_array", b'[{"a":1}\n,\r\n{"b":2}\n]\n')],
)
def test_the_defaults_are_the_plain_form_of_a_framing(framing: Any, framed: bytes) -> None:
    assert encode_stream([{"a": 1}, {"b": 2}], Traits(name="plain", framing=framing)) == framed


def read_frames(data: bytes, traits: Traits) -> list[tuple[bytes, Any]]:
    """Return the name and the payload of every frame; the end marker unparsed."""
    framer = framer_for(traits.framing)
    return [
        (name, payload if payload == (traits.end_marker or "").encode() else json.loads(payload))
        for name, payload in [*framer.feed(data), *framer.close()]
    ]


@pytest.mark.parametrize("name", providers.names())
def test_the_encoder_of_a_provider_writes_frames_as_its_traits_declare_them(name: str) -> None:
    provider = providers.get(name)
    traits = provider.traits
    content = Content.ai("Hello.", ToolCallBlock(id="call_1", name="look", parameters={"at": "é"}))
    written = b"".join(provider.emit(content, response_id="r-1", model="m-1"))
    frames = [
        (frame_name, payload)
        for frame_name, payload in framer_for(traits.framing).feed(written)
        if payload != (traits.end_marker or "").encode()
    ]
    chunks = [json.loads(payload) for _, payload in frames]
    if traits.framing == "event_stream" and traits.wrapper_event is None:
        chunks = [{frame_name.decode(): chunk} for (frame_name, _), chunk in zip(frames, chunks, strict=True)]
    if traits.wrapper_event is not None:
        assert {frame_name.decode() for frame_name, _ in frames} == {traits.wrapper_event}
        return  # the chunk is inside of the frame, with padding next to it
    encoded = encode_stream(chunks, traits, end_marker=traits.end_marker)
    assert read_frames(encoded, traits) == read_frames(written, traits)
    assert (b"\r\n" in written) == (b"\r\n" in encoded)
