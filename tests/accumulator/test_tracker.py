"""The assignment of deltas to calls, and the starts and ends of calls."""

from __future__ import annotations

from typing import Any

import pytest

from streamkit import Limits, NormalizedToolChunk, process_tool_call_chunk
from streamkit.accumulator import Accumulator, WireTraits
from streamkit.accumulator.call_builder import ToolCallBuilder
from streamkit.accumulator.call_index import CallIndex, Existing, New, Orphan, Repeat, Resolution
from streamkit.events import ArgumentsRestated, ToolCallDelta, ToolCallEnd, ToolCallStart, Warned

CHAT = WireTraits(reuses_slots=True, whole_names=False)
BLOCKS = WireTraits()


def chunk(**fields: Any) -> NormalizedToolChunk:
    return NormalizedToolChunk(**{"type": "delta", **fields})


def accumulate(
    *chunks: NormalizedToolChunk, traits: WireTraits = CHAT, confirmed: bool = True, **options: Any
) -> Accumulator:
    """Return a closed accumulator that was fed these chunks, with all its events."""
    accumulator = Accumulator("test", traits, turn_key="turn-1", **options)
    for fed in chunks:
        accumulator.choice(0).tool(fed)
    accumulator.close(complete=confirmed)
    return accumulator


def texts(accumulator: Accumulator) -> list[tuple[str, str]]:
    return [(call.name, call.arguments_text) for call in accumulator.choice(0).calls]


def codes(accumulator: Accumulator) -> list[str]:
    return [warning.code for warning in accumulator.warnings]


# ---------------------------------------------------------------- identification


def test_an_id_has_precedence_over_a_key() -> None:
    accumulator = accumulate(
        chunk(id="a", name="f", key=0, arguments_delta='{"x":'),
        chunk(id="b", name="g", key=1, arguments_delta='{"y":'),
        chunk(id="a", key=1, arguments_delta="1}"),
        chunk(id="b", key=0, arguments_delta="2}"),
    )
    assert texts(accumulator) == [("f", '{"x":1}'), ("g", '{"y":2}')]


def test_an_id_on_another_key_adds_that_key_to_its_call() -> None:
    accumulator = accumulate(
        chunk(type="start", id="a", name="f", key="item"),
        chunk(id="a", key="output 0"),
        chunk(key="output 0", arguments_delta='{"x":'),
        chunk(key="item", arguments_delta="1}"),
        traits=BLOCKS,
    )
    assert texts(accumulator) == [("f", '{"x":1}')]


@pytest.mark.parametrize("first", [{"id": "a"}, {"key": 0}])
def test_a_position_matches_only_calls_opened_with_neither_id_nor_key(first: dict[str, Any]) -> None:
    accumulator = accumulate(
        chunk(name="f", position=0, arguments_delta='{"x":', **first),
        chunk(name="g", position=1, arguments_delta='{"y":', key=5),
        chunk(position=0, arguments_delta="1}"),
    )
    assert texts(accumulator) == [("f", '{"x":'), ("g", '{"y":')]
    assert codes(accumulator) == ["orphan_delta"]


def test_calls_with_neither_id_nor_key_are_distinguished_by_position() -> None:
    accumulator = accumulate(
        chunk(name="f", position=0, arguments_delta='{"x":'),
        chunk(name="g", position=1, arguments_delta='{"y":'),
        chunk(position=1, arguments_delta="2}"),
        chunk(position=0, arguments_delta="1}"),
    )
    assert texts(accumulator) == [("f", '{"x":1}'), ("g", '{"y":2}')]
    assert not accumulator.warnings


def test_an_ended_call_is_not_open() -> None:
    accumulator = Accumulator("test", BLOCKS, turn_key="turn-1")
    choice = accumulator.choice(0)
    choice.tool(chunk(type="start", id="a", name="f", key=0))
    choice.end_block(0)
    choice.tool(chunk(type="start", id="b", name="g", key=1))
    choice.tool(chunk(arguments_delta='{"y":2}'))
    accumulator.close(complete=True)
    assert texts(accumulator) == [("f", ""), ("g", '{"y":2}')]


