"""The calls of Cohere's parser on its sink, and complete streams through ``Turn``."""

from __future__ import annotations

import json
from typing import Any

import pytest
import wire_streams
from cohere.core.unchecked_base_model import construct_type
from cohere.v2.types import V2ChatResponse, V2ChatStreamResponse
from hypothesis import given
from hypothesis import strategies as st
from recording_sink import RecordingSink, call_delta, call_start
from shared_data import RecordedStream, recorded_streams

from streamkit import Turn, providers
from streamkit.calls import StreamError, Usage
from streamkit.events import Citation, Unknown
from streamkit.providers.cohere import PROVIDERS

RECORDED = recorded_streams("cohere", ".sse")
(COHERE,) = PROVIDERS


def read(*events: Any) -> list[tuple[Any, ...]]:
    """Return the calls on the sink for dicts and for bytes, which must be the same."""
    dicts, frames = RecordingSink(), RecordingSink()
    by_dict, by_frame = COHERE.parser(dicts), COHERE.parser(frames)
    for event in events:
        text = json.dumps(event)
        by_dict.chunk(json.loads(text))
        name = event.get("type")
        by_frame.frame(name.encode() if isinstance(name, str) else b"", text.encode())
    assert dicts.recorded == frames.recorded
    return dicts.recorded


def parse_frames(*pairs: tuple[bytes, bytes]) -> list[tuple[Any, ...]]:
    sink = RecordingSink()
    parser = COHERE.parser(sink)
    for name, data in pairs:
        parser.frame(name, data)
    return sink.recorded


def event(kind: str, index: Any = None, **message: Any) -> dict[str, Any]:
    data: dict[str, Any] = {"type": kind, "delta": {"message": message}}
    return data if index is None else {**data, "index": index}


def begin(index: Any = 0, id: Any = "w_1", name: Any = "w", arguments: Any = "") -> dict[str, Any]:
    call = {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return event("tool-call-start", index, tool_calls=call)


def arguments(text: Any, index: Any = 0) -> dict[str, Any]:
    return event("tool-call-delta", index, tool_calls={"function": {"arguments": text}})


def end(reason: Any = "COMPLETE", **delta: Any) -> dict[str, Any]:
    return {"type": "message-end", "delta": {"finish_reason": reason, **delta}}


START = {"id": "c-1", "type": "message-start", "delta": {"message": {"role": "assistant", "content": []}}}


# ---------------------------------------------------------------- text, thinking, plan


def test_text_and_thinking_have_the_key_of_their_content() -> None:
    assert read(
        event("content-start", 0, content={"type": "thinking", "thinking": ""}),
        event("content-delta", 0, content={"thinking": "hm"}),
        {"type": "content-end", "index": 0},
        event("content-start", 1, content={"type": "text", "text": ""}),
        event("content-delta", 1, content={"text": "Hi"}),
        {"type": "content-end", "index": 1},
    ) == [
        ("reasoning", "hm", "text", ("content", 0)),
        ("end_block", ("content", 0)),
        ("text", "Hi", ("content", 1)),
        ("end_block", ("content", 1)),
    ]


def test_text_at_the_start_of_a_content_is_reported() -> None:
    assert read(event("content-start", 0, content={"type": "text", "text": "Hi"})) == [("text", "Hi", ("content", 0))]


def test_a_delta_with_thinking_and_text_reports_thinking_first() -> None:
    recorded = read(event("content-delta", 0, content={"text": "Hi", "thinking": "hm"}))
    assert recorded == [("reasoning", "hm", "text", ("content", 0)), ("text", "Hi", ("content", 0))]


def test_contents_of_a_list_have_separate_keys() -> None:
    recorded = read(event("content-delta", 0, content=["a", {"type": "text", "text": "b"}]))
    assert recorded == [("text", "a", ("content", 0)), ("text", "b", ("content", (0, 1)))]


def test_content_of_an_unknown_kind_is_unknown() -> None:
    image = {"type": "image_url", "image_url": {"url": "u"}}
    assert read(event("content-start", 0, content=image)) == [("unknown", image)]


def test_tool_plan_is_reasoning_of_kind_plan() -> None:
    assert read(event("tool-plan-delta", tool_plan="I will")) == [("reasoning", "I will", "plan")]


@pytest.mark.parametrize(
    "empty",
    [
        event("tool-plan-delta", tool_plan=""),
        event("content-delta", 0, content={"text": ""}),
        event("content-delta", 0, content={}),
        event("content-delta", 0),
        arguments(""),
    ],
)
def test_empty_deltas_are_not_reported(empty: dict[str, Any]) -> None:
    assert read(empty) == []


# ---------------------------------------------------------------- calls


def test_a_call_starts_continues_and_ends() -> None:
    assert read(begin(), arguments('{"a"'), arguments(":1}"), {"type": "tool-call-end", "index": 0}) == [
        call_start("w_1", "w", ("call", 0), arguments=""),
        call_delta('{"a"', ("call", 0)),
        call_delta(":1}", ("call", 0)),
        ("end_block", ("call", 0)),
    ]


def test_events_without_an_index_have_one_key() -> None:
    recorded = read(begin(None), arguments("{}", None), {"type": "tool-call-end"})
    assert [entry[1].key if entry[0] == "tool" else entry[1] for entry in recorded] == [("call", None)] * 3


def test_the_id_and_name_of_a_delta_are_passed_on() -> None:
    call = {"id": "w_1", "function": {"name": "w", "arguments": "{}"}}
    recorded = read(event("tool-call-delta", 0, tool_calls=call))
    assert recorded == [call_delta("{}", ("call", 0), id="w_1", name="w")]


def test_a_call_without_a_function_is_unknown() -> None:
    assert read(event("tool-call-start", 0, tool_calls={"id": "x"})) == [("unknown", {"id": "x"})]


def test_an_index_that_is_not_hashable_does_not_raise() -> None:
    assert read(begin([0]), arguments("{}", [0])) == [
        call_start("w_1", "w", ("call", None), arguments=""),
        call_delta("{}", ("call", None)),
    ]


def test_arguments_nested_too_deeply_to_be_encoded_exceed_a_limit() -> None:
    nested: Any = {}
    for _ in range(100_000):
        nested = {"a": nested}
    sink = RecordingSink()
    COHERE.parser(sink).chunk(begin(arguments=nested))
    assert sink.recorded == [("fail", StreamError("limit_exceeded", "a call's arguments are nested too deeply"))]


# ---------------------------------------------------------------- finish, usage, citations


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("COMPLETE", "stop"),
        ("STOP_SEQUENCE", "stop"),
        ("TOOL_CALL", "tool_calls"),
        ("MAX_TOKENS", "length"),
        ("ERROR", "error"),
        ("TIMEOUT", "error"),
        ("ERROR_TOXIC", "content_filter"),
        ("ERROR_LIMIT", "length"),
        ("NEW", "other"),
        (7, "other"),
    ],
)
def test_finish_reasons(name: Any, reason: str) -> None:
    assert read(end(name)) == [("finish", name, reason), ("terminate",)]


