"""The marks by which messages of Chat Completions are recognized."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamkit.message_format import FOREIGN, OWN, POSSIBLE, Rating, rate_parts

__all__ = ["rate_message"]

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_OWN_FIELDS = frozenset(
    {
        "tool_call_id",
        "function_call",
        "refusal",
        "audio",
        "reasoning_content",
        "reasoning_details",
        "reasoning_opaque",
        "reasoning_text",
        "thinking_blocks",
    }
)
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
