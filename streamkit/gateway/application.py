"""``Gateway``, the ASGI application, and the service of a request: refusals, upstreams, its end.

``Service`` is one request, read from top to bottom: the replies that need no body, the body, the upstreams in order,
the first response that one gives, and what fails. One task serves a request. Another one sends heartbeats until the
client disconnects; then it cancels the first one, and so closes the upstream's response.
"""

from __future__ import annotations

import logging
import secrets
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from importlib import import_module
from os import PathLike
from time import monotonic
from typing import Any

import anyio
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from streamkit.calls import ErrorCode, StreamError
from streamkit.errors import UsageError
from streamkit.gateway import replies
from streamkit.gateway.access import Access, Authorize, Client
from streamkit.gateway.attempt import Attempt
from streamkit.gateway.bodies import LARGE, Bodies, Body, BodyRefused, GatewayLimits, run_in_thread
from streamkit.gateway.client import ClientStream, is_from_another_site, run_watched
from streamkit.gateway.gateway_state import GatewayState, Price
from streamkit.gateway.model_lists import OLLAMA_VERSION, ModelLists, describe_ollama_model
from streamkit.gateway.operation import Observe, Operation, find_cost, known_price, observe_exchange
from streamkit.gateway.passed_on import PASSED_ON, find_path, pass_on, refusal_sentence
from streamkit.gateway.routes import TOO_LONG, Route, client_provider, find_mounted_route
from streamkit.gateway.routing import Candidate, Cooldowns, ModelNotFound, Router
from streamkit.gateway.stores import open_store
from streamkit.gateway.stores.store import MemoryStore, OwnEntries, Store, StoreUnavailable
from streamkit.gateway.stores.stored_responses import ReferenceNotFound, ReferencesTooLarge, find_references
from streamkit.gateway.translation.state_text import StateSettings
from streamkit.gateway.upstream import Exchange, Observer, Upstream, current_exchange
from streamkit.providers.writing.model_lists import describe_models
from streamkit.providers.writing.writer import Writer
from streamkit.reading.source_failure import is_io_failure
from streamkit.values.request_changes import changes_meaning

__all__ = ["Gateway", "GatewayLimits"]

_log = logging.getLogger("streamkit.gateway")
#: Codex opens a WebSocket first. It asks by HTTP at once after 426 alone; any other status it repeats for seconds, and
#: shows each as an error (openai/codex#43353, ranxianglei/billion-context#169).
_NO_WEBSOCKETS = "this gateway serves no WebSockets: ask it by HTTP"
_WITHOUT_UPGRADE = {"upgrade": "HTTP/1.1", "connection": "upgrade"}  # RFC 9110, section 15.5.22
_MANY_ITEMS = 1000  # of stored responses, which are translated in a worker thread
_TOO_MANY = "this gateway serves as many requests as it may"
_STATUSES = {ModelNotFound: 404, ReferenceNotFound: 404, ReferencesTooLarge: 413, StoreUnavailable: 503}
_NO_FALLBACK = ("invalid_request", "content_policy")  # another upstream gets the same request


