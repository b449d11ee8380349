"""The one text of an argument object, read as its JSON arrives.

A custom tool that is offered as a function is called with ``{"input": "..."}``, and its caller expects the text. The
text is passed on as far as it is known: an escape, and a surrogate pair of two escapes, only when it is complete.
"""

from __future__ import annotations

from typing import Any

from streamkit.json_text.finalize import finalize_arguments
from streamkit.json_text.incremental import IncrementalJsonObject

__all__ = ["TextArgument", "text_argument"]


class TextArgument:
    """The text of one member of a growing argument object. Its cost is linear in the text.

    Args:
        field: the name of the member.
    """

    __slots__ = ("_field", "_length", "_parser", "_parts", "_raw")

    def __init__(self, field: str) -> None:
        self._field = field
        self._parser = IncrementalJsonObject()
        self._length = 0
        self._parts: list[str] = []  # the text so far
        self._raw: list[str] = []  # the arguments, until their text begins

    def feed(self, delta: str) -> str:
        """Read the next delta of the arguments; return the text that it completes, ``""`` if it completes none."""
        self._parser.feed(delta)
        if not self._parts:
            self._raw.append(delta)
        text = self._parser.value.get(self._field)
        if not isinstance(text, str) or len(text) <= self._length:
            return ""
        more = text[self._length :]
        if self._parser.ends_in_half:
            more = more[:-1]
        self._length += len(more)
        if more:
            self._parts.append(more)
            self._raw.clear()
        return more

    def end(self) -> str:
        """Return the text of arguments in another form, of which nothing was returned so far; else ``""``."""
        raw, self._raw = "".join(self._raw), []
        if self._parts or not raw:
            return ""
        parsed = finalize_arguments(raw)
        if parsed.state != "complete":
            return ""
        text = text_argument(parsed.arguments, self._field)
        self._parts.append(parsed.text if text is None else text)
        return self._parts[0]

    def finish(self, text: str) -> str | None:
        """Return the rest of the final text; None if it does not begin with the text so far."""
        so_far = self.text
        if not text.startswith(so_far):
            return None
        rest = text[len(so_far) :]
        if rest:
            self._parts.append(rest)
        return rest

    @property
    def text(self) -> str:
        """The text that was returned so far."""
        return "".join(self._parts)


def text_argument(arguments: Any, field: str) -> str | None:
    """Return the text of complete arguments; None if they have another form.

    It is the text of the member, that of the only member, or ``""`` for an empty object.

    Args:
        arguments: the arguments of a call that was offered with one text.
        field: the name under which the text was asked for. Models now and then use another.
    """
    if isinstance(arguments, str):
        return arguments
    if not isinstance(arguments, dict):
        return None
    text = arguments.get(field) if arguments else ""
    if isinstance(text, str):
        return text
    values = list(arguments.values())
    return values[0] if len(values) == 1 and isinstance(values[0], str) else None
