"""Runs in a database: what is stored, who may work, and workers that are killed, raced and suspended."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

import anyio
import pytest
from bridges import durable_worker

from streamkit import RunState, UsageError
from streamkit.bridges.run_store import Claim, ClaimLost, RunStore
from streamkit.execution import RequestEntry, ResultEntry

pytestmark = pytest.mark.anyio

ENTRIES = 8  # two requests, two responses, four results


def start(processes: ForkServerContext, main: Callable[..., None], *arguments: Any) -> ForkServerProcess:
    worker = processes.Process(target=main, args=arguments)
    worker.start()
    return worker


async def wait(worker: ForkServerProcess) -> int | None:
    await anyio.to_thread.run_sync(worker.join)
    return worker.exitcode


async def claimed(store: RunStore, run_key: str, seconds: float = 30.0) -> Claim:
    claim = await store.claim(run_key, seconds=seconds)
    assert claim is not None
    return claim


# ---------------------------------------------------------------- in one process


async def test_entries_are_read_as_they_were_written(address: str, run_key: str, tmp_path: Path) -> None:
    async with RunStore(address) as store:
        claim = await claimed(store, run_key)
        assert (claim.entries, claim.state) == ([], None)
        async with claim:
            await durable_worker.work(claim, str(tmp_path / "log"), None)
        entries = await store.entries(run_key)
        assert len(entries) == ENTRIES
        assert [each.result.value for each in entries if isinstance(each, ResultEntry)].count("a done") == 1
        claim = await claimed(store, run_key)
        assert claim.state == RunState.from_entries(entries)
        async with claim:
            await durable_worker.work(claim, str(tmp_path / "log"), None)  # it has ended: nothing is done
    lines = (tmp_path / "log").read_text().splitlines()
    assert sorted(line.split()[1] for line in lines) == ["0", "1", "a", "b", "c", "d"]


async def test_a_run_has_one_worker(address: str, run_key: str) -> None:
    async with RunStore(address) as store, RunStore(address) as other:
        async with await claimed(store, run_key):
            assert await other.claim(run_key) is None
            assert await store.claim(run_key) is None
            assert run_key not in await other.abandoned()
        async with await claimed(other, run_key):
            assert await store.claim(run_key) is None


async def test_a_claim_that_is_not_renewed_can_be_taken_over_and_records_nothing_more(
    address: str, run_key: str
) -> None:
    async with RunStore(address) as store, RunStore(address) as other:
        dead = await claimed(store, run_key, seconds=0.001)  # not entered, so nothing renews it
        while run_key not in await other.abandoned():  # noqa: ASYNC110 - it is the database that changes
            await anyio.sleep(0.001)
        async with await claimed(other, run_key) as claim:
            request = RequestEntry(run_key=run_key, round=0, provider="openai_chat", history=[])
            with pytest.raises(ClaimLost, match="taken the run"):
                await dead.append(request)
            assert dead.is_lost
            assert not claim.is_lost
            await claim.append(request)
        assert len(await store.entries(run_key)) == 1


async def test_a_worker_renews_its_claim(address: str, run_key: str) -> None:
    async with RunStore(address) as store, RunStore(address) as other, await claimed(store, run_key, seconds=0.6):
        await anyio.sleep(1.0)
        assert await other.claim(run_key) is None


async def test_wrong_uses_are_refused(tmp_path: Path) -> None:
    async with RunStore(tmp_path / "runs.db") as store:
        for wrong in ({"run_key": ""}, {"run_key": "k", "seconds": 0}):
            with pytest.raises(UsageError):
                await store.claim(**wrong)  # type: ignore[arg-type]
        async with await claimed(store, "one") as one:
            entry = RequestEntry(run_key="other", round=0, provider="openai_chat", history=[])
            with pytest.raises(UsageError, match="of the run 'other'"):
                await one.append(entry)


async def test_a_file_that_another_program_writes_to_is_waited_for(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "runs.db", isolation_level=None)) as other:
        other.execute("CREATE TABLE theirs (x)")
        other.execute("BEGIN IMMEDIATE")
        other.execute("INSERT INTO theirs VALUES (1)")
        async with RunStore(tmp_path / "runs.db") as store, anyio.create_task_group() as tasks:
            tasks.start_soon(claimed, store, "key")
            await anyio.sleep(0.3)
            other.execute("COMMIT")
        assert other.execute("SELECT run_key FROM streamkit_claims").fetchall() == [("key",)]


# ---------------------------------------------------------------- processes


@pytest.mark.slow
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", range(ENTRIES))
async def test_a_second_worker_takes_over_a_killed_one(
    processes: ForkServerContext, address: str, run_key: str, tmp_path: Path, moment: str, number: int
) -> None:
    log = tmp_path / "log"
    arguments = durable_worker.main, address, run_key, str(log), 0.5
    assert await wait(start(processes, *arguments, (moment, number))) == -signal.SIGKILL
    async with RunStore(address) as store:
        stored = await store.entries(run_key)
        assert len(stored) == number + (moment == "after")
        assert await wait(start(processes, *arguments)) == 0
        entries = await store.entries(run_key)
    durable_worker.check_log(log, stored, entries)


@pytest.mark.slow
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_of_two_racing_workers_each_effect_happens_once(
    processes: ForkServerContext, address: str, run_key: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    workers = [start(processes, durable_worker.main, address, run_key, str(log), 30) for _ in range(2)]
    assert [await wait(worker) for worker in workers] == [0, 0]
    lines = log.read_text().splitlines()
    assert sorted(line.split()[1] for line in lines) == ["0", "1", "a", "b", "c", "d"]


@pytest.mark.slow
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_suspended_worker_that_lost_its_run_ends(
    processes: ForkServerContext, address: str, run_key: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    slow = start(processes, durable_worker.main, address, run_key, str(log), 0.5)
    while not log.exists():  # noqa: ASYNC110 - another process writes it
        await anyio.sleep(0.001)
    os.kill(slow.pid, signal.SIGSTOP)
    try:
        assert await wait(start(processes, durable_worker.main, address, run_key, str(log), 30)) == 0
    finally:
        os.kill(slow.pid, signal.SIGCONT)
    await wait(slow)
    async with RunStore(address) as store:
        entries: list[Any] = await store.entries(run_key)
    results = [entry.result.call_id for entry in entries if isinstance(entry, ResultEntry)]
    assert len(results) == len(set(results)) == 4
