"""Runs inside the calls of another run: their keys, entries, budget and end."""

from __future__ import annotations

import gc
import threading
import weakref
from collections import Counter
from contextlib import suppress
from contextvars import copy_context
from typing import Any, cast

import anyio
import pytest
from execution.chat_chunks import answer, closed_turn
from execution.test_checkpoint import HISTORY, Log
from virtual_clock import on_a_virtual_clock

from streamkit import (
    Budget,
    Content,
    RoundContext,
    Run,
    RunState,
    Tool,
    ToolContext,
    execute_tool_calls_batched,
    run_loop,
)
from streamkit.execution import Lease, NestedEntry, RunEntry
from streamkit.execution.one_call.background import count_abandoned
from streamkit.execution.one_call.nested import OuterRun, RunningCall

pytestmark = pytest.mark.anyio


class Killed(Exception):
    """The process ends here."""


class Family:
    """A run whose tool makes a run, whose tool makes a run, which pays."""

    def __init__(self, depth: int = 2) -> None:
        self.depth = depth
        self.requests: Counter[str] = Counter()
        self.paid: list[str] = []

    def run(self, level: int, *, in_thread: bool = False, **options: Any) -> Run:
        def ask(context: RoundContext) -> Any:
            self.requests[f"{level}.{context.round}"] += 1
            if context.round:
                return answer(f"Done {level}.", usage=(10, 1))
            return answer("", ("work", {}), usage=(10, 1))

        async def work(context: ToolContext) -> str:
            if level == self.depth:
                self.paid.append(context.id)
                return "paid"
            inner = await self.run(level + 1, history=HISTORY, provider="openai_chat")
            return inner.text

        def work_in_thread(context: ToolContext) -> str:
            if level == self.depth:
                self.paid.append(context.id)
                return "paid"
            return self.run(level + 1, history=HISTORY, provider="openai_chat", in_thread=True).run_sync().text

        tool = Tool(work_in_thread if in_thread else work, name="work", description="Work.")
        return run_loop(ask, tools=[tool], **options)


START: dict[str, Any] = {"history": HISTORY, "provider": "openai_chat", "run_key": "run"}


@pytest.mark.parametrize("in_thread", [False, True])
async def test_a_run_inside_a_tool_continues_after_any_of_the_entries(in_thread: bool) -> None:
    whole, log = Family(), Log()
    expected = await whole.run(0, checkpoint=log.append, in_thread=in_thread, **START)
    assert whole.requests == {f"{level}.{number}": 1 for level in range(3) for number in range(2)}
    keys = {entry.entry.run_key for entry in log.entries if isinstance(entry, NestedEntry)}
    assert len(keys) == 2
    assert expected.results[0].call.id in keys
    assert len(whole.paid) == 1
    for count in range(1, len(log.entries) + 1):
        entries = log.entries[:count]
        rest, family = Log(), Family()
        run = await family.run(0, resume=RunState.from_entries(entries), checkpoint=rest.append, in_thread=in_thread)
        assert (run.contents, run.text) == (expected.contents, expected.text), count
        assert run.usage == expected.usage, count
        stored = [entry.entry if isinstance(entry, NestedEntry) else entry for entry in entries]
        answered = sum(entry.type == "response" for entry in stored)
        assert family.requests.total() == 6 - answered, count
        assert set(family.paid) <= set(whole.paid)  # with the same key
        again = RunState.from_entries([*entries, *rest.entries])
        assert again.open_calls == []


async def test_three_attempts_of_a_call_pay_with_one_key() -> None:
    log, keys = Log(), []
    attempts = 0

    async def dies(entry: RunEntry) -> None:
        if isinstance(entry, NestedEntry) and entry.entry.type == "result" and attempts < 2:
            raise Killed
        await log.append(entry)

    while attempts < 3:
        family = Family(depth=1)
        start = START if not log.stored else {"resume": RunState.from_entries(log.entries)}
        with suppress(Killed):
            await family.run(0, checkpoint=dies, **start)
        keys += family.paid
        attempts += 1
    assert len(keys) == 3
    assert len(set(keys)) == 1


