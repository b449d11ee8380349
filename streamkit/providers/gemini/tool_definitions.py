"""Tools and the tool choice of a generateContent request, read and written.

https://ai.google.dev/api/caching#Tool, #FunctionDeclaration. A declaration has a JSON schema (``parametersJsonSchema``)
or one in the form of OpenAPI (``parameters``), which other targets get as a JSON schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamkit.errors import UsageError
from streamkit.model_copy import copy_with
from streamkit.providers.body_fields import BodyFields, is_list, is_texts
from streamkit.providers.gemini.openapi_schema import to_json_schema
from streamkit.providers.gemini.strict import STRICT
from streamkit.providers.offered_tools import further_fields, outer_fields, read_definition, split_tools, strict_schemas
from streamkit.providers.provider import ToolChoice, Traits
from streamkit.providers.tool_choice import named_tool
from streamkit.tools.definition import HostedTool, OfferedTool, ToolDefinition

__all__ = ["read_tool_choice", "read_tools", "render_tool_choice", "render_tools"]

Json = dict[str, Any]

_CONFIG = ("toolConfig", "functionCallingConfig")
_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
_MODE_OF_NAME = {name: mode for mode, name in _MODES.items()}


def read_tools(fields: BodyFields, traits: Traits) -> list[OfferedTool]:
    """Take the tools of a body and return them: each function, and each other tool alone."""
    tools: list[OfferedTool] = []
    for raw in fields.take("tools", check=is_list) or []:
        declarations = raw.get("functionDeclarations") if isinstance(raw, dict) else None
        if not isinstance(declarations, list):
            tools.append(HostedTool(provider=traits.name, raw=raw))
            continue
        for declaration in declarations:
            tool = _read_declaration(declaration, traits.name) if isinstance(declaration, dict) else None
            tools.append(tool or HostedTool(provider=traits.name, raw={"functionDeclarations": [declaration]}))
        further = {name: value for name, value in raw.items() if name != "functionDeclarations"}
        tools += (HostedTool(provider=traits.name, raw={name: value}) for name, value in further.items())
    return tools


def _read_declaration(raw: Json, provider: str) -> ToolDefinition | None:
    definition = read_definition(raw, provider, schema_field="parametersJsonSchema")
    schema = raw.get("parameters")
    if definition is None or not isinstance(schema, dict) or "parametersJsonSchema" in raw:
        return definition
    return copy_with(definition, parameters=to_json_schema(schema))


def read_tool_choice(fields: BodyFields, traits: Traits) -> ToolChoice | None:
    """Take the mode of function calling and return it; None if there is none, and one of another form stays."""
    mode, names = fields.get(*_CONFIG, "mode"), fields.get(*_CONFIG, "allowedFunctionNames")
    if not isinstance(mode, str) or mode not in _MODE_OF_NAME:
        return None
    if names is None:
        fields.take(*_CONFIG, "mode")
        return _MODE_OF_NAME[mode]
    if mode == "ANY" and is_texts(names) and len(names) == 1:
        fields.take(*_CONFIG, "allowedFunctionNames")
        fields.take(*_CONFIG, "mode")
        return str(names[0])
    return None


def render_tools(tools: Sequence[OfferedTool], traits: Traits) -> list[Json]:
    """Return the tools: all functions in one, and the provider's tools after it.

    Raises:
        UsageError: a strict tool's schema cannot be converted.
    """
    strict = strict_schemas(tools, STRICT)
    definitions, hosted = split_tools(tools)
    declarations = [_declaration(tool, strict.get(tool.name, tool.parameters)) for tool in definitions]
    return [*([{"functionDeclarations": declarations}] if declarations else []), *(tool.raw for tool in hosted)]


def _declaration(tool: ToolDefinition, parameters: Json) -> Json:
    declaration: Json = {"name": tool.name}
    if tool.description:
        declaration["description"] = tool.description
    further = further_fields(tool)
    if "parameters" not in further:
        declaration["parametersJsonSchema"] = parameters
    return {**declaration, **further, **outer_fields(tool)}


def render_tool_choice(choice: ToolChoice | None, tools: Sequence[OfferedTool], traits: Traits) -> Json | None:
    """Return the ``functionCallingConfig``; None if it is left out.

    Raises:
        UsageError: the choice names a tool that is no function.
    """
    if isinstance(named_tool(choice, tools), HostedTool):
        raise UsageError(f"tool_choice {choice!r} cannot be requested of {traits.name}: only functions can")
    definitions, _ = split_tools(tools)
    if not definitions:
        return None
    # The mode holds for all functions or for none (`STRICT`), so none is validated if one is not strict.
    if choice in (None, "auto") and all(tool.strict for tool in definitions):
        return {"mode": "VALIDATED"}
    if choice is None:
        return None
    return {"mode": _MODES[choice]} if choice in _MODES else {"mode": "ANY", "allowedFunctionNames": [choice]}
