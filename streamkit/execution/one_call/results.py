"""Results of calls that may not run or were stopped, with sentences for the model, and the event of a result. Pure.

This module must not depend on rounds, tools or an event loop.
"""

from __future__ import annotations

from collections.abc import Callable

from streamkit.calls import CallRef, Finish, ResultStatus, StreamError, ToolCall, ToolResult
from streamkit.events import ToolCanceled, ToolCompleted, ToolDenied, ToolError, ToolEvent, ToolTimedOut
from streamkit.finishes import finish_row
from streamkit.reading.turn import Turn

__all__ = [
    "CANCELED",
    "blocked_by_threads_result",
    "blocked_result",
    "reason_to_block",
    "stopped_result",
    "to_result_event",
    "to_stopped_error",
]

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
        )
    if call.state == "invalid":
        codes = ("invalid_arguments", "nameless_call")
        problems = [warning.message for warning in call.warnings if warning.code in codes]
        problem = "; ".join(problems) or f"the arguments cannot be read: {call.arguments_text[:_EXCERPT]!r}"
        return ToolResult(
            call,
            "error",
            error=f"Not run: the call is not valid: {problem}. Make it again, with its arguments as one JSON object.",
        )
    return None


def blocked_by_threads_result(call: ToolCall) -> ToolResult:
    """Return the ``error`` of a call for which threads of earlier calls leave no place."""
    reason = "Not run: calls of synchronous tools that were given up still run in threads, which cannot be stopped, and"
    return ToolResult(call, "error", error=f"{reason} this call cannot run beside them. Continue without it.")


def stopped_result(call: ToolCall, run_timeout: float | None = None, *, has_started: bool) -> ToolResult:
    """Return the result of a call that had none when it, or everything, was stopped.

    Args:
        call: the call.
        run_timeout: the seconds that all calls had together, if their end is the reason.
        has_started: its tool was called.
    """
    if run_timeout is not None:
        verb = "Not finished" if has_started else "Not started"
        reason = f"{verb} within the {run_timeout:g} seconds that all calls had together."
        return ToolResult(call, "timed_out", error=reason)
    return ToolResult(call, "canceled", error=CANCELED if has_started else "Not run: canceled before it began.")


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
    "error": ToolError,
    "denied": ToolDenied,
    "timed_out": ToolTimedOut,
    "canceled": ToolCanceled,
}


def to_result_event(result: ToolResult) -> ToolEvent:
    """Return the event of a call's result."""
    return _RESULT_EVENTS[result.status](result.call.ref, result)
