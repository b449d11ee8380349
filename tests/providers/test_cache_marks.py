"""Cache marks: read from a provider's messages, kept with their block, and written where the target has them."""

from __future__ import annotations

from typing import Any

import pytest

from streamkit import Content, parse_messages, render, render_request
from streamkit.history import ImageBlock, ReasoningBlock, TextBlock, ToolCallBlock, ToolResponseBlock
from streamkit.history.content import CacheMark

Json = dict[str, Any]

EPHEMERAL = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
ANTHROPIC: list[Json] = [
    {
        "role": "user",
        "content": [
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
                "cache_control": HOUR,
            },
            {"type": "text", "text": "What is it?"},
        ],
    },
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}, "cache_control": EPHEMERAL}],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a cat", "cache_control": EPHEMERAL},
            {"type": "text", "text": "Sure?", "cache_control": HOUR},
        ],
    },
]
SYSTEM = [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Long.", "cache_control": EPHEMERAL}]


def marked(text: str, ttl: str | None = None) -> TextBlock:
    return TextBlock(text=text, metadata={"cache": CacheMark(ttl=ttl) if ttl else CacheMark()})


def test_marks_of_anthropic_are_read_and_written_unchanged() -> None:
    contents = parse_messages(ANTHROPIC, "anthropic")
    assert [block.metadata.get("cache") for content in contents for block in content.blocks] == [
        {"ttl": "1h"},
        None,
        {},
        {},
        {"ttl": "1h"},
    ]
    assert render(contents, "anthropic", ids="origin") == ANTHROPIC
    assert [Content.model_validate_json(content.model_dump_json()) for content in contents] == contents


def test_marks_of_system_text_are_read_and_written() -> None:
    contents = parse_messages(ANTHROPIC[:1], "anthropic", system=SYSTEM)
    assert render_request(contents, "anthropic")["system"] == SYSTEM
    assert render_request(contents, "bedrock_converse")["system"] == [
        {"text": "Be brief."},
        {"text": "Long."},
        {"cachePoint": {"type": "default"}},
    ]
    (system, _) = render(contents, "openrouter")
    assert system == {"role": "system", "content": SYSTEM}


def test_system_text_without_marks_is_one_text() -> None:
    contents = [Content.system("a"), Content.system("b"), Content.human("?")]
    assert render_request(contents, "anthropic")["system"] == "a\n\nb"


def test_anthropic_gets_at_most_four_marks() -> None:
    contents = [Content(speaker="system", blocks=[marked("s")])]
    for number in range(3):
        contents += [
            Content(speaker="human", blocks=[marked(f"q{number}")]),
            Content(speaker="ai", blocks=[marked(f"a{number}")]),
        ]
    contents.append(Content.human("?"))
    changes: list[str] = []
    body = render_request(contents, "anthropic", changes=changes)
    blocks = [*body["system"], *(block for message in body["messages"] for block in message["content"])]
    assert [block["text"] for block in blocks if "cache_control" in block] == ["q1", "a1", "q2", "a2"]
    assert [change for change in changes if "cache marks" in change]


def test_thinking_gets_no_mark() -> None:
    thinking = ReasoningBlock(text="Hm", signature="s", metadata={"provider": "anthropic", "cache": {}})
    contents = [Content.human("?"), Content(speaker="ai", blocks=[thinking, TextBlock(text="a")]), Content.human("?")]
    changes: list[str] = []
    assert "cache_control" not in str(render(contents, "anthropic", changes=changes))
    assert len(changes) == 1


def test_bedrock_gets_cache_points_after_marked_parts() -> None:
    contents = parse_messages(ANTHROPIC, "anthropic")
    changes: list[str] = []
    messages = render(contents, "bedrock_converse", changes=changes)
    assert len(changes) == 1
    assert "cache mark" in changes[0]
    assert [[next(iter(part)) for part in message["content"]] for message in messages] == [
        ["image", "cachePoint", "text"],
        ["toolUse"],
        ["toolResult", "cachePoint", "text", "cachePoint"],
    ]
    assert messages[0]["content"][1] == {"cachePoint": {"type": "default", "ttl": "1h"}}


def test_two_marked_results_have_one_point_after_them() -> None:
    ids = ["hist_tool_" + letter * 24 for letter in "ab"]
    contents = [
        Content.human("?"),
        Content(speaker="ai", blocks=[ToolCallBlock(id=call_id, name="f") for call_id in ids]),
        Content(
            speaker="tool",
            blocks=[ToolResponseBlock(call_id=call_id, result="r", metadata={"cache": {}}) for call_id in ids],
        ),
    ]
    assert [next(iter(part)) for part in render(contents, "bedrock_converse")[-1]["content"]] == [
        "toolResult",
        "toolResult",
        "cachePoint",
    ]


@pytest.mark.parametrize("provider", ["openrouter", "qwen"])
def test_dialects_with_marks_read_and_write_them(provider: str) -> None:
    image = {"type": "image_url", "image_url": {"url": "https://e.org/a.png"}, "cache_control": HOUR}
    messages: list[Json] = [
        {"role": "system", "content": [{"type": "text", "text": "Long.", "cache_control": EPHEMERAL}]},
        {"role": "user", "content": [{"type": "text", "text": "A book.", "cache_control": HOUR}]},
        {"role": "assistant", "content": "Yes?"},
        {"role": "user", "content": [image, {"type": "text", "text": "?"}]},
    ]
    changes: list[str] = []
    contents = parse_messages(messages, provider, changes=changes)
    assert render(contents, provider) == messages
    assert changes == []


@pytest.mark.parametrize("target", ["openai_chat", "mistral", "openai_responses", "gemini", "cohere", "ollama"])
def test_targets_without_marks_get_none(target: str) -> None:
    contents = [
        Content(speaker="system", blocks=[marked("s")]),
        Content(speaker="human", blocks=[marked("a", "1h"), ImageBlock(data="data:image/png;base64,iVBORw0KGgo=")]),
    ]
    body = str(render_request(contents, target))
    assert "cache" not in body
    assert "ttl" not in body


@pytest.mark.parametrize("mark", [True, None, "1h", [], {"ttl": 3}])
def test_a_mark_of_another_form_does_not_raise(mark: Any) -> None:
    contents = [Content(speaker="human", blocks=[TextBlock(text="a", metadata={"cache": mark})])]
    (message,) = render(contents, "anthropic")
    assert message["content"][0].get("cache_control") == (EPHEMERAL if isinstance(mark, dict) else None)
