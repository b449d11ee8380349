"""Each asynchronous test names its event loops: ``anyio`` for asyncio and trio, ``asyncio`` for asyncio alone.

CONTRIBUTING.md, "Asynchronous tests", has the rule.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shared_data import ROOT

FILES = sorted(ROOT.glob("tests/**/test_*.py"))
PLUGINS = {"anyio", "asyncio"}


def marks_in(nodes: list[ast.expr]) -> set[str]:
    """Return the plugins that the marks among some expressions name."""
    return {
        node.attr
        for each in nodes
        for node in ast.walk(each)
        if isinstance(node, ast.Attribute)
        and node.attr in PLUGINS
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "mark"
    }


def async_tests(tree: ast.Module) -> Iterator[tuple[ast.AsyncFunctionDef, set[str]]]:
    """Yield each asynchronous test of a module with the plugins of its marks and of the module's."""
    assigned = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets)
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node, marks_in(assigned) | marks_in(node.decorator_list)


def faults(lines: list[str], test: ast.AsyncFunctionDef, plugins: set[str]) -> Iterator[str]:
    """Yield an error for each rule that the marks of a test break; ``lines`` is the text of its file."""
    if len(plugins) != 1:
        yield f"{test.name} needs pytest.mark.anyio or pytest.mark.asyncio, and has {plugins}"
    elif plugins == {"asyncio"}:
        decorators = [lines[each.lineno - 1] for each in test.decorator_list]
        if not any(re.search(r"mark\.asyncio\b.*  # \S", line) for line in decorators):
            yield f"{test.name}: a comment beside pytest.mark.asyncio must say why trio is left out"


def test_each_asynchronous_test_has_one_plugin() -> None:
    found: list[str] = []
    kinds: set[str] = set()
    for path in FILES:
        text = path.read_text("utf-8")
        if "async def test_" not in text:
            continue  # parsing takes most of the time
        for test, plugins in async_tests(ast.parse(text)):
            found += [f"{path.relative_to(ROOT)}: {fault}" for fault in faults(text.splitlines(), test, plugins)]
            kinds |= plugins
    assert found == []
    assert kinds == PLUGINS
