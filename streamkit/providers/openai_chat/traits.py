"""The declared facts of Chat Completions: its finish reasons, errors, ids, and the marks by which it is recognized.

They hold for all dialects together, whose differences are declared in ``dialects``. Gateways pass on the errors of the
servers behind them, so every dialect has the names and messages of all, each with its source.

This module must not depend on sinks or history: a parser loads it without pydantic.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, Final

from msgspec.structs import replace

from streamkit.calls import FinishReason
from streamkit.ids import IdRule, is_mistral_id, mistral_id_candidates, normalize_to_openai_tool_id, prefixed_ids
from streamkit.providers.contract.error_rules import ErrorRules, MessageRule
from streamkit.providers.decoding.detection import HeadChunk, HeadMatcher
from streamkit.providers.decoding.openai_errors import ERRORS as OPENAI
from streamkit.values.message_format import FOREIGN, OWN, POSSIBLE, Rating, rate_parts

__all__ = [
    "ERRORS",
    "FINISH_REASONS",
    "ILLEGAL_IN_NAME",
    "IMPLIED",
    "KIMI_IDS",
    "MISTRAL_IDS",
    "OPENAI_IDS",
    "OPENAI_SETTINGS",
    "REASONING_FIELDS",
    "REASONING_TEXT_FIELDS",
    "RULES_OF_MODELS",
    "SECOND_KEY",
    "SERVER_IDS",
    "SETTINGS",
    "SETTINGS_WITH_TOP_K",
    "call_state",
    "is_chat_stream",
    "rate_message",
    "reasoning_state",
    "signature_state",
]

#: The fields of a delta, and of a message, that contain reasoning as text. Servers that send several of them repeat the
#: same text (vLLM), so the first one with text counts. Each is a field of ``schema.Delta``.
REASONING_TEXT_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")

#: All fields that contain reasoning, the others of them as typed parts or as state.
REASONING_FIELDS = (*REASONING_TEXT_FIELDS, "reasoning_details", "thinking_blocks", "reasoning_opaque")

#: The key of ``function_call``, which some servers send beside the same call in ``tool_calls``.
SECOND_KEY = "function_call"

#: Values of ``finish_reason`` and their meaning, of all dialects together. Any other value means ``other``.
FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",  # Together
    "end_turn": "stop",  # Anthropic behind gateways
    "stop_sequence": "stop",
    "COMPLETE": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "tool_use": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",  # Mistral: the context is full
    "content_filter": "content_filter",
    "sensitive": "content_filter",  # Z.AI
    "refusal": "refusal",
    "pause_turn": "pause",
    "error": "error",
    "insufficient_system_resource": "error",  # DeepSeek
    "network_error": "error",  # Z.AI
    "api_error": "error",  # Portkey's gateway: the type of an error in Anthropic's stream, this and the next nine
    "authentication_error": "error",
    "billing_error": "error",
    "invalid_request_error": "error",
    "not_found_error": "error",
    "overloaded_error": "error",
    "permission_error": "error",
    "rate_limit_error": "error",
    "request_too_large": "error",
    "timeout_error": "error",
}

# ---------------------------------------------------------------- what is recognized as this wire

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_OWN_FIELDS = frozenset({"tool_call_id", "function_call", "refusal", "audio", *REASONING_FIELDS}) - {"reasoning"}
_OWN_PARTS = ("image_url", "input_audio", "video_url", "document_url", "refusal")


def rate_message(message: Mapping[str, Any]) -> Rating:
    """Return whether a message is of Chat Completions."""
    role = message.get("role")
    if not isinstance(role, str) or role not in _ROLES or "type" in message or "parts" in message:
        return FOREIGN
    rating = rate_parts(message.get("content"), _rate_part)
    if rating == FOREIGN:
        return FOREIGN
    if role == "function":
        return OWN
    if not _OWN_FIELDS.isdisjoint(message) and any(message[name] is not None for name in _OWN_FIELDS & message.keys()):
        return OWN
    calls, has_own = message.get("tool_calls"), False
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        has_own = has_own or (isinstance(function, dict) and isinstance(function.get("arguments"), str))
    return OWN if has_own else rating


def _rate_part(part: Mapping[str, Any]) -> Rating:
    kind = part.get("type")
    if kind in _OWN_PARTS or (kind in ("file", "thinking") and not isinstance(part.get(str(kind)), (str, type(None)))):
        return OWN
    return POSSIBLE if kind == "text" else FOREIGN


def _is_own(chunk: HeadChunk) -> bool:
    """Return True for a chat chunk or a complete chat response, and for no chunk of the legacy completions."""
    data, kind, choices = chunk.data, chunk.data.get("object"), chunk.data.get("choices")
    if chunk.name not in ("", "message") or chunk.framing not in ("sse", "json"):
        return False
    if kind in ("chat.completion.chunk", "chat.completion"):
        return True
    if "type" in data or not isinstance(choices, list):
        return False
    if choices and isinstance(choices[0], dict):
        return not kind and ("delta" in choices[0] or "message" in choices[0])
    return "prompt_filter_results" in data  # Azure's first chunk


def _is_conversation(chunk: HeadChunk) -> bool:
    """Return True for an event or a body of https://docs.mistral.ai/api/endpoint/beta/conversations."""
    kind = str(chunk.data.get("type", chunk.name))
    starts = ("conversation.response.", "message.output.", "tool.execution.", "agent.handoff.", "function.call.")
    return kind.startswith(starts) or chunk.data.get("object") == "conversation.response"


