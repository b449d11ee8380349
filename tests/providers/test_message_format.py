"""Messages of another format than the caller named: an error that names theirs, and nothing left out in silence."""

from __future__ import annotations

from typing import Any

import pytest
from imported_messages import CONVERSATIONS

from streamkit import Content, UsageError, parse_messages, providers, render, render_request
from streamkit.history import OpaqueBlock, ReasoningBlock

Json = dict[str, Any]

UI: list[Json] = [
    {"id": "1", "role": "user", "parts": [{"type": "text", "text": "Weather?"}]},
    {
        "id": "2",
        "role": "assistant",
        "parts": [
            {"type": "step-start"},
            {
                "type": "tool-weather",
                "toolCallId": "c1",
                "state": "output-available",
                "input": {"city": "Oslo"},
                "output": {"t": 21},
            },
            {"type": "text", "text": "21 degrees."},
        ],
    },
]
CONVERSE: list[Json] = [
    {"role": "user", "content": [{"text": "Weather?"}]},
    {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t1", "name": "weather", "input": {}}}]},
    {"role": "user", "content": [{"toolResult": {"toolUseId": "t1", "content": [{"text": "21"}]}}]},
]
OLLAMA: list[Json] = [
    {"role": "user", "content": "What is this?", "images": ["iVBORw0KGgo="]},
    {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "look", "arguments": {"n": 1}}}]},
    {"role": "tool", "tool_name": "look", "content": "a cat"},
]
COHERE: list[Json] = [
    {"role": "user", "content": "Weather?"},
    {
        "role": "assistant",
        "tool_plan": "I look.",
        "tool_calls": [{"id": "w0", "type": "function", "function": {"name": "weather", "arguments": "{}"}}],
    },
    {
        "role": "tool",
        "tool_call_id": "w0",
        "content": [{"type": "document", "document": {"data": '{"t":21}'}}],
    },
]
FORMATS: dict[str, list[Json]] = {
    **{name: messages for name, (messages, _) in CONVERSATIONS.items()},
    "vercel_ui": UI,
    "bedrock_converse": CONVERSE,
    "ollama": OLLAMA,
    "cohere": COHERE,
}
READ = [*CONVERSATIONS, "vercel_ui", "bedrock_invoke", "mistral", "openrouter"]
SAME = {"bedrock_invoke": "anthropic", "mistral": "openai_chat", "openrouter": "openai_chat"}
PAIRS = [(messages, reader) for messages in FORMATS for reader in READ if SAME.get(reader, reader) != messages]
# These readers understand what they read, except for what they report.
READABLE = {("cohere", "openai_chat"), ("cohere", "mistral"), ("cohere", "openrouter")}
READABLE |= {("ollama", "openai_chat"), ("ollama", "mistral"), ("ollama", "openrouter")}


@pytest.mark.parametrize(("source", "reader"), [pair for pair in PAIRS if pair not in READABLE])
def test_messages_of_another_format_are_an_error_that_names_it(source: str, reader: str) -> None:
    with pytest.raises(
        UsageError, match=rf"do not have the format of '{reader}'; they look like messages of '{source}'"
    ):
        parse_messages(FORMATS[source], reader)


@pytest.mark.parametrize(("source", "reader"), sorted(READABLE))
def test_what_a_similar_format_has_in_addition_is_reported(source: str, reader: str) -> None:
    changes: list[str] = []
    assert parse_messages(FORMATS[source], reader, changes=changes)
    assert changes


@pytest.mark.parametrize("name", FORMATS)
def test_the_own_format_is_recognized_also_in_part(name: str) -> None:
    if name in READ:
        for start in range(len(FORMATS[name])):
            assert parse_messages(FORMATS[name][start:], name)
    rate = dict(providers.registry.message_formats()).get(name)
    if rate is not None:
        assert all(rate(message) for message in FORMATS[name])


def test_thinking_of_cohere_is_its_own_also_without_a_plan() -> None:
    # a response of a reasoning model of Cohere without calls, as ``response.message`` has it
    thinking = {"type": "thinking", "thinking": "Easy."}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [thinking, {"type": "text", "text": "Hello."}]},
        {"role": "user", "content": "Bye"},
    ]
    _, response, _ = parse_messages(messages, "cohere")
    assert [block.text for block in response.blocks if isinstance(block, ReasoningBlock)] == ["Easy."]
    signed = {"role": "assistant", "content": [{**thinking, "signature": "c2ln"}]}
    with pytest.raises(UsageError, match="they look like messages of 'anthropic'"):
        parse_messages([messages[0], signed], "cohere")


