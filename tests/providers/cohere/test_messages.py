"""History as Cohere's messages: what the API refuses never leaves, and nothing is changed in silence."""

from __future__ import annotations

import functools
from typing import Any

import cohere.types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from pydantic_core import SchemaValidator
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
from streamkit.providers.cohere import PROVIDERS
from streamkit.providers.provider import RenderedMessages
from streamkit.tools import Tool

(COHERE,) = PROVIDERS
OWN = {"provider": "cohere"}
PIXEL = "data:image/png;base64,iVBORw0KGgo="


@functools.cache
def judge(name: str) -> SchemaValidator:
    """The SDK's own type, made strict: its models take any field besides those they know.

    Of a model only its fields are kept: for a whole model pydantic takes the validator that the class has already.
    """

    def strict(schema: Any) -> Any:
        if isinstance(schema, dict):
            if schema.get("type") == "model":
                return strict(schema["schema"])
            made = {key: strict(item) for key, item in schema.items()}
            return {**made, "extra_behavior": "forbid"} if made.get("type") == "model-fields" else made
        if isinstance(schema, (list, tuple)):
            return type(schema)(strict(item) for item in schema)
        return schema

    return SchemaValidator(strict(TypeAdapter(getattr(cohere.types, name)).core_schema))


def accept(messages: list[dict[str, Any]]) -> None:
    """Raises ``ValueError`` for what the API refuses."""
    asked: set[str] = set()
    for message in messages:
        judge("ChatMessageV2").validate_python(message)
        if message["role"] == "assistant" and "tool_calls" in message:
            parts = message.get("content", [])
            # "text content is not allowed when tool_calls are provided" (vercel/ai#5794)
            if isinstance(parts, str) or any(part["type"] == "text" for part in parts):
                raise ValueError("text beside tool_calls")
            ids = [call["id"] for call in message["tool_calls"]]
            if len(set(ids)) < len(ids) or asked & set(ids):
                raise ValueError("an id twice")
            asked |= set(ids)


def call(id: str, name: str = "w", metadata: dict[str, Any] | None = None, **parameters: Any) -> ToolCallBlock:
    return ToolCallBlock(id=id, name=name, parameters=parameters, metadata=metadata or {})


def result(call_id: str, value: Any = "ok", **fields: Any) -> Content:
    return Content(speaker="tool", blocks=[ToolResponseBlock(call_id=call_id, name="w", result=value, **fields)])


def rendered(*contents: Content, ids: Any = None) -> RenderedMessages:
    thread = COHERE.render(contents, ids=ids)
    accept(thread.messages)
    return thread


