"""The marks by which Gemini's contents are recognized."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamkit.message_format import FOREIGN, OWN, POSSIBLE, Rating

__all__ = ["rate_message"]


def rate_message(message: Mapping[str, Any]) -> Rating:
    """Return whether a content is Gemini's: its parts have no field ``type``, which those of other formats have."""
    parts = message.get("parts")
    if message.get("role") not in ("user", "model", "function", None) or message.get("content") is not None:
        return FOREIGN
    if not parts:
        return POSSIBLE if "parts" in message else FOREIGN
    listed = parts if isinstance(parts, list) else [parts]
    return FOREIGN if any(isinstance(part, dict) and "type" in part for part in listed) else OWN
