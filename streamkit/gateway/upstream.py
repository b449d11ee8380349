"""Upstreams as values: a provider, a request to it, an observer. Which one is asked is decided by ``routing``.

The gateway speaks no HTTP to an upstream: ``Upstream.ask`` opens each response. ``Exchange`` describes a client's
request and its response for a log; an ``Observer`` looks at them while they pass. This module must not depend on ASGI.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from inspect import iscoroutine
from time import monotonic
from typing import Any, Protocol, TypeAlias

from streamkit import providers
from streamkit.calls import Usage
from streamkit.errors import UsageError
from streamkit.providers.provider import Provider
from streamkit.providers.requests.request import Request
from streamkit.reading.time_limits import check_seconds
from streamkit.reading.turn import Turn
from streamkit.values.redaction import redact_secrets

__all__ = [
    "ANY_MODEL",
    "NO_CONNECTION",
    "Ask",
    "Exchange",
    "Observer",
    "Upstream",
    "UpstreamRequest",
    "current_exchange",
    "feature_headers",
    "is_header_value",
    "limit_headers",
    "open_response",
]


#: The model of ``Upstream.models`` for every name that is not listed.
ANY_MODEL = "*"
#: What a client gets of a failed connection.
NO_CONNECTION = "the connection to the upstream failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamRequest:
    """A request for ``Upstream.ask``.

    Attributes:
        path: the path after the base URL, with the query.
        headers: the headers of the provider except its key, and those of the client that select features of the
            provider.
        body: the JSON body.
        model: the requested model.
    """

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    model: str


#: Opens the response to a request, such as ``http.stream("POST", ...)`` of httpx.
Ask: TypeAlias = Callable[[UpstreamRequest], AbstractAsyncContextManager[Any]]


#: Returns the response to a request, or one that is watched while it is read into a turn; `Observer.watch`.
Watch: TypeAlias = Callable[
    [UpstreamRequest, AbstractAsyncContextManager[Any], Request, Turn], AbstractAsyncContextManager[Any]
]


@dataclass(frozen=True, kw_only=True)
class Upstream:
    """A provider that requests are sent to.

    Attributes:
        provider: its name, or the provider object.
        ask: returns an async context manager over the response: anything that ``read`` accepts, such as a streamed
            httpx response, whose status and headers count. Transport errors that it raises become errors for the
            client, as do exceptions with a ``status_code``, which have its status, headers and text; anything else is a
            defect, logged and answered with 500. It is called in the context of the client's request, once for each
            request to this upstream, also for counts of tokens, which have another path.
        endpoint: the address of the server, to which opaque state belongs; None if there is only one.
        models: the models that it is asked for: a list of names, or its own name by the client's name of each. A name
            may have one ``*`` for any text, which is put for the ``*`` of its own name: ``["gpt-*"]``,
            ``{"openai/*": "*"}``. ``{"*": "m"}`` asks for m, whatever model a client names. An upstream without models
            gets each name that no other upstream has.
        list_models: returns the names of the server's models, for the lists of clients; None to list ``models`` alone.
        first_event_timeout: seconds from the request to the first event with content, after which the response has
            failed and the next upstream is asked; None for no limit.
        secrets: texts that no client and no log may get, such as the key. One of fewer than 8 characters is taken for a
            placeholder, as local servers accept it, and is not masked.

    Raises:
        UsageError: the provider is unknown, ``ask`` is no function, ``secrets`` or ``models`` is one text, a name in
            ``models`` is empty or has a ``*`` too many, or the number of seconds is not above 0.
    """

    provider: str | Provider
    ask: Ask = field(repr=False)
    endpoint: str | None = None
    models: Mapping[str, str] | Sequence[str] = ()
    list_models: Callable[[], Awaitable[Iterable[str]]] | None = field(default=None, repr=False)
    first_event_timeout: float | None = None
    secrets: Sequence[str] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        providers.get(self.provider)  # raises what the first client would get
        if not callable(self.ask):
            raise UsageError(f"Upstream.ask must be a function that opens the response, not {self.ask!r}")
        if isinstance(self.secrets, str):  # each character would be a secret, too short to be masked
            raise UsageError("Upstream.secrets takes a list of texts, not one text: secrets=[key]")
        check_seconds("first_event_timeout", self.first_event_timeout)
        if isinstance(self.models, str):
            raise UsageError("Upstream.models takes a list of names, not one text: models=[name]")
        for name, model in self.targets().items():
            if not (name and model) or not model.count(ANY_MODEL) <= name.count(ANY_MODEL) <= 1:
                raise UsageError(f"Upstream.models takes names with at most one '*' each, not {name!r}: {model!r}")

    def targets(self) -> dict[str, str]:
        """Return the upstream's model by the client's name of one, or by a pattern of names."""
        models = self.models
        return dict(models) if isinstance(models, Mapping) else {name: name for name in models}

    def clean(self, text: str) -> str:
        """Return a text without secrets."""
        return redact_secrets(text, self.secrets)


def open_response(upstream: Upstream, request: UpstreamRequest) -> AbstractAsyncContextManager[Any]:
    """Return the response to a request, which is not open yet.

    Raises:
        UsageError: ``ask`` returned no context manager.
    """
    asked: Any = upstream.ask(request)
    if hasattr(type(asked), "__aenter__"):
        return asked  # type: ignore[no-any-return]
    if iscoroutine(asked):
        asked.close()  # else Python warns that it was never awaited, after the error that says why
    raise UsageError(
        "Upstream.ask must return an async context manager over the response, as http.stream(...) of httpx does, not"
        f" {type(asked).__name__}: decorate an 'async def' that yields the response with"
        " contextlib.asynccontextmanager"
    )


def feature_headers(target: Provider, headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a client of the target's wire that select features of it."""
    return {name: headers[name] for name in target.traits.endpoint.feature_headers if name in headers}


