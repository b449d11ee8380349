"""The paths of the gateway, by the wire of the client and the action.

A path is split once, and what is left of it without its base URL and its model is looked up in one table, because this
is done before a key is checked. Some clients append the version to the base URL that a user gives, others expect it
there, so a version too many or too few is accepted. Pure: it must not depend on ASGI.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from streamkit import providers
from streamkit.providers.provider import Provider

__all__ = ["CLIENTS", "TOO_LONG", "Action", "Route", "client_provider", "find_mounted_route", "find_route"]

Action: TypeAlias = Literal[
    "respond",
    "count_tokens",
    "embed",
    "list_models",
    "show_model",
    "version",
    "health",
    "operation",
    "unknown",
    "too_long",
]

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

#: A segment of a base URL as users give it: a version, or Ollama's ``/api``.
_BASE = re.compile(r"v\d\w*|api")


@dataclass(frozen=True, slots=True)
class Route:
    """The client's wire and the action of one request.

    Attributes:
        client: the name of the provider whose wire the client speaks.
        action: ``respond``: a response of a model; ``count_tokens``: of the input; ``embed``: embeddings of texts;
            ``list_models``; ``show_model``, ``version``: of Ollama; ``health``: ``HEAD /``; ``operation``: of the
            gateway itself, without a wire; ``unknown``: no such path; ``too_long``: a path that is not looked up.
        methods: the methods that the path accepts.
        model: the model, where the path has it.
        stream: whether the path asks for a stream; None if the body says it.
        as_array: a stream is one JSON array (Gemini without ``alt=sse``).
        path_end: how the upstream's path of a request that is passed on as it is ends; ``""`` for others.
        dialect: the name of the provider whose dialect of the wire the client reads; None for that of the wire.
    """

    client: str
    action: Action
    methods: tuple[str, ...] = ("POST",)
    model: str | None = None
    stream: bool | None = None
    as_array: bool = False
    path_end: str = ""
    dialect: str | None = None


#: The route of a path that is not looked up, because it is too long.
TOO_LONG = Route("openai_chat", "too_long")
_READ = ("GET", "HEAD")
_OPERATION = ("/health", "/ready", "/metrics")
#: The routes by the key of a path (``_split``). The paths of Anthropic and OpenAI may have any base URL: their SDKs add
#: the version to it, while DSPy and the AI SDK expect it there.
_ROUTES = {
    "messages": Route("anthropic", "respond"),
    "messages/count_tokens": Route("anthropic", "count_tokens", path_end="/count_tokens"),
    "responses": Route("openai_responses", "respond"),
    "responses/input_tokens": Route("openai_responses", "count_tokens", path_end="/input_tokens"),
    "chat/completions": Route("openai_chat", "respond"),
    "embeddings": Route("openai_chat", "embed", path_end="/embeddings"),
    "models/*:generateContent": Route("gemini", "respond", stream=False),
    "models/*:streamGenerateContent": Route("gemini", "respond", stream=True),
    "models/*:countTokens": Route("gemini", "count_tokens", path_end=":countTokens"),
    "models/*:embedContent": Route("gemini", "embed", path_end=":embedContent"),
    "models/*:batchEmbedContents": Route("gemini", "embed", path_end=":batchEmbedContents"),
    "model/*/converse": Route("bedrock_converse", "respond", stream=False),
    "model/*/converse-stream": Route("bedrock_converse", "respond", stream=True),
    "model/*/invoke": Route("bedrock_invoke", "respond", stream=False),
    "model/*/invoke-with-response-stream": Route("bedrock_invoke", "respond", stream=True),
    "api/chat": Route("ollama", "respond"),  # ``/chat`` without a version may be Ollama's or Cohere's
    "api/embed": Route("ollama", "embed", path_end="/api/embed"),
    "v2/chat": Route("cohere", "respond"),
    "v2/embed": Route("cohere", "embed", path_end="/v2/embed"),
    "api/tags": Route("ollama", "list_models", _READ),
    "api/show": Route("ollama", "show_model"),
    "api/version": Route("ollama", "version", _READ),
    "v1/models": Route("openai_chat", "list_models", _READ),
    "v1beta/models": Route("gemini", "list_models", _READ),
}
#: The wire of an error for a path that is none of these, by its key.
_WIRES = {
    "messages/": "anthropic",
    "responses/": "openai_responses",
    "model/": "bedrock_converse",
    "api/": "ollama",
    "v2/": "cohere",
    "v1beta/": "gemini",
}
#: The routes of the paths that most clients ask.
_USUAL = {
    f"{base}/{key}": route
    for key, route in _ROUTES.items()
    for base in ("", "/v1")
    if route.action == "respond" and "*" not in key
}


def find_route(path: str, query: Mapping[str, str], headers: Mapping[str, str]) -> Route:
    """Return the route of a request.

    Args:
        path: the path, percent-decoded: gemini-cli sends its colon as ``%3A``.
        query: the query's parameters.
        headers: the request's headers, with names in lower case.
    """
    if (route := _USUAL.get(path)) is None:
        client = "anthropic" if "anthropic-version" in headers else "openai_chat"
        if path in _OPERATION:
            return Route(client, "operation", _READ)
        if path in ("", "/"):
            return Route(client, "health", _READ)
        key, model = _split(path.removeprefix("/").split("/"))
        if (found := _ROUTES.get(key)) is None:
            return Route(_WIRES.get(key, client), "unknown")
        if key == "v1/models":  # four wires have the same path: https://docs.cohere.com/reference/list-models
            named = {"x-goog-api-key": "gemini", "x-goog-api-client": "gemini", "x-fern-sdk-name": "cohere"}
            client = next((named[name] for name in headers if name in named), client)
            return replace(found, client=client, model=model)
        answers_arrays = found.stream is not None and providers.get(found.client).traits.endpoint.answers_arrays
        route = replace(found, model=model, as_array=answers_arrays and query.get("alt") != "sse")
    if route.client == "openai_chat" and (agent := headers.get("user-agent")) is not None:
        for name, pattern in _DIALECTS.items():
            if pattern.match(agent) is not None:
                return replace(route, dialect=name)
    return route


def _split(segments: Sequence[str]) -> tuple[str, str | None]:
    """Return the key of a path, and the model that is in it.

    The key of a path that is not served has a slash at its end, after its first segment, or after its last version.
    """
    *_, before, last = "", *segments
    if (key := f"{before}/{last}") in _ROUTES or (key := last) in _ROUTES:
        if key.startswith("messages") and "threads" in segments[:-1]:
            return "", None  # OpenAI has other messages
        is_azure = key in ("chat/completions", "embeddings") and segments[-5:-3] == ["openai", "deployments"]
        return key, segments[-3] if is_azure else None
    named, _, verb = last.rpartition(":")
    version = next((at for at, each in enumerate(segments) if _BASE.fullmatch(each)), 0)
    if (key := f"models/*:{verb}") in _ROUTES and "models" in segments[version:-1]:
        # The name of a model may contain slashes and colons: "accounts/fireworks/models/qwen3:8b".
        others = segments[segments.index("models", version) + 1 : -1]
        model = "/".join([*others[others[:1] == ["models"] :], named])
        return key, model or None
    start = next((at for at, each in enumerate(segments[:-1]) if not _BASE.fullmatch(each)), len(segments) - 1)
    base = segments[start - 1] if start else ""
    base = "v1beta" if base.startswith(("v1alpha", "v1beta")) else base
    first, *others = segments[start:]
    model = "/".join(others)
    if first == "model" and any(others[:-1]):  # the name of a model of Bedrock may contain slashes
        return f"model/*/{last}", model.removesuffix(f"/{last}")
    if first == "models" and base == "v1beta":
        return "v1beta/models", model or None
    if first == "models" and base in ("", "v1"):
        return "v1/models", model or None
    return f"{first if f'{first}/' in _WIRES else base}/", None


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
    if not mounted_at and path in _USUAL:
        return path, find_route(path, query, headers)
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


def client_provider(route: Route, upstream: Provider | None = None) -> Provider:
    """Return the provider that defines the form of a client's request and its response.

    A client of the upstream's own wire is read in the upstream's dialect, so that fields that only this dialect has
    arrive there, unless the client is known to read another one alone.
    """
    if route.dialect is not None:
        return providers.get(route.dialect)
    provider = _CHAT if route.client == "openai_chat" else providers.get(route.client)
    if upstream is not None and upstream.package == provider.package and upstream.name != provider.name:
        return upstream
    return provider
