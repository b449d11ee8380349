"""No input raises, every turn ends with a finish or an error, and the events are consistent.

Inputs: random bytes, random JSON, and JSON close to each wire's vocabulary: the chunks of the conformance cases with
values removed or replaced by values of any type, and with chunks repeated, omitted and reordered.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
import wire_streams
from hypothesis import given
from hypothesis import strategies as st
from shared_data import CONFORMANCE_CASES
from wire_streams import framed, run

from streamkit import Turn, events, providers
from streamkit.accumulator import Accumulator
from streamkit.accumulator.limits import WireTraits
from streamkit.events import (
    ArgumentsRestated,
    Event,
    Failed,
    Finished,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)

CASES = CONFORMANCE_CASES


def wires() -> dict[str, list[str]]:
    """Return the providers by the parser that they share, under the name of the first."""
    found: dict[type, list[str]] = {}
    for name in providers.names():
        parser = providers.get(name).parser(Accumulator(name, WireTraits()))
        found.setdefault(type(parser), []).append(name)
    return {names[0]: names for names in found.values()}


WIRES = wires()
RECORDED: dict[str, list[list[dict[str, Any]]]] = {
    wire: [
        [chunk for chunk in case["chunks"] if "$times" not in chunk]
        for name in names
        for path in sorted(CASES.glob(f"{name}/*.json"))
        if "chunks" in (case := json.loads(path.read_text("utf-8")))
    ]
    for wire, names in WIRES.items()
}
by_wire = pytest.mark.parametrize("provider", WIRES)
near_the_vocabulary = pytest.mark.parametrize("provider", [wire for wire in WIRES if RECORDED[wire]])

leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["", "{", "}", '{"a":1}', "\ud83d", "tool_calls", "[DONE]", "hist_tool_" + "a" * 24])
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=5,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value within a JSON value."""
    if path:
        yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


@st.composite
def near_misses(draw: st.DrawFn, provider: str) -> list[dict[str, Any]]:
    """Draw the chunks of a case with random damage."""
    chunks = copy.deepcopy(draw(st.sampled_from(RECORDED[provider])))
    if draw(st.booleans()):
        chunks += copy.deepcopy(draw(st.sampled_from(RECORDED[provider])))
    for _ in range(draw(st.integers(0, 4))):
        chunk = draw(st.sampled_from(chunks))
        spots = list(places(chunk))
        if not spots:
            continue
        *parents, last = draw(st.sampled_from(spots))
        container: Any = chunk
        for step in parents:
            container = container[step]
        if draw(st.booleans()):
            container[last] = draw(values)
        else:
            del container[last]
    if draw(st.booleans()):
        at = draw(st.integers(0, len(chunks) - 1))
        chunks.insert(at, copy.deepcopy(draw(st.sampled_from(chunks))))
    if draw(st.booleans()):
        chunks = draw(st.permutations(chunks))
    if providers.get(provider).traits.framing == "event_stream":  # a frame is one name with one body
        return [chunk for chunk in chunks if len(chunk) == 1]
    return chunks


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value


