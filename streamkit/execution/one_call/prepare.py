"""Whether a call may run: its tool, its arguments and a person's approval; and the results of calls that may not.

A problem is the call's result, as a sentence that the model can act on (``docs/rules.md``, "Running calls"). So is the
end of a call that was stopped. This module runs no tool, and must not depend on other calls, on rounds or messages, on
providers or an event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from streamkit.calls import CallRef, Finish, ResultStatus, StreamError, ToolCall, ToolResult
from streamkit.errors import UsageError
from streamkit.events import (
    ToolAwaitingApproval,
    ToolCanceled,
    ToolCompleted,
    ToolDenied,
    ToolError,
    ToolEvent,
    ToolTimedOut,
)
from streamkit.finishes import finish_row
from streamkit.history.tool_results import exception_text
from streamkit.reading.source_failure import is_io_failure
from streamkit.reading.turn import Turn
from streamkit.tools import Approval, Tool
from streamkit.tools.context import copy_call
from streamkit.tools.custom import TEXT_FIELD
from streamkit.tools.tool import describe_call
from streamkit.tools.toolset import quote_name, sort_by_similarity
from streamkit.values.json_data import copy_json
from streamkit.values.redaction import log_failure, redact

__all__ = [
    "CANCELED",
    "Approve",
    "PreparedCall",
    "apply_approval",
    "approval_failed_result",
    "awaits_client",
    "blocked_by_threads_result",
    "blocked_result",
    "describe_for_model",
    "log_exception",
    "missing_approval_result",
    "prepare_call",
    "reason_to_block",
    "request_approval",
    "stopped_result",
    "to_approval_event",
    "to_result_event",
    "to_stopped_error",
    "unknown_outcome_result",
]

_log = logging.getLogger("streamkit")

#: ``approve(call, deps)``: whether a call may run. True and False are short for an ``Approval``; None is no decision: a
#: run of the loop pauses then, and anywhere else the call is denied.
Approve: TypeAlias = Callable[[ToolCall, Any], Awaitable[Approval | bool | None] | Approval | bool | None]


class PreparedCall(Struct, frozen=True):
    """A call with its tool and with arguments that fit it."""

    call: ToolCall
    tool: Tool
    arguments: dict[str, Any]  #: by keyword, as the function takes them
    metadata: dict[str, Any] = {}  #: of the result: ``approved_arguments`` of an ``Approval`` that replaced the model's


def awaits_client(call: ToolCall, tools: Mapping[str, Tool]) -> bool:
    """Return True if the result of a call comes from the client and not from a function."""
    tool = _find_tool(call, tools)
    return call.is_client_item if tool is None else tool.function is None and tool.approval != "deny"


def _find_tool(call: ToolCall, tools: Mapping[str, Tool]) -> Tool | None:
    """Return the tool of a call; of an action of the client itself only one that is declared for it."""
    tool = tools.get(call.name)
    return tool if tool is None or not call.is_client_item or tool.is_declared_as(call.name) else None


def prepare_call(call: ToolCall, tools: Mapping[str, Tool]) -> PreparedCall | ToolResult:
    """Find the tool of a complete call and validate the arguments; return a result if that fails."""
    tool = _find_tool(call, tools)
    if tool is None and call.is_client_item:
        reason = f"Not run: {call.name} is an action of the client itself, and nothing here carries it out"
        return ToolResult(call, "error", error=f"{reason}. Continue without it.", cause="unknown_tool")
    if tool is None and not tools:
        reason = f"Not run: there is no tool {quote_name(call.name)}, and there are no other tools"
        return ToolResult(call, "error", error=f"{reason}. Continue without tools.", cause="unknown_tool")
    if tool is None:
        reason = f"Not run: there is no tool {quote_name(call.name)}"
        names = ", ".join(sort_by_similarity(call.name, tools))
        reason = f"{reason}. There are: {names}. Call one of these instead."
        return ToolResult(call, "error", error=reason, cause="unknown_tool")
    if tool.function is None:
        return ToolResult(call, "error", error=f"Not run: {tool.name} cannot be run here.", cause="unknown_tool")
    if tool.approval == "deny":
        return ToolResult(call, "denied", error=f"Not run: {tool.name} is not allowed here. Continue without it.")
    return _validate(call, tool, call.arguments)


def _validate(call: ToolCall, tool: Tool, arguments: Any) -> PreparedCall | ToolResult:
    try:
        # A copy: a tool that changes its arguments must not change the call, which the history contains.
        return PreparedCall(call, tool, tool.validate(copy_json(arguments)))
    except Exception as error:  # a user's own validator may raise anything
        is_defect = not isinstance(error, ValueError)
        problem = describe_for_model(error) if is_defect else exception_text(error)
        if is_defect:
            log_exception(tool, error)
        message = f"Not run: {problem}. Make the call again with arguments that fit."
        if is_defect:
            return ToolResult(call, "error", error=message, exception=error, cause="raised")
        return ToolResult(call, "error", error=message, cause="invalid_arguments")


async def request_approval(
    prepared: PreparedCall, approve: Approve | None, deps: Any
) -> PreparedCall | ToolResult | None:
    """Have a call approved; return its result if it was not, and None without a decision.

    Raises:
        Exception: what ``approve`` raised, unless a connection failed: then the call is ``denied``.
        UsageError: it returned no decision.
    """
    if approve is None:
        return None
    try:
        approval = approve(copy_call(prepared.call), deps)  # a copy: what it shows must be what runs
        if isawaitable(approval):
            approval = await approval
    except Exception as error:
        if not is_io_failure(error):
            raise
        log_failure(_log, "the request for approval of a call of %s failed", prepared.tool.name, error=error)
        reason = f"Not run: the request for approval failed with {describe_for_model(error)}."
        return ToolResult(prepared.call, "denied", error=reason, exception=error, cause="raised")
    return None if approval is None else apply_approval(prepared, approval)


def apply_approval(prepared: PreparedCall, approval: Approval | bool) -> PreparedCall | ToolResult:
    """Apply a decision to a call: return the call, perhaps with other arguments, or its result.

    Raises:
        UsageError: it is neither a bool nor an ``Approval``.
    """
    call, tool = prepared.call, prepared.tool
    if isinstance(approval, bool):
        approval = Approval(approval)
    elif not isinstance(approval, Approval):
        raise UsageError(f"approve must return True, False, an Approval or None, not {approval!r}")
    if not approval.allow:
        reason = f": {approval.reason}" if approval.reason else ". Do not try it again unasked"
        return ToolResult(call, "denied", error=f"Not run: {tool.name} was not approved{reason}.")
    if approval.arguments is None:
        return prepared
    arguments = copy_json(approval.arguments)
    validated = _validate(call, tool, arguments)
    if isinstance(validated, PreparedCall) and arguments != call.arguments:
        return replace(validated, metadata={"approved_arguments": arguments})
    return validated


def missing_approval_result(prepared: PreparedCall) -> ToolResult:
    """Return the result of a call that needs approval where none can be requested."""
    reason = f"Not run: {prepared.tool.name} needs approval, and there is no way to request it here."
    return ToolResult(prepared.call, "denied", error=reason)


def approval_failed_result(call: ToolCall, error: BaseException) -> ToolResult:
    """Return the result of a call whose ``approve`` raised."""
    reason = "Not run: the request for approval failed."
    return ToolResult(call, "error", error=reason, exception=error, cause="failed")


def log_exception(tool: Tool, error: BaseException) -> None:
    """Log what a tool raised, with its traceback. The arguments are not logged: they may contain secrets."""
    log_failure(_log, "tool %s failed", tool.name, error=error)


def describe_for_model(error: BaseException) -> str:
    """Return what a model reads of an exception: its type and message; of a group, those of its members."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(describe_for_model(each) for each in error.exceptions)
    text = redact(exception_text(error))  # of an HTTP client: with the URL, and a key in it
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


