"""Citations and the text that they belong to (docs/rules.md, "Text and reasoning")."""

from __future__ import annotations

from typing import Any

import pytest

from streamkit import Turn
from streamkit.accumulator import Accumulator
from streamkit.accumulator.limits import WireTraits
from streamkit.history import Content
from streamkit.reading.to_content import choice_to_content


def content_of(accumulator: Accumulator) -> Content:
    return choice_to_content(accumulator.choice(0), accumulator.state)


def test_a_citation_without_any_text_is_kept() -> None:
    accumulator = Accumulator("p", WireTraits(), turn_key="k")
    accumulator.choice(0).citation({"url": "u"})
    accumulator.choice(0).finish("stop", "stop")
    accumulator.close(complete=False)
    (block,) = content_of(accumulator).blocks
    assert (block.type, block.text, block.metadata["citations"]) == ("text", "", [{"url": "u"}])


def test_a_citation_before_the_text_belongs_to_it() -> None:
    accumulator = Accumulator("p", WireTraits(), turn_key="k")
    accumulator.choice(0).citation({"url": "u"})
    accumulator.choice(0).text("x")
    accumulator.close(complete=True)
    (block,) = content_of(accumulator).blocks
    assert (block.text, block.metadata["citations"]) == ("x", [{"url": "u"}])


CITATION = {"type": "char_location", "cited_text": "a", "document_index": 0}


@pytest.mark.parametrize(
    ("provider", "chunks", "citation"),
    [
        (
            "anthropic",
            [
                {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
                {
                    "type": "content_block_delta",
                    "index": 0,
                    "delta": {"type": "citations_delta", "citation": CITATION},
                },
                {"type": "content_block_stop", "index": 0},
                {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
            ],
            CITATION,
        ),
        (
            "bedrock_converse",
            [
                {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"citation": {"title": "t"}}}},
                {"contentBlockStop": {"contentBlockIndex": 0}},
                {"messageStop": {"stopReason": "end_turn"}},
            ],
            {"title": "t"},
        ),
        (
            "gemini",
            [{"candidates": [{"finishReason": "STOP", "groundingMetadata": {"webSearchQueries": ["q"]}}]}],
            {"webSearchQueries": ["q"]},
        ),
    ],
)
def test_citations_without_text_are_kept_and_stored(provider: str, chunks: list[Any], citation: Any) -> None:
    turn = Turn(provider, turn_key="k")
    for chunk in chunks:
        turn.feed(chunk)
    turn.close()
    (block,) = turn.content.blocks
    assert (block.type, block.metadata["citations"]) == ("text", [citation])
    assert turn.text == ""
    assert Content.model_validate_json(turn.content.model_dump_json()) == turn.content


#: What a chunk of Chat Completions, or a response of Gemini, may have beside its choices.
BESIDE_CHAT = {
    "citations": ["https://a.example"],
    "search_results": [{"url": "https://a.example", "title": "A"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2},
    "x_groq": {"id": "req_1", "usage": {"prompt_tokens": 1, "completion_tokens": 2}},
    "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {"hate": {"filtered": False}}}],
    "system_fingerprint": "fp",
}
BESIDE_GEMINI = {
    "promptFeedback": {"safetyRatings": []},
    "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 2},
    "modelStatus": {"modelStage": "STABLE"},
}


def chat_of_choice_1(beside: dict[str, Any]) -> list[Any]:
    call = {"index": 0, "id": "x", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
    deltas: list[tuple[Any, str | None]] = [
        ({"content": "Hi"}, None),
        ({"tool_calls": [call]}, None),
        ({}, "tool_calls"),
    ]
    head = {"id": "r", "model": "m", "object": "chat.completion.chunk"}
    return [
        {**head, **beside, "choices": [{"index": 1, "delta": delta, "finish_reason": reason}]}
        for delta, reason in deltas
    ]


def gemini_of_choice_1(beside: dict[str, Any]) -> list[Any]:
    parts = [{"text": "Hi"}, {"functionCall": {"name": "f", "args": {"a": 1}}}]
    candidate = {"index": 1, "content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
    return [{"responseId": "r", "modelVersion": "m", **beside, "candidates": [candidate]}]


@pytest.mark.parametrize(
    ("provider", "chunks"),
    [
        *(("openai_chat", chat_of_choice_1({name: value})) for name, value in BESIDE_CHAT.items()),
        *(("gemini", gemini_of_choice_1({name: value})) for name, value in BESIDE_GEMINI.items()),
    ],
)
def test_what_comes_beside_choice_1_makes_no_choice_0(provider: str, chunks: list[Any]) -> None:
    turn = Turn(provider, turn_key="k")
    for chunk in chunks:
        turn.feed(chunk)
    turn.close()
    assert turn.finish is not None
    assert (turn.finish.reason, turn.text, [call.arguments for call in turn.executable]) == (
        "tool_calls",
        "Hi",
        [{"a": 1}],
    )
    assert [warning.code for warning in turn.warnings] == ["other_choice"]
    assert [choice.index for choice in turn.choices if choice.finish is not None] == [1]


@pytest.mark.parametrize(("name", "kept"), [("citations", "https://a.example"), ("search_results", {"url": "u"})])
@pytest.mark.parametrize("has_text", [True, False])
def test_the_sources_beside_choice_1_are_its_own(name: str, kept: Any, has_text: bool) -> None:
    turn = Turn("perplexity", turn_key="k")
    for chunk in chat_of_choice_1({name: [kept]})[0 if has_text else 1 :]:
        turn.feed(chunk)
    turn.close()
    texts = [block for block in turn.content.blocks if block.type == "text"]
    assert [block.metadata["citations"] for block in texts] == [[kept]]
