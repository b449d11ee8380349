"""Reading wire chunks: a strict fast decode first, and a lenient one where real streams need it.

A room describes its chunks as msgspec structs with typed containers and ``Any`` leaves. That decodes in about half the
time of decoding to dicts, and fails only where a container has another type than it should (a list that is an object).
Then ``shape`` fits what does fit and leaves the rest out, with a warning: one odd field must not lose a turn.
This file knows no vendor.
"""

from __future__ import annotations

import json
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct, structs

from streamkit.calls import StreamError
from streamkit.providers.sink import Sink

__all__ = [
    "as_integer",
    "as_text",
    "coerce",
    "compact_json",
    "convert",
    "decode",
    "error_message",
    "excerpt",
    "read_json",
]

Chunk = TypeVar("Chunk", bound=Struct)

_ABSENT: Any = object()


def decode(decoder: msgspec.json.Decoder[Chunk], data: bytes, sink: Sink) -> Chunk | None:
    """The chunk of one frame, or None where the frame held none: the sink was told why.

    A frame that is no JSON is a protocol error; JSON that is no object is an unknown chunk.
    """
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        if not data.strip():  # "data:" alone, which some gateways send to keep the connection
            sink.heartbeat()
            return None
    except RecursionError:
        sink.fail(StreamError("limit_exceeded", "a frame's JSON is nested too deeply", raw=excerpt(data)))
        return None
    try:
        value = read_json(data)
    except RecursionError:
        sink.fail(StreamError("limit_exceeded", "a frame's JSON is nested too deeply", raw=excerpt(data)))
        return None
    except ValueError as error:
        sink.fail(StreamError("protocol_error", f"a frame is no JSON ({error})", raw=excerpt(data)))
        return None
    return _coerce_chunk(value, decoder.type, sink)


def convert(data: Any, chunk_type: type[Chunk], sink: Sink) -> Chunk | None:
    """The chunk that a dict is. As ``decode``, for the doors that bring plain data."""
    try:
        return msgspec.convert(data, chunk_type)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return _coerce_chunk(data, chunk_type, sink)


def _coerce_chunk(value: Any, chunk_type: type[Chunk], sink: Sink) -> Chunk | None:
    if not isinstance(value, dict):
        sink.unknown(value)
        return None
    misfits: list[str] = []
    chunk = coerce(value, chunk_type, misfits)
    if misfits:
        sink.warn("unexpected_shape", f"left out, being of an unexpected type: {', '.join(misfits[:8])}")
    return chunk


def read_json(data: bytes | str) -> Any:
    r"""Any JSON value.

    msgspec refuses a lone surrogate (``"\\ud83d"``), which a server that cuts text by UTF-16 units does send; the
    standard library takes it.

    Raises:
        ValueError: it is no JSON.
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
        return json.loads(text)


def coerce(
    value: dict[str, Any], chunk_type: type[Chunk], misfits: list[str] | None = None, parent_path: str = ""
) -> Chunk:
    """A chunk of that type from a dict, without ever failing: what has the wrong type is left out.

    Args:
        value: plain data.
        chunk_type: a struct whose fields are ``Any``, structs, lists and dicts of such, or those or None.
        misfits: takes the paths of what was left out.
        at: the path of ``value``.
    """
    found: dict[str, Any] = {}
    hints = get_type_hints(chunk_type)
    for field in structs.fields(chunk_type):
        if field.encode_name not in value:
            continue
        path = f"{parent_path}.{field.encode_name}" if parent_path else field.encode_name
        fitted = _fit(value[field.encode_name], hints[field.name], misfits, path)
        if fitted is not _ABSENT:
            found[field.name] = fitted
    return chunk_type(**found)


def _fit(value: Any, expected_type: Any, misfits: list[str] | None, path: str) -> Any:
    origin = get_origin(expected_type)
    if expected_type is Any or (
        isinstance(expected_type, type) and not issubclass(expected_type, Struct) and isinstance(value, expected_type)
    ):
        return value
    if origin in (Union, UnionType):
        options = get_args(expected_type)
        if value is None and NoneType in options:
            return None
        return _fit(value, next(option for option in options if option is not NoneType), misfits, path)
    if origin is list and isinstance(value, list):
        (item,) = get_args(expected_type)
        fitted = [_fit(element, item, misfits, f"{path}[{n}]") for n, element in enumerate(value)]
        return [element for element in fitted if element is not _ABSENT]
    if origin is dict and isinstance(value, dict):
        return value
    if isinstance(expected_type, type) and isinstance(value, dict) and issubclass(expected_type, Struct):
        return coerce(value, expected_type, misfits, path)
    if misfits is not None:
        misfits.append(path)
    return _ABSENT


def as_text(value: Any) -> str | None:
    """A leaf as text: a non-empty string, or a number written out (ids are sometimes numbers); else None."""
    if value.__class__ is str:
        return value or None
    if value.__class__ is int and -(2**63) < value < 2**64:  # Python refuses to write out an int of thousands of digits
        return str(value)
    return None


def as_integer(value: Any) -> int | None:
    """A leaf as a count: an int, or a float that is one; else None."""
    if value.__class__ is int:
        return int(value)
    if value.__class__ is float and value.is_integer():
        return int(value)
    return None


def compact_json(value: Any) -> str:
    """A value as compact JSON text, not ASCII-escaped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def excerpt(data: bytes | str, size: int = 1024) -> str:
    """The beginning of something not understood, for an error's ``raw``."""
    text = data[: size * 4].decode("utf-8", "replace") if isinstance(data, bytes) else data
    return text[:size]


def error_message(raw: Any) -> str | None:
    """The sentence of an error body, by the shapes in which providers write it; None where there is none."""
    if isinstance(raw, list) and raw:
        raw = raw[0]
    if isinstance(raw, str):
        return raw.strip()[:500] or None
    if not isinstance(raw, dict):
        return None
    inner = raw.get("error", raw)
    if isinstance(inner, str):
        return inner
    if isinstance(inner, dict):
        for name in ("message", "detail", "Message", "error"):
            if isinstance(inner.get(name), str) and inner[name]:
                return str(inner[name])
    return None
