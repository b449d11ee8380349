"""The modules that the build compiles: what mypyc would change without an error is not in them."""

from __future__ import annotations

import ast
import importlib
import inspect
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_exports import PUBLIC_MODULES

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
COMPILED = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["mypyc"]["include"]
#: The bases of classes that may be compiled, or that have no options; besides, the classes of these modules.
BASES = {"Exception", "Generic", "NamedTuple", "Protocol", "ValueError"}
DECORATORS = {"dataclass(slots=True)", "dataclass(slots=True, eq=False)"}
#: The functions that call themselves, with what limits how often. Compiled code does not count its calls: where
#: interpreted code raises RecursionError, it uses up the stack, and the process is killed.
RECURSIVE = {
    "_fit": "the nesting of the declared type",
    "_sum_counts": "a chunk's nesting (Limits.nesting)",
    "_to_json_value": "the depth of a path (_MAX_DEPTH)",
    "finalize_arguments": "each level of text within text doubles its backslashes",
    "message_with_arguments": "the names of the fields it follows, and a chunk's nesting",
    "replace_lone_surrogates": "its argument left",
    "rewrite": "a chunk's nesting",
    "to_valid_json": "its argument left",
}
TREES = {path: ast.parse((ROOT / path).read_text("utf-8")) for path in COMPILED}
CLASSES = [node for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
FUNCTION_NODES = (ast.FunctionDef, ast.AsyncFunctionDef)
FUNCTIONS = [node for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, FUNCTION_NODES)]


def test_the_list_is_sorted_and_not_empty() -> None:
    assert sorted(set(COMPILED)) == COMPILED
    assert COMPILED


@pytest.mark.parametrize("path", COMPILED)
def test_a_compiled_module_has_plain_classes_alone(path: str) -> None:
    """A struct would lose its options (``frozen``), and an instance cannot be referred to weakly."""
    classes = [node for node in ast.walk(TREES[path]) if isinstance(node, ast.ClassDef)]
    assert [each.name for each in classes if each.keywords] == []
    assert {ast.unparse(decorator) for each in classes for decorator in each.decorator_list} <= DECORATORS
    bases = {ast.unparse(base).partition("[")[0] for each in classes for base in each.bases}
    assert bases <= BASES | {each.name for each in CLASSES}
    assert "__weakref__" not in (ROOT / path).read_text("utf-8")


def test_no_compiled_function_keeps_its_value_in_the_instance() -> None:
    """An instance has no dict for ``cached_property``."""
    decorators = {ast.unparse(decorator) for each in FUNCTIONS for decorator in each.decorator_list}
    assert not {name for name in decorators if "cache" in name and name not in ("lru_cache", "cache")}


def test_no_compiled_function_is_a_coroutine() -> None:
    """It would lack the state (``cr_running``) that anyio reads of a task's coroutine before it cancels the task."""
    assert [each.name for each in FUNCTIONS if isinstance(each, ast.AsyncFunctionDef)] == []


def test_no_compiled_method_has_a_second_name() -> None:
    """``finish = flush_results`` in a class would be an attribute without a value."""
    methods = {each.name for each in FUNCTIONS}
    values = [node.value for each in CLASSES for node in each.body if isinstance(node, ast.Assign)]
    assert [value.id for value in values if isinstance(value, ast.Name) and value.id in methods] == []


def test_a_compiled_function_that_calls_itself_has_a_limit() -> None:
    assert {each.name for each in FUNCTIONS if each.name in set(called_names(each))} == RECURSIVE.keys()


def called_names(function: ast.AST) -> Iterator[str]:
    """Yield the names of the functions, and of the object's own methods, that a function calls."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                yield node.func.id
            elif isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "self":
                yield node.func.attr


def test_public_classes_are_not_compiled() -> None:
    """They can be subclassed, patched and pickled; a compiled class refuses a subclass that is not."""
    modules = {path.removesuffix(".py").replace("/", ".") for path in COMPILED}
    public = {value for name in PUBLIC_MODULES for value in public_values(name) if inspect.isclass(value)}
    assert public
    assert {base.__qualname__ for each in public for base in each.__mro__ if base.__module__ in modules} == set()


def public_values(module: str) -> list[object]:
    loaded = importlib.import_module(module)
    return [getattr(loaded, name) for name in loaded.__all__]


@pytest.mark.parametrize("path", COMPILED)
def test_a_compiled_module_has_no_endless_generator_expression(path: str) -> None:
    """It would be made as a list, before its first item is used."""
    endless = {"count", "cycle", "repeat"}
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and endless & names_in(node.value.func):
            endless |= names_in(node.targets[0])
    expressions = [node for node in ast.walk(TREES[path]) if isinstance(node, ast.GeneratorExp)]
    iterated = [loop.iter for each in expressions for loop in each.generators]
    assert [ast.unparse(each) for each in iterated if endless & names_in(each)] == []


def names_in(expression: ast.AST) -> set[str]:
    found = {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)}
    return found | {node.attr for node in ast.walk(expression) if isinstance(node, ast.Attribute)}