class Gateway:
    """The ASGI application.

    Args:
        upstreams: where requests are sent, by the models that they name. If one fails before its first event, the next
            one is asked, unless the request itself is at fault.
        key: the key that clients must send, as their own provider's; None: none is needed.
        limits: limits of the requests of clients.
        keys: the path of a TOML file with the keys that clients may send, and the models of each, in place of ``key``.
        authorize: returns whether a request may be sent to an upstream, or a `Refusal`; async or plain. If it fails the
            request is refused with status 503.
        observe: called with each `Exchange` after its end; async or plain. If it fails, that is logged.
        metrics: expose metrics for Prometheus at ``/metrics``, to everybody or to keys that may read them.
        price: returns the US dollars of a response, for ``Exchange.cost``, as `Budget.price`; with ``metrics`` the
            provider's report, else list prices by the extra ``prices``.
        observer: looks at each request and response while they pass, such as a tap.
        state_key: signs the opaque state that clients carry, at least 16 bytes; of several keys the first one signs,
            and all are accepted. All workers of a gateway need the same. Without one a key is made, which the ``store``
            keeps; without a store, a restart drops the state of open conversations.
        store: where the state of calls and the responses are kept that later requests refer to: a `Store`, the path of
            a SQLite file, ``postgresql://...`` or ``redis://...``. Several workers need one that they share. None for
            the memory of this process, up to ``limits.stored``.
        cooldowns: how long an upstream that has failed is not asked.
        strict: refuse a request, with status 400, whose meaning no upstream can have unchanged.

    Raises:
        UsageError: there is no upstream, or something else, or a key is too short; or see ``access.read_keys``.
    """

    def __init__(
        self,
        *upstreams: Upstream,
        key: str | None = None,
        limits: GatewayLimits | None = None,
        keys: str | PathLike[str] | None = None,
        authorize: Authorize | None = None,
        observe: Observe | None = None,
        metrics: bool = False,
        price: Price | None = None,
        observer: Observer | None = None,
        state_key: bytes | str | Sequence[bytes | str] | None = None,
        store: Store | str | PathLike[str] | None = None,
        cooldowns: Cooldowns | None = None,
        strict: bool = False,
    ) -> None:
        if not upstreams or not all(isinstance(upstream, Upstream) for upstream in upstreams):
            raise UsageError("a gateway needs an upstream: pass one Upstream or several, Gateway(first, second)")
        limits = limits or GatewayLimits()
        opened = MemoryStore(limits.stored) if store is None else open_store(store)
        if state_key is None and store is None:
            _log.warning(
                "the opaque state that clients carry is signed with a key made at this start: a restart, and another"
                " worker, drops it from open conversations; pass Gateway(state_key=...), or a store, which keeps one"
            )
        has_access = key is not None or keys is not None or authorize is not None
        access = Access(opened, key, keys, authorize) if has_access else None
        carried = StateSettings(secrets.token_bytes(32) if state_key is None else state_key, limits.state)
        self._state = GatewayState(
            *(upstreams, key, limits, access, observer, opened, carried, Bodies(limits), OwnEntries(opened, key)),
            router=Router(upstreams),
            lists=ModelLists(upstreams),
            cooldowns=cooldowns or Cooldowns(),
            has_state_key=state_key is not None or store is None,
            price=known_price if price is None and metrics else price,
            strict=strict,
        )
        self._observe = observe
        self._metrics = import_module("streamkit.gateway.metrics").Metrics(upstreams) if metrics else None
        self._operation = Operation(self._state, self._metrics)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "websocket":  # a server with WebSockets has recognized one; 426 if it can send a response
            if "websocket.http.response" in scope.get("extensions", {}):
                await Response(_NO_WEBSOCKETS, 426, _WITHOUT_UPGRADE, "text/plain")(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": 1000, "reason": ""})
            return
        if scope["type"] == "lifespan":
            await self._operation.serve_lifespan(receive, send, self.aclose)
            return
        if scope["type"] != "http":
            raise UsageError(f"the gateway serves HTTP, not {scope['type']!r}")
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        path, limits = str(scope["path"]), self._state.limits
        if len(path) > limits.path or len(scope["query_string"]) > 4 * limits.path:
            path, route = path[: limits.path], TOO_LONG
        else:
            query = QueryParams(scope["query_string"]) if scope["query_string"] else {}
            path, route = find_mounted_route(path, str(scope.get("root_path", "")), query, headers)
        if route.action == "operation":
            await (await self._operation.reply(scope, path))(scope, receive, send)
            return
        exchange = Exchange(
            method=scope["method"], path=path, client=route.client, request_id=f"req_{secrets.token_hex(12)}"
        )
        current_exchange.set(exchange)
        if self._metrics is not None:
            self._metrics.open.inc()
        try:
            await Service(self._state, scope, receive, send, route, headers, exchange).run()
        except OSError:
            # A send after the client has left may raise a subclass of it: https://github.com/django/asgiref/pull/431
            exchange.disconnected = True
        finally:
            exchange.seconds = monotonic() - exchange.began
            if self._metrics is not None:
                self._metrics.end(exchange)
            if self._state.observer is not None:
                self._state.observer.report(exchange)
            if self._observe is not None:
                await observe_exchange(self._observe, exchange)

    async def start(self) -> None:
        """Connect the store. Without this the first request does it.

        Raises:
            StoreUnavailable: the store does not respond.
        """
        await self._operation.start()

    def reload_keys(self) -> None:
        """Read the file of keys again; if it is wrong, the keys do not change.

        Raises:
            UsageError: see ``access.read_keys``.
        """
        if self._state.access is not None:
            self._state.access.reload()

    def begin_shutdown(self) -> None:
        """Report to load balancers, at ``/ready``, that no further requests should be sent."""
        self._operation.is_closing = True

    async def aclose(self) -> None:
        """Close the store's connections. A server does it, unless the gateway is mounted in another application."""
        self.begin_shutdown()
        await self._state.store.aclose()

    @property
    def models(self) -> list[str]:
        """The names of models that clients can list: those of the upstreams' ``models``."""
        return self._state.lists.names


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
        self._body = Body(gateway.bodies)
        self._sender: Client | None = None  # without keys
        self._entries = gateway.entries

    async def run(self) -> None:
        """Respond, and stop when the client disconnects."""
        reply = self._reply_without_body()
        if reply is not None:
            await self._reply(reply)
            return
        gateway = self._gateway
        if self._route.action == "list_models":
            sender, wanted = self._sender, self._route.model
            names = [name for name in await gateway.lists.load() if sender is None or sender.key.allows(name)]
            found = describe_models(self._client.traits.endpoint, names, wanted)
            missing = f"this gateway lists no model {wanted!r}"
            await self._reply(JSONResponse(found) if found else self._refuse(404, missing, code="not_found"))
            return
        try:
            body = await self._body.read(self._receive, self._headers)
            is_refused = len(gateway.open_requests) >= gateway.limits.requests  # others had their bodies sooner
            gateway.open_requests.add(self)
            if is_refused:
                service = self._reply(self._refuse(503, _TOO_MANY, {"retry-after": "1"}))
            elif self._route.action in (*PASSED_ON, "show_model"):
                service = self._respond(self._pass_on, body)
            elif self._route.client == "anthropic" and isinstance(body, dict) and body.get("thread") is not None:
                self._exchange.error = replies.NO_THREADS
                service = self._reply(replies.thread_refusal(self._client))
            else:
                service = self._respond(self._ask_upstreams, body)
            if gateway.access is not None and not is_refused:
                service = self._serve_allowed(gateway.access, body, service)
            await run_watched(service, self._watch_client)
        except ClientDisconnect:
            self._exchange.disconnected = True
        except BodyRefused as problem:
            await self._reply(self._refuse(problem.status, str(problem), problem.headers))
        finally:
            gateway.open_requests.discard(self)
            gateway.bodies.size -= self._body.size

    async def _serve_allowed(self, access: Access, body: Any, service: Coroutine[Any, Any, None]) -> None:
        """Serve a request if its client may ask for it, else refuse it."""
        named = body.get("model") if isinstance(body, dict) and self._route.model is None else self._route.model
        self._exchange.model = named if isinstance(named, str) else None
        try:
            refusal = await access.find_refusal(self._exchange, self._sender, body, self._headers)
            if refusal is None:
                await service
            else:
                waiting = {} if refusal.retry_after is None else {"retry-after": f"{refusal.retry_after:g}"}
                await self._reply(self._refuse(refusal.status, refusal.message, waiting))
        finally:
            service.close()  # else Python warns that it was never awaited

    def _reply_without_body(self) -> Response | None:
        gateway, route, method = self._gateway, self._route, self._exchange.method
        if route.action == "too_long":
            most = gateway.limits.path
            return self._refuse(414, f"the path has more than {most} bytes, or the query more than {4 * most}")
        if sum(len(name) + len(value) for name, value in self._scope["headers"]) > gateway.limits.head:
            return self._refuse(431, f"the headers have more than {gateway.limits.head} bytes")
        has_keys = gateway.access is not None and gateway.access.needs_key
        if gateway.access is not None and has_keys:
            if (sender := gateway.access.find(self._scope)) is None:
                return self._refuse(401, "the key is missing or is not the key of this gateway")
            self._sender, self._entries, self._exchange.key = sender, sender.entries, sender.key.name
        # The last part of a path may be the tag of a model, or a verb of Gemini's that is not served.
        if route.action == "unknown" or (method == "POST" and "GET" in route.methods and ":" in (route.model or "")):
            return self._refuse(404, replies.unknown_path(self._client, method, self._exchange.path))
        allowed = ", ".join(route.methods)
        if method == "OPTIONS":  # without the headers of CORS: a page of another site must not use this gateway
            return Response(status_code=204, headers={"allow": allowed})
        if method not in route.methods:
            if self._headers.get("upgrade", "").lower() == "websocket":
                return self._refuse(426, _NO_WEBSOCKETS, _WITHOUT_UPGRADE)
            return self._refuse(405, f"{self._exchange.path} takes {allowed}, not {method}", {"allow": allowed})
        is_open = method == "POST" and not has_keys
        if is_open and "origin" in self._headers and is_from_another_site(self._headers):
            return self._refuse(403, "a web page of another site cannot use this gateway")
        if route.action in ("health", "version"):
            return Response() if route.action == "health" else JSONResponse({"version": OLLAMA_VERSION})
        if route.action in PASSED_ON and not any(find_path(each, route) for each in gateway.upstreams):
            return self._refuse(404, refusal_sentence(route))
        if len(gateway.open_requests) >= gateway.limits.requests:
            return self._refuse(503, _TOO_MANY, {"retry-after": "1"})
        return None

    def _refuse(
        self, status: int, message: str, headers: Mapping[str, str] | None = None, code: ErrorCode | None = None
    ) -> Response:
        self._exchange.error = self._gateway.clean(message)
        return replies.refusal(self._client, status, message, headers, code)

    async def _pass_on(self, body: Any) -> None:
        """Send the response to a request that needs no translation: of an upstream, or about a model."""
        gateway, exchange, model = self._gateway, self._exchange, self._route.model
        if (is_shown := self._route.action == "show_model") and isinstance(body, dict):
            model = body.get("model", body.get("name"))
        candidates = gateway.router.find(model, body)
        if is_shown:
            await self._reply(JSONResponse(describe_ollama_model(str(model))))
            return
        response = await pass_on(exchange, candidates, gateway.cooldowns, self._route, body, self._headers)
        exchange.failures = [gateway.clean(failure) for failure in exchange.failures]
        await self._reply(replies.passed_reply(self._client, response, gateway.clean))
        if response.error is not None:
            exchange.error = gateway.clean(response.cause or response.error)

    async def _watch_client(self) -> bool:
        """Return True when the client disconnects, False if the response has ended before."""
        if self._attempt is not None:  # the upstream was asked, and is waited for
            with suppress(Exception):  # raised again where the conversion is used
                self._attempt.prepare()
        silence = self._gateway.limits.silence
        try:
            await self._stream.wait_for_disconnect(self._receive, silence, self._describe_heartbeat)
        except OSError:  # a heartbeat could not be sent
            self._exchange.disconnected = True
        else:
            self._exchange.disconnected = not self._stream.has_ended  # a server reports the end of a response, too
        return self._exchange.disconnected

    async def _respond(self, ask: Callable[[Any], Awaitable[None]], body: Any) -> None:
        """Ask upstreams, and send failures; record how the response ended."""
        gateway, exchange = self._gateway, self._exchange
        try:
            await ask(body)
        except (ModelNotFound, ReferenceNotFound, ReferencesTooLarge, StoreUnavailable) as problem:
            await self._fail(_STATUSES[type(problem)], str(problem), problem)
        except UsageError as problem:
            if self._attempt is not None and problem is self._attempt.defect:
                await self._fail_internally(problem)
            else:
                await self._fail(400, str(problem), problem)
        except OSError:  # only what is sent to the client raises it here
            exchange.disconnected = True
        except anyio.get_cancelled_exc_class():
            if not exchange.disconnected:
                exchange.error = "the server canceled the request before the end of the response"
            raise
        except Exception as problem:
            if not (exchange.disconnected and is_io_failure(problem)):  # at closing a response that was canceled
                await self._fail_internally(problem)
        finally:
            if (attempt := self._attempt) is not None:
                exchange.changes = [*map(str, attempt.changes)]
                if attempt.conversion is not None:  # else there was no response, or nothing could be made of one
                    turn, writer = attempt.conversion.turn, attempt.conversion.writer
                    exchange.calls, exchange.usage = len(turn.calls), turn.usage
                    if gateway.price is not None:
                        exchange.cost = find_cost(gateway.price, turn)
                    exchange.changes += writer.omitted.values()
                    error = turn.error or writer.error
                    if error is not None and exchange.error is None and not exchange.disconnected:
                        exchange.error = gateway.clean(replies.error_sentence(error))
                        code = exchange.upstream, attempt.target.name, error.code or error.kind
                        exchange.error_codes = [*exchange.error_codes, code]

    async def _ask_upstreams(self, body: Any) -> None:
        """Ask the upstreams in order, and send the first response that begins; if none does, the last one's error."""
        gateway, exchange = self._gateway, self._exchange
        exchange.failures = failures = list[str]()
        if not gateway.has_state_key:
            await gateway.load_state_key()
        if self._route.client == "openai_responses":
            references = await find_references(self._entries, body, gateway.limits.body)
            if references is not None:
                self._body.is_large |= references.size > LARGE or len(references.items) > _MANY_ITEMS
                resolve = references.resolve
                body = await run_in_thread(resolve) if self._body.is_large else resolve()
        cooldowns, candidates = gateway.cooldowns, gateway.router.find(self._route.model, body)
        available = candidates if not cooldowns.failures else cooldowns.available(candidates, failures)
        for candidate in available:
            if cooldowns.failures and len(candidates) > 1 and cooldowns.wait(candidate):  # another request asks it now
                continue
            is_probe = bool(cooldowns.failures) and cooldowns.probe(candidate)
            try:
                if await self._ask(candidate, body, is_last=candidate is available[-1], is_probe=is_probe):
                    return
            finally:
                if is_probe:
                    cooldowns.release(candidate)
        error = cooldowns.error(candidates)
        exchange.error = gateway.clean(replies.error_sentence(error))
        await self._send_error(self._client.writer(), error, {})

    async def _ask(self, candidate: Candidate, body: Any, *, is_last: bool, is_probe: bool) -> bool:
        """Ask an upstream and send its response, or its error; return False if the next one has to be asked."""
        gateway, exchange, stream = self._gateway, self._exchange, self._stream
        position, upstream, model = candidate
        is_large = self._body.is_large
        make = partial(Attempt, upstream, model, self._route, body, self._headers, gateway.carried, self._entries)
        attempt = self._attempt = await run_in_thread(make) if is_large else make()
        attempt.has_large_body = is_large
        state = await attempt.find_state() if attempt.keeps_state else {}
        if is_large:
            await run_in_thread(attempt.render, state)
        else:
            attempt.render(state)
        if gateway.observer is not None:
            attempt.watch = partial(gateway.observer.watch, exchange, upstream)
        self._client = attempt.client
        exchange.upstream, exchange.provider = position, attempt.target.name
        exchange.model, exchange.upstream_model = attempt.request.settings.model, attempt.model
        if gateway.strict and (changed := [each for each in attempt.changes if changes_meaning(each)]):
            sentence = f"{attempt.target.name}: this gateway is strict: {'; '.join(changed)}"
            if is_last:
                raise UsageError(sentence)
            exchange.failures = [*exchange.failures, sentence]
            return False
        has_begun = False
        async with aclosing(attempt.parts(waits_for_content=not is_last)) as parts:
            async for part in parts:
                headers = None if has_begun else attempt.client_headers(exchange)
                if not has_begun:
                    has_begun, exchange.first_byte = True, monotonic() - exchange.began
                    if is_probe:
                        gateway.cooldowns.failures.pop(candidate.key, None)
                await stream.write(part, headers=headers, is_last=attempt.has_ended)
                if attempt.has_ended:  # that the upstream's connection is still read holds up no other request
                    gateway.open_requests.discard(self)
        writer = attempt.prepare().writer
        if (error := writer.error) is None:
            return True
        gateway.cooldowns.fail(candidate, error, is_probe=is_probe, has_begun=has_begun)
        if not has_begun and not is_last and error.code not in _NO_FALLBACK:
            sentence = replies.error_sentence(attempt.prepare().turn.error or error)
            exchange.failures = [*exchange.failures, gateway.clean(f"{attempt.target.name}: {sentence}")]
            exchange.error_codes = [*exchange.error_codes, (position, attempt.target.name, error.code or error.kind)]
            return False
        if not has_begun:
            await self._send_error(writer, error, attempt.upstream_headers(exchange))
        return True

    async def _send_error(self, writer: Writer, error: StreamError, headers: Mapping[str, str]) -> None:
        """Send the error of an upstream, before any byte of a response."""
        if await self._stream.cancel():
            await self._reply(replies.failed_reply(self._client, writer, error, headers))
        else:  # heartbeats were sent
            await self._stream.write(replies.failed_event(self._client, writer, error), is_last=True)

    def _describe_heartbeat(self) -> tuple[Mapping[str, str], bytes]:
        """Return the headers of the response and the heartbeat of the client's wire, ``b""`` if it has none."""
        return ({}, b"") if self._attempt is None else self._attempt.describe_heartbeat(self._exchange)

    async def _fail_internally(self, problem: Exception) -> None:
        """Log a defect of the gateway and report it."""
        _log.error("%s", self._gateway.clean("".join(traceback.format_exception(problem))))
        await self._fail(500, f"this gateway failed: {type(problem).__name__}", problem)

    async def _fail(self, status: int, message: str, problem: Exception) -> None:
        """Report an error of the gateway or of the client's request; within a stream, as the wire reports it."""
        self._exchange.error = self._gateway.clean(f"{type(problem).__name__}: {problem}")
        message = self._gateway.clean(message)
        if await self._stream.cancel():
            code: ErrorCode | None = "not_found" if isinstance(problem, ModelNotFound) else None
            await self._reply(replies.refusal(self._client, status, message, code=code))
        else:
            await self._stream.write(self._client.error_event(status, message), is_last=True)

    async def _reply(self, response: Response) -> None:
        response.headers.setdefault(self._client.traits.endpoint.request_id_header, self._exchange.request_id)
        self._exchange.status = response.status_code
        self._stream.has_ended = True
        if self._exchange.method == "HEAD":
            response.body = b""  # beside its length; over HTTP/2 granian sends a body, which breaks the connection
        await response(self._scope, self._receive, self._send)
