"""Tasks for the calls of an execution, a new one for each call.

What a tool leaves open ends with its task. A tool that leaves its task in disorder (an open scope or task group) breaks
the task group around it, so that these tasks are in no group with others: on asyncio plain tasks, which cost a sixth of
those of a group of anyio, on trio system tasks with a group for each call. The scopes of the caller do not include
them: the executor cancels them, and of these scopes only the deadline is passed on.

This module must not depend on tools, nor on what decides which call is next.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any

import anyio
import anyio.lowlevel

from streamkit.execution.one_call.background import asyncio_event_loop

__all__ = ["CallTasks"]


class CallTasks:
    """The tasks of calls. They get the deadline and the context variables of the task that creates this object.

    Args:
        run: runs the call at a position in the current task.
        failed: called with an exception that ``run`` raised, unless the task was cancelled.

    Attributes:
        is_closed: no further call starts.
    """

    def __init__(
        self, run: Callable[[int], Coroutine[Any, Any, None]], failed: Callable[[BaseException], None]
    ) -> None:
        self._run = run
        self._failed = failed
        self._context = copy_context()  # a task inherits that of its starter, which may be another call's
        self._deadline = anyio.current_effective_deadline()
        self._event_loop = asyncio_event_loop()
        self._tasks: dict[int, asyncio.Task[None]] = {}  # by number: those that have not ended in order, on asyncio
        self._started = 0
        self._running = 0  # how many have not ended, on trio
        self._ended = anyio.Event()  # set when the last one has ended after ``close``, on trio
        self._to_begin: deque[int] = deque()  # positions of started calls whose tasks have not begun, on trio
        self.is_closed = False

    def start(self, position: int) -> None:
        """Start a call; after ``close`` do nothing."""
        if self.is_closed:
            return
        if self._event_loop is not None:
            # Not by the event loop's factory: an eager one would run the tool here, at the end of another call.
            self._started = number = self._started + 1
            work, context = self._run_in_task(position, number), self._context.copy()
            self._tasks[number] = asyncio.Task(work, loop=self._event_loop, context=context)
        else:
            import trio  # only where it is running already

            self._to_begin.append(position)
            self._running += 1
            trio.lowlevel.spawn_system_task(self._run_in_group, position, context=self._context.copy())

    def close(self) -> None:
        """Reject further calls, and those whose tasks have not begun."""
        self.is_closed = True

    async def wait(self) -> None:
        """Wait, after ``close``, for the end of all tasks, even if the caller is cancelled meanwhile, repeatedly."""
        interruption: BaseException | None = None
        while self._running or not all(task.done() for task in self._tasks.values()):
            try:
                with anyio.CancelScope(shield=True):
                    if self._event_loop is not None:
                        await asyncio.wait(list(self._tasks.values()))
                    else:
                        await self._ended.wait()
            except asyncio.CancelledError as error:  # asyncio's own cancel() ignores shields
                interruption = error
        for task in self._tasks.values():
            if not task.cancelled():
                task.exception()  # else asyncio would log that it was never read: ``failed`` has reported it
        if interruption is not None:
            raise interruption

    async def _run_in_task(self, position: int, number: int) -> None:
        await (self._run_one(position) if self._deadline == math.inf else self._run_in_time(position))
        del self._tasks[number]  # the last step of the task; a callback at its end would cost one of the event loop

    async def _run_in_group(self, position: int) -> None:
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._run_in_order, position)
        except BaseExceptionGroup:
            pass  # a failure that was reported, or trio's report that a tool has left its task in disorder
        finally:
            self._running -= 1
            if self.is_closed and not self._running:
                self._ended.set()

    async def _run_in_order(self, position: int) -> None:
        while self._to_begin[0] != position:  # calls begin in their order; trio starts tasks in any order
            await anyio.lowlevel.checkpoint()
        self._to_begin.popleft()
        await (self._run_one(position) if self._deadline == math.inf else self._run_in_time(position))

    async def _run_in_time(self, position: int) -> None:
        has_ended = False
        try:
            with anyio.CancelScope(deadline=self._deadline) as scope:
                if not scope.cancel_called:
                    await self._run_one(position)
                has_ended = True
        except RuntimeError:
            if not has_ended:
                raise
            # The event loop's report that a tool has left its task in disorder.

    async def _run_one(self, position: int) -> None:
        if self.is_closed:
            return
        try:
            await self._run(position)
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as error:
            self._failed(error)
            raise