# Neutral on purpose: "interrupted by the user" in a history makes models ask the user what is wrong.
CANCELED = "Canceled before it had finished; nothing is known of its effects."

_EXCERPT = 60  # characters of an argument text that are quoted to the model


def blocked_result(call: ToolCall, turn: Turn | None = None) -> ToolResult | None:
    """Return the ``error`` of an incomplete or invalid call, with the cause and place; None for a complete one."""
    if call.state == "incomplete":
        cause = finish_row(None if turn is None else turn.finish).incomplete_because
        excerpt = f" They end in: {call.arguments_text[-_EXCERPT:]!r}." if call.arguments_text else ""
        return ToolResult(
            call,
            "error",
            error=f"Not run: the arguments are incomplete, because {cause}.{excerpt}"
            " Make the call again with complete arguments; make them shorter if they were truncated.",
            cause="invalid_arguments",
        )
    if call.state == "invalid":
        codes = ("invalid_arguments", "nameless_call")
        problems = [warning.message for warning in call.warnings if warning.code in codes]
        problem = "; ".join(problems) or f"the arguments cannot be read: {call.arguments_text[:_EXCERPT]!r}"
        return ToolResult(
            call,
            "error",
            error=f"Not run: the call is not valid: {problem}. Make it again, with its arguments as one JSON object.",
            cause="invalid_arguments",
        )
    return None


