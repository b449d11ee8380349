"""Requests that are passed on to an upstream of the same wire: counts of tokens, and embeddings.

A count belongs to the model's tokenizer and an embedding to the model, so that no other upstream and no estimate can
give it. The body and the response are passed on as they are, except the name of the model and secrets. This module must
not depend on ASGI.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

import anyio

from streamkit import providers
from streamkit.calls import ErrorKind, StreamError
from streamkit.errors import UsageError
from streamkit.gateway.bodies import LARGE, run_in_thread
from streamkit.gateway.routes import Route, client_provider
from streamkit.gateway.routing import Candidate, Cooldowns, ModelNotFound
from streamkit.gateway.upstream import (
    NO_CONNECTION,
    Exchange,
    Upstream,
    UpstreamRequest,
    feature_headers,
    is_header_value,
    limit_headers,
    open_response,
)
from streamkit.providers.contract.error_rules import STATUS_CODES
from streamkit.providers.writing.encoding import encode_json
from streamkit.reading.response_body import read_status
from streamkit.reading.sdk_objects import dump_chunk
from streamkit.reading.source import BYTES, Source, headers_of, status_of
from streamkit.reading.source_failure import find_failed_response, is_io_failure
from streamkit.reading.turn import Turn

__all__ = ["PASSED_ON", "PassedResponse", "find_path", "pass_on", "refusal_sentence"]


#: By ``Route.action``: what an upstream does, the most seconds, and the most bytes of a response. Counts have a few
#: hundred, a thousand embeddings some 30 MB.
PASSED_ON = {
    "count_tokens": ("counts tokens", 60.0, 1024 * 1024),
    "embed": ("embeds texts", 600.0, 128 * 1024 * 1024),
}


class PassedResponse(NamedTuple):
    """The response of an upstream to a request that was passed on."""

    status: int  #: the HTTP status
    headers: Mapping[str, str]  #: the headers; for the client those that say when to ask again
    body: bytes | None = None  #: the body, without secrets; None if there is no response
    error: str | None = None  #: what failed; None if nothing did
    cause: str | None = None  #: the same for the log, with the name of the host; None if it has none


def find_path(upstream: Upstream, route: Route) -> str | None:
    """Return an upstream's path for a client's request that is passed on; None if it has none."""
    paths = providers.get(upstream.provider).traits.endpoint.further_paths
    return next((path for path in paths if route.path_end and path.endswith(route.path_end)), None)


def refusal_sentence(route: Route) -> str:
    """Return the sentence for a request that no upstream can get."""
    return f"no upstream of this gateway {PASSED_ON[route.action][0]} of this wire: ask the provider"


async def pass_on(
    exchange: Exchange,
    candidates: Sequence[Candidate],
    cooldowns: Cooldowns,
    route: Route,
    body: dict[str, Any],
    headers: Mapping[str, str],
) -> PassedResponse:
    """Return the first response of an upstream that is no failure of the upstream, else the last one.

    Args:
        exchange: gets the upstream that was asked last, and what failed before.
        candidates: the upstreams of the model.
        cooldowns: those that are left alone.
        route: the route of the client's request.
        body: the client's decoded body.
        headers: the client's headers, with names in lower case.

    Raises:
        ModelNotFound: none of them has the path.
    """
    able = [candidate for candidate in candidates if find_path(candidate.upstream, route)]
    if not able:
        raise ModelNotFound(refusal_sentence(route))
    exchange.failures = failures = list[str]()
    response: PassedResponse | None = None
    for candidate in cooldowns.available(able, failures):
        position, upstream, model = candidate
        target, is_probe = providers.get(upstream.provider), cooldowns.probe(candidate)
        exchange.upstream, exchange.provider, exchange.upstream_model = position, target.name, model
        try:
            response = await _ask(upstream, route, _request(upstream, route, body, headers, model))
            status, message = response.status, response.error or ""
            if message:
                is_lost = response.cause is not None or (response.body is None and status == 504)
                kind: ErrorKind = "transport_error" if is_lost else "provider_error"
                waits = read_status(status, response.headers, None).retry_after
                error = StreamError(kind, message, code=STATUS_CODES.get(status), status=status, retry_after=waits)
                cooldowns.fail(candidate, error, is_probe=is_probe)
            elif is_probe:
                cooldowns.failures.pop(candidate.key, None)
        finally:
            cooldowns.release(candidate)
        limits = limit_headers(client_provider(route, target), target, response.headers)
        if (waiting := response.headers.get("retry-after")) is not None and is_header_value(waiting):
            limits["retry-after"] = waiting
        response = response._replace(headers=limits)
        if status < 429:
            break
        failures.append(f"{target.name}: {message}")
    else:
        del failures[-1:]
    if response is None:
        left = cooldowns.error(able)
        seconds = {"retry-after": f"{left.retry_after:.0f}"}
        return PassedResponse(left.status or 503, seconds, error=left.message)
    return response


async def _ask(upstream: Upstream, route: Route, request: UpstreamRequest) -> PassedResponse:
    """Return the response of an upstream, with all of its headers."""
    _, seconds, most = PASSED_ON[route.action]
    try:
        with anyio.fail_after(seconds):
            async with open_response(upstream, request) as opened:
                status, headers, data = await _read(upstream, opened, most)
    except TimeoutError:
        return PassedResponse(504, {}, error=f"the upstream did not respond within {seconds:g} seconds")
    except UsageError as error:  # of the program, not of the client's request
        raise RuntimeError(f"Upstream.ask: {error}") from error
    except Exception as error:
        if not is_io_failure(error):
            raise
        if (rejection := find_failed_response(error)) is None:
            cause = f"the response to a request that was passed on failed: {error or type(error).__name__}"
            return PassedResponse(502, {}, error=NO_CONNECTION, cause=cause)
        headers = {name.lower(): value for name, value in rejection.headers.items()}
        status, data = rejection.status, rejection.body
        if data[:1] != b"{":  # a text, which is no body of the wire
            message = data.decode(errors="replace") or f"HTTP status {status}"
            return PassedResponse(status, headers, error=message)
    if len(data) > most:
        return PassedResponse(502, {}, error=f"the response has more than {most} bytes")

    def clean() -> bytes:
        return upstream.clean(data.decode(errors="replace")).encode()

    body = await run_in_thread(clean) if len(data) > LARGE else clean()
    refusal = None if status < 400 else f"the upstream refused the request: status {status}"
    return PassedResponse(status, headers, body, refusal)


async def _read(upstream: Upstream, response: Any, most: int) -> tuple[int, Mapping[str, str], bytes]:
    """Return the status, the headers and the body of a response; no more of a body than one part above the limit."""
    source = Source(Turn(upstream.provider), response)  # opened and closed as that of a stream
    data = bytearray()
    try:
        parts = source.open()
        while len(data) <= most:
            try:
                part = await anext(parts) if hasattr(parts, "__anext__") else next(parts)
            except (StopAsyncIteration, StopIteration):
                break
            data += (
                part if isinstance(part, BYTES) else encode_json(part if isinstance(part, dict) else dump_chunk(part))
            )
    finally:
        await source.aclose()
    return status_of(response) or 200, headers_of(response), bytes(data)


def _request(
    upstream: Upstream, route: Route, body: dict[str, Any], headers: Mapping[str, str], model: str
) -> UpstreamRequest:
    """Return the client's request for an upstream of the same wire."""
    target = providers.get(upstream.provider)
    endpoint = target.traits.endpoint
    own, parts = f"models/{model}", body.get("requests")
    if endpoint.model_in_body:
        body = {**body, "model": model}
    elif "model" in body:  # Gemini, which has the model in its path, too
        body = {**body, "model": own}
    elif isinstance(nested := body.get("generateContentRequest"), dict) and "model" in nested:
        body = {**body, "generateContentRequest": {**nested, "model": own}}
    elif isinstance(parts, list):
        body = {**body, "requests": [{**part, "model": own} if isinstance(part, dict) else part for part in parts]}
    return UpstreamRequest(
        path=(find_path(upstream, route) or "").format(model=quote(model, safe="")),
        headers={**endpoint.headers, **feature_headers(target, headers)},
        body=body,
        model=model,
    )
