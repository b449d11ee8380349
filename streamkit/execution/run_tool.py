"""Running one tool: from a call to its one result, whatever fails.

A problem with a tool is its result, as a sentence that the model can act on (``docs/rules.md``, "Running calls");
nothing here raises for it. This module must not depend on other calls, on messages or on providers.
"""

from __future__ import annotations

import threading
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, TypeAlias

import anyio
import anyio.lowlevel

from streamkit.calls import CallRef, ResultStatus, ToolCall, ToolResult
from streamkit.errors import ToolFailed
from streamkit.events import (
    ToolCanceled,
    ToolCompleted,
    ToolDenied,
    ToolError,
    ToolEvent,
    ToolProgress,
    ToolRunning,
    ToolTimedOut,
    Warned,
)
from streamkit.execution.background import current_asyncio_task
from streamkit.execution.options import Approve
from streamkit.execution.round import blocked_result
from streamkit.execution.worker_thread import WorkerThread
from streamkit.redaction import redact
from streamkit.tools import Approval, Tool, ToolContext, to_tools
from streamkit.tools.nearest import quote_name, sort_by_similarity
from streamkit.turn import Turn

__all__ = [
    "CANCELED",
    "PreparedCall",
    "apply_approval",
    "execute_one_tool",
    "missing_approval_result",
    "prepare_call",
    "request_approval",
    "run_call",
    "to_result_event",
]

#: What receives the events of a running call.
Report: TypeAlias = Callable[[ToolEvent | Warned], object]

# Seconds that a synchronous tool has to notice ``ToolContext.canceled`` before its thread is abandoned.
_GRACE = 0.2

# Neutral on purpose: "interrupted by the user" in a history makes models ask the user what is wrong.
CANCELED = "Canceled before it had finished; nothing is known of its effects."

_RESULT_EVENTS: dict[ResultStatus, Callable[[CallRef, ToolResult], ToolEvent]] = {
    "completed": ToolCompleted,
    "error": ToolError,
    "denied": ToolDenied,
    "timed_out": ToolTimedOut,
    "canceled": ToolCanceled,
}


def to_result_event(result: ToolResult) -> ToolEvent:
    """Return the event of a call's result."""
    return _RESULT_EVENTS[result.status](result.call.ref, result)


async def execute_one_tool(
    call: ToolCall,
    *,
    tools: Sequence[Callable[..., Any] | Tool],
    timeout: float | None = 30.0,  # noqa: ASYNC109 - it limits the tool, and is reported as a result
    deps: Any = None,
    approve: Approve | None = None,
    turn: Turn | None = None,
    report: Report | None = None,
) -> ToolResult:
    """Run one call and return its result; for loops of your own.

    Cancellation reports a ``tool_canceled`` event and propagates; nothing else is raised.

    Args:
        call: the call.
        tools: functions and tools; a call of any other name gets an ``error``.
        timeout: seconds; None for no limit. A tool's own timeout takes precedence.
        deps: the tool's ``ToolContext.deps``.
        approve: called for tools with ``approval="ask"``.
        turn: the turn that made the call.
        report: called with the events as they happen: ``tool_running``, ``tool_progress`` and the result event;
            ``warned`` if a synchronous tool does not stop when it should.
    """
    emit = report or _ignore
    prepared = blocked_result(call, turn) or prepare_call(call, to_tools(tools))
    try:
        if isinstance(prepared, PreparedCall) and prepared.tool.approval == "ask":
            prepared = await request_approval(prepared, approve, deps) or missing_approval_result(prepared)
        if isinstance(prepared, PreparedCall):
            result = await run_call(prepared, timeout, deps, turn, emit)
        else:
            result = prepared
    except anyio.get_cancelled_exc_class():
        emit(to_result_event(ToolResult(call, "canceled", error=CANCELED)))
        raise
    emit(to_result_event(result))
    return result


def _ignore(_: ToolEvent | Warned) -> None:
    pass


