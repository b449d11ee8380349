"""Calling one tool: from a call to its one result, whatever happens in between.

What can go wrong with a tool is its result, said in a sentence that the model can act on; nothing here raises for it.
It does not know of other calls, of threads of conversation, or of providers.
"""

from __future__ import annotations

import threading
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
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
from streamkit.execution.background import asyncio_task
from streamkit.execution.round import blocked_result
from streamkit.execution.worker_thread import WorkerThread
from streamkit.tools import Approval, Tool, ToolContext, to_tools
from streamkit.turn import Turn

__all__ = [
    "CANCELED",
    "Approve",
    "PreparedCall",
    "apply_approval",
    "request_approval",
    "to_result_event",
    "execute_one_tool",
    "prepare",
    "run_call",
    "missing_approval_result",
]

#: ``approve(call, deps)``: whether a call may run. True and False are short for an ``Approval``; None is no answer: a
#: run of the loop is paused then, and anywhere else the call is denied.
Approve: TypeAlias = Callable[[ToolCall, Any], "Awaitable[Approval | bool | None] | Approval | bool | None"]
Report: TypeAlias = Callable[["ToolEvent | Warned"], object]

# Seconds that a synchronous tool has to notice ``ToolContext.canceled`` before its thread counts as abandoned.
_GRACE = 0.2

# Neutral on purpose: "interrupted by the user" in a history makes models ask the user what is wrong.
CANCELED = "Canceled before it had finished; nothing is known of its effects."

_ENDINGS: dict[ResultStatus, Callable[[CallRef, ToolResult], ToolEvent]] = {
    "completed": ToolCompleted,
    "error": ToolError,
    "denied": ToolDenied,
    "timed_out": ToolTimedOut,
    "canceled": ToolCanceled,
}


def to_result_event(result: ToolResult) -> ToolEvent:
    """The event that a call's result is."""
    return _ENDINGS[result.status](result.call.ref, result)


async def execute_one_tool(
    call: ToolCall,
    *,
    tools: Sequence[Callable[..., Any] | Tool],
    timeout: float | None = 30.0,  # noqa: ASYNC109 - it bounds the tool, and its end is a result
    deps: Any = None,
    approve: Approve | None = None,
    turn: Turn | None = None,
    report: Report | None = None,
) -> ToolResult:
    """Run one call and give its result; for loops of one's own.

    Args:
        call: the call.
        tools: those there are.
        timeout: seconds; None for no end. A tool's own goes before it.
        deps: what tools find in ``ToolContext.deps``.
        approve: asked for tools that want it.
        turn: the turn that made the call.
        report: takes the events as they happen: ``tool_running``, ``tool_progress``, and the ending; ``warned`` where a
            synchronous tool does not stop when it should.

    Cancellation ends it with a ``tool_canceled`` event and goes on its way; nothing else is raised.
    """
    say = report or _no_report
    ready = blocked_result(call, turn) or prepare(call, to_tools(tools))
    try:
        if isinstance(ready, PreparedCall) and ready.tool.approval == "ask":
            ready = await request_approval(ready, approve, deps) or missing_approval_result(ready)
        result = await run_call(ready, timeout, deps, turn, say) if isinstance(ready, PreparedCall) else ready
    except anyio.get_cancelled_exc_class():
        say(to_result_event(ToolResult(call, "canceled", error=CANCELED)))
        raise
    say(to_result_event(result))
    return result


def _no_report(_: ToolEvent | Warned) -> None:
    pass


