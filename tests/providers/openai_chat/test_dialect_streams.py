"""Streams of the dialects: what each sends, that parsing them again gives the same turn, and reasoning sent back."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_streams import chat, run

import streamkit
from streamkit import Turn, providers
from streamkit.calls import Usage
from streamkit.history import Block, Content, FileBlock, ReasoningBlock, ServerToolBlock, TextBlock, ToolCallBlock
from streamkit.providers.openai_chat.dialects import DIALECTS, ChatDialect

BY_NAME = {dialect.name: dialect for dialect in DIALECTS}
CALL = ToolCallBlock(id="hist_tool_" + "a" * 24, name="weather", parameters={"city": "Oslo"})


def _messages(contents: list[Content], provider: Any) -> list[dict[str, Any]]:
    """Return the messages of the provider itself, without the repair that ``render`` does before."""
    return providers.get(provider).render(contents).messages


def _reasoning_block(name: str, **fields: Any) -> ReasoningBlock:
    return ReasoningBlock(text="Which city?", metadata={"provider": name}, **fields)


# ---------------------------------------------------------------- streams


def _frames(name: str, content: Content, **options: Any) -> list[bytes]:
    return list(providers.get(name).emit(content, response_id="chatcmpl-1", model="m", **options))


def _chunks(name: str, content: Content, **options: Any) -> list[dict[str, Any]]:
    return [json.loads(frame[6:]) for frame in _frames(name, content, **options) if frame.startswith(b"data: {")]


def _turn(name: str, content: Content, **options: Any) -> Turn:
    turn, _ = run(name, _frames(name, content, **options))
    return turn


USAGE = Usage(10, 7, 2, 4)
FIGURES = {
    "prompt_tokens": 10,
    "completion_tokens": 7,
    "total_tokens": 17,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 2},
}


@pytest.mark.parametrize("name", ["mistral", "groq", "xai"])
def test_dialects_with_complete_calls_send_each_call_in_one_chunk(name: str) -> None:
    chunks = _chunks(name, Content.ai("", CALL, CALL.model_copy(update={"id": "other"})), delta_size=1)
    calls = [
        call for chunk in chunks if chunk["choices"] for call in chunk["choices"][0]["delta"].get("tool_calls", [])
    ]
    assert [call["function"] for call in calls] == [{"name": "weather", "arguments": '{"city":"Oslo"}'}] * 2


def test_mistral_sends_usage_with_the_finish_reason() -> None:
    *_, call, last = _chunks("mistral", Content.ai("", CALL), usage=USAGE)
    assert call["choices"][0]["delta"]["tool_calls"][0]["function"]["name"] == "weather"
    assert last["choices"][0]["finish_reason"] == "tool_calls"
    assert last["usage"] == FIGURES
    assert "usage" not in call


def test_mistral_streams_thinking_as_parts() -> None:
    chunks = _chunks("mistral", Content.ai("", _reasoning_block("mistral", signature="S"), TextBlock(text="Oslo.")))
    assert [chunk["choices"][0]["delta"]["content"] for chunk in chunks[1:-1]] == [
        [{"type": "thinking", "thinking": [{"type": "text", "text": "Which city?"}]}],
        [{"type": "thinking", "thinking": [], "signature": "S"}],
        "Oslo.",
    ]


def test_groq_sends_usage_in_x_groq() -> None:
    *_, last = _chunks("groq", Content.ai("Hi"), usage=USAGE)
    assert last["x_groq"]["usage"] == last["usage"] == FIGURES
    assert last["choices"][0]["finish_reason"] == "stop"


def test_kimi_sends_usage_in_the_choice_and_ids_of_its_own_form() -> None:
    chunks = _chunks("kimi", Content.ai("", CALL), usage=USAGE)
    assert chunks[-1]["choices"][0]["usage"] == FIGURES
    assert chunks[1]["choices"][0]["delta"]["tool_calls"][0]["id"] == "functions.weather:0"


def test_xai_counts_reasoning_separately() -> None:
    *_, last = _chunks("xai", Content.ai("Hi"), usage=USAGE)
    assert (last["usage"]["completion_tokens"], last["usage"]["total_tokens"]) == (5, 17)
    assert _turn("xai", Content.ai("Hi"), usage=USAGE).usage == Usage(10, 7, 2, 4, None, last["usage"])


def test_azure_starts_with_the_filter_results_of_the_prompt() -> None:
    first, second, *_ = _chunks("azure_openai", Content.ai("Hi"))
    assert (first["choices"], first["id"], first["object"]) == ([], "", "")
    assert first["prompt_filter_results"][0]["prompt_index"] == 0
    assert second["id"] == "chatcmpl-1"
    assert _turn("azure_openai", Content.ai("Hi")).response_id == "chatcmpl-1"


def test_openrouter_starts_with_a_comment_and_repeats_finish_reason_and_reasoning() -> None:
    content = Content.ai("Hi", ReasoningBlock(text="Hm.", kind="summary"))
    assert _frames("openrouter", content)[0] == b": OPENROUTER PROCESSING\n\n"
    chunks = _chunks("openrouter", content, usage=USAGE)
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks[-2:]] == ["stop", "stop"]
    assert chunks[-1]["usage"] == FIGURES
    assert chunks[2]["choices"][0]["delta"] == {
        "reasoning": "Hm.",
        "reasoning_details": [{"type": "reasoning.summary", "summary": "Hm.", "index": 0}],
    }
    turn = _turn("openrouter", content)
    assert isinstance(turn.content.blocks[1], ReasoningBlock)
    assert turn.content.blocks[1].kind == "summary"


def test_openrouter_sends_an_error_in_the_stream() -> None:
    turn = _turn("openrouter", Content.ai("Hi"), finish="error")
    assert turn.error is not None
    assert (turn.error.kind, turn.error.status, turn.text) == ("provider_error", 502, "Hi")


def test_perplexity_uses_crlf_and_sends_no_done() -> None:
    text = TextBlock(text="Yes.", metadata={"provider": "perplexity", "citations": [{"url": "https://a"}, "https://b"]})
    frames = _frames("perplexity", Content.ai("", text), usage=USAGE)
    assert all(frame.endswith(b"\r\n\r\n") for frame in frames)
    assert b"[DONE]" not in frames[-1]
    turn, _ = run("perplexity", frames)
    assert turn.error is None
    assert turn.content.blocks[0].metadata["citations"] == [{"url": "https://a"}, "https://b"]


# ---------------------------------------------------------------- parse, encode, parse

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
BASE64 = st.binary(min_size=1, max_size=9).map(lambda data: b64encode(data).decode())


def _citations(dialect: ChatDialect) -> st.SearchStrategy[list[Any]]:
    if dialect.thinking_parts:
        return st.lists(st.builds(lambda number: {"type": "reference", "reference_ids": [number]}, st.integers()))
    if dialect.stream.source_lists:
        return st.lists(st.integers(0, 9).map("https://{}".format), unique=True, max_size=3)
    return st.lists(st.builds(lambda url: {"type": "url_citation", "url_citation": {"url": url}}, TEXT), max_size=2)


def _blocks(dialect: ChatDialect) -> st.SearchStrategy[Block]:
    own = {"provider": dialect.name}
    kinds: list[st.SearchStrategy[Any]] = [
        st.builds(TextBlock, text=TEXT, metadata=st.just(own)),
        st.builds(
            lambda text, citations: TextBlock(
                text=text, metadata=own | ({"citations": citations} if citations else {})
            ),
            TEXT,
            _citations(dialect),
        ),
        st.builds(
            lambda text, token: TextBlock(text=text, metadata=own | {"logprobs": [{"token": token}]}), TEXT, TEXT
        ),
        st.builds(TextBlock, text=TEXT, metadata=st.just(own | {"refusal": True})),
        st.builds(ReasoningBlock, text=TEXT, metadata=st.just(own)),
        st.builds(
            ToolCallBlock,
            id=st.uuids().map(str),
            name=st.sampled_from(["f", "get_weather"]),
            parameters=st.dictionaries(TEXT, VALUES, max_size=3),
            metadata=st.just(own),
        ),
        st.builds(
            ToolCallBlock,
            id=st.uuids().map(str),
            name=st.just("sh"),
            parameters=TEXT,
            kind=st.just("custom"),
            metadata=st.just(own),
        ),
        st.builds(FileBlock, media_type=st.just("image/png"), data=BASE64),
        st.builds(FileBlock, media_type=st.just("audio/*"), data=BASE64),
        st.builds(lambda text: TextBlock(text=text, metadata=own | {"audio": {"id": "a", "expires_at": 1}}), TEXT),
    ]
    if dialect.thinking_parts:
        kinds.append(st.builds(ReasoningBlock, text=TEXT, signature=TEXT, metadata=st.just(own)))
    if dialect.name == "groq":
        kinds.append(
            st.builds(
                lambda index, output: ServerToolBlock(
                    raw=[{"index": index, "type": "search", "arguments": "{}", "output": output}], metadata=own
                ),
                st.integers(0, 3),
                TEXT,
            )
        )
    return st.one_of(kinds)


def _state(turn: Turn) -> dict[str, Any]:
    state = turn.to_dict()
    state["content"] = turn.content.model_dump()
    return state


def _is_transcript(block: Block) -> bool:
    return isinstance(block, TextBlock) and "audio" in block.metadata


def _arguments(block: ToolCallBlock, dialect: ChatDialect) -> Any:
    """Return the arguments as the dialect's stream has them: without custom calls, those of a function of one text."""
    is_wrapped = block.kind == "custom" and not dialect.custom_calls
    return {"input": block.parameters} if is_wrapped else block.parameters


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_NAME)
@given(st.data(), st.integers(1, 20), st.integers(1, 20))
def test_parsing_an_encoded_turn_gives_the_same_turn(
    name: str, data: st.DataObject, delta_size: int, other_size: int
) -> None:
    # A response has one audio, so that all of its transcript is one block.
    lists = st.lists(_blocks(BY_NAME[name]), max_size=5).filter(lambda blocks: sum(map(_is_transcript, blocks)) < 2)
    content = Content(speaker="ai", blocks=data.draw(lists))
    first = _turn(name, content, delta_size=delta_size, usage=USAGE)
    assert first.error is None
    assert first.text == "".join(
        [block.text for block in content.blocks if isinstance(block, TextBlock) and "refusal" not in block.metadata]
    )
    assert [(call.name, call.arguments) for call in first.calls] == [
        (block.name, _arguments(block, BY_NAME[name])) for block in content.blocks if isinstance(block, ToolCallBlock)
    ]
    has_reasoning = BY_NAME[name].reasoning_field or BY_NAME[name].thinking_parts
    reasoning_texts = [block.text for block in content.blocks if isinstance(block, ReasoningBlock)]
    assert first.reasoning == ("".join(reasoning_texts) if has_reasoning else "")
    assert first.usage == Usage(10, 7, 2, 4, None, first.usage and first.usage.raw)
    again = _turn(name, first.content, delta_size=other_size, usage=USAGE)
    assert _state(again) == _state(first)
    assert [call.raw_id for call in again.calls] == [call.raw_id for call in first.calls]


