"""The README and the pages agree with the code: programs run, tables are complete, commands are CI's."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import indent

import pytest
from dbos_sqlite import IS_SQLITE_TOO_OLD, REASON
from programs import run_program
from shared_data import ROOT

from streamkit import providers

README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = ROOT / "docs"
#: The pages with programs; those of the cookbook have a test of their own.
GUIDE = "\n".join(
    page.read_text(encoding="utf-8")
    for page in sorted(DOCS.rglob("*.md"))
    if "cookbook" not in page.parts and page.name != "tap.md"
)
BLOCKS, PROGRAMS = (
    re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL) for text in (README, GUIDE)
)
#: The first program of the README has a real key; here its requests go to the embedded server.
REAL = 'connect("anthropic", model="claude-sonnet-4-5")'
LOCAL = 'connect("anthropic", model="m", api_key="any", base_url=server.base_url("anthropic"))'
SERVER = """\
from streamkit.testing import Call, Reply, serve

with serve([Reply(Call("get_weather", {"city": "Oslo"})), Reply("Take an umbrella.")]) as server:
"""
#: The package of a provider, which its programs import.
ACME = re.findall(r'^```python title="(acme_streamkit/\w+\.py)"\n(.*?)^```', GUIDE, flags=re.MULTILINE | re.DOTALL)
LOOP = next(code for code in PROGRAMS if "anyio, httpx, streamkit" in code)
OWN_PARSER = next(code for code in PROGRAMS if "NormalizedToolChunk" in code)
WIRES = (DOCS / "wires.md").read_text(encoding="utf-8")
#: The report of Python, or of a bridge, that a package is missing.
MISSING = re.compile(r"ModuleNotFoundError: (?:No module named '|streamkit\.bridges\.\w+ needs )([\w.-]+)")


def test_there_is_code_to_run() -> None:
    assert len(BLOCKS) == 2
    assert len(PROGRAMS) >= 41
    assert REAL in BLOCKS[0]


def test_the_program_with_a_real_key_has_twelve_lines() -> None:
    assert len([line for line in BLOCKS[0].splitlines() if line.strip()]) == 12


def test_the_readme_is_the_first_screen() -> None:
    assert len(README.splitlines()) <= 200


@pytest.mark.parametrize("code", BLOCKS + PROGRAMS, ids=lambda code: code.splitlines()[0])
def test_the_code_runs(code: str, tmp_path: Path) -> None:
    if IS_SQLITE_TOO_OLD and "DBOS(" in code:
        pytest.skip(REASON)
    if "acme_streamkit" in code:
        for name, text in ACME:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
        code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{code}"
    done = run_program(SERVER + indent(code.replace(REAL, LOCAL), "    ") if REAL in code else code)
    if missing := MISSING.search(done.stderr):  # an optional package: the test is skipped
        raise ModuleNotFoundError(done.stderr, name=missing[1].replace("-", "_"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    if code == BLOCKS[0]:
        assert "ToolCompleted" in done.stdout
        assert "RunEnded(ended='answered'" in done.stdout.splitlines()[-1]
    if code == BLOCKS[1]:
        assert "answered 2 Take one." in done.stdout
        assert "answered 1 A large one." in done.stdout
    if code == LOOP:
        assert "answered 2 Take an umbrella." in done.stdout
        assert "ToolCompleted" in done.stdout
    if code == OWN_PARSER:  # its completed calls are handed to the executor
        assert done.stdout.count("[{'called': ['x']}, {'is': 9}]") == 2


def test_every_provider_stands_in_the_table_of_wires() -> None:
    rows = [line for line in WIRES.splitlines() if line.startswith("|")]
    named = set(re.findall(r"`([a-z_]+)`", "\n".join(rows)))
    assert set(providers.names()) <= named


def test_no_provider_stands_there_that_is_not() -> None:
    table = WIRES.split("## Wires")[1].split("\n## ")[0]
    named = set(re.findall(r"^\| [^|]+ \| ([^|]+) \|", table, flags=re.MULTILINE))
    names = {name for cell in named for name in re.findall(r"`([a-z_]+)`", cell)}
    assert names == set(providers.names())


def test_both_commands_make_their_own_environment() -> None:
    commands = [line for line in README.splitlines() if line.startswith("python3 -m venv .venv && ")]
    assert len(commands) == 2
    assert commands[0].endswith("streamkit demo")
    assert "'.[suite]'" in commands[1]
    assert commands[1].endswith("-m pytest -q -rs -n auto")
