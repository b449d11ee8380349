"""Errors of OpenAI, in the form that Chat Completions and Responses share.

It does not depend on the chunks of either wire.
"""

from __future__ import annotations

from typing import Any, Final

from streamkit.calls import StreamError
from streamkit.providers.contract.error_rules import LITELLM_OVERFLOW, ErrorRules, MessageRule
from streamkit.providers.decoding.decoding import as_integer, as_text, error_message

__all__ = ["ERRORS", "error_body", "openai_stream_error"]

#: https://platform.openai.com/docs/guides/error-codes; the codes in streams are those of ``ResponseError`` in
#: https://platform.openai.com/docs/api-reference/responses-streaming/error
ERRORS: Final = ErrorRules(
    codes={
        "context_length_exceeded": "context_overflow",
        "insufficient_quota": "quota_exceeded",
        "billing_hard_limit_reached": "quota_exceeded",
        "billing_not_active": "quota_exceeded",
        "rate_limit_exceeded": "rate_limited",
        "rate_limit_error": "rate_limited",
        "requests": "rate_limited",
        "tokens": "rate_limited",
        "model_not_found": "not_found",
        "not_found_error": "not_found",
        "content_policy_violation": "content_policy",
        "content_filter": "content_policy",
        "moderation_blocked": "content_policy",
        "invalid_api_key": "unauthorized",
        "invalid_organization": "unauthorized",
        "authentication_error": "unauthorized",
        "permission_error": "unauthorized",
        "account_deactivated": "unauthorized",
        "server_is_overloaded": "overloaded",
        "slow_down": "overloaded",
        "invalid_request_error": "invalid_request",
        "invalid_prompt": "invalid_request",
    },
    messages=(
        # "Your input exceeds the context window of this model", of Responses
        MessageRule("context_overflow", r"exceeds the context window"),
        # "... However, your messages resulted in 149767 tokens", "however you requested 6539 tokens (6283 in your
        # prompt; 256 for the completion)" (smol-ai/developer#7, aboutmydreams/custom_data_gpt#2)
        MessageRule(
            "context_overflow",
            r"maximum context length is (?P<limit>[\d,]+)"
            r"(?: tokens)?(?:[^0-9]{1,80}(?:resulted in|requested(?: about)?) (?P<requested>[\d,]+) tokens)?",
        ),
        # "You passed 10243 input tokens and requested 6142 output tokens. However, the model's context length is only
        # 16384 tokens", of vLLM (its TokenizeParams), NIM and Modal; also "input characters", which are no tokens
        MessageRule(
            "context_overflow",
            r"passed (?P<requested>[\d,]+) input tokens and requested (?P<output>[\d,]+) output tokens"
            r".{0,60}?context length is only (?P<limit>[\d,]+)",
            is_own=False,
        ),
        MessageRule("context_overflow", r"the model's context length is only (?P<limit>[\d,]+)", is_own=False),
        # A request beyond the tokens of a whole minute never succeeds: "Request too large for gpt-4o ... on tokens per
        # min (TPM): Limit 30000, Requested 342389" with status 429 (vanna-ai/vanna-flask#11), of Groq with 413
        # (continuedev/continue#10218). With fewer tokens than the limit the same request may succeed later.
        MessageRule(
            "context_overflow",
            r"limit:? (?P<limit>[\d,]+)\b.{0,60}?\brequested:? (?P<requested>[\d,]+)",
            must_exceed=True,
        ),
        LITELLM_OVERFLOW,
        MessageRule("quota_exceeded", r"exceeded your current quota"),
        MessageRule("content_policy", r"violating our usage policy"),  # with the code invalid_prompt
    ),
    overflow=(
        "This model's maximum context length is {limit} tokens. However, your messages resulted in {requested} tokens.",
        "Your input exceeds the context window of this model.",
    ),
)

#: The type and code of the statuses that have their own: https://platform.openai.com/docs/guides/error-codes
_TYPES_AND_CODES: Final[dict[int, tuple[str, str | None]]] = {
    401: ("invalid_request_error", "invalid_api_key"),
    429: ("requests", "rate_limit_exceeded"),
}


def error_body(status: int, message: str, code: str | None = None) -> dict[str, Any]:
    """Return the JSON body of a rejected request. *code* is the error's code; the default depends on the status."""
    default = "server_error" if status >= 500 else "invalid_request_error"
    kind, usual_code = _TYPES_AND_CODES.get(status, (default, None))
    return {"error": {"message": message, "type": kind, "param": None, "code": code or usual_code}}


def openai_stream_error(error: Any, status_beside: Any = None) -> StreamError:
    """Return the error that a stream reports in a field ``error``: an object, or a text.

    Gateways put the HTTP status into ``code``.

    Args:
        error: the value of the field.
        status_beside: the HTTP status in another field of the chunk, if there is one.
    """
    code = error.get("code") if isinstance(error, dict) else None
    message = error_message({"error": error}) or as_text(code) or "the provider reported an error"
    statuses = (as_integer(code), as_integer(status_beside))
    status = next((status for status in statuses if status is not None and 400 <= status < 600), None)
    return StreamError("provider_error", message, raw=error, status=status)
