"""Our own cases, by the conformance kit: every folder ``cases/<provider>/<case>``, found by itself.

``streamkit.testing.conformance`` says what a case is. The expectations are written from the rules of the accumulator,
never copied from what came out.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

import streamkit
from streamkit import providers
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


def expected(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "expected.json").read_text())
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
    asserted = {code for folder in FOLDERS for code in expected(folder).get("warnings", ())}
    assert given - asserted == set()
    assert asserted - given == set()


def test_every_warning_of_execution_is_asserted_by_a_test() -> None:
    given = {code for path in (PACKAGE / "execution").rglob("*.py") for code in warning_codes(path)}
    tests = "".join(path.read_text() for path in CASES.parents[1].rglob("test_*.py"))
    assert {code for code in given if f'"{code}"' not in tests} == set()
