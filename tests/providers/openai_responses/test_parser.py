"""Responses streams: the end of a response, usage, errors, frames, and random events."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from providers.openai_responses.recording_sink import (
    PROVIDER,
    argument_delta,
    call_item,
    item_added,
    item_done,
    message_item,
    output_text,
    record,
    record_frames,
    response_end,
    text_delta,
)

from streamkit import Turn, providers
from streamkit.calls import Usage
from streamkit.providers.openai_responses.schema import (
    END_STATUSES,
    SERVER_TOOL_ITEMS,
    TEXT_DELTA_EVENTS,
    TEXT_DONE_EVENTS,
)

# ---------------------------------------------------------------- the response


@pytest.mark.parametrize("kind", sorted(END_STATUSES))
def test_every_end_terminates(kind: str) -> None:
    records = record({"type": kind, "response": {"id": "resp_1", "model": "m"}})
    assert records[0] == ("identify", "resp_1", "m")
    assert ("finish", END_STATUSES[kind]) in [event[:2] for event in records]
    assert records[-1] == ("terminate",)


def test_the_status_in_the_response_takes_precedence_over_the_event() -> None:
    records = record({"type": "response.completed", "response": {"status": "incomplete"}})
    assert ("finish", "incomplete", "length") in records


def test_an_end_event_without_a_response_ends_the_turn() -> None:
    assert record({"type": "response.completed"})[-2:] == [("finish", "completed", "stop"), ("terminate",)]


def test_an_unknown_status_is_the_finish_reason_other() -> None:
    assert ("finish", "melted", "other") in record({"object": "response", "status": "melted", "output": []})


def test_a_body_without_a_status_has_no_finish_reason_and_is_complete() -> None:
    records = record({"object": "response", "id": "resp_1", "output": [message_item(output_text("Hi"))]})
    assert [event[0] for event in records] == ["identify", "text", "add_metadata", "end_block", "terminate"]


def test_usage_counts_the_complete_prompt_and_all_output() -> None:
    raw = {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 3},
    }
    assert ("usage", Usage(9, 7, 3, 4, 2, raw)) in record(response_end(usage=raw))
    assert ("usage", Usage(9, None, None, None, None, {"input_tokens": 9})) in record(
        response_end(usage={"input_tokens": 9})
    )


def test_an_error_in_two_events_is_reported_once() -> None:
    error = {"code": "server_error", "message": "It broke."}
    for second in (error, None):
        records = record({"type": "error", **error}, response_end("failed", error=second))
        assert [event for event in records if event[0] == "fail"] == [("fail", "provider_error", "It broke.", None)]


@pytest.mark.parametrize(
    ("error", "message", "status"),
    [
        ({"message": "No.", "code": 429}, "No.", 429),
        ({"code": "overloaded"}, "overloaded", None),
        ("No.", "No.", None),
        ({}, "the provider reported an error", None),
        ([1], "the provider reported an error", None),
    ],
)
def test_the_message_of_an_error_comes_from_its_fields(error: Any, message: str, status: int | None) -> None:
    records = record({"type": "error", "error": error})
    if error:
        assert records == [("fail", "provider_error", message, status)]
    else:
        assert records[0][0] == "fail"


def test_frames_that_are_not_json() -> None:
    assert record_frames((b"", b"[DONE]")) == [("terminate",)]
    assert record_frames((b"error", b"gone"))[0] == ("fail", "provider_error", "gone", None)
    assert record_frames((b"", b"{oops"))[0][:2] == ("fail", "protocol_error")
    assert record_frames((b"", b"[" * 100_000 + b"]" * 100_000))[0][:2] == ("fail", "limit_exceeded")
    assert record_frames((b"", b"[1]"), (b"", b'"a"')) == [("unknown", [1]), ("unknown", "a")]


def test_a_frame_with_half_a_surrogate_pair_is_parsed() -> None:
    data = json.dumps(text_delta("\ud83d")).encode()
    assert record_frames((b"", data))[0] == ("text", "\ud83d", 0)


def test_a_delta_in_a_frame_that_cannot_be_parsed_is_unknown() -> None:
    broken = b'{"type":"response.output_text.delta","delta":7,"x":' + b"1" * 5000 + b"}"  # Python reads 4300 digits
    assert record_frames((b"", broken)) == [("unknown", {"text": broken[:1024].decode()})]


def test_a_response_event_without_a_response_is_a_heartbeat() -> None:
    assert record({"type": "response.created"}, {"type": "response.queued", "response": None}) == [("heartbeat",)] * 2


def test_facts_about_the_response_are_kept_and_the_repeated_request_is_not() -> None:
    facts = {"service_tier": "flex", "content_filters": [{"blocked": False}], "moderation": None}
    request = {"temperature": 1.0, "tools": [], "instructions": "Be kind."}
    records = record({"type": "response.created", "response": {"id": "r", "model": "m", **facts, **request}})
    assert records[2:] == [("add_response_metadata", {"service_tier": "flex", "content_filters": [{"blocked": False}]})]


@pytest.mark.parametrize(
    "kind", ["response.output_text.delta", "response.reasoning_text.delta", "response.function_call_arguments.delta"]
)
def test_an_unknown_field_of_a_delta_is_reported(kind: str) -> None:
    delta = {"type": kind, "item_id": "x_1", "output_index": 0, "delta": "a", "obfuscation": "b", "sequence_number": 1}
    records = record(delta, {**delta, "provider": "Acme", "absent": None})
    assert [event for event in records if event[0] == "unknown_field"] == [("unknown_field", "provider", "Acme")]


def test_an_unknown_field_warns_once_however_many_deltas_have_it() -> None:
    turn = Turn("openai_responses")
    for text in "abc":
        turn.feed({**text_delta(text), "provider": "Acme"})
    turn.feed(response_end())
    turn.close()
    assert (turn.text, [warning.code for warning in turn.warnings]) == ("abc", ["unknown_field"])


def test_log_probabilities_are_emitted_and_the_text_is_read() -> None:
    logprobs = [{"token": "a", "logprob": -0.1, "top_logprobs": []}]
    records = record(text_delta("b"), {**text_delta("a"), "logprobs": logprobs}, {**text_delta("c"), "logprobs": []})
    assert [event for event in records if event[0] == "log_probabilities"] == [("log_probabilities", logprobs)]
    assert [event[1] for event in records if event[0] == "text"] == ["b", "a", "c"]


def test_an_error_event_keeps_the_status_beside_the_error() -> None:
    error = {"type": "invalid_request_error", "message": "no"}
    assert record({"type": "error", "status": 429, "error": error}) == [("fail", "provider_error", "no", 429)]
    assert record({"type": "error", "message": "no"}) == [("fail", "provider_error", "no", None)]
    assert record({"type": "error", "code": "server_error", "message": "no", "param": None}) == [
        ("fail", "provider_error", "no", None)
    ]


@pytest.mark.parametrize("item", [None, 7, [], "x"])
def test_an_item_that_is_not_an_object_is_unknown(item: Any) -> None:
    assert record(item_added(item), item_done(item))[0][0] == "unknown"


def test_detect_recognizes_only_the_stream_and_the_body() -> None:
    assert PROVIDER.traits.matches_head(b'event: response.created\ndata: {"type":"response.created"}\n\n')
    assert PROVIDER.traits.matches_head(b'data: {"type": "response.output_text.delta"}\n\n')
    assert PROVIDER.traits.matches_head(b'{"id":"resp_1","object":"response","status":"completed"}')
    assert not PROVIDER.traits.matches_head(b'data: {"object":"chat.completion.chunk"}\n\n')
    assert not PROVIDER.traits.matches_head(b'{"object":"chat.completion"}')
    assert not PROVIDER.traits.matches_head(b'data: {"text":"say \\"type\\":\\"response.created\\""}\n\n')
    assert repr(providers.get("openai_responses")) == "<provider openai_responses>"


# ---------------------------------------------------------------- whatever comes

NAMES = [
    *TEXT_DELTA_EVENTS,
    *TEXT_DONE_EVENTS,
    *END_STATUSES,
    *SERVER_TOOL_ITEMS,
    "response.output_item.added",
    "response.output_item.done",
    "response.content_part.added",
    "response.content_part.done",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "response.custom_tool_call_input.delta",
    "response.custom_tool_call_input.done",
    "response.output_text.annotation.added",
    "response.reasoning_summary_part.done",
    "response.mcp_call_arguments.done",
    "response.image_generation_call.partial_image",
    "error",
    "message",
    "reasoning",
    "function_call",
    "custom_tool_call",
    "shell_call_output",
    "computer_call",
    "output_text",
    "summary_text",
    "refusal",
    "response",
    "completed",
    "incomplete",
]
FIELDS = [
    *("type", "item", "response", "output", "output_index", "content_index", "summary_index", "item_id", "id"),
    *("call_id", "name", "arguments", "input", "delta", "text", "part", "content", "summary", "status", "object"),
    *("usage", "input_tokens_details", "error", "annotations", "annotation", "environment", "incomplete_details"),
]
LEAVES = st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["a", "b", "", "{}", *NAMES])
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5),
    max_leaves=6,
)
EVENTS = st.fixed_dictionaries(
    {"type": st.sampled_from(NAMES)}, optional={field: VALUES for field in FIELDS if field != "type"}
)


@given(st.lists(EVENTS, max_size=6))
def test_random_events_never_raise_and_are_the_same_for_both_input_kinds(events: list[dict[str, Any]]) -> None:
    record(*events)


@given(st.lists(EVENTS | VALUES.filter(lambda value: isinstance(value, dict)), max_size=6))
def test_random_events_make_a_turn(events: list[Any]) -> None:
    turn = Turn("openai_responses", turn_key="t")
    for event in events:
        if turn.done:
            break
        turn.feed(event)
    turn.close()
    assert turn.content.speaker == "ai"
    assert json.dumps(turn.to_dict())


DELTAS = st.lists(st.text("ab{", max_size=3), max_size=4)


@given(st.lists(DELTAS, min_size=1, max_size=4), st.randoms(use_true_random=False), st.booleans(), st.booleans())
def test_interleaved_calls_equal_the_calls_one_after_another(
    calls: list[list[str]], chance: Any, by_position: bool, snapshots: bool
) -> None:
    events = [item_added(call_item("", f"fc_{n}", f"call_{n}"), n) for n in range(len(calls))]
    pending = [(n, text) for n, deltas in enumerate(calls) for text in deltas]
    order = [n for n, _ in pending]
    chance.shuffle(order)
    remaining = {n: [text for at, text in pending if at == n] for n in range(len(calls))}
    for number, n in enumerate(order):
        events.append(argument_delta(remaining[n].pop(0), f"rotating_{number}" if by_position else f"fc_{n}", n))
    if snapshots:
        events += [item_done(call_item("".join(deltas), f"fc_{n}", f"call_{n}"), n) for n, deltas in enumerate(calls)]
    turn = Turn("openai_responses", turn_key="t")
    for event in [*events, response_end()]:
        turn.feed(event)
    turn.close()
    assert [call.arguments_text for call in turn.calls] == ["".join(deltas) for deltas in calls]
    assert not [warning for warning in turn.warnings if warning.code == "orphan_delta"]


# ---------------------------------------------------------------- what concerns a part, or another response


@pytest.mark.parametrize("kind", ["response.steer.failed", "response.inject.failed"])
def test_input_that_came_too_late_does_not_end_the_response(kind: str) -> None:
    error = {"type": "invalid_request_error", "code": "response_not_active", "message": "It is no longer active."}
    turn = Turn("openai_responses")
    turn.feed({"type": "response.created", "response": {"id": "resp_1", "model": "m"}})
    events = turn.feed({"type": kind, "error": error, "sequence_number": 1})
    turn.feed(item_added(call_item()))
    turn.feed(item_done(call_item("{}")))
    turn.feed(response_end(output=[call_item("{}")]))
    turn.close()
    assert [type(event).__name__ for event in events] == ["Unknown"]
    assert turn.error is None
    assert [call.state for call in turn.executable] == ["complete"]


def test_an_error_of_the_whole_response_ends_it() -> None:
    records = record({"type": "response.error", "error": {"code": "server_error", "message": "Sorry."}})
    assert [event[2] for event in records if event[0] == "fail"] == ["Sorry."]


@pytest.mark.parametrize("field", [{"stream_id": "lane-1"}, {"agent": {"agent_name": "reviewer"}}, {"model": "alias"}])
@pytest.mark.parametrize("is_bytes", [False, True])
def test_the_lane_the_agent_and_the_model_of_a_delta_are_no_unknown_fields(
    field: dict[str, Any], is_bytes: bool
) -> None:
    turn = Turn("openai_responses")
    for event in (
        {"type": "response.created", "response": {"id": "resp_1", "model": "m"}},
        item_added(message_item()),
        {**text_delta("Hel"), **field},
        {**text_delta("lo."), **field},
        response_end(output=[message_item(output_text("Hello."))]),
    ):
        turn.feed(f"data: {json.dumps(event)}\n\n".encode() if is_bytes else {**event, **field})
    turn.close()
    assert (turn.text, turn.warnings) == ("Hello.", [])


@pytest.mark.parametrize(("reason", "meaning"), [("max_messages", "length"), ("steered", "other")])
def test_the_documented_reasons_of_incomplete_responses_are_known(reason: str, meaning: str) -> None:
    details = {"status": "incomplete", "incomplete_details": {"reason": reason}}
    records = record({"type": "response.incomplete", "response": {"id": "resp_1", **details}})
    assert ("finish", "incomplete", meaning) in records
    assert [event for event in records if event[0] == "warn"] == []
