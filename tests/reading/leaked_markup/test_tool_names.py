"""Control tokens in the names of calls."""

from __future__ import annotations

import pytest
from reading.leaked_markup.markup_samples import (
    chat_turn,
    warning_codes,
)
from wire_streams import chat_call

from streamkit.accumulator import Accumulator
from streamkit.accumulator.limits import WireTraits
from streamkit.events import NormalizedToolChunk
from streamkit.reading.leaked_markup import MarkupSink


@pytest.mark.parametrize(
    "names",
    [
        ["tool_search<|channel|>json"],
        ["tool_search", "<|channel|>json"],
        ["tool_", "search<|chan", "nel|>", "json"],
        ["tool_search<", "|channel|>json"],
        ["tool_search<|channel|>json", "tool_search<|channel|>json"],
    ],
)
def test_control_tokens_are_removed_from_a_name(names: list[str]) -> None:
    calls = [chat_call("", id="c1", name=names[0]), *(chat_call("", name=name) for name in names[1:])]
    calls += [chat_call('{"q":'), chat_call(' "x"}')]
    turn = chat_turn([], "recover", *calls)
    assert [(call.name, call.arguments) for call in turn.calls] == [("tool_search", {"q": "x"})]
    assert set(warning_codes(turn)) == {"leaked_markup"}
    kept = chat_turn([], "keep", *calls[:1], *calls[-2:])
    assert [call.name for call in kept.calls] == names[:1]


def test_a_repeated_name_with_control_tokens_is_one_call() -> None:
    name = "f<|channel|>json"
    turn = chat_turn(
        [],
        "strip",
        chat_call('{"a":', id="c1", name=name),
        chat_call("1}", id="c1", name=name),
        chat_call('{"b":', index=1, id="c2", name="g"),
        chat_call("2}", index=1),
    )
    assert [(call.name, call.arguments) for call in turn.calls] == [("f", {"a": 1}), ("g", {"b": 2})]


def test_a_plain_name_is_unchanged() -> None:
    sink = MarkupSink(Accumulator("openai_chat", WireTraits(), turn_key="k"), "recover")
    sink.choice(0).tool(NormalizedToolChunk("start", "c1", "f", "{}", key=0))
    sink.choice(0).tool(NormalizedToolChunk("delta", None, None, None, None, 0))
    assert [call.name for call in sink.choice(0)._choice.calls] == ["f"]
