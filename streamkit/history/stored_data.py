"""JSON data as history stores it: any value, without halves of surrogate pairs.

It must not depend on blocks, messages or providers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from pydantic_core import to_jsonable_python

from streamkit.json_text import join_surrogates
from streamkit.values import json_data
from streamkit.values.json_data import Convert, bytes_as_text, safe_text

__all__ = ["are_plain_data", "is_plain_data", "to_stored_data"]

#: The deepest nesting of stored data. Pydantic reads JSON of 200 levels, of which a content, a list of them and a run's
#: state take some.
_DEEPEST = 180
#: How deep plain data is recognized, by one pass without copies. An object that contains itself is deeper.
_DEEPEST_PLAIN = 10
_TEXT = frozenset({str})
_PLAIN_IF_EMPTY = frozenset({dict, list, bool, type(None)})
_BITS_OF_PLAIN_INTEGER = 64


def to_stored_data(value: Any, convert: Convert | None = None) -> Any:
    """Return a value as JSON data that can be stored and sent; the same object if it is that already.

    The rules are those of ``values.json_data``. Halves of surrogate pairs become one character or U+FFFD: neither
    the bytes of JSON nor a request can contain them.

    Args:
        value: any value.
        convert: returns data for an object that is neither text, number, dict nor list; default: as pydantic converts
            it, else its text.
    """
    if value.__class__ is str:  # most fields of most blocks
        return value if value.isascii() else join_surrogates(value)
    if is_plain_data(value):
        return value
    return json_data.to_json_data(value, convert or _convert, deepest=_DEEPEST, read_text=join_surrogates)


def is_plain_data(value: Any) -> bool:
    """Return True for JSON data of few levels that needs no conversion; False if that is not known."""
    kind = value.__class__
    if kind is str:
        return value.isascii() or join_surrogates(value) is value
    if kind is int:
        return bool(value.bit_length() < _BITS_OF_PLAIN_INTEGER)
    return (kind in _PLAIN_IF_EMPTY and not value) or are_plain_data((value,))


def are_plain_data(values: Iterable[Any]) -> bool:
    """Return True if all values are JSON data of few levels that needs no conversion; False if that is not known.

    It is not known of objects that occur several times on one level, whose contents would be read as often.
    """
    level = values
    names: list[str] = []
    for _ in range(_DEEPEST_PLAIN):
        below: list[Any] = []
        containers: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is str:
                if not item.isascii() and join_surrogates(item) is not item:
                    return False
            elif kind is dict:
                containers.append(item)
                names += item
                below += item.values()
            elif item is None:
                continue
            elif kind is list:
                containers.append(item)
                below += item
            elif kind is int:
                if item.bit_length() >= _BITS_OF_PLAIN_INTEGER:
                    return False
            elif kind is float:
                if not math.isfinite(item):
                    return False
            elif kind is not bool:
                return False
        if not below:
            return not names or (_TEXT.issuperset(map(type, names)) and all(map(str.isascii, names)))
        if len(set(map(id, containers))) != len(containers):
            return False
        level = below
    return False


def _convert(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes_as_text(bytes(value))
    try:
        return to_jsonable_python(value, fallback=safe_text, inf_nan_mode="constants", bytes_mode="base64")
    except Exception:  # whatever an object's own serializer raises
        return safe_text(value)
