"""The parser of InvokeModelWithResponseStream: Anthropic's events in Amazon's frames.

A frame ``chunk`` is ``{"bytes": base64 of one event, "p": padding}``, and as boto3 yields it
``{"chunk": {"bytes": b"..."}}``. Events that are already unpacked, and a message that was not streamed, are read
directly. This module unpacks events and passes them to Anthropic's parser; it must not depend on their contents.
"""

from __future__ import annotations

from binascii import a2b_base64
from typing import Any

import msgspec
from msgspec import Struct

from streamkit.calls import StreamError
from streamkit.providers.anthropic import parser as anthropic_parser
from streamkit.providers.decoding.decoding import excerpt
from streamkit.providers.provider import Sink, Traits
from streamkit.providers.writing import aws_frames

__all__ = ["BedrockInvokeParser", "create_parser"]


class InvokeChunk(Struct, gc=False):
    """The body of a frame."""

    bytes: Any = None


_decode = msgspec.json.Decoder(InvokeChunk).decode


def create_parser(sink: Sink, traits: Traits) -> BedrockInvokeParser:
    """Return a parser for one turn that reports to ``sink``."""
    return BedrockInvokeParser(sink)


class BedrockInvokeParser:
    """A parser of one stream of Anthropic's events in Amazon's frames."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._inner = anthropic_parser.AnthropicParser(sink)
        self._inner_frame = self._inner.frame

    def frame(self, name: bytes, data: bytes) -> None:
        """Read one frame; one without a name is a chunk or an event as JSON."""
        if name == b"chunk":
            try:
                event = a2b_base64(_decode(data).bytes)
            except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
                self._parse_slow(name, data)
            else:
                self._inner_frame(b"", event)
        else:
            self._parse_slow(name, data)

    def chunk(self, data: dict[str, Any]) -> None:
        """Read one chunk as boto3 yields it, one of Anthropic's events, or a complete message."""
        is_frame = False
        for name, body in data.items():
            if name == "chunk" and "type" not in data:
                is_frame = True
                self._unpack(body)
            elif aws_frames.is_exception(name):
                is_frame = True
                self._sink.fail(aws_frames.exception_to_error(name, body))
        if is_frame:
            return
        error = aws_frames.error_of_body(data)
        if error is not None:
            self._sink.fail(error)
        else:
            self._inner.chunk(data)

    def end(self) -> None:
        """Finalize the blocks that have no stop event when the stream ends."""
        self._inner.end()

    def _unpack(self, body: Any) -> None:
        packed = body.get("bytes") if isinstance(body, dict) else None
        if isinstance(packed, str):
            try:
                packed = a2b_base64(packed)
            except ValueError:
                self._sink.fail(
                    StreamError("protocol_error", "a chunk's bytes are not valid base64", raw=excerpt(packed))
                )
                return
        if isinstance(packed, (bytes, bytearray)):
            self._inner_frame(b"", bytes(packed))
        else:
            self._sink.unknown({"chunk": body})

    def _parse_slow(self, name: bytes, data: bytes) -> None:
        raw, error = aws_frames.read_frame(name, data)
        if error is not None:
            self._sink.fail(error)
        elif name == b"chunk":
            self._unpack(raw)
        elif name:
            self._sink.unknown({name.decode("utf-8", "replace"): raw})
        elif isinstance(raw, dict):
            self.chunk(raw)
        else:
            self._sink.unknown(raw)
