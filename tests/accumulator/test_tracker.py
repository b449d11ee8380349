"""Which call a piece belongs to, where calls begin and end: the accumulator alone, fed as a parser feeds it."""

from __future__ import annotations

from typing import Any

import pytest

from streamkit import Limits, NormalizedToolChunk, process_tool_call_chunk
from streamkit.accumulator import Accumulator
from streamkit.calls import WireTraits
from streamkit.events import ArgumentsRestated, ToolCallDelta, ToolCallEnd, ToolCallStart, Warned

CHAT = WireTraits(reuses_slots=True, whole_names=False)
BLOCKS = WireTraits()


def piece(**fields: Any) -> NormalizedToolChunk:
    return NormalizedToolChunk(**{"type": "delta", **fields})


def gathered(
    *pieces: NormalizedToolChunk, habits: WireTraits = CHAT, confirmed: bool = True, **options: Any
) -> Accumulator:
    """An accumulator that was fed and closed; its events are all there."""
    turn = Accumulator("test", habits, turn_key="turn-1", **options)
    for each in pieces:
        turn.choice(0).tool(each)
    turn.close(complete=confirmed)
    return turn


def texts(turn: Accumulator) -> list[tuple[str, str]]:
    return [(call.name, call.arguments_text) for call in turn.choice(0).calls]


def codes(turn: Accumulator) -> list[str]:
    return [warning.code for warning in turn.warnings]


# ---------------------------------------------------------------- which call


def test_an_id_goes_before_a_key() -> None:
    turn = gathered(
        piece(id="a", name="f", key=0, arguments_delta='{"x":'),
        piece(id="b", name="g", key=1, arguments_delta='{"y":'),
        piece(id="a", key=1, arguments_delta="1}"),
        piece(id="b", key=0, arguments_delta="2}"),
    )
    assert texts(turn) == [("f", '{"x":1}'), ("g", '{"y":2}')]


def test_a_call_has_several_keys_once_its_id_came_on_another() -> None:
    turn = gathered(
        piece(type="start", id="a", name="f", key="item"),
        piece(id="a", key="output 0"),
        piece(key="output 0", arguments_delta='{"x":'),
        piece(key="item", arguments_delta="1}"),
        habits=BLOCKS,
    )
    assert texts(turn) == [("f", '{"x":1}')]


@pytest.mark.parametrize("first", [{"id": "a"}, {"key": 0}])
def test_a_position_counts_only_against_calls_opened_with_neither_id_nor_key(first: dict[str, Any]) -> None:
    turn = gathered(
        piece(name="f", position=0, arguments_delta='{"x":', **first),
        piece(name="g", position=1, arguments_delta='{"y":', key=5),
        piece(position=0, arguments_delta="1}"),
    )
    assert texts(turn) == [("f", '{"x":'), ("g", '{"y":')]
    assert codes(turn) == ["orphan_delta"]


def test_a_position_tells_apart_calls_that_have_nothing_else() -> None:
    turn = gathered(
        piece(name="f", position=0, arguments_delta='{"x":'),
        piece(name="g", position=1, arguments_delta='{"y":'),
        piece(position=1, arguments_delta="2}"),
        piece(position=0, arguments_delta="1}"),
    )
    assert texts(turn) == [("f", '{"x":1}'), ("g", '{"y":2}')]
    assert not turn.warnings


def test_a_sealed_call_is_not_open() -> None:
    turn = Accumulator("test", BLOCKS, turn_key="turn-1")
    answer = turn.choice(0)
    answer.tool(piece(type="start", id="a", name="f", key=0))
    answer.end_block(0)
    answer.tool(piece(type="start", id="b", name="g", key=1))
    answer.tool(piece(arguments_delta='{"y":2}'))
    turn.close(complete=True)
    assert texts(turn) == [("f", ""), ("g", '{"y":2}')]


def test_a_piece_for_a_sealed_call_is_an_orphan() -> None:
    turn = Accumulator("test", BLOCKS, turn_key="turn-1")
    answer = turn.choice(0)
    answer.tool(piece(type="start", id="a", name="f", key=0, args='{"x":1}'))
    answer.end_block(0)
    answer.tool(piece(key=0, arguments_delta=" "))
    turn.close(complete=True)
    assert texts(turn) == [("f", '{"x":1}')]
    assert codes(turn) == ["orphan_delta"]


