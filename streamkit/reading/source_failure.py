"""What an exception of a source, or of the function that opens it, means: an I/O failure or a defect of the program.

An I/O failure becomes the error of the turn. A defect must reach the caller with its traceback: reported as a failed
connection it would be searched in the network. Two rules, because an SDK's iterator may raise anything:

* of the function that opens a stream, only what is recognized as an I/O failure is one;
* of a source that is read, all is, except the exceptions by which Python reports a defect.

HTTP clients and SDKs are recognized without importing them: by the package of a base class, by the request or response
that their exceptions carry, and by the exception that was their cause. The module must not depend on any of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct

from streamkit.calls import StreamError
from streamkit.errors import StreamkitError
from streamkit.providers.contract.rendered import normalize_endpoint
from streamkit.providers.decoding.decoding import as_text, error_message

__all__ = [
    "FailedResponse",
    "ReportedError",
    "describe_with_cause",
    "find_address",
    "find_failed_response",
    "find_reported_error",
    "is_io_failure",
    "is_programming_error",
    "to_turn_error",
]

_PROGRAMMING_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    NotImplementedError,
    SyntaxError,
    TypeError,
    Warning,  # raised under ``python -W error``
    StreamkitError,  # the message of a wrong call of this package explains how to correct it
)

# The packages of HTTP clients, their protocols and event loops. Their exceptions have no common base class.
_CLIENT_PACKAGES = frozenset(
    (
        *("aiohttp", "anyio", "h11", "h2", "http", "httpcore", "httpcore2", "httpx", "httpx2", "requests", "trio"),
        *("urllib", "urllib3", "websockets"),
    )
)
_MOST_OF_BODY = 65536  # bytes of a response that an exception has to be read from
# The other exceptions of botocore report missing credentials, unknown regions and wrong parameters.
_BOTOCORE_FAILURES = frozenset({"ConnectionError", "HTTPClientError", "ResponseStreamingError"})


class FailedResponse(Struct, frozen=True):
    """The response that rejected a request.

    Attributes:
        status: the HTTP status, 400 or more.
        headers: its headers.
        body: as far as it was read.
    """

    status: int
    headers: Mapping[str, str] = {}
    body: bytes = b""


class ReportedError(Struct, frozen=True):
    """The error that a provider reported within a stream.

    Attributes:
        raw: its error object, or its message.
        status: the HTTP status that it names, if it does.
    """

    raw: dict[str, Any] | str
    status: int | None


def is_programming_error(exception: BaseException | None) -> bool:
    """Return True for an exception by which Python reports a defect of the program; of a group, if one member is.

    A ``ValueError`` is one only by its own class: JSON and text that cannot be decoded raise subclasses of it.
    """
    if isinstance(exception, BaseExceptionGroup):
        return any(map(is_programming_error, exception.exceptions))
    if isinstance(exception, OSError) or _is_of_client(exception):  # such as ssl's, some of which are a ValueError too
        return False
    return isinstance(exception, _PROGRAMMING_ERRORS) or type(exception) is ValueError


def is_io_failure(exception: BaseException) -> bool:
    """Return True if a connection, a request or a response failed; of a group, if that is so of all members."""
    if isinstance(exception, BaseExceptionGroup):
        return all(map(is_io_failure, exception.exceptions))
    if is_programming_error(exception):
        return False
    return any(
        isinstance(each, (OSError, EOFError))
        or _is_of_client(each)
        or any(_has(each, name) for name in ("request", "response", "raw_response", "status_code"))
        for each in _chain(exception)
    )


def _chain(exception: BaseException) -> Iterator[BaseException]:
    """Yield an exception and what it was raised from: SDKs raise theirs from the HTTP client's."""
    seen: set[int] = set()
    current: BaseException | None = exception
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def describe_with_cause(exception: BaseException) -> str:
    """Return the type and the text of an exception, with its cause if that says more.

    The SDKs put a general text of theirs over that of the HTTP client (openai: "Connection error."), and httpx's
    ReadError and timeouts have none: what happened, such as a certificate that is not valid, is in the cause.
    """
    message = _describe(exception)
    if str(exception) and _is_of_client(exception):
        return message
    cause, seen = exception.__cause__, {id(exception)}
    while cause is not None and id(cause) not in seen:
        if (text := str(cause)) and text not in message:
            return f"{message} ({_describe(cause)})"
        seen.add(id(cause))
        cause = cause.__cause__
    return message


def _describe(exception: BaseException) -> str:
    text = str(exception)
    return f"{type(exception).__name__}: {text}" if text else type(exception).__name__


def _is_of_client(exception: BaseException | None) -> bool:
    """Return True if an HTTP client raised it. Their RuntimeErrors report that the client was used wrongly."""
    kinds = type(exception).__mro__
    if any(kind.__module__ == "botocore.exceptions" and kind.__name__ in _BOTOCORE_FAILURES for kind in kinds):
        return True
    packages = {kind.__module__.partition(".")[0] for kind in kinds}
    return not isinstance(exception, RuntimeError) and not packages.isdisjoint(_CLIENT_PACKAGES)


def _has(exception: BaseException, name: str) -> bool:
    try:
        return getattr(exception, name, None) is not None
    except RuntimeError:  # httpx: "The .request property has not been set."
        return False


