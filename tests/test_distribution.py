"""The name of the distribution, which is not that of the package, is the same in all texts, messages and commands."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from streamkit.values.distribution import DISTRIBUTION, install_command

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
TEXTS = sorted(
    path
    for pattern in ("*.md", "docs/**/*", "streamkit/**/*.py", "benchmarks/**/*.py", ".ci/*", "streamkit_llm.py")
    for path in ROOT.glob(pattern)
    if path.is_file()
)


def test_the_project_has_the_name() -> None:
    assert PROJECT["name"] == DISTRIBUTION


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_text_installs_another_project(path: Path) -> None:
    text = path.read_text("utf-8")
    assert not re.findall(r"""\binstall\b[^\n]*?[ '"](streamkit(?:\[[\w,-]+\])?)(?=['"\s]|$)""", text)
    for extras in re.findall(rf"{DISTRIBUTION}\[([\w,-]+)\]", text):
        assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])


def test_a_message_names_an_extra_that_exists() -> None:
    assert install_command("gateway") == "pip install 'streamkit-llm[gateway]'"


def test_the_command_reports_a_package_of_another_project(tmp_path: Path) -> None:
    other = tmp_path / "streamkit"
    other.mkdir()
    (other / "__init__.py").write_text("def publish(): ...\n", "utf-8")
    paths = [str(tmp_path), str(ROOT)]
    program = f"import sys; sys.path[:0] = {paths!r}; import streamkit_llm; sys.exit(streamkit_llm.main())"
    done = subprocess.run([sys.executable, "-c", program, "demo"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    assert str(other) in done.stderr
    assert f"pip install --force-reinstall {DISTRIBUTION}" in done.stderr
