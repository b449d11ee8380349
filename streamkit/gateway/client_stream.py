"""The response to one client: its start, its parts and, while there are none, heartbeats.

Every send is awaited, so that a client that reads slowly slows the reading of the upstream. Heartbeats keep clients and
proxies from closing a connection on which a model is silent. They are no events: a response that consists of heartbeats
alone has not begun (docs/rules.md, "The gateway"). This module must not depend on wires or upstreams.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic

import anyio
from starlette.types import Receive, Send

from streamkit.gateway.watched_service import receive_within

__all__ = ["ClientStream"]


class ClientStream:
    """The response to one client, as ASGI messages. One task sends it, another one waits for the client to disconnect.

    Args:
        send: the application's.

    Attributes:
        has_ended: nothing more is sent.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        # A heartbeat is never sent within another message. A lock would cost more than the rest of ``write``.
        self._is_sending = False
        self._heartbeat_sent: anyio.Event | None = None  # while one is sent
        self._last_sent = monotonic()
        self._has_started = False
        self.has_ended = False

    async def start(self, headers: Mapping[str, str]) -> None:
        """Send the status 200 and the headers, if they were not sent."""
        await self._wait_for_heartbeat()
        await self._start(headers)
        self._is_sending = False

    async def _wait_for_heartbeat(self) -> None:
        """Return when no heartbeat is sent; none is sent until ``_is_sending`` is False again."""
        self._is_sending = True
        if self._heartbeat_sent is not None:
            await self._heartbeat_sent.wait()

    async def _start(self, headers: Mapping[str, str]) -> None:
        if not self._has_started:
            self._has_started = True
            raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
            await self._send({"type": "http.response.start", "status": 200, "headers": raw})

    async def cancel(self) -> bool:
        """Return True if nothing was sent, and send nothing from here on; False if the response has started."""
        await self._wait_for_heartbeat()
        self._is_sending = False
        self.has_ended = self.has_ended or not self._has_started
        return not self._has_started

    async def write(self, part: bytes) -> None:
        """Send a part of the body."""
        self._is_sending = True
        if self._heartbeat_sent is not None:
            await self._heartbeat_sent.wait()
        await self._send({"type": "http.response.body", "body": part, "more_body": True})
        self._is_sending = False
        self._last_sent = monotonic()

    async def end(self, part: bytes = b"") -> None:
        """Send the last part of the body. A second one is not sent, such as an error after the end."""
        if self.has_ended:
            return
        await self._wait_for_heartbeat()
        self.has_ended = True
        await self._send({"type": "http.response.body", "body": part, "more_body": False})

    async def wait_for_disconnect(
        self, receive: Receive, interval: float | None, describe: Callable[[], tuple[Mapping[str, str], bytes]]
    ) -> None:
        """Return when the client disconnects, or when the server says that the response has ended.

        Until then a heartbeat is sent after each interval in which nothing was sent.

        Args:
            receive: the application's.
            interval: seconds; None for no heartbeats.
            describe: returns the headers of the response and the heartbeat, ``b""`` for none at present.
        """
        while True:
            remaining = None
            if interval is not None and not self.has_ended:
                remaining = self._last_sent + interval - monotonic()
                if remaining <= 0:
                    await self._send_heartbeat(*describe())
                    continue
            message = await receive_within(receive, remaining)
            if message is not None and message["type"] == "http.disconnect":
                return

    async def _send_heartbeat(self, headers: Mapping[str, str], heartbeat: bytes) -> None:
        self._last_sent = monotonic()
        if not heartbeat or self._is_sending:  # a client that does not read gets no more
            return
        self._heartbeat_sent = anyio.Event()
        try:
            await self._start(headers)
            await self._send({"type": "http.response.body", "body": heartbeat, "more_body": True})
        finally:
            self._heartbeat_sent.set()
            self._heartbeat_sent = None
