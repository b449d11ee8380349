"""The page of a gateway over real HTTP: live events, reports, other websites, slow viewers and broken observers."""

from __future__ import annotations

import json
import socket
import threading
from typing import Any
from urllib.parse import urlsplit

import httpx
from gateway.tap.tap_servers import CLIENT_KEY, UPSTREAM_KEY, PageReader, ask_upstream, gateway_tap, tap_of

from streamkit.gateway import Gateway, Upstream
from streamkit.gateway.tap.page import build_report, live_page
from streamkit.gateway.tap.relay import Copies
from streamkit.testing import Call, Reasoning, Reply, Server, Stall, Status, serve

Json = dict[str, Any]

TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
BODY = {"model": "gpt-5", "stream": True, "messages": [{"role": "user", "content": "hi"}], "tools": [TOOL]}
HEADERS = {"authorization": f"Bearer {CLIENT_KEY}"}


def ask(url: str, **options: Any) -> httpx.Response:
    return httpx.post(f"{url}/v1/chat/completions", json=BODY, headers=HEADERS, timeout=30, **options)


def base(server: Server) -> str:
    return server.base_url("anthropic")


def test_a_request_is_shown_while_it_streams() -> None:
    reply = Reply(Reasoning("I think."), "Let me look.", Stall(1.0), Call("weather", {"city": "Oslo"}))
    with (
        serve([reply]) as server,
        gateway_tap("anthropic", base(server), models={"gpt-5": "claude-x"}) as tap,
        httpx.stream("POST", f"{tap.url}/v1/chat/completions", json=BODY, headers=HEADERS) as response,
    ):
        parts = response.iter_bytes()
        next(parts)
        viewer = PageReader(tap.page, exchange=1)
        # The page may be asked before the tap has noted the exchange, or the response.
        seen = viewer.wait_for(
            lambda messages: (
                messages[:] if any(s["state"] == "streaming" for m in messages for s in m["summaries"]) else None
            )
        )
        assert seen[0]["reset"] is True
        summary = seen[-1]["summaries"][-1]
        assert (summary["client"], summary["provider"], summary["state"]) == ("openai_chat", "anthropic", "streaming")
        assert (summary["model"], summary["upstream_model"]) == ("gpt-5", "claude-x")
        assert json.loads(next(each["request"] for each in seen if each["request"]))["model"] == "claude-x"
        shown = [event["event"]["type"] for each in seen for row in each["rows"] for event in row["events"]]
        assert "tool_call_start" not in shown
        for _ in parts:
            pass
        messages = viewer.wait_for(
            lambda messages: (
                messages if any(s["state"] == "finished" for m in messages for s in m["summaries"]) else None
            )
        )
    rows = [row for message in messages for row in message["rows"]]
    events = [event["event"] for row in rows for event in row["events"]]
    assert [row["n"] for row in rows] == list(range(len(rows)))
    assert "".join(event["text"] for event in events if event["type"] == "text") == "Let me look."
    assert "".join(event["text"] for event in events if event["type"] == "reasoning") == "I think."
    assert [event["call"]["name"] for event in events if event["type"] == "tool_call_ready"] == ["weather"]
    assert [summary["usage"] is not None for message in messages for summary in message["summaries"]][-1]


def test_errors_and_requests_without_an_upstream_are_shown() -> None:
    with (
        serve([Status(429, f"slow down, {UPSTREAM_KEY}", retry_after=1)]) as server,
        gateway_tap("anthropic", base(server)) as tap,
    ):
        assert ask(tap.url).status_code == 429
        assert httpx.get(f"{tap.url}/v1/models").status_code == 200
        assert httpx.post(f"{tap.url}/nowhere").status_code == 404
        failed, models, unknown = (detail["summary"] for detail in tap.details(3))
    assert (failed["state"], failed["status"], failed["error"]["code"]) == ("failed", 429, "rate_limited")
    assert failed["error"]["message"] == "slow down, ***"
    assert (models["state"], models["status"], models["provider"]) == ("finished", 200, None)
    assert (unknown["state"], unknown["status"]) == ("failed", 404)


