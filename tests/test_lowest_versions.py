"""The script that lists the lowest versions of the dependencies, for the suite that runs with them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from shared_data import ROOT

SCRIPT = ROOT / ".ci" / "lowest.py"


@pytest.mark.skipif(not SCRIPT.exists(), reason="a source distribution does not contain .ci")
def test_every_dependency_of_the_package_and_its_extras_has_a_lowest_version() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    names = {line.partition("==")[0] for line in done.stdout.splitlines()}
    assert {"anyio", "pydantic", "msgspec", "aiohttp", "uvloop", "psycopg", "mcp", "dbos"} <= names
