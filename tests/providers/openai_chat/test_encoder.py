"""Contents as chat streams: their chunks, and the turn that parsing them gives."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletionChunk

from streamkit import Turn, providers, render
from streamkit.calls import Usage
from streamkit.events import BlockEnded, Event, Finished, Reasoning, ResponseStarted, Text
from streamkit.history import (
    Block,
    Content,
    FileBlock,
    OpaqueBlock,
    ReasoningBlock,
    ServerToolBlock,
    TextBlock,
    ToolCallBlock,
    UnknownBlock,
)
from streamkit.providers.openai_chat.dialects import DIALECTS, ChatDialect
from streamkit.providers.openai_chat.writer import error_body
from streamkit.providers.provider import Provider

BY_NAME = {dialect.name: dialect for dialect in DIALECTS}
OPENAI = BY_NAME["openai_chat"]
DEEPSEEK = BY_NAME["deepseek"]
ROUTER = ChatDialect(name="router", reasoning_field="reasoning")
CALL = ToolCallBlock(id="hist_tool_" + "a" * 24, name="weather", parameters={"city": "Zürich"})


def _frames(content: Content, dialect: ChatDialect = OPENAI, **options: Any) -> list[bytes]:
    provider = Provider(dialect, "streamkit.providers.openai_chat")
    return list(provider.emit(content, response_id="chatcmpl-1", model="m", **options))


def _chunks(content: Content, dialect: ChatDialect = OPENAI, **options: Any) -> list[dict[str, Any]]:
    frames = _frames(content, dialect, **options)
    assert frames.pop() == b"data: [DONE]\n\n"
    for frame in frames:
        assert frame.startswith(b"data: {")
        assert frame.endswith(b"}\n\n")
    return [json.loads(frame[6:]) for frame in frames]


def _deltas(content: Content, dialect: ChatDialect = OPENAI, **options: Any) -> list[dict[str, Any]]:
    return [chunk["choices"][0]["delta"] for chunk in _chunks(content, dialect, **options)]


def _turn(content: Content, dialect: ChatDialect = OPENAI, **options: Any) -> Turn:
    turn = Turn(Provider(dialect, "streamkit.providers.openai_chat"), turn_key="t")
    for frame in _frames(content, dialect, **options):
        turn.feed(frame)
    turn.close()
    assert turn.error is None
    return turn


def test_text_follows_the_role_in_deltas() -> None:
    assert _deltas(Content.ai("It is 21."), delta_size=4) == [
        {"role": "assistant", "content": "", "refusal": None},
        {"content": "It i"},
        {"content": "s 21"},
        {"content": "."},
        {},
    ]


def test_arguments_follow_the_first_delta_of_a_call() -> None:
    other = ToolCallBlock(id="x", name="time")
    assert _deltas(Content.ai("", CALL, other), delta_size=12) == [
        {"role": "assistant", "content": "", "refusal": None},
        {
            "tool_calls": [
                {
                    "index": 0,
                    "id": "call_" + "a" * 24,
                    "type": "function",
                    "function": {"name": "weather", "arguments": ""},
                }
            ]
        },
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"city":"Zür'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": 'ich"}'}}]},
        {
            "tool_calls": [
                {"index": 1, "id": "call_x", "type": "function", "function": {"name": "time", "arguments": ""}}
            ]
        },
        {"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]},
        {},
    ]


def test_every_chunk_is_valid_for_the_openai_sdk_and_usage_comes_last_without_choices() -> None:
    chunks = _chunks(Content.ai("Hi", CALL), usage=Usage(10, 5, 2, 4, 3))
    parsed = [ChatCompletionChunk.model_validate(chunk, strict=True) for chunk in chunks]
    assert {(chunk.id, chunk.model, chunk.object) for chunk in parsed} == {("chatcmpl-1", "m", "chat.completion.chunk")}
    assert [chunk.usage for chunk in parsed[:-1]] == [None] * (len(parsed) - 1)
    assert parsed[-2].choices[0].finish_reason == "tool_calls"
    assert parsed[-1].choices == []
    assert parsed[-1].usage == CompletionUsage.model_validate(
        {
            "prompt_tokens": 10,
            "completion_tokens": 5,
            "total_tokens": 15,
            "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3},
            "completion_tokens_details": {"reasoning_tokens": 2},
        }
    )
    assert "usage" in chunks[0]
    assert chunks[0]["usage"] is None


def test_details_of_unknown_tokens_are_left_out() -> None:
    *_, last = _chunks(Content.ai("Hi"), usage=Usage(10, 5))
    assert last["usage"] == {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    *_, last = _chunks(Content.ai("Hi"), usage=Usage(10, 5, 0))
    assert last["usage"].keys() - {"prompt_tokens", "completion_tokens", "total_tokens"} == {
        "completion_tokens_details"
    }


@pytest.mark.parametrize(
    ("finish", "raw"),
    [
        (None, "stop"),
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "content_filter"),
        ("pause", "pause_turn"),
        ("other", "other"),
        ("error", "error"),
    ],
)
def test_finish_reasons_are_parsed_as_themselves(finish: Any, raw: str) -> None:
    chunks = _chunks(Content.ai("Hi"), finish=finish)
    assert chunks[-1]["choices"] == [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": raw}]
    turn = _turn(Content.ai("Hi"), finish=finish)
    assert turn.finish is not None
    assert turn.finish.reason == (finish or "stop")


def test_a_refusal_ends_a_response_as_filtered_content() -> None:
    (choice,) = _chunks(Content.ai("Hi"), finish="refusal")[-1]["choices"]
    assert choice["finish_reason"] == "content_filter"


def test_a_raw_id_is_sent_only_by_its_own_provider() -> None:
    call = ToolCallBlock(id=CALL.id, name="f", metadata={"provider": "openai_chat", "raw_id": "call_own"})
    for dialect, expected in [(OPENAI, "call_own"), (DEEPSEEK, "call_" + "a" * 24)]:
        first_delta = _deltas(Content.ai("", call), dialect)[1]["tool_calls"][0]
        assert first_delta["id"] == expected


def test_an_incomplete_call_stays_incomplete() -> None:
    incomplete = ToolCallBlock(
        id="x", name="f", metadata={"provider": "openai_chat", "raw_arguments": '{"a": "b', "state": "incomplete"}
    )
    [call] = _turn(Content.ai("", incomplete), finish="length").calls
    assert (call.state, call.arguments_text) == ("incomplete", '{"a": "b')


def test_custom_calls_stream_text() -> None:
    call = ToolCallBlock(id="x", name="sh", parameters="ls -l", kind="custom")
    first_delta, *argument_deltas = _deltas(Content.ai("", call), delta_size=3)[1:-1]
    assert first_delta["tool_calls"] == [
        {"index": 0, "id": "call_x", "type": "custom", "custom": {"name": "sh", "input": ""}}
    ]
    assert [delta["tool_calls"][0]["custom"]["input"] for delta in argument_deltas] == ["ls ", "-l"]
    [parsed] = _turn(Content.ai("", call)).calls
    assert (parsed.kind, parsed.arguments) == ("custom", "ls -l")


def test_reasoning_is_streamed_if_the_dialect_has_a_field() -> None:
    content = Content.ai("", ReasoningBlock(text="Which?"), TextBlock(text="Oslo."))
    assert _deltas(content, DEEPSEEK)[1:3] == [{"reasoning_content": "Which?"}, {"content": "Oslo."}]
    assert _deltas(content, OPENAI)[1:2] == [{"content": "Oslo."}]


def test_reasoning_details_are_kept_and_their_text_counts_once() -> None:
    details = [
        {"type": "reasoning.text", "text": "Which", "index": 0},
        {"type": "reasoning.text", "text": " city?", "index": 0},
        {"type": "reasoning.encrypted", "data": "AAAA==", "index": 1},
    ]
    block = ReasoningBlock(text="Which city?", metadata={"provider": "router", "reasoning_details": details})
    turn = _turn(Content.ai("", block, TextBlock(text="Oslo.")), ROUTER)
    assert turn.reasoning == "Which city?"
    assert turn.content.blocks[0].metadata["reasoning_details"] == details
    assert [block.type for block in turn.content.blocks] == ["reasoning", "text"]


def _router_details(*details: dict[str, Any]) -> tuple[list[Any], list[str]]:
    """Return the details that a client of a live stream of one block sends back, and what was left out."""
    live = providers.get("openrouter").writer(response_id="r", model="m")
    texts = [Reasoning(detail["text"]) for detail in details if "text" in detail]
    end = BlockEnded("reasoning", metadata={"reasoning_details": list(details)})
    events: list[Event] = [ResponseStarted("r", "m"), *texts, end, Text("Oslo."), Finished("stop")]
    turn = Turn("openrouter")
    turn.feed(b"".join(map(live.write, events)) + live.close())
    turn.close()
    (message,) = render([turn.content], "openrouter", model="m")
    return message["reasoning_details"], list(live.omitted)


def test_the_signature_of_a_detail_with_text_is_sent_after_its_streamed_text() -> None:
    signed = {
        "type": "reasoning.text",
        "text": "city?",
        "signature": "S==",
        "format": "anthropic-claude-v1",
        "index": 1,
    }
    first = {"type": "reasoning.text", "text": "Which ", "index": 1}
    details, omitted = _router_details(first, signed)
    assert details == [{**signed, "text": "Which city?", "index": 0}]
    assert omitted == []


def test_the_signatures_of_several_texts_are_left_out_and_reported() -> None:
    signed = {"type": "reasoning.text", "text": "One.", "signature": "S==", "index": 0}
    encrypted = {"type": "reasoning.encrypted", "data": "AAAA", "index": 2}
    details, omitted = _router_details(signed, {**signed, "text": "Two.", "index": 1}, encrypted)
    assert [detail.get("signature") for detail in details] == [None, None]
    assert details[1] == encrypted
    assert omitted == ["block_state"]


def test_a_refusal_is_not_text() -> None:
    turn = _turn(Content.ai("", TextBlock(text="I can't.", metadata={"refusal": True})))
    assert (turn.refusal, turn.text) == ("I can't.", "")


def test_citations_images_and_own_parts_are_kept_for_the_same_provider() -> None:
    own = {"provider": "openai_chat"}
    citation = {"type": "url_citation", "url_citation": {"url": "https://x"}}
    part = {"type": "widget", "data": [1.5, None]}
    blocks: list[Block] = [
        TextBlock(text="See.", metadata=own | {"citations": [citation]}),
        FileBlock(media_type="image/png", data="QQ=="),
        FileBlock(media_type="image/png", url="https://x/y.png", metadata={"raw": {"image_url": {"url": "z"}}}),
        OpaqueBlock(raw=part, metadata=own),
    ]
    blocks.insert(3, FileBlock(media_type="image/png", url="https://x/w.png"))
    text, generated, replayed, third, opaque = _turn(Content(speaker="ai", blocks=blocks)).content.blocks
    assert text.metadata["citations"] == [citation]
    assert isinstance(generated, FileBlock)
    assert (generated.media_type, generated.data, generated.url) == ("image/png", "QQ==", None)
    assert isinstance(replayed, FileBlock)
    assert replayed.url == "z"
    assert isinstance(third, FileBlock)
    assert third.url == "https://x/w.png"
    assert isinstance(opaque, OpaqueBlock)
    assert opaque.raw == part


def test_blocks_that_a_chat_stream_cannot_contain_are_left_out() -> None:
    blocks: list[Block] = [
        OpaqueBlock(raw={"type": "x"}, metadata={"provider": "gemini"}),
        ServerToolBlock(name="web_search", raw=[{}], metadata={"provider": "gemini"}),
        FileBlock(media_type="application/pdf", data="QQ=="),
    ]
    blocks.append(UnknownBlock(type="widget"))
    assert _deltas(Content.ai("", *blocks)) == [{"role": "assistant", "content": "", "refusal": None}, {}]


def test_the_signature_of_a_call_is_kept() -> None:
    extra = {"google": {"thought_signature": "S+/="}}
    call = ToolCallBlock(id="x", name="f", metadata={"provider": "openai_chat", "extra_content": extra})
    assert _turn(Content.ai("", call)).calls[0].metadata["extra_content"] == extra


def test_half_a_surrogate_pair_is_valid_json() -> None:
    block = TextBlock(text="")
    block.text = "\ud83d"  # assigned, because the constructor replaces half a pair
    assert _deltas(Content.ai("", block))[1] == {"content": "\ud83d"}


def test_a_body_of_mistral_has_one_part_of_each_kind() -> None:
    live = providers.get("mistral").writer(stream=False)
    first: list[Event] = [
        Reasoning("Which "),
        Reasoning("city?"),
        BlockEnded("reasoning", signature="S"),
        Text("Os"),
        Text("lo."),
    ]
    second: list[Event] = [
        BlockEnded("text"),
        Reasoning("So."),
        BlockEnded("reasoning"),
        Text("Bye."),
        Finished("stop"),
    ]
    for event in first + second:
        live.write(event)
    message = json.loads(live.close())["choices"][0]["message"]
    assert message["content"] == [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Which city?"}], "signature": "S"},
        {"type": "text", "text": "Oslo."},
        {"type": "thinking", "thinking": [{"type": "text", "text": "So."}]},
        {"type": "text", "text": "Bye."},
    ]


def test_error_bodies() -> None:
    assert error_body(400, "no")["error"] == {
        "message": "no",
        "type": "invalid_request_error",
        "param": None,
        "code": None,
    }
    assert error_body(401, "no")["error"]["code"] == "invalid_api_key"
    assert error_body(429, "no")["error"]["code"] == "rate_limit_exceeded"
    assert error_body(503, "no")["error"]["type"] == "server_error"
