"""The gateway over real HTTP: further upstreams, heartbeats, counts of tokens, compressed bodies."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import anyio.to_thread
import httpx
import pytest
from gateway.gateway_clients import CLIENTS, read_turn
from gateway.gateway_server import Target, serve_gateway, serve_handler
from waiting import PATIENCE

from streamkit.calls import StreamError
from streamkit.errors import UsageError
from streamkit.events import Finished, ResponseStarted, Text
from streamkit.gateway import Exchange, GatewayLimits
from streamkit.gateway.replies import error_status
from streamkit.providers import writer
from streamkit.testing import ErrorEvent, RawBytes, Reply, Server, Stall, Status, serve

QUICK = GatewayLimits(silence=0.05)


def target(server: Server, provider: str = "anthropic", conversation: str = "", **options: Any) -> Target:
    options.setdefault("models", {"*": "scripted"})
    return Target(provider, server.base_url(provider, conversation), **options)


def post(url: str, client: str, **options: Any) -> httpx.Response:
    path, body = CLIENTS[client]
    return httpx.post(url + path, **{"json": body, "timeout": 20, **options})


@contextmanager
def silent_server() -> Iterator[tuple[str, threading.Event, threading.Event]]:
    """Yield the address of a server that accepts requests and never responds, and when it got and lost one."""
    listening = socket.create_server(("127.0.0.1", 0))
    asked, left = threading.Event(), threading.Event()

    def accept() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(65536)
            asked.set()
            while connection.recv(65536):
                pass
            left.set()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield "http://{}:{}".format(*listening.getsockname()[:2]), asked, left
    finally:
        listening.close()


# ---------------------------------------------------------------- further upstreams


ERROR_EVENT = (
    b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}\n\n'
)
#: What the first upstream does instead of sending an event, and the beginning of the sentence about it.
FAILURES = {
    "rate limit": (Status(429, "slow down"), "anthropic: rate_limited: slow down"),
    "overload": (Status(529), "anthropic: overloaded"),
    "defect": (Status(500, "oops"), "anthropic: provider_error: oops"),
    "refused key": (Status(401, "invalid key"), "anthropic: unauthorized: invalid key"),
    "error event": (
        RawBytes(ERROR_EVENT),
        "anthropic: overloaded: Overloaded",
    ),
    "error after the start": (Reply(ErrorEvent(Status(529, "Overloaded"))), "anthropic: overloaded: Overloaded"),
    "silence": (Reply(Stall(20)), "anthropic: timed_out: no event arrived within 0.2 seconds"),
    "no bytes": (RawBytes(b""), "anthropic: stream_truncated"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_the_next_upstream_is_asked_if_one_fails_before_its_first_event(failure: str) -> None:
    turn, sentence = FAILURES[failure]
    reports: list[Exchange] = []
    timeout = 0.2 if failure == "silence" else None
    with serve([turn]) as first, serve(["Hello."]) as second:
        targets = (target(first, first_event_timeout=timeout), target(second, "gemini"))
        with serve_gateway(*targets, reports=reports) as url:
            response = post(url, "openai_chat")
    read = read_turn("openai_chat", response.content)
    assert (response.status_code, read.text, read.error) == (200, "Hello.", None)
    assert [len(first.requests), len(second.requests)] == [1, 1]
    (report,) = reports
    assert (report.upstream, report.provider, report.error) == (2, "gemini", None)
    assert len(report.failures) == 1
    assert report.failures[0].startswith(sentence)


def test_an_upstream_that_cannot_be_reached_or_does_not_respond_is_passed_over() -> None:
    reports: list[Exchange] = []
    with socket.socket() as refusing, silent_server() as (silent, _, left), serve(["Hello."]) as server:
        refusing.bind(("127.0.0.1", 0))  # and does not listen
        unreachable = "http://{}:{}".format(*refusing.getsockname()[:2])
        targets = (
            Target("openai_chat", unreachable),
            Target("anthropic", silent, first_event_timeout=0.1),
            target(server),
        )
        with serve_gateway(*targets, reports=reports) as url:
            response = post(url, "gemini")
        assert left.wait(PATIENCE)
    assert read_turn("gemini", response.content).text == "Hello."
    assert [sentence.split(": ")[:2] for sentence in reports[0].failures] == [
        ["openai_chat", "transport_error"],
        ["anthropic", "timed_out"],
    ]


def test_no_other_upstream_is_asked_after_the_first_event() -> None:
    with (
        serve([Reply("Hel", ErrorEvent(Status(529, "Overloaded")))]) as first,
        serve(["Hello."]) as second,
        serve_gateway(target(first), target(second)) as url,
    ):
        response = post(url, "openai_responses")
    read = read_turn("openai_responses", response.content)
    assert (read.text, second.requests) == ("Hel", [])
    assert read.error is not None
    assert read.error.message == "Overloaded"


def test_the_error_of_the_last_upstream_is_the_clients() -> None:
    with (
        serve([Status(529)]) as first,
        serve([Status(429, "slow down", retry_after=7)]) as second,
        serve_gateway(target(first), target(second, "openai_chat")) as url,
    ):
        response = post(url, "anthropic")
    assert (response.status_code, response.headers["retry-after"]) == (429, "7")
    assert response.json()["error"] == {"type": "rate_limit_error", "message": "slow down"}


@pytest.mark.parametrize(("status", "shown"), [(503, 503), (599, 599), (600, 500), (999, 500)])
def test_a_status_that_no_server_can_send_is_not_passed_on(status: int, shown: int) -> None:
    assert error_status(StreamError("provider_error", "HTTP status", status=status), 500) == shown


# ---------------------------------------------------------------- heartbeats


HEARTBEATS = {
    "anthropic": b'event: ping\ndata: {"type": "ping"}\n\n',
    "openai_chat": b": ping\n",
    "openai_responses": b": ping\n",
    "cohere": b": ping\n",
    "gemini": b"\r\n",
}


@contextmanager
def gated_upstream(*parts: bytes) -> Iterator[tuple[str, list[threading.Event]]]:
    """Yield the address of a server that sends each part of a stream when its event is set, and these events."""
    gates = [threading.Event() for _ in parts]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            for gate, part in zip(gates, parts, strict=True):
                gate.wait(PATIENCE)
                self.wfile.write(part)

        def log_message(self, *_: object) -> None:
            pass

    with serve_handler(Handler) as address:
        yield address, gates


@pytest.mark.parametrize("client", HEARTBEATS)
def test_a_client_gets_heartbeats_of_its_wire_while_the_upstream_is_silent(client: str) -> None:
    """The upstream sends the next part once the client has a heartbeat."""
    upstream = writer("anthropic", response_id="msg_1", model="m")
    parts = [upstream.write(ResponseStarted("msg_1", "m")), upstream.write(Text("Hel")), upstream.write(Text("lo."))]
    parts.append(upstream.write(Finished("stop")) + upstream.close())
    heartbeat = 3 * HEARTBEATS[client] if client == "gemini" else HEARTBEATS[client]  # two lines end a frame of Gemini
    path, body = CLIENTS[client]
    data, seen = b"", []
    with (
        gated_upstream(*parts) as (address, gates),
        serve_gateway(Target("anthropic", address), limits=QUICK) as url,
    ):
        gates[0].set()
        with httpx.stream("POST", url + path, json=body, timeout=PATIENCE) as response:
            for received in response.iter_bytes():
                data += received
                before, _, after = data.partition(b"Hel")
                between, has_end, _ = after.partition(b"lo.")
                seen = [heartbeat in before, heartbeat in between]
                for gate, is_due in zip(gates[1:], (*seen, has_end), strict=True):
                    if is_due:
                        gate.set()
    read = read_turn(client, data)
    assert (read.text, read.error, read.warnings) == ("Hello.", None, [])
    assert seen == [True, True]
    assert not data.endswith(heartbeat)


@contextmanager
def slow_refusal(status: Status) -> Iterator[tuple[Server, threading.Event]]:
    """Yield a server that refuses a request when an event is set, and the event."""
    release = threading.Event()

    async def refuse(_: Any) -> Status:
        await anyio.to_thread.run_sync(release.wait, 10)
        return status

    with serve(refuse) as server:
        yield server, release


def read_stream(url: str, client: str, release: threading.Event) -> tuple[httpx.Response, bytes]:
    """Return a response and its bytes; the event is set as soon as there are some."""
    path, body = CLIENTS[client]
    data = b""
    with httpx.stream("POST", url + path, json=body, timeout=20) as response:
        for part in response.iter_bytes():
            data += part
            release.set()
    return response, data


@pytest.mark.parametrize("client", ["openai_chat", "anthropic", "gemini"])
def test_heartbeats_come_before_the_upstream_responds_and_do_not_prevent_another_upstream(client: str) -> None:
    with (
        slow_refusal(Status(529)) as (first, release),
        serve(["Hello."]) as second,
        serve_gateway(target(first), target(second), limits=QUICK) as url,
    ):
        _, data = read_stream(url, client, release)
    assert data.startswith(HEARTBEATS[client])
    read = read_turn(client, data)
    assert (read.text, read.error) == ("Hello.", None)


@pytest.mark.parametrize("client", HEARTBEATS)
def test_an_error_after_heartbeats_is_an_event(client: str) -> None:
    with (
        slow_refusal(Status(429, "slow down")) as (server, release),
        serve_gateway(target(server), limits=QUICK) as url,
    ):
        response, data = read_stream(url, client, release)
    read = read_turn(client, data)
    assert response.status_code == 200
    assert read.error is not None
    assert (read.error.message, read.text) == ("slow down", "")


def test_a_client_that_takes_no_stream_gets_no_heartbeats() -> None:
    _, body = CLIENTS["openai_chat"]
    script = [Reply(Stall(0.3), "Hello.")] * 2
    with serve(script) as server, serve_gateway(target(server), limits=QUICK) as url:
        whole = post(url, "openai_chat", json={**body, "stream": False})
        array = httpx.post(url + CLIENTS["gemini"][0].partition("?")[0], json=CLIENTS["gemini"][1], timeout=20)
    assert whole.content.startswith(b"{")
    assert array.content.startswith(b"[{")
    assert json.loads(array.content)


@pytest.mark.parametrize("heartbeats", [True, False])
def test_a_client_that_leaves_a_silent_upstream_closes_it(heartbeats: bool) -> None:
    path, body = CLIENTS["anthropic"]
    limits = QUICK if heartbeats else GatewayLimits(silence=None)
    reports: list[Exchange] = []
    with (
        silent_server() as (silent, asked, left),
        serve_gateway(Target("openai_chat", silent), limits=limits, reports=reports) as url,
    ):
        address = httpx.URL(url)
        with socket.create_connection((address.host, address.port or 0)) as client:
            content = json.dumps(body).encode()
            head = f"POST {path} HTTP/1.1\r\nhost: gateway\r\ncontent-length: {len(content)}\r\n\r\n"
            client.sendall(head.encode() + content)
            assert asked.wait(PATIENCE)
            received = b""
            while heartbeats and b"ping" not in received:  # the headers may arrive alone
                part = client.recv(65536)
                assert part, received
                received += part
        assert left.wait(PATIENCE)
    assert [report.disconnected for report in reports] == [True]


def test_the_seconds_of_silence_are_above_0() -> None:
    with pytest.raises(UsageError, match="silence must be a number of seconds above 0"):
        GatewayLimits(silence=0)
