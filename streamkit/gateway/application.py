"""``Gateway``: the ASGI application."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from time import monotonic

from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from streamkit.errors import UsageError
from streamkit.gateway.observer import Exchange, Observer
from streamkit.gateway.routes import find_mounted_route
from streamkit.gateway.service import NO_WEBSOCKETS, WITHOUT_UPGRADE, GatewayLimits, GatewayState, Service
from streamkit.gateway.stored_responses import StoredResponses
from streamkit.gateway.upstream import Upstream

__all__ = ["Gateway"]


class Gateway:
    """The ASGI application.

    Args:
        upstreams: where requests are sent. If one fails before its first event, the next one is asked, unless the
            request itself is at fault.
        key: the key that clients must send, as their own provider's; None: none is needed.
        limits: limits of the requests of clients.
        report: called with each `Exchange` at its end.
        observer: looks at each request and response while they pass, such as a tap.

    Raises:
        UsageError: there is no upstream, or something else.
    """

    def __init__(
        self,
        *upstreams: Upstream,
        key: str | None = None,
        limits: GatewayLimits | None = None,
        report: Callable[[Exchange], None] | None = None,
        observer: Observer | None = None,
    ) -> None:
        if not upstreams or not all(isinstance(upstream, Upstream) for upstream in upstreams):
            raise UsageError("a gateway needs an upstream: pass one Upstream or several, Gateway(first, second)")
        limits = limits or GatewayLimits()
        self._state = GatewayState(upstreams, key, limits, observer, StoredResponses(limits.stored))
        self._report = report

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "websocket":
            await _refuse_websocket(scope, receive, send)
            return
        if scope["type"] != "http":
            raise UsageError(f"the gateway serves HTTP, not {scope['type']!r}")
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        query = QueryParams(scope["query_string"]) if scope["query_string"] else {}
        path, route = find_mounted_route(str(scope["path"]), str(scope.get("root_path", "")), query, headers)
        exchange = Exchange(
            method=scope["method"], path=path, client=route.client, request_id=f"req_{secrets.token_hex(12)}"
        )
        started = monotonic()
        try:
            await Service(self._state, scope, receive, send, route, headers, exchange).run()
        except OSError:
            # A send after the client has left may raise a subclass of it: https://github.com/django/asgiref/pull/431
            exchange.disconnected = True
        finally:
            exchange.seconds = monotonic() - started
            if self._state.observer is not None:
                self._state.observer.report(exchange)
            if self._report is not None:
                self._report(exchange)

    @property
    def models(self) -> list[str]:
        """The names of models that clients can list: those of the upstreams' ``models``."""
        return self._state.models


async def _refuse_websocket(scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse a WebSocket that a server with WebSockets has recognized, by 426 if it can send a response."""
    if "websocket.http.response" in scope.get("extensions", {}):
        await Response(NO_WEBSOCKETS, 426, WITHOUT_UPGRADE, "text/plain")(scope, receive, send)
    else:
        await send({"type": "websocket.close", "code": 1000, "reason": ""})
