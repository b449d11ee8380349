"""Traces and metrics of runs, executors and gateways, by the SDK of OpenTelemetry with exporters in memory.

The names are those of https://github.com/open-telemetry/semantic-conventions-genai v0.1.0, written out here.
"""

from __future__ import annotations

import gc
import json
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

pytest.importorskip("opentelemetry.sdk", reason="traces need the extra 'otel', and the tests the SDK")

from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler
from opentelemetry.trace import SpanKind, StatusCode

from streamkit import (
    Content,
    Retries,
    RoundContext,
    Run,
    RunState,
    StreamInterrupted,
    Target,
    Timeouts,
    Tool,
    ToolFailed,
    Turn,
    execute_one_tool,
    execute_tool_calls_batched,
    execute_tool_calls_sequentially,
    read,
    run_loop,
    tool,
)
from streamkit.bridges.otel import METADATA, Telemetry
from streamkit.bridges.otel_content import to_message
from streamkit.errors import UsageError
from streamkit.execution import RunEntry, parse_entry
from streamkit.history import (
    FileBlock,
    ImageBlock,
    OpaqueBlock,
    ReasoningBlock,
    ServerToolBlock,
    TextBlock,
    ToolCallBlock,
    ToolResponseBlock,
)
from streamkit.providers import parse_request

QUESTION = [Content.system("SYSTEM"), Content.human("QUESTION")]
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "ERROR TEXT"}}
Named = tuple[str, dict[str, Any]]


class Bench:
    """Providers in memory, and what they have."""

    def __init__(self, sampler: Sampler = ALWAYS_ON, **options: Any) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.provider, self.meters = TracerProvider(sampler=sampler), MeterProvider([self.reader])
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.telemetry = Telemetry(tracer_provider=self.provider, meter_provider=self.meters, **options)
        self.tracer = self.provider.get_tracer("test")

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        with self.tracer.start_as_current_span(name):
            yield

    def loop(self, ask: Callable[[RoundContext], Any], agent: str | None = "helper", **options: Any) -> Run[Any]:
        if "resume" not in options:
            options = {"provider": "anthropic", "model": "m", **options}
            options.setdefault("history", QUESTION) if "thread" not in options else None
        return run_loop(ask, **options).observe(self.telemetry.agent(agent))

    @property
    def spans(self) -> list[ReadableSpan]:
        return sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def named(self, start: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name.startswith(start)]

    def parents(self, start: str) -> list[str | None]:
        names = {span.context.span_id: span.name for span in self.spans}
        return [None if span.parent is None else names.get(span.parent.span_id) for span in self.named(start)]

    def metrics(self) -> dict[str, list[tuple[dict[str, Any], Any]]]:
        data, found = self.reader.get_metrics_data(), {}
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    points = [(dict(point.attributes or {}), point) for point in metric.data.data_points]
                    found[metric.name] = points
        return found

    def everything(self) -> str:
        return "".join(span.to_json() for span in self.spans) + str(self.metrics())


def answer(*items: str | Named, number: int = 1) -> list[dict[str, Any]]:
    """Return the chunks of an Anthropic response: texts and calls."""
    usage = {"input_tokens": 11, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 2, "output_tokens": 1}
    message = {"id": f"msg_{number}", "role": "assistant", "model": "m-1", "content": [], "usage": usage}
    chunks: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    for index, item in enumerate(items):
        if isinstance(item, str):
            block: dict[str, Any] = {"type": "text", "text": ""}
            deltas: list[dict[str, Any]] = [{"type": "text_delta", "text": letter} for letter in item]
        else:
            block = {"type": "tool_use", "id": f"toolu_{number}_{index}", "name": item[0], "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(item[1])}]
        chunks.append({"type": "content_block_start", "index": index, "content_block": block})
        chunks += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        chunks.append({"type": "content_block_stop", "index": index})
    reason = "end_turn" if all(isinstance(item, str) for item in items) else "tool_use"
    chunks.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}})
    return [*chunks, {"type": "message_stop"}]


def rounds(*responses: Sequence[dict[str, Any]]) -> Callable[[RoundContext], Any]:
    return lambda context: responses[context.round]


