"""Traces and metrics of runs, executors and requests, by the API of OpenTelemetry: the extra ``otel``.

Names and rules are those of the generative AI conventions v0.1.0 (``docs/gen-ai`` and ``model/gen-ai`` of
https://github.com/open-telemetry/semantic-conventions-genai): a run is ``invoke_agent``, a request with its retries
``chat``, a call that runs ``execute_tool``. Each has a span, and a duration that is the span's.

- Content is recorded on request alone. The text of an exception or of a provider's error never is, nor that of a failed
  call in the conversation: ``error.type`` has a code or the name of a class (docs/rules.md, "Traces").
- ``execute_tool`` is the current span of its tool, ``chat`` of what opens a stream, until the first chunk. While the
  reader of a run has control neither is, and nothing is done for a chunk.
- The address of a run's span is in ``run.metadata``: a run that is resumed from that state is linked to it.

It must depend on the API alone: SDK, exporters and samplers are the program's choice.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from time import time_ns
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import streamkit
from streamkit.bridges.otel_content import to_input, to_message, to_response
from streamkit.calls import StreamError, ToolCall, ToolResult
from streamkit.errors import StreamInterrupted
from streamkit.events import RunEnded
from streamkit.execution.round.context import RoundContext
from streamkit.execution.round.policies import turn_error
from streamkit.history.tool_results import to_stored_result
from streamkit.json_text import replace_lone_surrogates
from streamkit.providers.provider import Provider
from streamkit.providers.requests.request import Request
from streamkit.reading.turn import Turn
from streamkit.tools import Tool
from streamkit.values.distribution import missing_package

try:
    from opentelemetry import metrics, trace
    from opentelemetry.context import Context, attach, detach, get_current
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ModuleNotFoundError as error:
    if not (error.name or "").startswith("opentelemetry"):
        raise
    raise missing_package("streamkit.bridges.otel", error, "otel") from None

__all__ = ["METADATA", "Agent", "Chat", "Telemetry"]

SCHEMA_URL = "https://opentelemetry.io/schemas/gen-ai/0.1.0"
#: The field of ``run.metadata`` with the addresses of the first and of the latest span of a run, as ``traceparent``.
METADATA = "opentelemetry"

# The well-known values of ``gen_ai.provider.name``; any other provider has its own name.
_PROVIDERS = {"azure_openai": "azure.ai.openai", "gemini": "gcp.gemini", "kimi": "moonshot_ai", "xai": "x_ai"}
_PROVIDERS |= {"mistral": "mistral_ai", "openai_chat": "openai", "openai_responses": "openai"}
_PROVIDERS |= dict.fromkeys(("bedrock_converse", "bedrock_invoke"), "aws.bedrock")
# By the fields of `Usage`: what follows ``gen_ai.usage.`` in a span and ``gen_ai.client.inference.usage.`` in a metric.
_TOKENS = {"input_tokens": "input_tokens", "output_tokens": "output_tokens"}
_TOKENS |= {"cache_read_tokens": "cache_read.input_tokens", "cache_write_tokens": "cache_write.input_tokens"}
_TOKENS |= {"reasoning_tokens": "reasoning.output_tokens"}
# By the fields of `Settings`: what follows ``gen_ai.request.``.
_SETTINGS = {name: name for name in ("temperature", "top_p", "top_k", "seed", "frequency_penalty", "presence_penalty")}
_SETTINGS |= {"max_output_tokens": "max_tokens", "stop": "stop_sequences", "reasoning_effort": "reasoning.level"}
_CHAT_DURATION, _FIRST_CHUNK = "gen_ai.client.inference.duration", "gen_ai.client.inference.time_to_first_chunk"
_TOOL_DURATION, _AGENT_DURATION = "gen_ai.execute_tool.duration", "gen_ai.invoke_agent.duration"
# The boundaries of the buckets, in seconds, that the conventions give.
_FAST, _SLOW = [0.01 * 2**power for power in range(14)], [0.1 * 2**power for power in range(13)]
_BOUNDARIES = {_CHAT_DURATION: _FAST, _FIRST_CHUNK: _FAST, _TOOL_DURATION: _FAST, _AGENT_DURATION: _SLOW}
_MOST_MODELS = 100  # that clients of a gateway can make labels of metrics
_MOST_TOKENS = 2**31  # of a response: their sum must have 64 bits

_Attributes: TypeAlias = dict[str, Any]


class Telemetry:
    """The spans and metrics of a program. As the ``observer`` of executors it makes the spans of their calls.

    Args:
        tracer_provider: makes the spans; None for the global one.
        meter_provider: makes the metrics; None for the global one.
        capture_content: record conversations, the names of tools, and the arguments and results of calls in the spans.
    """

    def __init__(
        self,
        *,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        capture_content: bool = False,
    ) -> None:
        released = streamkit.__version__
        self.tracer: trace.Tracer = trace.get_tracer("streamkit", released, tracer_provider, SCHEMA_URL)
        self.captures_content: bool = capture_content
        meter = metrics.get_meter("streamkit", released, meter_provider, SCHEMA_URL)
        self.durations: dict[str, metrics.Histogram] = {
            name: meter.create_histogram(name, "s", explicit_bucket_boundaries_advisory=boundaries)
            for name, boundaries in _BOUNDARIES.items()
        }
        self.counters: dict[str, metrics.Counter] = {
            name: meter.create_counter(f"gen_ai.client.inference.usage.{name}", "{token}") for name in _TOKENS.values()
        }

    def agent(
        self, name: str | None = None, *, description: str | None = None, conversation_id: str | None = None
    ) -> Agent:
        """Return the observer of an agent's runs, of any number at once, for ``run_loop(...).observe(...)``.

        Args:
            name: the agent's name; one of few, since it is an attribute of metrics.
            description: what it does.
            conversation_id: the program's id of the conversation.
        """
        return Agent(self, name, description, conversation_id)

    @contextmanager
    def chat(self, turn: Turn, request: RoundContext | Request | None = None) -> Iterator[Chat]:
        """Trace one request of a loop of your own, which is made and read in the block.

        Args:
            turn: the turn that the response is read into, created with the model and the endpoint.
            request: what the request is made from, for its settings and its content.
        """
        facts = turn.origin
        chat = Chat(self, turn.provider, (facts.get("requested_model"), facts.get("endpoint")), request)
        with ExitStack() as stack:
            stack.push(lambda kind, error, traceback: chat.end(turn, error))
            stack.enter_context(chat.current())
            yield chat

    def start_call(
        self, call: ToolCall, tool: Tool, agent: _Attributes | None = None, parent: Context | None = None
    ) -> Callable[[ToolResult | None], None]:
        """Start the span of a call, which is current until its end; return the function that takes its result."""
        common = {"gen_ai.tool.name": tool.name, "gen_ai.tool.type": "function", **(agent or {})}
        own = {"gen_ai.tool.call.id": call.id, "gen_ai.tool.description": tool.description}
        operation = _Operation(self, f"execute_tool {tool.name}", {**common, **own}, parent)
        token = attach(operation.context)
        operation.capture(lambda: {"gen_ai.tool.call.arguments": call.arguments})

        def end(result: ToolResult | None) -> None:
            detach(token)
            failure: str = "canceled" if result is None else result.status
            if result is not None and result.status == "completed":
                operation.capture(lambda: {"gen_ai.tool.call.result": to_response(to_stored_result(result.value))})
            elif result is not None and result.exception is not None:
                failure = _exception_name(result.exception)
            operation.end(_TOOL_DURATION, common, None if failure == "completed" else failure)

        return end


class _Operation:
    """One operation: its span, and its duration in a metric.

    Samplers decide by the attributes, of which None is no value. Without a parent the span is in the current one.
    """

    def __init__(
        self,
        telemetry: Telemetry,
        name: str,
        attributes: _Attributes,
        parent: Context | None,
        links: Sequence[trace.Link] = (),
    ) -> None:
        self.telemetry = telemetry
        self.started: int = time_ns()
        kind = name.partition(" ")[0]
        self.span: trace.Span = telemetry.tracer.start_span(
            name,
            parent,
            trace.SpanKind.CLIENT if kind == "chat" else trace.SpanKind.INTERNAL,
            _known({"gen_ai.operation.name": kind, **attributes}),
            links,
            self.started,
        )
        self.context: Context = trace.set_span_in_context(self.span, parent)

    def capture(self, make: Callable[[], _Attributes]) -> None:
        """Record content as JSON, since spans have no nested values, if the program has asked for content."""
        if not (self.telemetry.captures_content and self.span.is_recording()):
            return
        with suppress(ValueError, TypeError, RecursionError):  # content that is no JSON is left out: no run fails by it
            for name, content in make().items():
                if content not in (None, []):
                    text = json.dumps(content, ensure_ascii=False, default=str)
                    self.span.set_attribute(name, replace_lone_surrogates(text))

    def seconds_to(self, time: int) -> float:
        """Return the seconds from the start to a time; 0 if the clock was set back."""
        return max(time - self.started, 0) / 1e9

    def end(self, metric: str, attributes: _Attributes, failure: str | None) -> None:
        """End the span and record its duration, with the type of the error if there was one."""
        ended = time_ns()
        attributes = _known({**attributes, "error.type": failure})
        if failure is not None:
            self.span.set_attribute("error.type", attributes["error.type"])
            self.span.set_status(trace.Status(trace.StatusCode.ERROR))
        self.telemetry.durations[metric].record(self.seconds_to(ended), attributes, self.context)
        self.span.end(ended)


class Chat:
    """One request with its attempts (``ObservedRequest``).

    Args:
        telemetry: what makes the span.
        provider: the provider that is requested.
        target: the requested model and the address of the server, as far as they are known.
        request: what the request is made from, if that is known.
        run: the run that it is in, if it is in one.
        models: the models that are labels of metrics, where clients choose the names; None for all.
    """

    def __init__(
        self,
        telemetry: Telemetry,
        provider: Provider,
        target: tuple[str | None, str | None],
        request: RoundContext | Request | None,
        run: _AgentRun | None = None,
        models: set[str] | None = None,
    ) -> None:
        model, endpoint = target
        address, name = _address(endpoint), _PROVIDERS.get(provider.name, provider.name)
        if provider.name == "gemini" and address.get("server.address", "").endswith("aiplatform.googleapis.com"):
            name = "gcp.vertex_ai"
        self._common = _known({"gen_ai.provider.name": name, "gen_ai.request.model": model, **address})
        own = {"gen_ai.request.stream": True, **_settings(request), **({} if run is None else run.of_requests)}
        name = "chat" if model is None else f"chat {self._common['gen_ai.request.model']}"
        self._operation = _Operation(telemetry, name, {**self._common, **own}, None if run is None else run.context())
        self._models = models
        self._totals: Counter[str] = Counter() if run is None else run.totals
        self._first_chunk: float | None = None
        if request is not None:
            self._operation.capture(lambda: to_input(request, provider))

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make the span the current one in a block."""
        token = attach(self._operation.context)
        try:
            yield
        finally:
            detach(token)

    def begin_response(self, seconds: float | None = None) -> None:
        """Take the arrival of the first chunk: now, or so many seconds after the start."""
        self._first_chunk = self._operation.seconds_to(time_ns()) if seconds is None else seconds

    def end(self, turn: Turn, error: BaseException | None = None) -> None:
        """End the span with the facts of the response, and record the metrics."""
        operation, telemetry, failure = self._operation, self._operation.telemetry, _failure(turn, error)
        finishes = [choice.finish for choice in turn.choices]
        reasons = ["error" if end is None or (failure and end.raw is None) else end.reason for end in finishes]
        figures = {} if turn.usage is None else {name: getattr(turn.usage, field) for field, name in _TOKENS.items()}
        tokens = {name: number for name, number in figures.items() if number is not None and 0 <= number < _MOST_TOKENS}
        self._totals.update(tokens)
        attributes = _known({**self._common, "gen_ai.response.model": turn.model})
        own = {"gen_ai.response.id": turn.response_id, "gen_ai.response.finish_reasons": reasons}
        usage = {f"gen_ai.usage.{name}": number for name, number in tokens.items()}
        first_chunk = {"gen_ai.response.time_to_first_chunk": self._first_chunk}
        operation.span.set_attributes(_known({**attributes, **own, **usage, **first_chunk}))
        operation.capture(lambda: {"gen_ai.output.messages": [to_message(each.content) for each in turn.choices]})
        if self._models is not None and (model := attributes.get("gen_ai.request.model")) not in self._models:
            if failure is None and model is not None and len(self._models) < _MOST_MODELS:
                self._models.add(model)
            else:
                attributes = {key: value for key, value in attributes.items() if not key.endswith(".model")}
        attributes["gen_ai.operation.name"] = "chat"
        for name, number in tokens.items():  # of which modality they are is not known of all providers
            telemetry.counters[name].add(number, {**attributes, "gen_ai.token.modality": "unknown"}, operation.context)
        if self._first_chunk is not None:
            telemetry.durations[_FIRST_CHUNK].record(self._first_chunk, attributes, operation.context)
        operation.end(_CHAT_DURATION, attributes, failure)


