"""Calls that need approval, in the executors: decisions, changed arguments, denials."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest
from execution.executor_checks import calls, collect_events, run_one, wipe

from streamkit import (
    Approval,
    ToolCall,
    execute_tool_calls_batched,
    tool,
)
from streamkit.events import ToolAwaitingApproval, ToolRunning

pytestmark = pytest.mark.anyio


# ---------------------------------------------------------------- approval


async def test_a_denied_tool_never_runs() -> None:
    result = await run_one(tool(wipe, approval="deny"))
    assert (result.status, result.value) == ("denied", None)


async def test_a_call_that_needs_approval_is_denied_without_an_approver() -> None:
    result = await run_one(tool(wipe, approval="ask"))
    assert result.status == "denied"
    assert "needs approval" in (result.error or "")


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (True, "completed"),
        (False, "denied"),
        (Approval(True), "completed"),
        (Approval(False, reason="too late"), "denied"),
    ],
)
async def test_a_decision_applies(answer: Any, status: str) -> None:
    asked: list[Any] = []

    async def approve(call: ToolCall, deps: Any) -> Any:
        asked.append((call.name, deps))
        return answer

    result = await run_one(tool(wipe, approval="ask"), approve=approve, deps="D")
    assert asked == [("wipe", "D")]
    assert result.status == status
    if isinstance(answer, Approval) and not answer.allow:
        assert "too late" in (result.error or "")


async def test_an_approval_may_change_the_arguments_which_are_validated_again() -> None:
    async def add(a: int, b: int) -> int:
        return a + b

    async def approve(call: ToolCall, deps: Any) -> Approval:
        return Approval(True, arguments={"a": 10, "b": call.arguments["b"]})

    async def spoil(call: ToolCall, deps: Any) -> Approval:
        return Approval(True, arguments={"a": "x"})

    asking = tool(add, approval="ask")
    assert (await run_one(asking, {"a": 1, "b": 2}, approve=approve)).value == 12
    assert (await run_one(asking, {"a": 1, "b": 2}, approve=spoil)).status == "error"


async def test_an_approve_that_raises_is_a_denial() -> None:
    async def approve(call: ToolCall, deps: Any) -> bool:
        raise ConnectionError("nobody home")

    result = await run_one(tool(wipe, approval="ask"), approve=approve)
    assert result.status == "denied"
    assert "nobody home" in (result.error or "")


async def test_only_approved_calls_are_notified_as_running() -> None:
    async def approve(call: ToolCall, deps: Any) -> bool:
        return call.index == 0

    execution = execute_tool_calls_batched(
        calls("wipe", "wipe"), tools=[tool(wipe, approval="ask")], provider="gemini", approve=approve
    )
    events = await collect_events(execution)
    assert [event.call.index for event in events if isinstance(event, ToolRunning)] == [0]
    assert [event.call.index for event in events if isinstance(event, ToolAwaitingApproval)] == [0, 1]


async def test_awaiting_approval_occupies_no_place() -> None:
    approved = anyio.Event()

    async def approve(call: ToolCall, deps: Any) -> bool:
        await approved.wait()
        return True

    async def release() -> None:
        approved.set()

    update = await execute_tool_calls_batched(
        calls("wipe", "release"),
        tools=[tool(wipe, approval="ask"), release],
        provider="gemini",
        approve=approve,
        limit=1,
    )
    assert [result.status for result in update.results] == ["completed", "completed"]
