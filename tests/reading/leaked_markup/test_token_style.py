"""Calls as control tokens around JSON: DeepSeek V3 and Kimi K2."""

from __future__ import annotations

import json

import pytest
from reading.leaked_markup.markup_samples import (
    FAMILIES,
    chat_turn,
    split_text,
    warning_codes,
)
from wire_streams import chat, chat_call

from streamkit import Turn
from streamkit.events import Text, ToolCallDelta, ToolCallEnd, ToolCallReady


def test_the_raw_id_of_kimi_is_kept() -> None:
    (call,) = chat_turn([FAMILIES["kimi k2"]]).calls
    assert call.raw_id == "functions.look_up:0"


def test_two_calls_with_the_same_leaked_id_are_two_calls() -> None:
    one = '<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"n": 1}<|tool_call_end|>'
    turn = chat_turn([one + one.replace("1", "2")])
    assert [call.arguments for call in turn.calls] == [{"n": 1}, {"n": 2}]
    assert len({call.id for call in turn.calls}) == 2


def test_json_arguments_are_streamed() -> None:
    turn = Turn("openai_compatible", turn_key="turn-1", leaked_markup="recover")
    turn.feed(chat({"content": "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"}))
    streamed = []
    for delta in ('{"a": "x', "y<", 'z", "b": {', "}}", "<|tool_call", "_end|>"):
        events = turn.feed(chat({"content": delta}))
        streamed.append([e.arguments_delta for e in events if isinstance(e, ToolCallDelta)])
        assert not any(isinstance(e, Text) for e in events)
    assert streamed == [['{"a": "x'], ["y"], ['<z", "b": {'], ["}}"], [], []]
    assert [type(event) for event in events[-2:]] == [ToolCallEnd, ToolCallReady]


def test_an_end_token_inside_a_string_is_part_of_the_string() -> None:
    arguments = '{"source": "if token == \\"<|tool_call_end|>\\": return"}'
    turn = chat_turn([f"<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{arguments}<|tool_call_end|>ok"])
    assert turn.calls[0].arguments == json.loads(arguments)
    assert turn.text == "ok"
    hermes = chat_turn([f'<tool_call>{{"name": "f", "arguments": {arguments.replace("|", "")}}}</tool_call>'])
    assert hermes.calls[0].state == "complete"


def test_invalid_json_does_not_consume_the_next_call() -> None:
    bad = '<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"a": "no end\n}<|tool_call_end|>'
    good = '<|tool_call_begin|>functions.g:1<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|>'
    for size in (1, 9, 1000):
        turn = chat_turn(split_text(bad + good, size))
        assert [(call.name, call.state) for call in turn.calls] == [("f", "invalid"), ("g", "complete")]
        assert [call.name for call in turn.executable] == ["g"]


def test_text_after_complete_arguments_is_text() -> None:
    turn = chat_turn(['<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"a": 1}{"b": 2}<|tool_call_end|>'])
    assert [(call.arguments, call.state) for call in turn.calls] == [({"a": 1}, "complete")]
    assert turn.text == '{"b": 2}'
    assert warning_codes(turn) == ["leaked_markup", "broken_markup"]


@pytest.mark.parametrize("behind", ["", " ", "\n```", "```js", "```json\n"])
def test_a_call_truncated_before_its_arguments_is_incomplete(behind: str) -> None:
    text = "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
    turn = chat_turn([text + behind])
    assert [(call.name, call.state, call.partial) for call in turn.calls] == [("f", "incomplete", {})]
    assert chat_turn([f"{text}prose"]).text == f"{text}prose"


def test_a_call_on_the_wire_ends_an_open_leaked_call() -> None:
    after = [chat_call('{"b": 2}', id="c1", name="g"), chat_call("", index=None)]
    turn = chat_turn(["<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"], "recover", *after)
    assert [(call.name, call.state, call.ended) for call in turn.calls] == [
        ("f", "incomplete", True),
        ("g", "complete", False),
    ]
