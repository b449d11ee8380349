"""One attempt to run a tool within its time limit: what it returns, raises or exceeds becomes its call's result.

The tool has a task that no other tool uses. It may leave a cancel scope or a task group open, and may cancel its task:
all of that ends with the task. What it raises is its call's error (``docs/rules.md``, "Running calls"), in
``ToolResult.exception`` and in the log ``streamkit``; a tool that its time limit ends has the result ``timed_out``.

``prepare`` decides before whether a call may run; ``execute_one_tool`` does both, for loops of your own. This module
must not depend on other calls, on messages or on providers.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from contextlib import suppress
from functools import partial
from inspect import isawaitable
from typing import Any, Protocol, TypeAlias

import anyio
import anyio.lowlevel
from msgspec import Struct, field

from streamkit.calls import ErrorCause, ToolCall, ToolResult
from streamkit.errors import ToolFailed, UsageError
from streamkit.events import ToolEvent, ToolProgress, ToolRunning, Warned
from streamkit.execution.one_call.background import (
    BLOCKED,
    MAX_ABANDONED,
    WorkerThread,
    await_in_steps,
    count_abandoned,
    current_asyncio_task,
    is_event_loop_running,
)
from streamkit.execution.one_call.nested import current_call
from streamkit.execution.one_call.prepare import (
    Approve,
    PreparedCall,
    approval_failed_result,
    blocked_result,
    describe_for_model,
    log_exception,
    missing_approval_result,
    prepare_call,
    request_approval,
    stopped_result,
    to_result_event,
)
from streamkit.history.tool_results import exception_text
from streamkit.reading.time_limits import check_seconds
from streamkit.reading.turn import Turn
from streamkit.tools import Tool, ToolContext, to_tools
from streamkit.tools.context import copy_call

__all__ = [
    "AroundCall",
    "CallObserver",
    "Report",
    "ToolAttempt",
    "execute_one_tool",
]

#: What receives the events of a running call.
Report: TypeAlias = Callable[[ToolEvent | Warned], object]

#: ``around_call(call, go)``: runs a call by ``await go()`` and returns the value that becomes its result.
AroundCall: TypeAlias = Callable[[ToolCall, Callable[[], Awaitable[Any]]], Awaitable[Any]]


class CallObserver(Protocol):
    """Observes calls that run; those that do not run (denied, invalid, awaiting a decision) are not reported."""

    def start_call(self, call: ToolCall, tool: Tool) -> Callable[[ToolResult | None], object]:
        """Take the start of a call, and return the function that takes its result: None if the call was canceled."""


# Seconds that a synchronous tool has to notice ``ToolContext.canceled`` before its thread is abandoned.
_GRACE = 0.2


class ToolAttempt(Struct, eq=False):
    """One attempt to run a call."""

    prepared: PreparedCall  #: the call
    deps: Any  #: the tool's ``ToolContext.deps``
    turn: Turn | None  #: the turn that made the call
    report: Report  #: gets ``ToolRunning``, progress, and the warning of a thread that does not stop
    #: called with the call and the function that calls the tool; None to call the tool itself
    around_call: AroundCall | None = None
    number: int = 1  #: of the attempt, from 1; ``ToolContext.attempt``
    fence: int | None = None  #: the number of the claim on a durable run
    thread: WorkerThread | None = None  #: that of a synchronous tool, once it was started
    is_canceled: bool = False  #: ``cancel`` was called
    is_abandoned: bool = False  #: its thread did not stop when it should have
    has_blocked: bool = False  #: it has blocked the event loop, which was reported
    #: it has its result or was canceled; its thread may continue, but reports nothing more
    is_over: bool = False
    #: the result; None before it has one, and if it was canceled
    result: ToolResult | None = None
    # The scope of the tool, for its time limit and to cancel it alone. ``CancelScope()`` initializes it twice.
    _scope: anyio.CancelScope = field(default_factory=partial(anyio.move_on_after, None))

    def cancel(self) -> None:
        """Cancel the tool, also before it runs. The attempt ends without an exception, and without a result."""
        self.is_canceled = True
        self._scope.cancel()

    async def run(self, seconds: float | None) -> ToolResult:
        """Run the tool in a task of its own and return its result.

        Only cancellation of the caller, and a KeyboardInterrupt, are raised.

        Args:
            seconds: for the call; a tool's own timeout takes precedence. None for no limit.
        """
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._run_unless_cancelled, seconds)
        except BaseExceptionGroup as group:
            if self.result is None:
                raise group.exceptions[0] from None
            # What remains is the event loop's report that the tool has left its task in disorder.
        assert self.result is not None  # noqa: S101 - otherwise the group has raised
        return self.result

    async def _run_unless_cancelled(self, seconds: float | None) -> None:
        await anyio.lowlevel.checkpoint_if_cancelled()  # else the part of the tool before its first await would run
        await self.run_here(seconds)

    async def run_here(self, seconds: float | None) -> None:
        """Run the tool as ``run`` does, but in the current task, which nothing else may use; set ``result``."""
        call, tool, scope = self.prepared.call, self.prepared.tool, self._scope
        task = current_asyncio_task()
        seconds = seconds if tool.timeout is None else tool.timeout
        if seconds is not None:
            # anyio.current_time() would search for the event loop.
            scope.deadline = (anyio.current_time() if task is None else task.get_loop().time()) + seconds
        self.report(ToolRunning(call.ref))
        cancellations = 0 if task is None else task.cancelling()
        has_value, value = False, None
        try:
            with scope:
                if self.around_call is None:
                    value = await self._call()
                else:
                    value = await self.around_call(copy_call(self.prepared.call), self._call)
                has_value = True
        except BaseException as error:
            if _must_propagate(error):
                raise
            if isinstance(error, anyio.get_cancelled_exc_class()):
                if _is_cancelled_from_outside():
                    raise
                if self.is_canceled:  # and asyncio has cancelled the task, as at the end of its event loop
                    return
                message = f"{tool.name} was canceled by itself or by an operation that it awaited."
                self.result = self._failed(error, message)
                return
            is_timeout = scope.cancel_called
            scope.cancel()  # what the tool has left running, if it left a scope open
            if has_value:  # only leaving the scope can have failed
                message = f"{tool.name} failed: it left a cancel scope or task group open, so its effects are unknown."
                self.result = self._failed(error, message)
                return
            if not is_timeout:
                self.result = self._failed(error)
                return
        finally:
            self.is_over = True
            if task is not None and task.cancelling() > cancellations:
                await _absorb_cancellations(task, cancellations)
        if has_value:
            self.result = ToolResult(call, "completed", value, metadata=self.prepared.metadata)
        elif not self.is_canceled:
            abandoned = " Its thread cannot be stopped and may still finish." if self.is_abandoned else ""
            error_text = f"{tool.name} did not finish within {seconds:g} seconds.{abandoned}"
            self.result = ToolResult(call, "timed_out", error=error_text, metadata=self.prepared.metadata)

    def _failed(self, error: BaseException, message: str | None = None) -> ToolResult:
        """Return the result of a tool that raised, and log the exception."""
        call, tool = self.prepared.call, self.prepared.tool
        cause: ErrorCause = "failed" if isinstance(error, ToolFailed) else "raised"
        if cause == "failed":  # its message is written for the model: no defect
            message = exception_text(error) or f"{tool.name} failed."
        else:
            log_exception(tool, error)
            message = message or f"{tool.name} failed with {describe_for_model(error)}."
        return ToolResult(call, "error", None, message, self.prepared.metadata, error, cause)

    def progress(self, value: Any) -> None:
        """Report progress, from the event loop's thread or the tool's; nothing after the end."""
        if self.is_over:
            return
        if self.thread is None or threading.get_ident() == self.thread.event_loop_thread:
            self.report(ToolProgress(self.prepared.call.ref, value))
        else:
            self.thread.call_from_thread(self.progress, value)

    async def _call(self) -> Any:
        """Call the function, in a thread unless it is async, and return its final value."""
        tool, arguments = self.prepared.tool, dict(self.prepared.arguments)
        if tool.context_parameter is not None:
            arguments[tool.context_parameter] = ToolContext(
                copy_call(self.prepared.call),
                deps=self.deps,
                turn=self.turn,
                progress=self.progress,
                canceled=lambda: self.is_over,
                attempt=self.number,
                fence=self.fence,
            )
        function = tool.function
        assert function is not None  # noqa: S101 - prepare_call() has checked
        if tool.function_kind in ("async", "async_generator"):
            value = function(**arguments)
        else:
            if count_abandoned() >= MAX_ABANDONED:
                raise ToolFailed(
                    f"Not run: {MAX_ABANDONED} calls of synchronous tools that were given up still run in threads,"
                    " which cannot be stopped, and no more are started. Continue without this tool."
                )
            self.thread = thread = WorkerThread(partial(_call_plain, function, arguments, self.progress))
            try:
                value = await thread.result()
            except anyio.get_cancelled_exc_class():
                self.is_over = True  # context.canceled becomes true: a tool that checks it has a moment to stop
                call = current_call()
                if call is not None and call.call_id == self.prepared.call.id:  # else its tool runs this call itself
                    call.cancel()  # the runs that it makes have event loops of their own
                try:
                    await thread.ends_within(_GRACE)
                finally:
                    self.is_abandoned = thread.alive
                    if self.is_abandoned:
                        thread.abandon()
                        message = f"{tool.name} is synchronous and did not stop: its thread was left running"
                        self.report(Warned("tool_abandoned", message))
                raise
        if isawaitable(value):  # also what a plain function returned, such as a lambda around a coroutine
            value = await await_in_steps(value, self._end_step)
        if isinstance(value, AsyncIterator):
            value = await self._last_value(value)
        return value

    def _end_step(self, seconds: float, is_last: bool) -> None:
        """Warn of a step in which the event loop could do nothing else, such as ``time.sleep``; once a call."""
        if seconds >= BLOCKED and not self.has_blocked:
            self.has_blocked = True
            message = (
                f"{self.prepared.tool.name} blocked the event loop for {seconds:.1f} seconds: no other call, stream or"
                " time limit went on. Await what waits, or make it a plain function, which runs in a thread"
            )
            self.report(Warned("event_loop_blocked", message))

    async def _last_value(self, values: AsyncIterator[Any]) -> Any:
        """Return the last value; report those before it as progress.

        Only the generator's next step shows whether a value is the last. If that step has to wait, there is more to do,
        and the value is reported at once; if it ends or yields again without waiting, this is known without delay.
        """
        value: Any = None
        is_reported = True

        def end_step(seconds: float, is_last: bool) -> None:
            nonlocal is_reported
            self._end_step(seconds, is_last)
            if not (is_last or is_reported):
                is_reported = True
                self.progress(value)

        while True:
            try:
                next_value = await await_in_steps(values.__anext__(), end_step)
            except StopAsyncIteration:
                return value
            if not is_reported:
                self.progress(value)
            value, is_reported = next_value, False


def _call_plain(function: Callable[..., Any], arguments: dict[str, Any], progress: Callable[[Any], None]) -> Any:
    """Call a plain function, in its thread; of a generator return the last value and report those before it."""
    value = function(**arguments)
    if not isinstance(value, Generator):
        return value
    last: Any = None
    for number, next_value in enumerate(value):
        if number:
            progress(last)
        last = next_value
    return last


def _is_cancelled_from_outside() -> bool:
    """Return True if a scope around this task's tool was cancelled.

    On asyncio a tool may also cancel its own task, or meet the cancellation of a future that it awaits. On trio only
    scopes cancel, and a scope inside the tool catches its own cancellation.
    """
    return current_asyncio_task() is None or anyio.current_effective_deadline() == -math.inf


async def _absorb_cancellations(task: asyncio.Task[Any], before: int) -> None:
    """Remove the cancellations that a tool has requested of its own task; they would end it as canceled.

    *before* is its count of requests before the tool ran; those of anyio's scopes are not counted any more.
    """
    if task.cancelling() <= before or _is_cancelled_from_outside():
        return
    with suppress(asyncio.CancelledError):  # a request that the tool has not met yet: uncancel() keeps it before 3.13
        await asyncio.sleep(0)
    while task.cancelling() > before:
        task.uncancel()


def _must_propagate(error: BaseException) -> bool:
    """Return True for what is not a tool's failure: an interrupt, and a coroutine that is closed with its event loop.

    SystemExit is one: a tool that exits must not end the program.
    """
    if isinstance(error, BaseExceptionGroup):
        return any(map(_must_propagate, error.exceptions))
    return isinstance(error, KeyboardInterrupt) or (isinstance(error, GeneratorExit) and not is_event_loop_running())


async def execute_one_tool(
    call: ToolCall,
    *,
    tools: Sequence[Callable[..., Any] | Tool],
    timeout: float | None = 30.0,  # noqa: ASYNC109 - it limits the tool, and is reported as a result
    deps: Any = None,
    approve: Approve | None = None,
    turn: Turn | None = None,
    report: Report | None = None,
    observer: CallObserver | None = None,
) -> ToolResult:
    """Run one call and return its result; for loops of your own.

    Cancellation reports a ``tool_canceled`` event and propagates. So does what ``approve`` raises, after a
    ``tool_error``; nothing else is raised.

    Args:
        call: the call.
        tools: functions and tools; a call of any other name gets an ``error``.
        timeout: seconds; None for no limit. A tool's own timeout takes precedence.
        deps: the tool's ``ToolContext.deps``.
        approve: called for tools with ``approval="ask"``.
        turn: the turn that made the call.
        report: called with the events as they happen: ``tool_running``, ``tool_progress`` and the result event;
            ``warned`` if a synchronous tool does not stop when it should.
        observer: observes the call if it runs, as that of the executors.
    """
    if not isinstance(call, ToolCall):
        raise UsageError(f"execute_one_tool takes a ToolCall, as in turn.calls, not {type(call).__name__}")
    check_seconds("timeout", timeout)
    emit = report or (lambda event: None)
    prepared = blocked_result(call, turn) or prepare_call(call, to_tools(tools))
    try:
        if isinstance(prepared, PreparedCall) and prepared.tool.approval == "ask":
            prepared = await request_approval(prepared, approve, deps) or missing_approval_result(prepared)
        if isinstance(prepared, PreparedCall):
            attempt = ToolAttempt(prepared, deps, turn, emit)
            end = None if observer is None else observer.start_call(prepared.call, prepared.tool)
            try:
                result = await attempt.run(timeout)
            finally:
                if end is not None:
                    end(attempt.result)
        else:
            result = prepared
    except anyio.get_cancelled_exc_class():
        emit(to_result_event(stopped_result(call, has_started=True)))
        raise
    except Exception as error:
        emit(to_result_event(approval_failed_result(call, error)))
        raise
    emit(to_result_event(result))
    return result
