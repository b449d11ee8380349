"""The indexes of calls, choices and blocks, by which servers distinguish them, in their one form.

This module must not depend on what has an index: parsers and the accumulator use it for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

__all__ = ["normalize_index"]

_INTEGER = re.compile(r"-?[0-9]{1,15}(?:\.0+)?")


def normalize_index(index: Any) -> Hashable:
    """Return an index in its one form: ``"0"``, ``0`` and ``0.0`` are 0, and None is an absent one.

    Servers in languages without integers, and gateways that keep numbers as text, send such indexes. A value that is no
    index (a fraction, a boolean, a list, an object, an empty text) is None, as if it was absent. Any other text, and
    any key that a parser made, is returned unchanged.
    """
    if index.__class__ is int:
        return int(index)
    if isinstance(index, str):
        text = index.strip()
        return int(text.partition(".")[0]) if _INTEGER.fullmatch(text) else text or None
    if isinstance(index, float) and index.is_integer():
        return int(index)
    return None if isinstance(index, (bool, float, list, dict)) else index
