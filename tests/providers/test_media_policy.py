"""The policies for images and files that a target cannot carry: an error, a line of text, or removal."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamkit import Content, UnsupportedContent, UsageError, providers, render, render_request
from streamkit.history import FileBlock, ImageBlock, TextBlock, ToolCallBlock, ToolResponseBlock

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


# ---------------------------------------------------------------- data that is refused before it is sent


TARGETS = [name for name in providers.names() if not name.startswith("test")]
NOT_BASE64 = [
    ImageBlock(data="data:image/png;base64,not base64!"),
    ImageBlock(data="data:image/png;base64,"),
    ImageBlock(data="data:image/png;base64,abc"),  # without its padding
    ImageBlock(data="iVBORw0KGgo="),
    ImageBlock(data="a.png"),
    ImageBlock(data=""),
    ImageBlock(data="javascript:alert(1)"),
    ImageBlock(data="file:///etc/passwd"),
    FileBlock(media_type="image/png", data="%PNG"),
    FileBlock(media_type="application/pdf", data="%PDF-1.4"),
    FileBlock(media_type="application/pdf", data=""),
    FileBlock(media_type="text/plain", data="data:text/plain;base64,***"),
]


@pytest.mark.parametrize("block", NOT_BASE64, ids=lambda block: f"{block.type}:{block.data[:24]}")
def test_a_persons_media_that_is_no_base64_is_refused(block: ImageBlock | FileBlock) -> None:
    history = [Content(speaker="human", blocks=[TextBlock(text="Look."), block])]
    for target in TARGETS:
        with pytest.raises(UnsupportedContent) as raised:
            render(history, target)
        assert len(str(raised.value)) < 300, target
        changes: list[str] = []
        render(history, target, unsupported="text", changes=changes)
        assert len(changes) == 1, target
        rendered = json.dumps(render(history, target, unsupported="drop"))
        assert not block.data or block.data not in rendered, target


@pytest.mark.parametrize("block", NOT_BASE64, ids=lambda block: f"{block.type}:{block.data[:24]}")
def test_a_tools_media_that_is_no_base64_becomes_text(block: ImageBlock | FileBlock) -> None:
    result = [{"type": "text", "text": "Here:"}, block.model_dump(exclude={"metadata"})]
    history = [
        Content.human("?"),
        Content(speaker="ai", blocks=[ToolCallBlock(id="hist_tool_" + "a" * 24, name="f")]),
        Content(speaker="tool", blocks=[ToolResponseBlock(call_id="hist_tool_" + "a" * 24, result=result), block]),
    ]
    media_fields = (
        "image_url",
        "inlineData",
        "fileData",
        "input_image",
        "input_file",
        "file",
        "images",
        "source",
        "bytes",
    )
    for target in TARGETS:
        changes: list[str] = []
        rendered = json.dumps(render(history, target, changes=changes))
        assert changes, target
        assert [name for name in media_fields if f'"{name}": ' in rendered] == [], target


@pytest.mark.parametrize(
    ("target", "media_type", "is_taken"),
    [
        ("openai_chat", "image/svg+xml", False),
        ("openai_chat", "image/tiff", False),
        ("openai_chat", "image/gif", True),
        ("openai_chat", "image/jpg", True),
        ("openai_responses", "image/bmp", False),
        ("openai_responses", "image/webp", True),
        ("anthropic", "image/svg+xml", False),
        ("anthropic", "image/gif", True),
        ("bedrock_converse", "image/bmp", False),
        ("gemini", "image/gif", False),
        ("gemini", "image/heic", True),
        ("gemini", "image/jpg", True),
        ("ollama", "text/plain", False),
        ("cohere", "text/plain", False),
    ],
)
def test_media_types_that_a_target_refuses_are_not_sent(target: str, media_type: str, is_taken: bool) -> None:
    history = [Content(speaker="human", blocks=[ImageBlock(data=f"data:{media_type};base64,iVBORw0KGgo=")])]
    if is_taken:
        assert "iVBORw0KGgo=" in json.dumps(render(history, target))
    else:
        with pytest.raises(UnsupportedContent):
            render(history, target)
