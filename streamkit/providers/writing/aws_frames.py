"""Frames of Amazon's event streams and the errors in them, as both Bedrock wires have them.

In a stream an exception is a frame of its own, in boto3's dicts a member with the exception's name; a refused request
has the body ``{"message": ...}``. Names and statuses are those of the service model of ``bedrock-runtime``,
https://docs.aws.amazon.com/bedrock/latest/APIReference/CommonErrors.html. This module must not depend on the contents
of a model's stream.
"""

from __future__ import annotations

from typing import Any, Final

from streamkit.calls import StreamError
from streamkit.framing.event_stream import EXCEPTION, encode_message
from streamkit.providers.contract.error_rules import ErrorRules, MessageRule
from streamkit.providers.decoding.decoding import as_text, excerpt, frame_error, read_json
from streamkit.providers.writing.encoding import encode_chunk

__all__ = [
    "ERRORS",
    "ERROR_NAMES",
    "STATUS",
    "aws_error_body",
    "encode_event",
    "encode_exception",
    "error_event",
    "error_of_body",
    "error_of_frame",
    "exception_to_error",
    "is_exception",
    "read_frame",
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
#: The usual exception of an HTTP status, as the header ``x-amzn-errortype`` of a refused request names it.
ERROR_NAMES: Final = {status: name[:1].upper() + name[1:] for name, status in STATUS.items()} | {
    400: "ValidationException",
    424: "ModelErrorException",
    429: "ThrottlingException",
}

#: The exceptions that both streams can have; boto3 reads no code and no message of another one
#: (https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStreamOutput.html and
#: .../API_runtime_ResponseStream.html).
_STREAM_EXCEPTIONS: Final = frozenset(
    {
        "internalServerException",
        "modelStreamErrorException",
        "serviceUnavailableException",
        "throttlingException",
        "validationException",
    }
)

#: The exceptions, and the names of https://docs.aws.amazon.com/bedrock/latest/APIReference/CommonErrors.html. The
#: messages are those of the models behind the service (danny-avila/agents, contextOverflowSignatures.ts).
ERRORS: Final = ErrorRules(
    codes={
        "accessDeniedException": "unauthorized",
        "expiredTokenException": "unauthorized",
        "unrecognizedClientException": "unauthorized",
        "resourceNotFoundException": "not_found",
        "serviceQuotaExceededException": "quota_exceeded",
        "serviceUnavailableException": "overloaded",
        "modelNotReadyException": "overloaded",
        "throttlingException": "rate_limited",
        "validationException": "invalid_request",
    },
    messages=(
        MessageRule(
            "context_overflow", r"prompt is too long(?:: (?P<requested>[\d,]+) tokens > (?P<limit>[\d,]+) maximum)?"
        ),
        MessageRule(
            "context_overflow",
            r"exceed context limit: (?P<requested>[\d,]+) \+ (?P<output>[\d,]+) > (?P<limit>[\d,]+)",
        ),
        MessageRule("context_overflow", r"input is too long|number of input tokens exceeds maximum length"),
        MessageRule("context_overflow", r"maximum context length is (?P<limit>[\d,]+)"),
        # "Too many tokens per day, please wait before trying again.", of a throttlingException
        MessageRule("quota_exceeded", r"too many tokens per day"),
        MessageRule("content_policy", r"blocked by content filtering policy"),
    ),
    overflow=("prompt is too long: {requested} tokens > {limit} maximum", "Input is too long for requested model."),
)
_ERROR_FIELDS = frozenset(
    {"message", "Message", "__type", "code", "originalMessage", "originalStatusCode", "resourceName"}
)


def is_exception(name: Any) -> bool:
    """Return True if an event, or a member of a chunk, with this name is an exception."""
    return isinstance(name, str) and name.endswith("Exception")


def exception_to_error(name: str, body: Any) -> StreamError:
    """Return an exception as an error with ``raw={name: body}``."""
    text = None
    if isinstance(body, dict):
        text = next((body[key] for key in ("message", "Message", "originalMessage") if as_text(body.get(key))), None)
    message = as_text(text) or as_text(body) or name or "an exception"
    return StreamError("provider_error", message, raw={name: body}, status=_status(name))


def error_of_frame(name: bytes, payload: bytes) -> StreamError | None:
    """Return the error that a frame reports, None if the frame is no exception."""
    if not name.startswith(EXCEPTION):
        return None
    try:
        body = read_json(payload)
    except (ValueError, RecursionError):
        body = excerpt(payload)
    return exception_to_error(name[len(EXCEPTION) :].decode("utf-8", "replace"), body)


def error_of_body(data: dict[str, Any]) -> StreamError | None:
    """Return the error of a body such as ``{"message": "Too many requests"}``, None for any other body."""
    message = as_text(data.get("message")) or as_text(data.get("Message"))
    if message is None or data.keys() - _ERROR_FIELDS:
        return None
    name = (as_text(data.get("__type")) or "").rpartition("#")[2]
    return StreamError("provider_error", message, raw=data, status=_status(name))


def _status(name: str) -> int | None:
    return STATUS.get(name[:1].lower() + name[1:])  # in the code of a failed request the name begins with a capital


def read_frame(name: bytes, data: bytes) -> tuple[Any, StreamError | None]:
    """Return the JSON value of a frame, ``{}`` if it is empty, or the error that it is: an exception, or not JSON."""
    error = error_of_frame(name, data)
    if error is None:
        try:
            return read_json(data) if data else {}, None
        except (ValueError, RecursionError) as exception:
            error = frame_error(exception, data)
    return None, error


def aws_error_body(status: int, message: str, code: str | None = None) -> dict[str, Any]:
    """Return the JSON body of a refused request; the services name its type in the header ``x-amzn-errortype``."""
    return {"message": message}


def error_event(status: int, message: str, code: str | None = None) -> bytes:
    """Return the exception that ends a stream; *code* is its name, the default depends on the status.

    An exception that only the response of a request can have becomes the one of streams with the nearest status.
    """
    name = code or ERROR_NAMES.get(status, "")
    name = name[:1].lower() + name[1:]
    if name not in _STREAM_EXCEPTIONS:
        name = "validationException" if status < 500 else "internalServerException"
    return encode_exception(name, message)


def encode_event(name: str, body: dict[str, Any]) -> bytes:
    """Return an event as a frame."""
    return _encode(":event-type", "event", name, body)


def encode_exception(name: str, message: str) -> bytes:
    """Return an exception as a frame."""
    return _encode(":exception-type", "exception", name, {"message": message})


def _encode(name_header: str, message_type: str, name: str, body: dict[str, Any]) -> bytes:
    headers = {name_header: name, ":content-type": "application/json", ":message-type": message_type}
    return encode_message(headers, encode_chunk(body))
