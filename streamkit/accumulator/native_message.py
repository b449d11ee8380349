"""A provider's own message of a call, which a parser passes along, with the arguments as far as received.

A parser passes the message of a call's start, whose arguments are empty or a first part. Where the arguments are in a
message is known for the forms of Chat Completions and Responses (``arguments``, a text) and of Anthropic and Gemini
(``input`` and ``args``, an object). Any other message is kept unchanged. This module must not depend on streams.
"""

from __future__ import annotations

from typing import Any

__all__ = ["message_with_arguments"]

_NESTED = ("function", "functionCall", "tool_calls")


def message_with_arguments(message: Any, text: str, arguments: Any) -> Any:
    """Return a copy of a call's message that has these arguments; a value of another form is returned unchanged.

    Args:
        message: a dict, or a list of which the last dict is that of the call.
        text: the argument text so far.
        arguments: the arguments of a complete call; else None.
    """
    if isinstance(message, list) and message:
        return [*message[:-1], message_with_arguments(message[-1], text, arguments)]
    if not isinstance(message, dict):
        return message
    copy = dict(message)
    for name in _NESTED:
        if name in copy:
            copy[name] = message_with_arguments(copy[name], text, arguments)
    if isinstance(copy.get("arguments"), str):
        copy["arguments"] = text
    for name in ("input", "args"):
        if isinstance(copy.get(name), dict) and isinstance(arguments, dict):
            copy[name] = arguments
    return copy
