"""The protocol of the command's servers: what it writes at once, and what arrives at a client."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from streamkit.cli import joined_head
from streamkit.cli.joined_head import JoinedHeadProtocol
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
        connection = http.client.HTTPConnection("127.0.0.1", listening.getsockname()[1], timeout=10)
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

    made = type("Served", (parser,), {"connection_made": connection_made})
    monkeypatch.setattr(joined_head, "JoinedHeadProtocol", made)


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
