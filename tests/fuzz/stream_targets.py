"""Targets that read and write streams: ``Turn``, the framers, the writers, ``Growing``."""

from __future__ import annotations

import copy
import json
import random
import tracemalloc
from collections.abc import Iterable
from time import process_time
from typing import Any

from fuzz.checks import Fault, check_events, check_same, check_stored, check_turn, cut, require, run, snapshot
from fuzz.inputs import Input, encode_parts, expand, part_bytes, stream_bytes
from fuzz.mutations import places
from fuzz.target import Target, stream_seeds
from test_written_streams import LOSSES

from streamkit import Growing, InvalidOutput, ToolCall, Turn, writer
from streamkit.events import Event, Reasoning, Refusal, Text, ToolCallStart
from streamkit.framing import framer_for

__all__ = ["STREAM_TARGETS", "calls_kept"]

_MARKUP = ("keep", "keep", "strip", "recover")
_FRAMINGS = ("own", "own", "own", "sse", "ndjson", "array")
_FRAME = 64_000  #: bytes of the one frame
_LONGEST_OUTPUT = 500_000  # characters: a second of work
_CONTENT = (Text, Reasoning, Refusal, ToolCallStart)
_MEASURED = 16  #: of so many inputs the time of one is measured
_READING = {"markup": _MARKUP, "framing": _FRAMINGS, "end": ("marker", "none")}


def _options(given: Input) -> dict[str, Any]:
    markup = given.options.get("markup", "keep")
    return {} if markup == "keep" else {"leaked_markup": markup}


def feed_bytes(given: Input) -> None:
    """Feed bytes whole and in two random cuts: the same result."""
    data, options, chance = stream_bytes(given), _options(given), random.Random(given.seed)
    turn, seen = run(given.provider, [data], **options)
    check_turn(turn)
    check_events(turn, seen)
    check_stored([turn.content])
    first = snapshot(turn, seen)
    for _ in range(2):
        parts = cut(data, chance)
        again, seen = run(given.provider, parts, **options)
        check_turn(again)
        check_same(first, snapshot(again, seen), "whole, then cut", f"cut at {[len(part) for part in parts][:20]}")


