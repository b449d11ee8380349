"""What a connection can make a server of the command do before and beside its requests, over real sockets."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest
import uvicorn
from waiting import PATIENCE, wait_until

from streamkit.cli.joined_head import ConnectionLimits, JoinedHeadProtocol
from streamkit.cli.serving import listen, server_settings
from streamkit.errors import UsageError

GET = b"GET / HTTP/1.1\r\nhost: h\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n"
MEGABYTE = 1_000_000


class Served:
    """A server whose application reads each body, and responds with the number of its bytes.

    Attributes:
        server: uvicorn's.
        port: the port.
        requests: the paths and headers of the requests.
        waiting: the number of requests of ``/wait``, which get no response.
        ended: the number of those that have ended.
    """

    def __init__(self, **limits: Any) -> None:
        settings = server_settings(ConnectionLimits(**limits))
        config = uvicorn.Config(self, **settings, timeout_graceful_shutdown=1)
        self.server = uvicorn.Server(config)
        self.port = 0
        self.requests: list[tuple[str, int]] = []
        self.waiting = self.ended = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.requests.append((scope["path"], len(scope["headers"])))
        size, has_more = 0, True
        while has_more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            size, has_more = size + len(message["body"]), message["more_body"]
        if scope["path"] == "/wait":
            self.waiting += 1
            while (await receive())["type"] != "http.disconnect":
                pass
            self.ended += 1
            return
        body = b"%d bytes" % size if scope["path"] == "/" else b"x" * 30 * MEGABYTE
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b""})  # waits until the client reads
        self.ended += 1

    @property
    def connections(self) -> int:
        return len(self.server.server_state.connections)


@contextmanager
def served(**limits: Any) -> Iterator[Served]:
    made = Served(**limits)
    with listen("127.0.0.1", 0) as listening:
        made.port = listening.getsockname()[1]
        thread = threading.Thread(target=made.server.run, args=([listening],), daemon=True)
        thread.start()
        try:
            wait_until(lambda: made.server.started)
            yield made
        finally:
            made.server.should_exit = made.server.force_exit = True
            thread.join(PATIENCE)


@contextmanager
def connected(made: Served) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", made.port), timeout=PATIENCE) as connection:
        yield connection


def read(connection: socket.socket, end: bytes | None = None) -> bytes:
    """Return what arrives until some bytes, or until the connection is closed."""
    data = b""
    with suppress(ConnectionError):
        while end is None or end not in data:
            if not (part := connection.recv(65536)):
                break
            data += part
    return data


def send_until_closed(connection: socket.socket, part: bytes, times: int) -> int:
    """Return how often a part could be sent."""
    count = 0
    with suppress(OSError):
        while count < times:
            connection.sendall(part)
            count += 1
    return count


@pytest.mark.parametrize("sent", [b"", b"\r\n", b"GET / HT", GET[:-2]], ids=["none", "line", "part", "head"])
def test_a_connection_without_a_whole_request_ends(sent: bytes) -> None:
    """8,400 of them stayed, without a key."""
    with served(head_time=0.2) as made, connected(made) as connection:
        connection.sendall(sent)
        received = read(connection)
        wait_until(lambda: made.connections == 0)
    assert b"The head of the request took too long." in received
    assert received.count(b"HTTP/1.1 408 Request Timeout\r\n") == 1
    assert made.requests == []


@pytest.mark.parametrize("asked", [b"Upgrade: h2c", b"upgrade:TLS/1.2", b"Upgrade: foo, h2c"])
def test_a_request_that_asks_for_another_protocol_keeps_its_body(asked: bytes) -> None:
    """Java's HttpClient asks each server without TLS for HTTP/2. httptools leaves its body to the other protocol."""
    head = b"POST / HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\ncontent-length: 5\r\nhost: h\r\n"
    data = head + b"HTTP2-Settings: AAEA\r\n" + asked + b"\r\n\r\nhello"
    with served() as made, connected(made) as connection:
        connection.sendall(data)
        assert read(connection, b"bytes").endswith(b"\r\n\r\n5 bytes")
        connection.sendall(GET)
        assert read(connection, b"bytes").endswith(b"\r\n\r\n0 bytes")


def test_a_trickle_of_empty_lines_does_not_keep_a_connection() -> None:
    """They begin no request, and stop uvicorn's timer of idle connections."""
    with served(head_time=0.2) as made, connected(made) as connection:
        connection.sendall(GET)
        read(connection, b"0 bytes")
        with suppress(OSError):
            while made.connections:
                connection.sendall(b"\r\n")
                threading.Event().wait(0.01)
    assert made.requests == [("/", 1)]


def test_a_request_that_is_served_has_no_time_limit_of_its_head() -> None:
    with served(head_time=0.1) as made, connected(made) as connection:
        connection.sendall(POST)
        wait_until(lambda: made.requests)
        with connected(made) as other:
            assert b"408" in read(other)
        connection.sendall(b"2\r\n{}\r\n0\r\n\r\n")
        assert read(connection, b"bytes").endswith(b"\r\n\r\n2 bytes")


def test_the_connection_that_waits_longest_is_closed_for_a_further_one(caplog: pytest.LogCaptureFixture) -> None:
    JoinedHeadProtocol._has_warned = False
    with caplog.at_level(logging.WARNING), served(connections=8) as made, ExitStack() as stack:
        opened = [stack.enter_context(connected(made)) for _ in range(30)]
        for connection in opened[:20]:
            with suppress(OSError):
                connection.sendall(GET[:-2])
        wait_until(lambda: made.connections <= 8)
        assert [read(connection) for connection in opened[:22]] == [b""] * 22
        with connected(made) as ordinary:
            ordinary.sendall(GET)
            assert read(ordinary, b"bytes").endswith(b"0 bytes")
    assert [record.getMessage()[:24] for record in caplog.records] == ["more than 8 connections:"]


