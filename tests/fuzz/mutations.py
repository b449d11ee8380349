"""Streams close to each wire's format: recorded and hand-made ones with random, structure-aware damage.

A mutation keeps the JSON of a chunk and changes what it contains: values of another type, missing and unknown fields,
argument text that is almost JSON, chunks that are repeated, swapped, lost or of another stream. All choices come from
one ``random.Random``, so a seed gives the same streams on every machine.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from shared_data import CONFORMANCE_CASES, recorded_streams

from streamkit import providers
from streamkit.framing import framer_for

__all__ = ["Chunk", "Source", "amplify", "mutate", "places", "sources"]

Chunk = dict[str, Any]

_DEEP: Any = "x"
for _ in range(300):
    _DEEP = [_DEEP]

#: Values that a field may have on a broken or hostile server, whatever its type should be.
HOSTILE: tuple[Any, ...] = (
    None, "", " ", "{", "}", '{"a":1}', '{"a":1}{"b":2}', '{"a":1e999}', "null", "[]", "[DONE]", "\ud83d",
    "\ude00", "\U0001f600", "\x00", "\x1b]52;c;eA==\x07", "0", "1", "-1", 0, 1, -1, 1.0, 1.5, 2**63, -(2**70), 1e308,
    True, False, [], {}, [None], [[]], {"": None}, {"a": {"b": []}}, "hist_tool_" + "a" * 24, "tool_calls",
    "stop", "x" * 2000, _DEEP,
)  # fmt: skip
#: Text that is inserted into argument text.
FRAGMENTS = (
    "{",
    "}",
    '"',
    "\\",
    "\\u",
    "\\ud83d",
    "{}",
    '{"a":1}',
    "[",
    "]",
    ",",
    ":",
    "null",
    "1e999",
    "NaN",
    " ",
    "\n",
)


@dataclass(frozen=True)
class Source:
    """An undamaged stream as chunks."""

    provider: str
    name: str
    chunks: tuple[Chunk, ...]


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


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value within a JSON value."""
    if path:
        yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


def _container(chunk: Any, path: tuple[Any, ...]) -> Any:
    for step in path[:-1]:
        chunk = chunk[step]
    return chunk


# ---------------------------------------------------------------- mutations of one chunk


def _replace(chunk: Chunk, path: tuple[Any, ...], chance: random.Random) -> None:
    _container(chunk, path)[path[-1]] = copy.deepcopy(chance.choice(HOSTILE))


def _delete(chunk: Chunk, path: tuple[Any, ...], chance: random.Random) -> None:
    del _container(chunk, path)[path[-1]]


def _wrap(chunk: Chunk, path: tuple[Any, ...], chance: random.Random) -> None:
    """Put a value into a list or an object, or take it out of one."""
    container = _container(chunk, path)
    value = container[path[-1]]
    if isinstance(value, list) and value:
        container[path[-1]] = value[0]
    elif isinstance(value, dict) and value and chance.random() < 0.5:
        container[path[-1]] = json.dumps(value)
    else:
        container[path[-1]] = [value, value] if chance.random() < 0.5 else {"value": value}


def _add_field(chunk: Chunk, path: tuple[Any, ...], chance: random.Random) -> None:
    container = _container(chunk, path)
    if isinstance(container, dict):
        container[chance.choice(("extra", "index", "id", "name", "type", "error", "text", "usage", "content"))] = (
            copy.deepcopy(chance.choice(HOSTILE))
        )
    else:
        container.insert(chance.randint(0, len(container)), copy.deepcopy(chance.choice(HOSTILE)))


def _edit_text(chunk: Chunk, path: tuple[Any, ...], chance: random.Random) -> None:
    """Insert into, cut or double a text; a number becomes text."""
    container = _container(chunk, path)
    value = container[path[-1]]
    if not isinstance(value, str):
        container[path[-1]] = str(value) if isinstance(value, (int, float)) else value
        return
    at = chance.randint(0, len(value))
    container[path[-1]] = chance.choice(
        (value[:at] + chance.choice(FRAGMENTS) + value[at:], value[:at], value[at:], value + value, value.upper())
    )


_EDITS: tuple[Callable[[Chunk, tuple[Any, ...], random.Random], None], ...] = (
    _replace, _replace, _delete, _wrap, _add_field, _edit_text, _edit_text,
)  # fmt: skip


# ---------------------------------------------------------------- mutations of a stream