def test_an_upstream_that_is_asked_after_another_is_an_exchange_of_its_own() -> None:
    with serve([Status(503, "busy")]) as busy, serve([Reply("Hello")]) as server:

        def make(observer: Any) -> Gateway:
            def upstream(url: str) -> Upstream:
                return Upstream(provider="anthropic", endpoint=url, ask=lambda request: ask_upstream(url, request))

            return Gateway(upstream(base(busy)), upstream(base(server)), observer=observer)

        with tap_of(make) as tap:
            assert ask(tap.url).status_code == 200
            first, second = (detail["summary"] for detail in tap.details(2))
    assert (first["state"], first["status"]) == ("failed", 503)
    assert (second["state"], second["status"]) == ("finished", 200)
    assert first["address"] != second["address"]


def test_a_connection_that_fails_is_shown() -> None:
    with socket.socket() as refusing:
        refusing.bind(("127.0.0.1", 0))  # and does not listen; a port that is given back may be another server's by now
        address = "http://127.0.0.1:{1}".format(*refusing.getsockname())
        with gateway_tap("anthropic", address) as tap:
            assert ask(tap.url).status_code == 502
            (detail,) = tap.details()
    assert detail["summary"]["state"] == "failed"
    assert "transport_error" in detail["summary"]["error"]["message"]


def test_a_client_that_disconnects_is_shown() -> None:
    with serve([Reply("Hello ", Stall(20), "there")]) as server, gateway_tap("anthropic", base(server)) as tap:
        with httpx.stream("POST", f"{tap.url}/v1/chat/completions", json=BODY) as response:
            next(response.iter_bytes())
        (detail,) = tap.details()
    assert detail["summary"]["state"] == "disconnected"


# ---------------------------------------------------------------- bytes pass, whatever looks at them


class Broken:
    """A target that fails."""

    def take(self, copies: Copies) -> None:
        raise RuntimeError("a defect of the observer")


class Blocked:
    """A target that does not return before the test ends."""

    def __init__(self) -> None:
        self.gate = threading.Event()

    def take(self, copies: Copies) -> None:
        self.gate.wait(20)


def test_bytes_pass_though_the_observer_fails() -> None:
    with (
        serve([Reply("Hello " * 50)], delta_size=1000) as server,
        gateway_tap("anthropic", base(server), Broken()) as tap,
    ):
        seen = ask(tap.url)
        assert tap.relay.flush()
        assert tap.said == ["Broken failed and misses an exchange: RuntimeError: a defect of the observer"]
    assert seen.text.count("Hello") == 50
    assert seen.text.endswith("data: [DONE]\n\n")


def test_bytes_pass_though_the_observer_is_stuck() -> None:
    target = Blocked()
    with (
        serve([Reply("Hello " * 50)], delta_size=1000) as server,
        gateway_tap("anthropic", base(server), target) as tap,
    ):
        seen = ask(tap.url)
        target.gate.set()
    assert seen.text.count("Hello") == 50
    assert seen.text.endswith("data: [DONE]\n\n")


def test_a_viewer_that_does_not_read_slows_neither_the_response_nor_others() -> None:
    text = "x" * 4000
    with serve([Reply(*[text] * 300)], delta_size=4000) as server, gateway_tap("anthropic", base(server)) as tap:
        host, port = urlsplit(tap.page).hostname, urlsplit(tap.page).port
        with socket.create_connection((host, port)) as stuck:
            stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stuck.sendall(f"GET /events?exchange=1 HTTP/1.1\r\nhost: {host}:{port}\r\n\r\n".encode())
            response = ask(tap.url)
            assert response.text.count(text) == 300
            viewer = PageReader(tap.page, exchange=1)
            viewer.wait_for(lambda messages: sum(len(message["rows"]) for message in messages) >= 300)


# ---------------------------------------------------------------- who may read


#: Headers of a request, and the status of its response.
READERS: list[tuple[Json, int]] = [
    ({}, 200),
    ({"host": "localhost:1234"}, 200),
    ({"host": "[::1]:1234"}, 200),
    ({"host": "attacker.example"}, 403),  # its name leads to this computer: DNS rebinding
    ({"host": "127.0.0.1.attacker.example"}, 403),
    ({"host": "user@localhost:1"}, 403),
    ({"host": "[bad"}, 403),
    ({"origin": "https://attacker.example"}, 403),
    ({"origin": "null"}, 403),
    ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 403),
    ({"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"}, 403),
    ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, 200),  # a link, which can read nothing
    ({"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"}, 200),
]


