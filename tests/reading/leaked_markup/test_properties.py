"""Leaked markup in any split of any text: same result, no loss, linear cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from reading.leaked_markup.markup_samples import (
    FAMILIES,
    INVALID_MARKUP,
    split_text,
)

from streamkit import ToolCall
from streamkit.accumulator import Accumulator
from streamkit.accumulator.limits import WireTraits
from streamkit.calls import StreamWarning
from streamkit.events import ToolCallDelta
from streamkit.reading.leaked_markup import MarkupSink
from streamkit.reading.leaked_markup.lexer import LONGEST


def parse_deltas(deltas: Sequence[str], mode: Literal["strip", "recover"]) -> tuple[Any, ...]:
    turn = Accumulator("openai_chat", WireTraits(reuses_slots=True, whole_names=False), turn_key="k")
    sink = MarkupSink(turn, mode)
    for delta in deltas:
        sink.choice(0).text(delta)
    sink.choice(0).finish("stop", "stop")
    sink.close()
    turn.close(complete=True)
    choice = turn.choice(0)
    streamed: dict[str, str] = {}
    for event in turn.events:
        if isinstance(event, ToolCallDelta):
            streamed[event.call.id] = streamed.get(event.call.id, "") + event.arguments_delta
    calls: list[ToolCall] = choice.calls
    for call in calls:
        assert streamed.get(call.id, "") == call.arguments_text
    shown = [(b.kind, b.text if b.call is None else b.call.index) for b in choice.blocks if b.text or b.call]
    warnings: list[StreamWarning] = turn.warnings
    return choice.joined_text("text"), calls, shown, warnings


FRAGMENTS = [
    *FAMILIES.values(),
    *(text for text in INVALID_MARKUP if len(text) < 1000),
    "<tool_call>",
    "</tool_call>",
    '{"name": "f", "arguments": {"a": "',
    '"}}',
    "<function=f>",
    "<parameter=a>",
    "</parameter>",
    "</function>",
    '<|DSML|invoke name="f">',
    '<|DSML|parameter name="a" string="true">',
    "</|DSML|parameter>",
    "</|DSML|invoke>",
    "<|tool_call_begin|>",
    "functions.f:1",
    "<|tool_call_argument_begin|>",
    '{"a"',
    '{"a":1}',
    "}",
    "<|tool_call_end|>",
    "<",
    " ",
    "\n",
    '"',
    "\\",
    "text",
    "`",
    "\n```\n",
    "~~~",
    "\n> ",
    "<pre>",
]


fragments = st.one_of(st.sampled_from(FRAGMENTS), st.text(alphabet='ab<>/|"{}\n \\_=\uff5c', max_size=6))


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Draw markup and prose in any order, some of it truncated at either end."""
    parts = []
    for fragment in draw(st.lists(fragments, max_size=5)):
        begin = draw(st.sampled_from([0, 0, 0, 1, 9]))
        end = draw(st.sampled_from([None, None, None, -1, -12]))
        parts.append(fragment[begin:end])
    return "".join(parts)


@given(
    text=texts(), sizes=st.lists(st.integers(1, 40), min_size=1, max_size=8), mode=st.sampled_from(["strip", "recover"])
)
@example(
    text='<|tool_call_begin|>f:1<|tool_call_argument_begin|>{"a"{"a":1}<|tool_call_end|>', sizes=[1], mode="recover"
)
@example(text="<function=<tool_call>{", sizes=[1], mode="recover")
def test_any_split_gives_the_same_text_and_calls(
    text: str, sizes: list[int], mode: Literal["strip", "recover"]
) -> None:
    deltas, at = [], 0
    while at < len(text):
        size = sizes[len(deltas) % len(sizes)]
        deltas.append(text[at : at + size])
        at += size
    expected = parse_deltas([text], mode)
    assert parse_deltas(deltas, mode) == expected
    assert parse_deltas(list(text), mode) == expected


@given(text=texts())
def test_without_a_call_no_character_is_lost(text: str) -> None:
    emitted, calls, _, warnings = parse_deltas(list(text), "recover")
    if not any(warning.code == "leaked_markup" for warning in warnings):
        assert (emitted, calls) == (text, [])


class CountingText(str):
    """A text that counts the characters that its operations read or copy."""

    __slots__ = ()
    touched = 0

    def _count(self, result: str) -> CountingText:
        CountingText.touched += len(result)
        return CountingText(result)

    def __add__(self, other: str) -> CountingText:
        return self._count(str(self) + str(other))

    def __radd__(self, other: str) -> CountingText:
        return self._count(other + str(self))

    def __getitem__(self, key: Any) -> CountingText:
        return self._count(super().__getitem__(key))

    def find(self, sub: str, *where: Any) -> int:
        index = super().find(sub, *where)
        begin = where[0] if where else 0
        CountingText.touched += (index if index >= 0 else len(self)) - begin + 1
        return index

    def translate(self, table: Any) -> CountingText:
        return self._count(super().translate(table))

    def lstrip(self, characters: str | None = None) -> CountingText:
        return self._count(super().lstrip(characters))

    def strip(self, characters: str | None = None) -> str:
        CountingText.touched += len(self)
        return str.strip(str(self), characters)  # the JSON decoder reads only plain strings

    def startswith(self, *args: Any) -> bool:
        CountingText.touched += len(args[0])
        return super().startswith(*args)


@pytest.mark.parametrize("size", [1, 7, 4096, 10**9])
@pytest.mark.parametrize(
    ("before", "unit", "after"),
    [
        ("", "a < b <tool_box> </div> <", ""),
        ('<|DSML|invoke name="f"><|DSML|parameter name="a" string="true">', "</|DSML|para <", "</|DSML|parameter>"),
        ("<|tool_call_begin|>f:0<|tool_call_argument_begin|>" + '{"a": "', "xy <|tool_call_e ", '"}<|tool_call_end|>'),
        ('<tool_call>{"name": "f", "arguments": {"a": "', "xy </tool_cal ", '"}}</tool_call>'),
        ("", "<function=" + "f" * 60, ""),
        ("", '<tool_call>{"', ""),
        ("", "<|tool_call_begin|>f:0<|tool_call_argument_begin|>{}<|tool_call_end|>", ""),
    ],
)
def test_cost_is_linear_for_any_size_of_deltas(before: str, unit: str, after: str, size: int) -> None:
    costs = []
    for times in (50, 100, 200):
        sink = MarkupSink(Accumulator("openai_chat", WireTraits(), turn_key="k"), "recover")
        text = before + unit * times + after
        CountingText.touched = 0
        for delta in split_text(text, size):
            sink.choice(0).text(CountingText(delta))
        sink.close()
        costs.append(CountingText.touched)
    assert costs[2] - costs[1] <= 2.2 * (costs[1] - costs[0]) + 2 * LONGEST