def find_address(exception: BaseException | None) -> str | None:
    """Return the address of the request that an exception of an HTTP client or an SDK carries, if it carries one."""
    for each in [] if exception is None else _chain(exception):
        for name in ("request", "request_info"):  # of httpx, requests and the SDKs; of aiohttp
            url = getattr(getattr(each, name), "url", None) if _has(each, name) else None
            if url is not None:
                return normalize_endpoint(str(url))
    return None


def find_failed_response(exception: BaseException) -> FailedResponse | None:
    """Return the response that an exception of an HTTP client or an SDK carries, None if it carries none that failed.

    The SDKs have it in ``response`` or ``raw_response`` (botocore as a dict), or only the status and the body.
    """
    response: Any = getattr(exception, "response", None)
    if response is None:
        response = getattr(exception, "raw_response", None)
    if isinstance(response, Mapping):
        facts = response.get("ResponseMetadata")
        facts = facts if isinstance(facts, Mapping) else {}
        status = _to_status(facts.get("HTTPStatusCode"))
        body = _to_bytes(_to_aws_error(response))
        return None if status is None else FailedResponse(status, _to_headers(facts.get("HTTPHeaders")), body)
    for holder in (response, exception):
        for name in ("status_code", "status", "code"):
            status = _to_status(getattr(holder, name, None))
            if status is not None:
                headers = getattr(holder, "headers", None)
                return FailedResponse(status, _to_headers(headers), _read_body(response, exception))
    return None


def find_reported_error(exception: BaseException) -> ReportedError | None:
    """Return the error of the provider that an exception of an SDK carries, None if it carries none.

    Within a stream the SDKs raise the event that reports an error. openai and groq have its error object in ``body``,
    anthropic the whole event, mistralai its text; google-genai has the event in ``details``, botocore in ``response``,
    and ollama has only a message, in ``error`` beside ``status_code``. The status of the response is 200; that of
    google-genai is the event's.
    """
    for name in ("body", "details", "response", "error"):
        raw = _to_error_object(getattr(exception, name, None))
        is_message = name == "error" and hasattr(exception, "status_code")  # elsewhere it may be any text
        if raw and (is_message or not isinstance(raw, str)):
            status = _to_status(getattr(exception, "status_code", None)) or _to_status(getattr(exception, "code", None))
            return ReportedError(raw, status)
    return None


def to_turn_error(exception: BaseException) -> StreamError:
    """Return what an exception of a source means for its turn: the provider's error, or a failed transport."""
    reported = find_reported_error(exception)
    if reported is not None:
        raw = reported.raw
        message = error_message(raw) or (as_text(raw.get("__type")) if isinstance(raw, dict) else None)
        if message is not None:
            return StreamError("provider_error", message, raw=raw, status=reported.status)
    message = describe_with_cause(exception)
    return StreamError("transport_error", message, raw=message)


def _to_error_object(value: Any) -> dict[str, Any] | str | None:
    """Return the error object within the event that an SDK's exception has; a text that is not JSON as it is."""
    if isinstance(value, str) and value[:1] == "{":
        with suppress(ValueError, RecursionError):
            value = json.loads(value)
    if not isinstance(value, Mapping):
        return value if isinstance(value, str) else None
    if "Error" in value:
        return _to_aws_error(value)
    for name in ("data", "error"):
        value = value[name] if isinstance(value.get(name), Mapping) else value
    return dict(value)


def _to_aws_error(response: Mapping[str, Any]) -> dict[str, Any]:
    """Return the error in botocore's parsed response as the body that AWS documents, which botocore has taken apart.

    https://smithy.io/2.0/aws/protocols/aws-restjson1-protocol.html#operation-error-serialization
    """
    error = response.get("Error")
    error = error if isinstance(error, Mapping) else {}
    fields = {"__type": error.get("Code"), "message": error.get("Message")}
    return {name: value for name, value in fields.items() if value is not None}


def _to_status(value: object) -> int | None:
    return value if isinstance(value, int) and 400 <= value < 600 else None


def _to_headers(headers: Any) -> Mapping[str, str]:
    return headers if hasattr(headers, "get") and hasattr(headers, "items") else {}


def _read_body(response: Any, exception: BaseException) -> bytes:
    try:
        content = getattr(response, "content", None)
    except Exception:  # httpx: a streamed body that was not read
        content = None
    if isinstance(content, bytes) and content:
        return content
    if callable(read := getattr(exception, "read", None)):  # urllib's HTTPError is the response
        with suppress(Exception):  # it was read, or its connection has failed
            if isinstance(data := read(_MOST_OF_BODY), bytes) and data:
                return data
    # ``detail`` is the text of the HTTPException of Starlette, FastAPI and Litestar, with which a program refuses, and
    # ``message`` all that LiteLLM's exceptions have for a failure of its own, such as a package that is not installed.
    bodies = (getattr(exception, name, None) for name in ("body", "details", "error", "detail", "message"))
    return _to_bytes(next((body for body in bodies if body), None))


def _to_bytes(body: Any) -> bytes:
    if isinstance(body, (bytes, bytearray)):
        return bytes(body)
    if isinstance(body, str):
        return body.encode("utf-8", "replace")
    return json.dumps(body, default=str).encode() if body else b""
