"""Ids of rendered conversations: stable, legal, distinct, and the provider's own where a call goes back to it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamkit import Content, parse_messages, providers, render
from streamkit.history import ToolCallBlock, ToolResponseBlock
from streamkit.ids import canonical_tool_id

NAMES = sorted(providers.names())
RAW_IDS = [
    "call_1", "toolu_01", "tooluse_x", "ABCdef123", "XYZ987abc", "functions.f:0", "functions.f:1", "f:0", "a.b", "a:b",
    "chatcmpl-tool-" + "0" * 32, "x" * 65, "call_" + "a" * 24, "hist_tool_" + "a" * 24, "", None,
]  # fmt: skip
LEGAL = {
    "anthropic": r"[A-Za-z0-9_-]{1,64}",
    "bedrock": r"[A-Za-z0-9_-]{1,64}",
    "openai_responses": r"[A-Za-z0-9_-]{1,64}",
    "openai_chat": r"(?s).{1,40}",
    "mistral": r"[A-Za-z0-9]{9}",
}


@st.composite
def histories(draw: st.DrawFn) -> list[Content]:
    """Return a conversation of rounds, with calls of several providers, repeated raw ids and repeated canonical ids."""
    contents = [Content.human("hi")]
    makers = st.sampled_from(["anthropic", "openai_chat", "mistral", "kimi", "openai_compatible", "gemini", "ollama"])
    for turn in range(draw(st.integers(1, 4))):
        maker = draw(makers)
        calls = []
        for index, raw_id in enumerate(draw(st.lists(st.sampled_from(RAW_IDS), min_size=1, max_size=3))):
            key = f"t{draw(st.sampled_from([turn, turn, turn, 0]))}"
            call_id = canonical_tool_id(provider_name=maker, turn_key=key, call_index=index)
            metadata: dict[str, Any] = {"provider": maker, "model": draw(st.sampled_from(["a", "b"]))}
            if raw_id is not None:
                metadata["raw_id"] = raw_id
            calls.append(ToolCallBlock(id=call_id, name="f", parameters={"n": turn}, metadata=metadata))
        results = [ToolResponseBlock(call_id=call.id, name="f", result=f"{turn}.{n}") for n, call in enumerate(calls)]
        contents += [Content.ai("I look.", *calls), Content(speaker="tool", blocks=results)]
        if draw(st.booleans()):
            contents += [Content.ai("Done."), Content.human("Next")]
    return contents


def calls_and_results(messages: list[dict[str, Any]], provider: str) -> tuple[list[Any], list[Any]]:
    """Return the ids of calls and those of results, in order, from any provider's messages."""
    calls: list[Any] = []
    results: list[Any] = []
    for message in messages:
        calls += [call.get("id") for call in message.get("tool_calls") or ()]
        if message.get("role") == "tool":
            results.append(message.get("tool_call_id"))
        if message.get("type") in ("function_call", "function_call_output"):
            (calls if message["type"] == "function_call" else results).append(message["call_id"])
        parts = message.get("content") if isinstance(message.get("content"), list) else message.get("parts") or ()
        for part in parts:
            if part.get("type") == "tool_use":
                calls.append(part["id"])
            elif part.get("type") == "tool_result":
                results.append(part["tool_use_id"])
            elif "toolUse" in part:
                calls.append(part["toolUse"]["toolUseId"])
            elif "toolResult" in part:
                results.append(part["toolResult"]["toolUseId"])
            elif "functionCall" in part:
                calls.append(part["functionCall"].get("id"))
            elif "functionResponse" in part:
                results.append(part["functionResponse"].get("id"))
    return calls, results


@pytest.mark.parametrize("provider", NAMES)
@given(history=histories(), policy=st.sampled_from(["origin", "canonical"]))
@settings(max_examples=10)
def test_ids_are_legal_distinct_and_shared_by_call_and_result(
    provider: str, history: list[Content], policy: Any
) -> None:
    messages = render(history, provider, ids=policy)
    assert render(history, provider, ids=policy) == messages
    calls, results = calls_and_results(messages, provider)
    assert results == calls
    count = sum(block.type == "tool_call" for content in history for block in content.blocks)
    assert len(calls) == count, f"read the ids of {provider}'s messages in calls_and_results"
    given_ids = [call_id for call_id in calls if call_id is not None]
    assert len(set(given_ids)) == len(given_ids)
    assert set(given_ids) == providers.get(provider).call_ids(messages)
    legal = LEGAL.get(providers.get(provider).traits.id_rule.name, "(?s).+")
    assert all(re.fullmatch(legal, call_id) for call_id in given_ids)


@pytest.mark.parametrize("provider", NAMES)
@given(history=histories(), model=st.sampled_from([None, "a", "mistral-large-latest", "kimi-k2"]))
@settings(max_examples=10)
def test_a_longer_conversation_keeps_the_ids_of_the_shorter(
    provider: str, history: list[Content], model: str | None
) -> None:
    """A prompt cache ends at the first byte that differs."""
    complete = calls_and_results(render(history, provider, model=model), provider)[0]
    ends = [number for number, content in enumerate(history) if content.speaker == "tool"]
    for end in ends:
        part = calls_and_results(render(history[: end + 1], provider, model=model), provider)[0]
        assert complete[: len(part)] == part


@pytest.mark.parametrize("provider", [name for name in NAMES if providers.get(name).traits.has_importer])
@given(history=histories())
@settings(max_examples=10)
def test_what_is_parsed_from_rendered_messages_renders_to_the_same_ids(provider: str, history: list[Content]) -> None:
    messages = render(history, provider)
    parsed = parse_messages(messages, provider)
    again = render(parsed, provider)
    assert calls_and_results(again, provider) == calls_and_results(messages, provider)
    assert calls_and_results(render(parse_messages(again, provider), provider), provider) == calls_and_results(
        messages, provider
    )


@pytest.mark.parametrize(
    "provider", ["anthropic", "openai_chat", "openai_compatible", "mistral", "kimi", "ollama", "gemini"]
)
@given(history=histories())
@settings(max_examples=10)
def test_the_first_call_of_a_raw_id_keeps_it_at_its_provider(provider: str, history: list[Content]) -> None:
    ids = calls_and_results(render(history, provider), provider)[0]
    calls = [block for content in history for block in content.blocks if isinstance(block, ToolCallBlock)]
    rule = providers.get(provider).traits.id_rule
    seen: set[Any] = set()
    for call, call_id in zip(calls, ids, strict=True):
        raw_id = call.metadata.get("raw_id")
        if raw_id and call.metadata["provider"] == provider and rule.accepts(raw_id) and raw_id not in seen:
            assert call_id == raw_id
        seen.add(call_id)
