"""History as Cohere's messages: the API accepts all of them, and every change is reported."""

from __future__ import annotations

import functools
from typing import Any

import cohere.types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from pydantic_core import SchemaValidator
from rendering import request_of

import streamkit
from streamkit import parse_messages, providers
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
from streamkit.providers.cohere import PROVIDERS
from streamkit.providers.provider import RenderedMessages
from streamkit.tools import Tool

(COHERE,) = PROVIDERS
OWN = {"provider": "cohere"}
PIXEL = "data:image/png;base64,iVBORw0KGgo="


@functools.cache
def strict_validator(name: str) -> SchemaValidator:
    """Return a strict validator of a type of the SDK, whose models accept any additional field.

    Only the fields of a model are kept: for a complete model pydantic uses the validator that the class already has.
    """

    def strict(schema: Any) -> Any:
        if isinstance(schema, dict):
            if schema.get("type") == "model":
                return strict(schema["schema"])
            converted = {key: strict(item) for key, item in schema.items()}
            return {**converted, "extra_behavior": "forbid"} if converted.get("type") == "model-fields" else converted
        if isinstance(schema, (list, tuple)):
            return type(schema)(strict(item) for item in schema)
        return schema

    return SchemaValidator(strict(TypeAdapter(getattr(cohere.types, name)).core_schema))


def validate(messages: list[dict[str, Any]]) -> None:
    """Raise ``ValueError`` if the API would refuse the messages."""
    used_ids: set[str] = set()
    for message in messages:
        strict_validator("ChatMessageV2").validate_python(message)
        if message["role"] == "assistant" and "tool_calls" in message:
            parts = message.get("content", [])
            # "text content is not allowed when tool_calls are provided" (vercel/ai#5794)
            if isinstance(parts, str) or any(part["type"] == "text" for part in parts):
                raise ValueError("text in a message with tool_calls")
            ids = [call["id"] for call in message["tool_calls"]]
            if len(set(ids)) < len(ids) or used_ids & set(ids):
                raise ValueError("a repeated id")
            used_ids |= set(ids)


def call(id: str, name: str = "w", metadata: dict[str, Any] | None = None, **parameters: Any) -> ToolCallBlock:
    return ToolCallBlock(id=id, name=name, parameters=parameters, metadata=metadata or {})


def result(call_id: str, value: Any = "ok", **fields: Any) -> Content:
    return Content(speaker="tool", blocks=[ToolResponseBlock(call_id=call_id, name="w", result=value, **fields)])


def render(*contents: Content, ids: Any = "origin") -> RenderedMessages:
    rendered = COHERE.render(contents, ids=ids)
    validate(rendered.messages)
    return rendered


