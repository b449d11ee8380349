"""Definitions of tools in forms that several wires share.

A definition that is rendered has ``fields`` only if the target is the provider that it was read from
(`requests.prepare_tools`). This module must not depend on a provider.

Tool choices: the tools that a choice selects, and choices for APIs that cannot name a tool.

The only way to force one of these is to offer no other.

This module depends on no provider.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal, TypeAlias

from streamkit.errors import UsageError
from streamkit.history.builder import read_cache_mark
from streamkit.providers.contract.rendered import ToolChoice
from streamkit.providers.requests.body_fields import BodyFields, is_list
from streamkit.tools import StrictProfile, strict_parameters
from streamkit.tools.custom import Grammar
from streamkit.tools.definition import HostedTool, OfferedTool, ToolDefinition
from streamkit.values.json_data import copy_with

__all__ = [
    "ToolMode",
    "further_fields",
    "named_tool",
    "outer_fields",
    "read_definition",
    "read_function_tool",
    "read_tool_list",
    "render_function_tool",
    "select_tools",
    "split_tools",
    "strict_schemas",
]


Json = dict[str, Any]


def read_tool_list(fields: BodyFields, read: Callable[[Json], OfferedTool | None], provider: str) -> list[OfferedTool]:
    """Take the list of tools and return it. An entry that ``read`` returns None for is a tool of the provider."""
    tools = fields.take("tools", check=is_list)
    if not tools:
        return []
    read_tools = [read(tool) if isinstance(tool, dict) else None for tool in tools]
    return [
        definition if definition is not None else HostedTool(provider=provider, raw=tool)
        for definition, tool in zip(read_tools, tools, strict=True)
    ]


def read_definition(
    raw: Json,
    provider: str,
    *,
    schema_field: str,
    known: Collection[str] = (),
    fields: Json | None = None,
    grammar: Grammar | None = None,
    is_custom: bool = False,
    **more: Any,
) -> ToolDefinition | None:
    """Return the definition of an object with a name, a description and a schema; None if it has no name.

    Args:
        raw: the object.
        provider: the provider in whose form it is.
        schema_field: the field with the schema of the parameters.
        known: further fields that the caller reads.
        fields: fields outside of the object that are kept for the provider.
        grammar: the grammar of a custom tool.
        is_custom: whether it is a custom tool.
        more: further fields of the definition.
    """
    name = raw.get("name")
    if not isinstance(name, str) or not name:
        return None
    rest = {key: value for key, value in raw.items() if key not in ("name", *known)}
    description, schema = rest.get("description"), rest.get(schema_field)
    values: Json = {"name": name, **more}
    if isinstance(description, str):
        values["description"] = rest.pop("description")
    if rest.get("strict") is True:
        values["strict"] = rest.pop("strict")
    if isinstance(schema, dict) and not is_custom:
        values["parameters"] = rest.pop(schema_field)
    metadata: Json = {"provider": provider}
    kept = {**(fields or {}), **rest}
    if (mark := read_cache_mark(kept.get("cache_control"))) is not None:
        metadata["cache"] = mark
        del kept["cache_control"]
    if kept:
        metadata["fields"] = kept
    if is_custom:
        return ToolDefinition.custom(grammar=grammar, metadata=metadata, **values)
    return ToolDefinition(metadata=metadata, **values)


def read_function_tool(raw: Json, provider: str) -> ToolDefinition | None:
    """Return a tool of the form of Chat Completions, ``{"type": "function", "function": {...}}``; None for others."""
    function = raw.get("function")
    if raw.get("type", "function") != "function" or not isinstance(function, dict):
        return None
    outside = {name: value for name, value in raw.items() if name not in ("type", "function")}
    definition = read_definition(function, provider, schema_field="parameters")
    if definition is None or not outside:
        return definition
    metadata = {**definition.metadata, "outer_fields": outside}
    return copy_with(definition, metadata=metadata)


def render_function_tool(tool: ToolDefinition, schema: Json | None, *, is_strict: bool = False) -> Json:
    """Return a tool in the form of Chat Completions.

    Args:
        tool: the definition.
        schema: its schema in the target's strict form; None if it is not strict.
        is_strict: whether the field ``strict`` is written.
    """
    function: Json = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = tool.parameters if schema is None else schema
    if is_strict:
        function["strict"] = True
    return {"type": "function", "function": {**function, **further_fields(tool)}, **outer_fields(tool)}


def further_fields(tool: ToolDefinition) -> Json:
    """Return the fields that the target's own definition had besides those that a definition has."""
    fields = tool.metadata.get("fields")
    return dict(fields) if isinstance(fields, dict) else {}


def outer_fields(tool: ToolDefinition) -> Json:
    """Return the fields around the target's own definition, and those that the caller adds to it."""
    return {**tool.metadata.get("outer_fields", {}), **tool.metadata.get("added_fields", {})}


def split_tools(tools: Sequence[OfferedTool]) -> tuple[list[ToolDefinition], list[HostedTool]]:
    """Return the tools of the client, and those of the provider."""
    definitions = [tool for tool in tools if isinstance(tool, ToolDefinition)]
    return definitions, [tool for tool in tools if isinstance(tool, HostedTool)]


def strict_schemas(tools: Sequence[OfferedTool], profile: StrictProfile | None) -> dict[str, Json]:
    """Return the schemas of the strict tools in the target's form, by the tool's name.

    A schema that was read in the target's form is sent as it came.

    Raises:
        UsageError: a schema cannot be converted.
    """
    definitions, _ = split_tools(tools)
    own = {tool.name: tool.parameters for tool in definitions if tool.strict and "provider" in tool.metadata}
    converted = strict_parameters([tool for tool in definitions if tool.name not in own], profile)
    return own | converted


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
