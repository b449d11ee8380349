"""The meaning of Anthropic's errors. This module must not depend on events."""

from __future__ import annotations

from typing import Final

from streamkit.providers.error_rules import LITELLM_OVERFLOW, ErrorRules, MessageRule

__all__ = ["ERRORS"]

#: https://docs.anthropic.com/en/api/errors. ``request_too_large`` is a limit of bytes; less must be sent there too.
ERRORS: Final = ErrorRules(
    codes={
        "invalid_request_error": "invalid_request",
        "authentication_error": "unauthorized",
        "permission_error": "unauthorized",
        "billing_error": "quota_exceeded",
        "not_found_error": "not_found",
        "request_too_large": "context_overflow",
        "rate_limit_error": "rate_limited",
        "overloaded_error": "overloaded",
        # error.details.error_code of a 429: https://platform.claude.com/docs/en/api/rate-limits
        "enforced_spend_limit_reached": "quota_exceeded",
        "contract_spend_limit_reached": "quota_exceeded",
        # of gateways with OpenAI's codes
        "context_length_exceeded": "context_overflow",
        "insufficient_quota": "quota_exceeded",
        "rate_limit_exceeded": "rate_limited",
    },
    messages=(
        # "prompt is too long: 201130 tokens > 200000 maximum" (anthropics/claude-code#11281)
        MessageRule(
            "context_overflow", r"prompt is too long(?:: (?P<requested>[\d,]+) tokens > (?P<limit>[\d,]+) maximum)?"
        ),
        # "input length and `max_tokens` exceed context limit: 196395 + 64000 > 204698" (RooCodeInc/Roo-Code#3713)
        MessageRule(
            "context_overflow",
            r"exceed context limit: (?P<requested>[\d,]+) \+ (?P<output>[\d,]+) > (?P<limit>[\d,]+)",
        ),
        MessageRule("context_overflow", r"maximum context length is (?P<limit>[\d,]+)", is_own=False),
        # Of other vendors' endpoints of this wire: vLLM, Z.AI (openclaw/openclaw#111744), MiniMax
        # (https://platform.minimax.io/docs/api-reference/errorcode), DeepSeek (666ghj/BettaFish#691)
        MessageRule(
            "context_overflow",
            r"passed (?P<requested>[\d,]+) input tokens and requested (?P<output>[\d,]+) output tokens"
            r".{0,60}?context length is only (?P<limit>[\d,]+)",
            is_own=False,
        ),
        MessageRule(
            "context_overflow",
            r"prompt exceeds max length|tokens in request more than max tokens allowed|context window exceeds limit",
            is_own=False,
        ),
        LITELLM_OVERFLOW,
        MessageRule("content_policy", r"^content exists risk|^(?:input|output) new_sensitive", is_own=False),
        # An organization's own spend limit is an invalid_request_error with status 400.
        MessageRule("quota_exceeded", r"credit balance is too low|API usage limits"),
        MessageRule("content_policy", r"blocked by content filtering policy"),
    ),
    statuses={529: "overloaded"},
    # A prompt beyond the context is an invalid_request_error (anthropics/claude-code#11281).
    unnamed=frozenset({"context_overflow"}),
    overflow=("prompt is too long: {requested} tokens > {limit} maximum", "prompt is too long"),
)
