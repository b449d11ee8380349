"""Requests that count the tokens of their input: forwarded to an upstream of the same wire.

A count belongs to the model's tokenizer and to the provider's form of the request, so that no other upstream and no
estimate can give it. The body and the response are forwarded as they are, except the name of the model. This module
must not depend on ASGI.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import anyio

from streamkit import providers
from streamkit.bridges.gateway.routes import Route, client_provider
from streamkit.bridges.gateway.upstream import (
    Upstream,
    UpstreamRequest,
    feature_headers,
    is_header_value,
    limit_headers,
)
from streamkit.errors import UsageError
from streamkit.providers.provider import Provider
from streamkit.source_failure import is_io_failure

__all__ = ["TokenCount", "can_count", "count_tokens"]

#: Bytes of a response; counts and errors have a few hundred.
_LONGEST = 1024 * 1024
#: Seconds for a count, which takes a provider well below one.
_PATIENCE = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCount:
    """The response of an upstream to a request that counts tokens.

    Attributes:
        upstream: the number of the upstream, from 1 on.
        provider: the name of its provider.
        model: its model.
        status: the HTTP status.
        headers: the headers of the response that say when to ask again.
        body: the body, without secrets; None if there is no response.
        error: what failed; None if nothing did.
    """

    upstream: int
    provider: str
    model: str
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    error: str | None = None


def can_count(upstream: Upstream, client: str) -> bool:
    """Return True if an upstream has the client's wire and counts tokens."""
    target = providers.get(upstream.provider)
    return target.package == providers.get(client).package and target.traits.endpoint.count_path is not None


async def count_tokens(
    upstreams: Sequence[Upstream], route: Route, body: Any, headers: Mapping[str, str]
) -> TokenCount:
    """Return the first response of an upstream that is no failure of the upstream, else the last one.

    Args:
        upstreams: the upstreams; those for which ``can_count`` is False are not asked, and there is another one.
        route: the route of the client's request.
        body: the client's decoded body.
        headers: the client's headers, with names in lower case.

    Raises:
        UsageError: the body is no object, or names no model.
    """
    if not isinstance(body, dict):
        raise UsageError("the body of a request must be a JSON object")
    named = route.model if route.model is not None else body.get("model")
    for number, upstream in enumerate(upstreams, 1):
        if not can_count(upstream, route.client):
            continue
        model = upstream.model_for(named if isinstance(named, str) else None)
        status, given, data, error = await _ask(upstream, _request(upstream, route, body, headers, model))
        target = providers.get(upstream.provider)
        count = TokenCount(
            upstream=number,
            provider=target.name,
            model=model,
            status=status,
            headers=_limit_headers(route, target, given),
            body=data,
            error=error,
        )
        if status < 429:
            break
    return count


async def _ask(upstream: Upstream, request: UpstreamRequest) -> tuple[int, Mapping[str, str], bytes | None, str | None]:
    """Return the status, the headers, the body and the error of a response."""
    data = bytearray()
    try:
        with anyio.fail_after(_PATIENCE):
            async with upstream.ask(request) as response:
                async for part in response.aiter_bytes():
                    data += part
                    if len(data) > _LONGEST:
                        return 502, {}, None, f"the response to a count of tokens has more than {_LONGEST} bytes"
                status = getattr(response, "status_code", 200)
                headers = getattr(response, "headers", None) or {}
    except TimeoutError:
        return 504, {}, None, f"the upstream did not count tokens within {_PATIENCE:g} seconds"
    except Exception as error:
        if not is_io_failure(error):
            raise
        return 502, {}, None, f"the response to a count of tokens failed: {error or type(error).__name__}"
    body = upstream.clean(data.decode(errors="replace")).encode()
    return status, headers, body, None if status < 400 else f"the upstream refused to count tokens: status {status}"


def _limit_headers(route: Route, target: Provider, given: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a response that say when to ask again."""
    limits = limit_headers(client_provider(route, target), target, given)
    waiting = given.get("retry-after")
    return {**limits, "retry-after": waiting} if waiting is not None and is_header_value(waiting) else limits


def _request(
    upstream: Upstream, route: Route, body: dict[str, Any], headers: Mapping[str, str], model: str
) -> UpstreamRequest:
    """Return the client's request for an upstream of the same wire."""
    target = providers.get(upstream.provider)
    endpoint = target.traits.endpoint
    return UpstreamRequest(
        path=(endpoint.count_path or "").format(model=quote(model, safe="")),
        headers={**endpoint.headers, **feature_headers(providers.get(route.client), target, headers)},
        body={**body, "model": model} if endpoint.model_in_body else _with_nested_model(body, model),
        model=model,
    )


def _with_nested_model(body: dict[str, Any], model: str) -> dict[str, Any]:
    """Return the body with the model in its nested request, where Gemini has it, too."""
    nested = body.get("generateContentRequest")
    if not isinstance(nested, dict) or "model" not in nested:
        return body
    return {**body, "generateContentRequest": {**nested, "model": f"models/{model}"}}
