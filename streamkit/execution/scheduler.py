"""Which calls may begin now: how many at once, how many of one tool, which alone, which not beside which. Pure.

Calls stand in the order in which they were made. It is told which began and which ended, and says which is next. It
knows of a call no more than its tool; it runs nothing and waits for nothing.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from streamkit.errors import UsageError
from streamkit.tools import Tool

__all__ = ["Schedule"]


_Kind = TypeVar("_Kind")


class _Entry:
    __slots__ = ("started", "in_turn", "order", "owner", "position", "ready", "tool")

    def __init__(self, owner: _Execution, position: int, tool: Tool, *, in_turn: bool) -> None:
        self.owner = owner
        self.position = position
        self.order = (owner.arrival, position)
        self.tool = tool
        self.in_turn = in_turn
        self.ready = False
        self.started = False

    def __lt__(self, other: _Entry) -> bool:
        return self.order < other.order


class _Execution:
    """The calls of one owner that have not ended. Each list is in their order."""

    __slots__ = ("arrival", "calls", "not_ready", "ready")

    def __init__(self, arrival: int) -> None:
        self.arrival = arrival
        self.calls: list[_Entry] = []
        self.not_ready: dict[Tool, list[_Entry]] = {}
        self.ready: dict[tuple[Tool, bool], list[_Entry]] = {}  # and not begun; by tool, and whether they go in turn


class Schedule:
    """The order of calls, and what may run beside what.

    Shared by several executions (``limit=`` takes one in place of a number) its limits hold for all of them together:
    the limit, those of single tools, exclusive tools and tools in conflict. An execution inside of a tool must not
    share that of the tool: the tool would hold the place that its own calls wait for.

    Args:
        limit: how many calls run at once, at least 1.

    Raises:
        UsageError: the limit is below 1.
    """

    def __init__(self, limit: int = 8) -> None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise UsageError(f"limit is how many tools may run at once, at least 1, not {limit!r}")
        self.limit = limit
        self._by_key: dict[tuple[Hashable, int], _Entry] = {}  # that have not ended
        self._owners: dict[Hashable, _Execution] = {}  # in order of their first call
        self._shown: dict[Tool, list[_Entry]] = {}  # whoever's: ready or begun, in order
        self._arrivals = 0
        self._running = 0
        self._running_of: Counter[Tool] = Counter()
        self._listeners: dict[Hashable, Callable[[], Any]] = {}

    @property
    def running(self) -> int:
        """How many calls run."""
        return self._running

    def subscribe(self, owner: Hashable, changed: Callable[[], Any]) -> None:
        """Have *changed* called when something ended, so that *owner* may ask for its next call."""
        self._listeners[owner] = changed

    def unregister(self, owner: Hashable) -> None:
        """The owner is done: forget it and what it still has here."""
        self._listeners.pop(owner, None)
        left = self._owners.pop(owner, None)
        if left is not None and left.calls:
            for entry in list(left.calls):
                self._forget(owner, entry)
            self._notify()

    def add(self, owner: Hashable, position: int, tool: Tool, *, ready: bool = True, in_turn: bool = False) -> None:
        """A call of *owner*, at its position among the owner's calls.

        Args:
            owner: whose call it is; compared by identity.
            position: its place; calls of one owner go in this order, and owners in that of their first call.
            tool: what it calls.
            ready: it may begin; not while somebody must agree first, or while it is not known to be whole.
            in_turn: it begins when the calls of its owner before it have ended.
        """
        its = self._owners.get(owner)
        if its is None:
            self._arrivals += 1
            its = self._owners[owner] = _Execution(self._arrivals)
        entry = self._by_key[owner, position] = _Entry(its, position, tool, in_turn=in_turn)
        insort(its.calls, entry)
        if ready:
            self._show(entry)
        else:
            _put(its.not_ready, tool, entry)

    def release(self, owner: Hashable, position: int) -> None:
        """A call that was not ready is. One that was: nothing happens."""
        entry = self._by_key[owner, position]
        if not entry.ready:
            _take(entry.owner.not_ready, entry.tool, entry)
            self._show(entry)

    def contains(self, owner: Hashable, position: int) -> bool:
        """Whether a call is here: added, and not ended."""
        return (owner, position) in self._by_key

    def remove(self, owner: Hashable, position: int) -> None:
        """A call has ended, or will not run. Not one that is here: nothing happens."""
        entry = self._by_key.get((owner, position))
        if entry is not None:
            self._forget(owner, entry)
            self._notify()

    def start_next(self, owner: Hashable) -> int | None:
        """Begin the next call of *owner* that may, and give its position; None where none may now.

        A call of an exclusive tool begins when all before it have ended, and none behind it begins before its own end.
        Of calls in conflict the first goes first; calls that wait for another reason let those behind them pass.
        """
        its = self._owners.get(owner)
        if its is None or not its.ready or self._running >= self.limit:
            return None
        entry = _next(its, self._first_of_each_tool(its), self._running_of)
        return None if entry is None else self._begin(entry)

    def is_blocked_by_others(self, owner: Hashable) -> bool:
        """Whether an owner of whose calls none runs has one that could begin if those of others were not there."""
        its = self._owners.get(owner)
        if its is None:
            return False
        return _next(its, {entry.tool: entry for entry in reversed(its.calls)}, Counter()) is not None

    # ---------------------------------------------------------------- inside

    def _first_of_each_tool(self, its: _Execution) -> dict[Tool, _Entry]:
        """The first call of each tool that an owner's calls have to heed.

        Not those of others that are not ready: one may wait for somebody's answer for hours, which holds up its own
        turn and no other.
        """
        first = {tool: line[0] for tool, line in self._shown.items()}
        for tool, line in its.not_ready.items():
            first[tool] = min(first.get(tool, line[0]), line[0])
        return first

    def _begin(self, entry: _Entry) -> int:
        _take(entry.owner.ready, (entry.tool, entry.in_turn), entry)
        entry.started = True
        self._running += 1
        self._running_of[entry.tool] += 1
        return entry.position

    def _show(self, entry: _Entry) -> None:
        entry.ready = True
        _put(entry.owner.ready, (entry.tool, entry.in_turn), entry)
        _put(self._shown, entry.tool, entry)

    def _forget(self, owner: Hashable, entry: _Entry) -> None:
        del self._by_key[owner, entry.position]
        del entry.owner.calls[bisect_left(entry.owner.calls, entry)]
        if not entry.ready:
            _take(entry.owner.not_ready, entry.tool, entry)
            return
        _take(self._shown, entry.tool, entry)
        if not entry.started:
            _take(entry.owner.ready, (entry.tool, entry.in_turn), entry)
            return
        self._running -= 1
        self._running_of[entry.tool] -= 1
        if not self._running_of[entry.tool]:
            del self._running_of[entry.tool]  # a schedule may outlive the tools of the runs that share it

    def _notify(self) -> None:
        for changed in list(self._listeners.values()):
            changed()


def _put(lines: dict[_Kind, list[_Entry]], kind: _Kind, entry: _Entry) -> None:
    insort(lines.setdefault(kind, []), entry)


def _take(lines: dict[_Kind, list[_Entry]], kind: _Kind, entry: _Entry) -> None:
    line = lines[kind]
    del line[bisect_left(line, entry)]
    if not line:
        del lines[kind]


def _next(its: _Execution, first: dict[Tool, _Entry], running: Counter[Tool]) -> _Entry | None:
    """Which of an owner's calls may begin now, given the first call of each tool that it has to heed, and what runs."""
    barrier = min((entry for tool, entry in first.items() if tool.exclusive), default=None)
    # What holds up the first call of a tool holds up those behind it: only the first of each need be looked at.
    for entry in sorted([line[0] for line in its.ready.values()]):
        if barrier is not None and barrier < entry:
            return None
        if _may_begin(entry, first, running):
            return entry
    return None


def _may_begin(entry: _Entry, first: dict[Tool, _Entry], running: Counter[Tool]) -> bool:
    tool = entry.tool
    if tool.exclusive:
        return not running and not any(other < entry for other in first.values())
    if entry.in_turn and entry.owner.calls[0] is not entry:
        return False
    if tool.limit is not None and running[tool] >= tool.limit:
        return False
    return not any(_conflict(tool, other) and (head < entry or running[other]) for other, head in first.items())


def _conflict(one: Tool, other: Tool) -> bool:
    return other.name in one.conflicts_with or one.name in other.conflicts_with
