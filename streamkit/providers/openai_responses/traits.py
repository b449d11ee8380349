"""The declared facts of OpenAI's Responses API: how responses end, and the marks by which its items are recognized.

This module must not depend on sinks or history: a parser loads it without pydantic.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from streamkit.calls import FinishReason
from streamkit.ids import IdRule, normalize_to_openai_tool_id, prefixed_ids, safe_up_to
from streamkit.providers.contract.output_form import OutputSupport
from streamkit.providers.contract.tool_schema import ToolSchemaRules
from streamkit.providers.contract.traits import Endpoint, SharedField
from streamkit.providers.decoding.detection import HeadChunk, HeadMatcher
from streamkit.providers.decoding.openai_errors import ERRORS
from streamkit.providers.openai_responses.output_items import is_reference
from streamkit.providers.provider import Traits
from streamkit.providers.requests.models.openai import OPENAI_FIELDS, OPENAI_MODELS
from streamkit.values.message_format import FOREIGN, OWN, POSSIBLE, Rating, rate_parts

__all__ = [
    "FINISH_REASONS",
    "TRAITS",
    "rate_message",
]

_ROLES = ("user", "assistant", "system", "developer")
_FOREIGN_FIELDS = frozenset(
    {"tool_calls", "tool_call_id", "tool_plan", "function_call", "parts", "images", "toolInvocations"}
)
_ITEMS = ("reasoning", "item_reference", "compaction", "mcp_list_tools", "mcp_approval_request")
_OWN_PARTS = ("input_text", "output_text", "input_image", "input_file", "input_audio", "refusal", "summary_text")


def rate_message(item: Mapping[str, Any]) -> Rating:
    """Return whether an item is one of the Responses API."""
    kind = item.get("type", "message")
    if not isinstance(kind, str):
        return FOREIGN
    if kind == "additional_tools":
        return OWN
    if kind != "message":
        is_item = kind in _ITEMS or kind.endswith(("_call", "_call_output", "_output", "_approval_response"))
        return OWN if is_item and "role" not in item else FOREIGN
    if item.get("role") not in _ROLES or any(item[name] is not None for name in _FOREIGN_FIELDS & item.keys()):
        return FOREIGN
    return rate_parts(item.get("content"), _rate_part)


def _rate_part(part: Mapping[str, Any]) -> Rating:
    kind = part.get("type")
    return OWN if kind in _OWN_PARTS else POSSIBLE if kind == "text" else FOREIGN


#: How a response can end: its ``status``, and for ``incomplete`` a colon and the ``reason`` in ``incomplete_details``.
#: An unknown status means ``other``, an unknown reason ``length``: whatever stopped the response, it is truncated.
FINISH_REASONS: dict[str, FinishReason] = {
    "completed": "stop",
    "incomplete:max_output_tokens": "length",
    "incomplete:max_tokens": "length",
    "incomplete:length": "length",
    "incomplete:max_messages": "length",
    # A client added input, and another response follows (https://developers.openai.com/api/docs/guides/steering).
    "incomplete:steered": "other",
    "incomplete:content_filter": "content_filter",
    "incomplete": "length",
    "failed": "error",
    "cancelled": "error",
}


def _is_own(chunk: HeadChunk) -> bool:
    kind = chunk.data.get("type", chunk.name)
    return chunk.data.get("object") == "response" or (isinstance(kind, str) and kind.startswith("response."))


def _normalize_body(body: dict[str, Any]) -> dict[str, Any]:
    """Return a body with a list of items as input: a text is a person's message."""
    items = body.get("input")
    return {**body, "input": [{"role": "user", "content": items}]} if isinstance(items, str) else body


def _stores_calls(body: dict[str, Any]) -> bool:
    """Return True if a body refers to items that the provider has."""
    if body.get("previous_response_id") or body.get("conversation"):
        return True
    items = body.get("input")
    return isinstance(items, list) and any(isinstance(item, dict) and is_reference(item) for item in items)


def _reasoning_state(state: str, has_text: bool) -> tuple[str | None, dict[str, Any]]:
    """Return the state as a signature, which the encoder writes as ``encrypted_content``."""
    return state, {}


TRAITS = Traits(
    name="openai_responses",
    request_rules="streamkit.testing.rules.openai_responses",
    system_field="instructions",
    normalize_body=_normalize_body,
    stores_calls=_stores_calls,
    setting_fields={
        "temperature": ("temperature",),
        "top_p": ("top_p",),
        "parallel_calls": ("parallel_tool_calls",),
        "verbosity": ("text", "verbosity"),
    },
    # Others store nothing and pad no event, and their state is in the client's field for encrypted content.
    implied_fields={
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "stream_options": {"include_obfuscation": False},
    },
    shared_fields={
        **OPENAI_FIELDS,
        "top_logprobs": SharedField(("top_logprobs",), {"include": ["message.output_text.logprobs"]}),
    },
    models=OPENAI_MODELS,
    illegal_in_name=re.compile(r"[^a-zA-Z0-9_-]"),
    custom_calls=True,  # https://platform.openai.com/docs/guides/function-calling#custom-tools
    tool_namespaces=True,
    signs_reasoning=True,  # https://developers.openai.com/api/docs/guides/reasoning: encrypted_content of each item
    reasoning_state=_reasoning_state,
    npm_names=("openai",),
    # https://platform.openai.com/docs/guides/reasoning#reasoning-summaries: the reasoning itself is never sent
    reasoning_kind="summary",
    matches_head=HeadMatcher(_is_own),
    rate_message=rate_message,
    markup_families=frozenset({"harmony"}),
    compatible=frozenset({"openai_responses"}),
    id_rule=IdRule(
        "openai_responses",
        safe_up_to(64),
        prefixed_ids("call_", 64, normalize_to_openai_tool_id),
        "400 string_above_max_length for call_id, at most 64 (openclaw/openclaw#31934, orchidfiles/ungate#26)",
    ),
    messages_field="input",
    call_id_path=("call_id",),
    event_name_field="type",
    # 400 "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"
    # (langchain-ai/langchainjs#9804)
    tool_schema=ToolSchemaRules(
        refused_at_root=frozenset({"anyOf", "oneOf", "allOf", "enum", "not"}), numeric_bounds=True
    ),
    image_details=True,
    output=OutputSupport(has_field=True),
    classify_error=ERRORS.classify,
    endpoint=Endpoint(
        base_url="https://api.openai.com/v1",
        path="/responses",
        key_variables=("OPENAI_API_KEY",),
        limit_field=("max_output_tokens",),
        route=r"(?:/.+)?/responses",
        route_example="/v1/responses",
        # https://platform.openai.com/docs/api-reference/responses/input-tokens
        further_paths={
            "/responses/input_tokens": {"object": "response.input_tokens", "input_tokens": 0},
            "/embeddings": None,
        },
        # Codex reads ``x-codex-primary-used-percent`` and others; further limits have names between these words
        # (https://github.com/openai/codex/blob/main/codex-rs/codex-api/src/rate_limits.rs).
        limit_headers=("x-ratelimit", "x-should-retry", "x-codex-"),
        response_id=("resp_", 50),
    ),
)
