"""What executors run on: a task of one's own, and what it has to say to a reader who may be slow.

A task group may not stay open across a ``yield``, and an execution may: people hold one in the generators of their web
frameworks, which are then closed from another task. So the work runs in a task that belongs to the execution and to no
scope of the caller's: on asyncio a plain task, on trio a system task (a nursery would be the caller's scope again). The
scopes of the work are entered and left inside that task; it never ends in an exception, and whoever closes the
execution, from whichever task, cancels it and waits for its end. It knows nothing of tools.
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

__all__ = ["PROGRESS_BOUND", "EventQueue", "BackgroundTask", "asyncio_task"]

#: Unread progress events of one execution; beyond them a call's newest value replaces its last unread one.
PROGRESS_BOUND = 256


def asyncio_task() -> asyncio.Task[Any] | None:
    """The task that runs this, where it is one of asyncio's; None on trio."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


class BackgroundTask:
    """A task that runs *work* from now on, until it ends or is closed."""

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self._crash: BaseException | None = None
        self._start()

    def _start(self) -> None:
        if asyncio_task() is not None:
            self._task = asyncio.create_task(self._run())  # kept, since the loop holds tasks only weakly
            self._task.add_done_callback(lambda _: self._ended.set())  # also where it is cancelled before it began
        else:
            import trio  # only where it is running already

            trio.lowlevel.spawn_system_task(self._run, context=contextvars.copy_context())

    async def _run(self) -> None:
        try:
            with self._scope:
                await self._work()
        except (Exception, KeyboardInterrupt, SystemExit, BaseExceptionGroup) as crash:
            self._crash = crash  # a KeyboardInterrupt in a tool, or a fault of ours: it is the owner's
        finally:
            self._ended.set()

    async def aclose(self) -> None:
        """Cancel the work and wait until it has ended, however often the caller is cancelled meanwhile.

        Raises:
            BaseException: what the work itself ended in, such as a KeyboardInterrupt.
        """
        self._scope.cancel()
        interrupted: BaseException | None = None
        while not self._ended.is_set():
            try:
                with anyio.CancelScope(shield=True):
                    await self._ended.wait()
            except anyio.get_cancelled_exc_class() as error:  # asyncio's own cancel() knows no shield
                interrupted = error
        crash, self._crash = self._crash, None
        if crash is not None:
            raise crash
        if interrupted is not None:
            raise interrupted


class _CoalescedProgress:
    """An unread report; its value may still be replaced by a newer one."""

    __slots__ = ("call", "value")

    def __init__(self, event: ToolProgress) -> None:
        self.call = event.call
        self.value = event.value


class EventQueue:
    """Events on their way to one reader. Writing never waits.

    What it can hold is bounded: each call has a fixed number of events beside its progress, and of progress no more
    than ``PROGRESS_BOUND`` and one for each call are kept.
    """

    def __init__(self) -> None:
        self._events: deque[Event | _CoalescedProgress] = deque()
        self._last: dict[CallRef, _CoalescedProgress] = {}  # each call's newest unread report
        self._reports = 0
        self._wake: anyio.Event | None = None
        self.closed = False

    def put(self, event: Event) -> None:
        """Add an event; without a reader it is lost."""
        if self.closed:
            return
        if isinstance(event, ToolProgress):
            last = self._last.get(event.call)
            if last is not None and self._reports >= PROGRESS_BOUND:
                last.value = event.value
                return
            self._last[event.call] = report = _CoalescedProgress(event)
            self._reports += 1
            self._events.append(report)
        else:
            self._events.append(event)
        if self._wake is not None:
            self._wake.set()

    def close(self) -> None:
        """Nothing more will be added."""
        self.closed = True
        if self._wake is not None:
            self._wake.set()

    async def get(self) -> Event | None:
        """The next event, waited for; None where there will be none."""
        while not self._events:
            if self.closed:
                return None
            if self._wake is None or self._wake.is_set():
                self._wake = anyio.Event()
            await self._wake.wait()
        return self._next()

    def take(self) -> list[Event]:
        """All that is there now."""
        return [self._next() for _ in range(len(self._events))]

    def _next(self) -> Event:
        event = self._events.popleft()
        if not isinstance(event, _CoalescedProgress):
            return event
        self._reports -= 1
        if self._last.get(event.call) is event:
            del self._last[event.call]
        return ToolProgress(event.call, event.value)