@pytest.mark.parametrize("nothing", [None, ""])
def test_an_end_without_a_finish_reason_only_terminates(nothing: Any) -> None:
    assert read(end(nothing)) == [("terminate",)]
    assert read({"type": "message-end"}) == [("terminate",)]
    assert read({"type": "message-end", "id": "i"}) == [("identify", "i", None), ("terminate",)]


def test_a_finish_reason_of_another_type_is_reported_as_json() -> None:
    assert ("finish", '{"a":1}', "other") in read(end({"a": 1}))


def test_an_error_keeps_its_type() -> None:
    recorded = read(end("ERROR", error="bad", error_type="INVALID_TOOL_GENERATION"))
    error = StreamError("provider_error", "bad", raw={"error": "bad", "error_type": "INVALID_TOOL_GENERATION"})
    assert recorded == [("finish", "ERROR", "error"), ("fail", error), ("terminate",)]


def test_usage_is_the_tokens_and_the_billed_units_for_missing_ones() -> None:
    usage = {
        "billed_units": {"input_tokens": 1.0, "output_tokens": 2.0},
        "tokens": {"input_tokens": 10.0, "reasoning_tokens": 4},
        "cached_tokens": 8,
    }
    assert ("usage", Usage(10, 2, 4, 8, None, usage)) in read(end(usage=usage))


@pytest.mark.parametrize("nothing", [None, {}, "12", [1]])
def test_without_usage_nothing_is_reported(nothing: Any) -> None:
    assert not [entry for entry in read(end(usage=nothing)) if entry[0] == "usage"]


def test_a_citation_is_passed_on_unchanged() -> None:
    recorded = read(event("citation-start", 0, citations={"text": "x"}), {"type": "citation-end", "index": 0})
    assert recorded == [("citation", {"text": "x"}), ("heartbeat",)]


# ---------------------------------------------------------------- other frames


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        (b"", b"[DONE]", ("terminate",)),
        (
            b"error",
            b"upstream died",
            ("fail", StreamError("provider_error", "upstream died", raw={"error": "upstream died"})),
        ),
        (b"error", b'{"message": "bad"}', ("fail", StreamError("provider_error", "bad", raw={"message": "bad"}))),
        (b"", b"[1]", ("unknown", [1])),
        (b"", b"null", ("unknown", None)),
        (b"tool-plan-delta", b'{"delta":{"message":{"tool_plan":"p"}}}', ("reasoning", "p", "plan")),
        (
            b"",
            b'{"type":"tool-plan-delta","delta":{"message":{"tool_plan":"\\ud83d"}}}',
            ("reasoning", "\ud83d", "plan"),
        ),
    ],
)
def test_frames_of_other_kinds(name: bytes, data: bytes, expected: tuple[Any, ...]) -> None:
    assert parse_frames((name, data)) == [expected]


