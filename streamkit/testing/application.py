"""The application of the embedded server: each request gets the next turn of the script, on the wire of its provider.

What the real provider would reject gets its error body. The script and the frames of its replies are in ``script``; the
endpoint of a provider decides what a request asks for, and the form of ids. It is an ASGI application: this module must
not depend on the HTTP server that runs it, nor on a particular provider.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.client import responses as PHRASES  # noqa: N812 - a table of constants, and starlette has responses too
from typing import Any, Literal

import msgspec
from starlette import requests, responses, types

from streamkit import providers
from streamkit.calls import Usage
from streamkit.errors import UnknownProvider
from streamkit.providers.contract.traits import Endpoint
from streamkit.providers.provider import Provider
from streamkit.providers.requests.body_fields import asks_for_usage
from streamkit.providers.writing.encoding import CONTENT_TYPES, encode_json
from streamkit.providers.writing.model_lists import describe_models
from streamkit.testing.rendering import Step, StreamRenderer, split_reads, to_json_array
from streamkit.testing.rules.validation import validate_request
from streamkit.testing.script import RawBytes, Recorded, Reply, Request, Script, ScriptPlayer, Stall, Status

__all__ = [
    "SCRIPTED_MODEL",
    "ParsedRequest",
    "ScriptedApplication",
    "find_other_response",
    "has_key",
    "make_call_id",
    "make_response_id",
    "parse_http_request",
    "reported_usage",
]

#: The name of the model where neither the request nor ``serve`` has one.
SCRIPTED_MODEL = "scripted"
_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """What a request asks for."""

    model: str  #: the model
    stream: bool = True  #: the response is to be streamed
    as_array: bool = False  #: a stream is to be one JSON array instead of events (Gemini without ``alt=sse``)


def parse_http_request(
    endpoint: Endpoint, method: str, path: str, query: Mapping[str, str], body: Any
) -> ParsedRequest | Status:
    """Return what a request asks for, or the status with which it is refused; the path is that after the prefix."""
    match = re.fullmatch(endpoint.route, path)
    if match is None or method != "POST":
        return Status(404, f"this wire is asked by POST {endpoint.route_example}, not by {method} {path}")
    if not isinstance(body, dict):
        return Status(400, "the body of the request is no JSON object")
    groups = match.groupdict()
    verb = groups.get("verb")
    stream = "stream" in verb if verb else body.get("stream")
    if stream is None:
        stream = endpoint.streams_by_default
    if not isinstance(stream, bool):
        return Status(400, f"stream is {stream!r}, not true or false")
    return ParsedRequest(
        model=str(body.get("model") or groups.get("model") or SCRIPTED_MODEL),
        stream=stream,
        as_array=stream and endpoint.answers_arrays and query.get("alt") != "sse",
    )


def find_other_response(
    endpoint: Endpoint, method: str, path: str, body: Any, models: Sequence[str]
) -> dict[str, Any] | Status | None:
    """Return the response to a request for models, a count of tokens or embeddings, None if it is for none of them."""
    if method == "GET" and endpoint.models_path is not None:
        list_path = _path_pattern(endpoint.models_path.partition("?")[0])
        if (match := re.fullmatch(f"{list_path}(?:/(?P<model>.+))?/?", path)) is not None:
            wanted = match["model"]
            return describe_models(endpoint, models, wanted) or Status(404, f"there is no model {wanted!r}")
    for further, count in endpoint.further_paths.items() if method == "POST" else ():
        if re.fullmatch(_path_pattern(further).replace(r"\{model\}", ".+"), path) is None:
            continue
        if count is None:
            return Status(404, "this server embeds nothing: its script has the replies of a model")
        if not isinstance(body, dict):
            return Status(400, "the body of the request is no JSON object")
        return {name: _estimate_tokens(body) if value == 0 else value for name, value in count.items()}
    return None


def _path_pattern(path: str) -> str:
    """Return a regular expression of a path after any base URL, with any version, which SDKs choose."""
    return "(?:/.+)?" + re.sub(r"^/v\d\w*/", r"/v\\d\\w*/", re.escape(path))


def has_key(headers: Mapping[str, str], query: Mapping[str, str], endpoint: Endpoint, key: str) -> bool:
    """Return True if a request has a key as the clients of a wire send it; *headers* have names in lower case."""
    name, form = endpoint.key_header
    authorization = headers.get("authorization", "")
    # Further forms: a token of OAuth, Google's parameter, and the key whose secret signs a request to Amazon.
    return (
        headers.get(name) == form.format(key)
        or authorization == f"Bearer {key}"
        or query.get("key") == key
        or authorization.startswith(f"AWS4-HMAC-SHA256 Credential={key}/")
    )


def _estimate_tokens(body: Any) -> int:
    """Return the tokens of a request: about four characters are one, so that tests see figures."""
    return len(encode_json(body)) // 4 + 1


def reported_usage(provider: Provider, body: Any, reply: Reply, *, stream: bool = True) -> Usage | None:
    """Return the tokens that a response reports; None if a stream reports them only when asked, and is not asked.

    If the reply states no usage, about four characters are one token, so that tests see figures.
    """
    if stream and provider.traits.stream_usage and not asks_for_usage(body):
        return None
    size = sum(len(str(item)) for item in reply.items)
    return reply.usage or Usage(input_tokens=_estimate_tokens(body), output_tokens=size // 4 + 1)


def make_response_id(endpoint: Endpoint, seed: str) -> str:
    """Return the id of a response; the same seed gives the same id."""
    return _make_id(endpoint.response_id, f"response|{seed}")


def make_call_id(endpoint: Endpoint, seed: str) -> str | None:
    """Return the id of a call, None if the wire gives its calls none."""
    return None if endpoint.call_id is None else _make_id(endpoint.call_id, f"call|{seed}")


def _make_id(shape: tuple[str, int], seed: str) -> str:
    prefix, length = shape
    number = int.from_bytes(hashlib.sha256(seed.encode()).digest())
    digits = []
    for _ in range(length):
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return prefix + "".join(digits)


class ScriptedApplication:
    """An ASGI application that responds with the turns of a script; its arguments are those of ``serve``.

    Args:
        disconnect: closes the connection of a request without ending its response.
    """

    def __init__(
        self,
        script: Script,
        *,
        delta_size: int,
        delay: float,
        read_size: int | None,
        strict: bool | Literal["conversation"],
        disconnect: Callable[[types.Scope], None],
        key: str | None = None,
        models: Sequence[str] | None = None,
    ) -> None:
        self.requests: list[Request] = []  # all requests, in the order in which they arrived
        self.third_party: dict[str, Provider] = {}  # the providers that are not registered, by name
        self.is_closing = False  # the server closes the connections, so that no client is recorded as disconnected
        self._player = ScriptPlayer(script)
        self.mismatches: list[str] = self._player.mismatches  # of requests with what the script expects
        self._delta_size, self._delay, self._read_size, self._strict = delta_size, delay, read_size, strict
        self._key, self._models = key, models
        self._disconnect = disconnect

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        """Record a request and respond to it."""
        incoming = requests.Request(scope, receive)
        try:
            body = await incoming.body()
        except requests.ClientDisconnect:
            return
        prefix, _, rest = incoming.url.path.removeprefix("/").partition("/")
        name, _, conversation = prefix.partition("@")
        provider = self._provider(name)
        request = Request(
            provider=provider.name if provider else None,
            conversation=conversation,
            method=incoming.method,
            path=incoming.url.path,
            query=dict(incoming.query_params),
            headers=dict(incoming.headers),
            json=_json(body),
        )
        self.requests.append(request)
        if provider is None:
            known = ", ".join(sorted({*providers.names(), *self.third_party}))
            rejection = Status(404, f"no provider is at {request.path}: the path must begin with one of {known}")
            await _reject_request(rejection, None, request)(scope, receive, send)
            return
        endpoint = provider.traits.endpoint
        if self._key is not None and not has_key(request.headers, request.query, endpoint, self._key):
            rejection = Status(401, "the key is missing or is not the key of this server")
            await _reject_request(rejection, provider, request)(scope, receive, send)
            return
        models = (SCRIPTED_MODEL,) if self._models is None else self._models
        other = find_other_response(endpoint, request.method, f"/{rest}", request.json, models)
        if isinstance(other, dict):
            request.status = 200
            await responses.JSONResponse(other)(scope, receive, send)
            return
        parsed = other or parse_http_request(endpoint, request.method, f"/{rest}", request.query, request.json)
        if isinstance(parsed, ParsedRequest) and self._models is not None and parsed.model not in self._models:
            names = provider.writer().error_rules.names()
            parsed = Status(404, f"there is no model {parsed.model!r}", code=names.get("not_found"))
        if isinstance(parsed, Status):
            await _reject_request(parsed, provider, request)(scope, receive, send)
            return
        complete = self._strict is True
        violations = (
            validate_request(provider, request.json, model=parsed.model, complete=complete) if self._strict else []
        )
        if violations:
            rejection = Status(violations[0].status, violations[0].message, code=violations[0].code)
            await _reject_request(rejection, provider, request)(scope, receive, send)
            return
        turn = await self._player.next_turn(request, provider)
        if isinstance(turn, Status):
            await _reject_request(turn, provider, request)(scope, receive, send)
            return
        if isinstance(turn, RawBytes):
            content_type = turn.content_type or CONTENT_TYPES[provider.traits.framing]
            await self._stream(
                list(split_reads([turn.data], self._read_size)), content_type, request, scope, receive, send
            )
            return
        framing = None if not parsed.stream else "json_array" if parsed.as_array else provider.traits.framing
        content_type = CONTENT_TYPES[framing or "json_array"]
        if isinstance(turn, Recorded):
            own = turn.own_steps(provider, framing)
            if own is not None:
                parts = list(split_reads(own, self._read_size))
                await self._stream(parts, content_type, request, scope, receive, send, turn.delay)
                return
            turn = turn.reply()
        seed = f"{provider.name}|{conversation}|{request.number}"
        renderer = StreamRenderer(
            provider,
            response_id=make_response_id(endpoint, seed),
            model=parsed.model,
            call_id=lambda index: make_call_id(endpoint, f"{seed}|{index}"),
            delta_size=turn.delta_size or self._delta_size,
            signature=provider.traits.sign_call(parsed.model, seed),
        )
        usage = reported_usage(provider, request.json, turn, stream=parsed.stream)
        try:
            steps: Iterable[Step] | Status
            steps = renderer.steps(turn, usage) if parsed.stream else renderer.whole_body(turn, usage)
        except Exception as error:
            # The client gets the message, and the server continues.
            message = f"{provider.name} cannot send this reply: {type(error).__name__}: {error}"
            await _reject_request(Status(500, message, retry=False), provider, request)(scope, receive, send)
            return
        if isinstance(steps, Status):
            await _reject_request(steps, provider, request)(scope, receive, send)
            return
        if parsed.as_array:
            steps = to_json_array(steps)
        parts = list(split_reads(steps, self._read_size))
        await self._stream(parts, content_type, request, scope, receive, send, turn.delay)

    def _provider(self, name: str) -> Provider | None:
        with suppress(UnknownProvider):
            return self.third_party.get(name) or providers.get(name)
        return None

    async def _stream(
        self,
        steps: list[Step],
        content_type: str,
        request: Request,
        scope: types.Scope,
        receive: types.Receive,
        send: types.Send,
        delay: float | None = None,
    ) -> None:
        request.status = 200
        headers = [(b"content-type", content_type.encode()), (b"cache-control", b"no-cache")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        disconnected = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            for remaining, step in zip(range(len(steps) - 1, -1, -1), steps, strict=True):
                pause = (self._delay if delay is None else delay) if remaining else 0.0
                if isinstance(step, bytes):
                    await send({"type": "http.response.body", "body": step, "more_body": True})
                elif isinstance(step, Stall):
                    pause = step.seconds
                else:
                    self._disconnect(scope)
                    await disconnected
                    return
                # Yield also without a pause, so that the loop can read the end of the connection.
                await asyncio.wait({disconnected}, timeout=pause) if pause else await asyncio.sleep(0)
                if disconnected.done():
                    # A client that received everything, with the wire's terminator, may close the connection.
                    request.disconnected = remaining > 0 and not self.is_closing
                    return
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            disconnected.cancel()


async def _wait_for_disconnect(receive: types.Receive) -> None:
    """Return when the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _reject_request(rejection: Status, provider: Provider | None, request: Request) -> responses.JSONResponse:
    """Return an error response in the provider's format."""
    request.status = rejection.status
    message = rejection.message or PHRASES.get(rejection.status, f"HTTP status {rejection.status}")
    body: dict[str, Any] = {"error": {"message": message}}
    headers = {}
    if provider is not None:
        body = provider.error_body(rejection.status, message, rejection.code)
        endpoint = provider.traits.endpoint
        name = rejection.code or endpoint.error_names.get(rejection.status)
        if endpoint.error_name_header is not None and name is not None:
            headers[endpoint.error_name_header] = name
    if rejection.retry_after is not None:
        headers["retry-after"] = f"{rejection.retry_after:g}"
    if not rejection.retry:
        headers["x-should-retry"] = "false"
    return responses.JSONResponse(body, rejection.status, headers)


def _json(body: bytes) -> Any:
    with suppress(RecursionError, ValueError):
        return msgspec.json.decode(body)
    return None
