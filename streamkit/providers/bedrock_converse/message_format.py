"""The marks by which messages of the Converse API are recognized."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamkit.message_format import FOREIGN, OWN, POSSIBLE, Rating

__all__ = ["rate_message"]


def rate_message(message: Mapping[str, Any]) -> Rating:
    """Return whether a message is of Converse: a list of parts without the field ``type``."""
    content = message.get("content")
    if message.get("role") not in ("user", "assistant", "system") or not isinstance(content, list):
        return FOREIGN
    if not all(isinstance(part, dict) and "type" not in part for part in content):
        return FOREIGN
    return OWN if content else POSSIBLE
