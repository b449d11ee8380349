"""Halves of surrogate pairs: two that were cut apart become one character, one that is alone becomes U+FFFD."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["join_surrogates", "replace_lone_surrogates"]

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def join_surrogates(text: str) -> str:
    """The text with surrogate pairs whole again that were cut in two between deltas; a lone half becomes U+FFFD."""
    if not text.isascii() and _LONE_SURROGATE.search(text):
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def replace_lone_surrogates(value: Any) -> Any:
    """Plain data with U+FFFD for each half of a surrogate pair that lost its other half, so that it can be written."""
    if isinstance(value, str):
        return _LONE_SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {replace_lone_surrogates(key): replace_lone_surrogates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [replace_lone_surrogates(item) for item in value]
    return value
