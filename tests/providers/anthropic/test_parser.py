"""What the Anthropic parser tells its sink, event by event."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamkit import providers
from streamkit.calls import StreamError, Usage
from streamkit.events import NormalizedToolChunk
from streamkit.providers.anthropic import content_blocks as blocks_module

ANTHROPIC = providers.get("anthropic")


class RecordingSink:
    """Writes down what it is told, as tuples; it is its own only choice."""

    def __init__(self) -> None:
        self.said: list[tuple[Any, ...]] = []
        self.reports: list[Usage] = []

    def choice(self, index: int) -> RecordingSink:
        assert index == 0
        return self

    def text(self, text: str, key: Hashable = None) -> None:
        self.said.append(("text", text, key))

    def reasoning(self, text: str, kind: str = "text", key: Hashable = None) -> None:
        self.said.append(("reasoning", text, key))

    def refusal(self, text: str) -> None:
        self.said.append(("refusal", text))

    def add_metadata(self, metadata: Mapping[str, Any], key: Hashable = None) -> None:
        self.said.append(("add_metadata", dict(metadata), key))

    def tool(self, chunk: NormalizedToolChunk) -> None:
        if chunk.type == "start":
            self.said.append(("start", chunk.id, chunk.name, chunk.key, chunk.metadata))
        else:
            assert chunk.id is None
            assert chunk.name is None
            self.said.append(("arguments", chunk.arguments_delta, chunk.key))

    def end_block(self, key: Hashable) -> None:
        self.said.append(("end_block", key))

    def replace_arguments(self, key: Hashable, arguments_text: str) -> None:
        raise AssertionError("this wire never restates")

    def server_tool(self, id: str | None, name: str, phase: str, data: Any = None, *, raw: Any = None) -> None:
        self.said.append(("server_tool", id, name, phase, data, raw))

    def citation(self, data: Any) -> None:
        self.said.append(("citation", data))

    def file(self, media_type: str | None, data: str | None = None, url: str | None = None, *, raw: Any = None) -> None:
        raise AssertionError("this wire has no files")

    def provider_block(self, raw: Any) -> None:
        self.said.append(("provider_block", raw))

    def finish(self, raw: str | int | None, reason: str) -> None:
        self.said.append(("finish", raw, reason))

    def identify(self, response_id: str | None, model: str | None) -> None:
        self.said.append(("identify", response_id, model))

    def usage(self, usage: Usage) -> None:
        self.reports.append(usage)

    def terminate(self) -> None:
        self.said.append(("terminate",))

    def heartbeat(self) -> None:
        self.said.append(("heartbeat",))

    def fail(self, error: StreamError) -> None:
        self.said.append(("fail", error.kind, error.message, error.raw))

    def warn(self, code: str, message: str) -> None:
        self.said.append(("warn", code))

    def unknown(self, raw: object) -> None:
        self.said.append(("unknown", raw))


def read(*events: Any) -> RecordingSink:
    """The events through the dict door and through the bytes door, which must say the same."""
    dicts, frames = RecordingSink(), RecordingSink()
    by_dict, by_frame = ANTHROPIC.parser(dicts), ANTHROPIC.parser(frames)
    for event in events:
        by_dict.chunk(json.loads(json.dumps(event)))
        name = event.get("type")
        by_frame.frame(name.encode() if isinstance(name, str) else b"", json.dumps(event).encode())
    assert dicts.said == frames.said
    assert dicts.reports == frames.reports
    return dicts


def frames(*pairs: tuple[bytes, bytes]) -> RecordingSink:
    sink = RecordingSink()
    parser = ANTHROPIC.parser(sink)
    for name, data in pairs:
        parser.frame(name, data)
    return sink


def begin(**message: Any) -> dict[str, Any]:
    return {"type": "message_start", "message": {"id": "msg_1", "model": "m", "content": [], **message}}


def start(index: Any, type: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": {"type": type, **fields}}


def delta(index: Any, type: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": type, **fields}}


def stop(index: Any) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def end(reason: Any, **usage: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}


STOP = {"type": "message_stop"}
CALL = start(0, "tool_use", id="toolu_1", name="w", input={})


# ---------------------------------------------------------------- text


def test_text_is_said_piece_by_piece_under_its_block() -> None:
    sink = read(
        begin(), start(0, "text", text=""), delta(0, "text_delta", text="Hel"), delta(0, "text_delta", text="lo")
    )
    assert sink.said == [("identify", "msg_1", "m"), ("text", "Hel", 0), ("text", "lo", 0)]


def test_text_that_stands_at_the_start_of_a_block_is_said() -> None:
    assert read(start(0, "text", text="Hi")).said == [("text", "Hi", 0)]


def test_empty_text_says_nothing() -> None:
    assert read(start(0, "text", text=""), delta(0, "text_delta", text="")).said == []


def test_interleaved_blocks_are_told_apart_by_index() -> None:
    sink = read(
        start(0, "tool_use", id="a", name="f", input={}),
        start(1, "tool_use", id="b", name="g", input={}),
        delta(1, "input_json_delta", partial_json='{"b"'),
        delta(0, "input_json_delta", partial_json='{"a"'),
    )
    assert sink.said[2:] == [("arguments", '{"b"', 1), ("arguments", '{"a"', 0)]


def test_text_delta_without_a_block_start_opens_a_text_block() -> None:
    assert read(delta(0, "text_delta", text="a"), delta(0, "text_delta", text="b")).said == [
        ("text", "a", 0),
        ("text", "b", 0),
    ]


def test_delta_without_an_index_goes_to_the_latest_block() -> None:
    event = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "a"}}
    assert read(start(None, "text", text=""), event).said == [("text", "a", 0)]


def test_delta_without_a_type_is_known_by_its_field() -> None:
    event = {"type": "content_block_delta", "index": 0, "delta": {"text": "a"}}
    assert read(start(0, "text", text=""), event).said == [("text", "a", 0)]


def test_citations_are_said_behind_their_text_block() -> None:
    citation = {"type": "web_search_result_location", "url": "u"}
    sink = read(start(0, "text", text="", citations=[]), delta(0, "citations_delta", citation=citation))
    assert sink.said == [("text", "", 0), ("citation", citation)]


def test_citations_that_stand_at_the_start_of_a_block_are_said() -> None:
    sink = read(start(0, "text", text="x", citations=[{"n": 1}, {"n": 2}]))
    assert sink.said == [("text", "x", 0), ("text", "", 0), ("citation", {"n": 1}), ("citation", {"n": 2})]


# ---------------------------------------------------------------- thinking


def test_thinking_is_signed_at_its_end() -> None:
    sink = read(
        start(0, "thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="hm"),
        delta(0, "signature_delta", signature="SIG"),
        stop(0),
    )
    assert sink.said == [
        ("reasoning", "", 0),
        ("reasoning", "hm", 0),
        ("add_metadata", {"signature": "SIG"}, 0),
        ("end_block", 0),
    ]


def test_signature_on_a_thinking_delta_is_taken() -> None:
    sink = read(start(0, "thinking", thinking=""), delta(0, "thinking_delta", thinking="hm", signature="SIG"))
    assert sink.said[1:] == [("reasoning", "hm", 0), ("add_metadata", {"signature": "SIG"}, 0)]


def test_signature_of_the_block_start_said_again_is_not_joined_to_itself() -> None:
    sink = read(start(0, "thinking", thinking="t", signature="SIG"), delta(0, "signature_delta", signature="SIG"))
    assert sink.said == [("reasoning", "t", 0), ("add_metadata", {"signature": "SIG"}, 0)]


def test_signature_in_pieces_is_handed_over_in_pieces() -> None:
    sink = read(
        start(0, "thinking", thinking=""),
        delta(0, "signature_delta", signature="AB"),
        delta(0, "signature_delta", signature="C"),
    )
    assert sink.said[1:] == [("add_metadata", {"signature": "AB"}, 0), ("add_metadata", {"signature": "C"}, 0)]


def test_thinking_delta_without_a_block_start_opens_reasoning() -> None:
    sink = read(delta(3, "thinking_delta", thinking="a"), delta(3, "signature_delta", signature="S"))
    assert sink.said == [("reasoning", "a", 0), ("add_metadata", {"signature": "S"}, 0)]


def test_redacted_thinking_is_reasoning_that_keeps_its_block() -> None:
    sink = read(start(0, "redacted_thinking", data="OPAQUE"), stop(0))
    block = {"type": "redacted_thinking", "data": "OPAQUE"}
    assert sink.said == [("reasoning", "", 0), ("add_metadata", {"opaque": block}, 0), ("end_block", 0)]


# ---------------------------------------------------------------- calls


def test_placeholder_input_is_not_joined_with_the_deltas() -> None:
    sink = read(
        CALL,
        delta(0, "input_json_delta", partial_json=""),
        delta(0, "input_json_delta", partial_json='{"city"'),
        delta(0, "input_json_delta", partial_json=':"Paris"}'),
        stop(0),
    )
    assert sink.said == [
        ("start", "toolu_1", "w", 0, None),
        ("arguments", '{"city"', 0),
        ("arguments", ':"Paris"}', 0),
        ("end_block", 0),
    ]


def test_filled_input_counts_where_no_delta_follows() -> None:
    whole = start(0, "tool_use", id="t", name="w", input={"city": "Zürich"})
    assert read(whole, delta(0, "input_json_delta", partial_json=""), stop(0)).said[1:] == [
        ("arguments", '{"city":"Zürich"}', 0),
        ("end_block", 0),
    ]


def test_filled_input_does_not_count_where_a_delta_follows() -> None:
    whole = start(0, "tool_use", id="t", name="w", input={"city": "Paris"})
    sink = read(whole, delta(0, "input_json_delta", partial_json='{"city":"Oslo"}'), stop(0))
    assert sink.said[1:] == [("arguments", '{"city":"Oslo"}', 0), ("end_block", 0)]


@pytest.mark.parametrize("last", [end("tool_use"), STOP])
def test_filled_input_counts_where_the_block_never_stops(last: dict[str, Any]) -> None:
    sink = read(start(0, "tool_use", id="t", name="w", input={"a": 1}), last)
    assert ("arguments", '{"a":1}', 0) in sink.said
    assert ("end_block", 0) not in sink.said


def test_extra_fields_of_text_and_thinking_are_kept() -> None:
    assert read(start(0, "text", text="", marker=1)).said == [("text", "", 0), ("add_metadata", {"marker": 1}, 0)]
    assert read(start(0, "thinking", thinking="", marker=1)).said == [
        ("reasoning", "", 0),
        ("add_metadata", {"marker": 1}, 0),
    ]


def test_text_inside_a_calls_block_is_still_text() -> None:
    assert read(CALL, delta(0, "text_delta", text="x")).said[1:] == [("text", "x", 0)]


def test_arguments_of_a_call_with_a_named_index_find_it() -> None:
    sink = read(
        start("a", "tool_use", id="t", name="w", input={"x": 1}),
        delta("a", "input_json_delta", partial_json="{}"),
        stop("a"),
    )
    assert sink.said[1:] == [("arguments", "{}", 0), ("end_block", 0)]


def test_extra_fields_of_a_call_are_kept() -> None:
    sink = read(start(0, "tool_use", id="t", name="w", input={}, caller={"type": "direct"}))
    assert sink.said == [("start", "t", "w", 0, {"caller": {"type": "direct"}})]


def test_argument_delta_without_a_call_is_left_to_the_accumulator() -> None:
    assert read(delta(5, "input_json_delta", partial_json="{}")).said == [("arguments", "{}", ("index", 5))]


def test_number_as_id_is_read_as_text() -> None:
    assert read(start(0, "tool_use", id=7, name="w", input={})).said == [("start", "7", "w", 0, None)]


def test_block_index_used_again_is_a_block_of_its_own() -> None:
    sink = read(
        CALL,
        delta(0, "input_json_delta", partial_json='{"a":1}'),
        stop(0),
        start(0, "tool_use", id="toolu_2", name="v", input={}),
        delta(0, "input_json_delta", partial_json='{"b":2}'),
        stop(0),
    )
    assert sink.said[3:] == [
        ("warn", "block_index_reused"),
        ("start", "toolu_2", "v", 1, None),
        ("arguments", '{"b":2}', 1),
        ("end_block", 1),
    ]


# ---------------------------------------------------------------- server tools


def test_server_tool_is_said_in_three_phases_with_the_blocks_to_send_back() -> None:
    found = [{"type": "web_search_result", "url": "u", "encrypted_content": "E"}]
    result = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": found}
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
    assert sink.said == [
        ("server_tool", "srvtoolu_1", "web_search", "started", None, None),
        ("server_tool", "srvtoolu_1", "web_search", "arguments", {"query": "x"}, use),
        ("server_tool", "srvtoolu_1", "web_search", "result", found, result),
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
    assert [entry[1:5] for entry in sink.said] == [
        ("s", "ask", "started", None),
        ("s", "ask", "arguments", {}),
        ("s", "ask", "result", {"a": 1}),
    ]


def test_result_of_an_earlier_turns_call_is_named_by_its_kind() -> None:
    sink = read(start(0, "code_execution_tool_result", tool_use_id="s", content={}))
    assert sink.said[0][:4] == ("server_tool", "s", "code_execution", "result")


def test_server_tool_without_an_id_is_said() -> None:
    sink = read(start(0, "server_tool_use", name="n", input={}), start(1, "n_tool_result", content="x"))
    assert [entry[:4] for entry in sink.said] == [
        ("server_tool", None, "n", "started"),
        ("server_tool", None, "n", "result"),
    ]


def test_deltas_that_do_not_fit_a_server_tool_are_shown() -> None:
    odd = [
        delta(0, "text_delta", text="x"),
        delta(0, "input_json_delta", partial_json={"a": 1}),
        delta(1, "text_delta", text="y"),
    ]
    sink = read(start(0, "server_tool_use", id="s", name="n", input={}), start(1, "n_tool_result", content=1), *odd)
    assert sink.said[2:] == [("unknown", event) for event in odd]


def test_empty_delta_of_a_result_says_nothing() -> None:
    assert len(read(start(0, "n_tool_result", content=1), delta(0, "text_delta", text="")).said) == 1


def test_cut_input_of_a_server_tool_is_shown_and_its_block_stays_legal() -> None:
    sink = read(
        start(0, "server_tool_use", id="s", name="web_search", input={}),
        delta(0, "input_json_delta", partial_json='{"query":"x'),
        end("max_tokens"),
    )
    block = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    assert sink.said[1:] == [
        ("server_tool", "s", "web_search", "arguments", '{"query":"x', block),
        ("finish", "max_tokens", "length"),
    ]


def test_server_tool_input_that_never_ends_is_a_passed_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "KEPT", 10)
    sink = read(
        start(0, "server_tool_use", id="s", name="n", input={}),
        delta(0, "input_json_delta", partial_json="123456"),
        delta(0, "input_json_delta", partial_json="123456"),
    )
    assert sink.said[-1][:2] == ("fail", "limit_exceeded")


# ---------------------------------------------------------------- what there is no word for


def test_unknown_block_is_kept_as_it_stands_at_its_stop() -> None:
    sink = read(start(0, "container_upload", file_id="f"), stop(0), delta(0, "some_new_delta", x=1))
    assert sink.said == [
        ("provider_block", {"type": "container_upload", "file_id": "f"}),
        ("unknown", delta(0, "some_new_delta", x=1)),
    ]


def test_compaction_is_folded_into_its_block() -> None:
    piece = delta(0, "compaction_delta", content="summary", encrypted_content="E")
    sink = read(start(0, "compaction", content=None), piece, stop(0))
    assert sink.said == [
        ("unknown", piece),
        ("provider_block", {"type": "compaction", "content": "summary", "encrypted_content": "E"}),
    ]


def test_known_deltas_of_an_unknown_block_are_folded_too() -> None:
    sink = read(
        start(0, "essay", text="a", sources=[1]),
        delta(0, "text_delta", text="b"),
        delta(0, "text_delta", text="c"),
        delta(0, "citations_delta", citation={"n": 1}),
        delta(0, "input_json_delta", partial_json='{"k":1}'),
        delta(0, "sources_delta", sources=[2]),
        stop(0),
    )
    assert sink.said[-1] == (
        "provider_block",
        {"type": "essay", "text": "abc", "sources": [1, 2], "citations": [{"n": 1}], "input": {"k": 1}},
    )


def test_null_in_a_delta_takes_nothing_from_an_unknown_block() -> None:
    sink = read(start(0, "new", a=1), delta(0, "new_delta", a=None, b=None), stop(0))
    assert sink.said[-1] == ("provider_block", {"type": "new", "a": 1, "b": None})


def test_unknown_block_that_never_stops_keeps_its_place() -> None:
    sink = read(start(0, "new", a=1), start(1, "text", text="x"), STOP)
    assert sink.said == [("provider_block", {"type": "new", "a": 1}), ("text", "x", 1), ("terminate",)]


def test_fallback_names_the_model_that_answers() -> None:
    block = start(0, "fallback", **{"from": {"model": "a"}, "to": {"model": "b"}})
    sink = read(begin(), block, stop(0))
    assert sink.said[1:] == [("identify", None, "b"), ("provider_block", block["content_block"])]


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
        delta(0, "input_json_delta", partial_json={"a": 1}),
    ],
)
def test_what_has_no_meaning_is_unknown(event: dict[str, Any]) -> None:
    assert read(event).said == [("unknown", event)]


# ---------------------------------------------------------------- the message


def test_null_message_is_tolerated() -> None:
    sink = read({"type": "message_start", "message": None}, start(0, "text", text="x"), end("end_turn"))
    assert sink.said == [("text", "x", 0), ("finish", "end_turn", "stop")]


def test_message_that_arrives_whole_in_its_opening_event_is_read_like_blocks() -> None:
    call = {"type": "tool_use", "id": "t", "name": "w", "input": {"a": 1}}
    sink = read(begin(content=[{"type": "text", "text": "x"}, call], stop_reason="tool_use"), STOP)
    assert sink.said == [
        ("identify", "msg_1", "m"),
        ("text", "x", 0),
        ("end_block", 0),
        ("start", "t", "w", 1, None),
        ("arguments", '{"a":1}', 1),
        ("end_block", 1),
        ("finish", "tool_use", "tool_calls"),
        ("terminate",),
    ]


def test_content_that_is_one_text_is_read() -> None:
    assert read({"type": "message", "content": "Hi"}).said == [
        ("identify", None, None),
        ("text", "Hi", 0),
        ("end_block", 0),
        ("terminate",),
    ]


def test_content_that_is_no_block_is_shown() -> None:
    assert ("unknown", 3) in read({"type": "message", "content": [3]}).said


def test_repeated_message_start_says_nothing_new() -> None:
    sink = read(begin(), begin(), start(0, "text", text="x"))
    assert sink.said == [("identify", "msg_1", "m"), ("text", "x", 0)]


def test_message_start_repeated_with_other_figures_is_still_the_same_message() -> None:
    sink = read(begin(usage={"input_tokens": 1}), start(0, "text", text="x"), begin(usage={"input_tokens": 2}))
    assert ("warn", "message_restarted") not in sink.said
    assert sink.reports[-1].input_tokens == 2


def test_blocks_of_a_spliced_message_are_new_blocks() -> None:
    sink = read(
        begin(),
        start(0, "thinking", thinking="one"),
        delta(0, "signature_delta", signature="S1"),
        begin(id="msg_2"),
        start(0, "thinking", thinking="two"),
        delta(0, "signature_delta", signature="S2"),
    )
    assert sink.said[1:] == [
        ("reasoning", "one", 0),
        ("add_metadata", {"signature": "S1"}, 0),
        ("warn", "message_restarted"),
        ("identify", "msg_2", "m"),
        ("reasoning", "two", 1),
        ("add_metadata", {"signature": "S2"}, 1),
    ]


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("tool_use", "tool_calls"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
        ("pause_turn", "pause"),
        ("compaction", "pause"),
        ("brand_new", "other"),
        (3, "other"),
    ],
)
def test_stop_reasons(word: Any, reason: str) -> None:
    assert read(end(word)).said == [("finish", word, reason)]


@pytest.mark.parametrize("word", [None, ""])
def test_empty_stop_reason_is_none(word: Any) -> None:
    assert read(end(word, output_tokens=3)).said == []


def test_refusal_is_explained() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "No."}
    sink = read({"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": details}})
    assert sink.said == [("refusal", "No."), ("warn", "stop_details"), ("finish", "refusal", "refusal")]


def test_stop_details_of_another_form_are_said() -> None:
    sink = read({"type": "message_delta", "delta": {"stop_details": "odd"}})
    assert sink.said == [("warn", "stop_details")]


def test_matched_stop_sequence_is_shown() -> None:
    event = {"type": "message_delta", "delta": {"stop_reason": "stop_sequence", "stop_sequence": "END"}}
    assert read(event).said == [("finish", "stop_sequence", "stop"), ("unknown", event)]


def test_container_is_kept_with_the_last_call() -> None:
    container = {"id": "container_1", "expires_at": "2026-01-01T00:00:00Z"}
    event = {"type": "message_delta", "delta": {"stop_reason": "tool_use", "container": container}}
    sink = read(CALL, delta(0, "input_json_delta", partial_json="{}"), stop(0), event)
    assert ("add_metadata", {"container": {"id": "container_1"}}, 0) in sink.said
    assert ("unknown", event) not in sink.said


def test_container_without_a_call_is_shown() -> None:
    event = {"type": "message_delta", "delta": {"stop_reason": "end_turn", "container": {"id": "container_1"}}}
    assert read(event).said == [("finish", "end_turn", "stop"), ("unknown", event)]


def test_ping_is_a_heartbeat() -> None:
    assert read({"type": "ping"}).said == [("heartbeat",)]


def test_message_stop_terminates() -> None:
    assert read(STOP).said == [("terminate",)]


# ---------------------------------------------------------------- usage


def test_usage_is_merged_by_field_and_the_prompt_is_summed_once() -> None:
    sink = read(
        begin(usage={"input_tokens": 27, "cache_read_input_tokens": 9, "output_tokens": 4}),
        end("end_turn", input_tokens=27, cache_read_input_tokens=9, output_tokens=47),
    )
    last = sink.reports[-1]
    assert (last.input_tokens, last.cache_read_tokens, last.output_tokens) == (36, 9, 47)


def test_fields_that_the_last_report_omits_or_nulls_stand() -> None:
    sink = read(
        begin(usage={"input_tokens": 10, "cache_creation_input_tokens": 5, "output_tokens": 1}),
        end("end_turn", input_tokens=None, cache_creation_input_tokens=0, output_tokens=20),
    )
    last = sink.reports[-1]
    assert (last.input_tokens, last.cache_write_tokens, last.output_tokens) == (15, 5, 20)


def test_thinking_tokens_are_reasoning_tokens() -> None:
    sink = read(end("end_turn", output_tokens=20, output_tokens_details={"thinking_tokens": 7}))
    assert (sink.reports[-1].output_tokens, sink.reports[-1].reasoning_tokens) == (20, 7)


def test_figures_that_the_wire_never_gave_are_none() -> None:
    sink = read(end("end_turn", output_tokens=20))
    assert sink.reports[-1].input_tokens is None
    assert sink.reports[-1].cache_read_tokens is None


def test_figures_of_another_type_are_none() -> None:
    sink = read(begin(usage={"input_tokens": "many", "output_tokens": [1], "output_tokens_details": 3}))
    assert (sink.reports[-1].input_tokens, sink.reports[-1].output_tokens) == (None, None)


def test_bedrocks_metrics_are_kept_beside_the_figures() -> None:
    metrics = {"inputTokenCount": 3}
    sink = read(begin(usage={"input_tokens": 3}), {**STOP, "amazon-bedrock-invocationMetrics": metrics})
    assert sink.reports[-1].input_tokens == 3
    assert sink.reports[-1].raw["amazon-bedrock-invocationMetrics"] == metrics


# ---------------------------------------------------------------- whole bodies and errors


def test_whole_body_is_a_turn_that_arrived_at_once() -> None:
    sink = read(
        {
            "type": "message",
            "id": "msg_1",
            "model": "m",
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t", "name": "w", "input": {}}],
            "stop_reason": "tool_use",
            "usage": {"input_tokens": 1, "output_tokens": 2},
        }
    )
    assert sink.said == [
        ("identify", "msg_1", "m"),
        ("start", "t", "w", 0, None),
        ("arguments", "{}", 0),
        ("end_block", 0),
        ("finish", "tool_use", "tool_calls"),
        ("terminate",),
    ]
    assert sink.reports[-1].output_tokens == 2


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "Overloaded"),
        ({"type": "error", "error": {"type": "overloaded_error"}}, "overloaded_error"),
        ({"type": "error", "error": "broken"}, "broken"),
        ({"error": {"message": "from a gateway"}}, "from a gateway"),
    ],
)
def test_error_is_the_providers(event: dict[str, Any], message: str) -> None:
    assert read(event).said == [("fail", "provider_error", message, event["error"])]


def test_error_event_that_is_no_json_is_the_providers_too() -> None:
    assert frames((b"error", b"upstream gone")).said == [("fail", "provider_error", "upstream gone", "upstream gone")]


def test_error_event_without_a_type_is_read() -> None:
    said = frames((b"error", b'{"message":"gone"}')).said
    assert said == [("fail", "provider_error", "gone", {"message": "gone"})]


def test_event_named_in_sse_alone_is_read() -> None:
    sink = frames(
        (b"content_block_start", b'{"index":0,"content_block":{"type":"text","text":""}}'),
        (b"content_block_delta", b'{"index":0,"delta":{"type":"text_delta","text":"x"}}'),
        (b"message_stop", b"{}"),
    )
    assert sink.said == [("text", "x", 0), ("terminate",)]


def test_done_sentinel_of_relays_terminates() -> None:
    assert frames((b"", b"[DONE]")).said == [("terminate",)]


def test_frame_that_is_no_json_is_a_protocol_error() -> None:
    assert frames((b"", b'{"type":"content_block_delta","ind')).said[0][:2] == ("fail", "protocol_error")


def test_lone_surrogate_does_not_lose_the_text() -> None:
    sink = frames(
        (b"", b'{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}'),
        (b"", b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\\ud83d"}}'),
    )
    assert sink.said[-1] == ("text", "a\ud83d", 0)


# ---------------------------------------------------------------- whatever comes

_NAMES = """type index delta content_block message usage error content text thinking input partial_json signature
    citation citations id name stop_reason stop_details container tool_use_id data model role to caller
    output_tokens_details cache_read_input_tokens"""
_WORDS = """content_block_start content_block_delta content_block_stop message_start message_delta message message_stop
    ping error text tool_use thinking redacted_thinking server_tool_use x_tool_result new text_delta input_json_delta
    thinking_delta signature_delta end_turn citations_delta compaction_delta refusal fallback assistant"""
_names = st.sampled_from(_NAMES.split())
_words = st.sampled_from(_WORDS.split())
_leaves = st.none() | st.booleans() | st.integers(-2, 3) | st.floats(allow_nan=False) | _words | st.text(max_size=3)
_json = st.recursive(
    _leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=5), max_leaves=12
)
_block = st.fixed_dictionaries({"type": _words}, optional={"text": _json, "id": _json, "input": _json, "data": _json})
_events = st.dictionaries(_names, _json, max_size=5) | st.fixed_dictionaries(
    {"type": _words},
    optional={
        "index": st.integers(0, 2) | _json,
        "delta": st.dictionaries(_names, _json, max_size=4) | _json,
        "content_block": _block | _json,
        "message": st.fixed_dictionaries(
            {}, optional={"id": _json, "content": st.lists(_block) | _json, "usage": _json}
        ),
        "usage": _json,
    },
)


@settings(max_examples=80, deadline=None)
@given(st.lists(_events, max_size=8))
def test_no_json_raises(events: list[dict[str, Any]]) -> None:
    read(*events)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([b"", b"error", b"ping", b"message_start"]), st.binary(max_size=60))))
def test_no_bytes_raise(pairs: list[tuple[bytes, bytes]]) -> None:
    frames(*pairs)


def test_deep_nesting_does_not_raise() -> None:
    deep = b'{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","input":' + b"[" * 100_000
    said = frames((b"", deep), (b"", deep + b"]" * 100_000 + b"}}")).said
    assert all(entry[0] == "fail" for entry in said)
    assert said


@pytest.mark.parametrize(
    "event",
    [
        '{"type":"content_block_delta","index":0,"delta":{"type":"new","x":DEEP}}',
        '{"type":"content_block_delta","index":DEEP,"delta":{"type":"text_delta","text":"x"}}',
        '{"type":"content_block_start","index":DEEP,"content_block":{"type":"text","text":"x"}}',
        '{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"w","input":DEEP}}',
        '{"type":"message_delta","delta":{"stop_reason":DEEP,"stop_details":DEEP}}',
    ],
)
def test_no_depth_of_nesting_raises(event: str) -> None:
    for depth in (
        *range(880, 1010),
        5000,
    ):  # around the interpreter's limit, where one reader fails and another does not
        sink = RecordingSink()
        data = event.replace("DEEP", "[" * depth + "]" * depth).encode()
        ANTHROPIC.parser(sink).frame(b"", data)
        assert sink.said, depth


def _deep() -> Any:
    deep: Any = {}
    for _ in range(5000):
        deep = {"a": deep}
    return deep


def test_deep_dicts_do_not_raise() -> None:
    for pair in (
        [start(0, "tool_use", id="t", name="w", input=_deep()) for _ in range(2)],
        [start(_deep(), "text", text="x") for _ in range(2)],
        [begin(id=_deep()) for _ in range(2)],
        [{"type": "message_delta", "delta": {"stop_reason": _deep(), "stop_details": {"a": _deep(), 1: 2}}}],
    ):
        sink = RecordingSink()
        parser = ANTHROPIC.parser(sink)
        for event in pair:
            parser.chunk(event)
        assert sink.said
