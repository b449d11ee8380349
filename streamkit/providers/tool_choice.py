"""Tool choices: the tools that a choice selects, and choices for APIs that cannot name a tool.

The only way to force one of these is to offer no other.

This module depends on no provider.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from streamkit.errors import UsageError
from streamkit.providers.provider import ToolChoice
from streamkit.tools.definition import HostedTool, OfferedTool

__all__ = ["ToolMode", "named_tool", "select_tools"]

ToolMode: TypeAlias = Literal["auto", "none", "required"]


def named_tool(choice: ToolChoice | None, tools: Sequence[OfferedTool]) -> OfferedTool | None:
    """Return the tool that a choice names; None if it names none. The provider's own tools have names, too."""
    return next((tool for tool in tools if _name(tool) == choice), None)


def _name(tool: OfferedTool) -> str:
    return tool.label if isinstance(tool, HostedTool) else tool.name


def select_tools(choice: ToolChoice | None, tools: Sequence[OfferedTool]) -> tuple[list[OfferedTool], ToolMode]:
    """Return the tools among which a model chooses, and whether it may, must not or must call one.

    Args:
        choice: ``auto``, ``none``, ``required`` or a tool's name, which precedes; None is ``auto``.
        tools: all tools of the request.

    Raises:
        UsageError: the choice names no tool, or requires one and there are none.
    """
    if (named := named_tool(choice, tools)) is not None:
        return [named], "required"
    if choice is None or choice == "auto":
        return list(tools), "auto"
    if choice == "none":
        return list(tools), "none"
    if choice == "required" and tools:
        return list(tools), "required"
    if choice == "required":
        raise UsageError('tool_choice is "required", but there are no tools')
    names = f"nor one of the tools: {', '.join(map(_name, tools))}" if tools else "and there are no tools"
    raise UsageError(f'tool_choice {choice!r} is not "auto", "none" or "required", {names}')
