"""Complete responses of the gateway: errors in the words of the client's wire."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from starlette.responses import JSONResponse, Response

from streamkit.calls import ErrorCode, StreamError
from streamkit.gateway.passed_on import PassedResponse
from streamkit.providers.provider import Provider
from streamkit.providers.writing.encoding import encode_json
from streamkit.providers.writing.writer import Writer

__all__ = [
    "NO_THREADS",
    "error_sentence",
    "error_status",
    "failed_event",
    "failed_reply",
    "passed_reply",
    "refusal",
    "thread_refusal",
    "unknown_path",
]


Json = dict[str, Any]
#: The status of an upstream's failure that is no response of its server.
_STATUS_OF_KIND = {
    "transport_error": 502,
    "protocol_error": 502,
    "stream_truncated": 502,
    "limit_exceeded": 502,
    "timed_out": 504,
}
NO_THREADS = "this gateway holds no threads: send the whole conversation, without 'thread'"


def refusal(
    client: Provider,
    status: int,
    message: str,
    headers: Mapping[str, str] | None = None,
    code: ErrorCode | None = None,
) -> Response:
    """Return an error of the gateway itself, in the client's wire; *code* if the status alone does not name it."""
    name = None if code is None else client.writer().error_rules.names().get(code)
    return _error_reply(client, status, client.error_body(status, message, name), name, headers or {})


def unknown_path(client: Provider, method: str, path: str) -> str:
    """Return the message about a path that the gateway does not serve: that of OpenAI, and the path of the wire."""
    example = client.traits.endpoint.route_example
    return f"Invalid URL ({method} {path}): this gateway has no such path; this wire is asked by POST {example}"


def _error_reply(client: Provider, status: int, body: Json, code: str | None, headers: Mapping[str, str]) -> Response:
    endpoint, named = client.traits.endpoint, {}
    name = code or endpoint.error_names.get(status)
    if endpoint.error_name_header is not None and name is not None:
        named = {endpoint.error_name_header: name[:1].upper() + name[1:]}
    # An upstream's own error object may have what JSON lacks, such as NaN.
    return Response(encode_json(body), status, {**headers, **named}, "application/json")


def passed_reply(client: Provider, response: PassedResponse, clean: Callable[[str], str]) -> Response:
    """Return the response of an upstream to a request that was passed on, or the error without one."""
    if response.body is None:
        return refusal(client, response.status, clean(response.error or ""), response.headers)
    return Response(response.body, response.status, response.headers, "application/json")


def error_status(error: StreamError, status: int) -> int:
    """Return the HTTP status of an error of an upstream.

    Args:
        error: the error.
        status: the status by the error's code (``Writer.error_fields``).
    """
    if error.code is None and error.status is not None and 500 <= error.status < 600:  # no server sends another one
        return error.status
    return _STATUS_OF_KIND.get(error.kind, status)


def thread_refusal(client: Provider) -> Response:
    """Return the refusal of a request of Anthropic's wire that continues a stored conversation.

    A request with ``thread`` has only the new messages and no tools. The gateway holds no conversation of Anthropic's
    clients, and left out, the field would lose the conversation. With this error the SDK's ``toolRunner`` sends all of
    it from then on (``ThreadUnsupportedRequestError`` in
    https://github.com/anthropics/anthropic-sdk-typescript/blob/main/src/resources/messages/messages.ts).
    """
    refused = client.error_body(400, NO_THREADS)
    refused["error"]["details"] = {"error_code": "thread_unsupported_request"}
    return JSONResponse(refused, 400)


def error_sentence(error: StreamError) -> str:
    """Return an error as the report of a request has it: its code and its message."""
    return f"{error.code or error.kind}: {error.message}"


def failed_reply(client: Provider, writer: Writer, error: StreamError, headers: Mapping[str, str]) -> Response:
    """Return an upstream's error, before the first byte, as a response of the client's wire."""
    by_code, message, code = writer.error_fields(error)
    status = error_status(error, by_code)
    waiting = {} if error.retry_after is None else {"retry-after": f"{error.retry_after:f}".rstrip("0").rstrip(".")}
    body = writer.own_error(client.error_body(status, message, code), error)
    return _error_reply(client, status, body, code, {**headers, **waiting})


def failed_event(client: Provider, writer: Writer, error: StreamError) -> bytes:
    """Return an upstream's error, in a response that has begun with heartbeats, as an event of the client's wire."""
    by_code, message, code = writer.error_fields(error)
    return client.error_event(error_status(error, by_code), message, code)
