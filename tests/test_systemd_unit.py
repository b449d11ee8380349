"""``docs/streamkit-gateway.service``: a unit that systemd accepts, with options that the command has."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from shared_data import ROOT

from streamkit import cli

UNIT = (ROOT / "docs" / "streamkit-gateway.service").read_text("utf-8")
PROGRAM = "/opt/streamkit/bin/streamkit"


def test_its_options_are_those_of_the_command() -> None:
    (start,) = [line for line in UNIT.replace("\\\n", " ").splitlines() if line.startswith("ExecStart=")]
    program, *arguments = shlex.split(start.removeprefix("ExecStart="))
    options = cli._parser().parse_args(arguments)
    assert program == PROGRAM
    assert (options.command, options.workers, options.log_format) == ("gateway", 2, "json")
    assert options.store.startswith("${STATE_DIRECTORY}/")


def test_systemd_accepts_it(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")

    def verify(text: str) -> str:
        unit = tmp_path / "streamkit-gateway.service"
        unit.write_text(text)
        done = subprocess.run([analyze, "verify", unit], capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    installed = UNIT.replace(PROGRAM, sys.executable)
    assert verify(installed) == ""
    assert "Restarts" in verify(installed.replace("Restart=", "Restarts="))  # so it has been read
