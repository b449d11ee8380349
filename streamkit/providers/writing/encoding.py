"""What the writers and renderers of several providers share: JSON as text and bytes, sources of citations, tokens.

The counterpart of ``decoding``. It depends on no provider and on no history: parsers use it, too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from streamkit.calls import Usage
from streamkit.providers.decoding.decoding import compact_json
from streamkit.values.json_data import object_fields, to_json_data

__all__ = [
    "CONTENT_TYPES",
    "data_as_json",
    "encode_chunk",
    "encode_json",
    "encode_json_text",
    "encode_sse_event",
    "safe_json",
    "text_or_json",
    "uncached_input_tokens",
]

#: The content type of a response, by its framing.
CONTENT_TYPES = {
    "sse": "text/event-stream",
    "ndjson": "application/x-ndjson",
    "event_stream": "application/vnd.amazon.eventstream",
    "json_array": "application/json",
}

_DEEPEST = 300  # more than the nesting of a frame that is read


def text_or_json(value: Any) -> str:
    """Return a value of history as text: a text unchanged, None as ``""``, other data as compact JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else data_as_json(value)


def data_as_json(data: Any) -> str:
    """Return JSON data, such as the values of a block of history, as compact JSON text.

    It is twenty times as fast as ``compact_json``, which takes any value, and floats may have another spelling.
    """
    try:
        return msgspec.json.encode(data).decode()
    except UnicodeEncodeError:  # half a surrogate pair
        return compact_json(data)


def encode_json(value: Any) -> bytes:
    """Return a value as compact JSON in UTF-8.

    A text with half a surrogate pair is escaped: JSON can express it, UTF-8 cannot.
    """
    text = safe_json(value)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(json.loads(text), separators=(",", ":")).encode()


def safe_json(value: Any) -> str:
    """Return a value as compact JSON text; never raise for what it contains (an integer of thousands of digits)."""
    try:
        return compact_json(value)
    except (TypeError, ValueError, RecursionError):
        return compact_json(to_json_data(value, object_fields, deepest=_DEEPEST))


def encode_chunk(chunk: Mapping[str, Any]) -> bytes:
    """Return a chunk as compact JSON in UTF-8; never raise for what it contains.

    Half a surrogate pair is escaped, and a value that JSON lacks is replaced (``json_data``). It is ten times as fast
    as ``encode_json`` for a delta, and floats may have another spelling.
    """
    try:
        return msgspec.json.encode(chunk)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError, OverflowError):
        data = to_json_data(chunk, object_fields, deepest=_DEEPEST)
        return json.dumps(data, separators=(",", ":"), default=str).encode()


def encode_json_text(text: str) -> bytes:
    """Return a text as a JSON string; half a surrogate pair is escaped."""
    try:
        return msgspec.json.encode(text)
    except UnicodeEncodeError:
        return json.dumps(text).encode()


def encode_sse_event(name: str, payload: Mapping[str, Any]) -> bytes:
    """Return a server-sent event with a name and a JSON payload."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), encode_json(payload))


def uncached_input_tokens(usage: Usage) -> int:
    """Return the input tokens that were neither read from the provider's cache nor written to it.

    Some wires count these three apart; ``Usage.input_tokens`` is their sum.
    """
    cached = (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)
    return max(0, (usage.input_tokens or 0) - cached)
