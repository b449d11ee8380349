"""Bodies at the gateway over real HTTP: counts of tokens, compressed requests and responses, refusals."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

import httpx
import pytest
from gateway.gateway_clients import CLIENTS, Json, read_turn
from gateway.gateway_server import Target, serve_gateway, serve_responses

from streamkit import Turn
from streamkit.events import Finished, ResponseStarted, Text
from streamkit.gateway import Exchange, GatewayLimits
from streamkit.providers import writer
from streamkit.testing import serve

JSON = {"content-type": "application/json"}
#: A count of each wire that has one: the client's path, the upstream's, and the name of the model in the body.
COUNTS: dict[str, tuple[str, str, Json, Json]] = {
    "anthropic": ("/v1/messages/count_tokens", "/v1/messages/count_tokens", {"model": "m"}, {"model": "mine"}),
    "openai_responses": ("/v1/responses/input_tokens", "/responses/input_tokens", {"model": "m"}, {"model": "mine"}),
    "gemini": (
        "/v1beta/models/m:countTokens",
        "/v1beta/models/mine:countTokens",
        {"generateContentRequest": {"model": "models/m", "contents": []}},
        {"generateContentRequest": {"model": "models/mine", "contents": []}},
    ),
}


def error_of(client: str, response: httpx.Response) -> str:
    """Return the message of an error as a client of the wire reads it."""
    turn = Turn(client)
    turn.response(response.status_code, response.headers)
    turn.feed(response.content)
    turn.close()
    assert turn.error is not None
    return turn.error.message


# ---------------------------------------------------------------- counts of tokens


@pytest.mark.parametrize("client", COUNTS)
def test_a_count_is_forwarded_to_an_upstream_of_the_same_wire(client: str) -> None:
    path, expected_path, model, expected_model = COUNTS[client]
    fields = {"messages": [{"role": "user", "content": "hi"}], "anything": [1, 2.5, None]}
    count = json.dumps({"input_tokens": 17, "more": {"a": 1}}).encode()
    reports: list[Exchange] = []
    with serve_responses((200, JSON, count)) as (upstream, requests):
        targets = (Target("ollama", "http://127.0.0.1:9"), Target(client, upstream, models={"m": "mine"}))
        with serve_gateway(*targets, reports=reports) as url:
            response = httpx.post(
                url + path, json={**model, **fields}, headers={"anthropic-beta": "x", "x-api-key": "k"}
            )
    assert (response.status_code, response.content) == (200, count)
    (request,) = requests
    assert str(request.url) == expected_path
    assert json.loads(request.content) == {**fields, **expected_model}
    assert (request.headers.get("anthropic-beta") == "x") == (client == "anthropic")
    assert "upstream-key" in "".join(request.headers.values())
    assert request.headers.get("x-api-key") != "k"
    (report,) = reports
    assert (report.upstream, report.provider, report.upstream_model, report.error) == (2, client, "mine", None)


@pytest.mark.parametrize("client", COUNTS)
def test_a_count_that_no_upstream_can_give_is_refused(client: str) -> None:
    other = "anthropic" if client == "gemini" else "gemini"
    with serve_responses() as (upstream, requests), serve_gateway(Target(other, upstream)) as url:
        response = httpx.post(url + COUNTS[client][0], json=COUNTS[client][2])
    assert response.status_code == 404
    assert "no upstream of this gateway counts tokens" in error_of(client, response)
    assert requests == []


def test_the_error_of_a_count_is_the_upstreams_and_the_next_one_of_the_wire_is_asked() -> None:
    invalid = {"type": "error", "error": {"type": "invalid_request_error", "message": "messages: Field required"}}
    path, _, model, _ = COUNTS["anthropic"]
    failed = (529, JSON, b"{}")
    with (
        serve_responses((400, JSON, json.dumps(invalid).encode()), failed, failed) as (first, _),
        serve_responses((200, JSON, b'{"input_tokens": 3}')) as (second, _),
        serve_gateway(Target("anthropic", first), Target("anthropic", second)) as url,
    ):
        refused, counted, unanswered = (httpx.post(url + path, json=model) for _ in range(3))
    assert (refused.status_code, refused.json()) == (400, invalid)
    assert (counted.status_code, counted.json()) == (200, {"input_tokens": 3})
    assert unanswered.status_code == 502


def test_a_refused_count_says_when_to_ask_again() -> None:
    sent = {"retry-after": "7", "anthropic-ratelimit-requests-remaining": "0", "x-should-retry": "true"}
    path, _, model, _ = COUNTS["anthropic"]
    with (
        serve_responses((429, {**JSON, **sent, "set-cookie": "a=b"}, b"{}")) as (upstream, _),
        serve_gateway(Target("anthropic", upstream)) as url,
    ):
        response = httpx.post(url + path, json=model)
    assert response.status_code == 429
    assert {name: response.headers.get(name) for name in (*sent, "set-cookie")} == {**sent, "set-cookie": None}


@pytest.mark.parametrize(("body", "message"), [([], "must be a JSON object"), ({}, "names no model")])
def test_a_count_without_a_model_is_refused(body: Any, message: str) -> None:
    with serve_responses() as (upstream, _), serve_gateway(Target("anthropic", upstream)) as url:
        response = httpx.post(url + "/v1/messages/count_tokens", json=body)
    assert response.status_code == 400
    assert message in error_of("anthropic", response)


# ---------------------------------------------------------------- compressed bodies


def deflate(data: bytes, window_bits: int = zlib.MAX_WBITS) -> bytes:
    compressor = zlib.compressobj(wbits=window_bits)
    return compressor.compress(data) + compressor.flush()


ENCODINGS = {
    "gzip": ("gzip", gzip.compress),
    "two": ("deflate, GZIP", lambda data: gzip.compress(deflate(data))),
    "zlib": ("deflate", deflate),
    "raw deflate": ("deflate", lambda data: deflate(data, -zlib.MAX_WBITS)),
    "identity": ("identity", lambda data: data),
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_compressed_request_is_read(name: str) -> None:
    encoding, compress = ENCODINGS[name]
    path, body = CLIENTS["openai_chat"]
    with serve(["Hello."]) as server, serve_gateway(Target("openai_chat", server.base_url("openai_chat"))) as url:
        content = compress(json.dumps(body).encode())
        response = httpx.post(url + path, content=content, headers={"content-encoding": encoding})
    assert read_turn("openai_chat", response.content).text == "Hello."


def test_a_request_compressed_with_zstd_is_read() -> None:
    zstandard = pytest.importorskip("zstandard", reason="zstd needs the package zstandard")
    path, body = CLIENTS["openai_chat"]
    limits = GatewayLimits(body=100_000)
    with (
        serve(["Hello."]) as server,
        serve_gateway(Target("openai_chat", server.base_url("openai_chat")), limits=limits) as url,
    ):
        responses = [
            httpx.post(url + path, content=zstandard.compress(content), headers={"content-encoding": "zstd"})
            for content in (json.dumps(body).encode(), b" " * 10_000_000)
        ]
        damaged = httpx.post(url + path, content=b"{}", headers={"content-encoding": "zstd"})
    assert read_turn("openai_chat", responses[0].content).text == "Hello."
    assert [response.status_code for response in (*responses, damaged)] == [200, 413, 400]


@pytest.mark.parametrize("name", ["gzip", "two", "zlib", "raw deflate"])
def test_the_limit_counts_the_decompressed_body(name: str) -> None:
    encoding, compress = ENCODINGS[name]
    content = compress(b" " * 10_000_000)
    assert len(content) < 50_000
    limits = GatewayLimits(body=100_000)
    with serve_responses() as (upstream, _), serve_gateway(Target("anthropic", upstream), limits=limits) as url:
        response = httpx.post(url + "/v1/messages", content=content, headers={"content-encoding": encoding})
    assert response.status_code == 413
    assert response.json()["error"]["type"] == "request_too_large"


@pytest.mark.parametrize(
    ("encoding", "content", "status"),
    [
        ("br", b"x", 415),
        ("gzip", b"{}", 400),
        ("gzip", gzip.compress(b"{}")[:-9], 400),
        ("deflate", b"", 400),
        ("gzip", gzip.compress(b"{"), 400),
    ],
    ids=["br", "no gzip", "cut gzip", "empty deflate", "no JSON"],  # gzip writes the time, which must not be in an id
)
def test_a_body_that_cannot_be_decompressed_is_refused(encoding: str, content: bytes, status: int) -> None:
    with serve_responses() as (upstream, _), serve_gateway(Target("anthropic", upstream)) as url:
        response = httpx.post(url + "/v1/messages", content=content, headers={"content-encoding": encoding})
    assert response.status_code == status
    assert response.json()["error"]["type"] == "invalid_request_error"
    assert ("accept-encoding" in response.headers) == (status == 415)


@pytest.mark.parametrize("encoding", ["gzip", "zlib"])
def test_a_compressed_response_is_read(encoding: str) -> None:
    name, compress = ENCODINGS[encoding]
    live = writer("anthropic", response_id="r", model="m")
    events = (ResponseStarted("r", "m"), Text("Hello."), Finished("stop"))
    content = compress(b"".join(map(live.write, events)) + live.close())
    refusal = compress(b'{"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}')
    headers = {"content-encoding": name, "content-type": "text/event-stream"}
    with (
        serve_responses((200, headers, content), (429, {**headers, **JSON}, refusal)) as (upstream, _),
        serve_gateway(Target("anthropic", upstream)) as url,
    ):
        path, body = CLIENTS["openai_chat"]
        responses = [httpx.post(url + path, json=body) for _ in range(2)]
    assert read_turn("openai_chat", responses[0].content).text == "Hello."
    assert (responses[1].status_code, error_of("openai_chat", responses[1])) == (429, "slow down")
    assert "content-encoding" not in responses[0].headers


# ---------------------------------------------------------------- methods and paths


@pytest.mark.parametrize("client", CLIENTS)
def test_other_methods_are_refused_in_the_clients_wire(client: str) -> None:
    path = CLIENTS[client][0]
    with serve_responses() as (upstream, _), serve_gateway(Target("anthropic", upstream)) as url:
        get, head, options = (httpx.request(method, url + path) for method in ("GET", "HEAD", "OPTIONS"))
        unknown = httpx.request("HEAD", url + "/nothing")
    assert (get.status_code, get.headers["allow"], head.status_code) == (405, "POST", 405)
    assert "takes POST, not GET" in error_of(client, get)
    assert (head.content, head.headers["allow"]) == (b"", "POST")
    assert (options.status_code, options.headers["allow"], options.content) == (204, "POST", b"")
    assert (unknown.status_code, unknown.content) == (404, b"")


def test_a_websocket_is_refused_so_that_the_client_asks_by_http() -> None:
    headers = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    with serve_responses() as (upstream, _), serve_gateway(Target("anthropic", upstream)) as url:
        response = httpx.get(url + "/v1/responses", headers=headers)
    assert (response.status_code, response.headers["upgrade"]) == (426, "HTTP/1.1")
    assert "WebSockets" in error_of("openai_responses", response)


OTHER = "https://other.example"


@pytest.mark.parametrize(
    ("headers", "is_refused"),
    [
        ({"origin": OTHER, "content-type": "text/plain;charset=UTF-8"}, True),
        ({"origin": OTHER, "content-type": "application/x-www-form-urlencoded"}, True),
        ({"origin": "null", "content-type": "Multipart/Form-Data; boundary=x"}, True),
        ({"origin": OTHER}, True),
        ({"origin": OTHER, "content-type": "application/json"}, False),  # a browser asks first, and is not allowed to
        ({"origin": "chrome-extension://x", "content-type": "application/json"}, False),
        ({"content-type": "application/x-www-form-urlencoded"}, False),  # curl's, without an origin
        ({"origin": "http://rebound.example:8700", "host": "rebound.example:8700"} | JSON, True),
        ({"origin": "http://Rebound.example", "host": "rebound.example"} | JSON, True),
        ({"origin": "http://rebound.example.", "host": "rebound.example."} | JSON, True),
        ({"origin": "http://127.0.0.1:8700", "host": "127.0.0.1:8700"} | JSON, False),
        ({"origin": "http://[::1]:8700", "host": "[::1]:8700"} | JSON, False),
        ({"origin": "http://localhost", "host": "localhost"} | JSON, False),
        ({"origin": "http://gateway:8700", "host": "gateway:8700"} | JSON, False),  # of a container
        ({"origin": "https://site.example", "host": "site.example"} | JSON, False),  # behind a proxy
    ],
)
@pytest.mark.parametrize("key", [None, "users"])
def test_a_web_page_of_another_site_cannot_use_a_gateway_without_a_key(
    headers: dict[str, str], is_refused: bool, key: str | None
) -> None:
    """A browser sends a text or a form at once, and its response is of no matter to who makes the user pay for it."""
    with (
        serve(["Hello."], strict=False) as server,
        serve_gateway(Target("anthropic", server.base_url("anthropic")), key=key) as url,
    ):
        sent = headers if key is None else headers | {"x-api-key": key}
        path, body = CLIENTS["openai_chat"]
        response = httpx.post(url + path, content=json.dumps(body), headers=sent)
    assert response.status_code == (403 if is_refused and key is None else 200)
    assert len(server.requests) == (response.status_code == 200)
    if response.status_code == 403:
        assert error_of("openai_chat", response) == "a web page of another site cannot use this gateway"


def test_half_a_surrogate_pair_in_a_body_is_replaced() -> None:
    with serve(["Hello."]) as server, serve_gateway(Target("anthropic", server.base_url("anthropic"))) as url:
        text = rb"cut \ud83d, whole \ud83d\ude00, text \\ud83d"
        body = b'{"model": "m", "messages": [{"role": "user", "content": "%b"}]}' % text
        response = httpx.post(f"{url}/v1/chat/completions", content=body, headers=JSON)
        assert response.status_code == 200
        assert "cut \ufffd, whole \U0001f600, text \\ud83d" in str(
            server.requests[0].json["messages"][0]["content"][0]["text"]
        )


@pytest.mark.parametrize(
    ("method", "path", "content", "error"),
    [
        ("POST", "/v1/chat/completions", b"{", "the body is not JSON: "),
        ("POST", "/v1/images", b"{}", "Invalid URL (POST /v1/images): this gateway has no such path"),
        ("PUT", "/v1/messages", b"{}", "/v1/messages takes POST, not PUT"),
    ],
)
def test_the_report_of_a_refused_request_says_why(method: str, path: str, content: bytes, error: str) -> None:
    reports: list[Exchange] = []
    with serve_gateway(Target("anthropic", "http://127.0.0.1:9"), reports=reports) as url:
        httpx.request(method, url + path, content=content)
    assert [(report.error or "")[: len(error)] for report in reports] == [error]
