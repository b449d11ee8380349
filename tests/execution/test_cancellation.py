"""A resumed run, synchronous tools and approvals, cancelled at every step, as in ``test_cancellation_points``.

The caller is cancelled after 0, 1, 2, ... passes of the event loop, until it ends before that.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from execution.chat_chunks import answer, closed_turn
from execution.fake_model import calls_with_status
from execution.resource_checks import tool_threads, wait_until_nothing_is_left

from streamkit import Content, RunState, Tool, ToolContext, render_request, run_loop, tool
from streamkit.execution import Execution, Schedule, execute_tool_calls_batched, execute_tool_calls_sequentially
from streamkit.testing import validate_request

pytestmark = pytest.mark.anyio

HISTORY = [Content.human("Go.")]
EXECUTORS = [execute_tool_calls_batched, execute_tool_calls_sequentially]


class Office:
    """Tools of a few steps, a person who approves, and a count of the running calls."""

    def __init__(self) -> None:
        self.busy = 0
        self.ran: Counter[str] = Counter()

    async def steps(self) -> None:
        self.busy += 1
        try:
            for _ in range(3):
                await anyio.lowlevel.checkpoint()
        finally:
            self.busy -= 1

    def tools(self) -> list[Tool]:
        async def look(context: ToolContext) -> str:
            self.ran[context.id] += 1
            await self.steps()
            return "saw"

        @tool(approval="ask")
        async def remove(context: ToolContext) -> str:
            self.ran[context.id] += 1
            await self.steps()
            return "removed"

        def read(context: ToolContext) -> str:
            self.ran[context.id] += 1
            context.progress("half")
            return "read"

        return [tool(look), remove, tool(read)]

    async def approve(self, call: Any, deps: Any) -> bool:
        await self.steps()
        return call.index != 1


async def cancel_at_every_step(
    begin: Callable[[], tuple[Callable[[], Awaitable[Any]], Callable[[bool], Any]]], cancel: str, most: int = 2000
) -> int:
    """Begin anew and cancel, one step later each time, until it ends by itself; how many steps that took.

    Args:
        begin: gives what is awaited, and what is checked behind it, told whether it came to its end.
        cancel: by a ``scope``, by asyncio's own ``task``, or by that ``twice``.
        most: steps.
    """
    before = tool_threads()
    for step in range(most):
        use, check = begin()
        finished = False

        async def caller(use: Callable[[], Awaitable[Any]] = use) -> None:
            nonlocal finished
            await use()
            finished = True

        if cancel == "scope":
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(caller)
                for _ in range(step + 1):
                    await anyio.lowlevel.checkpoint()
                tasks.cancel_scope.cancel()
        else:
            task = asyncio.create_task(caller())
            for _ in range(step + 1):
                await asyncio.sleep(0)
            for _ in range(2 if cancel == "twice" else 1):
                task.cancel()
                await asyncio.sleep(0)
            await asyncio.wait([task])
        check(finished)
        if finished:
            break
    await wait_until_nothing_is_left(before)
    assert finished
    return step


@pytest.fixture(params=["scope", "task", "twice"])
def cancel(request: pytest.FixtureRequest, anyio_backend_name: str) -> str:
    if request.param != "scope" and anyio_backend_name != "asyncio":
        pytest.skip("Task.cancel() is asyncio's")
    return str(request.param)


def check_legal(contents: list[Content]) -> None:
    body = {"model": "m", **render_request([*HISTORY, *contents], "openai_chat")}
    assert validate_request("openai_chat", body) == []


async def watch(watched: Any) -> None:
    async with watched:
        async for _ in watched:
            await anyio.lowlevel.checkpoint()


# ---------------------------------------------------------------- executions


@pytest.mark.slow
@pytest.mark.parametrize("execute", EXECUTORS)
@pytest.mark.parametrize("use", ["await", "watch"])
async def test_cancellation_while_approvals_are_requested(
    execute: Callable[..., Execution], use: str, cancel: str
) -> None:
    seen: set[tuple[str | None, ...]] = set()
    calls = [("remove", {}), ("remove", {}), ("look", {}), ("remove", {}), ("look", {})]

    def begin() -> Any:
        office, schedule = Office(), Schedule(2)
        execution = execute(closed_turn("Now.", *calls), tools=office.tools(), limit=schedule, approve=office.approve)

        async def alone() -> None:
            await execution

        def check(finished: bool) -> None:
            assert (office.busy, schedule.running) == (0, 0)
            if not execution.ended:  # cancelled before it started
                assert not finished
                assert not office.ran
                return
            check_legal(execution.update.contents)
            seen.add(tuple(status for _, status in calls_with_status(execution.update.contents)))
            assert max(office.ran.values(), default=1) == 1

        return (alone if use == "await" else lambda: watch(execution)), check

    assert await cancel_at_every_step(begin, cancel) > 6
    assert ("completed", "denied", "completed", "completed", "completed") in seen
    assert ("canceled",) * 5 in seen
    assert any({"denied", "canceled"} <= set(each) for each in seen)
    assert any({"completed", "canceled"} <= set(each) for each in seen)


@pytest.mark.slow
@pytest.mark.parametrize("execute", EXECUTORS)
@pytest.mark.parametrize("use", ["await", "watch"])
async def test_cancellation_of_tools_in_threads(execute: Callable[..., Execution], use: str, cancel: str) -> None:
    seen: set[tuple[str | None, ...]] = set()

    def begin() -> Any:
        office, schedule = Office(), Schedule(2)
        execution = execute(closed_turn("Now.", *[("read", {})] * 3), tools=office.tools(), limit=schedule)

        async def alone() -> None:
            await execution

        def check(finished: bool) -> None:
            assert schedule.running == 0
            if not execution.ended:
                assert not finished
                assert not office.ran
                return
            check_legal(execution.update.contents)
            seen.add(tuple(status for _, status in calls_with_status(execution.update.contents)))
            assert max(office.ran.values(), default=1) == 1
            assert execution.update.warnings == []  # a thread that ends in time was not abandoned

        return (alone if use == "await" else lambda: watch(execution)), check

    assert await cancel_at_every_step(begin, cancel) > 3
    assert ("completed",) * 3 in seen
    assert ("canceled",) * 3 in seen


# ---------------------------------------------------------------- runs


class Source:
    """An answer that comes piece by piece, and knows whether it was closed."""

    def __init__(self, chunks: list[dict[str, Any]]) -> None:
        self.chunks = chunks
        self.opened = self.closed = False

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        self.opened = True
        for chunk in self.chunks:
            await anyio.lowlevel.checkpoint()
            yield chunk

    async def aclose(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.closed = True


class Model:
    def __init__(self, *answers: list[dict[str, Any]]) -> None:
        self.answers = list(answers)
        self.sources: list[Source] = []

    async def __call__(self, context: Any) -> Source:
        await anyio.lowlevel.checkpoint()
        self.sources.append(Source(self.answers.pop(0)))
        return self.sources[-1]


def check_run(run: Any, model: Model, office: Office, schedule: Schedule, finished: bool) -> None:
    assert (office.busy, schedule.running) == (0, 0)
    assert max(office.ran.values(), default=1) == 1
    assert all(source.closed for source in model.sources if source.opened)
    check_legal(run.contents)
    result_ids = {
        block.call_id for content in run.contents for block in content.blocks if block.type == "tool_response"
    }
    assert set(office.ran) <= result_ids
    assert run.history == HISTORY + run.contents
    assert not finished or run.ended == "answered"
    assert run.ended in ("answered", "canceled", None)


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["batched", "sequential"])
@pytest.mark.parametrize("calls", [["remove", "remove", "look"], ["read", "read"]], ids=["asked", "threads"])
async def test_a_run(shape: Any, calls: list[str], cancel: str) -> None:
    lengths: set[int] = set()

    def begin() -> Any:
        office, schedule = Office(), Schedule(2)
        model = Model(answer("Now.", *[(name, {}) for name in calls]), answer("Done."))
        run = run_loop(
            model,
            provider="openai_chat",
            tools=office.tools(),
            history=HISTORY,
            run_key="k",
            approve=office.approve,
            limit=schedule,
            shape=shape,
        )

        def check(finished: bool) -> None:
            check_run(run, model, office, schedule, finished)
            kept = [name for name, _ in calls_with_status(run.contents)]  # a stopped response keeps the calls that came
            assert kept == calls[: len(kept)]
            lengths.add(len(run.contents))

        return (lambda: watch(run)), check

    assert await cancel_at_every_step(begin, cancel) > 10
    # Nothing; the text of a stopped response; its calls with their results; all of it and the next response.
    rounds = {2} if shape == "batched" else {2 * count for count in range(1, len(calls) + 1)}
    assert lengths == {0, 1, *rounds, max(rounds) + 1}


@pytest.mark.parametrize("eager", [False, True], ids=["in its place", "begun early"])
async def test_a_run_that_would_await_approval(cancel: str, eager: bool) -> None:
    """Check a run that is left before it is known to pause: the calls that ran and the pending call have results."""
    seen: set[tuple[str | None, ...]] = set()

    def begin() -> Any:
        office, schedule = Office(), Schedule(2)
        model = Model(answer("Now.", ("look", {}), ("remove", {})))
        tools = office.tools()
        tools[0].eager = eager
        run = run_loop(model, provider="openai_chat", tools=tools, history=HISTORY, run_key="k", limit=schedule)

        def check(finished: bool) -> None:
            if run.ended == "awaiting_approval":
                assert (run.contents, len(run.state.results)) == ([], 1)  # type: ignore[union-attr]
                return
            assert not finished
            check_run(run, model, office, schedule, finished)
            seen.add(tuple(status for _, status in calls_with_status(run.contents)))

        return (lambda: watch(run)), check

    assert await cancel_at_every_step(begin, cancel) > 10
    assert ("completed", "canceled") in seen


@pytest.mark.parametrize("at", ["tool_completed", "finished"])
@pytest.mark.parametrize("eager", [False, True], ids=["in its place", "begun early"])
async def test_leaving_while_a_call_awaits_approval(eager: bool, at: str) -> None:
    office = Office()
    tools = office.tools()
    tools[0].eager = eager
    run = run_loop(
        Model(answer("Now.", ("look", {}), ("remove", {}))),
        provider="openai_chat",
        tools=tools,
        history=HISTORY,
    )
    async with run:
        async for event in run:
            if event.type == at:
                for _ in range(50):  # the tools go on while the reader is busy
                    await anyio.lowlevel.checkpoint()
                break
    assert run.ended == "canceled"
    ran = "completed" if office.ran else "canceled"
    assert calls_with_status(run.contents) == [("look", ran), ("remove", "canceled")]


@pytest.mark.parametrize("shape", ["batched", "sequential"])
async def test_a_resumed_run(shape: Any, cancel: str) -> None:
    office = Office()
    first = Model(
        answer("Hm.", ("look", {})),
        answer("Now.", *[(name, {}) for name in ("look", "remove", "remove")]),
    )
    paused = await run_loop(
        first, provider="openai_chat", tools=office.tools(), history=HISTORY, run_key="k", shape=shape
    )
    assert paused.ended == "awaiting_approval"
    stored = paused.state.model_dump_json()  # type: ignore[union-attr]
    before = len(paused.contents)
    dust, desk = [call.id for call in paused.pending]
    seen: set[tuple[str | None, ...]] = set()

    def begin() -> Any:
        office, schedule, model = Office(), Schedule(2), Model(answer("Done."))
        run = run_loop(
            model,
            resume=RunState.model_validate_json(stored).answer(approvals={dust: True}),
            approve=office.approve,  # of the other, which is the third call
            tools=office.tools(),
            limit=schedule,
            shape=shape,
        )

        def check(finished: bool) -> None:
            check_run(run, model, office, schedule, finished)
            assert run.contents[:before] == paused.contents
            assert set(office.ran) <= {dust, desk}  # what ran before is not run again
            statuses = tuple(status for _, status in calls_with_status(run.contents))
            assert statuses[:2] == ("completed",) * 2
            seen.add(statuses)

        return (lambda: watch(run)), check

    assert await cancel_at_every_step(begin, cancel) > 10
    assert ("completed",) * 4 in seen
    assert ("completed", "completed", "canceled", "canceled") in seen
    assert any("canceled" in each for each in seen)


# ---------------------------------------------------------------- where two things happen at once


@pytest.mark.parametrize("looks", [1, 2])
async def test_canceled_at_the_moment_of_a_change_every_call_has_its_result(looks: int) -> None:
    """Check a task that is woken by a change, and continues once more before the cancellation arrives."""
    for _ in range(30):  # on trio the order of tasks that can go on is random
        await cancel_at_a_change(looks)


async def cancel_at_a_change(looks: int) -> None:
    schedule, begun = Schedule(2), list[str]()

    @tool(approval="ask")
    async def remove() -> None: ...

    async def look() -> None:
        begun.append("look")
        await anyio.sleep_forever()

    async def approve(call: Any, deps: Any) -> bool:
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        assert begun == ["look"]  # the other's is the second place
        schedule.unregister("other")  # it is free now, and all owners are notified
        scope.cancel()
        await anyio.sleep_forever()
        return True

    schedule.add("other", 0, tool(look))
    assert schedule.start_next("other") == 0
    execution = execute_tool_calls_batched(
        closed_turn("", ("remove", {}), *[("look", {})] * looks),
        tools=[remove, look],
        limit=schedule,
        approve=approve,
    )
    with anyio.CancelScope() as scope:
        await execution
    assert not execution.paused
    assert [result.status for result in execution.update.results] == ["canceled"] * (1 + looks)
    begins = ["before it began" not in (result.error or "") for result in execution.update.results]
    assert begins == [False, True, False][: 1 + looks]
    assert begun == ["look"]
