"""The soak of the gateway finds defects that are planted in it, and a short one finds nothing."""

from __future__ import annotations

import asyncio
import importlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from shared_data import ROOT

from streamkit.gateway import attempt
from streamkit.gateway.access import ClientKey
from streamkit.gateway.client import ClientStream
from streamkit.gateway.routing import Cooldowns
from streamkit.gateway.stores.store import OwnEntries

pytestmark = pytest.mark.slow

Patch = Callable[[pytest.MonkeyPatch], None]


async def never(*_: Any) -> None:
    """Wait for longer than any test."""
    await asyncio.sleep(1000)


def ask_always(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Cooldowns, "available", lambda self, candidates, skipped: [*candidates])
    patch.setattr(Cooldowns, "wait", lambda self, candidate: 0.0)


DEFECTS: dict[str, tuple[str, str, Patch]] = {
    "a failed upstream is asked": ("cooldown", "wrong", ask_always),
    "a failed upstream is asked by all": (
        "cooldown",
        "wrong",
        lambda patch: patch.setattr(Cooldowns, "probe", lambda self, candidate: candidate.key in self.failures),
    ),
    "state is not found": (
        "conversation",
        "lost",
        lambda patch: patch.setattr(attempt, "needed_names", lambda *_, **__: {}),
    ),
    "state is everybody's": (
        "conversation",
        "wrong",
        lambda patch: patch.setattr(OwnEntries, "_key", lambda self, kind, name: f"{kind}/{name}"),
    ),
    "a key may ask all models": (
        "other_model",
        "wrong",
        lambda patch: patch.setattr(ClientKey, "allows", lambda self, model: True),
    ),
    "a client that leaves is not noticed": (
        "leaves",
        "open",
        lambda patch: patch.setattr(ClientStream, "wait_for_disconnect", never),
    ),
}


@pytest.mark.parametrize("defect", [None, *DEFECTS])
def test_a_planted_defect_is_found(defect: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    soak = importlib.import_module("benchmarks.gateway_soak")
    # An upstream whose client has left runs on for so long; after 5 seconds it is reported.
    monkeypatch.setattr("benchmarks.gateway_plans.SILENCE", 8.0)
    kinds: tuple[str, ...] = ("cooldown", "conversation", "other_model", "leaves")
    if defect is not None:
        kind, problem, plant = DEFECTS[defect]
        kinds = (kind,)
        plant(monkeypatch)
    found = asyncio.run(soak.run_in_process(0.01, 1, 12, kinds)).problems
    assert {each.partition(":")[0] for each in found} - {"leak"} == (set() if defect is None else {problem})


@pytest.mark.parametrize("options", [["0.05", "--clients", "8"], ["0.05", "--processes", "2"], ["--streams", "60"]])
def test_a_short_soak_finds_nothing(options: list[str]) -> None:
    command = [sys.executable, "-m", "benchmarks.gateway_soak", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    problems = [line for line in done.stdout.splitlines() if line.startswith(("lost:", "wrong:", "open:", "failed:"))]
    assert done.returncode in (0, 1), done.stderr
    assert problems == []  # of memory a short one shows nothing
    assert " problems" in done.stdout
