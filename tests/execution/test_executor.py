from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from execution.chat_chunks import closed_turn
from execution.executor_checks import calls, check_events, collect_events, run_one, wipe
from virtual_clock import on_a_virtual_clock
from waiting import PATIENCE

from streamkit import (
    Schedule,
    Timeouts,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    Turn,
    UsageError,
    execute_one_tool,
    execute_tool_calls_batched,
    execute_tool_calls_sequentially,
    tool,
)
from streamkit.events import Event, ToolEvent, ToolProgress, Warned
from streamkit.execution.one_call.background import PROGRESS_BOUND

pytestmark = pytest.mark.anyio


# ---------------------------------------------------------------- one call


async def test_async_and_sync_tools_return_their_values() -> None:
    async def add(a: int, b: int) -> int:
        return a + b

    def upper(text: str) -> str:
        return text.upper()

    update = await execute_tool_calls_batched(
        calls(("add", {"a": 1, "b": 2}), ("upper", {"text": "x"})), tools=[add, upper], provider="openai_chat"
    )
    assert [(result.status, result.value) for result in update.results] == [("completed", 3), ("completed", "X")]


@pytest.mark.parametrize("value", [0, "", False, None, [], {}, 0.0])
async def test_falsy_results_are_kept(value: Any) -> None:
    async def give() -> Any:
        return value

    result = await run_one(give)
    assert result.status == "completed"
    assert result.value == value
    assert type(result.value) is type(value)


async def test_an_unknown_tool_is_an_error_that_lists_the_tools_nearest_first() -> None:
    def read_file() -> None: ...
    def bash() -> None: ...

    update = await execute_tool_calls_batched(calls("readfile", "bash"), tools=[bash, read_file], provider="gemini")
    assert [result.status for result in update.results] == ["error", "completed"]
    assert "There are: read_file, bash." in (update.results[0].error or "")


async def test_an_unknown_tool_without_any_tools_is_an_error() -> None:
    update = await execute_tool_calls_batched(calls("x"), tools=[], provider="gemini")
    assert "there are no other tools" in (update.results[0].error or "")


async def test_invalid_arguments_are_an_error_that_names_them() -> None:
    async def add(a: int, b: int) -> int:
        return a + b

    result = await run_one(add, {"a": "many", "c": 1})
    assert result.status == "error"
    for word in ("a was given", "b is missing", "c was given"):
        assert word in (result.error or "")


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_an_exception_is_an_error_with_type_and_message(kind: str) -> None:
    def fail() -> None:
        raise LookupError("no such city")

    async def afail() -> None:
        raise LookupError("no such city")

    result = await run_one(afail if kind == "async" else fail)
    assert result.status == "error"
    assert "LookupError: no such city" in (result.error or "")


async def test_a_tool_that_exits_does_not_end_the_program() -> None:
    def leave() -> None:
        raise SystemExit(3)

    async def aleave() -> None:
        raise SystemExit(3)

    assert "SystemExit: 3" in ((await run_one(leave)).error or "")
    assert "SystemExit: 3" in ((await run_one(aleave)).error or "")


async def test_the_error_of_an_exception_group_lists_its_members() -> None:
    async def fail() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self_fail)

    async def self_fail() -> None:
        raise ValueError("inside")

    assert "ValueError: inside" in ((await run_one(fail)).error or "")


async def test_a_raising_validator_is_an_error() -> None:
    from typing import Annotated

    from pydantic import AfterValidator

    def refuse(value: int) -> int:
        raise RuntimeError("validator broke")

    async def f(a: Annotated[int, AfterValidator(refuse)]) -> None: ...

    f.__annotations__["a"] = Annotated[int, AfterValidator(refuse)]
    result = await run_one(f, {"a": 1})
    assert result.status == "error"
    assert "RuntimeError: validator broke" in (result.error or "")


@on_a_virtual_clock
async def test_a_hanging_tool_times_out_and_is_canceled() -> None:
    ended: list[str] = []

    async def hang() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("cleaned up")

    result = await run_one(hang, timeouts=0.05)
    assert result.status == "timed_out"
    assert "0.05 seconds" in (result.error or "")
    assert ended == ["cleaned up"]


@on_a_virtual_clock
async def test_a_tools_own_timeout_takes_precedence() -> None:
    async def hang() -> None:
        await anyio.sleep_forever()

    assert (await run_one(tool(hang, timeout=3600), timeouts=None)).status == "timed_out"


@on_a_virtual_clock
async def test_a_timeout_of_the_tools_own_is_an_error() -> None:
    async def wait() -> None:
        with anyio.fail_after(0.01):
            await anyio.sleep_forever()

    result = await run_one(wait, timeouts=5)
    assert result.status == "error"
    assert "TimeoutError" in (result.error or "")


