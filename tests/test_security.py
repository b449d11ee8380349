"""``docs/security.md``: each promise about a party has a test, which exists and is not skipped for good."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest
from shared_data import ROOT

TEXT = (ROOT / "docs" / "security.md").read_text("utf-8")
PARTIES = [
    "The upstream",
    "The model",
    "The client of the gateway",
    "The browser",
    "A tool",
    "An MCP server",
    "Stored state",
    "The database",
    "A plug-in",
]
SECTIONS = dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n)*)", TEXT, flags=re.MULTILINE))
#: The rows of the promises: the sentence, and what is in the column of tests.
PROMISES = TEXT.partition("\n## Measured attacks\n")[0]
ROWS = re.findall(r"^\| (?!Promise \|)(.+?) \| ([^|]+) \|$", PROMISES, flags=re.MULTILINE)
TESTS = [named for _, column in ROWS for named in re.findall(r"`(tests/[\w/]+\.py::\w+)`", column)]


@cache
def functions(path: str) -> dict[str, str]:
    """Return the decorators of the functions of a file of tests, by name."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return {
        node.name: " ".join(ast.unparse(each) for each in node.decorator_list)
        for node in tree.body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }


def test_each_party_has_promises_and_limits() -> None:
    assert set(PARTIES) < set(SECTIONS)
    for party in PARTIES:
        assert "| Promise | Test |" in SECTIONS[party], party
        if party != "A plug-in":  # its limit is its first sentence
            assert "\nKnown limits: " in SECTIONS[party], party


def test_each_promise_has_one_test() -> None:
    assert len(ROWS) >= 50
    assert [sentence for sentence, column in ROWS if not re.fullmatch(r"`tests/[\w/]+\.py::test_\w+`", column)] == []
    assert len(set(TESTS)) == len(TESTS) == len(ROWS)


@pytest.mark.parametrize("named", TESTS)
def test_the_test_of_a_promise_exists(named: str) -> None:
    path, _, name = named.partition("::")
    assert name in functions(path)
    assert not re.search(r"mark\.(skip|xfail)\b", functions(path)[name])


def test_the_ways_there() -> None:
    assert "docs/security.md" in (ROOT / "SECURITY.md").read_text("utf-8")
    readme = (ROOT / "README.md").read_text("utf-8")
    assert "(docs/security.md)" in readme
    assert "(SECURITY.md)" in readme
