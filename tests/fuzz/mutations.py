"""One library of damage, for the fuzzer, its tests and ``benchmarks.compare_commits``.

A mutation keeps the structure of a document and changes what it contains: values of another type, missing, renamed and
unknown fields, ids of elsewhere, argument text that is almost JSON, chunks that are repeated, swapped, merged, lost or
of another stream, and the bytes of single frames. All choices come from one ``random.Random``, so a seed gives the same
inputs on every machine.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, TypeAlias

from fuzz.inputs import Chunk, Input, Source, encode_parts, expand, sources

from streamkit import providers

__all__ = ["amplify", "combine", "mutate", "mutate_chunks", "places"]

Path: TypeAlias = tuple[Any, ...]
Parts: TypeAlias = list[Any]

#: Values that a field may have on a broken or hostile server, whatever its type should be.
HOSTILE: tuple[Any, ...] = (
    None, "", " ", "{", "}", '{"a":1}', '{"a":1}{"b":2}', '{"a":1e999}', "null", "[]", "[DONE]", "\ud83d",
    "\ude00", "\U0001f600", "\ud83d\ude00", "\x00", "\x1b]52;c;eA==\x07", "0", "1", "-1", 0, 1, -1, 1.0, 1.5, 2**63,
    -(2**70), 10**400, 1e308, float("inf"), float("nan"), True, False, [], {}, [None], [[]], {"": None},
    {"a": {"b": []}}, "hist_tool_" + "a" * 24, "tool_calls", "stop", "x" * 2000,
    {"$nest": 300, "$value": "x"}, {"$nest": 500, "$value": 1, "$name": "a"}, {"$times": 400, "$value": {}},
    {"$keys": 300, "$value": 0}, "<tool_call>", "https://e.org/a.png", "data:image/png;base64,iVBORw0KGgo=",
)  # fmt: skip
#: Text that is inserted into texts.
FRAGMENTS = (
    "{", "}", '"', "\\", "\\u", "\\ud83d", "\ud83d", "\ude00", "{}", '{"a":1}', "[", "]", ",", ":", "null", "1e999",
    "NaN", " ", "\n", "\r", "\u2028", "\x00", "<tool_call>", "</tool_call>", '{"name":"f","arguments":{}}', "<think>",
    "</think>", "<\uff5ctool\u2581calls\u2581begin\uff5c>", "<|tool_call_begin|>", "```json\n", "```",
)  # fmt: skip
#: Bytes that mean something to a framing, or that UTF-8 and JSON do not have.
BYTES = (
    "\xef\xbb\xbf", "\r", "\n", "\r\n", "\n\n", "\r\r", ": comment\n", "data", "data\n", "data:\n", "data: ", "data:{}",
    "event: error\n", "event:\n", "id: 1\n", "retry: 1\n", "data: [DONE]\n\n", "[DONE]", "\x00", "\xff", "\x80",
    "\xed\xa0\xbd", "{", "}", "[", "]", ",", '"', "\\", "\\ud83d", "1e999", "NaN", "-", " ", "\t", "<html>", "[{", "}]",
)  # fmt: skip
_REPEATED = ("[", "{", '{"a":', '"', "\\", "[{},", "data: x\n", ": \n", "\n", " ", "\r", "0", "\xff")


def mutate(given: Input, chance: random.Random, options: Mapping[str, Sequence[str]], donors: Sequence[Parts]) -> Input:
    """Return an input with one to five mutations.

    Args:
        given: the input, which is not changed.
        chance: makes all choices.
        options: the values of each option of the target.
        donors: parts of other inputs of the target, of which some may be inserted.
    """
    parts, fields = json.loads(json.dumps(given.parts)), {}  # nothing is in it twice as one object
    chosen = dict(given.options)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 5))):
        kind = chance.random()
        if kind < 0.05 and options:
            name = chance.choice(sorted(options))
            chosen[name] = chance.choice(options[name])
        elif kind < 0.1:
            fields["provider"] = _other_provider(given.provider, chance)
        elif kind < 0.13:
            fields["other"] = chance.choice(providers.names())
        elif kind < 0.18:
            fields["seed"] = chance.randrange(1 << 16)  # type: ignore[assignment]
        elif kind < 0.4:
            _edit_parts(parts, chance, donors)
        elif kind < 0.6:
            _edit_bytes(parts, chance, given.provider)
        else:
            _edit_value(parts, chance)
    return replace(given, parts=parts, options=chosen, **fields)  # type: ignore[arg-type]


def combine(one: Input, other: Input, chance: random.Random) -> Input:
    """Return the first input with some of the other one's parts."""
    start, end = sorted(chance.randint(0, len(other.parts)) for _ in range(2))
    at = chance.randint(0, len(one.parts))
    replaced = chance.choice((0, end - start))
    return replace(one, parts=[*one.parts[:at], *copy.deepcopy(other.parts[start:end]), *one.parts[at + replaced :]])


