"""``ToolCallReady``: when the state of a call is decided, and what may still happen after that."""

from __future__ import annotations

from typing import Any

import pytest
from wire_streams import block, chat, chat_call, message_end, message_start

from streamkit import Turn
from streamkit.accumulator import Accumulator
from streamkit.accumulator.limits import WireTraits
from streamkit.events import ArgumentsRestated, NormalizedToolChunk, ToolCallDelta, ToolCallReady


def ready(turn: Turn, *chunks: dict[str, Any]) -> list[tuple[str, str, Any]]:
    """Feed chunks; return raw id, state and arguments of the calls that became ready."""
    seen = [event for chunk in chunks for event in turn.feed(chunk)]
    return [
        (event.call.raw_id or "", event.call.state, event.call.arguments)
        for event in seen
        if isinstance(event, ToolCallReady)
    ]


def close(turn: Turn, **options: Any) -> list[tuple[str, str, Any]]:
    return [
        (event.call.raw_id or "", event.call.state, event.call.arguments)
        for event in turn.close(**options)
        if isinstance(event, ToolCallReady)
    ]


def tool_use(index: int, *deltas: str, stop: bool = True) -> list[dict[str, Any]]:
    start = {"type": "tool_use", "id": f"toolu_{index}", "name": "f", "input": {}}
    return block(index, start, *({"type": "input_json_delta", "partial_json": text} for text in deltas), stop=stop)


@pytest.mark.parametrize("provider", ["openai_chat", "openai_compatible", "mistral", "groq", "kimi"])
def test_a_closed_object_is_ready_once_another_call_begins(provider: str) -> None:
    turn = Turn(provider, "t")
    assert ready(turn, chat_call('{"x":1}', id="a", name="f")) == []
    assert ready(turn, chat_call('{"x":', index=1, id="b", name="f")) == [("a", "complete", {"x": 1})]
    assert turn.calls[0].state == "incomplete"  # the public state changes at the end of the turn only
    assert ready(turn, chat_call("2}", index=1)) == []
    assert ready(turn, chat({}, "tool_calls")) == [("b", "complete", {"x": 2})]
    assert close(turn, complete=True) == []
    assert [call.state for call in turn.calls] == ["complete", "complete"]


def test_an_earlier_call_that_closed_in_between_is_ready_too() -> None:
    turn = Turn("openai_chat", "t")
    ready(turn, chat_call('{"x":', id="a", name="f"), chat_call("{", index=1, id="b", name="f"), chat_call("1}"))
    assert ready(turn, chat_call("{", index=2, id="c", name="f")) == [("a", "complete", {"x": 1})]


def test_a_closed_call_that_is_not_one_object_waits_for_the_close() -> None:
    turn = Turn("openai_chat", "t")
    assert ready(turn, chat_call('{"x":1}{"x":2}', id="a", name="f")) == []
    assert ready(turn, chat_call("{}", index=1, id="b", name="f"), chat({}, "tool_calls")) == [("b", "complete", {})]
    assert close(turn) == [("a", "invalid", None)]


@pytest.mark.parametrize(("reason", "expected"), [("tool_calls", {}), ("length", {})])
def test_an_empty_object_waits_for_the_finish(reason: str, expected: Any) -> None:
    turn = Turn("openai_chat", "t")
    assert ready(turn, chat_call("{}", id="a", name="f"), chat_call("{", index=1, id="b", name="f")) == []
    assert ready(turn, chat({}, reason)) == [("a", "complete", expected)]
    assert close(turn) == [("b", "incomplete", None)]


def test_a_placeholder_is_replaced_until_the_call_is_ready() -> None:
    turn = Turn("openai_chat", "t")
    ready(turn, chat_call("{}", id="a", name="f"), chat_call("{", index=1, id="b", name="f"), chat_call('{"x":1}'))
    assert ready(turn, chat({}, "tool_calls")) == [("a", "complete", {"x": 1})]


def test_a_call_that_is_not_complete_at_the_finish_reason_waits_for_the_close() -> None:
    turn = Turn("openai_chat", "t")
    assert ready(turn, chat_call('{"x":', id="a", name="f"), chat({}, "tool_calls")) == []
    assert ready(turn, chat_call("1}")) == []  # the finish reason does not end the turn
    assert close(turn) == [("a", "complete", {"x": 1})]


def test_a_call_after_the_finish_reason_is_ready_too() -> None:
    turn = Turn("together", "t")
    assert ready(turn, chat({}, "tool_calls"), chat_call('{"x":1}', id="a", name="f")) == []
    assert ready(turn, chat_call('{"x":2}', index=1, id="b", name="f")) == [("a", "complete", {"x": 1})]
    assert close(turn) == [("b", "complete", {"x": 2})]


def test_arguments_without_a_character_wait_for_the_close_if_no_end_was_reported() -> None:
    turn = Turn("openai_chat", "t")
    assert ready(turn, chat_call("", id="a", name="f"), chat({}, "tool_calls")) == []
    assert ready(turn, chat_call('{"x":1}')) == []  # a server that sends the finish reason first
    assert close(turn) == [("a", "complete", {"x": 1})]


def test_a_call_is_ready_at_the_end_that_the_wire_reports() -> None:
    turn = Turn("anthropic", "t")
    assert ready(turn, message_start(), *tool_use(0, '{"x":1}', stop=False)) == []
    assert ready(turn, {"type": "content_block_stop", "index": 0}) == [("toolu_0", "complete", {"x": 1})]
    assert ready(turn, *tool_use(1, '{"x":')) == [("toolu_1", "incomplete", None)]
    assert ready(turn, *tool_use(2, '{"x":]')) == [("toolu_2", "invalid", None)]
    assert ready(turn, *message_end("max_tokens")) == []
    assert close(turn) == []
    assert [warning.code for warning in turn.warnings] == ["invalid_arguments"]


