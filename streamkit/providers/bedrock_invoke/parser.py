"""InvokeModelWithResponseStream to Anthropic's events, and those to Anthropic's parser.

A frame ``chunk`` is ``{"bytes": base64 of one event, "p": padding}``, and as boto3 gives it
``{"chunk": {"bytes": b"..."}}``. Events that were unpacked before, and a message that was not streamed, are read as
they are. It knows the wrapping, and nothing of what stands in it.
"""

from __future__ import annotations

from binascii import a2b_base64
from typing import Any

import msgspec
from msgspec import Struct

from streamkit.calls import StreamError
from streamkit.providers import aws_errors
from streamkit.providers.anthropic import parser as anthropic_parser
from streamkit.providers.decoding import excerpt, read_json
from streamkit.providers.provider import Sink, Traits

__all__ = ["BedrockInvokeParser", "create_parser"]


class InvokeChunk(Struct, gc=False):
    """The body of a frame."""

    bytes: Any = None


_decode = msgspec.json.Decoder(InvokeChunk).decode


def create_parser(sink: Sink, traits: Traits) -> BedrockInvokeParser:
    """Return a parser for one turn that reports to ``sink``."""
    return BedrockInvokeParser(sink)


class BedrockInvokeParser:
    """Reads one stream of Anthropic's events in Amazon's frames."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._inner = anthropic_parser.AnthropicParser(sink)
        self._inner_frame = self._inner.frame

    def frame(self, name: bytes, data: bytes) -> None:
        """One frame; without a name, a chunk or an event as JSON."""
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
        """One chunk as boto3 gives it, or one of Anthropic's events, or a whole message."""
        known = False
        for name, body in data.items():
            if name == "chunk" and "type" not in data:
                known = True
                self._unwrap(body)
            elif aws_errors.is_exception(name):
                known = True
                self._sink.fail(aws_errors.to_stream_error(name, body))
        if known:
            return
        failure = aws_errors.failed_body(data)
        if failure is not None:
            self._sink.fail(failure)
        else:
            self._inner.chunk(data)

    def end(self) -> None:
        """The stream is over."""
        self._inner.end()

    def _unwrap(self, body: Any) -> None:
        packed = body.get("bytes") if isinstance(body, dict) else None
        if isinstance(packed, str):
            try:
                packed = a2b_base64(packed)
            except ValueError:
                self._sink.fail(StreamError("protocol_error", "a chunk's bytes are no base64", excerpt(packed)))
                return
        if isinstance(packed, (bytes, bytearray)):
            self._inner_frame(b"", bytes(packed))
        else:
            self._sink.unknown({"chunk": body})

    def _parse_slow(self, name: bytes, data: bytes) -> None:
        failure = aws_errors.failure_of_frame(name, data)
        if failure is not None:
            self._sink.fail(failure)
            return
        try:
            raw = read_json(data) if data else {}
        except RecursionError:
            self._sink.fail(StreamError("limit_exceeded", "a frame's JSON is nested too deeply", excerpt(data)))
            return
        except ValueError as error:
            self._sink.fail(StreamError("protocol_error", f"a frame is no JSON ({error})", excerpt(data)))
            return
        if name == b"chunk":
            self._unwrap(raw)
        elif name:
            self._sink.unknown({name.decode("utf-8", "replace"): raw})
        elif isinstance(raw, dict):
            self.chunk(raw)
        else:
            self._sink.unknown(raw)
