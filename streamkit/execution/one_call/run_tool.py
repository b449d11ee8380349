"""Running one tool: from a call to its one result, whatever fails; for loops of your own.

``prepare`` decides whether a call may run, ``attempt`` runs it. This module must not depend on other calls,
on messages or on providers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import anyio

from streamkit.calls import ToolCall, ToolResult
from streamkit.errors import UsageError
from streamkit.events import ToolEvent, Warned
from streamkit.execution.one_call.attempt import Report, ToolAttempt
from streamkit.execution.one_call.prepare import (
    Approve,
    PreparedCall,
    approval_failed_result,
    missing_approval_result,
    prepare_call,
    request_approval,
)
from streamkit.execution.one_call.results import blocked_result, stopped_result, to_result_event
from streamkit.reading.time_limits import check_seconds
from streamkit.reading.turn import Turn
from streamkit.tools import Tool, to_tools

__all__ = ["execute_one_tool"]


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
    """
    if not isinstance(call, ToolCall):
        raise UsageError(f"execute_one_tool takes a ToolCall, as in turn.calls, not {type(call).__name__}")
    check_seconds("timeout", timeout)
    emit = report or _ignore
    prepared = blocked_result(call, turn) or prepare_call(call, to_tools(tools))
    try:
        if isinstance(prepared, PreparedCall) and prepared.tool.approval == "ask":
            prepared = await request_approval(prepared, approve, deps) or missing_approval_result(prepared)
        if isinstance(prepared, PreparedCall):
            result = await ToolAttempt(prepared, deps, turn, emit).run(timeout)
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


def _ignore(_: ToolEvent | Warned) -> None:
    pass
