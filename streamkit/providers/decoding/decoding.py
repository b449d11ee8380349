"""Decoding of wire chunks: a fast strict decode first, and a lenient one for chunks that it rejects.

A provider's package declares its chunks as msgspec structs with typed containers and ``Any`` leaves. Decoding to them
takes about half the time of decoding to dicts, and fails only if a container has an unexpected type (an object instead
of a list). In that case `coerce` keeps the fields that fit and leaves the others out, with a warning: one odd field
must not lose a turn. Values that a parser reads as plain data (a frame that cannot be decoded, arguments that are an
object) may have any shape: nothing in a stream raises an exception.

A struct with ``forbid_unknown_fields=True`` declares every field that its object has. The strict decode fails for an
object with another one, and the lenient decode reports that field to the sink; a parser that reads the chunk as plain
data reports it with ``report_unknown_fields``. So unknown fields cost nothing until one arrives, at whatever delta that
is.

The accumulator counts what a parser has reported. A parser that needs a block complete before it can report it (a
server tool's input, an image), or compares what comes with what came, keeps data of its own and counts that
(``Sink.keep``). This module must not depend on a provider.
"""

from __future__ import annotations

import json
import re
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct, structs

from streamkit.calls import StreamError
from streamkit.json_text import join_surrogates
from streamkit.providers.contract.sink import Sink

__all__ = [
    "BLOCK_SIZE",
    "PART_SIZE",
    "arguments_as_text",
    "as_integer",
    "as_text",
    "coerce",
    "compact_json",
    "convert",
    "error_message",
    "excerpt",
    "frame_error",
    "has_value",
    "json_or_placeholder",
    "parse_json_or_text",
    "read_counts",
    "read_json",
    "report_unknown_fields",
]


def report_unknown_fields(sink: Sink, value: Any, known: frozenset[str], place: str = "") -> None:
    """Report the unknown fields of an object that have a value.

    Args:
        sink: gets them.
        value: the object; anything else has no fields.
        known: the names of the other fields.
        place: where the object is in its chunk, as a part of the reported names: ``message.``.
    """
    if not isinstance(value, dict) or known.issuperset(value):
        return
    for name, other in value.items():
        if name not in known and has_value(other):
            sink.unknown_field(f"{place}{name}", other)


def has_value(value: Any) -> bool:
    """Return False for null, an empty text or list, and an object whose values are all null."""
    if isinstance(value, dict):
        return any(element is not None for element in value.values())
    return value is not None and value != "" and value != []


Chunk = TypeVar("Chunk", bound=Struct)


_ABSENT: Any = object()


_encode_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode


_POSITION = re.compile(r"\[\d+\]")


def convert(data: Any, chunk_type: type[Chunk], sink: Sink) -> Chunk | None:
    """Return the chunk of plain data; None if it is no object, which is reported as an unknown chunk."""
    try:
        return msgspec.convert(data, chunk_type)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return _coerce_chunk(data, chunk_type, sink)


def _coerce_chunk(value: Any, chunk_type: type[Chunk], sink: Sink) -> Chunk | None:
    if not isinstance(value, dict):
        sink.unknown(value)
        return None
    misfits: list[str] = []
    unknown: dict[str, Any] = {}
    chunk = coerce(value, chunk_type, misfits, unknown=unknown)
    for name, unknown_value in unknown.items():
        sink.unknown_field(name, unknown_value)
    if misfits:
        sink.warn("unexpected_shape", f"fields of an unexpected type were left out: {', '.join(misfits[:8])}")
    return chunk


