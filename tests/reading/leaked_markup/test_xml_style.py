"""Calls as elements: DSML and XTML."""

from __future__ import annotations

import pytest
from reading.leaked_markup.markup_samples import (
    Mode,
    chat_turn,
    split_text,
    warning_codes,
)
from wire_streams import chat_call


def test_xtml_names_are_unescaped_and_values_are_not() -> None:
    text = '<|open|>call tool="a&amp;b&quot;"<|sep|><|open|>argument key="k&quot;" type="string"<|sep|>&amp;'
    turn = chat_turn([f"{text}<|close|>argument<|sep|><|close|>call<|sep|>"])
    assert [(call.name, call.arguments) for call in turn.calls] == [('a&b"', {'k"': "&amp;"})]


@pytest.mark.parametrize("residue", ["<\uff5cDSML\uff5cfunction_calls", "<\uff5cDSML\uff5cfunction_calls>\n"])
@pytest.mark.parametrize("mode", ["recover", "strip"])
def test_an_opening_tag_left_by_the_server_before_a_call_is_removed(mode: Mode, residue: str) -> None:
    # Bedrock, with deepseek.v3.2: stdapi-ai/stdapi.ai#182
    for size in (1, 4, 100):
        turn = chat_turn(split_text(f"Checking.\n\n{residue}", size), mode, chat_call("{}", id="c1", name="f"))
        assert turn.text.rstrip() == "Checking."
        assert [call.name for call in turn.calls] == ["f"]
        assert warning_codes(turn) == ["leaked_markup"]


def test_a_left_opening_tag_without_a_call_is_text_for_recover_and_removed_by_strip() -> None:
    assert chat_turn(["a <|DSML|function_calls"], "recover").text == "a <|DSML|function_calls"
    assert chat_turn(["a <|DSML|function_calls"], "strip").text == "a "