@pytest.mark.parametrize(
    ("reason", "at_finish", "at_close"),
    [
        ("tool_use", [("toolu_0", "complete", {})], []),
        ("max_tokens", [], [("toolu_0", "incomplete", None)]),
        (None, [], [("toolu_0", "complete", {})]),
    ],
)
def test_a_call_that_ended_without_arguments_waits_for_the_finish(reason: Any, at_finish: Any, at_close: Any) -> None:
    turn = Turn("anthropic", "t")
    assert ready(turn, message_start(), *tool_use(0)) == []
    assert ready(turn, *message_end(reason)) == at_finish
    assert close(turn) == at_close


def test_late_arguments_are_only_a_warning() -> None:
    turn = Turn("openai_chat", "t")
    ready(turn, chat_call('{"x":1}', id="a", name="f"), chat_call("{", index=1, id="b", name="f"))
    seen = [*turn.feed(chat_call(" 9")), *turn.feed(chat_call('{"x":3}', id="a", name="f"))]
    assert [event.type for event in seen] == ["warned"]
    turn.feed(chat_call("}", index=1))
    turn.close(complete=True)
    assert [call.arguments for call in turn.calls] == [{"x": 1}, {}]
    assert [warning.code for warning in turn.warnings] == ["late_arguments"]
    assert turn.calls[0].warnings == ()  # the call is as it was ready


def test_text_after_a_ready_call_that_may_repeat_it_is_restated() -> None:
    turn = Turn("openai_chat", "t")
    ready(turn, chat_call('{"x":1}', id="a", name="f"), chat_call("{", index=1, id="b", name="f"))
    seen = [*turn.feed(chat_call('{"x":')), *turn.close(complete=True)]
    own = [event for event in seen if isinstance(event, (ToolCallDelta, ArgumentsRestated)) and event.call.index == 0]
    assert [type(event) for event in own] == [ToolCallDelta, ArgumentsRestated]
    assert own[1] == ArgumentsRestated(turn.calls[0].ref, '{"x":1}')
    assert [(call.raw_id, call.arguments_text) for call in turn.calls] == [
        ("a", '{"x":1}'),
        ("b", "{"),
        (None, '{"x":'),
    ]


def test_a_restatement_precedes_the_ready_event() -> None:
    turn = Turn("openai_chat", "t")
    turn.feed(chat_call('{"x":1', id="a", name="f"))
    turn.feed(chat_call('{"x":1}'))
    kinds = [event.type for event in turn.close(complete=True)]
    assert kinds == ["warned", "arguments_restated", "tool_call_end", "tool_call_ready", "finished"]


def test_metadata_may_come_after_the_ready_event() -> None:
    accumulator = Accumulator("anthropic", WireTraits(), turn_key="t")
    choice = accumulator.choice(0)
    choice.tool(NormalizedToolChunk("start", "a", "f", '{"x":1}', key=0))
    choice.end_block(0)
    choice.add_metadata({"caller": {"type": "direct"}}, 0)
    choice.finish("tool_use", "tool_calls")
    accumulator.close()
    (call,) = [event.call for event in accumulator.events if isinstance(event, ToolCallReady)]
    assert call.metadata == {}
    assert accumulator.calls[0].metadata == {"caller": {"type": "direct"}}


def test_an_error_does_not_change_the_state_of_a_ready_call() -> None:
    turn = Turn("openai_chat", "t")
    ready(turn, chat_call('{"x":1}', id="a", name="f"), chat_call("{", index=1, id="b", name="f"))
    turn.feed({"error": {"message": "overloaded", "type": "server_error"}})
    assert close(turn) == [("b", "incomplete", None)]
    assert [call.state for call in turn.calls] == ["complete", "incomplete"]
    assert turn.executable == []


def test_arguments_that_are_nested_too_deeply_are_ready_and_invalid() -> None:
    turn = Turn("anthropic", "t")
    deep = '{"a":' * 300 + "1" + "}" * 300
    assert ready(turn, message_start(), *tool_use(0, deep)) == [("toolu_0", "invalid", None)]
    assert turn.error is not None
    assert turn.error.kind == "limit_exceeded"


@pytest.mark.parametrize("reason", ["length", "error"])
def test_an_empty_call_is_incomplete_if_the_response_stopped_in_the_middle(reason: str) -> None:
    turn = Turn("openai_chat", "t")
    assert ready(turn, chat_call("", id="a", name="f"), chat_call("", index=1, id="b", name="f")) == []
    assert ready(turn, chat({}, reason)) == []
    assert close(turn) == [("a", "complete", {}), ("b", "incomplete", None)]


@pytest.mark.parametrize("reason", ["length", "error"])
def test_custom_calls_are_ready_at_the_finish_unless_the_response_stopped_in_the_middle(reason: str) -> None:
    def custom(text: str) -> dict[str, Any]:
        return chat({"tool_calls": [{"index": 0, "id": "a", "type": "custom", "custom": {"name": "f", "input": text}}]})

    turn = Turn("openai_chat", "t")
    assert ready(turn, custom("ls"), chat({}, "tool_calls")) == [("a", "complete", "ls")]
    turn = Turn("openai_chat", "t")
    assert ready(turn, custom("ls"), chat({}, reason)) == []
    assert close(turn) == [("a", "incomplete", None)]
