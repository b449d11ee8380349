"""The traces and metrics of a gateway, over real HTTP."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

pytest.importorskip("opentelemetry.sdk", reason="traces need the extra 'otel', and the tests the SDK")

from bridges.test_otel import Bench, attributes, failure
from gateway.gateway_clients import CLIENTS
from gateway.gateway_server import Target, serve_gateway
from waiting import wait_until

from streamkit.gateway import Gateway, TraceObserver, Upstream
from streamkit.testing import Disconnect, ErrorEvent, Reply, Status, serve


def post(base: str, client: str, **fields: Any) -> httpx.Response:
    path, body = CLIENTS[client]
    return httpx.post(base + path, json={**body, **fields}, timeout=20)


def chats(bench: Bench, count: int = 1) -> list[Any]:
    """Return the spans of requests: the gateway ends the last one after the client has its response."""
    return wait_until(lambda: found if len(found := bench.named("chat")) >= count else None)  # type: ignore[return-value]


@pytest.mark.parametrize("provider", ["anthropic", "openai_chat", "gemini"])
@pytest.mark.parametrize("client", ["anthropic", "openai_chat"])
def test_a_request_is_a_span_with_what_the_upstream_reports(client: str, provider: str) -> None:
    bench = Bench()
    observer = TraceObserver(bench.telemetry)
    with serve([Reply("ANSWER")]) as server:
        target = Target(provider, server.base_url(provider), models={"m": "scripted"})
        with serve_gateway(target, observer=observer) as base:
            assert post(base, client).status_code == 200
            (span,) = chats(bench)
    own = attributes(span)
    names = {"anthropic": "anthropic", "openai_chat": "openai", "gemini": "gcp.gemini"}
    assert (span.name, own["gen_ai.provider.name"]) == ("chat scripted", names[provider])
    assert own["gen_ai.response.finish_reasons"] == ("stop",)
    assert own["gen_ai.usage.output_tokens"] > 0
    assert own["server.address"] == "127.0.0.1"
    assert own["gen_ai.request.stream"] is True
    assert own["gen_ai.response.time_to_first_chunk"] >= 0
    assert (own.get("gen_ai.request.max_tokens") == 100) == (client == "anthropic")
    assert failure(span) is None
    metrics = bench.metrics()
    labels, point = metrics["gen_ai.client.inference.duration"][0]
    assert (labels["gen_ai.request.model"], point.count) == ("scripted", 1)
    assert metrics["gen_ai.client.inference.usage.output_tokens"][0][1].value == own["gen_ai.usage.output_tokens"]
    assert "ANSWER" not in bench.everything()
    assert "upstream-key" not in bench.everything()


def test_content_on_request() -> None:
    bench = Bench(capture_content=True)
    with (
        serve([Reply("ANSWER")]) as server,
        serve_gateway(
            Target("anthropic", server.base_url("anthropic"), models={"*": "scripted"}),
            observer=TraceObserver(bench.telemetry),
        ) as base,
    ):
        post(base, "openai_chat", messages=[{"role": "system", "content": "S"}, {"role": "user", "content": "Q"}])
        (span,) = chats(bench)
    own = attributes(span)
    assert json.loads(own["gen_ai.system_instructions"]) == [{"type": "text", "content": "S"}]
    assert json.loads(own["gen_ai.input.messages"]) == [{"role": "user", "parts": [{"type": "text", "content": "Q"}]}]
    said = [{"role": "assistant", "parts": [{"type": "text", "content": "ANSWER"}]}]
    assert json.loads(own["gen_ai.output.messages"]) == said
    assert json.loads(own["gen_ai.tool.definitions"]) == [{"type": "function", "name": "weather"}]


def test_each_upstream_that_is_asked_has_a_span() -> None:
    bench = Bench()
    with serve([Status(429, "TOO MANY"), Reply("Hi")]) as server:
        first = Target("anthropic", server.base_url("anthropic"), models={"m": "first"})
        second = Target("openai_chat", server.base_url("openai_chat"), models={"m": "second"})
        with serve_gateway(first, second, observer=TraceObserver(bench.telemetry)) as base:
            assert post(base, "openai_chat").status_code == 200
            spans = chats(bench, 2)
    assert [(span.name, failure(span)) for span in spans] == [("chat first", "rate_limited"), ("chat second", None)]
    assert "TOO MANY" not in bench.everything()


@pytest.mark.parametrize(
    ("script", "kind"),
    [(ErrorEvent("SECRET TEXT"), None), (Status(500, "SECRET TEXT"), "500"), (Disconnect(), "transport_error")],
)
def test_a_failed_response_is_an_error_without_its_text(script: Any, kind: str | None) -> None:
    bench = Bench()
    steps = Reply("Hello there", script) if isinstance(script, (ErrorEvent, Disconnect)) else script
    with serve([steps]) as server:
        target = Target("anthropic", server.base_url("anthropic"), models={"*": "scripted"})
        with serve_gateway(target, observer=TraceObserver(bench.telemetry)) as base:
            post(base, "anthropic")
            (span,) = chats(bench)
    assert failure(span) is not None
    assert kind in (None, failure(span))
    assert bench.metrics()["gen_ai.client.inference.duration"][0][0]["error.type"] == failure(span)
    assert "SECRET TEXT" not in bench.everything()


def test_an_upstream_without_a_server() -> None:
    bench = Bench()
    target = Target("anthropic", "http://127.0.0.1:9", models={"*": "scripted"})
    with serve_gateway(target, observer=TraceObserver(bench.telemetry)) as base:
        assert post(base, "anthropic").status_code >= 500
        (span,) = chats(bench)
    assert failure(span) == "httpx.ConnectError"


def test_a_client_that_leaves_ends_the_span() -> None:
    from streamkit.testing import Stall

    bench = Bench()
    with serve([Reply("Hello", Stall(30), "there")]) as server:
        target = Target("anthropic", server.base_url("anthropic"), models={"*": "scripted"})
        with serve_gateway(target, observer=TraceObserver(bench.telemetry)) as base:
            path, body = CLIENTS["anthropic"]
            with httpx.stream("POST", base + path, json=body, timeout=20) as response:
                next(response.iter_bytes())
            (span,) = chats(bench)
    assert failure(span) == "canceled"


def test_a_client_creates_no_series_of_metrics() -> None:
    bench = Bench()
    script = [Status(404, "no such model")] * 3
    with serve(script) as server:
        target = Target("openai_chat", server.base_url("openai_chat"), models={"*": "*", "known": "known"})
        with serve_gateway(target, observer=TraceObserver(bench.telemetry)) as base:
            for model in ("known", "invented-1", "invented-2"):
                post(base, "openai_chat", model=model)
            chats(bench, 3)
    labels = [labels.get("gen_ai.request.model") for labels, _ in bench.metrics()["gen_ai.client.inference.duration"]]
    assert sorted(labels, key=str) == [None, "known"]


@pytest.mark.anyio
async def test_the_span_lies_in_that_of_the_server_and_has_that_of_the_request_in_it() -> None:
    from contextlib import asynccontextmanager

    bench = Bench()

    @asynccontextmanager
    async def ask(request: Any) -> Any:
        with bench.span("POST to the upstream"):
            pass
        chunk = {"id": "r", "choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}
        yield [chunk]

    gateway = Gateway(
        Upstream(provider="openai_chat", ask=ask), observer=TraceObserver(bench.telemetry), state_key=b"k" * 16
    )

    async def instrumented(scope: Any, receive: Any, send: Any) -> None:
        with bench.span("POST of the client"):
            await gateway(scope, receive, send)

    transport = httpx.ASGITransport(instrumented)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
        path, body = CLIENTS["openai_chat"]
        assert (await http.post(path, json=body)).status_code == 200
    assert bench.parents("chat") == ["POST of the client"]
    assert bench.parents("POST to") == ["chat m"]