def test_a_delta_for_an_ended_call_is_an_orphan() -> None:
    accumulator = Accumulator("test", BLOCKS, turn_key="turn-1")
    choice = accumulator.choice(0)
    choice.tool(chunk(type="start", id="a", name="f", key=0, args='{"x":1}'))
    choice.end_block(0)
    choice.tool(chunk(key=0, arguments_delta=" "))
    accumulator.close(complete=True)
    assert texts(accumulator) == [("f", '{"x":1}')]
    assert codes(accumulator) == ["orphan_delta"]


@pytest.mark.parametrize("nothing", [None, ""])
def test_absent_null_and_empty_are_equal(nothing: str | None) -> None:
    accumulator = accumulate(
        chunk(id="a", name="f", key=0, arguments_delta=""),
        chunk(id=nothing, name=nothing, key=0, arguments_delta='{"x":1}'),
    )
    assert texts(accumulator) == [("f", '{"x":1}')]
    assert accumulator.choice(0).calls[0].raw_id == "a"


def test_an_id_without_a_name_opens_a_call_only_on_an_unused_key() -> None:
    accumulator = accumulate(
        chunk(id="a", name="f", key=0, arguments_delta='{"x":'),
        chunk(id="b", key=0, arguments_delta="1}"),
        chunk(id="c", key=1, arguments_delta='{"y":2}'),
        chunk(key=1, name="g"),
    )
    assert texts(accumulator) == [("f", '{"x":1}'), ("g", '{"y":2}')]
    assert [call.raw_id for call in accumulator.choice(0).calls] == ["a", "c"]


def test_a_late_name_is_assigned_by_id() -> None:
    accumulator = accumulate(chunk(id="a", arguments_delta='{"x":1}'), chunk(id="a", name="f"))
    assert texts(accumulator) == [("f", '{"x":1}')]
    assert not accumulator.warnings


# ---------------------------------------------------------------- starts


def kinds(accumulator: Accumulator) -> list[str]:
    return [event.type for event in accumulator.events]


def test_a_start_waits_for_the_first_argument_if_names_arrive_in_fragments() -> None:
    accumulator = Accumulator("test", CHAT, turn_key="turn-1")
    feed = accumulator.choice(0).tool
    assert process_tool_call_chunk(chunk(id="a", name="read", key=0), accumulator) == []
    assert process_tool_call_chunk(chunk(name="_file", key=0), accumulator) == []
    start, delta = process_tool_call_chunk(chunk(key=0, arguments_delta="{"), accumulator)
    assert isinstance(start, ToolCallStart)
    assert start.call.name == "read_file"
    assert isinstance(delta, ToolCallDelta)
    assert delta.arguments_delta == "{"
    feed(chunk(key=0, arguments_delta="}"))


@pytest.mark.parametrize("then", ["another call", "the finish", "the end"])
def test_a_pending_start_is_emitted_with(then: str) -> None:
    accumulator = Accumulator("test", CHAT, turn_key="turn-1")
    choice = accumulator.choice(0)
    choice.tool(chunk(id="a", name="f", key=0))
    assert kinds(accumulator) == ["response_started"]
    if then == "another call":
        choice.tool(chunk(id="b", name="g", key=1))
    elif then == "the finish":
        choice.finish("tool_calls", "tool_calls")
    else:
        accumulator.close(complete=True)
    started = [event for event in accumulator.events if isinstance(event, ToolCallStart)]
    assert [event.call.name for event in started] == ["f"]


def test_a_start_is_emitted_at_once_if_names_are_complete() -> None:
    accumulator = Accumulator("test", BLOCKS, turn_key="turn-1")
    assert [
        event.type for event in process_tool_call_chunk(chunk(type="start", id="a", name="f", key=0), accumulator)
    ] == ["tool_call_start"]


