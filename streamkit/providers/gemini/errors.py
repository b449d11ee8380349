"""The meaning of Gemini's errors. This module must not depend on chunks."""

from __future__ import annotations

from typing import Any, Final, get_args

from msgspec.structs import replace

from streamkit.calls import ErrorCode, StreamError
from streamkit.providers.error_rules import LITELLM_OVERFLOW, ErrorRules, MessageRule

__all__ = ["ERRORS", "classify", "retry_delay"]

#: The names of https://cloud.google.com/apis/design/errors and https://ai.google.dev/gemini-api/docs/troubleshooting
ERRORS: Final = ErrorRules(
    codes={
        "INVALID_ARGUMENT": "invalid_request",
        "FAILED_PRECONDITION": "invalid_request",
        "OUT_OF_RANGE": "invalid_request",
        "API_KEY_INVALID": "unauthorized",
        "PERMISSION_DENIED": "unauthorized",
        "UNAUTHENTICATED": "unauthorized",
        "NOT_FOUND": "not_found",
        "RESOURCE_EXHAUSTED": "rate_limited",
        "UNAVAILABLE": "overloaded",
    },
    messages=(
        # "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576)."
        # (google-gemini/gemini-cli#6678)
        MessageRule(
            "context_overflow",
            r"input token count(?: \((?P<requested>[\d,]+)\))? exceeds the maximum number of tokens allowed"
            r"(?: \((?P<limit>[\d,]+)\))?",
        ),
        MessageRule("context_overflow", r"maximum context length is (?P<limit>[\d,]+)", is_own=False),
        LITELLM_OVERFLOW,
        # The sentence "You exceeded your current quota" is that of limits per minute too: the quota's id decides,
        # "GenerateRequestsPerDayPerProjectPerModel" (langgenius/dify#19838), or a limit of 0, of models that the tier
        # does not have (continuedev/continue#10062).
        MessageRule("quota_exceeded", r"PerDay|per day|, limit: 0\b"),
    ),
    unnamed=frozenset(get_args(ErrorCode)),  # the status of an error object follows from the HTTP status
    overflow=(
        "The input token count ({requested}) exceeds the maximum number of tokens allowed ({limit}).",
        "The input token count exceeds the maximum number of tokens allowed ({limit}).",
        "The input token count exceeds the maximum number of tokens allowed.",
    ),
)


def retry_delay(error: Any) -> float | None:
    """Return the seconds to wait that an error object states in its details, None if it states none.

    A RetryInfo has them (https://cloud.google.com/apis/design/errors); no header of the response does.
    """
    details = error.get("details") if isinstance(error, dict) else None
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and delay[-1:] == "s" and delay[:-1].replace(".", "", 1).isdecimal():
            return float(delay[:-1])
    return None


def classify(error: StreamError) -> StreamError:
    """Return an error with its code, and with the seconds to wait, also of a response with an HTTP status."""
    error = ERRORS.classify(error)
    if error.kind != "provider_error" or error.retry_after is not None:
        return error
    body = error.raw[0] if isinstance(error.raw, list) and error.raw else error.raw  # without ``alt=sse`` a list
    seconds = retry_delay(body.get("error", body) if isinstance(body, dict) else None)
    return error if seconds is None else replace(error, retry_after=seconds)
