"""History as Ollama's messages: the server accepts all of them, and every change is reported."""

from __future__ import annotations

from typing import Any

import ollama
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rendering import request_of

from streamkit import providers
from streamkit.errors import UnsupportedContent, UsageError
from streamkit.history import (
    Content,
    FileBlock,
    ImageBlock,
    OpaqueBlock,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResponseBlock,
)
from streamkit.providers.ollama import PROVIDERS
from streamkit.providers.provider import RenderedMessages
from streamkit.tools import Tool

(OLLAMA,) = PROVIDERS
OWN = {"provider": "ollama"}
PIXEL = "iVBORw0KGgo="
PIXEL_URL = f"data:image/png;base64,{PIXEL}"

#: The server's fields, of which the SDK's types lack some (ollama/ollama-python#667).
FIELDS = {"role", "content", "thinking", "images", "tool_calls", "tool_name", "tool_call_id"}


def validate(messages: list[dict[str, Any]]) -> None:
    """Raise ``ValueError`` if the server would not read the messages."""
    for message in messages:
        images = [ollama.Image(value=image) for image in message.get("images", ())]  # as its client makes them
        ollama.Message.model_validate({**message, "images": images}, strict=True)
        if set(message) - FIELDS or message["role"] not in ("system", "user", "assistant", "tool"):
            raise ValueError(f"unknown field or role: {message}")
        for call in message.get("tool_calls", ()):
            if set(call) - {"id", "function"} or set(call["function"]) != {"name", "arguments"}:
                raise ValueError(f"unknown field: {call}")
        for image in message.get("images", ()):
            if ":" in image:
                raise ValueError(f"an image is bare base64, not {image}")


def call(id: str, name: str = "w", metadata: dict[str, Any] | None = None, **parameters: Any) -> ToolCallBlock:
    return ToolCallBlock(id=id, name=name, parameters=parameters, metadata=metadata or {})


def result(call_id: str, value: Any = "ok", **fields: Any) -> Content:
    return Content(speaker="tool", blocks=[ToolResponseBlock(call_id=call_id, result=value, **fields)])


def render(*contents: Content, ids: Any = "origin") -> RenderedMessages:
    rendered = OLLAMA.render(contents, ids=ids)
    validate(rendered.messages)
    return rendered


