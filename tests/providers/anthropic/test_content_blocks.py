"""The content blocks of an Anthropic message, as the parser reports them to its sink."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic_events import CALL, STOP, begin, delta, end, frames, read, start, stop
from recording_sink import call_delta, call_start

# ---------------------------------------------------------------- text


def test_text_deltas_are_reported_with_the_key_of_their_block() -> None:
    sink = read(
        begin(), start(0, "text", text=""), delta(0, "text_delta", text="Hel"), delta(0, "text_delta", text="lo")
    )
    assert sink.reported == [("identify", "msg_1", "m"), ("text", "Hel", 0), ("text", "lo", 0)]


def test_text_of_a_block_start_is_reported() -> None:
    assert read(start(0, "text", text="Hi")).reported == [("text", "Hi", 0)]


def test_empty_text_is_not_reported() -> None:
    assert read(start(0, "text", text=""), delta(0, "text_delta", text="")).reported == []


def test_interleaved_blocks_are_identified_by_index() -> None:
    sink = read(
        start(0, "tool_use", id="a", name="f", input={}),
        start(1, "tool_use", id="b", name="g", input={}),
        delta(1, "input_json_delta", partial_json='{"b"'),
        delta(0, "input_json_delta", partial_json='{"a"'),
    )
    assert sink.reported[2:] == [call_delta('{"b"', 1), call_delta('{"a"', 0)]


def test_text_delta_without_a_block_start_opens_a_text_block() -> None:
    assert read(delta(0, "text_delta", text="a"), delta(0, "text_delta", text="b")).reported == [
        ("text", "a", 0),
        ("text", "b", 0),
    ]


def test_delta_without_an_index_belongs_to_the_latest_block() -> None:
    event = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "a"}}
    assert read(start(None, "text", text=""), event).reported == [("text", "a", 0)]


def test_delta_without_a_type_is_identified_by_its_field() -> None:
    event = {"type": "content_block_delta", "index": 0, "delta": {"text": "a"}}
    assert read(start(0, "text", text=""), event).reported == [("text", "a", 0)]


@pytest.mark.parametrize(
    ("kind", "increment"),
    [
        ("text", {"type": "text_delta", "text": "a"}),
        ("thinking", {"type": "signature_delta", "signature": "s"}),
        ("server_tool_use", {"type": "input_json_delta", "partial_json": "{"}),
        ("text", {"type": "text_delta", "text": ""}),
    ],
)
def test_delta_without_an_event_type_is_read_as_bytes_and_as_data(kind: str, increment: dict[str, str]) -> None:
    """Of relays that have the name in SSE alone, whose chunks are passed on as dicts."""
    begun, event = start(0, kind, id="t", name="n"), {"index": 0, "delta": increment}
    named = frames(
        (b"content_block_start", json.dumps(begun).encode()), (b"content_block_delta", json.dumps(event).encode())
    )
    assert read(begun, event).reported == named.reported


def test_citations_are_reported_after_their_text_block() -> None:
    citation = {"type": "web_search_result_location", "url": "u"}
    sink = read(start(0, "text", text="", citations=[]), delta(0, "citations_delta", citation=citation))
    assert sink.reported == [("text", "", 0), ("citation", citation, 0)]


def test_citations_of_a_block_start_are_reported() -> None:
    sink = read(start(0, "text", text="x", citations=[{"n": 1}, {"n": 2}]))
    assert sink.reported == [("text", "x", 0), ("text", "", 0), ("citation", {"n": 1}, 0), ("citation", {"n": 2}, 0)]


# ---------------------------------------------------------------- thinking


def test_signature_of_thinking_is_metadata_of_its_block() -> None:
    sink = read(
        start(0, "thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="hm"),
        delta(0, "signature_delta", signature="SIG"),
        stop(0),
    )
    assert sink.reported == [
        ("reasoning", "", "text", 0),
        ("reasoning", "hm", "text", 0),
        ("add_metadata", {"signature": "SIG"}, 0),
        ("end_block", 0),
    ]


def test_signature_on_a_thinking_delta_is_read() -> None:
    sink = read(start(0, "thinking", thinking=""), delta(0, "thinking_delta", thinking="hm", signature="SIG"))
    assert sink.reported[1:] == [("reasoning", "hm", "text", 0), ("add_metadata", {"signature": "SIG"}, 0)]


def test_signature_of_the_block_start_is_not_appended_when_it_is_sent_again() -> None:
    sink = read(start(0, "thinking", thinking="t", signature="SIG"), delta(0, "signature_delta", signature="SIG"))
    assert sink.reported == [("reasoning", "t", "text", 0), ("add_metadata", {"signature": "SIG"}, 0)]


def test_signature_in_parts_is_reported_in_parts() -> None:
    sink = read(
        start(0, "thinking", thinking=""),
        delta(0, "signature_delta", signature="AB"),
        delta(0, "signature_delta", signature="C"),
    )
    assert sink.reported[1:] == [("add_metadata", {"signature": "AB"}, 0), ("add_metadata", {"signature": "C"}, 0)]


def test_thinking_delta_without_a_block_start_opens_reasoning() -> None:
    sink = read(delta(3, "thinking_delta", thinking="a"), delta(3, "signature_delta", signature="S"))
    assert sink.reported == [("reasoning", "a", "text", 0), ("add_metadata", {"signature": "S"}, 0)]


def test_redacted_thinking_is_reasoning_that_keeps_its_block() -> None:
    sink = read(start(0, "redacted_thinking", data="OPAQUE"), stop(0))
    block = {"type": "redacted_thinking", "data": "OPAQUE"}
    assert sink.reported == [("reasoning", "", "text", 0), ("add_metadata", {"opaque": block}, 0), ("end_block", 0)]


# ---------------------------------------------------------------- calls


def test_placeholder_input_is_not_joined_with_the_deltas() -> None:
    sink = read(
        CALL,
        delta(0, "input_json_delta", partial_json=""),
        delta(0, "input_json_delta", partial_json='{"city"'),
        delta(0, "input_json_delta", partial_json=':"Paris"}'),
        stop(0),
    )
    assert sink.reported == [
        call_start("toolu_1", "w", 0),
        call_delta('{"city"', 0),
        call_delta(':"Paris"}', 0),
        ("end_block", 0),
    ]


def test_input_of_a_block_start_counts_if_no_delta_follows() -> None:
    block_start = start(0, "tool_use", id="t", name="w", input={"city": "Zürich"})
    assert read(block_start, delta(0, "input_json_delta", partial_json=""), stop(0)).reported[1:] == [
        call_delta('{"city":"Zürich"}', 0),
        ("end_block", 0),
    ]


def test_input_of_a_block_start_does_not_count_if_a_delta_follows() -> None:
    block_start = start(0, "tool_use", id="t", name="w", input={"city": "Paris"})
    sink = read(block_start, delta(0, "input_json_delta", partial_json='{"city":"Oslo"}'), stop(0))
    assert sink.reported[1:] == [call_delta('{"city":"Oslo"}', 0), ("end_block", 0)]


@pytest.mark.parametrize("last", [end("tool_use"), STOP])
def test_input_of_a_block_start_counts_if_the_block_has_no_stop(last: dict[str, Any]) -> None:
    sink = read(start(0, "tool_use", id="t", name="w", input={"a": 1}), last)
    assert call_delta('{"a":1}', 0) in sink.reported
    assert ("end_block", 0) not in sink.reported


def test_extra_fields_of_text_and_thinking_are_kept() -> None:
    assert read(start(0, "text", text="", marker=1)).reported == [("text", "", 0), ("add_metadata", {"marker": 1}, 0)]
    assert read(start(0, "thinking", thinking="", marker=1)).reported == [
        ("reasoning", "", "text", 0),
        ("add_metadata", {"marker": 1}, 0),
    ]


def test_text_in_the_block_of_a_call_is_text() -> None:
    assert read(CALL, delta(0, "text_delta", text="x")).reported[1:] == [("text", "x", 0)]


def test_arguments_with_a_text_as_index_belong_to_their_call() -> None:
    sink = read(
        start("a", "tool_use", id="t", name="w", input={"x": 1}),
        delta("a", "input_json_delta", partial_json="{}"),
        stop("a"),
    )
    assert sink.reported[1:] == [call_delta("{}", 0), ("end_block", 0)]


def test_extra_fields_of_a_call_are_kept() -> None:
    sink = read(start(0, "tool_use", id="t", name="w", input={}, caller={"type": "direct"}))
    assert sink.reported == [call_start("t", "w", 0, metadata={"caller": {"type": "direct"}})]


def test_argument_delta_without_a_call_is_passed_to_the_accumulator() -> None:
    assert read(delta(5, "input_json_delta", partial_json="{}")).reported == [call_delta("{}", ("index", 5))]


def test_number_as_id_is_read_as_text() -> None:
    assert read(start(0, "tool_use", id=7, name="w", input={})).reported == [call_start("7", "w", 0)]


def test_block_index_used_again_is_a_block_of_its_own() -> None:
    sink = read(
        CALL,
        delta(0, "input_json_delta", partial_json='{"a":1}'),
        stop(0),
        start(0, "tool_use", id="toolu_2", name="v", input={}),
        delta(0, "input_json_delta", partial_json='{"b":2}'),
        stop(0),
    )
    assert sink.reported[3:] == [
        ("warn", "block_index_reused"),
        call_start("toolu_2", "v", 1),
        call_delta('{"b":2}', 1),
        ("end_block", 1),
    ]


# ---------------------------------------------------------------- server tools


def test_server_tool_is_reported_in_three_phases_with_the_blocks_to_send_back() -> None:
    sources = [{"type": "web_search_result", "url": "u", "encrypted_content": "E"}]
    result = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": sources}
    sink = read(
        start(0, "server_tool_use", id="srvtoolu_1", name="web_search", input={}, caller={"type": "direct"}),
        delta(0, "input_json_delta", partial_json=""),
        delta(0, "input_json_delta", partial_json='{"query":'),
        delta(0, "input_json_delta", partial_json='"x"}'),
        stop(0),
        {"type": "content_block_start", "index": 1, "content_block": result},
        stop(1),
    )
    use = {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "web_search",
        "input": {"query": "x"},
        "caller": {"type": "direct"},
    }
    assert sink.reported == [
        ("server_tool", "srvtoolu_1", "web_search", "started"),
        ("server_tool_delta", "srvtoolu_1", "web_search", '{"query":'),
        ("server_tool_delta", "srvtoolu_1", "web_search", '"x"}'),
        ("server_tool", "srvtoolu_1", "web_search", "arguments", {"query": "x"}, use),
        ("server_tool", "srvtoolu_1", "web_search", "result", sources, result),
    ]


@pytest.mark.parametrize(
    ("use", "result"),
    [
        ("mcp_tool_use", "mcp_tool_result"),
        ("server_tool_use", "bash_code_execution_tool_result"),
        ("server_tool_use", "tool_search_tool_result"),
        ("server_tool_use", "advisor_tool_result"),
        ("server_tool_use", "something_new_tool_result"),
    ],
)
def test_every_kind_of_server_tool_has_the_name_of_its_call(use: str, result: str) -> None:
    sink = read(
        start(0, use, id="s", name="ask", input={}), stop(0), start(1, result, tool_use_id="s", content={"a": 1})
    )
    fields = [] if use == "server_tool_use" else [{"type": use}]
    assert [entry[1:5] for entry in sink.reported] == [
        ("s", "ask", "started", *fields),
        ("s", "ask", "arguments", {}),
        ("s", "ask", "result", {"a": 1}),
    ]


def test_start_of_a_server_tool_has_its_server_and_its_caller() -> None:
    caller = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
    sink = read(start(0, "mcp_tool_use", id="s", name="ask", input={}, server_name="files", caller=caller))
    fields = {"server_name": "files", "caller": caller, "type": "mcp_tool_use"}
    assert sink.reported[0] == ("server_tool", "s", "ask", "started", fields)


def test_result_of_a_call_of_an_earlier_turn_is_named_by_its_type() -> None:
    sink = read(start(0, "code_execution_tool_result", tool_use_id="s", content={}))
    assert sink.reported[0][:4] == ("server_tool", "s", "code_execution", "result")


def test_server_tool_without_an_id_is_reported() -> None:
    sink = read(start(0, "server_tool_use", name="n", input={}), start(1, "n_tool_result", content="x"))
    assert [entry[:4] for entry in sink.reported] == [
        ("server_tool", None, "n", "started"),
        ("server_tool", None, "n", "result"),
    ]


def test_deltas_that_do_not_fit_a_server_tool_are_unknown() -> None:
    odd = [
        delta(0, "text_delta", text="x"),
        delta(1, "text_delta", text="y"),
    ]
    sink = read(start(0, "server_tool_use", id="s", name="n", input={}), start(1, "n_tool_result", content=1), *odd)
    assert sink.reported[2:] == [("unknown", event) for event in odd]


def test_empty_delta_of_a_result_is_not_reported() -> None:
    assert len(read(start(0, "n_tool_result", content=1), delta(0, "text_delta", text="")).reported) == 1


def test_truncated_input_of_a_server_tool_is_reported_and_its_block_stays_legal() -> None:
    sink = read(
        start(0, "server_tool_use", id="s", name="web_search", input={}),
        delta(0, "input_json_delta", partial_json='{"query":"x'),
        end("max_tokens"),
    )
    block = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    assert sink.reported[1:] == [
        ("server_tool_delta", "s", "web_search", '{"query":"x'),
        ("server_tool", "s", "web_search", "arguments", '{"query":"x', block),
        ("finish", "max_tokens", "length"),
    ]


# ---------------------------------------------------------------- unknown blocks and deltas


def test_unknown_block_is_reported_at_its_stop() -> None:
    sink = read(start(0, "container_upload", file_id="f"), stop(0), delta(0, "some_new_delta", x=1))
    assert sink.reported == [
        ("provider_block", {"type": "container_upload", "file_id": "f"}),
        ("unknown", delta(0, "some_new_delta", x=1)),
    ]


def test_compaction_deltas_are_merged_into_their_block() -> None:
    part = delta(0, "compaction_delta", content="summary", encrypted_content="E")
    sink = read(start(0, "compaction", content=None), part, stop(0))
    block = {"type": "compaction", "content": "summary", "encrypted_content": "E"}
    assert sink.reported == [("compaction", block, "summary")]


def test_known_deltas_of_an_unknown_block_are_merged_too() -> None:
    sink = read(
        start(0, "essay", text="a", sources=[1]),
        delta(0, "text_delta", text="b"),
        delta(0, "text_delta", text="c"),
        delta(0, "citations_delta", citation={"n": 1}),
        delta(0, "input_json_delta", partial_json='{"k":1}'),
        delta(0, "sources_delta", sources=[2]),
        stop(0),
    )
    assert sink.reported[-1] == (
        "provider_block",
        {"type": "essay", "text": "abc", "sources": [1, 2], "citations": [{"n": 1}], "input": {"k": 1}},
    )


def test_null_in_a_delta_removes_nothing_from_an_unknown_block() -> None:
    sink = read(start(0, "new", a=1), delta(0, "new_delta", a=None, b=None), stop(0))
    assert sink.reported[-1] == ("provider_block", {"type": "new", "a": 1, "b": None})


def test_unknown_block_without_a_stop_keeps_its_position() -> None:
    sink = read(start(0, "new", a=1), start(1, "text", text="x"), STOP)
    assert sink.reported == [("provider_block", {"type": "new", "a": 1}), ("text", "x", 1), ("terminate",)]


def test_fallback_block_names_the_model_that_continues() -> None:
    block = start(0, "fallback", **{"from": {"model": "a"}, "to": {"model": "b"}})
    sink = read(begin(), block, stop(0))
    assert sink.reported[1:] == [("identify", None, "b"), ("provider_block", block["content_block"])]


@pytest.mark.parametrize(
    "event",
    [
        {"type": "keepalive"},
        {"type": "content_block_start", "index": 0},
        {"type": "content_block_start", "index": 0, "content_block": None},
        {"type": "content_block_stop", "index": 9},
        {"type": "content_block_delta", "index": 0},
        {"type": "message_start", "message": "x"},
        {"type": "message_delta", "delta": "x"},
        delta(0, "text_delta", text=["x"]),
    ],
)
def test_events_of_unexpected_shape_are_unknown(event: dict[str, Any]) -> None:
    assert read(event).reported == [("unknown", event)]


def test_arguments_that_are_an_object_in_a_delta_are_the_arguments() -> None:
    sink = read(CALL, delta(0, "input_json_delta", partial_json={"a": 1}), stop(0))
    assert sink.reported[1:] == [call_delta('{"a":1}', 0), ("end_block", 0)]


@pytest.mark.parametrize("before", [0, 2])
def test_an_unknown_field_of_a_delta_is_reported_wherever_it_first_appears(before: int) -> None:
    plain = delta(0, "text_delta", text="x")
    odd = delta(0, "text_delta", text="y", probability=0.5)
    sink = read(start(0, "text", text=""), *[plain] * before, {**odd, "seq": 7}, plain)
    assert sink.reported == [
        *[("text", "x", 0)] * before,
        ("unknown_field", "delta.probability", 0.5),
        ("unknown_field", "seq", 7),
        ("text", "y", 0),
        ("text", "x", 0),
    ]


def test_a_field_of_another_type_of_delta_is_reported() -> None:
    sink = read(start(0, "text", text=""), delta(0, "text_delta", text="x", thinking="hm"))
    assert sink.reported == [("text", "x", 0), ("unknown_field", "delta.thinking", "hm")]


def test_fields_of_a_block_of_an_unknown_type_are_kept_and_not_reported() -> None:
    odd = delta(0, "new_delta", detail="a", more=1)
    sink = read(start(0, "new_block"), odd, stop(0))
    assert sink.reported == [("unknown", odd), ("provider_block", {"type": "new_block", "detail": "a", "more": 1})]


@pytest.mark.parametrize(
    "event",
    [start(0, "text", text="x"), stop(0), {"type": "ping"}, {"type": "message_stop"}, {"type": "message_start"}],
)
def test_an_unknown_field_of_an_event_is_reported(event: dict[str, Any]) -> None:
    sink = read(start(0, "text", text=""), {**event, "sequence": 3, "absent": None})
    assert ("unknown_field", "sequence", 3) in sink.reported
    assert [entry[1] for entry in sink.select("unknown_field")] == ["sequence"]


@pytest.mark.parametrize("index", ["0", 0.0])
def test_an_index_of_another_type_is_the_same_index(index: Any) -> None:
    sink = read(CALL, delta(index, "input_json_delta", partial_json='{"a":1}'), stop(index))
    assert sink.reported[1:] == [call_delta('{"a":1}', 0), ("end_block", 0)]