def mutate(source: Source, chance: random.Random) -> list[Chunk]:
    """Return the chunks of a stream with up to five mutations; rarely none.

    Args:
        source: the stream, which is not changed.
        chance: makes all choices.
    """
    chunks = list(copy.deepcopy(source.chunks[-400:] if chance.random() < 0.2 else source.chunks[:400]))
    for _ in range(chance.choice((0, 1, 1, 2, 3, 5))):
        at = chance.randrange(len(chunks))
        match chance.randrange(12):
            case 0:
                chunks.insert(at, copy.deepcopy(chance.choice(chunks)))
            case 1:
                del chunks[at]
            case 2:
                other = chance.randrange(len(chunks))
                chunks[at], chunks[other] = chunks[other], chunks[at]
            case 3:
                stranger = chance.choice(sources())
                same_wire = stranger.provider == source.provider or chance.random() < 0.3
                chunks[at:at] = copy.deepcopy(list(stranger.chunks[:50])) if same_wire else []
            case 4:
                del chunks[at + 1 :]
            case _:
                _edit_chunk(chunks[at], chance)
        if not chunks:
            break
    return _encodable(chunks, source.provider)


def _edit_chunk(chunk: Chunk, chance: random.Random) -> None:
    spots = list(places(chunk))
    if spots:
        chance.choice(_EDITS)(chunk, chance.choice(spots), chance)


def _encodable(chunks: list[Chunk], provider: str) -> list[Chunk]:
    """Leave out what the framing cannot carry: a message of AWS has one name and one body."""
    if providers.get(provider).traits.framing != "event_stream":
        return chunks
    return [chunk for chunk in chunks if len(chunk) == 1 and len(next(iter(chunk)).encode("utf-8", "replace")) < 256]


#: Values that cost more memory than their text, and grow by the number.
_GROWING: tuple[Callable[[int], Any], ...] = (
    lambda number: {f"name{number}": number},
    lambda number: [[], {}, [number]],
    lambda number: [{"index": number, "text": "x"}],
    lambda number: {f"{number}": [{}] * 50},
    lambda number: "漢",
    lambda number: "ab",
    lambda number: f"{number}",
    lambda number: [f"{number}"],
)


def amplify(source: Source, chance: random.Random) -> Iterator[Chunk]:
    """Yield a stream without an end: one to three chunks again and again, with values that differ each time.

    A value may be a text or a number, the name of a field, or anything in the place of another value.

    Args:
        source: the stream.
        chance: chooses the chunks and the values.
    """
    at = chance.randrange(len(source.chunks))
    yield from copy.deepcopy(source.chunks[:at])
    chunks = list(copy.deepcopy(source.chunks[at : at + chance.choice((1, 1, 1, 2, 3))]))
    for chunk in chunks:
        if chance.random() < 0.3:
            _edit_chunk(chunk, chance)
    varied = [(chunk, _variations(chunk, chance)) for chunk in chunks]
    number = 0
    while True:
        number += 1
        for chunk, variations in varied:
            copied = copy.deepcopy(chunk)
            for path, vary in variations:
                _vary(copied, path, vary, number)
            yield copied


def _variations(chunk: Chunk, chance: random.Random) -> list[tuple[tuple[Any, ...], Callable[[int], Any] | None]]:
    """Return what differs each time in a chunk: places, each with a function of the number, or None for its name."""
    spots = list(places(chunk))
    leaves = [path for path in spots if isinstance(_container(chunk, path)[path[-1]], (str, int))]
    variations: list[tuple[tuple[Any, ...], Callable[[int], Any] | None]] = []
    for path in chance.sample(leaves, min(len(leaves), chance.randint(1, 2))):
        value = _container(chunk, path)[path[-1]]
        if not isinstance(value, str):
            variations.append((path, lambda number: number))
            continue
        text = value + chance.choice(("", "x", "漢", " ", "😀")) * chance.choice((1, 20, 5000))
        variations.append((path, lambda number, text=text: f"{text}{number}"))  # type: ignore[misc]
    if spots and chance.random() < 0.5:
        variations.append((chance.choice(spots), chance.choice(_GROWING)))
    names = [path for path in spots if isinstance(path[-1], str)]
    if names and chance.random() < 0.2:
        variations.append((chance.choice(names), None))
    if chance.random() < 0.3:  # a field that the wire may not have, beside one that it has
        path = chance.choice(spots) if spots else ("extra",)
        if isinstance(path[-1], str):
            variations.append(
                ((*path[:-1], chance.choice(("extra", "index", "id", "metadata"))), chance.choice(_GROWING))
            )
    return variations


def _vary(chunk: Chunk, path: tuple[Any, ...], vary: Callable[[int], Any] | None, number: int) -> None:
    try:
        container = _container(chunk, path)
        if vary is None:
            container[f"{path[-1]}{number}"] = container.pop(path[-1])
        else:
            container[path[-1]] = vary(number)
    except (AttributeError, KeyError, IndexError, TypeError):
        pass  # another variation has replaced what contained it
