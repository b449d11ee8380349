"""The executors: all calls of a turn, run and written back.

Both make an ``Execution``, with another shape of thread: batched runs calls beside each other, sequential one after the
other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from streamkit.calls import ToolCall, ToolResult
from streamkit.execution.execution import Execution
from streamkit.execution.round import Round
from streamkit.execution.run_tool import Approve
from streamkit.execution.scheduler import Schedule
from streamkit.execution.thread_update import FormatCallbacks, Messages
from streamkit.providers.provider import Provider
from streamkit.tools import Tool, to_tools
from streamkit.turn import Turn

__all__ = ["execute_tool_calls_batched", "execute_tool_calls_sequentially"]


def execute_tool_calls_batched(
    turn_or_calls: Turn | Iterable[ToolCall],
    *,
    tools: Sequence[Callable[..., Any] | Tool],
    limit: int | Schedule = 8,
    timeout: float | None = 30.0,
    run_timeout: float | None = None,
    provider: str | Provider | None = None,
    deps: Any = None,
    approve: Approve | None = None,
    format_tool_call_for_thread: Callable[[ToolCall, Any], Messages] | None = None,
    format_tool_result_for_thread: Callable[[ToolResult, ToolCall, Any], Messages] | None = None,
    format_batch_for_thread: Callable[[list[ToolResult]], Messages] | None = None,
) -> Execution:
    """Run all calls beside each other; one assistant message with all of them, then all results.

    Nothing happens yet: ``await`` it for the ``ThreadUpdate``, watch it with ``async with`` and ``async for``, or call
    ``run_sync()`` where there is no event loop. Whatever fails in a tool is that call's result, never an exception.

    Args:
        subject: a turn, or a list of calls (then those alone are written, without text or reasoning). A turn must be
            closed, unless calls are to begin while it is read: see ``Execution.advance``.
        tools: functions and tools. A call of any other name gets an ``error``.
        limit: how many run at once; a ``Schedule`` in its place is shared with other executions, and so are the
            limits, exclusive tools and conflicts. A call that waits for approval is not counted.
        timeout: seconds for each call; None for no end. A tool's own goes before it.
        run_timeout: seconds for all of them; calls that have not ended by then are ``timed_out``.
        provider: whose format the messages have; default: the turn's. Calls alone need it, or the callbacks.
        deps: what tools find in ``ToolContext.deps``.
        approve: ``async (call, deps) -> Approval | bool``, for tools with ``approval="ask"``; without it they are
            ``denied``. Several calls may ask at once.
        format_tool_call_for_thread: ``(call, arguments)`` to the assistant message of one call.
        format_tool_result_for_thread: ``(result, call, arguments)`` to the message of one ``ToolResult``.
        format_batch_for_thread: ``(completed)``, the ``ToolResult`` list in call order, to all messages.

    Raises:
        UsageError: the turn is not over, no format is known, two tools have one name, or a number makes no sense.
    """
    formatting = FormatCallbacks(format_tool_call_for_thread, format_tool_result_for_thread, format_batch_for_thread)
    return Execution(
        Round(turn_or_calls, provider=provider, formatting=formatting),
        to_tools(tools),
        limit=limit,
        timeout=timeout,
        run_timeout=run_timeout,
        deps=deps,
        approve=approve,
    )


def execute_tool_calls_sequentially(
    turn_or_calls: Turn | Iterable[ToolCall],
    *,
    tools: Sequence[Callable[..., Any] | Tool],
    limit: int | Schedule = 8,
    timeout: float | None = 30.0,
    run_timeout: float | None = None,
    provider: str | Provider | None = None,
    deps: Any = None,
    approve: Approve | None = None,
    format_tool_call_for_thread: Callable[[ToolCall, Any], Messages] | None = None,
    format_tool_result_for_thread: Callable[[ToolResult, ToolCall, Any], Messages] | None = None,
    format_batch_for_thread: Callable[[list[ToolResult]], Messages] | None = None,
) -> Execution:
    """Run the calls one after the other; one assistant message and one result for each, in turn.

    The turn's text, reasoning and signatures go into the first assistant message only. Where the provider would reject
    that (signed thinking of Anthropic, thought signatures of Gemini) the thread is laid out as by
    ``execute_tool_calls_batched``, with the warning ``batched_instead``. The arguments are as there, so that either can
    stand for the other; ``limit`` changes nothing, and ``format_batch_for_thread`` is given one result at a time.
    """
    formatting = FormatCallbacks(format_tool_call_for_thread, format_tool_result_for_thread, format_batch_for_thread)
    return Execution(
        Round(turn_or_calls, provider=provider, formatting=formatting, shape="sequential"),
        to_tools(tools),
        limit=limit,
        sequential=True,
        timeout=timeout,
        run_timeout=run_timeout,
        deps=deps,
        approve=approve,
    )