class ChunkObject:
    """An object that dumps to plain data, as those of the SDKs do."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def model_dump(self, **_: Any) -> Any:
        return self._data


def check(turn: Turn, seen: list[Event]) -> None:
    """Check the invariants of every closed turn."""
    assert turn.closed
    assert turn.error is not None or any(view.finish is not None for view in turn.choices)
    if turn.error is not None:
        assert not turn.executable
    assert wire_streams.summary(turn)
    json.dumps(turn.to_dict())
    turn.content.model_dump_json()
    for event in seen:
        assert type(events.from_json(events.to_json(event))) is type(event)
    check_event_order(turn, seen)


def check_event_order(turn: Turn, seen: list[Event]) -> None:
    """Check that starts precede deltas, each call has one end and the text of its deltas, and a choice one finish."""
    emitted: dict[tuple[int, str], str] = {}
    ended: list[tuple[int, str]] = []
    for event in seen:
        match event:
            case ToolCallStart():
                key = (event.choice, event.call.id)
                assert key not in emitted, "a call started twice"
                emitted[key] = ""
            case ToolCallDelta():
                emitted[event.choice, event.call.id] += event.arguments_delta
            case ArgumentsRestated():
                assert (event.choice, event.call.id) in emitted
                emitted[event.choice, event.call.id] = event.arguments_text
            case ToolCallEnd():
                ended.append((event.choice, event.call.id))
    assert sorted(ended) == sorted(emitted), "each started call has exactly one end"
    calls = {(view.index, call.id): call for view in turn.choices for call in view.calls}
    assert set(calls) == set(emitted), "each call has its own id and was started"
    for key, call in calls.items():
        assert emitted[key].encode("utf-16", "surrogatepass").decode("utf-16", "replace") == call.arguments_text
        assert call.index < len(calls)
        if call.state == "complete":
            assert isinstance(call.arguments, dict if call.kind == "function" else str)
        else:
            assert call.arguments is None
    failures = [event for event in seen if isinstance(event, Failed)]
    assert [event.error for event in failures] == ([] if turn.error is None else [turn.error])
    finishes = [event.choice for event in seen if isinstance(event, Finished)]
    assert len(finishes) == len(set(finishes))
    if turn.error is None:
        assert finishes


@by_wire
@given(inputs=st.lists(st.binary(max_size=40), max_size=4), data=st.data())
def test_random_bytes_do_not_raise(provider: str, inputs: list[bytes], data: st.DataObject) -> None:
    lines = st.sampled_from([b"data: ", b"\n\n", b"event: error\n", b"\r\n\r\n", b"{", b"[", b"]", b"}\n", b": x\n\n"])
    inputs = [data.draw(lines) + part if data.draw(st.booleans()) else part for part in inputs]
    check(*run(provider, inputs))


@by_wire
@given(chunks=st.lists(values, max_size=4))
def test_random_json_does_not_raise(provider: str, chunks: list[Any]) -> None:
    check(*run(provider, [framed("openai_chat", chunks, done=False)]))
    check(*run(provider, [chunk for chunk in chunks if isinstance(chunk, dict)]))


@pytest.mark.slow
@near_the_vocabulary
@given(data=st.data())
def test_json_near_the_vocabulary_does_not_raise(provider: str, data: st.DataObject) -> None:
    chunks = data.draw(near_misses(provider))
    key = data.draw(st.sampled_from(["turn-1", None]))
    by_bytes, seen = run(provider, [framed(provider, chunks, done=False)], key=key)
    check(by_bytes, seen)
    by_dict, seen = run(provider, copy.deepcopy(chunks), key=key)
    check(by_dict, seen)
    by_object, seen = run(provider, [ChunkObject(chunk) for chunk in chunks], key=key)
    check(by_object, seen)
    assert wire_streams.summary(by_object) == wire_streams.summary(by_dict)


ODD: list[Any] = [None, "", "x", "\ud83d", 7, -1, 2**70, 1.5, True, [], [None], [[]], {}, {"a": [1]}]


def shape(chunk: Any, path: tuple[Any, ...]) -> str:
    """Return the kind of a path: its names and the types around it, without indexes. One path of each kind is tried."""
    names: list[str] = []
    container = chunk
    for step in path:
        if isinstance(container, dict) and isinstance(container.get("type"), str):
            names.append(container["type"])
        names.append(step if isinstance(step, str) else "[]")
        container = container[step]
    return ".".join(names)


@pytest.mark.slow
@near_the_vocabulary
def test_every_field_accepts_a_value_of_any_type(provider: str) -> None:
    """Replace each kind of value in the chunks of the cases by a value of each type, one at a time."""
    tried: set[str] = set()
    wrong: list[str] = []
    for chunks in RECORDED[provider]:
        for number, chunk in enumerate(chunks):
            for path in places(chunk):
                kind = shape(chunk, path)
                if kind in tried or (len(path) == 1 and providers.get(provider).traits.framing == "event_stream"):
                    continue
                tried.add(kind)
                for odd in ODD:
                    damaged = [*chunks[:number], copy.deepcopy(chunk), *chunks[number + 1 :]]
                    container: Any = damaged[number]
                    for step in path[:-1]:
                        container = container[step]
                    container[path[-1]] = odd
                    for input_kind, inputs in (("bytes", [framed(provider, damaged)]), ("dict", damaged)):
                        try:
                            check(*run(provider, inputs))
                        except Exception as error:
                            wrong.append(f"{kind} = {odd!r} by {input_kind}: {type(error).__name__}: {error!s:.90}")
    assert tried
    assert wrong == []


@pytest.mark.slow
@near_the_vocabulary
@given(data=st.data())
def test_bytes_and_dicts_result_in_equal_turns(provider: str, data: st.DataObject) -> None:
    """Bytes and dicts result in equal turns, except for the wording of errors about the complete body."""
    chunks = json.loads(json.dumps(data.draw(near_misses(provider))))
    turns = [run(provider, inputs)[0] for inputs in ([framed(provider, chunks, done=False)], chunks)]
    # In dict input a null is an absent field: the SDKs' objects dump every field that they declare.
    by_bytes, by_dict = (without_nulls(wire_streams.summary(turn)) for turn in turns)
    for found in (by_bytes, by_dict):
        if found.get("error", {}).get("kind") not in (None, "provider_error"):
            found["error"] = found["error"]["kind"]
    assert by_bytes == by_dict


@pytest.mark.slow
@near_the_vocabulary
@given(data=st.data())
def test_every_split_of_a_damaged_stream_results_in_the_same_turn(provider: str, data: st.DataObject) -> None:
    stream = framed(provider, data.draw(near_misses(provider)))
    stream = stream[: data.draw(st.integers(0, len(stream)) | st.just(len(stream)))]
    offsets = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    inputs = [stream[a:b] for a, b in zip([0, *offsets], [*offsets, len(stream)], strict=True)]
    whole, whole_events = run(provider, [stream])
    turn, seen = run(provider, inputs)
    assert wire_streams.summary(turn) == wire_streams.summary(whole)
    assert wire_streams.merge_deltas(seen) == wire_streams.merge_deltas(whole_events)