@pytest.mark.parametrize("nothing", [None, ""])
def test_absent_null_and_empty_are_the_same(nothing: str | None) -> None:
    turn = gathered(
        piece(id="a", name="f", key=0, arguments_delta=""),
        piece(id=nothing, name=nothing, key=0, arguments_delta='{"x":1}'),
    )
    assert texts(turn) == [("f", '{"x":1}')]
    assert turn.choice(0).calls[0].raw_id == "a"


def test_an_id_without_a_name_opens_a_call_only_on_a_key_not_in_use() -> None:
    turn = gathered(
        piece(id="a", name="f", key=0, arguments_delta='{"x":'),
        piece(id="b", key=0, arguments_delta="1}"),
        piece(id="c", key=1, arguments_delta='{"y":2}'),
        piece(key=1, name="g"),
    )
    assert texts(turn) == [("f", '{"x":1}'), ("g", '{"y":2}')]
    assert [call.raw_id for call in turn.choice(0).calls] == ["a", "c"]


def test_a_name_that_comes_late_by_id_names_the_call() -> None:
    turn = gathered(piece(id="a", arguments_delta='{"x":1}'), piece(id="a", name="f"))
    assert texts(turn) == [("f", '{"x":1}')]
    assert not turn.warnings


# ---------------------------------------------------------------- the start


def kinds(turn: Accumulator) -> list[str]:
    return [event.type for event in turn.events]


def test_a_start_waits_for_the_first_argument_where_names_grow() -> None:
    turn = Accumulator("test", CHAT, turn_key="turn-1")
    take = turn.choice(0).tool
    assert process_tool_call_chunk(piece(id="a", name="read", key=0), turn) == []
    assert process_tool_call_chunk(piece(name="_file", key=0), turn) == []
    start, delta = process_tool_call_chunk(piece(key=0, arguments_delta="{"), turn)
    assert isinstance(start, ToolCallStart)
    assert start.call.name == "read_file"
    assert isinstance(delta, ToolCallDelta)
    assert delta.arguments_delta == "{"
    take(piece(key=0, arguments_delta="}"))


@pytest.mark.parametrize("then", ["another call", "the finish", "the end"])
def test_a_start_also_comes_with(then: str) -> None:
    turn = Accumulator("test", CHAT, turn_key="turn-1")
    answer = turn.choice(0)
    answer.tool(piece(id="a", name="f", key=0))
    assert kinds(turn) == []
    if then == "another call":
        answer.tool(piece(id="b", name="g", key=1))
    elif then == "the finish":
        answer.finish("tool_calls", "tool_calls")
    else:
        turn.close(complete=True)
    started = [event for event in turn.events if isinstance(event, ToolCallStart)]
    assert [event.call.name for event in started] == ["f"]


def test_a_start_comes_at_once_where_names_are_whole() -> None:
    turn = Accumulator("test", BLOCKS, turn_key="turn-1")
    assert [event.type for event in process_tool_call_chunk(piece(type="start", id="a", name="f", key=0), turn)] == [
        "tool_call_start"
    ]


def test_arguments_before_the_name_are_told_when_the_name_comes() -> None:
    turn = Accumulator("test", CHAT, turn_key="turn-1")
    assert process_tool_call_chunk(piece(id="a", key=0, arguments_delta='{"x":'), turn) == []
    start, delta = process_tool_call_chunk(piece(key=0, name="f"), turn)
    assert isinstance(start, ToolCallStart)
    assert isinstance(delta, ToolCallDelta)
    assert delta.arguments_delta == '{"x":'


def test_index_is_the_order_of_first_appearance() -> None:
    turn = gathered(
        piece(id="a", key=7),
        piece(id="b", name="g", key=3, arguments_delta="{}"),
        piece(name="f", key=7, arguments_delta="{}"),
    )
    assert [(call.name, call.index) for call in turn.choice(0).calls] == [("f", 0), ("g", 1)]


def test_the_id_does_not_change_after_the_start() -> None:
    turn = Accumulator("test", CHAT, turn_key="turn-1")
    take = turn.choice(0).tool
    take(piece(name="f", key=0, arguments_delta="{"))
    before = turn.choice(0).calls[0].id
    take(piece(id="late", key=0, arguments_delta="}"))
    turn.close(complete=True)
    call = turn.choice(0).calls[0]
    assert (call.id, call.raw_id) == (before, "late")


# ---------------------------------------------------------------- slots and restatements


def test_no_slot_is_reused_where_blocks_begin_and_end() -> None:
    turn = gathered(
        piece(type="start", id="a", name="f", key=0),
        piece(key=0, arguments_delta='{"x":1}'),
        piece(key=0, arguments_delta='{"x":2}'),
        habits=BLOCKS,
    )
    assert texts(turn) == [("f", '{"x":1}{"x":2}')]
    assert codes(turn) == ["trailing_junk"]


