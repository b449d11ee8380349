"""Targets of the gateway, in this process and without sockets: requests of clients, and streams of upstreams."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any
from urllib.parse import unquote_to_bytes

from fuzz.checks import check_turn, cut, require, run
from fuzz.inputs import Input, encode_parts, expand, part_bytes, stream_bytes
from fuzz.request_targets import _request_seeds
from fuzz.stream_targets import calls_kept
from fuzz.target import Target, stream_seeds
from gateway.gateway_clients import CLIENTS

from streamkit import Turn, providers
from streamkit.gateway import Exchange, Gateway, GatewayLimits, Upstream

__all__ = ["GATEWAY_TARGETS"]

_CLIENTS = tuple(CLIENTS)
_LIMITS = GatewayLimits(body=200_000, silence=None)
_KEY = "sk-fuzz-gateway-key"
_STATE_KEY = b"signs the opaque state of clients"


class _Response:
    """The response of an upstream."""

    def __init__(self, parts: list[bytes], status: int = 200) -> None:
        self.parts = parts
        self.status_code = status
        self.headers: dict[str, str] = {}

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        for part in self.parts:
            yield part


@cache
def _runner() -> asyncio.Runner:
    """Return one event loop for all inputs."""
    return asyncio.Runner()


def ask(gateway: Gateway, scope: dict[str, Any], body: bytes) -> tuple[int, bytes]:
    """Return the status and the body of a gateway's response; its sequence of ASGI messages is checked."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop()
        await asyncio.Event().wait()  # the client stays
        raise AssertionError

    async def send(message: Any) -> None:
        sent.append(message)

    async def serve() -> int:
        await gateway(scope, receive, send)
        await asyncio.sleep(0)
        return len(asyncio.all_tasks()) - 1

    log = logging.getLogger("streamkit.gateway")
    log.disabled = True  # a defect that it reports is a finding
    try:
        left = _runner().run(serve())
    finally:
        log.disabled = False
    require(left == 0, "no task of a request is left", str(left))
    kinds = [message["type"].rpartition(".")[2] for message in sent]
    require(kinds[:1] == ["start"] and set(kinds[1:]) == {"body"}, "a response has one start", str(kinds[:10]))
    require([message.get("more_body", False) for message in sent[1:]][-1:] == [False], "a response has an end")
    for name, value in sent[0].get("headers", ()):
        require(b"\n" not in name + value and b"\r" not in name + value, "a header is one line")
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


