"""How Amazon's services report errors: what both Bedrock wires share, and nothing of what a model says.

In a stream an exception is a frame of its own, or in boto3's dicts a member named by it; instead of a stream it is the
body ``{"message": ...}``. Names and statuses are those of the service model of ``bedrock-runtime``,
https://docs.aws.amazon.com/bedrock/latest/APIReference/CommonErrors.html.
"""

from __future__ import annotations

from typing import Any, Final

from streamkit.calls import StreamError
from streamkit.framing.event_stream import EXCEPTION, encode_message
from streamkit.providers.decoding import as_text, compact_json, excerpt, read_json

__all__ = [
    "STATUS",
    "error_body",
    "event",
    "exception",
    "is_exception",
    "failed_body",
    "to_stream_error",
    "failure_of_frame",
]

#: The HTTP status of each exception, by its name in a stream.
STATUS: Final = {
    "accessDeniedException": 403,
    "conflictException": 400,
    "internalServerException": 500,
    "modelErrorException": 424,
    "modelNotReadyException": 429,
    "modelStreamErrorException": 424,
    "modelTimeoutException": 408,
    "resourceNotFoundException": 404,
    "serviceQuotaExceededException": 400,
    "serviceUnavailableException": 503,
    "throttlingException": 429,
    "validationException": 400,
}


def is_exception(name: Any) -> bool:
    """Whether a member of a chunk, or an event, of that name is an exception."""
    return isinstance(name, str) and name.endswith("Exception")


def to_stream_error(name: str, body: Any) -> StreamError:
    """An exception as an error; its ``raw`` is ``{name: body}``."""
    said = None
    if isinstance(body, dict):
        said = next((body[key] for key in ("message", "Message", "originalMessage") if as_text(body.get(key))), None)
    known = name[:1].lower() + name[1:]  # an error's code begins with a capital
    return StreamError(
        "provider_error", as_text(said) or as_text(body) or name or "an exception", {name: body}, STATUS.get(known)
    )


def failure_of_frame(name: bytes, payload: bytes) -> StreamError | None:
    """The error that a frame reports; None where it is no exception's."""
    if not name.startswith(EXCEPTION):
        return None
    try:
        body = read_json(payload)
    except (ValueError, RecursionError):
        body = excerpt(payload)
    return to_stream_error(name[len(EXCEPTION) :].decode("utf-8", "replace"), body)


def failed_body(data: dict[str, Any]) -> StreamError | None:
    """The error that a whole body is, such as ``{"message": "Too many requests"}``; None where it is something else."""
    words = {"message", "Message", "__type", "code", "originalMessage", "originalStatusCode", "resourceName"}
    said = as_text(data.get("message")) or as_text(data.get("Message"))
    if said is None or data.keys() - words:
        return None
    kind = (as_text(data.get("__type")) or "").rpartition("#")[2]
    return StreamError("provider_error", said, data, STATUS.get(kind[:1].lower() + kind[1:]))


def error_body(status: int, message: str) -> dict[str, Any]:
    """The body with which these services answer a bad request; its kind stands in the header ``x-amzn-errortype``."""
    return {"message": message}


def event(name: str, body: dict[str, Any]) -> bytes:
    """One event as it is sent."""
    headers = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    return encode_message(headers, compact_json(body).encode("utf-8", "surrogatepass"))


def exception(name: str, text: str) -> bytes:
    """One exception as it is sent in a stream."""
    headers = {":exception-type": name, ":content-type": "application/json", ":message-type": "exception"}
    return encode_message(headers, compact_json({"message": text}).encode("utf-8", "surrogatepass"))
