"""What the fuzzer feeds: an input as a JSON document, its bytes, and the streams that inputs are made of.

A document is readable, mutated field by field, and small where its input is large: objects with one of these fields
stand for something else (`expand`, `part_bytes`).

- ``{"$bytes": text, "$times": n}``: bytes as they are, one for each character below U+0100, repeated.
- ``{"$times": n, "$value": value}``: in a list that many copies of the value, elsewhere a repeated text or a list.
- ``{"$nest": n, "$value": value, "$name": name}``: the value within that many lists, or objects with that field.
- ``{"$keys": n, "$value": value}``: an object of that many fields.

The module must not depend on what is done with an input.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

from msgspec import structs
from shared_data import CONFORMANCE_CASES, recorded_streams

from streamkit import providers
from streamkit.framing import framer_for
from streamkit.testing.case import encode_frame, encode_json_array

__all__ = ["Chunk", "Input", "Source", "encode_parts", "expand", "part_bytes", "sources", "stream_bytes"]

Chunk = dict[str, Any]

MOST_ITEMS = 4000  #: copies of a value in one input
MOST_TEXT = 150_000  #: characters and bytes that repetition adds to one input
DEEPEST = 600  #: levels of JSON that Python's own encoder writes; deeper ones are ``$bytes``


@dataclass(frozen=True)
class Input:
    """One input of a target.

    Attributes:
        target: the name of the target.
        provider: the provider in whose form the parts are.
        other: the provider of the other side, of a target that has one.
        options: a value for each of the target's options.
        seed: decides what is random within the target, such as cuts.
        parts: JSON values: chunks, messages, texts or bytes, as the target needs them.
    """

    target: str
    provider: str = "openai_chat"
    other: str = "anthropic"
    options: dict[str, str] = field(default_factory=dict)
    seed: int = 0
    parts: list[Any] = field(default_factory=list)

    def to_json(self) -> bytes:
        """Return the document, in ASCII."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Input | None:
        """Return the input of a document, None if it is none."""
        try:
            fields = json.loads(data)
            return cls(**fields) if isinstance(fields["parts"], list) and isinstance(fields["seed"], int) else None
        except (ValueError, TypeError, KeyError, RecursionError):
            return None


# ---------------------------------------------------------------- what a document stands for


def expand(value: Any) -> Any:
    """Return the value that a part of a document stands for, within the limits of one input."""
    return _Expansion().expand(value)


