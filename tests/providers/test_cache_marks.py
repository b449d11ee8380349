"""Cache marks: read from a provider's messages, kept with their block, and written where the target has them."""

from __future__ import annotations

from typing import Any

import pytest

from streamkit import Content, UsageError, parse_messages, render, render_request
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


# ---------------------------------------------------------------- marks of a policy


def look(name: str) -> str:
    """Look at a thing."""
    return name


def find(name: str) -> str:
    """Find a thing."""
    return name


CALL_ID = "hist_tool_" + "a" * 24
ROUND = [
    Content.system("Be brief.", TextBlock(text="Long.")),
    Content.human("What is it?"),
    Content(speaker="ai", blocks=[TextBlock(text="I look."), ToolCallBlock(id=CALL_ID, name="look")]),
    Content(speaker="tool", blocks=[ToolResponseBlock(call_id=CALL_ID, name="look", result="a cat")]),
]


def marks(data: Any, path: str = "") -> list[str]:
    """Return the paths of all marks of a body."""
    items = list(data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ())
    found = [path for name, _ in items if name in ("cache_control", "cachePoint")]
    for name, value in items:
        found += marks(value, f"{path}.{name}".lstrip("."))
    return found


def test_auto_marks_tools_system_and_the_last_turn() -> None:
    body = render_request(ROUND, "anthropic", tools=[look, find], cache="auto")
    assert marks(body) == ["system.1", "messages.2.content.0", "tools.1"]
    assert body["tools"][1]["cache_control"] == EPHEMERAL
    body = render_request(ROUND, "bedrock_converse", tools=[look, find], cache="auto")
    assert marks(body) == ["system.2", "messages.2.content.1", "toolConfig.tools.2"]
    assert body["toolConfig"]["tools"][2] == {"cachePoint": {"type": "default"}}


def test_a_mark_instead_of_auto_has_its_lifetime() -> None:
    body = render_request(ROUND, "anthropic", tools=[look], cache=CacheMark(ttl="1h"))
    assert body["tools"][0]["cache_control"] == body["system"][1]["cache_control"] == HOUR


@pytest.mark.parametrize("provider", ["openrouter", "qwen"])
def test_dialects_mark_system_and_the_last_turn(provider: str) -> None:
    body = render_request(ROUND, provider, tools=[look], cache="auto")
    assert marks(body) == ["messages.0.content.1", "messages.3.content.0"]
    assert body["messages"][3]["content"] == [{"type": "text", "text": "a cat", "cache_control": EPHEMERAL}]


@pytest.mark.parametrize("target", ["openai_chat", "mistral", "openai_responses", "gemini", "cohere", "ollama"])
def test_targets_that_cache_by_themselves_are_unchanged(target: str) -> None:
    changes: list[str] = []
    body = render_request(ROUND, target, tools=[look], cache="auto", changes=changes)
    assert body == render_request(ROUND, target, tools=[look])
    assert changes == []


@pytest.mark.parametrize("provider", ["anthropic", "bedrock_converse", "openrouter"])
def test_a_request_has_at_most_four_marks(provider: str) -> None:
    long = [Content(speaker="human", blocks=[marked(f"q{number}"), marked(f"p{number}")]) for number in range(4)]
    contents = [ROUND[0], *[content for each in long for content in (each, Content.ai("a"))], Content.human("?")]
    changes: list[str] = []
    body = render_request(contents, provider, tools=[look], cache="auto", changes=changes)
    assert len(marks(body)) == 4
    assert marks(body)[-1].startswith("messages")
    assert [change for change in changes if "first cache marks" in change]
    assert {} not in [part for message in body["messages"] for part in message["content"]]


def test_the_callers_contents_are_not_marked() -> None:
    before = [content.model_dump_json() for content in ROUND]
    render_request(ROUND, "anthropic", cache="auto")
    assert [content.model_dump_json() for content in ROUND] == before


def test_marks_of_blocks_stay() -> None:
    contents = [Content.human("?"), Content(speaker="ai", blocks=[marked("a", "1h")])]
    (_, message) = render_request(contents, "anthropic", cache="auto")["messages"]
    assert message["content"][0]["cache_control"] == HOUR


def test_assistant_messages_of_dialects_have_marks() -> None:
    contents = [
        Content.human("?"),
        Content(speaker="ai", blocks=[marked("a"), TextBlock(text="b")]),
        Content.human("!"),
    ]
    assert render(contents, "openrouter")[1] == {
        "role": "assistant",
        "content": [{"type": "text", "text": "a", "cache_control": EPHEMERAL}, {"type": "text", "text": "b"}],
    }
    call = ToolCallBlock(id=CALL_ID, name="look", metadata={"cache": {}})
    changes: list[str] = []
    messages = render(
        [Content.human("?"), Content(speaker="ai", blocks=[call]), ROUND[3]], "openrouter", changes=changes
    )
    assert marks(messages) == []
    assert [change for change in changes if "a cache mark on a call" in change]


def test_an_empty_conversation_and_blank_text_get_none() -> None:
    assert marks(render_request([], "anthropic", cache="auto")) == []
    contents = [Content.human("Hi", TextBlock(text=" "))]
    assert marks(render_request(contents, "anthropic", cache="auto")) == ["messages.0.content.0"]


@pytest.mark.parametrize("cache", [True, "1h", {"type": "ephemeral"}, {"ttl": 5}])
def test_another_policy_is_an_error(cache: Any) -> None:
    with pytest.raises(UsageError, match='cache must be "auto" or a CacheMark'):
        render_request(ROUND, "anthropic", cache=cache)