async def slowly(chunks: Sequence[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
    for chunk in chunks:
        await anyio.lowlevel.checkpoint()
        yield chunk


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def failure(span: ReadableSpan) -> str | None:
    """Return the type of the error of a span, which has the status of an error then, and never a text."""
    kind = attributes(span).get("error.type")
    assert span.status.status_code == (StatusCode.UNSET if kind is None else StatusCode.ERROR)
    assert span.status.description is None
    assert span.events == ()
    return kind


# -------------------------------------------------------------------- which spans there are, and where


@pytest.mark.anyio
async def test_a_run_its_requests_and_its_calls_are_one_tree() -> None:
    bench = Bench()

    @tool
    async def fetch(city: str) -> str:
        """Fetch."""
        with bench.span(f"http {city}"):
            await anyio.lowlevel.checkpoint()
        return city

    @tool
    def block(city: str) -> str:
        """Block a thread."""
        with bench.span(f"thread {threading.current_thread() is threading.main_thread()}"):
            return city

    calls: list[Named] = [("fetch", {"city": "Oslo"}), ("fetch", {"city": "Rome"}), ("block", {"city": "Bern"})]
    with bench.span("request of a person"):
        await bench.loop(rounds(answer(*calls), answer("Done.", number=2)), tools=[fetch, block])
    assert [(span.name, span.kind) for span in bench.named("invoke")] == [("invoke_agent helper", SpanKind.INTERNAL)]
    assert [(span.name, span.kind) for span in bench.named("chat")] == [("chat m", SpanKind.CLIENT)] * 2
    executed = [(span.name, span.kind) for span in bench.named("execute_tool")]
    assert sorted(executed) == [(f"execute_tool {name}", SpanKind.INTERNAL) for name in ("block", "fetch", "fetch")]
    assert bench.parents("invoke") == ["request of a person"]
    assert {*bench.parents("chat"), *bench.parents("execute")} == {"invoke_agent helper"}
    assert bench.parents("http") == ["execute_tool fetch"] * 2
    assert len({span.parent.span_id for span in bench.named("http") if span.parent}) == 2  # each in its own call
    assert bench.parents("thread False") == ["execute_tool block"]
    assert len({span.context.trace_id for span in bench.spans}) == 1
    assert all(span.instrumentation_scope and span.instrumentation_scope.schema_url for span in bench.named("chat"))


def requests_in(bench: Bench) -> dict[str, Callable[[RoundContext], Any]]:
    """Return functions that make a request in each way that ``create_new_stream`` may."""

    def at_once(context: RoundContext) -> Any:
        with bench.span("POST"):
            return answer("Hi.")

    async def awaited(context: RoundContext) -> Any:
        with bench.span("POST"):
            await anyio.lowlevel.checkpoint()
        return answer("Hi.")

    @asynccontextmanager
    async def entered(context: RoundContext) -> AsyncIterator[Any]:
        with bench.span("POST"):
            await anyio.lowlevel.checkpoint()
        yield slowly(answer("Hi."))

    async def read_first(context: RoundContext) -> AsyncIterator[Any]:
        with bench.span("POST"):
            await anyio.lowlevel.checkpoint()
        for chunk in answer("Hi."):
            yield chunk

    def read_sync(context: RoundContext) -> Iterator[Any]:
        with bench.span("POST"):
            pass
        yield from answer("Hi.")

    async def awaited_then_entered(context: RoundContext) -> Any:
        return entered(context)

    return {each.__name__: each for each in (at_once, awaited, entered, read_first, read_sync, awaited_then_entered)}


@pytest.mark.anyio
@pytest.mark.parametrize("way", requests_in(Bench()))
@pytest.mark.parametrize("options", [{}, {"timeouts": Timeouts(first_event=20, idle=20)}], ids=["plain", "limited"])
async def test_what_makes_a_request_lies_in_its_span(way: str, options: dict[str, Any]) -> None:
    if way in ("at_once", "awaited", "read_sync") and options:
        pytest.skip("a sync source takes no time limit")
    bench = Bench()
    await bench.loop(requests_in(bench)[way], **options)
    assert bench.parents("POST") == ["chat m"]


@pytest.mark.anyio
@pytest.mark.parametrize("eager", [False, True])
async def test_the_reader_of_a_run_keeps_its_own_context(eager: bool) -> None:
    bench = Bench()
    seen: list[str | None] = []

    def inner_name() -> str | None:
        span = trace.get_current_span()
        return getattr(span, "name", None)

    @tool(eager=eager)
    async def note() -> str:
        """Note."""
        seen.append(inner_name())
        return "noted"

    def ask(context: RoundContext) -> Any:
        return slowly(answer("So", ("note", {})) if context.round == 0 else answer("Done.", number=2))

    with bench.span("reader"):
        async with bench.loop(ask, tools=[note]) as run:
            async for _ in run:
                assert inner_name() == "reader"
        assert inner_name() == "reader"
    assert seen == ["execute_tool note"]
    assert bench.parents("chat") == ["invoke_agent helper"] * 2


@pytest.mark.anyio
async def test_several_runs_at_once_do_not_mix() -> None:
    bench = Bench()

    @tool
    async def work(name: str) -> str:
        """Work."""
        await anyio.lowlevel.checkpoint()
        with bench.span(f"inner {name}"):
            await anyio.lowlevel.checkpoint()
        return name

    async def one(name: str) -> None:
        def ask(context: RoundContext) -> Any:
            return slowly(answer(("work", {"name": name})) if context.round == 0 else answer(name, number=2))

        with bench.span(f"person {name}"):
            await bench.loop(ask, agent=name, tools=[work])

    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(one, f"a{number}")
    for number in range(8):
        root = bench.named(f"person a{number}")[0]
        own = {span.name for span in bench.spans if span.context.trace_id == root.context.trace_id}
        named = {f"person a{number}", f"invoke_agent a{number}", f"inner a{number}"}
        assert own == {*named, "chat m", "execute_tool work"}


@pytest.mark.anyio
@pytest.mark.parametrize("is_sync", [False, True])
async def test_a_run_inside_a_tool_lies_in_the_call(is_sync: bool) -> None:
    bench = Bench()

    async def consult() -> str:
        """Consult another agent."""
        return (await bench.loop(lambda _: answer("42", number=9), agent="expert")).text

    def consult_in_a_thread() -> str:
        """Consult another agent."""
        return bench.loop(lambda _: answer("42", number=9), agent="expert").run_sync().text

    name = "consult_in_a_thread" if is_sync else "consult"
    function = consult_in_a_thread if is_sync else consult
    run = await bench.loop(rounds(answer((name, {})), answer("Done.", number=2)), tools=[function])
    assert run.text == "Done."
    assert bench.parents("invoke_agent expert") == [f"execute_tool {name}"]
    outer, inner = (attributes(bench.named(f"invoke_agent {name}")[0]) for name in ("helper", "expert"))
    assert (outer["gen_ai.usage.input_tokens"], inner["gen_ai.usage.input_tokens"]) == (36, 18)  # each its own


@pytest.mark.anyio
async def test_a_run_without_an_observer_makes_no_span() -> None:
    bench = Bench()
    with bench.span("person"):
        await run_loop(lambda _: answer("Hi."), provider="anthropic", history=QUESTION)
    assert [span.name for span in bench.spans] == ["person"]


def test_a_run_takes_one_observer_before_it_starts() -> None:
    agent = Bench().telemetry.agent("a")
    run = run_loop(lambda _: answer("Hi."), provider="anthropic", history=QUESTION).observe(agent)
    with pytest.raises(UsageError, match="one observer"):
        run.observe(agent)
    run.run_sync()
    run = run_loop(lambda _: answer("Hi."), provider="anthropic", history=QUESTION).run_sync()
    with pytest.raises(UsageError, match="before the run"):
        run.observe(agent)


# -------------------------------------------------------------------- what they say


@pytest.mark.anyio
async def test_the_attributes_of_each_operation() -> None:
    bench = Bench()
    fetch = Tool(lambda city: city, name="fetch", description="Fetch.", parameters={"type": "object"})
    agent = bench.telemetry.agent("helper", description="Helps.", conversation_id="c1")
    run = run_loop(
        rounds(answer(("fetch", {"city": "Oslo"})), answer("Done.", number=2)),
        provider="anthropic",
        model="m",
        endpoint="https://user:password@api.example.com/v1",
        history=QUESTION,
        tools=[fetch],
    )
    await run.observe(agent)
    first, second = map(attributes, bench.named("chat"))
    assert 0 <= first.pop("gen_ai.response.time_to_first_chunk") < 60
    assert first == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "m",
        "gen_ai.request.stream": True,
        "gen_ai.response.id": "msg_1",
        "gen_ai.response.model": "m-1",
        "gen_ai.response.finish_reasons": ("tool_calls",),
        "gen_ai.usage.input_tokens": 18,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 5,
        "gen_ai.usage.cache_write.input_tokens": 2,
        "gen_ai.conversation.id": "c1",
        "server.address": "api.example.com",
        "server.port": 443,
    }
    assert second["gen_ai.response.finish_reasons"] == ("stop",)
    assert attributes(bench.named("execute")[0]) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "fetch",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": "Fetch.",
        "gen_ai.tool.call.id": run.results[0].call.id,
        "gen_ai.agent.name": "helper",
    }
    assert attributes(bench.named("invoke")[0]) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "helper",
        "gen_ai.agent.description": "Helps.",
        "gen_ai.conversation.id": "c1",
        "gen_ai.usage.input_tokens": 36,
        "gen_ai.usage.output_tokens": 14,
        "streamkit.run.key": run.run_key,
        "streamkit.run.ended": "answered",
    }


