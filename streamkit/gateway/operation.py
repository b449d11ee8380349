"""What runs a gateway looks at: whether it lives, and whether it takes requests (docs/rules.md, "The gateway").

The paths ``/health`` and ``/ready`` need no key, since load balancers and Kubernetes send none, and ask neither an
upstream nor a store that has responded once: what the gateway can do without must not take all of its workers out of
service at once. Requests of these paths are in no report. This module must not depend on wires or upstreams.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import TypeAlias

import anyio
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Send

from streamkit.gateway.store import StoreUnavailable
from streamkit.gateway.upstream import Exchange
from streamkit.values.redaction import log_failure

__all__ = ["Observe", "Operation", "observe_exchange"]

_log = logging.getLogger("streamkit.gateway")
#: Takes each exchange at its end, by a plain function or an async one.
Observe: TypeAlias = Callable[[Exchange], Awaitable[None] | None]
_OBSERVE_TIME = 30.0  # seconds of an async function, after which it is canceled
_START_TIME = 5.0  # seconds for a store at a start


class Operation:
    """The stage of a gateway, from its start to its shutdown.

    Args:
        connect: connects the store.
        is_full: returns whether the gateway has as many open requests as it may.

    Attributes:
        is_started: the store was connected.
        is_closing: the gateway takes no further requests.
    """

    def __init__(self, connect: Callable[[], Awaitable[object]], is_full: Callable[[], bool]) -> None:
        self._connect = connect
        self._is_full = is_full
        self.is_started: bool = False
        self.is_closing: bool = False

    async def start(self) -> None:
        """Connect the store.

        Raises:
            StoreUnavailable: the store does not respond.
        """
        await self._connect()
        self.is_started, self.is_closing = True, False

    async def reply(self, method: str, path: str) -> Response:
        """Return the response to a request of one of the paths of operation."""
        if method not in ("GET", "HEAD"):
            return JSONResponse({"error": f"{path} takes GET, HEAD, not {method}"}, 405, {"allow": "GET, HEAD"})
        fault = None if path == "/health" else await self._find_fault()
        if fault is not None:
            return JSONResponse({"status": "not ready", "reason": fault}, 503, {"retry-after": "1"})
        return JSONResponse({"status": "ok" if path == "/health" else "ready"})

    async def _find_fault(self) -> str | None:
        """Return why no further requests should be sent, None if they should."""
        if not self.is_started and not self.is_closing:  # mounted in an application that has not started it
            try:
                with anyio.fail_after(_START_TIME):
                    await self.start()
            except (StoreUnavailable, TimeoutError):
                return "the store does not respond"
        if self.is_closing:
            return "the gateway is shutting down"
        return "the gateway has as many open requests as it may" if self._is_full() else None

    async def serve_lifespan(self, receive: Receive, send: Send, close: Callable[[], Awaitable[None]]) -> None:
        """Start and close the gateway when the server does (https://asgi.readthedocs.io/en/latest/specs/lifespan.html)."""
        await receive()
        try:
            await self.start()
        except StoreUnavailable as problem:
            await send({"type": "lifespan.startup.failed", "message": f"{problem}: {problem.__cause__}"})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await close()
        await send({"type": "lifespan.shutdown.complete"})


async def observe_exchange(observe: Observe, exchange: Exchange) -> None:
    """Call a hook with an exchange whose response was sent. What it raises is logged, and nothing else."""
    try:
        answer = observe(exchange)
        if isawaitable(answer):
            with anyio.move_on_after(_OBSERVE_TIME, shield=True) as scope:  # also after the client has left
                await answer
            if scope.cancelled_caught:
                _log.warning("observe has taken more than %g seconds, and was canceled", _OBSERVE_TIME)
    except Exception as problem:
        log_failure(_log, "observe has failed", error=problem)
