"""Ollama's messages to history."""

from __future__ import annotations

from imported_messages import OLLAMA, calls_of, results_of

from streamkit.history import ImageBlock
from streamkit.providers import parse_messages


def test_calls_of_ollama_without_ids_have_their_results_by_order() -> None:
    contents = parse_messages(OLLAMA, "ollama")
    calls, results = calls_of(contents), results_of(contents)
    assert [call.parameters for call in calls] == [{"city": "Oslo"}, {"city": "Bergen"}]
    assert [result.result for result in results] == ["21", "9"]
    assert contents[1].blocks[1] == ImageBlock(data="data:image/png;base64,iVBORw0KGgo=")


def test_results_with_ids_belong_to_calls_without_ids_by_order() -> None:
    calls = [{"function": {"name": name, "arguments": {}}} for name in ("f", "g", "f")]
    turn = [
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "content": "1", "tool_call_id": "call_a"},
        {"role": "tool", "content": "2", "tool_call_id": "call_b", "tool_name": "g"},
        {"role": "tool", "content": "3", "tool_call_id": "call_c"},
        {"role": "tool", "content": "again", "tool_call_id": "call_b"},
    ]
    contents = parse_messages([*turn, *turn], "ollama")
    for at in (0, 2):
        first, second, third = (call.id for call in calls_of(contents[at : at + 1]))
        assert [result.call_id for result in results_of(contents[at + 1 : at + 2])] == [first, second, third, second]


def test_results_with_unknown_ids_belong_to_no_call_that_has_an_id() -> None:
    calls = [{"id": "call_1", "function": {"name": "f", "arguments": {}}}]
    messages = [
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "content": "1", "tool_call_id": "call_2"},
    ]
    contents = parse_messages(messages, "ollama")
    assert results_of(contents)[0].call_id != calls_of(contents)[0].id
