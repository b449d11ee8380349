"""Many calls in one turn, and many rounds in one run: bounds hold, memory is flat, and the work is linear.

Work is counted (lines of ``streamkit.execution`` that run, functions that are called), never timed.
"""

from __future__ import annotations

import gc
import sys
import threading
import tracemalloc
import types
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from execution.chat_chunks import answer
from execution.resource_checks import tool_threads, wait_until_threads_have_ended
from virtual_clock import on_a_virtual_clock
from waiting import PATIENCE, wait_until

import streamkit
from streamkit import (
    Content,
    Tool,
    ToolCall,
    Turn,
    execute_tool_calls_batched,
    execute_tool_calls_sequentially,
    run_loop,
    tool,
)
from streamkit.events import RoundStarted
from streamkit.execution import Execution, Round, Schedule

pytestmark = pytest.mark.anyio

PACKAGE = str(Path(streamkit.__file__).parent)
EXECUTION = str(Path(PACKAGE, "execution"))
MANY, FEW, LIMIT = 800, 100, 5
KINDS = ["async", pytest.param("threads", marks=pytest.mark.slow)]


def calls(names: Iterable[str]) -> list[ToolCall]:
    """Return calls of these tools, each with its position as argument."""
    return [
        ToolCall(
            id=f"hist_tool_{number:024d}",
            name=name,
            index=number,
            raw_id=f"call_{number}",
            state="complete",
            arguments={"number": number},
        )
        for number, name in enumerate(names)
    ]


class Floor:
    """Where tools run: how many at once, and in which order they began and ended."""

    def __init__(self) -> None:
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()  # at once, of each tool; of all together under ""
        self.began: list[int] = []
        self.ended: list[int] = []
        self.beside: dict[int, int] = {}  # how many others ran when this call began
        self._lock = threading.Lock()  # some run in threads

    def begin(self, name: str, number: int) -> None:
        with self._lock:
            self.beside[number] = self.running[""]
            for each in (name, ""):
                self.running[each] += 1
                self.most[each] = max(self.most[each], self.running[each])
            self.began.append(number)

    def end(self, name: str, number: int) -> None:
        with self._lock:
            for each in (name, ""):
                self.running[each] -= 1
            self.ended.append(number)

    def tool(self, name: str, kind: str, **options: Any) -> Tool:
        """Return its number, after a delay that differs for each of four calls."""

        async def in_the_loop(number: int) -> int:
            self.begin(name, number)
            for _ in range(12 - number % 4):
                await anyio.lowlevel.checkpoint()
            self.end(name, number)
            return number

        def in_a_thread(number: int) -> int:
            self.begin(name, number)
            self.end(name, number)
            return number

        return Tool(in_the_loop if kind == "async" else in_a_thread, name=name, **options)


# ---------------------------------------------------------------- many calls: concurrency


@pytest.mark.parametrize("kind", KINDS)
async def test_of_800_calls_never_more_than_5_run_at_once_and_results_are_in_call_order(kind: str) -> None:
    floor, wanted = Floor(), calls(["work"] * MANY)
    update = await execute_tool_calls_batched(
        wanted, tools=[floor.tool("work", kind)], provider="openai_chat", limit=LIMIT
    )
    assert floor.most[""] <= LIMIT
    assert kind == "threads" or floor.most[""] == LIMIT
    began = floor.began if kind == "async" else sorted(floor.began)  # threads begin in an order of the system's
    assert began == list(range(MANY))
    assert [result.value for result in update.results] == list(range(MANY))
    assert [message["content"] for message in update.messages[1:]] == [str(number) for number in range(MANY)]


@pytest.mark.slow
async def test_800_synchronous_tools_that_block_have_5_threads_and_leave_none() -> None:
    floor, gate = Floor(), threading.Barrier(LIMIT)
    counted: list[int] = []
    before = tool_threads()

    def block(number: int) -> int:
        floor.begin("block", number)
        gate.wait(PATIENCE)  # five at once, or this breaks
        # The five before them have reported their end, and are about to return.
        wait_until(lambda: len(tool_threads() - before) <= LIMIT)
        counted.append(len(tool_threads() - before))
        gate.wait(PATIENCE)  # no call ends before all have counted
        floor.end("block", number)
        return number

    update = await execute_tool_calls_batched(
        calls(["block"] * MANY), tools=[block], provider="openai_chat", limit=LIMIT
    )
    assert [result.value for result in update.results] == list(range(MANY))
    assert floor.most[""] == LIMIT
    assert set(counted) == {LIMIT}
    await wait_until_threads_have_ended(before)


