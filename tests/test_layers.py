"""The arrows of the house: imports point down only, the core is pure, no SDK, no vendor knows another."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from shared_data import ROOT

import streamkit

PACKAGE = Path(streamkit.__file__).parent
CONTRACTS: dict[str, dict[str, Any]] = {
    contract["name"]: contract
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
}


def test_the_contracts_are_kept() -> None:
    program = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{len(CONTRACTS)} kept, 0 broken" in ran.stdout


def rooms() -> list[str]:
    """The vendors: the folders of ``providers``."""
    folder = PACKAGE / "providers"
    return sorted(path.name for path in folder.iterdir() if (path / "__init__.py").exists())


def test_the_contract_of_vendors_names_every_room() -> None:
    (contract,) = [found for found in CONTRACTS.values() if found["type"] == "independence"]
    assert sorted(contract["modules"]) == [f"streamkit.providers.{room}" for room in rooms()]


def test_every_module_of_the_house_has_its_layer() -> None:
    (contract,) = [found for found in CONTRACTS.values() if found["type"] == "layers"]
    placed = {module.strip() for layer in contract["layers"] for module in layer.split("|")}
    there = {
        f"streamkit.{path.stem}"
        for path in PACKAGE.iterdir()
        if (path.suffix == ".py" and path.stem != "__init__") or (path / "__init__.py").exists()
    }
    assert there - placed == set()


def test_the_core_is_all_but_the_shell() -> None:
    (contract,) = [found for found in CONTRACTS.values() if "pure" in found["name"]]
    shell = {"execution", "stream_reader", "bridges", "testing", "cli"}
    core = {
        f"streamkit.{path.stem}"
        for path in PACKAGE.iterdir()
        if ((path.suffix == ".py" and path.stem != "__init__") or (path / "__init__.py").exists())
        and path.stem not in shell
    }
    pure = set(contract["source_modules"])
    assert {module for module in pure if not module.startswith("streamkit.execution.")} == core
    assert "streamkit.execution.round" in pure


@pytest.mark.parametrize("word", ["utils", "helpers", "common", "manager"])
def test_no_room_without_a_noun(word: str) -> None:
    assert not [path for path in PACKAGE.rglob("*") if path.stem == word]