def mutate_chunks(source: Source, chance: random.Random) -> list[Chunk]:
    """Return the chunks of a stream with up to five mutations of chunks and values; rarely none."""
    chunks: list[Any] = list(copy.deepcopy(source.chunks[-400:] if chance.random() < 0.2 else source.chunks[:400]))
    donors = [list(chance.choice(sources()).chunks[:50])]
    for _ in range(chance.choice((0, 1, 1, 2, 3, 5))):
        if chance.random() < 0.4:
            _edit_parts(chunks, chance, donors)
        else:
            _edit_value(chunks, chance)
    expanded = [each for each in map(expand, chunks) if isinstance(each, dict)]
    if providers.get(source.provider).traits.framing != "event_stream":
        return expanded
    return [each for each in expanded if len(each) == 1 and len(next(iter(each))) < 60]  # a message of AWS has one name


def _other_provider(name: str, chance: random.Random) -> str:
    """Return another provider, mostly one of the same wire."""
    package = providers.get(name).package
    same = [other for other in providers.names() if providers.get(other).package == package]
    return chance.choice(same if chance.random() < 0.7 else providers.names())


# ---------------------------------------------------------------- the parts of an input


def _edit_parts(parts: Parts, chance: random.Random, donors: Sequence[Parts]) -> None:
    """Drop, repeat, move, merge or split parts, or insert some of another input."""
    if not parts or chance.random() < 0.2:
        donor = chance.choice(donors) if donors else []
        at, start = chance.randint(0, len(parts)), chance.randint(0, max(0, len(donor) - 1))
        parts[at:at] = copy.deepcopy(donor[start : start + chance.choice((1, 1, 2, 5, 50))])
        return
    at, other = chance.randrange(len(parts)), chance.randrange(len(parts))
    match chance.randrange(8):
        case 0:
            parts[other:other] = [copy.deepcopy(parts[at]) for _ in range(chance.choice((1, 1, 2, 20)))]
        case 1:
            del parts[at : at + chance.choice((1, 1, 3))]
        case 2:
            parts[at], parts[other] = parts[other], parts[at]
        case 3:
            del parts[at + 1 :]
        case 4:
            parts.insert(other, parts.pop(at))
        case 5:
            parts[at] = _merged(parts[at], copy.deepcopy(parts[other]))
        case 6:
            parts[at : at + 1] = _split(parts[at], chance)
        case _:
            parts[at:] = copy.deepcopy(parts[: at + 1])


def _merged(one: Any, other: Any) -> Any:
    """Return two chunks as one: its objects have the fields of both, its lists the items of both."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {name: _merged(one[name], other[name]) if name in one and name in other else {**one, **other}[name]
                for name in {**one, **other}}  # fmt: skip
    if isinstance(one, list) and isinstance(other, list):
        return one + other
    return other


def _split(part: Any, chance: random.Random) -> Parts:
    """Return a chunk as two: a text, list or object within it is divided."""
    spots = [path for path in places([part]) if isinstance(_get([part], path), (str, list, dict))]
    if not spots:
        return [part]
    path = chance.choice(spots)
    value = _get([part], path)
    at = chance.randint(0, len(value))
    first, second = (
        (dict(list(value.items())[:at]), dict(list(value.items())[at:]))
        if isinstance(value, dict)
        else (value[:at], value[at:])
    )
    halves = [[copy.deepcopy(part)], [copy.deepcopy(part)]]
    for half, replaced in zip(halves, (first, second), strict=True):
        _container(half, path)[path[-1]] = replaced
    return [halves[0][0], halves[1][0]]


# ---------------------------------------------------------------- the values in them


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the path of every value within a JSON value."""
    if path:
        yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


def _container(value: Any, path: Path) -> Any:
    for step in path[:-1]:
        value = value[step]
    return value


def _get(value: Any, path: Path) -> Any:
    return _container(value, path)[path[-1]]


@cache
def vocabulary() -> dict[str, tuple[Any, ...]]:
    """Return short values of each field in the undamaged streams, by the field's name."""
    found: dict[str, dict[str, Any]] = {}
    for source in sources():
        for chunk in source.chunks[:40]:
            for path in places(chunk):
                if isinstance(path[-1], str):
                    value = _get(chunk, path)
                    text = json.dumps(value)
                    if len(text) < 400:
                        found.setdefault(path[-1], {}).setdefault(text, value)
    return {name: tuple(list(values.values())[:40]) for name, values in sorted(found.items()) if len(name) < 60}


