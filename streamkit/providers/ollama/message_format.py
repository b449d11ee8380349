"""The marks by which Ollama's messages are recognized."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamkit.message_format import FOREIGN, OWN, POSSIBLE, Rating

__all__ = ["rate_message"]


def rate_message(message: Mapping[str, Any]) -> Rating:
    """Return whether a message is Ollama's: its content is text, and the arguments of its calls are objects."""
    if message.get("role") not in ("system", "user", "assistant", "tool") or "type" in message or "parts" in message:
        return FOREIGN
    if not isinstance(message.get("content"), (str, type(None))):
        return FOREIGN
    has_own = any(message.get(name) is not None for name in ("images", "tool_name", "thinking"))
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        arguments = function.get("arguments") if isinstance(function, dict) else None
        if isinstance(arguments, str):
            return FOREIGN
        has_own = has_own or isinstance(arguments, dict)
    return OWN if has_own else POSSIBLE
