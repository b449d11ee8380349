"""Calls that a wire sends as whole objects: none is lost without a warning, whatever their ids and indexes are.

Servers give several calls one id, no id, or one index, in one list or in several chunks. Wires with block indexes
(Anthropic, Bedrock) distinguish their calls by these.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit import Turn, providers
from streamkit.providers.openai_chat.dialects import DIALECTS

Json = dict[str, Any]
IDS: dict[str, Callable[[int], Json]] = {
    "none": lambda number: {},
    "null": lambda number: {"id": None},
    "empty": lambda number: {"id": ""},
    "text of null": lambda number: {"id": "null"},
    "same": lambda number: {"id": "x"},
    "own": lambda number: {"id": f"x{number}"},
}
INDEXES: dict[str, Callable[[int], Json]] = {
    "none": lambda number: {},
    "null": lambda number: {"index": None},
    "same": lambda number: {"index": 0},
    "own": lambda number: {"index": number},
}


def function(arguments: Json, *, is_text: bool) -> Json:
    return {"name": "f", "arguments": json.dumps(arguments) if is_text else arguments}


def chat(
    calls: list[Json], new_id: Callable[[int], Json], new_index: Callable[[int], Json], one_list: bool
) -> list[Json]:
    entries = [
        {**new_id(number), **new_index(number), "type": "function", "function": function(arguments, is_text=True)}
        for number, arguments in enumerate(calls)
    ]
    lists = [entries] if one_list else [[entry] for entry in entries]
    deltas = [{"role": "assistant", "tool_calls": entries} for entries in lists]
    head = {"id": "r", "model": "m", "object": "chat.completion.chunk"}
    return [
        *({**head, "choices": [{"index": 0, "delta": delta}]} for delta in deltas),
        {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    ]


def gemini(
    calls: list[Json], new_id: Callable[[int], Json], new_index: Callable[[int], Json], one_list: bool
) -> list[Json]:
    parts = [
        {"functionCall": {**new_id(number), "name": "f", "args": arguments}} for number, arguments in enumerate(calls)
    ]
    lists = [parts] if one_list else [[part] for part in parts]
    head = {"responseId": "r", "modelVersion": "m"}
    return [
        *({**head, "candidates": [{"index": 0, "content": {"role": "model", "parts": parts}}]} for parts in lists),
        {**head, "candidates": [{"index": 0, "finishReason": "STOP"}]},
    ]


def ollama(
    calls: list[Json], new_id: Callable[[int], Json], new_index: Callable[[int], Json], one_list: bool
) -> list[Json]:
    entries = [
        {**new_id(number), "function": {**new_index(number), **function(arguments, is_text=False)}}
        for number, arguments in enumerate(calls)
    ]
    lists = [entries] if one_list else [[entry] for entry in entries]
    return [
        *({"model": "m", "message": {"role": "assistant", "content": "", "tool_calls": each}} for each in lists),
        {"model": "m", "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"},
    ]


def cohere(
    calls: list[Json], new_id: Callable[[int], Json], new_index: Callable[[int], Json], one_list: bool
) -> list[Json]:
    entries = [
        {**new_id(number), "type": "function", "function": function(arguments, is_text=True)}
        for number, arguments in enumerate(calls)
    ]
    if one_list:
        return [{"id": "r", "message": {"role": "assistant", "tool_calls": entries}, "finish_reason": "TOOL_CALL"}]
    events: list[Json] = [{"type": "message-start", "id": "r", "delta": {"message": {"role": "assistant"}}}]
    for number, entry in enumerate(entries):
        index = new_index(number)
        start = {**entry, "function": {"name": "f", "arguments": ""}}
        rest = {"function": {"arguments": entry["function"]["arguments"]}}
        events += [
            {"type": "tool-call-start", **index, "delta": {"message": {"tool_calls": start}}},
            {"type": "tool-call-delta", **index, "delta": {"message": {"tool_calls": rest}}},
            {"type": "tool-call-end", **index},
        ]
    return [*events, {"type": "message-end", "delta": {"finish_reason": "TOOL_CALL"}}]


def responses(
    calls: list[Json], new_id: Callable[[int], Json], new_index: Callable[[int], Json], one_list: bool
) -> list[Json]:
    items = [
        {**new_id(number), "type": "function_call", "name": "f", "arguments": json.dumps(arguments)}
        | ({"call_id": call_id} if (call_id := new_id(number).get("id")) else {})
        for number, arguments in enumerate(calls)
    ]
    body = {"id": "r", "model": "m", "object": "response", "status": "completed", "output": items}
    if one_list:
        return [body]
    events: list[Json] = [{"type": "response.created", "response": {"id": "r", "model": "m"}}]
    for number, item in enumerate(items):
        index = {name: value for value in new_index(number).values() for name in ("output_index",)}
        events += [{"type": f"response.output_item.{kind}", **index, "item": item} for kind in ("added", "done")]
    return [*events, {"type": "response.completed", "response": body}]


WIRES = {
    **{dialect.name: chat for dialect in DIALECTS},
    "openai_compatible": chat,
    "gemini": gemini,
    "ollama": ollama,
    "cohere": cohere,
    "openai_responses": responses,
}


def test_every_wire_without_block_indexes_is_here() -> None:
    names = {name for name in providers.names() if not name.startswith(("anthropic", "bedrock"))}
    assert names - WIRES.keys() == set()


@pytest.mark.parametrize("one_list", [True, False])
@pytest.mark.parametrize("provider", WIRES)
@given(
    values=st.lists(st.integers(0, 3), min_size=2, max_size=4),
    new_id=st.sampled_from(list(IDS)),
    new_index=st.sampled_from(list(INDEXES)),
)
def test_no_whole_call_is_lost_without_a_warning(
    provider: str, one_list: bool, values: list[int], new_id: str, new_index: str
) -> None:
    calls = [{"a": value} for value in values]
    turn = Turn(provider, turn_key="t")
    for chunk in WIRES[provider](calls, IDS[new_id], INDEXES[new_index], one_list):
        turn.feed(chunk)
    turn.close()
    executed = [call.arguments for call in turn.executable]
    assert turn.error is None
    assert len({call.id for call in turn.executable}) == len(executed)
    if one_list and len(set(values)) == len(values):
        assert executed == calls
    assert executed == calls or (executed and turn.warnings)
    if new_id == "same" and len(set(values)) < len(values):  # a call sent twice, or two equal calls
        assert turn.warnings


@pytest.mark.parametrize(
    "entries",
    [
        [{"id": "x", "function": {"name": "f", "arguments": '{"a":'}}, {"function": {"arguments": "1}"}}],
        [
            {"id": "x", "function": {"name": "f", "arguments": ""}},
            {"id": "x", "function": {"name": "f", "arguments": '{"a":1}'}},
        ],
        [
            {"id": "x", "function": {"name": "f", "arguments": '{"a":'}},
            {"id": "x", "function": {"name": "f", "arguments": "1}"}},
        ],
        [
            {"id": "x", "function": {"name": "f", "arguments": '{"a":1}'}},
            {"id": "x", "function": {"name": "f", "arguments": ""}},
        ],
    ],
)
@pytest.mark.parametrize("index", INDEXES)
def test_the_fragments_of_one_call_in_one_list_stay_one_call(entries: list[Json], index: str) -> None:
    calls = [{**INDEXES["same" if index == "own" else index](0), **entry} for entry in entries]
    turn = Turn("openai_chat", turn_key="t")
    turn.feed({"id": "r", "model": "m", "choices": [{"index": 0, "delta": {"tool_calls": calls}}]})
    turn.feed({"id": "r", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    turn.close()
    assert [call.arguments for call in turn.executable] == [{"a": 1}]
    assert turn.warnings == []


def test_function_call_beside_tool_calls_is_a_copy() -> None:
    entry = {"index": 0, "id": "x", "type": "function", "function": function({"a": 1}, is_text=True)}
    delta = {"tool_calls": [entry], "function_call": entry["function"]}
    turn = Turn("openai_chat", turn_key="t")
    turn.feed({"id": "r", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": "tool_calls"}]})
    turn.close()
    assert [call.arguments for call in turn.executable] == [{"a": 1}]


def test_a_call_that_a_later_list_repeats_at_its_own_position_is_one_call() -> None:
    entries = [
        {"id": name, "type": "function", "function": {"name": "f", "arguments": json.dumps({"a": name})}}
        for name in ("x", "y")
    ]
    turn = Turn("openai_chat", turn_key="t")
    for _ in range(2):
        turn.feed({"id": "r", "model": "m", "choices": [{"index": 0, "delta": {"tool_calls": entries}}]})
    turn.feed({"id": "r", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    turn.close()
    assert [call.arguments for call in turn.executable] == [{"a": "x"}, {"a": "y"}]
    assert [warning.code for warning in turn.warnings] == ["repeated_arguments", "repeated_arguments"]


@pytest.mark.parametrize(("second", "codes"), [(1, ["slot_reused", "repeated_call"]), (2, ["slot_reused"])])
def test_a_call_of_cohere_that_starts_twice_under_one_id_and_index_warns(second: int, codes: list[str]) -> None:
    turn = Turn("cohere", turn_key="t")
    for chunk in cohere([{"a": 1}, {"a": second}], IDS["same"], INDEXES["same"], one_list=False):
        turn.feed(chunk)
    turn.close()
    assert [call.arguments for call in turn.executable] == [{"a": 1}, {"a": second}]
    assert [warning.code for warning in turn.warnings] == codes