def _any_value(chance: random.Random, name: Any = None) -> Any:
    known = vocabulary().get(name, ()) if isinstance(name, str) else ()
    return copy.deepcopy(chance.choice(known) if known and chance.random() < 0.4 else chance.choice(HOSTILE))


def _edit_value(parts: Parts, chance: random.Random) -> None:
    """Change one value, or a field wherever it is."""
    spots = list(places(parts))
    if spots:
        path = chance.choice(spots)
        chance.choice(_EDITS)(parts, path, spots, chance)


def _replace(parts: Parts, path: Path, spots: list[Path], chance: random.Random) -> None:
    _container(parts, path)[path[-1]] = _any_value(chance, path[-1])


def _delete(parts: Parts, path: Path, spots: list[Path], chance: random.Random) -> None:
    del _container(parts, path)[path[-1]]


def _wrap(parts: Parts, path: Path, spots: list[Path], chance: random.Random) -> None:
    """Put a value into a list, an object or JSON text, or take it out of one."""
    container = _container(parts, path)
    value = container[path[-1]]
    if isinstance(value, list) and value:
        container[path[-1]] = value[0]
    elif isinstance(value, dict) and value and chance.random() < 0.5:
        container[path[-1]] = json.dumps(value)
    else:
        container[path[-1]] = [value, copy.deepcopy(value)] if chance.random() < 0.5 else {"value": value}


def _retype(parts: Parts, path: Path, spots: list[Path], chance: random.Random) -> None:
    """Write a number as text, a text as a number or a list, anything else as a boolean."""
    container = _container(parts, path)
    value = container[path[-1]]
    if isinstance(value, str):
        container[path[-1]] = chance.choice(([value], len(value), {"text": value}, {"type": value}, value == ""))
    else:
        container[path[-1]] = chance.choice((str(value)[:100], bool(value), None))


def _add_field(parts: Parts, path: Path, spots: list[Path], chance: random.Random) -> None:
    """Add a field that some wire has to an object, a value to a list."""
    container = _container(parts, path)
    if isinstance(container, dict):
        usual = ("extra", "index", "id", "name", "type", "error", "text", "usage", "content")
        name = chance.choice(usual if chance.random() < 0.4 else list(vocabulary()))
        container[name] = _any_value(chance, name)
    elif len(path) > 1:
        container.insert(chance.randint(0, len(container)), _any_value(chance))


def _rename(parts: Parts, path: Path, spots: list[Path], chance: random.Random) -> None:
    container = _container(parts, path)
    if isinstance(container, dict):
        container[chance.choice(list(vocabulary()))] = container.pop(path[-1])


def _copy(parts: Parts, path: Path, spots: list[Path], chance: random.Random) -> None:
    """Replace a value by that of another place, mostly of a field of the same name: ids and indexes occur twice."""
    same = [other for other in spots if other[-1] == path[-1] and other != path]
    other = chance.choice(same if same and chance.random() < 0.8 else spots)
    _container(parts, path)[path[-1]] = copy.deepcopy(_get(parts, other))


def _everywhere(parts: Parts, path: Path, spots: list[Path], chance: random.Random) -> None:
    """Replace a field by one value, or delete it, in all parts."""
    value, is_deleted = _any_value(chance, path[-1]), chance.random() < 0.4
    for other in reversed(spots):  # the inner ones first
        if other[-1] == path[-1] and isinstance(path[-1], str):
            container = _container(parts, other)
            if is_deleted:
                del container[other[-1]]
            else:
                container[other[-1]] = copy.deepcopy(value)


def _grow(parts: Parts, path: Path, spots: list[Path], chance: random.Random) -> None:
    """Repeat or nest a value, or make a number large."""
    container = _container(parts, path)
    value = container[path[-1]]
    if isinstance(value, (int, float)):
        container[path[-1]] = chance.choice((2**31, 2**53 + 1, 2**64, 10 ** chance.randint(20, 4000), 1e309, -1e-400))
    elif chance.random() < 0.6:
        container[path[-1]] = {"$times": chance.choice((3, 50, 700, 4000)), "$value": value}
    else:
        name = path[-1] if isinstance(path[-1], str) and chance.random() < 0.5 else None
        container[path[-1]] = {"$nest": chance.choice((2, 60, 200, 590)), "$value": value, "$name": name}


