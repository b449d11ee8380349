"""The body of one response: the choice of its framer, and the diagnosis of a body that is not this wire's stream.

``ResponseBody`` chooses the framer by the first significant byte, keeps the beginning of the body for error messages,
and classifies the end: an empty body, an incomplete frame, a page or a document instead of a stream. The module
depends on framings and must not depend on any single provider.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from streamkit import providers
from streamkit.accumulator.limits import HttpStatus
from streamkit.calls import StreamError
from streamkit.framing import Frame, Framer, framer_for
from streamkit.framing.sse import USUAL_STARTS, SseFramer
from streamkit.providers.decoding.decoding import error_message, excerpt, read_json
from streamkit.providers.provider import Framing, Provider
from streamkit.providers.registry import detect_other_api

__all__ = ["ResponseBody", "error_of_foreign_wire", "failed_response", "read_status"]

_HEAD = 1024  # bytes of an unrecognized body that are put into the error
_ERROR_BODY = 65536  # bytes of a failed response's body that are read
_BOM = b"\xef\xbb\xbf"
#: What a compressed body begins with (RFC 1952, RFC 8878); brotli has no such bytes.
_COMPRESSIONS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}


class ResponseBody:
    """The body of one response.

    Args:
        framing: the wire's framing.
        limit: bytes of one frame.
        failed: whether the status reports an error, so that the body is kept and not parsed.

    Attributes:
        framer: chosen by the first significant byte; None before it.
        frames: the number of frames returned by ``feed`` and ``end``.
        is_recognized: whether some of the body has this wire's format.
        head: the beginning of the body.
        unread: set by the turn: the frames of its last read that follow its end.
    """

    __slots__ = ("_framing", "_has_lines", "_limit", "failed", "framer", "frames", "head", "is_recognized", "unread")

    def __init__(self, framing: Framing, limit: int, *, failed: bool) -> None:
        self._framing = framing
        self._limit = limit
        self.failed: bool = failed
        self.framer: Framer | None = None
        self.frames: int = 0
        self.is_recognized: bool = False
        self.head: bytes = b""
        self.unread: Iterable[Frame] = ()
        self._has_lines = True

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that these bytes complete."""
        if self.failed:
            self.head += data[: _ERROR_BODY - len(self.head)]
            return []
        framer = self.framer
        if framer is None:
            self.head += data
            framer = self.framer = self._choose_framer()
            if framer is None:
                return []
            data = self.head
        elif len(self.head) < _HEAD:
            self.head += data[: _HEAD - len(self.head)]
        frames: list[Frame] = framer.feed(data)
        self.frames += len(frames)
        return frames

    def _choose_framer(self) -> Framer | None:
        if self._framing == "sse" and self.head[:6] in USUAL_STARTS and self._limit:
            return SseFramer(self._limit)
        start = self.head[:_HEAD].removeprefix(_BOM).lstrip()  # more of it is there if it came at once
        if (not start or _BOM.startswith(self.head)) and len(self.head) < _HEAD:
            return None
        framing, first = self._framing, start[:1]
        if (framing != "ndjson" and first == b"{") or first == b"[":
            framing = "json_array"  # one JSON document, or an array of chunks, instead of a stream
        elif first == b"\0":  # of a binary frame's length; text never begins so
            framing = "event_stream"
        elif framing in ("ndjson", "event_stream") and start and first != b"{":
            framing = "sse"  # a page, a text or the stream of another wire
        self._has_lines = "sse" in (framing, self._framing)
        return framer_for(framing, limit=self._limit)

    def end(self, *, is_broken: bool = False) -> list[Frame]:
        """Return the frames that the end of the input completes; of a broken connection only those of whole JSON."""
        frames: list[Frame] = self.framer.close() if self.framer is not None else []
        self.frames += len(frames)
        if not is_broken:
            return frames
        whole: list[Frame] = []
        for frame in frames:
            with suppress(ValueError, RecursionError):
                read_json(frame[1])
                whole.append(frame)
        return whole

    def warning(self, unseparated: bytes) -> str | None:
        """Return a sentence about events that are not separated; None if they follow the end of the turn.

        Args:
            unseparated: the payload of the first one.
        """
        if any(payload is unseparated for _, payload in self.unread):
            return None
        return "events are not separated by blank lines; each line was read as an event"

    def diagnose(self, unrecognized_error: Callable[[], StreamError]) -> StreamError | None:
        """Return the error of a body that has ended; None if it was a stream of this wire.

        Args:
            unrecognized_error: returns the error if the body has frames, of which none is of this wire.
        """
        pending = self.framer.pending.strip() if self.framer is not None else b""
        is_partial_document = pending[:1] in (b"{", b"[")
        if self.is_recognized:
            if is_partial_document or (pending and not self._has_lines):
                return StreamError("stream_truncated", "the stream ended inside a frame", raw=excerpt(pending))
            return None
        head = self.head[:_HEAD].removeprefix(_BOM).strip()  # cut first: more of it is kept if it came at once
        if not head:
            return StreamError("stream_truncated", "the body is empty")
        if self.frames and not pending:
            return msgspec.structs.replace(unrecognized_error(), raw=excerpt(head))
        if not self.frames and is_partial_document:
            return StreamError("stream_truncated", "the body ended inside a JSON document", raw=excerpt(head))
        is_binary = self._framing == "event_stream" and pending[:1] == b"\0"
        if not self.frames and is_binary and self.framer is not None and self.framer.error is None:
            return StreamError("stream_truncated", "the body ended inside its first frame", raw=excerpt(head))
        if not self.frames and not pending:
            return StreamError("stream_truncated", "the body contains no event", raw=excerpt(head))
        return StreamError("protocol_error", _describe(head), raw=excerpt(head))


