"""mypy finds the public types as ``tests/typing`` says that they are."""

from __future__ import annotations

import subprocess
import sys

import pytest
from shared_data import ROOT


@pytest.mark.slow
def test_the_public_types() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "tests/typing"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