def test_arguments_before_the_name_are_emitted_after_the_start() -> None:
    accumulator = Accumulator("test", CHAT, turn_key="turn-1")
    assert process_tool_call_chunk(chunk(id="a", key=0, arguments_delta='{"x":'), accumulator) == []
    start, delta = process_tool_call_chunk(chunk(key=0, name="f"), accumulator)
    assert isinstance(start, ToolCallStart)
    assert isinstance(delta, ToolCallDelta)
    assert delta.arguments_delta == '{"x":'


def test_the_index_is_the_order_of_first_appearance() -> None:
    accumulator = accumulate(
        chunk(id="a", key=7),
        chunk(id="b", name="g", key=3, arguments_delta="{}"),
        chunk(name="f", key=7, arguments_delta="{}"),
    )
    assert [(call.name, call.index) for call in accumulator.choice(0).calls] == [("f", 0), ("g", 1)]


def test_the_id_does_not_change_after_the_start() -> None:
    accumulator = Accumulator("test", CHAT, turn_key="turn-1")
    feed = accumulator.choice(0).tool
    feed(chunk(name="f", key=0, arguments_delta="{"))
    before = accumulator.choice(0).calls[0].id
    feed(chunk(id="late", key=0, arguments_delta="}"))
    accumulator.close(complete=True)
    call = accumulator.choice(0).calls[0]
    assert (call.id, call.raw_id) == (before, "late")


# ---------------------------------------------------------------- slots and restatements


def test_no_slot_is_reused_on_wires_with_block_ends() -> None:
    accumulator = accumulate(
        chunk(type="start", id="a", name="f", key=0),
        chunk(key=0, arguments_delta='{"x":1}'),
        chunk(key=0, arguments_delta='{"x":2}'),
        traits=BLOCKS,
    )
    assert texts(accumulator) == [("f", '{"x":1}{"x":2}')]
    assert codes(accumulator) == ["invalid_arguments"]


def test_a_call_in_a_reused_slot_is_emitted_from_its_own_start() -> None:
    accumulator = accumulate(
        chunk(name="f", key=0, arguments_delta='{"x":1}'),
        chunk(key=0, arguments_delta='{"x"'),
        chunk(key=0, arguments_delta=":2}"),
    )
    assert texts(accumulator) == [("f", '{"x":1}'), ("f", '{"x":2}')]
    first = accumulator.choice(0).calls[0].ref
    restated = [event for event in accumulator.events if isinstance(event, ArgumentsRestated)]
    assert [(event.call, event.arguments_text) for event in restated] == [(first, '{"x":1}')]


def test_a_snapshot_of_the_wire_is_authoritative() -> None:
    accumulator = Accumulator("test", BLOCKS, turn_key="turn-1")
    choice = accumulator.choice(0)
    choice.tool(chunk(type="start", id="a", name="f", key=0))
    choice.tool(chunk(key=0, arguments_delta='{"x":1'))
    choice.replace_arguments(0, '{"x":12}')
    choice.end_block(0)
    choice.tool(chunk(type="start", id="b", name="g", key=1))
    choice.tool(chunk(key=1, arguments_delta='{"y":1'))
    choice.replace_arguments(1, '{"y":2}')
    choice.end_block(1)
    accumulator.close(complete=True)
    assert texts(accumulator) == [("f", '{"x":12}'), ("g", '{"y":2}')]
    assert codes(accumulator) == ["arguments_restated"]
    assert sum(isinstance(event, ArgumentsRestated) for event in accumulator.events) == 1


@pytest.mark.parametrize(
    ("deltas", "state", "arguments"),
    [
        (['{"a":', '{"a":1}', "}"], "complete", {"a": {"a": 1}}),
        (['{"a":', '{"a":1}'], "incomplete", None),
        (['{"a":1', '{"a":1}'], "complete", {"a": 1}),
        (["{", '{"a":1}'], "complete", {"a": 1}),
        (["{", "{", '{{"a":1}', '{"a":1}'], "invalid", None),
        (['{"a"', '{"a":', '{"a":{"a":1}'], "invalid", None),
        (['{"a":"', '{"a":"x"}'], "complete", {"a": "x"}),
        (['{"a":[', '{"a":[1]}', "]}"], "complete", {"a": [{"a": [1]}]}),
    ],
)
def test_the_joined_text_has_precedence_over_a_restatement(deltas: list[str], state: str, arguments: Any) -> None:
    accumulator = accumulate(chunk(id="a", name="f", key=0), *(chunk(key=0, arguments_delta=delta) for delta in deltas))
    (call,) = accumulator.choice(0).calls
    assert (call.state, call.arguments) == (state, arguments)


