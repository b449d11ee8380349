"""The bytes of one response until it is plain what they are, and what they were where they are not this wire's.

It chooses the framer by the first byte that says something, keeps the beginning for an error to show, and judges the
end: an empty body, half a frame, a page or a document instead of a stream. It knows framings, and no vendor.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from streamkit.calls import StreamError
from streamkit.framing import Frame, Framer, framer_for
from streamkit.providers.decoding import error_message, excerpt, read_json
from streamkit.providers.provider import Framing

__all__ = ["ResponseBody", "failed_response", "retry_after"]

_HEAD = 1024  # bytes of a body that is not understood which go into the error
_ERROR_BODY = 65536  # bytes of a failed response's body that are read
_BOM = b"\xef\xbb\xbf"


class ResponseBody:
    """The bytes of a response."""

    __slots__ = ("_framing", "_limit", "failed", "framer", "frames", "head", "is_recognized")

    def __init__(self, framing: Framing, limit: int, *, failed: bool) -> None:
        self._framing = framing
        self._limit = limit
        self.failed = failed  # the status says that this is an error's body: it is kept and not read
        self.framer: Framer | None = None
        self.frames = 0  # frames given, as far as they were counted
        self.is_recognized = False  # something was of this wire
        self.head = b""

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that these bytes complete."""
        if self.failed:
            self.head += data[: _ERROR_BODY - len(self.head)]
            return []
        if self.framer is None:
            self.head += data
            if not self._choose_framer():
                return []
            data = self.head
        elif len(self.head) < _HEAD:
            self.head += data[: _HEAD - len(self.head)]
        frames: list[Frame] = self.framer.feed(data) if self.framer is not None else []
        self.frames += len(frames)
        return frames

    def _choose_framer(self) -> bool:
        start = self.head.removeprefix(_BOM).lstrip()
        if (not start or _BOM.startswith(self.head)) and len(self.head) < _HEAD:
            return False
        framing = self._framing
        if (framing != "ndjson" and start[:1] in (b"{", b"[")) or start[:1] == b"[":
            framing = "json_array"  # one JSON document, or an array of chunks, instead of a stream
        self.framer = framer_for(framing, limit=self._limit)
        return True

    def end(self) -> list[Frame]:
        """The frames that the end of the input completes."""
        frames: list[Frame] = self.framer.close() if self.framer is not None else []
        self.frames += len(frames)
        return frames

    def diagnose(self) -> StreamError | None:
        """What was wrong with the body as a whole, once it has ended."""
        pending = self.framer.pending.strip() if self.framer is not None else b""
        half_document = pending[:1] in (b"{", b"[")
        if self.is_recognized:
            if half_document or (pending and self._framing != "sse"):
                return StreamError("stream_truncated", "the stream ended inside a frame", excerpt(pending))
            return None
        head = self.head.removeprefix(_BOM).strip()[:_HEAD]
        if not head:
            return StreamError("stream_truncated", "the body is empty")
        if not self.frames and half_document:
            return StreamError("stream_truncated", "the body ended inside a JSON document", excerpt(head))
        if not self.frames and pending[:1] == b"\0" and self.framer is not None and self.framer.error is None:
            # A binary frame begins with its length, and text never so.
            return StreamError("stream_truncated", "the body ended inside its first frame", excerpt(head))
        if not self.frames and not pending:
            return StreamError("stream_truncated", "the body holds no event", excerpt(head))
        return StreamError("protocol_error", _what_it_is(head), excerpt(head))


def _what_it_is(head: bytes) -> str:
    if head[:1] == b"<":
        return "an HTML or XML page came instead of a stream"
    if head[:1] in (b"{", b"["):
        return "a JSON document of another kind came instead of a stream"
    return "the body is no stream of this wire"


def failed_response(body: bytes, status: int, wait: float | None) -> StreamError:
    """A failed response as the provider's error, with what its body says."""
    raw: Any = excerpt(body) or None
    with suppress(ValueError, RecursionError):
        raw = read_json(body)
    return StreamError("provider_error", error_message(raw) or f"HTTP status {status}", raw, status, wait)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds, where a header gives them. A date would need a clock, which there is none here."""
    for name, value in headers.items():
        scale = {"retry-after": 1.0, "retry-after-ms": 0.001}.get(name.lower())
        if scale is not None and value.strip().replace(".", "", 1).isdecimal():
            return float(value) * scale
    return None
