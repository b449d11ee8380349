"""Our own cases, by the conformance kit: every folder ``cases/<provider>/<case>``, found by itself.

``streamkit.testing.conformance`` says what a case is. The expectations are written from the rules of the accumulator,
never copied from what came out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from streamkit import providers
from streamkit.calls import RunWarningCode, TurnWarningCode
from streamkit.testing import cases_in, check_case

CASES = Path(__file__).parent / "cases"
FOLDERS = [case for folder in cases_in(CASES) for case in cases_in(folder)]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_case(folder: Path) -> None:
    assert "\n".join(check_case(folder.parent.name, folder)) == ""


def test_every_provider_has_cases() -> None:
    with_cases = {folder.parent.name for folder in FOLDERS}
    assert with_cases == set(providers.names())


# ---------------------------------------------------------------- every warning has a case


def expected(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "expected.json").read_text())
    return found


def test_every_warning_of_a_turn_is_asserted_by_a_case() -> None:
    asserted = {code for folder in FOLDERS for code in expected(folder).get("warnings", ())}
    assert asserted == set(get_args(TurnWarningCode))


def test_every_warning_of_a_run_is_asserted_by_a_test() -> None:
    tests = "".join(path.read_text() for path in CASES.parents[1].rglob("test_*.py"))
    assert {code for code in get_args(RunWarningCode) if f'"{code}"' not in tests} == set()
