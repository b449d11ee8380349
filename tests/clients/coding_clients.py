"""How each coding client is run once, without a terminal and without a network, against a gateway.

The clients are installed by ``npm ci --ignore-scripts`` in this folder, or in the one that ``STREAMKIT_CLIENTS`` names.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

KEY = "key-of-the-client"
#: Each client reads the instructions of a project from a file of its own.
PROJECT_FILES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md")
PATIENCE = 120.0

_CODEX = '{{name="gw",base_url="{url}/v1",env_key="GATEWAY_KEY",wire_api="responses",request_max_retries=0}}'
_GEMINI = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
    "privacy": {"usageStatisticsEnabled": False},
}


def _nothing(url: str) -> dict[str, str]:
    return {}


@dataclass(frozen=True, kw_only=True)
class CodingClient:
    """One client.

    Attributes:
        package: the npm package with its program.
        program: the program, under ``node_modules``.
        arguments: its arguments for (address of the gateway, prompt).
        environment: its environment for an address.
        files: the text of files by their path under its folder, for an address.
    """

    package: str
    program: str
    arguments: Callable[[str, str], list[str]]
    environment: Callable[[str], dict[str, str]] = _nothing
    files: Callable[[str], dict[str, str]] = _nothing


CODING_CLIENTS = {
    "claude": CodingClient(
        package="@anthropic-ai/claude-code-linux-x64",
        program="@anthropic-ai/claude-code-linux-x64/claude",
        arguments=lambda url, prompt: ["-p", prompt, "--allowedTools", "Bash"],
        environment=lambda url: {
            "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_MAX_RETRIES": "0", "IS_SANDBOX": "1",
        },
    ),
    "codex": CodingClient(
        package="@openai/codex",
        program=".bin/codex",
        arguments=lambda url, prompt: [
            "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-m", "gpt-5.1-codex",
            "-c", "model_provider=gw", "-c", f"model_providers.gw={_CODEX.format(url=url)}", prompt,
        ],
        environment=lambda url: {"GATEWAY_KEY": KEY},
    ),
    "gemini": CodingClient(
        package="@google/gemini-cli",
        program=".bin/gemini",
        arguments=lambda url, prompt: ["-m", "gemini-2.5-pro", "--yolo", "-p", prompt],
        environment=lambda url: {
            "GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_CLI_TRUST_WORKSPACE": "true",
        },
        files=lambda url: {"home/.gemini/settings.json": json.dumps(_GEMINI)},
    ),
    "opencode": CodingClient(
        package="opencode-linux-x64",
        program="opencode-linux-x64/bin/opencode",
        arguments=lambda url, prompt: ["run", prompt],
        environment=lambda url: {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"},
        files=lambda url: {
            "work/opencode.json": json.dumps(
                {
                    "autoupdate": False,
                    "model": "anthropic/claude-sonnet-4-5",
                    "provider": {
                        "anthropic": {
                            "options": {"baseURL": f"{url}/v1", "apiKey": KEY},
                            "models": {"claude-sonnet-4-5": {}},
                        }
                    },
                }
            )
        },
    ),
}  # fmt: skip


def installation() -> Path:
    """Return the folder with the clients' ``node_modules``."""
    return Path(os.environ.get("STREAMKIT_CLIENTS", Path(__file__).parent)).absolute()


def version(name: str) -> str | None:
    """Return the version of a client, None if it is not installed."""
    manifest = installation() / "node_modules" / CODING_CLIENTS[name].package / "package.json"
    return str(json.loads(manifest.read_text())["version"]) if manifest.exists() else None


def run_client(name: str, url: str, prompt: str, project: str, folder: Path) -> tuple[int, str]:
    """Run a client once and return its exit status and what it printed.

    Args:
        name: the client.
        url: the address of the gateway.
        prompt: the words of the user.
        project: the instructions of the project.
        folder: an empty folder for its home and its project.
    """
    client, home, work = CODING_CLIENTS[name], folder / "home", folder / "work"
    files = {**{f"work/{file}": project for file in PROJECT_FILES}, **client.files(url)}
    home.mkdir()
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "TERM": "dumb", "TMPDIR": str(home)}
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            [str(installation() / "node_modules" / client.program), *client.arguments(url, prompt)],
            cwd=work,
            env={**environment, **client.environment(url)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            status = process.wait(PATIENCE)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return status, (folder / "output").read_text(errors="replace")
