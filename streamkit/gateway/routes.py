"""The paths of the gateway, by the wire of the client and the action.

The paths of responses are those of each provider's ``Endpoint.route``; the others are listed here. Some clients append
the version to the base URL that a user gives, others expect it there, so a version too many or too few is accepted.
Pure: it must not depend on ASGI.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from streamkit import providers
from streamkit.providers.provider import Provider

__all__ = ["CLIENTS", "Action", "Route", "client_provider", "find_mounted_route", "find_route"]

Action: TypeAlias = Literal["respond", "count_tokens", "list_models", "health", "unknown"]

#: The providers whose clients are served.
CLIENTS = (
    *("anthropic", "openai_responses", "openai_chat", "gemini"),
    *("bedrock_converse", "bedrock_invoke", "ollama", "cohere"),
)

#: Chat Completions with reasoning in ``reasoning_content``, where clients of other gateways look for it.
_CHAT = providers.dialect("openai_chat", base="openai_chat", reasoning_field="reasoning_content")

#: The clients that read Chat Completions in one dialect alone, by the ``user-agent`` header. Mistral's SDKs raise an
#: exception at a delta of a call without its name (``FunctionCall.name`` of the SDK), and show reasoning in parts only,
#: as @ai-sdk/mistral does. @ai-sdk/xai takes each delta of a call for a whole one, as xAI streams them
#: (https://docs.x.ai/docs/guides/function-calling), so that arguments in pieces became as many calls.
_DIALECTS = {
    "mistral": re.compile(r"(?:.*\s)?(?:mistral-client-|ai-sdk/mistral/)"),
    "xai": re.compile(r"(?:.*\s)?ai-sdk/xai/"),
}

_ROUTES = {name: re.compile(providers.get(name).traits.endpoint.route) for name in CLIENTS}
_COUNTS = {
    name: re.compile(route)
    for name in CLIENTS
    for route in [providers.get(name).traits.endpoint.count_route]
    if route is not None
}
_LISTS = {
    "openai_chat": re.compile(r"(?:/v1)*/models(?:/(?P<model>.+))?"),
    "gemini": re.compile(r"(?:/v1\w*)*/v1(?:alpha|beta)\w*/models(?:/(?P<model>[^:]+))?"),
    "ollama": re.compile(r"(?:/(?:v1|api))*/api/tags"),
}
#: Anthropic's paths under another base URL: its SDK adds the version to it, while DSPy and the AI SDK expect it there.
#: The paths of OpenAI may have any base URL.
_ANTHROPIC = re.compile(r"(?!.*/threads/)(?:/.+)?(?P<path>/messages(?:/count_tokens)?)")  # OpenAI has other messages
#: The wire of an error for a path that is none of the above.
_PREFIXES = (
    ("anthropic", re.compile(r"/v1/messages")),
    ("openai_responses", re.compile(r"/v1/responses(?:/|$)")),
    ("gemini", re.compile(r"/v1(?:alpha|beta)|.*/models/[^/]+:")),
    ("bedrock_converse", re.compile(r"/model/")),
    ("ollama", re.compile(r"/api/")),
    ("cohere", re.compile(r"/v2/")),
)
#: The first segment of a base URL as users give it: a version, or Ollama's ``/api``.
_BASE = re.compile(r"/(?:v\d\w*|api)(?=/.)")
#: The version that a base URL may lack. ``/chat`` without one may be Ollama's or Cohere's.
_VERSION = "/v1"


@dataclass(frozen=True, slots=True)
class Route:
    """The client's wire and the action of one request.

    Attributes:
        client: the name of the provider whose wire the client speaks.
        action: ``respond``: a response of a model; ``count_tokens``: of the input; ``list_models`` and ``health``
            (``HEAD /``); ``unknown``: no such path.
        methods: the methods that the path accepts.
        model: the model, where the path has it.
        stream: whether the path asks for a stream; None if the body says it.
        as_array: a stream is one JSON array (Gemini without ``alt=sse``).
        dialect: the name of the provider whose dialect of the wire the client reads; None for that of the wire.
    """

    client: str
    action: Action
    methods: tuple[str, ...] = ("POST",)
    model: str | None = None
    stream: bool | None = None
    as_array: bool = False
    dialect: str | None = None


def find_route(path: str, query: Mapping[str, str], headers: Mapping[str, str]) -> Route:
    """Return the route of a request.

    Args:
        path: the path, percent-decoded: gemini-cli sends its colon as ``%3A``.
        query: the query's parameters.
        headers: the request's headers, with names in lower case.
    """
    if (usual := _USUAL.get(path)) is not None:
        return _in_dialect(usual, headers)
    client = "anthropic" if "anthropic-version" in headers else "openai_chat"
    if path in ("", "/"):
        return Route(client, "health", ("GET", "HEAD"))
    for each in _versions_of(path):  # before the lists, of which `/models/m:generateContent` is no model
        if (route := _find_response(each, query)) is not None:
            return _in_dialect(route, headers)
    for name, pattern in _LISTS.items():
        if (match := pattern.fullmatch(path)) is not None:
            wire = client if name == "openai_chat" else name
            return Route(wire, "list_models", ("GET", "HEAD"), model=match.groupdict().get("model"))
    wires = (name for each in _versions_of(path) for name, pattern in _PREFIXES if pattern.match(each))
    return Route(next(wires, client), "unknown")


def find_mounted_route(
    path: str, mounted_at: str, query: Mapping[str, str], headers: Mapping[str, str]
) -> tuple[str, Route]:
    """Return the path of a request below the path at which the gateway is mounted, and its route.

    Args:
        path: the whole path, percent-decoded.
        mounted_at: the ``root_path`` of ASGI.
        query: the query's parameters.
        headers: the request's headers, with names in lower case.
    """
    if not mounted_at and (usual := _USUAL.get(path)) is not None:
        return path, _in_dialect(usual, headers)
    paths = list(_paths_below(path, mounted_at))
    for each in paths:
        if (route := find_route(each, query, headers)).action != "unknown":
            return each, route
    return paths[0], find_route(paths[0], query, headers)


def _paths_below(path: str, mounted_at: str) -> Iterator[str]:
    """Yield the paths that a request may have below the one at which the gateway is mounted, the likeliest first.

    ``root_path`` is a prefix of ``path`` by ASGI. With FastAPI's own ``root_path``, and behind a proxy that removes the
    prefix (https://fastapi.tiangolo.com/advanced/behind-a-proxy/), only its last segments are, those of ``mount``, or
    none of it. Litestar ends the path of a mounted application with a slash, and so do some clients.
    """
    starts = (mounted_at[at:] for at, character in enumerate(mounted_at) if character == "/")
    below = [path.removeprefix(start) for start in starts if path.startswith(start + "/") or path == start]
    for each in (*below, path):
        yield each.rstrip("/") or "/"


def _versions_of(path: str) -> Iterator[str]:
    """Yield a path, then the paths with one version less, and with a version in front."""
    yield path
    while (base := _BASE.match(path)) is not None:
        path = path[base.end() :]
        yield path
    yield _VERSION + path


def _find_response(path: str, query: Mapping[str, str]) -> Route | None:
    """Return the route of a response or of a count of tokens, None if the path is of neither."""
    if (match := _ANTHROPIC.fullmatch(path)) is not None:
        path = f"/v1{match['path']}"
    for name, pattern in _ROUTES.items():
        if (match := pattern.fullmatch(path)) is not None:
            groups = match.groupdict()
            verb = groups.get("verb")
            endpoint = providers.get(name).traits.endpoint
            return Route(
                name,
                "respond",
                model=groups.get("model"),
                stream=None if verb is None else "stream" in verb,
                as_array=endpoint.answers_arrays and query.get("alt") != "sse",
            )
    for name, pattern in _COUNTS.items():
        if (match := pattern.fullmatch(path)) is not None:
            return Route(name, "count_tokens", model=match.groupdict().get("model"))
    return None


#: The routes of the paths that most clients ask, so that no pattern is tried for them.
_USUAL = {
    path: usual
    for name in CLIENTS
    for path in (providers.get(name).traits.endpoint.path, _VERSION + providers.get(name).traits.endpoint.path)
    if (usual := _find_response(path, {})) is not None and usual.model is None
}


def _in_dialect(route: Route, headers: Mapping[str, str]) -> Route:
    """Return a route with the dialect that the client reads."""
    if route.client != "openai_chat" or (agent := headers.get("user-agent")) is None:
        return route
    for name, pattern in _DIALECTS.items():
        if pattern.match(agent) is not None:
            return replace(route, dialect=name)
    return route


def client_provider(route: Route, upstream: Provider | None = None) -> Provider:
    """Return the provider whose form a client's request and its response have.

    A client of the upstream's own wire is read in the upstream's dialect, so that fields that only this dialect has
    arrive there, unless the client is known to read another one alone.
    """
    if route.dialect is not None:
        return providers.get(route.dialect)
    provider = _CHAT if route.client == "openai_chat" else providers.get(route.client)
    if upstream is not None and upstream.package == provider.package and upstream.name != provider.name:
        return upstream
    return provider
