"""The public types, checked by mypy over ``tests/typing``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from shared_data import ROOT


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
