"""The tasks and threads that an execution and its calls run in, outside of the caller's scopes, and its events' queue.

People keep executions open across a ``yield`` in generators of web frameworks, which are then closed from another task.
A task group must not be open across a ``yield``. So the work runs in a task that is in no scope of the caller: a plain
task on asyncio, a system task on trio (a nursery would be a scope of the caller). All scopes of the work are entered
and left inside this task. The task never ends in an exception; ``aclose``, from any task, cancels it, waits for its end
and raises what the work raised.

A synchronous function runs in a new daemon thread. anyio's worker threads do not fit: on asyncio the interpreter joins
them when it exits, so one function that never returns keeps the program from exiting (measured with anyio 4.16: a sleep
of 6 seconds, abandoned after 0.2, delayed the exit by 6). A daemon thread does not. A thread that is not waited for any
more is counted until it returns, over the whole program, so that hanging functions cannot use up its memory.

This module must not depend on tools, rounds or providers, nor on what decides which call is next.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import sys
import threading
import types
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any

import anyio
import anyio.lowlevel
from anyio.lowlevel import current_token
from msgspec import Struct, field

from streamkit.calls import CallRef
from streamkit.events import Event, StatePatch, ToolProgress

__all__ = [
    "BLOCKED",
    "MAX_ABANDONED",
    "PROGRESS_BOUND",
    "BackgroundTask",
    "CallTasks",
    "EventQueue",
    "WorkerThread",
    "asyncio_event_loop",
    "await_in_steps",
    "call_soon_of",
    "count_abandoned",
    "current_asyncio_task",
    "is_event_loop_running",
]

#: Unread progress events of one execution; beyond them a call's newest value replaces its last unread one.
PROGRESS_BOUND = 256

#: Seconds between two suspensions from which on a call is said to have blocked the event loop.
BLOCKED = 1.0


def current_asyncio_task() -> asyncio.Task[Any] | None:
    """Return the current task of asyncio, or None on trio."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def asyncio_event_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop of asyncio that runs the current task, or None on trio, also as a guest of asyncio."""
    task = current_asyncio_task()
    return None if task is None else task.get_loop()


def call_soon_of(event_loop: asyncio.AbstractEventLoop | None) -> Callable[[Callable[[], None]], Any]:
    """Return the function that has a thread's call made in the event loop."""
    if event_loop is not None:
        return event_loop.call_soon_threadsafe
    import trio  # only where it is running already

    return trio.lowlevel.current_trio_token().run_sync_soon


def is_event_loop_running() -> bool:
    """Return True in code that an event loop runs."""
    try:
        anyio.get_cancelled_exc_class()
    except RuntimeError:
        return False
    return True


@types.coroutine
def await_in_steps(awaitable: Awaitable[Any], ended: Callable[[float, bool], None]) -> Generator[Any, Any, Any]:
    """Await, and call *ended* after each step, the part between two suspensions. Return the result.

    *ended* gets the seconds of the step, in which the event loop did nothing else, and whether it was the last one.
    This is ``yield from`` (PEP 380), written out.
    """
    steps = awaitable.__await__()
    step: Callable[[], Any] = partial(next, steps)
    while True:
        began, is_last = monotonic(), True
        try:
            signal = step()
            is_last = False
        except StopIteration as stop:
            return stop.value
        finally:
            del step  # an exception that it has thrown refers to this frame by its traceback
            ended(monotonic() - began, is_last)
        try:
            reply = yield signal
        except GeneratorExit:
            steps.close()
            raise
        except BaseException as error:
            step = partial(steps.throw, error)
        else:
            step = partial(steps.send, reply)


class BackgroundTask:
    """A task that runs *work* at once, until it ends or is closed."""

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self._error: BaseException | None = None
        self._start()

    def _start(self) -> None:
        if current_asyncio_task() is not None:
            self._task = asyncio.create_task(self._run())  # kept, since the event loop has only a weak reference
            self._task.add_done_callback(lambda _: self._ended.set())  # also if it is cancelled before it started
        else:
            import trio  # only where it is running already

            trio.lowlevel.spawn_system_task(self._run, context=contextvars.copy_context())

    async def _run(self) -> None:
        try:
            with self._scope:
                await self._work()
        except (Exception, KeyboardInterrupt, SystemExit, BaseExceptionGroup) as error:
            self._error = error  # a KeyboardInterrupt in a tool, or a defect of this package: aclose() raises it
        finally:
            self._ended.set()

    async def aclose(self) -> None:
        """Cancel the work and wait for its end, even if the caller is cancelled meanwhile, also repeatedly.

        Raises:
            BaseException: what the work raised, such as a KeyboardInterrupt.
        """
        self._scope.cancel()
        interruption: BaseException | None = None
        while not self._ended.is_set():
            try:
                with anyio.CancelScope(shield=True):
                    await self._ended.wait()
            except anyio.get_cancelled_exc_class() as error:  # asyncio's own cancel() ignores shields
                interruption = error
        work_error, self._error = self._error, None
        if work_error is not None:
            raise work_error
        if interruption is not None:
            raise interruption


