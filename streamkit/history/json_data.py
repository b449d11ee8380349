"""JSON data from any value: what history stores, and what a request contains.

A store, a provider's request and a JSON parser accept less than Python does: no half of a surrogate pair, no NaN, no
integer of more than 4300 digits (Python's own limit for text), no bytes or sets, no object that contains itself, and
no nesting that a reader refuses. ``to_json_data`` converts such values, and returns all other data as it is.

It must not depend on blocks, messages or providers.
"""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Callable, Mapping
from decimal import Decimal
from operator import is_
from typing import Any

from pydantic_core import to_jsonable_python

from streamkit.json_text import join_surrogates

__all__ = ["DEEPEST", "bytes_as_text", "convert_object", "describe_object", "safe_text", "to_json_data"]

#: The deepest nesting of data. Pydantic reads JSON of 200 levels, of which a content, a list of them and a run's state
#: take some.
DEEPEST = 180

_TOO_DEEP = "[nested too deeply]"
_CYCLE = "[the object that contains this]"
#: ``sys.set_int_max_str_digits`` limits texts to 4300 digits by default; readers of JSON have the same limit.
_BITS_OF_LONGEST_INTEGER = 14_280
#: An integer with more bits (50,000 digits) is described: the time for its text grows with the square of its length.
_BITS_OF_LONGEST_TEXT = 166_097

Convert = Callable[[Any], Any]


def to_json_data(value: Any, convert: Convert | None = None) -> Any:
    """Return a value as JSON data that can be written, sent and read again; the same object if it is that already.

    Halves of surrogate pairs become one character or U+FFFD, NaN and the infinities their names, integers of more than
    4300 digits their digits as text, keys text, tuples lists. What is nested more than 180 levels deep becomes its
    JSON text. An object inside itself is replaced by a text that states this.

    Args:
        value: any value.
        convert: returns data for an object that is neither text, number, dict nor list; default: `convert_object`.
            What it raises is raised.
    """
    return _to_data(value, convert or convert_object, [])


def _to_data(value: Any, convert: Convert, parents: list[int]) -> Any:
    kind = value.__class__
    if kind is str:
        return join_surrogates(value)
    if value is None or kind is bool:
        return value
    if kind is int:
        return value if value.bit_length() < _BITS_OF_LONGEST_INTEGER else _integer_text(value)
    if kind is float:
        return value if math.isfinite(value) else _float_name(value)
    if kind is not dict and kind is not list:
        return _to_data_of_other(value, convert, parents)
    if id(value) in parents:
        return _CYCLE
    if len(parents) >= DEEPEST:
        return _deep_text(value) if value else value
    parents.append(id(value))
    try:
        if kind is list:
            items = [_to_data(item, convert, parents) for item in value]
            return value if all(map(is_, items, value)) else items
        data = {_to_key(key, convert): _to_data(item, convert, parents) for key, item in value.items()}
        same = all(map(is_, data, value)) and all(map(is_, data.values(), value.values()))
        return value if same and len(data) == len(value) else data
    finally:
        parents.pop()


def _to_data_of_other(value: Any, convert: Convert, parents: list[int]) -> Any:
    """Return data for a value of another type than JSON's own, such as a subclass of one of these."""
    if isinstance(value, Mapping):
        return _to_data(dict(value), convert, parents)
    if isinstance(value, (list, tuple)):
        return _to_data(list(value), convert, parents)
    if id(value) in parents:
        return _CYCLE
    if len(parents) >= DEEPEST:
        return _TOO_DEEP
    parents.append(id(value))
    try:
        data = convert(value)
        return safe_text(data) if data is value else _to_data(data, convert, parents)
    finally:
        parents.pop()


def _deep_text(value: Any) -> str:
    """Return data that is nested too deeply as its JSON text; a remark if it has none."""
    try:
        return join_surrogates(json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False))
    except (RecursionError, TypeError, ValueError):
        return _TOO_DEEP


def _to_key(key: Any, convert: Convert) -> str:
    """Return a key as text."""
    if key.__class__ is str:
        return join_surrogates(key)
    data = _to_data(key, convert, [])
    if isinstance(data, str):
        return data
    if data is None or isinstance(data, bool):
        return {None: "None", True: "true", False: "false"}[data]  # as pydantic writes them
    return safe_text(data)


def _integer_text(value: int) -> str:
    bits = value.bit_length()
    if bits > _BITS_OF_LONGEST_TEXT:
        return f"[an integer of about {int(bits * math.log10(2))} digits]"
    return str(Decimal(value))  # without the limit of int, and faster


def _float_name(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def convert_object(value: Any) -> Any:
    """Return data for an object: as pydantic converts it, else its text. Nothing is raised."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes_as_text(bytes(value))
    try:
        return to_jsonable_python(value, fallback=safe_text, inf_nan_mode="constants", bytes_mode="base64")
    except Exception:  # whatever an object's own serializer raises
        return safe_text(value)


def bytes_as_text(value: bytes) -> str:
    """Return bytes as text if they are UTF-8, else as base64."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return b64encode(value).decode()


def safe_text(value: Any) -> str:
    """Return the text of any object; its type if it has none. Nothing is raised."""
    try:
        return str(value)
    except Exception:  # a broken __str__; an integer of more than 4300 digits
        return describe_object(value)


def describe_object(value: Any) -> str:
    """Return a name for an object in a sentence, such as ``an object of the type Socket``."""
    return f"an object of the type {type(value).__name__}"