def test_a_frame_that_is_not_json_is_a_protocol_error() -> None:
    ((method, error),) = parse_frames((b"", b"{oops"))
    assert (method, error.kind, error.raw) == ("fail", "protocol_error", "{oops")


def test_a_frame_nested_too_deeply_to_be_decoded_exceeds_a_limit() -> None:
    ((method, error),) = parse_frames((b"", b'{"a":' * 200_000))
    assert (method, error.kind) == ("fail", "limit_exceeded")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"message": "bad"}, "bad"),
        ({"id": "e", "message": "bad"}, "bad"),
        ({"error": {"message": "bad"}}, "bad"),
        ({"type": "error"}, "the provider reported an error"),
    ],
)
def test_error_bodies_and_events(raw: dict[str, Any], message: str) -> None:
    assert read(raw) == [("fail", StreamError("provider_error", message, raw=raw))]


# ---------------------------------------------------------------- complete turns


def read_turn(*inputs: Any, complete: bool = False) -> Turn:
    return wire_streams.run("cohere", inputs, complete=complete)[0]


def summary(turn: Turn) -> dict[str, Any]:
    return {**wire_streams.summary(turn), "usage": None if turn.usage is None else turn.usage.updated_with(Usage())}


@pytest.fixture(params=RECORDED, ids=str)
def recorded(request: pytest.FixtureRequest) -> bytes:
    stream: RecordedStream = request.param
    return stream.data


def payloads(data: bytes) -> list[dict[str, Any]]:
    lines = [line[6:] for line in data.decode().split("\n") if line.startswith("data: {")]
    return [json.loads(line) for line in lines]


def test_every_input_kind_gives_the_same_turn(recorded: bytes) -> None:
    expected = summary(read_turn(recorded))
    events = payloads(recorded)
    assert summary(read_turn(*events)) == expected
    objects = [construct_type(type_=V2ChatStreamResponse, object_=chunk) for chunk in events]
    assert type(objects[0]).__name__ == "MessageStartV2ChatStreamResponse"
    assert summary(read_turn(*objects, complete=True)) == expected


def test_a_recorded_stream_is_detected(recorded: bytes) -> None:
    assert providers.detect(recorded[:1024]) == "cohere"


def test_a_body_as_an_object_of_the_sdk() -> None:
    body = {
        "id": "c-1",
        "finish_reason": "COMPLETE",
        "message": {"role": "assistant", "content": [{"type": "text", "text": "Hi"}]},
        "usage": {"tokens": {"input_tokens": 3, "output_tokens": 1}},
    }
    turn = read_turn(construct_type(type_=V2ChatResponse, object_=body))
    assert (turn.text, turn.response_id, turn.done, turn.error) == ("Hi", "c-1", True, None)
    assert turn.usage is not None
    assert (turn.usage.input_tokens, turn.usage.output_tokens) == (3, 1)


def test_citations_are_events_and_are_kept_with_their_text() -> None:
    stream = wire_streams.framed(
        "cohere",
        [
            START,
            event("content-delta", 0, content={"text": "Paris"}),
            event("citation-start", 0, citations={"text": "Paris"}),
            event("content-delta", 0, content={"text": "."}),
            end(),
        ],
    )
    turn, seen = wire_streams.run("cohere", [stream])
    assert [event.data for event in seen if isinstance(event, Citation)] == [{"text": "Paris"}]
    (block,) = turn.content.blocks
    assert (block.text, block.metadata["citations"]) == ("Paris.", [{"text": "Paris"}])


def test_a_debug_event_is_unknown() -> None:
    debug = {"type": "debug", "prompt": "<BOS_TOKEN>"}
    _, seen = wire_streams.run("cohere", [START, debug, end()])
    assert [event.raw for event in seen if isinstance(event, Unknown)] == [debug]


def test_no_delta_waits_for_a_later_feed() -> None:
    turn = Turn("cohere", turn_key="t")
    chunks = [
        event("tool-plan-delta", tool_plan="p"),
        event("content-delta", 0, content={"text": "x"}),
        {"type": "content-end", "index": 0},
        begin(),
        arguments("{"),
        {"type": "tool-call-end", "index": 0},
    ]
    assert [[event.type for event in turn.feed(chunk)] for chunk in chunks] == [
        ["response_started", "block_started", "reasoning"],
        ["block_ended", "block_started", "text"],
        ["block_ended"],
        ["tool_call_start"],
        ["tool_call_delta"],
        ["tool_call_end", "tool_call_ready"],
    ]