class CallTasks:
    """The tasks of calls, a new one for each call.

    What a tool leaves open ends with its task. A tool that leaves its task in disorder (an open scope or task group)
    breaks the task group around it, so that these tasks are in no group with others: on asyncio plain tasks, which cost
    a sixth of those of a group of anyio, on trio system tasks with a group for each call. The scopes of the caller do
    not include them: the executor cancels them, and of these scopes only the deadline is passed on. They get it, and
    the context variables, of the task that creates this object.

    Args:
        run: runs the call at a position in the current task.
        failed: called with an exception that ``run`` raised, unless the task was cancelled.
    """

    def __init__(
        self, run: Callable[[int], Coroutine[Any, Any, None]], failed: Callable[[BaseException], None]
    ) -> None:
        self._run = run
        self._failed = failed
        self._context = contextvars.copy_context()  # a task inherits that of its starter, which may be another call's
        self._deadline = anyio.current_effective_deadline()
        self.event_loop: asyncio.AbstractEventLoop | None = asyncio_event_loop()  # None on trio
        self._tasks: dict[int, asyncio.Task[None]] = {}  # by number: those that have not ended in order, on asyncio
        self._started = 0
        self._running = 0  # how many have not ended, on trio
        self._ended: anyio.Event | None = None  # set when the last one has ended, on trio
        self._to_begin: deque[int] = deque()  # positions of started calls whose tasks have not begun, on trio
        self.is_cancelled: bool = self._deadline == -math.inf  # that task is, at the creation of this object
        self.is_closed: bool = False  # no further call starts, nor one whose task has not begun

    def start(self, position: int) -> None:
        """Start a call; do nothing once closed."""
        if self.is_closed:
            return
        if self.event_loop is not None:
            # Not by the event loop's factory: an eager one would run the tool here, at the end of another call.
            self._started = number = self._started + 1
            work = self._run_call(position, number)
            self._tasks[number] = asyncio.Task(work, loop=self.event_loop, context=self._context.copy())
        else:
            import trio  # only where it is running already

            self._to_begin.append(position)
            self._running += 1
            trio.lowlevel.spawn_system_task(self._run_in_group, position, context=self._context.copy())

    async def wait(self) -> None:
        """Wait, once closed, for the end of all tasks, even if the caller is cancelled meanwhile, repeatedly."""
        interruption: BaseException | None = None
        pending = set(self._tasks.values())
        while self._running or pending:
            try:
                with anyio.CancelScope(shield=True):
                    if self.event_loop is not None:
                        _, pending = await asyncio.wait(pending)
                    else:
                        self._ended = anyio.Event()
                        await self._ended.wait()
            except asyncio.CancelledError as error:  # asyncio's own cancel() ignores shields
                interruption = error
        for task in self._tasks.values():
            if not task.cancelled():
                task.exception()  # else asyncio would log that it was never read: ``failed`` has reported it
        if interruption is not None:
            raise interruption

    async def _run_in_group(self, position: int) -> None:
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._run_in_order, position)
        except BaseExceptionGroup:
            pass  # a failure that was reported, or trio's report that a tool has left its task in disorder
        finally:
            self._running -= 1
            if self._ended is not None and not self._running:
                self._ended.set()

    async def _run_in_order(self, position: int) -> None:
        while self._to_begin[0] != position:  # calls begin in their order; trio starts tasks in any order
            await anyio.lowlevel.checkpoint()
        self._to_begin.popleft()
        await self._run_call(position)

    def _run_call(self, position: int, number: int = 0) -> Coroutine[Any, Any, None]:
        return (self._run_one if self._deadline == math.inf else self._run_in_time)(position, number)

    async def _run_in_time(self, position: int, number: int) -> None:
        has_ended = False
        try:
            with anyio.CancelScope(deadline=self._deadline) as scope:
                if not scope.cancel_called:
                    await self._run_one(position, number)
                has_ended = True
        except RuntimeError:
            if not has_ended:
                raise
            # The event loop's report that a tool has left its task in disorder.

    async def _run_one(self, position: int, number: int) -> None:
        if not self.is_closed:
            try:
                await self._run(position)
            except anyio.get_cancelled_exc_class():
                raise
            except BaseException as error:
                self._failed(error)
                raise
        self._tasks.pop(number, None)  # the task ends here; a callback at its end would cost one of the event loop


class _CoalescedProgress(Struct, eq=False):
    """An unread progress report. A newer one may replace its value."""

    call: CallRef
    value: Any


