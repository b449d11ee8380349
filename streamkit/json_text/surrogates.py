"""Repair of surrogate pairs: two halves that were split become one character, a lone half becomes U+FFFD.

Plain data that every JSON writer can write and every reader can read again.
"""

from __future__ import annotations

import math
import re
from typing import Any

__all__ = ["join_half", "join_surrogates", "replace_lone_surrogates", "to_valid_json"]

_SURROGATE = re.compile(r"[\ud800-\udfff]")


def join_surrogates(text: str) -> str:
    """Return the text with split surrogate pairs joined to one character and each lone half replaced by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()  # a search for halves takes four times as long
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def join_half(half: str, text: str) -> tuple[str, str]:
    """Return the part of a delta that can be emitted, and the half of a pair at its end, which waits for the other.

    Args:
        half: the half that waits since the delta before, or "".
        text: the delta, not empty.
    """
    text = half + text
    if 0xD800 <= ord(text[-1]) <= 0xDBFF:
        return join_surrogates(text[:-1]), text[-1]
    return join_surrogates(text), ""


def replace_lone_surrogates(value: Any, left: int = 1000) -> Any:
    """Return plain data with each half of a surrogate pair replaced by U+FFFD, so that it can be encoded.

    Raises:
        RecursionError: there are more than ``left`` levels; compiled code would go on until the stack is used up.
    """
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if not left:
        raise RecursionError("the data is nested too deeply")
    if isinstance(value, dict):
        return {replace_lone_surrogates(key): replace_lone_surrogates(item, left - 1) for key, item in value.items()}
    if isinstance(value, list):
        return [replace_lone_surrogates(item, left - 1) for item in value]
    return value


_LARGEST = 10**4299  # Python and jiter read integers of at most 4,300 digits
_DEEPEST = 280  # levels that are copied: arguments have 256 at most, and each takes two calls


def to_valid_json(value: Any, left: int = _DEEPEST) -> Any:
    """Return a copy of a value that is JSON: what JSON does not have is replaced.

    Infinities, NaN and integers of more than 4,300 digits become None, halves of surrogate pairs U+FFFD, tuples and
    other iterables of fixed order lists, any other object its text, and what is below ``left`` levels None.
    """
    if isinstance(value, str):
        return join_surrogates(str(value))
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if -_LARGEST < value < _LARGEST else None
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, dict):
        return (
            {join_surrogates(str(key)): to_valid_json(item, left - 1) for key, item in value.items()} if left else None
        )
    if isinstance(value, (list, tuple)):
        return [to_valid_json(item, left - 1) for item in value] if left else None
    return join_surrogates(str(value))
