"""The task that an execution runs in, and the queue of its events.

People keep executions open across a ``yield`` in generators of web frameworks, which are then closed from another task.
A task group must not be open across a ``yield``. So the work runs in a task that is in no scope of the caller: a plain
task on asyncio, a system task on trio (a nursery would be a scope of the caller). All scopes of the work are entered
and left inside this task. The task never ends in an exception; ``aclose``, from any task, cancels it, waits for its end
and raises what the work raised.

This module must not depend on tools, rounds or providers.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from streamkit.calls import CallRef
from streamkit.events import Event, ToolProgress

__all__ = [
    "PROGRESS_BOUND",
    "BackgroundTask",
    "EventQueue",
    "asyncio_event_loop",
    "call_soon_of",
    "current_asyncio_task",
    "current_time",
    "is_event_loop_running",
]

#: Unread progress events of one execution; beyond them a call's newest value replaces its last unread one.
PROGRESS_BOUND = 256


def current_asyncio_task() -> asyncio.Task[Any] | None:
    """Return the current task of asyncio, or None on trio."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def current_time(task: asyncio.Task[Any] | None) -> float:
    """Return the time on anyio's clock, without a search for the event loop if the current task is one of asyncio.

    Args:
        task: what ``current_asyncio_task`` returns.
    """
    return anyio.current_time() if task is None else task.get_loop().time()


def asyncio_event_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop of asyncio that runs the current task, or None on trio, also as a guest of asyncio."""
    task = current_asyncio_task()
    return None if task is None else task.get_loop()


def call_soon_of(event_loop: asyncio.AbstractEventLoop | None) -> Callable[[Callable[[], None]], Any]:
    """Return the function that has a thread's call made in the event loop."""
    if event_loop is not None:
        return event_loop.call_soon_threadsafe
    import trio  # only where it is running already

    return trio.lowlevel.current_trio_token().run_sync_soon


def is_event_loop_running() -> bool:
    """Return True in code that an event loop runs."""
    try:
        anyio.get_cancelled_exc_class()
    except RuntimeError:
        return False
    return True


class BackgroundTask:
    """A task that runs *work* at once, until it ends or is closed."""

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self._error: BaseException | None = None
        self._start()

    def _start(self) -> None:
        if current_asyncio_task() is not None:
            self._task = asyncio.create_task(self._run())  # kept, since the event loop has only a weak reference
            self._task.add_done_callback(lambda _: self._ended.set())  # also if it is cancelled before it started
        else:
            import trio  # only where it is running already

            trio.lowlevel.spawn_system_task(self._run, context=contextvars.copy_context())

    async def _run(self) -> None:
        try:
            with self._scope:
                await self._work()
        except (Exception, KeyboardInterrupt, SystemExit, BaseExceptionGroup) as error:
            self._error = error  # a KeyboardInterrupt in a tool, or a defect of this package: aclose() raises it
        finally:
            self._ended.set()

    async def aclose(self) -> None:
        """Cancel the work and wait for its end, even if the caller is cancelled meanwhile, also repeatedly.

        Raises:
            BaseException: what the work raised, such as a KeyboardInterrupt.
        """
        self._scope.cancel()
        interruption: BaseException | None = None
        while not self._ended.is_set():
            try:
                with anyio.CancelScope(shield=True):
                    await self._ended.wait()
            except anyio.get_cancelled_exc_class() as error:  # asyncio's own cancel() ignores shields
                interruption = error
        work_error, self._error = self._error, None
        if work_error is not None:
            raise work_error
        if interruption is not None:
            raise interruption


class _CoalescedProgress:
    """An unread progress report. A newer one may replace its value."""

    __slots__ = ("call", "value")

    def __init__(self, event: ToolProgress) -> None:
        self.call = event.call
        self.value = event.value


class EventQueue:
    """A queue of events for one reader. Writing never waits.

    Its size is bounded: a call has a fixed number of events other than progress, and of progress at most
    ``PROGRESS_BOUND`` reports and one for each call are kept.
    """

    def __init__(self) -> None:
        self._events: deque[Event | _CoalescedProgress] = deque()
        self._newest: dict[CallRef, _CoalescedProgress] = {}  # the newest unread report of each call
        self._progress_count = 0
        self._wake: anyio.Event | None = None
        self.closed = False

    def put(self, event: Event) -> None:
        """Add an event; after ``close`` do nothing."""
        if self.closed:
            return
        if isinstance(event, ToolProgress):
            newest = self._newest.get(event.call)
            if newest is not None and self._progress_count >= PROGRESS_BOUND:
                newest.value = event.value
                return
            self._newest[event.call] = report = _CoalescedProgress(event)
            self._progress_count += 1
            self._events.append(report)
        else:
            self._events.append(event)
        if self._wake is not None:
            self._wake.set()

    def close(self) -> None:
        """Declare that no event follows."""
        self.closed = True
        if self._wake is not None:
            self._wake.set()

    async def get(self) -> Event | None:
        """Return the next event, waiting for it; None if the queue is closed and empty."""
        return self._pop() if await self._has_events() else None

    async def get_all(self) -> list[Event]:
        """Return all events, waiting for the first; none if the queue is closed and empty."""
        return self.drain() if await self._has_events() else []

    async def _has_events(self) -> bool:
        """Wait for an event; return False if none follows."""
        while not self._events:
            if self.closed:
                return False
            if self._wake is None or self._wake.is_set():
                self._wake = anyio.Event()
            await self._wake.wait()
        return True

    def drain(self) -> list[Event]:
        """Remove and return all events."""
        return [self._pop() for _ in range(len(self._events))]

    def _pop(self) -> Event:
        event = self._events.popleft()
        if not isinstance(event, _CoalescedProgress):
            return event
        self._progress_count -= 1
        if self._newest.get(event.call) is event:
            del self._newest[event.call]
        return ToolProgress(event.call, event.value)
