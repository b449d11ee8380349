"""Which calls may start now: limits, exclusive tools and conflicts. Pure.

Calls are in the order in which they were made. The executor reports which started and which ended, and asks for the
next one. The rules are in ``docs/rules.md``, "Running calls". Of a call this module uses only its tool; it must not
depend on an event loop.

The places of schedules that a running tool occupies, and with which its own calls would wait for itself.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Container, Hashable, Mapping
from contextvars import ContextVar
from typing import Any, TypeVar

from streamkit.errors import UsageError
from streamkit.tools import Tool

__all__ = [
    "OccupiedPlace",
    "Schedule",
]


_Key = TypeVar("_Key")


class _ScheduledCall:
    __slots__ = ("execution", "in_turn", "order", "position", "ready", "started", "tool")

    def __init__(self, execution: _Execution, position: int, tool: Tool, *, in_turn: bool) -> None:
        self.execution = execution
        self.position = position
        self.order = (execution.arrival, position)
        self.tool = tool
        self.in_turn = in_turn
        self.ready = False
        self.started = False

    def __lt__(self, other: _ScheduledCall) -> bool:
        return self.order < other.order


class _Execution:
    """The calls of one owner that have not ended. Each list is in their order."""

    __slots__ = ("arrival", "calls", "not_ready", "ready")

    def __init__(self, arrival: int) -> None:
        self.arrival = arrival
        self.calls: list[_ScheduledCall] = []
        self.not_ready: dict[Tool, list[_ScheduledCall]] = {}
        self.ready: dict[tuple[Tool, bool], list[_ScheduledCall]] = {}  # not started; by tool and ``in_turn``


class Schedule:
    """The order of the calls of one event loop, and which of them may run concurrently.

    The public class of this name, in ``shared_schedule``, may be used in several threads.

    Args:
        limit: how many calls run at once, at least 1.

    Raises:
        UsageError: the limit is below 1.
    """

    def __init__(self, limit: int = 8) -> None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise UsageError(f"limit must be the number of tools that may run at once, at least 1, not {limit!r}")
        self.limit = limit
        self._by_key: dict[tuple[Hashable, int], _ScheduledCall] = {}  # the calls that have not ended
        self._executions: dict[Hashable, _Execution] = {}  # by owner, in order of their first call
        self._by_tool: dict[Tool, list[_ScheduledCall]] = {}  # ready or started, of all owners, in order
        self._arrivals = 0
        self._running = 0
        self._running_by_tool: dict[Tool, int] = {}
        self._listeners: dict[Hashable, Callable[[], Any]] = {}
        self._abandoned: list[tuple[_ScheduledCall, Callable[[], bool]]] = []  # without owner, until they have ended

    @property
    def is_shared(self) -> bool:
        """Whether several owners wait for places."""
        return len(self._listeners) > 1

    @property
    def running(self) -> int:
        """The number of calls that run, those that were given up included."""
        return self._running

    def subscribe(self, owner: Hashable, changed: Callable[[], Any]) -> None:
        """Call *changed* whenever a call of another owner has ended, so that *owner* can ask for its next call.

        It is called in the thread of that other owner, and must not wait.
        """
        self._listeners[owner] = changed

    def unregister(self, owner: Hashable) -> None:
        """Remove an owner and its calls."""
        self._listeners.pop(owner, None)
        execution = self._executions.pop(owner, None)
        if execution is not None and execution.calls:
            for call in list(execution.calls):
                self._remove(owner, call)
            self._notify()

    def add(self, owner: Hashable, position: int, tool: Tool, *, ready: bool = True, in_turn: bool = False) -> None:
        """Add a call of *owner*.

        Args:
            owner: the execution of the call; compared by identity.
            position: the call's position; calls of one owner go in this order, and owners in that of their first call.
            tool: the tool that it calls.
            ready: it may start; False while it awaits approval, or is not known to be complete.
            in_turn: it starts only when the earlier calls of its owner have ended.
        """
        execution = self._executions.get(owner)
        if execution is None:
            self._arrivals += 1
            execution = self._executions[owner] = _Execution(self._arrivals)
        call = self._by_key[owner, position] = _ScheduledCall(execution, position, tool, in_turn=in_turn)
        _insert_in_order(execution.calls, call)
        if ready:
            self._mark_ready(call)
        else:
            _insert(execution.not_ready, tool, call)

    def release(self, owner: Hashable, position: int) -> None:
        """Declare a call ready. Of a ready call: do nothing."""
        call = self._by_key[owner, position]
        if not call.ready:
            _delete(call.execution.not_ready, call.tool, call)
            self._mark_ready(call)

    def contains(self, owner: Hashable, position: int) -> bool:
        """Return True if a call was added and has not ended."""
        return (owner, position) in self._by_key

    def remove(self, owner: Hashable, position: int) -> None:
        """Remove a call that has ended or will not run. Of an unknown call: do nothing."""
        call = self._by_key.get((owner, position))
        if call is not None:
            self._remove(owner, call)
            self._notify(owner)

    def abandon(self, owner: Hashable, position: int, is_running: Callable[[], bool]) -> None:
        """Declare that a started call has its result and yet runs: it keeps its place while *is_running()*."""
        call = self._by_key.pop((owner, position))
        _delete_from(call.execution.calls, call)
        self._abandoned.append((call, is_running))
        self._notify()

    def release_ended(self) -> None:
        """Free the places of abandoned calls that have ended by now."""
        ended = [call for call, is_running in self._abandoned if not is_running()]
        if ended:
            self._abandoned = [each for each in self._abandoned if each[0] not in ended]
            for call in ended:
                self._free(call)
            self._notify()

    def find_blocked_by_abandoned(self, owner: Hashable) -> int | None:
        """Return the position of a call that only abandoned calls keep from starting; None if there is none."""
        execution = self._executions.get(owner)
        if execution is None or not self._abandoned or self._running > len(self._abandoned):
            return None
        abandoned = {id(call) for call, _ in self._abandoned}
        first = self._first_of_each_tool(execution, without=abandoned)
        call = _find_next(execution, first, {})
        return None if call is None else call.position

    def start_next(self, owner: Hashable) -> int | None:
        """Start the next call of *owner* that may start and return its position; None if none may now.

        A call of an exclusive tool starts when all before it have ended, and none after it starts before its own end.
        Of calls in conflict the first goes first; a call that waits for another reason lets those after it pass.
        """
        call = self._find_startable(owner)
        return None if call is None else self._start(call)

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
        if execution is None or not execution.ready or self._running >= self.limit:
            return None
        return _find_next(execution, self._first_of_each_tool(execution), self._running_by_tool)

    def _first_of_each_tool(self, execution: _Execution, without: Container[int] = ()) -> dict[Tool, _ScheduledCall]:
        """Return the first call of each tool that may block the calls of an execution.

        Calls of other executions that are not ready are left out: one may await approval for hours, which blocks its
        own execution and no other.
        """
        if without:
            first = {
                tool: kept[0]
                for tool, calls in self._by_tool.items()
                if (kept := [call for call in calls if id(call) not in without])
            }
        else:
            first = {tool: calls[0] for tool, calls in self._by_tool.items()}
        for tool, calls in execution.not_ready.items():
            first[tool] = min(first.get(tool, calls[0]), calls[0])
        return first

    def _start(self, call: _ScheduledCall) -> int:
        _delete(call.execution.ready, (call.tool, call.in_turn), call)
        call.started = True
        self._running += 1
        self._running_by_tool[call.tool] = self._running_by_tool.get(call.tool, 0) + 1
        return call.position

    def _mark_ready(self, call: _ScheduledCall) -> None:
        call.ready = True
        _insert(call.execution.ready, (call.tool, call.in_turn), call)
        _insert(self._by_tool, call.tool, call)

    def _remove(self, owner: Hashable, call: _ScheduledCall) -> None:
        del self._by_key[owner, call.position]
        _delete_from(call.execution.calls, call)
        if not call.ready:
            _delete(call.execution.not_ready, call.tool, call)
        elif call.started:
            self._free(call)
        else:
            _delete(self._by_tool, call.tool, call)
            _delete(call.execution.ready, (call.tool, call.in_turn), call)

    def _free(self, call: _ScheduledCall) -> None:
        _delete(self._by_tool, call.tool, call)
        self._running -= 1
        self._running_by_tool[call.tool] -= 1
        if not self._running_by_tool[call.tool]:
            del self._running_by_tool[call.tool]  # a schedule may outlive the tools of the runs that share it

    def _notify(self, causer: Hashable = None) -> None:
        for owner, changed in list(self._listeners.items()):
            if owner is not causer:
                changed()


def _insert(calls_by_key: dict[_Key, list[_ScheduledCall]], key: _Key, call: _ScheduledCall) -> None:
    _insert_in_order(calls_by_key.setdefault(key, []), call)


def _delete(calls_by_key: dict[_Key, list[_ScheduledCall]], key: _Key, call: _ScheduledCall) -> None:
    calls = calls_by_key[key]
    _delete_from(calls, call)
    if not calls:
        del calls_by_key[key]


def _insert_in_order(calls: list[_ScheduledCall], call: _ScheduledCall) -> None:
    if not calls or calls[-1].order < call.order:  # mostly: calls are added in their order
        calls.append(call)
    else:
        insort(calls, call)


def _delete_from(calls: list[_ScheduledCall], call: _ScheduledCall) -> None:
    del calls[0 if calls[0] is call else bisect_left(calls, call)]  # mostly calls end in about their order


def _find_next(
    execution: _Execution, first: Mapping[Tool, _ScheduledCall], running: Mapping[Tool, int]
) -> _ScheduledCall | None:
    """Return the call of an execution that may start now.

    Args:
        execution: the calls.
        first: the first call of each tool that may block them.
        running: how many calls of each tool run.
    """
    exclusive = [call for tool, call in first.items() if tool.exclusive]
    barrier = min(exclusive) if exclusive else None
    # What blocks the first call of a tool blocks those after it: only the first of each is examined.
    for call in sorted([calls[0] for calls in execution.ready.values()]):
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
        if (tool.conflicts_with or other.conflicts_with) and _is_conflict(tool, other):
            if head < call or other in running:
                return False
    return True


def _is_conflict(one: Tool, other: Tool) -> bool:
    return other.name in one.conflicts_with or one.name in other.conflicts_with


class OccupiedPlace:
    """The place of a schedule that the tool of the current task occupies, while it runs.

    Args:
        schedule: the schedule of the tool's call.
    """

    def __init__(self, schedule: Schedule) -> None:
        self._schedule: Schedule | None = schedule
        _occupied_places.set((*_occupied_places.get(), self))

    def leave(self) -> None:
        """Declare that the tool has ended. Tasks that it has left have a copy of its context."""
        self._schedule = None

    @staticmethod
    def check_outside_of(schedule: Schedule) -> None:
        """Reject a schedule in which the running tool, or one around it, occupies a place.

        Raises:
            UsageError: it is such a schedule: the calls might wait for the tool that waits for them.
        """
        if any(place._schedule is schedule for place in _occupied_places.get()):
            raise UsageError(
                "this Schedule runs the tool that uses it, whose calls would wait for the place that the tool occupies:"
                " pass another Schedule, or a number, as limit= inside a tool"
            )


_occupied_places: ContextVar[tuple[OccupiedPlace, ...]] = ContextVar("streamkit_occupied_places", default=())
