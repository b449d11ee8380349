"""The executors: they run the calls of a turn, a list of calls, or the calls of several streams.

Of a turn or a list they return an ``Execution``. Of a ``SharedAccumulator`` they return a ``SharedExecution``: it runs
the calls of each stream by an ``Executor`` of its own as soon as the stream has ended, all under one schedule. This
module must not depend on runs, which make requests too.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, TypedDict, Unpack, overload

import anyio

from streamkit.calls import ToolCall, ToolResult
from streamkit.errors import UsageError
from streamkit.events import Event, RoundFinished
from streamkit.execution.one_call.attempt import AroundCall
from streamkit.execution.one_call.background import BackgroundTask
from streamkit.execution.one_call.prepare import Approve
from streamkit.execution.round.execution import Execution, Schedule, to_schedule
from streamkit.execution.round.executor import ExecutionOptions, Executor
from streamkit.execution.round.round import Round
from streamkit.execution.round.scheduler import OccupiedPlace
from streamkit.execution.round.thread_update import FormatCallbacks, Messages, ThreadLayout, ThreadUpdate
from streamkit.execution.shared import SharedAccumulator, Stream
from streamkit.providers.provider import Provider
from streamkit.providers.registry import ProviderName
from streamkit.reading.time_limits import Timeouts
from streamkit.reading.turn import Turn
from streamkit.tools import AnyTool, to_tools

__all__ = ["ExecutorOptions", "SharedExecution", "execute_tool_calls_batched", "execute_tool_calls_sequentially"]


class ExecutorOptions(TypedDict, total=False):
    """The options of both executors; ``execute_tool_calls_batched`` describes them."""

    limit: int | Schedule
    timeouts: Timeouts | float | None
    provider: ProviderName | str | Provider | None
    deps: Any
    approve: Approve | None
    around_call: AroundCall | None
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
            calls the tool and returns its value. For tracing, rate limits and caches. What it raises is the call's
            error.
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
        Timeouts.of(options.get("timeouts", Timeouts())),
        options.get("deps"),
        options.get("approve"),
        options.get("around_call"),
    )
    provider = options.get("provider")
    callbacks = FormatCallbacks(
        options.get("format_tool_call_for_thread"),
        options.get("format_tool_result_for_thread"),
        options.get("format_batch_for_thread"),
    )
    if not isinstance(calls, SharedAccumulator):
        return Execution(Round(calls, provider=provider, shape=layout, callbacks=callbacks), execution_options)
    if provider is not None or callbacks != FormatCallbacks():
        raise UsageError("pass provider= and the format callbacks to the SharedAccumulator, which writes the messages")
    return SharedExecution(calls, execution_options)


class SharedExecution:
    """The running of the calls of several streams. It is used once: awaited, or entered and iterated.

    The calls of a stream run when the stream has ended; those of all streams share one limit, and start in the order in
    which the streams ended. ``read``, ``enqueue`` and ``end`` of the ``SharedAccumulator`` wait while more than
    ``capacity`` calls wait for a place, and return no update: each stream has its update here.

    Awaited, it returns a dict with the ``ThreadUpdate`` of each stream, in the order in which they had their last
    results. Iterated, it yields pairs ``(stream, event)``: the events of each call, and for each stream at last a
    ``RoundFinished`` with its update, numbered in that order. Both end when the ``SharedAccumulator`` was closed and
    all its streams have ended. Leaving the block early cancels what runs and waits for its end; every call has its
    result then, and a stream that ends afterwards is a ``UsageError``.

    A stream is what was passed for it: the ``Turn``, or the name or ``Accumulator`` of a stream of chunks.

    Args:
        shared: what reads the streams.
        options: how their calls are run.

    Attributes:
        updates: what each stream adds to the conversation, except those whose ``RoundFinished`` was read.
    """

    _is_used = True  # until there is something to use: ``__del__`` is also called if the constructor raises

    def __init__(self, shared: SharedAccumulator, options: ExecutionOptions) -> None:
        self.updates: dict[Stream, ThreadUpdate] = {}
        self._options = options
        self._schedule = options.schedule
        self._capacity = shared.capacity
        self._streams: dict[Executor, Stream] = {}  # those whose end was not read
        self._to_start: deque[Executor] = deque()  # the calls of streams that have ended
        self._calls_to_start = 0  # how many they have
        self._added = 0  # how many calls all streams had
        # The streams that may have to wait, each with the number of calls up to its last one.
        self._waiting_streams: deque[tuple[int, anyio.Event]] = deque()
        self._started: list[Executor] = []  # those that have not ended
        self._unread: deque[Executor] = deque()  # one for each of its unread events, and for its end
        self._ended = 0  # how many streams' ends were read
        self._changed = anyio.Event()  # set when more may start, or can be read
        self._scope = anyio.CancelScope()
        self._task: BackgroundTask | None = None
        self._defect: Exception | None = None  # what ``approve`` raised
        self._is_unwatched = self._is_exhausted = False
        self._has_all_streams = False
        self._is_over = False  # nothing runs any more
        shared.hand_over_to(self)
        self._is_used = False

    def __del__(self) -> None:
        if not self._is_used:
            message = "the calls of a SharedAccumulator were never run: await the execution, or enter it"
            warnings.warn(message, RuntimeWarning, stacklevel=2, source=self)

    def __await__(self) -> Generator[Any, Any, dict[Stream, ThreadUpdate]]:
        return self._run_unwatched().__await__()

    async def _run_unwatched(self) -> dict[Stream, ThreadUpdate]:
        """Run the calls in the caller's own task, without events."""
        self._use()
        self._is_unwatched = True
        self._unread.clear()
        await self._run()
        return self.updates

    async def __aenter__(self) -> SharedExecution:
        self._use()
        self._task = BackgroundTask(self._run)
        return self

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
                self._finish()  # the event loop may have been shut down before the task started

    def __aiter__(self) -> SharedExecution:
        if self._task is None:
            raise UsageError("iterate inside the block: async with ... as execution: async for stream, event in ...")
        if self._is_exhausted:
            raise UsageError("the events of this execution were read: they arrive once; see execution.updates")
        return self

    async def __anext__(self) -> tuple[Stream, Event]:
        while True:
            while self._unread:
                executor = self._unread.popleft()
                stream, event = self._streams[executor], executor.queue.pop()
                if event is not None:
                    return stream, event
                del self._streams[executor]
                update = self.updates.pop(stream, None)
                if update is not None:  # else a format callback has raised, which ``aclose`` does again
                    self._ended += 1
                    return stream, RoundFinished(self._ended - 1, update)
            if self._is_over:
                self._is_exhausted = True
                raise StopAsyncIteration
            await self._wait()

    def _use(self) -> None:
        if self._is_used:
            raise UsageError("an execution is used once")
        self._is_used = True
        OccupiedPlace.check_outside_of(self._schedule)

    # ---------------------------------------------------------------- for the SharedAccumulator

    @property
    def layout(self) -> ThreadLayout:
        """The layout of each stream's calls and results."""
        return self._options.layout

    async def add(self, calls: Round, stream: Stream) -> None:
        """Add the calls of a stream that has ended; wait until no more of these and earlier ones wait than may wait.

        Raises:
            UsageError: the execution was left.
        """
        if self._is_over:
            raise UsageError("the execution of the calls of these streams was left")
        executor = Executor(calls, self._options, {}, {}, False)
        self._streams[executor] = stream
        executor.queue.listener = partial(self._note, executor)
        self._to_start.append(executor)
        self._calls_to_start += len(calls.open_positions)
        self._added += len(calls.open_positions)
        place = anyio.Event()
        self._waiting_streams.append((self._added, place))
        self._note_change()
        await place.wait()

    def close(self) -> None:
        """Declare that no stream follows."""
        self._has_all_streams = True
        self._changed.set()

    # ---------------------------------------------------------------- internals

    async def _run(self) -> None:
        self._schedule.subscribe(self, self._note_change)
        try:
            with self._scope:
                async with anyio.create_task_group() as executors:
                    while self._to_start or not self._has_all_streams:
                        if self._to_start and self._may_start():
                            executor = self._to_start.popleft()
                            self._calls_to_start -= len(executor.round.open_positions)
                            self._started.append(executor)
                            executor.open()
                            executors.start_soon(self._run_one, executor)
                        else:
                            await self._wait()
        finally:
            self._schedule.unregister(self)
            self._finish()
        if self._defect is not None:
            raise self._defect

    def _may_start(self) -> bool:
        """Return True if the next stream's calls may start: a place is free for which no earlier stream has a call.

        A place that the thread of an abandoned tool occupies is free in this sense, because an executor decides how
        long to wait for it.
        """
        schedule = self._schedule
        is_full = schedule.running >= schedule.limit and not schedule.has_abandoned
        return not is_full and not any(map(schedule.can_start, self._started))

    async def _run_one(self, executor: Executor) -> None:
        try:
            await executor.run()
        except Exception as error:
            self._defect = self._defect or error
            self._scope.cancel()
        finally:
            self._started.remove(executor)
            self._keep_update(executor)
            self._note_change()

    def _keep_update(self, executor: Executor) -> None:
        if executor.update is not None and executor in self._streams:
            self.updates[self._streams[executor]] = executor.update
        if self._is_unwatched:
            self._streams.pop(executor, None)

    def _finish(self) -> None:
        """Give every call that is left its result."""
        if not self._is_over:
            self._is_over = True
            for executor in list(self._streams):
                executor.finalize()
                self._keep_update(executor)
            self._changed.set()
            for _, place in self._waiting_streams:
                place.set()

    def _note(self, executor: Executor) -> None:
        """Note that an executor has another event, or has ended."""
        if self._is_unwatched:
            executor.queue.drain()
        else:
            self._unread.append(executor)
        self._note_change()

    def _note_change(self) -> None:
        """Note that more can be read, or that a call has started or ended; let streams go on that have waited."""
        self._changed.set()
        waiting = self._calls_to_start + sum(map(self._schedule.count_waiting, self._started))
        while self._waiting_streams and self._waiting_streams[0][0] - (self._added - waiting) <= self._capacity:
            self._waiting_streams.popleft()[1].set()

    async def _wait(self) -> None:
        """Wait for the next change; what has waited for an earlier one was woken by that."""
        if self._changed.is_set():
            self._changed = anyio.Event()
        await self._changed.wait()