def limit_headers(client: Provider, target: Provider, headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of an upstream's response about its rate limits that the client's wire has, too.

    They are not translated (docs/rules.md, "The gateway").
    """
    shared = _shared_prefixes(client.traits.endpoint.limit_headers, target.traits.endpoint.limit_headers)
    names = [name for name in headers if name.lower().startswith(shared)] if shared else ()
    return {name.lower(): headers[name] for name in names if is_header_value(headers[name])} if names else {}


@cache  # for each pair of wires
def _shared_prefixes(known: tuple[str, ...], given: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(prefix for prefix in given if prefix in known)


def is_header_value(value: Any) -> bool:
    """Return True for a value of an upstream's header that can be sent on."""
    return isinstance(value, str) and value.isascii() and value.isprintable() and value != ""


@dataclass(slots=True, kw_only=True)
class Exchange:
    """One request and its response, for a log. It has no key and no content of the conversation.

    Attributes:
        method: the HTTP method.
        path: the path, without the query.
        client: the name of the client's wire.
        request_id: the id that the client got.
        key: the name of the client's key in the file of keys; None without one.
        status: the HTTP status; 0 if the client disconnected before one was sent.
        upstream: the number of the upstream that was asked last, from 1 on; 0 if none was asked.
        provider: the name of its provider; None if none was asked.
        failures: a sentence for each upstream that failed before it.
        model: the client's name of the model.
        upstream_model: the upstream's.
        calls: the number of tool calls in the response.
        usage: the tokens of the response, if they are known.
        cost: US dollars of the response, if ``Gateway(price=)`` or metrics are on and it is known.
        error: what failed; None if nothing did.
        error_codes: the number, the provider and the code (or the kind) of each upstream that failed.
        disconnected: the client disconnected before the end.
        changes: a sentence for each thing of the request or the response that was changed or left out.
        began: when the request came, by the monotonic clock of the process.
        first_byte: the seconds from the request to the first byte of its response, heartbeats aside; None without one.
        seconds: the time from the request to the end of the response.
    """

    method: str
    path: str
    client: str
    request_id: str
    key: str | None = None
    status: int = 0
    upstream: int = 0
    provider: str | None = None
    failures: Sequence[str] = ()
    model: str | None = None
    upstream_model: str | None = None
    calls: int = 0
    usage: Usage | None = None
    cost: float | None = None
    error: str | None = None
    error_codes: Sequence[tuple[int, str, str]] = ()
    disconnected: bool = False
    changes: Sequence[str] = ()
    began: float = field(default_factory=monotonic, compare=False)
    first_byte: float | None = None
    seconds: float = 0.0


#: The exchange that is served, for what is logged meanwhile.
current_exchange: ContextVar[Exchange | None] = ContextVar("current_exchange", default=None)


class Observer(Protocol):
    """Looks at the traffic of a gateway, such as `streamkit.gateway.tap.ExchangeObserver`.

    Its methods are called in the event loop, so they must not wait; what they raise fails the request.
    """

    def watch(
        self,
        exchange: Exchange,
        upstream: Upstream,
        request: UpstreamRequest,
        response: AbstractAsyncContextManager[Any],
        asked: Request,
        turn: Turn,
    ) -> AbstractAsyncContextManager[Any]:
        """Return the response of an upstream, which is not open yet, or one that is watched in its place.

        Args:
            exchange: the exchange so far.
            upstream: the upstream.
            request: what it is sent.
            response: its response. A watched one may copy the input that is read of it.
            asked: the request in neutral form.
            turn: what the response is read into. It is closed when the response is.
        """

    def report(self, exchange: Exchange) -> None:
        """Take the end of an exchange."""
