"""The tasks of an execution's calls: each call in a task of its own, so that what its tool leaves open ends with it.

A tool that leaves its task in disorder (an open scope or task group) breaks the task group around it, which therefore
must not be that of other calls that run. A group costs as much as two tasks, so it is used again: calls that follow one
another have their tasks in one group, as long as each of them ends in order.

This module must not depend on tools, nor on what decides which call is next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import copy_context

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

__all__ = ["CallTasks"]


class CallTasks:
    """The tasks in which calls run.

    Args:
        tasks: the group that they end with.
        run: runs the call at a position in the current task, and returns whether its tool has left that in order.
        start_next: called when a call has ended; it returns the position of the one that is to follow, or None.
    """

    def __init__(
        self, tasks: TaskGroup, run: Callable[[int], Awaitable[bool]], start_next: Callable[[], int | None]
    ) -> None:
        self._tasks = tasks
        self._run = run
        self._start_next = start_next
        self._context = copy_context()  # a task inherits that of its starter, which may be another call's
        self._to_begin: deque[int] = deque()  # positions of started calls whose tasks have not begun

    def start(self, position: int) -> None:
        """Start a call, and after it those that follow."""
        self._to_begin.append(position)
        self._tasks.start_soon(self._run_series, position)

    async def _run_series(self, first: int) -> None:
        position: int | None = first
        while position is not None:
            failures: list[BaseException] = []
            try:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._run_one, position, group, failures)
            except BaseExceptionGroup:
                if failures:
                    raise failures[0] from None
                # What remains is the event loop's report that a tool has left its task in disorder.
            await anyio.lowlevel.checkpoint_if_cancelled()
            position = self._start_next()
            if position is not None:
                self._to_begin.append(position)

    async def _run_one(self, position: int, group: TaskGroup, failures: list[BaseException]) -> None:
        try:
            while self._to_begin[0] != position:  # calls begin in their order; trio starts tasks in any order
                await anyio.lowlevel.checkpoint()
            self._to_begin.popleft()
            is_in_order = await self._run(position)
        except BaseException as error:  # a cancellation or an interrupt
            failures.append(error)
            raise
        if is_in_order:
            await anyio.lowlevel.checkpoint_if_cancelled()  # nothing more may start
            following = self._start_next()
            if following is not None:
                self._to_begin.append(following)
                self._context.run(group.start_soon, self._run_one, following, group, failures)