@pytest.mark.parametrize("kind", KINDS)
async def test_an_exclusive_tool_among_800_runs_alone_and_in_order(kind: str) -> None:
    floor = Floor()
    names = ["alone" if number % 100 == 50 else "work" for number in range(MANY)]
    tools = [floor.tool("work", kind), floor.tool("alone", kind, exclusive=True)]
    update = await execute_tool_calls_batched(calls(names), tools=tools, provider="openai_chat", limit=LIMIT)
    assert [result.value for result in update.results] == list(range(MANY))
    assert floor.most[""] <= LIMIT
    for number in range(50, MANY, 100):
        assert floor.beside[number] == 0
        assert floor.began.index(number) == floor.ended.index(number) == number  # all before it, none after it


@pytest.mark.parametrize("kind", KINDS)
async def test_a_tools_own_limit_applies_among_800_calls(kind: str) -> None:
    floor = Floor()
    names = ["narrow" if number % 2 else "work" for number in range(MANY)]
    tools = [floor.tool("work", kind), floor.tool("narrow", kind, limit=2)]
    update = await execute_tool_calls_batched(calls(names), tools=tools, provider="openai_chat", limit=LIMIT)
    assert [result.value for result in update.results] == list(range(MANY))
    assert floor.most["narrow"] <= 2
    assert floor.most[""] <= LIMIT


@pytest.mark.parametrize("kind", KINDS)
async def test_800_approvals_are_requested_at_once_and_the_calls_run_5_at_a_time(kind: str) -> None:
    floor = Floor()
    asking = most_asking = 0

    async def approve(call: ToolCall, deps: Any) -> bool:
        nonlocal asking, most_asking
        asking += 1
        most_asking = max(most_asking, asking)
        for _ in range(1 + call.index % 7):
            await anyio.lowlevel.checkpoint()
        asking -= 1
        return call.index % 10 != 3

    update = await execute_tool_calls_batched(
        calls(["work"] * MANY),
        tools=[floor.tool("work", kind, approval="ask")],
        provider="openai_chat",
        limit=LIMIT,
        approve=approve,
    )
    assert most_asking > 700
    assert floor.most[""] <= LIMIT
    assert [result.status for result in update.results] == [
        "denied" if number % 10 == 3 else "completed" for number in range(MANY)
    ]
    assert len(floor.began) == len(set(floor.began)) == MANY - 80


async def test_executions_that_share_a_schedule_obey_its_limit_together() -> None:
    floor, schedule = Floor(), Schedule(LIMIT)
    created: list[Any] = []

    async def execute() -> None:
        created.append(
            await execute_tool_calls_batched(
                calls(["work"] * 100), tools=[floor.tool("work", "async")], provider="openai_chat", limit=schedule
            )
        )

    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(execute)
    assert [[result.value for result in update.results] for update in created] == [list(range(100))] * 8
    assert floor.most[""] == LIMIT
    assert schedule.running == 0


# ---------------------------------------------------------------- many calls: what they cost


@contextmanager
def counted_lines() -> Iterator[Counter[str]]:
    """Count the lines of ``streamkit.execution`` that run inside, by function."""
    lines: Counter[str] = Counter()

    def trace_line(frame: types.FrameType, event: str, _: Any) -> Any:
        if event == "line":
            lines[frame.f_code.co_qualname] += 1
        return trace_line

    def trace(frame: types.FrameType, event: str, _: Any) -> Any:
        return trace_line if frame.f_code.co_filename.startswith(EXECUTION) else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield lines
    finally:
        sys.settrace(before)


async def quick(number: int) -> int:
    await anyio.lowlevel.checkpoint()
    return number


async def slow_narrow(number: int) -> int:
    for _ in range(8):
        await anyio.lowlevel.checkpoint()
    return number


async def approve_last_first(call: ToolCall, deps: Any) -> bool:
    for _ in range(2 * (deps - call.index)):
        await anyio.lowlevel.checkpoint()
    return call.index % 2 == 0