@dataclass(frozen=True)
class Agent:
    """The observer of an agent's runs (``RunObserver``), made by `Telemetry.agent`."""

    _telemetry: Telemetry
    _name: str | None
    _description: str | None
    _conversation_id: str | None

    def start_run(self, context: RoundContext, run_key: str, metadata: dict[str, Any]) -> _AgentRun:
        """Start the span of a run, linked to those in the metadata, which gets its address."""
        stored = metadata.get(METADATA)
        earlier = [text for text in stored if isinstance(text, str)] if isinstance(stored, list) else []
        propagator, carrier = TraceContextTextMapPropagator(), dict[str, str]()
        spans = [trace.get_current_span(propagator.extract({"traceparent": text}, Context())) for text in earlier[-2:]]
        links = [trace.Link(span.get_span_context()) for span in spans if span.get_span_context().is_valid]
        agent = _known({"gen_ai.agent.name": self._name})
        of_all = {"gen_ai.conversation.id": self._conversation_id}
        own = {**of_all, "gen_ai.agent.description": self._description, "streamkit.run.key": run_key}
        name = " ".join(["invoke_agent", *agent.values()])
        operation = _Operation(self._telemetry, name, {**agent, **own}, get_current(), links)
        propagator.inject(carrier, operation.context)
        if "traceparent" in carrier:
            metadata[METADATA] = [*earlier[:1], carrier["traceparent"]]
        return _AgentRun(operation, agent, of_all)


