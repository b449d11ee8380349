"""Runs in a database: what is stored, who may work, and workers that are killed, raced and suspended."""

from __future__ import annotations

import json
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
from bridges.postgres import postgres_server
from execution.chat_chunks import answer

from streamkit import Content, RoundContext, RunState, TextBlock, Tool, ToolContext, UsageError, run_loop
from streamkit.bridges import run_store
from streamkit.bridges.run_store import Claim, ClaimLost, RunClaimed, RunStore
from streamkit.execution import Lease, RequestEntry, ResultEntry, RunEntry, parse_entry

pytestmark = pytest.mark.anyio

HISTORY = [Content.human("Go.")]
ENTRIES = 8  # two requests, two responses, four results


def start(processes: ForkServerContext, main: Callable[..., None], *arguments: Any) -> ForkServerProcess:
    worker = processes.Process(target=main, args=arguments)
    worker.start()
    return worker


async def wait(worker: ForkServerProcess) -> int | None:
    await anyio.to_thread.run_sync(worker.join)
    return worker.exitcode


async def claimed(store: RunStore, run_key: str, seconds: float = 30.0) -> Claim:
    return await store.claim(run_key, seconds=seconds)


async def is_claimed(store: RunStore, run_key: str) -> bool:
    try:
        claim = await store.claim(run_key)
    except RunClaimed:
        return True
    async with claim:
        return False


def request_of(run_key: str, position: int = 0, round: int = 0) -> RequestEntry:
    history = None if position else [Content.human("Go.")]
    return RequestEntry(run_key=run_key, position=position, round=round, provider="openai_chat", history=history)


def execute(store: RunStore, query: str, *values: Any) -> None:
    """Change the database behind the store's back."""
    store._database.transact(lambda run: run(query, values))


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
            assert await is_claimed(other, run_key)
            assert await is_claimed(store, run_key)
            assert run_key not in await other.abandoned()
            assert run_key in await other.claimed()
        assert run_key not in await other.claimed()
        async with await claimed(other, run_key):
            assert await is_claimed(store, run_key)


async def test_a_claim_that_is_not_renewed_can_be_taken_over_and_records_nothing_more(
    address: str, run_key: str
) -> None:
    async with RunStore(address) as store, RunStore(address) as other:
        dead = await claimed(store, run_key, seconds=0.001)  # not entered, so nothing renews it
        while run_key not in await other.abandoned():  # noqa: ASYNC110 - it is the database that changes
            await anyio.sleep(0.001)
        async with await claimed(other, run_key) as claim:
            request = request_of(run_key)
            with pytest.raises(ClaimLost, match="taken the run"):
                await dead.append(request)
            assert dead.is_lost
            assert not claim.is_lost
            await claim.append(request)
        assert len(await store.entries(run_key)) == 1


@pytest.mark.slow
async def test_a_worker_renews_its_claim(address: str, run_key: str) -> None:
    async with RunStore(address) as store, RunStore(address) as other, await claimed(store, run_key, seconds=0.6):
        await anyio.sleep(1.0)
        assert await is_claimed(other, run_key)


async def test_wrong_uses_are_refused(tmp_path: Path) -> None:
    async with RunStore(tmp_path / "runs.db") as store:
        for wrong in ({"run_key": ""}, {"run_key": "k", "seconds": 0}):
            with pytest.raises(UsageError):
                await store.claim(**wrong)  # type: ignore[arg-type]
        async with await claimed(store, "one") as one:
            with pytest.raises(UsageError, match="of the run 'other'"):
                await one.append(request_of("other"))
        with pytest.raises(UsageError, match="send takes a Content"):
            await store.send("one", "text")  # type: ignore[arg-type]


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


# ---------------------------------------------------------------- positions


async def test_an_entry_that_is_appended_again_by_its_claim_is_stored_once(address: str, run_key: str) -> None:
    async with RunStore(address) as store:
        async with await claimed(store, run_key) as claim:
            assert await claim.append(request_of(run_key)) is claim
            await claim.append(request_of(run_key))
            with pytest.raises(ClaimLost, match="position 0"):
                await claim.append(request_of(run_key, round=1))
        async with await claimed(store, run_key) as second:
            assert second.fence == claim.fence + 1
            with pytest.raises(ClaimLost, match="position 0"):  # an equal one, of another claim
                await second.append(request_of(run_key))
        assert await store.entries(run_key) == [request_of(run_key)]