def test_a_placeholder_with_space_is_replaced() -> None:
    accumulator = accumulate(
        chunk(id="a", name="f", key=0, arguments_delta="{ }"),
        chunk(key=0, arguments_delta='{"x":1}'),
    )
    assert texts(accumulator) == [("f", '{"x":1}')]
    assert not accumulator.warnings


def test_the_metadata_of_a_delta_that_replaces_a_placeholder_is_kept() -> None:
    accumulator = accumulate(
        chunk(id="a", name="f", key=0, arguments_delta="{}"),
        chunk(key=0, arguments_delta='{"x":1}', metadata={"signature": "s"}),
    )
    assert accumulator.choice(0).calls[0].metadata == {"signature": "s"}


# ---------------------------------------------------------------- ends, ids, limits


def test_every_start_has_one_end_at_the_close() -> None:
    accumulator = accumulate(*(chunk(id=f"c{at}", name="f", key=at, arguments_delta="{}") for at in range(3)))
    assert [event.call.index for event in accumulator.events if isinstance(event, ToolCallEnd)] == [0, 1, 2]


def test_a_canonical_id_from_the_wire_is_used_once() -> None:
    own = "hist_tool_" + "A" * 24
    accumulator = accumulate(
        chunk(type="start", id=own, name="f", key=0, args='{"x":1}'),
        chunk(type="start", id=own, name="g", key=1, args='{"x":2}'),
        traits=BLOCKS,
    )
    first, second = accumulator.choice(0).calls
    assert first.id == own
    assert second.id != own
    assert second.id.startswith("hist_tool_")


def test_equal_calls_of_different_choices_have_different_ids() -> None:
    accumulator = Accumulator("test", CHAT, turn_key="turn-1")
    for choice in (0, 1):
        accumulator.choice(choice).tool(chunk(id="a", name="f", key=0, arguments_delta="{}"))
    accumulator.close(complete=True)
    assert accumulator.choice(0).calls[0].id != accumulator.choice(1).calls[0].id


def test_a_call_beyond_the_limit_ends_the_turn() -> None:
    accumulator = accumulate(*(chunk(id=f"c{at}", name="f", key=at) for at in range(4)), limits=Limits(calls=3))
    assert accumulator.error is not None
    assert accumulator.error.kind == "limit_exceeded"
    assert len(accumulator.choice(0).calls) == 3


def test_an_empty_chunk_has_no_effect() -> None:
    accumulator = accumulate(chunk(), chunk(key=0), chunk(position=0))
    assert not accumulator.choice(0).calls
    assert not any(isinstance(event, Warned) for event in accumulator.events)


def test_process_tool_call_chunk_returns_the_events_of_the_chunk() -> None:
    accumulator = Accumulator("mine", BLOCKS, turn_key="turn-1")
    seen = process_tool_call_chunk(NormalizedToolChunk("start", id="a", name="f", args='{"x":1}'), accumulator)
    assert [event.type for event in seen] == ["tool_call_start", "tool_call_delta"]
    assert accumulator.events == []


# ---------------------------------------------------------------- resolve, without events


def call(
    index: CallIndex, opening: NormalizedToolChunk, arguments: str = "", *, ended: bool = False
) -> ToolCallBuilder:
    """Add a call to an index, as the tracker does when a chunk opened it."""
    unkeyed = not opening.id and opening.key is None
    added = ToolCallBuilder(0, opening.id, opening.name or "", opening.kind, unkeyed=unkeyed)
    if arguments:
        added.append(arguments)
    added.ended = ended
    index.calls.append(added)
    index.add(added, opening)
    return added