@pytest.mark.parametrize("in_thread", [False, True])
async def test_a_run_inside_a_tool_counts_in_the_budget_around_it(in_thread: bool) -> None:
    family = Family()
    run = await family.run(0, budget=Budget(tokens=30, price=lambda turn: 1.0), in_thread=in_thread, **START)
    # 11 tokens a request: after the third one, at the bottom, every run ends
    assert family.requests == {"0.0": 1, "1.0": 1, "2.0": 1}
    assert run.ended == "budget"
    assert (run.cost, run.usage and run.usage.input_tokens) == (3.0, 30)


async def test_calls_of_inner_runs_count_in_the_budget_of_calls() -> None:
    family = Family()
    run = await family.run(0, budget=Budget(calls=2), **START)
    assert family.paid == []  # the third call, at the bottom
    assert run.ended == "budget"


async def test_the_budget_of_a_resumed_run_has_what_inner_runs_have_spent() -> None:
    log = Log()
    family = Family()
    await family.run(0, budget=Budget(cost=100, price=lambda turn: 1.0), checkpoint=log.append, **START)
    state = RunState.from_entries(log.entries)
    assert (state.cost, len(state.usage), state.nested_calls) == (6.0, 6, 2)


async def test_two_runs_in_one_call_have_two_keys_and_one_after_it_has_none_of_them() -> None:
    keys: list[str] = []

    def ask(context: RoundContext) -> Any:
        return answer("Done.") if context.round else answer("", ("work", {}))

    def inner() -> Run:
        return run_loop(lambda _: answer("Yes."), provider="openai_chat", history=HISTORY)

    async def work() -> str:
        for _ in range(2):
            run = await inner()
            keys.append(run.run_key)
        return "done"

    run = await run_loop(ask, tools=[work], **START)
    call_id = run.results[0].call.id
    assert keys == [call_id, f"{call_id}.2"]
    assert not (await inner()).run_key.startswith(call_id)


@on_a_virtual_clock
@pytest.mark.parametrize("depth", [40])
async def test_a_recursion_ends_with_the_run_around_it(depth: int) -> None:
    bottom = anyio.Event()
    open_runs = 0

    async def recurse(level: int) -> None:
        nonlocal open_runs

        async def work() -> str:
            if level == depth:
                bottom.set()
                await anyio.sleep_forever()
            await recurse(level + 1)
            return "done"

        open_runs += 1
        try:
            await run_loop(
                lambda _: answer("", ("work", {})),
                provider="openai_chat",
                history=[Content.human("Go.")],
                tools=[work],
                timeouts=None,
            )
        finally:
            open_runs -= 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(recurse, 0)
        await bottom.wait()
        started = anyio.current_time()
        tasks.cancel_scope.cancel()
    assert open_runs == 0
    assert anyio.current_time() - started < 3


@pytest.mark.parametrize("depth", [20])
async def test_a_recursion_in_threads_goes_no_deeper_when_the_run_around_it_is_canceled(depth: int) -> None:
    """Each level has an event loop of its own, which no cancellation reaches by itself."""
    levels, deep_enough = [], threading.Event()

    def recurse(level: int) -> Run:
        def work() -> str:
            levels.append(level)
            if level >= depth:
                deep_enough.set()
            recurse(level + 1).run_sync()
            return "done"

        return run_loop(lambda _: answer("", ("work", {})), provider="openai_chat", history=HISTORY, tools=[work])

    async with recurse(0) as run, anyio.create_task_group() as tasks:

        async def watch() -> None:
            async for _ in run:
                pass

        tasks.start_soon(watch)
        await anyio.to_thread.run_sync(deep_enough.wait)
        run.cancel()
    assert run.ended == "canceled"
    while count_abandoned():  # noqa: ASYNC110 - threads that end by themselves, because no level follows
        await anyio.sleep(0.01)
    assert len(set(levels)) == len(levels)


def answer_in_two_rounds(context: RoundContext) -> Any:
    return answer("Done.") if context.round else answer("", ("work", {}))


