"""How much of a limit a JSON value uses: about the characters of its JSON, and more for what is small as text.

An empty list is two characters and 64 bytes of memory. So containers and entries count additionally, and memory is at
most about ten times what is counted.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

__all__ = ["CONTAINER_SIZE", "ENTRY_SIZE", "json_size", "measure_encoded", "measure_json", "structure_size"]

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