@pytest.mark.parametrize(
    ("head", "is_cohere"),
    [
        (b'event: message-start\r\ndata: {"id": "x"}\r\n\r\n', True),
        (b'data: {"type": "message-start", "id": "x"}\n\n', True),
        (b'{"id":"c-1","message":{"role":"assistant"', True),
        (b'{"id": "c-1", "finish_reason": "COMPLETE", "message"', True),
        (b'{"id":"e-1","message":"bad"}', False),
        (b'event: message_start\ndata: {"type": "message_start"}\n\n', False),
        (b'{"id":"x","object":"chat.completion","choices":[{"message":{}}]}', False),
        (b'data: {"choices":[{"delta":{"content":"{\\"type\\":\\"message-start\\"}"}}]}\n\n', False),
        (b"", False),
    ],
)
def test_only_this_wire_is_detected(head: bytes, is_cohere: bool) -> None:
    assert COHERE.traits.matches_head(head) is is_cohere


def test_the_repr_has_the_providers_name() -> None:
    assert repr(providers.get("cohere")) == "<provider cohere>"


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


functions = object_with(
    name=st.text(max_size=3) | values, arguments=st.sampled_from(["", "{", '{"a":', "1}", "{}"]) | values
)
calls = object_with(id=st.sampled_from(["a", "b", ""]) | values, function=functions, type=values)
contents = object_with(
    type=st.sampled_from(["text", "thinking", "x"]) | values, text=st.text() | values, thinking=values
)
messages = object_with(
    content=contents | st.lists(contents, max_size=2),
    tool_calls=calls | st.lists(calls, max_size=2),
    tool_plan=st.text(max_size=4) | values,
    citations=values,
)
kinds = st.sampled_from(
    [
        "message-start",
        "content-start",
        "content-delta",
        "content-end",
        "tool-plan-delta",
        "tool-call-start",
        "tool-call-delta",
        "tool-call-end",
        "citation-start",
        "citation-end",
        "debug",
        "message-end",
    ]
)
chunks = st.fixed_dictionaries(
    {},
    optional={
        "type": kinds | values,
        "index": st.integers(0, 2) | values,
        "id": values,
        "delta": object_with(message=messages, finish_reason=values, usage=object_with(tokens=values), error=values),
        "message": messages,
        "usage": values,
        "error": values,
    },
)


@given(st.lists(chunks, max_size=5), st.randoms(use_true_random=False))
def test_chunks_of_any_shape_never_raise_and_give_the_same_for_every_input_kind(drawn: list[Any], random: Any) -> None:
    try:
        read(*drawn)
    except UnicodeEncodeError:  # an event's name with half of a surrogate pair has no bytes
        return
    data = b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in drawn)
    turn, seen = wire_streams.run("cohere", [data])
    cut = random.randrange(len(data) + 1)
    again, seen_again = wire_streams.run("cohere", [data[:cut], data[cut:]])
    assert wire_streams.summary(again) == wire_streams.summary(turn)
    assert wire_streams.merge_deltas(seen_again) == wire_streams.merge_deltas(seen)


@given(st.lists(st.tuples(st.sampled_from([b"", b"error", b"message-start"]), st.binary(max_size=40)), max_size=4))
def test_bytes_of_any_kind_never_raise(pairs: list[tuple[bytes, bytes]]) -> None:
    parse_frames(*pairs)


@given(st.lists(st.lists(st.text(max_size=6), max_size=3), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_interleaved_calls_equal_the_calls_one_by_one(texts: list[list[str]], random: Any) -> None:
    expected = [json.dumps({"t": parts}) for parts in texts]
    queues = [
        [begin(number, f"w_{number}"), *(arguments(text[at : at + 3], number) for at in range(0, len(text), 3))]
        for number, text in enumerate(expected)
    ]
    events = [queue.pop(0) for queue in queues]  # the starts fix the order
    while any(queues):
        events.append(random.choice([queue for queue in queues if queue]).pop(0))
    events += [{"type": "tool-call-end", "index": number} for number in range(len(texts))]
    turn = read_turn(wire_streams.framed("cohere", [START, *events, end("TOOL_CALL")]))
    assert [call.arguments for call in turn.executable] == [json.loads(text) for text in expected]
    assert turn.warnings == []


def test_log_probabilities_are_events_and_kept_with_their_text() -> None:
    logprobs = {"text": "Hi", "token_ids": [1], "logprobs": [-0.5]}
    delta = {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "Hi"}}}}
    assert read(delta | {"logprobs": logprobs}) == [
        ("text", "Hi", ("content", 0)),
        ("log_probabilities", logprobs),
        ("add_metadata", {"logprobs": [logprobs]}, ("content", 0)),
    ]