class _ChunkObject:
    """A chunk with the interface of an SDK's."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def model_dump(self, **_: Any) -> Any:
        return self._data


def feed_dicts(given: Input) -> None:
    """Feed chunks as dicts and as objects: the same result, and the dicts are not changed."""
    chunks = [chunk for part in given.parts if part_bytes(part) is None and isinstance(chunk := expand(part), dict)]
    before, options = json.dumps(chunks), _options(given)
    complete = given.options.get("end") == "marker"
    turn, seen = run(given.provider, chunks, complete=complete, **options)
    require(json.dumps(chunks) == before, "the dicts that are fed are not changed")
    check_turn(turn)
    check_events(turn, seen)
    objects, seen_of_objects = run(
        given.provider, [_ChunkObject(chunk) for chunk in chunks], complete=complete, **options
    )
    check_turn(objects)
    check_same(snapshot(turn, seen), snapshot(objects, seen_of_objects), "dicts, then objects")


# ---------------------------------------------------------------- the memory and the cost of one frame


def one_frame(given: Input) -> Iterable[str] | None:
    """Feed one large frame: it takes memory for 20 times its bytes and 2 MB at most.

    The last part is the frame; one value of it is repeated until it has 64 kB.
    """
    frame = _grown_frame(given, _FRAME)
    if frame is None or len(frame) > 2 * _FRAME:  # a larger one of empty objects takes 24 times its bytes to decode
        return None
    before = encode_parts(given.parts[:-1], given.provider)
    turn = _turn_after(given, before)
    tracemalloc.start()
    try:
        turn.feed(frame)
        turn.close()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    check_turn(turn)
    detail = f"{len(frame)} bytes took {most}"
    require(most <= 20 * len(frame) + 2_000_000, "a frame takes 20 times its bytes and 2 MB at most", detail, "memory")
    return _reported_cost(given, before, frame) if given.seed % _MEASURED == 0 else None


def _reported_cost(given: Input, before: list[bytes], frame: bytes) -> list[str]:
    """Return a sentence if a frame of twice the bytes takes more than three times as long."""
    larger = _grown_frame(given, 2 * _FRAME) or b""
    first, second = (_seconds(_turn_after(given, before), each) for each in (frame, larger))
    if len(larger) > 2.2 * len(frame) or second < max(0.05, 3 * first):
        return []
    return [f"a frame of {len(larger)} bytes took {second:.3f} s, one of {len(frame)} {first:.3f} s"]


def _grown_frame(given: Input, size: int) -> bytes | None:
    """Return the last part with one value repeated to about so many bytes, None if there is none."""
    if not given.parts or part_bytes(given.parts[-1]) is not None:
        return None
    chunk = [copy.deepcopy(given.parts[-1])]
    spots = [path for path in places(chunk) if len(path) > 1]
    if not spots:
        return None
    path = spots[given.seed % len(spots)]
    container: Any = chunk
    for step in path[:-1]:
        container = container[step]
    value = container[path[-1]]
    number = max(1, size // (len(json.dumps(value)) + 2))
    if isinstance(value, (str, list)) and value:
        container[path[-1]] = value * number
    elif isinstance(value, dict):
        container[path[-1]] = {f"key{at}": value for at in range(number // 2)}
    else:
        container[path[-1]] = [value] * number
    return encode_parts(chunk, given.provider)[0] or None


def _turn_after(given: Input, before: list[bytes]) -> Turn:
    turn = Turn(given.provider, "turn-1", **_options(given))
    for frame in before:
        turn.feed(frame)
    return turn


def _seconds(turn: Turn, frame: bytes) -> float:
    started = process_time()
    turn.feed(frame)
    turn.close()
    return process_time() - started


# ---------------------------------------------------------------- framers


def framers(given: Input) -> None:
    """Split bytes into frames whole, in cuts, and as ``Turn`` reads them: the same frames."""
    data = stream_bytes(given)
    limit = int(given.options.get("limit", "1000"))
    for framing in ("sse", "ndjson", "json_array", "event_stream"):
        chance = random.Random(given.seed)
        first = _frames(framing, limit, [data], is_taking=False)
        require(sum(len(payload) for _, payload in first["frames"]) <= len(data), "frames contain what was fed")
        for is_taking in (False, True):
            parts = cut(data, chance)
            other = _frames(framing, limit, parts, is_taking=is_taking)
            if other != first:
                name = next(name for name in first if first[name] != other[name])
                detail = f"cut at {[len(part) for part in parts][:20]}: {first[name]!r:.300} {other[name]!r:.300}"
                raise Fault("disagreement", f"{framing} framer: {name}", detail)


def _frames(framing: str, limit: int, parts: list[bytes], *, is_taking: bool) -> dict[str, Any]:
    framer = framer_for(framing, limit)
    frames = []
    for part in parts:
        payload = framer.take(part) if is_taking else None
        frames += framer.feed(part) if payload is None else [(framer.name, payload)]
    frames += framer.close()
    ended = {"frames": frames, "overflow": framer.overflow, "error": framer.error, "unseparated": framer.unseparated}
    require(framer.feed(b"data: {}\n\n") == [], "a closed framer returns nothing")
    return ended


# ---------------------------------------------------------------- writers


def write(given: Input) -> None:
    """Write a turn as another wire's stream and read it again: the calls are kept."""
    turn, seen = run(given.provider, [stream_bytes(given)], **_options(given))
    target = given.other if given.other in LOSSES else "openai_chat"
    live = writer(target, response_id="resp_1", model="m")
    written = b"".join([*map(live.write, seen), live.close()])
    require(live.close() == b"", "a closed writer writes nothing")
    again, _ = run(target, [written])
    check_turn(again)
    calls_kept(turn, seen, again, target, "changed_call" in live.omitted)


