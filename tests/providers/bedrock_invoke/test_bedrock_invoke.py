"""Anthropic's Messages in Amazon's frames: their parser and encoder. The tests of ``anthropic`` have the events."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
import request_validators
from boto3_streams import read_with_boto3
from hypothesis import given
from hypothesis import strategies as st
from rendering import request_of
from shared_data import RecordedStream, recorded_streams
from wire_streams import amazon_frame, block, converse_frame, dumped, invoke_frame, message_end, message_start

from streamkit import Turn, providers
from streamkit.calls import StreamError
from streamkit.history import Content, ReasoningBlock, TextBlock, ToolCallBlock
from streamkit.tools import Tool

RECORDED = recorded_streams("bedrock_invoke", ".eventstream")
PROVIDER = providers.get("bedrock_invoke")
EVENTS = [
    message_start(),
    *block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Hi"}),
    *message_end("end_turn"),
]


def run(*chunks: Any) -> Turn:
    turn = Turn("bedrock_invoke", turn_key="turn-1")
    for chunk in chunks:
        turn.feed(chunk)
    turn.close()
    return turn


def summary(turn: Turn) -> dict[str, Any]:
    return {**turn.to_dict(), "content": turn.content.model_dump(mode="json")}


@pytest.fixture(params=RECORDED, ids=str)
def recorded(request: pytest.FixtureRequest) -> bytes:
    stream: RecordedStream = request.param
    return stream.data


def test_every_input_kind_gives_the_same_turn(recorded: bytes) -> None:
    expected = summary(run(recorded))
    assert expected["error"] is None
    assert summary(run(*[recorded[at : at + 11] for at in range(0, len(recorded), 11)])) == expected
    chunks = read_with_boto3(recorded, "InvokeModelWithResponseStream", "body")
    assert isinstance(chunks[0]["chunk"]["bytes"], bytes)
    assert summary(run(*chunks)) == expected
    assert summary(run(*[json.loads(chunk["chunk"]["bytes"]) for chunk in chunks])) == expected


def test_encoded_recorded_response_is_parsed_unchanged(recorded: bytes) -> None:
    turn = run(recorded)
    assert turn.finish is not None
    frames = PROVIDER.emit(
        turn.content, response_id=turn.response_id or "", model=turn.model or "", finish=turn.finish.reason
    )
    again = run(*frames)
    assert again.content == turn.content
    assert again.finish == turn.finish


def test_boto3_reads_the_encoded_frames() -> None:
    content = Content.ai("Hi")
    data = b"".join(PROVIDER.emit(content, response_id="r", model="m"))
    types = [
        json.loads(chunk["chunk"]["bytes"])["type"]
        for chunk in read_with_boto3(data, "InvokeModelWithResponseStream", "body")
    ]
    assert types == [
        *("message_start", "content_block_start", "content_block_delta", "content_block_stop"),
        *("message_delta", "message_stop"),
    ]


def test_encoded_errors_are_exceptions() -> None:
    turn = run(*PROVIDER.emit(Content.ai("Hal"), response_id="r", model="m", finish="error"))
    assert turn.error is not None
    assert (turn.text, turn.error.kind, turn.error.status) == ("Hal", "provider_error", 424)


def test_invocation_metrics_do_not_replace_the_usage_of_the_message() -> None:
    metrics = {"inputTokenCount": 900, "outputTokenCount": 900}
    opened = message_start(usage={"input_tokens": 3, "output_tokens": 1})
    stop = {"type": "message_stop", "amazon-bedrock-invocationMetrics": metrics}
    usage = run(*[invoke_frame(event) for event in (opened, *message_end("end_turn", output_tokens=5)[:1], stop)]).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (3, 5)


@pytest.mark.parametrize(
    ("chunk", "message", "status"),
    [
        (converse_frame({"throttlingException": {"message": "slow"}}), "slow", 429),
        ({"modelTimeoutException": {"message": "late"}}, "late", 408),
        ({"message": "denied"}, "denied", None),
        (b'{"message": "denied"}', "denied", None),
        (amazon_frame({":message-type": "error", ":error-code": "Oops", ":error-message": "x"}, b""), "x", None),
    ],
)
def test_exceptions_are_provider_errors(chunk: Any, message: str, status: int | None) -> None:
    error = run(chunk).error
    assert error is not None
    assert (error.kind, error.message, error.status) == ("provider_error", message, status)


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (amazon_frame({":event-type": "chunk"}, b"nonsense"), "protocol_error"),
        (amazon_frame({":event-type": "chunk"}, b"[1]"), "protocol_error"),
        (amazon_frame({":event-type": "chunk"}, b""), "protocol_error"),
        (amazon_frame({":event-type": "chunk"}, b"[" * 100_000), "limit_exceeded"),
        (amazon_frame({":event-type": "chunk"}, dumped({"bytes": 5})), "protocol_error"),
        (amazon_frame({":event-type": "chunk"}, dumped({"bytes": "a"})), "protocol_error"),
        (amazon_frame({":event-type": "chunk"}, dumped({"bytes": b64encode(b"no JSON").decode()})), "protocol_error"),
        (amazon_frame({":event-type": "other"}, b"{}"), "protocol_error"),
        (b"[1, 2]", "protocol_error"),
        (amazon_frame({}, b"[1]"), "protocol_error"),
    ],
)
def test_frames_without_an_event_are_errors(frame: bytes, kind: str) -> None:
    assert run(frame).error is not None
    assert run(frame).error.kind == kind  # type: ignore[union-attr]


def test_a_frame_without_json_keeps_the_earlier_text() -> None:
    turn = run(*[invoke_frame(event) for event in EVENTS[:3]], amazon_frame({":event-type": "other"}, b"{}"))
    assert turn.text == "Hi"


def test_bytes_in_a_dict_may_be_text_or_bytes() -> None:
    for wrap in (lambda data: b64encode(data).decode(), bytes, bytearray):
        turn = run(*[{"chunk": {"bytes": wrap(dumped(event))}} for event in EVENTS])
        assert (turn.text, turn.error) == ("Hi", None)
    assert run({"chunk": {"bytes": "a"}}).error == StreamError(
        "protocol_error", "a chunk's bytes are not valid base64", raw="a"
    )


def test_requests_have_the_form_of_anthropic_without_model_and_stream() -> None:
    tool = Tool(name="w", description="Weather.", parameters={"type": "object"})
    body = request_of(PROVIDER, [Content.system("Be brief."), Content.human("hi")], tools=[tool], tool_choice="w")
    assert body.pop("anthropic_version") == "bedrock-2023-05-31"
    assert "stream" not in body
    request_validators.anthropic_request(body)
    expected = request_of(
        providers.get("anthropic"),
        [Content.system("Be brief."), Content.human("hi")],
        tools=[tool],
        tool_choice="w",
        stream=False,
    )
    assert body == expected


def test_signed_thinking_is_valid_for_both_providers() -> None:
    for origin in ("anthropic", "bedrock_invoke"):
        thought = ReasoningBlock(text="Hm.", signature="s", metadata={"provider": origin})
        rendered = PROVIDER.render([Content.human("hi"), Content(speaker="ai", blocks=[thought, TextBlock(text="4")])])
        assert rendered.messages[1]["content"][0]["signature"] == "s"


def test_detection() -> None:
    assert providers.detect(invoke_frame(EVENTS[0])) == "bedrock_invoke"
    assert not PROVIDER.traits.matches_head(dumped(EVENTS[0]))
    assert repr(PROVIDER) == "<provider bedrock_invoke>"
    assert PROVIDER.error_body(400, "x") == {"message": "x"}


BLOCKS = st.lists(
    st.one_of(
        st.builds(TextBlock, text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)),
        st.builds(lambda n: ToolCallBlock(id=f"t{n}", name="w", parameters={"n": n}), st.integers(0, 9)),
    ),
    max_size=4,
)


@given(BLOCKS, st.integers(1, 9))
def test_encoded_content_is_parsed_as_the_same_turn(blocks: list[Any], delta_size: int) -> None:
    content = Content(speaker="ai", blocks=blocks)
    turn = run(*PROVIDER.emit(content, response_id="r", model="m", delta_size=delta_size))
    assert turn.error is None
    again = run(*PROVIDER.emit(turn.content, response_id="r", model="m"))
    assert again.content == turn.content
    assert turn.text == "".join(block.text for block in blocks if isinstance(block, TextBlock))


@given(
    st.lists(st.tuples(st.sampled_from(["chunk", "aException", "b"]), st.binary(max_size=40)), min_size=1, max_size=5),
    st.integers(1, 40),
)
def test_random_frames_never_raise_and_chunk_boundaries_change_nothing(
    frames: list[tuple[str, bytes]], size: int
) -> None:
    data = b"".join(
        amazon_frame({":event-type": name, ":exception-type": name, ":message-type": kind}, payload)
        for name, payload in frames
        for kind in ["exception" if name == "aException" else "event"]
    )
    assert summary(run(*[data[at : at + size] for at in range(0, len(data), size)])) == summary(run(data))
