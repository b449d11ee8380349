"""Calls as XML around JSON or named values: Hermes, Qwen, Qwen3-Coder."""

from __future__ import annotations

from typing import Any

import pytest
from reading.leaked_markup.markup_samples import (
    chat_turn,
    split_text,
    warning_codes,
)


def test_qwen3_coder_values_are_text_without_the_line_breaks_of_the_template() -> None:
    text = "<tool_call>\n<function=write>\n<parameter=path>\na.txt\n</parameter>\n<parameter=lines>\n3\n</parameter>\n"
    text += "<parameter=body>\n\nif a < b:\n    </div>\n\n</parameter>\n</function>\n</tool_call>"
    (call,) = chat_turn([text]).calls
    assert call.arguments == {"path": "a.txt", "lines": "3", "body": "\nif a < b:\n    </div>\n"}


@pytest.mark.parametrize("end", ["\n</tool_call>", ""])
def test_qwen3_coder_calls_are_found_without_the_first_tag(end: str) -> None:
    turn = chat_turn([f"I will.\n\n<function=Glob>\n<parameter=pattern>\n*.md\n</parameter>\n</function>{end}"])
    assert turn.text == "I will.\n\n"
    assert [(call.name, call.arguments) for call in turn.calls] == [("Glob", {"pattern": "*.md"})]


def test_text_after_a_call_without_its_last_tag_is_text() -> None:
    turn = chat_turn(split_text("<function=f></function>\n so it is <", 5))
    assert (turn.text, [call.name for call in turn.calls]) == ("\n so it is <", ["f"])
    assert warning_codes(turn) == ["leaked_markup"]


def test_space_between_calls_is_removed_and_text_after_them_is_kept() -> None:
    one = '<tool_call>\n{"name": "f", "arguments": {"n": 1}}\n</tool_call>'
    turn = chat_turn(split_text(f"{one}\n{one.replace('1', '2')}\n\nDone.", 4))
    assert [block.type for block in turn.content.blocks] == ["tool_call", "tool_call", "text"]
    assert [call.arguments for call in turn.calls] == [{"n": 1}, {"n": 2}]
    assert turn.text == "\n\nDone."


@pytest.mark.parametrize(
    ("member", "arguments"),
    [
        ("", {}),
        (', "arguments": null', {}),
        (', "arguments": ""', {}),
        (', "arguments": {}', {}),
        (', "arguments": "{\\"a\\": 1}"', {"a": 1}),
        (', "arguments": {"a": "\\"}<\\\\"}', {"a": '"}<\\'}),
    ],
)
def test_arguments_may_be_missing_or_json_text(member: str, arguments: Any) -> None:
    for size in (1, 100):
        (call,) = chat_turn(split_text(f'<tool_call>{{"name": "f"{member}}}</tool_call>', size), finish="length").calls
        assert (call.arguments, call.state) == (arguments, "complete")
