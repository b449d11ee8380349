"""The built-in providers, checked against every case ``cases/<provider>/<case>.json``.

``streamkit.testing.conformance`` describes the format. The expectations are written from ``docs/rules.md``, never
copied from a result.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
from shared_data import CONFORMANCE_CASES, ROOT, TESTS

import streamkit
from streamkit import providers
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

PACKAGE = Path(streamkit.__file__).parent


def warning_codes(path: Path) -> set[str]:
    """The codes of warnings that a module can give, read from its source: all are literals, so that none is missed."""
    found: set[str] = set()
    tree = ast.parse(path.read_text())
    place = {"warn": 0, "warn_call": 1, "StreamWarning": 0, "Warned": 0}  # of the code, among the arguments
    handed_on: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            names = [argument.arg for argument in node.args.args if argument.arg != "self"]
            if "code" in names:  # it hands a warning on: the code is its caller's
                place[node.name] = names.index("code")
                handed_on.update(ast.walk(node))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node not in handed_on:
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called not in place:
                continue
            code = node.args[place[called]]
            if isinstance(code, ast.Constant):
                found.add(code.value)
            else:  # a settled text brings its own, found below; a warning that is there is handed on
                handed = isinstance(code, ast.Starred) or (isinstance(code, ast.Attribute) and code.attr == "code")
                assert handed, f"{path.name}:{code.lineno}: the code of a warning is a literal"
        elif isinstance(node, ast.Tuple) and path.name == "finalize.py" and len(node.elts) == 2:
            code = node.elts[0]
            if isinstance(code, ast.Constant) and re.fullmatch(r"[a-z]+(_[a-z]+)+", str(code.value)):
                found.add(code.value)
    return found


def test_every_warning_of_a_stream_is_asserted_by_a_case() -> None:
    shell = {"execution", "bridges", "testing", "cli"}
    given = {
        code
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] not in shell
        for code in warning_codes(path)
    }
    assert {"slot_reused", "double_encoded", "no_turn_key"} <= given  # the reading of the sources finds what there is
    asserted = {code for case in CASES for code in read_case(case)["expected"].get("warnings", ())}
    assert given - asserted == set()
    assert asserted - given == set()


def test_every_warning_of_execution_is_asserted_by_a_test() -> None:
    given = {code for path in (PACKAGE / "execution").rglob("*.py") for code in warning_codes(path)}
    tests = "".join(path.read_text() for path in TESTS.rglob("test_*.py"))
    assert {code for code in given if f'"{code}"' not in tests} == set()