async def test_a_call_of_an_executor_inside_a_tool_that_times_out_ends_no_run_of_that_tool() -> None:
    go_on = threading.Event()

    def hang() -> None:
        """Hang."""
        go_on.wait()

    async def work() -> str:
        """Work."""
        update = await execute_tool_calls_batched(closed_turn("", ("hang", {})), tools=[hang], timeouts=0.01)
        go_on.set()
        inner = await run_loop(lambda _: answer("Inner."), provider="openai_chat", history=HISTORY)
        return f"{update.results[0].status} {inner.ended}"

    run = await run_loop(answer_in_two_rounds, provider="openai_chat", history=HISTORY, tools=[work])
    assert run.results[0].value == "timed_out answered"
    while count_abandoned():  # noqa: ASYNC110 - a thread that ends by itself
        await anyio.sleep(0.001)


async def test_a_call_keeps_none_of_the_runs_that_have_ended_inside_it() -> None:
    async def work() -> int:
        """Work."""
        start: dict[str, Any] = {"provider": "openai_chat", "history": HISTORY}
        runs = [weakref.ref(await run_loop(lambda _: answer("x"), **start)) for _ in range(5)]
        gc.collect()
        return sum(run() is not None for run in runs)

    run = await run_loop(answer_in_two_rounds, provider="openai_chat", history=HISTORY, tools=[work])
    assert run.results[0].value <= 1


async def test_a_lease_is_confirmed_in_the_event_loop_of_the_run_that_has_it() -> None:
    threads, log = [], Log()

    class Confirmed(Lease):
        fence = 7

        async def confirm(self) -> None:
            threads.append(threading.get_ident())

    async def append(entry: RunEntry) -> Lease:
        await log.append(entry)
        return Confirmed()

    async def pay(context: ToolContext) -> int | None:
        """Pay."""
        return context.fence

    def work() -> Any:
        """Work in a thread, with a run that has an event loop of its own."""
        ask = lambda context: answer("Done.") if context.round else answer("", ("pay", {}))  # noqa: E731
        return run_loop(ask, provider="openai_chat", history=HISTORY, tools=[pay]).run_sync().results[0].value

    run = await run_loop(answer_in_two_rounds, provider="openai_chat", history=HISTORY, tools=[work], checkpoint=append)
    assert run.results[0].value == 7
    assert threads == [threading.get_ident()] * 6  # two requests and a call of each run


@pytest.mark.parametrize("fails_at", [2, 3])
async def test_an_unconfirmed_lease_inside_a_call_ends_the_run_around_it(fails_at: int) -> None:
    """The call's error would be recorded if the lease came back, and the run inside would never be continued."""
    confirmed, log = [], Log()

    class Failing(Lease):
        fence = 7

        async def confirm(self) -> None:
            confirmed.append(len(log.entries))
            if len(confirmed) == fails_at + 1:  # after the request and the call of the run around it
                raise Killed

    async def append(entry: RunEntry) -> Lease:
        await log.append(entry)
        return Failing()

    family = Family(1)
    with pytest.raises(Killed):
        await family.run(0, checkpoint=append, **START)
    assert not any(entry.type == "result" for entry in log.entries)
    run = await family.run(0, resume=RunState.from_entries(log.entries), checkpoint=log.append)
    assert (run.text, len(family.paid)) == ("Done 0.", 1)


def test_a_run_that_begins_during_a_cancel_does_not_end_before_those_around_it() -> None:
    order: list[str] = []

    class InnerRun:
        def __init__(self, name: str) -> None:
            self.name = name

        def cancel(self) -> None:
            order.append(self.name)

    def nest() -> None:
        outer, between, last = InnerRun("outer"), InnerRun("between"), InnerRun("last")
        call: Any = RunningCall("a", cast("OuterRun", None))
        call.add(outer.cancel)
        inner = RunningCall("b", cast("OuterRun", None))
        inner.add(between.cancel)
        call._is_canceled = True  # another thread has just begun to cancel the call
        RunningCall("c", cast("OuterRun", None)).add(last.cancel)

    copy_context().run(nest)
    assert order == ["outer", "between", "last"]