def test_a_call_cut_out_of_a_slot_is_told_again_from_its_own_start() -> None:
    turn = gathered(
        piece(name="f", key=0, arguments_delta='{"x":1}'),
        piece(key=0, arguments_delta='{"x"'),
        piece(key=0, arguments_delta=":2}"),
    )
    assert texts(turn) == [("f", '{"x":1}'), ("f", '{"x":2}')]
    first = turn.choice(0).calls[0].ref
    restated = [event for event in turn.events if isinstance(event, ArgumentsRestated)]
    assert [(event.call, event.arguments_text) for event in restated] == [(first, '{"x":1}')]


def test_a_snapshot_of_the_wire_is_authoritative() -> None:
    turn = Accumulator("test", BLOCKS, turn_key="turn-1")
    answer = turn.choice(0)
    answer.tool(piece(type="start", id="a", name="f", key=0))
    answer.tool(piece(key=0, arguments_delta='{"x":1'))
    answer.replace_arguments(0, '{"x":12}')
    answer.end_block(0)
    answer.tool(piece(type="start", id="b", name="g", key=1))
    answer.tool(piece(key=1, arguments_delta='{"y":1'))
    answer.replace_arguments(1, '{"y":2}')
    answer.end_block(1)
    turn.close(complete=True)
    assert texts(turn) == [("f", '{"x":12}'), ("g", '{"y":2}')]
    assert codes(turn) == ["arguments_restated"]
    assert sum(isinstance(event, ArgumentsRestated) for event in turn.events) == 1


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
def test_verbatim_first_and_then_the_last_remembered_place(deltas: list[str], state: str, arguments: Any) -> None:
    turn = gathered(piece(id="a", name="f", key=0), *(piece(key=0, arguments_delta=delta) for delta in deltas))
    (call,) = turn.choice(0).calls
    assert (call.state, call.arguments) == (state, arguments)


def test_placeholder_with_space_makes_way() -> None:
    turn = gathered(
        piece(id="a", name="f", key=0, arguments_delta="{ }"),
        piece(key=0, arguments_delta='{"x":1}'),
    )
    assert texts(turn) == [("f", '{"x":1}')]
    assert not turn.warnings


# ---------------------------------------------------------------- ends, ids, limits


def test_every_start_has_one_end_at_the_close() -> None:
    turn = gathered(*(piece(id=f"c{at}", name="f", key=at, arguments_delta="{}") for at in range(3)))
    assert [event.call.index for event in turn.events if isinstance(event, ToolCallEnd)] == [0, 1, 2]


def test_a_canonical_id_of_the_wire_is_taken_over_once() -> None:
    own = "hist_tool_" + "A" * 24
    turn = gathered(
        piece(type="start", id=own, name="f", key=0, args='{"x":1}'),
        piece(type="start", id=own, name="g", key=1, args='{"x":2}'),
        habits=BLOCKS,
    )
    first, second = turn.choice(0).calls
    assert first.id == own
    assert second.id != own
    assert second.id.startswith("hist_tool_")


def test_calls_of_several_choices_have_several_ids() -> None:
    turn = Accumulator("test", CHAT, turn_key="turn-1")
    for choice in (0, 1):
        turn.choice(choice).tool(piece(id="a", name="f", key=0, arguments_delta="{}"))
    turn.close(complete=True)
    assert turn.choice(0).calls[0].id != turn.choice(1).calls[0].id


def test_one_call_too_many() -> None:
    turn = gathered(*(piece(id=f"c{at}", name="f", key=at) for at in range(4)), limits=Limits(calls=3))
    assert turn.error is not None
    assert turn.error.kind == "limit_exceeded"
    assert len(turn.choice(0).calls) == 3


def test_a_piece_without_anything_says_nothing() -> None:
    turn = gathered(piece(), piece(key=0), piece(position=0))
    assert not turn.choice(0).calls
    assert not any(isinstance(event, Warned) for event in turn.events)


def test_pieces_of_another_parser_make_events() -> None:
    turn = Accumulator("mine", BLOCKS, turn_key="turn-1")
    seen = process_tool_call_chunk(NormalizedToolChunk("start", id="a", name="f", args='{"x":1}'), turn)
    assert [event.type for event in seen] == ["tool_call_start", "tool_call_delta"]
    assert turn.events == []
