"""The marks by which Cohere's messages are recognized."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamkit.message_format import FOREIGN, OWN, POSSIBLE, Rating, rate_parts

__all__ = ["rate_message"]


def rate_message(message: Mapping[str, Any]) -> Rating:
    """Return whether a message is Cohere's. Apart from plans and documents it is one of Chat Completions."""
    if message.get("role") not in ("system", "user", "assistant", "tool") or "type" in message or "parts" in message:
        return FOREIGN
    rating = rate_parts(message.get("content"), _rate_part)
    return OWN if rating != FOREIGN and message.get("tool_plan") is not None else rating


def _rate_part(part: Mapping[str, Any]) -> Rating:
    kind = part.get("type")
    if kind == "document":
        return OWN if isinstance(part.get("document"), dict) else FOREIGN
    if kind == "thinking":  # without the signature that Anthropic's has
        return POSSIBLE if isinstance(part.get("thinking"), str) and "signature" not in part else FOREIGN
    return POSSIBLE if kind in ("text", "image_url") else FOREIGN
