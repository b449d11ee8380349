"""The response to one client: its start, its parts and, while there are none, heartbeats.

Every send is awaited, so that a client that reads slowly slows the reading of the upstream. Heartbeats keep clients and
proxies from closing a connection on which a model is silent. They are no events: a response that consists of heartbeats
alone has not begun (docs/rules.md, "The gateway"). This module must not depend on wires or upstreams.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import anyio
from starlette.types import Send

__all__ = ["ClientStream"]


class ClientStream:
    """The response to one client, as ASGI messages.

    Args:
        send: the application's.

    Attributes:
        has_ended: nothing more is sent.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._sending = anyio.Lock(fast_acquire=True)  # a heartbeat is never sent within another message
        self._last_sent = anyio.current_time()
        self._has_started = False
        self.has_ended = False

    async def start(self, headers: Mapping[str, str]) -> None:
        """Send the status 200 and the headers, if they were not sent."""
        async with self._sending:
            await self._start(headers)

    async def _start(self, headers: Mapping[str, str]) -> None:
        if not self._has_started:
            self._has_started = True
            raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
            await self._send({"type": "http.response.start", "status": 200, "headers": raw})

    async def cancel(self) -> bool:
        """Return True if nothing was sent, and send nothing from here on; False if the response has started."""
        async with self._sending:
            self.has_ended = not self._has_started
        return self.has_ended

    async def write(self, part: bytes) -> None:
        """Send a part of the body."""
        async with self._sending:
            await self._send({"type": "http.response.body", "body": part, "more_body": True})
        self._last_sent = anyio.current_time()

    async def end(self, part: bytes = b"") -> None:
        """Send the last part of the body."""
        async with self._sending:
            self.has_ended = True
            await self._send({"type": "http.response.body", "body": part, "more_body": False})

    async def send_heartbeats(self, interval: float, describe: Callable[[], tuple[Mapping[str, str], bytes]]) -> None:
        """Send a heartbeat after each interval in which nothing was sent. It ends by cancellation alone.

        Args:
            interval: seconds.
            describe: returns the headers of the response and the heartbeat, ``b""`` for none at present.
        """
        while not self.has_ended:
            remaining = self._last_sent + interval - anyio.current_time()
            if remaining > 0:
                await anyio.sleep(remaining)
                continue
            headers, heartbeat = describe()
            self._last_sent = anyio.current_time()
            if not heartbeat or self._sending.locked():  # a client that does not read gets no more
                continue
            async with self._sending:
                if not self.has_ended:
                    await self._start(headers)
                    await self._send({"type": "http.response.body", "body": heartbeat, "more_body": True})