def read_json(data: bytes | str) -> Any:
    r"""Return the value of a JSON text.

    msgspec rejects a lone surrogate (``"\\ud83d"``, or its three bytes), which servers that split text by UTF-16 units
    send; the standard library accepts it.

    Raises:
        ValueError: it is no JSON.
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        if isinstance(data, str):
            return json.loads(data)
        try:  # each half of a surrogate pair stays itself, to be joined with the other
            return json.loads(data.decode("utf-8", "surrogatepass"))
        except UnicodeDecodeError:
            return json.loads(data.decode("utf-8", "replace"))


def coerce(
    value: dict[str, Any],
    chunk_type: type[Chunk],
    misfits: list[str] | None = None,
    parent_path: str = "",
    unknown: dict[str, Any] | None = None,
) -> Chunk:
    """Return a dict as a chunk of that type, without fields of another type than declared; never raise.

    Args:
        value: plain data.
        chunk_type: a struct whose fields are ``Any``, structs, lists and dicts of such, or those or None.
        misfits: receives the paths of the fields that were left out.
        parent_path: the path of ``value``.
        unknown: receives the fields that a struct with ``forbid_unknown_fields`` does not declare, if they have a
            value (``unknown_fields.has_value``), by their paths without positions in lists.
    """
    arguments: dict[str, Any] = {}
    fields = _fields_of(chunk_type)
    for encode_name, (name, hint) in fields.items():
        if encode_name not in value:
            continue
        path = f"{parent_path}.{encode_name}" if parent_path else encode_name
        fitted = _fit(value[encode_name], hint, misfits, path, unknown)
        if fitted is not _ABSENT:
            arguments[name] = fitted
    if unknown is not None and chunk_type.__struct_config__.forbid_unknown_fields:
        for name, unknown_value in value.items():
            if name not in fields and has_value(unknown_value):
                path = f"{parent_path}.{name}" if parent_path else str(name)
                unknown.setdefault(_POSITION.sub("", path), unknown_value)
    return chunk_type(**arguments)


@cache
def _fields_of(chunk_type: type[Struct]) -> dict[str, tuple[str, Any]]:
    """Return the name and the type of each field of a struct, by its name on the wire."""
    hints = get_type_hints(chunk_type)
    return {field.encode_name: (field.name, hints[field.name]) for field in structs.fields(chunk_type)}


def _fit(
    value: Any, expected_type: Any, misfits: list[str] | None, path: str, unknown: dict[str, Any] | None = None
) -> Any:
    origin = get_origin(expected_type)
    if expected_type is Any or (
        isinstance(expected_type, type) and not issubclass(expected_type, Struct) and isinstance(value, expected_type)
    ):
        return value
    if origin in (Union, UnionType):
        options = get_args(expected_type)
        if value is None and NoneType in options:
            return None
        options = tuple(option for option in options if option is not NoneType)
        is_list = isinstance(value, list)  # of a list and a struct, the one that the value may be
        chosen = next((option for option in options if (get_origin(option) is list) is is_list), options[0])
        return _fit(value, chosen, misfits, path, unknown)
    if origin is list and isinstance(value, list):
        (item,) = get_args(expected_type)
        fitted = [_fit(element, item, misfits, f"{path}[{n}]", unknown) for n, element in enumerate(value)]
        return [element for element in fitted if element is not _ABSENT]
    if origin is dict and isinstance(value, dict):
        return value
    if isinstance(expected_type, type) and isinstance(value, dict) and issubclass(expected_type, Struct):
        return coerce(value, expected_type, misfits, path, unknown)
    if misfits is not None:
        misfits.append(path)
    return _ABSENT


def as_text(value: Any) -> str | None:
    """Return a leaf as text: a non-empty string, or an integer as digits (ids are sometimes numbers); else None."""
    if value.__class__ is str:
        return value or None
    if value.__class__ is int and -(2**63) < value < 2**64:  # Python rejects the conversion of thousands of digits
        return str(value)
    return None


def as_integer(value: Any) -> int | None:
    """Return a leaf as an integer of at most 64 bits if it is an int or a float without a fraction; else None."""
    if value.__class__ is not int:
        if value.__class__ is not float or not value.is_integer():
            return None
        value = int(value)
    # No count and no status is larger, and a number of thousands of digits has no text.
    return value if -(2**63) < value < 2**64 else None


def read_counts(fields: dict[str, Any], names: tuple[str, ...]) -> list[int | None]:
    """Return leaves of an object as integers, each as ``as_integer`` does."""
    counts: list[int | None] = []
    for name in names:
        count: Any = fields.get(name)
        counts.append(count if count is None or (count.__class__ is int and -1 < count < 2**63) else as_integer(count))
    return counts


def compact_json(value: Any) -> str:
    """Return a value as compact JSON text, not ASCII-escaped."""
    return _encode_compact(value)


def excerpt(data: bytes | str, size: int = 1024) -> str:
    """Return the beginning of data that cannot be parsed, for an error's ``raw``."""
    text = data[: size * 4].decode("utf-8", "replace") if isinstance(data, bytes) else data
    return text[:size]


