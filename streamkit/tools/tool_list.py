"""Lists of tools: what ``tools=`` takes, by name, and the strict schemas of all tools of a request.

This module must not depend on providers; what a strict mode takes is in their profiles.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from streamkit.errors import UsageError
from streamkit.tools.custom import declared_name
from streamkit.tools.json_schema import short_json
from streamkit.tools.strict_profile import StrictProfile
from streamkit.tools.strict_schema import StrictSchema
from streamkit.tools.tool import Tool

__all__ = ["AnyTool", "strict_parameters", "to_tools"]

#: What ``tools=`` takes: functions, tools, and a provider's own declarations (``{"type": "web_search"}``).
AnyTool: TypeAlias = Callable[..., Any] | Tool | Mapping[str, Any]


def to_tools(tools: Sequence[AnyTool]) -> dict[str, Tool]:
    """Return tools by name, in their order; plain functions become tools, and so do a provider's own declarations.

    A declaration (a dict with a ``type``) has the name that it contains, or else that of its type, with a number after
    the first.

    Raises:
        UsageError: two have the same name, or one is neither a function nor a tool nor a declaration.
    """
    if callable(tools) or isinstance(tools, (str, bytes, Mapping)) or not isinstance(tools, Iterable):
        raise UsageError(f"tools must be a list of functions and tools, not {tools!r}")
    by_name: dict[str, Tool] = {}
    for item in tools:
        if isinstance(item, Mapping) and _is_declaration(item):
            declared = _to_declared_tool(item, by_name)
            by_name[declared.name] = declared
            continue
        if not callable(item):
            raise UsageError(
                f"tools must be functions or tools, not {short_json(item)}; make one of a JSON schema with"
                " Tool(function, name=..., description=..., parameters=...); a provider declaration has a type"
            )
        tool = item if isinstance(item, Tool) else Tool(item)
        if tool.name in by_name:
            raise UsageError(f"two tools have the name {tool.name!r}; rename one of them with tool(f, name=...)")
        by_name[tool.name] = tool
    return by_name


def _is_declaration(item: Mapping[str, Any]) -> bool:
    """Return True for an object with a type, and for Gemini's form, one name with settings (``{"googleSearch": {}}``).

    A bare schema with a name is not one: most often it was meant as the description of a function.
    """
    return isinstance(item.get("type"), str) or (len(item) == 1 and isinstance(next(iter(item.values())), Mapping))


def _to_declared_tool(declaration: Mapping[str, Any], others: Collection[str]) -> Tool:
    """Return a tool for a provider's own declaration, which is sent unchanged. Its calls are for the client."""
    name = declared_name(declaration)
    if name is None:
        kind = declaration.get("type")
        stem = name = kind if isinstance(kind, str) else next(iter(declaration))
        number = 2
        while name in others:
            name, number = f"{stem}_{number}", number + 1
    elif name in others:
        raise UsageError(f"two tools have the name {name!r}; leave one of them out, or rename it")
    declared = Tool(name=name)
    declared.declaration = dict(declaration)
    return declared


class _StrictTool(Protocol):
    """What a tool's strict schema depends on: a ``Tool`` or a definition of one."""

    @property
    def name(self) -> str: ...
    @property
    def parameters(self) -> dict[str, Any]: ...
    @property
    def strict(self) -> bool: ...


def strict_parameters(tools: Iterable[_StrictTool], profile: StrictProfile | None) -> dict[str, dict[str, Any]]:
    """Return the converted parameters of the strict tools, by the tool's name.

    Args:
        tools: all tools of the request.
        profile: the target's profile; None if it has no strict mode.

    Raises:
        UsageError: a schema, or all of them together, cannot be converted; the message gives the tool, the path and the
            reason.
    """
    all_tools = list(tools)
    strict_tools = [tool for tool in all_tools if tool.strict]
    if profile is None or (profile.all_or_none and len(strict_tools) < len(all_tools)):
        return {}
    converted: dict[str, dict[str, Any]] = {}
    fields = optional = unions = 0
    for tool in strict_tools:
        schema = StrictSchema(f"tool {tool.name}", tool.parameters, profile)
        converted[tool.name] = schema.parameters()
        fields += schema.properties
        optional += schema.optional
        unions += schema.unions
    for subject, count, limit in (
        ("strict tools", len(strict_tools), profile.tools),
        ("properties", fields, profile.fields),
        ("properties that are not required", optional, profile.optional),
        ("properties of several types", unions, profile.unions),
    ):
        if limit is not None and count > limit:
            raise UsageError(
                f"the strict tools of a request to {profile.target} may have {limit} {subject}, but these have "
                f"{count}: {', '.join(converted)}; make fewer of them strict"
            )
    return converted
