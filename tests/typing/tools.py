"""Tools as a type checker sees them in users' programs. Not meant to be executed: mypy and pyright check it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, assert_type

from streamkit import (
    Content,
    Tool,
    ToolContext,
    ToolSet,
    Turn,
    Usage,
    execute_tool_calls_batched,
    execute_tool_calls_sequentially,
    render_request,
    run_loop,
    tool,
)
from streamkit.providers import get
from streamkit.providers.provider import RenderedMessages
from streamkit.tools import to_tools


@dataclass
class Deps:
    """What the tools of a program need."""

    notes: list[str]


@tool
def read(name: str, most: int = 10) -> list[str]:
    """Read a note."""
    return [name] * most


@tool(approval="ask", timeout=5)
async def write(name: str, context: ToolContext[Deps]) -> bool:
    """Write a note."""
    assert_type(context.deps, Deps)
    context.deps.notes.append(name)
    return True


@tool
async def watch(name: str) -> AsyncIterator[float]:
    """Watch a note."""
    yield 0.5


def plain(name: str, context: ToolContext) -> str:
    assert_type(context.deps, Any)
    return name


async def calls_keep_the_signature(context: ToolContext[Deps]) -> None:
    assert_type(read("a"), list[str])
    assert_type(read(name="a", most=3), list[str])
    assert_type(await write("a", context), bool)
    async for share in watch("a"):
        assert_type(share, float)
    assert_type(tool(plain, strict=True)("a", context), str)
    assert_type(Tool(plain)("a", context), str)
    assert_type(read.replace(timeout=1)("a"), list[str])


# Without an annotation: what a type checker infers for such a list is accepted wherever tools are.
TOOLS = [read, write]
TOOLS_AND_MORE = [read, plain, {"type": "web_search"}]


def lists_of_tools(turn: Turn, ask: Any, history: list[Content]) -> None:
    for tools in (TOOLS, TOOLS_AND_MORE):
        run_loop(ask, provider="anthropic", tools=tools, history=history)
        execute_tool_calls_batched(turn, tools=tools)
        execute_tool_calls_sequentially(turn, tools=tools)
        render_request(history, "anthropic", tools=tools)
        get("anthropic").build_request(RenderedMessages(), tools=tools)
    assert_type(ToolSet(TOOLS) + TOOLS, ToolSet)
    assert_type(TOOLS + ToolSet(TOOLS), ToolSet)
    assert_type(to_tools(TOOLS), dict[str, Tool])


def tools_of_any_signature(turn: Turn, ask: Any) -> None:
    schema = Tool(name="form", description="Fill in a form.", parameters={"type": "object"})
    listed: list[Tool] = [read, write, schema]
    assert_type(ToolSet([*listed, plain])[0], Tool)
    execute_tool_calls_batched(turn, tools=[read, write, watch, plain, schema], deps=Deps([]))
    run_loop(ask, provider="anthropic", tools=listed, history=[])


def provider_names(name: str) -> None:
    Turn("anthropic")
    Turn(name)
    Turn("a provider of a plug-in")


def usage_adds_up(reports: list[Usage]) -> None:
    assert_type(sum(reports, start=Usage()), Usage)
    assert_type(reports[0] + reports[1], Usage)