#: The fields with the message of an error. ``details``: IBM's orchestrator (foundation-model-stack/
#: fms-guardrails-orchestrator#436); ``error_message``: a relay (NousResearch/hermes-agent#65643); ``error_msg``: Baidu;
#: ``status_msg``: MiniMax, in ``base_resp``; ``msg``: FastAPI, in ``detail``.
_MESSAGE_FIELDS = (
    "message",
    "detail",
    "Message",
    "error",
    "details",
    "error_message",
    "error_msg",
    "status_msg",
    "msg",
)


#: The fields with a list of errors: Cloudflare's and watsonx's, and FastAPI's.
_MESSAGE_LISTS = ("errors", "detail")


def error_message(raw: Any) -> str | None:
    """Return the message of an error body, in any of the shapes that providers use; None if it has none."""
    if isinstance(raw, list) and raw:
        raw = raw[0]
    if isinstance(raw, str):
        return raw.strip()[:500] or None
    if not isinstance(raw, dict):
        return None
    inner = raw.get("error") or raw
    if isinstance(inner, list):
        inner = inner[0]
    if isinstance(inner, str):
        return inner
    if not isinstance(inner, dict):
        return None
    lists = [inner[name][0] for name in _MESSAGE_LISTS if isinstance(inner.get(name), list) and inner[name]]
    for found in (inner, *lists, inner.get("base_resp")):
        if isinstance(found, dict):
            for name in _MESSAGE_FIELDS:
                if isinstance(found.get(name), str) and found[name]:
                    return str(found[name])
        elif isinstance(found, str) and found:
            return found
    return None


BLOCK_SIZE = 256  #: a block or an item that a parser follows


PART_SIZE = 16  #: a part of a text that is joined at its end


_NOT_JSON = (RecursionError, TypeError, ValueError)


def frame_error(error: Exception, data: bytes) -> StreamError:
    """Return the error of a frame that ``read_json`` could not decode.

    Args:
        error: the exception: ``RecursionError`` for too deep nesting, ``ValueError`` for anything but JSON.
        data: the frame's payload; the error contains an excerpt of it.
    """
    if isinstance(error, RecursionError):
        return StreamError("limit_exceeded", "a frame's JSON is nested too deeply", raw=excerpt(data))
    return StreamError("protocol_error", f"a frame is no JSON ({error})", raw=excerpt(data))


def parse_json_or_text(text: str) -> Any:
    """Parse a JSON text; return the text unchanged if it is truncated or otherwise not JSON.

    Halves of a surrogate pair that arrived in two deltas are joined first.
    """
    text = text if text.isascii() else join_surrogates(text)
    try:
        return read_json(text)
    except (ValueError, RecursionError):
        return text


def arguments_as_text(value: Any, sink: Sink) -> str:
    """Return a call's arguments as text: a text unchanged, None as ``""``, any other value as compact JSON.

    Arguments that are nested too deeply to be encoded end the turn with ``limit_exceeded``; their text is ``""``.
    """
    if isinstance(value, str) or value is None:
        return value or ""
    try:
        return compact_json(value)
    except _NOT_JSON:
        sink.fail(StreamError("limit_exceeded", "a call's arguments are nested too deeply"))
        return ""


def json_or_placeholder(value: Any) -> str:
    """Return a value as compact JSON for a message, or a placeholder if it cannot be encoded."""
    try:
        return compact_json(value)
    except _NOT_JSON:
        return "something nested too deeply"
