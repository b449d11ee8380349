"""Equal bytes result in equal turns, for every split of the bytes and every interleaving of parallel calls."""

from __future__ import annotations

import json
from typing import Any

import pytest
import wire_streams
from hypothesis import given
from hypothesis import strategies as st
from wire_streams import chat, chat_call, framed, gemini, merge_deltas, message_end, message_start, run, summary

from streamkit import Turn

names = st.sampled_from(["count", "find_train", "é"])
leaves = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=12)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner), max_leaves=6
)
objects = st.dictionaries(st.text(max_size=6), values, max_size=4)
texts = st.text(min_size=1, max_size=20)


@st.composite
def parts_of(draw: st.DrawFn, text: str, first_offset: int = 1) -> list[str]:
    """Draw a text split at random offsets."""
    offsets = sorted(draw(st.lists(st.integers(first_offset, max(first_offset, len(text))), max_size=4)))
    return [text[a:b] for a, b in zip([0, *offsets], [*offsets, len(text)], strict=True) if text[a:b]]


@st.composite
def chat_streams(draw: st.DrawFn) -> bytes:
    chunks = [chat({"role": "assistant", "content": ""})]
    for text in draw(st.lists(texts, max_size=3)):
        chunks += [chat({draw(st.sampled_from(["content", "reasoning_content", "refusal"])): text})]
    for index, value in enumerate(draw(st.lists(objects, max_size=3))):
        first, *rest = draw(parts_of(json.dumps(value)))
        chunks.append(chat_call(first, index=index, id=f"call_{index}", name=draw(names)))
        chunks += [chat_call(part, index=index) for part in rest]
    chunks.append(chat({}, draw(st.sampled_from(["stop", "tool_calls", "length", None]))))
    return framed("openai_chat", chunks, done=draw(st.booleans()))


@st.composite
def anthropic_streams(draw: st.DrawFn) -> bytes:
    chunks: list[dict[str, Any]] = [message_start()]
    kinds = draw(st.lists(st.sampled_from(["text", "thinking", "tool_use"]), max_size=4))
    for index, kind in enumerate(kinds):
        if kind == "tool_use":
            start = {"type": "tool_use", "id": f"toolu_{index}", "name": draw(names), "input": {}}
            deltas = [
                {"type": "input_json_delta", "partial_json": part} for part in draw(parts_of(json.dumps(draw(objects))))
            ]
        else:
            start = {"type": kind, kind: ""}
            deltas = [{"type": f"{kind}_delta", kind: text} for text in draw(st.lists(texts, max_size=3))]
        chunks += wire_streams.block(index, start, *deltas, stop=draw(st.booleans()))
    chunks += message_end(draw(st.sampled_from(["end_turn", "tool_use", "max_tokens", None])))
    return framed("anthropic", chunks)


@st.composite
def gemini_streams(draw: st.DrawFn) -> bytes:
    parts = st.one_of(
        texts.map(lambda text: {"text": text}),
        texts.map(lambda text: {"text": text, "thought": True}),
        st.builds(lambda name, args: {"functionCall": {"name": name, "args": args}}, names, objects),
    )
    chunks = [gemini(*some) for some in draw(st.lists(st.lists(parts, max_size=2), max_size=4))]
    chunks.append(gemini(finish=draw(st.sampled_from(["STOP", "MAX_TOKENS", None]))))
    return wire_streams.gemini_array(chunks) if draw(st.booleans()) else framed("gemini", chunks)


STREAMS = {"openai_chat": chat_streams(), "anthropic": anthropic_streams(), "gemini": gemini_streams()}


@pytest.mark.parametrize("provider", STREAMS)
@given(data=st.data())
def test_every_split_results_in_the_same_turn_and_events(provider: str, data: st.DataObject) -> None:
    stream = data.draw(STREAMS[provider])
    if data.draw(st.booleans(), label="ended early"):
        stream = stream[: data.draw(st.integers(0, len(stream)))]
    offsets = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    parts = [stream[a:b] for a, b in zip([0, *offsets], [*offsets, len(stream)], strict=True)]
    expected, expected_events = run(provider, [stream])
    for inputs in (parts, [stream[at : at + 1] for at in range(len(stream))]):
        turn, events = run(provider, inputs)
        assert summary(turn) == summary(expected)
        assert merge_deltas(events) == merge_deltas(expected_events)


