"""The operation of a gateway: whether it lives and takes requests, its metrics, and the cost of responses.

The paths ``/health`` and ``/ready`` need no key, since load balancers and Kubernetes send none, and ask neither an
upstream nor a store that has responded once: what the gateway can do without must not take all of its workers out of
service at once (docs/rules.md, "The gateway"). Requests of these paths and of ``/metrics`` are in no report. This
module must not depend on wires or upstreams.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import TYPE_CHECKING, TypeAlias

import anyio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from streamkit.errors import UsageError
from streamkit.gateway.gateway_state import GatewayState, Price
from streamkit.gateway.stores.store import StoreUnavailable
from streamkit.gateway.upstream import Exchange
from streamkit.reading.turn import Turn
from streamkit.values.redaction import log_failure

if TYPE_CHECKING:
    from streamkit.gateway.metrics import Metrics

__all__ = ["Observe", "Operation", "find_cost", "known_price", "observe_exchange"]

_log = logging.getLogger("streamkit.gateway")
#: Takes each exchange at its end, by a plain function or an async one.
Observe: TypeAlias = Callable[[Exchange], Awaitable[None] | None]
_OBSERVE_TIME = 30.0  # seconds of an async function, after which it is canceled
_START_TIME = 5.0  # seconds for a store at a start


class Operation:
    """The stage of a gateway, from its start, which connects the store, to its shutdown."""

    def __init__(self, state: GatewayState, metrics: Metrics | None) -> None:
        self._state = state
        self._metrics = metrics
        self._is_started = False
        self.is_closing: bool = False  # no further requests should be sent

    async def start(self) -> None:
        """Connect the store; see ``Gateway.start``."""
        self.is_closing = False  # before the store is waited for, since a shutdown may begin meanwhile
        if self._state.has_state_key:
            await self._state.entries.get("start", ["start"])
        else:
            await self._state.load_state_key()
        self._is_started = True

    async def reply(self, scope: Scope, path: str) -> Response:
        """Return the response to a request of one of the paths of operation."""
        if (method := scope["method"]) not in ("GET", "HEAD"):
            return JSONResponse({"error": f"{path} takes GET, HEAD, not {method}"}, 405, {"allow": "GET, HEAD"})
        if path == "/metrics":
            return await self._expose_metrics(scope)
        fault = None if path == "/health" else await self._find_fault()
        if fault is not None:
            return JSONResponse({"status": "not ready", "reason": fault}, 503, {"retry-after": "1"})
        return JSONResponse({"status": "ok" if path == "/health" else "ready"})

    async def _expose_metrics(self, scope: Scope) -> Response:
        """Return the metrics to a client that may read them: they name the models, the keys and their costs."""
        if self._metrics is None:
            return JSONResponse({"error": "this gateway has no metrics: Gateway(metrics=True), or --metrics"}, 404)
        access = self._state.access
        if access is not None and access.needs_key:
            client = access.find(scope)
            if client is None or not client.key.metrics:
                return JSONResponse({"error": "/metrics needs a key that may read it"}, 401 if client is None else 403)
        found = await self._metrics.expose(Request(scope).headers.get("accept", ""))
        if found is None:
            return JSONResponse({"error": "the metrics of a worker cannot be read now"}, 503, {"retry-after": "1"})
        return Response(found[0], headers={"content-type": found[1]})

    async def _find_fault(self) -> str | None:
        """Return why no further requests should be sent, None if they should."""
        if not self._is_started and not self.is_closing:  # mounted in an application that has not started it
            try:
                with anyio.fail_after(_START_TIME):
                    await self.start()
            except (StoreUnavailable, TimeoutError):
                return "the store does not respond"
        if self.is_closing:
            return "the gateway is shutting down"
        is_full = len(self._state.open_requests) >= self._state.limits.requests
        return "the gateway has as many open requests as it may" if is_full else None

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
    """Call a hook with an exchange after its response was sent. Its exceptions are logged, and nothing else."""
    try:
        answer = observe(exchange)
        if isawaitable(answer):
            with anyio.move_on_after(_OBSERVE_TIME, shield=True) as scope:  # also after the client has left
                await answer
            if scope.cancelled_caught:
                _log.warning("observe has taken more than %g seconds, and was canceled", _OBSERVE_TIME)
    except Exception as problem:
        log_failure(_log, "observe has failed", error=problem)


def known_price(turn: Turn) -> float | None:
    """Return the cost of a response that the provider reports, else its list price by the extra ``prices``."""
    from streamkit.bridges.prices import list_price, reported_cost

    reported = reported_cost(turn.usage)
    return list_price(turn) if reported is None else reported


def find_cost(price: Price, turn: Turn) -> float | None:
    """Return the cost of a response, None if it is not known. Exceptions of *price* but UsageError are logged."""
    try:
        return None if turn.usage is None else price(turn)
    except UsageError:
        return None
    except Exception as problem:
        log_failure(_log, "price has failed", error=problem)
        return None