async def test_a_hanging_thread_times_out_and_the_result_reports_that_it_still_runs() -> None:
    gate = threading.Event()
    seen: list[bool] = []

    def hang(context: ToolContext) -> None:
        gate.wait(30)
        seen.append(context.canceled)

    result = await run_one(hang, timeouts=0.05)
    gate.set()
    assert result.status == "timed_out"
    assert "may still finish" in (result.error or "")
    with anyio.fail_after(PATIENCE):
        while not seen:  # noqa: ASYNC110 - it is an abandoned thread
            await anyio.sleep(0.001)
    assert seen == [True]


async def test_abandoned_threads_occupy_their_places_until_they_return() -> None:
    gate = threading.Event()

    def hang() -> None:
        gate.wait(30)

    def quick() -> str:
        return "done"

    schedule = Schedule(2)
    execute = partial(execute_tool_calls_batched, tools=[hang, quick], provider="gemini", limit=schedule, timeouts=0.05)
    update = await execute(calls(*["hang"] * 4, *["quick"] * 2))
    assert [result.status for result in update.results] == ["timed_out"] * 2 + ["error"] * 4
    assert all("still run in threads" in (result.error or "") for result in update.results[2:])
    assert schedule.running == 2
    [result] = (await execute(calls("quick"))).results  # another round of the same run
    assert result.status == "error"
    gate.set()
    with anyio.fail_after(PATIENCE):
        while schedule.running:  # noqa: ASYNC110 - they are abandoned threads
            await anyio.sleep(0.001)
    [result] = (await execute(calls("quick"))).results
    assert result.status == "completed"


async def test_a_sync_tool_does_not_block_the_event_loop() -> None:
    started, gate = threading.Event(), threading.Event()

    def block() -> bool:
        started.set()
        return gate.wait(PATIENCE)

    async def open_gate() -> None:
        await anyio.to_thread.run_sync(started.wait, 10)
        gate.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(open_gate)
        assert (await run_one(block)).value is True


async def test_a_cancellation_inside_a_tool_is_its_error(anyio_backend_name: str) -> None:
    if anyio_backend_name != "asyncio":
        pytest.skip("only asyncio raises the cancellation of what was awaited")

    async def wait_for_a_canceled_task() -> None:
        task = asyncio.ensure_future(asyncio.sleep(10))
        task.cancel()
        await task

    async def fine() -> str:
        return "fine"

    update = await execute_tool_calls_batched(
        calls("wait_for_a_canceled_task", "fine"), tools=[wait_for_a_canceled_task, fine], provider="gemini"
    )
    assert [result.status for result in update.results] == ["error", "completed"]


async def test_a_tool_without_a_function_cannot_be_run() -> None:
    assert "cannot be run here" in ((await run_one(Tool(name="shown"))).error or "")


async def test_a_sync_function_that_returns_an_awaitable() -> None:
    async def later() -> str:
        return "later"

    assert (await run_one(Tool(lambda: later(), name="f"))).value == "later"


async def test_the_context_is_injected() -> None:
    seen: list[Any] = []

    async def look(context: ToolContext, a: int = 1) -> None:
        seen.extend([context.call.name, context.id, context.deps, context.turn, context.canceled, a])

    turn = closed_turn("", ("look", {"a": 2}))
    await execute_tool_calls_batched(turn, tools=[look], deps={"db": 1})
    assert seen == ["look", turn.calls[0].id, {"db": 1}, turn, False, 2]


# ---------------------------------------------------------------- progress


def progress_values(events: list[Event]) -> list[Any]:
    return [event.value for event in events if isinstance(event, ToolProgress)]


async def test_a_generator_reports_progress_and_its_last_value_is_the_result() -> None:
    async def work() -> AsyncIterator[str]:
        yield "10%"
        await anyio.sleep(0.01)
        yield "50%"
        yield "90%"
        await anyio.lowlevel.checkpoint()
        yield "the result"

    execution = execute_tool_calls_batched(calls("work"), tools=[work], provider="gemini")
    events = await collect_events(execution)
    assert progress_values(events) == ["10%", "50%", "90%"]
    assert execution.update.results[0].value == "the result"


async def test_progress_is_not_delayed_until_the_next_value() -> None:
    gate = anyio.Event()

    async def work() -> AsyncIterator[str]:
        yield "half"
        await gate.wait()
        yield "whole"

    async with execute_tool_calls_batched(calls("work"), tools=[work], provider="gemini", timeouts=2) as execution:
        async for event in execution:
            if isinstance(event, ToolProgress):
                gate.set()
    assert execution.update.results[0].value == "whole"


