"""Vercel messages, judged by the real npm package ``ai`` in versions 4, 5, 6 and 7.

The package is installed by ``npm ci --ignore-scripts`` in ``tests/vercel`` (CI does so); where it is not there,
or node is older than 20, these tests are skipped. The values that come back are compared, since version 4 accepts what
it then drops.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from test_cross_provider import CASES_WITH_CALLS, conversation

from streamkit.history import (
    Content,
    FileBlock,
    ImageBlock,
    TextBlock,
    ToolCallBlock,
    ToolResponseBlock,
    convert_to_vercel_messages,
    repair,
)
from streamkit.history.tool_results import to_stored_result

HERE = Path(__file__).parent / "vercel"


def node_major() -> int:
    node = shutil.which("node")
    if node is None:
        return 0
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    return int(said.removeprefix("v").partition(".")[0] or 0)


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(node_major() < 20, reason="node 20 or later is not here"),
    pytest.mark.skipif(not (HERE / "node_modules" / "ai4").is_dir(), reason="npm ci was not run in tests/vercel"),
]


def judged(judge: str, threads: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    ran = subprocess.run(
        ["node", "validate.mjs"],  # noqa: S607 - wherever node is installed
        input=json.dumps({"judge": judge, "threads": threads}),
        cwd=HERE,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    verdicts: list[dict[str, Any]] = json.loads(ran.stdout)
    return verdicts


def threads(version: int) -> list[list[dict[str, Any]]]:
    histories = []
    for case in CASES_WITH_CALLS:
        turn, _ = case.run(next(iter(case.inputs().values()))[0])
        histories.append(conversation(turn))
    pixel = ImageBlock(data="data:image/png;base64,iVBORw0KGgo=")
    histories.append([Content(speaker="human", blocks=[TextBlock(text="What is this?"), pixel])])
    histories.append(
        [
            Content.ai("", ToolCallBlock(id="c", name="see")),
            Content(
                speaker="tool",
                blocks=[
                    ToolResponseBlock(
                        call_id="c",
                        result=to_stored_result(
                            ["two", pixel, FileBlock(media_type="application/pdf", data="JVBERi0=")]
                        ),
                    )
                ],
            ),
        ]
    )
    made = [convert_to_vercel_messages(repair(history).contents, version=version) for history in histories]
    return json.loads(json.dumps(made))  # type: ignore[no-any-return]


@pytest.mark.parametrize(("judge", "version"), [("ai4", 4), ("ai5", 5), ("ai6", 5), ("ai6", 6), ("ai", 7)])
def test_the_package_takes_what_is_written_for_it(judge: str, version: int) -> None:
    written = threads(version)
    assert len(written) > 100
    assert any(message["role"] == "tool" for thread in written for message in thread)
    for thread, verdict in zip(written, judged(judge, written), strict=True):
        assert verdict.get("value") == thread, verdict.get("error")


def test_the_judge_refuses_what_is_wrong() -> None:
    untyped = [{"role": "tool", "content": [{"type": "tool-result", "toolCallId": "call_1", "output": "x"}]}]
    unknown = [{"role": "nobody", "content": "x"}]
    assert all("error" in verdict for verdict in judged("ai5", [untyped, unknown]))


def test_what_the_judge_drops_in_silence_is_seen() -> None:
    call = {"type": "tool-call", "toolCallId": "call_1", "toolName": "look", "input": {"at": "sea"}}
    [dropped] = judged("ai4", [[{"role": "assistant", "content": [call]}]])
    assert "error" not in dropped
    assert "sea" not in json.dumps(dropped)  # version 4's word is args: hence the comparison of values
