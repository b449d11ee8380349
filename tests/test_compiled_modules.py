"""The modules that the build compiles: what mypyc would change without an error is not in them."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
COMPILED = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["mypyc"]["include"]
#: The bases of classes that may be compiled, or that have no options; ``ReadyCalls`` is compiled.
BASES = {"NamedTuple", "Protocol", "ReadyCalls", "ValueError"}


def test_the_list_is_sorted_and_not_empty() -> None:
    assert sorted(set(COMPILED)) == COMPILED
    assert COMPILED


@pytest.mark.parametrize("path", COMPILED)
def test_a_compiled_module_has_plain_classes_alone(path: str) -> None:
    """A struct would lose its options (``frozen``), and an instance cannot be referred to weakly."""
    source = (ROOT / path).read_text("utf-8")
    classes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)]
    assert [each.name for each in classes if each.keywords or each.decorator_list] == []
    assert {ast.unparse(base).partition("[")[0] for each in classes for base in each.bases} <= BASES
    assert "__weakref__" not in source


@pytest.mark.parametrize("path", COMPILED)
def test_a_compiled_module_has_no_endless_generator_expression(path: str) -> None:
    """It would be made as a list, before its first item is used."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for name in node.names}
    assert not imported & {"count", "cycle", "repeat"}
    assert not any(
        name.name == "itertools" for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names
    )
