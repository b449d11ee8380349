"""A pass-through over real HTTP: requests and responses unchanged, copies beside them, compressed and not."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from gateway.tap.tap_servers import CLIENT_KEY, ask_unchanged, passing_tap, served, tap_of
from shared_data import all_recorded_streams
from waiting import wait_until

from streamkit import providers
from streamkit.gateway.tap import pass_through as pass_through_module
from streamkit.gateway.tap.pass_through import PassedRequest, PassThrough, decompressor
from streamkit.gateway.tap.relay import Copies
from streamkit.testing import Disconnect, RawBytes, Reply, Stall, serve

Json = dict[str, Any]

FRAMES = (
    b'data: {"id":"r","choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)
BODY = b'{ "model": "m",  "stream": true, "messages": [{"role":"user","content":"hi"}] }'  # spaces that must stay


class Upstream:
    """An application that keeps the requests and sends one response in parts."""

    def __init__(self, *parts: bytes, headers: list[tuple[bytes, bytes]] | None = None, status: int = 200) -> None:
        self.parts = parts
        self.headers = headers or [(b"content-type", b"text/event-stream")]
        self.status = status
        self.requests: list[tuple[Json, bytes]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while (message := await receive()).get("body") or message.get("more_body"):
            body += message["body"]
            if not message.get("more_body"):
                break
        self.requests.append((scope, body))
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        for part in self.parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def kinds() -> list[Any]:
    """Return one recorded stream of each provider and kind of file."""
    found: dict[tuple[str, str], Any] = {}
    for stream in all_recorded_streams():
        suffix = "".join(stream.path.suffixes[-1:])
        if suffix in (".sse", ".ndjson", ".json", ".eventstream"):
            found.setdefault((stream.provider, suffix), stream)
    return [pytest.param(stream, id=f"{provider}{suffix}") for (provider, suffix), stream in sorted(found.items())]


@pytest.mark.slow
@pytest.mark.parametrize("stream", kinds())
def test_the_bytes_of_each_wire_pass_unchanged(stream: Any) -> None:
    endpoint = providers.get(stream.provider).traits.endpoint
    path = endpoint.path.format(model="m")
    with (
        serve([RawBytes(stream.data), RawBytes(stream.data)], strict=False, read_size=1000) as server,
        passing_tap(stream.provider, f"{server.url}/{stream.provider}{_prefix(endpoint)}") as tap,
    ):
        direct = httpx.post(f"{server.url}/{stream.provider}{_prefix(endpoint)}{path}", content=BODY)
        passed = httpx.post(f"{tap.url}{path}", content=BODY)
        (detail,) = tap.details()
    assert (direct.status_code, passed.status_code) == (200, 200), direct.text
    assert passed.content == direct.content == stream.data
    assert passed.headers["content-type"] == direct.headers["content-type"]
    turn = providers.get(stream.provider)
    assert detail["summary"]["provider"] == turn.name
    assert any(row["events"] for row in detail["rows"])


def _prefix(endpoint: Any) -> str:
    """Return the part of the base URL's path that the endpoint's route needs."""
    return "" if endpoint.path.startswith(("/v1", "/v2", "/api", "/model", "/openai")) else "/v1"


def test_requests_pass_unchanged() -> None:
    upstream = Upstream(FRAMES, headers=[(b"content-type", b"text/event-stream"), (b"x-a", b"1"), (b"x-a", b"2")])
    with served(upstream) as address, passing_tap("openai_chat", f"{address}/v1") as tap:
        headers = [
            ("Authorization", f"Bearer {CLIENT_KEY}"),
            ("X-Twice", "1"),
            ("X-Twice", "2"),
            ("Connection", "close, x-hop"),
            ("X-Hop", "for this connection alone"),
        ]
        url = f"{tap.url}/chat/completions?a=%2Fb&key={CLIENT_KEY}"
        response = httpx.post(url, content=BODY, headers=headers)
        shown = json.dumps(tap.details())
    ((scope, body),) = upstream.requests
    sent = [(name.decode(), value.decode()) for name, value in scope["headers"]]
    assert body == BODY
    assert (scope["method"], scope["raw_path"], scope["query_string"]) == (
        "POST",
        b"/v1/chat/completions",
        f"a=%2Fb&key={CLIENT_KEY}".encode(),
    )
    assert ("authorization", f"Bearer {CLIENT_KEY}") in sent
    assert [value for name, value in sent if name == "x-twice"] == ["1", "2"]
    assert [value for name, value in sent if name == "host"] == [address.removeprefix("http://")]
    assert "x-hop" not in dict(sent)
    assert dict(sent)["user-agent"] == response.request.headers["user-agent"]
    assert dict(sent)["accept-encoding"] == response.request.headers["accept-encoding"]
    assert response.headers.get_list("x-a") == ["1", "2"]
    assert response.content == FRAMES
    assert CLIENT_KEY not in shown
    assert json.loads(shown)[0]["summary"]["model"] == "m"


OTHER = "https://other.example"
PLAIN = {"content-type": "text/plain"}
JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("method", "headers", "is_refused"),
    [
        # a page of another site, whose requests without JSON a browser sends at once
        ("POST", {"origin": OTHER, **PLAIN}, True),
        ("POST", {"origin": "null", "content-type": "application/x-www-form-urlencoded"}, True),
        ("POST", {"origin": OTHER, "content-type": ""}, True),
        ("DELETE", {"origin": OTHER}, True),
        # a page whose name was made to lead to this computer
        ("POST", {"origin": "http://rebound.example:8702", "host": "rebound.example:8702", **JSON}, True),
        ("POST", {"host": "rebound.example:8702", **JSON}, True),
        ("GET", {"host": "rebound.example:8702"}, True),
        ("GET", {"host": "Rebound.example."}, True),
        ("OPTIONS", {"host": "127.0.0.1.rebound.example"}, True),
        # other programs
        ("POST", PLAIN, False),
        ("POST", {"origin": "chrome-extension://x", **JSON}, False),
        ("POST", {"origin": OTHER, **JSON}, False),  # the browser has asked the upstream, by OPTIONS
        ("OPTIONS", {"origin": OTHER}, False),
        ("GET", {"origin": "app://notes"}, False),
        ("GET", {"host": "localhost:1"}, False),
        ("GET", {"host": "[::1]:1"}, False),
        ("POST", {"host": "tap:8702", **JSON}, False),  # of a container
        ("POST", {"host": "host.docker.internal:8702", **JSON}, False),
    ],
)
def test_a_web_page_of_another_site_cannot_use_a_tap(method: str, headers: dict[str, str], is_refused: bool) -> None:
    upstream = Upstream(FRAMES)
    with served(upstream) as address, passing_tap("openai_chat", address) as tap:
        content = BODY if method == "POST" else None
        response = httpx.request(method, f"{tap.url}/chat/completions", content=content, headers=headers)
    assert response.status_code == (403 if is_refused else 200)
    assert len(upstream.requests) == (not is_refused)
    assert ("another site" in response.text) == is_refused


def test_a_name_of_another_computer_may_be_public() -> None:
    upstream = Upstream(FRAMES)

    def reached_from_elsewhere(app: Any) -> Any:
        async def serve_it(scope: Any, receive: Any, send: Any) -> None:
            await app({**scope, "server": ("192.0.2.1", 8702)}, receive, send)

        return serve_it

    with (
        served(upstream) as address,
        tap_of(
            lambda observer: reached_from_elsewhere(PassThrough("openai_chat", address, ask_unchanged, observer))
        ) as tap,
    ):
        headers = {"host": "tap.example", **JSON}
        assert httpx.post(f"{tap.url}/chat/completions", content=BODY, headers=headers).status_code == 200
        headers["origin"] = "http://tap.example"
        assert httpx.post(f"{tap.url}/chat/completions", content=BODY, headers=headers).status_code == 403


@pytest.mark.parametrize("origin", [OTHER, "http://127.0.0.1:1"])
def test_neither_the_tap_nor_its_page_opens_a_websocket(origin: str) -> None:
    upstream = Upstream(b"no upgrade")
    headers = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
        "origin": origin,
    }
    with served(upstream) as address, passing_tap("openai_chat", address) as tap:
        passed = httpx.get(f"{tap.url}/v1/realtime", headers=headers)
        events = httpx.get(f"{tap.page}/events", headers=headers)
    assert (passed.status_code, passed.text) == (200, "no upgrade")
    ((scope, _),) = upstream.requests
    assert b"upgrade" not in dict(scope["headers"])
    assert events.status_code == 403


def test_an_error_passes_unchanged_and_is_shown() -> None:
    body = json.dumps({"error": {"message": f"invalid key {CLIENT_KEY}", "type": "x"}}).encode()
    upstream = Upstream(body, headers=[(b"content-type", b"application/json"), (b"retry-after", b"7")], status=429)
    with served(upstream) as address, passing_tap("openai_chat", address) as tap:
        response = httpx.post(f"{tap.url}/chat/completions", content=BODY, headers={"x-api-key": CLIENT_KEY})
        (detail,) = tap.details()
    assert (response.status_code, response.content, response.headers["retry-after"]) == (429, body, "7")
    assert detail["summary"]["error"]["message"] == "invalid key ***"
    assert CLIENT_KEY not in json.dumps(detail)


def test_what_is_no_response_of_a_model_passes_too() -> None:
    with served(Upstream(b'{"data":[]}')) as address, passing_tap("openai_chat", address) as tap:
        assert httpx.get(f"{tap.url}/models").json() == {"data": []}
        assert httpx.request("DELETE", f"{tap.url}/files/1").status_code == 200
        models, _ = tap.details(2)
    assert (models["summary"]["state"], models["summary"]["provider"]) == ("finished", None)
    assert models["rows"][0]["frames"][0]["data"] == '{"data":[]}'


COMPRESSED = {
    "gzip": gzip.compress(FRAMES),
    "deflate": zlib.compress(FRAMES),
    "identity": FRAMES,
}


@pytest.mark.parametrize("encoding", COMPRESSED)
def test_a_compressed_response_passes_compressed_and_is_read(encoding: str) -> None:
    data = COMPRESSED[encoding]
    parts = [data[at : at + 5] for at in range(0, len(data), 5)]
    headers = [(b"content-type", b"text/event-stream"), (b"content-encoding", encoding.encode())]
    with served(Upstream(*parts, headers=headers)) as address, passing_tap("openai_chat", address) as tap:
        with httpx.stream("POST", f"{tap.url}/chat/completions", content=BODY) as response:
            assert b"".join(response.iter_raw()) == data
            assert response.headers["content-encoding"] == encoding
        (detail,) = tap.details()
    assert detail["rows"][0]["events"][-1]["line"] == "Hello"
    assert detail["summary"]["state"] == "finished"


@pytest.mark.parametrize(
    ("encoding", "note"),
    [("br", "is compressed with 'br', which cannot be read here"), ("gzip", "is not valid 'gzip'")],
)
def test_a_response_that_cannot_be_decompressed_passes_and_says_so(
    encoding: str, note: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pass_through_module, "find_spec", lambda name: None)  # as if no package for it were installed
    headers = [(b"content-type", b"text/event-stream"), (b"content-encoding", encoding.encode())]
    with served(Upstream(b"not compressed", headers=headers)) as address, passing_tap("openai_chat", address) as tap:
        with httpx.stream("POST", f"{tap.url}/chat/completions", content=BODY) as response:
            assert b"".join(response.iter_raw()) == b"not compressed"
        (detail,) = tap.details()
    assert note in detail["summary"]["notes"][0]


@pytest.mark.parametrize(("package", "encoding"), [("brotli", "br"), ("zstandard", "zstd")])
def test_other_compressions_need_their_package(package: str, encoding: str) -> None:
    library = pytest.importorskip(package, reason=f"{package} is not installed")
    read = decompressor(encoding)
    assert read is not None
    assert read(library.compress(FRAMES)) == FRAMES


def test_an_upstream_that_cannot_be_reached_is_said() -> None:
    with passing_tap("openai_chat", "http://127.0.0.1:9") as tap:
        response = httpx.post(f"{tap.url}/chat/completions", content=BODY)
        (detail,) = tap.details()
    message = "streamkit tap: the upstream cannot be reached (ConnectError); the page of the tap has the reason"
    assert (response.status_code, response.text) == (502, message)
    assert detail["summary"]["state"] == "failed"
    assert "ConnectError: All connection attempts failed" in detail["summary"]["error"]["message"]


def test_the_client_does_not_learn_the_host_of_an_upstream() -> None:
    @asynccontextmanager
    async def ask(request: PassedRequest) -> AsyncIterator[httpx.Response]:
        raise httpx.ConnectError("certificate is not valid for 'internal.example'") from OSError("('10.0.0.7', 8443)")
        yield

    with tap_of(lambda observer: PassThrough("openai_chat", "https://internal.example:8443", ask, observer)) as tap:
        response = httpx.post(f"{tap.url}/chat/completions", content=BODY)
        (detail,) = tap.details()
    assert response.status_code == 502
    assert not re.search(r"internal|10\.0|8443", response.text)
    assert "internal.example" in detail["summary"]["error"]["message"]


def test_a_status_that_is_none_of_http_is_said() -> None:
    """uvicorn has no line for it, and closed the connection without a response."""

    @asynccontextmanager
    async def ask(request: PassedRequest) -> AsyncIterator[httpx.Response]:
        yield httpx.Response(999, content=b"{}")

    with tap_of(lambda observer: PassThrough("openai_chat", "http://upstream", ask, observer)) as tap:
        response = httpx.post(f"{tap.url}/chat/completions", content=BODY)
        (detail,) = tap.details()
    assert (response.status_code, "(ConnectionError)" in response.text) == (502, True)
    assert detail["summary"]["state"] == "failed"
    assert "the status 999 is none of HTTP" in detail["summary"]["error"]["message"]


def test_a_response_that_breaks_off_breaks_off_for_the_client() -> None:
    reply = Reply("Hello ", Disconnect())
    with serve([reply], strict=False) as server, passing_tap("anthropic", f"{server.url}/anthropic") as tap:
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.post(f"{tap.url}/v1/messages", content=BODY)
        (detail,) = tap.details()
    assert detail["summary"]["state"] == "failed"
    assert "RemoteProtocolError" in detail["summary"]["error"]["message"]
    assert any(event["event"]["type"] == "text" for row in detail["rows"] for event in row["events"])


def test_a_client_that_disconnects_closes_the_upstream() -> None:
    reply = Reply("Hello ", Stall(20), "there")
    with serve([reply], strict=False) as server, passing_tap("anthropic", f"{server.url}/anthropic") as tap:
        with httpx.stream("POST", f"{tap.url}/v1/messages", content=BODY) as response:
            next(response.iter_bytes())
        (detail,) = tap.details()
        wait_until(lambda: server.requests[0].disconnected)
    assert detail["summary"]["state"] == "disconnected"


def test_bytes_pass_though_the_observer_fails() -> None:
    class Broken:
        def take(self, copies: Copies) -> None:
            raise RuntimeError("a defect")

    with served(Upstream(FRAMES)) as address, passing_tap("openai_chat", address, Broken()) as tap:
        assert httpx.post(f"{tap.url}/chat/completions", content=BODY).content == FRAMES
        assert tap.relay.flush()
        assert tap.said == ["Broken failed and misses an exchange: RuntimeError: a defect"]


def test_the_assets_are_in_the_package() -> None:
    """They are found as package data, which the wheel has."""
    folder = Path(pass_through_module.__file__).parent / "assets"
    scripts = {"page.js", "detail.js", "response.js", "timeline.js"}
    assert {path.name for path in folder.iterdir()} == {"page.html", "page.css", *scripts}
    assert all(len(path.read_text(encoding="utf-8").splitlines()) < 350 for path in folder.iterdir())