def _edit_text(parts: Parts, path: Path, spots: list[Path], chance: random.Random) -> None:
    """Insert into, cut or double a text; a number becomes text."""
    container = _container(parts, path)
    value = container[path[-1]]
    if not isinstance(value, str):
        container[path[-1]] = str(value)[:100] if isinstance(value, (int, float)) else value
        return
    at = chance.randint(0, len(value))
    end = min(len(value), at + chance.choice((1, 1, 5, 40)))
    container[path[-1]] = chance.choice((
        value[:at] + chance.choice(FRAGMENTS) + value[at:], value[:at] + chance.choice(FRAGMENTS) + value[at:],
        value[:at], value[at:], value[:at] + value[end:], value + value, value.upper(), json.dumps(value),
    ))  # fmt: skip


_Edit: TypeAlias = Callable[[Parts, Path, list[Path], random.Random], None]
_EDITS: tuple[_Edit, ...] = (
    _replace, _replace, _replace, _delete, _delete, _wrap, _retype, _add_field, _add_field, _rename, _copy, _copy,
    _everywhere, _grow, _edit_text, _edit_text, _edit_text,
)  # fmt: skip


# ---------------------------------------------------------------- bytes


def _edit_bytes(parts: Parts, chance: random.Random, provider: str) -> None:
    """Make bytes of one to three parts, or change the bytes of a part that already is."""
    raw = [at for at, part in enumerate(parts) if isinstance(part, dict) and isinstance(part.get("$bytes"), str)]
    if not raw or chance.random() < 0.3:
        at = chance.randint(0, max(0, len(parts) - 1))
        some = parts[at : at + chance.choice((1, 1, 2, 3))]
        parts[at : at + len(some)] = [{"$bytes": b"".join(encode_parts(some, provider)).decode("latin-1")}]
    else:
        at = chance.choice(raw)
    text = parts[at]["$bytes"]
    start = chance.randint(0, len(text))
    end = min(len(text), start + chance.choice((1, 1, 2, 8, 100)))
    match chance.randrange(10):
        case 0:
            parts[at]["$bytes"] = text[:start] + text[end:]
        case 1:
            parts[at]["$bytes"] = text[:start] + text[start:end] * 2 + text[end:]
        case 2:
            parts[at]["$bytes"] = text[:start]
        case 3:
            parts[at]["$bytes"] = text[:start] + chr(chance.randrange(256)) + text[start + 1 :]
        case 4:
            old, new = chance.sample(("\r\n", "\n", "\r", "\n\n", "\n\n\n", ""), 2)
            parts[at]["$bytes"] = text.replace(old or "\n", new)
        case 5:
            parts.insert(at, {"$bytes": chance.choice(_REPEATED), "$times": chance.choice((2, 300, 20_000))})
        case _:
            parts[at]["$bytes"] = text[:start] + chance.choice(BYTES) + text[start:]


# ---------------------------------------------------------------- streams without an end

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
    chunks: list[Any] = list(copy.deepcopy(source.chunks[at : at + chance.choice((1, 1, 1, 2, 3))]))
    if chance.random() < 0.3:
        _edit_value(chunks, chance)
    varied = [(chunk, _variations(chunk, chance)) for chunk in chunks if isinstance(chunk, dict)]
    number = 0
    while varied:
        number += 1
        for chunk, variations in varied:
            copied = copy.deepcopy(chunk)
            for path, vary in variations:
                _vary(copied, path, vary, number)
            yield copied


def _variations(chunk: Chunk, chance: random.Random) -> list[tuple[Path, Callable[[int], Any] | None]]:
    """Return what differs each time in a chunk: places, each with a function of the number, or None for its name."""
    spots = list(places(chunk))
    leaves = [path for path in spots if isinstance(_get(chunk, path), (str, int))]
    variations: list[tuple[Path, Callable[[int], Any] | None]] = []
    for path in chance.sample(leaves, min(len(leaves), chance.randint(1, 2))):
        value = _get(chunk, path)
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
            name = chance.choice(("extra", "index", "id", "metadata"))
            variations.append(((*path[:-1], name), chance.choice(_GROWING)))
    return variations


def _vary(chunk: Chunk, path: Path, vary: Callable[[int], Any] | None, number: int) -> None:
    try:
        container = _container(chunk, path)
        if vary is None:
            container[f"{path[-1]}{number}"] = container.pop(path[-1])
        else:
            container[path[-1]] = vary(number)
    except (AttributeError, KeyError, IndexError, TypeError):
        pass  # another variation has replaced what contained it
