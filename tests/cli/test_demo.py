from __future__ import annotations

import subprocess
import sys

import pytest

from streamkit import providers
from streamkit.cli import demo, main


def test_it_shows_the_same_from_every_wire(capsys):
    assert main(["demo"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert all(character.isprintable() or character == "\n" for character in out)
    names = demo._wires()
    assert {"anthropic", "azure_openai", "gemini", "openai_chat", "openai_compatible"} <= set(names)
    for name in names:
        assert f"\n{name}  POST /" in out
    assert f"the same on each of the {len(names)} wires" in out
    assert out.count("TimeoutError: the station is silent") == len(names)
    assert "hist_tool_" in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.slow
@pytest.mark.parametrize("name", providers.names())
def test_one_wire_alone(capsys, name):
    assert main(["demo", "--provider", name]) == 0
    out = capsys.readouterr().out
    assert f"as scripted on {name}" in out
    assert out.count("POST /") == 1


@pytest.mark.parametrize("columns", [30, 50])
def test_a_narrow_terminal_gets_no_table(capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["demo", "--provider", "anthropic"]) == 0
    out = capsys.readouterr().out
    assert "  us per chunk: " in out


def test_an_unknown_wire_is_answered_by_the_names(capsys):
    assert main(["demo", "--provider", "antropic"]) == 2
    assert "known are: anthropic" in capsys.readouterr().err


def test_it_fails_where_the_wires_differ(capsys, monkeypatch):
    replay = demo._replay

    def spoiled(outcome, tapes):
        replay(outcome, tapes)
        if outcome.provider == "gemini":
            outcome.results[2] = ("completed", "10 degrees, sun")

    monkeypatch.setattr(demo, "_replay", spoiled)
    assert main(["demo"]) == 1
    out = capsys.readouterr().out
    assert "gemini differs: results" in out
    assert "the same" not in out


def test_it_runs_where_only_ascii_can_be_shown():
    done = subprocess.run(
        [sys.executable, "-m", "streamkit.cli", "demo", "--provider", "gemini"],
        capture_output=True,
        check=False,
        env={"PYTHONIOENCODING": "ascii", "PATH": "", "COLUMNS": "80"},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()
