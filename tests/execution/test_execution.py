"""What a caller does with an execution: await it, iterate it, cancel it, leave it."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from execution.chat_chunks import closed_turn
from execution.executor_checks import EXECUTORS, calls, collect_events, wipe
from waiting import PATIENCE

from streamkit import (
    Timeouts,
    ToolContext,
    ToolFailed,
    Turn,
    UsageError,
    execute_tool_calls_batched,
    execute_tool_calls_sequentially,
    tool,
)
from streamkit.execution import Execution
from streamkit.providers.provider import Provider

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("execute", EXECUTORS)
async def test_nothing_runs_before_it_is_awaited(execute: Any) -> None:
    ran: list[int] = []

    async def f() -> None:
        ran.append(1)

    execution = execute(calls("f"), tools=[f], provider="gemini")
    await anyio.wait_all_tasks_blocked()
    assert ran == []
    with pytest.raises(UsageError, match="not ended"):
        _ = execution.update
    update = await execution
    assert ran == [1]
    assert update is execution.update


async def test_a_second_use_is_rejected() -> None:
    execution = execute_tool_calls_batched(calls("wipe"), tools=[wipe], provider="gemini")
    await execution
    with pytest.raises(UsageError, match="once"):
        await execution
    with pytest.raises(UsageError, match="once"):
        async with execution:
            pass


async def test_it_is_iterated_only_inside_its_block() -> None:
    with pytest.raises(UsageError, match="async with"):
        async for _ in execute_tool_calls_batched(calls("wipe"), tools=[wipe], provider="gemini"):
            pass


@pytest.mark.parametrize("execute", EXECUTORS)
def test_run_sync_needs_no_event_loop(execute: Any) -> None:
    update = execute(calls("wipe", "wipe"), tools=[wipe], provider="gemini").run_sync()
    assert [result.value for result in update.results] == ["wiped", "wiped"]


async def test_run_sync_is_rejected_inside_an_event_loop() -> None:
    execution = execute_tool_calls_batched(calls("wipe"), tools=[wipe], provider="gemini")
    with pytest.raises(UsageError, match="await"):
        execution.run_sync()
    await execution


@pytest.mark.parametrize("numbers", [{"limit": 0}, {"timeouts": 0}, {"timeouts": "5"}])
async def test_numbers_out_of_range_are_rejected(numbers: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(numbers))):
        execute_tool_calls_batched([], tools=[], provider="gemini", **numbers)


async def test_no_calls_at_all() -> None:
    update = await execute_tool_calls_batched([], tools=[], provider="openai_chat")
    assert (update.messages, update.contents, update.results) == ([], [], [])


async def test_an_exception_of_a_format_callback_propagates_and_ends_the_iteration() -> None:
    def broken(completed: Any) -> Any:
        raise ZeroDivisionError

    execution = execute_tool_calls_batched(calls("wipe"), tools=[wipe], format_batch_for_thread=broken)
    with anyio.fail_after(PATIENCE), pytest.raises(ZeroDivisionError):  # noqa: PT012 - it is raised where the block is left
        async with execution:
            async for _ in execution:
                pass
    with pytest.raises(ZeroDivisionError):
        await execute_tool_calls_batched(calls("wipe"), tools=[wipe], format_batch_for_thread=broken)


async def test_the_callers_context_variables_reach_the_tools() -> None:
    from contextvars import ContextVar

    who: ContextVar[str] = ContextVar("who")
    who.set("me")

    async def tell() -> str:
        return who.get("nobody")

    def tell_in_thread() -> str:
        return who.get("nobody")

    execution = execute_tool_calls_batched(
        calls("tell", "tell_in_thread"), tools=[tell, tell_in_thread], provider="gemini"
    )
    await collect_events(execution)
    assert [result.value for result in execution.update.results] == ["me", "me"]


@pytest.mark.parametrize("execute", EXECUTORS)
async def test_each_call_has_a_task_and_context_variables_of_its_own(execute: Any, anyio_backend_name: str) -> None:
    from contextvars import ContextVar

    import trio

    who: ContextVar[str] = ContextVar("who")
    tasks: list[Any] = []

    async def tell() -> str:
        tasks.append(asyncio.current_task() if anyio_backend_name == "asyncio" else trio.lowlevel.current_task())
        seen = who.get("nobody")
        who.set("an earlier call")
        return seen

    update = await execute(calls(*["tell"] * 20), tools=[tell], provider="gemini")
    assert [result.value for result in update.results] == ["nobody"] * 20
    assert len(set(tasks)) == 20


@pytest.mark.parametrize("execute", EXECUTORS)
async def test_a_tool_sees_the_deadline_of_all_calls_and_of_its_caller(execute: Any) -> None:
    deadlines: list[float] = []

    async def tell() -> None:
        deadlines.append(anyio.current_effective_deadline())

    start = anyio.current_time()
    await execute(calls("tell"), tools=[tell], provider="gemini", timeouts=None)
    await execute(calls("tell"), tools=[tell], provider="gemini", timeouts=Timeouts(run=20.0))
    with anyio.fail_after(10.0):
        await execute(calls("tell"), tools=[tell], provider="gemini", timeouts=Timeouts(run=20.0))
    assert deadlines[0] == float("inf")
    assert start + 20 <= deadlines[1] < start + 30
    assert start + 10 <= deadlines[2] < start + 20


async def test_the_cancellation_of_the_caller_ends_every_tool_and_starts_no_other() -> None:
    steps: list[str] = []
    scope = anyio.CancelScope()

    async def wait() -> None:
        steps.append("begin")
        if len(steps) == 2:
            scope.cancel()
        try:
            await anyio.sleep_forever()
        finally:
            steps.append("end")

    execution = execute_tool_calls_batched(calls(*["wait"] * 5), tools=[wait], provider="gemini", limit=2)
    with scope:
        await execution
    assert scope.cancelled_caught
    assert steps == ["begin", "begin", "end", "end"]
    assert [result.status for result in execution.update.results] == ["canceled"] * 5


@pytest.mark.parametrize("watch", [True, False])
def test_an_interrupt_in_a_tool_ends_the_others_as_canceled(watch: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def wait() -> None:
        await anyio.sleep_forever()

    async def interrupt() -> None:
        raise KeyboardInterrupt

    executions = []

    async def main() -> None:
        execution = execute_tool_calls_batched(
            calls("wait", "interrupt", "wait"), tools=[wait, interrupt], provider="gemini"
        )
        executions.append(execution)
        await (collect_events(execution) if watch else execution)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert [result.status for result in executions[0].update.results] == ["canceled"] * 3
    assert "failed" not in caplog.text


async def test_a_second_cancellation_of_the_caller_waits_for_the_tools_too(anyio_backend_name: str) -> None:
    if anyio_backend_name == "trio":
        pytest.skip("on trio a task cannot be cancelled")
    has_ended = False

    async def clean_up() -> None:
        nonlocal has_ended
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.02)
            has_ended = True

    execution = execute_tool_calls_batched(calls("clean_up"), tools=[clean_up], provider="gemini")

    async def run() -> None:
        await execution

    task = asyncio.create_task(run())
    for _ in range(3):
        await asyncio.sleep(0.005)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert has_ended
    assert [result.status for result in execution.update.results] == ["canceled"]


@pytest.mark.skipif(not hasattr(asyncio, "eager_task_factory"), reason="before Python 3.12 no task starts eagerly")
async def test_calls_end_before_others_start_with_an_eager_task_factory(anyio_backend_name: str) -> None:
    if anyio_backend_name == "trio":
        pytest.skip("trio has no task factories")
    asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]
    try:
        update = await execute_tool_calls_sequentially(calls(*["wipe"] * 2_000), tools=[wipe], provider="gemini")
    finally:
        asyncio.get_running_loop().set_task_factory(None)
    assert {result.status for result in update.results} == {"completed"}


async def test_a_round_is_rendered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: list[int] = []
    render = Provider.render

    def count(self: Provider, contents: Any, **options: Any) -> Any:
        rendered.append(len(contents))
        return render(self, contents, **options)

    monkeypatch.setattr(Provider, "render", count)
    await execute_tool_calls_sequentially(calls(*["wipe"] * 5), tools=[wipe], provider="openai_chat")
    assert rendered == [1 + 2 * 5]


# ---------------------------------------------------------------- its end


async def test_a_round_with_calls_to_run_cannot_be_closed_without_running() -> None:
    async def f() -> None: ...

    execution = execute_tool_calls_batched(closed_turn("", ("f", {})), tools=[f])
    with pytest.raises(UsageError, match="there are calls to run"):
        execution.close_without_running()
    assert (await execution).results[0].status == "completed"


async def test_a_round_without_calls_is_closed_without_a_task() -> None:
    execution = execute_tool_calls_batched(closed_turn("Hello.", ("f", "{")), tools=[])
    assert [result.status for result in execution.close_without_running().results] == ["error"]
    with pytest.raises(UsageError, match="used once"):
        await execution


@pytest.mark.parametrize("execute", EXECUTORS)
async def test_a_caller_that_leaves_early_keeps_nothing_of_the_calls_alive(execute: Callable[..., Execution]) -> None:
    """The events that were not read refer to results, and the traceback of an exception refers to the executor."""

    @tool
    async def fails(context: ToolContext) -> None:
        """Fail after progress that refers to everything."""
        context.progress({"context": context})
        raise ToolFailed("no")

    async def leave() -> weakref.ref[Turn]:
        turn = closed_turn("Now.", ("fails", {}), ("fails", {}))
        async with execute(turn, tools=[fails]) as execution:
            async for _ in execution:
                break
        return weakref.ref(turn)

    turn = await leave()
    await anyio.lowlevel.checkpoint()  # asyncio lets go of a task that has ended one pass later
    gc.collect()
    assert turn() is None