class _Expansion:
    def __init__(self) -> None:
        self.items, self.text, self.depth = MOST_ITEMS, MOST_TEXT, DEEPEST

    def expand(self, value: Any) -> Any:
        if isinstance(value, list):
            expanded: list[Any] = []
            for item in value:
                inner = self.expand(item)
                expanded += inner if _is_repetition(item) and isinstance(inner, list) else [inner]
            return expanded
        if not isinstance(value, dict):
            return value
        inner = self.expand(value.get("$value"))
        if "$nest" in value:
            name = value.get("$name")
            for _ in range(self._take("depth", value["$nest"])):
                inner = [inner] if not isinstance(name, str) else {name: inner}
            return inner
        if "$keys" in value:
            return {f"key{number}": inner for number in range(self._take("items", value["$keys"]))}
        if _is_repetition(value):
            if isinstance(inner, str) and inner:
                return inner * (self._take("text", _count(value["$times"]) * len(inner)) // len(inner))
            size = len(json.dumps(inner)) + 1  # the JSON of repetitions within repetitions is bounded too
            return [inner] * (self._take("text", size * self._take("items", value["$times"])) // size)
        return {str(name): self.expand(item) for name, item in value.items()}

    def _take(self, name: str, wanted: Any) -> int:
        """Return how much of what is wanted is left, and take it."""
        left = getattr(self, name)
        taken = min(left, _count(wanted))
        setattr(self, name, left - taken)
        return taken


def _is_repetition(value: Any) -> bool:
    return isinstance(value, dict) and "$times" in value and "$bytes" not in value


def _count(wanted: Any) -> int:
    return max(0, min(wanted, MOST_TEXT)) if isinstance(wanted, int) else 1


def part_bytes(part: Any) -> bytes | None:
    """Return the bytes of a part that is bytes, else None."""
    if not isinstance(part, dict) or not isinstance(part.get("$bytes"), str):
        return None
    text = part["$bytes"]
    data = b"".join([bytes([ord(c)]) if ord(c) < 256 else c.encode("utf-8", "surrogatepass") for c in text])
    return data * min(_count(part.get("$times", 1)), MOST_TEXT // max(1, len(data)) + 1)


def encode_parts(parts: Sequence[Any], provider: str, framing: str = "own") -> list[bytes]:
    """Return parts as the bytes of a body, one frame each.

    Args:
        parts: chunks and other JSON values, and bytes, which are kept as they are.
        provider: the provider whose frames are written.
        framing: ``own``, or ``sse`` or ``ndjson`` instead of the provider's own framing.
    """
    traits = providers.get(provider).traits
    if framing != "own":
        traits = structs.replace(traits, framing=framing)  # type: ignore[arg-type]
    frames = []
    for part in parts:
        data = part_bytes(part)
        if data is None:
            value = expand(part)
            try:
                data = encode_frame(value if isinstance(value, dict) else {"data": value}, traits)
            except (ValueError, IndexError, OverflowError):  # a message of AWS has one short name
                data = b""
        frames.append(data)
    return frames


def stream_bytes(given: Input) -> bytes:
    """Return the parts of an input as the bytes of one body, in the framing of its options."""
    framing = given.options.get("framing", "own")
    if framing == "array":
        return encode_json_array([expand(part) for part in given.parts if part_bytes(part) is None])
    traits = providers.get(given.provider).traits
    end = b""
    if given.options.get("end") == "marker" and traits.end_marker is not None:
        end = b"data: " + traits.end_marker.encode() + 2 * traits.line_end.encode()
    return b"".join(encode_parts(given.parts, given.provider, framing)) + end


# ---------------------------------------------------------------- undamaged streams


@dataclass(frozen=True)
class Source:
    """An undamaged stream as chunks."""

    provider: str
    name: str
    chunks: tuple[Chunk, ...]

    def shortened(self, size: int = 8000) -> list[Chunk]:
        """Return the chunks, without some in the middle if their JSON is longer than *size*."""
        chunks, last = list(self.chunks), list(self.chunks[-3:])
        total = len(json.dumps(last))
        for number, chunk in enumerate(chunks):
            total += len(json.dumps(chunk))
            if total > size:
                return [*chunks[:number], *last] if number else last
        return chunks


@cache
def sources() -> tuple[Source, ...]:
    """Return the chunks of the conformance cases and of the recorded streams."""
    found = []
    for name in providers.names():
        for path in sorted((CONFORMANCE_CASES / name).glob("*.json")):
            chunks = [chunk for chunk in json.loads(path.read_text("utf-8")).get("chunks", ()) if "$times" not in chunk]
            if chunks and all(isinstance(chunk, dict) for chunk in chunks):
                found.append(Source(name, path.stem, tuple(chunks)))
    for stream in recorded_streams():
        chunks = list(_decode(stream.data, stream.provider))
        if chunks:
            found.append(Source(stream.provider, stream.path.name, tuple(chunks)))
    return tuple(found)


def _decode(data: bytes, provider: str) -> Iterator[Chunk]:
    """Yield the chunks of a recorded body that are JSON objects."""
    framing = providers.get(provider).traits.framing
    framer = framer_for("ndjson" if framing == "event_stream" else framing, 1 << 26)
    for _, payload in [*framer.feed(data), *framer.close()]:
        try:
            chunk = json.loads(payload)
        except ValueError:
            continue
        if isinstance(chunk, dict):
            yield chunk
