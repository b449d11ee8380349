from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, model_serializer

from streamkit import providers
from streamkit.errors import UsageError
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
    convert_to_vercel_messages,
    repair,
)
from streamkit.ids import is_canonical
from streamkit.providers import parse_messages, render

Json = dict[str, Any]

TARGETS = ["openai_chat", "openai_responses", "anthropic", "gemini"]
PNG = "data:image/png;base64,iVBORw0KGgo="


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def calls_of(contents: list[Content]) -> list[ToolCallBlock]:
    return [block for content in contents for block in content.blocks if isinstance(block, ToolCallBlock)]


def results_of(contents: list[Content]) -> list[ToolResponseBlock]:
    return [block for content in contents for block in content.blocks if isinstance(block, ToolResponseBlock)]


# ---------------------------------------------------------------- one conversation as every provider's messages

CHAT: list[Json] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather?"},
    {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}},
            {"id": "call_2", "type": "function", "function": {"name": "clock", "arguments": "{}"}},
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": '{"t":21}'},
    {"role": "tool", "tool_call_id": "call_2", "content": "noon"},
    {"role": "assistant", "content": "21 degrees."},
]
RESPONSES: list[Json] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather?"},
    {"type": "message", "role": "assistant", "content": "I look."},
    {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": '{"city":"Oslo"}'},
    {"type": "function_call", "call_id": "call_2", "name": "clock", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "call_1", "output": '{"t":21}'},
    {"type": "function_call_output", "call_id": "call_2", "output": "noon"},
    {"type": "message", "role": "assistant", "content": "21 degrees."},
]
ANTHROPIC: list[Json] = [
    {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Oslo"}},
            {"type": "tool_use", "id": "call_2", "name": "clock", "input": {}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "call_1", "content": '{"t":21}'},
            {"type": "tool_result", "tool_use_id": "call_2", "content": "noon"},
        ],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "21 degrees."}]},
]
GEMINI: list[Json] = [
    {"role": "user", "parts": [{"text": "Weather?"}]},
    {
        "role": "model",
        "parts": [
            {"text": "I look."},
            {"functionCall": {"name": "weather", "args": {"city": "Oslo"}, "id": "call_1"}},
            {"functionCall": {"name": "clock", "args": {}, "id": "call_2"}},
        ],
    },
    {
        "role": "user",
        "parts": [
            {"functionResponse": {"name": "weather", "response": {"result": '{"t":21}'}, "id": "call_1"}},
            {"functionResponse": {"name": "clock", "response": {"result": "noon"}, "id": "call_2"}},
        ],
    },
    {"role": "model", "parts": [{"text": "21 degrees."}]},
]
VERCEL: list[Json] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather?"},
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I look."},
            {"type": "tool-call", "toolCallId": "call_1", "toolName": "weather", "input": {"city": "Oslo"}},
            {"type": "tool-call", "toolCallId": "call_2", "toolName": "clock", "input": {}},
        ],
    },
    {
        "role": "tool",
        "content": [
            {
                "type": "tool-result",
                "toolCallId": "call_1",
                "toolName": "weather",
                "output": {"type": "text", "value": '{"t":21}'},
            },
            {
                "type": "tool-result",
                "toolCallId": "call_2",
                "toolName": "clock",
                "output": {"type": "text", "value": "noon"},
            },
        ],
    },
    {"role": "assistant", "content": "21 degrees."},
]
CONVERSATIONS: dict[str, tuple[list[Json], Any]] = {
    "openai_chat": (CHAT, None),
    "openai_responses": (RESPONSES, None),
    "anthropic": (ANTHROPIC, [{"type": "text", "text": "Be brief."}]),
    "gemini": (GEMINI, {"parts": [{"text": "Be brief."}]}),
    "vercel": (VERCEL, None),
}


@pytest.mark.parametrize("provider", CONVERSATIONS)
def test_messages_of_every_provider_are_parsed_to_the_same_history(provider: str) -> None:
    messages, system = CONVERSATIONS[provider]
    contents = parse_messages(messages, provider, system=system)
    assert [content.speaker for content in contents] == ["system", "human", "ai", "tool", "ai"]
    assert [block.text for content in contents for block in content.blocks if isinstance(block, TextBlock)] == [
        "Be brief.",
        "Weather?",
        "I look.",
        "21 degrees.",
    ]
    calls, results = calls_of(contents), results_of(contents)
    assert [(call.name, call.parameters) for call in calls] == [("weather", {"city": "Oslo"}), ("clock", {})]
    assert [(result.name, result.result) for result in results] == [("weather", '{"t":21}'), ("clock", "noon")]
    assert [result.call_id for result in results] == [call.id for call in calls]
    assert all(is_canonical(call.id) for call in calls)
    assert [call.metadata["raw_id"] for call in calls] == ["call_1", "call_2"]
    assert all(block.metadata["provider"] == provider for block in [*calls, *results])  # type: ignore[attr-defined]
    assert repair(contents).changes == []


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("provider", CONVERSATIONS)
def test_parsed_messages_are_rendered_for_any_provider(provider: str, target: str) -> None:
    messages, system = CONVERSATIONS[provider]
    changes: list[str] = []
    rendered = render(parse_messages(messages, provider, system=system), target, changes=changes)
    again = parse_messages(rendered, target)
    assert [call.parameters for call in calls_of(again)] == [{"city": "Oslo"}, {}]
    assert [result.result for result in results_of(again)] == ['{"t":21}', "noon"]
    assert changes == []