async def test_a_generator_that_fails_after_progress_is_an_error() -> None:
    async def work() -> AsyncIterator[str]:
        yield "half"
        await anyio.lowlevel.checkpoint()
        raise ValueError("then it broke")

    result = await run_one(work)
    assert result.status == "error"
    assert "then it broke" in (result.error or "")


async def test_an_empty_generator_has_none_as_its_result() -> None:
    async def work() -> AsyncIterator[str]:
        return
        yield

    assert (await run_one(work)).value is None


async def test_a_plain_generator_runs_in_a_thread_the_same_way() -> None:
    home = threading.get_ident()

    def work() -> Iterator[Any]:
        yield 1
        yield 2
        yield threading.get_ident()

    execution = execute_tool_calls_batched(calls("work"), tools=[work], provider="gemini")
    assert progress_values(await collect_events(execution)) == [1, 2]
    assert execution.update.results[0].value != home


async def test_progress_by_the_context_from_a_task_and_from_a_thread() -> None:
    async def here(context: ToolContext) -> None:
        context.progress("here")

    def there(context: ToolContext) -> None:
        context.progress("there")

    events = await collect_events(
        execute_tool_calls_sequentially(calls("here", "there"), tools=[here, there], provider="gemini")
    )
    assert progress_values(events) == ["here", "there"]


async def test_progress_of_a_slow_reader_is_coalesced() -> None:
    async def chatter(context: ToolContext) -> None:
        for number in range(PROGRESS_BOUND * 20):
            context.progress(number)

    execution = execute_tool_calls_batched(calls(*["chatter"] * 3), tools=[chatter], provider="gemini")
    async with execution:
        first = await anext(execution)
        while not execution.ended:
            await anyio.lowlevel.checkpoint()  # the tools do not wait for the reader
        rest = [event async for event in execution]
    values = progress_values([first, *rest])
    assert len(values) <= PROGRESS_BOUND + 3
    assert values.count(PROGRESS_BOUND * 20 - 1) == 3  # the newest of each is there
    check_events([first, *rest], execution.update)


# ---------------------------------------------------------------- order and concurrency


class Gauge:
    def __init__(self) -> None:
        self.now = 0
        self.most = 0
        self.order: list[Any] = []

    async def run(self, number: int) -> int:
        self.now += 1
        self.most = max(self.most, self.now)
        self.order.append(number)
        for _ in range(20 + number % 3):
            await anyio.lowlevel.checkpoint()
        self.now -= 1
        return number


async def test_800_calls_run_five_at_a_time_and_results_keep_their_order() -> None:
    gauge = Gauge()
    update = await execute_tool_calls_batched(
        calls(*[("run", {"number": n}) for n in range(800)]), tools=[gauge.run], provider="openai_chat", limit=5
    )
    assert gauge.most == 5
    assert [result.value for result in update.results] == list(range(800))
    assert gauge.order == list(range(800))
    assert len(update.messages) == 801


async def test_sequential_calls_run_one_at_a_time_in_order() -> None:
    gauge = Gauge()
    await execute_tool_calls_sequentially(
        calls(*[("run", {"number": n}) for n in range(20)]), tools=[gauge.run], provider="openai_chat"
    )
    assert gauge.most == 1
    assert gauge.order == list(range(20))


async def test_batched_calls_run_concurrently() -> None:
    meeting = Counter[str]()
    both = anyio.Event()

    async def meet(name: str) -> str:
        meeting[name] += 1
        if len(meeting) == 2:
            both.set()
        await both.wait()
        return name

    update = await execute_tool_calls_batched(
        calls(("meet", {"name": "a"}), ("meet", {"name": "b"})), tools=[meet], provider="gemini", timeouts=2
    )
    assert [result.value for result in update.results] == ["a", "b"]


async def test_an_exclusive_tool_is_a_barrier() -> None:
    running: set[str] = set()
    seen: list[set[str]] = []

    async def work(name: str) -> None:
        running.add(name)
        seen.append(set(running))
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
            seen.append(set(running))
        running.discard(name)

    async def read(name: str) -> None:
        await work(name)

    async def write(name: str) -> None:
        await work(name)

    named = [("read", "r1"), ("read", "r2"), ("write", "w"), ("read", "r3")]
    await execute_tool_calls_batched(
        calls(*[(kind, {"name": name}) for kind, name in named]),
        tools=[read, tool(write, exclusive=True)],
        provider="gemini",
    )
    assert {"r1", "r2"} in seen
    assert all(len(each) == 1 for each in seen if "w" in each or "r3" in each)


