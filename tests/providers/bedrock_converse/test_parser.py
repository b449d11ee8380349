"""The ConverseStream parser: messages, usage and errors. Blocks are in ``test_content_blocks``."""

from __future__ import annotations

from typing import Any

import pytest
from boto3_streams import stream_shape
from converse_events import END, METADATA, PROVIDER, read
from recording_sink import RecordingSink
from wire_streams import dumped

from streamkit import Turn
from streamkit.calls import StreamError
from streamkit.providers.bedrock_converse.parser import _EVENTS
from streamkit.providers.bedrock_converse.traits import FINISH_REASONS
from streamkit.providers.writing.aws_frames import STATUS

# ---------------------------------------------------------------- the message


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("tool_use", "tool_calls"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("guardrail_intervened", "content_filter"),
        ("content_filtered", "content_filter"),
        ("malformed_model_output", "error"),
        ("malformed_tool_use", "error"),
        ("new_name", "other"),
        (7, "other"),
    ],
)
def test_every_stop_reason_has_a_neutral_meaning(name: Any, reason: str) -> None:
    assert read({"messageStop": {"stopReason": name}}).reported == [("finish", name, reason)]


def test_every_reason_of_the_service_model_has_a_meaning() -> None:
    assert set(stream_shape("ConverseStream", "stream").members["messageStop"].members["stopReason"].enum) <= set(
        FINISH_REASONS
    )


def test_every_event_and_exception_of_the_service_model_is_known() -> None:
    members = stream_shape("ConverseStream", "stream").members
    exceptions = {name for name, shape in members.items() if shape.metadata.get("exception")}
    assert set(members) - exceptions == set(_EVENTS)
    for name in exceptions:
        assert STATUS[name] == members[name].metadata["error"].get("httpStatusCode", 500)


def test_stop_reason_and_metadata_terminate_in_any_order() -> None:
    assert read(END).reported == [("finish", "end_turn", "stop")]
    metrics = ("add_response_metadata", {"metrics": {"latencyMs": 1}})
    assert read(END, METADATA).reported == [("finish", "end_turn", "stop"), metrics, ("terminate",)]
    assert read(METADATA, END).reported == [metrics, ("finish", "end_turn", "stop"), ("terminate",)]
    assert read(METADATA).reported == [metrics]
    assert read({"messageStop": {"stopReason": None}}).reported == [("terminate",)]


def test_usage_sums_the_prompt() -> None:
    fields = {"inputTokens": 3, "outputTokens": 4, "totalTokens": 57, "cacheReadInputTokens": 50}
    (usage,) = read({"metadata": {"usage": fields, "metrics": {"latencyMs": 9}, "p": "ab"}}).usage_reports
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens) == (
        53,
        4,
        50,
        None,
    )
    assert usage.raw == fields
    (usage,) = read({"metadata": {"usage": {"inputTokens": None, "outputTokens": "x"}}}).usage_reports
    assert (usage.input_tokens, usage.output_tokens) == (None, None)
    assert read({"metadata": {"usage": None}}).usage_reports == []


def test_router_trace_names_the_model() -> None:
    sink = read({"metadata": {"trace": {"promptRouter": {"invokedModelId": "m-1"}}}})
    assert ("identify", None, "m-1") in sink.reported


def test_fields_that_describe_the_response_are_its_metadata() -> None:
    fields = {"trace": {"guardrail": {}}, "performanceConfig": {"latency": "standard"}, "serviceTier": {"type": "flex"}}
    sink = read(
        {"messageStop": {"stopReason": "end_turn", "additionalModelResponseFields": {"stop_sequence": "x"}}},
        {"metadata": {**fields, "p": "ab", "absent": None}},
    )
    assert sink.reported == [
        ("add_response_metadata", {"additionalModelResponseFields": {"stop_sequence": "x"}}),
        ("finish", "end_turn", "stop"),
        ("add_response_metadata", fields),
        ("terminate",),
    ]


def test_undocumented_fields_of_the_end_are_kept_and_reported() -> None:
    sink = read({"messageStop": {"stopReason": "end_turn", "reviewed": False}}, {"metadata": {"region": "eu"}})
    assert sink.select("unknown_field") == [("unknown_field", "reviewed", False), ("unknown_field", "region", "eu")]
    assert sink.select("add_response_metadata") == [
        ("add_response_metadata", {"reviewed": False}),
        ("add_response_metadata", {"region": "eu"}),
    ]


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("chunk", "message", "status"),
    [
        ({"throttlingException": {"message": "slow down"}}, "slow down", 429),
        ({"modelStreamErrorException": {"originalMessage": "boom"}}, "boom", 424),
        ({"internalServerException": {}}, "internalServerException", 500),
        ({"validationException": "text"}, "text", 400),
        ({"brandNewException": {"Message": "?"}}, "?", None),
    ],
)
def test_exceptions_are_provider_errors(chunk: dict[str, Any], message: str, status: int | None) -> None:
    assert read(chunk).errors == [StreamError("provider_error", message, raw=chunk, status=status)]


def test_error_frame_may_have_plain_text() -> None:
    parser = PROVIDER.parser(sink := RecordingSink())
    parser.frame(b"exception:InternalServerException", b"it broke")
    assert sink.errors == [
        StreamError("provider_error", "it broke", raw={"InternalServerException": "it broke"}, status=500),
    ]


def test_error_bodies_are_provider_errors() -> None:
    coral = {"__type": "com.amazon#ThrottlingException", "message": "slow"}
    for body, message, status in (
        ({"message": "denied"}, "denied", None),
        ({"Message": "denied"}, "denied", None),
        (coral, "slow", 429),
        ({"error": {"message": "a gateway's"}}, "a gateway's", None),
        ({"error": True}, "the provider reported an error", None),
    ):
        parser = PROVIDER.parser(sink := RecordingSink())
        parser.frame(b"", dumped(body))
        assert sink.errors == [StreamError("provider_error", message, raw=body, status=status)]
    assert Turn("bedrock_converse").feed({"message": "x", "output": 1}) != []


def test_frames_that_are_not_events() -> None:
    parser = PROVIDER.parser(sink := RecordingSink())
    for data in (b"nonsense", b"\xff"):
        parser.frame(b"contentBlockDelta", data)
    assert [error.kind for error in sink.errors] == ["protocol_error"] * 2
    parser.frame(b"", b"[1]")
    parser.frame(b"messageStart", b"")
    assert sink.reported == [("unknown", [1]), ("heartbeat",)]
