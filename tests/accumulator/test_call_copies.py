"""A call that is sent in two forms at once, in every order and cut."""

from __future__ import annotations

import random
from typing import Any

import pytest
from wire_streams import Chunk, chat, run

from streamkit import Limits, Turn
from streamkit.calls import ToolCall
from streamkit.events import ArgumentsRestated, ToolCallDelta, ToolCallReady, ToolCallStart

Delta = dict[str, Any]
#: Of orders and cuts: few at every change, many in CI.
SEEDS = [*range(20), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(20, 300))]


def old(name: str | None, arguments: str | None) -> Delta:
    return {"function_call": {"name": name, "arguments": arguments}}


def new(name: str | None, arguments: str | None, id: str | None = None, index: int = 0) -> Delta:
    call = {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"tool_calls": [call]}


def cut(text: str, rough: random.Random) -> list[str]:
    marks = sorted(rough.choices(range(len(text) + 1), k=rough.randint(0, 4)))
    return [text[a:b] for a, b in zip([0, *marks], [*marks, len(text)], strict=True)]


def forms(name: str, text: str, rough: random.Random, index: int = 0) -> tuple[list[Delta], list[Delta]]:
    """Return the deltas of one call in both forms, each cut at random, the name in the first or in all of them."""
    repeats = rough.random() < 0.5
    olds = [old(name if repeats or not n else None, part) for n, part in enumerate(cut(text, rough))]
    news = [new(name if not n else None, part, None if n else f"call_{index}", index)
            for n, part in enumerate(cut(text, rough))]  # fmt: skip
    return olds, news


def merge(one: list[Delta], other: list[Delta], rough: random.Random) -> list[Chunk]:
    """Return both lists as chunks, in an order that keeps that of each, some deltas of both in one chunk."""
    one, other = one[:], other[:]
    chunks: list[Chunk] = []
    while one or other:
        first = one.pop(0) if one and (not other or rough.random() < 0.5) else None
        second = other.pop(0) if other and (first is None or rough.random() < 0.4) else None
        chunks.append(chat({**(first or {}), **(second or {})}))
    return [*chunks, chat({}, rough.choice(["tool_calls", "function_call", "stop"]))]


def read(chunks: list[Chunk]) -> Turn:
    turn, events = run("openai_compatible", chunks)
    assert turn.error is None
    starts = [event.call.id for event in events if isinstance(event, ToolCallStart)]
    assert starts == [call.id for call in turn.calls]
    ready = [event.call for event in events if isinstance(event, ToolCallReady)]
    assert sorted(ready, key=lambda call: call.index) == turn.calls
    shown: dict[str, str] = {}
    for event in events:
        if isinstance(event, ToolCallDelta):
            shown[event.call.id] = shown.get(event.call.id, "") + event.arguments_delta
        elif isinstance(event, ArgumentsRestated):
            shown[event.call.id] = event.arguments_text
    assert shown == {call.id: call.arguments_text for call in turn.calls}
    return turn


def ready_before(chunks: list[Chunk], raw_id: str) -> set[int]:
    """Return the indexes of the calls that are ready before the first chunk with an id."""
    first = next(n for n, chunk in enumerate(chunks) if raw_id in str(chunk))
    turn = Turn("openai_compatible", "t")
    events = [event for chunk in chunks[:first] for event in turn.feed(chunk)]
    return {event.call.index for event in events if isinstance(event, ToolCallReady)}


def plain(calls: list[ToolCall]) -> list[tuple[str, Any]]:
    return [(call.name, call.arguments) for call in calls]


@pytest.mark.parametrize("seed", SEEDS)
def test_one_call_in_both_forms_is_one(seed: int) -> None:
    rough = random.Random(seed)  # noqa: S311 - only cuts and orders
    olds, news = forms("f", '{"a": {"b": [1, "}{"]}}', rough)
    turn = read(merge(olds, news, rough))
    assert plain(turn.executable) == [("f", {"a": {"b": [1, "}{"]}})]
    assert [call.raw_id for call in turn.calls] == ["call_0"]
    assert turn.warnings == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("names", ["ff", "fg"])