# ---------------------------------------------------------------- before it runs


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A call with its tool and with arguments that fit it."""

    call: ToolCall
    tool: Tool
    arguments: dict[str, Any]  #: by keyword, as the function takes them


def prepare_call(call: ToolCall, tools: Mapping[str, Tool]) -> PreparedCall | ToolResult:
    """Find the tool of a complete call and validate the arguments; return a result if that fails."""
    tool = tools.get(call.name)
    if tool is None:
        return ToolResult(call, "error", error=_describe_unknown_tool(call.name, tools))
    if tool.function is None:
        return ToolResult(call, "error", error=f"Not run: {tool.name} cannot be run here.")
    if tool.approval == "deny":
        return ToolResult(call, "denied", error=f"Not run: {tool.name} is not allowed here. Continue without it.")
    return _validate(call, tool, call.arguments)


def _validate(call: ToolCall, tool: Tool, arguments: Any) -> PreparedCall | ToolResult:
    try:
        return PreparedCall(call, tool, tool.validate(arguments))
    except Exception as error:  # a user's own validator may raise anything
        problem = str(error) if isinstance(error, ValueError) else _describe_exception(error)
        return ToolResult(call, "error", error=f"Not run: {problem}. Make the call again with arguments that fit.")


def _describe_unknown_tool(name: str, tools: Mapping[str, Tool]) -> str:
    if not tools:
        return f"Not run: there is no tool {quote_name(name)}, and there are no other tools. Continue without tools."
    names = ", ".join(sort_by_similarity(name, tools))
    return f"Not run: there is no tool {quote_name(name)}. There are: {names}. Call one of these instead."


async def request_approval(
    prepared: PreparedCall, approve: Approve | None, deps: Any
) -> PreparedCall | ToolResult | None:
    """Have a call approved; return its result if it was not, and None without a decision."""
    if approve is None:
        return None
    try:
        approval = approve(prepared.call, deps)
        if isawaitable(approval):
            approval = await approval
    except Exception as error:
        reason = f"Not run: the request for approval failed with {_describe_exception(error)}."
        return ToolResult(prepared.call, "denied", error=reason)
    return None if approval is None else apply_approval(prepared, approval)


def apply_approval(prepared: PreparedCall, approval: Approval | bool) -> PreparedCall | ToolResult:
    """Apply a decision to a call: return the call, perhaps with other arguments, or its result."""
    call, tool = prepared.call, prepared.tool
    if not isinstance(approval, Approval):
        approval = Approval(approval is True)
    if not approval.allow:
        reason = f": {approval.reason}" if approval.reason else ". Do not try it again unasked"
        return ToolResult(call, "denied", error=f"Not run: {tool.name} was not approved{reason}.")
    if approval.arguments is None:
        return prepared
    return _validate(call, tool, approval.arguments)


def missing_approval_result(prepared: PreparedCall) -> ToolResult:
    """Return the result of a call that needs approval where none can be requested."""
    reason = f"Not run: {prepared.tool.name} needs approval, and there is no way to request it here."
    return ToolResult(prepared.call, "denied", error=reason)


# ---------------------------------------------------------------- running


async def run_call(
    prepared: PreparedCall, seconds: float | None, deps: Any, turn: Turn | None, report: Report
) -> ToolResult:
    """Run a call and return its result. *report* gets ``ToolRunning`` and progress. Only cancellation is raised."""
    call, tool = prepared.call, prepared.tool
    if tool.timeout is not None:
        seconds = tool.timeout
    attempt = _ToolAttempt(prepared, deps, turn, report)
    await anyio.lowlevel.checkpoint_if_cancelled()  # else the part of the tool before its first await would run
    report(ToolRunning(call.ref))
    scope = anyio.CancelScope(deadline=anyio.current_time() + seconds if seconds is not None else float("inf"))
    try:
        with scope:
            return ToolResult(call, "completed", await attempt.run())
    except anyio.get_cancelled_exc_class():
        if _is_task_cancelled():
            raise
        return ToolResult(call, "error", error=f"{tool.name} was canceled by an operation that it awaited.")
    except ToolFailed as error:
        return ToolResult(call, "error", error=str(error) or f"{tool.name} failed.")
    except (Exception, SystemExit) as error:  # a tool that exits must not end the program
        if not scope.cancel_called:
            return ToolResult(call, "error", error=f"{tool.name} failed with {_describe_exception(error)}.")
    finally:
        attempt.is_over = True
    abandoned = " Its thread cannot be stopped and may still finish." if attempt.is_abandoned else ""
    return ToolResult(call, "timed_out", error=f"{tool.name} did not finish within {seconds:g} seconds.{abandoned}")


class _ToolAttempt:
    """One attempt to run a call, which reports its progress."""

    __slots__ = ("_prepared", "_ref", "_report", "_thread", "context", "is_abandoned", "is_over")

    def __init__(self, prepared: PreparedCall, deps: Any, turn: Turn | None, report: Report) -> None:
        self._prepared = prepared
        self._ref = prepared.call.ref
        self._report = report
        self._thread: WorkerThread | None = None
        self.is_abandoned = False  # its thread did not stop when it should have
        self.is_over = False  # it has its result or was canceled; its thread may continue, but reports nothing more
        self.context = ToolContext(
            prepared.call, deps=deps, turn=turn, progress=self.progress, canceled=lambda: self.is_over
        )

    def progress(self, value: Any) -> None:
        if self.is_over:
            return
        if self._thread is None or threading.get_ident() == self._thread.event_loop_thread:
            self._report(ToolProgress(self._ref, value))
        else:
            self._thread.call_from_thread(self.progress, value)

    async def run(self) -> Any:
        """Call the function, in a thread unless it is async, and return its final value."""
        tool, arguments = self._prepared.tool, dict(self._prepared.arguments)
        if tool.context_parameter is not None:
            arguments[tool.context_parameter] = self.context
        function = tool.function
        assert function is not None  # noqa: S101 - prepare_call() has checked
        if tool.kind in ("async", "async_generator"):
            value = function(**arguments)
        else:
            value = await self._run_in_thread(lambda: _exhaust(function(**arguments), self.progress))
        if isawaitable(value):  # also what a plain function returned, such as a lambda around a coroutine
            value = await value
        if isinstance(value, AsyncIterator):
            value = await self._last_value(value)
        return value

    async def _run_in_thread(self, function: Callable[[], Any]) -> Any:
        self._thread = thread = WorkerThread(function)
        try:
            return await thread.result()
        except anyio.get_cancelled_exc_class():
            self.is_over = True  # context.canceled becomes true: a tool that checks it has a moment to stop by itself
            try:
                await thread.ends_within(_GRACE)
            finally:
                self.is_abandoned = thread.alive
                if self.is_abandoned:
                    name = self._prepared.tool.name
                    message = f"{name} is synchronous and did not stop: its thread was left running"
                    self._report(Warned("tool_abandoned", message))
            raise

    async def _last_value(self, values: AsyncIterator[Any]) -> Any:
        """Return the last value; report those before it as progress.

        Only the generator's next step shows whether a value is the last. If that step has to wait, there is more to do,
        and the value is reported at once; if it ends or yields again without waiting, this is known without delay.
        """
        value: Any = None
        is_reported = True

        def report_value() -> None:
            nonlocal is_reported
            if not is_reported:
                is_reported = True
                self.progress(value)

        while True:
            try:
                next_value = await _call_if_suspended(values.__anext__(), report_value)
            except StopAsyncIteration:
                return value
            report_value()
            value, is_reported = next_value, False


def _exhaust(value: Any, progress: Callable[[Any], None]) -> Any:
    """Return the last value of a plain generator, reporting those before it; any other value unchanged.

    It runs in the tool's thread.
    """
    if not isinstance(value, Generator):
        return value
    last: Any = None
    for number, next_value in enumerate(value):
        if number:
            progress(last)
        last = next_value
    return last


@types.coroutine
def _call_if_suspended(awaitable: Awaitable[Any], suspended: Callable[[], None]) -> Generator[Any, Any, Any]:
    """Await, and call *suspended* if that suspends. Otherwise this is ``yield from`` (PEP 380), written out."""
    steps = awaitable.__await__()
    try:
        signal = next(steps)
    except StopIteration as stop:
        return stop.value
    suspended()
    while True:
        try:
            reply = yield signal
        except GeneratorExit:
            steps.close()
            raise
        except BaseException as error:
            try:
                signal = steps.throw(error)
            except StopIteration as stop:
                return stop.value
        else:
            try:
                signal = steps.send(reply)
            except StopIteration as stop:
                return stop.value


def _is_task_cancelled() -> bool:
    """Return True if this task itself is cancelled: on asyncio a tool may also meet that of a future it awaits.

    On trio only scopes cancel, and a scope inside the tool catches its own cancellation.
    """
    task = current_asyncio_task()
    return task is None or task.cancelling() > 0


def _describe_exception(error: BaseException) -> str:
    """Return the type and message of an exception; of a group, those of its members."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_describe_exception(each) for each in error.exceptions)
    text = redact(str(error))  # of an HTTP client: with the URL, and a key in it
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
