"""The limits of a gateway, and the bodies of requests, which are read, decompressed and decoded within them.

A body is counted from its first byte to the end of its response, with what decompression and decoding make of it:
64 KiB can expand to gigabytes, and three bytes of JSON are an object of 64. If the bodies that are being read are too
many, or too large together, the one that began first ends: an ordinary body is read within milliseconds, so that a slow
or stalled one never shuts it out. A body whose bytes come too slowly ends as well.

What a large body takes in time is spent in a worker thread (`run_in_thread`), so that others are served meanwhile. This
module must not depend on wires or upstreams.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import msgspec
from anyio.lowlevel import RunVar
from starlette.requests import ClientDisconnect
from starlette.types import Receive

from streamkit.errors import UsageError
from streamkit.json_text import replace_lone_surrogates
from streamkit.reading.time_limits import check_seconds

__all__ = ["LARGE", "Bodies", "Body", "BodyRefused", "GatewayLimits", "run_in_thread"]

_T = TypeVar("_T")
LARGE = 256 * 1024  # bytes of a body from which it is decoded, translated and written in a worker thread
_ORDINARY = 1024 * 1024  # bytes of a body for which a quarter of the memory is kept free
_SLOWEST = 16 * 1024  # bytes a second of a body that takes longer than ``body_time``
_VALUE = 64  # bytes of an object of Python, about
_EXPANSION = 100  # of a compressed body, beside the first MiB; texts are compressed to a tenth
_CODINGS = 2  # that are removed from one body
_PART = 1024 * 1024  # bytes that are decompressed at once
_WINDOW = 8 * 1024 * 1024  # bytes; the most for Zstandard as a content coding: RFC 9659
_THREADS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLimits:
    """Limits of the requests of clients.

    Attributes:
        path: bytes of a path; a longer one is refused with status 414, as is a query of more than four times as much.
        head: bytes of the names and values of the headers; more are refused with status 431.
        body: bytes of a request's body, compressed and decompressed, and of the stored items that it refers to; more is
            refused with status 413. So is one whose values would take more than four times as much memory.
        body_time: seconds for a body, and one more for each 16 KiB; a slower one is refused with status 408.
        bodies: bytes of memory of the bodies of all requests that have not ended; further ones are refused as
            overloaded (status 503). Those that are being read may have a quarter; above it the one that began first is
            refused with status 408.
        uploads: bodies that are being read at the same time; one more ends the one that began first.
        requests: responses that are open at the same time; further requests are refused as overloaded.
        stored: bytes of memory of the latest responses of Responses clients, to which their later requests may refer.
        state: bytes of the carried state of one request, inflated; what is above is left out and reported.
        silence: seconds without anything to send after which a streamed response gets a heartbeat of the client's
            wire; None for no heartbeats.

    Raises:
        UsageError: a number of seconds is not above 0, another number is below 1, or a body cannot be read within a
            quarter of ``bodies``.
    """

    path: int = 2048
    head: int = 64 * 1024
    body: int = 64 * 1024 * 1024
    body_time: float = 30.0
    bodies: int = 1024 * 1024 * 1024
    uploads: int = 500
    requests: int = 1000
    stored: int = 64 * 1024 * 1024
    state: int = 32 * 1024 * 1024
    silence: float | None = 15.0

    def __post_init__(self) -> None:
        check_seconds("silence", self.silence)
        check_seconds("body_time", self.body_time)
        for name in ("path", "head", "body", "uploads", "requests"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.body > self.bodies // 4:
            raise UsageError(
                f"bodies must be at least four times body, so that one can be read: {self.bodies} is less than"
                f" 4 * {self.body}"
            )


class BodyRefused(Exception):
    """A body that is not accepted, with the status and the headers of the response."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers: Mapping[str, str] = headers or {}


class Bodies:
    """The bodies of all requests of a gateway."""

    def __init__(self, limits: GatewayLimits) -> None:
        self.limits: GatewayLimits = limits
        self.size: int = 0  # bytes of memory that they take
        self.reading: dict[Body, int] = {}  # bytes of those that are being read, in the order in which they began
        self.read_size: int = 0  # the sum of these