def test_dialect_parses_its_own_messages() -> None:
    provider_messages = [
        {"role": "user", "content": "?"},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "hm",
            "tool_calls": [
                {"id": "functions.f:3", "type": "function", "function": {"name": "f", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "functions.f:3", "content": "ok"},
    ]
    assert render(parse_messages(provider_messages, "kimi"), "kimi") == provider_messages


def test_id_does_not_depend_on_earlier_messages() -> None:
    for provider, (messages, _) in CONVERSATIONS.items():
        place = next(n for n, message in enumerate(messages) if message.get("role") == "user")
        assert [c.id for c in calls_of(parse_messages(messages[place + 1 :], provider))] == [
            c.id for c in calls_of(parse_messages(messages, provider))
        ]


def test_repair_makes_raw_ids_of_several_turns_unique_after_pruning() -> None:
    turns = [
        [
            {
                "role": "assistant",
                "tool_calls": [{"id": "f:0", "function": {"name": "f", "arguments": f'{{"n":{number}}}'}}],
            },
            {"role": "tool", "tool_call_id": "f:0", "content": str(number)},
        ]
        for number in range(3)
    ]
    whole = repair(parse_messages([*turns[0], *turns[1], *turns[2]], "openai_chat")).contents
    pruned = repair(parse_messages([*turns[0], *turns[2]], "openai_chat")).contents
    ids = [call.id for call in calls_of(whole)]
    assert len(set(ids)) == 3
    assert [(result.call_id, result.result) for result in results_of(whole)] == list(zip(ids, "012", strict=True))
    assert [call.id for call in calls_of(pruned)] == [ids[0], ids[2]]


# ---------------------------------------------------------------- parts that only one wire has


def test_chat_keeps_unknown_parts_and_parses_legacy_function_calls() -> None:
    contents = parse_messages(
        [
            {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": PNG}},
                    {"type": "input_audio", "input_audio": {"data": "QQ==", "format": "mp3"}},
                    {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,QQ=="}},
                    {"type": "file", "file": {"file_id": "file-1"}},
                ],
            },
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": '{"a":1'}},
            {"role": "function", "name": "f", "content": "ok"},
            {"role": "assistant", "content": None, "refusal": "No.", "tool_calls": [{"id": "x", "type": "odd"}]},
            {"role": "narrator", "content": "Meanwhile"},
        ],
        "openai_chat",
    )
    assert [content.speaker for content in contents] == ["system", "human", "ai", "tool", "ai", "narrator"]
    assert contents[1].blocks == [
        ImageBlock(data=PNG),
        FileBlock(media_type="audio/mpeg", data="QQ=="),
        FileBlock(media_type="application/pdf", data="data:application/pdf;base64,QQ==", name="a.pdf"),
        OpaqueBlock(raw={"type": "file", "file": {"file_id": "file-1"}}, metadata={"provider": "openai_chat"}),
    ]
    (call,), (result,) = calls_of(contents), results_of(contents)
    assert (call.parameters, call.metadata["raw_arguments"]) == ({}, '{"a":1')
    assert result.call_id == call.id
    refused, odd = contents[4].blocks
    assert refused.metadata["refusal"] is True
    assert odd.raw == {"tool_calls": [{"id": "x", "type": "odd"}]}


def test_anthropic_keeps_thinking_server_tools_and_failed_results() -> None:
    use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}
    search_result = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    answer: list[Json] = [
        {"type": "thinking", "thinking": "hm", "signature": "SIG"},
        {"type": "redacted_thinking", "data": "XX"},
        use,
        search_result,
        {"type": "text", "text": "So", "citations": [{"url": "u"}]},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
        {"type": "tool_use", "id": "toolu_2", "name": "f", "input": {}},
    ]
    results: list[Json] = [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "boom", "is_error": True},
        {
            "type": "tool_result",
            "tool_use_id": "toolu_2",
            "content": [
                {"type": "text", "text": "see"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}},
            ],
        },
    ]
    provider_messages = [
        {"role": "user", "content": [{"type": "text", "text": "?"}]},
        {"role": "assistant", "content": answer},
        {"role": "user", "content": [*results, {"type": "text", "text": "and?"}]},
    ]
    contents = parse_messages(provider_messages, "anthropic")
    assert [content.speaker for content in contents] == ["human", "ai", "tool", "human"]
    thinking, redacted, search, text = contents[1].blocks[:4]
    assert isinstance(thinking, ReasoningBlock)
    assert (thinking.text, thinking.signature) == ("hm", "SIG")
    assert isinstance(redacted, ReasoningBlock)
    assert redacted.opaque == answer[1]
    assert isinstance(search, ServerToolBlock)
    assert (search.name, search.arguments, search.result, search.raw) == (
        "web_search",
        {"query": "q"},
        [],
        [use, search_result],
    )
    assert text.metadata["citations"] == [{"url": "u"}]
    failed, with_image = contents[2].blocks
    assert isinstance(failed, ToolResponseBlock)
    assert (failed.status, failed.error) == ("error", "boom")
    assert isinstance(with_image, ToolResponseBlock)
    assert with_image.result[1] == {"type": "image", "data": "data:image/png;base64,QQ=="}
    assert render(contents, "anthropic", ids="origin") == provider_messages


def test_anthropic_keeps_the_blocks_and_the_toolset_of_a_result() -> None:
    reference = {"type": "tool_reference", "tool_name": "get_rate"}
    state = {"type": "browser_state", "tabs": [{"tab_id": 1, "active": True}]}
    member = {"toolset_name": "browser"}
    provider_messages: list[Json] = [
        {"role": "user", "content": [{"type": "text", "text": "?"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "toolu_1", "name": "search", "input": {}},
                {"type": "tool_use", "id": "toolu_2", "name": "navigate", "input": {}, **member},
                {"type": "tool_use", "id": "toolu_3", "name": "click", "input": {}, **member},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": [reference]},
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_2",
                    "content": [{"type": "text", "text": "ok"}, state],
                    **member,
                },
                {"type": "tool_result", "tool_use_id": "toolu_3", "content": "boom", "is_error": True, **member},
            ],
        },
    ]
    changes: list[str] = []
    contents = parse_messages(provider_messages, "anthropic", changes=changes)
    assert render(contents, "anthropic", ids="origin") == provider_messages
    assert render(contents[2:], "anthropic", ids="origin", repair=False)[-1] == provider_messages[2]
    assert changes == []


def test_anthropic_keeps_the_fields_and_the_tool_changes_of_system_messages() -> None:
    addition = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "get_rate"}}
    text = {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
    provider_messages: list[Json] = [
        {"role": "user", "content": [{"type": "text", "text": "?"}]},
        {"role": "system", "content": [addition]},
        {"role": "system", "content": [text, {**addition, "type": "tool_removal"}], "clear_at": "next_user_message"},
        {"role": "system", "content": [{"type": "text", "text": "Think."}]},
        {"role": "system", "output_config": {"effort": "low"}},
        {"role": "system", "content": [{"type": "text", "text": "Now."}], "output_config": {"effort": "high"}},
        {"role": "assistant", "content": [{"type": "text", "text": "."}]},
    ]
    contents = parse_messages(provider_messages, "anthropic")
    assert [content.speaker for content in contents] == ["human", *["system"] * 5, "ai"]
    assert contents[2].blocks[0].text == "Be brief."
    assert render(contents, "anthropic") == provider_messages
    changes: list[str] = []
    other = render(contents, "openai_chat", changes=changes)
    assert [message["content"] for message in other] == ["?", "Be brief.", "Think.", "Now.", "."]
    assert changes


def test_anthropic_keeps_the_fields_of_documents_and_images() -> None:
    document: Json = {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": "Grass is green."},
        "title": "Facts",
        "context": "A draft.",
        "citations": {"enabled": True},
    }
    image: Json = {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}, "transformations": {"a": 1}}
    provider_messages: list[Json] = [
        {"role": "user", "content": [{**document, "cache_control": {"type": "ephemeral"}}, image]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [document, image]}]},
    ]
    changes: list[str] = []
    contents = parse_messages(provider_messages, "anthropic", changes=changes)
    assert render(contents, "anthropic", ids="origin") == provider_messages
    assert changes == []
    other = json.dumps(render(contents, "gemini", unsupported="text"))
    assert "citations" not in other
    assert "A draft." not in other


