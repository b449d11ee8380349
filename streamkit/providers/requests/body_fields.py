"""The fields of a request's body, of which those that were read are taken away.

What remains is the ``unread`` of a `Request`. This module must not depend on a provider.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

__all__ = [
    "BodyFields",
    "asks_for_usage",
    "is_flag",
    "is_integer",
    "is_list",
    "is_number",
    "is_object",
    "is_text",
    "is_texts",
    "merge_fields",
]

_TEXT = frozenset({str})
Check: TypeAlias = Callable[[Any], bool]


def asks_for_usage(body: Any) -> bool:
    """Return True if a request of Chat Completions asks for a chunk without choices, with the token counts.

    Clients that do not ask read ``choices[0]`` of every chunk
    (https://platform.openai.com/docs/api-reference/chat/create, "stream_options"). Bodies of other wires have no such
    field.
    """
    options = body.get("stream_options") if isinstance(body, dict) else None
    return isinstance(options, dict) and options.get("include_usage") is True


def is_text(value: Any) -> bool:
    """Return True for text that is not empty."""
    return isinstance(value, str) and bool(value)


def is_flag(value: Any) -> bool:
    """Return True for a boolean."""
    return isinstance(value, bool)


def is_integer(value: Any) -> bool:
    """Return True for an integer that is no boolean."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Return True for a finite number that is no boolean."""
    return is_integer(value) or (isinstance(value, float) and value - value == 0)


def is_list(value: Any) -> bool:
    """Return True for a list."""
    return isinstance(value, list)


def is_texts(value: Any) -> bool:
    """Return True for a list of texts."""
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def is_object(value: Any) -> bool:
    """Return True for an object with text as names."""
    if not isinstance(value, dict):
        return False
    return _TEXT.issuperset(map(type, value)) or all(isinstance(name, str) for name in value)


def merge_fields(body: dict[str, Any], fields: dict[str, Any]) -> None:
    """Add fields to a body, also inside of its objects, which are copied. A field that is there stays."""
    for name, value in fields.items():
        if name not in body:
            body[name] = value
        elif isinstance(body[name], dict) and isinstance(value, dict):
            body[name] = dict(body[name])
            merge_fields(body[name], value)


class BodyFields:
    """The fields of a body that were not read yet. The body itself is not modified.

    Args:
        body: the decoded JSON body.

    Attributes:
        rest: the fields that remain.
    """

    def __init__(self, body: dict[str, Any]) -> None:
        self.rest: dict[str, Any] = dict(body)
        self._copies: list[dict[str, Any]] = [self.rest]  # the objects that may be changed

    def get(self, *path: str) -> Any:
        """Return the value at a path, which stays; None if there is none."""
        if path[0] not in self.rest:
            return None
        value: Any = self.rest
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return value

    def take(self, *path: str, check: Check | None = None) -> Any:
        """Take the value at a path away and return it, if it passes the check; otherwise return None and leave it.

        Null is taken away and means absent; an object that becomes empty is taken away too.
        """
        name, rest = path[-1], self.rest
        if path[0] not in rest:
            return None
        if len(path) == 1:
            value = rest[name]
            if value is not None and check is not None and not check(value):
                return None
            del rest[name]
            return value
        parent = self.get(*path[:-1])
        if not isinstance(parent, dict) or name not in parent:
            return None
        value = parent[name]
        if value is not None and check is not None and not check(value):
            return None
        owned = self._own(path[:-1])
        del owned[-1][name]
        for depth in range(len(owned) - 1, 0, -1):
            if owned[depth]:
                break
            del owned[depth - 1][path[depth - 1]]
        return value

    def put_back(self, name: str, value: Any) -> None:
        """Add a field of the body again: the part of it that was not read."""
        self.rest[name] = value

    def _own(self, path: Sequence[str]) -> list[dict[str, Any]]:
        """Return the objects on a path, each replaced by a copy before its first change."""
        owned = [self.rest]
        for name in path:
            child = owned[-1][name]
            if not any(child is copy for copy in self._copies):
                child = owned[-1][name] = dict(child)
                self._copies.append(child)
            owned.append(child)
        return owned