@pytest.mark.parametrize(
    "message",
    [
        {"role": "tool", "content": "21"},
        {"role": "robot", "content": "x"},
        {"role": "user", "content": "x", "name": "y"},
        {"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "w", "arguments": "{}"}}]},
        {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "w", "arguments": {}}}]},
        {"role": "assistant", "content": "x", "tool_calls": [{"id": "a", "function": {"name": "w", "arguments": ""}}]},
        {"role": "user", "content": [{"type": "image", "image": "x"}]},
    ],
)
def test_the_validator_refuses_illegal_messages(message: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        validate([message])


# ---------------------------------------------------------------- messages


def test_text_with_calls_is_sent_as_the_plan() -> None:
    rendered = render(
        Content.human("?"), Content.ai("I look.", call("a", city="Oslo"), TextBlock(text="Now.")), result("a", 21)
    )
    wire_id = rendered.messages[1]["tool_calls"][0]["id"]
    assert rendered.messages[1:] == [
        {
            "role": "assistant",
            "tool_plan": "I look.\nNow.",
            "tool_calls": [
                {"id": wire_id, "type": "function", "function": {"name": "w", "arguments": '{"city":"Oslo"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": wire_id, "content": "21"},
    ]


def test_own_plan_and_thinking_are_sent_back_with_the_calls() -> None:
    rendered = render(
        Content.ai(
            "",
            ReasoningBlock(text="hm", metadata=OWN),
            ReasoningBlock(text="I look.", kind="plan", metadata=OWN),
            call("a"),
        )
    )
    message = rendered.messages[0]
    assert message["tool_plan"] == "I look."
    assert message["content"] == [{"type": "thinking", "thinking": "hm"}]
    assert rendered.changes == []


def test_own_thinking_is_sent_back_before_the_text() -> None:
    rendered = render(Content.ai("", ReasoningBlock(text="hm", metadata=OWN), TextBlock(text="Hi")))
    assert rendered.messages[0]["content"] == [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Hi"}]


def test_several_texts_stay_several() -> None:
    rendered = render(Content.ai("a", TextBlock(text=""), TextBlock(text="b")))
    assert rendered.messages[0]["content"] == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]


@pytest.mark.parametrize(
    "block",
    [
        ReasoningBlock(text="hm", metadata={"provider": "anthropic"}),
        ReasoningBlock(text="hm"),
        ReasoningBlock(text="I look.", kind="plan", metadata=OWN),
        OpaqueBlock(raw={"a": 1}, metadata={"provider": "anthropic"}),
        FileBlock(media_type="image/png", data="x"),
    ],
)
def test_blocks_without_a_field_are_left_out_and_reported(block: Any) -> None:
    rendered = render(Content.ai("Hi", block))
    assert rendered.messages == [{"role": "assistant", "content": "Hi"}]
    assert len(rendered.changes) == 1
    assert repr(block.type) in rendered.changes[0]


def test_images_of_the_user() -> None:
    rendered = render(
        Content.human(
            "Look",
            ImageBlock(data=PIXEL),
            ImageBlock(data="https://e.org/a.png"),
            FileBlock(media_type="image/png", data="iVBORw0KGgo="),
            FileBlock(data=PIXEL),
            FileBlock(media_type="image/png", url="https://e.org/b.png"),
        )
    )
    (message,) = rendered.messages
    assert message["content"][0] == {"type": "text", "text": "Look"}
    assert [part["image_url"]["url"] for part in message["content"][1:]] == [
        PIXEL,
        "https://e.org/a.png",
        PIXEL,
        PIXEL,
        "https://e.org/b.png",
    ]


@pytest.mark.parametrize(
    "block",
    [
        ImageBlock(data="file:///a.png"),
        ImageBlock(data="data:image/png,raw"),
        FileBlock(media_type="application/pdf", data="x"),
        FileBlock(media_type="image/png"),
        FileBlock(),
    ],
)
def test_an_image_or_file_of_another_form_raises(block: Any) -> None:
    with pytest.raises(UnsupportedContent):
        COHERE.render([Content.human("Look", block)])


# ---------------------------------------------------------------- calls and results


def test_results_follow_their_calls_in_call_order() -> None:
    rendered = render(Content.ai("", call("a"), call("b")), result("b", "2"), result("a", "1"), result("z", "?"))
    first, second = (call_data["id"] for call_data in rendered.messages[0]["tool_calls"])
    assert [(message["tool_call_id"], message["content"]) for message in rendered.messages[1:3]] == [
        (first, "1"),
        (second, "2"),
    ]
    assert rendered.messages[3]["content"] == "?"


def test_results_in_the_content_of_their_calls() -> None:
    content = Content.ai("", call("a"), ToolResponseBlock(call_id="a", result={"t": "é"}))
    assert [message["role"] for message in render(content).messages] == ["assistant", "tool"]
    assert render(content).messages[1]["content"] == '{"t":"é"}'


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"value": None}, ""),
        ({"value": None, "status": "completed"}, ""),
        ({"value": None, "status": "denied"}, "The call did not complete: denied."),
        ({"value": [1], "error": "it failed", "status": "error"}, "it failed"),
        ({"value": "as it is"}, "as it is"),
    ],
)
def test_texts_of_results(fields: dict[str, Any], text: str) -> None:
    rendered = render(Content.ai("", call("a")), result("a", fields.pop("value"), **fields))
    assert rendered.messages[1]["content"] == text


def test_free_text_of_a_call_becomes_an_object_and_is_reported() -> None:
    rendered = render(Content.ai("", ToolCallBlock(id="a", name="w", parameters="free", kind="custom")))
    assert rendered.messages[0]["tool_calls"][0]["function"]["arguments"] == '{"input":"free"}'
    assert len(rendered.changes) == 1


def test_an_own_id_is_sent_back_only_with_the_origin_policy() -> None:
    own = call("hist_tool_" + "a" * 24, metadata={**OWN, "raw_id": "w_2fnrphbsnr66"})
    other = call("hist_tool_" + "b" * 24, metadata={"provider": "x", "raw_id": "w_1"})
    contents = [Content.ai("", own, other), result(own.id), result(other.id)]
    plain = [call_data["id"] for call_data in render(*contents, ids="canonical").messages[0]["tool_calls"]]
    assert plain == ["call_" + "a" * 24, "call_" + "b" * 24]
    origin = render(*contents, ids="origin").messages
    assert [call_data["id"] for call_data in origin[0]["tool_calls"]] == ["w_2fnrphbsnr66", plain[1]]
    assert [message["tool_call_id"] for message in origin[1:]] == ["w_2fnrphbsnr66", plain[1]]


def test_several_calls_with_one_id_are_distinguished_by_order() -> None:
    rendered = render(
        Content.ai("", call("x"), call("x")), result("x", "1"), result("x", "2"), Content.ai("", call("x")), result("x")
    )
    ids = [call_data["id"] for message in rendered.messages for call_data in message.get("tool_calls", ())]
    assert len(set(ids)) == 3
    result_ids = [
        (message["tool_call_id"], message["content"]) for message in rendered.messages if "tool_call_id" in message
    ]
    assert result_ids == [(ids[0], "1"), (ids[1], "2"), (ids[2], "ok")]


def test_a_call_without_result_does_not_get_the_result_of_a_later_round() -> None:
    rendered = render(Content.ai("", call("x")), Content.ai("", call("x")), result("x"))
    assert rendered.messages[2]["tool_call_id"] == rendered.messages[1]["tool_calls"][0]["id"]


# ---------------------------------------------------------------- the request

TOOLS = [
    Tool(name="f", description="Does f.", parameters={"type": "object", "properties": {"a": {"type": "string"}}}),
    Tool(name="g"),
]


def test_the_request_has_the_fields_that_the_conversation_decides() -> None:
    body = providers.render_request([Content.human("Hi")], "cohere", tools=TOOLS)
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
            {"type": "function", "function": {"name": "g", "parameters": {"type": "object", "properties": {}}}},
        ],
        "stream": True,
    }
    for tool in body["tools"]:
        strict_validator("ToolV2").validate_python(tool)
    assert set(providers.render_request([Content.human("Hi")], "cohere", stream=False)) == {"messages"}