def test_another_website_reads_nothing() -> None:
    with serve([Reply("Hello")]) as server, gateway_tap("anthropic", base(server)) as tap:
        ask(tap.url)
        tap.details()
        for headers, status in READERS:
            assert httpx.get(tap.page, headers=headers).status_code == status, headers
            assert httpx.get(f"{tap.page}/exchanges/1.html", headers=headers).status_code == status, headers
            with httpx.stream("GET", f"{tap.page}/events", headers=headers) as events:
                assert events.status_code == status, headers


def test_the_page_is_one_file_with_a_policy() -> None:
    with serve([Reply("Hello")]) as server, gateway_tap("anthropic", base(server)) as tap:
        page = httpx.get(tap.page)
        ask(tap.url)
        tap.details()
        report = httpx.get(f"{tap.page}/exchanges/1.html")
        download = httpx.get(f"{tap.page}/exchanges/1.html?download")
        missing = [
            httpx.get(f"{tap.page}{path}").status_code for path in ("/x", "/exchanges/9.html", "/exchanges/a.html")
        ]
        assert httpx.post(tap.page).status_code == 405
    assert missing == [404, 404, 404]
    for response in (page, report):
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert response.headers["cross-origin-resource-policy"] == "same-origin"
        assert "src=" not in response.text.split("<script>")[0].replace("content=", "")
    assert "connect-src 'none'" in report.headers["content-security-policy"]
    assert download.headers["content-disposition"] == 'attachment; filename="streamkit-1.html"'
    assert download.text == report.text


def test_no_key_is_on_the_page() -> None:
    reply = Reply(
        f"My key is {UPSTREAM_KEY}, and sk-proj-abcdefghijklmnop0123.", Call("weather", {"key": UPSTREAM_KEY})
    )
    with serve([reply], delta_size=1000) as server, gateway_tap("anthropic", base(server)) as tap:
        assert ask(tap.url, params={"key": CLIENT_KEY}).status_code == 200
        shown = json.dumps(tap.details()) + httpx.get(f"{tap.page}/exchanges/1.html").text
        viewer = PageReader(tap.page, exchange=1)
        shown += json.dumps(viewer.wait_for(lambda messages: messages[:1]))
    for secret in (UPSTREAM_KEY, CLIENT_KEY, "sk-proj-abc"):
        assert secret not in shown
    assert "***" in shown


def test_a_report_cannot_be_left_by_what_it_contains() -> None:
    text = '</script><script>alert(1)</script><!--<script>{{script}}{{data}}\u2028"'
    detail = json.dumps({"summary": {"id": 1}, "request": text, "first_row": 0, "rows": []}).encode()
    report, plain = build_report([detail]), live_page()
    assert report.count("<script") == plain.count("<script")
    assert report.count("</script") == plain.count("</script")
    data = report.split('<script type="application/json" id="data">')[1].split("</script>")[0]
    assert json.loads(data)["exchanges"][0]["request"] == text


def test_a_viewer_that_returns_continues_where_it_was() -> None:
    with serve([Reply("Hello")]) as server, gateway_tap("anthropic", base(server)) as tap:
        ask(tap.url)
        tap.details()
        with httpx.stream("GET", f"{tap.page}/events?exchange=1") as events:
            lines = events.iter_lines()
            identity = next(line for line in lines if line.startswith("id: ")).removeprefix("id: ")
        other = identity.replace(identity[:8], "0" * 8)
        for value, is_anew in ((identity, False), (other, True), ("nonsense", True)):
            ask(tap.url)
            tap.details()
            headers = {"last-event-id": value}
            with httpx.stream("GET", f"{tap.page}/events?exchange=1", headers=headers) as events:
                data = next(line for line in events.iter_lines() if line.startswith("data: "))
                message = json.loads(data.removeprefix("data: "))
            assert message["reset"] is is_anew
            assert bool(message["rows"]) is is_anew
