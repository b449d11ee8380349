"""The import contracts: imports point down, the core is pure, no SDK is imported, and there is no circle."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import grimp
import pytest
from shared_data import ROOT

import streamkit

PACKAGE = Path(streamkit.__file__).parent
CONTRACTS: dict[str, dict[str, Any]] = {
    contract["name"]: contract
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
}


def entries_of(folder: Path) -> set[str]:
    """Return the modules and packages of a folder by name, without the libraries that mypyc puts beside them."""
    names = {path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    return names - {"__init__"}


def top_level_modules() -> set[str]:
    return entries_of(PACKAGE)


def provider_packages() -> list[str]:
    """Return the packages of wires; the others beside them are shared."""
    return sorted(path.parent.name for path in (PACKAGE / "providers").glob("*/parser.py"))


def test_the_contracts_are_kept() -> None:
    program = "from importlinter.cli import lint_imports_command; lint_imports_command(['--no-cache'])"
    lint = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert lint.returncode == 0, lint.stdout + lint.stderr
    assert f"{len(CONTRACTS)} kept, 0 broken" in lint.stdout


def test_the_contract_of_providers_lists_every_package() -> None:
    (contract,) = [contract for contract in CONTRACTS.values() if contract["type"] == "independence"]
    assert sorted(contract["modules"]) == [f"streamkit.providers.{name}" for name in provider_packages()]


def layers_of(name: str) -> set[str]:
    layers = CONTRACTS[name]["layers"]
    return {module.strip() for layer in layers for module in layer.split("|")}


def test_every_module_has_a_layer() -> None:
    assert layers_of("imports point down") == {f"streamkit.{name}" for name in top_level_modules()}


@pytest.mark.parametrize("name", ["providers", "execution"])
def test_every_module_of_a_package_of_packages_has_a_layer(name: str) -> None:
    entries = {f"streamkit.{name}.{entry}" for entry in entries_of(PACKAGE / name)}
    assert layers_of(f"imports point down inside {name}") == entries


#: What reads from sockets and clocks, starts threads or tasks: never part of the core.
SHELL = {"execution", "bridges", "testing", "gateway", "cli", "__main__"}
READERS = {"source", "stream_reader", "stream_file"}


def test_the_core_is_every_module_outside_the_shell() -> None:
    (contract,) = [contract for contract in CONTRACTS.values() if "pure" in contract["name"]]
    core = {f"streamkit.{name}" for name in top_level_modules() - SHELL - {"reading"}}
    core |= {f"streamkit.reading.{name}" for name in entries_of(PACKAGE / "reading") - READERS}
    pure = set(contract["source_modules"])
    parts_of_the_shell = tuple(f"streamkit.{name}." for name in SHELL)
    assert {module for module in pure if not module.startswith(parts_of_the_shell)} == core
    assert "streamkit.execution.round.round" in pure


def import_circles(imports: dict[str, set[str]]) -> set[frozenset[str]]:
    """Return the sets of modules that import each other, directly or not."""

    def reachable(module: str) -> set[str]:
        visited: set[str] = set()
        pending = [module]
        while pending:
            new = imports[pending.pop()] - visited
            visited |= new
            pending += new
        return visited

    below = {module: reachable(module) for module in imports}
    return {
        frozenset(other for other in below[module] if module in below[other])
        for module in imports
        if module in below[module]
    }


def test_circles_are_found() -> None:
    imports = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a"}}
    assert import_circles(imports) == {frozenset({"b", "c"})}


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    """Imports under TYPE_CHECKING count: an inner object must not depend on the object that contains it."""
    graph = grimp.build_graph("streamkit", include_external_packages=False)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert import_circles(imports) == set()


def test_folders_do_not_import_each_other() -> None:
    """The modules that lie in a folder itself count, without what its ``__init__`` gathers."""
    graph = grimp.build_graph("streamkit", include_external_packages=False)
    packages = {module for module in graph.modules if graph.find_children(module)}
    folders = {
        (module.rpartition(".")[0], imported if imported in packages else imported.rpartition(".")[0])
        for module in graph.modules - packages - {"streamkit.__main__"}
        for imported in graph.find_modules_directly_imported_by(module)
    }
    assert [(one, other) for one, other in sorted(folders) if one < other and (other, one) in folders] == []


def possessive_patterns(source: str) -> list[str]:
    """Return the strings of a module that ``re`` would parse as a possessive repeat or an atomic group."""
    constants = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
    values = [node.value for node in constants if isinstance(node.value, (str, bytes))]
    strings = [value.decode("latin-1") if isinstance(value, bytes) else value for value in values]
    return [string for string in strings if re.search(r"(?<!\\)(?:\\\\)*[*+?}]\+|\(\?>", string)]


@pytest.mark.slow
def test_no_pattern_has_a_possessive_repeat_or_an_atomic_group() -> None:
    """Before 3.11.5 they match wrongly (https://github.com/python/cpython/issues/106052); Debian 12 has 3.11.2."""
    paths = sorted(PACKAGE.rglob("*.py"))
    assert paths
    found = {str(path.relative_to(PACKAGE)): possessive_patterns(path.read_text("utf-8")) for path in paths}
    assert {name: patterns for name, patterns in found.items() if patterns} == {}


def test_possessive_repeats_and_atomic_groups_are_found() -> None:
    for pattern in (r"[ab]*+", r"a++", r"(?:a|b)?+", r"a{2,3}+", r"(?>a|b)", rf"{1}a*+", r"\\++"):
        assert possessive_patterns(f"x = {pattern!r}"), pattern
        assert possessive_patterns(f"x = {pattern.encode()!r}"), pattern
    for pattern in (r"\++", r"\*+", "a+", "a*"):
        assert not possessive_patterns(f"x = {pattern!r}"), pattern


@pytest.mark.parametrize("name", ["utils", "helpers", "common", "manager"])
def test_no_module_has_a_name_without_meaning(name: str) -> None:
    assert not [path for path in PACKAGE.rglob("*") if path.stem == name]
