"""`StreamError.code`: what a provider's error means, in band and by HTTP status, of bytes and dicts."""

from __future__ import annotations

import json
from typing import Any

import pytest
import wire_streams

from streamkit import StreamError, StreamInterrupted, Turn, providers
from streamkit.providers.error_rules import ErrorRules, MessageRule

OVERFLOW = "context_overflow"


def openai(message: str = "No.", type: str | None = None, code: Any = None, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": type, "param": None, "code": code, **more}}


def claude(type: str, message: str = "No.", **more: Any) -> dict[str, Any]:
    return {"type": "error", "error": {"type": type, "message": message, **more}}


def google(code: int, status: str, message: str = "No.", *details: dict[str, Any]) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}


def quota(quota_id: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota_id}]}


RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "15s"}
TOO_LONG = "This model's maximum context length is 8192 tokens. However, your messages resulted in 8545 tokens."
TOO_LARGE = "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 342389. The input or output tokens must be reduced in order to run successfully."
BUSY = "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 2s."
SPENT = "You exceeded your current quota, please check your plan and billing details."
AZURE = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"jailbreak": {"filtered": True}}}

#: provider, HTTP status (None: in the stream only), error body, code, limit, requested
ERRORS: list[tuple[str, int | None, dict[str, Any], str | None, int | None, int | None]] = [
    # OpenAI and its dialects
    ("openai_chat", 400, openai(TOO_LONG, "invalid_request_error", "context_length_exceeded"), OVERFLOW, 8192, 8545),
    ("openai_chat", 429, openai(TOO_LARGE, "tokens", "rate_limit_exceeded"), OVERFLOW, 30000, 342389),
    ("openai_chat", 429, openai(BUSY, "tokens", "rate_limit_exceeded"), "rate_limited", None, None),
    ("openai_chat", 429, openai(SPENT, "insufficient_quota", "insufficient_quota"), "quota_exceeded", None, None),
    ("openai_chat", 401, openai("Incorrect API key", "invalid_request_error", "invalid_api_key"), "unauthorized", None, None),
    ("openai_chat", 404, openai("No model x", "invalid_request_error", "model_not_found"), "not_found", None, None),
    ("openai_chat", 400, openai("Rejected", "invalid_request_error", "content_policy_violation"), "content_policy", None, None),
    ("openai_chat", 400, openai("Bad", "invalid_request_error", "unsupported_value"), "invalid_request", None, None),
    ("openai_chat", 500, openai("Oops", "server_error"), None, None, None),
    ("openai_chat", 503, openai("Slow down", "server_error", "slow_down"), "overloaded", None, None),
    ("openai_chat", None, openai("Oops", "server_error"), None, None, None),
    ("openai_responses", None, {"type": "error", "code": "rate_limit_exceeded", "message": "No."}, "rate_limited", None, None),
    ("openai_responses", None, {"type": "response.failed", "response": {"id": "r", "status": "failed", "error": {
        "code": "context_length_exceeded", "message": "Your input exceeds the context window of this model."}}},
        OVERFLOW, None, None),
    ("openai_responses", 400, openai("Your input exceeds the context window of this model.", "invalid_request_error"),
        OVERFLOW, None, None),
    ("openai_responses", 429, openai(SPENT, "insufficient_quota"), "quota_exceeded", None, None),
    ("openai_responses", None, {"type": "error", "error": {"code": "invalid_prompt", "message":
        "Invalid prompt: your prompt was flagged as potentially violating our usage policy."}}, "content_policy", None, None),
    ("azure_openai", 400, openai("The response was filtered", None, "content_filter", innererror=AZURE), "content_policy", None, None),
    ("azure_openai", 404, openai("No deployment", None, "DeploymentNotFound"), "not_found", None, None),
    ("azure_openai", 429, openai("Requests have exceeded the token rate limit", None, "429"), "rate_limited", None, None),
    ("groq", 413, openai("Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 12328, please reduce",
        "tokens", "rate_limit_exceeded"), OVERFLOW, 6000, 12328),
    ("groq", 400, openai("Please reduce the length of the messages or completion.", "invalid_request_error"), OVERFLOW, None, None),
    ("groq", 498, openai("Flex tier capacity exceeded"), "overloaded", None, None),
    ("deepseek", 402, openai("Insufficient Balance", "unknown_error", "invalid_request_error"), "quota_exceeded", None, None),
    ("deepseek", 400, openai("This model's maximum context length is 65536 tokens. However, you requested 70000 tokens "
        "(69000 in the messages, 1000 in the completion).", "invalid_request_error"), OVERFLOW, 65536, 70000),
    ("deepseek", 422, openai("Bad"), "invalid_request", None, None),
    ("deepseek", 503, openai("Busy"), "overloaded", None, None),
    ("xai", 400, {"code": "invalid-argument", "error": "This model's maximum prompt length is 256000 but the request "
        "contains 332986 tokens."}, OVERFLOW, 256000, 332986),
    ("xai", 429, {"code": "x", "error": "Your team has either used all available credits or reached its monthly spending limit."},
        "quota_exceeded", None, None),
    ("xai", 403, {"code": "x", "error": "Your team has either used all available credits or reached its monthly spending limit."},
        "quota_exceeded", None, None),
    ("mistral", 400, {"object": "error", "message": "Prompt contains 170397 tokens and 0 draft tokens, too large for model "
        "with 131072 maximum context length", "type": "invalid_request_prompt", "code": "3051"}, OVERFLOW, 131072, 170397),
    ("mistral", 429, {"object": "error", "message": "Service tier capacity exceeded for this model.",
        "type": "service_tier_capacity_exceeded", "code": "3505"}, "rate_limited", None, None),
    ("openrouter", 402, openai("Insufficient credits", None, 402), "quota_exceeded", None, None),
    ("openrouter", 403, openai("Flagged", None, 403, metadata={"reasons": ["x"], "flagged_input": "y"}), "content_policy", None, None),
    ("openrouter", None, openai("Provider returned error", None, 429, metadata={"raw": "x", "provider_name": "p"}),
        "rate_limited", None, None),
    ("openrouter", None, openai("Provider returned error", None, 400, metadata={"raw": json.dumps(claude(
        "invalid_request_error", "prompt is too long: 201130 tokens > 200000 maximum"))}), OVERFLOW, 200000, 201130),
    ("openrouter", 400, openai("This endpoint's maximum context length is 32768 tokens. However, you requested about 56827 "
        "tokens (56811 of text input, 16 in the output).", None, 400), OVERFLOW, 32768, 56827),
    ("openrouter", None, openai("Down", None, 502), None, None, None),
    ("kimi", 403, openai(SPENT, "exceeded_current_quota_error"), "quota_exceeded", None, None),
    ("kimi", 429, openai(SPENT, "exceeded_current_quota_error"), "quota_exceeded", None, None),
    ("kimi", 429, openai("Busy", "engine_overloaded_error"), "overloaded", None, None),
    ("kimi", 400, openai("Your request exceeded model token limit: 262144 (requested: 275000)", "invalid_request_error"),
        OVERFLOW, 262144, 275000),
    ("qwen", 400, openai("Access denied", "Arrearage", "Arrearage"), "quota_exceeded", None, None),
    ("qwen", 400, openai("Inappropriate", "data_inspection_failed", "data_inspection_failed"), "content_policy", None, None),
    ("qwen", 400, {"code": "DataInspectionFailed", "message": "Output data may contain inappropriate content."}, "content_policy", None, None),
    ("qwen", 400, openai("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]",
        "invalid_request_error", "invalid_parameter_error"), OVERFLOW, 129024, None),
    ("qwen", 429, openai("Throttled", "limit_requests", "Throttling.RateQuota"), "rate_limited", None, None),
    ("vllm", 400, {"object": "error", "message": "This model's maximum context length is 4096 tokens. However, you requested "
        "2000 output tokens and your prompt contains at least 3000 input tokens, for a total of at least 5000 tokens.",
        "type": "BadRequestError", "param": None, "code": 400}, OVERFLOW, 4096, 5000),
    ("vllm", 400, openai("'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context length is "
        "4096 tokens and your request has 2104 input tokens (2000 > 4096 - 2104).", "BadRequestError", 400), OVERFLOW, 4096, 2104),
    ("vllm", 404, openai("The model `x` does not exist.", "NotFoundError", 404), "not_found", None, None),
    ("openai_compatible", 400, openai("the request exceeds the available context size", "exceed_context_size_error", 400,
        n_prompt_tokens=14429, n_ctx=8192), OVERFLOW, 8192, 14429),
    ("openai_compatible", None, openai("the request exceeds the available context size", "exceed_context_size_error", 500,
        n_prompt_tokens=1407, n_ctx=256), OVERFLOW, 256, 1407),
    ("openai_compatible", 400, {"error": "Trying to keep the first 10136 tokens when context the overflows. However, the model "
        "is loaded with context length of only 7866 tokens, which is not enough."}, OVERFLOW, 7866, 10136),
    ("openai_compatible", 503, openai("Loading model", "unavailable_error", 503), "overloaded", None, None),
    ("together", 400, openai("The input (265330 tokens) is longer than the model's context length (262144 tokens)."),
        OVERFLOW, 262144, 265330),
    ("huggingface", 422, {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 3474 "
        "`inputs` tokens and 60 `max_new_tokens`", "error_type": "validation"}, OVERFLOW, 2048, 3534),
    ("huggingface", None, {"error": "Model is overloaded", "error_type": "overloaded"}, "overloaded", None, None),
    ("cerebras", 400, openai("Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192",
        "invalid_request_error", "context_length_exceeded"), OVERFLOW, None, None),
    # Anthropic
    ("anthropic", 400, claude("invalid_request_error", "prompt is too long: 201130 tokens > 200000 maximum"), OVERFLOW, 200000, 201130),
    ("anthropic", None, claude("invalid_request_error", "input length and `max_tokens` exceed context limit: 196395 + 64000 > 204698"),
        OVERFLOW, 204698, 260395),
    ("anthropic", 400, claude("invalid_request_error", "messages: roles must alternate"), "invalid_request", None, None),
    ("anthropic", 400, claude("invalid_request_error", "Your credit balance is too low to access the Anthropic API."), "quota_exceeded", None, None),
    ("anthropic", 400, claude("invalid_request_error", "Output blocked by content filtering policy"), "content_policy", None, None),
    ("anthropic", 401, claude("authentication_error", "invalid x-api-key"), "unauthorized", None, None),
    ("anthropic", 402, claude("billing_error"), "quota_exceeded", None, None),
    ("anthropic", 403, claude("permission_error"), "unauthorized", None, None),
    ("anthropic", 404, claude("not_found_error", "model: x"), "not_found", None, None),
    ("anthropic", 413, claude("request_too_large", "Request exceeds the maximum size"), OVERFLOW, None, None),
    ("anthropic", 429, claude("rate_limit_error", "This request would exceed your rate limit"), "rate_limited", None, None),
    ("anthropic", 429, claude("rate_limit_error", "You have reached your API usage limits",
        details={"error_code": "enforced_spend_limit_reached"}), "quota_exceeded", None, None),
    ("anthropic", 500, claude("api_error"), None, None, None),
    ("anthropic", 529, claude("overloaded_error", "Overloaded"), "overloaded", None, None),
    ("anthropic", None, claude("overloaded_error", "Overloaded"), "overloaded", None, None),
    # Gemini
    ("gemini", 400, google(400, "INVALID_ARGUMENT", "The input token count (1200293) exceeds the maximum number of tokens "
        "allowed (1048576)."), OVERFLOW, 1048576, 1200293),
    ("gemini", 400, google(400, "INVALID_ARGUMENT", "The input token count exceeds the maximum number of tokens allowed (1048576)."),
        OVERFLOW, 1048576, None),
    ("gemini", 400, google(400, "INVALID_ARGUMENT", "API key not valid.", {"reason": "API_KEY_INVALID"}), "unauthorized", None, None),
    ("gemini", 400, google(400, "INVALID_ARGUMENT", "Bad."), "invalid_request", None, None),
    ("gemini", 403, google(403, "PERMISSION_DENIED"), "unauthorized", None, None),
    ("gemini", 404, google(404, "NOT_FOUND"), "not_found", None, None),
    ("gemini", 429, google(429, "RESOURCE_EXHAUSTED", SPENT, quota("GenerateContentInputTokensPerModelPerMinute-FreeTier"), RETRY),
        "rate_limited", None, None),
    ("gemini", 429, google(429, "RESOURCE_EXHAUSTED", SPENT, quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier"), RETRY),
        "quota_exceeded", None, None),
    ("gemini", 429, google(429, "RESOURCE_EXHAUSTED", "Quota exceeded for metric: x, limit: 0, model: gemini-2.5-pro"),
        "quota_exceeded", None, None),
    ("gemini", None, google(503, "UNAVAILABLE", "The model is overloaded."), "overloaded", None, None),
    ("gemini", None, google(500, "INTERNAL"), None, None, None),
    # Bedrock
    ("bedrock_converse", None, {"throttlingException": {"message": "Too many tokens, please wait before trying again."}},
        "rate_limited", None, None),
    ("bedrock_converse", None, {"throttlingException": {"message": "Too many tokens per day, please wait before trying again."}},
        "quota_exceeded", None, None),
    ("bedrock_converse", None, {"serviceQuotaExceededException": {"message": "No."}}, "quota_exceeded", None, None),
    ("bedrock_converse", None, {"modelNotReadyException": {"message": "No."}}, "overloaded", None, None),
    ("bedrock_converse", None, {"internalServerException": {"message": "No."}}, None, None, None),
    ("bedrock_converse", None, {"validationException": {"message": "Bad."}}, "invalid_request", None, None),
    ("bedrock_converse", 400, {"message": "Input is too long for requested model."}, OVERFLOW, None, None),
    ("bedrock_converse", None, {"validationException": {"message": "The model returned the following errors: prompt is too long: "
        "207848 tokens > 200000 maximum"}}, OVERFLOW, 200000, 207848),
    ("bedrock_converse", None, {"modelStreamErrorException": {"message": "Input Tokens Exceeded: Number of input tokens exceeds "
        "maximum length."}}, OVERFLOW, None, None),
    ("bedrock_converse", 403, {"message": "No access", "__type": "com.amazon.coral.service#AccessDeniedException"}, "unauthorized", None, None),
    ("bedrock_invoke", None, {"throttlingException": {"message": "Too many requests"}}, "rate_limited", None, None),
    ("bedrock_invoke", None, claude("overloaded_error", "Overloaded"), "overloaded", None, None),
    ("bedrock_invoke", 400, {"message": "prompt is too long: 207848 tokens > 200000 maximum"}, OVERFLOW, 200000, 207848),
    # Cohere and Ollama
    ("cohere", 400, {"message": "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292."},
        OVERFLOW, 4081, 4292),
    ("cohere", 400, {"message": "too many tokens: max tokens must be less than or equal to 4096"}, "invalid_request", None, None),
    ("cohere", 429, {"message": "You are using a Trial key, which is limited to 40 API calls / minute."}, "rate_limited", None, None),
    ("cohere", 429, {"message": "You are using a Trial key, which is limited to 1000 API calls / month."}, "quota_exceeded", None, None),
    ("cohere", 401, {"message": "invalid api token"}, "unauthorized", None, None),
    ("ollama", 404, {"error": "model 'x' not found, try pulling it first"}, "not_found", None, None),
    ("ollama", None, {"error": "model 'x' not found"}, "not_found", None, None),
    ("ollama", 400, {"error": "prompt too long; exceeded max context length by 12 tokens"}, OVERFLOW, None, None),
    ("ollama", 429, {"error": "you (x) have reached your weekly usage limit, upgrade for higher limits"}, "quota_exceeded", None, None),
    ("ollama", 503, {"error": "server busy, please try again. maximum pending requests exceeded"}, "overloaded", None, None),
]  # fmt: skip


def _turns(provider: str, status: int | None, body: dict[str, Any]) -> list[Turn]:
    """Return the turns of an error: of an HTTP response, or within a stream as bytes and as a dict."""
    data = json.dumps(body).encode()
    if status is not None:
        return [
            wire_streams.run(provider, pieces, response=(status, {}))[0] for pieces in ([data], [data[:9], data[9:]])
        ]
    framing = providers.get(provider).package.rpartition(".")[2]
    return [
        wire_streams.run(provider, pieces)[0] for pieces in ([wire_streams.framed(framing, [body], done=False)], [body])
    ]


@pytest.mark.parametrize(("provider", "status", "body", "code", "limit", "requested"), ERRORS)
def test_errors_are_classified(
    provider: str, status: int | None, body: dict[str, Any], code: str | None, limit: int | None, requested: int | None
) -> None:
    for turn in _turns(provider, status, body):
        assert turn.error is not None
        assert turn.error.kind == "provider_error"
        assert (turn.error.code, turn.error.limit, turn.error.requested) == (code, limit, requested), turn.error


@pytest.mark.parametrize("provider", providers.names())
@pytest.mark.parametrize(
    ("status", "code"),
    [(400, "invalid_request"), (401, "unauthorized"), (402, "quota_exceeded"), (403, "unauthorized"), (404, "not_found"),
     (413, "context_overflow"), (422, "invalid_request"), (429, "rate_limited"), (500, None), (502, None),
     (503, "overloaded"), (529, "overloaded")],
)  # fmt: skip
def test_the_status_alone_classifies_an_error(provider: str, status: int, code: str | None) -> None:
    for body in (b"", b"{}", b"<html>nginx</html>", b"upstream error"):
        turn, _ = wire_streams.run(provider, [body] if body else [], response=(status, {}))
        assert turn.error is not None
        assert (turn.error.kind, turn.error.status, turn.error.code) == ("provider_error", status, code)


def test_other_kinds_of_errors_have_no_code() -> None:
    for data in (b"<html>429</html>", b'data: {"choices": [', b""):
        turn, _ = wire_streams.run("openai_chat", [data])
        assert turn.error is not None
        assert turn.error.code is None


def test_a_raised_error_has_the_status_and_the_code_in_its_text() -> None:
    turn, _ = wire_streams.run("openai_chat", [json.dumps(openai("Slow down.")).encode()], response=(429, {}))
    with pytest.raises(StreamInterrupted) as raised:
        turn.raise_for_error()
    assert str(raised.value) == "provider_error: Slow down. (HTTP status 429, rate_limited)"
    without_body, _ = wire_streams.run("openai_chat", [], response=(500, {}))
    assert without_body.error is not None
    assert str(StreamInterrupted(without_body.error)) == "provider_error: HTTP status 500"
    assert str(StreamInterrupted(StreamError("transport_error", "reset"))) == "transport_error: reset"


def test_a_plugins_own_code_is_kept() -> None:
    error = StreamError("provider_error", "No.", code="content_policy", status=429)
    assert ErrorRules().classify(error) is error


def test_hostile_error_objects_do_not_raise() -> None:
    deep: Any = "prompt is too long"
    for _ in range(2000):
        deep = {"error": deep}
    wide = {"error": [{"code": "x" * 10000, "message": "y" * 100000, "type": number} for number in range(5000)]}
    for raw in (
        deep,
        wide,
        {"error": {1: 2, "code": {"code": True}, "n_ctx": "x" * 5000}},
        {"n_ctx": -1},
        [[[]]],
        None,
        7,
    ):
        for provider in ("openai_chat", "anthropic", "gemini", "cohere", "ollama", "bedrock_invoke"):
            classified = providers.get(provider).traits.classify_error(StreamError("provider_error", "x", raw=raw))
            assert classified.limit is None


def test_rules_are_added_with_the_later_ones_first() -> None:
    base = ErrorRules(codes={"a": "rate_limited", "b": "not_found"}, messages=(MessageRule("invalid_request", "x"),))
    rules = base + ErrorRules(codes={"A": "overloaded"}, messages=(MessageRule("quota_exceeded", "x"),))
    assert rules.classify(StreamError("provider_error", "x")).code == "quota_exceeded"
    assert rules.classify(StreamError("provider_error", "y", raw={"code": "b"})).code == "not_found"
