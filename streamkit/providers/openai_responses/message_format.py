"""The marks by which items of the Responses API are recognized."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamkit.message_format import FOREIGN, OWN, POSSIBLE, Rating, rate_parts

__all__ = ["rate_message"]

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
