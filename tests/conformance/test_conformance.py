"""The built-in providers, checked against every case ``cases/<provider>/<case>.json``.

``streamkit.testing.conformance`` describes the format. The expectations are written from ``docs/rules.md``, never
copied from a result.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from shared_data import CONFORMANCE_CASES, ROOT, TESTS

from streamkit import providers
from streamkit.calls import RunWarningCode, TurnWarningCode
from streamkit.testing import cases_in, check_case

CASES = [case for folder in sorted(CONFORMANCE_CASES.iterdir()) for case in cases_in(folder)]


FIELDS = (
    *("about", "source", "invented", "inputs", "terminator", "transport_error", "complete", "status", "headers"),
    *("turn_key", "limits", "options", "chunks", "body", "expected"),
)


def read_case(case: Path) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(case.read_text("utf-8"))
    return fields


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.stem}")
def test_case(case: Path) -> None:
    assert "\n".join(check_case(case.parent.name, case)) == ""


def test_every_provider_has_cases() -> None:
    assert {case.parent.name for case in CASES} == set(providers.names())


def test_every_file_belongs_to_a_case() -> None:
    files = {path for path in CONFORMANCE_CASES.rglob("*") if path.is_file()}
    assert {path for path in files if path.with_suffix(".json") not in CASES} == set()


def test_the_fields_of_a_case_are_in_order() -> None:
    for case in CASES:
        names = list(read_case(case))
        assert names == sorted(names, key=FIELDS.index), case


def test_every_cited_rule_exists() -> None:
    titles = set(re.findall(r"^#+ (.+)$", (ROOT / "docs" / "rules.md").read_text("utf-8"), re.MULTILINE))
    cited = {case: read_case(case)["source"] for case in CASES}
    cited = {case: source for case, source in cited.items() if source.startswith(("docs/", "rule"))}
    assert len(cited) > 50
    citation = re.compile(r'docs/rules\.md, "([^"]+)"')
    for case, source in cited.items():
        match = citation.fullmatch(source)
        assert match is not None, f"{case}: {source}"
        assert match[1] in titles, f"{case}: {source}"


# ---------------------------------------------------------------- every warning has a case


def test_every_warning_of_a_turn_is_asserted_by_a_case() -> None:
    asserted = {code for case in CASES for code in read_case(case)["expected"].get("warnings", ())}
    assert asserted == set(get_args(TurnWarningCode))


def test_every_warning_of_a_run_is_asserted_by_a_test() -> None:
    tests = "".join(path.read_text() for path in TESTS.rglob("test_*.py"))
    assert {code for code in get_args(RunWarningCode) if f'"{code}"' not in tests} == set()
