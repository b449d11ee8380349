"""The tools of InvokeModel's requests, which are Anthropic's."""

from __future__ import annotations

from streamkit.providers.anthropic.tool_definitions import (
    read_tool_choice,
    read_tools,
    render_tool_choice,
    render_tools,
)

__all__ = ["read_tool_choice", "read_tools", "render_tool_choice", "render_tools"]
