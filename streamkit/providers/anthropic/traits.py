"""Declared facts of Anthropic's Messages API: its errors, finish reasons, marks of its messages, and its traits.

This module must not depend on events.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from streamkit.calls import FinishReason
from streamkit.ids import IdRule, prefixed_ids, safe_up_to
from streamkit.providers.contract.error_rules import LITELLM_OVERFLOW, ErrorRules, MessageRule
from streamkit.providers.contract.output_form import OLDER_CLAUDE, OutputSupport
from streamkit.providers.contract.tool_schema import ToolSchemaRules
from streamkit.providers.contract.traits import Endpoint, SharedField
from streamkit.providers.decoding.detection import HeadChunk, HeadMatcher
from streamkit.providers.provider import Traits
from streamkit.providers.requests.models.claude import CLAUDE_MODELS
from streamkit.values.message_format import FOREIGN, OWN, POSSIBLE, Rating, rate_parts

__all__ = [
    "ERRORS",
    "FINISH_REASONS",
    "TRAITS",
    "rate_message",
]

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
_FOREIGN_FIELDS = frozenset(
    {"tool_calls", "tool_call_id", "tool_plan", "function_call", "parts", "images", "toolInvocations"}
)
_OWN_BLOCKS = ("tool_use", "tool_result", "redacted_thinking", "search_result", "container_upload")


def rate_message(message: Mapping[str, Any]) -> Rating:
    """Return whether a message is Anthropic's. A response of the API is a message, too, with the type ``message``."""
    if message.get("role") not in ("user", "assistant", "system") or message.get("type", "message") != "message":
        return FOREIGN
    if any(message[name] is not None for name in _FOREIGN_FIELDS & message.keys()):
        return FOREIGN
    return rate_parts(message.get("content"), _rate_block)


def _rate_block(block: Mapping[str, Any]) -> Rating:
    kind = block.get("type")
    if not isinstance(kind, str):
        return FOREIGN
    if kind in _OWN_BLOCKS or kind.endswith(("_tool_use", "_tool_result")):
        return OWN
    if kind in ("image", "document"):
        return OWN if isinstance(block.get("source"), dict) else FOREIGN
    if kind == "thinking":
        return OWN if isinstance(block.get("thinking"), str) else FOREIGN
    return POSSIBLE if kind == "text" else FOREIGN


