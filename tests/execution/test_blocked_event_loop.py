"""A tool or a request that blocks the event loop is warned of; the clock is the test's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from execution.chat_chunks import answer
from execution.provider_streams import collect_events

from streamkit import Content, run_loop
from streamkit.errors import ToolFailed
from streamkit.events import Warned
from streamkit.execution.one_call import background
from streamkit.execution.run import request

pytestmark = pytest.mark.anyio


class Clock:
    """A clock that stands still but for ``block``."""

    now = 0.0

    def block(self, seconds: float) -> None:
        """Do what ``time.sleep`` does."""
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (background, request):
        monkeypatch.setattr(module, "monotonic", lambda: clock.now)
    return clock


def tool_that(kind: str, clock: Clock) -> Callable[..., Any]:
    async def look() -> Any:
        if kind == "at once":
            clock.block(2.5)
        await anyio.lowlevel.checkpoint()
        if kind in ("later", "raises"):
            clock.block(2.5)
        if kind == "raises":
            raise ToolFailed("no")
        if kind == "shortly":
            for _ in range(5):
                clock.block(0.9)
                await anyio.lowlevel.checkpoint()
        if kind == "twice":
            clock.block(2.5)
            await anyio.lowlevel.checkpoint()
            clock.block(2.5)
        return "seen"

    async def generate() -> AsyncIterator[str]:
        yield "begun"
        clock.block(2.5)
        yield "seen"

    generate.__name__ = "look"
    return generate if kind == "generator" else look


@pytest.mark.parametrize("kind", ["at once", "later", "raises", "twice", "generator"])
async def test_a_tool_that_blocks_is_warned_of_once(kind: str, clock: Clock) -> None:
    rounds = iter([answer("", ("look", {})), answer("Done.")])
    run = run_loop(
        lambda _: next(rounds),
        provider="openai_chat",
        tools=[tool_that(kind, clock)],
        history=[Content.human("?")],
    )
    events = await collect_events(run)
    [warned] = [event for event in events if isinstance(event, Warned)]
    assert warned.code == "event_loop_blocked"
    assert warned.message.startswith("look blocked the event loop for 2.5 seconds")
    assert [warning.code for warning in run.warnings] == ["event_loop_blocked"]
    assert run.text == "Done."


async def test_a_tool_that_suspends_often_enough_is_not(clock: Clock) -> None:
    rounds = iter([answer("", ("look", {})), answer("Done.")])
    run = run_loop(
        lambda _: next(rounds),
        provider="openai_chat",
        tools=[tool_that("shortly", clock)],
        history=[Content.human("?")],
    )
    assert (await run).warnings == []
    assert clock.now == 4.5


def requests(kind: str, clock: Clock) -> Callable[[Any], Any]:
    def plain(_: Any) -> Any:
        clock.block(3)
        return answer("Done.")

    async def asynchronous(_: Any) -> Any:
        await anyio.lowlevel.checkpoint()
        clock.block(3)
        return answer("Done.")

    def read_in_the_loop(_: Any) -> Iterator[Any]:
        clock.block(3)
        yield from answer("Done.")

    async def generator(_: Any) -> AsyncIterator[Any]:
        clock.block(3)
        for chunk in answer("Done."):
            yield chunk

    return {"plain": plain, "asynchronous": asynchronous, "stream": read_in_the_loop, "generator": generator}[kind]


@pytest.mark.parametrize("kind", ["plain", "asynchronous", "stream", "generator"])
async def test_a_request_that_blocks_is_warned_of(kind: str, clock: Clock) -> None:
    run = run_loop(requests(kind, clock), provider="openai_chat", history=[Content.human("?")])
    events = await collect_events(run)
    [warned] = [event for event in events if isinstance(event, Warned)]
    assert warned.code == "event_loop_blocked"
    assert "for 3.0 seconds" in warned.message
    assert "asynchronous client" in warned.message
    assert [warning.code for warning in run.warnings] == ["event_loop_blocked"]
    assert run.text == "Done."
