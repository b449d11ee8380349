"""Chunk objects of the official SDKs as plain dicts.

An object is converted by the methods that it has; the module must not import any SDK. Supported are the chunks of
openai (Chat Completions and Responses), anthropic, google-genai, groq, mistralai, cohere and ollama, of their sync and
async clients. The chunks of boto3 are dicts already. The accumulating streams of openai and anthropic (``.stream()``)
are supported as well: they yield the wire's chunks, and events of their own between them.

An SDK's objects have less than the bytes (``tests/testing/sdk_losses.toml`` shows each loss):

* all: no terminator (``[DONE]``), no comments, no errors in the stream, which the SDKs raise. ``close(complete=True)``
  reports that the iterator ended in order, ``close(error)`` what it raised; ``read`` does both.
* openai, groq, anthropic: only the order of an object's fields is lost. Fields that they do not declare are kept.
* google-genai: signatures and inline data are bytes; ``dump_chunk`` returns them as standard base64, as on the wire.
* mistralai, ollama: they reject chunks that do not fit their types, and omit fields that these do not have. For ollama
  those are the calls' ``id`` and ``index``: its calls have no ``raw_id`` with this kind of input, and therefore other
  canonical ids than with bytes.
* cohere: it omits events that do not fit its types, and logs that.
* boto3: it omits members that the service's model does not name.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from streamkit.errors import UsageError

__all__ = ["dump_chunk"]

# Events that the accumulating streams add to the wire's: each repeats the content of a chunk. By their types in
# anthropic/lib/streaming/_types.py and _beta_types.py (2.11) and openai/lib/streaming/chat/_events.py (3.52).
# Their events with one of the wire's types (content_block_stop, message_stop) replace the wire's own.
_REPEATS = frozenset(
    {
        "text", "thinking", "citation", "signature", "input_json", "compaction",
        "content.delta", "content.done", "refusal.delta", "refusal.done",
        "tool_calls.function.arguments.delta", "tool_calls.function.arguments.done",
        "logprobs.content.delta", "logprobs.content.done", "logprobs.refusal.delta", "logprobs.refusal.done",
    }
)  # fmt: skip

_PLAIN = frozenset({str, int, float, bool, type(None)})


def dump_chunk(chunk: Any) -> dict[str, Any] | None:
    """Convert a chunk object to the dict that it was made from.

    Args:
        chunk: an object of an SDK's stream, or a mapping.

    Returns:
        The dict; None for an event that the SDK added and that repeats a chunk.

    Raises:
        UsageError: the object is of an unsupported kind.
    """
    is_accumulating = _is_accumulating(chunk.__class__)
    if is_accumulating:
        chunk = getattr(chunk, "chunk", chunk)  # openai's ChunkEvent
        if getattr(chunk, "type", None) in _REPEATS:
            return None
    if hasattr(chunk, "model_dump"):  # pydantic 2: every SDK
        # Without exclude_unset an absent index becomes None; the warnings concern leaves with too strict types.
        dumped = chunk.model_dump(exclude_unset=True, by_alias=True, warnings=False)
    elif hasattr(chunk, "to_dict"):  # openai, anthropic and groq on pydantic 1
        dumped = _copy(chunk.to_dict())
    elif isinstance(chunk, Mapping):
        dumped = _copy(chunk)
    else:
        raise UsageError(f"feed() takes bytes, dicts and the chunk objects of SDKs, not {type(chunk).__name__}")
    if dumped.__class__ is not dict:
        raise UsageError(f"{type(chunk).__name__} does not dump to a dict")
    if dumped.keys() == {"data"} and isinstance(dumped["data"], dict):  # mistralai's CompletionEvent
        dumped = dumped["data"]
    if is_accumulating:  # openai/lib/streaming/responses/_events.py: the text so far, at each delta
        dumped.pop("snapshot", None)
    _make_plain(dumped)
    return dumped


@lru_cache(maxsize=256)
def _is_accumulating(kind: type) -> bool:
    """Return True if a class belongs to an SDK's accumulating stream, by the module that defines it."""
    return ".lib.streaming." in kind.__module__


def _copy(value: Any) -> Any:
    """Copy the containers of a value, because ``_make_plain`` changes them in place."""
    if isinstance(value, Mapping):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_copy(item) for item in value]
    return value


def _make_plain(container: dict[Any, Any] | list[Any]) -> None:
    """Replace every leaf that is not plain data, in place. Only fields that an SDK declares with such types need it."""
    for key, value in container.items() if container.__class__ is dict else enumerate(container):
        kind = value.__class__
        if kind in _PLAIN:
            continue
        if kind is dict or kind is list:
            _make_plain(value)
        else:
            container[key] = _to_leaf(value)


def _to_leaf(value: Any) -> Any:
    """Convert a value that is not plain data to its form in the wire's JSON."""
    if isinstance(value, (Mapping, list, tuple, set, frozenset)):
        copy = _copy(sorted(value, key=str) if isinstance(value, (set, frozenset)) else value)
        _make_plain(copy)
        return copy
    if isinstance(value, (bytes, bytearray, memoryview)):
        return b64encode(value).decode("ascii")
    if hasattr(value, "isoformat"):
        return value.isoformat().replace("+00:00", "Z")  # the wires' form of times
    plain = getattr(value, "value", value)  # an enum's value
    if isinstance(plain, str):
        return str.__str__(plain)
    return plain if plain.__class__ in _PLAIN else str(plain)
