"""The names that resemble an unknown one, found at a bounded cost."""

from __future__ import annotations

import difflib
from difflib import SequenceMatcher
from typing import Any

import pytest

from streamkit import ToolSet, UsageError, tool
from streamkit.calls import ToolCall
from streamkit.execution.one_call.prepare import prepare_call
from streamkit.tools import to_tools
from streamkit.tools import toolset as nearest


def named(name: str) -> Any:
    return tool(lambda: "x", name=name, description="d")


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of all texts that difflib gets."""
    sizes: list[int] = []

    class Recording(SequenceMatcher[str]):
        def set_seq1(self, a: Any) -> None:
            sizes.append(len(a))
            super().set_seq1(a)

        def set_seq2(self, b: Any) -> None:
            sizes.append(len(b))
            super().set_seq2(b)

    monkeypatch.setattr(difflib, "SequenceMatcher", Recording)
    return sizes


NAMES = ["get_weather", "get_time", "delete_file"]


@pytest.mark.parametrize("name", ["get_wether" + "x" * 320_000, "ab" * 160_000, "\U0001f600" * 100_000])
def test_a_name_of_any_length_is_compared_up_to_64_characters(name: str, compared: list[int]) -> None:
    tools = to_tools([named(known) for known in NAMES])
    call = ToolCall(id="hist_tool_1", name=name, arguments={}, index=0, state="complete")
    result: Any = prepare_call(call, tools)
    assert compared
    assert max(compared) <= 64
    assert len(result.error) < 2000
    assert f"({len(name)} characters)" in result.error
    compared.clear()
    with pytest.raises(UsageError) as raised:
        ToolSet(tools.values()).rename({name: "x"})
    assert compared
    assert max(compared) <= 64
    assert len(str(raised.value)) < 2000


def test_the_number_of_comparisons_is_bounded(compared: list[int]) -> None:
    known = [f"tool_{number}" for number in range(5000)]
    assert sorted(nearest.sort_by_similarity("tool_7", known)) == sorted(known)
    assert len(compared) < 1000


def test_the_nearest_names_are_first() -> None:
    assert nearest.sort_by_similarity("Get_Wether", NAMES)[0] == "get_weather"
    assert nearest.sort_by_similarity("remove_file", NAMES)[0] == "delete_file"
    assert nearest.sort_by_similarity("x", []) == []


def test_a_short_name_is_quoted_as_it_is() -> None:
    assert nearest.quote_name("a\nb") == r"'a\nb'"
