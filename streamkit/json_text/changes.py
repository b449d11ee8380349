"""The changes to a JSON value while its text grows, for a user interface that shows it.

Strings grow. Numbers and keywords are shown only when they are complete, because a prefix of one is another value:
``12.5`` is never shown as ``1``. It depends on no stream.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from streamkit.json_text.reader import STRING_STOP, JsonReader

__all__ = ["Change", "ChangeKind", "JsonChanges"]

ChangeKind: TypeAlias = Literal["set", "append", "end"]


class Change(Struct, frozen=True, gc=False):
    """A change to a JSON value at one path.

    Attributes:
        path: the keys and positions that lead to the value; ``()`` is the root.
        kind: ``set`` (the value begins: a complete number or keyword, ``{}``, ``[]``, or a string as far as it is
            there; it replaces what is at the path), ``append`` (the next part of the string), or ``end`` (the string,
            object or list is complete).
        value: the new value, the part to append, or the complete value, which is not to be changed.
    """

    path: tuple[str | int, ...]
    kind: ChangeKind
    value: Any


class JsonChanges(JsonReader):
    """A reader of one JSON value of any type that lists the changes of each delta.

    Attributes:
        changes: the list that receives the changes; the caller replaces it.
        ended_at: the offset in the last delta behind the root, -1 while the root is open. A number ends before the
            character that follows it.
    """

    __slots__ = ("_is_new", "_path", "_string_path", "_unsent", "changes", "ended_at")

    def __init__(self) -> None:
        super().__init__()
        self.changes: list[Change] = []
        self.ended_at: int = -1
        self._path: tuple[str | int, ...] = ()  # of the innermost container
        self._string_path: tuple[str | int, ...] = ()  # of the current string
        self._is_new = False  # no change of the current string is listed yet
        self._unsent = 0  # the index of the first of its parts that no change contains

    def feed(self, text: str) -> None:
        """Read the next delta, in which no surrogate pair is cut in two, and list its changes."""
        if self._step is JsonReader._text and not (self._buffer or self._in_key or self._is_new):
            if STRING_STOP.search(text) is None:  # most deltas: characters of a string alone
                self._parts.append(text)
                self._unsent += 1
                if text:
                    self.changes.append(Change(self._string_path, "append", text))
                return
        buffered = len(self._buffer)
        super().feed(text)
        if self.ended_at >= 0:
            self.ended_at -= buffered
        elif self._step is JsonReader._text and not self._in_key:
            part = "".join(self._parts[self._unsent :])
            self._unsent = len(self._parts)
            if part or self._is_new:
                self._list_part(part)

    @property
    def is_complete(self) -> bool:
        """True if the root is complete. A number is when another character follows it."""
        return self.ended_at >= 0 or (self._step is JsonReader._after_value and len(self._open) == 1)

    @property
    def open_containers(self) -> list[Any]:
        """The objects and lists that are open, outermost first."""
        return self._open[1:]

    @property
    def is_in_string(self) -> bool:
        """True if the text is inside a string value."""
        return self._step is JsonReader._text and not self._in_key

    @property
    def open_string(self) -> str | None:
        """The open string value as received so far; None if the text is not inside one."""
        if not self.is_in_string:
            return None
        if self._parts:
            self._grow()
        return self._string

    @property
    def string_path(self) -> tuple[str | int, ...]:
        """The path of the last string value that began."""
        return self._string_path

    @property
    def root(self) -> list[Any]:
        """The value as the only item of a list, without the open string's last parts; empty if there is none yet."""
        return self._root

    def _list_part(self, part: str) -> None:
        self.changes.append(Change(self._string_path, "set" if self._is_new else "append", part))
        self._is_new = False

    def _begin_value(self, value: Any) -> None:
        self._put(value)
        path = (*self._path, self._key) if len(self._open) > 1 else ()
        if value.__class__ is str:
            self._string_path, self._is_new = path, True
            return
        if value.__class__ is dict or value.__class__ is list:
            self._path = path
            value = value.copy()
        self.changes.append(Change(path, "set", value))

    def _end_value(self, value: Any) -> None:
        if value.__class__ is str:
            self.changes.append(Change(self._string_path, "end", value))
        else:
            self.changes.append(Change(self._path, "end", value))
            self._path = self._path[:-1]

    def _grow(self) -> None:
        part = "".join(self._parts[self._unsent :])
        if part or self._is_new:
            self._list_part(part)
        self._unsent = 0
        super()._grow()

    def _end_root(self, end: int) -> int:
        self.ended_at = end
        return super()._end_root(end)
