"""Blocks that a wire interleaves keep their identity, in events, in the content and through every writer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamkit
from streamkit import Turn
from streamkit.events import BlockEnded, BlockStarted, Event, Reasoning, Refusal, Text

Chunk = dict[str, Any]
Delta = tuple[int, str]  # the number of a block, and its next text


def responses(kinds: list[str], deltas: list[Delta]) -> list[Chunk]:
    """Return a stream whose blocks are items: messages and reasoning."""
    chunks: list[Chunk] = [{"type": "response.created", "response": {"id": "resp_1", "model": "m", "output": []}}]
    texts = dict.fromkeys(range(len(kinds)), "")
    for number, kind in enumerate(kinds):
        item = {"id": f"i_{number}", "type": "message" if kind == "text" else "reasoning", "content": [], "summary": []}
        chunks.append({"type": "response.output_item.added", "output_index": number, "item": item})
    for number, text in deltas:
        texts[number] += text
        name = "output_text" if kinds[number] == "text" else "reasoning_text"
        place = {"item_id": f"i_{number}", "output_index": number, "content_index": 0}
        chunks.append({"type": f"response.{name}.delta", **place, "delta": text})
    for number, kind in enumerate(kinds):
        name = "message" if kind == "text" else "reasoning"
        part = {"type": "output_text" if kind == "text" else "reasoning_text", "text": texts[number]}
        item = {"id": f"i_{number}", "type": name, "content": [part] if texts[number] else []}
        chunks.append({"type": "response.output_item.done", "output_index": number, "item": item})
    return [*chunks, {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}}]


def anthropic(kinds: list[str], deltas: list[Delta]) -> list[Chunk]:
    """Return a stream whose blocks have indexes."""
    chunks: list[Chunk] = [{"type": "message_start", "message": {"id": "msg_1", "model": "m", "content": []}}]
    for number, kind in enumerate(kinds):
        name = "text" if kind == "text" else "thinking"
        block = {"type": name, name: ""}
        chunks.append({"type": "content_block_start", "index": number, "content_block": block})
    for number, text in deltas:
        name = "text" if kinds[number] == "text" else "thinking"
        delta = {"type": f"{name}_delta", name: text}
        chunks.append({"type": "content_block_delta", "index": number, "delta": delta})
    chunks += [{"type": "content_block_stop", "index": number} for number in range(len(kinds))]
    return [*chunks, {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, {"type": "message_stop"}]


def converse(kinds: list[str], deltas: list[Delta]) -> list[Chunk]:
    """Return a stream whose blocks have indexes and no start."""
    chunks: list[Chunk] = [{"messageStart": {"role": "assistant"}}]
    for number, text in deltas:
        delta = {"text": text} if kinds[number] == "text" else {"reasoningContent": {"text": text}}
        chunks.append({"contentBlockDelta": {"contentBlockIndex": number, "delta": delta}})
    chunks += [{"contentBlockStop": {"contentBlockIndex": number}} for number in range(len(kinds))]
    return [*chunks, {"messageStop": {"stopReason": "end_turn"}}]


def cohere(kinds: list[str], deltas: list[Delta]) -> list[Chunk]:
    """Return a stream whose contents have indexes."""
    chunks: list[Chunk] = [{"type": "message-start", "id": "c", "delta": {"message": {"role": "assistant"}}}]
    for number, text in deltas:
        name = "text" if kinds[number] == "text" else "thinking"
        content = {"message": {"content": {name: text}}}
        chunks.append({"type": "content-delta", "index": number, "delta": content})
    chunks += [{"type": "content-end", "index": number} for number in range(len(kinds))]
    return [*chunks, {"type": "message-end", "delta": {"finish_reason": "COMPLETE"}}]


WIRES: dict[str, Callable[[list[str], list[Delta]], list[Chunk]]] = {
    "openai_responses": responses,
    "anthropic": anthropic,
    "bedrock_converse": converse,
    "cohere": cohere,
}
STREAMS = st.lists(st.sampled_from(["text", "reasoning"]), min_size=1, max_size=4).flatmap(
    lambda kinds: st.tuples(
        st.just(kinds),
        st.lists(st.tuples(st.integers(0, len(kinds) - 1), st.sampled_from(["a", "b ", "ü", "😀"]))),
    )
)


def read(provider: str, chunks: list[Any]) -> tuple[Turn, list[Event]]:
    turn = Turn(provider, "t")
    events = [event for chunk in chunks for event in turn.feed(chunk)]
    return turn, [*events, *turn.close()]


def blocks_of(turn: Turn) -> list[tuple[str, str]]:
    return [(block.type, getattr(block, "text", "")) for block in turn.content.blocks]


@pytest.mark.parametrize("wire", WIRES)
@settings(max_examples=60, deadline=None)
@given(stream=STREAMS)
def test_interleaved_blocks_are_the_same_as_one_after_the_other(
    wire: str, stream: tuple[list[str], list[Delta]]
) -> None:
    kinds, deltas = stream
    turn, events = read(wire, WIRES[wire](kinds, deltas))
    started: dict[int, str] = {}
    ended: list[int] = []
    texts: dict[int, str] = {}
    for event in events:
        if isinstance(event, BlockStarted):
            assert event.block == len(started)
            started[event.block], texts[event.block] = event.kind, ""
        elif isinstance(event, BlockEnded):
            assert started[event.block] == event.kind
            ended.append(event.block)
        elif isinstance(event, (Text, Reasoning, Refusal)):
            assert started[event.block] == event.type
            assert event.block not in ended
            texts[event.block] += event.text
    assert sorted(ended) == list(started)
    expected: dict[int, str] = {}
    for number, text in deltas:
        expected[number] = expected.get(number, "") + text
    made = [(started[number], texts[number]) for number in started if texts[number]]
    assert sorted(made) == sorted((kinds[number], text) for number, text in expected.items())
    assert [block for block in blocks_of(turn) if block[1]] == made


@pytest.mark.parametrize("target", [*WIRES, "bedrock_invoke"])
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("stream", [True, False])
def test_every_wire_with_blocks_is_written_with_them(wire: str, target: str, *, stream: bool) -> None:
    deltas = [(0, "AAA"), (1, "bbb"), (0, "AAA2"), (2, "ccc"), (1, "bbb2")]
    turn, events = read(wire, WIRES[wire](["text", "text", "text"], deltas))
    expected = [("text", "AAAAAA2"), ("text", "bbbbbb2"), ("text", "ccc")]
    assert blocks_of(turn) == expected
    writer = streamkit.writer(target, stream=stream)
    written = [writer.write(event) for event in events]
    again, _ = read(target, [data for data in [*written, writer.close()] if data])
    assert blocks_of(again) == expected
    if stream:
        assert all(data for event, data in zip(events, written, strict=True) if isinstance(event, Text))


def test_a_block_of_a_responses_stream_keeps_the_id_of_its_item() -> None:
    turn, events = read("openai_responses", responses(["text", "text"], [(0, "AAA"), (1, "bbb"), (0, "AAA2")]))
    assert [block.metadata["item_id"] for block in turn.content.blocks] == ["i_0", "i_1"]
    ends = [event for event in events if isinstance(event, BlockEnded)]
    assert [(event.block, event.metadata["item_id"]) for event in ends] == [(0, "i_0"), (1, "i_1")]


def test_the_state_of_reasoning_in_several_parts_is_in_the_events() -> None:
    summaries = [{"type": "summary_text", "text": text} for text in ("one", "two")]
    item: dict[str, Any] = {"id": "rs_1", "type": "reasoning", "summary": summaries, "encrypted_content": "ENC"}
    added = {"type": "response.output_item.added", "output_index": 0, "item": {**item, "summary": []}}
    deltas = [
        {
            "type": "response.reasoning_summary_text.delta",
            "item_id": "rs_1",
            "output_index": 0,
            "summary_index": number,
            "delta": summary["text"],
        }
        for number, summary in enumerate(summaries)
    ]
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    end = {"type": "response.completed", "response": {"id": "r", "status": "completed"}}
    _, events = read("openai_responses", [added, *deltas, done, end])
    ends = [event for event in events if isinstance(event, BlockEnded)]
    assert [event.metadata for event in ends] == [{"opaque": item}, {"summary_index": 1}]
    writer = streamkit.writer("openai_responses")
    again, _ = read("openai_responses", [data for event in events if (data := writer.write(event))] + [writer.close()])
    assert writer.omitted == {}
    first, second = again.content.blocks
    assert first.type == second.type == "reasoning"
    assert first.opaque["encrypted_content"] == "ENC"
    assert (first.text, second.text) == ("one", "two")


def test_every_block_that_an_error_leaves_open_is_cut() -> None:
    chunks: list[Chunk] = []
    for number in (0, 1):
        block = {"type": "thinking", "thinking": f"t{number}"}
        chunks.append({"type": "content_block_start", "index": number, "content_block": block})
    for number in (0, 1):
        delta = {"type": "signature_delta", "signature": "half"}
        chunks.append({"type": "content_block_delta", "index": number, "delta": delta})
    turn, events = read("anthropic", [*chunks, {"type": "error", "error": {"type": "overloaded_error"}}])
    assert [(block.text, block.signature) for block in turn.content.blocks] == [("t0", None), ("t1", None)]
    assert [event.block for event in events if isinstance(event, BlockEnded)] == [0, 1]
