"""Which calls may start now: limits, exclusive tools and conflicts. Pure.

Calls are in the order in which they were made. The executor reports which started and which ended, and asks for the
next one. The rules are in ``docs/rules.md``, "Running calls". Of a call this module uses only its tool; it must not
depend on an event loop, nor on threads: ``Schedule`` in ``executors`` is the form that several of them may share.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Mapping
from contextvars import ContextVar
from typing import Any

from msgspec import Struct

from streamkit.errors import UsageError
from streamkit.tools import Tool

__all__ = [
    "OccupiedPlace",
    "Scheduler",
]


class _ScheduledCall(Struct, eq=False):
    """A call that has not ended, or has been given up and runs."""

    execution: _Execution
    position: int
    order: tuple[int, int]  # over all executions
    tool: Tool
    in_turn: bool
    ready: bool = False
    started: bool = False

    def __lt__(self, other: _ScheduledCall) -> bool:
        return self.order < other.order


class _Execution(Struct, eq=False):
    """The calls of one owner that have not ended. Each list is in their order, and may be empty."""

    arrival: int
    waiting: int = 0  # how many are ready and have not started
    calls: list[_ScheduledCall] = []
    not_ready: dict[Tool, list[_ScheduledCall]] = {}
    # Those that wait, by tool and ``in_turn``.
    ready: dict[tuple[Tool, bool], list[_ScheduledCall]] = {}


class Scheduler:
    """The order of the calls of one event loop, and which of them may run concurrently.

    Args:
        limit: how many calls run at once, at least 1.

    Attributes:
        running: how many calls run, those that were given up included.
        is_shared: several owners wait for places.
        has_abandoned: calls that were given up occupy places.

    Raises:
        UsageError: the limit is below 1.
    """

    def __init__(self, limit: int = 8) -> None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise UsageError(f"limit must be the number of tools that may run at once, at least 1, not {limit!r}")
        self.limit = limit
        self.running: int = 0
        self.is_shared: bool = False
        self.has_abandoned: bool = False
        self._by_key: dict[tuple[Hashable, int], _ScheduledCall] = {}  # the calls that have not ended
        self._executions: dict[Hashable, _Execution] = {}  # by owner, in order of their first call
        self._by_tool: dict[Tool, list[_ScheduledCall]] = {}  # ready or started, of all owners, in order
        self._arrivals = 0
        self._running_by_tool: dict[Tool, int] = {}
        self._listeners: dict[Hashable, Callable[[], Any]] = {}
        self._abandoned: list[tuple[_ScheduledCall, Callable[[], bool]]] = []  # without owner, until they have ended

    def subscribe(self, owner: Hashable, changed: Callable[[], Any]) -> None:
        """Call *changed* whenever a call of another owner has ended, so that *owner* can ask for its next call.

        It must not wait.
        """
        self._listeners[owner] = changed
        self.is_shared = len(self._listeners) > 1

    def unregister(self, owner: Hashable) -> None:
        """Remove an owner and its calls."""
        self._listeners.pop(owner, None)
        self.is_shared = len(self._listeners) > 1
        execution = self._executions.pop(owner, None)
        if execution is not None and execution.calls:
            self.remove(owner, *[call.position for call in execution.calls])

    def add(self, owner: Hashable, position: int, tool: Tool, *, ready: bool = True, in_turn: bool = False) -> None:
        """Add a call of *owner*. Of a call that was added before, only ``ready`` counts.

        Args:
            owner: the execution of the call; compared by identity.
            position: the call's position; calls of one owner go in this order, and owners in that of their first call.
            tool: the tool that it calls.
            ready: it may start; False while it awaits approval, or is not known to be complete.
            in_turn: it starts only when the earlier calls of its owner have ended.
        """
        if (owner, position) in self._by_key:
            if ready:
                self.release(owner, position)
            return
        execution = self._executions.get(owner)
        if execution is None:
            self._arrivals += 1
            execution = self._executions[owner] = _Execution(self._arrivals)
        call = _ScheduledCall(execution, position, (execution.arrival, position), tool, in_turn)
        self._by_key[owner, position] = call
        _insert(execution.calls, call)
        if ready:
            self._mark_ready(call)
        else:
            _insert(execution.not_ready.setdefault(tool, []), call)

    def release(self, owner: Hashable, position: int) -> None:
        """Declare a call ready. Of a ready call: do nothing."""
        call = self._by_key[owner, position]
        if not call.ready:
            _delete(call.execution.not_ready[call.tool], call)
            self._mark_ready(call)

    def remove(self, owner: Hashable, *positions: int) -> None:
        """Remove calls that have ended or will not run. Of an unknown call: do nothing."""
        has_removed = False
        for position in positions:
            call = self._by_key.pop((owner, position), None)
            if call is None:
                continue
            has_removed = True
            execution = call.execution
            _delete(execution.calls, call)
            if not call.ready:
                _delete(execution.not_ready[call.tool], call)
                continue
            if not call.started:
                _delete(execution.ready[call.tool, call.in_turn], call)
                execution.waiting -= 1
            self._free(call)
        if has_removed:
            self._notify(owner)

    def abandon(self, owner: Hashable, position: int, is_running: Callable[[], bool]) -> None:
        """Declare that a started call has its result and yet runs: it keeps its place while *is_running()*."""
        call = self._by_key.pop((owner, position))
        _delete(call.execution.calls, call)
        self._abandoned.append((call, is_running))
        self.has_abandoned = True
        self._notify()

    def release_ended(self) -> None:
        """Free the places of abandoned calls that have ended by now."""
        ended = [call for call, is_running in self._abandoned if not is_running()]
        if ended:
            self._abandoned = [each for each in self._abandoned if each[0] not in ended]
            self.has_abandoned = bool(self._abandoned)
            for call in ended:
                self._free(call)
            self._notify()

    def find_blocked_by_abandoned(self, owner: Hashable) -> int | None:
        """Return the position of a call that only abandoned calls keep from starting; None if there is none."""
        execution = self._executions.get(owner)
        if execution is None or not self._abandoned or self.running > len(self._abandoned):
            return None
        abandoned = {call for call, _ in self._abandoned}
        first = {
            tool: kept[0]
            for tool, calls in self._by_tool.items()
            if (kept := [call for call in calls if call not in abandoned])
        }
        call = _find_next(execution, first, {})
        return None if call is None else call.position

    def start_next(self, owner: Hashable) -> int | None:
        """Start the next call of *owner* that may start and return its position; None if none may now.

        A call of an exclusive tool starts when all before it have ended, and none after it starts before its own end.
        Of calls in conflict the first goes first; a call that waits for another reason lets those after it pass.
        """
        call = self._find_startable(owner)
        if call is None:
            return None
        _delete(call.execution.ready[call.tool, call.in_turn], call)
        call.execution.waiting -= 1
        call.started = True
        self.running += 1
        self._running_by_tool[call.tool] = self._running_by_tool.get(call.tool, 0) + 1
        return call.position

    def count_waiting(self, owner: Hashable) -> int:
        """Return how many calls of *owner* are ready and have not started."""
        return self._executions[owner].waiting if owner in self._executions else 0

    def can_start(self, owner: Hashable) -> bool:
        """Return True if a call of *owner* may start now."""
        return self._find_startable(owner) is not None

    def is_blocked_by_others(self, owner: Hashable) -> bool:
        """Return True if only the calls of other owners block those of *owner*, of which none runs."""
        execution = self._executions.get(owner)
        if execution is None:
            return False
        return _find_next(execution, {call.tool: call for call in reversed(execution.calls)}, {}) is not None

    # ---------------------------------------------------------------- internals

    def _find_startable(self, owner: Hashable) -> _ScheduledCall | None:
        if self._abandoned:
            self.release_ended()
        execution = self._executions.get(owner)
        if execution is None or not execution.waiting or self.running >= self.limit:
            return None
        if len(self._by_key) == 1 and not self._abandoned:
            return execution.calls[0]  # the only call: nothing can block it
        return _find_next(execution, {tool: calls[0] for tool, calls in self._by_tool.items()}, self._running_by_tool)

    def _mark_ready(self, call: _ScheduledCall) -> None:
        call.ready = True
        call.execution.waiting += 1
        _insert(call.execution.ready.setdefault((call.tool, call.in_turn), []), call)
        _insert(self._by_tool.setdefault(call.tool, []), call)

    def _free(self, call: _ScheduledCall) -> None:
        """Remove a call that was ready, with its place if it has started."""
        calls = self._by_tool[call.tool]
        _delete(calls, call)
        if not calls:
            del self._by_tool[call.tool]  # a schedule may outlive the tools of the runs that share it
        if call.started:
            self.running -= 1
            self._running_by_tool[call.tool] -= 1
            if not self._running_by_tool[call.tool]:
                del self._running_by_tool[call.tool]

    def _notify(self, causer: Hashable = None) -> None:
        for owner, changed in list(self._listeners.items()):
            if owner is not causer:
                changed()


def _insert(calls: list[_ScheduledCall], call: _ScheduledCall) -> None:
    if not calls or calls[-1].order < call.order:  # mostly: calls are added in their order
        calls.append(call)
    else:
        insort(calls, call)


def _delete(calls: list[_ScheduledCall], call: _ScheduledCall) -> None:
    del calls[0 if calls[0] is call else bisect_left(calls, call)]  # mostly calls end in about their order


def _find_next(
    execution: _Execution, first: dict[Tool, _ScheduledCall], running: Mapping[Tool, int]
) -> _ScheduledCall | None:
    """Return the call of an execution that may start now.

    *first* has the first call of each tool, ready or started, that may block it. Calls of other executions that are
    not ready are left out: one may await approval for hours, which blocks its own execution and no other.
    """
    # What blocks the first call of a tool blocks those after it: only the first of each is examined.
    candidates = sorted([calls[0] for calls in execution.ready.values() if calls])
    for tool, calls in execution.not_ready.items():
        if calls:
            first[tool] = min(first.get(tool, calls[0]), calls[0])
    barrier: _ScheduledCall | None = None  # the first call of an exclusive tool
    for tool, call in first.items():
        if tool.exclusive and (barrier is None or call < barrier):
            barrier = call
    for call in candidates:
        if barrier is not None and barrier < call:
            return None
        if _can_start(call, first, running):
            return call
    return None


def _can_start(call: _ScheduledCall, first: Mapping[Tool, _ScheduledCall], running: Mapping[Tool, int]) -> bool:
    tool = call.tool
    if tool.exclusive:
        return not running and not any(other < call for other in first.values())
    if call.in_turn and call.execution.calls[0] is not call:
        return False
    if tool.limit is not None and running.get(tool, 0) >= tool.limit:
        return False
    for other, head in first.items():
        is_conflict = other.name in tool.conflicts_with or tool.name in other.conflicts_with
        if is_conflict and (head < call or other in running):
            return False
    return True


class OccupiedPlace:
    """The place of a schedule that the tool of the current task occupies, and for which its own calls would wait.

    Args:
        schedule: the schedule of the tool's call.

    Attributes:
        schedule: the same; None once the tool has ended. Tasks that it has left have a copy of its context.
    """

    def __init__(self, schedule: Scheduler) -> None:
        self.schedule: Scheduler | None = schedule
        _occupied_places.set((*_occupied_places.get(), self))

    @staticmethod
    def check_outside_of(schedule: Scheduler) -> None:
        """Reject a schedule in which the running tool, or one around it, occupies a place.

        Raises:
            UsageError: it is such a schedule: the calls might wait for the tool that waits for them.
        """
        if any(place.schedule is schedule for place in _occupied_places.get()):
            raise UsageError(
                "this Schedule runs the tool that uses it, whose calls would wait for the place that the tool occupies:"
                " pass another Schedule, or a number, as limit= inside a tool"
            )


_occupied_places: ContextVar[tuple[OccupiedPlace, ...]] = ContextVar("streamkit_occupied_places", default=())
