"""The meaning of Gemini's errors. This module must not depend on chunks."""

from __future__ import annotations

from typing import Final, get_args

from streamkit.calls import ErrorCode
from streamkit.providers.error_rules import ErrorRules, MessageRule

__all__ = ["ERRORS"]

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