# ---------------------------------------------------------------- signed reasoning

LITELLM_THINKING: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "Which", "signature": None},
    {"type": "thinking", "thinking": " city?", "signature": None},
    {"type": "thinking", "thinking": "", "signature": "first"},
    {"type": "redacted_thinking", "data": "AAAA"},
    {"type": "thinking", "thinking": "Oslo.", "signature": None},
    {"type": "thinking", "thinking": "", "signature": "second"},
    {"type": "thinking", "thinking": "It is not signed", "signature": None},
]


def test_thinking_blocks_of_litellm_are_sent_back_complete_with_their_signatures() -> None:
    """https://docs.litellm.ai/docs/reasoning_content: without them Anthropic refuses the next round of tool calls."""
    deltas = [
        {"reasoning_content": block.get("thinking", ""), "thinking_blocks": [block]} for block in LITELLM_THINKING
    ]
    call = {"index": 0, "id": "toolu_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    first, _ = run("openai_compatible", [*map(chat, deltas), chat({"tool_calls": [call]}, "tool_calls")], complete=True)
    assert first.warnings == []
    assert first.reasoning == "Which city?Oslo.It is not signed"
    again = _turn("openai_compatible", first.content)
    assert again.reasoning == first.reasoning
    for turn in (first, again):
        [message] = _messages([turn.content], "openai_compatible")
        assert message["thinking_blocks"] == [
            {"type": "thinking", "thinking": "Which city?", "signature": "first"},
            {"type": "redacted_thinking", "data": "AAAA"},
            {"type": "thinking", "thinking": "Oslo.", "signature": "second"},
        ]
        [read] = streamkit.parse_messages([message], "openai_compatible")
        assert _messages([read], "openai_compatible")[0]["thinking_blocks"] == message["thinking_blocks"]
    [message] = _messages([first.content], "openrouter")
    assert "thinking_blocks" not in message


def test_the_thinking_of_portkeys_content_blocks_is_sent_back_in_them() -> None:
    """Its npm package 1.15 reads ``content_blocks`` of an assistant message instead of its content."""
    complete = [
        {"type": "thinking", "thinking": "Which city?", "signature": "S"},
        {"type": "redacted_thinking", "data": "AAAA"},
        {"type": "text", "text": "Let me look."},
    ]
    deltas: list[tuple[int, dict[str, str]]] = [
        (0, {"thinking": "", "signature": ""}),
        (0, {"thinking": "Which"}),
        (0, {"thinking": " city?"}),
        (0, {"signature": "S"}),
        (1, {"data": "AA"}),
        (1, {"data": "AA"}),
        (2, {"text": ""}),
    ]
    stream = [chat({"content_blocks": [{"index": index, "delta": delta}]}) for index, delta in deltas]
    text = {"content": "Let me look.", "content_blocks": [{"index": 2, "delta": {"text": "Let me look."}}]}
    call = {"index": 0, "id": "toolu_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    message = {"role": "assistant", "content": "Let me look.", "content_blocks": complete, "tool_calls": [call]}
    body = {"id": "r1", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    for inputs in ([*stream, chat(text), chat({"tool_calls": [call]}, "tool_calls")], [body]):
        turn, _ = run("openai_compatible", inputs, complete=True)
        assert (turn.reasoning, turn.text, turn.warnings) == ("Which city?", "Let me look.", [])
        [sent] = _messages([turn.content], "openai_compatible")
        assert (sent["content_blocks"], sent["content"]) == (complete, "Let me look.")
        assert "thinking_blocks" not in sent


@pytest.mark.parametrize("blocks", [5, [5], [{"type": "image"}], [{"index": 0, "delta": {"x": 1}}], {"a": "b"}])
def test_content_blocks_of_another_form_are_an_unknown_field(blocks: Any) -> None:
    turn, _ = run("openai_compatible", [chat({"content": "Hi", "content_blocks": blocks}, "stop")], complete=True)
    assert turn.text == "Hi"
    assert [warning.code for warning in turn.warnings] == ["unknown_field"]


def _databricks(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": text, **fields}]}


def test_signed_reasoning_of_databricks_is_sent_back_as_complete_parts() -> None:
    """https://github.com/BerriAI/litellm/issues/36931: other fields of the message are refused there."""
    encrypted = {"type": "reasoning", "summary": [{"type": "summary_encrypted_text", "data": "AAAA"}]}
    parts = [
        _databricks("Which "),
        _databricks("city?"),
        _databricks("", signature="first"),
        encrypted,
        _databricks("It is not signed"),
    ]
    call = {"index": 0, "id": "toolu_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    deltas = [*({"content": [part]} for part in parts), {"content": "Oslo."}, {"tool_calls": [call]}]
    first, _ = run("openai_compatible", [*map(chat, deltas), chat({}, "tool_calls")], complete=True)
    assert first.warnings == []
    assert first.reasoning == "Which city?It is not signed"
    again = _turn("openai_compatible", first.content)
    assert (again.reasoning, again.text) == (first.reasoning, first.text)
    complete = [_databricks("Which city?", signature="first"), encrypted, {"type": "text", "text": "Oslo."}]
    for turn in (first, again):
        [message] = _messages([turn.content], "openai_compatible")
        assert message["content"] == complete
        assert "reasoning_content" not in message
        [read] = streamkit.parse_messages([message], "openai_compatible")
        assert _messages([read], "openai_compatible")[0]["content"] == complete


def test_unsigned_reasoning_of_databricks_is_not_sent_back() -> None:
    first, _ = run("openai_compatible", [chat({"content": [_databricks("Hm.")]}), chat({"content": "Oslo."}, "stop")])
    rendered = providers.get("openai_compatible").render([first.content])
    assert rendered.messages == [{"role": "assistant", "content": "Oslo."}]
    assert rendered.changes


def test_reasoning_that_is_a_list_of_blocks_is_sent_back_as_complete_blocks() -> None:
    """SAP's orchestration: ``ReasoningBlock`` and ``mergeReasoningBlocks`` of @sap-ai-sdk/orchestration 2.16."""
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    deltas: list[dict[str, Any]] = [
        {"reasoning_content": [{"content": "Which "}]},
        {"reasoning_content": [{"content": "city?"}]},
        {"reasoning_content": [{"content": "", "signature": "first"}]},
        {"reasoning_content": [{}, {"content": "Oslo", "signature": ""}]},
        {"reasoning_content": [{}, {"content": ".", "signature": "second"}]},
        {"content": "Oslo."},
        {"tool_calls": [call]},
    ]
    first, _ = run("openai_compatible", [*map(chat, deltas), chat({}, "tool_calls")], complete=True)
    assert first.warnings == []
    assert first.reasoning == "Which city?Oslo."
    again = _turn("openai_compatible", first.content)
    assert (again.reasoning, again.text) == (first.reasoning, first.text)
    complete = [{"content": "Which city?", "signature": "first"}, {"content": "Oslo.", "signature": "second"}]
    for turn in (first, again):
        [message] = _messages([turn.content], "openai_compatible")
        assert message["reasoning_content"] == complete
        [read] = streamkit.parse_messages([message], "openai_compatible")
        assert _messages([read], "openai_compatible")[0]["reasoning_content"] == complete
    [message] = _messages([first.content], "groq")
    assert not any(name.startswith("reasoning") for name in message)


@pytest.mark.parametrize("value", [{"text": "Hm."}, {"content": "Hm."}, ["Hm."], [5, None, {"content": "Hm."}]])
@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_of_another_type_is_not_lost(field: str, value: Any) -> None:
    turn, _ = run("openai_compatible", [chat({field: value}), chat({"content": "Oslo."}, "stop")], complete=True)
    assert (turn.reasoning, turn.text) == ("Hm.", "Oslo.")
    assert _messages([turn.content], "openai_compatible")


@pytest.mark.parametrize("place", ["reasoning", "text", "call", "alone"])
def test_the_state_of_copilots_reasoning_is_sent_back_with_its_text(place: str) -> None:
    """https://github.com/anomalyco/opencode/issues/4468: Gemini refuses the next round of tool calls without it."""
    state = {"reasoning_opaque": "b3BhcXVl"}
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    deltas = [
        {"reasoning_text": "Which city?", **(state if place == "reasoning" else {})},
        *([state] if place == "alone" else []),
        {"content": "Oslo.", **(state if place == "text" else {})},
        {"tool_calls": [call], **(state if place == "call" else {})},
    ]
    first, _ = run("openai_compatible", [*map(chat, deltas), chat({}, "tool_calls")], complete=True)
    assert first.warnings == []
    assert first.reasoning == "Which city?"
    again = _turn("openai_compatible", first.content)
    for turn in (first, again):
        [message] = _messages([turn.content], "openai_compatible")
        assert {name: value for name, value in message.items() if name.startswith("reasoning")} == {
            "reasoning_text": "Which city?",
            "reasoning_opaque": "b3BhcXVl",
        }
        [read] = streamkit.parse_messages([message], "openai_compatible")
        assert _messages([read], "openai_compatible")[0]["reasoning_opaque"] == "b3BhcXVl"
    [message] = _messages([first.content], "openrouter")
    assert "reasoning_opaque" not in message


@pytest.mark.parametrize(
    ("name", "model", "is_signed"),
    [
        ("openai_compatible", "gemini-3-pro-preview", True),
        ("openai_compatible", "google/gemini-3.1-flash", True),
        ("openai_compatible", "gemini-2.5-pro", False),
        ("openai_compatible", None, False),
        ("openrouter", "google/gemini-3-pro-preview", False),
    ],
)
def test_calls_of_another_model_are_marked_as_unsigned_for_gemini_3(name: str, model: Any, is_signed: bool) -> None:
    second = CALL.model_copy(update={"id": "hist_tool_" + "b" * 24})
    asked = Content.ai("", CALL, second)
    calls = streamkit.render([Content.human("?"), asked], name, model=model)[1]["tool_calls"]
    signature = {"google": {"thought_signature": "skip_thought_signature_validator"}}
    assert [call.get("extra_content") for call in calls] == [signature if is_signed else None, None]


def test_a_thought_signature_of_the_same_endpoint_is_not_replaced() -> None:
    own = {"google": {"thought_signature": "SIG"}}
    call = {"index": 0, "id": "c1", "function": {"name": "weather", "arguments": "{}"}, "extra_content": own}
    turn, _ = run(
        "openai_compatible", [chat({"tool_calls": [call]}, "tool_calls")], complete=True, model="gemini-3-pro"
    )
    rendered = streamkit.render([Content.human("?"), turn.content], "openai_compatible", model="gemini-3-pro")
    assert rendered[1]["tool_calls"][0]["extra_content"] == own


def test_reasoning_details_are_kept_unchanged_and_in_order() -> None:
    details = [
        {"type": "reasoning.text", "text": "Which", "index": 0, "format": "anthropic-claude-v1"},
        {"type": "reasoning.text", "signature": "S+/=", "index": 0},
        {"type": "reasoning.encrypted", "data": "AAAA==", "id": "rs_1", "index": 1},
    ]
    deltas = [{"reasoning": detail.get("text"), "reasoning_details": [detail]} for detail in details]
    first, _ = run("openrouter", [*map(chat, deltas), chat({"content": "Oslo."}, "stop")], complete=True)
    again = _turn("openrouter", first.content)
    for turn in (first, again):
        assert turn.content.blocks[0].metadata["reasoning_details"] == details
        [message] = _messages([turn.content], "openrouter")
        assert message["reasoning_details"] == [details[0] | {"signature": "S+/="}, details[2]]
