"""What must hold for every stream, however damaged; each check raises ``AssertionError`` with what differs."""

from __future__ import annotations

import gc
import json
import random
import tracemalloc
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from fuzz.mutations import Chunk
from test_cross_provider import conversation, judge

from streamkit import Content, Limits, Turn, events, providers
from streamkit.events import (
    ArgumentsRestated,
    BlockEnded,
    Event,
    Failed,
    Finished,
    Reasoning,
    Refusal,
    ResponseStarted,
    Text,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallReady,
    ToolCallStart,
)
from streamkit.reading.leaked_markup import LeakedMarkup
from streamkit.testing.case import encode_frame, encode_json_array, encode_stream, full_snapshot, merge_deltas

__all__ = ["SMALL", "check_content", "check_cuts", "check_events", "check_memory", "check_turn"]

SMALL = 100_000  #: of characters and bytes, for the check of memory
HELD = 1_000_000  #: bytes that a turn with those limits may hold
FED = 4_000_000  #: bytes that are fed to it
LONGEST = 40_000  # chunks of a stream without an end


def check_turn(provider: str, chunks: list[Chunk], chance: random.Random) -> Turn:
    """Feed a stream in every form and in several splits, check everything, and return the turn."""
    traits = providers.get(provider).traits
    end_marker = chance.choice((traits.end_marker, None))
    data = encode_stream(chunks, traits, end_marker=end_marker)
    turn = check_cuts(provider, data, chance)
    if traits.framing == "sse" and chance.random() < 0.2:
        check_cuts(provider, encode_json_array(chunks), chance)
    _check_forms(provider, chunks, data, turn)
    check_content(turn)
    return turn


def check_cuts(provider: str, data: bytes, chance: random.Random) -> Turn:
    """Feed the same bytes in several splits: the same events and the same turn. Return the turn."""
    turn, seen = run(provider, [data])
    check_events(turn, seen)
    reference = snapshot(turn, seen)
    for parts in _splits(data, chance):
        again, seen = run(provider, parts)
        check_events(again, seen)
        _same(reference, snapshot(again, seen), f"cut at {[len(part) for part in parts][:20]}")
    return turn


