"""A gateway over real HTTP: the application behind uvicorn, in a thread, with upstreams asked by httpx."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anyio
import httpx
import uvicorn
from waiting import PATIENCE

from streamkit import providers
from streamkit.gateway import Cooldowns, Exchange, Gateway, GatewayLimits, Observer, Upstream


class Target:
    """An upstream by its provider and base URL, with the options of `Upstream`."""

    def __init__(self, provider: str, base_url: str, **options: Any) -> None:
        self.provider, self.base_url, self.options = provider, base_url, options


@contextmanager
def serve_gateway(
    *targets: Target,
    limits: GatewayLimits | None = None,
    reports: list[Exchange] | None = None,
    key: str | None = None,
    state_key: Any = b"a key that all gateways of these tests have",
    store: Any = None,
    cooldowns: Cooldowns | None = None,
    strict: bool = False,
    observer: Observer | None = None,
) -> Iterator[str]:
    """Yield the address of a gateway over these upstreams."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    started = threading.Event()
    server: list[uvicorn.Server] = []

    async def main() -> None:
        timeout = httpx.Timeout(30.0, pool=None)
        async with httpx.AsyncClient(timeout=timeout, limits=httpx.Limits(max_connections=None)) as http:
            app = Gateway(
                *(_upstream(http, target) for target in targets),
                limits=limits,
                key=key,
                state_key=state_key,
                store=store,
                cooldowns=cooldowns,
                strict=strict,
                observer=observer,
                observe=None if reports is None else reports.append,
            )
            config = uvicorn.Config(app, lifespan="off", ws="none", log_config=None, access_log=False)
            server.append(uvicorn.Server(config))
            started.set()
            await server[0].serve(sockets=[listening])
            await app.aclose()

    thread = threading.Thread(target=anyio.run, args=[main], daemon=True)
    thread.start()
    started.wait(PATIENCE)
    try:
        yield "http://{}:{}".format(*listening.getsockname()[:2])
    finally:
        server[0].should_exit = server[0].force_exit = True
        thread.join(PATIENCE)
        listening.close()


def _upstream(http: httpx.AsyncClient, target: Target) -> Upstream:
    endpoint = providers.get(target.provider).traits.endpoint
    headers: Mapping[str, str] = {endpoint.key_header[0]: endpoint.key_header[1].format("upstream-key")}
    return Upstream(
        provider=target.provider,
        ask=lambda request: http.stream(
            "POST", target.base_url + request.path, json=request.body, headers={**request.headers, **headers}
        ),
        endpoint=target.base_url,
        **target.options,
    )


@contextmanager
def serve_responses(*responses: tuple[int, dict[str, str], bytes]) -> Iterator[tuple[str, list[httpx.Request]]]:
    """Yield the address of a server that gives these responses in turn (status, headers, body), and its requests."""
    remaining, requests = list(responses), []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            requests.append(httpx.Request("POST", self.path, headers=dict(self.headers), content=body))
            status, headers, content = remaining.pop(0)
            self.send_response(status)
            for name, value in {"content-length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with serve_handler(Handler) as address:
        yield address, requests


@contextmanager
def serve_handler(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Yield the address of a server whose requests are handled in threads."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=[0.05], daemon=True)
    thread.start()
    try:
        yield "http://{}:{}".format(*server.server_address[:2])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
