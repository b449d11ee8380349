"""Show the requests of a provider's client while they stream.

Requests pass to the provider and responses pass back, both unchanged; a page of this computer shows a copy: the frames
with their events, calls as their arguments grow, usage, warnings and errors, without keys. The client gets the address
of the tap in place of the provider's base URL. For example:

  streamkit tap --provider anthropic --base-url https://api.anthropic.com
  ANTHROPIC_BASE_URL=http://127.0.0.1:8702 claude

  streamkit tap --provider openai_chat --base-url https://api.openai.com/v1
  OPENAI_BASE_URL=http://127.0.0.1:8702 python my_agent.py

To put a client of one wire on the model of another, use `streamkit gateway --tap`. Ctrl-C lets open responses end.
"""

from __future__ import annotations

import argparse
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from streamkit import providers
from streamkit.bridges.http import base_address, open_http
from streamkit.cli.serving import (
    TAP_PORT,
    add_record_argument,
    address_of,
    is_loopback,
    listen,
    observation,
    port_number,
    serve_until_signal,
    terminated_in_order,
)

if TYPE_CHECKING:
    import httpx

    from streamkit.cli.terminal import Notes
    from streamkit.gateway.tap import ExchangeObserver
    from streamkit.gateway.tap.pass_through import AskUnchanged, PassedRequest

__all__ = ["configure", "run"]

_PORT = 8702


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--provider", required=True, metavar="NAME", help=f"the wire: one of {', '.join(providers.names())}"
    )
    parser.add_argument("--base-url", metavar="URL", help="the base URL that the client would have without the tap")
    parser.add_argument("--host", default="127.0.0.1", metavar="HOST", help="the address to serve (127.0.0.1)")
    parser.add_argument("--port", type=port_number, default=_PORT, metavar="N", help=f"the port for clients ({_PORT})")
    parser.add_argument(
        "--tap-port", type=port_number, default=TAP_PORT, metavar="N", help=f"the port of the page ({TAP_PORT})"
    )
    add_record_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Pass requests on until Ctrl-C."""
    import anyio

    from streamkit.cli.terminal import Notes

    address = base_address(providers.get(options.provider).traits.endpoint, options.base_url)
    notes = Notes()
    listening = listen(options.host, options.port)
    if not is_loopback(options.host):
        notes.print(f"Other computers can reach {options.host!r}: their requests pass to {address} too", "yellow")
    with terminated_in_order(), listening, observation(options.tap_port, options.record, (), notes.print) as observer:
        anyio.run(_serve, options.provider, address, listening, notes, observer)
    return 0


async def _serve(
    provider: str, address: str, listening: socket.socket, notes: Notes, observer: ExchangeObserver
) -> None:
    """Serve on a socket until a signal."""
    import httpx

    from streamkit.gateway.tap.pass_through import PassThrough

    timeout = httpx.Timeout(None, connect=30.0)  # the client decides how long it waits
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
    async with open_http(timeout=timeout, limits=limits) as http:
        app = PassThrough(provider, address, _ask_over_http(http), observer)
        notes.print(f"streamkit tap: {address_of(listening)} passes to {provider} at {address}")
        await serve_until_signal(app, listening, notes.print, date_header=False)  # the upstream's own passes


def _ask_over_http(http: httpx.AsyncClient) -> AskUnchanged:
    """Return the function that asks the upstream."""
    import httpx

    @asynccontextmanager
    async def ask(request: PassedRequest) -> AsyncIterator[httpx.Response]:
        # Not http.stream(), which would add headers of its own.
        built = httpx.Request(request.method, request.url, headers=request.headers, content=request.body)
        built.extensions["timeout"] = http.timeout.as_dict()
        response = await http.send(built, stream=True)
        try:
            yield response
        finally:
            await response.aclose()

    return ask
