"""The meaning of errors on Chat Completions, of all dialects together.

Gateways pass on the errors of the servers behind them. Each name and message has its source. This module must not
depend on chunks.
"""

from __future__ import annotations

from typing import Final

from streamkit.providers.contract.error_rules import ErrorRules, MessageRule
from streamkit.providers.decoding.openai_errors import ERRORS as OPENAI

__all__ = ["ERRORS"]

ERRORS: Final = OPENAI + ErrorRules(
    codes={
        # Azure: https://learn.microsoft.com/en-us/azure/ai-foundry/openai/concepts/content-filter
        "responsibleaipolicyviolation": "content_policy",
        "content_filter_result": "content_policy",
        "deploymentnotfound": "not_found",
        "permissiondenied": "unauthorized",
        # Anthropic behind gateways: https://docs.anthropic.com/en/api/errors
        "overloaded_error": "overloaded",
        "billing_error": "quota_exceeded",
        "request_too_large": "context_overflow",
        # https://openrouter.ai/docs/api/reference/errors-and-debugging, and the names of
        # https://openrouter.ai/docs/client-sdks/python/components/apierrortype
        "authentication": "unauthorized",
        "permission_denied": "unauthorized",
        "payment_required": "quota_exceeded",
        "token_limit_exceeded": "quota_exceeded",
        "provider_overloaded": "overloaded",
        "provider_unavailable": "overloaded",
        "not_found": "not_found",
        "payload_too_large": "context_overflow",
        "flagged_input": "content_policy",
        "invalid_request": "invalid_request",
        "unprocessable": "invalid_request",
        "string_too_long": "invalid_request",
        # Mistral: "Service tier capacity exceeded for this model." with status 429 and code 3505
        "service_tier_capacity_exceeded": "rate_limited",
        "rate_limited": "rate_limited",
        "invalid_model": "not_found",
        # Kimi: MoonshotAI/Kimi-K2#5, https://forum.moonshot.ai/t/429-insufficient-balance/244
        "exceeded_current_quota_error": "quota_exceeded",
        "engine_overloaded_error": "overloaded",
        "rate_limit_reached_error": "rate_limited",
        "invalid_authentication_error": "unauthorized",
        "resource_not_found_error": "not_found",
        # DashScope: https://www.alibabacloud.com/help/en/model-studio/error-code
        "arrearage": "quota_exceeded",
        "datainspectionfailed": "content_policy",
        "data_inspection_failed": "content_policy",
        "invalidapikey": "unauthorized",
        "accessdenied": "unauthorized",
        "accessdenied.unpurchased": "unauthorized",
        "modelnotfound": "not_found",
        "throttling": "rate_limited",
        "throttling.ratequota": "rate_limited",
        "throttling.allocationquota": "rate_limited",
        "invalidparameter": "invalid_request",
        "invalid_parameter_error": "invalid_request",
        "badrequest.toolarge": "context_overflow",
        "allocationquota.freetieronly": "quota_exceeded",
        # Volcengine's Ark (Doubao): https://docs.byteplus.com/en/docs/ModelArk/1299023
        "accountoverdueerror": "quota_exceeded",
        "operationdenied.serviceoverdue": "quota_exceeded",
        "setlimitexceeded": "quota_exceeded",
        "quotaexceeded": "quota_exceeded",
        "sensitivecontentdetected": "content_policy",
        "sensitivecontentdetected.severeviolation": "content_policy",
        "sensitivecontentdetected.violence": "content_policy",
        "inputtextsensitivecontentdetected": "content_policy",
        "inputimagesensitivecontentdetected": "content_policy",
        "outputtextsensitivecontentdetected": "content_policy",
        "serveroverloaded": "overloaded",
        # new-api and one-api, with status 403 (popjane/free_chatgpt_api#78)
        "insufficient_user_quota": "quota_exceeded",
        "pre_consume_token_quota_failed": "quota_exceeded",
        "sensitive_words_detected": "content_policy",
        "budget_exceeded": "quota_exceeded",  # LiteLLM's proxy with status 400, its ProxyErrorTypes
        "quota_exceeded": "quota_exceeded",  # GitHub Copilot
        "censorship_blocked": "content_policy",  # StepFun with status 451
        # llama.cpp: ggml-org/llama.cpp#15780
        "exceed_context_size_error": "context_overflow",
        "unavailable_error": "overloaded",
        # vLLM names its errors by the status
        "badrequesterror": "invalid_request",
        "notfounderror": "not_found",
        # text-generation-inference: https://huggingface.co/docs/text-generation-inference/reference/api_reference
        "overloaded": "overloaded",
        "validation": "invalid_request",
    },
    counts={"n_ctx": "limit", "n_prompt_tokens": "requested"},  # llama.cpp
    statuses={498: "overloaded"},  # Groq's "Flex Tier Capacity Exceeded", https://console.groq.com/docs/errors
    messages=(
        # "However, you requested 2000 output tokens and your prompt contains 3000 input tokens", of vLLM
        MessageRule(
            "context_overflow",
            r"maximum context length is (?P<limit>[\d,]+) tokens"
            r"[^0-9]{1,80}requested (?P<output>[\d,]+) output tokens[^0-9]{1,80}contains(?: at least)? "
            r"(?P<requested>[\d,]+)",
        ),
        # "This model's maximum context length is 4096 tokens and your request has 2104 input tokens (2000 > ...)"
        MessageRule(
            "context_overflow",
            r"maximum context length is (?P<limit>[\d,]+) tokens and your request has (?P<requested>[\d,]+)",
        ),
        # "The input (265330 tokens) is longer than the model's context length (262144 tokens)", of Together
        MessageRule(
            "context_overflow",
            r"input \((?P<requested>[\d,]+) tokens\) is longer than the model'?s context length \((?P<limit>[\d,]+)",
        ),
        # "Input length (265330) exceeds model's maximum context length (262144)"
        MessageRule(
            "context_overflow",
            r"input length \(?(?P<requested>[\d,]+)\)? exceeds (?:the )?(?:model'?s )?maximum "
            r"(?:context|allowed input) length(?: of)? \(?(?P<limit>[\d,]+)",
        ),
        MessageRule(
            "context_overflow",
            # "... of 256000 tokens. You requested a total of 256878 tokens" of SGLang (anomalyco/models.dev#4422)
            r"exceeds (?:the )?(?:model'?s )?maximum context length"
            r"(?: of (?P<limit>[\d,]+)(?: tokens\. You requested a total of (?P<requested>[\d,]+))?)?",
        ),
        # "The decoder prompt (length 21535) is longer than the maximum model length of 16384", of vLLM
        # (xorbitsai/inference#3785)
        MessageRule(
            "context_overflow",
            r"prompt \(length (?P<requested>[\d,]+)\) is longer than the maximum model length of (?P<limit>[\d,]+)",
        ),
        # "length of prompt_tokens (68957) must be less than max_seq_len (65536)", "max_total_tokens (33802) must be
        # less than or equal to max_seq_len (32768)", of SiliconFlow (chatboxai/chatbox#2060,
        # continuedev/continue#10993)
        MessageRule(
            "context_overflow",
            r"(?:prompt|max_total)_tokens \((?P<requested>\d+)\) must be less than (?:or equal to )?max_seq_len "
            r"\((?P<limit>\d+)\)",
        ),
        # Z.AI with the codes 1261 and 1210 (openclaw/openclaw#111744, earendil-works/pi#8991)
        MessageRule("context_overflow", r"prompt exceeds max length|tokens in request more than max tokens allowed"),
        # "the number of input tokens 4098 cannot exceed the total tokens limit 4096 for this model", of watsonx
        MessageRule(
            "context_overflow",
            r"input tokens (?P<requested>[\d,]+) cannot exceed the total tokens limit (?P<limit>[\d,]+)",
        ),
        # "The estimated number of input and maximum output tokens (155740) exceeded this model context window limit
        # (128000)", of Cloudflare's Workers AI
        MessageRule(
            "context_overflow",
            r"output tokens \((?P<requested>\d+)\) exceeded this model context window limit \((?P<limit>\d+)\)",
        ),
        # "This model's maximum prompt length is 256000 but the request contains 332986 tokens", of xAI
        MessageRule(
            "context_overflow",
            r"maximum prompt length is (?P<limit>[\d,]+)(?: but the request contains (?P<requested>[\d,]+))?",
        ),
        # "Prompt contains 170397 tokens and 0 draft tokens, too large for model with 131072 maximum context length"
        MessageRule(
            "context_overflow",
            r"prompt contains (?P<requested>[\d,]+) tokens.{0,60}?too large for model with (?P<limit>[\d,]+)",
        ),
        MessageRule("context_overflow", r"reduce the length of the messages or completion"),  # Groq
        # "the request exceeds the available context size", of llama.cpp
        MessageRule("context_overflow", r"exceeds the available context size"),
        # "Requested tokens (2285) exceed context window of 2048", of llama-cpp-python (abetlen/llama-cpp-python#385)
        MessageRule(
            "context_overflow",
            r"requested tokens \((?P<requested>[\d,]+)\) exceed context window of (?P<limit>[\d,]+)",
        ),
        # LM Studio: "Trying to keep the first 10136 tokens when context the overflows. However, the model is loaded
        # with context length of only 7866 tokens" (cline/cline#3664)
        MessageRule(
            "context_overflow",
            r"keep the first (?P<requested>[\d,]+) tokens when context.{0,80}?context length of only (?P<limit>[\d,]+)",
        ),
        MessageRule("context_overflow", r"greater than the context length"),
        # "prompt token count of 93854 exceeds the limit of 90000" (jjleng/copilot-more#35)
        MessageRule(
            "context_overflow",
            r"prompt token count of (?P<requested>[\d,]+) exceeds the limit of (?P<limit>[\d,]+)",
        ),
        # "Your request exceeded model token limit: 262144 (requested: 275000)", of Kimi
        MessageRule(
            "context_overflow",
            r"exceeded model token limit:? (?P<limit>[\d,]+)(?: \(requested: (?P<requested>[\d,]+))?",
        ),
        # "Range of input length should be [1, 983616]", of DashScope (QwenLM/qwen-code#3652)
        MessageRule("context_overflow", r"range of input length should be \[\d+, ?(?P<limit>[\d,]+)\]"),
        # huggingface/chat-ui#340 and huggingface/text-generation-inference#695
        MessageRule(
            "context_overflow",
            r"`max_new_tokens` must be <= (?P<limit>\d+)\. Given: (?P<requested>\d+) `inputs` tokens"
            r"(?: and (?P<output>\d+))?",
        ),
        MessageRule(
            "context_overflow", r"`inputs` must have less than (?P<limit>\d+) tokens\. Given: (?P<requested>\d+)"
        ),
        # Anthropic and Gemini behind gateways
        MessageRule(
            "context_overflow", r"prompt is too long(?:: (?P<requested>[\d,]+) tokens > (?P<limit>[\d,]+) maximum)?"
        ),
        MessageRule(
            "context_overflow",
            r"input token count(?: \((?P<requested>[\d,]+)\))? exceeds the maximum number of tokens allowed "
            r"\(?(?P<limit>[\d,]+)",
        ),
        # Bedrock's models behind Databricks and gateways (strands-agents/harness-sdk#1528)
        MessageRule(
            "context_overflow", r"input is too long for requested model|too many total text bytes", is_own=False
        ),
        MessageRule(
            "context_overflow",
            r"exceed context limit: (?P<requested>[\d,]+) \+ (?P<output>[\d,]+) > (?P<limit>[\d,]+)",
            is_own=False,
        ),
        MessageRule("context_overflow", r"context window exceeds limit"),  # MiniMax
        # xAI with status 429 or 403 (continuedev/continue#10373, Anantys-oss/koan#2412)
        MessageRule("quota_exceeded", r"used all available credits|run out of credits"),
        # DeepSeek, Z.AI (also in Chinese), OpenRouter; "Sorry, your account balance is insufficient" of SiliconFlow
        MessageRule(
            "quota_exceeded", r"insufficient (?:account )?(?:balance|credits)|balance is insufficient|余额不足"
        ),
        # Fireworks with status 412: "Account x is suspended, possibly due to reaching the monthly spending limit"
        MessageRule("quota_exceeded", r"reaching the monthly spending limit"),
        # MiniMax under status 200, with numbers that mean something else elsewhere (MiniMax-AI/cli#59,
        # https://platform.minimax.io/docs/api-reference/errorcode)
        MessageRule("unauthorized", r"^login fail|^not authorized"),
        MessageRule("rate_limited", r"^rate limit\b"),
        MessageRule("quota_exceeded", r"^usage limit exceeded"),
        MessageRule("content_policy", r"^(?:input|output) new_sensitive"),
        MessageRule("overloaded", r"model is overloaded"),  # text-generation-inference, in band
        MessageRule("content_policy", r"requires moderation"),  # OpenRouter with status 403
        # DeepSeek (deepseek-ai/awesome-deepseek-integration#13, 666ghj/BettaFish#691)
        MessageRule("content_policy", r"^content exists risk"),
        MessageRule("content_policy", r"content violates usage guidelines"),  # xAI with status 403
        # Z.AI's 1301, in English and Chinese: https://docs.z.ai/api-reference/api-code
        MessageRule(
            "content_policy",
            r"potentially unsafe or sensitive content|可能包含不安全或敏感内容",
        ),
    ),
)
