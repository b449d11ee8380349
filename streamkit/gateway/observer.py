"""``Observer``: the interface of an observer of a gateway's traffic. It must not depend on ASGI.

``Exchange``: one request and its response, for a log.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from streamkit.calls import Usage
from streamkit.gateway.upstream import Upstream, UpstreamRequest

__all__ = [
    "Exchange",
    "Observer",
]


@dataclass(slots=True, kw_only=True)
class Exchange:
    """One request and its response, for a log. It has no key and no content of the conversation.

    Attributes:
        method: the HTTP method.
        path: the path, without the query.
        client: the name of the client's wire.
        request_id: the id that the client got.
        status: the HTTP status; 0 if the client disconnected before one was sent.
        upstream: the number of the upstream that was asked last, from 1 on; 0 if none was asked.
        provider: the name of its provider; None if none was asked.
        failures: a sentence for each upstream that failed before it.
        model: the client's name of the model.
        upstream_model: the upstream's.
        calls: the number of tool calls in the response.
        usage: the tokens of the response, if they are known.
        error: what failed; None if nothing did.
        disconnected: the client disconnected before the end.
        changes: a sentence for each thing of the request or the response that was changed or left out.
        seconds: the time from the request to the end of the response.
    """

    method: str
    path: str
    client: str
    request_id: str
    status: int = 0
    upstream: int = 0
    provider: str | None = None
    failures: Sequence[str] = ()
    model: str | None = None
    upstream_model: str | None = None
    calls: int = 0
    usage: Usage | None = None
    error: str | None = None
    disconnected: bool = False
    changes: Sequence[str] = ()
    seconds: float = 0.0


class Observer(Protocol):
    """Looks at the traffic of a gateway, such as `streamkit.gateway.tap.ExchangeObserver`.

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