TEXT: list[Json] = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]


@pytest.mark.parametrize("reader", [name for name in READ if name != "gemini"])
def test_text_alone_is_read_by_every_format_that_has_it(reader: str) -> None:
    changes: list[str] = []
    assert [content.speaker for content in parse_messages(TEXT, reader, changes=changes)] == ["human", "ai"]
    assert changes == []


def test_text_of_another_format_is_an_error_that_names_all_that_fit() -> None:
    with pytest.raises(UsageError, match=r"'gemini'; they look like messages of .*'openai_chat'"):
        parse_messages(TEXT, "gemini")


@pytest.mark.parametrize("reader", READ)
def test_messages_of_no_known_format_are_kept_and_reported(reader: str) -> None:
    changes: list[str] = []
    contents = parse_messages([{"role": "narrator", "text": "Meanwhile"}, {"x": 1}], reader, changes=changes)
    assert [block.raw for content in contents for block in content.blocks if isinstance(block, OpaqueBlock)] == [
        {"role": "narrator", "text": "Meanwhile"},
        {"x": 1},
    ]
    assert len(changes) == 2


def test_a_conversation_with_some_blocks_of_another_format_is_read() -> None:
    chat = [*CONVERSATIONS["openai_chat"][0], {"role": "user", "content": [{"type": "tool_result", "content": "x"}]}]
    changes: list[str] = []
    contents = parse_messages(chat, "openai_chat", changes=changes)
    assert contents[-1].blocks[0].type == "opaque"
    assert changes == ["kept a part of the type 'tool_result' as an opaque block: history has no block for it"]


@pytest.mark.parametrize(
    ("reader", "message", "field"),
    [
        ("mistral", {"role": "user", "name": "Ann", "content": "Hi"}, "name"),
        ("openai_chat", {"role": "user", "content": "Hi", "images": ["x"]}, "images"),
        ("openai_chat", {"role": "user", "content": [{"type": "text", "text": "a", "extra": 1}]}, "extra"),
        (
            "openai_chat",
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": "https://e.org", "tiles": 4}}],
            },
            "tiles",
        ),
        ("openai_chat", {"role": "assistant", "content": "Hi", "weight": 0}, "weight"),
        ("anthropic", {"role": "user", "content": "Hi", "id": "m"}, "id"),
        ("anthropic", {"role": "user", "content": [{"type": "text", "text": "a", "extra": 1}]}, "extra"),
        (
            "anthropic",
            {"role": "user", "content": [{"type": "document", "extra": 1, "source": {"type": "url", "url": "u"}}]},
            "extra",
        ),
        ("gemini", {"role": "user", "parts": [{"text": "a", "videoMetadata": {"fps": 1}}]}, "videoMetadata"),
        ("gemini", {"role": "user", "parts": [{"text": "a"}], "extra": 1}, "extra"),
        ("openai_responses", {"role": "user", "content": "Hi", "name": "Ann"}, "name"),
        ("openai_responses", {"role": "user", "content": [{"type": "input_text", "text": "a", "extra": 1}]}, "extra"),
        ("vercel", {"role": "user", "content": "Hi", "experimental_x": 1}, "experimental_x"),
        ("vercel_ui", {"role": "user", "parts": [{"type": "text", "text": "a"}], "metadata": {"n": 1}}, "metadata"),
    ],
)
def test_a_field_that_is_not_read_is_reported(reader: str, message: Json, field: str) -> None:
    changes: list[str] = []
    assert parse_messages([message], reader, changes=changes)
    assert len(changes) == 1
    assert f"left out the field {field!r}" in changes[0]


# ---------------------------------------------------------------- the reverse: Contents


@pytest.mark.parametrize("write", [render, render_request])
@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ([{"role": "user", "content": "x"}], r"contents\[0\] is a dict: convert a provider's own messages with parse"),
        ([Content.human("x"), "y"], r"contents\[1\] must be a Content, as Content\.human\('\.\.\.'\) returns, not str"),
        ("x", "contents must be a list of Contents, .* not str"),
        (Content.human("x"), "contents must be a list of Contents, .* not Content"),
        (None, "contents must be a list of Contents, .* not NoneType"),
    ],
)
def test_what_is_no_list_of_contents_is_refused(write: Any, contents: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        write(contents, "openai_chat")


def test_contents_that_can_be_read_once_are_rendered() -> None:
    assert render(iter([Content.human("x")]), "openai_chat") == [{"role": "user", "content": "x"}]
