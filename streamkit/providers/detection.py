"""Detection of a wire by the first bytes of a body: the chunks in them, decoded once for all providers.

The structure of a chunk decides, never a string in it: a text may quote any wire. A provider's package declares which
chunks can only be of its wire; this module must not depend on any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

from streamkit.framing import Framer, framer_for
from streamkit.json_text import parse_partial_object
from streamkit.providers.decoding import compact_json, read_json

__all__ = ["HEAD_SIZE", "HeadChunk", "encode_head", "head_matcher", "read_head"]

HEAD_SIZE = 4096  #: bytes of a body that are examined
_MOST_CHUNKS = 16  # a body that is not recognized by its first chunks is not recognized by later ones
_BOM = b"\xef\xbb\xbf"

HeadFraming: TypeAlias = Literal["sse", "json", "json_array", "event_stream"]


class HeadChunk(NamedTuple):
    """One of the first chunks of a body; the last one may be incomplete."""

    name: str  #: the name of its event, ``""`` without one
    data: dict[str, Any]
    framing: HeadFraming  #: ``json``: objects outside of an array, such as a complete body or lines of JSON


def head_matcher(is_own: Callable[[HeadChunk], bool]) -> Callable[[bytes], bool]:
    """Return a function for ``Traits.matches_head``.

    Args:
        is_own: returns True for a chunk that can only have the wire's format.
    """

    def matches_head(head: bytes) -> bool:
        return any(is_own(chunk) for chunk in read_head(head))

    return matches_head


@lru_cache(maxsize=2)  # every provider asks for the same bytes
def read_head(head: bytes) -> tuple[HeadChunk, ...]:
    """Return the first chunks of a body. They are shared: the caller must not change them.

    Args:
        head: the first bytes; they may end anywhere.
    """
    head = head[:HEAD_SIZE].removeprefix(_BOM).lstrip()
    start = head[:1]
    if start == b"\0":
        return _read_frames(head, framer_for("event_stream"), "event_stream")
    if start in (b"{", b"["):
        return _read_frames(head, framer_for("json_array"), "json" if start == b"{" else "json_array")
    return _read_frames(head, framer_for("sse"), "sse") if start else ()


def encode_head(chunks: Iterable[tuple[bytes, bytes | dict[str, Any]]]) -> bytes:
    """Return chunks as bytes for ``read_head``, each given as its event's name and its payload or data."""
    frames: list[bytes] = []
    for name, data in chunks:
        try:
            payload = data if isinstance(data, bytes) else compact_json(data).encode("utf-8", "replace")
        except (RecursionError, TypeError, ValueError):
            continue
        lines = payload[:HEAD_SIZE].splitlines() or [b""]
        event = b"event: %b\n" % name if name and b"\n" not in name and b"\r" not in name else b""
        frames.append(event + b"".join(b"data: %b\n" % line for line in lines) + b"\n")
    return b"".join(frames)


def _read_frames(head: bytes, framer: Framer, framing: HeadFraming) -> tuple[HeadChunk, ...]:
    chunks: list[HeadChunk] = []
    for name, payload in framer.feed(head)[:_MOST_CHUNKS]:
        try:
            data = read_json(payload)
        except (RecursionError, ValueError):
            data = parse_partial_object(payload.decode("utf-8", "replace")) or None
        if isinstance(data, dict):
            chunks.append(HeadChunk(name.decode("utf-8", "replace"), data, framing))
    if not chunks:  # the first chunk may be longer than the head; the beginning of its JSON is enough
        name, payload = _split_pending(framer.pending, framing)
        data = parse_partial_object(payload.decode("utf-8", "replace"))
        if name or data:
            chunks.append(HeadChunk(name.decode("utf-8", "replace"), data, framing))
    return tuple(chunks)


def _split_pending(pending: bytes, framing: HeadFraming) -> tuple[bytes, bytes]:
    """Return the event's name and the beginning of the payload of an unfinished frame."""
    if framing == "event_stream":
        _, _, rest = pending.partition(b":event-type\x07")
        size = int.from_bytes(rest[:2], "big")
        name = rest[2 : 2 + size]
        _, brace, payload = rest[2 + size :].partition(b"{")
        return (name if len(name) == size else b""), brace + payload
    if framing != "sse":
        return b"", pending
    name, data_lines = b"", []
    for line in pending.splitlines():
        field, _, value = line.partition(b":")
        if field == b"event":
            name = value.strip()
        elif field == b"data":
            data_lines.append(value)
    return name, b"\n".join(data_lines)