class Body:
    """The body of one request."""

    __slots__ = ("_bodies", "_scope", "is_large", "size")

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self._scope: anyio.CancelScope | None = None
        self.size: int = 0  # bytes of memory that are counted for it; the end of the request subtracts them
        self.is_large: bool = False  # translated in a worker thread

    async def read(self, receive: Receive, headers: Mapping[str, str]) -> Any:
        """Return the decoded body; *headers* are the request's, with names in lower case.

        Raises:
            BodyRefused: it is too large or too slow, its encoding is unknown, or it is not JSON.
            ClientDisconnect: the client left before its end.
        """
        bodies, limits = self._bodies, self._bodies.limits
        length = headers.get("content-length", "")
        if length.isdecimal() and (len(length) > 18 or int(length) > limits.body):
            raise _too_large(limits.body)
        coding = headers.get("content-encoding")
        decoders = [] if coding is None else _find_decoders(coding)
        parts: list[bytes] = []
        size, has_more = 0, True
        bodies.reading[self] = 0
        try:
            with anyio.move_on_after(limits.body_time) as self._scope:
                while has_more:
                    while len(bodies.reading) > limits.uploads or bodies.read_size > limits.bodies // 4:
                        next(iter(bodies.reading))._displace()
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientDisconnect
                    parts.append(message.get("body", b""))
                    has_more = message.get("more_body", False)
                    size += len(parts[-1])
                    if size > limits.body:
                        raise _too_large(limits.body)
                    self.count(size)
                    if has_more and self in bodies.reading:
                        bodies.reading[self] = size
                        bodies.read_size += len(parts[-1])
                        self._scope.deadline += len(parts[-1]) / _SLOWEST
        finally:
            is_displaced = self not in bodies.reading
            bodies.read_size -= bodies.reading.pop(self, 0)
        if has_more:
            reason = "while this gateway had too many to read" if is_displaced else "and is no longer waited for"
            raise BodyRefused(408, f"the body of the request came too slowly, {reason}")
        body = b"".join(parts)
        parts.clear()
        for decoder in decoders:
            body = await self._decompress(decoder(body), len(body))
        memory, most = len(body), 4 * limits.body
        for start in range(0, len(body), _PART):
            memory += _VALUE * sum(body.count(sign, start, start + _PART) for sign in (b",", b"{", b"["))
            if memory > most:
                raise BodyRefused(413, f"the values of the body take more than {most} bytes of memory")
        self.count(memory)
        self.is_large = len(body) > LARGE
        return await run_in_thread(_decode, body) if self.is_large else _decode(body)

    def count(self, size: int) -> None:
        """Count so many bytes for this body instead of those before.

        Raises:
            BodyRefused: all bodies have too many.
        """
        self._bodies.size += size - self.size
        self.size = size
        most = self._bodies.limits.bodies
        if self._bodies.size > (most if size <= _ORDINARY else most // 4 * 3):
            raise BodyRefused(503, "this gateway holds as many bodies as it may", {"retry-after": "1"})

    def _displace(self) -> None:
        """Stop the reading of this body; its request ends when its task has control."""
        self._bodies.read_size -= self._bodies.reading.pop(self)
        assert self._scope is not None  # noqa: S101 - it is being read
        self._scope.cancel()

    async def _decompress(self, decompressed: Iterator[bytes], size: int) -> bytes:
        """Return the parts of a body of so many compressed bytes together, each counted before the next is made."""
        most = min(self._bodies.limits.body, _EXPANSION * size + _PART)
        counted, made, parts = self.size, 0, []
        while (part := await run_in_thread(next, decompressed, None)) is not None:
            parts.append(part)
            made += len(part)
            if made > most:
                raise _too_large(most)
            self.count(counted + made)
        return b"".join(parts)


async def run_in_thread(function: Callable[..., _T], *arguments: Any) -> _T:
    """Call a function in one of the worker threads for large bodies; return its result."""
    try:
        threads = _threads.get()
    except LookupError:
        threads = anyio.CapacityLimiter(_THREADS)
        _threads.set(threads)
    return await anyio.to_thread.run_sync(function, *arguments, limiter=threads)


_threads: RunVar[anyio.CapacityLimiter] = RunVar("streamkit.gateway.bodies")


def _decode(body: bytes) -> Any:
    """Return the value of a body.

    Raises:
        BodyRefused: it is not JSON.
    """
    try:
        if b"\\ud" in body or b"\\uD" in body:
            # U+FFFD for each half of a surrogate pair, as clients send that cut a text within an emoji: APIs refuse it
            # in this request and in all later ones of the conversation
            # (https://github.com/anthropics/claude-code/issues/2108).
            body = json.dumps(replace_lone_surrogates(json.loads(body))).encode()
        return msgspec.json.decode(body)
    except (ValueError, RecursionError) as error:
        raise BodyRefused(400, f"the body is not JSON: {error}") from None


def _too_large(limit: int) -> BodyRefused:
    return BodyRefused(413, f"the body has more than {limit} bytes, the limit of this gateway")


def _find_decoders(coding: str) -> list[Callable[[bytes], Iterator[bytes]]]:
    """Return the functions that yield the parts of a decompressed body, in the order in which they are called.

    Raises:
        BodyRefused: an encoding is unknown, or there are too many.
    """
    known = dict(_DECODERS)
    with suppress(ModuleNotFoundError):
        known["zstd"] = partial(_decode_zstd, import_module("zstandard"))
    names = [name.strip().lower() for name in coding.split(",", _CODINGS)]
    # In the order in which the content codings are removed (RFC 9110, section 8.4).
    names = [name for name in reversed(names) if name not in ("", "identity")]
    if len(names) > _CODINGS or not known.keys() >= set(names):
        accepted = ", ".join(known)
        message = f"the content-encoding {coding[:100]!r} is not accepted: send {accepted} or no encoding"
        raise BodyRefused(415, message, {"accept-encoding": accepted})  # RFC 7694
    return [known[name] for name in names]


def _decode_deflate(data: bytes) -> Iterator[bytes]:
    # "Some non-conformant implementations send the deflate data without the zlib wrapper" (RFC 9110, section 8.4.1.2).
    has_header = len(data) > 1 and data[0] & 0x0F == zlib.DEFLATED and int.from_bytes(data[:2], "big") % 31 == 0
    return _inflate("deflate", zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS, data)


def _inflate(name: str, window_bits: int, data: bytes) -> Iterator[bytes]:
    decompressor = zlib.decompressobj(window_bits)
    try:
        for start in range(0, len(data), LARGE):  # what is left of all data would be copied for each part
            rest, part = data[start : start + LARGE], b""
            while (rest or len(part) == _PART) and not decompressor.eof:
                part = decompressor.decompress(rest, _PART)
                rest = decompressor.unconsumed_tail
                yield part
    except zlib.error as error:
        raise BodyRefused(400, f"the body is not {name}: {error}") from None
    if not decompressor.eof:
        raise BodyRefused(400, f"the body is not {name}: it is not complete")


def _decode_zstd(zstandard: Any, data: bytes) -> Iterator[bytes]:
    try:
        with zstandard.ZstdDecompressor(max_window_size=_WINDOW).stream_reader(data) as reader:
            while part := bytes(reader.read(_PART)):
                yield part
    except zstandard.ZstdError as error:
        raise BodyRefused(400, f"the body is not zstd: {error}") from None


_DECODERS: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "gzip": partial(_inflate, "gzip", 16 + zlib.MAX_WBITS),
    "x-gzip": partial(_inflate, "gzip", 16 + zlib.MAX_WBITS),  # RFC 9110, section 8.4.1.3
    "deflate": _decode_deflate,
}
