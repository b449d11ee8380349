"""The public types, checked by mypy over ``tests/typing``."""

from __future__ import annotations

import subprocess
import sys

import pytest
from shared_data import ROOT


@pytest.mark.slow
def test_the_public_types_are_as_asserted() -> None:
    process = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "tests/typing"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