def blocked_by_threads_result(call: ToolCall) -> ToolResult:
    """Return the ``error`` of a call for which threads of earlier calls leave no place."""
    reason = "Not run: calls of synchronous tools that were given up still run in threads, which cannot be stopped, and"
    return ToolResult(call, "error", error=f"{reason} this call cannot run beside them. Continue without it.")


def stopped_result(call: ToolCall, run_timeout: float | None = None, *, has_started: bool) -> ToolResult:
    """Return the result of a call that had none when it, or everything, was stopped.

    ``run_timeout`` is the seconds that all calls had together, if their end is the reason; a call has started if its
    tool was called.
    """
    if run_timeout is not None:
        verb = "Not finished" if has_started else "Not started"
        reason = f"{verb} within the {run_timeout:g} seconds that all calls had together."
        return ToolResult(call, "timed_out", error=reason)
    return ToolResult(call, "canceled", error=CANCELED if has_started else "Not run: canceled before it began.")


def unknown_outcome_result(call: ToolCall) -> ToolResult:
    """Return the ``error`` of a call of ``once`` that had started when its run was stopped."""
    reason = (
        f"{call.name} was started before an interruption, and whether it has taken effect is unknown. It was not run"
        " again. Check the outcome before you call it again."
    )
    return ToolResult(call, "error", error=reason, metadata={"effects_possible": True}, cause="failed")


def reason_to_block(error: StreamError | None, finish: Finish | None = None) -> str:
    """Return why the complete calls of a turn may not run, from its error or finish, as a part of a sentence."""
    if error is not None:
        return f"the response that made the call ended in an error ({error.kind})"
    return finish_row(finish).not_run_because


def to_stopped_error(error: str | None) -> str:
    """Return the error of a call that had started, from the error of one that had not."""
    reason = (error or "").removeprefix("Not run: ")
    return f"Stopped, and its effects, if any, do not count: {reason}"


_RESULT_EVENTS: dict[ResultStatus, Callable[[CallRef, ToolResult], ToolEvent]] = {
    "completed": ToolCompleted,
    "denied": ToolDenied,
    "timed_out": ToolTimedOut,
    "canceled": ToolCanceled,
}


def to_approval_event(prepared: PreparedCall) -> ToolAwaitingApproval:
    """Return the event of a call that a person has to decide about, described as the tool describes a call."""
    arguments = copy_json(prepared.call.arguments)
    described = arguments if isinstance(arguments, dict) else {TEXT_FIELD: arguments}
    description = describe_call(prepared.tool.describe, "preparing", described)
    return ToolAwaitingApproval(prepared.call, description)


def to_result_event(result: ToolResult) -> ToolEvent:
    """Return the event of a call's result."""
    if result.status == "error":
        return ToolError(result.call.ref, result, cause=result.cause or "failed")
    return _RESULT_EVENTS[result.status](result.call.ref, result)
