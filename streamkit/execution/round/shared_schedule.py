"""``Schedule``: the limits that several executions share, also from the threads of several event loops.

The rules are in ``scheduler``; here each operation on them is made whole, because a thread may be interrupted between
any two steps. This module must not depend on an event loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any

from streamkit.execution.round import scheduler
from streamkit.tools import Tool

__all__ = ["Schedule", "to_schedule"]


class Schedule(scheduler.Schedule):
    """The order of calls, and which of them may run concurrently.

    Shared by several executions (``limit=`` takes a ``Schedule`` in place of a number), its limits apply to all of them
    together: the limit, those of single tools, exclusive tools and conflicts. An execution inside a tool must not share
    the schedule of that tool, since the tool occupies the place that its own calls wait for: that is a ``UsageError``.
    A synchronous tool that was given up occupies its place until its thread returns. The executions may be in several
    event loops, in threads of their own, as those of a web server that is not asynchronous are.

    Args:
        limit: how many calls run at once, at least 1.

    Raises:
        UsageError: the limit is below 1.
    """

    def __init__(self, limit: int = 8) -> None:
        super().__init__(limit)
        self._lock = threading.RLock()  # held for moments: nothing is waited for meanwhile

    def __reduce__(self) -> tuple[type[Schedule], tuple[int]]:
        # A copy, such as one in a copied configuration or another process, is another schedule with that limit.
        return type(self), (self.limit,)

    def subscribe(self, owner: Hashable, changed: Callable[[], Any]) -> None:
        """As in ``scheduler.Schedule``, like all that follows."""
        with self._lock:
            super().subscribe(owner, changed)

    def unregister(self, owner: Hashable) -> None:  # noqa: D102
        with self._lock:
            super().unregister(owner)

    def add(  # noqa: D102
        self, owner: Hashable, position: int, tool: Tool, *, ready: bool = True, in_turn: bool = False
    ) -> None:
        with self._lock:
            super().add(owner, position, tool, ready=ready, in_turn=in_turn)

    def release(self, owner: Hashable, position: int) -> None:  # noqa: D102
        with self._lock:
            super().release(owner, position)

    def remove(self, owner: Hashable, position: int) -> None:  # noqa: D102
        with self._lock:
            super().remove(owner, position)

    def abandon(self, owner: Hashable, position: int, is_running: Callable[[], bool]) -> None:  # noqa: D102
        with self._lock:
            super().abandon(owner, position, is_running)

    def release_ended(self) -> None:  # noqa: D102
        with self._lock:
            super().release_ended()

    def find_blocked_by_abandoned(self, owner: Hashable) -> int | None:  # noqa: D102
        with self._lock:
            return super().find_blocked_by_abandoned(owner)

    def start_next(self, owner: Hashable) -> int | None:  # noqa: D102
        with self._lock:
            return super().start_next(owner)

    def can_start(self, owner: Hashable) -> bool:  # noqa: D102
        with self._lock:
            return super().can_start(owner)

    def is_blocked_by_others(self, owner: Hashable) -> bool:  # noqa: D102
        with self._lock:
            return super().is_blocked_by_others(owner)


def to_schedule(limit: int | scheduler.Schedule) -> scheduler.Schedule:
    """Return a schedule unchanged, and a number as the limit of one for a single execution or run.

    Raises:
        UsageError: the limit is below 1.
    """
    return limit if isinstance(limit, scheduler.Schedule) else scheduler.Schedule(limit)
