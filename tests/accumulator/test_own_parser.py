"""A parser of one's own that reports calls as ``NormalizedToolChunk``, with the public names alone."""

from __future__ import annotations

from typing import Any

import pytest

from streamkit import Accumulator, Limits, NormalizedToolChunk, ToolCall, UsageError, process_tool_call_chunk
from streamkit.events import ToolCallReady
from streamkit.providers import WireTraits


def start(name: str, id: str | None = None, args: str = "", **fields: Any) -> NormalizedToolChunk:
    return NormalizedToolChunk("start", id=id, name=name, args=args, **fields)


def delta(text: str, **fields: Any) -> NormalizedToolChunk:
    return NormalizedToolChunk("delta", arguments_delta=text, **fields)


def accumulate(*chunks: NormalizedToolChunk, **options: Any) -> Accumulator:
    calls = Accumulator("mine", WireTraits(), turn_key="turn-1", **options)
    for chunk in chunks:
        process_tool_call_chunk(chunk, calls)
    calls.close(complete=True)
    return calls


def read(*chunks: NormalizedToolChunk) -> list[ToolCall]:
    return accumulate(*chunks).calls


def at(index: Any) -> dict[str, Any]:
    return {"metadata": {"index": index}}


def test_the_index_in_the_metadata_is_the_key_of_a_block() -> None:
    first, second = read(
        start("read", "a", **at(1)),
        start("write", "b", **at(2)),
        delta('{"x":', **at(2)),
        delta('{"y":', **at(1)),
        delta("1}", **at("2")),
        delta("2}", **at(1.0)),
    )
    assert (first.name, first.arguments) == ("read", {"y": 2})
    assert (second.name, second.arguments) == ("write", {"x": 1})


def test_the_index_is_no_metadata_of_the_call_and_the_rest_is() -> None:
    (call,) = read(start("f", "a", '{"x":1}', metadata={"index": 3, "thoughtSignature": "c2ln"}))
    assert call.metadata == {"thoughtSignature": "c2ln"}


def test_a_key_has_precedence_over_the_index_in_the_metadata() -> None:
    first, second = read(
        start("f", "a", key="k", metadata={"index": 0}), start("g", "b", key="l"), delta('{"x":1}', key="k")
    )
    assert (first.arguments, first.metadata) == ({"x": 1}, {"index": 0})
    assert second.arguments == {}


def test_a_delta_without_key_belongs_to_the_only_open_call() -> None:
    first, second = read(
        start("f"), delta('{"x":'), delta("1}"), start("g", "b"), delta('{"y":'), delta("2}", metadata={})
    )
    assert (first.arguments, second.arguments) == ({"x": 1}, {"y": 2})


def test_parallel_calls_are_distinguished_by_id() -> None:
    first, second = read(
        start("f", "a"), start("g", "b"), delta('{"x":', id="a"), delta('{"y":', id="b"), delta("1}", id="a")
    )
    assert (first.state, first.arguments) == ("complete", {"x": 1})
    assert (second.state, second.arguments_text) == ("incomplete", '{"y":')


def test_the_events_are_those_of_every_provider_and_the_ready_call_comes_with_the_end() -> None:
    calls = Accumulator("mine", WireTraits(), turn_key="turn-1")
    seen = [
        event.type
        for chunk in (start("f", "a", **at(0)), delta("{", **at(0)), delta("}", **at(0)))
        for event in process_tool_call_chunk(chunk, calls)
    ]
    assert seen == ["tool_call_start", "tool_call_delta", "tool_call_delta"]
    calls.close(complete=True)
    ready = [event.call for event in calls.events if isinstance(event, ToolCallReady)]
    assert [(call.arguments, call.id) for call in ready] == [({}, calls.calls[0].id)]


# ---------------------------------------------------------------- native messages

CHAT = [{"id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (CHAT, [{"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}]),
        ({"role": "assistant", "tool_calls": CHAT}, {"role": "assistant", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}
        ]}),
        ({"type": "function_call", "arguments": "", "name": "f"}, {
            "type": "function_call", "arguments": '{"x":1}', "name": "f"
        }),
        ({"type": "tool_use", "id": "a", "input": {}}, {"type": "tool_use", "id": "a", "input": {"x": 1}}),
        ({"functionCall": {"name": "f", "args": {}}}, {"functionCall": {"name": "f", "args": {"x": 1}}}),
        ({"of": "no known form"}, {"of": "no known form"}),
        ("text", "text"),
        ([], []),
    ],
)  # fmt: skip
def test_the_message_of_a_call_has_the_arguments_of_its_deltas(message: Any, expected: Any) -> None:
    before = repr(message)
    (call,) = read(start("f", "a", message=message), delta('{"x":'), delta("1}"))
    assert call.message == expected
    assert repr(message) == before  # the caller's object is not changed


def test_the_message_of_an_open_call_has_the_arguments_so_far() -> None:
    calls = Accumulator("mine", turn_key="t")
    process_tool_call_chunk(start("f", "a", message=CHAT), calls)
    process_tool_call_chunk(delta('{"x'), calls)
    assert calls.calls[0].message[0]["function"]["arguments"] == '{"x'


def test_the_last_message_counts_and_a_call_without_one_has_none() -> None:
    first, second = read(
        start("f", "a", message={"n": 1}), delta("{}", id="a", message={"n": 2}), start("g", "b", "{}")
    )
    assert (first.message, second.message) == ({"n": 2}, None)


def test_a_message_of_a_plain_delta_counts() -> None:
    (call,) = read(start("f", key=0), delta("{", key=0), delta("}", key=0, message={"n": 2}))
    assert call.message == {"n": 2}


def test_messages_count_against_the_limits() -> None:
    calls = accumulate(start("f", "a", message={"long": "x" * 5000}), limits=Limits(text=4000))
    assert calls.error is not None
    assert calls.error.kind == "limit_exceeded"
    assert [call.message for call in calls.calls] in ([], [None])


def test_a_message_that_comes_after_the_call_is_ready_changes_nothing() -> None:
    calls = Accumulator("mine", turn_key="t")
    process_tool_call_chunk(start("f", "a", '{"x":1}', key=0, message={"n": 1}), calls)
    calls.choice(0).end_block(0)
    process_tool_call_chunk(delta("", id="a", key=0, message={"n": 2}), calls)
    calls.close(complete=True)
    assert calls.calls[0].message == {"n": 1}


@pytest.mark.parametrize(
    ("chunk", "message"),
    [
        ({"type": "start", "name": "f"}, "a NormalizedToolChunk is expected, not dict"),
        (NormalizedToolChunk("complete", name="f"), "is 'start' or 'delta', not 'complete'"),  # type: ignore[arg-type]
        (start("f", args={"a": 1}), "args of .* is a str or None, not dict; write arguments as JSON text"),  # type: ignore[arg-type]
        (delta({"a": 1}), "arguments_delta of .* is a str or None, not dict; write arguments as JSON text"),  # type: ignore[arg-type]
        (delta(b"{}"), "arguments_delta of .* not bytes"),  # type: ignore[arg-type]
        (start("f", id=7), "id of a NormalizedToolChunk is a str or None, not int"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_chunk_is_refused_before_it_changes_a_call(chunk: Any, message: str) -> None:
    calls = Accumulator("mine", turn_key="t")
    process_tool_call_chunk(start("g", "a", '{"x":1}'), calls)
    with pytest.raises(UsageError, match=message):
        process_tool_call_chunk(chunk, calls)
    calls.close(complete=True)
    assert [(call.name, call.state) for call in calls.calls] == [("g", "complete")]
