"""Runs as DBOS workflows: their events and outcomes, pauses, failures, cancellation, and workers that are killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from datetime import date
from multiprocessing.context import ForkServerContext
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
from bridges import dbos_worker
from bridges.dbos_worker import configure, launched
from bridges.durable_worker import HISTORY, check_log
from bridges.test_run_store import ENTRIES, start, wait
from dbos import DBOS
from dbos import error as dbos_error
from dbos_sqlite import IS_SQLITE_TOO_OLD, REASON
from execution.chat_chunks import answer

from streamkit import Approval, Content, RoundContext, Run, Tool, ToolContext, UsageError, run_loop
from streamkit.bridges.dbos import DurableRuns, RunFailed
from streamkit.bridges.run_store import RunStore
from streamkit.events import Event, RunEnded, Text, ToolCompleted
from streamkit.execution import ResultEntry

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]  # DBOS requires asyncio


@pytest.fixture(autouse=True)
def usable_database(address: str) -> None:
    """Skip the test if DBOS cannot use its database."""
    if IS_SQLITE_TOO_OLD and not address.startswith("postgresql:"):
        pytest.skip(REASON)


class Model:
    """A model that responds to the position in the conversation, and counts the requests."""

    def __init__(self, *responses: Any) -> None:
        self.responses = responses
        self.requests = 0

    def __call__(self, context: RoundContext) -> Any:
        self.requests += 1
        return self.responses[sum(content.speaker == "ai" for content in context.contents)]


@asynccontextmanager
async def running(
    address: str,
    create_run: Callable[..., Run],
    *,
    queue: str | None = None,
    claim_seconds: float = 30.0,
    show: Callable[[str, Event], object] | None = None,
) -> AsyncGenerator[DurableRuns, None]:
    """Launch DBOS with runs of one kind."""
    async with RunStore(address) as store:
        DBOS(config=configure(address, "tests"))
        runs = DurableRuns(store, create_run, queue=queue, claim_seconds=claim_seconds, show=show)
        async with launched():
            yield runs


def loop_of(model: Any, *tools: Tool) -> Callable[..., Run]:
    return lambda start: run_loop(model, provider="openai_chat", tools=tools, **start)


# ---------------------------------------------------------------- one worker


async def test_a_run_is_started_once_and_its_events_are_live(address: str, run_key: str) -> None:
    model = Model(answer("", ("add", {"a": 1, "b": 2})), answer("Three."))
    added = []

    def add(a: int, b: int) -> int:
        added.append((a, b))
        return a + b

    events: list[Event] = []

    def show(key: str, event: Event) -> None:
        assert key == run_key
        events.append(event)

    async with running(address, loop_of(model, Tool(add, description="Add.")), show=show) as runs:
        handle = await runs.start(run_key, history=HISTORY)
        outcome = {"ended": "answered", "text": "Three.", "pending": [], "awaiting_results": []}
        assert await handle.get_result() == outcome
        again = await runs.start(run_key, history=[Content.human("Something else.")])
        assert await again.get_result() == outcome
    assert (model.requests, added) == (2, [(1, 2)])
    assert "".join(event.text for event in events if isinstance(event, Text)) == "Three."
    assert [event.result.value for event in events if isinstance(event, ToolCompleted)] == [3]
    assert isinstance(events[-1], RunEnded)


async def test_others_follow_the_entries_of_a_run(address: str, run_key: str) -> None:
    release = asyncio.Event()

    async def slow() -> str:
        await release.wait()
        return "done"

    model = Model(answer("", ("slow", {})), answer("Done."))
    async with running(address, loop_of(model, Tool(slow, description="Wait."))) as runs, RunStore(address) as other:
        handle = await runs.start(run_key, history=HISTORY)
        types = []
        async with aclosing(runs.follow(run_key, interval=0.01)) as entries:
            async for entry in entries:
                types.append(entry.type)
                if types == ["request", "response"]:
                    assert run_key in await other.claimed()
                    release.set()
        assert types == ["request", "response", "result", "request", "response"]
        assert (await handle.get_result())["text"] == "Done."
        assert [entry.type async for entry in runs.follow(run_key, after=3)] == ["request", "response"]
        assert run_key not in await other.claimed()


async def test_a_paused_run_is_continued_with_decisions(address: str, run_key: str) -> None:
    paid = []

    def pay(amount: int, context: ToolContext) -> str:
        paid.append((amount, context.id))
        return f"paid {amount}"

    tools = [Tool(pay, description="Pay.", approval="ask"), Tool(name="form", description="Ask.", parameters={})]
    calls = ("pay", {"amount": 5}), ("pay", {"amount": 900}), ("form", {})
    model = Model(answer("", *calls), answer("One is paid."))
    async with running(address, loop_of(model, *tools)) as runs:
        handle = await runs.start(run_key, history=HISTORY)
        outcome = await handle.get_result()
        small, large = outcome["pending"]
        [form] = outcome["awaiting_results"]
        assert outcome["ended"] == "awaiting_approval"
        for wrong in ({"approvals": {form: True}}, {"results": {small: "paid by the client"}}):
            with pytest.raises(UsageError, match="awaits"):
                await runs.resume(run_key, **wrong)
        approvals = {small: Approval(True, arguments={"amount": 4}), large: False}
        handle = await runs.resume(run_key, approvals=approvals)
        assert (await handle.get_result())["awaiting_results"] == [form]
        handle = await runs.resume(run_key, results={form: {"name": "Ann"}})
        assert await handle.get_result() == {
            "ended": "answered",
            "text": "One is paid.",
            "pending": [],
            "awaiting_results": [],
        }
        with pytest.raises(UsageError, match="awaits its result"):
            await runs.resume(run_key, results={form: "again"})
        entries = [entry async for entry in runs.follow(run_key)]
    assert paid == [(4, small)]
    results = {e.result.call_id: (e.result.status, e.result.value) for e in entries if isinstance(e, ResultEntry)}
    assert results[small] == ("completed", "paid 4")
    assert results[large][0] == "denied"
    assert results[form] == ("completed", {"name": "Ann"})


async def test_a_run_that_failed_is_continued_from_its_entries(address: str, run_key: str) -> None:
    effects = []
    broken = True

    def ask(context: RoundContext) -> Any:
        if context.round == 1 and broken:
            return [{"error": {"message": "the model is gone", "type": "server_error"}}]
        return answer("Done.") if context.round else answer("", ("act", {}))

    act = Tool(lambda: effects.append("act"), name="act", description="Act.")
    async with running(address, loop_of(ask, act)) as runs:
        handle = await runs.start(run_key, history=HISTORY)
        with pytest.raises(RunFailed, match=r"StreamInterrupted: .*the model is gone"):
            await handle.get_result()
        with pytest.raises(RunFailed, match="the model is gone"):  # as DBOS has stored it
            await (await DBOS.retrieve_workflow_async(run_key)).get_result()
        broken = False
        assert (await (await runs.resume(run_key)).get_result())["text"] == "Done."
    assert effects == ["act"]


async def test_a_run_that_was_cancelled_in_its_queue_is_continued_too(address: str, run_key: str) -> None:
    model = Model(answer("Done."))
    async with running(address, loop_of(model), queue="empty") as runs:
        await runs.start(run_key, history=HISTORY)  # no worker listens to the queue
        await DBOS.cancel_workflow_async(run_key)
        resuming = await runs.resume(run_key)
        assert (await resuming.get_status()).status == "ENQUEUED"
        await DBOS.register_queue_async("empty", polling_interval_sec=0.05)
        assert (await resuming.get_result(polling_interval_sec=0.05))["text"] == "Done."
    assert model.requests == 1


async def test_after_a_cancel_calls_that_start_in_another_order_get_their_own_results(
    address: str, run_key: str
) -> None:
    started: list[str] = []
    canceled: list[str] = []
    is_blocked = True

    async def effect(context: ToolContext) -> str:
        name = context.call.name
        started.append(name)
        if name == "a" and is_blocked:
            try:
                await asyncio.sleep(100)
            finally:
                canceled.append(name)
        return f"{name} done"

    conflicts: dict[str, list[str]] = {"c": ["a"], "d": ["b"]}
    tools = [Tool(effect, name=n, description=n, conflicts_with=conflicts.get(n, ())) for n in "abcd"]
    model = Model(answer("", *((name, {}) for name in "abcd")), answer("Done."))
    types: list[str] = []

    def show(_: str, event: Event) -> None:
        types.append(event.type)

    async with running(address, loop_of(model, *tools), show=show) as runs, RunStore(address) as store:
        handle = await runs.start(run_key, history=HISTORY)
        while len(await store.entries(run_key)) < 4:  # noqa: ASYNC110 - the results of b and d
            await asyncio.sleep(0.01)
        await DBOS.cancel_workflow_async(run_key)
        with pytest.raises(dbos_error.DBOSAwaitedWorkflowCancelledError):
            await handle.get_result()
        assert (started, canceled) == (["a", "b", "d"], ["a"])
        assert "tool_completed" in types
        is_blocked = False
        assert (await (await runs.resume(run_key)).get_result())["text"] == "Done."
        entries: list[Any] = await store.entries(run_key)
    assert started == ["a", "b", "d", "a", "c"]  # c is the third call now, which d was before
    [calls] = [entry.calls for entry in entries if entry.type == "response" and entry.calls]
    names = {call.id: call.name for call in calls}
    results = {names[e.result.call_id]: e.result.value for e in entries if isinstance(e, ResultEntry)}
    assert results == {name: f"{name} done" for name in "abcd"}


async def test_a_workflow_that_is_executed_twice_makes_its_run_once(address: str, run_key: str) -> None:
    release, running_now = asyncio.Event(), asyncio.Event()
    effects: Counter[str] = Counter()

    async def effect(context: ToolContext) -> str:
        effects[context.id] += 1
        running_now.set()
        await release.wait()
        return "done"

    model = Model(answer("", ("act", {}), ("act", {})), answer("Done."))
    tool = Tool(effect, name="act", description="Act.")
    async with running(address, loop_of(model, tool), claim_seconds=1.0) as runs:
        handle = await runs.start(run_key, history=HISTORY)
        await running_now.wait()
        await DBOS.resume_workflow_async(run_key)  # what a process with the same executor id does when it is launched
        while (await DBOS.get_workflow_status_async(run_key)).status != "PENDING":  # noqa: ASYNC110 - dequeued
            await asyncio.sleep(0.01)
        release.set()
        assert (await handle.get_result())["text"] == "Done."
    assert set(effects.values()) == {1}
    assert len(effects) == model.requests == 2


async def test_results_that_cannot_be_serialized_end_neither_the_run_nor_its_workflow(
    address: str, run_key: str
) -> None:
    def values() -> Any:
        return {"set": {1}, "bytes": b"\xff", "text": "\ud800", "day": date(2026, 1, 2)}

    tools = [Tool(values, description="Return data."), Tool(lambda: Lock(), name="lock", description="Return a lock.")]
    model = Model(answer("", ("values", {}), ("lock", {})), answer("Done."))
    async with running(address, loop_of(model, *tools)) as runs:
        assert (await (await runs.start(run_key, history=HISTORY)).get_result())["text"] == "Done."
        found = [entry.result async for entry in runs.follow(run_key) if isinstance(entry, ResultEntry)]
    by_status = {result.status: result for result in found}
    assert by_status["completed"].value == {"set": [1], "bytes": "/w==", "text": "\ufffd", "day": "2026-01-02"}
    assert "lock ran, but it returned an object of the type lock" in str(by_status["error"].error)


async def test_a_long_conversation_is_stored_once_and_not_for_each_round(address: str, run_key: str) -> None:
    history = [
        Content.human(f"{number} " + "x" * 500) if number % 2 == 0 else Content.ai("y" * 500) for number in range(2001)
    ]
    large = "z" * 1_000_000
    rounds = 6
    model = Model(*[answer("", ("note", {}))] * rounds, answer(large))

    def ask(context: RoundContext) -> Any:
        return model.responses[context.round]

    def note() -> str:
        return "noted"

    async with running(address, loop_of(ask, Tool(note, name="note", description="Note."))) as runs:
        handle = await runs.start(run_key, history=history)
        assert (await handle.get_result())["text"] == large
        entries = [entry async for entry in runs.follow(run_key)]
    assert len(entries) == 3 * rounds + 2
    first, *others = [len(entry.to_json()) for entry in entries]
    assert first > 1_000_000
    assert sum(others) < 2_000_000


async def test_wrong_uses_are_refused(address: str) -> None:
    async with running(address, loop_of(Model(answer("Done.")))) as runs:
        for wrong in ({}, {"history": HISTORY, "thread": []}):
            with pytest.raises(UsageError, match="either history"):
                await runs.start("key", **wrong)
        others: list[dict[str, Any]] = [
            {"history": [{"role": "user", "content": "x"}]},
            {"history": "x"},
            {"thread": HISTORY},
        ]
        for other in others:
            with pytest.raises(UsageError, match=r"parse_messages|list of Contents|pass Contents as history"):
                await runs.start("key", **other)
        with pytest.raises(UsageError, match="run_key"):
            await runs.start("", history=HISTORY)
        with pytest.raises(dbos_error.DBOSNonExistentWorkflowError):
            await runs.resume("key")
        assert [entry async for entry in runs.follow("key")] == []


async def test_inputs_and_messages_of_the_provider_reach_the_run(address: str, run_key: str) -> None:
    seen = []

    def create_run(start: dict[str, Any], *, user: str) -> Run:
        def ask(context: RoundContext) -> Any:
            seen.append((user, context.thread))
            return answer("Done.")

        return run_loop(ask, provider="openai_chat", **start)

    thread = [{"role": "user", "content": "Hi."}]
    async with running(address, create_run) as runs:
        handle = await runs.start(run_key, thread=thread, inputs={"user": "ann"})
        assert (await handle.get_result())["ended"] == "answered"
    assert seen == [("ann", thread)]


def test_the_error_without_dbos_names_the_extra(anyio_backend: str) -> None:
    program = "import sys; sys.modules['dbos'] = None; import streamkit.bridges.dbos"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "ModuleNotFoundError: streamkit.bridges.dbos needs dbos: pip install 'streamkit-llm[dbos]'" in done.stderr


async def test_a_worker_that_ends_leaves_its_runs_to_others(address: str, run_key: str) -> None:
    attempts: list[str] = []
    running_now = asyncio.Event()

    async def act(context: ToolContext) -> str:
        attempts.append(context.id)
        running_now.set()
        await asyncio.sleep(100 if len(attempts) == 1 else 0)
        return "done"

    model = Model(answer("", ("act", {})), answer("Done."))
    create_run = loop_of(model, Tool(act, description="Act."))
    async with running(address, create_run, claim_seconds=0.2) as runs, RunStore(address) as store:
        async with runs:
            await runs.start(run_key, history=HISTORY)
            await running_now.wait()
        assert (await DBOS.get_workflow_status_async(run_key)).status == "PENDING"
        assert await store.claimed() == set()
        async with runs:  # here the same worker finds the run
            outcome = await (await DBOS.retrieve_workflow_async(run_key)).get_result(polling_interval_sec=0.05)
    assert outcome["text"] == "Done."
    assert model.requests == 2
    assert attempts == [attempts[0]] * 2  # one idempotency key


async def test_workers_look_for_abandoned_runs_also_after_the_database_has_failed(
    address: str, run_key: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looks = 0

    async def fail(self: RunStore) -> set[str]:
        nonlocal looks
        looks += 1
        raise ConnectionError("the database is gone")

    monkeypatch.setattr(RunStore, "claimed", fail)
    async with running(address, loop_of(Model()), claim_seconds=0.02) as runs, runs:
        while looks < 3:  # noqa: ASYNC110 - a task of the block looks again by itself
            await asyncio.sleep(0.01)
    assert "runs of dead workers" in caplog.text


# ---------------------------------------------------------------- processes

SECONDS = 1.0  # of a claim


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", range(ENTRIES))
async def test_a_second_worker_takes_over_a_killed_one(
    processes: ForkServerContext, address: str, run_key: str, tmp_path: Path, moment: str, number: int
) -> None:
    log = tmp_path / "log"
    arguments = address, run_key, str(log), SECONDS
    killed = start(processes, dbos_worker.main, *arguments, (moment, number))
    assert await wait(killed) == -signal.SIGKILL
    async with RunStore(address) as store:
        stored = await store.entries(run_key)
        assert len(stored) == number + (moment == "after")
        second = start(processes, dbos_worker.main, *arguments, None, "second", False)
        assert await wait(second) == 0
        check_log(log, stored, await store.entries(run_key))


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["unclaimed", "unrecorded"])
async def test_a_worker_that_is_killed_without_a_claim_is_taken_over(
    processes: ForkServerContext, address: str, run_key: str, tmp_path: Path, moment: str
) -> None:
    log = tmp_path / "log"
    arguments = address, run_key, str(log), SECONDS
    assert await wait(start(processes, dbos_worker.main, *arguments, (moment, 0))) == -signal.SIGKILL
    async with RunStore(address) as store:
        stored = await store.entries(run_key)
        assert len(stored) == (0 if moment == "unclaimed" else ENTRIES)
        assert run_key not in await store.claimed()
        assert await wait(start(processes, dbos_worker.main, *arguments, None, "second", False)) == 0
        check_log(log, stored, await store.entries(run_key))


@pytest.mark.slow
async def test_of_two_racing_workers_each_effect_happens_once(
    processes: ForkServerContext, address: str, run_key: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    arguments = address, run_key, str(log), 30.0, None
    workers = [start(processes, dbos_worker.main, *arguments, name) for name in ("first", "second")]
    assert [await wait(worker) for worker in workers] == [0, 0]
    lines = log.read_text().splitlines()
    assert sorted(line.split()[1] for line in lines) == ["0", "1", "a", "b", "c", "d"]


@pytest.mark.slow
@pytest.mark.parametrize("other", ["first", "second"])  # DBOS recovers those of its own id by itself
async def test_a_suspended_worker_returns_the_outcome_of_the_one_that_took_its_run_over(
    processes: ForkServerContext, address: str, run_key: str, tmp_path: Path, other: str
) -> None:
    log = tmp_path / "log"
    arguments = address, run_key, str(log), SECONDS
    suspended = start(processes, dbos_worker.main, *arguments, ("suspended", 3))
    async with RunStore(address) as store:
        while len(stored := await store.entries(run_key)) < 3:  # noqa: ASYNC110 - another process writes them
            await asyncio.sleep(0.05)
        try:
            assert await wait(start(processes, dbos_worker.main, *arguments, None, other, False)) == 0
            finished = await store.entries(run_key)
        finally:
            os.kill(suspended.pid, signal.SIGCONT)
        assert await wait(suspended) == 0
        assert await store.entries(run_key) == finished  # it has recorded nothing more
    check_log(log, stored, finished)


@pytest.mark.slow
async def test_of_two_workers_that_take_a_run_over_one_makes_it(
    processes: ForkServerContext, address: str, run_key: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    arguments = address, run_key, str(log), SECONDS
    killed = start(processes, dbos_worker.main, *arguments, ("after", 1))  # no call has run
    assert await wait(killed) == -signal.SIGKILL
    workers = [start(processes, dbos_worker.main, *arguments, None, name, False) for name in ("second", "third")]
    assert [await wait(worker) for worker in workers] == [0, 0]
    assert sorted(line.split()[1] for line in log.read_text().splitlines()) == ["0", "1", "a", "b", "c", "d"]
