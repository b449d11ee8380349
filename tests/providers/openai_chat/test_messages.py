"""History as chat messages and requests, validated by the official SDK's request types."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
import request_validators
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
    ServerToolBlock,
    TextBlock,
    ToolCallBlock,
    ToolResponseBlock,
    UnknownBlock,
)
from streamkit.providers.openai_chat.dialects import DIALECTS, ChatDialect
from streamkit.providers.openai_chat.messages import create_renderer
from streamkit.providers.provider import Provider, RenderedMessages, RenderOptions
from streamkit.tools import Tool, tool

BY_NAME = {dialect.name: dialect for dialect in DIALECTS}
OPENAI, DEEPSEEK, OPENROUTER, MISTRAL = (BY_NAME[name] for name in ("openai_chat", "deepseek", "openrouter", "mistral"))

PROVIDER = Provider(OPENAI, "streamkit.providers.openai_chat")

CALL = ToolCallBlock(id="hist_tool_" + "a" * 24, name="weather", parameters={"city": "Zürich"})
OTHER = ToolCallBlock(id="hist_tool_" + "b" * 24, name="time")


def render(contents: Sequence[Content], dialect: ChatDialect, **options: Any) -> RenderedMessages:
    return create_renderer(dialect, RenderOptions(**options)).render(contents)


def _result(call: ToolCallBlock, result: Any = "21", **fields: Any) -> ToolResponseBlock:
    return ToolResponseBlock(call_id=call.id, result=result, **fields)


def _tool(*blocks: Any) -> Content:
    return Content(speaker="tool", blocks=list(blocks))


def _render_valid(*contents: Content) -> RenderedMessages:
    rendered = render(contents, OPENAI)
    request_validators.openai_chat_messages(rendered.messages)
    return rendered


def _messages(*contents: Content) -> list[dict[str, Any]]:
    rendered = _render_valid(*contents)
    assert rendered.changes == []
    return rendered.messages


def test_the_messages_of_a_round() -> None:
    contents = [Content.system("Be brief."), Content.human("Weather?"), Content.ai("", CALL), _tool(_result(CALL))]
    assert _messages(*contents, Content.ai("21 degrees.")) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_" + "a" * 24,
                    "type": "function",
                    "function": {"name": "weather", "arguments": '{"city":"Zürich"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_" + "a" * 24, "content": "21"},
        {"role": "assistant", "content": "21 degrees."},
    ]


def test_results_follow_in_call_order_in_every_storage_order() -> None:
    separate = _messages(Content.ai("", CALL, OTHER), _tool(_result(OTHER, "b")), _tool(_result(CALL, "a")))
    together = _messages(Content.ai("", CALL, OTHER), _tool(_result(OTHER, "b"), _result(CALL, "a")))
    within = _messages(Content.ai("", _result(OTHER, "b"), CALL, OTHER, _result(CALL, "a")))
    assert [message.get("content") for message in separate] == [None, "a", "b"]
    assert separate == together == within


def test_results_come_before_the_text_of_the_same_content() -> None:
    contents = [Content.ai("", CALL), Content.human("And?", _result(CALL))]
    assert [message["role"] for message in _messages(*contents)] == ["assistant", "tool", "user"]


def test_a_result_without_call_and_a_call_without_result_are_rendered() -> None:
    orphan = ToolResponseBlock(call_id="gone", result="x")
    messages = _messages(_tool(orphan), Content.ai("", CALL), _tool(orphan, _result(CALL)), Content.ai("", OTHER))
    assert [message["role"] for message in messages] == ["tool", "assistant", "tool", "tool", "assistant"]
    assert [message["tool_call_id"] for message in messages if message["role"] == "tool"] == [
        "call_gone",
        "call_" + "a" * 24,
        "call_gone",
    ]


@pytest.mark.parametrize(
    ("response", "text"),
    [
        ({"result": "plain text"}, "plain text"),
        ({"result": None}, ""),
        ({"result": {"t": 21, "wo": "Zürich"}}, '{"t":21,"wo":"Zürich"}'),
        ({"result": False}, "false"),
        ({"result": None, "error": "no such city"}, "no such city"),
        ({"result": None, "status": "denied"}, "The call did not complete: denied."),
    ],
)
def test_the_text_of_a_result(response: dict[str, Any], text: str) -> None:
    block = ToolResponseBlock(call_id=CALL.id, **response)
    assert _messages(Content.ai("", CALL), _tool(block))[1]["content"] == text


@pytest.mark.parametrize(
    ("response", "text", "lost"),
    [
        ({"result": "half", "error": "interrupted", "status": "error"}, "interrupted", "result"),
        ({"result": "failed", "status": "error"}, "failed", "status"),
    ],
)
def test_what_the_text_of_a_failed_result_lacks_is_reported(response: dict[str, Any], text: str, lost: str) -> None:
    block = ToolResponseBlock(call_id=CALL.id, **response)
    rendered = _render_valid(Content.ai("", CALL), _tool(block))
    assert rendered.messages[1]["content"] == text
    (change,) = rendered.changes
    assert change.startswith(f"the {lost} of ")


def test_custom_calls_keep_their_text() -> None:
    call = ToolCallBlock(id="x", name="sh", parameters="ls -l", kind="custom")
    assert _messages(Content.ai("", call))[0]["tool_calls"] == [
        {"id": "call_x", "type": "custom", "custom": {"name": "sh", "input": "ls -l"}}
    ]


@pytest.mark.parametrize(
    ("provider", "arguments"),
    [("openai_chat", '{"a'), ("azure_openai", '{"a'), ("vllm", '{"INVALID_JSON":"{\\"a"}')],
)
def test_invalid_arguments_are_the_text_of_the_model_or_in_an_object(provider: str, arguments: str) -> None:
    call = ToolCallBlock(id="x", name="f", metadata={"provider": "openai_chat", "raw_arguments": '{"a'})
    rendered = providers.get(provider).render([Content.ai("", call)])
    assert rendered.messages[0]["tool_calls"][0]["function"]["arguments"] == arguments
    assert rendered.changes == (
        [] if arguments == '{"a' else ["the arguments of a call of 'f' were put into an object as text: they were none"]
    )


def test_written_texts_are_joined_by_a_newline_and_streamed_texts_are_not() -> None:
    streamed = [TextBlock(text=text, metadata={"provider": "anthropic"}) for text in ("It is ", "", "21.")]
    assert _messages(Content.ai("a", TextBlock(text=""), TextBlock(text="b")))[0]["content"] == "a\nb"
    assert _messages(Content.ai("", *streamed))[0]["content"] == "It is 21."
    assert _messages(Content.human("a", TextBlock(text="b")))[0]["content"] == "a\nb"
    assert _messages(Content.system("a", TextBlock(text="b")))[0]["content"] == "a\nb"


def test_there_are_no_empty_messages_or_parts() -> None:
    image = ImageBlock(data="https://x/y.png")
    assert _messages(Content.human(""), Content.system(""), Content.ai(""), _tool()) == []
    [message] = _messages(Content.human("", TextBlock(text=""), image))
    assert message["content"] == [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}]


def test_images_and_files_are_parts_in_order() -> None:
    content = Content.human(
        "Look:",
        ImageBlock(data="data:image/png;base64,QQ=="),
        FileBlock(media_type="application/pdf", data="QQ==", name="a.pdf"),
        FileBlock(data="data:text/plain;base64,QQ=="),
        FileBlock(media_type="image/jpeg", data="QQ=="),
        FileBlock(media_type="image/jpeg", url="https://x/y.jpg"),
        FileBlock(media_type="audio/mpeg", data="QQ=="),
        TextBlock(text="And?"),
    )
    rendered = _render_valid(content)
    assert rendered.changes == ["a text file became text: few servers of this wire accept such a file"]
    assert rendered.messages[0]["content"] == [
        {"type": "text", "text": "Look:"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ=="}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,QQ=="}},
        {"type": "text", "text": "A"},
        {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,QQ=="}},
        {"type": "image_url", "image_url": {"url": "https://x/y.jpg"}},
        {"type": "input_audio", "input_audio": {"data": "QQ==", "format": "mp3"}},
        {"type": "text", "text": "And?"},
    ]


@pytest.mark.parametrize(
    "block",
    [
        ImageBlock(data="QQ=="),
        ImageBlock(data="file:///tmp/x.png"),
        ImageBlock(data="data:image/svg+xml,<svg/>"),
        ImageBlock(data="data:text/html;base64,QQ=="),
        FileBlock(media_type="application/pdf", url="https://x/y.pdf"),
        FileBlock(name="nothing"),
    ],
)
def test_media_of_a_user_message_that_the_wire_cannot_carry_raise(block: Any) -> None:
    with pytest.raises(UnsupportedContent):
        render([Content.human("Look:", block)], OPENAI)


def test_blocks_without_a_field_are_left_out_and_reported() -> None:
    unknown = UnknownBlock(type="widget")
    rendered = _render_valid(
        Content.human("hi", unknown),
        Content.system("hi", ImageBlock(data="x")),
        Content.ai(
            "yes",
            ReasoningBlock(text="hm", metadata={"provider": "anthropic"}),
            ServerToolBlock(name="web_search", raw=[{"type": "x"}], metadata={"provider": "anthropic"}),
            OpaqueBlock(raw={"type": "x"}, metadata={"provider": "gemini"}),
            FileBlock(url="https://x/y.png"),
        ),
        _tool(TextBlock(text="stray")),
        Content(speaker="narrator", blocks=[TextBlock(text="Meanwhile")]),
        Content.ai("", ReasoningBlock(text="only this")),
    )
    assert rendered.messages == [
        {"role": "user", "content": "hi"},
        {"role": "system", "content": "hi"},
        {"role": "assistant", "content": "yes"},
    ]
    no_field = "an assistant message to openai_chat has no field for it"
    assert rendered.changes == [
        "left out a block of type 'widget': a user message has no field for it",
        "left out a block of type 'image': a system message contains only text",
        f"left out a block of type 'reasoning' of anthropic: {no_field}",
        f"left out a block of type 'server_tool' of anthropic: {no_field}",
        f"left out a block of type 'opaque' of gemini: {no_field}",
        f"left out a block of type 'file': {no_field}",
        "left out a block of type 'text': a tool message contains only results",
        "left out a message: its speaker 'narrator' is unknown",
        f"left out a block of type 'reasoning': {no_field}",
        "left out an assistant message: it has neither text nor calls",
    ]


def test_a_refusal_is_replayed_as_refusal_to_the_same_provider_only() -> None:
    refusal = TextBlock(text="I can't.", metadata={"provider": "openai_chat", "refusal": True})
    assert _messages(Content.ai("", refusal)) == [
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "I can't."}]}
    ]
    assert _messages(Content.ai("Well.", refusal)) == [{"role": "assistant", "content": "Well.", "refusal": "I can't."}]
    assert render([Content.ai("", refusal)], DEEPSEEK).messages == [{"role": "assistant", "content": "I can't."}]


def test_reasoning_is_replayed_in_the_dialects_field_to_the_same_provider_only() -> None:
    block = ReasoningBlock(text="Which city?", metadata={"provider": "deepseek"})
    [message] = render([Content.ai("", block, CALL)], DEEPSEEK).messages
    assert message["reasoning_content"] == "Which city?"
    assert message["content"] is None
    for dialect in (OPENAI, OPENROUTER):
        rendered = render([Content.ai("", block, CALL)], dialect)
        assert set(rendered.messages[0]) == {"role", "content", "tool_calls"}
        assert len(rendered.changes) == 1


def test_reasoning_details_are_replayed_complete() -> None:
    fragments = [
        {"type": "reasoning.text", "text": "Which", "index": 0, "format": "anthropic-claude-v1"},
        {"type": "reasoning.text", "text": " city?", "index": 0},
        {"type": "reasoning.text", "signature": "SIG", "text": None, "index": 0},
        {"type": "reasoning.encrypted", "data": "AAAA", "index": 1},
        {"type": "reasoning.encrypted", "data": "BBBB", "index": 1},
        "odd",
        {"type": "reasoning.summary", "summary": "S", "index": 2},
    ]
    block = ReasoningBlock(text="Which city?", metadata={"provider": "openrouter", "reasoning_details": fragments})
    original = json.dumps(fragments)
    [message] = render([Content.ai("Hm.", block)], OPENROUTER).messages
    assert message["reasoning"] == "Which city?"
    assert message["reasoning_details"] == [
        {
            "type": "reasoning.text",
            "text": "Which city?",
            "index": 0,
            "format": "anthropic-claude-v1",
            "signature": "SIG",
        },
        *fragments[3:],
    ]
    assert json.dumps(fragments) == original


@pytest.mark.parametrize("index", [{"index": 0}, {}], ids=["same index", "no index"])
def test_details_that_have_a_signature_each_are_not_joined(index: dict[str, int]) -> None:
    # A signature is for the text of its block alone: joined ones are refused ("Invalid `signature`").
    signed = [
        {"type": "reasoning.text", "text": text, "signature": signature, **index}
        for text, signature in (("One.", "S1"), ("Two.", "S2"))
    ]
    first, second = (
        ReasoningBlock(text=detail["text"], metadata={"provider": "openrouter", "reasoning_details": [detail]})
        for detail in signed
    )
    [message] = render([Content.ai("", first, TextBlock(text="Hm."), second, CALL)], OPENROUTER).messages
    assert message["reasoning_details"] == signed


def test_own_parts_and_signatures_are_replayed_unchanged() -> None:
    own = {"provider": "openai_chat"}
    part = {"type": "widget", "data": [1, 2]}
    signed = ToolCallBlock(
        id="x", name="f", metadata=own | {"extra_content": {"google": {"thought_signature": "Uw=="}}}
    )
    rendered = render([Content.ai("a", OpaqueBlock(raw=part, metadata=own), signed)], OPENAI)
    [message] = rendered.messages
    assert message["content"] == [{"type": "text", "text": "a"}, part]
    assert message["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "Uw=="}}
    foreign = render([Content.ai("a", OpaqueBlock(raw=part, metadata=own), signed)], DEEPSEEK)
    assert foreign.messages[0]["content"] == "a"
    assert "extra_content" not in foreign.messages[0]["tool_calls"][0]


def test_a_thought_signature_that_is_no_base64_is_left_out_with_a_sentence() -> None:
    extra = {"google": {"thought_signature": "no base64!"}, "other": {"a": 1}}
    signed = ToolCallBlock(id="x", name="f", metadata={"provider": "openai_chat", "extra_content": extra})
    rendered = render([Content.ai("a", signed)], OPENAI)
    assert rendered.messages[0]["tool_calls"][0]["extra_content"] == {"other": {"a": 1}}
    assert rendered.changes == ["a thought signature was left out: it is no base64, so Gemini refuses it"]


def test_a_call_keeps_its_raw_id_at_its_provider_unless_canonical_ids_are_requested() -> None:
    call = ToolCallBlock(id=CALL.id, name="f", metadata={"provider": "openai_chat", "raw_id": "call_own"})
    contents = [Content.ai("", call), _tool(_result(call))]
    for dialect, policy, expected in [
        (OPENAI, "canonical", "call_" + "a" * 24),
        (OPENAI, "origin", "call_own"),
        (DEEPSEEK, "origin", "call_" + "a" * 24),
    ]:
        assistant, result = render(contents, dialect, ids=policy).messages
        assert assistant["tool_calls"][0]["id"] == result["tool_call_id"] == expected


def test_kimi_gets_its_raw_ids() -> None:
    kimi = BY_NAME["kimi"]
    own = ToolCallBlock(id=CALL.id, name="f", metadata={"provider": "kimi", "raw_id": "functions.f:7"})
    foreign = ToolCallBlock(id=OTHER.id, name="g", metadata={"provider": "openai_chat", "raw_id": "call_x"})
    messages = render([Content.ai("", own, foreign), _tool(_result(own), _result(foreign))], kimi).messages
    assert [call["id"] for call in messages[0]["tool_calls"]] == ["functions.f:7", "functions.g:1"]
    assert [message["tool_call_id"] for message in messages[1:]] == ["functions.f:7", "functions.g:1"]


def test_ids_for_mistral_have_nine_characters() -> None:
    messages = render([Content.ai("", CALL), _tool(_result(CALL))], MISTRAL).messages
    call_id = messages[0]["tool_calls"][0]["id"]
    assert len(call_id) == 9
    assert call_id.isalnum()
    assert messages[1]["tool_call_id"] == call_id


# ---------------------------------------------------------------- the request


def look(city: str) -> str:
    """Look it up."""
    return city


def test_a_request_has_the_fields_that_the_conversation_decides() -> None:
    body = request_of(PROVIDER, [Content.human("hi")], tools=[tool(look)], tool_choice="auto")
    request_validators.openai_chat_request(body)
    assert body == {
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "look",
                    "description": "Look it up.",
                    "parameters": {
                        "type": "object",
                        "properties": {"city": {"type": "string"}},
                        "required": ["city"],
                        "additionalProperties": False,
                    },
                },
            }
        ],
        "tool_choice": "auto",
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_unneeded_fields_are_absent_from_a_request() -> None:
    assert request_of(PROVIDER, [Content.human("hi")], stream=False) == {
        "messages": [{"role": "user", "content": "hi"}]
    }
    body = request_of(PROVIDER, [Content.human("hi")], tools=[Tool(name="x")], stream=False)
    request_validators.openai_chat_request(body)
    assert set(body) == {"messages", "tools"}
    assert "description" not in body["tools"][0]["function"]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("none", "none"),
        ("required", "required"),
        ("look", {"type": "function", "function": {"name": "look"}}),
    ],
)
def test_the_tool_choice_of_a_request(choice: str, expected: Any) -> None:
    body = request_of(PROVIDER, [Content.human("hi")], tools=[tool(look)], tool_choice=choice)
    request_validators.openai_chat_request(body)
    assert body["tool_choice"] == expected


def test_an_impossible_tool_choice_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"tool_choice 'lok' is not .* nor one of the tools: look"):
        request_of(PROVIDER, [], tools=[tool(look)], tool_choice="lok")
    for choice in ("required", "look"):
        with pytest.raises(UsageError, match="there are no tools"):
            request_of(PROVIDER, [], tool_choice=choice)
    for choice in ("auto", "none"):
        assert "tool_choice" not in request_of(PROVIDER, [], tool_choice=choice)


# ---------------------------------------------------------------- random histories

TEXT = st.text(max_size=4)
OBJECTS = st.dictionaries(TEXT, st.none() | st.integers() | TEXT | st.lists(TEXT, max_size=2), max_size=2)
IDS = st.sampled_from(["hist_tool_" + "a" * 24, "hist_tool_" + "b" * 24, "", "x", "call_1", "a|b", "é" * 50])
META = st.sampled_from([{}, {"provider": "openai_chat", "raw_id": "call_7"}, {"provider": "anthropic"}])
BLOCKS = st.one_of(
    st.builds(TextBlock, text=TEXT, metadata=META | st.just({"provider": "openai_chat", "refusal": True})),
    st.builds(ImageBlock, data=st.just("https://x/y.png")),
    st.builds(FileBlock, data=st.just("QQ=="), media_type=st.sampled_from(["application/pdf", "image/png", None])),
    st.builds(ToolCallBlock, id=IDS, name=st.just("f"), parameters=OBJECTS, metadata=META),
    st.builds(ToolCallBlock, id=IDS, name=st.just("f"), parameters=TEXT, kind=st.just("custom"), metadata=META),
    st.builds(ToolResponseBlock, call_id=IDS, result=st.none() | TEXT | OBJECTS, error=st.none() | TEXT),
    st.builds(ReasoningBlock, text=TEXT, metadata=META),
    st.builds(ServerToolBlock, raw=st.just([{}]), metadata=META),
    st.just(UnknownBlock(type="widget")),
)
CONTENTS = st.lists(
    st.builds(
        Content,
        speaker=st.sampled_from(["human", "ai", "tool", "system", "narrator"]),
        blocks=st.lists(BLOCKS, max_size=4),
    ),
    max_size=5,
)


@given(CONTENTS, st.sampled_from(["canonical", "origin", None]))
def test_any_history_matches_the_sdk_types_and_every_omission_is_reported(contents: list[Content], policy: Any) -> None:
    original = [content.model_dump_json() for content in contents]
    rendered = render(contents, OPENAI, ids=policy)
    request_validators.openai_chat_messages(rendered.messages)
    assert [content.model_dump_json() for content in contents] == original
    known = [content for content in contents if content.speaker != "narrator"]
    results = [block for content in known for block in content.blocks if isinstance(block, ToolResponseBlock)]
    assert len([message for message in rendered.messages if message["role"] == "tool"]) == len(results)
    calls = [
        block
        for content in known
        if content.speaker == "ai"
        for block in content.blocks
        if isinstance(block, ToolCallBlock)
    ]
    assert sum(len(message.get("tool_calls", ())) for message in rendered.messages) == len(calls)
    if any(isinstance(block, UnknownBlock) for content in known for block in content.blocks):
        assert any("widget" in change for change in rendered.changes)


@given(CONTENTS)
def test_rendering_is_deterministic(contents: list[Content]) -> None:
    assert render(contents, DEEPSEEK) == render(contents, DEEPSEEK)


def test_an_image_of_a_tool_follows_all_results_in_a_user_message() -> None:
    pixel = "data:image/png;base64,iVBORw0KGgo="
    contents = [
        Content.human("Look."),
        Content(
            speaker="ai",
            blocks=[ToolCallBlock(id="call_a", name="see"), ToolCallBlock(id="call_b", name="hear")],
        ),
        Content(
            speaker="tool",
            blocks=[
                ToolResponseBlock(call_id="call_a", name="see", result="a picture"),
                ImageBlock(data=pixel),
                ToolResponseBlock(call_id="call_b", name="hear", result="a sound"),
            ],
        ),
    ]
    rendered = render(contents, ChatDialect(name="openai_chat"))
    assert [message["role"] for message in rendered.messages] == ["user", "assistant", "tool", "tool", "user"]
    parts = rendered.messages[-1]["content"]
    assert [part["type"] for part in parts] == ["text", "image_url"]
    assert parts[1]["image_url"]["url"] == pixel
    assert len(rendered.changes) == 1


def test_a_message_of_an_unknown_speaker_is_left_out() -> None:
    contents = [Content(speaker="robot", blocks=[ToolResponseBlock(call_id="call_a", name="see", result="x")])]
    rendered = render(contents, ChatDialect(name="openai_chat"))
    assert rendered.messages == []
    assert len(rendered.changes) == 1
