"""The public types: users' programs in ``tests/typing``, and the errors that they must give, in mypy and pyright."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from shared_data import ROOT

PROGRAMS = ROOT / "tests/typing"


@pytest.mark.slow
def test_the_public_types_are_as_asserted(tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "tests/typing"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr


@pytest.fixture(scope="module")
def pyright() -> str:
    """Return the path of pyright, or skip the test."""
    pyright = shutil.which("pyright", path=str(Path(sys.executable).parent)) or shutil.which("pyright")
    if pyright is None:
        pytest.skip("pyright is not installed: it comes with the extra 'dev'")
    started = subprocess.run([pyright, "--version"], capture_output=True, text=True, check=False)
    if started.returncode != 0:
        pytest.skip(f"pyright cannot start; it downloads itself at its first start: {started.stderr[-200:]}")
    return pyright


@pytest.mark.slow
def test_pyright_reads_the_same_types(pyright: str) -> None:
    process = subprocess.run(
        [pyright, "--project", str(PROGRAMS), "--pythonpath", sys.executable],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr


@pytest.mark.slow
def test_the_types_of_what_is_public_are_declared(pyright: str, tmp_path: Path) -> None:
    """Others' type checkers may infer another type for an attribute without one, or none."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # the package is that of its ``python``
    process = subprocess.run(
        [pyright, "--verifytypes", "streamkit", "--ignoreexternal", "--outputjson"],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    report = json.loads(process.stdout)["typeCompleteness"]
    incomplete = [
        symbol["name"] for symbol in report["symbols"] if not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]
    ]
    assert report["symbols"]
    assert report["completenessScore"] >= 0.99, incomplete


@pytest.mark.slow
def test_a_wrong_call_of_a_tool_is_an_error_of_the_type_checker(tmp_path: Path) -> None:
    wrong = (PROGRAMS / "errors.py").read_text("utf-8")
    lines = wrong.splitlines()
    expected = [number for number, line in enumerate(lines, 1) if "# type: ignore[" in line]
    program = tmp_path / "errors.py"
    program.write_text("\n".join(line.partition("  # type: ignore[")[0] for line in lines) + "\n", "utf-8")
    process = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(program)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found = {int(line.split(":")[1]) for line in process.stdout.splitlines() if ": error: " in line}
    assert found == set(expected), process.stdout + process.stderr