async def test_a_state_that_is_resumed_twice_pays_once(address: str, run_key: str) -> None:
    paid: list[str] = []

    def pay(context: ToolContext) -> str:
        paid.append(context.id)
        return "paid"

    tools = [Tool(pay, description="Pay.", approval="ask")]

    def ask(context: RoundContext) -> Any:
        return answer("Done.") if context.round else answer("", ("pay", {}))

    async with RunStore(address) as store:
        async with await claimed(store, run_key) as claim:
            run = await run_loop(
                ask, provider="openai_chat", history=HISTORY, run_key=run_key, tools=tools, checkpoint=claim.append
            )
        assert run.state is not None
        kept = run.state.dump("key")  # in a web session
        for ended in ("answered", "lost"):
            state = RunState.load(kept, "key")
            answered = state.answer(approvals=dict.fromkeys(state.pending, True))
            async with await claimed(store, run_key) as claim:
                resumed = run_loop(ask, resume=answered, tools=tools, checkpoint=claim.append)
                if ended == "lost":
                    with pytest.raises(ClaimLost, match="continued before"):
                        await resumed
                else:
                    assert (await resumed).ended == ended
    assert len(paid) == 1


async def test_a_deleted_entry_is_not_read_over(address: str, run_key: str, tmp_path: Path) -> None:
    async with RunStore(address) as store:
        async with await claimed(store, run_key) as claim:
            await durable_worker.work(claim, str(tmp_path / "log"), None)
        execute(store, "DELETE FROM streamkit_entries WHERE run_key = ? AND position = 1", run_key)
        with pytest.raises(UsageError, match="at position 2, but none at 1"):
            await store.entries(run_key)
        with pytest.raises(UsageError, match="was released"):
            await store.claim(run_key)
        assert run_key not in await store.claimed()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("{", "not JSON"),
        ('{"type": "nothing"}', "nothing"),
        ('{"type": "resume", "version": "2.0", "run_key": "KEY", "position": 1, "call_ids": []}', "newer streamkit"),
        ('{"type": "resume", "run_key": "KEY", "position": 1}', "call_ids"),
        ('{"type": "resume", "run_key": "another", "position": 1, "call_ids": []}', "of the run 'another'"),
    ],
)
async def test_a_run_that_cannot_be_read_is_released_at_once(
    address: str, run_key: str, wrong: str, message: str
) -> None:
    async with RunStore(address) as store:
        async with await claimed(store, run_key) as claim:
            await claim.append(request_of(run_key))
        query = "INSERT INTO streamkit_entries (run_key, position, fence, entry) VALUES (?, 1, 1, ?)"
        execute(store, query, run_key, wrong.replace("KEY", run_key))
        for _ in range(2):  # the second time it is not claimed by the first one
            with pytest.raises(UsageError, match=message) as refused:
                await store.claim(run_key)
            assert "was released" in str(refused.value)


async def test_an_entry_of_a_newer_minor_version_is_read_and_keeps_what_it_has(run_key: str) -> None:
    data = json.loads(request_of(run_key).to_json())
    newer = parse_entry(json.dumps({**data, "version": "1.7", "temperature": 0.5}))
    assert RunState.from_entries([newer]).history == HISTORY
    written = json.loads(newer.to_json())
    assert (written["version"], written["temperature"]) == ("1.7", 0.5)


async def test_a_claimed_run_is_refused_with_the_time_until_which(address: str, run_key: str) -> None:
    async with RunStore(address) as store, await claimed(store, run_key, seconds=20):
        with pytest.raises(RunClaimed) as refused:
            async with await store.claim(run_key):
                pass
    error = refused.value
    assert error.run_key == run_key
    assert 0 < error.seconds <= 20
    assert f"{error.until:%Y-%m-%d %H:%M:%S}" in str(error)


# ---------------------------------------------------------------- a database that fails


