"""Targets that read what a database or a client has kept of a run: states and entries."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import anyio
from execution.chat_chunks import answer
from execution.fake_model import FakeModel
from fuzz.checks import require
from fuzz.inputs import Input, expand, part_bytes
from fuzz.target import Target
from pydantic import ValidationError

from streamkit import Content, RunState, UsageError, run_loop, tool
from streamkit.execution import RunEntry, parse_entry

__all__ = ["RUN_TARGETS"]


def run_state(given: Input) -> None:
    """Load the stored state of a run; stored again, it is the same."""
    for part in given.parts:
        raw = part_bytes(part)
        state = RunState.load(json.dumps(expand(part)) if raw is None else raw)
        _check_state(state)


def _check_state(state: RunState) -> None:
    stored = state.dump()
    require(RunState.load(stored).dump() == stored, "a stored state is the same", stored[:300])
    signed = state.dump(b"key")
    require(RunState.load(signed, b"key").dump() == stored, "a signed state is the same", stored[:300])


def run_entries(given: Input) -> None:
    """Read the stored entries of a run and return its state, which is stored and loaded."""
    entries = []
    for part in given.parts:
        raw = part_bytes(part)
        entry = parse_entry(json.dumps(expand(part)) if raw is None else raw)
        require(parse_entry(entry.to_json()) == entry, "a stored entry is the same", entry.to_json()[:300])
        entries.append(entry)
    _check_state(RunState.from_entries(entries))


# ---------------------------------------------------------------- seeds


@tool(approval="ask")
def pay(amount: int = 1) -> dict[str, int]:
    """Pay."""
    return {"paid": amount}


@tool
def look(place: str = "") -> str:
    """Look."""
    return place


@cache
def _recorded_runs() -> tuple[tuple[list[RunEntry], list[RunState]], ...]:
    """Return the entries and the states of runs: one of two rounds, one that awaits approval, one that failed."""
    texts = ("Look.", ("look", {"place": "Oslo"}), ("look", '{"place": 1')), ("Done.",)
    waiting = ("", ("pay", {"amount": 2}), ("look", {"place": "x"}))
    return tuple(
        anyio.run(_record, [answer(*each, usage=(3, 2)) for each in answers])
        for answers in (texts, (waiting,), ((texts[0]), (waiting)), (("Hi",),))
    )


async def _record(answers: list[Any]) -> tuple[list[RunEntry], list[RunState]]:
    entries: list[RunEntry] = []

    async def checkpoint(entry: RunEntry) -> None:
        entries.append(entry)

    run = run_loop(
        FakeModel(*answers),
        provider="openai_chat",
        tools=[pay, look],
        history=[Content.human("Go.")],
        run_key="r",
        checkpoint=checkpoint,
    )
    await run
    return entries, [] if run.state is None else [run.state]


def _entry_seeds() -> list[Input]:
    found = [entries for entries, _ in _recorded_runs()]
    cuts = [entries[:end] for entries in found for end in range(1, len(entries) + 1)]
    return [Input("run_entries", parts=[json.loads(entry.to_json()) for entry in entries]) for entries in cuts]


def _state_seeds() -> list[Input]:
    states = [state for _, found in _recorded_runs() for state in found]
    states += [
        RunState.from_entries(entries[:end]) for entries, _ in _recorded_runs() for end in range(1, len(entries))
    ]
    return [Input("run_state", parts=[json.loads(state.dump())]) for state in states]


RUN_TARGETS = (
    Target("run_state", run_state, (UsageError, ValidationError), _state_seeds),
    Target("run_entries", run_entries, (UsageError, ValidationError), _entry_seeds),
)
