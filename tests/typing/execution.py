"""The public surface of running tools as a type checker sees it. Not meant to be executed: mypy checks it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, assert_never, assert_type

from streamkit import (
    Approval,
    Content,
    Event,
    Notifier,
    Retries,
    RoundContext,
    RunState,
    Schedule,
    SharedAccumulator,
    StreamWarning,
    ThreadUpdate,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    ToolSet,
    Turn,
    Usage,
    execute_one_tool,
    execute_tool_calls_batched,
    execute_tool_calls_sequentially,
    finalize_tool_execution,
    run_loop,
    tool,
)
from streamkit.events import TurnEvent
from streamkit.execution import QueuedCall, Run, ToolNotification
from streamkit.tools import ToolState


def describe(state: ToolState, arguments: dict[str, Any]) -> str | None:
    if state == "preparing" or state == "running" or state == "completed" or state == "canceled" or state == "error":
        return None
    assert_never(state)


def plain(city: str, context: ToolContext) -> str:
    return context.id


@tool
async def bare(city: str) -> str:
    return city


@tool(approval="ask", timeout=5, exclusive=True, eager=True, limit=2, conflicts_with=["bare"], describe=describe)
async def full(city: str) -> AsyncIterator[str]:
    yield city


def create_tools() -> ToolSet:
    tools_of_any_function: list[Tool] = [bare, full, tool(plain, strict=True)]
    assert_type(tools_of_any_function[0].name, str)
    chosen = ToolSet([plain, bare]).deny("plain").rename({"bare": "b"}).configure("b", approval="deny")
    tools = chosen + ToolSet([full])
    assert_type(tools, ToolSet)
    assert_type(tools[0], Tool)
    assert_type(tools.names, tuple[str, ...])
    return tools


async def check_turn(turn: Turn, calls: list[ToolCall]) -> None:
    assert_type(await execute_tool_calls_batched(turn, tools=[plain], limit=Schedule(3)), ThreadUpdate)
    assert_type(
        execute_tool_calls_sequentially(calls, tools=create_tools(), provider="gemini").run_sync(), ThreadUpdate
    )
    async with execute_tool_calls_batched(turn, tools=[bare]) as execution:
        assert_type(execution.feed(turn.feed({})), list[Event])
        async for event in execution:
            assert_type(event, Event)
    assert_type(execution.update.results, list[ToolResult])
    assert_type(execution.update.warnings, list[StreamWarning])
    assert_type(await execute_one_tool(calls[0], tools=[plain]), ToolResult)
    assert_type(turn.completed_call(0), ToolCall | None)


async def check_run(ask: Any, stored: str) -> None:
    async def approve(call: ToolCall, deps: Any) -> Approval | None:
        return Approval(allow=True) if call.name == "full" else None

    async def hook(context: RoundContext) -> RoundContext:
        return replace(context, tools=[])

    notifier = Notifier(create_tools())
    history = [Content.human("Hi")]
    async with run_loop(
        ask,
        provider="anthropic",
        history=history,
        approve=approve,
        before_follow_up=hook,
        retries=Retries(fallbacks=["gemini"]),
    ) as run:
        assert_type(run, Run)
        async for event in run:
            assert_type(event, Event)
            assert_type(notifier.handle(event), list[ToolNotification])
    assert_type(run.pending, list[ToolCall])
    assert_type(run.state, RunState | None)
    assert_type(run.usage, Usage | None)
    assert_type(run.warnings, list[StreamWarning])
    assert_type(run.contents, list[Content])
    state = RunState.model_validate_json(stored)
    assert_type(state.calls, list[ToolCall])
    resumed = await run_loop(ask, resume=state.answer(approvals={"id": True, "other": Approval(allow=False)}))
    match resumed.ended:
        case None | "answered" | "max_rounds" | "breaker" | "refusal" | "filtered" | "length":
            pass
        case "awaiting_approval" | "awaiting_results" | "budget" | "canceled" | "timed_out" | "error":
            pass
        case _:
            assert_never(resumed.ended)


async def check_custom_loop(
    context: RoundContext, update: ThreadUpdate, turn: Turn, source: AsyncIterator[bytes]
) -> None:
    following, stream = await finalize_tool_execution(context, update, lambda context: source)
    assert_type(following, RoundContext)
    assert_type(stream, AsyncIterator[bytes])

    async def request(context: RoundContext) -> AsyncIterator[bytes]:
        return source

    assert_type(await finalize_tool_execution(context, update, request), tuple[RoundContext, AsyncIterator[bytes]])
    with SharedAccumulator(capacity=8) as shared:
        async for event in shared.read(turn, source):
            assert_type(event, TurnEvent)
        async for handed in shared:
            assert_type(handed, QueuedCall)
            assert_type(handed.set_result(ToolResult(handed.call, "completed", 1)), ThreadUpdate | None)