class Failing:
    """A database that fails before or after some of its transactions, as one whose connection is lost."""

    def __init__(self, store: RunStore, moments: str) -> None:
        self._inner = store._database
        self._moments = list(moments)
        self.now, self.failures, self.close = self._inner.now, self._inner.failures, self._inner.close
        store._database = self  # type: ignore[assignment]

    def transact(self, work: Callable[..., Any]) -> Any:
        moment = self._moments.pop(0) if self._moments else "."
        if moment == "<":
            raise self.failures[0]("the connection was lost")
        value = self._inner.transact(work)
        if moment == ">":
            raise self.failures[0]("the connection was lost")
        return value


@pytest.mark.parametrize("moments", ["<<<", ">>>", "><>", ".>.>.>.>.>.>", ".<.<.<.<.<.<"])
async def test_work_that_a_lost_connection_interrupts_is_done_once(
    address: str, run_key: str, tmp_path: Path, moments: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_store, "_FIRST_DELAY", 0.001)
    async with RunStore(address) as store, RunStore(address) as failing:
        Failing(failing, moments)
        async with await claimed(failing, run_key) as claim:
            await durable_worker.work(claim, str(tmp_path / "log"), None)
        assert len(await store.entries(run_key)) == ENTRIES
        assert await store.claimed() == set()
        await failing.send(run_key, Content.human("More."))
        async with await claimed(store, run_key) as claim:
            assert [content for _, content in await claim.receive()] == [Content.human("More.")]
            assert claim.fence == 2
    lines = (tmp_path / "log").read_text().splitlines()
    assert sorted(line.split()[1] for line in lines) == ["0", "1", "a", "b", "c", "d"]


