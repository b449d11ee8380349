"""The caller's side of running the calls of several streams: ``SharedExecution``, which the executors return.

It runs the calls of each stream by an ``Executor`` of its own when the stream has ended, all under one schedule. This
module must not depend on how streams are read.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Generator
from functools import partial
from types import TracebackType
from typing import Any

import anyio

from streamkit.errors import UsageError
from streamkit.events import Event, RoundFinished
from streamkit.execution.one_call.background import BackgroundTask
from streamkit.execution.round.executor import ExecutionOptions, Executor
from streamkit.execution.round.round import Round
from streamkit.execution.round.scheduler import OccupiedPlace
from streamkit.execution.round.thread_update import ThreadLayout, ThreadUpdate
from streamkit.execution.shared import SharedAccumulator, Stream

__all__ = ["SharedExecution"]


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
        self._defect: Exception | None = None  # what ``approve`` or a format callback raised
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
                try:
                    executor.finalize()
                except Exception as error:  # of a format callback: the other calls have results, and no stream waits
                    self._defect = self._defect or error
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
