"""The executors, which run the calls of a turn, of a list or of several streams, and what they return.

``Execution`` is the caller's side of running a round's calls: it is awaited, or entered and iterated. ``Executor`` runs
the calls, in a task of its own (``background``). No cancel scope is open while the caller has control, so an execution
may be kept open across a ``yield``. Several executions may share a ``Schedule``.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypedDict, TypeVar, Unpack, overload

import anyio
import anyio.lowlevel

from streamkit.calls import StreamWarning, ToolCall, ToolResult
from streamkit.errors import UsageError
from streamkit.events import Event
from streamkit.execution.one_call.attempt import AroundCall, CallObserver
from streamkit.execution.one_call.background import (
    BackgroundTask,
    asyncio_event_loop,
    call_soon_of,
    is_event_loop_running,
)
from streamkit.execution.one_call.prepare import Approve
from streamkit.execution.round.executor import ExecutionOptions, Executor
from streamkit.execution.round.round import CallStage, Round
from streamkit.execution.round.scheduler import OccupiedPlace, Scheduler
from streamkit.execution.round.thread_update import FormatCallbacks, Messages, ThreadLayout, ThreadUpdate
from streamkit.providers.provider import Provider
from streamkit.providers.registry import ProviderName
from streamkit.reading.time_limits import Timeouts
from streamkit.reading.turn import Turn
from streamkit.tools import AnyTool, Approval, to_tools

if TYPE_CHECKING:
    from streamkit.execution.shared import SharedAccumulator
    from streamkit.execution.shared_execution import SharedExecution

__all__ = [
    "Execution",
    "ExecutorOptions",
    "Schedule",
    "execute_tool_calls_batched",
    "execute_tool_calls_sequentially",
    "to_schedule",
]


P = ParamSpec("P")
R = TypeVar("R")


def _locked(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Return a method of a schedule that holds its lock: for moments, nothing is waited for meanwhile."""

    @wraps(method)
    def locked(schedule: Any, /, *args: P.args, **options: P.kwargs) -> R:
        with schedule._lock:
            return method(schedule, *args, **options)

    return locked


class Schedule(Scheduler):
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
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"<Schedule limit={self.limit} running={self.running}>"

    def __reduce__(self) -> tuple[type[Schedule], tuple[int]]:
        # A copy, such as one in a copied configuration or another process, is another schedule with that limit.
        return type(self), (self.limit,)

    def subscribe(self, owner: Hashable, changed: Callable[[], Any]) -> None:
        """As in ``Scheduler``, like all that follows; *changed* is called in the event loop that runs here."""
        thread, call_soon = threading.get_ident(), call_soon_of(asyncio_event_loop())

        def call_in_event_loop() -> None:
            if threading.get_ident() == thread:
                changed()
            else:
                with suppress(RuntimeError):  # the event loop has ended
                    call_soon(changed)

        with self._lock:
            super().subscribe(owner, call_in_event_loop)

    unregister = _locked(Scheduler.unregister)
    add = _locked(Scheduler.add)
    release = _locked(Scheduler.release)
    remove = _locked(Scheduler.remove)
    abandon = _locked(Scheduler.abandon)
    release_ended = _locked(Scheduler.release_ended)
    find_blocked_by_abandoned = _locked(Scheduler.find_blocked_by_abandoned)
    start_next = _locked(Scheduler.start_next)
    count_waiting = _locked(Scheduler.count_waiting)
    can_start = _locked(Scheduler.can_start)
    is_blocked_by_others = _locked(Scheduler.is_blocked_by_others)


def to_schedule(limit: int | Scheduler) -> Scheduler:
    """Return a schedule unchanged, and a number as the limit of one for a single execution or run.

    Raises:
        UsageError: the limit is below 1.
    """
    return limit if isinstance(limit, Scheduler) else Scheduler(limit)