class EventQueue(Struct, eq=False):
    """A queue of events for one reader. Writing never waits.

    Its size is bounded: a call has a fixed number of events other than progress, and of progress at most
    ``PROGRESS_BOUND`` reports and one for each call are kept. A ``StatePatch`` is never replaced: what follows it
    builds on it.
    """

    closed: bool = False
    _events: deque[Event | _CoalescedProgress] = field(default_factory=deque)
    _newest: dict[CallRef, _CoalescedProgress] = field(default_factory=dict)  # the newest unread report of each call
    _progress_count: int = 0
    #: Called when there is another event to read, and at the end.
    listener: Callable[[], object] | None = None

    def put(self, event: Event) -> None:
        """Add an event; after ``close`` do nothing."""
        if self.closed:
            return
        if isinstance(event, ToolProgress):
            newest = self._newest.get(event.call)
            is_patch = isinstance(event.value, StatePatch) or isinstance(newest and newest.value, StatePatch)
            if newest is not None and self._progress_count >= PROGRESS_BOUND and not is_patch:
                newest.value = event.value
                return
            self._newest[event.call] = report = _CoalescedProgress(event.call, event.value)
            self._progress_count += 1
            self._events.append(report)
        else:
            self._events.append(event)
        if self.listener is not None:
            self.listener()

    def close(self) -> None:
        """Declare that no event follows. Idempotent."""
        was_closed, self.closed = self.closed, True
        if self.listener is not None and not was_closed:
            self.listener()

    async def get(self) -> Event | None:
        """Return the next event, waiting for it; None if the queue is closed and empty."""
        return self.pop() if await self._has_events() else None

    async def get_all(self) -> list[Event]:
        """Return all events, waiting for the first; none if the queue is closed and empty."""
        return self.drain() if await self._has_events() else []

    async def _has_events(self) -> bool:
        """Wait for an event; return False if none follows."""
        while not self._events:
            if self.closed:
                return False
            wake = anyio.Event()
            self.listener = wake.set
            await wake.wait()
        return True

    def drain(self) -> list[Event]:
        """Remove and return all events."""
        return [event for _ in range(len(self._events)) if (event := self.pop()) is not None]

    def pop(self) -> Event | None:
        """Remove and return the next event; None if there is none."""
        event = self._events.popleft() if self._events else None
        if not isinstance(event, _CoalescedProgress):
            return event
        self._progress_count -= 1
        if self._newest.get(event.call) is event:
            del self._newest[event.call]
        return ToolProgress(event.call, event.value)


MAX_ABANDONED = 64  #: abandoned threads of the program that may run before no other is started

_abandoned: set[WorkerThread] = set()

_POLL_INTERVAL = 0.005  # seconds between checks whether the thread has returned


def count_abandoned() -> int:
    """Return how many threads were abandoned and have not returned."""
    for thread in list(_abandoned):
        if not thread.alive:
            _abandoned.discard(thread)
    return len(_abandoned)


class WorkerThread:
    """One call of a function in a thread.

    Args:
        function: what to run, with the context variables of the caller of ``result``.
    """

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._token = current_token()
        self._call_soon = call_soon_of(asyncio_event_loop())
        self._done = anyio.Event()
        self._value: Any = None
        self._error: BaseException | None = None
        self._returned: list[Callable[[], object]] = []
        self.event_loop_thread: int = threading.get_ident()  # the identifier of the event loop's thread
        self.alive: bool = False  # the thread was started and has not returned

    async def result(self) -> Any:
        """Start the thread and return the function's value, or raise its exception.

        After a cancellation the thread continues by itself.
        """
        context = contextvars.copy_context()
        if (sniffio := sys.modules.get("sniffio")) is not None:  # the thread has no event loop
            context.run(sniffio.current_async_library_cvar.set, None)
        self.alive = True
        threading.Thread(target=context.run, args=(self._run,), name="streamkit tool", daemon=True).start()
        await self._done.wait()
        if self._error is not None:
            raise self._error
        return self._value

    def call_from_thread(self, function: Callable[..., Any], *args: Any) -> None:
        """Call a function in the event loop's thread, from this one, and wait for it.

        Do nothing if the event loop has ended.
        """
        from anyio import from_thread  # few tools that are not async report anything

        with suppress(RuntimeError):  # RunFinishedError, or the event loop is closing
            from_thread.run_sync(function, *args, token=self._token)

    def abandon(self) -> None:
        """Declare that the function is not waited for any more."""
        _abandoned.add(self)

    def on_return(self, callback: Callable[[], object]) -> None:
        """Call *callback* in the event loop when the function returns, unless the event loop has ended before."""
        self._returned.append(callback)

    async def ends_within(self, seconds: float) -> bool:
        """Return True if the function returns in that time. A cancelled task waits too."""
        with anyio.CancelScope(shield=True):
            for _ in range(round(seconds / _POLL_INTERVAL)):
                if not self.alive:
                    break
                await anyio.sleep(_POLL_INTERVAL)
        return not self.alive

    def _run(self) -> None:
        try:
            self._value = self._function()
        except BaseException as error:  # result() raises it
            self._error = error
        del self._function  # a tool's refers to this object, which would be left to the garbage collector
        self.alive = False
        with suppress(RuntimeError):  # the event loop has ended
            self._call_soon(self._finish)  # the thread ends at once; ``call_from_thread`` would wait

    def _finish(self) -> None:
        self._done.set()
        for callback in self._returned:
            callback()