def _scope(method: str, path: str, query: str, headers: list[tuple[str, str]]) -> dict[str, Any]:
    raw = [(_latin(name).lower(), _latin(value)) for name, value in headers]
    decoded = unquote_to_bytes(path.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")
    scope = {"type": "http", "method": method, "path": decoded, "query_string": _latin(query), "headers": raw}
    return {**scope, "root_path": "", "scheme": "http", "server": ("127.0.0.1", 80), "http_version": "1.1"}


def _latin(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _gateway(provider: str, parts: list[bytes], reports: list[Exchange], key: str | None = None) -> Gateway:
    @asynccontextmanager
    async def open_upstream(_: Any) -> AsyncIterator[_Response]:
        yield _Response(parts)

    return Gateway(
        Upstream(provider=provider, ask=open_upstream, models={"*": "m"}),
        key=key,
        state_key=_STATE_KEY,
        limits=_LIMITS,
        observe=reports.append,
    )


def _check_report(status: int, body: bytes, reports: list[Exchange]) -> None:
    require(len(reports) == 1, "a request is reported once")
    shown = reports[0].error or ""
    require(b"this gateway failed" not in body, "the gateway does not fail", f"{shown[:200]} {body[-200:]!r}")
    require(status < 600, "a status is one of HTTP", str(status))


# ---------------------------------------------------------------- targets


def gateway_request(given: Input) -> None:
    """Send a request with any path, headers and body to a gateway: it responds, and no defect is behind a 500.

    The first part is an object with ``method``, ``path``, ``query`` and ``headers``; the second is the body.
    """
    first = expand(given.parts[0]) if given.parts else None
    head = first if isinstance(first, dict) else {}
    method = str(head.get("method", "POST")).encode("ascii", "replace").decode()
    path = str(head.get("path", "/"))
    listed = head.get("headers", {})
    headers = [(str(name), str(value)) for name, value in listed.items()] if isinstance(listed, dict) else []
    body = b""
    for part in given.parts[1:]:
        raw = part_bytes(part)
        body += json.dumps(expand(part)).encode() if raw is None else raw
    key = _KEY if given.options.get("key") == "needed" else None
    reports: list[Exchange] = []
    gateway = _gateway(given.other, encode_parts(_hello(given.other), given.other), reports, key)
    status, reply = ask(gateway, _scope(method, path, str(head.get("query", "")), headers), body)
    _check_report(status, reply, reports)


def gateway_chain(given: Input) -> None:
    """Pass an upstream's damaged stream to a client of another wire: the client gets the calls."""
    chance, client = random.Random(given.seed), given.other
    if client not in CLIENTS:
        client = _CLIENTS[given.seed % len(_CLIENTS)]
    data = stream_bytes(given)
    turn, seen = run(given.provider, [data])
    path, body = CLIENTS[client]
    reports: list[Exchange] = []
    url, _, query = path.partition("?")
    gateway = _gateway(given.provider, cut(data, chance), reports)
    scope = _scope("POST", url, query, [("content-type", "application/json")])
    status, reply = ask(gateway, scope, json.dumps(body).encode())
    _check_report(status, reply, reports)
    again = Turn(client)
    if status != 200:
        again.response(status)
    again.feed(reply)
    again.close()
    check_turn(again)
    has_changed = any("argument" in change for change in reports[0].changes)
    calls_kept(turn, seen, again, client, has_changed)


@cache
def _hello_chunks() -> dict[str, list[Any]]:
    seeds = stream_seeds("gateway_chain", size=1500)
    return {seed.provider: seed.parts for seed in reversed(seeds)}


def _hello(provider: str) -> list[Any]:
    return _hello_chunks().get(provider, [])


# ---------------------------------------------------------------- seeds


def _request_inputs() -> list[Input]:
    """Return a request of each client, bodies of all wires, and the other paths of a gateway."""
    seeds: list[Input] = []
    usual = {"content-type": "application/json", "authorization": f"Bearer {_KEY}"}
    others = providers.names()
    for number, (path, body) in enumerate(CLIENTS.values()):
        url, _, query = path.partition("?")
        head = {"method": "POST", "path": url, "query": query, "headers": usual}
        seeds.append(Input("gateway_request", other=others[number], parts=[head, body]))
    for number, each in enumerate(_request_seeds()[::4]):
        endpoint = providers.get(each.provider).traits.endpoint
        prefix = "" if endpoint.path.startswith(("/v1", "/v2", "/api", "/model")) else "/v1"
        head = {"method": "POST", "path": prefix + endpoint.path.replace("{model}", "m"), "headers": usual}
        body = {"model": "m", **each.parts[0], "stream": True}
        seeds.append(Input("gateway_request", other=others[number % len(others)], parts=[head, body]))
    for method, path, headers in (
        ("GET", "/v1/models", {}), ("HEAD", "/", {}), ("GET", "/v1/models/m", {"anthropic-version": "2023-06-01"}),
        ("OPTIONS", "/v1/messages", {}), ("GET", "/v1beta/models", {"x-goog-api-key": _KEY}), ("GET", "/api/tags", {}),
        ("POST", "/v1/messages/count_tokens", usual), ("GET", "/v1/v1/v1/chat/completions", {"upgrade": "websocket"}),
        ("POST", "/v1/responses", {**usual, "content-encoding": "gzip, deflate", "content-length": "1e9"}),
        ("POST", "/model/a%2Fb:c/converse-stream", {**usual, "origin": "http://evil.example", "host": "127.0.0.1"}),
    ):  # fmt: skip
        head = {"method": method, "path": path, "query": "alt=sse&key=x", "headers": headers}
        seeds.append(Input("gateway_request", other="anthropic", options={"key": "needed"}, parts=[head]))
    return seeds


GATEWAY_TARGETS = (
    Target("gateway_request", gateway_request, (), _request_inputs, {"key": ("none", "needed")}),
    Target(
        "gateway_chain", gateway_chain, (), lambda: stream_seeds("gateway_chain", _CLIENTS, size=4000, step=4),
        {"framing": ("own", "own", "array"), "end": ("marker", "none")},
    ),
)  # fmt: skip