@pytest.mark.slow
async def test_a_database_that_stays_away_ends_the_run_when_the_claim_ends_and_the_release_does_not_raise(
    address: str, run_key: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = [0.0]
    monkeypatch.setattr(run_store, "_read_clock", lambda: clock[0])
    monkeypatch.setattr(run_store, "_RELEASE_TIME", 0.0)
    monkeypatch.setattr(run_store, "_FIRST_DELAY", 0.001)
    async with RunStore(address) as store:
        failure = store._database.failures[0]
        async with await claimed(store, run_key) as claim:
            failing = Failing(store, "<" * 1000)
            claimed_for = 30.0

            def transact(work: Callable[..., Any]) -> Any:
                clock[0] += 1.0
                return Failing.transact(failing, work)

            monkeypatch.setattr(failing, "transact", transact)
            with pytest.raises(ClaimLost, match="has not responded") as lost:
                await claim.append(request_of(run_key))
            assert isinstance(lost.value.__cause__, failure)
            assert claimed_for - 1 <= clock[0] <= claimed_for + 1
    assert "was not released" in caplog.text


async def test_a_worker_that_was_suspended_asks_before_a_call_whether_the_run_is_still_its_own(
    address: str, run_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(run_store, "_read_clock", lambda: clock[0])
    ran: list[str] = []
    async with RunStore(address) as store:
        async with await claimed(store, run_key) as claim:
            first = claim.fence

            def look(context: ToolContext) -> str:
                ran.append(f"{context.call.name} {context.attempt} {context.fence}")
                return "seen"

            async def suspended(entry: RunEntry) -> Lease | None:
                lease = await claim.append(entry)
                if entry.type == "response":
                    clock[0] += 31  # as after SIGCONT: the claim has expired, and another worker has taken it over
                    query = "UPDATE streamkit_claims SET worker = 'other', fence = fence + 1 WHERE run_key = ?"
                    execute(store, query, run_key)
                return lease

            with pytest.raises(ClaimLost, match="taken the run"):
                await run_loop(
                    lambda _: answer("", ("look", {})),
                    provider="openai_chat",
                    history=HISTORY,
                    run_key=run_key,
                    tools=[look],
                    checkpoint=suspended,
                )
        assert ran == []
        execute(store, "UPDATE streamkit_claims SET worker = NULL WHERE run_key = ?", run_key)
        async with await claimed(store, run_key) as claim:
            await run_loop(lambda _: answer("Done."), resume=claim.state, tools=[look], checkpoint=claim.append)
    assert ran == [f"look 2 {first + 2}"]


@pytest.mark.slow
async def test_runs_go_on_while_the_database_is_restarted_and_share_its_connections() -> None:
    """100 runs at once; the server is stopped when half of their calls run, for as long as it takes."""
    begun, ended = 0, []
    halfway = anyio.Event()
    with postgres_server() as server:
        async with RunStore(server.address, connections=4) as store:

            async def look() -> str:
                nonlocal begun
                begun += 1
                if begun == 100:
                    halfway.set()
                await anyio.sleep(0.01)
                return "seen"

            def ask(context: RoundContext) -> Any:
                return answer("Done.") if context.round else answer("", ("look", {}), ("look", {}))

            async def work(number: int) -> None:
                async with await claimed(store, f"run-{number}") as claim:
                    run = await run_loop(
                        ask,
                        provider="openai_chat",
                        history=HISTORY,
                        run_key=claim.run_key,
                        tools=[look],
                        checkpoint=claim.append,
                    )
                ended.append(run.ended)

            async with anyio.create_task_group() as tasks:
                for number in range(100):
                    tasks.start_soon(work, number)
                await halfway.wait()
                await anyio.to_thread.run_sync(server.stop)
                await anyio.to_thread.run_sync(server.start)
            assert (ended, begun) == (["answered"] * 100, 200)
            assert await store.claimed() == set()


async def test_a_worker_that_was_suspended_makes_no_request_for_a_run_that_it_has_lost(
    address: str, run_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, asked = [0.0], []
    monkeypatch.setattr(run_store, "_read_clock", lambda: clock[0])
    async with RunStore(address) as store, await claimed(store, run_key) as claim:

        async def suspended(entry: RunEntry) -> Lease:
            lease = await claim.append(entry)
            clock[0] += 31
            execute(store, "UPDATE streamkit_claims SET worker = 'other' WHERE run_key = ?", run_key)
            return lease

        def ask(context: RoundContext) -> Any:
            asked.append(context.round)
            return answer("Done.")

        run = run_loop(ask, provider="openai_chat", history=HISTORY, run_key=run_key, checkpoint=suspended)
        with pytest.raises(ClaimLost, match="taken the run"):
            await run
    assert asked == []


# ---------------------------------------------------------------- the mailbox


async def test_a_content_that_is_sent_is_in_the_next_request_and_in_the_entries(address: str, run_key: str) -> None:
    asked: list[list[Content]] = []
    async with RunStore(address) as store, RunStore(address) as other:
        await other.send(run_key, Content.human("First."))

        async def look() -> str:
            await other.send(run_key, Content.human("Second."))
            return "seen"

        async def ask(context: RoundContext) -> Any:
            asked.append(context.contents)
            if context.round == 1:
                await other.send(run_key, Content.human("Third."))
            return answer(f"Answer {context.round}.") if context.round else answer("", ("look", {}))

        async with await claimed(store, run_key) as claim:
            run = await run_loop(
                ask, provider="openai_chat", history=HISTORY, run_key=run_key, tools=[look], checkpoint=claim.append
            )
            assert await claim.receive() == []
        assert (run.ended, run.text, run.rounds) == ("answered", "Answer 2.", 3)
        spoken = [[b.text for b in c.blocks if isinstance(b, TextBlock)] for c in run.history if c.speaker == "human"]
        assert spoken == [["Go."], ["First."], ["Second."], ["Third."]]
        assert [len(contents) for contents in asked] == [2, 5, 7]
        assert asked[1][:2] == [*HISTORY, Content.human("First.")]
        for count in range(1, len(entries := await store.entries(run_key)) + 1):
            RunState.from_entries(entries[:count])
        again = await run_loop(ask, resume=RunState.from_entries(entries), tools=[look])
        assert again.history == run.history


async def test_contents_are_received_in_the_order_in_which_they_were_sent(address: str, run_key: str) -> None:
    async with RunStore(address) as store, await claimed(store, run_key) as claim:
        contents = [Content.human(str(number)) for number in range(40)]
        for content in contents:
            await store.send(run_key, content)
        assert [content for _, content in await claim.receive()] == contents


async def test_a_mailbox_of_a_database_that_does_not_respond_is_a_lost_claim(
    address: str, run_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_store, "_RELEASE_TIME", 0.0)
    async with RunStore(address) as store:
        claim = await claimed(store, run_key, seconds=0.01)
        failing = Failing(store, "<" * 1000)
        with pytest.raises(ClaimLost, match="has not responded") as lost:
            await claim.receive()
        assert isinstance(lost.value.__cause__, failing.failures)


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
