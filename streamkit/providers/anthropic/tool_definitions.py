"""Tools and the tool choice of a Messages request, read and written.

https://docs.anthropic.com/en/api/messages#body-tools. Tools of Anthropic's own types (search, bash, text editor) are
kept as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from streamkit.providers.anthropic.strict import STRICT
from streamkit.providers.body_fields import BodyFields, is_flag
from streamkit.providers.offered_tools import (
    further_fields,
    outer_fields,
    read_definition,
    read_tool_list,
    strict_schemas,
)
from streamkit.providers.provider import ToolChoice, Traits
from streamkit.tools.definition import HostedTool, OfferedTool, ToolDefinition

__all__ = ["read_tool_choice", "read_tools", "render_tool_choice", "render_tools", "take_parallel_calls"]

Json = dict[str, Any]

_MODES: dict[str, Json] = {"auto": {"type": "auto"}, "required": {"type": "any"}, "none": {"type": "none"}}
_MODE_OF_TYPE = {value["type"]: mode for mode, value in _MODES.items()}


def read_tools(fields: BodyFields, traits: Traits) -> list[OfferedTool]:
    """Take the tools of a body and return them."""
    return read_tool_list(fields, lambda raw: _read_tool(raw, traits.name), traits.name)


def _read_tool(raw: Json, provider: str) -> ToolDefinition | None:
    if raw.get("type") not in (None, "custom") or not isinstance(raw.get("input_schema"), dict):
        return None
    return read_definition(raw, provider, schema_field="input_schema")


def read_tool_choice(fields: BodyFields, traits: Traits) -> ToolChoice | None:
    """Take the tool choice and return it; None if there is none, and one of another form stays in the body.

    Its ``disable_parallel_tool_use`` is a setting of its own and stays, too.
    """
    choice = fields.get("tool_choice")
    if not isinstance(choice, dict) or choice.keys() - {"type", "name", "disable_parallel_tool_use"}:
        return None
    kind, name = choice.get("type"), choice.get("name")
    if kind == "tool" and isinstance(name, str):
        fields.take("tool_choice", "name")
        fields.take("tool_choice", "type")
        return name
    if isinstance(kind, str) and kind in _MODE_OF_TYPE and name is None:
        fields.take("tool_choice", "type")
        return _MODE_OF_TYPE[kind]
    return None


def render_tools(tools: Sequence[OfferedTool], traits: Traits, *, most_marks: Callable[[], int]) -> list[Json]:
    """Return the definitions of tools.

    Args:
        tools: the tools.
        traits: the target's traits.
        most_marks: returns how many cache marks the tools may have; of more, the last are kept.

    Raises:
        UsageError: the schema of a strict tool cannot be converted, or all of them together exceed a limit.
    """
    strict = strict_schemas(tools, STRICT)
    rendered = [
        tool.raw if isinstance(tool, HostedTool) else _definition(tool, strict.get(tool.name)) for tool in tools
    ]
    marked = [number for number, tool in enumerate(rendered) if isinstance(tool, dict) and "cache_control" in tool]
    for number in marked[: max(len(marked) - most_marks(), 0)] if marked else ():
        rendered[number] = {name: value for name, value in rendered[number].items() if name != "cache_control"}
    return rendered


def _definition(tool: ToolDefinition, strict: Json | None) -> Json:
    definition: Json = {"name": tool.name}
    if tool.description:
        definition["description"] = tool.description
    definition["input_schema"] = tool.parameters if strict is None else strict
    if strict is not None:
        definition["strict"] = True
    definition |= further_fields(tool)
    if isinstance(mark := tool.metadata.get("cache"), dict):
        definition["cache_control"] = {"type": "ephemeral", **mark}
    return {**definition, **outer_fields(tool)}


def render_tool_choice(choice: ToolChoice | None, tools: Sequence[OfferedTool], traits: Traits) -> Json | None:
    """Return the field ``tool_choice``; None if it is left out."""
    if choice is None or not tools:
        return None
    return dict(_MODES.get(choice) or {"type": "tool", "name": choice})


def take_parallel_calls(fields: BodyFields) -> bool | None:
    """Take the field that forbids several calls in one response; return whether they are allowed, None if unset."""
    is_disabled = fields.take("tool_choice", "disable_parallel_tool_use", check=is_flag)
    return None if is_disabled is None else not is_disabled
