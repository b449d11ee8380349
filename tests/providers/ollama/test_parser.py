"""The calls of Ollama's parser on its sink, and complete streams through ``Turn``."""

from __future__ import annotations

import json
from typing import Any

import ollama
import pytest
import wire_streams
from hypothesis import given
from hypothesis import strategies as st
from operation_counts import count_operations
from recording_sink import RecordingSink, call_start
from shared_data import RecordedStream, recorded_streams

from streamkit import Turn, providers
from streamkit.calls import StreamError, Usage
from streamkit.events import File, Text
from streamkit.providers.ollama import PROVIDERS

RECORDED = recorded_streams("ollama")
(OLLAMA,) = PROVIDERS


def read(*lines: Any) -> list[tuple[Any, ...]]:
    """Return the calls on the sink for dicts and for bytes, which must be the same, without ``identify``."""
    dicts, frames = RecordingSink(), RecordingSink()
    by_dict, by_frame = OLLAMA.parser(dicts), OLLAMA.parser(frames)
    for line in lines:
        text = json.dumps(line)
        by_dict.chunk(json.loads(text))
        by_frame.frame(b"", text.encode())
    recorded = [entry for entry in dicts.recorded if entry[0] != "identify"]
    assert recorded == [entry for entry in frames.recorded if entry[0] != "identify"]
    return recorded


def parse_frames(*lines: bytes) -> list[tuple[Any, ...]]:
    sink = RecordingSink()
    parser = OLLAMA.parser(sink)
    for line in lines:
        parser.frame(b"", line)
    return sink.recorded


def line(content: Any = "", **message: Any) -> dict[str, Any]:
    return {"model": "m", "message": {"role": "assistant", "content": content, **message}, "done": False}


def call(arguments: Any, name: Any = "w", **fields: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}, **fields}


def last(reason: Any = "stop", **fields: Any) -> dict[str, Any]:
    return {**line(), "done": True, "done_reason": reason, **fields}


# ---------------------------------------------------------------- lines


def test_text_and_thinking_are_reported_delta_by_delta() -> None:
    assert read(line("", thinking="hm"), line("Hi"), line("!")) == [
        ("reasoning", "hm", "text"),
        ("text", "Hi"),
        ("text", "!"),
    ]


def test_a_line_with_all_kinds_is_reported_in_the_order_of_generation() -> None:
    recorded = read(line("Hi", tool_calls=[call({})], thinking="hm"))
    assert [method for method, *_ in recorded] == ["reasoning", "text", "tool", "end_block"]


def test_empty_content_with_a_call_is_not_reported() -> None:
    assert [method for method, *_ in read(line("", tool_calls=[call({})]))] == ["tool", "end_block"]


def test_a_call_is_complete_and_its_arguments_are_compact_json() -> None:
    assert read(line(tool_calls=[call({"city": "Zürich", "days": [1, 2]}, id="call_1")])) == [
        call_start("call_1", "w", ("call", 0), position=0, arguments='{"city":"Zürich","days":[1,2]}'),
        ("end_block", ("call", 0)),
    ]


def test_calls_have_separate_keys_for_any_index() -> None:
    call_at_0 = {"function": {"index": 0, "name": "w", "arguments": {}}}
    recorded = read(line(tool_calls=[call_at_0, call_at_0]), line(tool_calls=[call_at_0]))
    assert [entry[1] for entry in recorded if entry[0] == "end_block"] == [("call", 0), ("call", 1), ("call", 2)]


@pytest.mark.parametrize(
    ("arguments", "text"), [({}, "{}"), (None, ""), ("", ""), ('{"a": 1}', '{"a": 1}'), ([1], "[1]"), (5, "5")]
)
def test_arguments_of_any_type(arguments: Any, text: str) -> None:
    recorded = read(line(tool_calls=[call(arguments)]))
    assert recorded[0] == call_start(None, "w", ("call", 0), position=0, arguments=text)


def test_one_call_instead_of_a_list_is_read() -> None:
    assert len(read(line(tool_calls=call({})))) == 2


@pytest.mark.parametrize("call_data", ["x", 5, {"name": "w"}, {"function": "w"}])
def test_a_call_of_another_shape_is_unknown(call_data: Any) -> None:
    assert read(line(tool_calls=[call_data])) == [("unknown", call_data)]


