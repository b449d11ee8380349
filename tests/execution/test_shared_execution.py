"""The executors with a SharedAccumulator: the calls of several streams under one limit, each stream with its update."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from execution.chat_chunks import answer, closed_turn
from execution.resource_checks import tool_threads, wait_until_nothing_is_left
from virtual_clock import on_a_virtual_clock

from streamkit import (
    NormalizedToolChunk,
    Schedule,
    SharedAccumulator,
    ThreadUpdate,
    Timeouts,
    ToolContext,
    Turn,
    UsageError,
    execute_tool_calls_batched,
    execute_tool_calls_sequentially,
    tool,
)
from streamkit.events import Event, RoundFinished
from streamkit.execution import SharedExecution

pytestmark = pytest.mark.anyio


async def double(n: int) -> int:
    """Double a number, in so many seconds."""
    await anyio.sleep(n)
    return 2 * n


def double_calls(*numbers: int) -> list[tuple[str, Any]]:
    return [("double", {"n": n}) for n in numbers]


def create_turn(name: str, provider: str = "openai_chat") -> Turn:
    return Turn(provider, turn_key=name)


async def read_all(shared: SharedAccumulator, streams: Sequence[tuple[Turn, Any]]) -> None:
    """Read streams concurrently, and close the accumulator when all have ended."""

    async def read_one(turn: Turn, source: Any) -> None:
        async for _ in shared.read(turn, source):
            pass

    async with anyio.create_task_group() as tasks:
        for turn, source in streams:
            tasks.start_soon(read_one, turn, source)
    shared.close()


async def after(seconds: float, chunks: Sequence[Any]) -> AsyncIterator[Any]:
    await anyio.sleep(seconds)
    for chunk in chunks:
        yield chunk


async def collect(execution: SharedExecution) -> list[tuple[Any, Event]]:
    return [pair async for pair in execution]


def values_of(update: ThreadUpdate) -> list[Any]:
    return [result.value for result in update.results]


@on_a_virtual_clock
@pytest.mark.parametrize("executor", [execute_tool_calls_batched, execute_tool_calls_sequentially])
async def test_each_stream_gets_the_update_that_an_execution_of_its_own_gives(executor: Any) -> None:
    numbers = {"a": (3, 1), "b": (2,), "c": (1, 4)}
    turns = {name: create_turn(name) for name in numbers}
    sources = {name: answer(f"I am {name}.", *double_calls(*each)) for name, each in numbers.items()}
    shared = SharedAccumulator()
    shown: dict[Any, list[Event]] = {turn: [] for turn in turns.values()}
    order: list[str | None] = []
    async with executor(shared, tools=[double]) as execution, anyio.create_task_group() as tasks:
        tasks.start_soon(read_all, shared, [(turns[name], sources[name]) for name in numbers])
        async for stream, event in execution:
            shown[stream].append(event)
            if isinstance(event, RoundFinished):
                order.append(stream.turn_key)
                assert event.round == len(order) - 1
    assert order == ["b", "a", "c"]
    for name, each in numbers.items():
        alone = await executor(closed_turn(f"I am {name}.", *double_calls(*each), key=name), tools=[double])
        *events, last = shown[turns[name]]
        assert isinstance(last, RoundFinished)
        assert last.update == alone
        assert sorted(event.type for event in events) == sorted(["tool_running", "tool_completed"] * len(each))
    assert execution.updates == {}


@on_a_virtual_clock
async def test_awaited_it_returns_the_update_of_each_stream() -> None:
    shared = SharedAccumulator(provider="anthropic")
    turn = create_turn("t")

    async def parse() -> None:
        shared.put(NormalizedToolChunk("start", id="x", name="double", metadata={"index": 0}), stream="mine")
        shared.put(NormalizedToolChunk("delta", arguments_delta='{"n": 1}', metadata={"index": 0}), stream="mine")
        ended = await shared.end("mine")
        assert ended.update is None
        assert await shared.enqueue(closed_turn("", key="without calls")) is None

    results: dict[Any, ThreadUpdate] = {}

    async def execute() -> None:
        results.update(await execute_tool_calls_batched(shared, tools=[double]))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(execute)
        await anyio.wait_all_tasks_blocked()
        await parse()
        tasks.start_soon(read_all, shared, [(turn, answer("Now.", *double_calls(2)))])
    ended_without_calls, mine, last = results
    assert isinstance(ended_without_calls, Turn)
    assert ended_without_calls.turn_key == "without calls"
    assert (mine, last) == ("mine", turn)
    assert [values_of(update) for update in results.values()] == [[], [2], [4]]
    assert [message["role"] for message in results["mine"].messages] == ["assistant", "user"]


@on_a_virtual_clock
async def test_calls_start_in_the_order_in_which_their_streams_ended_within_one_limit() -> None:
    started: list[str] = []

    async def note(name: str) -> None:
        started.append(name)
        await anyio.sleep(5)

    def stream(name: str) -> list[Any]:
        return answer("", ("note", {"name": f"{name}1"}), ("note", {"name": f"{name}2"}))

    shared = SharedAccumulator()
    sources = [after(2, stream("b")), after(1, stream("a")), after(3, stream("c"))]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read_all, shared, [(create_turn(str(n)), source) for n, source in enumerate(sources)])
        updates = await execute_tool_calls_batched(shared, tools=[note], limit=1)
    assert started == ["a1", "a2", "b1", "b2", "c1", "c2"]
    assert [turn.turn_key for turn in updates if isinstance(turn, Turn)] == ["1", "0", "2"]
    assert anyio.current_time() % 1000 >= 30  # one call at a time


@on_a_virtual_clock
@pytest.mark.parametrize("watched", [True, False])
async def test_slow_calls_slow_the_streams(watched: bool) -> None:
    shared = SharedAccumulator(capacity=1)
    ended: list[tuple[int, float]] = []
    start = anyio.current_time()

    async def stream(number: int) -> None:
        await shared.enqueue(closed_turn("", *double_calls(10), key=str(number)))
        ended.append((number, anyio.current_time() - start))

    async def use(execution: SharedExecution) -> None:
        if not watched:
            await execution
            return
        async with execution:
            await collect(execution)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(use, execute_tool_calls_batched(shared, tools=[double], limit=1))
        for number in range(4):
            tasks.start_soon(stream, number)
            await anyio.sleep(1)
        await anyio.sleep(25)
        shared.close()
    assert ended == [(0, 0), (1, 1), (2, 10), (3, 20)]  # one runs, and one may wait


@on_a_virtual_clock
async def test_a_stream_whose_calls_may_not_run_has_its_update_too() -> None:
    shared = SharedAccumulator()

    def cut() -> Iterator[Any]:
        yield from answer("", *double_calls(1))[:-1]
        raise ConnectionError("reset")

    async with execute_tool_calls_batched(shared, tools=[double]) as execution, anyio.create_task_group() as tasks:
        tasks.start_soon(read_all, shared, [(create_turn("cut"), cut()), (create_turn("text"), answer("Hello."))])
        shown = await collect(execution)
    finished = {stream.turn_key: event.update for stream, event in shown if isinstance(event, RoundFinished)}
    assert {key: [result.status for result in update.results] for key, update in finished.items()} == {
        "cut": ["canceled"],
        "text": [],
    }


@on_a_virtual_clock
async def test_the_options_are_those_of_every_execution() -> None:
    asked: list[str] = []

    def approve(call: Any, deps: Any) -> bool:
        asked.append(deps)
        return bool(call.arguments["n"] == 1)

    async def around(call: Any, go: Any) -> Any:
        return {"around": await go()}

    @tool(approval="ask")
    async def pay(n: int, context: ToolContext) -> Any:
        assert context.turn is not None
        await anyio.sleep(20)
        return [n, context.deps, context.turn.turn_key]

    shared, turns = SharedAccumulator(), [create_turn("a"), create_turn("b")]
    source = answer("", ("pay", {"n": 1}), ("pay", {"n": 2}), ("double", {"n": 40}))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read_all, shared, [(turn, source) for turn in turns])
        updates = await execute_tool_calls_batched(
            shared,
            tools=[pay, double],
            approve=approve,
            deps="deps",
            around_call=around,
            limit=Schedule(3),
            timeouts=Timeouts(call=30),
        )
    assert asked == ["deps"] * 4
    for turn in turns:
        paid, denied, late = updates[turn].results
        assert paid.value == {"around": [1, "deps", turn.turn_key]}
        assert (denied.status, late.status) == ("denied", "timed_out")


@on_a_virtual_clock
async def test_leaving_early_gives_every_call_its_result_and_refuses_later_streams() -> None:
    shared, source = SharedAccumulator(capacity=1), answer("", *double_calls(1, 50, 60))
    turns = [create_turn(name) for name in "abc"]
    async with anyio.create_task_group() as tasks:
        async with execute_tool_calls_batched(shared, tools=[double], limit=2) as execution:
            tasks.start_soon(read_all, shared, [(turns[n], after(n / 10, source)) for n in range(3)])
            async for _, event in execution:
                if event.type == "tool_completed":
                    break
        statuses = {turn.turn_key: [r.status for r in execution.updates[turn].results] for turn in turns}
        assert statuses == {"a": ["completed", "canceled", "canceled"], "b": ["canceled"] * 3, "c": ["canceled"] * 3}
    again = SharedAccumulator()
    async with execute_tool_calls_batched(again, tools=[double]):
        pass
    with pytest.raises(UsageError, match="the execution of the calls of these streams was left"):
        await again.enqueue(closed_turn("", *double_calls(1)))
    left = SharedAccumulator()
    async with execute_tool_calls_batched(left, tools=[double]) as execution:
        with left:
            pass
        assert await collect(execution) == []


@on_a_virtual_clock
async def test_what_approve_raises_ends_all_calls() -> None:
    @tool(approval="ask")
    async def pay() -> str:
        return "paid"

    def approve(call: Any, deps: Any) -> bool:
        raise KeyError("no such person")

    shared = SharedAccumulator()
    slow = closed_turn("", *double_calls(20), key="slow")
    asking = closed_turn("", ("pay", {}), key="asking")
    execution = execute_tool_calls_batched(shared, tools=[double, pay], approve=approve)
    await shared.enqueue(slow)
    await shared.enqueue(asking)
    shared.close()
    with pytest.raises(KeyError, match="no such person"):
        await execution
    statuses = {stream: [result.status for result in update.results] for stream, update in execution.updates.items()}
    assert statuses == {slow: ["canceled"], asking: ["error"]}


@pytest.mark.parametrize("watched", [True, False])
async def test_canceled_at_any_await_every_call_has_one_result_and_nothing_is_left(watched: bool) -> None:
    async def steps() -> str:
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        return "done"

    async def use(execution: SharedExecution, read: list[tuple[Any, Event]]) -> None:
        if not watched:
            await execution
            return
        async with execution:
            async for pair in execution:
                read.append(pair)  # noqa: PERF401 - kept although it is canceled

    before, has_ended, cancel_at = tool_threads(), False, 0
    while not has_ended:
        shared, read = SharedAccumulator(capacity=1), list[tuple[Any, Event]]()
        turns = [closed_turn("", ("steps", {}), ("steps", {}), key=name) for name in "abc"]
        execution = execute_tool_calls_batched(shared, tools=[steps], limit=2)
        added: list[Turn] = []

        async def stream(shared: SharedAccumulator = shared, turns: Any = turns, added: list[Turn] = added) -> None:
            for turn in turns:
                added.append(turn)
                await shared.enqueue(turn)
            shared.close()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(use, execution, read)
            tasks.start_soon(stream)
            for _ in range(cancel_at):
                await anyio.lowlevel.checkpoint()
            has_ended = len(execution.updates) + sum(event.type == "round_finished" for _, event in read) == 3
            tasks.cancel_scope.cancel()
        await wait_until_nothing_is_left(before)
        updates = dict(execution.updates)
        updates |= {stream: event.update for stream, event in read if isinstance(event, RoundFinished)}
        if cancel_at > 3:  # else the execution may not have been entered
            assert set(updates) == set(added)
        for turn, update in updates.items():
            assert isinstance(turn, Turn)
            assert [result.call.id for result in update.results] == [call.id for call in turn.calls]
        cancel_at += 1
        assert cancel_at < 300
    assert cancel_at > 5


async def test_wrong_uses() -> None:
    shared = SharedAccumulator()
    with pytest.raises(UsageError, match="pass provider= and the format callbacks to the SharedAccumulator"):
        execute_tool_calls_batched(shared, tools=[double], provider="anthropic")
    execution = execute_tool_calls_batched(shared, tools=[double])
    with pytest.raises(UsageError, match="are run by another execution"):
        execute_tool_calls_batched(shared, tools=[double])
    with pytest.raises(UsageError, match="an execution runs the calls of this shared accumulator"):
        await anext(shared)
    with pytest.raises(UsageError, match="iterate inside the block"):
        aiter(execution)
    shared.close()
    assert await execution == {}
    with pytest.raises(UsageError, match="used once"):
        await execution
    with SharedAccumulator() as with_workers:
        await with_workers.enqueue(closed_turn("", *double_calls(1)))
        with pytest.raises(UsageError, match="create the execution before the first stream ends"):
            execute_tool_calls_batched(with_workers, tools=[double])
    read = SharedAccumulator()
    read.close()
    async with execute_tool_calls_batched(read, tools=[double]) as execution:
        assert await collect(execution) == []
        with pytest.raises(UsageError, match="they arrive once"):
            aiter(execution)
    with pytest.raises(TypeError, match="an executor has no option 'parallel'; the options are: tools, limit"):
        execute_tool_calls_batched([], tools=[double], parallel=True)  # type: ignore[call-overload]


@on_a_virtual_clock
async def test_no_stream_waits_for_ever_if_a_format_callback_raises() -> None:
    def fail(results: Any) -> Any:
        raise ValueError("no such format")

    shared = SharedAccumulator(1, provider="openai_chat", format_batch_for_thread=fail)
    streams = [(create_turn(str(number)), answer("", *double_calls(1, 1, 1))) for number in range(5)]
    with anyio.fail_after(100):
        async with anyio.create_task_group() as tasks:
            execution = execute_tool_calls_batched(shared, tools=[double], limit=1)
            tasks.start_soon(read_all, shared, streams)
            with pytest.raises(ValueError, match="no such format"):
                await execution


async def test_an_execution_that_is_never_used_is_a_warning() -> None:
    def create() -> None:
        execute_tool_calls_batched(SharedAccumulator(), tools=[double])
        gc.collect()

    with pytest.warns(RuntimeWarning, match="the calls of a SharedAccumulator were never run"):
        create()
