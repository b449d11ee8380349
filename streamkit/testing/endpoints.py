"""The server's side of a provider's endpoint: what a request asks for, and ids in the provider's form."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streamkit.calls import Usage
from streamkit.providers.body_fields import asks_for_usage
from streamkit.providers.encoding import encode_json
from streamkit.providers.endpoint import Endpoint
from streamkit.providers.provider import Provider
from streamkit.testing.script import Reply, Status

__all__ = ["ParsedRequest", "make_call_id", "make_response_id", "parse_http_request", "reported_usage"]

_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """What a request asks for.

    Attributes:
        model: the model.
        as_array: the response is to be one JSON array instead of events (Gemini without ``alt=sse``).
    """

    model: str
    as_array: bool


def parse_http_request(
    endpoint: Endpoint, method: str, path: str, query: Mapping[str, str], body: Any
) -> ParsedRequest | Status:
    """Return what a request asks for, or the status with which it is refused.

    Args:
        endpoint: the provider's.
        method: the HTTP method.
        path: the path after the server's prefix.
        query: the query's parameters.
        body: the parsed body.
    """
    match = re.fullmatch(endpoint.route, path)
    if match is None or method != "POST":
        return Status(404, f"this wire is asked by POST {endpoint.route_example}, not by {method} {path}")
    if not isinstance(body, dict):
        return Status(400, "the body of the request is no JSON object")
    groups = match.groupdict()
    verb = groups.get("verb")
    if not ("stream" in verb if verb else body.get("stream", endpoint.streams_by_default) is True):
        return Status(400, "only streaming is scripted here: ask for a stream")
    return ParsedRequest(
        model=str(body.get("model") or groups.get("model") or "scripted"),
        as_array=endpoint.answers_arrays and query.get("alt") != "sse",
    )


def reported_usage(provider: Provider, body: Any, reply: Reply) -> Usage | None:
    """Return the tokens that a response reports; None if the provider reports them only when asked, and is not asked.

    Args:
        provider: the provider.
        body: the parsed body of the request.
        reply: the reply. If it states no usage, about four characters are one token, so that tests see figures.
    """
    if provider.traits.stream_usage and not asks_for_usage(body):
        return None
    size = sum(len(str(item)) for item in reply.items)
    return reply.usage or Usage(input_tokens=len(encode_json(body)) // 4 + 1, output_tokens=size // 4 + 1)


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
