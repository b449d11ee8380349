"""Declared facts of Anthropic's Messages API."""

from __future__ import annotations

import re
from typing import Any, Final

from streamkit.calls import FinishReason
from streamkit.providers.anthropic.errors import ERRORS
from streamkit.providers.anthropic.message_format import rate_message
from streamkit.providers.claude_models import CLAUDE_MODELS
from streamkit.providers.detection import HeadChunk, HeadMatcher
from streamkit.providers.endpoint import Endpoint
from streamkit.providers.output_form import OLDER_CLAUDE, OutputSupport
from streamkit.providers.provider import Traits
from streamkit.providers.tool_schema import ToolSchemaRules
from streamkit.target_ids import IdRule, prefixed_ids, safe_up_to

__all__ = ["FINISH_REASONS", "TRAITS"]

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


TRAITS = Traits(
    name="anthropic",
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
    event_name_field="type",
    heartbeat=b'event: ping\ndata: {"type": "ping"}\n\n',  # https://docs.anthropic.com/en/docs/build-with-claude/streaming
    # 400 "input_schema does not support oneOf, allOf, or anyOf at the top level" (anthropics/claude-code#40075)
    tool_schema=ToolSchemaRules(refused_at_root=frozenset({"anyOf", "oneOf", "allOf"}), numeric_bounds=True),
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
        count_path="/v1/messages/count_tokens",
        count_route=r"/v1/messages/count_tokens",
        response_id=("msg_01", 22),
        call_id=("toolu_01", 22),
    ),
)
