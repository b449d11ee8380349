"""The HTTP protocol of the command's servers.

A response's head and the first part of its body are one write: uvicorn writes them one after the other, and uvloop
passes on each at once, so that a client is woken twice for the first byte, which comes later for it.

What a connection costs before an application has its request is limited, and so is the time in which a client reads
nothing. uvicorn has no time limit for a head, no size for one with httptools, and its ``limit_concurrency`` refuses the
requests of all connections once there are too many (https://www.uvicorn.org/settings/). Here the connection that has
waited longest for a request is closed for a new one, so that idle and half-open connections shut nobody out.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from streamkit.errors import UsageError
from streamkit.reading.time_limits import check_seconds

__all__ = ["ConnectionLimits", "JoinedHeadProtocol"]

_HEAD = b"HTTP/1."
_LONGEST_HEAD = 65_536  # bytes of a request; a part that arrives with its beginning or its end is not counted
_PIPELINED = 8  # requests of a connection that wait for the response to the first; clients of models send none
#: A request of Java's client, or of Apache's, asks for another protocol beside (RFC 9110, section 7.8). httptools takes
#: its body for that protocol; with another name the header asks for nothing. A WebSocket is refused by the application.
_UPGRADE = re.compile(rb"\r\nupgrade(?=:(?! *websocket))", re.IGNORECASE)
_log = logging.getLogger("streamkit.gateway")


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of the connections of a server; a ``UsageError`` is raised for a number that cannot be one."""

    head_time: float = 20.0  # seconds for the head of a request
    stall_time: float = 300.0  # seconds in which a client must read some of its response
    connections: int = 4000

    def __post_init__(self) -> None:
        check_seconds("head-timeout", self.head_time)
        check_seconds("stall-timeout", self.stall_time)
        if self.connections < 1:
            raise UsageError(f"connections must be at least 1, not {self.connections}")


class JoinedHeadProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """uvicorn's protocol, by the parser that is installed, on a transport that joins heads to bodies."""

    _has_warned = False

    def __init__(
        self, *arguments: Any, limits: ConnectionLimits, waiting: dict[JoinedHeadProtocol, None], **named: Any
    ) -> None:
        super().__init__(*arguments, **named)
        self._limits = limits
        self._waiting = waiting  # the server's connections without a request, that which waits longest first
        # Bytes since the beginning of a head, its end, or the last part of a body; None without httptools.
        self._overhead: int | None = None
        self._head_timer: asyncio.TimerHandle | None = None  # while no request is served
        self._stall_timer: asyncio.TimerHandle | None = None  # while the client reads too slowly

    def connection_made(self, transport: Any) -> None:
        """Begin to serve a connection; close another one if there are too many."""
        super().connection_made(_JoinedHeadTransport(transport))
        self._wait_for_head()
        if len(self.connections) <= self._limits.connections:
            return
        if not self._has_warned:
            JoinedHeadProtocol._has_warned = True
            _log.warning(
                "more than %d connections: for each further one, that which waits longest for a request is closed"
                " (reported once)",
                self._limits.connections,
            )
        longest = next(iter(self._waiting))
        if longest is not self:
            self.connections.discard(longest)  # before it is lost: the next connection closes another one
            del self._waiting[longest]
            longest.transport.abort()
        else:
            self._refuse("503 Service Unavailable", "This server has too many connections.")

    def connection_lost(self, exc: Exception | None) -> None:
        """End a connection."""
        for timer in (self._head_timer, self._stall_timer):
            if timer is not None:
                timer.cancel()
        self._waiting.pop(self, None)
        super().connection_lost(exc)

    @property
    def is_serving(self) -> bool:
        """Whether a request is served and its response has not ended."""
        return self.cycle is not None and not self.cycle.response_complete

    def data_received(self, data: bytes) -> None:
        """Read data; refuse a request if its head, or anything in place of its body, is too long."""
        if self._overhead is not None:
            self._overhead += len(data)
        if not self.is_serving:
            data = _UPGRADE.sub(b"\r\nx-asked", data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if (self._overhead or 0) > _LONGEST_HEAD:
            self._refuse("431 Request Header Fields Too Large", "The head of the request is too long.")
        elif self.is_serving:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None
                self._waiting.pop(self, None)
        elif self._head_timer is None:  # also for the rest of a body that was refused
            self._wait_for_head()

    def _wait_for_head(self) -> None:
        self._waiting.pop(self, None)
        self._waiting[self] = None
        self._head_timer = self.loop.call_later(
            self._limits.head_time, self._refuse, "408 Request Timeout", "The head of the request took too long."
        )

    def _refuse(self, status: str, text: str) -> None:
        """Send a response of this server itself, unless another one is being sent, and close the connection."""
        if not self.is_serving and not self.transport.is_closing():
            head = f"HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {len(text)}\r\nconnection: close"
            self.transport.write(f"{head}\r\n\r\n{text}".encode())
        self.transport.close()

    def pause_writing(self) -> None:
        """Stop writing; close the connection if the client does not read on in time."""
        super().pause_writing()
        self._stall_timer = self.loop.call_later(self._limits.stall_time, self.transport.abort)

    def resume_writing(self) -> None:
        """Write on."""
        if self._stall_timer is not None:
            self._stall_timer.cancel()
        super().resume_writing()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        if not self.is_serving:
            self._waiting[self] = None

    def on_message_begin(self) -> None:
        """Begin the head of a request; called by httptools."""
        self._overhead = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """End the head of a request; called by httptools, which makes an exception a status 400."""
        self._overhead = 0
        super().on_headers_complete()
        self.headers: Any = deque(maxlen=0)  # the scope has the headers; trailers are not kept
        if len(self.pipeline) > _PIPELINED:
            raise ValueError("too many requests without a response")

    def on_body(self, body: bytes) -> None:
        """Take a part of a body; called by httptools."""
        self._overhead = 0
        super().on_body(body)


class _JoinedHeadTransport:
    """A transport that keeps a head until the next write, at most until the event loop has control."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._write = transport.write
        self._event_loop = asyncio.get_running_loop()
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write data, after the head that waits."""
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(_HEAD):  # the part of a body that looks like a head waits as long, which loses nothing
            self._head = data
            self._event_loop.call_soon(self._flush)
            return
        self._write(data)

    def _flush(self) -> None:
        if self._head:
            data, self._head = self._head, b""
            self._write(data)

    def close(self) -> None:
        """Close the connection after all writes."""
        self._flush()
        self._transport.close()
