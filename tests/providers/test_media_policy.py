"""Images and files that a target cannot carry: an error, a line of text, or nothing, by name."""

from __future__ import annotations

from typing import Any

import pytest

from streamkit import Content, UnsupportedContent, UsageError, render, render_request
from streamkit.history import FileBlock, ImageBlock, TextBlock

ADDRESS = ImageBlock(data="https://example.org/a.png")  # Ollama takes images as base64 alone
PIXEL = ImageBlock(data="data:image/png;base64,iVBORw0KGgo=")
HISTORY = [Content(speaker="human", blocks=[TextBlock(text="What is this?"), ADDRESS, PIXEL])]


def test_raise_is_the_default() -> None:
    with pytest.raises(UnsupportedContent):
        render(HISTORY, "ollama")
    with pytest.raises(UnsupportedContent):
        render_request(HISTORY, "ollama")


def test_text_names_it_in_its_place() -> None:
    changes: list[str] = []
    [message] = render(HISTORY, "ollama", unsupported="text", changes=changes)
    assert "[image https://example.org/a.png]" in message["content"]
    assert message["images"] == ["iVBORw0KGgo="]  # what can be carried still is
    assert len(changes) == 1
    assert "https://example.org/a.png" in changes[0]


def test_drop_leaves_it_out_and_says_so() -> None:
    changes: list[str] = []
    [message] = render(HISTORY, "ollama", unsupported="drop", changes=changes)
    assert message["content"] == "What is this?"
    assert len(changes) == 1


def test_a_request_has_the_same_policy() -> None:
    body = render_request(HISTORY, "ollama", unsupported="drop")
    assert body["messages"][0]["content"] == "What is this?"


def test_a_file_is_called_by_its_name() -> None:
    report = FileBlock(media_type="application/x-thing", name="report.thing", data="QUJD")
    [message] = render([Content(speaker="human", blocks=[report])], "ollama", unsupported="text")
    assert message["content"] == "[attached file report.thing (application/x-thing)]"


def test_nothing_changes_where_the_target_takes_all() -> None:
    changes: list[str] = []
    assert render(HISTORY, "openai_chat", unsupported="text", changes=changes) == render(HISTORY, "openai_chat")
    assert changes == []


def test_the_history_itself_stays_as_it_was() -> None:
    before = [content.model_dump() for content in HISTORY]
    render(HISTORY, "ollama", unsupported="drop")
    assert [content.model_dump() for content in HISTORY] == before


def test_another_word_is_refused() -> None:
    other: Any = "ignore"
    with pytest.raises(UsageError, match="'raise', 'text' or 'drop'"):
        render(HISTORY, "ollama", unsupported=other)