@given(data=st.data(), calls=st.lists(st.tuples(names, objects), min_size=2, max_size=5), ids=st.booleans())
def test_interleaved_calls_equal_sequential_calls(
    data: st.DataObject, calls: list[tuple[str, dict[str, Any]]], ids: bool
) -> None:
    queues = [data.draw(parts_of(json.dumps(arguments))) for _, arguments in calls]
    opened = [chat_call("", index=at, id=f"c{at}" if ids else None, name=name) for at, (name, _) in enumerate(calls)]
    sequential_deltas = [chat_call(part, index=at) for at, queue in enumerate(queues) for part in queue]
    order = data.draw(st.permutations([at for at, queue in enumerate(queues) for _ in queue]))
    remaining = [list(queue) for queue in queues]
    interleaved_deltas = [chat_call(remaining[at].pop(0), index=at) for at in order]
    end = chat({}, "tool_calls")
    one_by_one, _ = run("openai_chat", [framed("openai_chat", [*opened, *sequential_deltas, end])])
    interleaved, _ = run("openai_chat", [framed("openai_chat", [*opened, *interleaved_deltas, end])])
    assert summary(interleaved) == summary(one_by_one)
    assert [call.arguments for call in interleaved.calls] == [arguments for _, arguments in calls]
    assert len(interleaved.executable) == len(calls)


@given(data=st.data(), calls=st.lists(objects, min_size=2, max_size=4))
def test_interleaved_blocks_equal_sequential_blocks(data: st.DataObject, calls: list[dict[str, Any]]) -> None:
    queues = [data.draw(parts_of(json.dumps(arguments))) for arguments in calls]

    def start(at: int) -> dict[str, Any]:
        tool = {"type": "tool_use", "id": f"toolu_{at}", "name": "count", "input": {}}
        return {"type": "content_block_start", "index": at, "content_block": tool}

    def delta(at: int, part: str) -> dict[str, Any]:
        return {
            "type": "content_block_delta",
            "index": at,
            "delta": {"type": "input_json_delta", "partial_json": part},
        }

    order = data.draw(st.permutations([at for at, queue in enumerate(queues) for _ in queue]))
    remaining = [list(queue) for queue in queues]
    chunks = [
        message_start(),
        *(start(at) for at in range(len(calls))),
        *(delta(at, remaining[at].pop(0)) for at in order),
        *({"type": "content_block_stop", "index": at} for at in range(len(calls))),
        *message_end("tool_use"),
    ]
    turn, _ = run("anthropic", chunks)
    assert [call.arguments for call in turn.executable] == calls
    assert not turn.warnings


@given(data=st.data(), arguments=objects)
def test_no_text_or_argument_is_held_back(data: st.DataObject, arguments: dict[str, Any]) -> None:
    """After each feed, the text and arguments of the events are those fed so far."""
    sent_texts = data.draw(st.lists(texts, max_size=4))
    parts = data.draw(parts_of(json.dumps(arguments)))
    chunks = [chat({"content": text}) for text in sent_texts]
    chunks.append(chat_call("", id="c", name="count"))
    chunks += [chat_call(part) for part in parts]
    turn = Turn("openai_chat", turn_key="turn-1")
    emitted = {"text": "", "arguments_delta": ""}
    fed = {"text": "", "arguments_delta": ""}
    for chunk in chunks:
        delta = chunk["choices"][0]["delta"]
        fed["text"] += delta.get("content") or ""
        for call in delta.get("tool_calls", ()):
            fed["arguments_delta"] += call["function"].get("arguments") or ""
        for event in turn.feed(framed("openai_chat", [chunk], done=False)):
            for field in emitted:
                emitted[field] += getattr(event, field, "")
        assert emitted == fed
