"""The marks by which messages of Anthropic's Messages API are recognized."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamkit.message_format import FOREIGN, OWN, POSSIBLE, Rating, rate_parts

__all__ = ["rate_message"]

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
