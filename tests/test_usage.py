"""Sums of usage, and what a turn keeps of its reports."""

from __future__ import annotations

from typing import Any

import pytest

from streamkit import Turn, Usage

FIRST = Usage(10, 2, cache_read_tokens=4, raw={"n": 1})
SECOND = Usage(20, None, 7, raw={"n": 2})


def test_the_sum_of_two_turns_has_the_figures_of_both() -> None:
    assert Usage(30, 2, 7, 4, None, [{"n": 1}, {"n": 2}]) == FIRST + SECOND


def test_the_builtin_sum_adds_up_many() -> None:
    total = sum([FIRST, SECOND, FIRST], start=Usage())
    assert total == Usage(40, 4, 7, 8, None, [{"n": 1}, {"n": 2}, {"n": 1}])
    assert Usage.sum([FIRST, SECOND, FIRST]) == total
    assert sum([], start=Usage()) == Usage()


def test_no_reports_have_no_sum() -> None:
    assert Usage.sum([]) is None


def test_anything_else_is_not_added() -> None:
    with pytest.raises(TypeError):
        FIRST + 1  # type: ignore[operator]


@pytest.mark.parametrize(
    ("earlier", "later", "expected"), [(None, None, None), (None, 0, 0), (5, None, 5), (5, 0, 5), (5, 7, 7)]
)
def test_the_last_figure_counts_and_a_zero_replaces_none(
    earlier: int | None, later: int | None, expected: int | None
) -> None:
    both = Usage(earlier, raw={"n": 1}).updated_with(Usage(later, 3, None, 4, later, raw=None))
    assert both == Usage(expected, 3, None, 4, later, None)


def raw_usage(report: dict[str, Any]) -> Any:
    """Return what a turn keeps of a report."""
    turn = Turn("openai_chat", turn_key="turn-1")
    turn.feed({"id": "r", "model": "m", "choices": [], "usage": report})
    assert turn.usage is not None
    assert turn.usage.input_tokens == 3
    return turn.usage.raw


@pytest.mark.parametrize(
    "details", [{"cached_tokens": 1, "cost": 0.25, "is_cached": True, "more": {"tier": None}}, {}, 0.5, None]
)
def test_a_report_that_is_json_data_is_kept_as_it_is(details: Any) -> None:
    report = {"prompt_tokens": 3, "prompt_tokens_details": details}
    assert raw_usage(report) is report


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        (float("nan"), "NaN"),
        ({"cost": float("-inf")}, {"cost": "-Infinity"}),
        ({1: 2}, {"1": 2}),
        ({"more": {"kinds": (1, 2)}}, {"more": {"kinds": [1, 2]}}),
        ([float("inf")], ["Infinity"]),
    ],
)
def test_a_report_is_kept_as_json_data(details: Any, expected: Any) -> None:
    report = {"prompt_tokens": 3, "prompt_tokens_details": details}
    assert raw_usage(report) == {"prompt_tokens": 3, "prompt_tokens_details": expected}
