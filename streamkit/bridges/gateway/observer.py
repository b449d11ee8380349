"""``Observer``: the interface of an observer of a gateway's traffic. It must not depend on ASGI."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from streamkit.bridges.gateway.exchange import Exchange
from streamkit.bridges.gateway.upstream import Upstream, UpstreamRequest

__all__ = ["Observer"]


class Observer(Protocol):
    """Looks at the traffic of a gateway, such as `streamkit.bridges.tap.ExchangeObserver`.

    Its methods are called in the event loop, so they must not wait; what they raise fails the request.
    """

    def watch(
        self,
        exchange: Exchange,
        upstream: Upstream,
        request: UpstreamRequest,
        response: AbstractAsyncContextManager[Any],
    ) -> AbstractAsyncContextManager[Any]:
        """Return a response that was not opened yet, or one that copies the input that is read of it."""

    def report(self, exchange: Exchange) -> None:
        """Take the end of an exchange."""