@pytest.mark.parametrize(
    "message",
    [
        {"content": "no role"},
        {"role": "robot", "content": "x"},
        {"role": "user", "content": "x", "name": "y"},
        {"role": "assistant", "tool_calls": [{"function": {"name": "w", "arguments": "{}"}}]},
        {"role": "assistant", "tool_calls": [{"function": {"arguments": {}}}]},
        {"role": "user", "content": "x", "images": [PIXEL_URL]},
    ],
)
def test_the_validator_refuses_illegal_messages(message: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        validate([message])


# ---------------------------------------------------------------- messages


def test_own_calls_and_their_results_have_their_ids() -> None:
    first = call("a", metadata={**OWN, "raw_id": "call_1"}, city="Oslo")
    second = call("b", metadata={**OWN, "raw_id": "call_2"}, city="Rome")
    rendered = render(
        Content.ai("", ReasoningBlock(text="hm", metadata=OWN), first, second), result("b", {"t": 9}), result("a", 4)
    )
    assert rendered.messages == [
        {
            "role": "assistant",
            "content": "",
            "thinking": "hm",
            "tool_calls": [
                {"id": "call_1", "function": {"name": "w", "arguments": {"city": "Oslo"}}},
                {"id": "call_2", "function": {"name": "w", "arguments": {"city": "Rome"}}},
            ],
        },
        {"role": "tool", "tool_name": "w", "content": "4", "tool_call_id": "call_1"},
        {"role": "tool", "tool_name": "w", "content": '{"t":9}', "tool_call_id": "call_2"},
    ]
    assert rendered.changes == []


def test_calls_without_ids_get_none_and_their_results_are_in_call_order() -> None:
    rendered = render(Content.ai("", call("a", "f"), call("b", "g", OWN)), result("b", "2"), result("a", "1"))
    assert [set(call_data) for call_data in rendered.messages[0]["tool_calls"]] == [{"function"}, {"function"}]
    assert rendered.messages[1:] == [
        {"role": "tool", "tool_name": "f", "content": "1"},
        {"role": "tool", "tool_name": "g", "content": "2"},
    ]


def test_all_calls_get_canonical_ids_with_the_canonical_policy() -> None:
    own = call("hist_tool_" + "a" * 24, metadata={**OWN, "raw_id": "call_1"})
    other = call("hist_tool_" + "b" * 24)
    rendered = render(Content.ai("", own, other), result(own.id), result(other.id), ids="canonical")
    expected = ["call_" + "a" * 24, "call_" + "b" * 24]
    assert [call_data["id"] for call_data in rendered.messages[0]["tool_calls"]] == expected
    assert [message["tool_call_id"] for message in rendered.messages[1:]] == expected


def test_ids_that_repeat_over_turns_are_distinguished_by_round() -> None:
    own = call("x", metadata={**OWN, "raw_id": "call_1"})
    rendered = render(
        Content.ai("", own, call("x", "v")),
        Content.ai("", own),
        result("x", "2"),
        result("x", "late"),
        result("z", "?"),
    )
    first, second = (message["tool_calls"] for message in rendered.messages[:2])
    assert first[0]["id"] == "call_1"
    assert second[0]["id"] != "call_1"
    assert [
        (message.get("tool_call_id"), message.get("tool_name"), message["content"]) for message in rendered.messages[2:]
    ] == [
        (second[0]["id"], "w", "2"),
        (second[0]["id"], "w", "late"),
        (None, None, "?"),
    ]


def test_a_result_without_its_call_keeps_its_name() -> None:
    rendered = render(result("z", "1", name="f"))
    assert rendered.messages == [{"role": "tool", "tool_name": "f", "content": "1"}]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"value": None}, ""),
        ({"value": None, "status": "denied"}, "The call did not complete: denied."),
        ({"value": [1], "error": "it failed", "status": "error"}, "it failed"),
        ({"value": ["é"]}, '["é"]'),
        ({"value": "as it is"}, "as it is"),
    ],
)
def test_texts_of_results(fields: dict[str, Any], text: str) -> None:
    rendered = render(Content.ai("", call("a")), result("a", fields.pop("value"), **fields))
    assert rendered.messages[1]["content"] == text


def test_results_in_the_content_of_their_calls() -> None:
    content = Content.ai("", call("a"), ToolResponseBlock(call_id="a", result=1))
    assert [message["role"] for message in render(content).messages] == ["assistant", "tool"]


def test_texts_streamed_around_a_call_are_joined_and_separate_texts_are_lines() -> None:
    streamed = Content.ai("", TextBlock(text="a ", metadata=OWN), call("x"), TextBlock(text="b", metadata=OWN))
    assert render(streamed).messages[0]["content"] == "a b"
    assert render(Content.ai("a", TextBlock(text=""), TextBlock(text="b"))).messages[0]["content"] == "a\nb"


def test_free_text_of_a_call_becomes_an_object_and_is_reported() -> None:
    rendered = render(Content.ai("", ToolCallBlock(id="a", name="w", parameters="free", kind="custom")))
    assert rendered.messages[0]["tool_calls"][0]["function"]["arguments"] == {"input": "free"}
    assert len(rendered.changes) == 1


@pytest.mark.parametrize(
    "block",
    [
        ReasoningBlock(text="hm", metadata={"provider": "deepseek"}),
        ReasoningBlock(text="hm"),
        OpaqueBlock(raw=1, metadata=OWN),
        FileBlock(media_type="image/png", data=PIXEL, metadata={"provider": "gemini"}),
    ],
)
def test_blocks_without_a_field_are_left_out_and_reported(block: Any) -> None:
    rendered = render(Content.ai("Hi", block))
    assert rendered.messages == [{"role": "assistant", "content": "Hi"}]
    assert len(rendered.changes) == 1
    assert repr(block.type) in rendered.changes[0]


def test_images_are_base64_without_a_prefix() -> None:
    rendered = render(
        Content.human(
            "Look",
            ImageBlock(data=PIXEL_URL),
            FileBlock(media_type="image/png", data=PIXEL),
            FileBlock(data=f"data:image/svg+xml;charset=utf-8;base64,{PIXEL}"),
        )
    )
    assert rendered.messages == [{"role": "user", "content": "Look", "images": [PIXEL] * 3}]


def test_an_image_in_a_data_url_without_base64_is_encoded() -> None:
    (message,) = render(Content.human("", ImageBlock(data="data:image/png,raw"))).messages
    assert message["images"] == ["cmF3"]