@pytest.mark.anyio
async def test_the_names_of_providers() -> None:
    bench = Bench()
    chunk = {"id": "r", "model": "m", "choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}
    names = {"openai_chat": "openai", "azure_openai": "azure.ai.openai", "mistral": "mistral_ai", "kimi": "moonshot_ai"}
    names |= {"xai": "x_ai", "groq": "groq", "deepseek": "deepseek", "perplexity": "perplexity", "qwen": "qwen"}
    for provider, name in names.items():
        await bench.loop(lambda _: [chunk], provider=provider)
        assert attributes(bench.named("chat")[-1])["gen_ai.provider.name"] == name
    part = {"candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}]}
    for endpoint, name in {
        "https://generativelanguage.googleapis.com": "gcp.gemini",
        "https://us-central1-aiplatform.googleapis.com/v1": "gcp.vertex_ai",
    }.items():
        await bench.loop(lambda _: [part], provider="gemini", endpoint=endpoint)
        assert attributes(bench.named("chat")[-1])["gen_ai.provider.name"] == name


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("endpoint", "address"),
    [
        ("http://10.0.0.1:8000/v1", ("10.0.0.1", 8000)),
        ("http://model.local", ("model.local", 80)),
        ("api.example.com", ("api.example.com", 443)),
        ("https://[::1]:9/v1", ("::1", 9)),
        ("https://[broken", (None, None)),
        ("https://host:port/", (None, None)),
        (None, (None, None)),
    ],
)
async def test_the_address_of_the_server(endpoint: str | None, address: tuple[str | None, int | None]) -> None:
    bench = Bench()
    await bench.loop(lambda _: answer("Hi."), endpoint=endpoint)
    own = attributes(bench.named("chat")[0])
    assert (own.get("server.address"), own.get("server.port")) == address


@pytest.mark.anyio
async def test_what_a_server_sends_cannot_break_an_exporter() -> None:
    bench = Bench(capture_content=True)
    chunks = answer("half a pair: \ud83d")
    chunks[0]["message"] |= {"model": "m\ud83d", "id": "x\udc00", "usage": {"input_tokens": 2**70, "output_tokens": 1}}
    await bench.loop(lambda _: chunks, model="\ud83d", history=[Content.human("\ud83d")])
    for name, value in attributes(bench.named("chat")[0]).items():
        assert not isinstance(value, int) or value < 2**63, name
        assert not isinstance(value, str) or value.encode()  # raises for half a pair


@pytest.mark.anyio
async def test_samplers_see_what_the_conventions_want_at_the_start() -> None:
    seen: list[tuple[str, dict[str, Any]]] = []

    class Recorded(Sampler):
        def should_sample(self, parent_context: Any, trace_id: int, name: str, *args: Any, **fields: Any) -> Any:
            given = fields.get("attributes") or (args[1] if len(args) > 1 else None)
            seen.append((name, dict(given or {})))
            return ALWAYS_ON.should_sample(parent_context, trace_id, name, attributes=given)

        def get_description(self) -> str:
            return "recorded"

    await Bench(Recorded()).loop(lambda _: answer("Hi."), endpoint="https://a.example")
    found = dict(seen)
    names = ("operation.name", "provider.name", "request.model")
    assert [found["chat m"][f"gen_ai.{name}"] for name in names] == ["chat", "anthropic", "m"]
    assert (found["chat m"]["server.address"], found["chat m"]["server.port"]) == ("a.example", 443)
    assert found["invoke_agent helper"]["gen_ai.agent.name"] == "helper"


@pytest.mark.anyio
async def test_metrics_are_recorded_of_spans_that_are_not() -> None:
    bench = Bench(ALWAYS_OFF, capture_content=True)
    run = await bench.loop(lambda _: answer("Hi."))
    assert bench.spans == []
    assert "gen_ai.client.inference.duration" in bench.metrics()
    assert METADATA in run.metadata


@pytest.mark.anyio
async def test_without_providers_nothing_is_recorded_and_nothing_fails() -> None:
    run = await run_loop(lambda _: answer("Hi."), provider="anthropic", history=QUESTION).observe(Telemetry().agent())
    assert (run.text, run.metadata) == ("Hi.", {})


@pytest.mark.anyio
async def test_the_metrics() -> None:
    bench = Bench()
    fetch = Tool(lambda: "x", name="fetch", description="Fetch.", parameters={"type": "object"})
    await bench.loop(rounds(answer(("fetch", {})), answer("Done.", number=2)), tools=[fetch])
    metrics = bench.metrics()
    chat = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic", "gen_ai.request.model": "m"}
    chat["gen_ai.response.model"] = "m-1"
    found = {
        name: [(labels, point.count) for labels, point in points] for name, points in metrics.items() if "dur" in name
    }
    assert found == {
        "gen_ai.client.inference.duration": [(chat, 2)],
        "gen_ai.execute_tool.duration": [
            ({"gen_ai.tool.name": "fetch", "gen_ai.tool.type": "function", "gen_ai.agent.name": "helper"}, 1)
        ],
        "gen_ai.invoke_agent.duration": [({"gen_ai.agent.name": "helper"}, 1)],
    }
    for kind, name in (("chat", "client.inference"), ("execute", "execute_tool"), ("invoke", "invoke_agent")):
        seconds = sum((span.end_time or 0) - (span.start_time or 0) for span in bench.named(kind)) / 1e9
        assert metrics[f"gen_ai.{name}.duration"][0][1].sum == pytest.approx(seconds)
    assert metrics["gen_ai.client.inference.time_to_first_chunk"][0][1].count == 2
    fast = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
    slow = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6)
    assert metrics["gen_ai.client.inference.duration"][0][1].explicit_bounds == fast
    assert metrics["gen_ai.client.inference.time_to_first_chunk"][0][1].explicit_bounds == fast
    assert metrics["gen_ai.execute_tool.duration"][0][1].explicit_bounds == fast
    assert metrics["gen_ai.invoke_agent.duration"][0][1].explicit_bounds == slow
    start = "gen_ai.client.inference.usage."
    counted = {name.removeprefix(start): points for name, points in metrics.items() if name.startswith(start)}
    labels = {**chat, "gen_ai.token.modality": "unknown"}
    assert {name: [(given, point.value) for given, point in points] for name, points in counted.items()} == {
        "input_tokens": [(labels, 36)],
        "output_tokens": [(labels, 14)],
        "cache_read.input_tokens": [(labels, 10)],
        "cache_write.input_tokens": [(labels, 4)],
    }


