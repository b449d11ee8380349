"""Citations and the text that they belong to (docs/rules.md, "Text and reasoning")."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit import Turn
from streamkit.accumulator import Accumulator
from streamkit.accumulator.limits import WireTraits
from streamkit.events import Citation, from_json, to_json
from streamkit.events.citations import citation_events
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


def test_a_choice_of_citations_alone_can_be_the_turns() -> None:
    accumulator = Accumulator("p", WireTraits(), turn_key="k")
    accumulator.choice(1).citation({"url": "u"})
    accumulator.terminate()
    accumulator.close()
    assert accumulator.turn_choice.index == 1
    assert accumulator.turn_choice.effective_finish is not None
    assert [block.citations for block in accumulator.turn_choice.blocks] == [[{"url": "u"}]]


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


# ---------------------------------------------------------------- the fields of the event


def chat(delta: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta}], **fields}


def cited_by_claude(citation: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hi"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": citation}},
    ]


def cited_by_nova(citation: dict[str, Any]) -> list[dict[str, Any]]:
    deltas = [{"text": "Hi"}, {"citation": citation}]
    return [{"contentBlockDelta": {"contentBlockIndex": 0, "delta": delta}} for delta in deltas]


def annotated(annotation: dict[str, Any]) -> list[dict[str, Any]]:
    place = {"item_id": "m", "output_index": 0, "content_index": 0}
    return [
        {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "m"}},
        {"type": "response.output_text.delta", **place, "delta": "Hi"},
        {"type": "response.output_text.annotation.added", **place, "annotation": annotation},
    ]


def grounded(**fields: Any) -> list[dict[str, Any]]:
    return [{"candidates": [{"content": {"parts": [{"text": "Hi"}]}, **fields, "finishReason": "STOP"}]}]


URL = "https://e.org"
PLACE = {"start_index": 0, "end_index": 2}
#: The stream of a wire, and the fields of its citations: url, title, cited_text, start and end.
FORMS: list[tuple[str, list[dict[str, Any]], list[tuple[Any, ...]]]] = [
    (
        "anthropic",
        cited_by_claude({"type": "web_search_result_location", "url": URL, "title": "E", "cited_text": "Hello"}),
        [(URL, "E", "Hello", None, None)],
    ),
    (
        "anthropic",
        cited_by_claude(
            {"type": "char_location", "cited_text": "Hi", "document_title": "D", "start_char_index": 3}
            | {"document_index": 0, "end_char_index": 5}
        ),
        [(None, "D", "Hi", None, None)],
    ),
    (
        "anthropic",
        cited_by_claude({"type": "search_result_location", "source": URL, "title": "E", "cited_text": "Hi"}),
        [(URL, "E", "Hi", None, None)],
    ),
    (
        "bedrock_converse",
        cited_by_nova(
            {"title": "D", "sourceContent": [{"text": "H"}, {"text": "i"}], "location": {"web": {"url": URL}}}
        ),
        [(URL, "D", "Hi", None, None)],
    ),
    (
        "bedrock_converse",
        cited_by_nova({"title": "D", "location": {"documentChar": {"documentIndex": 0, "start": 3, "end": 5}}}),
        [(None, "D", None, None, None)],
    ),
    (
        "openai_responses",
        annotated({"type": "url_citation", "url": URL, "title": "E", **PLACE}),
        [(URL, "E", None, 0, 2)],
    ),
    (
        "openai_responses",
        annotated({"type": "file_citation", "file_id": "f", "filename": "a.pdf", "index": 2}),
        [(None, "a.pdf", None, None, None)],
    ),
    (
        "openai_chat",
        [
            chat(
                {
                    "content": "Hi",
                    "annotations": [{"type": "url_citation", "url_citation": {"url": URL, "title": "E"} | PLACE}],
                }
            )
        ],
        [(URL, "E", None, 0, 2)],
    ),
    (
        "openrouter",
        [chat({"annotations": [{"type": "url_citation", "url_citation": {"url": URL, "content": "Hello", **PLACE}}]})],
        [(URL, None, "Hello", 0, 2)],
    ),
    (
        "azure_openai",
        [chat({"context": {"citations": [{"content": "Hello", "title": "D", "url": URL, "chunk_id": "0"}]}})],
        [(URL, "D", "Hello", None, None)],
    ),
    (
        "openai_compatible",
        [chat({"content": "Hi"}, search_results=[{"title": "E", "url": URL, "date": "2026-01-01"}])],
        [(URL, "E", None, None, None)],
    ),
    ("openai_compatible", [chat({"content": "Hi"}, citations=[URL])], [(URL, None, None, None, None)]),
    (
        "gemini",
        grounded(
            groundingMetadata={
                "groundingChunks": [{"web": {"uri": URL, "title": "E"}}, {"web": {"uri": "https://f.org"}}],
                "groundingSupports": [
                    {"segment": {"startIndex": 0, "endIndex": 2, "text": "Hi"}, "groundingChunkIndices": [0]}
                ],
            }
        ),
        [(URL, "E", "Hi", 0, 2), ("https://f.org", None, None, None, None)],
    ),
    (
        "gemini",
        grounded(citationMetadata={"citationSources": [{"startIndex": 0, "endIndex": 2, "uri": URL}]}),
        [(URL, None, None, 0, 2)],
    ),
    (
        "cohere",
        [
            {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "Hi"}}}},
            {
                "type": "citation-start",
                "index": 0,
                "delta": {
                    "message": {
                        "citations": {
                            "start": 0,
                            "end": 2,
                            "text": "Hi",
                            "sources": [
                                {"type": "document", "id": "d", "document": {"title": "D", "url": URL, "text": "x"}},
                                {"type": "tool", "id": "t", "tool_output": {}},
                            ],
                        }
                    }
                },
            },
        ],
        [(URL, "D", "Hi", 0, 2), (None, None, "Hi", 0, 2)],
    ),
]


@pytest.mark.parametrize(("provider", "chunks", "expected"), FORMS)
def test_a_citation_has_the_fields_of_the_documented_form(
    provider: str, chunks: list[dict[str, Any]], expected: list[tuple[Any, ...]]
) -> None:
    turn = Turn(provider, "t")
    found = [event for chunk in chunks for event in turn.feed(chunk) if isinstance(event, Citation)]
    assert [(each.url, each.title, each.cited_text, each.start, each.end) for each in found] == expected
    assert [each.data is None for each in found] == [False] + [True] * (len(found) - 1)
    assert {each.block for each in found} <= {0, None}
    turn.close(complete=True)
    assert turn.content.blocks[0].metadata["citations"] == [found[0].data]


def told(*texts: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    """A response of Gemini with these parts, and the fields of its candidate."""
    return [{"candidates": [{"content": {"parts": list(texts)}, **fields, "finishReason": "STOP"}]}]


def supported(**segment: Any) -> dict[str, Any]:
    support = {"segment": segment, "groundingChunkIndices": [0]}
    return {"groundingMetadata": {"groundingChunks": [{"web": {"uri": URL}}], "groundingSupports": [support]}}


def cohere(*contents: dict[str, Any], **citation: Any) -> list[dict[str, Any]]:
    chunks: list[dict[str, Any]] = [
        {"type": "content-delta", "index": index, "delta": {"message": {"content": content}}}
        for index, content in enumerate(contents)
    ]
    cited = {"start": 0, "end": 2, "sources": [], **citation}
    return [*chunks, {"type": "citation-start", "index": 0, "delta": {"message": {"citations": cited}}}]


NESTED = {"type": "url_citation", "url_citation": {"url": URL, **PLACE}}
SIGNED = {"text": "", "thoughtSignature": "AA=="}
THOUGHT = {"text": "hm", "thought": True}
#: Streams, and the block and the range of their first citation: in that block's text, in characters, or not at all.
RANGES: dict[str, tuple[str, list[dict[str, Any]], tuple[int | None, int | None, int | None]]] = {
    "bytes": ("gemini", told({"text": "Zürich é"}, **supported(startIndex=8, endIndex=10, text="é")), (0, 7, 8)),
    "bytes of citations": (
        "gemini",
        told({"text": "Zürich"}, citationMetadata={"citationSources": [{"startIndex": 1, "endIndex": 3, "uri": URL}]}),
        (0, 1, 2),
    ),
    "a zero is left out": ("gemini", told({"text": "Hi you"}, **supported(endIndex=2, text="Hi")), (0, 0, 2)),
    "within a character": ("gemini", told({"text": "Zürich"}, **supported(startIndex=2, endIndex=3)), (0, None, None)),
    "after the text": ("gemini", told({"text": "Hi"}, **supported(startIndex=0, endIndex=9)), (0, None, None)),
    "before the text": ("gemini", told(**supported(startIndex=0, endIndex=2)), (None, None, None)),
    "another text": ("gemini", told({"text": "Hi"}, **supported(endIndex=2, text="Ho")), (0, None, None)),
    "another part": ("gemini", told({"text": "Hi"}, **supported(partIndex=1, endIndex=2)), (0, None, None)),
    "an empty text at the end": (
        "gemini",
        told({"text": "Hi"}, SIGNED, **supported(endIndex=2, text="Hi")),
        (0, 0, 2),
    ),
    "an empty text before": ("gemini", told(SIGNED, {"text": "Hi"}, **supported(endIndex=2)), (1, 0, 2)),
    "a text after another": (
        "gemini",
        told({"text": "Hi"}, THOUGHT, {"text": "Ho"}, **supported(endIndex=2)),
        (2, None, None),
    ),
    "too long a text": ("gemini", told({"text": "Hi" * 50_001}, **supported(endIndex=2)), (0, None, None)),
    "the message's second text": (
        "deepseek",
        [chat({"content": "Hi"}), chat({"reasoning_content": "hm"}), chat({"content": "Ho", "annotations": [NESTED]})],
        (2, None, None),
    ),
    "the content's own text": ("cohere", cohere({"thinking": "hm"}, {"text": "Hi"}, type="TEXT_CONTENT"), (1, 0, 2)),
    "a plan": ("cohere", cohere({"text": "Hi"}, type="PLAN"), (0, None, None)),
    "thinking": ("cohere", cohere({"thinking": "hm"}, {"text": "Hi"}, type="THINKING_CONTENT"), (1, None, None)),
    "a range that ends before it begins": (
        "openai_responses",
        annotated({"type": "url_citation", "url": URL, "start_index": 2, "end_index": 1}),
        (0, None, None),
    ),
    "a place in a source": (
        "cohere",
        cohere({"text": "Hi"}, start=None, sources=[{"document": {"url": URL, "start": 3, "end": 5}}]),
        (0, None, None),
    ),
}


@pytest.mark.parametrize("name", RANGES)
def test_the_range_is_that_of_the_supported_text_in_its_block(name: str) -> None:
    provider, chunks, expected = RANGES[name]
    turn = Turn(provider, "t")
    found = [event for chunk in chunks for event in turn.feed(chunk) if isinstance(event, Citation)]
    assert (found[0].block, found[0].start, found[0].end) == expected


def test_the_citations_after_an_empty_text_belong_to_the_text_before_it() -> None:
    turn = Turn("gemini", "t")
    for chunk in told({"text": "Hi"}, SIGNED, **supported(endIndex=2)):
        turn.feed(chunk)
    turn.close()
    assert ["citations" in block.metadata for block in turn.content.blocks] == [True, False]


ODD = st.recursive(
    st.none() | st.integers() | st.sampled_from(["", URL, "a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["url", "title", "text", "start", "end", "source", "sourceContent", "sources", "document"])
            | st.sampled_from(["groundingChunks", "groundingSupports", "segment", "groundingChunkIndices", "web"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(ODD)
def test_a_citation_of_any_form_is_at_least_one_event(data: Any) -> None:
    found = citation_events(data, 1, 2)
    assert found[0].data is data
    assert all(from_json(to_json(each)) == each for each in found)


def test_a_deeply_nested_citation_has_no_source() -> None:
    data: Any = URL
    for _ in range(100_000):
        data = {"sources": data}
    assert citation_events(data) == [Citation(data=data)]
    lists: Any = URL
    for _ in range(100_000):
        lists = [lists]
    assert citation_events(lists)[0].url is None