KEYED = {"name": "f", "key": 0}
CLOSED = '{"x":1}'
RESOLUTIONS: list[tuple[str, list[tuple[dict[str, Any], str]], dict[str, Any], str]] = [
    # the calls so far (opening chunk, arguments), the delta, the expected resolution
    ("a name on an unused key", [], {"name": "f", "key": 0}, "new"),
    ("a start without a name", [], {"type": "start", "key": 0}, "new"),
    ("an id alone", [], {"id": "a"}, "new"),
    ("an id on an unused key", [(KEYED, "{")], {"id": "a", "key": 1}, "new"),
    ("text alone", [], {"arguments_delta": "1"}, "orphan"),
    ("nothing", [], {}, "orphan"),
    ("a key in use", [(KEYED, "{")], {"key": 0, "arguments_delta": "1"}, "existing 0"),
    ("a known id on another key", [({"id": "a", **KEYED}, "{")], {"id": "a", "key": 7}, "existing 0"),
    (
        "an id before a key",
        [({"id": "a", "key": 0}, ""), ({"id": "b", "key": 1}, "")],
        {"id": "b", "key": 0},
        "existing 1",
    ),
    ("a new id and a name on a key in use", [({"id": "a", **KEYED}, "{")], {"id": "b", "name": "f", "key": 0}, "new"),
    ("a new id without a name on a key in use", [({"id": "a", **KEYED}, "{")], {"id": "b", "key": 0}, "existing 0"),
    ("a start on a key in use", [(KEYED, "{")], {"type": "start", "name": "f", "key": 0}, "new"),
    ("a second start under an id", [({"id": "a", **KEYED}, "{")], {"type": "start", "id": "a", "name": "f"}, "new"),
    ("another name under the id of a closed call", [({"id": "a", **KEYED}, CLOSED)], {"id": "a", "name": "g"}, "new"),
    (
        "a complete text with a name under the id of a closed call",
        [({"id": "a", **KEYED}, CLOSED)],
        {"id": "a", "name": "f", "args": '{"y":1}'},
        "restated 0",
    ),
    (
        "another object without a name under the id of a closed call",
        [({"id": "a", **KEYED}, CLOSED)],
        {"id": "a", "args": '{"y":1}'},
        "existing 0",
    ),
    (
        "the same object under the id of a closed call",
        [({"id": "a", **KEYED}, CLOSED)],
        {"id": "a", "args": CLOSED},
        "restated 0",
    ),
    (
        "an object under the id of a placeholder",
        [({"id": "a", **KEYED}, "{}")],
        {"id": "a", "args": '{"y":1}'},
        "restated 0",
    ),
    (
        "a position",
        [({"name": "f", "position": 0}, "{"), ({"name": "g", "position": 1}, "{")],
        {"position": 1},
        "existing 1",
    ),
    ("a position of a keyed call", [({**KEYED, "position": 0}, "{"), ({"key": 1}, "{")], {"position": 0}, "orphan"),
    ("an unknown key, one call open", [(KEYED, "{")], {"key": 5, "arguments_delta": "1"}, "unknown key 0"),
    (
        "no key, one call open",
        [(KEYED, CLOSED), ({"name": "g", "key": 1}, "{")],
        {"arguments_delta": "1"},
        "existing 1",
    ),
    ("an unknown key, two calls open", [(KEYED, "{"), ({"name": "g", "key": 1}, "{")], {"key": 5}, "orphan"),
    ("an unknown key, all calls closed", [(KEYED, CLOSED)], {"key": 5, "arguments_delta": "1"}, "orphan"),
    ("an object with a name on a closed slot", [(KEYED, CLOSED)], {"name": "f", "key": 0, "args": "{"}, "reused 0"),
    ("another name on a closed slot", [(KEYED, CLOSED)], {"name": "g", "key": 0}, "reused 0"),
    ("the same name on a closed slot", [(KEYED, CLOSED)], {"name": "f", "key": 0}, "existing 0"),
    ("an object on a slot with a placeholder", [(KEYED, "{ }")], {"key": 0, "args": CLOSED}, "restated 0"),
    ("the placeholder again", [(KEYED, "{}")], {"key": 0, "args": "{}"}, "repeat 0"),
    ("an object without a name on a closed slot", [(KEYED, CLOSED)], {"key": 0, "args": '{"y"'}, "repeat 0"),
    ("other text on a closed slot", [(KEYED, CLOSED)], {"key": 0, "args": "}"}, "existing 0"),
    ("an object in an open slot", [(KEYED, '{"x":')], {"key": 0, "args": "{}"}, "existing 0"),
    (
        "an object on a closed slot of free text",
        [({"kind": "custom", **KEYED}, CLOSED)],
        {"key": 0, "args": "{}"},
        "existing 0",
    ),
]