def calls_kept(turn: Turn, seen: list[Event], again: Turn, target: str, is_changed: bool) -> None:
    """Check that a turn that was read again has the calls of the turn that was written.

    Args:
        turn: the turn that was written.
        seen: its events. Written is the choice that sends something first.
        again: the turn that was read again.
        target: the wire in between, a key of ``written_losses.toml``.
        is_changed: whether a call was omitted, since its arguments changed after they were sent.
    """
    first = next((event.choice for event in seen if isinstance(event, _CONTENT)), turn.index)
    view = next((view for view in turn.choices if view.index == first), turn)
    wanted = [_as_function(call) for call in view.executable]
    found = [_as_function(call) for call in again.executable]
    complete = [_as_function(call) for each in turn.choices for call in each.calls if call.state == "complete"]
    places = [event.call.index for event in seen if isinstance(event, ToolCallStart) and event.choice == first]
    if places != sorted(places):  # a call whose name came late: on the wire its start is behind that of the next one
        wanted, found = sorted(wanted), sorted(found)
    detail = f"from {turn.provider.name}: {found!s:.300}, not {wanted!s:.300}; {again.error!r:.200}"
    if turn.error is not None:
        require(not found, f"nothing of a failed turn is executable as {target}", detail, "lost")
    elif is_changed or len(turn.choices) > 1 or view.finish is None or view.finish.reason not in ("stop", "tool_calls"):
        # A wire without an event for the end of a call does not confirm that a call was not cut.
        require(set(found) <= set(complete), f"no other call is executable as {target}", detail, "lost")
    else:
        require(found == wanted, f"the executable calls are the same as {target}", detail, "lost")


def _as_function(call: ToolCall) -> str:
    """Return the name and the arguments of a call; a wire without custom calls has their text in an object."""
    return repr((call.name, {"input": call.arguments} if call.kind == "custom" else call.arguments))


# ---------------------------------------------------------------- structured output

_SCHEMAS: dict[str, Any] = {
    "any": None,
    "object": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "array"}}},
    "list": list[dict[str, Any]],
    "number": float,
    "text": str,
}


def growing(given: Input) -> None:
    """Read a structured output whole and in cuts: the same value, and the same or no output."""
    text = "".join(str(expand(part)) if part_bytes(part) is None else part["$bytes"] for part in given.parts)
    text, chance = text[:_LONGEST_OUTPUT], random.Random(given.seed)
    texts = [text[:at] for at in (len(text),)], [text[start : start + 3] for start in range(0, len(text), 3)]
    size = chance.randint(1, 40)
    outcomes = []
    for deltas in (*texts, [text[start : start + size] for start in range(0, len(text), size)]):
        output: Growing[Any] = Growing(_SCHEMAS[given.options.get("schema", "any")])
        for delta in deltas:
            output.feed(delta)
        value = repr(output.value)
        try:
            closed = repr(output.close())
        except InvalidOutput as error:
            closed = str(error)
        outcomes.append((value, closed, output.is_complete))
    if len(set(outcomes)) > 1:
        raise Fault("disagreement", "Growing: whole, then cut", f"{outcomes!s:.600}")


def _growing_seeds() -> list[Input]:
    texts = (
        ['{"a": 1, "b": ["x", {"c": null}]}'], ["Here:\n```json\n", '{"a": 1}', "\n```\nDone."], ["[1, 2.5e3, true]"],
        ['"a text"'], ["12"], ['{"output": [1]}'], ["{'a': 1} and {\"a\": 2}"], ['{"a": "\\ud83d', '\\ude00"}'],
        ["\ud83d", "\ude00"], ["{" * 5, "}" * 5], ["```\n3\n```"],
    )  # fmt: skip
    schemas = list(_SCHEMAS)
    return [
        Input("growing", options={"schema": schemas[at % len(schemas)]}, seed=at, parts=list(each))
        for at, each in enumerate([*texts, *texts])
    ]


STREAM_TARGETS = (
    Target("feed_bytes", feed_bytes, (), lambda: stream_seeds("feed_bytes"), _READING),
    Target("feed_dicts", feed_dicts, (), lambda: stream_seeds("feed_dicts", step=2), {"markup": _MARKUP}),
    Target("one_frame", one_frame, (), lambda: stream_seeds("one_frame", size=2000, step=4), {"markup": _MARKUP}),
    Target(
        "framers", framers, (), lambda: stream_seeds("framers", size=1500, step=12),
        {"framing": _FRAMINGS, "end": ("marker", "none"), "limit": ("1000", "40", "100000")},
    ),
    Target("write", write, (), lambda: stream_seeds("write", tuple(LOSSES), step=2), _READING),
    Target("growing", growing, (), _growing_seeds, {"schema": tuple(_SCHEMAS)}),
)  # fmt: skip
