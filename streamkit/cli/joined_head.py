"""The HTTP protocol of the command's servers.

A response's head and the first part of its body are one write: uvicorn writes them one after the other, and uvloop
passes on each at once, so that a client is woken twice for the first byte, which comes later for it.

The head of a request has a limit, also before its key is known. uvicorn has one with its other parser, h11
(https://www.uvicorn.org/settings/, ``--h11-max-incomplete-event-size``), and none with httptools.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

__all__ = ["JoinedHeadProtocol"]

_HEAD = b"HTTP/1."
_LONGEST_HEAD = 65_536  # bytes of a request; a part that arrives with its beginning or its end is not counted


class JoinedHeadProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """uvicorn's protocol, by the parser that is installed, on a transport that joins heads to bodies."""

    _is_in_head = False
    _head_size = 0

    def connection_made(self, transport: Any) -> None:
        """Begin to serve a connection."""
        super().connection_made(_JoinedHeadTransport(transport))

    def data_received(self, data: bytes) -> None:
        """Read data; refuse a request whose head is too long."""
        scope = self.scope
        super().data_received(data)
        if not self._is_in_head:
            return
        self._head_size = self._head_size + len(data) if self.scope is scope else 0
        if self._head_size > _LONGEST_HEAD and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long.")

    def on_message_begin(self) -> None:
        """Begin the head of a request; called by httptools."""
        self._is_in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """End the head of a request; called by httptools."""
        self._is_in_head = False
        super().on_headers_complete()


class _JoinedHeadTransport:
    """A transport whose writes of a head wait for the next write, at most until the event loop has control."""

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
        """Close the connection after what was written."""
        self._flush()
        self._transport.close()
