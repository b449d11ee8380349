"""Tools and the tool choice of a Cohere v2 request, read and written.

https://docs.cohere.com/v2/reference/chat. One switch, ``strict_tools``, makes all tools strict.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamkit.model_copy import copy_with
from streamkit.providers.body_fields import BodyFields
from streamkit.providers.cohere.strict import STRICT
from streamkit.providers.offered_tools import (
    read_function_tool,
    read_tool_list,
    render_function_tool,
    strict_schemas,
)
from streamkit.providers.provider import ToolChoice, Traits
from streamkit.providers.tool_choice import select_tools
from streamkit.tools.definition import HostedTool, OfferedTool, ToolDefinition

__all__ = ["read_tool_choice", "read_tools", "render_tool_fields"]

Json = dict[str, Any]

_CHOICES = {"NONE": "none", "REQUIRED": "required"}
_NAMES = {"auto": None, "none": "NONE", "required": "REQUIRED"}


def read_tools(fields: BodyFields, traits: Traits) -> list[OfferedTool]:
    """Take the tools of a body and return them."""
    tools = read_tool_list(fields, lambda raw: read_function_tool(raw, traits.name), traits.name)
    if fields.get("strict_tools") is True:
        fields.take("strict_tools")
        strict = {"strict": True}
        tools = [copy_with(tool, **strict) if isinstance(tool, ToolDefinition) else tool for tool in tools]
    return tools


def read_tool_choice(fields: BodyFields, traits: Traits) -> ToolChoice | None:
    """Take the tool choice and return it; None if there is none, and one of another form stays in the body."""
    choice = fields.get("tool_choice")
    if not isinstance(choice, str) or choice not in _CHOICES:
        return None
    fields.take("tool_choice")
    return _CHOICES[choice]


def render_tool_fields(tools: Sequence[OfferedTool], choice: ToolChoice | None) -> Json:
    """Return the fields of the tools and of the choice among them.

    Raises:
        UsageError: the choice names no tool, or a strict tool's schema cannot be converted.
    """
    offered, mode = select_tools(choice, tools)
    fields: Json = {}
    if offered:
        strict = strict_schemas(offered, STRICT)
        fields["tools"] = [
            tool.raw if isinstance(tool, HostedTool) else render_function_tool(tool, strict.get(tool.name))
            for tool in offered
        ]
        if strict:
            fields["strict_tools"] = True
        if (name := _NAMES[mode]) is not None:
            fields["tool_choice"] = name
    return fields
