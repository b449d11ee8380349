"""The Anthropic parser: messages, usage, errors and random input. Blocks are in ``test_content_blocks``."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic_events import STOP, begin, delta, end, frames, read, start
from hypothesis import given
from hypothesis import strategies as st
from recording_sink import RecordingSink, call_delta, call_start

from streamkit import providers
from streamkit.calls import StreamError

# ---------------------------------------------------------------- the message


def test_null_message_is_ignored() -> None:
    sink = read({"type": "message_start", "message": None}, start(0, "text", text="x"), end("end_turn"))
    assert sink.reported == [("heartbeat",), ("text", "x", 0), ("finish", "end_turn", "stop")]


def test_complete_message_in_message_start_is_read_like_streamed_blocks() -> None:
    call = {"type": "tool_use", "id": "t", "name": "w", "input": {"a": 1}}
    sink = read(begin(content=[{"type": "text", "text": "x"}, call], stop_reason="tool_use"), STOP)
    assert sink.reported == [
        ("identify", "msg_1", "m"),
        ("text", "x", 0),
        ("end_block", 0),
        call_start("t", "w", 1),
        call_delta('{"a":1}', 1),
        ("end_block", 1),
        ("finish", "tool_use", "tool_calls"),
        ("terminate",),
    ]


def test_content_that_is_a_text_is_read() -> None:
    assert read({"type": "message", "content": "Hi"}).reported == [
        ("identify", None, None),
        ("text", "Hi", 0),
        ("end_block", 0),
        ("terminate",),
    ]


def test_content_that_is_no_block_is_unknown() -> None:
    assert ("unknown", 3) in read({"type": "message", "content": [3]}).reported


def test_repeated_message_start_is_ignored() -> None:
    sink = read(begin(), begin(), start(0, "text", text="x"))
    assert sink.reported == [("identify", "msg_1", "m"), ("text", "x", 0)]


def test_message_start_repeated_with_other_usage_is_the_same_message() -> None:
    sink = read(begin(usage={"input_tokens": 1}), start(0, "text", text="x"), begin(usage={"input_tokens": 2}))
    assert ("warn", "message_restarted") not in sink.reported
    assert sink.usage_reports[-1].input_tokens == 2


def test_blocks_of_a_spliced_message_are_new_blocks() -> None:
    sink = read(
        begin(),
        start(0, "thinking", thinking="one"),
        delta(0, "signature_delta", signature="S1"),
        begin(id="msg_2"),
        start(0, "thinking", thinking="two"),
        delta(0, "signature_delta", signature="S2"),
    )
    assert sink.reported[1:] == [
        ("reasoning", "one", "text", 0),
        ("add_metadata", {"signature": "S1"}, 0),
        ("warn", "message_restarted"),
        ("identify", "msg_2", "m"),
        ("reasoning", "two", "text", 1),
        ("add_metadata", {"signature": "S2"}, 1),
    ]


@pytest.mark.parametrize(
    ("name", "reason"),
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
def test_every_stop_reason_has_a_neutral_meaning(name: Any, reason: str) -> None:
    assert read(end(name)).reported == [("finish", name, reason)]


@pytest.mark.parametrize("name", [None, ""])
def test_empty_stop_reason_is_not_reported(name: Any) -> None:
    assert read(end(name, output_tokens=3)).reported == []


def test_explanation_of_a_refusal_is_reported() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "No."}
    sink = read({"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": details}})
    assert sink.reported == [
        ("add_response_metadata", {"stop_details": details}),
        ("refusal", "No."),
        ("warn", "stop_details"),
        ("finish", "refusal", "refusal"),
    ]


def test_stop_details_of_unexpected_shape_are_a_warning() -> None:
    sink = read({"type": "message_delta", "delta": {"stop_details": "odd"}})
    assert sink.reported == [("add_response_metadata", {"stop_details": "odd"}), ("warn", "stop_details")]


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({"delta": {"stop_sequence": "END"}}, {"stop_sequence": "END"}),
        ({"delta": {"container": {"id": "container_1"}}}, {"container": {"id": "container_1"}}),
        (
            {"delta": {"container": {"id": "c", "expires_at": "2026-01-01T00:00:00Z"}}},
            {"container": {"id": "c", "expires_at": "2026-01-01T00:00:00Z"}},
        ),
        (
            {"delta": {}, "context_management": {"applied_edits": []}},
            {"context_management": {"applied_edits": []}},
        ),
        (
            {"delta": {}, "input_transformations": [{"type": "thinking_dropped"}]},
            {"input_transformations": [{"type": "thinking_dropped"}]},
        ),
        (
            {"delta": {}, "diagnostics": {"cache_miss_reason": {"type": "model_changed"}}},
            {"diagnostics": {"cache_miss_reason": {"type": "model_changed"}}},
        ),
    ],
)
def test_fields_without_an_event_are_metadata_of_the_response(fields: Any, kept: Any) -> None:
    assert read({"type": "message_delta", **fields}).reported == [("add_response_metadata", kept)]
    assert read({"type": "message_start", "message": {**fields["delta"], **fields}}).reported[1:] == [
        ("add_response_metadata", kept)
    ]


def test_undocumented_fields_of_a_message_are_kept_and_reported() -> None:
    sink = read(begin(region="eu"), {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "cost": 0})
    assert sink.reported == [
        ("identify", "msg_1", "m"),
        ("unknown_field", "region", "eu"),
        ("add_response_metadata", {"region": "eu"}),
        ("unknown_field", "cost", 0),
        ("add_response_metadata", {"cost": 0}),
        ("finish", "end_turn", "stop"),
    ]


def test_the_service_tier_is_metadata_of_the_response() -> None:
    sink = read(begin(usage={"input_tokens": 1, "service_tier": "standard"}))
    assert ("add_response_metadata", {"service_tier": "standard"}) in sink.reported


def test_a_stop_reason_outside_of_the_delta_is_read() -> None:
    assert read({"type": "message_delta", "stop_reason": "end_turn"}).reported == [("finish", "end_turn", "stop")]


@pytest.mark.parametrize("pair", [(b"ping", b"ping"), (b"ping", b"2026"), (b"", b"ping")])
def test_a_ping_that_is_no_json_shows_nothing(pair: tuple[bytes, bytes]) -> None:
    assert frames(pair).reported == []


def test_a_message_after_its_own_stream_is_not_read_twice() -> None:
    block = {"type": "text", "text": "x"}
    message = {"type": "message", "id": "msg_1", "content": [block], "stop_reason": "end_turn"}
    sink = read(begin(), start(0, "text", text=""), delta(0, "text_delta", text="x"), message)
    assert sink.select("text") == [("text", "x", 0)]
    assert sink.reported[-2:] == [("finish", "end_turn", "stop"), ("terminate",)]


def test_another_message_after_a_stream_is_kept_too() -> None:
    message = {"type": "message", "id": "msg_2", "content": "y", "stop_reason": "end_turn"}
    sink = read(begin(), start(0, "text", text="x"), message)
    assert sink.select("text") == [("text", "x", 0), ("text", "y", 1)]
    assert ("warn", "message_restarted") in sink.reported


def test_a_ping_shows_nothing() -> None:
    assert read({"type": "ping"}).reported == []


def test_message_stop_terminates() -> None:
    assert read(STOP).reported == [("terminate",)]


# ---------------------------------------------------------------- usage


def test_usage_is_merged_by_field_and_the_prompt_is_summed_once() -> None:
    sink = read(
        begin(usage={"input_tokens": 27, "cache_read_input_tokens": 9, "output_tokens": 4}),
        end("end_turn", input_tokens=27, cache_read_input_tokens=9, output_tokens=47),
    )
    last = sink.usage_reports[-1]
    assert (last.input_tokens, last.cache_read_tokens, last.output_tokens) == (36, 9, 47)


def test_usage_fields_that_the_last_report_omits_or_nulls_keep_their_value() -> None:
    sink = read(
        begin(usage={"input_tokens": 10, "cache_creation_input_tokens": 5, "output_tokens": 1}),
        end("end_turn", input_tokens=None, cache_creation_input_tokens=0, output_tokens=20),
    )
    last = sink.usage_reports[-1]
    assert (last.input_tokens, last.cache_write_tokens, last.output_tokens) == (15, 5, 20)


def test_thinking_tokens_are_reasoning_tokens() -> None:
    sink = read(end("end_turn", output_tokens=20, output_tokens_details={"thinking_tokens": 7}))
    assert (sink.usage_reports[-1].output_tokens, sink.usage_reports[-1].reasoning_tokens) == (20, 7)


def test_usage_fields_that_were_never_sent_are_none() -> None:
    sink = read(end("end_turn", output_tokens=20))
    assert sink.usage_reports[-1].input_tokens is None
    assert sink.usage_reports[-1].cache_read_tokens is None


def test_usage_fields_of_another_type_are_none() -> None:
    sink = read(begin(usage={"input_tokens": "many", "output_tokens": [1], "output_tokens_details": 3}))
    assert (sink.usage_reports[-1].input_tokens, sink.usage_reports[-1].output_tokens) == (None, None)


def test_metrics_of_bedrock_are_kept_in_the_raw_usage() -> None:
    metrics = {"inputTokenCount": 3}
    sink = read(begin(usage={"input_tokens": 3}), {**STOP, "amazon-bedrock-invocationMetrics": metrics})
    assert sink.usage_reports[-1].input_tokens == 3
    assert sink.usage_reports[-1].raw["amazon-bedrock-invocationMetrics"] == metrics


# ---------------------------------------------------------------- complete bodies and errors


def test_complete_message_is_read_like_a_stream() -> None:
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
    assert sink.reported == [
        ("identify", "msg_1", "m"),
        call_start("t", "w", 0),
        call_delta("{}", 0),
        ("end_block", 0),
        ("finish", "tool_use", "tool_calls"),
        ("terminate",),
    ]
    assert sink.usage_reports[-1].output_tokens == 2


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "Overloaded"),
        ({"type": "error", "error": {"type": "overloaded_error"}}, "overloaded_error"),
        ({"type": "error", "error": "broken"}, "broken"),
        ({"error": {"message": "from a gateway"}}, "from a gateway"),
    ],
)
def test_error_event_is_a_provider_error(event: dict[str, Any], message: str) -> None:
    assert read(event).errors == [StreamError("provider_error", message, raw=event["error"])]


def test_error_event_that_is_not_json_is_a_provider_error() -> None:
    assert frames((b"error", b"upstream gone")).errors == [
        StreamError("provider_error", "upstream gone", raw="upstream gone")
    ]


def test_error_event_without_a_type_is_read() -> None:
    errors = frames((b"error", b'{"message":"gone"}')).errors
    assert errors == [StreamError("provider_error", "gone", raw={"message": "gone"})]


def test_event_named_error_is_one_whatever_its_data_are() -> None:
    """docs/rules.md, "Errors"."""
    data = b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"gone"}}'
    sink = frames((b"", b'{"type":"content_block_start","index":0,"content_block":{"type":"text"}}'), (b"error", data))
    assert [error.kind for error in sink.errors] == ["provider_error"]
    assert ("text", "gone", 0) not in sink.reported


def test_event_with_its_name_only_in_sse_is_read() -> None:
    sink = frames(
        (b"content_block_start", b'{"index":0,"content_block":{"type":"text","text":""}}'),
        (b"content_block_delta", b'{"index":0,"delta":{"type":"text_delta","text":"x"}}'),
        (b"message_stop", b"{}"),
    )
    assert sink.reported == [("text", "x", 0), ("terminate",)]


def test_done_sentinel_of_relays_terminates() -> None:
    assert frames((b"", b"[DONE]")).reported == [("terminate",)]


def test_frame_that_is_not_json_is_a_protocol_error() -> None:
    (error,) = frames((b"", b'{"type":"content_block_delta","ind')).errors
    assert error.kind == "protocol_error"


def test_text_with_half_a_surrogate_pair_is_read() -> None:
    sink = frames(
        (b"", b'{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}'),
        (b"", b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\\ud83d"}}'),
    )
    assert sink.reported[-1] == ("text", "a\ud83d", 0)


# ---------------------------------------------------------------- random input

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


@given(st.lists(_events, max_size=8))
def test_random_json_never_raises(events: list[dict[str, Any]]) -> None:
    read(*events)


@given(st.lists(st.tuples(st.sampled_from([b"", b"error", b"ping", b"message_start"]), st.binary(max_size=60))))
def test_random_bytes_never_raise(pairs: list[tuple[bytes, bytes]]) -> None:
    frames(*pairs)


def test_deep_nesting_does_not_raise() -> None:
    deep = b'{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","input":' + b"[" * 100_000
    sink = frames((b"", deep), (b"", deep + b"]" * 100_000 + b"}}"))
    assert sink.reported == []
    assert sink.errors


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
def test_nesting_of_any_depth_never_raises(event: str) -> None:
    # Around the interpreter's limit one JSON reader fails and another does not.
    for depth in (*range(880, 1010), 5000):
        sink = RecordingSink()
        data = event.replace("DEEP", "[" * depth + "]" * depth).encode()
        providers.get("anthropic").parser(sink).frame(b"", data)
        assert sink.reported or sink.errors, depth


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
        parser = providers.get("anthropic").parser(sink)
        for event in pair:
            parser.chunk(event)
        assert sink.reported or sink.errors
