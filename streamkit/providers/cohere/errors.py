"""The meaning of Cohere's errors, which have a status and a message only. This module must not depend on events."""

from __future__ import annotations

from typing import Final

from streamkit.providers.error_rules import ErrorRules, MessageRule

__all__ = ["ERRORS"]

#: https://docs.cohere.com/reference/errors
ERRORS: Final = ErrorRules(
    messages=(
        MessageRule(
            "context_overflow",
            r"tokens in the prompt (?:cannot exceed|exceeds the limit of) (?P<limit>[\d,]+)"
            r"(?: - received (?P<requested>[\d,]+))?",
        ),
        MessageRule("context_overflow", r"too many tokens: size limit exceeded"),
        MessageRule("quota_exceeded", r"API calls / month"),  # of trial keys
    ),
    overflow=(
        "too many tokens: total number of tokens in the prompt cannot exceed {limit} - received {requested}.",
        "too many tokens: size limit exceeded.",
    ),
)
