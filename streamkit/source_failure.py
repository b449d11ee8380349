"""What an exception of a source, or of the function that opens it, means: an I/O failure or a defect of the program.

An I/O failure becomes the error of the turn. A defect must reach the caller with its traceback: reported as a failed
connection it would be searched in the network. Two rules, because an SDK's iterator may raise anything:

* of the function that opens a stream, only what is recognized as an I/O failure is one;
* of a source that is read, all is, except the exceptions by which Python reports a defect.

HTTP clients and SDKs are recognized without importing them: by the package of a base class, by the request or response
that their exceptions carry, and by the exception that was their cause. The module depends on nothing but ``errors``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from streamkit.errors import StreamkitError

__all__ = ["FailedResponse", "find_failed_response", "is_io_failure", "is_programming_error"]

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
    StreamkitError,  # the message of a wrong call of this package explains how to correct it
)

# The packages of HTTP clients, their protocols and event loops. Their exceptions have no common base class.
_CLIENT_PACKAGES = frozenset(
    (
        *("aiohttp", "anyio", "h11", "h2", "http", "httpcore", "httpx", "requests", "trio"),
        *("urllib", "urllib3", "websockets"),
    )
)


@dataclass(frozen=True, slots=True)
class FailedResponse:
    """The response that rejected a request.

    Attributes:
        status: the HTTP status, 400 or more.
        headers: its headers.
        body: as far as it was read.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


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
        isinstance(each, (OSError, EOFError)) or _is_of_client(each) or _has_request_or_response(each)
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


def _is_of_client(exception: BaseException | None) -> bool:
    """Return True if an HTTP client raised it. Their RuntimeErrors report that the client was used wrongly."""
    packages = {kind.__module__.partition(".")[0] for kind in type(exception).__mro__}
    return not isinstance(exception, RuntimeError) and not packages.isdisjoint(_CLIENT_PACKAGES)


def _has_request_or_response(exception: BaseException) -> bool:
    names = ("request", "response", "raw_response", "status_code")
    return any(getattr(exception, name, None) is not None for name in names)


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
        headers, body = facts.get("HTTPHeaders"), {name: response[name] for name in response if name == "Error"}
        return None if status is None else FailedResponse(status, _to_headers(headers), _to_bytes(body))
    for holder in (response, exception):
        for name in ("status_code", "status", "code"):
            status = _to_status(getattr(holder, name, None))
            if status is not None:
                headers = getattr(holder, "headers", None)
                return FailedResponse(status, _to_headers(headers), _read_body(response, exception))
    return None


def _to_status(value: object) -> int | None:
    return value if isinstance(value, int) and 400 <= value < 600 else None


def _to_headers(headers: Any) -> Mapping[str, str]:
    return headers if hasattr(headers, "get") and hasattr(headers, "items") else {}


def _read_body(response: Any, exception: BaseException) -> bytes:
    try:
        content = getattr(response, "content", None)
    except Exception:  # httpx: a streamed body that was not read
        content = None
    return content if isinstance(content, bytes) and content else _to_bytes(getattr(exception, "body", None))


def _to_bytes(body: Any) -> bytes:
    if isinstance(body, (bytes, bytearray)):
        return bytes(body)
    if isinstance(body, str):
        return body.encode("utf-8", "replace")
    return json.dumps(body, default=str).encode() if body else b""
