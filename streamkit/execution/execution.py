"""One execution: the calls of a round, run, watched, and each given its ending.

What a call's result is, ``calling`` decides; which may run beside which, ``schedule``; what the round makes of it,
``rounds``. Here is the task that all of it happens in, and that every call gets its ending, whoever leaves and whatever
is cancelled.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from types import TracebackType
from typing import Any

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from streamkit.calls import CallRef, StreamWarning, ToolCall, ToolResult
from streamkit.errors import UsageError
from streamkit.events import Event, ToolEvent, Warned
from streamkit.execution.background import BackgroundTask, EventQueue
from streamkit.execution.early import EagerCalls
from streamkit.execution.round import Round
from streamkit.execution.run_tool import (
    CANCELED,
    Approve,
    PreparedCall,
    apply_approval,
    missing_approval_result,
    prepare,
    request_approval,
    run_call,
    to_result_event,
)
from streamkit.execution.scheduler import Schedule
from streamkit.execution.thread_update import ThreadUpdate
from streamkit.tools import Approval, Tool

__all__ = ["Execution", "check_callable", "check_seconds"]

_NO_ANSWERS: Mapping[str, Approval | bool] = {}


class Execution:
    """One run of a round's calls. It is used once: awaited, or entered and watched.

    Nothing runs before that. Leaving the block early cancels what still runs and waits for its end; every call has its
    result then, and ``update`` is legal. It may be held open across a ``yield`` and be left from another task.

    Of a turn that is still being read, calls of tools with ``eager=True`` begin as soon as they are known to be whole:
    enter it, give ``advance`` the events of every ``feed``, and iterate when the turn is closed.

    Args:
        round: the calls.
        tools: by name.
        limit: how many run at once, or a ``Schedule`` shared with other executions.
        one_by_one: each call alone, in call order.
        timeout: seconds for each call.
        run_timeout: seconds for all of them.
        deps: what tools find in ``ToolContext.deps``.
        approve: asked for tools that want it.
        answers: what was answered already, by the call's id.
        may_pause: where nobody answers, stop with ``paused`` in place of denying the call.

    Attributes:
        round: the calls, and where each of them is.
        warnings: what was odd about running them; at the end a part of the update's.
        paused: calls wait for somebody's answer, and nothing else is left to do.
    """

    def __init__(
        self,
        round: Round,
        tools: dict[str, Tool],
        *,
        limit: int | Schedule = 8,
        sequential: bool = False,
        timeout: float | None = 30.0,
        run_timeout: float | None = None,
        deps: Any = None,
        approve: Approve | None = None,
        approvals: Mapping[str, Approval | bool] = _NO_ANSWERS,
        pause_for_approval: bool = False,
    ) -> None:
        check_seconds(timeout=timeout, run_timeout=run_timeout)
        check_callable(approve=approve)
        self.round = round
        self._tools = tools
        self._schedule = limit if isinstance(limit, Schedule) else Schedule(limit)
        self._one_by_one = sequential
        self._timeout = timeout
        self._run_timeout = run_timeout
        self._deps = deps
        self._approve = approve
        self._answers = approvals
        self._may_pause = pause_for_approval
        self._outbox = EventQueue()
        self._wake = anyio.Event()
        self._used = False
        self._task: BackgroundTask | None = None
        self._scope: anyio.CancelScope | None = None  # of the whole run, while it runs
        self._ready: dict[int, PreparedCall] = {}  # by position
        self._scopes: dict[int, anyio.CancelScope] = {}  # of the calls that run, or are about to
        self._early = EagerCalls(round.turn, tools) if round.turn is not None else None
        self._begun: set[int] = set()  # positions
        self._to_ask: list[int] = []
        self._asking = 0
        self._opened = False
        self._concluded = False
        self.warnings: list[StreamWarning] = []
        self.paused = False
        self._update: ThreadUpdate | None = None

    # ---------------------------------------------------------------- how it is used

    def __await__(self) -> Generator[Any, Any, ThreadUpdate]:
        return self._alone().__await__()

    def run_sync(self) -> ThreadUpdate:
        """Run it where there is no event loop.

        Raises:
            UsageError: there is one; await it instead.
        """
        try:
            anyio.get_cancelled_exc_class()
        except RuntimeError:
            return anyio.run(self._alone)
        raise UsageError("an event loop is running here: await the execution instead of run_sync()")

    async def __aenter__(self) -> Execution:
        self._begin()
        self._task = BackgroundTask(self._work)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Leave it: cancel what runs, and wait for its end. A second time does nothing."""
        if self._task is not None:
            try:
                await self._task.aclose()
            finally:
                self._end()  # where the event loop was shut down before the task had begun

    def __aiter__(self) -> Execution:
        if self._task is None:
            raise UsageError("watch it inside its block: async with ... as execution: async for event in execution")
        return self

    async def __anext__(self) -> Event:
        self._open()
        event = await self._outbox.get()
        if event is None:
            raise StopAsyncIteration
        return event

    def feed(self, events: Iterable[Event] = ()) -> list[Event]:
        """Begin what may begin while the turn is read: calls of eager tools that are known to be whole.

        Args:
            events: what ``feed`` (or ``close``) returned just now.

        Returns:
            What happened meanwhile; the endings follow when the turn is closed.

        Raises:
            UsageError: its block was not entered.
        """
        if self._task is None:
            raise UsageError("calls begin early inside the block of the execution: async with ... as execution")
        if self._early is not None and not self.round.closed:
            self._start_eager(self._early.take(events))
            if self._turn_is_over():
                self._open()
        return self._outbox.take()

    def close_without_running(self) -> ThreadUpdate:
        """Write the update of a round in which nothing is to be run, with no task for it.

        Raises:
            UsageError: there are calls to run.
        """
        self._open()
        if self.round.open_positions:
            raise UsageError("there are calls to run: await the execution, or enter it")
        self._begin()
        self._end()
        return self.update

    def cancel_pending(self) -> None:
        """Of one that is paused, and that nobody goes on with: the calls that wait for an answer are canceled."""
        if self.paused:
            self.paused = False
            self._write()

    @property
    def entered(self) -> bool:
        """Its block was entered."""
        return self._task is not None

    @property
    def ended(self) -> bool:
        """It has run to its end, or was left, and ``update`` is there."""
        return self._update is not None

    @property
    def update(self) -> ThreadUpdate:
        """What the thread gains; also after cancellation.

        Raises:
            UsageError: it has not run to its end yet, nor been left.
        """
        if self._update is None:
            raise UsageError("the execution has not ended yet")
        return self._update

    @property
    def pending(self) -> list[ToolCall]:
        """The calls that wait for somebody's answer."""
        calls = self.round.calls
        return [calls[position] for position in self.round.open_positions if self.round.stage(position) == "asking"]

    @property
    def started(self) -> list[ToolResult]:
        """The results of those calls that ran; after the end."""
        return [result for position, result in enumerate(self.round.results_so_far) if position in self._begun]

    # ---------------------------------------------------------------- how it runs

    def _begin(self) -> None:
        if self._used:
            raise UsageError("an execution is used once: make a new one to run the calls again")
        self._used = True

    async def _alone(self) -> ThreadUpdate:
        """Run it in the caller's own task, with nobody watching."""
        self._begin()
        self._outbox.close()
        self._open()
        await self._work()
        return self.update

    def _start_eager(self, found: Iterable[tuple[CallRef, Tool] | ToolCall]) -> None:
        """What an open turn's events say of its calls: those that it makes, and those of them that may begin."""
        for each in found:
            if not isinstance(each, ToolCall):
                ref, tool = each  # it has its place in the order, and may have to be waited for
                self._schedule.add(self, ref.index, tool, ready=False, in_turn=self._one_by_one)
                continue
            ready = prepare(each, self._tools)
            if isinstance(ready, PreparedCall):  # what does not fit is told when the turn is over
                self._ready[each.index] = ready
                self._schedule.release(self, each.index)
                self._wake.set()

    def _open(self) -> None:
        """The turn is over: all calls are known.

        Raises:
            UsageError: it is not.
        """
        if self._opened or self._concluded:
            return
        for position in self.round.close():
            if position in self._scopes:
                self._scopes[position].cancel()
        self._opened = True
        for result in self.round.refused:
            self._outbox.put(to_result_event(result))
        for result in self.round.commit_early_results():
            self._outbox.put(to_result_event(result))
        for position, call in enumerate(self.round.calls):
            stage = self.round.stage(position)
            if stage in ("waiting", "asking"):
                self._schedule_call(position, call)
            elif stage != "running":
                self._schedule.remove(self, position)
        self._wake.set()

    def _schedule_call(self, position: int, call: ToolCall) -> None:
        """A call that may run: find its tool, check its arguments, and give it its place."""
        ready = prepare(call, self._tools)
        answer = self._answers.get(call.id)
        if isinstance(ready, PreparedCall) and answer is not None:
            ready = apply_approval(ready, answer)
        if not isinstance(ready, PreparedCall):
            self._schedule.remove(self, position)
            self._set_result(position, ready)
            return
        self._ready[position] = ready
        asked = self.round.stage(position) == "asking"  # since before a pause: whatever its tool says now
        asks = answer is None and (asked or ready.tool.approval == "ask")
        if self._schedule.contains(self, position):
            if not asks:
                self._schedule.release(self, position)
        else:
            self._schedule.add(self, position, ready.tool, ready=not asks, in_turn=self._one_by_one)
        if asks:
            self._to_ask.append(position)
        if asks and not asked:
            self.round.require_approval(position)
        elif asked and not asks:
            self.round.approve(position)

    async def _work(self) -> None:
        self._schedule.subscribe(self, lambda: self._wake.set())
        try:
            await anyio.lowlevel.checkpoint()  # nothing begins for a caller who is canceled already
            with anyio.move_on_after(self._run_timeout) as self._scope:
                async with anyio.create_task_group() as tasks:
                    await self._run_all(tasks)
        finally:
            self._end()

    async def _run_all(self, tasks: TaskGroup) -> None:
        if self.round.closed:
            self._open()
        while True:
            # Woken and cancelled at once: nothing more may begin, and questions that were cancelled are no pause.
            await anyio.lowlevel.checkpoint_if_cancelled()
            self._wake = anyio.Event()
            for asked in self._to_ask:  # people are slow: all are asked at once, and asking takes no place
                self._asking += 1
                tasks.start_soon(self._ask, asked)
            self._to_ask.clear()
            position = self._schedule.start_next(self)
            if position is not None:
                self._begun.add(position)
                if self.round.closed:
                    self.round.start(position)
                else:
                    self.round.start_early(self._ready[position].call)
                self._scopes[position] = anyio.CancelScope()  # not in its task, which may begin later than this goes on
                tasks.start_soon(self._run_one, position)
                await anyio.lowlevel.checkpoint()  # calls begin in their order, on trio as well
            elif self._opened and not self._asking and not self._scopes and self._is_idle():
                self.paused = bool(self.round.open_positions)
                return
            else:
                await self._wake.wait()

    def _is_idle(self) -> bool:
        """Nothing of its own runs: whether all calls have their results, or wait for an answer that nobody gives.

        Not where one waits for the places of other executions: it will have its turn.
        """
        stages = {self.round.stage(position) for position in self.round.open_positions}
        return not stages or ("asking" in stages and not self._schedule.is_blocked_by_others(self))

    async def _ask(self, position: int) -> None:
        try:
            answer = await request_approval(self._ready[position], self._approve, self._deps)
            if answer is None and not self._may_pause:
                answer = missing_approval_result(self._ready[position])
            if isinstance(answer, PreparedCall):
                self._ready[position] = answer
                self.round.approve(position)
                self._schedule.release(self, position)
            elif answer is not None:
                self._set_result(position, answer)
                self._schedule.remove(self, position)
        finally:
            self._asking -= 1
            self._wake.set()

    async def _run_one(self, position: int) -> None:
        ready = self._ready[position]
        try:
            with self._scopes[position] as scope:  # cancelled where it began early, and should not have
                result = await run_call(ready, self._timeout, self._deps, self.round.turn, self._report)
            if scope.cancelled_caught:
                result = ToolResult(ready.call, "canceled", error=CANCELED)
            self._set_result(position, result)
        finally:
            del self._scopes[position]
            self._schedule.remove(self, position)
            if self._opened and not self._concluded and self.round.stage(position) == "waiting":
                self._schedule_call(position, self.round.calls[position])

    def _report(self, event: ToolEvent | Warned) -> None:
        if isinstance(event, Warned):
            self.warnings.append(StreamWarning(event.code, event.message))
        self._outbox.put(event)

    def _set_result(self, position: int, result: ToolResult) -> None:
        settled = self.round.set_result(position, result)
        if settled is not None:
            self._outbox.put(to_result_event(settled))

    def _end(self) -> None:
        """Give what is left its ending, and write the update. A second time does nothing."""
        if self._concluded:
            return
        try:
            if not self._opened and (self.round.closed or self._turn_is_over()):
                self._open()
            self._concluded = True
            self._schedule.unregister(self)
            if self._opened and not self.paused:
                self._write()
        finally:  # a callback of the caller's may raise, and the reader must not wait for ever
            self._outbox.close()

    def _write(self) -> None:
        for position in self.round.open_positions:
            self._set_result(position, self._stopped(position))
        written = len(self.warnings)
        self._update = self.round.update(self.warnings)
        for warning in self._update.warnings[written:]:
            self._outbox.put(Warned(warning.code, warning.message))

    def _turn_is_over(self) -> bool:
        return self.round.turn is not None and self.round.turn.closed

    def _stopped(self, position: int) -> ToolResult:
        """The result of a call that had none when the whole was stopped."""
        call, begun = self.round.calls[position], position in self._begun
        if self._scope is not None and self._scope.cancelled_caught:
            what = "Not finished" if begun else "Not begun"
            reason = f"{what} within the {self._run_timeout:g} seconds that all calls had together."
            return ToolResult(call, "timed_out", error=reason)
        return ToolResult(call, "canceled", error=CANCELED if begun else "Not run: canceled before it began.")


def check_seconds(**given: float | None) -> None:
    """Refuse times in which nothing could run.

    Raises:
        UsageError: with the name and the number.
    """
    for name, seconds in given.items():
        if seconds is not None and not seconds > 0:
            raise UsageError(f"{name} is a number of seconds above 0, or None, not {seconds!r}")


def check_callable(**given: Any) -> None:
    """Refuse what should be called and cannot be.

    Raises:
        UsageError: with the name and the value.
    """
    for name, function in given.items():
        if function is not None and not callable(function):
            raise UsageError(f"{name} is a function, not {function!r}")
