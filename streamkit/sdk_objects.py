"""SDK objects as dicts. No SDK is imported: an object is asked by the methods that its kind has.

What is read so: the chunks of openai (Chat Completions and Responses), anthropic, google-genai, groq, mistralai, cohere
and ollama, the sync clients' and the async ones'. boto3's are dicts already. The streams of openai and anthropic that
accumulate (``.stream()``) may be fed as well: they give the wire's chunks, and between them events of their own.

What an SDK's object loses, against the bytes (``tests/testing/sdk_losses.toml`` shows each):

* all: the terminator (``[DONE]``) and comments; errors in the stream, which the SDKs raise. ``close(complete=True)``
  says that the iterator ended in order, ``close(error)`` what it raised; ``read`` does both.
* openai, groq, anthropic: only the order of an object's fields. Fields that they do not know are kept.
* google-genai: signatures and inline data are bytes; here they are standard base64 again, as the wire has them.
* mistralai, ollama: they refuse chunks that do not fit their types, and leave out fields that these do not have. For
  ollama those are the calls' ``id`` and ``index``: its calls have no ``raw_id`` by this door, and so other canonical
  ids than by the bytes.
* cohere: events that do not fit its types. It leaves them out and logs that.
* boto3: members that the service's model does not name.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from streamkit.errors import UsageError

__all__ = ["to_plain"]

# Events that the accumulating streams make themselves, beside the wire's: each repeats what a chunk said. By their
# types in anthropic/lib/streaming/_types.py and _beta_types.py (2.11) and openai/lib/streaming/chat/_events.py (3.52).
# Events of their own that carry one of the wire's types (content_block_stop, message_stop) stand in its place.
_REPEATS = frozenset(
    {
        "text", "thinking", "citation", "signature", "input_json", "compaction",
        "content.delta", "content.done", "refusal.delta", "refusal.done",
        "tool_calls.function.arguments.delta", "tool_calls.function.arguments.done",
        "logprobs.content.delta", "logprobs.content.done", "logprobs.refusal.delta", "logprobs.refusal.done",
    }
)  # fmt: skip

_PLAIN = frozenset({str, int, float, bool, type(None)})


def to_plain(piece: Any) -> dict[str, Any] | None:
    """A chunk object as the dict that it was made from; None for an SDK's own event that repeats what a chunk said.

    Raises:
        UsageError: the object is of no kind that can be read.
    """
    if _accumulates(piece.__class__):
        piece = getattr(piece, "chunk", piece)  # openai's ChunkEvent
        if getattr(piece, "type", None) in _REPEATS:
            return None
    if hasattr(piece, "model_dump"):  # pydantic 2: all of them
        # Without exclude_unset an absent index becomes None; warnings speak of leaves that the SDK typed too strictly.
        dumped = piece.model_dump(exclude_unset=True, by_alias=True, warnings=False)
    elif hasattr(piece, "to_dict"):  # openai, anthropic and groq on pydantic 1
        dumped = _copied(piece.to_dict())
    elif isinstance(piece, Mapping):
        dumped = _copied(piece)
    else:
        raise UsageError(f"feed() takes bytes, dicts and the chunk objects of SDKs, not {type(piece).__name__}")
    if dumped.__class__ is not dict:
        raise UsageError(f"{type(piece).__name__} does not dump to a dict")
    if dumped.keys() == {"data"} and isinstance(dumped["data"], dict):  # mistralai's CompletionEvent
        dumped = dumped["data"]
    _make_plain(dumped)
    return dumped


@lru_cache(maxsize=256)
def _accumulates(kind: type) -> bool:
    """Whether objects of that class come from a stream that accumulates, by where its SDK defines them."""
    return ".lib.streaming." in kind.__module__


def _copied(value: Any) -> Any:
    """The containers copied: what ``_make_plain`` changes must not be the caller's own."""
    if isinstance(value, Mapping):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_copied(item) for item in value]
    return value


def _make_plain(whole: dict[Any, Any] | list[Any]) -> None:
    """Every leaf plain data, in place. Most are: a dump has types of its own only where the SDK typed a field so."""
    for key, value in whole.items() if whole.__class__ is dict else enumerate(whole):
        kind = value.__class__
        if kind in _PLAIN:
            continue
        if kind is dict or kind is list:
            _make_plain(value)
        else:
            whole[key] = _leaf(value)


def _leaf(value: Any) -> Any:
    """What JSON would say for a value of another kind."""
    if isinstance(value, (Mapping, list, tuple, set, frozenset)):
        whole = _copied(sorted(value, key=str) if isinstance(value, (set, frozenset)) else value)
        _make_plain(whole)
        return whole
    if isinstance(value, (bytes, bytearray, memoryview)):
        return b64encode(value).decode("ascii")
    if hasattr(value, "isoformat"):
        return value.isoformat().replace("+00:00", "Z")  # as the wires write times
    plain = getattr(value, "value", value)  # an enum's value
    if isinstance(plain, str):
        return str.__str__(plain)
    return plain if plain.__class__ in _PLAIN else str(plain)
