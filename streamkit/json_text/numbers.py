"""Numbers of an unfinished JSON text. JSON has no infinity, and no provider accepts one again."""

from __future__ import annotations

import math
import re
from typing import Any

__all__ = ["has_infinity", "is_infinite", "parse_number"]

_LARGE_NUMBER = re.compile("[0-9][eE]|[0-9]{300}")


def parse_number(text: str) -> int | float:
    """Return the value of a JSON number; infinity if it is too large."""
    if "." not in text and "e" not in text and "E" not in text:
        try:
            return int(text)
        except ValueError:  # longer than sys.set_int_max_str_digits() allows
            pass
    return float(text)


def is_infinite(value: Any) -> bool:
    """Return True for a number that was too large."""
    return value.__class__ is float and math.isinf(value)


def has_infinity(text: str, value: Any) -> bool:
    """Return True if a value contains a number that was too large.

    Args:
        text: the JSON of the value; most texts show at once that all their numbers are small.
        value: the value.
    """
    if _LARGE_NUMBER.search(text) is None:
        return False
    level = [value]
    while level:
        if any(is_infinite(item) for item in level):
            return True
        containers = [item for item in level if item.__class__ is dict or item.__class__ is list]
        level = [inner for item in containers for inner in (item.values() if item.__class__ is dict else item)]
    return False
