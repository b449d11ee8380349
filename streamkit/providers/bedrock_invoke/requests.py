"""The settings, tools and tool choice of InvokeModel's requests, which are Anthropic's."""

from __future__ import annotations

from streamkit.providers.anthropic.requests import read_settings, read_tool_choice, read_tools, write_settings

__all__ = ["read_settings", "read_tool_choice", "read_tools", "write_settings"]