def test_two_calls_in_both_forms_are_two(seed: int, names: str) -> None:
    rough = random.Random(seed)  # noqa: S311 - only cuts and orders
    texts = '{"a": 1}', '{"a": 2}'
    each = [forms(name, text, rough, index) for index, (name, text) in enumerate(zip(names, texts, strict=True))]
    # A second call of the old form repeats its name, as any call without an id or index does.
    chunks = merge([*each[0][0], *each[1][0]], [*each[0][1], *each[1][1]], rough)
    turn = read(chunks)
    assert sorted(plain(turn.executable), key=str) == [(names[0], {"a": 1}), (names[1], {"a": 2})]
    for call in turn.calls:
        # An id that comes after its call was ready is not recorded.
        own_id = f"call_{texts.index(call.arguments_text)}"
        assert call.raw_id == (None if call.index in ready_before(chunks, own_id) else own_id)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("name", "text"), [("g", '{"a": 1}'), ("f", '{"a": 2}'), ("f", '{"b": 12345}')])
def test_a_call_that_differs_is_one_of_its_own(seed: int, name: str, text: str) -> None:
    rough = random.Random(seed)  # noqa: S311 - only cuts and orders
    olds, _ = forms(name, text, rough)
    _, news = forms("f", '{"a": 1}', rough)
    turn = read(merge(olds, news, rough))
    found = {call.raw_id: (call.name, call.arguments_text, call.state) for call in turn.calls}
    assert found == {None: (name, text, "complete"), "call_0": ("f", '{"a": 1}', "complete")}


def test_the_old_form_alone_is_a_call() -> None:
    turn = read([chat(old("f", "")), chat(old(None, '{"a":')), chat(old(None, "1}")), chat({}, "function_call")])
    assert plain(turn.executable) == [("f", {"a": 1})]


def test_calls_with_ids_are_not_copies_of_each_other() -> None:
    both = {"tool_calls": [*new("f", "{}", "a")["tool_calls"], *new("f", "{}", "b", 1)["tool_calls"]]}
    assert len(read([chat(both), chat({}, "tool_calls")]).executable) == 2
    assert len(read([chat({**both, **old("f", "{}")}), chat({}, "tool_calls")]).executable) == 2


def test_both_forms_in_a_body_that_was_not_streamed() -> None:
    body = chat(finish="tool_calls")
    del body["choices"][0]["delta"]
    body["choices"][0]["message"] = {**old("f", '{"a":1, "b":2}'), **new("f", '{"b": 2, "a": 1}', "call_1")}
    turn = read([body])
    assert [(call.raw_id, call.arguments) for call in turn.executable] == [("call_1", {"a": 1, "b": 2})]


def test_a_copy_that_has_more_of_a_truncated_call_completes_it() -> None:
    turn = read([chat(new("f", '{"a":', "call_1")), chat(old("f", '{"a":1}')), chat({}, "stop")])
    assert [(call.raw_id, call.arguments) for call in turn.executable] == [("call_1", {"a": 1})]


def test_a_copy_that_goes_on_after_the_object_is_a_call_of_its_own() -> None:
    turn = read([chat(new("f", '{"a":1}', "call_1")), chat(old("f", '{"a":1}, {')), chat({}, "stop")])
    assert [(call.raw_id, call.arguments_text) for call in turn.calls] == [
        ("call_1", '{"a":1}'),
        (None, '{"a":1}, {'),
    ]


def test_the_text_of_a_copy_is_limited() -> None:
    turn = Turn("openai_compatible", "t", limits=Limits(arguments=20))
    turn.feed(chat(new("f", "", "call_1")))
    for _ in range(10):
        turn.feed(chat(old("f", "xxxx")))
    turn.close()
    assert turn.error is not None
    assert turn.error.kind == "limit_exceeded"
