"""Complete Converse streams through ``Turn``: recorded ones, encoded again, and random ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from boto3_streams import read_with_boto3
from converse_events import END, METADATA, PROVIDER, delta, start, stop, use
from hypothesis import given
from hypothesis import strategies as st
from shared_data import RecordedStream, recorded_streams
from wire_streams import amazon_frame, converse_frame, dumped

from streamkit import Turn, providers
from streamkit.events import BlockStarted, Reasoning, Text, ToolCallDelta

RECORDED = recorded_streams("bedrock_converse", ".eventstream")


def run(*chunks: Any) -> Turn:
    turn = Turn("bedrock_converse", turn_key="turn-1")
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


def test_bytes_and_dicts_of_boto3_give_the_same_turn(recorded: bytes) -> None:
    expected = summary(run(recorded))
    assert expected["error"] is None
    assert summary(run(*[recorded[at : at + 11] for at in range(0, len(recorded), 11)])) == expected
    by_boto3 = summary(run(*read_with_boto3(recorded, "ConverseStream", "stream")))
    # boto3 drops the members that its own model lacks: padding, and new ones of usage and trace
    assert {**by_boto3, "usage": None} == {**expected, "usage": None}
    assert by_boto3["usage"]["input_tokens"] == expected["usage"]["input_tokens"]


def test_encoded_recorded_response_is_parsed_unchanged(recorded: bytes) -> None:
    turn = run(recorded)
    assert turn.finish is not None
    frames = PROVIDER.emit(turn.content, response_id="r", model="m", finish=turn.finish.reason, usage=turn.usage)
    again = run(*frames)
    assert again.content == turn.content
    assert [(c.id, c.arguments, c.state) for c in again.calls] == [(c.id, c.arguments, c.state) for c in turn.calls]
    assert again.server_calls == turn.server_calls
    assert (again.finish.reason if again.finish else None) == turn.finish.reason


def test_every_delta_is_an_event_at_once() -> None:
    turn = Turn("bedrock_converse", turn_key="k")
    turn.feed(converse_frame(start(0, toolUse=use())))
    assert [type(event) for event in turn.feed(converse_frame(delta(1, text="a")))] == [BlockStarted, Text]
    thought = converse_frame(delta(2, reasoningContent={"text": "a"}))
    assert [type(event) for event in turn.feed(thought)] == [BlockStarted, Reasoning]
    assert [type(event) for event in turn.feed(converse_frame(delta(0, toolUse={"input": "{"})))] == [ToolCallDelta]


def test_the_turn_is_done_at_the_metadata() -> None:
    turn = Turn("bedrock_converse", turn_key="k")
    turn.feed(converse_frame(delta(0, text="a")))
    turn.feed(converse_frame(END))
    assert not turn.done
    turn.feed(converse_frame(METADATA))
    assert turn.done
    assert turn.usage is not None
    turn.close()
    assert turn.error is None


def test_detection() -> None:
    data = converse_frame({"messageStart": {"role": "assistant"}})
    assert providers.detect(data) == "bedrock_converse"
    assert providers.detect(dumped(delta(0, text="a"))) == "bedrock_converse"
    assert providers.detect(dumped({"output": {"message": {}}, "stopReason": "end_turn"})) == "bedrock_converse"
    assert not PROVIDER.traits.matches_head(amazon_frame({":event-type": "chunk"}, b"{}"))
    assert not PROVIDER.traits.matches_head(b'{"text": "messageStart"}')
    assert repr(PROVIDER) == "<provider bedrock_converse>"


def test_a_failed_response_is_a_provider_error() -> None:
    turn = Turn("bedrock_converse")
    turn.response(429, {"retry-after": "2"})
    turn.feed(json.dumps(PROVIDER.error_body(429, "slow down")).encode())
    turn.close()
    assert turn.error is not None
    assert (turn.error.kind, turn.error.message, turn.error.status, turn.error.retry_after) == (
        "provider_error",
        "slow down",
        429,
        2.0,
    )


# ---------------------------------------------------------------- properties

LEAF = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8), st.binary(max_size=4))
ANY = st.recursive(
    LEAF,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from(
    [
        *(
            "text",
            "toolUse",
            "toolResult",
            "reasoningContent",
            "reasoningText",
            "citation",
            "citationsContent",
            "image",
        ),
        *("input", "toolUseId", "name", "type", "content", "source", "bytes", "redactedContent", "signature"),
        *("start", "delta", "contentBlockIndex", "stopReason", "additionalModelResponseFields", "message", "output"),
        *("usage", "trace", "promptRouter", "error", "p"),
    ]
)
SHAPED: st.SearchStrategy[Any] = st.recursive(
    LEAF, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(FIELDS, inner, max_size=3), max_leaves=8
)
NAMES = st.sampled_from(
    [
        *("messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata"),
        *("fooException", "new"),
    ]
)
INDEX = st.one_of(st.integers(0, 2), LEAF)
KNOWN = st.one_of(
    st.builds(lambda i, t: delta(i, text=t), INDEX, SHAPED),
    st.builds(lambda i, t: delta(i, toolUse={"input": t}), INDEX, SHAPED),
    st.builds(lambda i, t: delta(i, reasoningContent={"text": t}), INDEX, SHAPED),
    st.builds(lambda i, t: delta(i, reasoningContent={"redactedContent": t}), INDEX, SHAPED),
    st.builds(lambda i, t: delta(i, toolResult=t), INDEX, SHAPED),
    st.builds(lambda i, n, t: start(i, toolUse=use("t", n, type=t)), INDEX, LEAF, SHAPED),
    st.builds(lambda i, t: start(i, toolResult=t), INDEX, SHAPED),
    st.builds(stop, INDEX),
    st.dictionaries(NAMES, SHAPED, min_size=1, max_size=1),
    st.dictionaries(NAMES | FIELDS, SHAPED | ANY, max_size=2),
)


@given(st.lists(KNOWN, max_size=8))
def test_random_chunks_never_raise(chunks: list[dict[str, Any]]) -> None:
    turn = run(*chunks)
    turn.to_dict()
    assert turn.content is not None


PAYLOADS = st.binary(max_size=40) | SHAPED.map(lambda value: json.dumps(value, default=str).encode())


@given(st.lists(st.tuples(NAMES, PAYLOADS), min_size=1, max_size=6), st.integers(1, 50))
def test_random_frames_never_raise_and_chunk_boundaries_change_nothing(
    frames: list[tuple[str, bytes]], size: int
) -> None:
    kinds = [("exception" if name.endswith("Exception") else "event", name, payload) for name, payload in frames]
    data = b"".join(amazon_frame({f":{kind}-type": name, ":message-type": kind}, body) for kind, name, body in kinds)
    assert summary(run(*[data[at : at + size] for at in range(0, len(data), size)])) == summary(run(data))


@given(st.lists(KNOWN, max_size=4), st.binary(max_size=60), st.integers(1, 20))
def test_noise_after_frames_never_raises(chunks: list[dict[str, Any]], noise: bytes, size: int) -> None:
    single = [chunk for chunk in chunks if len(chunk) == 1]
    data = converse_frame(METADATA) + b"".join(_frame(chunk) for chunk in single) + noise
    assert summary(run(*[data[at : at + size] for at in range(0, len(data), size)])) == summary(run(data))


def _frame(chunk: dict[str, Any]) -> bytes:
    ((name, body),) = chunk.items()
    return amazon_frame({":event-type": name, ":message-type": "event"}, json.dumps(body, default=str).encode())