# -------------------------------------------------------------------- errors, retries, cancellation


def rejected(status: int, text: str) -> Exception:
    error = RuntimeError(text)
    error.status_code, error.headers, error.body = status, {}, text  # type: ignore[attr-defined]
    return error


@pytest.mark.anyio
async def test_a_failed_response_is_the_error_of_its_spans_without_its_text() -> None:
    bench = Bench()
    with pytest.raises(StreamInterrupted):
        await bench.loop(lambda _: slowly([*answer("Hello")[:4], OVERLOADED]))
    assert [failure(span) for span in [*bench.named("chat"), *bench.named("invoke")]] == ["overloaded"] * 2
    assert attributes(bench.named("chat")[0])["gen_ai.response.finish_reasons"] == ("error",)
    assert bench.metrics()["gen_ai.client.inference.duration"][0][0]["error.type"] == "overloaded"
    assert bench.metrics()["gen_ai.invoke_agent.duration"][0][0]["error.type"] == "overloaded"
    assert "ERROR TEXT" not in bench.everything()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (ConnectionError("ERROR TEXT"), "transport_error"),
        (KeyError("ERROR TEXT"), "KeyError"),
        (json.JSONDecodeError("ERROR TEXT", "", 0), "json.decoder.JSONDecodeError"),
    ],
)
@pytest.mark.parametrize("is_read", [False, True])
async def test_what_makes_the_stream_may_raise(raised: Exception, kind: str, is_read: bool) -> None:
    bench = Bench()

    async def chunks() -> AsyncIterator[Any]:
        yield answer("Hello")[0]
        raise raised

    def ask(context: RoundContext) -> Any:
        if is_read:
            return chunks()
        raise raised

    with pytest.raises((StreamInterrupted, type(raised))):
        await bench.loop(ask)
    kinds = {failure(span) for span in [*bench.named("chat"), *bench.named("invoke")]}
    assert kinds in ({kind}, {"transport_error"})
    assert "ERROR TEXT" not in bench.everything()


