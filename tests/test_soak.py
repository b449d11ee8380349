"""The soak finds what it is for, and a short one finds nothing."""

from __future__ import annotations

import importlib
import random
import subprocess
import sys
from types import ModuleType

import pytest
from shared_data import ROOT

from streamkit import Content
from streamkit.history import ToolCallBlock, ToolResponseBlock

CALL = ToolCallBlock(id="hist_tool_" + "a" * 24, name="look", parameters={"number": 0})
RESULT = ToolResponseBlock(call_id=CALL.id, name="look", result="x")


@pytest.fixture
def soak(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.soak")


@pytest.mark.parametrize(
    ("results", "ran", "problems"),
    [
        ([RESULT], 1, set()),
        ([], 1, {"lost", "illegal"}),
        ([RESULT, RESULT], 1, {"lost", "illegal"}),
        ([RESULT], 2, {"doubled"}),
    ],
)
def test_what_is_lost_doubled_or_illegal_is_counted(
    soak: ModuleType, results: list[ToolResponseBlock], ran: int, problems: set[str]
) -> None:
    conversation = soak.Conversation("c1", "anthropic", [], None, "batched")
    conversation.ran[0] = ran
    found = soak.Findings()
    contents = [Content.ai("", CALL), *([Content(speaker="tool", blocks=results)] if results else [])]
    soak.check(conversation, [Content.human("Go.")], contents, [], found)
    assert set(found.problems) == problems


def test_memory_growth_is_measured_after_the_warm_up(soak: ModuleType) -> None:
    assert soak.growth([900, 100, 100, 100, 100, 100, 100, 100, 100, 100]) == 0
    assert soak.growth([100] * 5 + [200] * 5) == 1


def test_a_seed_gives_the_same_conversation(soak: ModuleType) -> None:
    first, again = (soak.Conversation.random("c7", random.Random("c7")) for _ in range(2))  # noqa: S311
    assert first == again


@pytest.mark.slow
def test_a_short_soak_finds_nothing() -> None:
    command = [sys.executable, "-m", "benchmarks.soak", "0.2", "--workers", "4"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout.count("lost 0, doubled 0, illegal 0") == 2, done.stdout  # of memory a short one shows nothing
