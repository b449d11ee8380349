"""Servers for the tests of the tap: applications over real HTTP, a gateway and a pass-through with their page."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
from waiting import PATIENCE, wait_until

from streamkit.cli.serving import address_of, listen, served_in_thread
from streamkit.gateway import Gateway, Upstream, UpstreamRequest
from streamkit.gateway.tap import ExchangeList, ExchangeObserver
from streamkit.gateway.tap.page import TapPage
from streamkit.gateway.tap.pass_through import PassedRequest, PassThrough
from streamkit.gateway.tap.relay import Relay, RelayTarget

Json = dict[str, Any]

UPSTREAM_KEY = "upstream-key-without-a-known-form"
CLIENT_KEY = "client-key-without-a-known-form"


@contextmanager
def served(app: Any, end: Callable[[], None] | None = None) -> Iterator[str]:
    """Serve an application on a free port; yield its address."""
    with listen("127.0.0.1", 0) as listening, served_in_thread(app, listening, end):
        yield address_of(listening)


@dataclass
class Tap:
    """A gateway or a pass-through with its page.

    Attributes:
        url: the address for clients.
        page: the address of the page.
        exchanges: what the page shows.
        relay: brings the copies to the list.
        said: what the relay said.
    """

    url: str
    page: str
    exchanges: ExchangeList
    relay: Relay
    said: list[str] = field(default_factory=list)

    def details(self, count: int = 1) -> list[Json]:
        """Return all exchanges, once that many are shown and have ended: a client may have its last byte before."""

        def ended() -> list[Json] | None:
            assert self.relay.flush()
            shown = self.exchanges.changes(0).summaries
            is_open = any(summary["state"] in ("waiting", "streaming") for summary in shown)
            return shown if len(shown) >= count and not is_open else None

        summaries = wait_until(ended, lambda: self.exchanges.changes(0).summaries)
        assert summaries is not None
        return [json.loads(self.exchanges.detail(summary["id"]) or b"") for summary in summaries]


@contextmanager
def tap_of(make: Callable[[ExchangeObserver], Any], target: RelayTarget | None = None) -> Iterator[Tap]:
    """Serve an application with an observer, and the page."""
    exchanges = ExchangeList()
    said: list[str] = []
    relay = Relay(target or exchanges, report=said.append)
    observer = ExchangeObserver(relay, secrets=[UPSTREAM_KEY])
    page = TapPage(exchanges)
    with served(make(observer)) as url, served(page, page.close) as address:
        yield Tap(url, address, exchanges, relay, said)
    relay.close()


@contextmanager
def gateway_tap(provider: str, base_url: str, target: RelayTarget | None = None, **options: Any) -> Iterator[Tap]:
    """Serve a gateway over one upstream, and its page."""

    def make(observer: ExchangeObserver) -> Gateway:
        def ask(request: Any) -> Any:
            return ask_upstream(base_url, request)

        upstream = Upstream(provider=provider, ask=ask, endpoint=base_url, secrets=[UPSTREAM_KEY], **options)
        return Gateway(upstream, observer=observer)

    with tap_of(make, target) as tap:
        yield tap


@contextmanager
def passing_tap(provider: str, base_url: str, target: RelayTarget | None = None) -> Iterator[Tap]:
    """Serve a pass-through to one upstream, and its page."""
    with tap_of(lambda observer: PassThrough(provider, base_url, ask_unchanged, observer), target) as tap:
        yield tap


@asynccontextmanager
async def ask_upstream(base_url: str, request: UpstreamRequest) -> AsyncIterator[httpx.Response]:
    """Open the response to a request of a gateway."""
    headers = {**request.headers, "x-api-key": UPSTREAM_KEY}
    async with (
        httpx.AsyncClient(timeout=30) as http,
        http.stream("POST", base_url + request.path, json=request.body, headers=headers) as response,
    ):
        yield response


@asynccontextmanager
async def ask_unchanged(request: PassedRequest) -> AsyncIterator[httpx.Response]:
    """Open the response to a request that is passed through."""
    async with httpx.AsyncClient(timeout=30) as http:
        built = httpx.Request(request.method, request.url, headers=request.headers, content=request.body)
        response = await http.send(built, stream=True)
        try:
            yield response
        finally:
            await response.aclose()


class PageReader:
    """A viewer of the page: its server-sent events, read in a thread."""

    def __init__(self, page: str, exchange: int | None = None) -> None:
        self.messages: list[Json] = []
        self._url = f"{page}/events" + ("" if exchange is None else f"?exchange={exchange}")
        self._has_changed = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        # The server may end before the viewer does.
        with suppress(httpx.HTTPError), httpx.Client(timeout=30) as http, http.stream("GET", self._url) as response:
            for line in response.iter_lines():
                if line.startswith("data: "):
                    with self._has_changed:
                        self.messages.append(json.loads(line.removeprefix("data: ")))
                        self._has_changed.notify_all()

    def wait_for(self, condition: Callable[[list[Json]], Any], timeout: float = PATIENCE) -> Any:
        """Return what the condition returns, once it is true."""
        with self._has_changed:
            assert self._has_changed.wait_for(lambda: condition(self.messages), timeout), self.messages
            return condition(self.messages)
