"""What the Ollama parser tells its sink, and whole streams through ``Turn``."""

from __future__ import annotations

import json
from typing import Any

import ollama
import pytest
import wire_streams
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_data import RecordedStream, recorded_streams

from streamkit import Turn, providers
from streamkit.calls import StreamError, Usage
from streamkit.events import File, NormalizedToolChunk
from streamkit.providers.ollama import PROVIDERS

RECORDED = recorded_streams("ollama")
(OLLAMA,) = PROVIDERS


class RecordingSink:
    """Writes down what it is told, as tuples; it is its own only choice."""

    def __init__(self) -> None:
        self.said: list[tuple[Any, ...]] = []

    def choice(self, index: int) -> RecordingSink:
        assert index == 0
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *said: self.said.append((name, *said))


def said_by(*lines: Any) -> list[tuple[Any, ...]]:
    """What is said by the dict door and by the bytes door, which must be the same."""
    dicts, frames = RecordingSink(), RecordingSink()
    by_dict, by_frame = OLLAMA.parser(dicts), OLLAMA.parser(frames)
    for line in lines:
        text = json.dumps(line)
        by_dict.chunk(json.loads(text))
        by_frame.frame(b"", text.encode())
    about = [said for said in dicts.said if said[0] != "identify"]
    assert about == [said for said in frames.said if said[0] != "identify"]
    return about


def frames(*lines: bytes) -> list[tuple[Any, ...]]:
    sink = RecordingSink()
    parser = OLLAMA.parser(sink)
    for line in lines:
        parser.frame(b"", line)
    return sink.said


def line(content: Any = "", **message: Any) -> dict[str, Any]:
    return {"model": "m", "message": {"role": "assistant", "content": content, **message}, "done": False}


def call(arguments: Any, name: Any = "w", **fields: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}, **fields}


def last(reason: Any = "stop", **fields: Any) -> dict[str, Any]:
    return {**line(), "done": True, "done_reason": reason, **fields}


# ---------------------------------------------------------------- lines


def test_text_and_thinking_are_said_piece_by_piece() -> None:
    assert said_by(line("", thinking="hm"), line("Hi"), line("!")) == [
        ("reasoning", "hm"),
        ("text", "Hi"),
        ("text", "!"),
    ]


def test_line_with_all_is_said_in_the_order_of_the_model() -> None:
    said = said_by(line("Hi", tool_calls=[call({})], thinking="hm"))
    assert [what for what, *_ in said] == ["reasoning", "text", "tool", "end_block"]


def test_empty_content_beside_a_call_is_no_text() -> None:
    assert [what for what, *_ in said_by(line("", tool_calls=[call({})]))] == ["tool", "end_block"]


def test_call_is_whole_and_written_out_compactly() -> None:
    assert said_by(line(tool_calls=[call({"city": "Zürich", "days": [1, 2]}, id="call_1")])) == [
        ("tool", NormalizedToolChunk("start", "call_1", "w", '{"city":"Zürich","days":[1,2]}', key=("call", 0))),
        ("end_block", ("call", 0)),
    ]


def test_calls_have_keys_of_their_own_whatever_their_index() -> None:
    at_0 = {"function": {"index": 0, "name": "w", "arguments": {}}}
    said = said_by(line(tool_calls=[at_0, at_0]), line(tool_calls=[at_0]))
    assert [what[1] for what in said if what[0] == "end_block"] == [("call", 0), ("call", 1), ("call", 2)]


@pytest.mark.parametrize(
    ("arguments", "text"), [({}, "{}"), (None, None), ("", ""), ('{"a": 1}', '{"a": 1}'), ([1], "[1]"), (5, "5")]
)
def test_arguments_of_any_type(arguments: Any, text: str | None) -> None:
    said = said_by(line(tool_calls=[call(arguments)]))
    assert said[0] == ("tool", NormalizedToolChunk("start", None, "w", text, key=("call", 0)))


def test_one_call_instead_of_a_list() -> None:
    assert len(said_by(line(tool_calls=call({})))) == 2


@pytest.mark.parametrize("odd", ["x", 5, {"name": "w"}, {"function": "w"}])
def test_call_of_another_shape_is_unknown(odd: Any) -> None:
    assert said_by(line(tool_calls=[odd])) == [("unknown", odd)]


