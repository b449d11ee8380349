"""trio as a guest of asyncio (``trio.lowlevel.start_guest_run``): every time limit works, and so does ``cancel``.

While the guest runs, asyncio has a running event loop and no current task. What asks asyncio alone which event loop it
is in takes the wrong one then.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import pytest
import trio
from execution.chat_chunks import answer
from execution.fake_model import FakeModel
from trio.testing import MockClock

from streamkit import (
    Content,
    StreamInterrupted,
    Timeouts,
    ToolContext,
    Turn,
    execute_tool_calls_batched,
    read,
    run_loop,
)
from streamkit.events import Text

HISTORY = [Content.human("Go.")]
CALL = ("work", {})


def run_as_guest(function: Callable[[], Awaitable[Any]]) -> tuple[Any, float]:
    """Return the value of an asynchronous function that trio runs within asyncio, and the seconds of trio's clock."""
    clock = MockClock(autojump_threshold=0)

    async def host() -> Any:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Any] = loop.create_future()
        trio.lowlevel.start_guest_run(
            function,
            run_sync_soon_threadsafe=loop.call_soon_threadsafe,
            done_callback=ended.set_result,
            clock=clock,
        )
        return (await ended).unwrap()

    return asyncio.run(host()), clock.current_time()


async def work() -> str:
    await anyio.sleep(100)
    return "done"


class Silent:
    """A model that sends some chunks, and nothing after them."""

    def __init__(self, *chunks: Any) -> None:
        self.chunks = chunks

    async def __call__(self, context: Any) -> AsyncIterator[Any]:
        return self._read()

    async def _read(self) -> AsyncIterator[Any]:
        for chunk in self.chunks:
            yield chunk
        await anyio.sleep(100)


async def end_of(model: Any, **options: Any) -> tuple[str | None, list[str]]:
    """Return why a run has ended, and the status of its results."""
    run = run_loop(model, provider="openai_chat", tools=[work], history=HISTORY, **options)
    try:
        await run
    except StreamInterrupted as error:
        return f"{run.ended}: {error.error.message}", [result.status for result in run.results]
    return run.ended, [result.status for result in run.results]


@pytest.mark.parametrize(
    ("model", "timeouts", "ended", "statuses", "seconds"),
    [
        (FakeModel(answer("", CALL), answer("Done.")), Timeouts(call=7), "answered", ["timed_out"], 7),
        (FakeModel(answer("", CALL), answer("Done.")), Timeouts(run=7), "timed_out", ["timed_out"], 7),
        (Silent(), Timeouts(run=7), "timed_out: the time limit passed before the response had ended", [], 7),
        (Silent(), Timeouts(first_event=7), "timed_out: no event arrived within 7 seconds", [], 7),
        (Silent(*answer("Hel")[:2]), Timeouts(first_event=20, idle=7), "timed_out: no input arrived for 7", [], 7),
        (Silent(*answer("Hel")[:2]), Timeouts(run=7, idle=20), "timed_out: the time limit passed", [], 7),
    ],
    ids=["call", "run, in a call", "run, in a request", "first_event", "idle", "run, in a response"],
)
def test_time_limits_of_a_run(model: Any, timeouts: Timeouts, ended: str, statuses: list[str], seconds: float) -> None:
    (why, results), passed = run_as_guest(lambda: end_of(model, timeouts=timeouts))
    assert str(why).startswith(ended)
    assert (results, passed) == (statuses, seconds)


def test_the_limit_of_an_execution() -> None:
    async def execute() -> list[str]:
        turn = Turn("openai_chat", turn_key="t")
        for chunk in answer("", CALL, CALL):
            turn.feed(chunk)
        turn.close()
        update = await execute_tool_calls_batched(turn, tools=[work], limit=1, timeouts=Timeouts(call=None, run=7))
        return [result.status for result in update.results]

    assert run_as_guest(execute) == (["timed_out", "timed_out"], 7)


def test_the_limits_of_reading() -> None:
    async def read_it() -> str:
        turn = Turn("openai_chat")
        shown = [
            event.text
            async for event in read(turn, Silent(*answer("Hel")[:2])._read(), timeouts=Timeouts(idle=7))
            if isinstance(event, Text)
        ]
        assert turn.error is not None
        return f"{shown} {turn.error.kind}"

    assert run_as_guest(read_it) == ("['Hel'] timed_out", 7)


def test_cancel_ends_the_wait_for_a_stream_and_for_a_synchronous_tool() -> None:
    async def cancel_a_run(model: Any, **options: Any) -> tuple[str | None, list[str]]:
        run = run_loop(model, provider="openai_chat", history=HISTORY, **options)
        async with anyio.create_task_group() as tasks, run:

            async def stop() -> None:
                await anyio.sleep(7)
                run.cancel()

            tasks.start_soon(stop)
            async for _ in run:
                pass
        return run.ended, [result.status for result in run.results]

    def polite(context: ToolContext) -> str:
        return context.id

    assert run_as_guest(lambda: cancel_a_run(Silent()))[0] == ("canceled", [])
    run_with_a_thread = end_of_thread(polite)
    assert run_as_guest(run_with_a_thread)[0] == ("answered", ["completed"])


def end_of_thread(function: Callable[..., Any]) -> Callable[[], Awaitable[Any]]:
    async def run_it() -> Any:
        model = FakeModel(answer("", (function.__name__, {})), answer("Done."))
        run = await run_loop(model, provider="openai_chat", tools=[function], history=HISTORY, timeouts=None)
        return run.ended, [result.status for result in run.results]

    return run_it