# ---------------------------------------------------------------- before it runs


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A call whose tool is known and whose arguments fit it."""

    call: ToolCall
    tool: Tool
    arguments: dict[str, Any]  #: by keyword, as the function takes them


def prepare(call: ToolCall, tools: Mapping[str, Tool]) -> PreparedCall | ToolResult:
    """Find the tool of a complete call and check the arguments; a result where that fails."""
    tool = tools.get(call.name)
    if tool is None:
        return ToolResult(call, "error", error=_unknown(call.name, tools))
    if tool.function is None:
        return ToolResult(call, "error", error=f"Not run: {tool.name} cannot be run here.")
    if tool.approval == "deny":
        return ToolResult(call, "denied", error=f"Not run: {tool.name} is not allowed here. Do without it.")
    return _fitted(call, tool, call.arguments)


def _fitted(call: ToolCall, tool: Tool, arguments: Any) -> PreparedCall | ToolResult:
    try:
        return PreparedCall(call, tool, tool.validate(arguments))
    except Exception as error:  # a user's own validator may raise anything
        what = str(error) if isinstance(error, ValueError) else _describe_exception(error)
        return ToolResult(call, "error", error=f"Not run: {what}. Make the call again with arguments that fit.")


def _unknown(name: str, tools: Mapping[str, Tool]) -> str:
    if not tools:
        return f"Not run: there is no tool {name!r}; there are no tools at all. Answer without them."
    nearest = sorted(tools, key=lambda known: SequenceMatcher(None, name.lower(), known.lower()).ratio(), reverse=True)
    return f"Not run: there is no tool {name!r}. There are: {', '.join(nearest)}. Call one of these instead."


async def request_approval(ready: PreparedCall, approve: Approve | None, deps: Any) -> PreparedCall | ToolResult | None:
    """Have somebody agree to a call; what they did not agree to has its result. None: no answer yet."""
    if approve is None:
        return None
    try:
        answer = approve(ready.call, deps)
        if isawaitable(answer):
            answer = await answer
    except Exception as error:
        return ToolResult(
            ready.call, "denied", error=f"Not run: asking for approval failed with {_describe_exception(error)}."
        )
    return None if answer is None else apply_approval(ready, answer)


def apply_approval(ready: PreparedCall, answer: Approval | bool) -> PreparedCall | ToolResult:
    """What an answer makes of a call: it may run, perhaps with other arguments, or has its result."""
    call, tool = ready.call, ready.tool
    approval = answer if isinstance(answer, Approval) else Approval(answer is True)
    if not approval.allow:
        reason = f": {approval.reason}" if approval.reason else ". Do not try it again unasked"
        return ToolResult(call, "denied", error=f"Not run: {tool.name} was not approved{reason}.")
    if approval.arguments is None:
        return ready
    return _fitted(call, tool, approval.arguments)


def missing_approval_result(ready: PreparedCall) -> ToolResult:
    """Of a call that needs an answer where there is nobody to give one."""
    name = ready.tool.name
    return ToolResult(ready.call, "denied", error=f"Not run: {name} needs approval, and nobody could be asked.")


# ---------------------------------------------------------------- running


async def run_call(
    ready: PreparedCall, seconds: float | None, deps: Any, turn: Turn | None, report: Report
) -> ToolResult:
    """Run a call: ``ToolRunning`` and progress go to *report*, the result is returned. Only cancellation is raised."""
    call, tool = ready.call, ready.tool
    if tool.timeout is not None:
        seconds = tool.timeout
    attempt = _ToolAttempt(ready, deps, turn, report)
    await anyio.lowlevel.checkpoint_if_cancelled()  # else a tool would do what it does before its first await
    report(ToolRunning(call.ref))
    scope = anyio.CancelScope(deadline=anyio.current_time() + seconds if seconds is not None else float("inf"))
    try:
        with scope:
            return ToolResult(call, "completed", await attempt.value())
    except anyio.get_cancelled_exc_class():
        if _asked_to_stop():
            raise
        return ToolResult(call, "error", error=f"{tool.name} was canceled by something that it waited for.")
    except ToolFailed as error:
        return ToolResult(call, "error", error=str(error) or f"{tool.name} failed.")
    except (Exception, SystemExit) as error:  # a tool that exits must not take the program with it
        if not scope.cancel_called:
            return ToolResult(call, "error", error=f"{tool.name} failed with {_describe_exception(error)}.")
    finally:
        attempt.over = True
    runs_on = " Its thread cannot be stopped and may still finish." if attempt.abandoned else ""
    return ToolResult(call, "timed_out", error=f"{tool.name} did not finish within {seconds:g} seconds.{runs_on}")


class _ToolAttempt:
    """One attempt to run a call, and its way to say how far it is."""

    __slots__ = ("_ready", "_ref", "_report", "_thread", "abandoned", "context", "over")

    def __init__(self, ready: PreparedCall, deps: Any, turn: Turn | None, report: Report) -> None:
        self._ready = ready
        self._ref = ready.call.ref
        self._report = report
        self._thread: WorkerThread | None = None
        self.abandoned = False  # its thread did not stop when it should have
        self.over = False  # it has its ending, or is given up: it may go on in its thread, but is not heard
        self.context = ToolContext(ready.call, deps=deps, turn=turn, progress=self.progress, canceled=lambda: self.over)

    def progress(self, value: Any) -> None:
        if self.over:
            return
        if self._thread is None or threading.get_ident() == self._thread.home:
            self._report(ToolProgress(self._ref, value))
        else:
            self._thread.call_from_thread(self.progress, value)

    async def value(self) -> Any:
        """Call the function, in a thread unless it is async, and follow what it returns to the end."""
        tool, arguments = self._ready.tool, dict(self._ready.arguments)
        if tool.context_parameter is not None:
            arguments[tool.context_parameter] = self.context
        function = tool.function
        assert function is not None  # noqa: S101 - prepare() looked
        if tool.kind in ("async", "async_generator"):
            made = function(**arguments)
        else:
            made = await self._in_thread(lambda: _exhausted(function(**arguments), self.progress))
        if isawaitable(made):  # also what a plain function returned, such as a lambda around a coroutine
            made = await made
        if isinstance(made, AsyncIterator):
            made = await self._last(made)
        return made

    async def _in_thread(self, function: Callable[[], Any]) -> Any:
        self._thread = thread = WorkerThread(function)
        try:
            return await thread.result()
        except anyio.get_cancelled_exc_class():
            self.over = True  # context.canceled says so: a tool that looks has a moment to stop by itself
            try:
                await thread.ends_within(_GRACE)
            finally:
                self.abandoned = thread.alive
                if self.abandoned:
                    name = self._ready.tool.name
                    message = f"{name} is synchronous and did not stop: its thread was left running"
                    self._report(Warned("tool_abandoned", message))
            raise

    async def _last(self, values: AsyncIterator[Any]) -> Any:
        """The last value; those before it are progress.

        Whether a value is the last shows when the generator goes on. If it has to wait, then there is more to do, and
        the value is reported at once; if it ends or yields again without waiting, that is known without delay.
        """
        value: Any = None
        told = True

        def tell() -> None:
            nonlocal told
            if not told:
                told = True
                self.progress(value)

        while True:
            try:
                following = await _noticing(values.__anext__(), tell)
            except StopAsyncIteration:
                return value
            tell()
            value, told = following, False


def _exhausted(made: Any, progress: Callable[[Any], None]) -> Any:
    """The last value of a plain generator, those before it being progress; anything else as it is. In the thread."""
    if not isinstance(made, Generator):
        return made
    value: Any = None
    for number, following in enumerate(made):
        if number:
            progress(value)
        value = following
    return value


@types.coroutine
def _noticing(awaitable: Awaitable[Any], waits: Callable[[], None]) -> Generator[Any, Any, Any]:
    """Await, and call *waits* if that suspends. Otherwise this is ``yield from`` (PEP 380), written out."""
    steps = awaitable.__await__()
    try:
        signal = next(steps)
    except StopIteration as stop:
        return stop.value
    waits()
    while True:
        try:
            answer = yield signal
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
                signal = steps.send(answer)
            except StopIteration as stop:
                return stop.value


def _asked_to_stop() -> bool:
    """Whether a cancellation is our own: on asyncio a tool can also be given that of a future which it awaits.

    On trio only scopes cancel, and those inside of the tool keep theirs to themselves.
    """
    task = asyncio_task()
    return task is None or task.cancelling() > 0


def _describe_exception(error: BaseException) -> str:
    """An exception in words: its type and message; of a group, those that it holds."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_describe_exception(each) for each in error.exceptions)
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