@dataclass
class _AgentRun:
    """One run of an agent (``ObservedRun``), with the attributes of its calls and those of its requests."""

    _operation: _Operation
    _name: _Attributes
    of_requests: _Attributes
    totals: Counter[str] = field(default_factory=Counter)  #: the tokens of its requests

    def context(self) -> Context:
        """Return the current context, with the span of the run as the current one."""
        return trace.set_span_in_context(self._operation.span)

    def start_request(self, context: RoundContext) -> Chat:
        """Start the span of a request."""
        telemetry, target = self._operation.telemetry, (context.model, context.endpoint)
        return Chat(telemetry, context.provider, target, context, self)

    def start_call(self, call: ToolCall, tool: Tool) -> Callable[[ToolResult | None], None]:
        """Start the span of a call."""
        return self._operation.telemetry.start_call(call, tool, self._name, self.context())

    def end(self, ended: RunEnded, error: Exception | None) -> None:
        """End the span, with the tokens of the run's own requests."""
        for name in self.totals.keys() & {"input_tokens", "output_tokens"}:  # the conventions have no others here
            self._operation.span.set_attribute(f"gen_ai.usage.{name}", self.totals[name])
        self._operation.span.set_attribute("streamkit.run.ended", ended.ended)
        failure: str | None = ended.ended if ended.ended in ("canceled", "timed_out", "error") else None
        if failure == "error" and error is not None:
            failure = _exception_name(error)
        self._operation.end(_AGENT_DURATION, self._name, failure)


