"""The README agrees with the code: its programs and the guide's run, its tables are complete, its commands are CI's."""

from __future__ import annotations

import re

import pytest
from dbos_sqlite import IS_SQLITE_TOO_OLD, REASON
from programs import run_program
from shared_data import ROOT

from streamkit import providers

README = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
BLOCKS, PROGRAMS = (
    re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL) for text in (README, GUIDE)
)
LOOP = next(code for code in BLOCKS if "run_loop" in code)
OWN_PARSER = next(code for code in BLOCKS if "SharedAccumulator" in code)
#: The report of Python, or of a bridge, that a package is missing.
MISSING = re.compile(r"ModuleNotFoundError: (?:No module named '|streamkit\.bridges\.\w+ needs )([\w.-]+)")


def test_there_is_code_to_run() -> None:
    assert len(BLOCKS) >= 2


@pytest.mark.parametrize("code", BLOCKS + PROGRAMS, ids=lambda code: code.splitlines()[0])
def test_the_code_runs(code: str) -> None:
    if IS_SQLITE_TOO_OLD and "DBOS(" in code:
        pytest.skip(REASON)
    done = run_program(code)
    if missing := MISSING.search(done.stderr):  # an optional package: the test is skipped
        raise ModuleNotFoundError(done.stderr, name=missing[1].replace("-", "_"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    if code == LOOP:
        assert "answered 2 Take an umbrella." in done.stdout
        assert "ToolCompleted" in done.stdout
    if code == OWN_PARSER:  # its completed calls are handed to the executor
        assert done.stdout.count("[{'called': ['x']}, {'is': 9}]") == 2


def test_every_provider_stands_in_the_table_of_wires() -> None:
    rows = [line for line in README.splitlines() if line.startswith("|")]
    named = set(re.findall(r"`([a-z_]+)`", "\n".join(rows)))
    assert set(providers.names()) <= named


def test_no_provider_stands_there_that_is_not() -> None:
    table = README.split("## Wires")[1].split("\n## ")[0]
    named = set(re.findall(r"^\| [^|]+ \| ([^|]+) \|", table, flags=re.MULTILINE))
    names = {name for cell in named for name in re.findall(r"`([a-z_]+)`", cell)}
    assert names == set(providers.names())


def test_both_commands_make_their_own_environment() -> None:
    commands = [line for line in README.splitlines() if line.startswith("python3 -m venv .venv && ")]
    assert len(commands) == 2
    assert commands[0].endswith("streamkit demo")
    assert "'.[suite]'" in commands[1]
    assert commands[1].endswith("-m pytest -q -rs -n auto")