def half_and_half(first: str, second: str) -> Callable[[int], list[str]]:
    return lambda count: [first] * (count // 2) + [second] * (count // 2)


PLAIN = Tool(quick, name="plain")
NARROW = Tool(slow_narrow, name="narrow", limit=1)
ASKED = Tool(quick, name="asked", approval="ask")
ALONE = Tool(quick, name="alone", exclusive=True)
ITSELF = Tool(quick, name="itself", conflicts_with=["itself"])
LEFT = Tool(slow_narrow, name="left", conflicts_with=["right"])
RIGHT = Tool(slow_narrow, name="right")

CROWDS: dict[str, Callable[[int], list[str]]] = {
    "alike": lambda count: ["plain"] * count,
    "each exclusive": lambda count: ["alone"] * count,
    "an exclusive one between": lambda count: ["plain"] * (count // 2) + ["alone"] + ["plain"] * (count // 2 - 1),
    "narrow ones in front": half_and_half("narrow", "plain"),
    "each in conflict with itself": lambda count: ["itself"] * count,
    "two in conflict by turns": lambda count: ["left", "right"] * (count // 2),
    "two in conflict, one behind the other": half_and_half("left", "right"),
    "narrow ones, and conflicts behind them": lambda count: (
        ["narrow"] * (count // 2) + ["left"] + ["right"] * (count // 2 - 1)
    ),
    "asked and answered from the last to the first": lambda count: ["asked"] * count,
}


@pytest.mark.slow
@pytest.mark.parametrize("crowd", CROWDS)
async def test_the_work_for_many_calls_is_linear(crowd: str, anyio_backend_name: str) -> None:
    await check_in_proportion(execute_tool_calls_batched, CROWDS[crowd])


async def test_the_work_for_sequential_calls_is_linear() -> None:
    await check_in_proportion(execute_tool_calls_sequentially, CROWDS["alike"])


async def check_in_proportion(execute: Callable[..., Execution], crowd: Callable[[int], list[str]]) -> None:
    cost: dict[int, Counter[str]] = {}
    for count in (50, 200):
        execution = execute(
            calls(crowd(count)),
            tools=[PLAIN, NARROW, ASKED, ALONE, ITSELF, LEFT, RIGHT],
            provider="openai_chat",
            limit=LIMIT,
            approve=approve_last_first,
            deps=count,
        )
        with counted_lines() as lines:
            update = await execution
        assert [result.call.index for result in update.results] == list(range(count))
        cost[count] = lines
    # Four times the calls: four times the work, and what is done once.
    assert cost[200].total() < 4.4 * cost[50].total(), (cost[200] - cost[50]).most_common(3)


@on_a_virtual_clock
async def test_800_waiting_calls_are_canceled_at_once() -> None:
    async def hang(number: int) -> None:
        await anyio.sleep_forever()

    cost = {}
    for count in (50, 200):
        execution = execute_tool_calls_batched(calls(["hang"] * count), tools=[hang], provider="openai_chat")
        with counted_lines() as lines, anyio.move_on_after(0.02):
            await execution
        assert Counter(result.status for result in execution.update.results) == {"canceled": count}
        cost[count] = lines.total()
    assert cost[200] < 4.4 * cost[50]


@pytest.mark.slow
async def test_memory_is_proportional_and_released() -> None:
    async def use(count: int) -> tuple[int, int]:
        """Return the peak memory of an execution and the memory after it, in bytes."""
        floor = Floor()
        gc.collect()
        tracemalloc.start()
        try:
            wanted = calls(["work"] * count)
            before = tracemalloc.get_traced_memory()[0]
            await execute_tool_calls_batched(
                wanted, tools=[floor.tool("work", "async")], provider="openai_chat", limit=LIMIT
            )
            peak = tracemalloc.get_traced_memory()[1]
            floor = Floor()
            gc.collect()
            left = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, f"{PACKAGE}/*")])
            return peak - before, sum(trace.size for trace in left.traces)
        finally:
            tracemalloc.stop()

    await use(MANY)  # what is made once: caches of pydantic, of the interpreter
    few, _ = await use(FEW)
    many, left = await use(MANY)
    assert many < few * (MANY / FEW) * 1.2
    assert left < 10_000


def test_a_schedule_is_shared_over_event_loops() -> None:
    """The threads of a web server that is not asynchronous each have an event loop."""
    schedule, lock, running, most = Schedule(2), threading.Lock(), [0], [0]
    begin = threading.Barrier(8)

    async def work(number: int) -> int:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        with lock:
            running[0] -= 1
        return number

    def serve(backend: str) -> list[str]:
        async def execute() -> list[str]:
            begin.wait()
            statuses: list[str] = []
            for _ in range(5):
                update = await execute_tool_calls_batched(
                    calls(["work"] * 4), tools=[work], provider="openai_chat", limit=schedule
                )
                statuses += [result.status for result in update.results]
            return statuses

        return anyio.run(execute, backend=backend)

    # A daemon thread does not keep the tests from ending if it hangs.
    found: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda name=name: found.append(serve(name)), daemon=True)
        for name in ["asyncio", "trio"] * 4
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert found == [["completed"] * 20] * 8
    assert most == [2]
    assert schedule.running == 0


