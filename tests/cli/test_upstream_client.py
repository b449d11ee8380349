"""The HTTP client of the gateway's command, against a server of bytes."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import pytest

from streamkit import Turn, read
from streamkit.cli import upstream_client
from streamkit.cli.upstream_client import ask_over_http, open_client
from streamkit.errors import UsageError
from streamkit.gateway import UpstreamRequest

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
FRAMES = [
    b'data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n',
    b'data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n',
    b"data: [DONE]\n\n",
]
KEY = {"authorization": "Bearer upstream"}


class Upstream:
    """A server that sends a response to each request, and the end of its body later.

    Args:
        frames: the frames of the body; None for no response.
        ends: the body ends.

    Attributes:
        requests: the bytes of its requests.
        connections: how many there were.
        is_read: the last frame was read, so the end of the body can follow.
    """

    def __init__(self, frames: list[bytes] | None, *, ends: bool) -> None:
        self._frames, self._ends = frames, ends
        self.requests: list[bytes] = []
        self.connections = 0
        self.address = ""
        self.is_read = asyncio.Event()
        self._writers: list[asyncio.StreamWriter] = []

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection."""
        self.connections += 1
        self._writers.append(writer)
        await self.respond(reader, writer)

    async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Respond to the requests of a connection."""
        while request := await read_request(reader):
            self.requests.append(request)
            if self._frames is None:
                continue
            writer.write(HEAD + b"".join(b"%x\r\n%b\r\n" % (len(frame), frame) for frame in self._frames))
            if self._ends:
                await self.is_read.wait()
                self.is_read.clear()
                writer.write(b"0\r\n\r\n")

    def close(self) -> None:
        """Close the connections."""
        for writer in self._writers:
            writer.close()

    async def aclose(self) -> None:
        """Close the connections, and wait for it: one that the event loop leaves open is reported in a later test."""
        self.close()
        for writer in self._writers:
            with suppress(ConnectionError):
                await writer.wait_closed()


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """Return the bytes of the next request; none at the end of the connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        [size] = re.findall(rb"(?i)content-length: (\d+)", head)
        return head + await reader.readexactly(int(size))
    except asyncio.IncompleteReadError:
        return b""


@asynccontextmanager
async def served(
    frames: list[bytes] | None = FRAMES, *, ends: bool = True, kind: type[Upstream] = Upstream
) -> AsyncIterator[Upstream]:
    upstream = kind(frames, ends=ends)
    server = await asyncio.start_server(upstream.accept, "127.0.0.1", 0)
    upstream.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        try:
            yield upstream
        finally:
            server.close()
            await asyncio.sleep(0)  # a connection that has just come gets its writer
            await upstream.aclose()


async def ask(
    client: aiohttp.ClientSession,
    upstream: Upstream,
    server: Upstream | None = None,
    on_event: Callable[[], None] = lambda: None,
    **fields: Any,
) -> Turn:
    """Return the turn of one request.

    Args:
        client: the HTTP client.
        upstream: whose address is asked.
        server: which responds, if it is another one.
        on_event: called after each event.
        fields: of the request's body.
    """
    turn = Turn("openai_chat", turn_key="t")
    request = UpstreamRequest(path="/v1/chat/completions", headers={}, body={"model": "m", **fields}, model="m")
    opening = ask_over_http(client, upstream.address, KEY)(request)
    async with opening as response, read(turn, response) as events:
        async for _ in events:
            on_event()
            if turn.done:
                (server or upstream).is_read.set()
    return turn


def test_requests_share_a_connection_though_the_end_of_a_body_comes_after_its_last_frame() -> None:
    async def main() -> None:
        async with served() as upstream, open_client() as client:
            assert [(await ask(client, upstream)).text for _ in range(3)] == ["Hi", "Hi", "Hi"]
            assert (len(upstream.requests), upstream.connections) == (3, 1)

    asyncio.run(main())


