"""The UI messages of the Vercel AI SDK, as ``useChat`` sends them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit import parse_messages, render, render_request
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
    repair,
)
from streamkit.history.vercel_ui import parse_vercel_ui_messages
from streamkit.ids import is_canonical
from streamkit.providers.registry import npm_state

Json = dict[str, Any]
PNG = "data:image/png;base64,iVBORw0KGgo="


def read(*parts: Json, role: str = "assistant") -> list[Content]:
    return parse_messages([{"id": "1", "role": role, "parts": list(parts)}], "vercel_ui")


def tool_part(state: str, call_id: str = "c1", name: str = "weather", **more: Any) -> Json:
    return {"type": f"tool-{name}", "toolCallId": call_id, "state": state, "input": {"city": "Oslo"}, **more}


def result_of(contents: list[Content]) -> ToolResponseBlock:
    (block,) = [block for content in contents for block in content.blocks if isinstance(block, ToolResponseBlock)]
    return block


def test_a_users_text_and_files_are_read() -> None:
    (content,) = read(
        {"type": "text", "text": "Look"},
        {"type": "file", "mediaType": "image/png", "url": PNG, "filename": "a.png"},
        {"type": "file", "mediaType": "application/pdf", "url": "https://e.org/a.pdf", "filename": "a.pdf"},
        {"type": "file", "mediaType": "application/pdf", "url": "data:application/pdf;base64,JVBE"},
        role="user",
    )
    assert content.speaker == "human"
    assert content.blocks == [
        TextBlock(text="Look"),
        ImageBlock(data=PNG, metadata={"name": "a.png"}),
        FileBlock(media_type="application/pdf", url="https://e.org/a.pdf", name="a.pdf"),
        FileBlock(media_type="application/pdf", data="data:application/pdf;base64,JVBE"),
    ]
    assert render([content], "anthropic")


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (tool_part("output-available", output={"t": 21}), {"result": {"t": 21}, "status": None, "error": None}),
        (tool_part("output-available", output=None), {"result": None, "status": None, "error": None}),
        (tool_part("output-error", errorText="no such city"), {"status": "error", "error": "no such city"}),
        (
            tool_part("output-denied", approval={"id": "a", "approved": False, "reason": "too far"}),
            {"status": "denied", "error": "too far"},
        ),
        (
            tool_part("output-denied", approval={"id": "a", "approved": False}),
            {"status": "denied", "error": "Tool execution denied."},
        ),
        (tool_part("approval-responded", approval={"id": "a", "approved": False}), {"status": "denied"}),
        (
            {**tool_part("output-available", output="x"), "type": "dynamic-tool", "toolName": "weather"},
            {"result": "x", "status": None},
        ),
    ],
)
def test_a_tool_part_with_an_output_is_a_call_and_its_result(part: Json, expected: Json) -> None:
    contents = read(part, {"type": "step-start"}, {"type": "text", "text": "Done."})
    assert [content.speaker for content in contents] == ["ai", "tool", "ai"]
    (call,) = contents[0].blocks
    assert isinstance(call, ToolCallBlock)
    assert (call.name, call.parameters, call.metadata["raw_id"]) == ("weather", {"city": "Oslo"}, "c1")
    assert is_canonical(call.id)
    result = result_of(contents)
    assert (result.call_id, result.name) == (call.id, "weather")
    assert {name: getattr(result, name) for name in expected} == expected
    assert repair(contents).changes == []


@pytest.mark.parametrize(
    "part",
    [
        tool_part("input-available"),
        tool_part("approval-requested", approval={"id": "a"}),
        tool_part("approval-responded", approval={"id": "a", "approved": True}),
    ],
)
def test_a_tool_part_without_an_output_is_a_call(part: Json) -> None:
    (content,) = read(part)
    (call,) = content.blocks
    assert isinstance(call, ToolCallBlock)
    assert call.metadata.get("approval") == part.get("approval")


def test_the_arguments_of_an_invalid_call_are_its_raw_input() -> None:
    part = {"type": "tool-f", "toolCallId": "c", "state": "output-error", "rawInput": "{", "errorText": "bad"}
    call = read(part)[0].blocks[0]
    assert isinstance(call, ToolCallBlock)
    assert (call.parameters, call.metadata["raw_arguments"]) == ({}, "{")


def test_a_tools_name_may_have_dashes() -> None:
    (call,) = read(tool_part("input-available", name="get-weather-now"))[0].blocks
    assert isinstance(call, ToolCallBlock)
    assert call.name == "get-weather-now"


def test_each_step_is_a_round() -> None:
    contents = read(
        {"type": "step-start"},
        {"type": "reasoning", "text": "Hm", "state": "done", "providerMetadata": {"anthropic": {"signature": "s"}}},
        {"type": "text", "text": "I look.", "state": "done"},
        tool_part("output-available", "c1", output="1"),
        tool_part("output-available", "c2", output="2"),
        {"type": "step-start"},
        tool_part("output-available", "c3", output="3"),
        {"type": "step-start"},
        {"type": "text", "text": "All done."},
    )
    assert [(content.speaker, [block.type for block in content.blocks]) for content in contents] == [
        ("ai", ["reasoning", "text", "tool_call", "tool_call"]),
        ("tool", ["tool_response", "tool_response"]),
        ("ai", ["tool_call"]),
        ("tool", ["tool_response"]),
        ("ai", ["text"]),
    ]
    reasoning = contents[0].blocks[0]
    assert isinstance(reasoning, ReasoningBlock)
    assert (reasoning.signature, reasoning.metadata) == ("s", {"provider": "anthropic"})
    body = render_request([Content.human("?"), *contents], "anthropic")
    assert [message["role"] for message in body["messages"]] == [
        "user", "assistant", "user", "assistant", "user", "assistant",
    ]  # fmt: skip


def test_a_tool_of_the_provider_is_a_server_tool() -> None:
    (content,) = read(tool_part("output-available", providerExecuted=True, output=[1]), {"type": "text", "text": "x"})
    server, text = content.blocks
    assert isinstance(server, ServerToolBlock)
    assert (server.id, server.name, server.arguments, server.result) == ("c1", "weather", {"city": "Oslo"}, [1])
    assert text.type == "text"


@pytest.mark.parametrize(
    "part",
    [
        tool_part("input-streaming"),
        {"type": "source-url", "sourceId": "1", "url": "https://e.org"},
        {"type": "source-document", "sourceId": "1", "mediaType": "text/plain", "title": "t"},
        {"type": "data-weather", "data": {"t": 1}},
        {"type": "something-new"},
        {"type": "text"},
    ],
)
def test_other_parts_are_kept_and_reported(part: Json) -> None:
    changes: list[str] = []
    (content,) = parse_messages([{"role": "assistant", "parts": [part]}], "vercel_ui", changes=changes)
    (block,) = content.blocks
    assert isinstance(block, OpaqueBlock)
    assert block.raw == part
    assert len(changes) == 1
    assert render([Content.human("?"), content], "openai_chat")


def test_messages_of_version_4_are_read() -> None:
    contents = parse_messages(
        [
            {
                "role": "user",
                "content": "Look",
                "experimental_attachments": [{"url": PNG, "contentType": "image/png", "name": "a"}],
            },
            {
                "role": "assistant",
                "content": "21 degrees.",
                "toolInvocations": [
                    {
                        "state": "result",
                        "toolCallId": "c1",
                        "toolName": "weather",
                        "args": {"city": "Oslo"},
                        "result": 21,
                        "step": 0,
                    }
                ],
            },
            {
                "role": "assistant",
                "content": "",
                "parts": [
                    {"type": "reasoning", "reasoning": "Hm", "details": [{"type": "text", "text": "Hm"}]},
                    {
                        "type": "tool-invocation",
                        "toolInvocation": {"state": "call", "toolCallId": "c2", "toolName": "f", "args": {}},
                    },
                ],
            },
        ],
        "vercel_ui",
    )
    assert [(content.speaker, [block.type for block in content.blocks]) for content in contents] == [
        ("human", ["image", "text"]),
        ("ai", ["tool_call"]),
        ("tool", ["tool_response"]),
        ("ai", ["text"]),
        ("ai", ["reasoning", "tool_call"]),
    ]
    assert result_of(contents).result == 21


WORDS = st.sampled_from(
    ["role", "parts", "type", "text", "state", "toolCallId", "toolName", "input", "output", "errorText", "approval",
     "approved", "reason", "providerExecuted", "url", "mediaType", "filename", "content", "toolInvocations",
     "toolInvocation", "experimental_attachments", "rawInput", "reasoning", "data", "id", "providerMetadata",
     "callProviderMetadata", "resultProviderMetadata", "streamkit", "provider", "metadata", "signature", "raw",
     "raw_id", "kind", "refusal", "opaque", "google", "openai", "thoughtSignature", "itemId",
     "reasoningEncryptedContent"]
)  # fmt: skip
VALUES = st.sampled_from(
    ["user", "assistant", "system", "text", "reasoning", "file", "tool-f", "dynamic-tool", "step-start", "data-x",
     "tool-invocation", "input-streaming", "input-available", "output-available", "output-error", "output-denied",
     "result", "call", "\ud800", "", PNG, None, True, False, 1, 10**4000, float("nan")]
)  # fmt: skip
TREES = st.recursive(VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4))


@given(st.lists(st.dictionaries(WORDS, TREES, max_size=4), max_size=3))
def test_no_message_content_raises(messages: list[Json]) -> None:
    contents = parse_vercel_ui_messages(messages, npm_state)
    for content in contents:
        assert Content.model_validate_json(content.model_dump_json()) == content
    repair(contents)


TEXT = {"type": "text", "text": "b"}


@pytest.mark.parametrize(
    ("provider", "parts", "first"),
    [
        (
            "anthropic",
            [{"type": "reasoning", "text": "Hm.", "providerMetadata": {"anthropic": {"signature": "c2ln"}}}],
            {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        ),
        (
            "anthropic",
            [{"type": "reasoning", "text": "", "providerMetadata": {"anthropic": {"redactedData": "cmVk"}}}],
            {"type": "redacted_thinking", "data": "cmVk"},
        ),
        (
            "bedrock_converse",
            [{"type": "reasoning", "text": "Hm.", "providerMetadata": {"bedrock": {"signature": "c2ln"}}}],
            {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}},
        ),
        (
            "gemini",
            [{"type": "reasoning", "text": "Hm.", "providerMetadata": {"google": {"thoughtSignature": "c2ln"}}}],
            {"text": "Hm.", "thought": True, "thoughtSignature": "c2ln"},
        ),
        (
            "gemini",
            [tool_part("output-available", output=1, callProviderMetadata={"vertex": {"thoughtSignature": "c2ln"}})],
            {
                "functionCall": {"name": "weather", "args": {"city": "Oslo"}, "id": "c1"},
                "thoughtSignature": "c2ln",
            },
        ),
    ],
)
def test_what_npm_ai_has_kept_goes_back_to_its_provider(provider: str, parts: list[Json], first: Json) -> None:
    assistant = next(message for message in render(read(*parts, TEXT), provider) if message["role"] != "user")
    assert assistant["parts" if provider == "gemini" else "content"][0] == first
    other = "anthropic" if provider == "gemini" else "gemini"
    assert all(secret not in str(render(read(*parts, TEXT), other)) for secret in ("c2ln", "cmVk"))


def test_a_reasoning_item_of_npm_ai_is_one_whatever_its_summaries() -> None:
    def of_item(item_id: str, **more: str) -> Json:
        return {"openai": {"itemId": item_id, **more}}

    items = render(
        read(
            {
                "type": "reasoning",
                "text": "One.",
                "providerMetadata": of_item("rs_1", reasoningEncryptedContent="ZW5j"),
            },
            {
                "type": "reasoning",
                "text": "Two.",
                "providerMetadata": of_item("rs_1", reasoningEncryptedContent="ZW5j"),
            },
            {**TEXT, "providerMetadata": of_item("msg_1")},
            tool_part("output-available", "call_1", output=1, callProviderMetadata=of_item("fc_1")),
        ),
        "openai_responses",
    )
    summary = [{"type": "summary_text", "text": "One.\n\nTwo."}]
    assert items[0] == {"type": "reasoning", "summary": summary, "encrypted_content": "ZW5j"}
    assert [item.get("call_id") for item in items[1:]] == [None, "call_1", "call_1"]


def test_what_is_kept_for_an_unknown_provider_stays_with_its_part() -> None:
    kept = {"acme": {"signature": "c2ln"}, "other": 1}
    (content,) = read({**TEXT, "providerMetadata": kept})
    assert content.blocks[0].metadata == {"providerMetadata": kept, "provider": "vercel"}
    url = "https://e.org/a.png"
    sent = {"streamkit": {"provider": "gemini", "raw": {"fileData": {"fileUri": url}}}}
    (content,) = read({"type": "file", "mediaType": "image/png", "url": url, "providerMetadata": sent})
    metadata = {"provider": "gemini", "raw": {"fileData": {"fileUri": url}}}
    assert content.blocks == [FileBlock(media_type="image/png", url=url, metadata=metadata)]


def test_a_preliminary_output_is_no_result() -> None:
    (content,) = read(tool_part("output-available", output="half", preliminary=True))
    assert [block.type for block in content.blocks] == ["tool_call"]
