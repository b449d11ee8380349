"""Chat Completions messages to history, and back."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from imported_messages import PNG, SPOKEN, Json, calls_of, compact, results_of, rounds

from streamkit.history import FileBlock, ImageBlock, OpaqueBlock, ReasoningBlock, TextBlock
from streamkit.providers import parse_messages, render


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
        OpaqueBlock(
            raw={"type": "file", "file": {"file_id": "file-1"}},
            metadata={
                "words": "[a stored file with the id file-1, which cannot be read here]",
                "provider": "openai_chat",
            },
        ),
    ]
    (call,), (result,) = calls_of(contents), results_of(contents)
    assert (call.parameters, call.metadata["raw_arguments"]) == ({}, '{"a":1')
    assert result.call_id == call.id
    refused, odd = contents[4].blocks
    assert refused.metadata["refusal"] is True
    assert odd.raw == {"tool_calls": [{"id": "x", "type": "odd"}]}


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


def test_chat_results_without_ids_pair_with_legacy_functions_in_order() -> None:
    call_messages = [{"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}]
    result_messages = [{"role": "function", "name": "f", "content": text} for text in ("1", "2")]
    contents = parse_messages([*call_messages, *result_messages], "openai_chat")
    assert [result.call_id for result in results_of(contents)] == [calls_of(contents)[0].id, ""]


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
