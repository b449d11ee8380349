"""A ``Growing`` held against the tests of Vercel's AI SDK and of instructor; the cases are in ``foreign_cases``."""

from __future__ import annotations

from typing import Any

import pytest
from output.foreign_cases import INSTRUCTOR_EXTRACTED, VERCEL_FIX_JSON, VERCEL_PARSE_PARTIAL_JSON, Case

from streamkit import Growing


@pytest.mark.parametrize("case", [*VERCEL_FIX_JSON, *VERCEL_PARSE_PARTIAL_JSON])
def test_an_unfinished_text_has_the_value_of_vercels_tests(case: Case) -> None:
    expected = case.ours if case.difference else case.theirs
    for size in (1, 4, 1000):
        growing = Growing()
        for at in range(0, len(case.text), size):
            growing.feed(case.text[at : at + size])
        assert repr(growing.value) == repr(expected), size


def test_each_difference_from_vercel_is_of_a_documented_kind() -> None:
    different = [case for case in VERCEL_FIX_JSON if case.difference]
    assert {case.difference for case in different} == {"number", "keyword"}
    assert all(case.ours != case.theirs for case in different)
    assert len(different) == 24


@pytest.mark.parametrize(("deltas", "value"), INSTRUCTOR_EXTRACTED)
@pytest.mark.parametrize("is_cut", [False, True])
def test_json_in_other_text_is_found_as_in_instructors_tests(deltas: list[str], value: Any, is_cut: bool) -> None:
    growing = Growing()
    for delta in list("".join(deltas)) if is_cut else deltas:
        growing.feed(delta)
    assert growing.value == value
    assert growing.close() == value
