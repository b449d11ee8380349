"""Events as values: frozen, distinguished by ``type``, encoded to JSON and decoded."""

from __future__ import annotations

import json
import re
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit import events
from streamkit.calls import CallRef, StreamError, ToolCall, ToolResult, Usage
from streamkit.events import Event, NormalizedToolChunk, ToolEvent, TurnEvent

CALL = CallRef("hist_tool_" + "a" * 24, "count", 0)
RESULT = ToolResult(ToolCall(id=CALL.id, name="count", index=0), "completed", {"n": 1})
EXAMPLES: dict[type[Any], dict[str, Any]] = {
    events.ResponseStarted: {"response_id": "r1", "model": "m"},
    events.Text: {"text": "Hé"},
    events.Reasoning: {"text": "Hm", "kind": "summary"},
    events.Refusal: {"text": "No"},
    events.BlockEnded: {"kind": "reasoning", "signature": "c2ln", "metadata": {"id": "rs_1"}},
    events.ToolCallStart: {"call": CALL},
    events.ToolCallDelta: {"call": CALL, "arguments_delta": '{"n"'},
    events.ToolCallEnd: {"call": CALL},
    events.ToolCallReady: {"call": ToolCall(id=CALL.id, name="count", index=0, arguments={"n": 1})},
    events.ArgumentsRestated: {"call": CALL, "arguments_text": "{}"},
    events.ServerTool: {"id": None, "name": "web_search", "phase": "result", "data": [1]},
    events.Citation: {"data": {"url": "https://example.org"}},
    events.File: {"media_type": "image/png", "data": "AA==", "url": None},
    events.UsageReport: {"usage": Usage(1, 2)},
    events.Finished: {"reason": "stop", "raw": None},
    events.Warned: {"code": "slot_reused", "message": "x"},
    events.Failed: {"error": StreamError("provider_error", "x", raw={"code": 1})},
    events.Unknown: {"raw": {"a": [None]}},
    events.ToolRunning: {"call": CALL},
    events.ToolProgress: {"call": CALL, "value": 0.5},
    events.ToolCompleted: {"call": CALL, "result": RESULT},
    events.ToolError: {"call": CALL, "result": RESULT},
    events.ToolDenied: {"call": CALL, "result": RESULT},
    events.ToolTimedOut: {"call": CALL, "result": RESULT},
    events.ToolCanceled: {"call": CALL, "result": RESULT},
    events.RoundStarted: {"round": 0},
    events.RoundFinished: {"round": 1, "update": None},
}
each = pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)


def test_every_event_is_a_turn_event_or_a_tool_event_and_has_an_example() -> None:
    assert set(EXAMPLES) == set(get_args(Event))
    assert set(get_args(TurnEvent)) | set(get_args(ToolEvent)) == set(get_args(Event))
    assert not set(get_args(TurnEvent)) & set(get_args(ToolEvent))
    assert NormalizedToolChunk not in get_args(Event)


@each
def test_the_type_is_the_class_name_in_snake_case(kind: type[Any]) -> None:
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()
    assert kind.type == snake
    assert kind(**EXAMPLES[kind]).type == snake
    assert json.loads(events.to_json(kind(**EXAMPLES[kind])))["type"] == snake
    assert kind.__struct_config__.tag == snake


@each
def test_json_is_decoded_to_an_equal_event(kind: type[Any]) -> None:
    event = kind(**EXAMPLES[kind], choice=2)
    line = events.to_json(event)
    assert b"\n" not in line
    assert line.startswith(b'{"type":')
    assert events.from_json(line) == event
    assert events.from_json(line.decode()) == event


@each
def test_events_are_frozen_without_gc_and_belong_to_choice_0(kind: type[Any]) -> None:
    event = kind(**EXAMPLES[kind])
    assert event.choice == 0
    assert kind.__struct_config__.frozen
    assert not kind.__struct_config__.gc
    with pytest.raises(AttributeError):
        event.choice = 1


def test_values_without_a_json_form_are_written_as_text() -> None:
    class Odd:
        def __str__(self) -> str:
            return "odd"

    assert json.loads(events.to_json(events.ToolProgress(CALL, Odd())))["value"] == "odd"


@pytest.mark.parametrize(
    "data", [b"{}", b'{"type":"no_such_event"}', b'{"type":"text"}', b"[]", b'{"type":"text","text":1}']
)
def test_other_json_is_a_validation_error(data: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        events.from_json(data)


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_any_text_can_be_encoded(text: str) -> None:
    """Also half of a surrogate pair, which a server that splits text by UTF-16 units sends at the end of a delta."""
    line = events.to_json(events.Text(text))
    assert json.loads(line)["type"] == "text"
    assert events.from_json(line).text == text or any("\ud800" <= character <= "\udfff" for character in text)  # type: ignore[union-attr]


def test_usage_is_updated_by_field() -> None:
    merged = Usage(10, 5, None, 3, None, {"a": 1}).updated_with(Usage(0, 7, 2, None, 0, {"b": 2}))
    assert merged == Usage(10, 7, 2, 3, 0, {"b": 2})
    assert Usage().updated_with(Usage(0)).input_tokens == 0
    assert Usage(0).updated_with(Usage(None)).input_tokens == 0
