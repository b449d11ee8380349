"""Calls, and checks of the events of an execution."""

from __future__ import annotations

from typing import Any

from streamkit import (
    ThreadUpdate,
    Tool,
    ToolCall,
    ToolResult,
    execute_tool_calls_batched,
    execute_tool_calls_sequentially,
    tool,
)
from streamkit.events import Event

EXECUTORS = [execute_tool_calls_batched, execute_tool_calls_sequentially]
ENDINGS = ("tool_completed", "tool_error", "tool_denied", "tool_timed_out", "tool_canceled")


def calls(*wanted: str | tuple[str, dict[str, Any]]) -> list[ToolCall]:
    named = [(each, {}) if isinstance(each, str) else each for each in wanted]
    return [
        ToolCall(id=f"hist_tool_{n:024d}", name=name, index=n, raw_id=f"c{n}", state="complete", arguments=arguments)
        for n, (name, arguments) in enumerate(named)
    ]


async def run_one(function: Any, arguments: dict[str, Any] | None = None, **more: Any) -> ToolResult:
    tool_object = tool(function) if not isinstance(function, Tool) else function
    update = await execute_tool_calls_batched(
        calls((tool_object.name, arguments or {})), tools=[tool_object], provider="openai_chat", **more
    )
    [result] = update.results
    return result


def check_events(events: list[Event], update: ThreadUpdate) -> None:
    """Check that every call has one result event, and runs at most once, before it."""
    for result in update.results:
        own = [event for event in events if getattr(event, "call", None) == result.call.ref]
        kinds = [event.type for event in own]
        assert sum(kind in ENDINGS for kind in kinds) == 1
        assert kinds[-1] in ENDINGS
        assert own[-1].result == result  # type: ignore[union-attr]
        assert kinds.count("tool_running") <= 1
        asked = [kind for kind in kinds if kind == "tool_awaiting_approval"]
        if "tool_running" in kinds:
            assert kinds[: len(asked) + 1] == [*asked, "tool_running"]


async def collect_events(execution: Any) -> list[Event]:
    async with execution:
        events = [event async for event in execution]
    check_events(events, execution.update)
    return events


async def wipe() -> str:
    return "wiped"
