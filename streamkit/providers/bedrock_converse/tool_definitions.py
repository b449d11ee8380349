"""Tools and the tool choice of a Converse request, read and written.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolConfiguration.html
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamkit.model_copy import copy_with
from streamkit.providers.bedrock_converse.cache_points import cache_point, read_cache_point
from streamkit.providers.bedrock_converse.strict import STRICT
from streamkit.providers.body_fields import BodyFields, is_list
from streamkit.providers.offered_tools import further_fields, outer_fields, read_definition, strict_schemas
from streamkit.providers.provider import ToolChoice, Traits
from streamkit.tools.definition import HostedTool, OfferedTool, ToolDefinition

__all__ = ["read_tool_choice", "read_tools", "render_tool_choice", "render_tools", "tool_spec"]

Json = dict[str, Any]

_CHOICES: dict[str, Json] = {"auto": {"auto": {}}, "required": {"any": {}}}


def read_tools(fields: BodyFields, traits: Traits) -> list[OfferedTool]:
    """Take the tools of a body and return them; a cache point is a mark of the tool before it."""
    tools: list[OfferedTool] = []
    for raw in fields.take("toolConfig", "tools", check=is_list) or []:
        mark, last = read_cache_point(raw), tools[-1] if tools else None
        if mark is not None and isinstance(last, ToolDefinition):
            tools[-1] = copy_with(last, metadata={**last.metadata, "cache": mark})
        else:
            tools.append(_read_spec(raw, traits.name) or HostedTool(provider=traits.name, raw=raw))
    return tools


def _read_spec(raw: Any, provider: str) -> ToolDefinition | None:
    spec = raw.get("toolSpec") if isinstance(raw, dict) and raw.keys() == {"toolSpec"} else None
    if not isinstance(spec, dict):
        return None
    definition = read_definition(spec, provider, schema_field="inputSchema")
    schema = spec.get("inputSchema")
    if definition is None or not isinstance(schema, dict) or not isinstance(schema.get("json"), dict):
        return definition
    return copy_with(definition, parameters=schema["json"])


def read_tool_choice(fields: BodyFields, traits: Traits) -> ToolChoice | None:
    """Take the tool choice and return it; None if there is none, and one of another form stays in the body."""
    choice = fields.get("toolConfig", "toolChoice")
    modes = [mode for mode, value in _CHOICES.items() if value == choice]
    name = fields.get("toolConfig", "toolChoice", "tool", "name")
    if modes or (isinstance(name, str) and choice == {"tool": {"name": name}}):
        fields.take("toolConfig", "toolChoice")
        return modes[0] if modes else name
    return None


def render_tools(tools: Sequence[OfferedTool], *, most_marks: int) -> list[Json]:
    """Return the definitions of tools, each cache mark as a cache point after its tool.

    Args:
        tools: the tools.
        most_marks: how many cache marks the tools may have; of more, the last are kept.

    Raises:
        UsageError: the schema of a strict tool cannot be converted.
    """
    strict = strict_schemas(tools, STRICT)
    rendered: list[Json] = []
    surplus = sum("cache" in tool.metadata for tool in tools if isinstance(tool, ToolDefinition)) - most_marks
    for tool in tools:
        if isinstance(tool, HostedTool):
            rendered.append(tool.raw)
            continue
        further = further_fields(tool)
        spec = tool_spec(tool.name, tool.description, tool.parameters, strict.get(tool.name), further)
        rendered.append({**spec, **outer_fields(tool)})
        if isinstance(mark := tool.metadata.get("cache"), dict):
            surplus -= 1
            if surplus < 0:
                rendered.append(cache_point(mark))
    return rendered


def tool_spec(
    name: str, description: str, parameters: Json, strict_schema: Json | None = None, further: Json | None = None
) -> Json:
    """Return the definition of a tool.

    Args:
        name: its name.
        description: its description; an empty one is refused and left out.
        parameters: its schema.
        strict_schema: its schema in the strict form; None if it is not strict.
        further: further fields.
    """
    spec: Json = {"name": name}
    if description:
        spec["description"] = description
    spec["inputSchema"] = {"json": parameters if strict_schema is None else strict_schema}
    if strict_schema is not None:
        spec["strict"] = True
    return {"toolSpec": {**spec, **(further or {})}}


def render_tool_choice(choice: ToolChoice | None) -> Json | None:
    """Return the field ``toolChoice``; None if it is left out, as for ``none``, which the API does not have."""
    if choice is None or choice == "none":
        return None
    return dict(_CHOICES.get(choice) or {"tool": {"name": choice}})