def test_a_connection_with_a_request_is_not_closed_for_another_one() -> None:
    with served(connections=3) as made, ExitStack() as stack:
        for number in range(1, 4):
            connection = stack.enter_context(connected(made))
            connection.sendall(GET.replace(b"/ ", b"/wait "))
            wait_until(lambda expected=number: made.waiting == expected)  # type: ignore[misc]
        with connected(made) as further:
            received = read(further)
        assert received.startswith(b"HTTP/1.1 503 ")
        assert received.endswith(b"This server has too many connections.")
        assert (made.waiting, made.ended) == (3, 0)


@pytest.mark.parametrize("part", [b"a" * MEGABYTE, b"a: b\r\n" * 100_000], ids=["one value", "many trailers"])
@pytest.mark.parametrize("before", [b"0\r\nx: ", b"2\r\n{}\r\n0\r\nx: ", b"1;"], ids=["empty", "body", "extension"])
def test_what_comes_instead_of_a_body_is_not_kept(before: bytes, part: bytes) -> None:
    """60 MB of trailers took 1.3 GB, without a key."""
    with served() as made, connected(made) as connection:
        connection.sendall(POST)
        wait_until(lambda: made.requests)
        connection.sendall(before)
        assert send_until_closed(connection, part, 60) < 20
        wait_until(lambda: made.connections == 0)
    assert made.requests == [("/", 2)]


def test_trailers_are_no_headers() -> None:
    with served() as made, connected(made) as connection:
        connection.sendall(POST + b"2\r\n{}\r\n0\r\nx-api-key: of another request\r\n\r\n" + GET)
        assert read(connection, b"0 bytes").count(b"2 bytes") == 1
    assert made.requests == [("/", 2), ("/", 1)]


def test_few_requests_wait_for_the_response_to_another_one() -> None:
    """One read of 256 kB had 13,000, each with its objects: 6 MB for each connection, without a key."""
    with served() as made, connected(made) as connection:
        connection.sendall(GET.replace(b"/ ", b"/wait ") + GET * 5000)
        assert b"HTTP/1.1 400 " in read(connection)
        wait_until(lambda: made.connections == 0)
        assert len(made.requests) == 1
    with served() as made, connected(made) as connection:
        connection.sendall(GET * 5)
        received = b""
        while received.count(b"0 bytes") < 5:
            received += connection.recv(65536)


def test_a_client_that_does_not_read_is_closed() -> None:
    """Else it keeps the place of an open response for as long as it likes."""
    with served(stall_time=0.2) as made, connected(made) as connection:
        connection.sendall(GET.replace(b"/ ", b"/large "))
        wait_until(lambda: made.ended)
        wait_until(lambda: made.connections == 0)
        assert len(read(connection)) < 30 * MEGABYTE


def test_a_client_that_reads_gets_all() -> None:
    with served() as made, connected(made) as connection:
        connection.sendall(GET.replace(b"/ ", b"/large "))
        size = 0
        while size < 30 * MEGABYTE:
            size += len(connection.recv(65536))
        assert made.connections == 1


#: Requests that are no HTTP, or not enough of it to be served, and what the response begins with.
BROKEN = {
    "two lengths": (b"POST / HTTP/1.1\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}", 400),
    "length and chunks": (b"POST / HTTP/1.1\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "no chunk": (POST + b"zz\r\n{}\r\n", 400),
    "a chunk of 16 digits": (POST + b"ffffffffffffffffff\r\n", 400),
    "a negative length": (b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n{}", 400),
    "a length of 5,000 digits": (b"POST / HTTP/1.1\r\ncontent-length: " + b"9" * 5000 + b"\r\n\r\n{}", 400),
    "another encoding in the path": (b"GET /\xff\xfe HTTP/1.1\r\n\r\n", 400),
    "another encoding in a value": (b"GET / HTTP/1.1\r\nhost: \xff\xfe\r\n\r\n", 200),
    "a null": (b"GET / HTTP/1.1\r\nx-api-key: a\x00b\r\n\r\n", 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "HTTP/1.0": (b"POST / HTTP/1.0\r\ncontent-length: 2\r\n\r\n{}", 200),
    "a folded value": (b"GET / HTTP/1.1\r\nx: a\r\n b\r\n\r\n", 400),
    "no method": (b"A" * 70_000 + b" / HTTP/1.1\r\n\r\n", 400),
    "lines before": (b"\r\n\r\n" + GET, 200),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_request_is_refused_at_once(name: str) -> None:
    sent, status = BROKEN[name]
    with served() as made, connected(made) as connection:
        connection.sendall(sent)
        received = read(connection, b"received." if status == 400 else b" bytes")
        assert received.startswith(b"HTTP/1.1 %d " % status)
        connection.close()
        with connected(made) as other:
            other.sendall(GET)
            assert read(other, b" bytes").endswith(b"0 bytes")
        wait_until(lambda: made.connections == 0)


def test_a_body_is_asked_for_when_it_is_read() -> None:
    with served() as made, connected(made) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
        assert read(connection, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"{}")
        assert read(connection, b" bytes").endswith(b"2 bytes")


def test_the_limits_of_connections_are_checked() -> None:
    for limits in ({"head_time": 0}, {"stall_time": -1}, {"connections": 0}):
        with pytest.raises(UsageError):
            ConnectionLimits(**limits)  # type: ignore[arg-type]