def test_arguments_nested_too_deeply_to_be_encoded_exceed_a_limit() -> None:
    nested: Any = {}
    for _ in range(100_000):
        nested = {"a": nested}
    sink = RecordingSink()
    OLLAMA.parser(sink).chunk(line(tool_calls=[call(nested)]))
    assert sink.recorded[1:] == [("fail", StreamError("limit_exceeded", "a call's arguments are nested too deeply"))]


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        ("iVBORw0KGgo=", "image/png"),
        ("/9j/4AAQ", "image/jpeg"),
        ("R0lGODlh", "image/gif"),
        ("UklGRiQAAABXRUJQVlA4IA==", "image/webp"),
        ("AAAA", None),
    ],
)
def test_an_image_is_a_file_with_the_media_type_of_its_first_bytes(data: str, media_type: str | None) -> None:
    assert read(line(images=[data])) == [("file", media_type, data)]
    assert read({"response": "", "image": data}) == [("file", media_type, data)]
    # Only a line of /api/generate has this field.
    assert read(line("", image=data)) == [("unknown_field", "message.image", data)]


@pytest.mark.parametrize(
    ("data", "unknown"),
    [
        (line(["x"]), {"content": ["x"]}),
        (line("", thinking=5), {"thinking": 5}),
        (line(images=[5]), 5),
        ({"status": "pulling"}, {"status": "pulling"}),
        ({}, {}),
        ({"message": "x", "done": False}, {"message": "x", "done": False}),
    ],
)
def test_lines_of_another_shape_are_unknown(data: Any, unknown: Any) -> None:
    assert read(data) == [("unknown", unknown)]


@pytest.mark.parametrize("empty", [line(), line(None), line("", thinking=""), {"message": {}}])
def test_empty_lines_are_not_reported(empty: Any) -> None:
    assert read(empty) == []


def test_lines_of_generate() -> None:
    recorded = read({"response": "", "thinking": "hm"}, {"response": "Hi", "done": False})
    assert recorded == [("reasoning", "hm", "text"), ("text", "Hi")]


def test_the_model_is_reported_when_it_changes() -> None:
    sink = RecordingSink()
    parser = OLLAMA.parser(sink)
    for text in (b'{"model":"a","message":{"content":"x"}}', b'{"model":"a","message":{"content":"y"}}'):
        parser.frame(b"", text)
    assert sink.recorded == [("identify", None, "a"), ("text", "x"), ("text", "y")]


# ---------------------------------------------------------------- the end


@pytest.mark.parametrize(
    ("name", "reason"), [("stop", "stop"), ("length", "length"), ("load", "other"), ("unload", "other"), (7, "other")]
)
def test_finish_reasons(name: Any, reason: str) -> None:
    assert read(last(name)) == [("finish", name, reason), ("terminate",)]


@pytest.mark.parametrize("nothing", [None, ""])
def test_done_without_a_reason_only_terminates(nothing: Any) -> None:
    assert read(last(nothing)) == [("terminate",)]


def test_a_finish_reason_of_another_type_is_reported_as_json() -> None:
    assert read(last(["x"])) == [("finish", '["x"]', "other"), ("terminate",)]


def test_a_finish_reason_without_done_is_a_finish() -> None:
    assert read({**line("x"), "done_reason": "stop"}) == [("text", "x"), ("finish", "stop", "stop")]


def test_usage_is_the_evaluated_tokens_and_keeps_the_durations() -> None:
    counts = {"total_duration": 9, "prompt_eval_count": 26, "eval_count": 29, "eval_duration": 4}
    assert read(last(**counts))[0] == ("usage", Usage(26, 29, raw=counts))
    assert read(last(eval_count=29))[0] == (
        "usage",
        Usage(None, 29, raw={"eval_count": 29}),
    )  # the prompt was cached


@pytest.mark.parametrize(
    ("error", "message"),
    [("bad", "bad"), ({"message": "bad"}, "bad"), ({"code": 5}, "the provider reported an error"), (5, None)],
)
def test_error_lines(error: Any, message: str | None) -> None:
    raw = {"error": error}
    expected = StreamError("provider_error", message or "the provider reported an error", raw=raw)
    assert read(raw) == [("fail", expected)]