@pytest.mark.parametrize(
    ("choice", "names", "wire_choice"),
    [
        (None, ["f", "g"], None),
        ("auto", ["f", "g"], None),
        ("none", ["f", "g"], "NONE"),
        ("required", ["f", "g"], "REQUIRED"),
        ("g", ["g"], "REQUIRED"),
    ],
)
def test_tool_choice(choice: str | None, names: list[str], wire_choice: str | None) -> None:
    body = request_of(COHERE, [], tools=TOOLS, tool_choice=choice)
    assert [tool["function"]["name"] for tool in body["tools"]] == names
    assert body.get("tool_choice") == wire_choice


@pytest.mark.parametrize("choice", [None, "auto", "none"])
def test_a_choice_without_tools_is_left_out(choice: str | None) -> None:
    assert request_of(COHERE, [], tool_choice=choice) == {"messages": [], "stream": True}


@pytest.mark.parametrize(("choice", "tools"), [("h", TOOLS), ("required", []), ("f", [])])
def test_a_choice_of_a_missing_tool_raises(choice: str, tools: list[Tool]) -> None:
    with pytest.raises(UsageError, match=choice):
        request_of(COHERE, [], tools=tools, tool_choice=choice)


# ---------------------------------------------------------------- property

texts = st.text(max_size=4)
origins = st.sampled_from([{}, OWN, {"provider": "x"}])
blocks = st.one_of(
    st.builds(TextBlock, text=texts, metadata=origins),
    st.builds(
        ReasoningBlock,
        text=texts,
        kind=st.sampled_from(["text", "summary", "plan"]),
        signature=st.none(),
        metadata=origins,
    ),
    st.builds(
        ToolCallBlock,
        id=st.sampled_from(["a", "b"]),
        name=st.sampled_from(["w", "v"]),
        parameters=st.dictionaries(texts, texts, max_size=1),
        kind=st.just("function"),
        metadata=st.sampled_from([{}, {**OWN, "raw_id": "w_1"}]),
    ),
    st.builds(ToolResponseBlock, call_id=st.sampled_from(["a", "b", "c"]), name=st.just("w"), result=texts | st.none()),
    st.builds(ImageBlock, data=st.just(PIXEL)),
    st.builds(OpaqueBlock, raw=texts, metadata=origins),
)
conversations = st.lists(
    st.builds(
        Content, speaker=st.sampled_from(["human", "ai", "tool", "system", "x"]), blocks=st.lists(blocks, max_size=4)
    ),
    max_size=4,
)


@given(conversations, st.sampled_from([None, "canonical", "origin"]))
def test_any_conversation_renders_to_messages_that_the_sdk_accepts(contents: list[Content], ids: Any) -> None:
    render(*contents, ids=ids)


DOCUMENTS: list[list[dict[str, Any]]] = [
    [{"type": "document", "document": {"data": "a", "id": "1"}}, {"type": "document", "document": {"data": "b"}}],
    [{"type": "document", "document": {"data": {"text": "a"}, "id": "1"}}, {"type": "text", "text": "b"}],
]


@pytest.mark.parametrize("documents", DOCUMENTS)
def test_documents_of_a_result_go_back_as_documents(documents: list[dict[str, Any]]) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": documents},
    ]
    contents = parse_messages(messages, "cohere")
    assert streamkit.render(contents, "cohere") == messages
    block = contents[2].blocks[0]
    assert isinstance(block, ToolResponseBlock)
    contents[2].blocks[0] = block.model_copy(update={"result": "shortened"})
    assert streamkit.render(contents, "cohere")[2]["content"] == "shortened"
    contents[2].blocks[0] = block
    assert isinstance(streamkit.render(contents, "openai_chat")[2]["content"], str)


@pytest.mark.parametrize("document", [None, 3, {}, {"data": 3}, {"text": "a"}])
def test_a_malformed_document_of_a_result_is_text(document: Any) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    content = [{"type": "document", "document": document}]
    messages = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "1", "content": content}]
    assert isinstance(streamkit.render(parse_messages(messages, "cohere"), "cohere")[-1]["content"], str)