def test_arguments_nested_beyond_writing_are_a_limit() -> None:
    nested: Any = {}
    for _ in range(100_000):
        nested = {"a": nested}
    sink = RecordingSink()
    OLLAMA.parser(sink).chunk(line(tool_calls=[call(nested)]))
    assert sink.said[1:] == [("fail", StreamError("limit_exceeded", "a call's arguments are nested too deeply"))]


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        ("iVBORw0KGgo=", "image/png"),
        ("/9j/4AAQ", "image/jpeg"),
        ("R0lGODlh", "image/gif"),
        ("UklGRiQA", "image/webp"),
        ("AAAA", None),
    ],
)
def test_image_is_a_file_whose_kind_shows_in_its_first_bytes(data: str, media_type: str | None) -> None:
    assert said_by(line(images=[data])) == [("file", media_type, data)]
    assert said_by({"response": "", "image": data}) == [("file", media_type, data)]


@pytest.mark.parametrize(
    ("odd", "unknown"),
    [
        (line(["x"]), {"content": ["x"]}),
        (line("", thinking=5), {"thinking": 5}),
        (line(images=[5]), 5),
        ({"status": "pulling"}, {"status": "pulling"}),
        ({}, {}),
        ({"message": "x", "done": False}, {"message": "x", "done": False}),
    ],
)
def test_odd_shapes_are_unknown(odd: Any, unknown: Any) -> None:
    assert said_by(odd) == [("unknown", unknown)]


@pytest.mark.parametrize("silent", [line(), line(None), line("", thinking=""), {"message": {}}])
def test_lines_that_bring_nothing_say_nothing(silent: Any) -> None:
    assert said_by(silent) == []


def test_lines_of_generate() -> None:
    said = said_by({"response": "", "thinking": "hm"}, {"response": "Hi", "done": False})
    assert said == [("reasoning", "hm"), ("text", "Hi")]


def test_model_is_said_when_it_changes() -> None:
    sink = RecordingSink()
    parser = OLLAMA.parser(sink)
    for text in (b'{"model":"a","message":{"content":"x"}}', b'{"model":"a","message":{"content":"y"}}'):
        parser.frame(b"", text)
    assert sink.said == [("identify", None, "a"), ("text", "x"), ("text", "y")]


# ---------------------------------------------------------------- the end


@pytest.mark.parametrize(
    ("word", "reason"), [("stop", "stop"), ("length", "length"), ("load", "other"), ("unload", "other"), (7, "other")]
)
def test_reasons(word: Any, reason: str) -> None:
    assert said_by(last(word)) == [("finish", word, reason), ("terminate",)]


@pytest.mark.parametrize("nothing", [None, ""])
def test_done_without_a_reason_only_terminates(nothing: Any) -> None:
    assert said_by(last(nothing)) == [("terminate",)]


def test_reason_of_another_type_is_named_by_it() -> None:
    assert said_by(last(["x"])) == [("finish", "list", "other"), ("terminate",)]


def test_reason_without_done_is_a_finish() -> None:
    assert said_by({**line("x"), "done_reason": "stop"}) == [("text", "x"), ("finish", "stop", "stop")]


def test_usage_is_what_was_evaluated_with_the_durations_kept() -> None:
    figures = {"total_duration": 9, "prompt_eval_count": 26, "eval_count": 29, "eval_duration": 4}
    assert said_by(last(**figures))[0] == ("usage", Usage(26, 29, raw=figures))
    assert said_by(last(eval_count=29))[0] == (
        "usage",
        Usage(None, 29, raw={"eval_count": 29}),
    )  # the prompt was cached


@pytest.mark.parametrize(
    ("error", "message"),
    [("bad", "bad"), ({"message": "bad"}, "bad"), ({"code": 5}, "the provider reported an error"), (5, None)],
)
def test_errors(error: Any, message: str | None) -> None:
    raw = {"error": error}
    said = StreamError("provider_error", message or "the provider reported an error", raw)
    assert said_by(raw) == [("fail", said)]


@pytest.mark.parametrize("data", [b"{oops", b"data: {}", b"<html>", b"\xff"])
def test_line_that_is_no_json_is_a_protocol_error(data: bytes) -> None:
    ((what, error),) = frames(data)
    assert (what, error.kind) == ("fail", "protocol_error")


def test_line_nested_beyond_reading_is_a_limit() -> None:
    ((what, error),) = frames(b'{"a":' * 200_000)
    assert (what, error.kind) == ("fail", "limit_exceeded")


def test_line_that_is_no_object_is_unknown() -> None:
    assert frames(b"[1]", b"null") == [("unknown", [1]), ("unknown", None)]


def test_half_of_a_surrogate_pair_is_read() -> None:
    assert frames(b'{"message":{"content":"\\ud83d"}}')[1] == ("text", "\ud83d")


# ---------------------------------------------------------------- whole turns


