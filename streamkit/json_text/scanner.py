"""Where an object ends in a text, and how deep its brackets nest: told without reading what it holds."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["JsonObjectScanner", "deepest_nesting", "nests_deeper"]

_STRUCTURE = re.compile(r'["{}\[\]]')
_STRING_STOP = re.compile(r'["\\]')


class JsonObjectScanner:
    """Finds the end of the first top-level object of a text that comes in pieces.

    It counts braces outside of strings and judges nothing else: whether the text is JSON is decided once, at the end.
    It jumps from one structural character to the next, so a long string costs one search a piece.
    """

    __slots__ = ("_depth", "_escaped", "_in_string", "_offset", "closed_at", "deepest")

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False  # the last piece ended in a backslash inside a string
        self._offset = 0
        self.closed_at = -1  #: offset just behind the object's closing brace; -1 while it is open
        self.deepest = 0  #: how deep the brackets nested

    def feed(self, text: str) -> None:
        """Scan the next piece. Nothing more is scanned once the object is closed."""
        if self.closed_at >= 0:
            return
        at, end = 0, len(text)
        if self._escaped and end:
            at, self._escaped = 1, False
        while at < end:
            if self._in_string:
                stop = _STRING_STOP.search(text, at)
                if stop is None:
                    break
                at = stop.end()
                if stop[0] == '"':
                    self._in_string = False
                elif at == end:
                    self._escaped = True
                else:
                    at += 1
                continue
            mark = _STRUCTURE.search(text, at)
            if mark is None:
                break
            at = mark.end()
            character = mark[0]
            if character == '"':
                self._in_string = True
            elif character in "{[":
                self._depth += 1
                self.deepest = max(self.deepest, self._depth)
            else:
                self._depth -= 1
                if self._depth <= 0:
                    self.closed_at = self._offset + at
                    return
        self._offset += end


def nests_deeper(value: Any, limit: int) -> bool:
    """Whether dicts and lists stand within each other more than *limit* levels deep. Without recursion."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > limit + 1:
            return True
        held = [item for item in level if isinstance(item, (dict, list))]
        level = [inner for item in held for inner in (item.values() if isinstance(item, dict) else item)]
    return False


def deepest_nesting(text: str) -> int:
    """How deep the first value of a text nests; cheap where it holds few brackets (then an upper bound)."""
    brackets = text.count("{") + text.count("[")
    if brackets <= 256:
        return brackets
    scanner = JsonObjectScanner()
    scanner.feed(text)
    return scanner.deepest
