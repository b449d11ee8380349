"""Complete Anthropic streams through ``Turn``: recorded ones by every input kind, encoded again, and detected."""

from __future__ import annotations

import json
from typing import Any

import pytest
import request_validators
from anthropic._models import construct_type
from anthropic.types.beta import BetaRawMessageStreamEvent
from shared_data import RecordedStream, recorded_streams

from streamkit import providers
from streamkit.history import Content
from streamkit.reading.turn import Turn

PROVIDER = providers.get("anthropic")
RECORDED = recorded_streams("anthropic", ".sse")


def read(*chunks: Any, complete: bool = False) -> Turn:
    turn = Turn("anthropic", turn_key="turn-1")
    for chunk in chunks:
        turn.feed(chunk)
    turn.close(complete=complete)
    return turn


def payloads(data: bytes) -> list[dict[str, Any]]:
    lines = [line[5:] for line in data.decode().split("\n") if line.startswith("data:")]
    return [json.loads(line) for line in lines if "[DONE]" not in line]


def summary(turn: Turn) -> dict[str, Any]:
    return {**turn.to_dict(), "usage": None, "content": turn.content.model_dump(mode="json")}


@pytest.fixture(params=RECORDED, ids=str)
def recorded(request: pytest.FixtureRequest) -> bytes:
    stream: RecordedStream = request.param
    return stream.data


def test_every_input_kind_gives_the_same_turn(recorded: bytes) -> None:
    expected = summary(read(recorded))
    events = payloads(recorded)
    assert summary(read(*events)) == expected
    objects = [construct_type(type_=BetaRawMessageStreamEvent, value=e) for e in events if e["type"] != "ping"]
    assert summary(read(*objects, complete=True)) == expected
    assert summary(read(*[recorded[at : at + 7] for at in range(0, len(recorded), 7)])) == expected


def test_recorded_response_is_rendered_without_changes(recorded: bytes) -> None:
    turn = read(recorded)
    rendered = PROVIDER.render([Content.human("?"), turn.content])
    validator = request_validators._judge("anthropic.types.beta", "BetaMessageParam", True)
    validator.validate_python(rendered.messages)
    lost = {call.name for call in turn.calls if call.state != "complete"}
    assert rendered.changes == [
        f"the arguments of a call of {name!r} were put into an object as text: they were none" for name in lost
    ]


def test_encoded_recorded_response_is_parsed_unchanged(recorded: bytes) -> None:
    turn = read(recorded)
    encoded = PROVIDER.emit(
        turn.content,
        response_id=turn.response_id or "",
        model=turn.model or "",
        finish=turn.finish.reason if turn.finish else None,
        usage=turn.usage,
    )
    again = read(b"".join(encoded))
    assert again.content == turn.content
    assert again.finish == turn.finish
    assert again.usage is not None
    assert turn.usage is not None
    assert (again.usage.input_tokens or 0, again.usage.output_tokens) == (
        turn.usage.input_tokens or 0,
        turn.usage.output_tokens,
    )


def test_recorded_stream_is_detected(recorded: bytes) -> None:
    assert providers.detect(recorded[:1024]) == "anthropic"


BODY = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "Hi"}, {"type": "tool_use", "id": "t", "name": "now", "input": {}}],
    "stop_reason": "max_tokens",
    "usage": {"input_tokens": 3, "output_tokens": 5},
}


@pytest.mark.parametrize("body", [BODY, json.dumps(BODY).encode(), json.dumps(BODY, indent=2).encode()])
def test_complete_body_is_read_as_a_turn(body: Any) -> None:
    turn = read(body)
    assert turn.error is None
    assert turn.text == "Hi"
    assert [(call.name, call.arguments, call.state) for call in turn.calls] == [("now", {}, "complete")]
    assert turn.done


def test_error_body_is_a_provider_error() -> None:
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": "bad"}}
    for data in (body, json.dumps(body).encode()):
        turn = read(data)
        assert turn.error is not None
        assert (turn.error.kind, turn.error.message) == ("provider_error", "bad")


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b'event: message_start\ndata: {"message": {}, "type": "message_start"}\n\n', True),
        (b'data: {"type": "message_start", "message": {}}\n\n', True),
        (json.dumps(BODY).encode(), True),
        (b'data: {"choices":[{"delta":{"content":"{\\"type\\":\\"message_start\\"}"}}]}\n\n', False),
        (b'{"output":[{"type":"message","role":"assistant"}]}', False),
        (b'event: message-start\ndata: {"type":"message-start"}\n\n', False),
        (b"", False),
    ],
)
def test_detection_recognizes_only_this_wire(head: bytes, expected: bool) -> None:
    assert PROVIDER.traits.matches_head(head) is expected


def test_dialect_may_have_another_name_and_framing() -> None:
    other = providers.dialect("my_relay", "anthropic", framing="event_stream")
    assert (other.name, other.traits.framing) == ("my_relay", "event_stream")
    assert not other.traits.matches_head(b'data: {"type": "message_start"}')
    assert repr(other) == "<provider my_relay>"