def _describe(head: bytes) -> str:
    if head[:1] == b"<":
        return "an HTML or XML page instead of a stream"
    for magic, name in _COMPRESSIONS.items():
        if head.startswith(magic):
            return f"data compressed with {name}: pass the response's bytes decompressed"
    if head[:1] in (b"{", b"["):
        return "a JSON document of another kind instead of a stream"
    return "text that is not a stream of this wire"


def error_of_foreign_wire(error: StreamError, head: bytes, provider: Provider) -> StreamError:
    """Return the error of input that is not of a provider's wire, with the wire that the input looks like.

    Args:
        error: the error.
        head: the beginning of the input, by ``encode_head``.
        provider: the provider that was expected.
    """
    name = providers.detect(head)
    if name is None and (api := detect_other_api(head)) is not None:
        return msgspec.structs.replace(
            error, message=f"{error.message}: it is a stream of {api}, which is not supported"
        )
    if name is None or providers.get(name).package == provider.package:
        return error
    message = f"{error.message}: it looks like {name!r}, so name that one as the provider"
    return msgspec.structs.replace(error, message=message)


def failed_response(body: bytes, status: HttpStatus) -> StreamError:
    """Return a failed response as the provider's error, with the message and the JSON of its body.

    A redirect is none of the provider's: its base URL is wrong (http for https, a slash too many), and httpx, aiohttp's
    ``allow_redirects=False`` and others do not follow it. https://www.python-httpx.org/compatibility/#redirects

    Args:
        body: the beginning of the body.
        status: the status and the headers that explain it.
    """
    raw: Any = excerpt(body) or None
    if status.is_redirect:
        where = f" to {status.location}" if status.location else ""
        message = (
            f"HTTP status {status.code}, a redirect{where} that the HTTP client did not follow: check the base URL"
        )
        return StreamError("protocol_error", message, raw=raw, status=status.code)
    with suppress(ValueError, RecursionError):
        raw = read_json(body)
    if status.error_name is not None and (raw is None or (isinstance(raw, dict) and "__type" not in raw)):
        # Where the body of AWS's other JSON protocols has it:
        # https://smithy.io/2.0/aws/protocols/aws-restjson1-protocol.html#operation-error-serialization
        raw = {**(raw or {}), "__type": status.error_name}
    message = error_message(raw) or f"HTTP status {status.code}"
    return StreamError("provider_error", message, raw=raw, status=status.code, retry_after=status.retry_after)


#: The headers that say how long to wait, and their unit in seconds. LiteLLM's proxy renames those of its providers.
_WAITS: Final = {
    "retry-after": 1.0,
    "retry-after-ms": 0.001,
    "llm_provider-retry-after": 1.0,
    "llm_provider-retry-after-ms": 0.001,
}


def read_status(code: int, headers: Mapping[str, str], error_name_header: str | None) -> HttpStatus:
    """Return a status and what its headers say of an error.

    Args:
        code: the HTTP status.
        headers: the headers of the response.
        error_name_header: the header that names the error, in lower case; None if the provider has none.
    """
    wait: float | None = None
    error_name: str | None = None
    location: str | None = None
    for name, value in headers.items():
        lower = name.lower()
        scale = _WAITS.get(lower)
        # A date is ignored, because reading it needs a clock.
        if wait is None and scale is not None and value.strip().replace(".", "", 1).isdecimal():
            wait = float(value) * scale
        elif lower == error_name_header:
            error_name = value.partition(":")[0].strip()[:128] or None  # a URI may follow the name
        elif lower == "location":
            location = value.strip()[:1024] or None
    return HttpStatus(code, wait, error_name, location)