@pytest.mark.parametrize("data", [b"{oops", b"data: {}", b"<html>", b"\xff"])
def test_a_line_that_is_not_json_is_a_protocol_error(data: bytes) -> None:
    ((method, error),) = parse_frames(data)
    assert (method, error.kind) == ("fail", "protocol_error")


def test_a_line_nested_too_deeply_to_be_decoded_exceeds_a_limit() -> None:
    ((method, error),) = parse_frames(b'{"a":' * 200_000)
    assert (method, error.kind) == ("fail", "limit_exceeded")


def test_a_line_that_is_not_an_object_is_unknown() -> None:
    assert parse_frames(b"[1]", b"null") == [("unknown", [1]), ("unknown", None)]


def test_half_of_a_surrogate_pair_is_passed_on() -> None:
    assert parse_frames(b'{"message":{"content":"\\ud83d"}}')[1] == ("text", "\ud83d")


# ---------------------------------------------------------------- complete turns


def read_turn(*inputs: Any, complete: bool = False, key: str | None = "turn-1") -> Turn:
    return wire_streams.run("ollama", inputs, complete=complete, key=key)[0]


@pytest.fixture(params=RECORDED, ids=str)
def recorded(request: pytest.FixtureRequest) -> bytes:
    stream: RecordedStream = request.param
    return stream.data


def test_every_input_kind_gives_the_same_turn(recorded: bytes) -> None:
    expected = wire_streams.summary(read_turn(recorded))
    lines = [json.loads(line) for line in recorded.splitlines()]
    assert wire_streams.summary(read_turn(*lines)) == expected
    objects = [ollama.ChatResponse(**line) for line in lines]
    turn = read_turn(*objects)
    assert (turn.text, turn.reasoning, turn.finish, turn.error) == (
        expected["text"],
        expected["reasoning"],
        read_turn(recorded).finish,
        None,
    )
    # the SDK's types have no field for a call's id (ollama/ollama-python#667)
    assert [(call.name, call.arguments, call.raw_id) for call in turn.executable] == [
        (call.name, call.arguments, None) for call in read_turn(recorded).executable
    ]


def test_a_recorded_stream_is_detected(recorded: bytes) -> None:
    assert providers.detect(recorded[:1024]) == "ollama"
    assert providers.detect(recorded[:60]) == "ollama"


def test_calls_stay_executable_at_length_because_they_are_sent_complete() -> None:
    turn = read_turn(line(tool_calls=[call(None)]), last("length"))
    assert turn.finish is not None
    assert turn.finish.reason == "length"
    assert [call.arguments for call in turn.executable] == [{}]


def test_ids_repeat_over_turns_only_without_a_turn_key() -> None:
    stream = [line(tool_calls=[call({"a": 1})]), last()]
    assert read_turn(*stream).calls[0].id != read_turn(*stream, key="turn-2").calls[0].id
    without_key = read_turn(*stream, key=None)
    assert without_key.calls[0].id == read_turn(*stream, key=None).calls[0].id
    assert [warning.code for warning in without_key.warnings] == ["no_turn_key"]


def test_an_image_is_a_file_block_of_the_content() -> None:
    turn, seen = wire_streams.run("ollama", [line(images=["iVBORw0KGgo="]), last()])
    assert [event for event in seen if isinstance(event, File)] == [File("image/png", "iVBORw0KGgo=")]
    assert turn.content.blocks[0].type == "file"


def test_no_delta_waits_for_a_later_feed() -> None:
    turn = Turn("ollama", turn_key="t")
    chunks = [line("", thinking="t"), line("x"), line(tool_calls=[call({})]), last(eval_count=1)]
    events = [[event.type for event in turn.feed(json.dumps(chunk).encode() + b"\n")] for chunk in chunks]
    assert events == [
        ["response_started", "block_started", "reasoning"],
        ["block_ended", "block_started", "text"],
        ["block_ended", "tool_call_start", "tool_call_delta", "tool_call_end", "tool_call_ready"],
        ["usage_report"],
    ]
    assert turn.done