class Execution:
    """The running of a round's calls. It is used once: awaited, or entered and iterated.

    Nothing runs before that. Leaving the block early cancels what runs and waits for its end; every call has its result
    then, and ``update`` is legal. It may be kept open across a ``yield`` and be closed from another task.

    Of a turn that is still open, complete calls of tools with ``eager=True`` start early: enter the execution, pass the
    events of every ``turn.feed`` to ``feed``, and iterate once the turn is closed.

    Args:
        round: the calls.
        options: how they are run.
        approvals: decisions that were made before, by the call's id.
        results: results that come from the client, by the call's id.
        pause_for_approval: stop with ``paused``, instead of denying a call without a decision and of giving an error
            to a call whose result comes from the client.

    Attributes:
        round: the calls and the stage of each.
        warnings: irregularities of running the calls; at the end a part of the update's warnings.
    """

    def __init__(
        self,
        round: Round,
        options: ExecutionOptions,
        *,
        approvals: Mapping[str, Approval | bool] | None = None,
        results: Mapping[str, ToolResult] | None = None,
        pause_for_approval: bool = False,
    ) -> None:
        self._schedule = options.schedule
        self._executor = Executor(round, options, approvals or {}, results or {}, pause_for_approval)
        self.round = round
        self.warnings: list[StreamWarning] = self._executor.warnings
        self._task: BackgroundTask | None = None
        self._is_exhausted = False
        self._is_used = self._is_noticed = False

    def __del__(self) -> None:
        if not self._is_noticed:
            message = "tool calls were never run: await the execution, or enter it with async with"
            warnings.warn(message, RuntimeWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        stages = [self.round.stage(position) for position in range(len(self.round.calls))]
        shown = "".join(f" {stage}={stages.count(stage)}" for stage in dict.fromkeys(stages))
        return f"<Execution {'ended' if self.ended else 'open'} calls={len(stages)}{shown}>"

    # False while neither use nor an error has shown the caller what to do. ``__del__`` is also called if the
    # constructor raises, so the class has it too.
    _is_noticed = True

    # ---------------------------------------------------------------- public use

    def __await__(self) -> Generator[Any, Any, ThreadUpdate]:
        return self._run_unwatched().__await__()

    def run_sync(self) -> ThreadUpdate:
        """Run the calls in a new event loop.

        Raises:
            UsageError: an event loop is running here; await the execution instead.
        """
        if is_event_loop_running():
            raise UsageError("an event loop is running here: await the execution instead of run_sync()")
        return anyio.run(self._run_unwatched)

    async def __aenter__(self) -> Execution:
        self._use()
        self._task = BackgroundTask(self._run_watched)
        return self

    async def _run_watched(self) -> None:
        await anyio.lowlevel.checkpoint()  # nothing starts for a reader who is cancelled already
        await self._executor.run()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Cancel the running calls, and wait for their end. Idempotent."""
        if self._task is not None:
            try:
                await self._task.aclose()
            finally:
                self._executor.finalize()  # the event loop may have been shut down before the task started

    def __aiter__(self) -> Execution:
        if self._task is None:
            self._is_noticed = True
            raise UsageError("iterate inside the block: async with ... as execution: async for event in execution")
        if self._is_exhausted:
            raise UsageError("the events of this execution were read: they arrive once; see execution.update")
        return self

    async def __anext__(self) -> Event:
        self._executor.open()
        event = await self._executor.queue.get()
        if event is None:
            self._is_exhausted = True
            raise StopAsyncIteration
        return event

    async def next_batch(self) -> list[Event]:
        """Return the events that have happened, waiting for the first; none at the end."""
        self._executor.open()
        return await self._executor.queue.get_all()

    def drain(self) -> list[Event]:
        """Remove and return the events that have happened and were not read."""
        return self._executor.queue.drain()

    def feed(self, events: Iterable[Event] = ()) -> list[Event]:
        """Start complete calls of eager tools while the turn is open.

        Args:
            events: what the turn's ``feed`` (or ``close``) has just returned.

        Returns:
            The events of running calls so far; the results follow when the turn is closed.

        Raises:
            UsageError: the block was not entered.
        """
        if self._task is None:
            self._is_noticed = True
            raise UsageError("calls start early only inside the block: async with ... as execution")
        self._executor.feed(events)
        return self._executor.queue.drain()

    def close_without_running(self) -> ThreadUpdate:
        """Return the update of a round in which no call may run, without a task.

        Raises:
            UsageError: there are calls to run.
        """
        self._is_noticed = True
        self._executor.open()
        if self.round.open_positions:
            raise UsageError("there are calls to run: await the execution, or enter it")
        self._use()
        self._executor.finalize()
        return self.update

    def cancel_pending(self) -> None:
        """Cancel the calls that await approval or their results, of a paused execution that is not continued."""
        self._executor.cancel_pending()

    @property
    def paused(self) -> bool:
        """Calls await approval or their results, and nothing else is left to do."""
        return self._executor.paused

    @property
    def ended(self) -> bool:
        """It has run to its end or was left, and ``update`` exists."""
        return self._executor.update is not None

    @property
    def update(self) -> ThreadUpdate:
        """What the round adds to the conversation; also after cancellation.

        Raises:
            UsageError: it has neither run to its end nor been left.
        """
        update = self._executor.update
        if update is None:
            raise UsageError("the execution has not ended yet: await it, or leave its block")
        return update

    @property
    def pending(self) -> list[ToolCall]:
        """The calls that await approval."""
        return self._calls_in("awaiting_approval")

    @property
    def awaiting_results(self) -> list[ToolCall]:
        """The calls whose results come from the client."""
        return self._calls_in("awaiting_result")

    def _calls_in(self, stage: CallStage) -> list[ToolCall]:
        positions = self.round.open_positions
        return [self.round.calls[position] for position in positions if self.round.stage(position) == stage]

    @property
    def started(self) -> list[ToolResult]:
        """The results of the calls that ran; complete after the end."""
        started = self._executor.started
        return [result for position, result in enumerate(self.round.results_so_far) if position in started]

    # ---------------------------------------------------------------- internals

    def _use(self) -> None:
        if self._is_used:
            raise UsageError("an execution is used once: create a new one to run the calls again")
        self._is_used = self._is_noticed = True
        OccupiedPlace.check_outside_of(self._schedule)

    async def _run_unwatched(self) -> ThreadUpdate:
        """Run the calls in the caller's own task, without events."""
        self._use()
        self._executor.queue.close()
        self._executor.open()
        await self._executor.run()
        return self.update


class ExecutorOptions(TypedDict, total=False):
    """The options of both executors; ``execute_tool_calls_batched`` describes them."""

    limit: int | Schedule
    timeouts: Timeouts | float | None
    provider: ProviderName | str | Provider | None
    deps: Any
    approve: Approve | None
    around_call: AroundCall | None
    observer: CallObserver | None
    format_tool_call_for_thread: Callable[[ToolCall, Any], Messages] | None
    format_tool_result_for_thread: Callable[[ToolResult, ToolCall, Any], Messages] | None
    format_batch_for_thread: Callable[[list[ToolResult]], Messages] | None


@overload
def execute_tool_calls_batched(
    calls: Turn | Iterable[ToolCall], *, tools: Sequence[AnyTool], **options: Unpack[ExecutorOptions]
) -> Execution: ...
@overload
def execute_tool_calls_batched(
    calls: SharedAccumulator, *, tools: Sequence[AnyTool], **options: Unpack[ExecutorOptions]
) -> SharedExecution: ...
def execute_tool_calls_batched(
    calls: Turn | Iterable[ToolCall] | SharedAccumulator,
    *,
    tools: Sequence[AnyTool],
    **options: Unpack[ExecutorOptions],
) -> Execution | SharedExecution:
    """Run all calls concurrently; write one assistant message with all of them, then all results.

    Nothing runs yet: ``await`` the execution for the ``ThreadUpdate``, watch it with ``async with`` and ``async for``,
    or call ``run_sync()`` where there is no event loop. A failure in a tool is that call's result, never an exception.

    Args:
        calls: a turn, or a list of calls (then the messages have these alone, without text or reasoning). A turn must
            be closed, unless calls shall start while it is read: see ``Execution.feed``. Or a ``SharedAccumulator``,
            the calls of each stream of which run as soon as that stream has ended: see ``SharedExecution``.
        tools: functions and tools. A call of any other name gets an ``error``.
        options: as follows.
        limit: how many calls run at once (8); or a ``Schedule``, shared with other executions together with all its
            limits, exclusive tools and conflicts. A call that awaits approval is not counted.
        timeouts: ``Timeouts(call=30.0, run=None)``: seconds for each call, and for all of them (of each stream); or the
            seconds for each call, None for no limit. The other limits are those of requests.
        provider: the provider whose format the messages have; default: the turn's. Calls alone need it, or the
            callbacks.
        deps: the tools' ``ToolContext.deps``.
        approve: ``async (call, deps) -> Approval | bool | None``, for tools with ``approval="ask"``; without it they
            are ``denied``. Several calls may be asked about at once.
        around_call: ``async (call, go) -> value``, called in the task of each call, within its timeout: ``await go()``
            calls the tool and returns its value. For rate limits and caches. What it raises is the call's error.
        observer: observes the calls that run, for traces: ``streamkit.bridges.otel`` has one.
        format_tool_call_for_thread: ``(call, arguments)`` to the assistant message of one call. The messages of calls
            and results then alternate, because most servers refuse a call that no result follows; only calls that the
            provider signed as one step stay together.
        format_tool_result_for_thread: ``(result, call, arguments)`` to the message of one ``ToolResult``.
        format_batch_for_thread: ``(completed)``, the ``ToolResult`` list in call order, to all messages. A
            ``SharedAccumulator`` takes these callbacks and the provider itself.

    Raises:
        UsageError: calls alone have neither provider nor callbacks, two tools have one name, or a number is out of
            range. When it runs: the turn is open, or the execution was used before.
        TypeError: there is no such option.
    """
    return _execute(calls, "batched", tools, options)


@overload
def execute_tool_calls_sequentially(
    calls: Turn | Iterable[ToolCall], *, tools: Sequence[AnyTool], **options: Unpack[ExecutorOptions]
) -> Execution: ...
@overload
def execute_tool_calls_sequentially(
    calls: SharedAccumulator, *, tools: Sequence[AnyTool], **options: Unpack[ExecutorOptions]
) -> SharedExecution: ...
def execute_tool_calls_sequentially(
    calls: Turn | Iterable[ToolCall] | SharedAccumulator,
    *,
    tools: Sequence[AnyTool],
    **options: Unpack[ExecutorOptions],
) -> Execution | SharedExecution:
    """Run the calls one after the other; write one assistant message and one result for each, alternating.

    The turn's text, reasoning and signatures go into the first assistant message only. If the provider would reject
    that (signed thinking of Anthropic, thought signatures of Gemini), the layout is that of
    ``execute_tool_calls_batched``, with the warning ``batched_instead``. Arguments and exceptions are the same as
    there, so that the two are interchangeable; ``limit`` has no effect among these calls (of a stream), and
    ``format_batch_for_thread`` gets one result at a time.
    """
    return _execute(calls, "sequential", tools, options)


_TIMEOUTS = Timeouts()


def _execute(
    calls: Turn | Iterable[ToolCall] | SharedAccumulator,
    layout: ThreadLayout,
    tools: Sequence[AnyTool],
    options: ExecutorOptions,
) -> Execution | SharedExecution:
    if unknown := options.keys() - ExecutorOptions.__annotations__.keys():
        known = ", ".join(["tools", *ExecutorOptions.__annotations__])
        raise TypeError(f"an executor has no option {', '.join(map(repr, sorted(unknown)))}; the options are: {known}")
    execution_options = ExecutionOptions(
        to_tools(tools),
        to_schedule(options.get("limit", 8)),
        layout,
        Timeouts.of(options.get("timeouts", _TIMEOUTS)),
        options.get("deps"),
        options.get("approve"),
        options.get("around_call"),
        observer=options.get("observer"),
    )
    provider = options.get("provider")
    callbacks = FormatCallbacks(
        options.get("format_tool_call_for_thread"),
        options.get("format_tool_result_for_thread"),
        options.get("format_batch_for_thread"),
    )
    if isinstance(calls, (Turn, Iterable)):
        return Execution(Round(calls, provider=provider, shape=layout, callbacks=callbacks), execution_options)
    from streamkit.execution.shared import SharedAccumulator  # few programs use it
    from streamkit.execution.shared_execution import SharedExecution

    if not isinstance(calls, SharedAccumulator):
        raise UsageError(
            f"pass a Turn, a list of its calls, as in turn.calls, or a SharedAccumulator, not {type(calls).__name__}"
        )
    if provider is not None or callbacks != FormatCallbacks():
        raise UsageError("pass provider= and the format callbacks to the SharedAccumulator, which writes the messages")
    return SharedExecution(calls, execution_options)
