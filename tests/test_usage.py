"""Sums of usage."""

from __future__ import annotations

import pytest

from streamkit import Usage

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
