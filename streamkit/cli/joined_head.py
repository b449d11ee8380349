"""The HTTP protocol of the command's servers: a response's head and the first part of its body are one write.

uvicorn writes them one after the other, and uvloop passes on each at once, so that a client is woken twice for the
first byte, which comes later for it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

__all__ = ["JoinedHeadProtocol"]

_HEAD = b"HTTP/1."


class JoinedHeadProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """uvicorn's protocol, by the parser that is installed, on a transport that joins heads to bodies."""

    def connection_made(self, transport: Any) -> None:
        """Begin to serve a connection."""
        super().connection_made(_JoinedHeadTransport(transport))


class _JoinedHeadTransport:
    """A transport whose writes of a head wait for the next write, at most until the event loop has control.

    Args:
        transport: the transport of the connection, which does everything else.
    """

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
