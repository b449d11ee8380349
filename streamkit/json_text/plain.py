"""Plain data that every JSON writer can write and every reader can read again."""

from __future__ import annotations

import math
from typing import Any

from streamkit.json_text.surrogates import join_surrogates

__all__ = ["to_plain"]

_LARGEST = 10**4299  # Python and jiter read integers of at most 4,300 digits


def to_plain(value: Any) -> Any:
    """Return a copy of a value that is JSON: what JSON does not have is replaced.

    Infinities, NaN and integers of more than 4,300 digits become None, halves of surrogate pairs U+FFFD, tuples and
    other iterables of fixed order lists, and any other object its text.

    Args:
        value: plain data, nested at most a few hundred levels deep.
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
        return {join_surrogates(str(key)): to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    return join_surrogates(str(value))