#: The neutral reason of each ``stop_reason``. ``compaction`` is a pause: a client that sets
#: ``pause_after_compaction`` sends the turn back to continue it.
FINISH_REASONS: Final[dict[str, FinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
    "pause_turn": "pause",
    "compaction": "pause",
}
#: https://docs.anthropic.com/en/docs/build-with-claude/streaming#event-types, without ``ping`` and ``error``.
_EVENTS = frozenset(
    {
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    }
)


def _is_own(chunk: HeadChunk) -> bool:
    data = chunk.data
    kind = data.get("type", chunk.name)
    if kind == "error":  # https://docs.anthropic.com/en/api/errors; OpenAI's error objects have a code
        error = data.get("error")
        return isinstance(error, dict) and str(error.get("type")).endswith("_error") and "code" not in error
    if kind == "message":
        return "stop_reason" in data or data.get("role") == "assistant"
    return isinstance(kind, str) and kind in _EVENTS


# The platforms of the page below. Any other host of this wire has signatures of its own (vybestack/llxprt-code#1469).
_SHARED_HOSTS = re.compile(
    r"api\.anthropic\.com"
    r"|bedrock-runtime(?:-fips)?\.[a-z0-9-]+\.amazonaws\.com"
    r"|(?:[a-z0-9-]+-)?aiplatform(?:\.[a-z]+\.rep)?\.googleapis\.com"
)
# The names of one model on these platforms: claude-sonnet-4-5-20250929, claude-sonnet-4-5@20250929 (Vertex),
# us.anthropic.claude-sonnet-4-5-20250929-v1:0 and its ARN (Bedrock)
# (https://docs.anthropic.com/en/docs/about-claude/models/overview).
_PLATFORM_PREFIX = re.compile(r"(?:.*/)?(?:(?:[a-z]+(?:-gov)?\.)?anthropic\.)?(?=claude)")
_PLATFORM_SUFFIX = re.compile(r"-v\d+(?::\d+)?(?::\w+)?(?=\Z|@)|@default\Z")


def _normalize_model(name: str) -> str:
    match = _PLATFORM_PREFIX.match(name)
    if match is None:  # another vendor's model on this wire
        return name
    return _PLATFORM_SUFFIX.sub("", name[match.end() :]).replace("@", "-")


def _reasoning_state(state: str, has_text: bool) -> tuple[str | None, dict[str, Any]]:
    """Return the state as a signature, or without text as a redacted block: clients send both back unchanged."""
    return (state, {}) if has_text else (None, {"opaque": {"type": "redacted_thinking", "data": state}})


#: 400 "user_id appears to contain an email address", or a phone number (BerriAI/litellm#10106); at most 256 characters
#: (https://docs.anthropic.com/en/api/messages#body-metadata-user-id).
_USER = SharedField(("metadata", "user_id"), accepts=re.compile(r"(?!\+?[\d\s()-]{7,}\Z)[^@]{1,256}"))

TRAITS = Traits(
    name="anthropic",
    request_rules="streamkit.testing.rules.anthropic",
    system_field="system",
    # https://docs.anthropic.com/en/api/messages
    setting_fields={
        "temperature": ("temperature",),
        "top_p": ("top_p",),
        "top_k": ("top_k",),
        "stop": ("stop_sequences",),
    },
    max_temperature=1,  # "Ranges from `0.0` to `1.0`"
    models=CLAUDE_MODELS,
    illegal_in_name=re.compile(r"[^a-zA-Z0-9_-]"),
    signs_reasoning=True,  # https://platform.claude.com/docs/en/build-with-claude/extended-thinking
    reasoning_state=_reasoning_state,
    npm_names=("anthropic",),
    matches_head=HeadMatcher(_is_own),
    rate_message=rate_message,
    markup_families=frozenset(),
    # Signatures are "compatible across platforms (Claude APIs, Amazon Bedrock, and Vertex AI)",
    # https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking
    compatible=frozenset({"anthropic", "bedrock_invoke"}),
    id_rule=IdRule(
        "anthropic",
        safe_up_to(64),
        prefixed_ids("toolu_", 64),
        '400 "String should match pattern \'^[a-zA-Z0-9_-]+$\'" and "tool_use ids must be unique"'
        " (LibreChat-AI/agents#153, maximhq/bifrost#5097)",
    ),
    call_id_path=("content", "id"),
    shared_hosts=_SHARED_HOSTS,
    normalize_model=_normalize_model,
    batched_results=True,
    # A request that names the container of an earlier response continues in it
    # (https://reference.langchain.com/python/langchain-anthropic/chat_models/ChatAnthropic/container).
    content_metadata=frozenset({"container"}),
    shared_fields={"safety_identifier": _USER, "user": _USER},
    event_name_field="type",
    heartbeat=b'event: ping\ndata: {"type": "ping"}\n\n',  # https://docs.anthropic.com/en/docs/build-with-claude/streaming
    # 400 "input_schema does not support oneOf, allOf, or anyOf at the top level" (anthropics/claude-code#40075)
    tool_schema=ToolSchemaRules(refused_at_root=frozenset({"anyOf", "oneOf", "allOf"}), numeric_bounds=True),
    cache_marks=True,
    output=OutputSupport(has_field=True, not_of=OLDER_CLAUDE),
    classify_error=ERRORS.classify,
    endpoint=Endpoint(
        base_url="https://api.anthropic.com",
        path="/v1/messages",
        key_variables=("ANTHROPIC_API_KEY",),
        # The documented pair (https://docs.anthropic.com/en/api/overview) and the version whose streams the parser
        # reads; the SDK itself has begun to send newer ones.
        key_header=("x-api-key", "{}"),
        headers={"anthropic-version": "2023-06-01"},
        feature_headers=("anthropic-beta",),  # https://docs.anthropic.com/en/api/beta-headers
        default_limit=4096,  # the API refuses a request without it
        sdk_base_path="",
        route=r"/v1/messages",
        route_example="/v1/messages",
        request_id_header="request-id",
        # https://platform.claude.com/docs/en/api/rate-limits#response-headers; Claude Code reads those of subscriptions
        # (``anthropic-ratelimit-unified-*``), whose windows have no fixed names.
        limit_headers=("anthropic-ratelimit-", "anthropic-priority-", "anthropic-fast-", "x-should-retry"),
        models_path="/v1/models?limit=1000",
        further_paths={"/v1/messages/count_tokens": {"input_tokens": 0}},
        response_id=("msg_01", 22),
        call_id=("toolu_01", 22),
    ),
)