#: Returns True if a body with these first bytes can only be a chat stream or a complete chat response.
is_chat_stream: Final = HeadMatcher(_is_own, {"Mistral's Conversations API": _is_conversation})

# ---------------------------------------------------------------- ids


def _kimi_ids(id: str, name: str, number: int) -> Iterator[str]:
    return (f"functions.{name}:{running}" for running in count(number))


_make_short_ids = prefixed_ids("call_", 40, normalize_to_openai_tool_id)
OPENAI_IDS = IdRule(
    "openai_chat",
    lambda text: 0 < len(text) <= 40,
    _make_short_ids,
    "400 string_above_max_length, at most 40 (agno-agi/agno#5382, microsoft/autogen#6377, vercel/ai#5171)",
)

#: Other servers get back every id that they issued: vLLM's have 46 characters (chatcmpl-tool-...), those of models
#: behind gateways have the model's own form, and LiteLLM puts thought signatures into them: "any client that normalizes
#: ids breaks the next turn" (BerriAI/litellm#16895, #37849).
SERVER_IDS = replace(
    OPENAI_IDS, name="openai_compatible", accepts=bool, source="a server accepts its own ids; else as openai_chat"
)

MISTRAL_IDS = IdRule(
    "mistral",
    is_mistral_id,
    mistral_id_candidates,
    '400 "must be a-z, A-Z, 0-9, with a length of 9" (langchain-ai/langchain#24668, anomalyco/opencode#1680)',
)

KIMI_IDS = IdRule(
    "kimi",
    bool,
    _kimi_ids,
    "the model was trained on functions.{name}:{running index} and degrades on other ids"
    " (vybestack/llxprt-code#713, vllm-project/vllm#21259)",
)

#: Gateways and self-hosted servers pass ids on to these models' templates, which check them.
RULES_OF_MODELS = {"mistral": MISTRAL_IDS, "kimi": KIMI_IDS}

# ---------------------------------------------------------------- requests

ILLEGAL_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]")

#: https://platform.openai.com/docs/api-reference/chat/create
SETTINGS = {
    "temperature": ("temperature",),
    "top_p": ("top_p",),
    "stop": ("stop",),
    "seed": ("seed",),
    "frequency_penalty": ("frequency_penalty",),
    "presence_penalty": ("presence_penalty",),
    "parallel_calls": ("parallel_tool_calls",),
}
OPENAI_SETTINGS = {**SETTINGS, "verbosity": ("verbosity",)}
SETTINGS_WITH_TOP_K = {**SETTINGS, "top_k": ("top_k",)}


def reasoning_state(state: str, has_text: bool) -> tuple[str | None, dict[str, Any]]:
    """Return the state as one of OpenRouter's details, which clients that know them send back."""
    return None, {"reasoning_details": [{"type": "reasoning.encrypted", "data": state, "format": "unknown"}]}


def signature_state(state: str, has_text: bool) -> tuple[str | None, dict[str, Any]]:
    """Return the state as the signature of a part of reasoning: ``ThinkChunk.signature`` of Mistral's SDKs."""
    return state, {}


def call_state(state: str) -> dict[str, Any]:
    """Return the state in the place of Google's thought signatures, which clients that know it send back."""
    return {"extra_content": {"streamkit": {"state": state}}}


#: Others store nothing and pad no chunk; the usage is always read.
IMPLIED: Final[dict[str, Any]] = {
    "store": False,
    "stream_options": {"include_usage": True, "include_obfuscation": False},
}

# ---------------------------------------------------------------- errors

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