@pytest.mark.parametrize(("answered", "is_late"), [(1, False), (1, True), (0, False)])
def test_a_request_on_a_kept_connection_that_the_server_closed_is_sent_on_a_new_one(
    answered: int, is_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """uvicorn and Node close a connection after 5 seconds of silence, also while a request is on its way."""

    class Impatient(Upstream):
        async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for number in range(answered + 1):
                self.requests.append(await read_request(reader))
                if number < answered:
                    writer.write(HEAD + b"".join(b"%x\r\n%b\r\n" % (len(frame), frame) for frame in FRAMES))
                    writer.write(b"0\r\n\r\n")
            writer.close()

    async def main() -> None:
        async with served(kind=Impatient) as upstream, open_client() as client:
            if is_late:  # the server may have read it
                monkeypatch.setattr("streamkit.cli.upstream_client._AT_ONCE", -1.0)
                assert (await ask(client, upstream)).text == "Hi"
                with pytest.raises(aiohttp.ServerDisconnectedError):
                    await ask(client, upstream)
                assert len(upstream.requests) == 2
            elif answered:
                assert [(await ask(client, upstream)).text for _ in range(3)] == ["Hi", "Hi", "Hi"]
                assert len(upstream.requests) == 5
            else:  # on a new connection, so the server may have read it and failed
                with pytest.raises(aiohttp.ServerDisconnectedError):
                    await ask(client, upstream)
                assert len(upstream.requests) == 1

    asyncio.run(main())


@pytest.mark.parametrize("text", ["caf\u00e9 \u6f22 \U0001f600", "half of a pair: \ud83d"])
def test_a_body_is_sent_as_it_is(text: str) -> None:
    fields = {"text": text, "seed": 10**30, "nested": [{"a": None, "b": [1.5, True]}]}

    async def main() -> None:
        async with served() as upstream, open_client() as client:
            await ask(client, upstream, **fields)
            _, _, body = upstream.requests[0].partition(b"\r\n\r\n")
            assert json.loads(body) == {"model": "m", **fields}

    asyncio.run(main())


def test_a_connection_that_breaks_is_reported_in_words_for_people() -> None:
    """Clients show the sentence. aiohttp's has the status 400 of no response: "TransferEncodingError: 400"."""

    async def main() -> None:
        async with served(FRAMES[:1], ends=False) as upstream, open_client() as client:
            turn = await ask(client, upstream, on_event=upstream.close)
        assert turn.error is not None
        assert (turn.text, turn.error.kind) == ("Hi", "transport_error")
        assert turn.error.message == "ConnectionError: the connection broke before the end of the response"

    asyncio.run(main())


def test_a_request_needs_no_thread() -> None:
    async def main() -> None:
        async with served() as upstream, open_client() as client:
            before = set(threading.enumerate())
            await ask(client, upstream)
            assert set(threading.enumerate()) <= before

    asyncio.run(main())


def test_a_password_in_netrc_does_not_replace_the_key(monkeypatch, tmp_path) -> None:
    (tmp_path / "netrc").write_text("default login someone password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))

    async def main() -> None:
        async with served() as upstream, open_client() as client:
            assert (await ask(client, upstream)).text == "Hi"
            assert b"authorization: bearer upstream\r\n" in upstream.requests[0].lower()

    asyncio.run(main())


@pytest.mark.parametrize("excluded", [False, True])
def test_the_proxy_of_the_environment_is_asked(monkeypatch, excluded: bool) -> None:
    async def main() -> None:
        async with served() as proxy, served() as upstream, open_client() as client:
            monkeypatch.setenv("http_proxy", proxy.address)
            monkeypatch.setenv("no_proxy", "127.0.0.1" if excluded else "")
            await ask(client, upstream, None if excluded else proxy)
            assert (len(proxy.requests), len(upstream.requests)) == ((0, 1) if excluded else (1, 0))
            if not excluded:
                assert proxy.requests[0].startswith(f"POST {upstream.address}/v1/chat/completions ".encode())

    asyncio.run(main())


@pytest.mark.parametrize(
    ("variable", "value", "excluded", "is_asked"),
    [
        ("all_proxy", "{address}", "", True),
        ("http_proxy", "{host}", "", True),
        ("http_proxy", "{address}", "{upstream}", False),
        ("https_proxy", "{address}", "", False),
    ],
)
def test_proxies_are_named_in_the_forms_that_other_programs_read(
    monkeypatch, variable: str, value: str, excluded: str, is_asked: bool
) -> None:
    """curl and httpx take ``ALL_PROXY``, an address without a scheme, and an exclusion with a port."""

    async def main() -> None:
        async with served() as proxy, served() as upstream, open_client() as client:
            fields = {"address": proxy.address, "host": proxy.address[7:], "upstream": upstream.address[7:]}
            monkeypatch.setenv(variable, value.format(**fields))
            monkeypatch.setenv("no_proxy", excluded.format(**fields))
            await ask(client, upstream, proxy if is_asked else None)
            assert (len(proxy.requests), len(upstream.requests)) == ((1, 0) if is_asked else (0, 1))

    asyncio.run(main())


@pytest.mark.parametrize("proxy", ["socks5://localhost:1080", "http://", "http://[::1", "other://u:secret@host"])
def test_a_proxy_that_cannot_be_used_is_refused_at_the_start(monkeypatch, proxy: str) -> None:
    monkeypatch.setenv("all_proxy", proxy)

    async def main() -> None:
        async with open_client() as client:
            with pytest.raises(UsageError, match=r"the proxy of the environment for model\.example") as refused:
                ask_over_http(client, "https://model.example/v1", {})
            assert "set https_proxy to one, or add model.example to no_proxy" in str(refused.value)
            assert "secret" not in str(refused.value)

    asyncio.run(main())


@pytest.mark.parametrize(
    "sent", [b"\x15\x03\x01\x00\x02\x02\x16", b"SSH-2.0-OpenSSH_9\r\n", b"HTTP/1.1 200 OK\r\nx y\r\n\r\n"]
)
def test_what_is_no_http_is_a_failed_connection(sent: bytes) -> None:
    """Such as TLS asked without it. The status 400 that aiohttp gives it is no response of the server."""

    class Other(Upstream):
        async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            writer.write(sent)
            writer.close()

    async def main() -> None:
        async with served(kind=Other) as upstream, open_client() as client:
            with pytest.raises(
                ConnectionError, match=r"the server's response is not valid HTTP, check the base URL: .+"
            ):
                await ask(client, upstream)

    asyncio.run(main())


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    """It could lead to a server that must not see the key, or the conversation."""

    class Redirecting(Upstream):
        elsewhere = ""

        async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            writer.write(f"HTTP/1.1 {status} X\r\nlocation: {self.elsewhere}/v1\r\ncontent-length: 0\r\n\r\n".encode())

    async def main() -> None:
        async with served() as other, served(kind=Redirecting) as upstream, open_client() as client:
            assert isinstance(upstream, Redirecting)
            upstream.elsewhere = other.address
            turn = await ask(client, upstream)
            assert turn.error is not None
            assert turn.error.status == status
            assert (other.connections, other.requests) == (0, [])

    asyncio.run(main())


def test_a_proxy_that_refuses_a_connection_is_named(monkeypatch) -> None:
    class Refusing(Upstream):
        async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
            writer.close()

    async def main() -> None:
        async with served(kind=Refusing) as proxy, open_client() as client:
            monkeypatch.setenv("https_proxy", proxy.address)
            proxy.address = "https://model.example"
            with pytest.raises(ConnectionError, match="the proxy refused the connection: 407 Proxy Authentication"):
                await ask(client, proxy)

    asyncio.run(main())


@pytest.mark.parametrize("frames", [[], FRAMES[:1]], ids=["after the head", "after a part"])
def test_a_silent_response_fails(monkeypatch, frames: list[bytes]) -> None:
    monkeypatch.setattr(upstream_client, "_SILENCE", 0.05)

    async def main() -> None:
        async with served(frames, ends=False) as upstream, open_client() as client:
            turn = await ask(client, upstream)
            assert turn.text == ("Hi" if frames else "")
            assert turn.error is not None
            assert "nothing arrived for 0.05 seconds" in turn.error.message

    asyncio.run(main())


def test_an_upstream_without_a_response_fails(monkeypatch) -> None:
    monkeypatch.setattr(upstream_client, "_SILENCE", 0.05)

    async def main() -> None:
        async with served(None) as upstream, open_client() as client:
            with pytest.raises(TimeoutError, match=r"nothing arrived for 0\.05 seconds"):
                await ask(client, upstream)

    asyncio.run(main())
