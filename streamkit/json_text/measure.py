"""The extent of JSON: where an object ends in a text, how deeply it nests, and how much of a limit a value uses.

A value uses about the characters of its JSON, and more for what is small as text: an empty list is two characters and
64 bytes of memory. So containers and entries count additionally, and memory is at most about ten times what is counted.

The end and the depth of a text are found without decoding it.
"""

from __future__ import annotations

import math
import re
from typing import Any

import msgspec

__all__ = [
    "JsonObjectScanner",
    "deepest_nesting",
    "json_size",
    "measure_encoded",
    "measure_json",
    "nests_deeper",
    "structure_size",
]

_STRUCTURE = re.compile(r'["{}\[\]]')
_STRING_STOP = re.compile(r'["\\]')
_STRICT_STRUCTURE = re.compile(r'["{}\[\]]|[^ \t\r\n0-9+\-.eE:,truefalsn]')
_STRICT_STRING_STOP = re.compile(r'["\\\x00-\x1f]')


class JsonObjectScanner:
    """An incremental scanner that finds the end of the first top-level object of a text.

    It counts brackets outside of strings. Whether the text is JSON is decided once, at the end, by
    ``finalize_arguments``. It jumps from one structural character to the next, so that a long string costs one search
    per delta.

    Args:
        strict: stop at a character that JSON forbids at its position. This is for an object inside other text: without
            it, an invalid object would consume the text after it.

    Attributes:
        closed_at: the offset just behind the object's closing brace; -1 while the object is open.
        deepest: the nesting depth of the brackets so far.
        in_string: the next character is part of a string.
        is_invalid: a forbidden character was found; only with ``strict``.
    """

    __slots__ = ("_depth", "_escaped", "_offset", "_strict", "closed_at", "deepest", "in_string", "is_invalid")

    def __init__(self, *, strict: bool = False) -> None:
        self._depth = 0
        self._escaped = False  # the last delta ended in a backslash inside a string
        self._offset = 0
        self._strict = strict
        self.in_string: bool = False
        self.is_invalid: bool = False
        self.closed_at: int = -1
        self.deepest: int = 0

    @property
    def is_closed(self) -> bool:
        """True if the object's last brace was found."""
        return self.closed_at >= 0

    def feed(self, text: str) -> int:
        """Scan the next delta of the text. Nothing more is scanned once the object is closed or invalid.

        Returns:
            How many characters of this delta belong to the object.
        """
        if self.closed_at >= 0 or self.is_invalid:
            return 0
        structure, string_stop = (
            (_STRICT_STRUCTURE, _STRICT_STRING_STOP) if self._strict else (_STRUCTURE, _STRING_STOP)
        )
        at, end = 0, len(text)
        if self._escaped and end:
            at, self._escaped = 1, False
        while at < end:
            match = (string_stop if self.in_string else structure).search(text, at)
            if match is None:
                break
            at = match.end()
            character = match[0]
            if character == '"':
                self.in_string = not self.in_string
            elif self.in_string and character == "\\":
                self._escaped = at == end
                at += 1
            elif not self.in_string and character in "{[":
                self._depth += 1
                self.deepest = max(self.deepest, self._depth)
            elif not self.in_string and character in "}]":
                self._depth -= 1
                if self._depth <= 0:
                    self.closed_at = self._offset + at
                    return at
            else:
                self.is_invalid, self.in_string = True, False
                return at - 1
        self._offset += end
        return end


def nests_deeper(value: Any, limit: int) -> bool:
    """Return True if dicts and lists are nested more than *limit* levels deep, without recursion."""
    level: list[Any] = [[value]]
    depth = 0
    while level := [
        item
        for container in level
        for item in (container.values() if isinstance(container, dict) else container)
        if isinstance(item, (dict, list)) and item
    ]:
        depth += 1
        if depth > limit:
            return True
    return False


def deepest_nesting(text: str, few: int) -> int:
    """Return the nesting depth of the first value of a text; of one with so *few* brackets only an upper bound."""
    brackets = text.count("{") + text.count("[")
    if brackets <= few:
        return brackets
    scanner = JsonObjectScanner()
    scanner.feed(text)
    return scanner.deepest


CONTAINER_SIZE = 32  #: what a dict or a list counts beside its text
ENTRY_SIZE = 8  #: what each further entry of one counts beside its text

_encode = msgspec.json.Encoder(enc_hook=str).encode


def json_size(value: Any) -> int:
    """Return what a value counts against a limit. Brackets and commas within its texts count as if they were none."""
    return measure_json(value)[0]


def measure_json(value: Any) -> tuple[int, float]:
    """Return what a value counts against a limit, and at most how many containers are nested in it."""
    if value is None:
        return 0, 0
    if value.__class__ is str:
        return len(value) + CONTAINER_SIZE, 0
    try:
        text = _encode(value)
    except (ValueError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError):
        return _walk(value), math.inf
    return measure_encoded(text)


def measure_encoded(text: bytes) -> tuple[int, int]:
    """Return what ``measure_json`` returns for a value, of which this is the JSON as msgspec writes it."""
    brackets = text.count(b"{") + text.count(b"[")
    return len(text) + CONTAINER_SIZE * (brackets + 1) + ENTRY_SIZE * text.count(b","), brackets


def structure_size(text: str) -> int:
    """Return what the value of a JSON text counts beside the text."""
    return CONTAINER_SIZE * (text.count("{") + text.count("[")) + ENTRY_SIZE * text.count(",")


def _walk(value: Any) -> int:
    """Return the same of a value that is not valid JSON: lone surrogates, large integers, objects, deep nesting."""
    size, left = 0, [value]
    while left:
        item = left.pop()
        if isinstance(item, (str, bytes)):
            size += len(item) + CONTAINER_SIZE
        elif isinstance(item, dict):
            size += CONTAINER_SIZE
            left += item.keys()
            left += item.values()
        elif isinstance(item, (list, tuple)):
            size += CONTAINER_SIZE
            left += item
        elif isinstance(item, int):
            size += ENTRY_SIZE + item.bit_length() // 3
        else:
            size += CONTAINER_SIZE
    return size
