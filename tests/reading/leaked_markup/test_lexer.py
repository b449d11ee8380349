"""Tags in a text, and how long text waits for the end of a tag."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading.leaked_markup.markup_samples import (
    split_text,
)
from wire_streams import chat

from streamkit import Turn
from streamkit.events import Text
from streamkit.reading.leaked_markup.lexer import _SHAPES, LONGEST, Lexer, Tag


def sample_tag(shape: str) -> str:
    return shape.replace("*", "some_name")


@pytest.mark.parametrize("shape", [shape.text for shape in _SHAPES])
def test_every_prefix_of_a_tag_waits_and_a_complete_tag_does_not(shape: str) -> None:
    tag = sample_tag(shape)
    for size in range(1, len(tag)):
        lexer = Lexer()
        assert lexer.feed(tag[:size]) == []
        assert lexer.rest == tag[:size]
        (token,) = lexer.feed(tag[size:])
        assert isinstance(token, Tag)
        assert (token.raw, lexer.rest) == (tag, "")


def test_a_tag_with_a_too_long_name_is_text() -> None:
    lexer = Lexer()
    for character in "<function=" + "f" * (LONGEST - len("<function=")):
        lexer.feed(character)
    assert lexer.rest == ""


@given(st.text(alphabet=st.characters(exclude_characters="<", exclude_categories=["Cs"])), st.integers(1, 9))
def test_text_without_an_angle_bracket_is_emitted_at_once(text: str, size: int) -> None:
    turn = Turn("openai_compatible", leaked_markup="recover")
    for delta in split_text(text, size):
        assert turn.feed(chat({"content": delta}))[-1] == Text(delta)


def test_text_waits_only_while_it_may_be_the_prefix_of_a_tag() -> None:
    turn = Turn("openai_compatible", leaked_markup="recover")
    for delta, text in [
        ("a <", "a "),
        (" b", "< b"),
        ("<tool", ""),
        ("_box", "<tool_box"),
        ("<|DSML|inv", ""),
        ('oke name="f" x', '<|DSML|invoke name="f" x'),
        ("<<<", "<<"),
        ("\n", "<\n"),
    ]:
        assert "".join(e.text for e in turn.feed(chat({"content": delta})) if isinstance(e, Text)) == text
    turn.feed(chat({"content": "the last <"}))
    assert turn.close(complete=True)[0] == Text("<")