def test_an_own_image_is_sent_back_with_its_message() -> None:
    own = FileBlock(media_type="image/png", data=PIXEL, metadata=OWN)
    assert render(Content.ai("", own)).messages == [{"role": "assistant", "content": "", "images": [PIXEL]}]


@pytest.mark.parametrize(
    "block",
    [
        ImageBlock(data="https://e.org/a.png"),
        ImageBlock(data=PIXEL),
        FileBlock(media_type="image/png", url="https://e.org/a.png"),
        FileBlock(media_type="application/pdf", data="x"),
        FileBlock(),
    ],
)
def test_an_image_or_file_of_another_form_raises(block: Any) -> None:
    with pytest.raises(UnsupportedContent):
        OLLAMA.render([Content.human("Look", block)])


# ---------------------------------------------------------------- the request

TOOLS = [
    Tool(name="f", description="Does f.", parameters={"type": "object", "properties": {"a": {"type": "string"}}}),
    Tool(name="g"),
]


def test_the_request_has_the_fields_that_the_conversation_decides() -> None:
    body = providers.render_request([Content.human("Hi")], "ollama", tools=TOOLS)
    assert body == {
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "f",
                    "description": "Does f.",
                    "parameters": {"type": "object", "properties": {"a": {"type": "string"}}},
                },
            },
            {
                "type": "function",
                "function": {"name": "g", "description": "", "parameters": {"type": "object", "properties": {}}},
            },
        ],
        "stream": True,
    }
    for tool in body["tools"]:
        ollama.Tool.model_validate(tool, strict=True)


def test_stream_false_is_explicit_because_streaming_is_the_default() -> None:
    assert request_of(OLLAMA, [], stream=False) == {"messages": [], "stream": False}


@pytest.mark.parametrize(
    ("choice", "names"),
    [(None, ["f", "g"]), ("auto", ["f", "g"]), ("required", ["f", "g"]), ("g", ["g"]), ("none", [])],
)
def test_the_tool_choice_decides_which_tools_are_offered(choice: str | None, names: list[str]) -> None:
    body = request_of(OLLAMA, [], tools=TOOLS, tool_choice=choice)
    assert [tool["function"]["name"] for tool in body.get("tools", ())] == names
    assert "tool_choice" not in body


@pytest.mark.parametrize(("choice", "tools"), [("h", TOOLS), ("required", []), ("f", [])])
def test_a_choice_of_a_missing_tool_raises(choice: str, tools: list[Tool]) -> None:
    with pytest.raises(UsageError, match=choice):
        request_of(OLLAMA, [], tools=tools, tool_choice=choice)


# ---------------------------------------------------------------- property

texts = st.text(max_size=4)
origins = st.sampled_from([{}, OWN, {"provider": "x"}])
blocks = st.one_of(
    st.builds(TextBlock, text=texts, metadata=origins),
    st.builds(ReasoningBlock, text=texts, kind=st.just("text"), signature=st.none(), metadata=origins),
    st.builds(
        ToolCallBlock,
        id=st.sampled_from(["a", "b"]),
        name=st.sampled_from(["w", "v"]),
        parameters=st.dictionaries(texts, texts, max_size=1),
        kind=st.just("function"),
        metadata=st.sampled_from([{}, OWN, {**OWN, "raw_id": "call_1"}]),
    ),
    st.builds(ToolResponseBlock, call_id=st.sampled_from(["a", "b", "c"]), name=st.just("w"), result=texts | st.none()),
    st.builds(ImageBlock, data=st.just(PIXEL_URL)),
    st.builds(OpaqueBlock, raw=texts, metadata=origins),
)
conversations = st.lists(
    st.builds(
        Content, speaker=st.sampled_from(["human", "ai", "tool", "system", "x"]), blocks=st.lists(blocks, max_size=4)
    ),
    max_size=4,
)


@given(conversations, st.sampled_from([None, "canonical", "origin"]))
def test_any_conversation_renders_to_messages_that_the_server_reads(contents: list[Content], ids: Any) -> None:
    messages = render(*contents, ids=ids).messages
    ids_sent = [
        call_data["id"] for message in messages for call_data in message.get("tool_calls", ()) if "id" in call_data
    ]
    assert len(set(ids_sent)) == len(ids_sent)