async def test_a_shared_schedule_keeps_nothing_of_ended_executions() -> None:
    """A server shares one schedule among all conversations; their tools must not keep users' data alive."""
    schedule = Schedule(LIMIT)

    async def execute(secret: bytes) -> None:
        async def work(number: int) -> int:
            return len(secret)

        await execute_tool_calls_batched(calls(["work"] * 3), tools=[work], provider="openai_chat", limit=schedule)

    async def leave(secret: bytes, at: int) -> None:
        with anyio.CancelScope() as scope:

            async def work(number: int) -> None:
                if number == at:
                    scope.cancel()
                await anyio.sleep_forever()
                secret.hex()

            if at < 0:  # canceled where the execution begins
                scope.cancel()
            await execute_tool_calls_batched(calls(["work"] * 9), tools=[work], provider="openai_chat", limit=schedule)

    def live_tools() -> int:
        gc.collect()
        return sum(isinstance(each, Tool) for each in gc.get_objects())

    before = live_tools()
    await execute(b"secret")
    assert live_tools() == before
    for at in range(-1, LIMIT):
        await leave(b"secret", at)
        await anyio.lowlevel.checkpoint()  # event loops keep the exception that they threw last until their next step
        assert live_tools() == before, at
    assert schedule.running == 0


# ---------------------------------------------------------------- many rounds

ROUNDS = 1000


