"""Requests that count the tokens of their input: forwarded to an upstream of the same wire.

A count belongs to the model's tokenizer and to the provider's form of the request, so that no other upstream and no
estimate can give it. The body and the response are forwarded as they are, except the name of the model. This module
must not depend on ASGI.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

import anyio

from streamkit import providers
from streamkit.errors import UsageError
from streamkit.gateway.routes import Route, client_provider
from streamkit.gateway.routing import Candidate, ModelNotFound
from streamkit.gateway.upstream import (
    NO_CONNECTION,
    Upstream,
    UpstreamRequest,
    feature_headers,
    is_header_value,
    limit_headers,
    open_response,
)
from streamkit.providers.writing.encoding import encode_json
from streamkit.reading.sdk_objects import dump_chunk
from streamkit.reading.source import BYTES, Source, headers_of, status_of
from streamkit.reading.source_failure import find_failed_response, is_io_failure
from streamkit.reading.turn import Turn

__all__ = ["NO_COUNTS", "TokenCount", "can_count", "count_tokens"]

NO_COUNTS = "no upstream of this gateway counts tokens of this wire: ask the provider"
#: Bytes of a response; counts and errors have a few hundred.
_LONGEST = 1024 * 1024
#: Seconds for a count, which takes a provider well below one.
_PATIENCE = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCount:
    """The response of an upstream to a request that counts tokens.

    Attributes:
        status: the HTTP status.
        upstream, provider, model: as an `Exchange` has them; ``model`` is the upstream's.
        headers: the headers of the response that say when to ask again.
        body: the body, without secrets; None if there is no response.
        error: what failed; None if nothing did.
        cause: the same for the log, with the name of the host; None if it has none.
    """

    status: int
    upstream: int = 0
    provider: str = ""
    model: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    error: str | None = None
    cause: str | None = None


def can_count(upstream: Upstream, client: str) -> bool:
    """Return True if an upstream has the client's wire and counts tokens."""
    target = providers.get(upstream.provider)
    return target.package == providers.get(client).package and target.traits.endpoint.count_path is not None


async def count_tokens(
    candidates: Sequence[Candidate], route: Route, body: Any, headers: Mapping[str, str]
) -> TokenCount:
    """Return the first response of an upstream that is no failure of the upstream, else the last one.

    Args:
        candidates: the upstreams of the model.
        route: the route of the client's request.
        body: the client's decoded body.
        headers: the client's headers, with names in lower case.

    Raises:
        ModelNotFound: none of them counts tokens of the client's wire.
    """
    able = [candidate for candidate in candidates if can_count(candidate.upstream, route.client)]
    if not able:
        raise ModelNotFound(NO_COUNTS)
    for position, upstream, model in able:
        count = await _ask(upstream, _request(upstream, route, body, headers, model))
        target = providers.get(upstream.provider)
        limits = limit_headers(client_provider(route, target), target, count.headers)
        if (waiting := count.headers.get("retry-after")) is not None and is_header_value(waiting):
            limits["retry-after"] = waiting
        count = replace(count, upstream=position, provider=target.name, model=model, headers=limits)
        if count.status < 429:
            break
    return count


async def _ask(upstream: Upstream, request: UpstreamRequest) -> TokenCount:
    """Return the response of an upstream, with all of its headers."""
    try:
        with anyio.fail_after(_PATIENCE):
            async with open_response(upstream, request) as response:
                status, headers, data = await _read(upstream, response)
    except TimeoutError:
        return TokenCount(status=504, error=f"the upstream did not count tokens within {_PATIENCE:g} seconds")
    except UsageError as error:  # of the program, not of the client's request
        raise RuntimeError(f"Upstream.ask: {error}") from error
    except Exception as error:
        if not is_io_failure(error):
            raise
        if (rejection := find_failed_response(error)) is None:
            cause = f"the response to a count of tokens failed: {error or type(error).__name__}"
            return TokenCount(status=502, error=NO_CONNECTION, cause=cause)
        headers = {name.lower(): value for name, value in rejection.headers.items()}
        status, data = rejection.status, rejection.body
        if data[:1] != b"{":  # a text, which is no body of the wire
            message = data.decode(errors="replace") or f"HTTP status {status}"
            return TokenCount(status=status, headers=headers, error=message)
    if len(data) > _LONGEST:
        return TokenCount(status=502, error=f"the response to a count of tokens has more than {_LONGEST} bytes")
    body = upstream.clean(data.decode(errors="replace")).encode()
    refusal = None if status < 400 else f"the upstream refused to count tokens: status {status}"
    return TokenCount(status=status, headers=headers, body=body, error=refusal)


async def _read(upstream: Upstream, response: Any) -> tuple[int, Mapping[str, str], bytes]:
    """Return the status, the headers and the body of a response; no more of a body than one part above the limit."""
    source = Source(Turn(upstream.provider), response)  # opened and closed as that of a stream
    data = bytearray()
    try:
        parts = source.open()
        while len(data) <= _LONGEST:
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
    if endpoint.model_in_body:
        body = {**body, "model": model}
    elif isinstance(nested := body.get("generateContentRequest"), dict) and "model" in nested:  # Gemini
        body = {**body, "generateContentRequest": {**nested, "model": f"models/{model}"}}
    return UpstreamRequest(
        path=(endpoint.count_path or "").format(model=quote(model, safe="")),
        headers={**endpoint.headers, **feature_headers(target, headers)},
        body=body,
        model=model,
    )