class Part(BaseModel):
    """A block of a message, as an SDK has it."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)

    kind: str = Field(alias="type")
    caller: str | None = None


class BrokenPart(BaseModel):
    """A block that cannot be converted."""

    @model_serializer
    def fail(self) -> Any:
        raise RuntimeError


def test_objects_of_an_sdk_in_a_message_are_read_like_dicts() -> None:
    parts = [
        Part.model_validate({"type": "thinking", "thinking": "hm", "signature": "SIG"}),
        Part.model_validate({"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": [b"hello"]}}),
    ]
    provider_messages: list[Json] = [
        {"role": "user", "content": [{"type": "text", "text": "?"}]},
        {"role": "assistant", "content": parts},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"}]},
    ]
    changes: list[str] = []
    contents = parse_messages(provider_messages, "anthropic", changes=changes)
    assert changes == []
    assert provider_messages[1]["content"] is parts
    assert render(contents, "anthropic", ids="origin") == [
        provider_messages[0],
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "SIG"},
                {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": ["aGVsbG8="]}},
            ],
        },
        provider_messages[2],
    ]
    broken = parse_messages([{"role": "user", "content": [BrokenPart()]}], "anthropic", changes=changes)
    assert broken[0].blocks[0].type == "opaque"
    text = Part.model_validate({"type": "text", "text": "x"})
    whole = parse_messages([{"role": "assistant", "content": text}], "anthropic")
    assert whole[0].blocks[0].text == "x"


def test_gemini_parses_both_spellings_and_pairs_results_without_ids_by_function_and_order() -> None:
    contents = parse_messages(
        [
            {
                "role": "model",
                "parts": [
                    {"function_call": {"name": "f", "args": {"some_key": 1}}, "thought_signature": b"\x01"},
                    {"function_call": {"name": "g", "args": {}}},
                    {"function_call": {"name": "f", "args": {"some_key": 2}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"function_response": {"name": "f", "response": {"error": "boom"}}},
                    {"function_response": {"name": "f", "response": {"output": 2}}},
                    {"function_response": {"name": "g", "response": {"result": 3}}},
                ],
            },
        ],
        "gemini",
    )
    first, second, third = calls_of(contents)
    assert len({first.id, second.id, third.id}) == 3
    assert all(is_canonical(call.id) for call in (first, second, third))
    assert (first.parameters, first.metadata["thoughtSignature"]) == ({"some_key": 1}, "AQ==")
    assert [(result.call_id, result.error, result.result) for result in results_of(contents)] == [
        (first.id, "boom", None),
        (third.id, None, {"output": 2}),
        (second.id, None, 3),
    ]


def test_gemini_keeps_signed_empty_texts_and_server_tools() -> None:
    parts: list[Json] = [
        {"text": "hm", "thought": True, "thoughtSignature": "A"},
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        {"inlineData": {"mimeType": "image/png", "data": "QQ=="}, "thoughtSignature": "B"},
        {"text": "", "thoughtSignature": "C"},
    ]
    provider_messages = [{"role": "user", "parts": [{"text": "?"}]}, {"role": "model", "parts": parts}]
    assert render(parse_messages(provider_messages, "gemini"), "gemini") == provider_messages


def test_responses_keeps_reasoning_with_its_call_and_unknown_items() -> None:
    provider_messages: list[Json] = [
        {"role": "user", "content": "?"},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}", "id": "fc_1"},
        {"type": "function_call_output", "call_id": "call_1", "output": "ok"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}},
        {"type": "computer_call", "id": "cu_1", "call_id": "call_9", "action": {"type": "screenshot"}},
        {"type": "computer_call_output", "call_id": "call_9", "output": {"type": "computer_screenshot"}},
        {"type": "custom_tool_call", "call_id": "call_2", "name": "sh", "input": "ls"},
        {"type": "custom_tool_call_output", "call_id": "call_2", "output": "a b"},
    ]  # fmt: skip
    contents = parse_messages(provider_messages, "openai_responses")
    assert contents[1].blocks[0].text == "hm"
    assert [call.kind for call in calls_of(contents)] == ["function", "function", "custom"]
    assert render(contents, "openai_responses", ids="origin") == provider_messages


def test_vercel_versions_4_and_5_are_parsed_and_rendered_with_their_ids() -> None:
    full = "call_" + "x" * 24
    old = [
        {
            "role": "assistant",
            "content": [{"type": "tool-call", "toolCallId": full, "toolName": "f", "args": {"a": 1}}],
        },
        {
            "role": "tool",
            "content": [
                {"type": "tool-result", "toolCallId": full, "toolName": "f", "result": {"b": 2}, "isError": True}
            ],
        },
    ]
    contents = parse_messages(old, "vercel")
    assert calls_of(contents)[0].id == "hist_tool_" + "x" * 24
    assert convert_to_vercel_messages(contents, version=4) == old
    new = convert_to_vercel_messages(contents)
    assert new[1]["content"][0]["output"] == {"type": "error-json", "value": {"b": 2}}
    assert [block.model_dump() for block in results_of(parse_messages(new, "vercel"))] == [
        block.model_dump() for block in results_of(contents)
    ]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ({"type": "text", "value": "ok"}, ("ok", None, None)),
        ({"type": "json", "value": [1]}, ([1], None, None)),
        ({"type": "error-text", "value": "boom"}, (None, "error", "boom")),
        ({"type": "error-json", "value": {"c": 1}}, ({"c": 1}, "error", None)),
        ({"type": "execution-denied", "reason": "no"}, (None, "denied", "no")),
        (
            {
                "type": "content",
                "value": [{"type": "media", "data": "QQ==", "mediaType": "image/png"}, {"type": "text", "text": "a"}],
            },
            (
                [{"type": "image", "data": "data:image/png;base64,QQ=="}, {"type": "text", "text": "a"}],
                None,
                None,
            ),
        ),
    ],
)
def test_vercel_outputs_are_parsed(output: Json, expected: tuple[Any, str | None, str | None]) -> None:
    part = {"type": "tool-result", "toolCallId": "1", "toolName": "f", "output": output}
    (result,) = results_of(parse_messages([{"role": "tool", "content": [part]}], "vercel"))
    assert (result.result, result.status, result.error) == expected


def test_chat_message_with_audio_images_and_citations_is_parsed() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://x/y.png"}}
    source = {"type": "url_citation", "url_citation": {"url": "u"}}
    spoken = {"id": "audio_1", "expires_at": 9, "transcript": "Hello", "data": "QQ=="}
    message = {"role": "assistant", "content": "Look", "audio": spoken, "images": [image, 3], "annotations": [source]}
    (answer,) = parse_messages([message], "openrouter")
    own = {"provider": "openrouter"}
    assert answer.blocks == [
        TextBlock(text="Look", metadata=own),
        TextBlock(text="Hello", metadata=own | {"audio": {"id": "audio_1", "expires_at": 9}}),
        FileBlock(media_type="audio/*", data="QQ==", metadata=own),
        TextBlock(text="", metadata=own | {"citations": [source]}),
        FileBlock(media_type="image/*", url="https://x/y.png", metadata=own | {"raw": image}),
        FileBlock(media_type="image/*", metadata=own | {"raw": 3}),
    ]


def test_chat_audio_message_is_rendered_by_its_id() -> None:
    provider_messages = [
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": None, "audio": {"id": "audio_1"}},
    ]
    assert render(parse_messages(provider_messages, "openai_chat"), "openai_chat") == provider_messages


def test_mistral_thinking_parts_and_openrouter_reasoning_details_are_parsed() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}], "signature": "S"}
    provider_messages: list[Json] = [
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": [thinking, {"type": "text", "text": "So"}]},
    ]
    contents = parse_messages(provider_messages, "mistral")
    assert isinstance(thought := contents[1].blocks[0], ReasoningBlock)
    assert (thought.text, thought.signature) == ("hm", "S")
    assert render(contents, "mistral", ids="origin") == provider_messages
    details = [{"type": "reasoning.text", "text": "hm", "signature": "S", "index": 0}]
    provider_messages[1] = {"role": "assistant", "content": "So", "reasoning": "hm", "reasoning_details": details}
    assert render(parse_messages(provider_messages, "openrouter"), "openrouter") == provider_messages
    alone = [provider_messages[0], {"role": "assistant", "content": "So", "reasoning_details": details}]
    assert render(parse_messages(alone, "openrouter"), "openrouter") == provider_messages


def test_chat_tool_images_and_string_parts_are_parsed() -> None:
    text, image = {"type": "text", "text": "see"}, {"type": "image_url", "image_url": PNG}
    contents = parse_messages(
        [
            {"role": "tool", "tool_call_id": "1", "content": [text, text]},
            {"role": "tool", "tool_call_id": "2", "content": [text, image]},
            {"role": "tool", "tool_call_id": "3", "content": [{"type": "odd"}]},
            {"role": "tool", "tool_call_id": 4, "content": None},
        ],
        "openai_chat",
    )
    assert [(result.metadata["raw_id"], result.result) for result in results_of(contents)] == [
        ("1", "see\nsee"),
        ("2", [{"type": "text", "text": "see"}, {"type": "image", "data": PNG}]),
        ("3", [{"type": "odd"}]),
        ("4", None),
    ]


def test_chat_file_urls_and_string_parts_are_parsed() -> None:
    address = {"type": "file", "file": {"filename": "a.pdf", "file_data": "https://x/a.pdf"}}
    texts = [
        "plain",
        {"type": "text", "text": 3},
        {"type": "image_url", "image_url": {}},
        {"type": "file", "file": 1},
    ]
    contents = parse_messages([{"role": "user", "content": [address, *texts]}], "openrouter")
    file, plain, *odd = contents[0].blocks
    assert file == FileBlock(url="https://x/a.pdf", name="a.pdf")
    assert plain == TextBlock(text="plain")
    assert [block.raw for block in odd if isinstance(block, OpaqueBlock)] == texts[1:]
    parts = ["a", {"type": "refusal", "refusal": "b"}, {"type": "odd"}]
    (answer,) = parse_messages([{"role": "assistant", "content": parts}], "xai")
    assert [block.type for block in answer.blocks] == ["text", "text", "opaque"]


def test_anthropic_string_parts_and_rare_blocks_are_parsed() -> None:
    said: list[Any] = [
        "plain",
        {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
        {"type": "document", "source": {"type": "url", "url": "https://x/a.pdf"}},
        {"type": "image", "source": {"type": "file", "file_id": "f"}},
        {"type": "document", "source": {"type": "text", "data": "t"}},
        {"type": "document", "source": "odd"},
        {"type": "image", "source": "odd"},
    ]
    late = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_0", "content": []}
    odd = {"type": "compaction", "content": "x"}
    answered: list[Any] = [
        "plain",
        late,
        odd,
        {"type": "tool_use", "id": "1", "name": "f", "input": {3: 4}, "self": 1},
        {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "one"}]},
    ]
    results = [
        {
            "type": "tool_result",
            "tool_use_id": "2",
            "is_error": True,
            "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        },
        {
            "type": "tool_result",
            "tool_use_id": "3",
            "content": [{"type": "image", "source": {"type": "url", "url": "u"}}, {"type": "search_result"}],
        },
        {"type": "tool_result", "tool_use_id": "4", "is_error": True},
    ]
    contents = parse_messages(
        [
            {"role": "user", "content": said},
            {"role": "assistant", "content": answered},
            {"role": "user", "content": results},
            {"role": "system", "content": ["Be brief.", 3]},
            {"role": "robot", "content": "?"},
        ],
        "anthropic",
    )
    assert [content.speaker for content in contents] == ["human", "ai", "tool", "tool", "system", "robot"]
    text, image, document, stored, plain, *odd_ones = contents[0].blocks
    assert (text, image) == (TextBlock(text="plain"), ImageBlock(data="https://x/y.png"))
    assert document == FileBlock(url="https://x/a.pdf")
    assert plain == FileBlock(media_type="text/plain", data="dA==")
    assert [block.raw for block in (stored, *odd_ones) if isinstance(block, OpaqueBlock)] == [said[3], *said[5:]]
    _, server, opaque, call = contents[1].blocks
    assert isinstance(server, ServerToolBlock)
    assert (server.id, server.raw) == (None, [late])
    assert isinstance(opaque, OpaqueBlock)
    assert opaque.raw == odd
    assert isinstance(call, ToolCallBlock)
    assert call.parameters == {}
    assert call.metadata == {"provider": "anthropic", "raw_id": "1", "raw_arguments": '{"3":4}', "self": 1}
    one, failed, with_image, empty = results_of(contents)
    assert (one.result, one.call_id) == ("one", call.id)
    assert (failed.error, failed.status) == ("a\nb", "error")
    assert with_image.result == [{"type": "image", "data": "u"}, {"type": "search_result"}]
    assert (empty.error, empty.status) == ("", "error")


def test_gemini_roles_files_and_string_parts_are_parsed() -> None:
    contents = parse_messages(
        [
            {"parts": ["hello", 3, {"inlineData": {"mimeType": "image/png", "data": "QQ==", "displayName": "a"}}]},
            {"role": "model", "parts": ["there", {"toolCall": {"id": "1", "toolType": "MAPS", "args": {"q": 1}}}]},
            {"role": "function", "parts": {"functionResponse": {"name": "f", "response": {"result": {"a": 1}}}}},
            {"role": "robot", "parts": []},
        ],
        "gemini",
        system=["Be brief.", 3],
    )
    assert [content.speaker for content in contents] == ["system", "human", "ai", "tool", "robot"]
    assert contents[1].blocks[2] == FileBlock(media_type="image/png", data="QQ==", name="a")
    tool = contents[2].blocks[1]
    assert isinstance(tool, ServerToolBlock)
    assert (tool.id, tool.name, tool.arguments, tool.result) == ("1", "MAPS", {"q": 1}, None)
    (result,) = results_of(contents)
    assert (result.call_id, result.result) == ("", {"result": {"a": 1}})


def test_responses_roles_and_outputs_of_several_parts_are_parsed() -> None:
    text, image = {"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": PNG}
    said: list[Any] = ["plain", {"type": "input_image", "file_id": "f"}, {"type": "input_file", "file_id": "f"}, 3]
    contents = parse_messages(
        [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": said},
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}, {"type": "odd"}]},
            {"type": "function_call_output", "call_id": "1", "output": [text, text]},
            {"type": "function_call_output", "call_id": "2", "output": [text, image]},
            {"type": "function_call_output", "call_id": "3", "output": [{"type": "input_file"}]},
            {"type": "program_output", "call_id": "4", "result": 5},
            {"role": "robot", "content": "?"},
        ],
        "openai_responses",
        system=["Be kind.", 3],
    )
    assert [content.speaker for content in contents] == ["system", "system", "human", "ai", "tool", "ai", "robot"]
    own = {"provider": "openai_responses"}
    assert contents[2].blocks == [
        TextBlock(text="plain"),
        *[OpaqueBlock(raw={"content": [part]}, metadata=own) for part in said[1:]],
    ]
    assert contents[3].blocks == [
        TextBlock(text="No.", metadata=own | {"refusal": True}),
        OpaqueBlock(raw={"content": [{"type": "odd"}]}, metadata=own),
    ]
    assert [result.result for result in results_of(contents)] == [
        "see\nsee",
        [{"type": "text", "text": "see"}, {"type": "image", "data": PNG}],
        [{"type": "input_file"}],
    ]
    (ran,) = contents[5].blocks
    assert isinstance(ran, ServerToolBlock)
    assert (ran.id, ran.name, ran.result) == ("4", "program", 5)


def test_chat_results_without_ids_pair_with_legacy_functions_in_order() -> None:
    call_messages = [{"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}]
    result_messages = [{"role": "function", "name": "f", "content": text} for text in ("1", "2")]
    contents = parse_messages([*call_messages, *result_messages], "openai_chat")
    assert [result.call_id for result in results_of(contents)] == [calls_of(contents)[0].id, ""]


def test_call_with_a_result_by_id_gets_no_result_without_an_id() -> None:
    parts = [{"functionCall": {"name": "f", "args": {"n": n}, "id": str(n)}} for n in (1, 2)]
    answers: list[Json] = [{"name": "f", "id": "1"}, {"name": "f"}]
    contents = parse_messages(
        [{"role": "model", "parts": parts}, {"parts": [{"functionResponse": answer} for answer in answers]}], "gemini"
    )
    assert [result.call_id for result in results_of(contents)] == [call.id for call in calls_of(contents)]


def test_vercel_reasoning_server_tools_and_images_are_parsed() -> None:
    ran = {"type": "tool-call", "toolCallId": "s", "toolName": "search", "input": {}, "providerExecuted": True}
    provider_messages: list[Json] = [
        {"role": "user", "content": [{"type": "image", "image": "QQ==", "mimeType": "image/png"}, {"type": "odd"}]},
        {"role": "user", "content": [{"type": "file", "data": "https://x/a.pdf", "mimeType": "application/pdf"}]},
        {"role": "assistant", "content": [{"type": "reasoning", "text": "hm", "signature": "S"}, ran, "bare"]},
        {"role": "robot", "content": "?"},
    ]
    contents = parse_messages(provider_messages, "vercel", system=["Be brief.", 3])
    assert [content.speaker for content in contents] == ["system", "human", "human", "ai", "robot"]
    assert contents[1].blocks[0] == ImageBlock(data="data:image/png;base64,QQ==")
    assert contents[2].blocks[0] == FileBlock(media_type="application/pdf", url="https://x/a.pdf")
    thought, search, _ = contents[3].blocks
    assert isinstance(thought, ReasoningBlock)
    assert (thought.text, thought.signature) == ("hm", "S")
    assert isinstance(search, ServerToolBlock)
    assert (search.id, search.name, search.raw) == ("s", "search", [ran])


def test_arguments_that_cannot_be_encoded_do_not_raise() -> None:
    loop: Json = {}
    loop[3] = loop  # type: ignore[index]
    message = {"role": "assistant", "content": [{"type": "tool_use", "name": "f", "input": loop}]}
    (call,) = calls_of(parse_messages([message], "anthropic"))
    assert (call.parameters, call.metadata["raw_arguments"]) == ({}, '{"3":"[the object that contains this]"}')


@pytest.mark.parametrize("role", ["user", "assistant", "model"])
@pytest.mark.parametrize("provider", CONVERSATIONS)
def test_empty_text_adds_no_block_and_empty_message_no_content(provider: str, role: str) -> None:
    if (provider, role) == ("gemini", "assistant"):
        role = "robot"  # parts of an assistant are a UI message
    kind = {"openai_responses": {"type": "output_text"}, "gemini": {}}.get(provider, {"type": "text"})
    for content in ("", [], None, [{**kind, "text": ""}]):
        message = {"role": role, "parts" if provider == "gemini" else "content": content}
        strange = role != "user" and (role == "model") != (provider == "gemini")
        assert [rendered.speaker for rendered in parse_messages([message], provider)] == [role] * strange


# ---------------------------------------------------------------- misuse and odd data


@pytest.mark.parametrize("messages", ["text", {"role": "user"}, [1], [{"role": "user"}, "x"], None])
@pytest.mark.parametrize("provider", CONVERSATIONS)
def test_messages_that_are_no_list_of_dicts_are_rejected(provider: str, messages: Any) -> None:
    with pytest.raises(UsageError, match=r"must be a (list of dicts|dict)"):
        parse_messages(messages, provider)


@pytest.mark.parametrize("provider", CONVERSATIONS)
def test_messages_nested_deeply_are_read(provider: str) -> None:
    nested: Any = {}
    for _ in range(20_000):
        nested = {"a": nested}
    field, part = ("parts", nested) if provider == "gemini" else ("content", {"type": "odd", "odd": nested})
    contents = parse_messages([{"role": "user", field: [part]}], provider)
    assert [block.type for block in contents[0].blocks] == ["opaque"]
    assert Content.model_validate_json(contents[0].model_dump_json()) == contents[0]
    render(contents, "openai_chat")


def test_provider_without_an_importer_raises() -> None:
    provider = providers.provider.Provider(providers.provider.Traits(name="acme", has_importer=False))
    with pytest.raises(UsageError, match="provider 'acme' cannot be converted"):
        parse_messages([], provider)
    with pytest.raises(UsageError, match="requests of the provider 'acme' cannot be read"):
        providers.parse_request({}, provider)


COHERE: list[Json] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather?"},
    {
        "role": "assistant",
        "tool_plan": "I look.",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}},
            {"id": "c2", "type": "function", "function": {"name": "clock", "arguments": "{}"}},
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": '{"t":21}'},
    {"role": "tool", "tool_call_id": "c2", "content": "noon"},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "21."}]},
]
OLLAMA: list[Json] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather?", "images": ["iVBORw0KGgo="]},
    {
        "role": "assistant",
        "content": "I look.",
        "thinking": "hm",
        "tool_calls": [
            {"function": {"name": "weather", "arguments": {"city": "Oslo"}}},
            {"id": "call_7", "function": {"name": "weather", "arguments": {"city": "Bergen"}}},
        ],
    },
    {"role": "tool", "content": "21", "tool_name": "weather"},
    {"role": "tool", "content": "9", "tool_name": "weather", "tool_call_id": "call_7"},
    {"role": "assistant", "content": "21 and 9."},
]
SIGNED = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "SIG"}}}
REDACTED = {"reasoningContent": {"redactedContent": "QQ=="}}
CITED = {"citationsContent": {"content": [{"text": "So."}], "citations": [{"title": "t"}]}}
SERVED = [
    {"toolUse": {"toolUseId": "s1", "name": "nova_grounding", "input": {}, "type": "server_tool_use"}},
    {"toolResult": {"toolUseId": "s1", "content": [{"json": {"a": 1}}], "type": "nova_grounding_result"}},
]
CONVERSE: list[Json] = [
    {
        "role": "user",
        "content": [
            {"text": "Weather?"},
            {"image": {"format": "jpeg", "source": {"bytes": "/9j/"}}},
            {"document": {"format": "pdf", "name": "report", "source": {"s3Location": {"uri": "s3://b/r.pdf"}}}},
            {"cachePoint": {"type": "default"}},
        ],
    },
    {
        "role": "assistant",
        "content": [
            SIGNED,
            REDACTED,
            *SERVED,
            CITED,
            {"text": "I look."},
            {"toolUse": {"toolUseId": "tooluse_1", "name": "weather", "input": {"city": "Oslo"}}},
            {"toolUse": {"toolUseId": "tooluse_2", "name": "clock", "input": {}}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"toolResult": {"toolUseId": "tooluse_1", "content": [{"json": {"t": 21}}]}},
            {"toolResult": {"toolUseId": "tooluse_2", "content": [{"text": "broken"}], "status": "error"}},
            {"text": "And?"},
        ],
    },
]


@pytest.mark.parametrize(
    ("provider", "messages"), [("cohere", COHERE), ("ollama", OLLAMA), ("bedrock_converse", CONVERSE)]
)
def test_messages_are_the_same_after_they_were_read_and_rendered(provider: str, messages: list[Json]) -> None:
    changes: list[str] = []
    contents = parse_messages(messages, provider, changes=changes)
    assert render(contents, provider, changes=changes) == messages
    assert changes == []
    results, calls = results_of(contents), calls_of(contents)
    assert [result.call_id for result in results] == [call.id for call in calls]
    assert repair(contents).changes == []


def test_calls_of_ollama_without_ids_have_their_results_by_order() -> None:
    contents = parse_messages(OLLAMA, "ollama")
    calls, results = calls_of(contents), results_of(contents)
    assert [call.parameters for call in calls] == [{"city": "Oslo"}, {"city": "Bergen"}]
    assert [result.result for result in results] == ["21", "9"]
    assert contents[1].blocks[1] == ImageBlock(data="data:image/png;base64,iVBORw0KGgo=")


def test_converse_keeps_what_only_it_understands() -> None:
    contents = parse_messages(CONVERSE, "bedrock_converse", system=[{"text": "a"}, {"cachePoint": {"type": "default"}}])
    assert contents[0].blocks[0].metadata == {"cache": {}}
    assert contents[1].blocks[2].metadata == {"cache": {}}
    signed, redacted, served, cited = contents[2].blocks[:4]
    assert isinstance(signed, ReasoningBlock)
    assert (signed.text, signed.signature) == ("hm", "SIG")
    assert isinstance(redacted, ReasoningBlock)
    assert redacted.opaque == REDACTED
    assert isinstance(served, ServerToolBlock)
    assert served.raw == SERVED
    assert cited.metadata["citations"] == [{"title": "t"}]
    assert [(result.result, result.error, result.status) for result in results_of(contents)] == [
        ({"t": 21}, None, None),
        (None, "broken", "error"),
    ]


def test_converse_keeps_system_messages_tool_changes_and_guarded_system_text() -> None:
    system = [{"guardContent": {"text": {"text": "a"}}}, {"text": "b"}, {"cachePoint": {"type": "default"}}]
    change = {"toolAddition": {"tool": {"type": "tool_reference", "name": "get_rate"}}}
    provider_messages: list[Json] = [
        {"role": "user", "content": [{"text": "?"}]},
        {"role": "system", "content": [change, {"text": "Be brief."}, {"cachePoint": {"type": "default"}}]},
        {"role": "assistant", "content": [{"text": "."}]},
    ]
    contents = parse_messages(provider_messages, "bedrock_converse", system=system)
    body = providers.render_request(contents, "bedrock_converse")
    assert (body["system"], body["messages"]) == (system, provider_messages)
    assert [message["content"] for message in render(contents, "openai_chat")] == ["b", "?", "Be brief.", "."]


@pytest.mark.parametrize(
    "part",
    [
        {"searchResult": {"source": "https://e.org", "title": "A page", "content": [{"text": "It says"}]}},
        {"document": {"format": "pdf", "name": "a", "source": {"bytes": "QQ=="}, "citations": {"enabled": True}}},
        {"document": {"name": "a", "source": {"text": "A text"}}},
        {"image": {"format": "png", "source": {"s3Location": {"uri": "s3://b/a.png", "bucketOwner": "123456789012"}}}},
        {"video": {"format": "mpg", "source": {"bytes": "QQ=="}}},
    ],
)
def test_converse_keeps_the_parts_of_a_result(part: Json) -> None:
    content = [{"text": "found"}, part]
    provider_messages: list[Json] = [
        {"role": "user", "content": [{"text": "?"}]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "tooluse_1", "name": "f", "input": {}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "tooluse_1", "content": content}}]},
    ]
    contents = parse_messages(provider_messages, "bedrock_converse")
    assert render(contents, "bedrock_converse", ids="origin") == provider_messages


def test_converse_reads_the_bytes_of_boto3_as_base64() -> None:
    document = {"format": "txt", "name": "a", "source": {"bytes": b"hello"}}
    image = {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}
    cited = {"document": {**document, "name": "b", "citations": {"enabled": True}}}
    use = {"toolUse": {"toolUseId": "tooluse_1", "name": "f", "input": {}}}
    provider_messages: list[Json] = [
        {"role": "user", "content": [{"text": "?"}, {"document": document}, image, cited]},
        {"role": "assistant", "content": [{"reasoningContent": {"redactedContent": b"hidden"}}, use]},
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "tooluse_1", "content": [{"document": {**document, "name": "c"}}]}}
            ],
        },
    ]
    contents = parse_messages(provider_messages, "bedrock_converse")
    assert [block.type for block in contents[0].blocks] == ["text", "file", "image", "opaque"]
    asked, answered, result = render(contents, "bedrock_converse", ids="origin")
    assert asked["content"][1]["document"]["source"] == {"bytes": "aGVsbG8="}
    assert asked["content"][2]["image"]["source"] == {"bytes": "iVBORw=="}
    assert asked["content"][3]["document"]["source"] == {"bytes": "aGVsbG8="}
    assert answered["content"][0] == {"reasoningContent": {"redactedContent": "aGlkZGVu"}}
    assert result["content"][0]["toolResult"]["content"][0]["document"]["source"] == {"bytes": "aGVsbG8="}
    assert provider_messages[0]["content"][1]["document"]["source"] == {"bytes": b"hello"}
    deep: Any = {"text": "x"}
    for _ in range(5000):
        deep = {"deep": deep}
    assert parse_messages([{"role": "user", "content": [{"text": "?"}, deep]}], "bedrock_converse")


def test_converse_reads_several_parts_of_data_and_a_failure_with_an_image() -> None:
    image = {"image": {"format": "png", "source": {"bytes": "QQ=="}}}
    uses = [{"toolUse": {"toolUseId": f"tooluse_{number}", "name": "f", "input": {}}} for number in (1, 2)]
    results = [
        {"toolResult": {"toolUseId": "tooluse_1", "content": [{"json": {"a": 1}}, {"text": "b"}, 3]}},
        {"toolResult": {"toolUseId": "tooluse_2", "content": [{"text": "broken"}, image], "status": "error"}},
    ]
    contents = parse_messages(
        [{"role": "assistant", "content": uses}, {"role": "user", "content": results}], "bedrock_converse"
    )
    several, failed = results_of(contents)
    assert several.result == [{"type": "text", "text": '{"a":1}'}, {"type": "text", "text": "b"}, 3]
    assert (failed.error, failed.status) == ("broken", "error")


def test_cohere_reads_documents_and_unknown_parts() -> None:
    contents = parse_messages(
        [
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": PNG}}, {"type": "odd"}]},
            {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}, 3]},
            {
                "role": "tool",
                "tool_call_id": "c",
                "content": [{"type": "document", "document": {"data": "a"}}, {"type": "text", "text": "b"}],
            },
            {"role": "narrator", "content": "Meanwhile"},
        ],
        "cohere",
    )
    assert [block.type for block in contents[0].blocks] == ["image", "opaque"]
    assert [block.type for block in contents[1].blocks] == ["tool_call", "opaque"]
    assert [result.result for result in results_of(contents)] == ["a\nb"]
    assert contents[3].speaker == "narrator"


WORDS = st.sampled_from(
    [
        "role", "content", "type", "text", "parts", "id", "call_id", "tool_call_id", "tool_use_id", "toolCallId",
        "name", "input", "args", "arguments", "functionCall", "functionResponse", "response", "tool_calls",
        "function", "self", "kind", "raw_id", "provider", "thoughtSignature", "signature", "thinking", "summary",
        "source", "data", "output", "image_url", "inlineData", "fileData", "executableCode", "is_error", "refusal",
        "audio", "annotations", "result", "value", "custom", "images", "reasoning_details", "file", "file_data",
        "image", "mimeType", "reasoning",
    ]
)  # fmt: skip
VALUES = st.sampled_from(
    [
        "user", "assistant", "model", "tool", "system", "function", "text", "tool_use", "tool_result", "tool-call",
        "tool-result", "function_call", "function_call_output", "reasoning", "message", "image", "document", "thinking",
        "redacted_thinking", "server_tool_use", "web_search_tool_result", "web_search_call", "program_output", "file",
        "image_url", "input_image", "input_file", "custom", "refusal", "audio", "url", "base64", "", "x", "{", "\ud800",
        "data:image/png;base64,QQ==", "error-text", "content", "json", "custom_tool_call", "input_audio", "media",
    ]
)  # fmt: skip
LEAVES = VALUES | VALUES | st.none() | st.booleans() | st.integers() | st.floats() | st.just(b"\x00")
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.integers(), inner, max_size=6),
    max_leaves=12,
)
ROLES = st.sampled_from(["user", "assistant", "model", "tool", "system", "function", None, 3, "x", "ai", "human"])
MESSAGES = st.lists(
    st.dictionaries(WORDS, TREES, max_size=5)
    | st.builds(lambda role, tree: {"role": role, "content": tree, "parts": tree}, ROLES, TREES)
    | st.builds(
        lambda role, parts: {"role": role, "content": parts, "parts": parts},
        ROLES,
        st.lists(st.dictionaries(WORDS, TREES, min_size=1, max_size=4), max_size=3),
    ),
    max_size=4,
)


@given(MESSAGES, st.sampled_from(list(CONVERSATIONS)), TREES)
def test_no_message_content_raises(messages: list[Json], provider: str, system: Any) -> None:
    changes: list[str] = []
    try:
        contents = parse_messages(messages, provider, system=system, changes=changes)
    except UsageError as error:
        assert "they look like messages of" in str(error)  # noqa: PT017
        return
    assert all(isinstance(content, Content) for content in contents)
    assert Content.model_validate_json(contents[0].model_dump_json()) == contents[0] if contents else True
    has_opaque = any(isinstance(block, OpaqueBlock) for content in contents for block in content.blocks)
    assert changes or not has_opaque
    repair(contents)


# ---------------------------------------------------------------- messages to history and back

NAMES = st.from_regex(r"[a-zA-Z][a-zA-Z0-9_-]{0,8}", fullmatch=True)
SPOKEN = st.text(min_size=1, max_size=8).filter(lambda text: text.strip() == text)
ARGUMENTS = st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=4) | st.none(), max_size=2)


@st.composite
def rounds(draw: st.DrawFn) -> list[tuple[str, list[tuple[str, str, Json, str]], str]]:
    """Draw the rounds of a conversation: a text, calls (id, name, arguments, result), the next question."""
    number = 0
    rendered = []
    for _ in range(draw(st.integers(1, 3))):
        calls = []
        for _ in range(draw(st.integers(0, 3))):
            number += 1
            calls.append((f"id_{number}", draw(NAMES), draw(ARGUMENTS), draw(st.text(max_size=6))))
        text = draw(SPOKEN) if not calls else draw(SPOKEN | st.just(""))
        rendered.append((text, calls, draw(SPOKEN)))
    return rendered


@given(rounds(), st.data())
def test_chat_messages_round_trip(drawn_rounds: Any, data: st.DataObject) -> None:
    provider_messages: list[Json] = [{"role": "system", "content": data.draw(SPOKEN)}, {"role": "user", "content": "?"}]
    for text, calls, question in drawn_rounds:
        message: Json = {"role": "assistant", "content": text or None}
        if calls:
            message["tool_calls"] = [
                {"id": call_id, "type": "function", "function": {"name": name, "arguments": compact(arguments)}}
                if data.draw(st.integers(0, 3))
                else {"id": call_id, "type": "custom", "custom": {"name": name, "input": compact(arguments)}}
                for call_id, name, arguments, _ in calls
            ]
        elif data.draw(st.booleans()):
            message = {"role": "assistant", "content": [{"type": "refusal", "refusal": text}]}
        provider_messages.append(message)
        provider_messages += [
            {"role": "tool", "tool_call_id": call_id, "content": result} for call_id, _, _, result in calls
        ]
        parts = [
            {"type": "text", "text": question},
            data.draw(
                st.sampled_from(
                    [
                        {"type": "image_url", "image_url": {"url": PNG}},
                        {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
                        {"type": "input_audio", "input_audio": {"data": "QQ==", "format": "wav"}},
                        {
                            "type": "file",
                            "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,QQ=="},
                        },
                    ]
                )
            ),
        ]
        provider_messages.append({"role": "user", "content": data.draw(st.sampled_from([question, parts]))})
    assert render(parse_messages(provider_messages, "openai_chat"), "openai_chat", ids="origin") == provider_messages


@given(rounds(), st.data())
def test_anthropic_messages_round_trip(drawn_rounds: Any, data: st.DataObject) -> None:
    system = data.draw(SPOKEN)
    provider_messages: list[Json] = [{"role": "user", "content": [{"type": "text", "text": "?"}]}]
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}}
    document = {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": "QQ=="},
        "title": "a.pdf",
    }
    for text, calls, question in drawn_rounds:
        answer: list[Json] = []
        if data.draw(st.booleans()):
            answer.append({"type": "thinking", "thinking": data.draw(SPOKEN), "signature": "SIG"})
        if data.draw(st.booleans()):
            answer.append({"type": "redacted_thinking", "data": "XX"})
        if text:
            answer.append({"type": "text", "text": text})
        if data.draw(st.booleans()):
            answer += [
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
                {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"url": "u"}]},
                {"type": "text", "text": "found"},
            ]
        answer += [
            {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
            for call_id, name, arguments, _ in calls
        ]
        provider_messages.append({"role": "assistant", "content": answer})
        said: list[Json] = []
        for call_id, _, _, result in calls:
            said.append({"type": "tool_result", "tool_use_id": call_id, "content": result})
            if data.draw(st.booleans()):
                said[-1] |= {"content": result or "boom", "is_error": True}
            elif data.draw(st.booleans()):
                said[-1]["content"] = [{"type": "text", "text": "see"}, image]
        said.append({"type": "text", "text": question})
        said += data.draw(st.lists(st.sampled_from([image, document]), max_size=2))
        provider_messages.append({"role": "user", "content": said})
    contents = parse_messages(provider_messages, "anthropic", system=system)
    assert render(contents, "anthropic", ids="origin") == provider_messages
    assert providers.render_request(contents, "anthropic")["system"] == system


@given(rounds(), st.data())
def test_gemini_messages_round_trip(drawn_rounds: Any, data: st.DataObject) -> None:
    system = data.draw(SPOKEN)
    with_ids = data.draw(st.booleans())
    provider_messages: list[Json] = [{"role": "user", "parts": [{"text": "?"}]}]
    for text, calls, question in drawn_rounds:
        parts: list[Json] = []
        if data.draw(st.booleans()):
            parts.append({"text": data.draw(SPOKEN), "thought": True, "thoughtSignature": "T"})
        if text:
            parts.append({"text": text} | data.draw(st.sampled_from([{}, {"thoughtSignature": "S"}])))
        for call_id, name, arguments, _ in calls:
            call = {"name": name, "args": arguments} | ({"id": call_id} if with_ids else {})
            parts.append({"functionCall": call} | data.draw(st.sampled_from([{}, {"thoughtSignature": "F"}])))
        provider_messages.append({"role": "model", "parts": parts})
        said: list[Json] = []
        for call_id, name, _, result in calls:
            response = data.draw(st.sampled_from([{"result": result}, {"error": "boom"}, {"output": 1, "more": [2]}]))
            answer = {"name": name, "response": response} | ({"id": call_id} if with_ids else {})
            said.append({"functionResponse": answer})
        said.append({"text": question})
        said += data.draw(
            st.lists(
                st.sampled_from(
                    [
                        {"inlineData": {"mimeType": "image/png", "data": "QQ=="}},
                        {"inlineData": {"mimeType": "application/pdf", "data": "QQ=="}},
                        {"fileData": {"fileUri": "gs://a/b", "mimeType": "video/mp4"}},
                        {"fileData": {"fileUri": "https://a/b.png"}},
                    ]
                ),
                max_size=2,
            )
        )
        provider_messages.append({"role": "user", "parts": said})
    contents = parse_messages(provider_messages, "gemini", system=system)
    assert render(contents, "gemini") == provider_messages
    assert providers.render_request(contents, "gemini")["systemInstruction"] == {"parts": [{"text": system}]}


@given(rounds(), st.data())
def test_responses_messages_round_trip(drawn_rounds: Any, data: st.DataObject) -> None:
    provider_messages: list[Json] = [{"role": "system", "content": data.draw(SPOKEN)}, {"role": "user", "content": "?"}]
    for number, (text, calls, question) in enumerate(drawn_rounds):
        has_id = data.draw(st.booleans())
        if has_id:
            provider_messages.append(
                {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "E"}
            )
        if text and has_id:
            parts = [{"type": "output_text", "text": text, "annotations": []}]
            message = {"id": f"msg_{number}", "status": "completed", "content": parts}
            provider_messages.append({"type": "message", "role": "assistant", **message})
        elif text:
            provider_messages.append({"type": "message", "role": "assistant", "content": text})
        outputs: list[Json] = []
        for call_id, name, arguments, result in calls:
            custom = data.draw(st.booleans())
            kind, field, own_id = (
                ("custom_tool_call", "input", f"ctc_{call_id}")
                if custom
                else ("function_call", "arguments", f"fc_{call_id}")
            )
            item = {"type": kind, "call_id": call_id, "name": name, field: compact(arguments)}
            provider_messages.append(item | ({"id": own_id} if has_id else {}))
            picture = [{"type": "input_image", "image_url": PNG, "detail": "auto"}]
            output = data.draw(st.sampled_from([result, picture]))
            outputs.append({"type": f"{kind}_output", "call_id": call_id, "output": output})
        provider_messages += outputs
        question_parts = [
            {"type": "input_text", "text": question},
            data.draw(
                st.sampled_from(
                    [
                        {"type": "input_image", "image_url": PNG, "detail": "auto"},
                        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,QQ=="},
                        {"type": "input_file", "file_url": "https://a/b.pdf"},
                    ]
                )
            ),
        ]
        provider_messages.append({"role": "user", "content": data.draw(st.sampled_from([question, question_parts]))})
    assert (
        render(parse_messages(provider_messages, "openai_responses"), "openai_responses", ids="origin")
        == provider_messages
    )


@given(rounds(), st.sampled_from([4, 5]), st.data())
def test_vercel_messages_round_trip(drawn_rounds: Any, version: Any, data: st.DataObject) -> None:
    provider_messages: list[Json] = [{"role": "system", "content": data.draw(SPOKEN)}, {"role": "user", "content": "?"}]
    for text, calls, question in drawn_rounds:
        call_messages: list[Json] = [{"type": "text", "text": text}] if text else []
        answered: list[Json] = []
        for call_id, name, arguments, result in calls:
            full = "call_" + call_id.rjust(24, "0")
            said: Json = {"type": "tool-call", "toolCallId": full, "toolName": name}
            came: Json = {"type": "tool-result", "toolCallId": full, "toolName": name}
            failed = data.draw(st.booleans())
            if version == 4:
                call_messages.append(said | {"args": arguments})
                answered.append(came | {"result": data.draw(st.sampled_from([result, {"a": [1]}]))})
                answered[-1] |= {"isError": True} if failed else {}
            else:
                call_messages.append(said | {"input": arguments})
                output = data.draw(
                    st.sampled_from([{"type": "text", "value": result}, {"type": "json", "value": {"a": [1]}}])
                )
                if failed:
                    output = output | {"type": f"error-{output['type']}"}
                answered.append(came | {"output": output})
        provider_messages.append({"role": "assistant", "content": call_messages if calls else text})
        if calls:
            provider_messages.append({"role": "tool", "content": answered})
        parts: list[Json] = [{"type": "text", "text": question}, {"type": "image", "image": PNG}]
        if version == 5:
            parts.append({"type": "file", "data": "QQ==", "mediaType": "application/pdf", "filename": "a.pdf"})
        provider_messages.append({"role": "user", "content": data.draw(st.sampled_from([question, parts]))})
    contents = parse_messages(provider_messages, "vercel")
    assert repair(contents).changes == []
    assert convert_to_vercel_messages(contents, version=version) == provider_messages
