"""``Gateway``: the ASGI application.

One task serves a request and one waits for the client to disconnect, which cancels the first and so closes the
upstream's response. Every send is awaited, so a client that reads slowly slows the reading of the upstream.
"""

from __future__ import annotations

import hmac
import logging
import secrets
import traceback
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from streamkit.bridges.gateway.attempt import ANY_MODEL, Attempt, Upstream
from streamkit.bridges.gateway.exchange import Exchange
from streamkit.bridges.gateway.observer import Observer
from streamkit.bridges.gateway.replies import failed_reply, models_reply, refusal, request_id_header
from streamkit.bridges.gateway.routes import Route, client_provider, find_route
from streamkit.calls import StreamError
from streamkit.errors import UsageError
from streamkit.providers.encoding import CONTENT_TYPES
from streamkit.redaction import redact

__all__ = ["Gateway", "GatewayLimits"]

_log = logging.getLogger("streamkit.gateway")

_BEARER = "bearer "
#: The headers and the parameter of the query in which clients send a key.
_KEY_HEADERS = ("x-api-key", "x-goog-api-key", "api-key")
_KEY_PARAMETER = "key"
_NO_FALLBACK = ("invalid_request", "content_policy")  # another upstream gets the same request


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLimits:
    """Limits of the requests of clients.

    Attributes:
        body: bytes of a request's body; a longer one is refused with status 413.
        requests: responses that are open at the same time; further requests are refused as overloaded (status 503).
    """

    body: int = 64 * 1024 * 1024
    requests: int = 1000


class Gateway:
    """The ASGI application.

    Args:
        upstreams: where requests are sent. If one fails before the first byte for the client, the next one is asked,
            unless the request itself is at fault.
        key: the key that clients must send, as their own provider's; None: none is needed.
        limits: limits of the requests of clients.
        report: called with each `Exchange` at its end.
        observer: looks at each request and response while they pass, such as a tap.

    Raises:
        UsageError: there is no upstream.
    """

    def __init__(
        self,
        *upstreams: Upstream,
        key: str | None = None,
        limits: GatewayLimits | None = None,
        report: Callable[[Exchange], None] | None = None,
        observer: Observer | None = None,
    ) -> None:
        if not upstreams:
            raise UsageError("a gateway needs an upstream: pass at least one Upstream")
        self._upstreams = upstreams
        self._key = key
        self._limits = limits or GatewayLimits()
        self._report = report
        self._observer = observer
        self._open_requests = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            raise UsageError(f"the gateway serves HTTP, not {scope['type']!r}")
        request = Request(scope, receive)
        headers = {name.lower(): value for name, value in request.headers.items()}
        path = str(scope["path"]).removeprefix(str(scope.get("root_path", "")))
        route = find_route(path, request.query_params, headers)
        exchange = Exchange(
            method=request.method, path=path, client=route.client, request_id=f"req_{secrets.token_hex(12)}"
        )
        started = anyio.current_time()
        try:
            await _Service(self, request, route, headers, exchange, send).run()
        finally:
            exchange.seconds = anyio.current_time() - started
            if self._observer is not None:
                self._observer.report(exchange)
            if self._report is not None:
                self._report(exchange)

    @property
    def models(self) -> list[str]:
        """The names of models that clients can list: those of the upstreams' ``models``."""
        names: dict[str, None] = {}
        for upstream in self._upstreams:
            for name, model in upstream.models.items():
                names[model if name == ANY_MODEL else name] = None
        return list(names)

    def accepts_key(self, request: Request) -> bool:
        """Return whether a request has the required key."""
        if self._key is None:
            return True
        given = [request.headers.get(name) for name in _KEY_HEADERS] + [request.query_params.get(_KEY_PARAMETER)]
        authorization = request.headers.get("authorization", "")
        if authorization[: len(_BEARER)].lower() == _BEARER:
            given.append(authorization[len(_BEARER) :].strip())
        expected = self._key.encode()
        return any(hmac.compare_digest(value.encode(), expected) for value in given if value)

    def clean(self, text: str) -> str:
        """Return a text without the secrets of the upstreams and without the required key."""
        for upstream in self._upstreams:
            text = upstream.clean(text)
        return redact(text.replace(self._key, "***") if self._key else text)


