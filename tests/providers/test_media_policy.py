"""The policies for images and files that a target cannot carry: an error, a line of text, or removal."""

from __future__ import annotations

from typing import Any

import pytest

from streamkit import Content, UnsupportedContent, UsageError, render, render_request
from streamkit.history import FileBlock, ImageBlock, TextBlock

ADDRESS = ImageBlock(data="https://example.org/a.png")  # Ollama only accepts images as base64
PIXEL = ImageBlock(data="data:image/png;base64,iVBORw0KGgo=")
HISTORY = [Content(speaker="human", blocks=[TextBlock(text="What is this?"), ADDRESS, PIXEL])]


def test_raise_is_the_default() -> None:
    with pytest.raises(UnsupportedContent):
        render(HISTORY, "ollama")
    with pytest.raises(UnsupportedContent):
        render_request(HISTORY, "ollama")


def test_text_replaces_media_by_a_line_that_names_it() -> None:
    changes: list[str] = []
    [message] = render(HISTORY, "ollama", unsupported="text", changes=changes)
    assert "[image https://example.org/a.png]" in message["content"]
    assert message["images"] == ["iVBORw0KGgo="]  # images that can be carried are unchanged
    assert len(changes) == 1
    assert "https://example.org/a.png" in changes[0]


def test_drop_leaves_media_out_and_reports_it() -> None:
    changes: list[str] = []
    [message] = render(HISTORY, "ollama", unsupported="drop", changes=changes)
    assert message["content"] == "What is this?"
    assert len(changes) == 1


def test_render_request_applies_the_policy() -> None:
    body = render_request(HISTORY, "ollama", unsupported="drop")
    assert body["messages"][0]["content"] == "What is this?"


def test_replacement_text_contains_the_file_name() -> None:
    report = FileBlock(media_type="application/x-thing", name="report.thing", data="QUJD")
    [message] = render([Content(speaker="human", blocks=[report])], "ollama", unsupported="text")
    assert message["content"] == "[attached file report.thing (application/x-thing)]"


def test_nothing_changes_if_the_target_carries_all_media() -> None:
    changes: list[str] = []
    assert render(HISTORY, "openai_chat", unsupported="text", changes=changes) == render(HISTORY, "openai_chat")
    assert changes == []


def test_history_is_not_modified() -> None:
    before = [content.model_dump() for content in HISTORY]
    render(HISTORY, "ollama", unsupported="drop")
    assert [content.model_dump() for content in HISTORY] == before


def test_unknown_policy_is_rejected() -> None:
    policy: Any = "ignore"
    with pytest.raises(UsageError, match="'raise', 'text' or 'drop'"):
        render(HISTORY, "ollama", unsupported=policy)
