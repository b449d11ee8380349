"""``run_watched`` and ``receive_within`` on both event loops: who is canceled, and what is raised."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import sniffio

from streamkit.gateway.client import receive_within, run_watched

pytestmark = pytest.mark.anyio


class Steps:
    """A service and a watch that record how they end."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.started = anyio.Event()

    async def wait(self, name: str) -> bool:
        """Wait until canceled."""
        self.started.set()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            self.seen.append(f"{name} canceled")
            raise
        raise AssertionError

    async def serve(self) -> None:
        """Wait until canceled, as a service."""
        await self.wait("service")

    async def serve_three_steps(self) -> None:
        """End by itself."""
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        self.seen.append("service ended")

    async def watch(self) -> bool:
        """Wait until canceled, as a watch."""
        return await self.wait("watch")

    async def leave(self) -> bool:
        """Ask for the end of the service."""
        await self.started.wait()
        return True

    async def stay(self) -> bool:
        """Let the service go on."""
        return False

    async def fail(self) -> bool:
        """Raise, as a watch whose heartbeat cannot be sent."""
        await self.started.wait()
        raise OSError("broken")


async def is_canceled_later() -> bool:
    """Return whether a cancellation is left over."""
    with anyio.CancelScope():
        await anyio.lowlevel.checkpoint()
        task = asyncio.current_task() if sniffio.current_async_library() == "asyncio" else None
        return task is not None and task.cancelling() > 0
    return True


async def test_the_end_of_a_service_cancels_its_watch() -> None:
    steps = Steps()
    await run_watched(steps.serve_three_steps(), steps.watch)
    await anyio.lowlevel.checkpoint()
    assert steps.seen == ["service ended", "watch canceled"]
    assert not await is_canceled_later()


async def test_a_watch_cancels_its_service() -> None:
    steps = Steps()
    await run_watched(steps.serve(), steps.leave)
    assert steps.seen == ["service canceled"]
    assert not await is_canceled_later()


async def test_a_watch_that_has_seen_the_end_of_the_response_lets_the_service_go_on() -> None:
    steps = Steps()
    await run_watched(steps.serve_three_steps(), steps.stay)
    assert steps.seen == ["service ended"]


async def test_the_failure_of_a_watch_ends_the_service_and_is_raised() -> None:
    steps = Steps()
    with pytest.raises(OSError, match="broken"):
        await run_watched(steps.serve(), steps.fail)
    assert steps.seen == ["service canceled"]
    assert not await is_canceled_later()


@pytest.mark.parametrize("watch", [Steps.watch, Steps.stay])
async def test_the_failure_of_a_service_is_raised_as_it_is(watch: Any) -> None:
    async def fail() -> None:
        await anyio.lowlevel.checkpoint()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await run_watched(fail(), lambda: watch(Steps()))
    assert not await is_canceled_later()


async def test_a_service_that_goes_on_after_its_cancellation_is_awaited() -> None:
    steps = Steps()

    async def go_on() -> None:
        try:
            await steps.serve()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            steps.seen.append("closed")
            if sniffio.current_async_library() == "trio":
                raise

    await run_watched(go_on(), steps.leave)
    assert steps.seen == ["service canceled", "closed"]
    assert not await is_canceled_later()


async def test_a_cancellation_from_outside_ends_both_and_is_raised() -> None:
    steps = Steps()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_watched, steps.serve(), steps.watch)
        await steps.started.wait()
        await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert sorted(steps.seen) == ["service canceled", "watch canceled"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancellation_by_another_task_is_raised_also_if_the_watch_cancels_at_the_same_time() -> None:
    steps = Steps()

    async def leave() -> bool:
        await steps.started.wait()
        task.cancel()
        return True

    task = asyncio.create_task(run_watched(steps.serve(), leave))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps.seen == ["service canceled"]


async def test_a_message_is_received_within_a_time_limit() -> None:
    async def receive() -> Any:
        await anyio.lowlevel.checkpoint()
        return {"type": "http.disconnect"}

    limits: list[float | None] = [60.0, None]
    for limit in limits:
        assert await receive_within(receive, limit) == {"type": "http.disconnect"}


async def test_a_time_limit_ends_the_wait_for_a_message() -> None:
    async def receive() -> Awaitable[Any]:
        await anyio.sleep_forever()
        raise AssertionError

    assert await receive_within(receive, 0.001) is None
    assert not await is_canceled_later()