@pytest.mark.parametrize(
    "wrong",
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
def test_judge_refuses(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        accept([wrong])


# ---------------------------------------------------------------- messages


def test_text_of_all_sides() -> None:
    thread = rendered(
        Content.system("Be brief.", TextBlock(text="Be kind.")),
        Content.human("Hi", TextBlock(text="there")),
        Content.ai("Hello"),
    )
    assert thread.messages == [
        {"role": "system", "content": "Be brief.\nBe kind."},
        {"role": "user", "content": "Hi\nthere"},
        {"role": "assistant", "content": "Hello"},
    ]
    assert thread.changes == []


def test_text_beside_calls_is_sent_as_the_plan() -> None:
    thread = rendered(
        Content.human("?"), Content.ai("I look.", call("a", city="Oslo"), TextBlock(text="Now.")), result("a", 21)
    )
    wire_id = thread.messages[1]["tool_calls"][0]["id"]
    assert thread.messages[1:] == [
        {
            "role": "assistant",
            "tool_plan": "I look.\nNow.",
            "tool_calls": [
                {"id": wire_id, "type": "function", "function": {"name": "w", "arguments": '{"city":"Oslo"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": wire_id, "content": "21"},
    ]


def test_own_plan_and_thinking_go_back_with_the_calls() -> None:
    thread = rendered(
        Content.ai(
            "",
            ReasoningBlock(text="hm", metadata=OWN),
            ReasoningBlock(text="I look.", kind="plan", metadata=OWN),
            call("a"),
        )
    )
    message = thread.messages[0]
    assert message["tool_plan"] == "I look."
    assert message["content"] == [{"type": "thinking", "thinking": "hm"}]
    assert thread.changes == []


def test_own_thinking_goes_back_before_the_text() -> None:
    thread = rendered(Content.ai("", ReasoningBlock(text="hm", metadata=OWN), TextBlock(text="Hi")))
    assert thread.messages[0]["content"] == [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Hi"}]


def test_texts_of_several_contents_stay_several() -> None:
    thread = rendered(Content.ai("a", TextBlock(text=""), TextBlock(text="b")))
    assert thread.messages[0]["content"] == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]


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
def test_what_an_answer_has_no_place_for_is_left_out_and_said(block: Any) -> None:
    thread = rendered(Content.ai("Hi", block))
    assert thread.messages == [{"role": "assistant", "content": "Hi"}]
    assert len(thread.changes) == 1
    assert repr(block.type) in thread.changes[0]


def test_answer_without_text_and_calls_is_left_out_and_said() -> None:
    thread = rendered(Content.ai("", ReasoningBlock(text="hm", metadata=OWN)), Content.ai(""))
    assert thread.messages == []
    assert thread.changes == ["left out an assistant message: it has neither text nor calls"]


def test_unknown_speakers_and_misplaced_blocks_are_left_out_and_said() -> None:
    thread = rendered(
        Content(speaker="narrator", blocks=[TextBlock(text="x")]),
        Content(speaker="tool", blocks=[TextBlock(text="x")]),
        Content.system("", ImageBlock(data=PIXEL)),
        Content.human("", OpaqueBlock(raw=1)),
    )
    assert thread.messages == []
    assert len(thread.changes) == 4


def test_images_of_people() -> None:
    thread = rendered(
        Content.human(
            "Look",
            ImageBlock(data=PIXEL),
            ImageBlock(data="https://e.org/a.png"),
            FileBlock(media_type="image/png", data="iVBORw0KGgo="),
            FileBlock(data=PIXEL),
            FileBlock(media_type="image/png", url="https://e.org/b.png"),
        )
    )
    (message,) = thread.messages
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
def test_image_or_file_of_another_form_is_refused(block: Any) -> None:
    with pytest.raises(UnsupportedContent):
        COHERE.render([Content.human("Look", block)])


# ---------------------------------------------------------------- calls and results


def test_results_stand_behind_their_calls_in_call_order() -> None:
    thread = rendered(Content.ai("", call("a"), call("b")), result("b", "2"), result("a", "1"), result("z", "?"))
    first, second = (made["id"] for made in thread.messages[0]["tool_calls"])
    assert [(made["tool_call_id"], made["content"]) for made in thread.messages[1:3]] == [(first, "1"), (second, "2")]
    assert thread.messages[3]["content"] == "?"


def test_results_in_the_answers_own_content() -> None:
    made = Content.ai("", call("a"), ToolResponseBlock(call_id="a", result={"t": "é"}))
    assert [message["role"] for message in rendered(made).messages] == ["assistant", "tool"]
    assert rendered(made).messages[1]["content"] == '{"t":"é"}'


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
    thread = rendered(Content.ai("", call("a")), result("a", fields.pop("value"), **fields))
    assert thread.messages[1]["content"] == text


def test_free_text_of_a_call_becomes_an_object_and_is_said() -> None:
    thread = rendered(Content.ai("", ToolCallBlock(id="a", name="w", parameters="free", kind="custom")))
    assert thread.messages[0]["tool_calls"][0]["function"]["arguments"] == '{"input":"free"}'
    assert len(thread.changes) == 1


def test_own_id_goes_back_only_where_asked() -> None:
    own = call("hist_tool_" + "a" * 24, metadata={**OWN, "raw_id": "w_2fnrphbsnr66"})
    other = call("hist_tool_" + "b" * 24, metadata={"provider": "x", "raw_id": "w_1"})
    contents = [Content.ai("", own, other), result(own.id), result(other.id)]
    plain = [made["id"] for made in rendered(*contents).messages[0]["tool_calls"]]
    assert plain == ["call_" + "a" * 24, "call_" + "b" * 24]
    origin = rendered(*contents, ids="origin").messages
    assert [made["id"] for made in origin[0]["tool_calls"]] == ["w_2fnrphbsnr66", plain[1]]
    assert [made["tool_call_id"] for made in origin[1:]] == ["w_2fnrphbsnr66", plain[1]]


def test_one_id_for_several_calls_is_told_apart_by_order() -> None:
    thread = rendered(
        Content.ai("", call("x"), call("x")), result("x", "1"), result("x", "2"), Content.ai("", call("x")), result("x")
    )
    ids = [made["id"] for message in thread.messages for made in message.get("tool_calls", ())]
    assert len(set(ids)) == 3
    answered = [
        (message["tool_call_id"], message["content"]) for message in thread.messages if "tool_call_id" in message
    ]
    assert answered == [(ids[0], "1"), (ids[1], "2"), (ids[2], "ok")]


def test_unanswered_call_of_an_earlier_round_does_not_take_a_later_ones_result() -> None:
    thread = rendered(Content.ai("", call("x")), Content.ai("", call("x")), result("x"))
    assert thread.messages[2]["tool_call_id"] == thread.messages[1]["tool_calls"][0]["id"]


# ---------------------------------------------------------------- the request

TOOLS = [
    Tool(name="f", description="Does f.", parameters={"type": "object", "properties": {"a": {"type": "string"}}}),
    Tool(name="g"),
]


def test_request_holds_what_the_conversation_decides() -> None:
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
        judge("ToolV2").validate_python(tool)
    assert set(providers.render_request([Content.human("Hi")], "cohere", stream=False)) == {"messages"}


@pytest.mark.parametrize(
    ("choice", "names", "word"),
    [
        (None, ["f", "g"], None),
        ("auto", ["f", "g"], None),
        ("none", ["f", "g"], "NONE"),
        ("required", ["f", "g"], "REQUIRED"),
        ("g", ["g"], "REQUIRED"),
    ],
)
def test_tool_choice(choice: str | None, names: list[str], word: str | None) -> None:
    body = request_of(COHERE, [], tools=TOOLS, tool_choice=choice)
    assert [tool["function"]["name"] for tool in body["tools"]] == names
    assert body.get("tool_choice") == word


@pytest.mark.parametrize("choice", [None, "auto", "none"])
def test_choice_without_tools_is_left_out(choice: str | None) -> None:
    assert request_of(COHERE, [], tool_choice=choice) == {"messages": [], "stream": True}


@pytest.mark.parametrize(("choice", "tools"), [("h", TOOLS), ("required", []), ("f", [])])
def test_choice_of_a_tool_that_is_not_there_is_refused(choice: str, tools: list[Tool]) -> None:
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


@settings(max_examples=100, deadline=None)
@given(conversations, st.sampled_from([None, "canonical", "origin"]))
def test_any_conversation_renders_to_what_the_sdk_accepts(contents: list[Content], ids: Any) -> None:
    rendered(*contents, ids=ids)
