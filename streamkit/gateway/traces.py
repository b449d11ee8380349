"""Traces and metrics of a gateway, by ``bridges.otel``: each request to an upstream is a ``chat`` span.

``Gateway(..., observer=TraceObserver(Telemetry()))``. The span lies in the current one, as an instrumentation of ASGI
makes it from a client's ``traceparent``; what ``Upstream.ask`` does to open the response lies in the span. An upstream
that fails before another one is asked has a span of its own. Models are labels of metrics if the upstreams name them,
or a response of them has succeeded: a client cannot create more of them than a hundred.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from time import monotonic
from typing import Any

from streamkit import providers
from streamkit.bridges.otel import Chat, Telemetry
from streamkit.gateway.upstream import ANY_MODEL, Exchange, Upstream, UpstreamRequest
from streamkit.providers.requests.request import Request
from streamkit.reading.turn import Turn

__all__ = ["TraceObserver"]


class TraceObserver:
    """Traces of a gateway (`Observer`).

    Args:
        telemetry: makes the spans and the metrics.
    """

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._models: set[str] = set()

    @asynccontextmanager
    async def watch(
        self,
        exchange: Exchange,
        upstream: Upstream,
        request: UpstreamRequest,
        response: AbstractAsyncContextManager[Any],
        asked: Request,
        turn: Turn,
    ) -> AsyncIterator[Any]:
        """Open the response of an upstream, and trace it until it is closed."""
        self._models |= {name for name in upstream.targets().values() if ANY_MODEL not in name}
        target, started = (request.model, upstream.endpoint), monotonic()
        chat = Chat(self._telemetry, providers.get(upstream.provider), target, asked, models=self._models)
        async with AsyncExitStack() as stack:
            stack.push(lambda kind, error, traceback: chat.end(turn, error))
            with chat.current():
                opened = await stack.enter_async_context(response)
            yield opened
            if asked.stream and exchange.first_byte is not None:
                chat.begin_response(exchange.began + exchange.first_byte - started)

    def report(self, exchange: Exchange) -> None:
        """Do nothing: the spans have ended with the responses."""