def _splits(data: bytes, chance: random.Random) -> Iterator[list[bytes]]:
    if len(data) <= 6000:
        yield [data[at : at + 1] for at in range(len(data))]
    for mean in (5, 300):
        if len(data) < 2000 * mean:
            cuts = sorted(chance.sample(range(len(data) + 1), min(len(data) // mean + 1, len(data) + 1)))
            yield [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def _check_forms(provider: str, chunks: list[Chunk], data: bytes, turn: Turn) -> None:
    """Feed the chunks as dicts and as objects: nothing raises, both give the same, and dicts are not changed."""
    before = json.dumps(chunks)
    as_dicts, seen = run(provider, chunks, complete=True)
    check_events(as_dicts, seen)
    assert json.dumps(chunks) == before, "the parser changed the dicts that were fed"
    as_objects, seen_of_objects = run(provider, [_ChunkObject(chunk) for chunk in chunks], complete=True)
    _same(snapshot(as_dicts, seen), snapshot(as_objects, seen_of_objects), "dicts, then objects")
    if turn.error is None and as_dicts.error is None and turn.finish is not None and turn.finish.raw is not None:
        for name in ("text", "reasoning", "refusal", "calls", "finish", "server_calls"):
            mine, other = getattr(turn, name), getattr(as_dicts, name)
            assert _plain(mine) == _plain(other), f"{name}: bytes give {mine!r}, dicts give {other!r}"


def check_events(turn: Turn, seen: list[Event]) -> None:
    """Check the invariants of a closed turn and its events."""
    assert turn.closed
    assert turn.error is not None or turn.finish is not None, "neither a finish nor an error"
    assert turn.error is None or not turn.executable, "executable calls of a failed turn"
    json.dumps(turn.to_dict(), allow_nan=False).encode()
    started: dict[tuple[int, str], str] = {}
    ended: set[tuple[int, str]] = set()
    ready: dict[tuple[int, str], ToolCallReady] = {}
    late = {warning.call_id for warning in turn.warnings}
    texts: dict[tuple[int, type, int], str] = {}  # by choice, kind and block
    for number, event in enumerate(seen):
        line = events.to_json(event)
        again = events.to_json(events.from_json(line))
        assert json.loads(again) == json.loads(line), "an event's JSON is not stable"
        match event:
            case ResponseStarted():
                assert not any(isinstance(each, (ResponseStarted, Text, ToolCallStart)) for each in seen[:number])
            case Text() | Reasoning() | Refusal():
                event.text.encode()  # raises for half of a surrogate pair
                place = event.choice, type(event), event.block
                texts[place] = texts.get(place, "") + event.text
            case BlockEnded():
                assert event.kind in ("text", "reasoning", "refusal")
            case ToolCallStart():
                key = event.choice, event.call.id
                assert key not in started, "a call started twice"
                started[key] = ""
            case ToolCallDelta():
                event.arguments_delta.encode()
                started[event.choice, event.call.id] += event.arguments_delta
                assert (event.choice, event.call.id) not in ready or event.call.id in late, "a delta after ready"
            case ArgumentsRestated():
                started[event.choice, event.call.id] = event.arguments_text
            case ToolCallEnd():
                key = event.choice, event.call.id
                assert key in started
                assert key not in ended, "a call ended twice"
                ended.add(key)
            case ToolCallReady():
                key = event.choice, event.call.id
                assert key in started
                assert key not in ready, "a call was ready twice"
                ready[key] = event
            case Failed():
                assert turn.error is not None
            case Finished():
                pass
    assert sum(isinstance(event, Failed) for event in seen) == (turn.error is not None)
    views = {view.index: view for view in turn.choices}
    for choice, kind in {(choice, kind) for choice, kind, _ in texts}:
        name = {Text: "text", Reasoning: "reasoning", Refusal: "refusal"}[kind]
        blocks = sorted(place[2] for place in texts if place[:2] == (choice, kind))
        text = "".join([texts[choice, kind, block] for block in blocks])
        assert (getattr(views[choice], name) or "") == text, f"the events of {name} do not give it"
    for view in turn.choices:
        for call in view.calls:
            key = view.index, call.id
            assert key in ended, "a call without an end"
            assert key in ready, "a call was never ready"
            assert ready[key].call.state == call.state, f"ready {ready[key].call.state}, then {call.state}"
            assert _plain(ready[key].call.arguments) == _plain(call.arguments), "the arguments changed after ready"
            assert started[key] == call.arguments_text, "the deltas do not give the arguments"


def check_content(turn: Turn) -> None:
    """Check that the turn's content is stored without loss, and continues on every provider."""
    content = turn.content
    stored = content.model_dump_json()
    assert Content.model_validate_json(stored) == content, "a stored content differs"
    if content.blocks:
        judge(conversation(turn), "a damaged stream", is_damaged=True)


def check_memory(
    provider: str,
    chunks: Iterable[Chunk],
    *,
    markup: LeakedMarkup = "keep",
    form: str = "bytes",
    length: int = LONGEST,
) -> str | None:
    """Feed a long stream with small limits; what the turn holds stays small. Return how it ended.

    Args:
        provider: the provider of the stream.
        chunks: the stream.
        markup: how the turn treats markup in text.
        form: ``bytes`` or ``dict``.
        length: how many chunks are fed, at most.
    """
    traits = providers.get(provider).traits
    limits = Limits(arguments=SMALL, text=SMALL, frame=SMALL)
    turn = Turn(provider, "turn-1", limits=limits, leaked_markup=markup)
    gc.collect()
    tracemalloc.start()
    try:
        fed = 0
        for chunk in islice(chunks, length):
            try:
                frame = encode_frame(chunk, traits)
            except (ValueError, IndexError):  # a message of AWS has one short name
                continue
            fed += len(frame)
            turn.feed(frame if form == "bytes" else chunk)
            if turn.done or fed > FED:
                break
        del chunk, frame
        gc.collect()
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < HELD, f"{fed} bytes were fed, and {held} are held (at most {most})"
    turn.close()
    return turn.error.kind if turn.error is not None else None


# ---------------------------------------------------------------- running


class _ChunkObject:
    def __init__(self, data: Any) -> None:
        self._data = data

    def model_dump(self, **_: Any) -> Any:
        return self._data


def run(provider: str, parts: Iterable[Any], *, complete: bool = False) -> tuple[Turn, list[Event]]:
    """Return a closed turn and all its events."""
    turn = Turn(provider, "turn-1")
    seen: list[Event] = []
    for part in parts:
        seen += turn.feed(part)
    return turn, seen + turn.close(complete=complete)


def snapshot(turn: Turn, seen: list[Event]) -> dict[str, Any]:
    """Return all that a turn is and has emitted, for comparison."""
    return {"turn": full_snapshot(turn), "events": merge_deltas(seen)}


def _plain(value: Any) -> str:
    return repr(value)


def _same(first: Any, other: Any, where: str) -> None:
    if first != other:
        names = [name for part in first for name in _differing(first[part], other[part])]
        raise AssertionError(f"{where}: {', '.join(names)} differ:\n{first}\n{other}")


def _differing(first: Any, other: Any) -> list[str]:
    if isinstance(first, dict):
        return [name for name in first if first[name] != other.get(name)]
    return [] if first == other else ["events"]
