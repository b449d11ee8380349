"""Several streams with one queue of completed calls."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import anyio
import pytest
from execution.chat_chunks import answer, closed_turn

from streamkit import SharedAccumulator, ThreadUpdate, ToolResult, Turn, UsageError, execute_one_tool
from streamkit.events import Event

pytestmark = pytest.mark.anyio


@pytest.fixture
async def shared() -> AsyncIterator[SharedAccumulator]:
    with SharedAccumulator() as accumulator:
        yield accumulator


async def double(n: int) -> int:
    return 2 * n


def create_turn(name: str) -> Turn:
    return Turn("openai_chat", turn_key=name)


async def consume(shared: SharedAccumulator, turn: Turn, source: Any, into: list[Event] | None = None) -> None:
    async for event in shared.read(turn, source):
        if into is not None:
            into.append(event)


async def test_calls_of_all_streams_reach_the_workers_and_each_turn_its_update(shared: SharedAccumulator) -> None:
    updates: dict[str | None, ThreadUpdate] = {}
    events: dict[str, list[Event]] = {name: [] for name in "abc"}

    async def work() -> None:
        async for queued in shared:
            update = queued.set_result(await execute_one_tool(queued.call, tools=[double], turn=queued.turn))
            if update is not None:
                updates[queued.turn.turn_key] = update

    async with anyio.create_task_group() as workers:
        for _ in range(2):
            workers.start_soon(work)
        async with anyio.create_task_group() as streams:
            for number, name in enumerate("abc"):
                chunks = answer(f"I am {name}.", *[("double", {"n": 10 * number + n}) for n in range(3)])
                streams.start_soon(consume, shared, create_turn(name), chunks, events[name])
        shared.close()
    assert {key: [result.value for result in update.results] for key, update in updates.items()} == {
        "a": [0, 2, 4],
        "b": [20, 22, 24],
        "c": [40, 42, 44],
    }
    assert updates["b"].messages[0]["content"] == "I am b."
    ids = {name: [e.call.id for e in events[name] if e.type == "tool_call_start"] for name in "abc"}
    assert all([result.call.id for result in updates[name].results] == ids[name] for name in "abc")


async def test_calls_reach_a_worker_while_other_streams_still_run(shared: SharedAccumulator) -> None:
    seen = anyio.Event()

    async def slow() -> AsyncIterator[dict[str, Any]]:
        chunks = answer("Slowly.", ("double", {"n": 2}))
        yield chunks[0]
        await seen.wait()  # the other stream's call runs before this stream continues
        for chunk in chunks[1:]:
            yield chunk

    values: list[int] = []

    async def work() -> None:
        async for queued in shared:
            values.append((await execute_one_tool(queued.call, tools=[double])).value)
            seen.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        async with anyio.create_task_group() as streams:
            streams.start_soon(consume, shared, create_turn("slow"), slow())
            streams.start_soon(consume, shared, create_turn("fast"), answer("", ("double", {"n": 1})))
        shared.close()
    assert values == [2, 4]


async def test_a_full_queue_makes_the_streams_wait() -> None:
    with SharedAccumulator(capacity=2) as shared:
        await check_that_streams_wait(shared)


async def check_that_streams_wait(shared: SharedAccumulator) -> None:
    over: list[str] = []

    async def stream(name: str) -> None:
        await consume(shared, create_turn(name), answer("", *[("double", {"n": n}) for n in range(2)]))
        over.append(name)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stream, "a")
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(stream, "b")
        await anyio.wait_all_tasks_blocked()
        assert over == ["a"]
        await anext(shared)
        await anyio.wait_all_tasks_blocked()
        assert over == ["a"]
        await anext(shared)
        await anyio.wait_all_tasks_blocked()
        assert over == ["a", "b"]


def test_nothing_is_awaited_for_a_chunk() -> None:
    """Send once, without an event loop: a coroutine that never suspends runs to its end."""
    chunks = answer("word " * 1)[1:2] * 5000 + answer("")[-1:]
    events: list[Event] = []
    with SharedAccumulator() as shared:
        coroutine = consume(shared, create_turn("t"), chunks, events)
        with pytest.raises(StopIteration):
            coroutine.send(None)
    assert len([event for event in events if event.type == "text"]) == 5000


async def test_a_failed_turn_enqueues_nothing_and_a_turn_without_executable_calls_returns_its_update(
    shared: SharedAccumulator,
) -> None:
    await consume(
        shared, create_turn("cut"), answer("", ("double", {"n": 1}))[:-1]
    )  # no finish: a dict source ended...
    broken = create_turn("broken")
    broken.feed(answer("", ("double", {"n": 1}))[1])
    broken.close(ConnectionResetError("gone"))
    update = await shared.enqueue(broken)
    assert update is not None
    assert [result.status for result in update.results] == ["canceled"]
    invalid = await shared.enqueue(closed_turn("", ("double", "{")))
    assert invalid is not None
    assert [result.status for result in invalid.results] == ["error"]
    assert await shared.enqueue(closed_turn("Hello.")) is not None
    assert await shared.enqueue(closed_turn("", ("double", {"n": 1}))) is None
    shared.close()
    assert len([queued async for queued in shared]) == 2  # ...orderly: that is the end of the turn


async def test_a_stream_that_is_left_enqueues_nothing_and_ends_no_worker(shared: SharedAccumulator) -> None:
    with anyio.CancelScope() as scope:
        async with aclosing(shared.read(create_turn("left"), answer("Hm.", ("double", {"n": 1})))) as events:
            async for _ in events:
                scope.cancel()
                await anyio.sleep(1)
    await consume(shared, create_turn("other"), answer("", ("double", {"n": 1})))
    shared.close()
    assert [queued.turn.turn_key async for queued in shared] == ["other"]


async def test_a_call_accepts_exactly_one_result_and_only_its_own(shared: SharedAccumulator) -> None:
    await shared.enqueue(closed_turn("", ("double", {"n": 1}), ("double", {"n": 2})))
    first, second = await anext(shared), await anext(shared)
    with pytest.raises(UsageError, match="not of"):
        first.set_result(ToolResult(second.call, "completed", 4))
    assert second.set_result(ToolResult(second.call, "completed", 4)) is None
    with pytest.raises(UsageError, match="exactly one"):
        second.set_result(ToolResult(second.call, "completed", 4))
    update = first.set_result(ToolResult(first.call, "completed", 2))
    assert update is not None
    assert [result.value for result in update.results] == [2, 4]


async def test_after_close_workers_end_and_streams_are_rejected(shared: SharedAccumulator) -> None:
    ended: list[int] = []

    async def work(number: int) -> None:
        async for _ in shared:
            pass
        ended.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(3):
            tasks.start_soon(work, number)
        await anyio.wait_all_tasks_blocked()
        shared.close()
    assert sorted(ended) == [0, 1, 2]
    with pytest.raises(UsageError, match="closed"):
        await shared.enqueue(closed_turn("Hello."))
    with pytest.raises(UsageError, match="closed"):
        await anext(shared.read(create_turn("t"), []))


async def test_leaving_while_a_stream_waits_raises_in_that_stream() -> None:
    async def stream(shared: SharedAccumulator) -> None:
        with pytest.raises(UsageError, match="was left"):
            await consume(shared, create_turn("t"), answer("", *[("double", {"n": n}) for n in range(3)]))
        ended.set()

    ended = anyio.Event()
    async with anyio.create_task_group() as tasks:
        with SharedAccumulator(capacity=1) as shared:
            tasks.start_soon(stream, shared)
            await anyio.wait_all_tasks_blocked()
        assert [queued async for queued in shared] == []
        await ended.wait()


async def test_a_capacity_below_one_is_rejected() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        SharedAccumulator(0)