@pytest.mark.anyio
async def test_a_retried_request_is_one_operation_without_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamkit.execution.run.request._FIRST_DELAY", 0.001)
    bench, tries = Bench(), []

    def ask(context: RoundContext) -> Any:
        tries.append(context)
        with bench.span("POST"):
            return [OVERLOADED] if len(tries) < 3 else answer("Hi.")

    run = await bench.loop(ask, retries=2)
    assert (run.text, len(tries)) == ("Hi.", 3)
    assert [failure(span) for span in bench.named("chat")] == [None]
    assert bench.parents("POST") == ["chat m"] * 3
    assert bench.metrics()["gen_ai.client.inference.duration"][0][1].count == 1


@pytest.mark.anyio
async def test_each_fallback_is_an_operation_of_its_own() -> None:
    bench = Bench()
    chunk = {"id": "r", "model": "n-1", "choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}
    fallback = Target("groq", model="n", endpoint="https://api.groq.example/openai/v1")
    ask: Callable[[RoundContext], Any] = lambda context: [OVERLOADED] if context.model == "m" else [chunk]  # noqa: E731
    run = await bench.loop(ask, retries=Retries(fallbacks=[fallback]))
    assert run.text == "Hi"
    assert [(span.name, failure(span)) for span in bench.named("chat")] == [("chat m", "overloaded"), ("chat n", None)]
    second = attributes(bench.named("chat")[1])
    assert (second["gen_ai.provider.name"], second["server.address"]) == ("groq", "api.groq.example")
    assert failure(bench.named("invoke")[0]) is None


@pytest.mark.anyio
async def test_a_request_with_a_shortened_history_is_another_one() -> None:
    bench = Bench()
    overflow = {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum"}

    def shorten(error: Any, context: RoundContext) -> RoundContext:
        from dataclasses import replace

        return replace(context, contents=context.contents[-1:])

    def ask(context: RoundContext) -> Any:
        return [{"type": "error", "error": overflow}] if len(context.contents) > 1 else answer("Hi.")

    run = await bench.loop(ask, retries=Retries(on_overflow=shorten))
    assert run.text == "Hi."
    assert [failure(span) for span in bench.named("chat")] == ["context_overflow", None]


@pytest.mark.anyio
async def test_failing_tools() -> None:
    bench = Bench()

    @tool
    def refuse() -> str:
        """Refuse."""
        raise ToolFailed("ERROR TEXT")

    @tool
    async def crash() -> str:
        """Crash."""
        raise KeyError("ERROR TEXT")

    @tool(timeout=0.01)
    async def hang() -> str:
        """Hang."""
        await anyio.sleep_forever()
        return ""

    @tool
    def count(number: int) -> int:
        """Count."""
        return number

    calls: list[Named] = [(name, {}) for name in ("refuse", "crash", "hang")]
    calls += [("count", {"number": "x"}), ("unknown", {})]
    tools = [refuse, crash, hang, count]
    run = await bench.loop(rounds(answer(*calls), answer("Done.", number=2)), tools=tools)
    assert run.ended == "answered"
    kinds = {span.name.removeprefix("execute_tool "): failure(span) for span in bench.named("execute")}
    # A call that does not fit its tool, or has none, is not executed.
    assert kinds == {"refuse": "streamkit.errors.ToolFailed", "crash": "KeyError", "hang": "timed_out"}
    assert all(failure(span) is None for span in [*bench.named("chat"), *bench.named("invoke")])
    types = {
        labels["gen_ai.tool.name"]: labels["error.type"]
        for labels, _ in bench.metrics()["gen_ai.execute_tool.duration"]
    }
    assert types == kinds
    assert "ERROR TEXT" not in bench.everything()


async def endless() -> AsyncIterator[Any]:
    for chunk in answer("x" * 50)[:20]:
        yield chunk
    await anyio.sleep_forever()


@pytest.mark.anyio
@pytest.mark.parametrize("way", ["task", "leave", "cancel", "drop"])
async def test_the_spans_of_a_run_that_is_left_end(way: str) -> None:
    bench = Bench()
    with bench.span("person"):
        with anyio.CancelScope() as scope:
            async with bench.loop(lambda _: endless()) as run:
                async for event in run:
                    if event.type == "text":
                        if way == "leave":
                            break
                        scope.cancel() if way == "task" else None
                        run.cancel() if way == "cancel" else None
                        if way == "drop":
                            await run.aclose()
        assert getattr(trace.get_current_span(), "name", None) == "person"
    assert [failure(span) for span in [*bench.named("chat"), *bench.named("invoke")]] == ["canceled"] * 2
    assert attributes(bench.named("invoke")[0])["streamkit.run.ended"] == "canceled"
    assert attributes(bench.named("chat")[0])["gen_ai.response.finish_reasons"] == ("error",)


@pytest.mark.anyio
async def test_a_tool_that_is_canceled_with_its_run_has_a_span() -> None:
    bench, started = Bench(), anyio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        await anyio.sleep_forever()
        return ""

    async with bench.loop(rounds(answer(("wait", {}))), tools=[wait]) as run, anyio.create_task_group() as tasks:

        async def stop() -> None:
            await started.wait()
            run.cancel()

        tasks.start_soon(stop)
        async for _ in run:
            pass
    assert [failure(span) for span in bench.named("execute")] == ["canceled"]
    assert failure(bench.named("chat")[0]) is None
    assert failure(bench.named("invoke")[0]) == "canceled"


@pytest.mark.anyio
async def test_a_reader_that_leaves_with_the_last_event_leaves_a_complete_response() -> None:
    bench = Bench()
    async with bench.loop(lambda _: answer("Hi.")) as run:
        async for event in run:
            if event.type == "finished":
                break
    assert failure(bench.named("chat")[0]) is None


@pytest.mark.anyio
async def test_a_run_that_takes_too_long_has_timed_out() -> None:
    bench = Bench()
    with pytest.raises(StreamInterrupted):
        await bench.loop(lambda _: endless(), timeouts=Timeouts(idle=0.01))
    assert [failure(span) for span in [*bench.named("chat"), *bench.named("invoke")]] == ["timed_out"] * 2


@pytest.mark.anyio
async def test_a_run_that_was_never_read_has_no_span() -> None:
    bench = Bench()
    async with bench.loop(lambda _: answer("Hi.")):
        pass
    assert bench.spans == []


@pytest.mark.anyio
async def test_an_output_that_is_corrected_is_another_request() -> None:
    bench = Bench()
    replies = iter(["none", "[1, 2]"])
    run = await bench.loop(lambda _: answer(next(replies)), output=list[int])
    assert run.output == [1, 2]
    assert [failure(span) for span in bench.named("chat")] == [None, None]
    assert attributes(bench.named("chat")[0])["gen_ai.output.type"] == "json"


# -------------------------------------------------------------------- resumed runs


@tool(approval="ask")
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def resumed(state: RunState) -> Any:
    """Return the state as another process gets it, with its call approved."""
    copy = RunState.load(state.dump(b"key" * 8), b"key" * 8)
    return copy.answer(approvals={copy.pending[0]: True})


@pytest.mark.anyio
async def test_a_resumed_run_is_linked_to_the_first_and_to_the_one_before() -> None:
    bench = Bench()

    def ask(context: RoundContext) -> Any:
        return (
            answer(("pay", {"amount": context.round}), number=context.round) if context.round < 2 else answer("Paid.")
        )

    run = await bench.loop(ask, tools=[pay])
    assert run.ended == "awaiting_approval"
    assert failure(bench.named("invoke")[0]) is None
    assert bench.named("execute") == []  # a call that waits has not run
    for _ in range(2):
        assert run.state is not None
        run = await bench.loop(ask, tools=[pay], resume=resumed(run.state))
    assert run.text == "Paid."
    first, second, third = bench.named("invoke")
    assert [link.context.span_id for link in second.links] == [first.context.span_id]
    assert [link.context.span_id for link in third.links] == [first.context.span_id, second.context.span_id]
    assert len({span.context.trace_id for span in (first, second, third)}) == 3
    assert len(bench.named("execute_tool pay")) == 2
    tokens = [attributes(span).get("gen_ai.usage.input_tokens") for span in (first, second, third)]
    assert tokens == [18, 18, 18]  # of its own requests
    assert len({attributes(span)["streamkit.run.key"] for span in (first, second, third)}) == 1


@pytest.mark.anyio
@pytest.mark.parametrize(
    "stored", ["text", 5, None, [], [5], ["x"], ["x" * 10_000], ["00-" + "0" * 32 + "-" + "0" * 16 + "-01"], [None, {}]]
)
async def test_any_metadata_may_come_back(stored: Any) -> None:
    bench = Bench()
    run = await bench.loop(rounds(answer(("pay", {"amount": 1})), answer("Paid.")), tools=[pay])
    assert run.state is not None
    run.state.metadata[METADATA] = stored
    run = await bench.loop(rounds([], answer("Paid.")), tools=[pay], resume=resumed(run.state))
    assert run.text == "Paid."
    assert bench.named("invoke")[1].links == ()


@pytest.mark.anyio
async def test_the_metadata_of_the_application_stays() -> None:
    bench = Bench()
    async with bench.loop(rounds(answer(("pay", {"amount": 1}))), tools=[pay]) as run:
        run.metadata["message"] = 7
        async for _ in run:
            pass
    assert run.state is not None
    assert run.state.metadata["message"] == 7
    assert run.state.metadata.keys() == {"message", METADATA}


@pytest.mark.anyio
async def test_a_run_that_continues_after_a_crash_is_linked_to_the_one_that_crashed() -> None:
    bench, entries = Bench(), list[RunEntry]()

    async def store(entry: RunEntry) -> None:
        entries.append(parse_entry(entry.model_dump_json()))

    def ask(context: RoundContext) -> Any:
        if context.round == 0:
            return answer(("note", {}))
        raise LookupError("a crash")

    def note() -> str:
        """Note."""
        return "noted"

    with pytest.raises(LookupError):
        await bench.loop(ask, tools=[note], checkpoint=store)
    state = RunState.from_entries(entries)
    run = await bench.loop(lambda _: answer("Done."), tools=[note], resume=state, checkpoint=store)
    assert run.text == "Done."
    first, second = bench.named("invoke")
    assert [link.context.span_id for link in second.links] == [first.context.span_id]


# -------------------------------------------------------------------- content

TEXT = {"type": "text", "required": ["content"]}
SECRETS = ("SYSTEM", "QUESTION", "ANSWER", "ARGUMENT", "RESULT")


async def run_with_content(bench: Bench, **options: Any) -> Run[Any]:
    @tool
    async def fetch(city: str) -> dict[str, Any]:
        """Fetch."""
        return {"city": city, "found": "RESULT"}

    @tool
    def crash() -> str:
        """Crash."""
        raise KeyError("ERROR TEXT")

    first = answer("ANSWER", ("fetch", {"city": "ARGUMENT"}), ("crash", {}))
    return await bench.loop(rounds(first, answer("ANSWER", number=2)), tools=[fetch, crash], **options)


@pytest.mark.anyio
async def test_content_is_not_recorded_by_itself() -> None:
    bench = Bench()
    await run_with_content(bench)
    assert [secret for secret in (*SECRETS, "ERROR TEXT") if secret in bench.everything()] == []


@pytest.mark.anyio
@pytest.mark.parametrize("form", ["history", "thread"])
async def test_content_on_request(form: str) -> None:
    bench = Bench(capture_content=True)
    thread = {"thread": [{"role": "user", "content": "QUESTION"}]}
    run = await run_with_content(bench, **(thread if form == "thread" else {}))
    first, second = map(attributes, bench.named("chat"))
    if form == "history":
        assert json.loads(first["gen_ai.system_instructions"]) == [{"type": "text", "content": "SYSTEM"}]
    question = {"role": "user", "parts": [{"type": "text", "content": "QUESTION"}]}
    assert json.loads(first["gen_ai.input.messages"]) == [question]
    ids = [result.call.id for result in run.results]
    calls = [{"name": "fetch", "arguments": {"city": "ARGUMENT"}}, {"name": "crash", "arguments": {}}]
    requests = [{"type": "tool_call", "id": own, **call} for own, call in zip(ids, calls, strict=True)]
    said = {"role": "assistant", "parts": [{"type": "text", "content": "ANSWER"}, *requests]}
    assert json.loads(first["gen_ai.output.messages"]) == [said]
    definitions = [{"type": "function", "name": name} for name in ("fetch", "crash")]
    assert json.loads(first["gen_ai.tool.definitions"]) == definitions
    messages = json.loads(second["gen_ai.input.messages"])
    responses = [part for message in messages for part in message["parts"] if part["type"] == "tool_call_response"]
    if form == "history":
        assert messages[:2] == [question, said]
        found = {"city": "ARGUMENT", "found": "RESULT"}
        assert [(part["id"], part["response"]) for part in responses] == [
            (ids[0], found),
            (ids[1], {"status": "error"}),
        ]
    executed = {span.name: attributes(span) for span in bench.named("execute")}
    assert json.loads(executed["execute_tool fetch"]["gen_ai.tool.call.arguments"]) == {"city": "ARGUMENT"}
    assert json.loads(executed["execute_tool fetch"]["gen_ai.tool.call.result"])["found"] == "RESULT"
    assert "gen_ai.tool.call.result" not in executed["execute_tool crash"]
    assert "ERROR TEXT" not in bench.everything() or form == "thread"


@pytest.mark.anyio
async def test_the_system_text_is_a_message_where_the_provider_has_it_among_them() -> None:
    bench = Bench(capture_content=True)
    chunk = {"id": "r", "model": "m", "choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}
    await bench.loop(lambda _: [chunk], provider="openai_chat")
    own = attributes(bench.named("chat")[0])
    assert "gen_ai.system_instructions" not in own
    assert [message["role"] for message in json.loads(own["gen_ai.input.messages"])] == ["system", "user"]


@pytest.mark.anyio
async def test_results_of_any_value_are_recorded() -> None:
    bench = Bench(capture_content=True)
    values = {"zero": 0, "no": False, "empty": "", "none": None, "bytes": b"\x00\xff", "deep": {"a": [1.5]}}
    tools = [
        Tool(lambda value=value: value, name=name, description="Return.", parameters={"type": "object"})
        for name, value in values.items()
    ]
    await bench.loop(rounds(answer(*[(name, {}) for name in values]), answer("Done.", number=2)), tools=tools)
    found = {span.name.split()[1]: attributes(span).get("gen_ai.tool.call.result") for span in bench.named("execute")}
    assert {name: found[name] for name in ("zero", "no", "empty", "none", "deep")} == {
        "zero": "0", "no": "false", "empty": '""', "none": None, "deep": '{"a": [1.5]}'
    }  # fmt: skip


# -------------------------------------------------------------------- loops of one's own


@pytest.mark.anyio
async def test_one_call_by_hand() -> None:
    bench = Bench()

    @tool
    def fetch(city: str) -> str:
        """Fetch."""
        with bench.span("inner"):
            return city

    @tool
    async def wait() -> None:
        """Wait."""
        await anyio.sleep_forever()

    turn = Turn("anthropic", "k2")
    async for _ in read(turn, answer(("fetch", {"city": "Oslo"}), ("fetch", {}), ("wait", {}))):
        pass
    options: dict[str, Any] = {"tools": [fetch, wait], "turn": turn, "observer": bench.telemetry}
    with bench.span("my worker"):
        for call in turn.calls[:2]:  # the second one has no valid arguments, and does not run
            await execute_one_tool(call, **options)
        with anyio.move_on_after(0.01):
            await execute_one_tool(turn.calls[2], **options)
        with bench.span("after"):
            pass
    assert bench.parents("execute_tool fetch") == bench.parents("execute_tool wait") == ["my worker"]
    assert (bench.parents("inner"), bench.parents("after")) == (["execute_tool fetch"], ["my worker"])
    assert [attributes(span).get("error.type") for span in bench.named("execute_tool")] == [None, "canceled"]


@pytest.mark.anyio
@pytest.mark.parametrize("execute", [execute_tool_calls_batched, execute_tool_calls_sequentially])
async def test_executors_by_hand(execute: Any) -> None:
    bench = Bench()

    @tool
    async def fetch() -> str:
        """Fetch."""
        with bench.span("inner"):
            await anyio.lowlevel.checkpoint()
        return "x"

    turn = Turn("anthropic", "k", model="m", endpoint="https://a.example")
    with bench.span("my agent"):
        with bench.telemetry.chat(turn):
            async for _ in read(turn, requests_in(bench)["read_first"](None)):  # type: ignore[arg-type]
                pass
        turn = Turn("anthropic", "k2")
        async for _ in read(turn, answer(("fetch", {}), ("fetch", {}))):
            pass
        await execute(turn, tools=[fetch], observer=bench.telemetry)
    assert bench.parents("chat m") == ["my agent"]
    assert bench.parents("POST") == ["chat m"]
    assert bench.parents("execute_tool fetch") == ["my agent"] * 2
    assert bench.parents("inner") == ["execute_tool fetch"] * 2
    own = attributes(bench.named("chat")[0])
    assert (own["gen_ai.usage.input_tokens"], own["server.address"], own["gen_ai.request.model"]) == (
        18,
        "a.example",
        "m",
    )


@pytest.mark.anyio
async def test_a_request_by_hand_that_fails() -> None:
    bench = Bench()
    turn = Turn("anthropic", "k")
    with pytest.raises(LookupError), bench.telemetry.chat(turn):
        raise LookupError("ERROR TEXT")
    turn = Turn("anthropic", "k")
    with bench.telemetry.chat(turn):
        async for _ in read(turn, [OVERLOADED]):
            pass
    assert [failure(span) for span in bench.named("chat")] == ["LookupError", "overloaded"]
    assert "ERROR TEXT" not in bench.everything()


@pytest.mark.anyio
async def test_the_settings_of_a_request() -> None:
    bench = Bench()
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "temperature": 0.5, "top_p": 0.9}
    body |= {"stop": ["a"], "seed": 2**70, "max_tokens": 5, "response_format": {"type": "json_object"}}
    request = parse_request(body, "openai_chat")
    with bench.telemetry.chat(Turn("openai_chat", "k"), request) as chat:
        assert chat is not None
    own = attributes(bench.named("chat")[0])
    found = {name.removeprefix("gen_ai.request."): value for name, value in own.items() if ".request." in name}
    assert found == {"stream": True, "temperature": 0.5, "top_p": 0.9, "stop_sequences": ("a",), "max_tokens": 5}
    assert own["gen_ai.output.type"] == "json"


# -------------------------------------------------------------------- cost


@pytest.mark.anyio
@pytest.mark.parametrize("is_eager", [False, True])
async def test_nothing_is_done_for_a_chunk(is_eager: bool) -> None:
    tools = [Tool(lambda: "x", name="note", description="Note.", parameters={"type": "object"}, eager=is_eager)]

    async def count_calls(letters: int, *, is_observed: bool) -> int:
        run = run_loop(lambda _: slowly(answer("x" * letters)), provider="anthropic", history=QUESTION, tools=tools)
        run = run.observe(Bench().telemetry.agent("a")) if is_observed else run
        calls = 0

        def profile(frame: Any, event: str, _: Any) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        gc.collect()
        gc.disable()
        sys.setprofile(profile)
        try:
            await run
        finally:
            sys.setprofile(None)
            gc.enable()
        return calls

    await count_calls(10, is_observed=True)  # what is imported and built at the first use
    added = [
        await count_calls(510, is_observed=is_observed) - await count_calls(10, is_observed=is_observed)
        for is_observed in (False, True)
    ]
    assert abs(added[1] - added[0]) < 250  # of 500 chunks: what the interpreter does besides is not always the same


def test_every_block_has_the_parts_of_the_schemas() -> None:
    blocks = [
        TextBlock(text="Hi"),
        ReasoningBlock(text="So"),
        ReasoningBlock(text="", opaque={"encrypted": "SECRET"}),
        OpaqueBlock(raw={"encrypted": "SECRET"}),
        ImageBlock(data="data:image/png;base64,SECRET"),
        ImageBlock(data="https://a.example/b.png"),
        FileBlock(media_type="application/pdf", data="SECRET"),
        FileBlock(url="https://a.example/c.pdf"),
        ServerToolBlock(id="s1", name="web_search", arguments={"q": "x"}, result=[1], raw=[{"encrypted": "SECRET"}]),
        ToolCallBlock(id="c1", name="write", parameters="text", kind="custom"),
        ToolResponseBlock(
            call_id="c1",
            result=[{"type": "text", "text": "Page"}, {"type": "image", "data": "data:image/png;base64,AAAA"}],
        ),
    ]
    message = to_message(Content(speaker="ai", blocks=blocks))
    response = [{"type": "text", "content": "Page"}, {"type": "image"}]
    assert message == {
        "role": "assistant",
        "parts": [
            {"type": "text", "content": "Hi"},
            {"type": "reasoning", "content": "So"},
            {"type": "image"},
            {"type": "uri", "modality": "image", "uri": "https://a.example/b.png"},
            {"type": "document"},
            {"type": "uri", "modality": "document", "uri": "https://a.example/c.pdf"},
            {
                "type": "server_tool_call",
                "id": "s1",
                "name": "web_search",
                "server_tool_call": {"type": "web_search", "arguments": {"q": "x"}},
            },
            {
                "type": "server_tool_call_response",
                "id": "s1",
                "server_tool_call_response": {"type": "web_search", "result": [1]},
            },
            {"type": "tool_call", "id": "c1", "name": "write", "arguments": "text"},
            {"type": "tool_call_response", "id": "c1", "response": response},
        ],
    }


def test_only_the_messages_of_failed_calls_are_left_out() -> None:
    blocks = [
        ToolResponseBlock(call_id="1", result={"a": 1}),
        ToolResponseBlock(call_id="2", result=None, status="error", error="ERROR TEXT"),
        ToolResponseBlock(call_id="3", result=None, status="denied", error="not allowed"),
    ]
    message = to_message(Content(speaker="tool", blocks=blocks))
    assert message["role"] == "tool"
    assert [part["response"] for part in message["parts"]] == [{"a": 1}, {"status": "error"}, {"status": "denied"}]