class Endless:
    """A model that calls a tool in each of so many rounds, and then answers."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def __call__(self, context: Any) -> list[dict[str, Any]]:
        if context.round == self.rounds:
            return answer("Done.", usage=(10, 1))
        return answer("On.", ("count", {"number": context.round}), ("count", {"number": -1}), usage=(10, 1))


def count(number: int) -> int:
    return number


async def count_async(number: int) -> int:
    return number


MODES = {"history": {"history": [Content.human("Count.")]}, "thread": {"thread": [{"role": "user", "content": "Go."}]}}


def endless(mode: str, rounds: int = ROUNDS) -> Any:
    counting = Tool(count_async, name="count")
    return run_loop(Endless(rounds), provider="openai_chat", tools=[counting], max_rounds=2 * rounds, **MODES[mode])


def reachable_ids(*roots: Any) -> set[int]:
    """Return the ids of all objects that a conversation contains."""
    ids: set[int] = set()
    waiting = list(roots)
    while waiting:
        each = waiting.pop()
        if id(each) in ids or isinstance(each, (type, types.ModuleType, types.FunctionType)):
            continue
        ids.add(id(each))
        waiting += gc.get_referents(each)
    return ids


def count_parts_of_runs() -> Counter[type]:
    """Return the numbers of turns, executions and rounds that are alive, by type."""
    return Counter(type(each) for each in gc.get_objects() if type(each) in (Turn, Execution, Round))


def count_other_objects(run: Any) -> Counter[str]:
    """Return the number of objects outside the conversation and its results, by type."""
    gc.collect()
    context = run._state.context
    state = run._state
    held = reachable_ids(state.contents, context.contents, context.messages, state.usage_reports, state.results)
    return Counter(type(each).__name__ for each in gc.get_objects() if id(each) not in held)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
async def test_a_run_of_1000_rounds_keeps_nothing_but_its_conversation_and_results(mode: str) -> None:
    seen: dict[int, Counter[str]] = {}
    gc.collect()
    before = count_parts_of_runs()  # of other tests, whose failure or module may keep them
    async with endless(mode) as run:
        async for event in run:
            if isinstance(event, RoundStarted) and event.round in (200, ROUNDS - 1):
                await anyio.lowlevel.checkpoint()  # asyncio lets go of a task that has ended one pass later
                seen[event.round] = count_other_objects(run)
                assert count_parts_of_runs() <= before
    assert (run.ended, run.rounds) == ("answered", ROUNDS + 1)
    assert len(run.contents) == 2 * ROUNDS + 1
    assert len(run.results) == 2 * ROUNDS  # each of two calls
    more = seen[ROUNDS - 1] - seen[200]
    # Not none at all: abstract classes remember what they were asked about, each once (91 were seen). What a run kept
    # of every round would be 799 or more.
    assert more.total() < 200, more


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
async def test_the_thousandth_round_costs_as_much_as_the_hundredth(mode: str) -> None:
    """Function calls of a round; pieces of a list that are copied are not among them."""
    created: list[int] = []
    calls_made = 0

    def profile(frame: types.FrameType, event: str, _: Any) -> None:
        nonlocal calls_made
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            calls_made += 1

    async with endless(mode) as run:
        sys.setprofile(profile)
        try:
            async for event in run:
                if isinstance(event, RoundStarted):
                    created.append(calls_made)
                    calls_made = 0
        finally:
            sys.setprofile(None)
    assert run.ended == "answered"
    early, late = sorted(created[100:110]), sorted(created[ROUNDS - 10 : ROUNDS])
    assert late[5] <= 1.02 * early[5]


@pytest.mark.slow
async def test_a_run_of_many_rounds_with_threads_leaves_none() -> None:
    rounds = 300
    run = run_loop(Endless(rounds), provider="openai_chat", tools=[count], max_rounds=2 * rounds, **MODES["thread"])
    before, most = tool_threads(), 0
    async with run:
        async for event in run:
            most = max(most, len(tool_threads() - before))
            if isinstance(event, RoundStarted):
                await wait_until_threads_have_ended(before)
    assert run.ended == "answered"
    assert most <= 2  # two calls a round


async def test_the_number_of_unread_progress_events_is_bounded() -> None:
    async def work(number: int) -> AsyncIterator[int]:
        for step in range(1000):
            yield step
            await anyio.lowlevel.checkpoint()

    execution = execute_tool_calls_batched(calls(["work"] * 50), tools=[work], provider="openai_chat", limit=50)
    async with execution:
        while not execution.ended:
            await anyio.lowlevel.checkpoint()
        waiting = [event.type async for event in execution]
    kinds = Counter(waiting)
    assert kinds["tool_running"] == kinds["tool_completed"] == 50
    assert kinds["tool_progress"] <= 256 + 50
    assert [result.value for result in execution.update.results] == [999] * 50


# ---------------------------------------------------------------- approval


def pausing(limit: int | Schedule, done: list[int]) -> Any:
    """Return a run with one call that needs approval, and five of a tool that may run."""

    async def look(number: int) -> int:
        done.append(number)
        return number

    @tool(approval="ask")
    async def remove(number: int) -> None: ...

    created = answer("", ("remove", {"number": 0}), *[("look", {"number": number}) for number in range(1, 6)])
    return run_loop(
        lambda context: created,
        provider="openai_chat",
        tools=[look, remove],
        limit=limit,
        history=[Content.human("Go.")],
    )


async def test_a_run_is_paused_only_when_all_that_may_run_has_run() -> None:
    for _ in range(20):  # on trio the order of tasks that can go on is random
        done: list[int] = []
        run = await pausing(1, done)
        assert run.ended == "awaiting_approval"
        assert done == [1, 2, 3, 4, 5]


async def test_a_run_that_waits_for_other_executions_is_not_paused_before_they_end() -> None:
    schedule, go_on, done = Schedule(1), anyio.Event(), list[int]()
    ended: list[Any] = []

    async def hold(number: int) -> None:
        await go_on.wait()

    async def other() -> None:
        await execute_tool_calls_batched([calls(["hold"])[0]], tools=[hold], provider="openai_chat", limit=schedule)

    async def waiting() -> None:
        ended.append(await pausing(schedule, done))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        while not schedule.running:
            await anyio.lowlevel.checkpoint()
        tasks.start_soon(waiting)
        for _ in range(30):
            await anyio.lowlevel.checkpoint()
        assert (ended, done) == ([], [])
        go_on.set()
    assert ended[0].ended == "awaiting_approval"
    assert done == [1, 2, 3, 4, 5]


async def test_a_run_blocked_by_its_own_exclusive_call_is_paused_whatever_others_do() -> None:
    schedule, go_on = Schedule(2), anyio.Event()

    async def hold(number: int) -> None:
        await go_on.wait()

    @tool(approval="ask", exclusive=True)
    async def remove() -> None: ...

    async def look() -> None: ...

    async def other() -> None:
        await execute_tool_calls_batched([calls(["hold"])[0]], tools=[hold], provider="openai_chat", limit=schedule)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        run = await run_loop(
            lambda context: answer("", ("remove", {}), ("look", {})),
            provider="openai_chat",
            tools=[remove, look],
            limit=schedule,
            history=[Content.human("Go.")],
        )
        assert (run.ended, [call.name for call in run.pending]) == ("awaiting_approval", ["remove"])
        go_on.set()
