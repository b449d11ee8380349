"""Two gateways in a row, from one wire to another and back: the client gets the turn of the recorded stream.

What the wire between them cannot express is in ``written_losses.toml``.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest
from gateway.gateway_clients import CLIENTS, read_turn
from shared_data import RecordedStream, recorded_streams
from test_written_streams import counts_differ, expected, observed, read_recorded

from streamkit import providers
from streamkit.gateway import Gateway, Upstream

WIRES = tuple(CLIENTS)
#: The dialect whose losses are those of a wire between gateways, where it is another one than the wire's own: Chat
#: Completions has reasoning there.
DIALECTS = {"openai_chat": "deepseek"}
MOST = 4


class Recorded:
    """A recorded response of an upstream."""

    status_code = 200

    def __init__(self, data: bytes) -> None:
        self.data = data

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self.data), 4096):
            yield self.data[at : at + 4096]


def recorded_gateway(stream: RecordedStream) -> Gateway:
    """Return a gateway whose upstream gives a recorded stream."""

    @asynccontextmanager
    async def ask(_: Any) -> AsyncIterator[Recorded]:
        yield Recorded(stream.data)

    return Gateway(Upstream(provider=stream.provider, ask=ask, models={"*": "m"}))


async def read_through(stream: RecordedStream, client: str, between: str) -> bytes:
    """Return what a client gets of a stream of its own wire through a gateway to another wire, and one back."""
    inner = httpx.ASGITransport(recorded_gateway(stream))
    async with httpx.AsyncClient(transport=inner, base_url="http://inner") as http:
        base = providers.get(between).traits.endpoint
        prefix = "/v1" if not base.path.startswith(("/v1", "/v2", "/api", "/model")) else ""
        outer = Gateway(
            Upstream(
                provider=between,
                ask=lambda request: http.stream("POST", prefix + request.path, json=request.body),
                models={"*": "m"},
            )
        )
        async with httpx.AsyncClient(transport=httpx.ASGITransport(outer), base_url="http://outer") as user:
            path, body = CLIENTS[client]
            response = await user.post(path, json=body)
            return response.content


def streams_of(client: str) -> list[RecordedStream]:
    """Return a few of the repository's recorded streams of a client's wire, without errors, the largest first."""
    package = providers.get(client).package
    found = [
        stream
        for stream in recorded_streams()
        if stream.expected is not None and providers.get(stream.provider).package == package
    ]
    complete = [stream for stream in found if read_recorded(stream)[0].error is None]
    return sorted(complete, key=lambda stream: -len(stream.expected["calls"]) if stream.expected else 0)[:MOST]


@pytest.mark.parametrize("between", WIRES)
@pytest.mark.parametrize("client", WIRES)
def test_two_gateways_give_back_the_turn(client: str, between: str) -> None:
    streams = streams_of(client)
    assert streams
    for stream in streams:
        turn, events = read_recorded(stream)
        again = read_turn(client, anyio.run(read_through, stream, client, between))
        target = DIALECTS.get(between, between)
        wanted = expected(turn, events, target)
        found = observed(again, target, wanted)
        if counts_differ(turn.usage):
            found.pop("usage")
            wanted.pop("usage")
        assert found == wanted, f"{stream} through {between}: {json.dumps(found, default=str)[:500]}"
