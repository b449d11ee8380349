"""The logs of runs in a database: read by other processes, written by one worker, bounded and deleted."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from execution.chat_chunks import answer

from streamkit import Content, UsageError, run_loop
from streamkit.bridges.event_log import FramesGone, LiveRuns, UnknownRun
from streamkit.bridges.run_store import ClaimLost, RunStore
from streamkit.bridges.stored_log import StoredLog, delete_logs

pytestmark = pytest.mark.anyio


async def read_all(log: StoredLog, offset: int = 0) -> bytes:
    return b"".join([data async for data in await log.follow(offset)])


class Queries:
    """Counts the transactions of a store."""

    def __init__(self, store: RunStore) -> None:
        self.count = 0
        self._transact = store._database.transact
        store._database.transact = self  # type: ignore[assignment]

    def __call__(self, work: Any) -> Any:
        self.count += 1
        return self._transact(work)


async def test_another_process_reads_the_frames_from_any_offset(address: str, run_key: str) -> None:
    async with RunStore(address) as store, RunStore(address) as other:
        log, elsewhere = StoredLog(store, run_key), StoredLog(other, run_key)
        with pytest.raises(UnknownRun):
            await elsewhere.follow()
        assert await log.append() == 0
        reader = await elsewhere.follow()
        assert await log.append(b"a", b"\x00\xff") == 2
        assert await anext(reader) == b"a\x00\xff"
        assert await log.append(b"c", ended=True) == 3
        assert [data async for data in reader] == [b"c"]
        assert [await read_all(elsewhere, offset) for offset in range(4)] == [b"a\x00\xffc", b"\x00\xffc", b"c", b""]
        assert [await read_all(log, offset) for offset in (0, 3)] == [b"a\x00\xffc", b""]
        for each in (log, elsewhere):
            with pytest.raises(UsageError, match="its next frame has 3"):
                await each.follow(4)


async def test_a_log_that_had_ended_goes_on_in_another_process(address: str, run_key: str) -> None:
    async with RunStore(address) as store, RunStore(address) as other:
        await StoredLog(store, run_key).append(b"question", ended=True)
        log, elsewhere = StoredLog(store, run_key), StoredLog(other, run_key)
        assert (await elsewhere.follow(1)).is_at_end
        await log.append(b"answer")
        reader = await elsewhere.follow(1)
        assert await anext(reader) == b"answer"
        await log.append(ended=True)
        assert [data async for data in reader] == []
        assert await read_all(elsewhere) == b"questionanswer"


@pytest.mark.parametrize("bound", [{"max_frames": 10}, {"max_bytes": 10 * (64 + 100)}])
async def test_the_oldest_frames_are_dropped_beyond_the_bound(
    address: str, run_key: str, bound: dict[str, int]
) -> None:
    frames = [b"%03d" % number + b"x" * 97 for number in range(11)]
    async with RunStore(address) as store:
        log = StoredLog(store, run_key, **bound)
        await log.append(*frames[:10])
        assert await anext(await log.follow()) == b"".join(frames[:10])
        await log.append(frames[10], ended=True)
        for each in (log, StoredLog(store, run_key)):
            with pytest.raises(FramesGone) as caught:
                await each.follow(1)
            assert (caught.value.offset, caught.value.first) == (1, 2)
            assert await read_all(each, 2) == b"".join(frames[2:])
        tiny = StoredLog(store, run_key, max_bytes=50)
        assert await tiny.append(b"x" * 51) == 12
        with pytest.raises(FramesGone):
            await tiny.follow(11)


async def test_a_worker_that_has_lost_the_run_appends_nothing_more(address: str, run_key: str) -> None:
    async with RunStore(address) as store:
        async with await store.claim(run_key) as claim:
            old = StoredLog(store, run_key, fence=claim.fence)
            await old.append(b"old")
        async with await store.claim(run_key) as claim:
            new = StoredLog(store, run_key, fence=claim.fence)
            await new.append(b"new")
            with pytest.raises(ClaimLost):
                await old.append(b"lost")
            with pytest.raises(ClaimLost):
                await old.append(ended=True)  # the run of the other worker goes on
            await new.append(b"end", ended=True)
        assert await read_all(StoredLog(store, run_key)) == b"oldnewend"


async def test_an_append_whose_confirmation_was_lost_is_not_repeated(
    address: str, run_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with RunStore(address) as store:
        log = StoredLog(store, run_key)
        await log.append(b"a")
        transact, failures = store._database.transact, [store.failures[0]("the connection was lost")] * 2

        def lose_confirmations(work: Any) -> Any:
            value = transact(work)
            if failures:
                raise failures.pop()
            return value

        monkeypatch.setattr(store._database, "transact", lose_confirmations)
        assert await log.append(b"b", b"c", ended=True) == 3
        assert await read_all(log) == b"abc"


async def test_readers_of_one_log_share_its_queries(address: str, run_key: str) -> None:
    async with RunStore(address) as store, RunStore(address) as other:
        log, elsewhere = StoredLog(store, run_key), StoredLog(other, run_key)
        await log.append()
        queries = Queries(other)
        read: list[bytes] = []

        async def follow() -> None:
            read.append(await read_all(elsewhere))

        async with anyio.create_task_group() as group:
            for _ in range(1000):
                group.start_soon(follow)
            await anyio.sleep(0.05)
            await log.append(b"a", b"b")
            await anyio.sleep(0.5)
            await log.append(b"c", ended=True)
        assert read == [b"abc"] * 1000
        assert queries.count < 1000  # fewer than readers


async def test_a_run_is_read_in_a_process_that_does_not_make_it(address: str, run_key: str) -> None:
    async with RunStore(address) as store, RunStore(address) as other:

        def run_of(text: str) -> Any:
            return run_loop(
                lambda context: answer(text), provider="openai_chat", history=[Content.human("Go.")], run_key=run_key
            )

        async with (
            LiveRuns(lambda key: StoredLog(store, key)) as runs,
            LiveRuns(lambda key: StoredLog(other, key)) as elsewhere,
        ):
            async with await store.claim(run_key) as claim:
                log = await runs.start(run_of("Done."), log=StoredLog(store, run_key, fence=claim.fence))
                assert runs.log(run_key) is log
                lines = [data async for data in await elsewhere.log(run_key).server_sent_events()]
            last = json.loads(b"".join(lines).decode().split("\n\n")[-2].split("data: ")[1])
            assert (last["type"], last["ended"]) == ("run_ended", "answered")
            with pytest.raises(UnknownRun):
                elsewhere.run(run_key)
            with pytest.raises(UnknownRun):
                await elsewhere.log("another").follow()
        assert not runs._ended  # the log is in the database


async def test_old_logs_are_deleted(address: str, run_key: str) -> None:
    async with RunStore(address) as store:
        log = StoredLog(store, run_key)
        await log.append(b"a", ended=True)
        await delete_logs(store, seconds=3600)
        assert await read_all(log) == b"a"
        await delete_logs(store, seconds=-1)
        with pytest.raises(UnknownRun):
            await StoredLog(store, run_key).follow()
        assert (
            store._database.transact(
                lambda execute: execute(
                    "SELECT count(*) FROM streamkit_frames WHERE run_key = ?", (run_key,)
                ).fetchone()[0]
            )
            == 0
        )
        assert await log.append(b"new", ended=True) == 1
