"""Images in tool results go where a target takes them, and nothing of a result is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamkit import Content, providers, render, render_request
from streamkit.history import ImageBlock, ToolCallBlock, ToolResponseBlock
from streamkit.testing import validate_request

PIXEL = "iVBORw0KGgo="
DATA_URL = f"data:image/png;base64,{PIXEL}"
ID = "hist_tool_" + "a" * 24
FORMS: dict[str, dict[str, Any]] = {
    "anthropic": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
    "mcp": {"type": "image", "data": PIXEL, "mimeType": "image/png"},
    "chat": {"type": "image_url", "image_url": {"url": DATA_URL}},
}


def history(*blocks: Any) -> list[Content]:
    called = Content(speaker="ai", blocks=[ToolCallBlock(id=ID, name="see")])
    return [Content.human("Look."), called, Content(speaker="tool", blocks=list(blocks)), Content.human("And?")]


def with_parts(form: str) -> list[Content]:
    return history(ToolResponseBlock(call_id=ID, name="see", result=[{"type": "text", "text": "a shot"}, FORMS[form]]))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("target", providers.names())
def test_text_and_image_of_a_result_reach_every_target(target: str, form: str) -> None:
    contents = with_parts(form)
    messages = json.dumps(render(contents, target))
    assert "a shot" in messages
    assert PIXEL in messages
    assert '\\"image' not in messages  # as an image, not as the text of one
    assert validate_request(target, render_request(contents, target)) == []


@pytest.mark.parametrize("target", ["cohere", "ollama"])
def test_an_image_beside_a_result_is_shown_by_the_user(target: str) -> None:
    contents = history(ToolResponseBlock(call_id=ID, name="see", result="a shot"), ImageBlock(data=DATA_URL))
    changes: list[str] = []
    messages = render(contents, target, changes=changes)
    roles = [message["role"] for message in messages]
    assert roles[:4] == ["user", "assistant", "tool", "user"]
    assert PIXEL in json.dumps(messages[3])
    assert changes == ["put 1 image or file of a tool's result into a user message"]


def test_anthropic_takes_the_parts_as_they_are() -> None:
    [_, _, message] = render(with_parts("anthropic"), "anthropic")
    assert message["content"][0]["content"] == [{"type": "text", "text": "a shot"}, FORMS["anthropic"]]


@pytest.mark.parametrize(
    "result", [[], [{"type": "text", "text": "x"}], [{"type": "image"}], [1, 2], {"type": "image"}]
)
def test_other_results_stay_what_they_are(result: Any) -> None:
    contents = history(ToolResponseBlock(call_id=ID, name="see", result=result))
    [tool] = [message for message in render(contents, "openai_chat") if message["role"] == "tool"]
    assert json.loads(tool["content"]) == result


def test_the_history_itself_stays_as_it_was() -> None:
    contents = with_parts("mcp")
    before = [content.model_dump() for content in contents]
    render(contents, "cohere")
    assert [content.model_dump() for content in contents] == before
