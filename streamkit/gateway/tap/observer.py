"""``ExchangeObserver``: copies of the traffic of a gateway or of a pass-through, for relays.

It is what ``Gateway(observer=...)`` takes. Its methods neither wait nor raise.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from streamkit.errors import UsageError
from streamkit.gateway.tap.observed_exchange import ExchangeEnd, ExchangeStart
from streamkit.gateway.tap.relay import Relay
from streamkit.reading.source import CopiedSource

if TYPE_CHECKING:
    from streamkit.gateway import Exchange, Upstream, UpstreamRequest
    from streamkit.providers.requests.request import Request
    from streamkit.reading.turn import Turn

__all__ = ["ExchangeCopy", "ExchangeObserver"]


class ExchangeCopy:
    """The copy of one exchange while it runs; a sink of a ``CopiedSource``.

    Attributes:
        error: what the request for the response raised; None if it did not.
    """

    def __init__(self, key: int, relays: Sequence[Relay], clock: Callable[[], float]) -> None:
        self._key = key
        self._relays = relays
        self._clock = clock
        self._has_ended = False
        self.error: str | None = None

    def respond(self, status: int, headers: Mapping[str, str]) -> None:
        """Take the status and the headers of the response."""
        at = self._clock()
        for relay in self._relays:
            relay.respond(self._key, at, status, headers)

    def write(self, data: Any) -> None:
        """Take a part of the response."""
        at = self._clock()
        for relay in self._relays:
            relay.receive(self._key, at, data)

    def note(self, note: str) -> None:
        """Take a sentence about the exchange."""
        for relay in self._relays:
            relay.note(self._key, note)

    def close(self) -> None:
        """Do nothing: the end of the input is not yet the end of the exchange."""

    def end(self, **fields: Any) -> None:
        """Take the end, with fields of ``ExchangeEnd``. A second one is ignored."""
        if self._has_ended:
            return
        self._has_ended = True
        end = ExchangeEnd(at=self._clock(), **{"error": self.error, **fields})
        for relay in self._relays:
            relay.end(self._key, end)

    @asynccontextmanager
    async def watch(self, response: AbstractAsyncContextManager[Any]) -> AsyncIterator[CopiedSource]:
        """Open a response; its input is copied while it is read."""
        try:
            async with response as source:
                status = getattr(source, "status_code", None)
                if isinstance(status, int):
                    self.respond(status, dict(getattr(source, "headers", None) or {}))
                yield CopiedSource(source, self)
        except Exception as error:
            self.error = f"{type(error).__name__}: {error}"
            raise


class ExchangeObserver:
    """Copies of exchanges, for relays.

    Args:
        relays: get the copies.
        secrets: texts that are masked in every exchange.
        clock: returns the time, in seconds since 1970.

    Raises:
        UsageError: ``secrets`` is one text.
    """

    def __init__(self, *relays: Relay, secrets: Sequence[str] = (), clock: Callable[[], float] = time.time) -> None:
        if isinstance(secrets, str):  # each character would be a secret, too short to be masked
            raise UsageError("ExchangeObserver takes a list of texts, not one text: secrets=[key]")
        self._relays = relays
        self._secrets = tuple(secrets)
        self._clock = clock
        self._keys = itertools.count(1)
        self._open: dict[int, list[ExchangeCopy]] = {}  # by the id of the gateway's exchange

    def begin(self, *, secrets: Sequence[str] = (), seconds: float = 0.0, **fields: Any) -> ExchangeCopy:
        """Return the copy of a new exchange.

        Args:
            secrets: texts that are masked in this exchange.
            seconds: the time since the request.
            fields: fields of ``ExchangeStart``.
        """
        copy = ExchangeCopy(next(self._keys), self._relays, self._clock)
        start = ExchangeStart(at=self._clock() - seconds, secrets=(*self._secrets, *secrets), **fields)
        for relay in self._relays:
            relay.start(copy._key, start)
        return copy

    # ---------------------------------------------------------------- of a gateway

    def watch(
        self,
        exchange: Exchange,
        upstream: Upstream,
        request: UpstreamRequest,
        response: AbstractAsyncContextManager[Any],
        asked: Request,
        turn: Turn,
    ) -> AbstractAsyncContextManager[Any]:
        """Return the response of an upstream, which is copied while it is read."""
        copies = self._open.setdefault(id(exchange), [])
        for failed in copies:
            failed.end()  # another upstream is asked
        copy = self.begin(
            secrets=upstream.secrets,
            method=exchange.method,
            path=exchange.path,
            client=exchange.client,
            provider=exchange.provider,
            address=upstream.endpoint,
            model=exchange.model,
            upstream_model=request.model,
            request=request.body,
        )
        copies.append(copy)
        return copy.watch(response)

    def report(self, exchange: Exchange) -> None:
        """End the exchange of a gateway."""
        copies = self._open.pop(id(exchange), [])
        if not copies:  # answered without an upstream
            start = {"method": exchange.method, "path": exchange.path, "client": exchange.client}
            copies = [self.begin(seconds=exchange.seconds, model=exchange.model, **start)]
        copies[-1].end(
            request_id=exchange.request_id,
            status=exchange.status or None,
            error=exchange.error,
            disconnected=exchange.disconnected,
            changes=list(exchange.changes),
        )
