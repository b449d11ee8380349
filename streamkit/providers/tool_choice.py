"""Tool choices for APIs that cannot name a tool: the only way to force one is to offer no other.

This module depends on no provider.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from streamkit.errors import UsageError
from streamkit.providers.provider import ToolChoice
from streamkit.tools.definition import ToolDefinition

__all__ = ["ToolMode", "select_tools"]

ToolMode: TypeAlias = Literal["auto", "none", "required"]


def select_tools(choice: ToolChoice | None, tools: Sequence[ToolDefinition]) -> tuple[list[ToolDefinition], ToolMode]:
    """Return the tools among which a model chooses, and whether it may, must not or must call one.

    Args:
        choice: ``auto``, ``none``, ``required`` or a tool's name, which precedes; None is ``auto``.
        tools: all tools of the request.

    Raises:
        UsageError: the choice names no tool, or requires one and there are none.
    """
    named = [tool for tool in tools if tool.name == choice]
    if named:
        return named, "required"
    if choice is None or choice == "auto":
        return list(tools), "auto"
    if choice == "none":
        return list(tools), "none"
    if choice == "required" and tools:
        return list(tools), "required"
    if choice == "required":
        raise UsageError('tool_choice is "required", but there are no tools')
    names = f"nor one of the tools: {', '.join(tool.name for tool in tools)}" if tools else "and there are no tools"
    raise UsageError(f'tool_choice {choice!r} is not "auto", "none" or "required", {names}')
