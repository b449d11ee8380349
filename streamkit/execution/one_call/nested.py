"""A run as its calls use it: what records them, the call that a task is in, and what a run inside that takes from it.

A run that a tool makes has its key from the call's id, so that it is the same one at every attempt of the call. It
counts in the budget of the run around it, stores its entries with that run's, and ends with the call
(``docs/rules.md``, "Runs inside tools"). This module must not depend on how a run is made or stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Protocol
from weakref import WeakMethod

from streamkit.calls import ToolResult, Usage
from streamkit.tools import Approval

__all__ = ["OuterRun", "ResultRecorder", "RunningCall", "current_call"]


class ResultRecorder(Protocol):
    """What stores decisions and results of calls before they have an effect (``durable.recorder.Recorder``)."""

    async def approvals(self, approvals: Mapping[str, Approval | bool]) -> None:
        """Record decisions on calls, by the call's id, before the calls run."""

    async def start(self, call_id: str, *, is_once: bool) -> None:
        """Confirm, before a call starts, that it may; record the start of a call of ``once``."""

    async def result(self, result: ToolResult) -> None:
        """Record the result of a call, unless it is recorded."""


class OuterRun(Protocol):
    """A run, as its calls and the runs inside them use it (``run.loop_state.LoopState``)."""

    @property
    def fence(self) -> int | None:
        """The number of the claim on it; None without one."""

    def attempt(self, call_id: str) -> int:
        """Return the number of the attempt at a call, from 1."""

    @property
    def price(self) -> Callable[[Any], float] | None:
        """The prices of its budget."""

    @property
    def calls_left(self) -> int | None:
        """How many calls its budget still covers; None without a limit."""

    def is_over_budget(self) -> bool:
        """Return True if it has spent more than it may."""

    def spend(self, usage: Usage, cost: float) -> None:
        """Count what a turn of an inner run has used."""

    def spend_calls(self, calls: int) -> None:
        """Count calls of an inner run."""

    def inner_checkpoint(self, call_id: str) -> Any:
        """Return the checkpoint of a run inside a call; None if this run has none."""

    def inner_entries(self, run_key: str) -> list[Any]:
        """Remove and return the stored entries of a run inside a call; none if it is new."""


class RunningCall:
    """A call (its canonical id) that a run makes in the current task, and in those that it starts."""

    def __init__(self, call_id: str, run: OuterRun) -> None:
        self.call_id = call_id
        self.run = run
        # That cancel the runs inside; weak, because a call may make many.
        self._inner: list[WeakMethod[Callable[[], object]]] = []
        self._is_over = self._is_canceled = False
        self._calls: set[RunningCall] = set()  # of these runs, at any depth
        self._outer = _running_call.get()
        if self._outer is not None:
            self._outer._calls.add(self)
        _running_call.set(self)

    def next_run_key(self) -> str:
        """Return the key of the next run inside the call: its id, and from the second run on a number."""
        number = len(self._inner) + 1
        return self.call_id if number == 1 else f"{self.call_id}.{number}"

    def add(self, cancel: Callable[[], object]) -> None:
        """Add the method that cancels a run inside the call; call it if the call, or one around it, was canceled."""
        self._inner.append(WeakMethod(cancel))
        outermost: RunningCall | None = None
        call: RunningCall | None = self
        while call is not None:
            if call._is_canceled:
                outermost = call
            call = call._outer
        if outermost is not None:
            # Another thread may be canceling the runs in between: none of them may go on when this one has ended.
            outermost.cancel()

    def cancel(self) -> None:
        """Cancel the runs inside the call, also those that the thread of a synchronous tool may still make."""
        self._is_canceled = True
        for reference in self._inner:  # the outermost first: none may go on when one inside has ended
            if (cancel := reference()) is not None:
                cancel()
        for call in list(self._calls):
            call.cancel()

    def end(self) -> None:
        """Declare that the call is over: the runs of tasks that its tool has left are their own."""
        self._is_over = not self._is_canceled
        if self._outer is not None:
            self._outer._calls.discard(self)


def current_call() -> RunningCall | None:
    """Return the call in which this code runs, or None."""
    call = _running_call.get()
    return None if call is None or call._is_over else call


_running_call: ContextVar[RunningCall | None] = ContextVar("streamkit_running_call", default=None)