def describe(resolution: Resolution, calls: list[ToolCallBuilder]) -> str:
    match resolution:
        case New(reused_from=None):
            return "new"
        case New(reused_from=previous):
            return f"reused {calls.index(previous)}"
        case Existing(call=found, is_restated=True):
            return f"restated {calls.index(found)}"
        case Existing(call=found, has_unknown_key=True):
            return f"unknown key {calls.index(found)}"
        case Existing(call=found):
            return f"existing {calls.index(found)}"
        case Repeat(call=found):
            return f"repeat {calls.index(found)}"
        case Orphan(ended_call=None):
            return "orphan"
        case Orphan(ended_call=found):
            return f"ended {calls.index(found)}"


@pytest.mark.parametrize(
    ("state", "delta", "expected"), [row[1:] for row in RESOLUTIONS], ids=[row[0] for row in RESOLUTIONS]
)
def test_resolve(state: list[tuple[dict[str, Any], str]], delta: dict[str, Any], expected: str) -> None:
    index = CallIndex([], reuses_slots=True)
    calls = [call(index, chunk(**opening), arguments) for opening, arguments in state]
    indexes = (dict(index.by_id), dict(index.by_key), dict(index.by_position))
    text = delta.get("args") or delta.get("arguments_delta") or ""
    for _ in range(2):  # resolving changes nothing, so the second result is the first
        assert describe(index.resolve(chunk(**delta), text), calls) == expected
    assert (index.by_id, index.by_key, index.by_position) == indexes


def test_resolve_without_slot_reuse_continues_the_call_of_the_key() -> None:
    index = CallIndex([], reuses_slots=False)
    first = call(index, chunk(**KEYED), CLOSED)
    assert index.resolve(chunk(key=0, args=CLOSED), CLOSED) == Existing(first)
    assert index.resolve(chunk(key=0, name="g"), "") == Existing(first)


def test_resolve_returns_an_ended_call_as_the_one_that_an_orphan_names() -> None:
    index = CallIndex([], reuses_slots=True)
    ended = call(index, chunk(id="a", **KEYED), CLOSED, ended=True)
    assert index.resolve(chunk(key=0, arguments_delta="1"), "1") == Orphan(ended)
    assert index.resolve(chunk(id="a", arguments_delta="1"), "1") == Orphan(ended)
    assert index.resolve(chunk(arguments_delta="1"), "1") == Orphan()


def test_resolve_returns_a_repeat_while_one_is_pending() -> None:
    index = CallIndex([], reuses_slots=True)
    first = call(index, chunk(**KEYED), CLOSED)
    assert first.is_object_closed()
    first.begin_repeat()
    assert index.resolve(chunk(key=0, arguments_delta="1"), "1") == Repeat(first)
    assert first.end_repeat() == ""
    assert index.resolve(chunk(key=0, arguments_delta="1"), "1") == Existing(first)


def test_a_late_id_and_a_further_key_are_added_to_the_call_they_were_assigned_to() -> None:
    index = CallIndex([], reuses_slots=True)
    first, second = (call(index, chunk(name="f", key=key)) for key in (0, 1))
    index.add_identifiers(first, chunk(id="late", key=0))
    index.add_identifiers(first, chunk(id="late", key=1))
    index.add_identifiers(first, chunk(id="later", key=2))
    assert first.raw_id == "late"
    assert index.by_id == {"late": first, "later": first}
    assert index.by_key == {0: first, 1: second, 2: first}