@pytest.mark.parametrize(
    ("head", "is_ollama"),
    [
        (b'{"model":"m","created_at":"2026-08-04T19:58:15Z","mess', True),
        (b'{"model":"m","remote_model":"r","remote_host":"h","created_at":"2026', True),
        (b'{"message":{"role":"assistant","content":"x"},"done":false}\n{"mess', True),
        (b'{"response":"x","done":true}', True),
        (b'{"message":{},"done":"no"}', False),
        (b'{"done":true}', False),
        (b'{"error":"x"}', False),
        (b'{"id":"x","object":"chat.completion","choices":[{"message":{"content":"\\"done\\":true"}}]}', False),
        (b'{"type":"message","content":[{"type":"tool_use","input":{"done":true,"message":{}}}]}', False),
        (b"data: {}\n\n", False),
        (b'{"a":' * 2000, False),
        (b"", False),
    ],
)
def test_only_this_wire_is_detected(head: bytes, is_ollama: bool) -> None:
    assert OLLAMA.traits.matches_head(head) is is_ollama


def test_the_repr_has_the_providers_name() -> None:
    assert repr(providers.get("ollama")) == "<provider ollama>"


# ---------------------------------------------------------------- properties

leaves = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 3), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=4)
)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
)


def object_with(**fields: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for an object with any of these fields, or for any other value."""
    return st.fixed_dictionaries({}, optional=fields) | values


functions = object_with(name=st.sampled_from(["w", "v"]) | values, arguments=values, index=values)
calls = object_with(id=st.sampled_from(["a", "b", ""]) | values, function=functions)
messages = object_with(
    content=st.text(max_size=4) | values,
    thinking=st.text(max_size=4) | values,
    tool_calls=st.lists(calls, max_size=2) | values,
    images=values,
    image=values,
)
lines = st.fixed_dictionaries(
    {},
    optional={
        "model": st.sampled_from(["m", "n"]) | values,
        "message": messages,
        "response": values,
        "thinking": values,
        "done": st.booleans() | values,
        "done_reason": st.sampled_from(["stop", "length"]) | values,
        "error": values,
        "eval_count": values,
        "prompt_eval_count": values,
    },
)


@given(st.lists(lines, max_size=5), st.randoms(use_true_random=False))
def test_lines_of_any_shape_never_raise_and_give_the_same_for_every_input_kind(drawn: list[Any], random: Any) -> None:
    read(*drawn)
    data = b"".join(b"%b\n" % json.dumps(line).encode() for line in drawn)
    turn, seen = wire_streams.run("ollama", [data])
    cut = random.randrange(len(data) + 1)
    again, seen_again = wire_streams.run("ollama", [data[:cut], data[cut:]])
    assert wire_streams.summary(again) == wire_streams.summary(turn)
    assert wire_streams.merge_deltas(seen_again) == wire_streams.merge_deltas(seen)


@given(st.lists(st.binary(max_size=40), max_size=4))
def test_bytes_of_any_kind_never_raise(drawn: list[bytes]) -> None:
    parse_frames(*drawn)


def test_log_probabilities_are_events_and_kept_with_their_text() -> None:
    entries = [{"token": "Hi", "logprob": -0.5}]
    assert read(line("Hi") | {"logprobs": entries}) == [
        ("text", "Hi"),
        ("log_probabilities", entries),
        ("add_metadata", {"logprobs": entries}),
    ]


def test_the_model_behind_a_cloud_model_is_metadata_once() -> None:
    one = line("Hi") | {"remote_model": "m-1", "remote_host": "https://ollama.com"}
    facts = ("add_response_metadata", {"remote_model": "m-1", "remote_host": "https://ollama.com"})
    assert read(one, one) == [facts, ("text", "Hi"), ("text", "Hi")]


def test_a_line_of_a_cloud_model_is_decoded_once() -> None:
    plain = json.dumps(line("Hi") | {"remote_model": "m-1", "remote_host": "https://ollama.com"}).encode() + b"\n"
    turn = Turn("ollama", turn_key="turn-1")
    turn.feed(plain)
    with count_operations() as operations:
        assert turn.feed(plain) == [Text("Hi", 0)]
    assert operations.decodes == 1
