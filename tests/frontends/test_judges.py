"""Foreign clients against the application: npm ``ai`` in three versions, AG-UI in two, chromium, and OpenTelemetry.

The judges are in ``SHARED``. Their npm packages are those of the folder in the environment variable
``STREAMKIT_JUDGES``, which ``.ci/run --full`` sets.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from frontends.servers import free_port, started
from shared_data import ROOT, SHARED, TESTS

pytestmark = pytest.mark.slow

FRONTENDS = SHARED / "judges" / "frontends"
OTEL = SHARED / "judges" / "otel" / "otel_check.py"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
MINUTES = 20


@pytest.fixture(scope="session")
def judges(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the judges and their npm packages."""
    if not FRONTENDS.is_dir():
        pytest.skip(f"{FRONTENDS} is not here")
    if shutil.which("node") is None:
        pytest.skip("node is not here")
    folder = tmp_path_factory.mktemp("judges")
    shutil.copytree(FRONTENDS, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
    if not (installed := os.environ.get("STREAMKIT_JUDGES")):
        pytest.skip("STREAMKIT_JUDGES is not set")
    (folder / "node_modules").symlink_to(Path(installed).resolve() / "node_modules")
    return folder


def judge(judges: Path, folder: Path, name: str, *options: str, restarts: bool = False) -> None:
    """Run a judge against the application, and require all its cases."""
    port, upstream = free_port(), free_port()
    command = [sys.executable, str(TESTS / "frontends" / "application.py"), str(port)]
    variables = {"STATE": str(folder), "UPSTREAM": f"http://127.0.0.1:{upstream}", "PYTHONPATH": str(ROOT)}
    address = [f"--base=http://127.0.0.1:{port}", f"--upstream-port={upstream}"]
    if restarts:
        restart = [sys.executable, str(TESTS / "frontends" / "servers.py"), str(folder), str(port), *command]
        options = (*options, f"--restart={' '.join(restart)}")
    with started(folder, port, command, **variables):
        done = subprocess.run(
            ["node", f"{name}.mjs", *address, *options],  # noqa: S607 - wherever node is installed
            cwd=judges,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=60 * MINUTES,
        )
        assert done.returncode == 0, done.stdout + done.stderr + (folder / "output").read_text()
        assert " of " in done.stdout


def test_plain_events(judges: Path, tmp_path: Path) -> None:
    judge(judges, tmp_path, "events")


@pytest.mark.parametrize("version", [5, 6, 7])
def test_npm_ai(judges: Path, tmp_path: Path, version: int) -> None:
    judge(judges, tmp_path, "vercel", f"--version={version}", restarts=True)


@pytest.mark.parametrize("version", [0, 1])
def test_ag_ui(judges: Path, tmp_path: Path, version: int) -> None:
    judge(judges, tmp_path, "agui", f"--version={version}")


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not here")
def test_a_page_in_a_browser(judges: Path, tmp_path: Path) -> None:
    judge(judges, tmp_path, "browser", f"--shots={tmp_path}", f"--chromium={CHROMIUM}")


@pytest.mark.skipif(not OTEL.is_file(), reason=f"{OTEL} is not here")
def test_traces() -> None:
    for package in ("jsonschema", "opentelemetry.sdk"):
        pytest.importorskip(package)
    done = subprocess.run(
        [sys.executable, str(OTEL), "--adapter", "traced:traced"],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{TESTS / 'frontends'}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60 * MINUTES,
    )
    assert done.returncode == 0, done.stdout + done.stderr
