"""Tools and the tool choice of a Chat Completions request, read and written.

https://platform.openai.com/docs/api-reference/chat/create#chat-create-tools
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamkit.errors import UsageError
from streamkit.providers.body_fields import BodyFields
from streamkit.providers.offered_tools import (
    further_fields,
    outer_fields,
    read_definition,
    read_function_tool,
    read_tool_list,
    render_function_tool,
    strict_schemas,
)
from streamkit.providers.openai_chat.strict import strict_profile
from streamkit.providers.openai_chat.traits import ChatDialect
from streamkit.providers.provider import ToolChoice
from streamkit.providers.tool_choice import named_tool, select_tools
from streamkit.tools.custom import Grammar
from streamkit.tools.definition import OfferedTool, ToolDefinition

__all__ = ["read_tool_choice", "read_tools", "render_tool_choice", "render_tools"]

Json = dict[str, Any]

_MODES = {"auto": "auto", "none": "none", "required": "required", "any": "required"}


def read_tools(fields: BodyFields, traits: ChatDialect) -> list[OfferedTool]:
    """Take the tools of a body and return them."""
    return read_tool_list(fields, lambda raw: _read_tool(raw, traits.name), traits.name)


def _read_tool(raw: Json, provider: str) -> ToolDefinition | None:
    custom = raw.get("custom")
    if raw.get("type") != "custom" or not isinstance(custom, dict) or raw.keys() > {"type", "custom"}:
        return read_function_tool(raw, provider)
    form = custom.get("format")
    given = form.get("grammar") if isinstance(form, dict) and form.keys() == {"type", "grammar"} else None
    grammar = None
    if isinstance(given, dict) and given.keys() == {"syntax", "definition"}:
        if isinstance(given["syntax"], str) and isinstance(given["definition"], str):
            grammar = Grammar(**given)
    known = () if grammar is None else ("format",)
    return read_definition(custom, provider, schema_field="parameters", known=known, grammar=grammar, is_custom=True)


def read_tool_choice(fields: BodyFields, traits: ChatDialect) -> ToolChoice | None:
    """Take the tool choice and return it; None if there is none, and one of another form stays in the body."""
    choice = fields.get("tool_choice")
    if choice is None:
        return None
    if isinstance(choice, str) and choice in _MODES:
        fields.take("tool_choice")
        return _MODES[choice]
    for kind in ("function", "custom"):
        named = choice.get(kind) if isinstance(choice, dict) and choice.keys() == {"type", kind} else None
        if isinstance(named, dict) and named.keys() == {"name"} and isinstance(named["name"], str):
            fields.take("tool_choice")
            return named["name"]
    return None


def render_tools(tools: Sequence[OfferedTool], traits: ChatDialect) -> list[Json]:
    """Return the definitions of tools.

    Raises:
        UsageError: a strict tool's schema cannot be converted.
    """
    strict = strict_schemas(tools, strict_profile(traits.strict))
    rendered: list[Json] = []
    for tool in tools:
        if not isinstance(tool, ToolDefinition):
            rendered.append(tool.raw)
        elif tool.kind == "custom":
            rendered.append(_custom_tool(tool))
        else:
            schema = strict.get(tool.name)
            rendered.append(render_function_tool(tool, schema, is_strict=schema is not None))
    return rendered


def _custom_tool(tool: ToolDefinition) -> Json:
    custom: Json = {"name": tool.name}
    if tool.description:
        custom["description"] = tool.description
    if tool.grammar is not None:
        custom["format"] = {"type": "grammar", "grammar": tool.grammar.model_dump()}
    return {"type": "custom", "custom": {**custom, **further_fields(tool)}, **outer_fields(tool)}


def render_tool_choice(choice: ToolChoice | None, tools: Sequence[OfferedTool], traits: ChatDialect) -> Any:
    """Return the field ``tool_choice``; None if it is left out.

    Raises:
        UsageError: the choice names no tool, or one that cannot be named, or requires one and there are none.
    """
    if choice is None:
        return None
    _, mode = select_tools(choice, tools)
    if not tools:
        return None  # OpenAI: "tool_choice is only allowed when tools are specified"
    if (tool := named_tool(choice, tools)) is None:
        return traits.required_choice if mode == "required" else mode
    kind = tool.kind if isinstance(tool, ToolDefinition) else tool.raw.get("type")
    if kind in ("function", "custom"):
        return {"type": kind, kind: {"name": choice}}
    if len(tools) == 1:
        return traits.required_choice
    raise UsageError(
        f"tool_choice {choice!r} cannot be requested of {traits.name}, whose own tools have no names there; offer no"
        ' other tools and pass tool_choice="required"'
    )
