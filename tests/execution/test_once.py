"""Calls that run at most once, and what a tool learns about the attempt."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from execution.chat_chunks import answer
from execution.test_checkpoint import HISTORY, Log

from streamkit import RoundContext, RunState, Tool, ToolContext, UsageError, run_loop
from streamkit.events import Event, ToolError
from streamkit.execution import Lease, RunEntry

pytestmark = pytest.mark.anyio


class Killed(Exception):
    """The process ends here."""


def ask(context: RoundContext) -> Any:
    return answer("Done.") if context.round else answer("", ("pay", {}), ("look", {}))


def make_tools(effects: list[str], *, dies: bool = False, once: bool = True) -> list[Tool]:
    async def effect(context: ToolContext) -> str:
        effects.append(f"{context.call.name} {context.attempt}")
        if dies:
            await anyio.sleep_forever()
        return "done"

    return [Tool(effect, name="pay", description="Pay.", once=once), Tool(effect, name="look", description="Look.")]


async def run_until_killed(log: Log, **options: Any) -> None:
    """Start a run, or continue it, and leave it when both calls have begun."""
    effects: list[str] = []
    run = run_loop(ask, tools=make_tools(effects, dies=True), checkpoint=log.append, **options)
    async with run:
        async for _ in run:
            if len(effects) == 2 or (len(effects) == 1 and "resume" in options):
                break


async def test_a_call_of_once_that_had_started_does_not_run_again_and_the_model_is_told() -> None:
    log, effects = Log(), []
    await run_until_killed(log, provider="openai_chat", history=HISTORY, run_key="run")
    assert [entry.type for entry in log.entries] == ["request", "response", "start"]
    state = RunState.from_entries(log.entries)
    # The state is stored: what has started counts there too.
    for resumed in (state, RunState.load(state.dump("key"), "key")):
        events: list[Event] = []
        async with run_loop(ask, resume=resumed, tools=make_tools(effects)) as run:
            events += [event async for event in run]
        assert run.ended == "answered"
        pay, look = run.results
        assert (pay.status, look.value) == ("error", "done")
        assert "unknown" in str(pay.error)
        assert "Check the outcome" in str(pay.error)
        assert pay.metadata == {"effects_possible": True}
        assert [event.result for event in events if isinstance(event, ToolError)] == [pay]
    assert effects == ["look 2", "look 2"]


async def test_the_result_of_a_call_with_an_unknown_outcome_is_recorded() -> None:
    log, effects = Log(), []
    await run_until_killed(log, provider="openai_chat", history=HISTORY, run_key="run")
    first = await run_loop(
        ask, resume=RunState.from_entries(log.entries), tools=make_tools(effects), checkpoint=log.append
    )
    again = await run_loop(ask, resume=RunState.from_entries(log.entries), tools=make_tools(effects))
    assert again.contents == first.contents
    assert effects == ["look 2"]


async def test_a_call_of_once_that_had_not_started_runs() -> None:
    log, effects = Log(), []

    async def dies_before_the_start(entry: RunEntry) -> None:
        if entry.type == "start":
            raise Killed
        await log.append(entry)

    options: dict[str, Any] = {"provider": "openai_chat", "history": HISTORY, "run_key": "run"}
    with pytest.raises(Killed):
        await run_loop(ask, tools=make_tools(effects), checkpoint=dies_before_the_start, **options)
    assert "pay 1" not in effects  # what is not recorded has not started
    effects.clear()
    run = await run_loop(ask, resume=RunState.from_entries(log.entries), tools=make_tools(effects))
    assert [result.status for result in run.results] == ["completed", "completed"]
    assert "pay 1" in effects


async def test_attempts_are_counted_over_the_workers_of_a_run() -> None:
    log, effects = Log(), []
    await run_until_killed(log, provider="openai_chat", history=HISTORY, run_key="run")
    for _ in range(2):
        await run_until_killed(log, resume=RunState.from_entries(log.entries))
    await run_loop(ask, resume=RunState.from_entries(log.entries), tools=make_tools(effects), checkpoint=log.append)
    assert effects == ["look 4"]


async def test_a_call_that_has_awaited_approval_is_at_its_first_attempt() -> None:
    log, seen = Log(), []

    def pay(context: ToolContext) -> str:
        seen.append(context.attempt)
        return "paid"

    tools = [Tool(pay, description="Pay.", approval="ask")]
    options: dict[str, Any] = {"tools": tools, "checkpoint": log.append}

    def ask_once(context: RoundContext) -> Any:
        return answer("Done.") if context.round else answer("", ("pay", {}))

    run = await run_loop(ask_once, provider="openai_chat", history=HISTORY, run_key="run", **options)
    decisions = {call.id: True for call in run.pending}
    await run_loop(ask_once, resume=RunState.from_entries(log.entries).answer(approvals=decisions), **options)
    assert seen == [1]


async def test_a_tool_has_the_fence_of_the_lease_that_the_checkpoint_returns() -> None:
    seen: list[int | None] = []
    confirmed: list[str] = []

    class Mine(Lease):
        fence = 7

        async def confirm(self) -> None:
            confirmed.append("asked")

    lease = Mine()

    async def checkpoint(_: RunEntry) -> Lease:
        return lease

    def look(context: ToolContext) -> str:
        seen.append(context.fence)
        return "seen"

    def ask_once(context: RoundContext) -> Any:
        return answer("Done.") if context.round else answer("", ("look", {}))

    for store in (checkpoint, None):
        await run_loop(ask_once, provider="openai_chat", history=HISTORY, tools=[look], checkpoint=store)
    assert (seen, len(confirmed)) == ([7, None], 3)  # before both requests, and before the call


def test_once_and_eager_exclude_each_other() -> None:
    def pay() -> None:
        """Pay."""

    with pytest.raises(UsageError, match="once and eager"):
        Tool(pay, once=True, eager=True)
    with pytest.raises(UsageError, match="once and eager"):
        Tool(pay, once=True).replace(eager=True)