def turn_of(*pieces: Any, complete: bool = False, key: str | None = "turn-1") -> Turn:
    return wire_streams.run("ollama", pieces, complete=complete, key=key)[0]


@pytest.fixture(params=RECORDED, ids=str)
def recorded(request: pytest.FixtureRequest) -> bytes:
    stream: RecordedStream = request.param
    return stream.data


def test_every_door_says_the_same(recorded: bytes) -> None:
    whole = wire_streams.summary(turn_of(recorded))
    lines = [json.loads(line) for line in recorded.splitlines()]
    assert wire_streams.summary(turn_of(*lines)) == whole
    objects = [ollama.ChatResponse(**line) for line in lines]
    seen = turn_of(*objects)
    assert (seen.text, seen.reasoning, seen.finish, seen.error) == (
        whole["text"],
        whole["reasoning"],
        turn_of(recorded).finish,
        None,
    )
    # the SDK's types have no place for a call's id (ollama/ollama-python#667)
    assert [(call.name, call.arguments, call.raw_id) for call in seen.executable] == [
        (call.name, call.arguments, None) for call in turn_of(recorded).executable
    ]


def test_recorded_stream_is_detected(recorded: bytes) -> None:
    assert providers.detect(recorded[:1024]) == "ollama"
    assert providers.detect(recorded[:60]) == "ollama"


def test_length_keeps_its_calls_executable_for_they_come_whole() -> None:
    turn = turn_of(line(tool_calls=[call(None)]), last("length"))
    assert turn.finish is not None
    assert turn.finish.reason == "length"
    assert [call.arguments for call in turn.executable] == [{}]


def test_ids_repeat_over_turns_only_without_a_turn_key() -> None:
    stream = [line(tool_calls=[call({"a": 1})]), last()]
    assert turn_of(*stream).calls[0].id != turn_of(*stream, key="turn-2").calls[0].id
    nameless = turn_of(*stream, key=None)
    assert nameless.calls[0].id == turn_of(*stream, key=None).calls[0].id
    assert [warning.code for warning in nameless.warnings] == ["no_turn_key"]


def test_image_is_a_file_of_the_content() -> None:
    turn, seen = wire_streams.run("ollama", [line(images=["iVBORw0KGgo="]), last()])
    assert [said for said in seen if isinstance(said, File)] == [File("image/png", "iVBORw0KGgo=")]
    assert turn.content.blocks[0].type == "file"


def test_no_piece_waits_for_a_later_feed() -> None:
    turn = Turn("ollama", turn_key="t")
    pieces = [line("", thinking="t"), line("x"), line(tool_calls=[call({})]), last(eval_count=1)]
    found = [[said.type for said in turn.feed(json.dumps(piece).encode() + b"\n")] for piece in pieces]
    assert found == [["reasoning"], ["text"], ["tool_call_start", "tool_call_delta", "tool_call_end"], ["usage_report"]]
    assert turn.done


@pytest.mark.parametrize(
    ("head", "is_ours"),
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
def test_detection_knows_only_this_wire(head: bytes, is_ours: bool) -> None:
    assert OLLAMA.traits.matches_head(head) is is_ours


def test_provider_shows_its_name() -> None:
    assert repr(providers.get("ollama")) == "<provider ollama>"


# ---------------------------------------------------------------- properties

leaves = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 3), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=4)
)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
)


def some(**fields: Any) -> st.SearchStrategy[Any]:
    """An object with any of these fields, or something else in its place."""
    return st.fixed_dictionaries({}, optional=fields) | values


functions = some(name=st.sampled_from(["w", "v"]) | values, arguments=values, index=values)
calls = some(id=st.sampled_from(["a", "b", ""]) | values, function=functions)
messages = some(
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


@settings(max_examples=100, deadline=None)
@given(st.lists(lines, max_size=5), st.randoms(use_true_random=False))
def test_lines_of_any_shape_never_raise_and_say_the_same_by_every_door(made: list[Any], chance: Any) -> None:
    said_by(*made)
    data = b"".join(b"%b\n" % json.dumps(line).encode() for line in made)
    whole, seen = wire_streams.run("ollama", [data])
    cut = chance.randrange(len(data) + 1)
    again, seen_again = wire_streams.run("ollama", [data[:cut], data[cut:]])
    assert wire_streams.summary(again) == wire_streams.summary(whole)
    assert wire_streams.merge_deltas(seen_again) == wire_streams.merge_deltas(seen)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=4))
def test_bytes_of_any_kind_never_raise(made: list[bytes]) -> None:
    frames(*made)