@on_a_virtual_clock
async def test_run_timeout_ends_all_calls_and_returns_the_update() -> None:
    async def hang() -> None:
        await anyio.sleep_forever()

    async def quick() -> str:
        return "done"

    execution = execute_tool_calls_batched(
        calls("quick", "hang", "hang", "hang"),
        tools=[hang, quick],
        provider="gemini",
        limit=2,
        timeouts=Timeouts(run=0.05),
    )
    await collect_events(execution)
    assert [result.status for result in execution.update.results] == [
        "completed",
        "timed_out",
        "timed_out",
        "timed_out",
    ]
    errors = [result.error or "" for result in execution.update.results[1:]]
    assert ["Not finished" in error for error in errors] == [True, True, False]
    assert "Not started within the 0.05 seconds" in errors[2]


# ---------------------------------------------------------------- turns


async def test_the_result_events_of_blocked_calls_come_first() -> None:
    async def get(city: str) -> str:
        return city

    turn = closed_turn("", ("get", {"city": "Oslo"}), ("get", '{"city": "Ber'), finish="length")
    execution = execute_tool_calls_batched(turn, tools=[get])
    events = await collect_events(execution)
    assert [(event.type, event.call.index) for event in events[:3]] == [  # type: ignore[union-attr]
        ("tool_error", 1),
        ("tool_running", 0),
        ("tool_completed", 0),
    ]
    assert events[3:] == []
    assert [message["role"] for message in execution.update.messages] == ["assistant", "tool", "tool"]


async def test_the_warning_of_a_round_is_an_event() -> None:
    async def get(n: int) -> int:
        return n

    turn = Turn("gemini", turn_key="k")
    parts = [{"functionCall": {"name": "get", "args": {"n": n}}, "thoughtSignature": "c2ln"} for n in range(2)]
    turn.feed({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}]})
    turn.close()
    events = await collect_events(execute_tool_calls_sequentially(turn, tools=[get]))
    assert [event.code for event in events if isinstance(event, Warned)] == ["batched_instead"]


# ---------------------------------------------------------------- execute_one_tool


async def test_execute_one_tool_returns_the_result_and_reports_the_events() -> None:
    events: list[ToolEvent] = []
    [call] = calls("wipe")
    result = await execute_one_tool(call, tools=[wipe], report=events.append)
    assert result == ToolResult(call, "completed", "wiped")
    assert [event.type for event in events] == ["tool_running", "tool_completed"]


async def test_execute_one_tool_does_not_run_a_broken_call() -> None:
    call = ToolCall(id="x", name="wipe", index=0, state="incomplete", arguments_text='{"a')
    assert (await execute_one_tool(call, tools=[wipe])).status == "error"


async def test_execute_one_tool_reports_its_result_event_when_canceled() -> None:
    async def hang() -> None:
        await anyio.sleep_forever()

    events: list[ToolEvent] = []
    with anyio.CancelScope() as scope:

        def report(event: ToolEvent) -> None:
            events.append(event)
            scope.cancel()  # while the tool runs

        await execute_one_tool(calls("hang")[0], tools=[hang], report=report)
    assert scope.cancelled_caught
    assert [event.type for event in events] == ["tool_running", "tool_canceled"]


@pytest.mark.parametrize(
    "fields", [{"id": 1}, {"name": 3}, {"kind": "tool"}, {"state": "done"}, {"metadata": None}], ids=str
)
async def test_a_callers_own_call_that_is_not_valid_is_refused_before_it_runs(fields: dict[str, Any]) -> None:
    ran: list[bool] = []

    async def f() -> None:
        ran.append(True)

    call = ToolCall(**{"id": "x", "name": "f", "index": 0, "state": "complete", "arguments": {}, **fields})
    with pytest.raises(UsageError, match=f"is not valid: .*{next(iter(fields))}"):
        await execute_tool_calls_batched([call], tools=[f], provider="openai_chat")
    assert ran == []


@pytest.mark.parametrize(
    ("arguments", "written_text"),  # OpenAI takes any text as arguments: the model sees what it wrote
    [(None, "{}"), ("{}x", "{}x"), (7, "{}"), ([("a", 1)], "{}"), ({1: 2}, '{"1":2}')],
    ids=repr,
)
async def test_a_callers_own_call_without_an_object_has_an_error_as_result(arguments: Any, written_text: str) -> None:
    async def f() -> None: ...

    call = ToolCall(id="x", name="f", index=0, state="complete", arguments=arguments)
    update = await execute_tool_calls_batched([call], tools=[f], provider="openai_chat")
    assert [result.status for result in update.results] == ["error"]
    [written] = update.messages[0]["tool_calls"]
    assert written["function"]["arguments"] == written_text
