"""The executor: it runs the calls of a round, each in a task of its own, and every call gets its result.

``prepare`` decides whether a call may run, ``attempt`` runs one, ``scheduler`` decides which may run concurrently,
``round`` what a result means for the round. ``Executor`` connects them: it starts a task for each call that may run,
has people asked for their approval, and gives a result to every call that is left, whatever is canceled.

It must not depend on who watches, on streams or on providers; ``executors`` is the caller's side.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from typing import Any

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup
from msgspec import Struct, field

from streamkit.calls import StreamWarning, ToolCall, ToolResult
from streamkit.errors import UsageError
from streamkit.events import Event, ToolAwaitingResult, ToolEvent, Warned
from streamkit.execution.one_call.attempt import AroundCall, CallObserver, ToolAttempt
from streamkit.execution.one_call.background import CallTasks, EventQueue
from streamkit.execution.one_call.nested import OuterRun, ResultRecorder, RunningCall
from streamkit.execution.one_call.prepare import (
    Approve,
    PreparedCall,
    apply_approval,
    approval_failed_result,
    awaits_client,
    blocked_by_threads_result,
    missing_approval_result,
    prepare_call,
    request_approval,
    stopped_result,
    to_approval_event,
    to_result_event,
)
from streamkit.execution.round.policies import EagerCalls
from streamkit.execution.round.round import Round
from streamkit.execution.round.scheduler import OccupiedPlace, Scheduler
from streamkit.execution.round.thread_update import ThreadLayout, ThreadUpdate, check_layout, to_sendable_result
from streamkit.reading.time_limits import Timeouts
from streamkit.tools import Approval, Tool

__all__ = ["ExecutionOptions", "Executor"]


class ExecutionOptions(Struct, frozen=True):
    """How the calls of a round are run.

    Raises:
        UsageError: a function is none, or the layout is unknown.
    """

    tools: Mapping[str, Tool]  #: by name
    schedule: Scheduler = field(default_factory=Scheduler)  #: the limits, possibly shared with other executions
    layout: ThreadLayout = "batched"  #: ``sequential`` runs each call alone, in call order
    #: of each call, and of all of them; of the loop's options, of the complete run and of its requests
    timeouts: Timeouts = Timeouts()
    deps: Any = None  #: the tools' ``ToolContext.deps``
    approve: Approve | None = None  #: called for tools with ``approval="ask"``
    around_call: AroundCall | None = None  #: called instead of each tool, with the function that calls the tool
    #: gets approvals and results before they have an effect; None if the run is not recorded
    recorder: ResultRecorder | None = None
    run: OuterRun | None = None  #: the run that makes the calls, for runs inside of them; None outside of a run
    observer: CallObserver | None = None  #: of the calls that run

    def __post_init__(self) -> None:
        check_layout(self.layout)
        for name, function in (("approve", self.approve), ("around_call", self.around_call)):
            if function is not None and not callable(function):
                raise UsageError(f"{name} must be a function, not {function!r}")

    def __repr__(self) -> str:
        # A log must not contain ``deps`` (keys, connections).
        return f"<ExecutionOptions layout={self.layout!r} tools={list(self.tools)}>"


class Executor:
    """One running of a round's calls, in the task of its caller; the arguments are those of ``executors.Execution``."""

    def __init__(
        self,
        round: Round,
        options: ExecutionOptions,
        approvals: Mapping[str, Approval | bool],
        results: Mapping[str, ToolResult],
        pause_for_approval: bool,
    ) -> None:
        self.round = round  # the calls and the stage of each
        self.queue: EventQueue = EventQueue()  # the events
        # irregularities of running the calls; at the end a part of the update's warnings
        self.warnings: list[StreamWarning] = []
        self.paused: bool = False  # calls await approval or their results, and nothing else is left to do
        self.started: set[int] = set()  # the positions of the calls that ran
        self.update: ThreadUpdate | None = None  # what the round adds to the conversation; None until the end
        self._options = options
        self._schedule = options.schedule
        self._in_turn = options.layout == "sequential"
        self._approvals = approvals
        self._results = results
        self._pause_for_approval = pause_for_approval
        self._wake: anyio.Event | asyncio.Event | None = None  # set when a call may start, or nothing may be left to do
        self._scope: anyio.CancelScope | None = None  # of all calls together, if their time is limited
        self._eager_calls: EagerCalls | None = None  # once a turn that is open is fed
        self._prepared: dict[int, PreparedCall] = {}  # by position
        self._attempts: dict[int, ToolAttempt] = {}  # of the calls that run, or are about to
        self._to_approve: list[tuple[int, PreparedCall]] = []  # requests for approval that have not started
        self._open_requests = 0  # those that have started and have not returned
        self._blocked_since: float | None = None  # by threads of earlier calls alone, on anyio's clock
        # What ``approve`` or ``checkpoint`` raised, or a call's task: an interrupt.
        self._failure: BaseException | None = None
        self._calls: CallTasks | None = None  # since they run
        self._is_open = False  # all calls are known and scheduled
        self._is_over = False  # nothing runs any more

    def feed(self, events: Iterable[Event]) -> None:
        """Start complete calls of eager tools while the turn is open; once it is closed, schedule all calls."""
        if self.round.turn is None or self.round.closed:
            return
        if self._eager_calls is None:
            self._eager_calls = EagerCalls(self.round.turn, self._options.tools)
        for item in self._eager_calls.feed(events):
            if not isinstance(item, ToolCall):
                ref, tool = item  # it has its position in the order, and others may have to wait for it
                self._schedule.add(self, ref.index, tool, ready=False, in_turn=self._in_turn)
                continue
            prepared = prepare_call(item, self._options.tools)
            if isinstance(prepared, PreparedCall):  # a call that does not fit gets its result when the turn has ended
                self._prepared[item.index] = prepared
                self._schedule.release(self, item.index)
                self._notice()
        if self.round.turn.closed:
            self.open()

    def open(self) -> None:
        """Schedule all calls, once the turn is closed.

        Raises:
            UsageError: the turn is open.
        """
        if self._is_open or self._is_over:
            return
        for position in self.round.close():
            if position in self._attempts:
                self._attempts[position].cancel()
        self._is_open = True
        for result in [*self.round.blocked_results, *self.round.commit_early_results()]:
            self.queue.put(to_result_event(result))
        for position in range(len(self.round.calls)):
            stage = self.round.stage(position)
            if stage in ("waiting", "awaiting_approval"):
                self._schedule_call(position, was_awaiting=stage == "awaiting_approval")
            elif stage != "running":
                self._schedule.remove(self, position)
        self._notice()

    async def run(self) -> None:
        """Run the calls until all have results, or the executor is paused or cancelled.

        Raises:
            Exception: what ``approve`` or ``checkpoint`` raised; then the other calls are cancelled, and all have
                results.
        """
        self._schedule.subscribe(self, self._notice)
        seconds, tools = self._options.timeouts.run, self._options.tools.values()
        may_ask = self.round.awaits_approval or any(tool.approval == "ask" for tool in tools)
        try:
            with nullcontext() if seconds is None else anyio.move_on_after(seconds) as self._scope:
                async with anyio.create_task_group() if may_ask else nullcontext() as requests:
                    self._calls = calls = CallTasks(self._run_one, self._stop)
                    try:
                        await self._start_calls(calls, requests)
                    finally:
                        self._cancel_calls()
                        if requests is not None:
                            requests.cancel_scope.cancel()  # those that are open after a failure
                        await calls.wait()
        finally:
            self._calls = None  # it refers to this object, which would be left to the garbage collector
            self.finalize()
        if self._failure is not None:
            raise self._failure

    def finalize(self) -> None:
        """Give every open call its result, unless paused, and build the update. Idempotent."""
        if self._is_over:
            return
        try:
            if not self._is_open and (self.round.closed or (self.round.turn is not None and self.round.turn.closed)):
                self.open()
            self._is_over = True
            self._schedule.unregister(self)
            if self._is_open and not self.paused:
                self._build_update()
        finally:  # a format callback may raise, and the reader must not wait for ever
            self.queue.close()

    def cancel_pending(self) -> None:
        """If paused, cancel the calls that await approval or their results, and build the update."""
        if self.paused:
            self.paused = False
            self._build_update()

    # ---------------------------------------------------------------- before a call runs

    def _schedule_call(self, position: int, *, was_awaiting: bool) -> None:
        """Prepare a call that may run and add it to the schedule; set its result if it does not fit.

        One that awaited approval before a pause still does, even if its tool no longer requires it.
        """
        call = self.round.calls[position]
        if self._pause_for_approval and awaits_client(call, self._options.tools):
            self._schedule.remove(self, position)
            self.round.require_result(position)
            if call.id in self._results:
                self._set_result(position, self._results[call.id])
            else:
                self.queue.put(ToolAwaitingResult(call.ref))
            return
        prepared = prepare_call(call, self._options.tools)
        approval = self._approvals.get(call.id)
        if isinstance(prepared, PreparedCall) and approval is not None:
            prepared = apply_approval(prepared, approval)
        if not isinstance(prepared, PreparedCall):
            self._schedule.remove(self, position)
            self._set_result(position, prepared)
            return
        self._prepared[position] = prepared
        needs_approval = approval is None and (was_awaiting or prepared.tool.approval == "ask")
        self._schedule.add(self, position, prepared.tool, ready=not needs_approval, in_turn=self._in_turn)
        if needs_approval:
            self._to_approve.append((position, prepared))
        if needs_approval and not was_awaiting:
            self.round.require_approval(position)
            self.queue.put(to_approval_event(prepared))
        elif was_awaiting and not needs_approval:
            self.round.approve(position)

    async def _request_approval(self, position: int, prepared: PreparedCall) -> None:
        """Have a call approved. People are slow: all requests are concurrent, and none occupies a place."""
        try:
            decision = await request_approval(prepared, self._options.approve, self._options.deps)
            if isinstance(decision, PreparedCall):
                if self._options.recorder is not None:
                    approval = Approval(True, decision.metadata.get("approved_arguments"))
                    await self._options.recorder.approvals({prepared.call.id: approval})
                self._prepared[position] = decision
                self.round.approve(position)
                self._schedule.release(self, position)
            elif decision is not None or not self._pause_for_approval:
                self._set_result(position, decision or missing_approval_result(prepared))
                self._schedule.remove(self, position)
        except Exception as error:
            self._schedule.remove(self, position)
            self._set_result(position, approval_failed_result(prepared.call, error))
            self._stop(error)
        finally:
            self._open_requests -= 1
            self._notice()

    # ---------------------------------------------------------------- which call is next

    async def _start_calls(self, calls: CallTasks, requests: TaskGroup | None) -> None:
        """Start calls, and requests for approval in tasks of *requests*, until nothing is left to do."""
        if self.round.closed:
            self.open()
        if calls.is_cancelled:  # nothing starts for a caller who is cancelled already
            await anyio.lowlevel.checkpoint_if_cancelled()
        while self._failure is None:
            for position, prepared in self._to_approve:
                assert requests is not None  # noqa: S101 - a tool asks
                self._open_requests += 1
                requests.start_soon(self._request_approval, position, prepared)
            self._to_approve.clear()
            self._start_ready(calls)
            if self._is_open and not self._open_requests and not self._attempts:
                stages = {self.round.stage(position) for position in self.round.open_positions}
                self.paused = stages == {"awaiting_result"}
                if "awaiting_approval" in stages:  # no pause while a call waits for a place of other executions
                    self.paused = not self._schedule.is_blocked_by_others(self)
                if self.paused or not stages:
                    return
            self._wake = wake = anyio.Event() if calls.event_loop is None else asyncio.Event()  # the cheaper one
            if self._is_open and self._schedule.has_abandoned:
                await self._wait_for_threads(wake)
            else:
                await wake.wait()
            if self.round.is_complete:
                return
            # Woken and cancelled at once: nothing more may start, and cancelled requests for approval are no pause.
            await anyio.lowlevel.checkpoint_if_cancelled()

    def _notice(self) -> None:
        """Have the calls started that may start after a change."""
        if self._wake is not None:
            self._wake.set()

    def _start_ready(self, calls: CallTasks) -> None:
        """Start the calls that may start now, each in a task of its own."""
        options, run = self._options, self._options.run
        while (position := self._schedule.start_next(self)) is not None:
            self._blocked_since = None
            self.started.add(position)
            prepared = self._prepared[position]
            if self.round.closed:
                self.round.start(position)
            else:
                self.round.start_early(prepared.call)
            # Made here, so that the call can be cancelled: its task may start only later.
            number, fence = (1, None) if run is None else (run.attempt(prepared.call.id), run.fence)
            self._attempts[position] = ToolAttempt(
                prepared, options.deps, self.round.turn, self._report, options.around_call, number, fence
            )
            calls.start(position)

    async def _wait_for_threads(self, wake: anyio.Event | asyncio.Event) -> None:
        """Wait until something has changed, beside threads that cannot be stopped.

        A call that only the threads of earlier calls keep from starting waits for them as long as it might run, and is
        an error then: nothing else would end them.
        """
        position = self._schedule.find_blocked_by_abandoned(self)
        seconds = None
        if position is not None:
            tool = self._prepared[position].tool
            seconds = self._options.timeouts.call if tool.timeout is None else tool.timeout
        if position is None or seconds is None:
            await wake.wait()
            return
        if self._blocked_since is None:
            self._blocked_since = anyio.current_time()
        with anyio.move_on_after(self._blocked_since + seconds - anyio.current_time()) as scope:
            await wake.wait()
        if scope.cancelled_caught:
            self._schedule.remove(self, position)
            self._set_result(position, blocked_by_threads_result(self.round.calls[position]))

    # ---------------------------------------------------------------- one call

    async def _run_one(self, position: int) -> None:
        """Run a call in the current task, set its result, and start the call that follows."""
        attempt, calls = self._attempts[position], self._calls
        assert calls is not None  # noqa: S101 - it has started this
        place = OccupiedPlace(self._schedule)
        call, run, recorder = self._prepared[position].call, self._options.run, self._options.recorder
        running = None if run is None else RunningCall(call.id, run)
        try:
            if recorder is not None and not await self._may_start(position, recorder):
                return
            if not attempt.is_canceled:
                observer = self._options.observer
                end = None if observer is None else observer.start_call(call, self._prepared[position].tool)
                try:
                    await attempt.run_here(self._options.timeouts.call)
                finally:
                    if end is not None:
                        end(attempt.result)
            if attempt.result is not None and recorder is not None:
                await self._record(attempt.result, recorder)
            if attempt.result is not None:
                self._set_result(position, attempt.result)
            elif not calls.is_closed:  # else all are cancelled, and ``finalize`` gives each its result
                self._set_result(position, stopped_result(call, has_started=True))
        except anyio.get_cancelled_exc_class():
            if attempt.result is not None:  # it ended all the same
                self._set_result(position, attempt.result)
            raise
        finally:
            place.schedule = None
            if running is not None:
                running.end()
            del self._attempts[position]
            thread = attempt.thread
            if attempt.is_abandoned and thread is not None:
                self._schedule.abandon(self, position, lambda: thread.alive)
                thread.on_return(self._schedule.release_ended)
            else:
                self._schedule.remove(self, position)
            if self._is_open and not self._is_over and self.round.stage(position) == "waiting":
                self._schedule_call(position, was_awaiting=False)  # it ran with arguments that changed
                self._notice()
        if not calls.is_closed and not self._schedule.is_shared:
            self._start_ready(calls)
        if not self._attempts or self._schedule.is_shared or self._schedule.has_abandoned:
            self._notice()

    async def _may_start(self, position: int, recorder: ResultRecorder) -> bool:
        """Have the start of a call confirmed, and return True; if that raises, stop all calls."""
        try:
            await recorder.start(self._prepared[position].call.id, is_once=self._prepared[position].tool.once)
        except Exception as error:
            self.started.discard(position)
            self._stop(error)
        return self._failure is None

    async def _record(self, result: ToolResult, recorder: ResultRecorder) -> None:
        """Record the result of a call that ran, before a conflicting call may start; if that raises, stop all calls."""
        try:
            with anyio.CancelScope(shield=True):  # the call has had its effects and must not run again
                await recorder.result(to_sendable_result(result))
        except Exception as error:
            self._stop(error)

    def _report(self, event: ToolEvent | Warned) -> None:
        if isinstance(event, Warned):
            self.warnings.append(StreamWarning(event.code, event.message))
        self.queue.put(event)

    def _set_result(self, position: int, result: ToolResult) -> None:
        final = self.round.set_result(position, result)
        if final is not None and not self.queue.closed:  # else nobody watches, and the event need not be made
            self.queue.put(to_result_event(final))

    # ---------------------------------------------------------------- stopping

    def _stop(self, failure: BaseException) -> None:
        """Cancel all calls because ``approve``, ``checkpoint`` or a call's task has raised; ``run`` raises the same."""
        self._failure = self._failure or failure
        self._cancel_calls()  # at once: after an interrupt asyncio cancels all tasks, in any order
        self._notice()

    def _cancel_calls(self) -> None:
        """Cancel the calls that run, and start no other."""
        if self._calls is not None:
            self._calls.is_closed = True
        for attempt in self._attempts.values():
            attempt.cancel()

    def _build_update(self) -> None:
        """Give every open call its result, and build the update."""
        is_timeout = self._scope is not None and self._scope.cancelled_caught and self._failure is None
        seconds = self._options.timeouts.run if is_timeout else None
        for position in [] if self.round.is_complete else self.round.open_positions:
            call, has_started = self.round.calls[position], position in self.started
            self._set_result(position, stopped_result(call, seconds, has_started=has_started))
        reported = len(self.warnings)
        self.update = self.round.update(self.warnings)
        for warning in self.update.warnings[reported:]:
            self.queue.put(Warned(warning.code, warning.message))
