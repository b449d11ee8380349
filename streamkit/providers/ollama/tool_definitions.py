"""Tools of an Ollama request, read and written: https://docs.ollama.com/api/chat. There is no tool choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamkit.providers.body_fields import BodyFields
from streamkit.providers.offered_tools import further_fields, outer_fields, read_function_tool, read_tool_list
from streamkit.providers.provider import ToolChoice, Traits
from streamkit.tools.definition import HostedTool, OfferedTool, ToolDefinition

__all__ = ["read_tool_choice", "read_tools", "render_tools"]

Json = dict[str, Any]


def read_tools(fields: BodyFields, traits: Traits) -> list[OfferedTool]:
    """Take the tools of a body and return them."""
    return read_tool_list(fields, lambda raw: read_function_tool(raw, traits.name), traits.name)


def read_tool_choice(fields: BodyFields, traits: Traits) -> ToolChoice | None:
    """Return None: the API has no tool choice."""
    return None


def render_tools(tools: Sequence[OfferedTool]) -> list[Json]:
    """Return the definitions of tools."""
    return [tool.raw if isinstance(tool, HostedTool) else _definition(tool) for tool in tools]


def _definition(tool: ToolDefinition) -> Json:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": {**function, **further_fields(tool)}, **outer_fields(tool)}
