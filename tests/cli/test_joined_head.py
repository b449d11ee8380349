"""The protocol of the command's servers: what it writes at once, and what arrives at a client."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from waiting import PATIENCE

from streamkit.cli import joined_head as joined_head
from streamkit.cli.joined_head import ConnectionLimits, JoinedHeadProtocol
from streamkit.cli.serving import listen, served_in_thread


class Recorded:
    """A transport that records what it is told."""

    def __init__(self) -> None:
        self.told: list[bytes | str] = []

    def write(self, data: bytes) -> None:
        self.told.append(data)

    def close(self) -> None:
        self.told.append("close")

    def is_closing(self) -> bool:
        return "close" in self.told


def told(*steps: bytes | str) -> list[bytes | str]:
    """Return what a transport is told, for writes of bytes, ``close``, and ``wait``: the event loop has control."""

    async def main() -> list[bytes | str]:
        recorded = Recorded()
        transport = joined_head._JoinedHeadTransport(recorded)
        for step in steps:
            if isinstance(step, bytes):
                transport.write(step)
            elif step == "close":
                transport.close()
                assert transport.is_closing()
            else:
                await asyncio.sleep(0)
        return recorded.told

    return asyncio.run(main())


HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((HEAD, b"a", b"b", "wait"), [HEAD + b"a", b"b"]),
        ((HEAD, "wait", b"a"), [HEAD, b"a"]),
        ((HEAD, b"", "wait"), [HEAD]),  # a response without a body
        ((HEAD, "close", "wait"), [HEAD, "close"]),
        ((HEAD, b"a", "close"), [HEAD + b"a", "close"]),
        ((HEAD, b"a", HEAD, b"b", "wait"), [HEAD + b"a", HEAD + b"b"]),
        ((HEAD, b"HTTP/1.1 in a text", b"b", "wait"), [HEAD + b"HTTP/1.1 in a text", b"b"]),
    ],
)
def test_a_head_is_written_with_what_follows_it_at_once(
    steps: tuple[bytes | str, ...], expected: list[bytes | str]
) -> None:
    assert told(*steps) == expected


@contextmanager
def served(app: Any) -> Iterator[http.client.HTTPConnection]:
    with listen("127.0.0.1", 0) as listening, served_in_thread(app, listening):
        connection = http.client.HTTPConnection("127.0.0.1", listening.getsockname()[1], timeout=PATIENCE)
        try:
            yield connection
        finally:
            connection.close()


@pytest.fixture(params=[HttpToolsProtocol, H11Protocol])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both parsers of uvicorn."""
    parser: Any = request.param

    def connection_made(self: Any, transport: Any) -> None:
        parser.connection_made(self, joined_head._JoinedHeadTransport(transport))

    def __init__(self: Any, *arguments: Any, limits: Any, waiting: Any, **named: Any) -> None:  # noqa: N807
        parser.__init__(self, *arguments, **named)

    made = type("Served", (parser,), {"__init__": __init__, "connection_made": connection_made})
    monkeypatch.setattr(joined_head, "JoinedHeadProtocol", made)


@pytest.mark.slow
@pytest.mark.usefixtures("parser")
def test_responses_arrive_on_one_connection_with_and_without_bodies() -> None:
    goes_on = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-path", scope["path"].encode())]})
        if scope["path"] == "/late":
            await goes_on.wait()
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        await send({"type": "http.response.body", "body": b"two"})

    with served(app) as connection:
        for method, path, body in (("GET", "/a", b"onetwo"), ("HEAD", "/b", b""), ("GET", "/c", b"onetwo")):
            connection.request(method, path)
            response = connection.getresponse()
            assert (response.headers["x-path"], response.read()) == (path, body)
        connection.request("GET", "/late")
        response = connection.getresponse()  # the head comes, though the body does not
        assert response.status == 200
        response.close()


def test_the_protocol_is_that_of_the_installed_parser() -> None:
    assert issubclass(JoinedHeadProtocol, HttpToolsProtocol)
    config = uvicorn.Config(lambda: None, ws="none", http=JoinedHeadProtocol)  # type: ignore[arg-type, return-value]
    config.load()
    assert config.http_protocol_class is JoinedHeadProtocol


def fed(*parts: bytes) -> list[bytes | str]:
    """Return what a transport is told after a request in parts, to an application that never responds."""

    class Connection(Recorded):
        def get_extra_info(self, name: str) -> None:
            """There is nothing to know."""

        def pause_reading(self) -> None:
            """The parts come anyway."""

        def resume_reading(self) -> None:
            """They come."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    async def main() -> list[bytes | str]:
        config = uvicorn.Config(app, ws="none", lifespan="off", log_config=None, http=JoinedHeadProtocol)
        config.load()
        protocol = JoinedHeadProtocol(
            config, uvicorn.server.ServerState(), app_state={}, limits=ConnectionLimits(), waiting={}
        )
        transport = Connection()
        protocol.connection_made(transport)
        for part in parts:
            if not transport.is_closing():
                protocol.data_received(part)
        await asyncio.sleep(0)
        told = list(transport.told)
        for task in protocol.tasks:
            task.cancel()
        return told

    return asyncio.run(main())


BEGIN, PART = b"POST / HTTP/1.1\r\ncontent-length: 100000\r\nx-long: ", b"a" * 8192


@pytest.mark.parametrize("begin", [BEGIN, b"GET /"])
def test_a_head_without_an_end_is_refused(begin: bytes) -> None:
    """Else one connection takes all of the memory, without the key."""
    refused, closed = fed(begin, *[PART] * 1000)
    assert isinstance(refused, bytes)
    assert refused.startswith(b"HTTP/1.1 431 ")
    assert refused.endswith(b"\r\n\r\nThe head of the request is too long.")
    assert closed == "close"


def test_bodies_and_heads_of_other_requests_are_no_part_of_a_head() -> None:
    whole = BEGIN + b"\r\n\r\n" + b"b" * 100_000
    assert fed(BEGIN, *[PART] * 7, b"\r\n\r\n", *[PART] * 12) == []
    assert fed(*[whole + BEGIN, PART + b"\r\n\r\n" + b"b" * 100_000] * 3) == []
    assert fed(BEGIN + PART * 20 + b"\r\n\r\n") == []  # the parser had it all