class _Service:
    """The service of one request."""

    def __init__(
        self,
        gateway: Gateway,
        request: Request,
        route: Route,
        headers: Mapping[str, str],
        exchange: Exchange,
        send: Send,
    ) -> None:
        self._gateway = gateway
        self._request = request
        self._route = route
        self._headers = headers
        self._exchange = exchange
        self._send = send
        self._client = client_provider(route.client)
        self._has_started = False
        self._has_ended = False

    async def run(self) -> None:
        """Respond, and stop when the client disconnects."""
        try:
            body = await self._read_body()
        except ClientDisconnect:
            self._exchange.disconnected = True
            return
        if isinstance(body, Response):
            await self._reply(body)
            return
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch_client, tasks.cancel_scope)
            await self._respond(body)
            tasks.cancel_scope.cancel()

    async def _read_body(self) -> Any:
        """Return the decoded body, or the response if the request is answered without one."""
        reply = self._reply_without_body()
        if reply is not None:
            return reply
        limit = self._gateway._limits.body
        too_large = f"the body has more than {limit} bytes, the limit of this gateway"
        length = self._headers.get("content-length", "")
        if length.isdecimal() and int(length) > limit:
            return refusal(self._client, 413, too_large)
        data = bytearray()
        async for part in self._request.stream():
            data += part
            if len(data) > limit:
                return refusal(self._client, 413, too_large)
        try:
            return msgspec.json.decode(data)
        except (ValueError, RecursionError) as error:
            return refusal(self._client, 400, f"the body is not JSON: {error}")

    def _reply_without_body(self) -> Response | None:
        route, method, client = self._route, self._request.method, self._client
        if not self._gateway.accepts_key(self._request):
            return refusal(client, 401, "the key is missing or is not the key of this gateway")
        if route.action == "unknown":
            return refusal(client, 404, f"this gateway has no path {self._exchange.path!r}")
        if method not in route.methods:
            allowed = ", ".join(route.methods)
            return refusal(client, 405, f"{self._exchange.path} takes {allowed}, not {method}", {"allow": allowed})
        if route.action == "health":
            return Response(status_code=200)
        if route.action == "list_models":
            found = models_reply(route.client, self._gateway.models, route.model)
            return found or refusal(client, 404, f"this gateway lists no model {route.model!r}")
        if route.action == "count_tokens":
            return refusal(client, 404, "this gateway does not count tokens: estimate them, or ask the provider")
        if self._gateway._open_requests >= self._gateway._limits.requests:
            return refusal(client, 503, "this gateway serves as many requests as it may", {"retry-after": "1"})
        return None

    async def _watch_client(self, scope: anyio.CancelScope) -> None:
        """Cancel the service when the client disconnects."""
        while (await self._request.receive())["type"] != "http.disconnect":
            pass
        if not self._has_ended:  # after a complete response, servers report the same
            self._exchange.disconnected = True
            scope.cancel()

    async def _send_message(self, message: Message) -> None:
        """Send a part of the response."""
        self._has_ended = message["type"] == "http.response.body" and not message.get("more_body", False)
        await self._send(message)

    async def _respond(self, body: Any) -> None:
        """Send the response of the first upstream that gives one."""
        self._gateway._open_requests += 1
        attempt: Attempt | None = None
        try:
            for position, upstream in enumerate(self._gateway._upstreams, 1):
                attempt = self._new_attempt(upstream, body)
                error = await self._send_response(attempt)
                is_last = position == len(self._gateway._upstreams)
                if error is None:
                    break
                if is_last or error.code in _NO_FALLBACK:
                    await self._reply(failed_reply(attempt, error, self._id_header(attempt)))
                    break
        except UsageError as problem:
            await self._fail(400, str(problem), problem)
        except Exception as problem:
            _log.error("%s", self._gateway.clean(traceback.format_exc()))
            await self._fail(500, f"this gateway failed: {type(problem).__name__}", problem)
        finally:
            self._gateway._open_requests -= 1
            if attempt is not None:
                self._describe(attempt)

    def _new_attempt(self, upstream: Upstream, body: Any) -> Attempt:
        attempt = Attempt(upstream, self._route, body, self._headers)
        if self._gateway._observer is not None:
            attempt.watch = partial(self._gateway._observer.watch, self._exchange, upstream)
        self._client = attempt.client
        self._exchange.provider = attempt.turn.provider.name
        self._exchange.model = attempt.request.settings.model
        self._exchange.upstream_model = attempt.model
        return attempt

    async def _send_response(self, attempt: Attempt) -> StreamError | None:
        """Send an upstream's response; return its error if nothing was sent."""
        async with aclosing(attempt.parts()) as parts:
            async for part in parts:
                if not self._has_started:
                    await self._start(attempt)
                await self._send_message({"type": "http.response.body", "body": part, "more_body": True})
        if not self._has_started:
            return attempt.error
        await self._send_message({"type": "http.response.body", "body": b"", "more_body": False})
        return None

    async def _start(self, attempt: Attempt) -> None:
        framing = attempt.writer.traits.framing if attempt.request.stream else "json_array"
        headers = {
            "content-type": CONTENT_TYPES[framing],
            "cache-control": "no-cache",
            **self._id_header(attempt),
        }
        self._has_started = True
        self._exchange.status = 200
        raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        await self._send_message({"type": "http.response.start", "status": 200, "headers": raw})

    def _id_header(self, attempt: Attempt) -> dict[str, str]:
        """Return the header with the id: that of the upstream's response, else one of the gateway."""
        for name in ("request-id", "x-request-id"):
            value = attempt.response_headers.get(name)
            if isinstance(value, str) and value.isascii() and value.isprintable() and value:
                self._exchange.request_id = value
        return {request_id_header(attempt.client): self._exchange.request_id}

    async def _fail(self, status: int, message: str, problem: Exception) -> None:
        """Report an error of the gateway or of the client's request; within a stream, as the wire reports it."""
        self._exchange.error = self._gateway.clean(f"{type(problem).__name__}: {problem}")
        message = self._gateway.clean(message)
        if not self._has_started:
            await self._reply(refusal(self._client, status, message))
            return
        frame = self._client.error_event(status, message)
        await self._send_message({"type": "http.response.body", "body": frame, "more_body": False})

    async def _reply(self, response: Response) -> None:
        response.headers.setdefault(request_id_header(self._client), self._exchange.request_id)
        self._has_started = True
        self._exchange.status = response.status_code
        await response(self._request.scope, self._request.receive, self._send_message)

    def _describe(self, attempt: Attempt) -> None:
        """Record the end of a response."""
        turn, exchange = attempt.turn, self._exchange
        exchange.calls = len(turn.calls)
        exchange.usage = turn.usage
        exchange.changes = [*attempt.changes, *attempt.writer.omitted.values()]
        error = attempt.error or turn.error
        if error is not None and exchange.error is None and not exchange.disconnected:
            exchange.error = self._gateway.clean(f"{error.code or error.kind}: {error.message}")
