"""``Service``: the service of one request, from its headers to the end of its response.

One task serves a request. Another one sends heartbeats until the client disconnects; then it cancels the first one, and
so closes the upstream's response.

``GatewayLimits``: limits of the requests of clients.
"""

from __future__ import annotations

import hmac
import logging
import traceback
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from streamkit.calls import ErrorCode, StreamError
from streamkit.errors import UsageError
from streamkit.gateway import replies
from streamkit.gateway.attempt import Attempt
from streamkit.gateway.bodies import BodyRefused, read_json
from streamkit.gateway.client_stream import ClientStream
from streamkit.gateway.observer import Exchange, Observer
from streamkit.gateway.replies import is_from_another_site
from streamkit.gateway.routes import Route, client_provider
from streamkit.gateway.stored_responses import ReferenceNotFound, StoredResponses
from streamkit.gateway.token_counts import can_count, count_tokens
from streamkit.gateway.upstream import ANY_MODEL, Upstream, is_header_value, limit_headers
from streamkit.gateway.watched_service import run_watched
from streamkit.providers.writing.encoding import CONTENT_TYPES
from streamkit.reading.source_failure import is_io_failure
from streamkit.reading.time_limits import check_seconds
from streamkit.values.redaction import redact

__all__ = [
    "NO_WEBSOCKETS",
    "WITHOUT_UPGRADE",
    "GatewayLimits",
    "GatewayState",
    "Service",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLimits:
    """Limits of the requests of clients.

    Attributes:
        body: bytes of a request's body; a longer one is refused with status 413.
        requests: responses that are open at the same time; further requests are refused as overloaded (status 503).
        stored: bytes of the latest responses of Responses clients, to which their later requests may refer.
        silence: seconds without anything to send after which a streamed response gets a heartbeat of the client's
            wire; None for no heartbeats.

    Raises:
        UsageError: the number of seconds is not above 0.
    """

    body: int = 64 * 1024 * 1024
    requests: int = 1000
    stored: int = 64 * 1024 * 1024
    silence: float | None = 15.0

    def __post_init__(self) -> None:
        check_seconds("silence", self.silence)


_log = logging.getLogger("streamkit.gateway")
_BEARER = "bearer "
#: The headers and the parameter of the query in which clients send a key.
_KEY_HEADERS = ("x-api-key", "x-goog-api-key", "api-key")
_KEY_PARAMETER = "key"
#: Codex opens a WebSocket first. It asks by HTTP at once after 426 alone; any other status it repeats for seconds, and
#: shows each as an error (openai/codex#43353, ranxianglei/billion-context#169).
NO_WEBSOCKETS = "this gateway serves no WebSockets: ask it by HTTP"
WITHOUT_UPGRADE = {"upgrade": "HTTP/1.1", "connection": "upgrade"}  # RFC 9110, section 15.5.22
_NO_FALLBACK = ("invalid_request", "content_policy")  # another upstream gets the same request


@dataclass(slots=True)
class GatewayState:
    """What all requests of a gateway share.

    Attributes:
        upstreams: where requests are sent, in order.
        key: the key that clients must send; None if none is needed.
        limits: limits of the requests of clients.
        observer: looks at each request and response while they pass; None if nobody does.
        stored: the latest responses of clients of the Responses wire.
        open_requests: the number of responses that have not ended.
    """

    upstreams: Sequence[Upstream]
    key: str | None
    limits: GatewayLimits
    observer: Observer | None
    stored: StoredResponses
    open_requests: int = 0

    @property
    def models(self) -> list[str]:
        """The names of models that clients can list."""
        names: dict[str, None] = {}
        for upstream in self.upstreams:
            for name, model in upstream.models.items():
                names[model if name == ANY_MODEL else name] = None
        return list(names)

    def accepts_key(self, request: Request) -> bool:
        """Return whether a request has the required key."""
        if self.key is None:
            return True
        given = [request.headers.get(name) for name in _KEY_HEADERS] + [request.query_params.get(_KEY_PARAMETER)]
        authorization = request.headers.get("authorization", "")
        if authorization[: len(_BEARER)].lower() == _BEARER:
            given.append(authorization[len(_BEARER) :].strip())
        expected = self.key.encode()
        return any(hmac.compare_digest(value.encode(), expected) for value in given if value)

    def clean(self, text: str) -> str:
        """Return a text without the secrets of the upstreams and without the required key."""
        for upstream in self.upstreams:
            text = upstream.clean(text)
        return redact(text.replace(self.key, "***") if self.key else text)


class Service:
    """The service of one request."""

    def __init__(
        self,
        gateway: GatewayState,
        scope: Scope,
        receive: Receive,
        send: Send,
        route: Route,
        headers: Mapping[str, str],
        exchange: Exchange,
    ) -> None:
        self._gateway = gateway
        self._scope = scope
        self._receive = receive
        self._route = route
        self._headers = headers
        self._exchange = exchange
        self._send = send
        self._client = client_provider(route)
        self._stream = ClientStream(send)
        self._attempt: Attempt | None = None
        self._is_counted = False  # as an open response
        self._stored = gateway.stored if route.client == "openai_responses" else None

    async def run(self) -> None:
        """Respond, and stop when the client disconnects."""
        reply = self._reply_without_body()
        if reply is not None:
            await self._reply(reply)
            return
        try:
            body = await read_json(self._receive, self._headers, self._gateway.limits.body)
        except ClientDisconnect:
            self._exchange.disconnected = True
            return
        except BodyRefused as problem:
            await self._reply(self._refuse(problem.status, str(problem), problem.headers))
            return
        if self._route.action == "count_tokens":
            service = self._count_tokens(body)
        elif (refused := replies.thread_refusal(self._client, body)) is not None:
            self._exchange.error = replies.NO_THREADS
            service = self._reply(refused)
        else:
            service = self._respond(body)
        await run_watched(service, self._watch_client)

    def _reply_without_body(self) -> Response | None:
        gateway, route, method = self._gateway, self._route, self._exchange.method
        if gateway.key is not None and not gateway.accepts_key(Request(self._scope)):
            return self._refuse(401, "the key is missing or is not the key of this gateway")
        if route.action == "unknown":
            return self._refuse(404, replies.unknown_path(self._client, method, self._exchange.path))
        allowed = ", ".join(route.methods)
        if method == "OPTIONS":  # without the headers of CORS: a page of another site must not use this gateway
            return Response(status_code=204, headers={"allow": allowed})
        if method not in route.methods:
            if self._headers.get("upgrade", "").lower() == "websocket":
                return self._refuse(426, NO_WEBSOCKETS, WITHOUT_UPGRADE)
            return self._refuse(405, f"{self._exchange.path} takes {allowed}, not {method}", {"allow": allowed})
        if method == "POST" and gateway.key is None and is_from_another_site(self._headers):
            return self._refuse(403, "a web page of another site cannot use this gateway")
        if route.action == "health":
            return Response(status_code=200)
        if route.action == "list_models":
            found = replies.models_reply(route.client, gateway.models, route.model)
            return found or self._refuse(404, f"this gateway lists no model {route.model!r}", code="not_found")
        if route.action == "count_tokens" and not any(can_count(each, route.client) for each in gateway.upstreams):
            return self._refuse(404, "no upstream of this gateway counts tokens of this wire: ask the provider")
        if gateway.open_requests >= gateway.limits.requests:
            return self._refuse(503, "this gateway serves as many requests as it may", {"retry-after": "1"})
        return None

    def _refuse(
        self, status: int, message: str, headers: Mapping[str, str] | None = None, code: ErrorCode | None = None
    ) -> Response:
        self._exchange.error = self._gateway.clean(message)
        return replies.refusal(self._client, status, message, headers, code)

    async def _count_tokens(self, body: Any) -> None:
        """Send the count of the first upstream that gives one."""
        try:
            count = await count_tokens(self._gateway.upstreams, self._route, body, self._headers)
        except UsageError as problem:
            await self._fail(400, str(problem), problem)
        except Exception as problem:
            await self._fail_internally(problem)
        else:
            exchange = self._exchange
            exchange.upstream, exchange.provider, exchange.upstream_model = count.upstream, count.provider, count.model
            if count.error is not None:
                exchange.error = self._gateway.clean(count.error)
            if count.body is None:
                await self._reply(replies.refusal(self._client, count.status, exchange.error or "", count.headers))
            else:
                await self._reply(Response(count.body, count.status, count.headers, media_type="application/json"))

    async def _watch_client(self) -> bool:
        """Return True when the client disconnects, False if the response has ended before."""
        if self._attempt is not None:
            self._attempt.prepare()
        silence = self._gateway.limits.silence
        try:
            await self._stream.wait_for_disconnect(self._receive, silence, self._describe_heartbeat)
        except OSError:  # a heartbeat could not be sent
            self._exchange.disconnected = True
        else:
            self._exchange.disconnected = not self._stream.has_ended  # a server reports the end of a response, too
        return self._exchange.disconnected

    async def _respond(self, body: Any) -> None:
        """Send the response of the first upstream that gives one."""
        self._gateway.open_requests += 1
        self._is_counted = True
        failures: list[str] = []
        self._exchange.failures = failures
        try:
            if self._stored is not None:
                body = self._stored.resolve(body)
            for position, upstream in enumerate(self._gateway.upstreams, 1):
                attempt = self._new_attempt(position, upstream, body)
                is_last = position == len(self._gateway.upstreams)
                error = await self._send_response(attempt, is_last)
                if error is None:
                    break
                if is_last or error.code in _NO_FALLBACK:
                    await self._send_failure(attempt, error)
                    break
                failures.append(self._gateway.clean(f"{attempt.target.name}: {replies.error_sentence(error)}"))
        except ReferenceNotFound as problem:
            await self._fail(404, str(problem), problem)
        except UsageError as problem:
            if self._attempt is not None and problem is self._attempt.defect:
                await self._fail_internally(problem)
            else:
                await self._fail(400, str(problem), problem)
        except OSError:  # only what is sent to the client raises it here
            self._exchange.disconnected = True
        except anyio.get_cancelled_exc_class():
            if not self._exchange.disconnected:
                self._exchange.error = "the server canceled the request before the end of the response"
            raise
        except Exception as problem:
            if not (self._exchange.disconnected and is_io_failure(problem)):  # at closing a response that was canceled
                await self._fail_internally(problem)
        finally:
            self._release()
            if self._attempt is not None:
                self._describe(self._attempt)

    def _new_attempt(self, position: int, upstream: Upstream, body: Any) -> Attempt:
        self._attempt = attempt = Attempt(upstream, self._route, body, self._headers, self._stored)
        if self._gateway.observer is not None:
            attempt.watch = partial(self._gateway.observer.watch, self._exchange, upstream)
        self._client = attempt.client
        self._exchange.upstream = position
        self._exchange.provider = attempt.target.name
        self._exchange.model = attempt.request.settings.model
        self._exchange.upstream_model = attempt.model
        return attempt

    async def _send_response(self, attempt: Attempt, is_last: bool) -> StreamError | None:
        """Send an upstream's response; return its error if nothing of it was sent."""
        has_begun = False
        async with aclosing(attempt.parts(waits_for_content=not is_last)) as parts:
            async for part in parts:
                if not has_begun:
                    has_begun = True
                    await self._stream.start(self._response_headers(attempt))
                if attempt.has_ended:
                    await self._stream.end(part)
                    self._release()
                else:
                    await self._stream.write(part)
        return None if has_begun else attempt.error

    def _release(self) -> None:
        """Count the response as ended: the upstream's connection may still be read, which holds up no other request."""
        if self._is_counted:
            self._is_counted = False
            self._gateway.open_requests -= 1

    async def _send_failure(self, attempt: Attempt, error: StreamError) -> None:
        """Send the error of an upstream: as a status, or as an event if heartbeats were sent."""
        if await self._stream.cancel():
            await self._reply(replies.failed_reply(attempt, error, self._upstream_headers(attempt)))
        else:
            await self._stream.end(replies.failed_event(attempt, error))

    def _describe_heartbeat(self) -> tuple[Mapping[str, str], bytes]:
        """Return the headers of the response and the heartbeat of the client's wire, ``b""`` if it has none."""
        if (attempt := self._attempt) is None or not attempt.request.stream or attempt.writer.traits.framing != "sse":
            return {}, b""
        return self._response_headers(attempt), attempt.writer.traits.heartbeat

    def _response_headers(self, attempt: Attempt) -> dict[str, str]:
        self._exchange.status = 200
        framing = attempt.writer.traits.framing if attempt.request.stream else "json_array"
        return {"content-type": CONTENT_TYPES[framing], "cache-control": "no-cache", **self._upstream_headers(attempt)}

    def _upstream_headers(self, attempt: Attempt) -> dict[str, str]:
        """Return the headers about the upstream: its rate limits and the id, else one of the gateway."""
        given = attempt.response_headers
        value = given.get(attempt.target.traits.endpoint.request_id_header)
        if value is not None and is_header_value(value):
            self._exchange.request_id = value
        limits = limit_headers(attempt.client, attempt.target, given)
        return {**limits, attempt.client.traits.endpoint.request_id_header: self._exchange.request_id}

    async def _fail_internally(self, problem: Exception) -> None:
        """Log a defect of the gateway and report it."""
        _log.error("%s", self._gateway.clean("".join(traceback.format_exception(problem))))
        await self._fail(500, f"this gateway failed: {type(problem).__name__}", problem)

    async def _fail(self, status: int, message: str, problem: Exception) -> None:
        """Report an error of the gateway or of the client's request; within a stream, as the wire reports it."""
        self._exchange.error = self._gateway.clean(f"{type(problem).__name__}: {problem}")
        message = self._gateway.clean(message)
        if await self._stream.cancel():
            await self._reply(replies.refusal(self._client, status, message))
        else:
            await self._stream.end(self._client.error_event(status, message))

    async def _reply(self, response: Response) -> None:
        response.headers.setdefault(self._client.traits.endpoint.request_id_header, self._exchange.request_id)
        self._exchange.status = response.status_code
        self._stream.has_ended = True
        if self._exchange.method == "HEAD":
            response.body = b""  # beside its length; over HTTP/2 granian sends a body, which breaks the connection
        await response(self._scope, self._receive, self._send)

    def _describe(self, attempt: Attempt) -> None:
        """Record the end of a response."""
        exchange = self._exchange
        exchange.changes = list(attempt.changes)
        if not attempt.is_prepared:  # it was left before there was a response, or nothing could be made of one
            return
        turn = attempt.turn
        exchange.calls = len(turn.calls)
        exchange.usage = turn.usage
        exchange.changes += attempt.writer.omitted.values()
        error = attempt.error or turn.error
        if error is not None and exchange.error is None and not exchange.disconnected:
            exchange.error = self._gateway.clean(replies.error_sentence(error))
