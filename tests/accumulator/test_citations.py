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