def _failure(turn: Turn, error: BaseException | None) -> str | None:
    """Return the type of the error of a request; None if it succeeded, also if the reader left at its last event."""
    failed = turn_error(turn)
    if isinstance(error, Exception):
        return _exception_name(error)
    if failed is not None and (error is None or failed.kind != "stream_truncated"):
        return _error_name(failed)
    return None if error is None or turn.finish is not None else _exception_name(error)


def _error_name(error: StreamError) -> str:
    return error.code or (error.kind if error.status is None else str(error.status))


def _exception_name(error: BaseException) -> str:
    """Return the name of an exception's class; of a turn's error its code, and of a cancellation ``canceled``."""
    if isinstance(error, StreamInterrupted):
        return _error_name(error.error)
    if not isinstance(error, (Exception, KeyboardInterrupt, SystemExit)):
        return "canceled"
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _known(attributes: _Attributes) -> _Attributes:
    """Return the attributes that have a value, as an exporter takes it.

    At an integer of more than 64 bits or at half of a surrogate pair it fails, and loses all that it has.
    """
    return {
        name: replace_lone_surrogates(value)
        for name, value in attributes.items()
        if value is not None and not (isinstance(value, int) and abs(value) >= 2**63)
    }


def _address(endpoint: str | None) -> _Attributes:
    """Return the host and the port of a server's address: neither a path nor a password is recorded."""
    if not endpoint:
        return {}
    try:
        parts = urlsplit(endpoint if "//" in endpoint else f"https://{endpoint}")
        host, port = parts.hostname, parts.port or (80 if parts.scheme == "http" else 443)
    except ValueError:  # it is no address
        return {}
    return {"server.address": host, "server.port": port} if host else {}


def _settings(request: RoundContext | Request | None) -> _Attributes:
    """Return the settings of a request that the conventions have an attribute for."""
    if not isinstance(request, Request):
        return {} if request is None or request.output is None else {"gen_ai.output.type": "json"}
    values, form = request.settings.values, request.settings.output_format
    output = None if form is None else "text" if form.type == "text" else "json"
    settings = {f"gen_ai.request.{name}": values.get(setting) for setting, name in _SETTINGS.items()}
    return {**settings, "gen_ai.output.type": output}
