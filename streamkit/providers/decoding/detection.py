"""Detection of a wire by the first bytes of a body: the chunks in them, decoded once for all providers.

The structure of a chunk decides, never a string in it: a text may quote any wire. A provider's package declares which
chunks can only be of its wire; this module must not depend on any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

from streamkit.framing import Framer, framer_for
from streamkit.providers.decoding.decoding import compact_json, read_json

__all__ = ["HEAD_SIZE", "MOST_CHUNKS", "HeadChunk", "HeadMatcher", "encode_head", "read_head"]

HEAD_SIZE = 4096  #: bytes of a body that are examined
#: A body that is not recognized by its first chunks is not recognized by later ones.
MOST_CHUNKS = 8
_BOM = b"\xef\xbb\xbf"

HeadFraming: TypeAlias = Literal["sse", "json", "json_array", "event_stream"]


class HeadChunk(NamedTuple):
    """One of the first chunks of a body; the last one may be incomplete."""

    name: str  #: the name of its event, ``""`` without one
    data: dict[str, Any]
    framing: HeadFraming  #: ``json``: objects outside of an array, such as a complete body or lines of JSON


class HeadMatcher:
    """The detection of one wire, for ``Traits.matches_head``: a function of the first bytes of a body.

    Args:
        is_own: returns True for a chunk that can only have the wire's format.
        other_apis: APIs of the same vendors that are not read, by their names; each function returns True for a chunk
            that can only be of it.
    """

    __slots__ = ("is_own", "other_apis")

    def __init__(
        self,
        is_own: Callable[[HeadChunk], bool],
        other_apis: Mapping[str, Callable[[HeadChunk], bool]] = MappingProxyType({}),
    ) -> None:
        self.is_own: Callable[[HeadChunk], bool] = is_own
        self.other_apis: Mapping[str, Callable[[HeadChunk], bool]] = other_apis

    def __call__(self, head: bytes) -> bool:
        """Return True if a body with these first bytes can only have the wire's format."""
        return any(self.is_own(chunk) for chunk in read_head(head))


def read_head(head: bytes) -> Iterator[HeadChunk]:
    """Yield the first chunks of a body, each decoded when it is asked for.

    Args:
        head: the first bytes; they may end anywhere.
    """
    head = head[:HEAD_SIZE].removeprefix(_BOM).lstrip()
    start = head[:1]
    if start == b"\0":
        yield from _read_frames(head, framer_for("event_stream"), "event_stream")
    elif start == b"{":
        first, newline, _ = head.partition(b"\n")
        data = _decode(first) if newline and first.rstrip().endswith(b"}") else None
        if data is not None:  # lines of JSON, all of one wire
            yield HeadChunk("", data, "json")
        else:
            yield from _read_frames(head, framer_for("json_array"), "json")
    elif start == b"[":
        yield from _read_frames(head, framer_for("json_array"), "json_array")
    elif start:
        yield from _read_frames(head, framer_for("sse"), "sse")


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


def _read_frames(head: bytes, framer: Framer, framing: HeadFraming) -> Iterator[HeadChunk]:
    from streamkit.json_text.reader import parse_partial_object  # the wire of most streams is named

    has_chunk = False
    for name, payload in framer.feed(head)[:MOST_CHUNKS]:
        data = _decode(payload)
        if data is None:  # a frame that is not JSON may begin like a chunk
            data = parse_partial_object(payload.decode("utf-8", "replace")) or None
        if data is not None:
            has_chunk = True
            yield HeadChunk(name.decode("utf-8", "replace"), data, framing)
    if not has_chunk:  # the first chunk may be longer than the head; the beginning of its JSON is enough
        name, payload = _split_pending(framer.pending, framing)
        data = parse_partial_object(payload.decode("utf-8", "replace"))
        if name or data:
            yield HeadChunk(name.decode("utf-8", "replace"), data, framing)


def _decode(payload: bytes) -> dict[str, Any] | None:
    try:
        data = read_json(payload)
    except (RecursionError, ValueError):
        return None
    return data if isinstance(data, dict) else None


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
