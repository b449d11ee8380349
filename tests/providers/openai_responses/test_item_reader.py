"""Client calls in Responses streams: deltas, snapshots and the final output."""

from __future__ import annotations

from typing import Any

from providers.openai_responses.recording_sink import (
    PROVIDER,
    ResponsesSink,
    argument_delta,
    call_item,
    item_added,
    item_done,
    message_item,
    output_text,
    record,
    response_end,
)


def test_a_call_has_one_key_whichever_id_its_events_name() -> None:
    records = record(
        item_added(call_item()),
        argument_delta("{", "fc_1"),
        argument_delta("}", "call_1", None),
        argument_delta(" ", "else", 0),
        item_done(call_item("{} ")),
    )
    assert records == [
        ("start", "call_1", "f", "function", 0, {"item_id": "fc_1"}),
        ("arguments", "{", 0),
        ("arguments", "}", 0),
        ("arguments", " ", 0),
        ("completed", None, None, 0, {"item_id": "fc_1"}),
        ("replace_arguments", 0, "{} "),
        ("end_block", 0),
    ]


def test_the_item_id_of_a_delta_takes_precedence_over_its_output_index() -> None:
    records = record(
        item_added(call_item(), 0),
        item_added(call_item("", "fc_2", "call_2"), 1),
        argument_delta("{", "fc_1", 1),
        argument_delta("[", "fc_2", 0),
    )
    assert records[2:] == [("arguments", "{", 0), ("arguments", "[", 1)]


def test_interleaved_deltas_are_assigned_to_their_calls_on_the_fast_path() -> None:
    turn = [argument_delta("a", "fc_1", 0), argument_delta("b", "fc_2", 1)]
    records = record(item_added(call_item(), 0), item_added(call_item("", "fc_2", "call_2"), 1), *turn, *turn, *turn)
    assert records[2:] == [("arguments", "a", 0), ("arguments", "b", 1)] * 3


def test_a_second_item_with_a_known_id_gets_the_deltas_that_follow() -> None:
    first, second = call_item("", None, "c"), call_item("", None, "c")
    records = record(
        item_added(first, None),
        argument_delta("a", "c", None),
        item_added(second, None),
        argument_delta("b", "c", None),
    )
    assert [event for event in records if event[0] == "arguments"] == [("arguments", "a", 0), ("arguments", "b", 1)]


def test_a_delta_that_names_nothing_is_assigned_to_neither_of_two_calls() -> None:
    records = record(
        item_added(call_item(), 0), item_added(call_item("", "fc_2", "call_2"), 1), argument_delta("{", None, None)
    )
    assert records[2:] == [("arguments", "{", ("item", None))]


def test_an_incomplete_item_is_not_ended() -> None:
    assert ("end_block", 0) not in record(item_added(call_item()), item_done(call_item('{"a"', status="incomplete")))
    assert ("end_block", 0) in record(item_added(call_item()), item_done(call_item("{}", status="completed")))


def test_the_final_output_ends_the_items_that_are_completed() -> None:
    assert ("end_block", 0) in record(item_added(call_item()), response_end(output=[call_item("{}")]))
    assert ("end_block", 0) not in record(item_added(call_item()), response_end("incomplete", output=[call_item("{}")]))
    assert ("end_block", 0) in record(
        item_added(call_item()), response_end("incomplete", output=[call_item("{}", status="completed")])
    )


def test_further_fields_of_a_call_are_its_metadata() -> None:
    records = record(item_added(call_item(namespace="crm", caller={"type": "direct"}, created_by=None)))
    assert records == [
        ("start", "call_1", "f", "function", 0, {"item_id": "fc_1", "namespace": "crm", "caller": {"type": "direct"}})
    ]


def test_a_call_without_call_id_gets_the_id_of_its_item() -> None:
    item = {"type": "function_call", "id": "fc_1", "name": "f", "arguments": "{}"}
    assert ("completed", "fc_1", None, 0, {"item_id": "fc_1"}) in record(item_added(item), item_done(item))


def test_arguments_that_are_nested_too_deeply_end_the_turn() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": deep}
    sink = ResponsesSink()
    PROVIDER.parser(sink).chunk(item_done(call_item(deep)))
    assert ("fail", "limit_exceeded", "a call's arguments are nested too deeply", None) in sink.reported


def test_a_snapshot_of_a_call_without_start_and_name_is_unknown() -> None:
    event = {"type": "response.function_call_arguments.done", "item_id": "fc_1", "output_index": 0, "arguments": "{}"}
    assert record(event) == [("unknown", event)]


def test_final_items_are_matched_by_id_before_position() -> None:
    streamed = [item_added(call_item(), 0), item_done(call_item("{}"), 0)]
    records = record(*streamed, response_end(output=[message_item(output_text("Hi")), call_item("{}")]))
    assert [event[:2] for event in records if event[0] in ("start", "text")] == [("start", "call_1"), ("text", "Hi")]


def test_a_final_call_with_another_id_at_a_known_position_is_another_call() -> None:
    records = record(
        item_added(call_item(), 0),
        item_done(call_item("{}"), 0),
        response_end(output=[call_item("[]", None, "call_2"), call_item("{}")]),
    )
    assert [event[1] for event in records if event[0] == "start"] == ["call_1", "call_2"]


def test_one_item_id_for_all_calls_does_not_mix_their_ends() -> None:
    records = record(
        item_added(call_item("", "fc_0", "call_1"), 0),
        item_added(call_item("", "fc_0", "call_2"), 1),
        item_done(call_item("[1]", "fc_0", "call_1"), 0),
        item_done(call_item("[2]", "fc_0", "call_2"), 1),
        response_end(output=[call_item("[1]", "fc_0", "call_1"), call_item("[2]", "fc_0", "call_2")]),
    )
    assert [event for event in records if event[0] == "replace_arguments"] == [
        ("replace_arguments", 0, "[1]"),
        ("replace_arguments", 1, "[2]"),
    ] * 2


def test_ends_of_calls_that_share_their_only_id_are_matched_by_position() -> None:
    shared = [item_added(call_item("", None, "c"), position) for position in (0, 1)]
    records = record(*shared, item_done(call_item("[2]", None, "c"), 1), item_done(call_item("[1]", None, "c"), 0))
    assert [event for event in records if event[0] == "replace_arguments"] == [
        ("replace_arguments", 1, "[2]"),
        ("replace_arguments", 0, "[1]"),
    ]


def test_many_items_with_one_id_take_linear_time() -> None:
    item = {"type": "shell_call", "call_id": "c", "environment": {"type": "container_reference"}}
    sink = ResponsesSink()
    parser = PROVIDER.parser(sink)
    for _ in range(4_000):
        parser.chunk(item_added(item, 0))
        parser.chunk(item_done(item, None))
    parser.chunk(response_end(output=[item] * 4_000))
    assert len(sink.reported) == 4_000 * 2 + 3
