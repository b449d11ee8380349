"""Repair of surrogate pairs: two halves that were split become one character, a lone half becomes U+FFFD."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["join_half", "join_surrogates", "replace_lone_surrogates"]

_SURROGATE = re.compile("[\ud800-\udfff]")


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
    if "\ud800" <= text[-1] <= "\udbff":
        return join_surrogates(text[:-1]), text[-1]
    return join_surrogates(text), ""


def replace_lone_surrogates(value: Any) -> Any:
    """Return plain data with each half of a surrogate pair replaced by U+FFFD, so that it can be encoded."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {replace_lone_surrogates(key): replace_lone_surrogates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [replace_lone_surrogates(item) for item in value]
    return value
