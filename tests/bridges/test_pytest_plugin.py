"""The plugin of pytest, in programs of pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from shared_data import ROOT

from streamkit.testing import Reply, Status, serve

PLUGIN = "streamkit.bridges.pytest_plugin"
HEAD = """
import os
import httpx
from streamkit.testing import Expect, Reply

def ask(server, stream=True):
    body = {"model": "m", "max_tokens": 9, "stream": stream, "messages": [{"role": "user", "content": "Weather?"}]}
    return httpx.post(server.base_url("anthropic") + "/v1/messages", json=body)
"""
SERVER = """
def test_two_servers(streamkit_server):
    servers = [streamkit_server([text]) for text in ("one", "two")]
    assert ['"one"' in ask(servers[0]).text, '"two"' in ask(servers[1]).text] == [True, True]

def test_an_expectation(streamkit_server):
    ask(streamkit_server([Expect(text="Snow?"), "one"], strict=False))
"""
RECORDING = """
def test_recorded(streamkit_server, streamkit_recording):
    recording = streamkit_recording("files/weather.sse", base_url=os.environ.get("PROVIDER"))
    server = streamkit_server([recording])
    response = ask(server)
    assert '"It rains."' in response.text, response.text
"""


def run(folder: Path, test: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(HEAD + test)
    # By its module, also where an installed entry point names it.
    plugins = ["-p", "no:cacheprovider", "-p", "no:streamkit", "-p", PLUGIN]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, *options, str(folder)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANTHROPIC_")}
    return subprocess.run(
        command, cwd=folder, env={**kept, **environment}, capture_output=True, text=True, check=False, timeout=120
    )


def test_pytest_finds_the_plugin_by_its_entry_point() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"streamkit": PLUGIN}


@pytest.mark.slow
def test_servers_end_with_the_test_and_check_what_was_expected(tmp_path: Path) -> None:
    done = run(tmp_path, SERVER)
    assert "2 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert "the script expects the text 'Snow?'" in done.stdout


@pytest.mark.slow
def test_a_response_is_recorded_once_and_played_then(tmp_path: Path) -> None:
    """The provider is an embedded server itself, which accepts one key."""
    absent = run(tmp_path, RECORDING)
    assert "there is no recording" in absent.stdout
    with serve([Reply("It rains.")], key="secret-key", delta_size=99) as provider:
        environment = {"ANTHROPIC_API_KEY": "secret-key", "PROVIDER": provider.base_url("anthropic")}
        recorded = run(tmp_path, RECORDING, "--streamkit-record", **environment)
    assert "1 passed" in recorded.stdout, recorded.stdout + recorded.stderr
    assert [request.status for request in provider.requests] == [200]
    assert provider.requests[0].headers["anthropic-version"]
    path = tmp_path / "files" / "weather.sse"
    assert "It rains." in path.read_text()
    played = run(tmp_path, RECORDING)
    assert "1 passed" in played.stdout, played.stdout + played.stderr


@pytest.mark.slow
def test_a_refusal_is_passed_on_and_writes_no_file(tmp_path: Path) -> None:
    with serve([Status(429, "slow down")]) as provider:
        recorded = run(
            tmp_path,
            RECORDING,
            "--streamkit-record",
            ANTHROPIC_API_KEY="k",
            PROVIDER=provider.base_url("anthropic"),
        )
    assert "anthropic refused the recording" in recorded.stdout
    assert "slow down" in recorded.stdout
    assert not (tmp_path / "files").exists()
