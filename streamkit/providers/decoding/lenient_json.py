"""Functions for JSON of any shape, which never raise an exception for the contents of a stream.

`decoding` converts a chunk to a declared type. These functions are for values that a parser reads as plain data: a
frame that cannot be decoded, arguments that are an object. This module must not depend on
a provider.
"""

from __future__ import annotations

from typing import Any

from streamkit.calls import StreamError
from streamkit.json_text import join_surrogates
from streamkit.providers.contract.sink import Sink
from streamkit.providers.decoding.decoding import compact_json, excerpt, read_json

__all__ = [
    "arguments_as_text",
    "frame_error",
    "json_or_placeholder",
    "parse_json_or_text",
]

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
