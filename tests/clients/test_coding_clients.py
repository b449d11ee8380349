"""Claude Code, Codex, gemini-cli and opencode in a tool loop through the gateway, over upstreams of every wire.

The upstream asks for the client's shell. The output has letters that only a shell that ran can have written. Without
npm or the clients these tests are skipped: ``npm ci --ignore-scripts`` in this folder, or ``STREAMKIT_CLIENTS``.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from clients.coding_clients import CODING_CLIENTS, KEY, run_client, version
from gateway.gateway_server import Target, serve_gateway

from streamkit import parse_request
from streamkit.gateway import Exchange
from streamkit.history import ReasoningBlock, TextBlock, ToolCallBlock, ToolResponseBlock
from streamkit.providers.requests.request import Request as NeutralRequest
from streamkit.testing import Call, Reasoning, Reply, Request, serve
from streamkit.tools import ToolDefinition

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name == "nt", reason="the clients are run as POSIX processes"),
]

PROMPT = "What is the weather? Use a shell."
PROJECT = "Weather is given in kelvin here, rule streamkit-4711."
OPENING = "Let me look at the weather."
COMMAND = "echo rain-in-oslo | tr a-z A-Z"
OUTPUT = "RAIN-IN-OSLO"
ANSWER = "Seven degrees, with rain, number 4711."
#: The arguments of each client's shell.
SHELLS: dict[str, dict[str, Any]] = {
    "Bash": {"command": COMMAND, "description": "Ask for the weather"},
    "bash": {"command": COMMAND, "description": "Ask for the weather"},
    "exec_command": {"cmd": COMMAND},
    "shell_command": {"command": COMMAND},
    "shell": {"command": ["bash", "-lc", COMMAND]},
    "run_shell_command": {"command": COMMAND, "description": "Ask for the weather"},
}
SIGNATURE = "c2lnbmVkIGJ5IHRoZSB1cHN0cmVhbQ=="
#: The upstreams that sign reasoning, and want it back.
SIGNING = ("anthropic", "openai_responses")
UPSTREAMS = ("anthropic", "openai_chat", "openai_responses", "gemini")


class Model:
    """The upstream's model: it asks for the shell, then answers."""

    def __init__(self, provider: str) -> None:
        self.provider = provider
        self.rounds: list[NeutralRequest] = []

    def __call__(self, request: Request) -> Reply:
        asked = parse_request(request.json, self.provider, stream=True)
        names = {tool.name for tool in asked.tools if isinstance(tool, ToolDefinition)}
        if not names:
            return Reply("Weather today")  # a title, asked for beside the conversation
        self.rounds.append(asked)
        if any(isinstance(block, ToolResponseBlock) for content in asked.contents for block in content.blocks):
            return Reply(ANSWER)
        shell = next((name for name in SHELLS if name in names), None)
        if shell is None:
            return Reply(f"There is no shell among {sorted(names)}.")
        return Reply(Reasoning("A shell it is.", signature=SIGNATURE), OPENING, Call(shell, SHELLS[shell]))


@pytest.mark.parametrize("provider", UPSTREAMS)
@pytest.mark.parametrize("client", CODING_CLIENTS)
def test_a_coding_client_runs_a_tool_loop(client: str, provider: str, tmp_path: Path) -> None:
    number = version(client)
    if number is None:
        pytest.skip(f"{CODING_CLIENTS[client].package} is not installed: npm ci --ignore-scripts in tests/clients")
    where = f"{client} {number} over {provider}"
    model = Model(provider)
    reports: list[Exchange] = []
    with (
        serve(model) as server,
        serve_gateway(Target(provider, server.base_url(provider)), reports=reports) as url,
    ):
        status, output = run_client(client, url, PROMPT, PROJECT, tmp_path)
    assert [report.error for report in reports if report.error] == [], where
    assert [request.status for request in server.requests] == [200] * len(server.requests), where
    assert status == 0, f"{where}: {output[-2000:]}"
    assert ANSWER in output, f"{where}: {output[-2000:]}"
    assert KEY not in json.dumps([[request.headers, request.query] for request in server.requests]), where
    first, second = model.rounds
    for asked in (first, second):
        texts = " ".join(block.text for content in asked.contents for block in content.blocks if is_text(block))
        assert PROMPT in texts, where
        assert PROJECT in texts, where
        assert all(tool.parameters for tool in asked.tools if isinstance(tool, ToolDefinition)), where
    blocks = [block for content in second.contents for block in content.blocks]
    (call,) = [block for block in blocks if isinstance(block, ToolCallBlock)]
    (result,) = [block for block in blocks if isinstance(block, ToolResponseBlock)]
    assert call.parameters == SHELLS[call.name], where
    assert result.call_id == call.id, where
    assert OUTPUT in str(result.result), f"{where}: {result.result!r}"
    assert OPENING in " ".join(block.text for block in blocks if is_text(block)), where
    if provider in SIGNING:
        assert [SIGNATURE in str(block) for block in blocks if isinstance(block, ReasoningBlock)] == [True], where


def is_text(block: Any) -> bool:
    return isinstance(block, TextBlock)
