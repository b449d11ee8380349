"""The settings, tools and tool choice of a Responses request, read and written.

Wire: https://platform.openai.com/docs/api-reference/responses/create

Functions and custom tools may be grouped in a ``namespace``, and an item ``additional_tools`` of the input may define
further tools. So do the results of a tool search that the client runs: Codex declares most tools of MCP servers there
alone. These are tools of the request like others; the item stays in the messages, which define the tools for this
provider. The tool search itself is a function for other providers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamkit.calls import CLIENT_TOOL
from streamkit.providers.contract.traits import effort_for
from streamkit.providers.openai_responses.schema import TOOLS_ITEM
from streamkit.providers.provider import ToolChoice, Traits
from streamkit.providers.requests.body_fields import (
    BodyFields,
    SettingsWriter,
    openai_output_format,
    read_plain_settings,
    take_effort,
)
from streamkit.providers.requests.request import AllowedTools, OutputFormat
from streamkit.providers.requests.strict import OPENAI
from streamkit.providers.requests.tools import (
    further_fields,
    named_tool,
    outer_fields,
    read_definition,
    strict_schemas,
    take_allowed_tools,
)
from streamkit.tools.custom import Grammar, declared_name
from streamkit.tools.definition import HostedTool, OfferedTool, ToolDefinition
from streamkit.values.json_data import copy_with
from streamkit.values.request_changes import LeftOut, Translated

__all__ = [
    "output_fields",
    "read_settings",
    "read_tool_choice",
    "read_tools",
    "render_tool_choice",
    "render_tools",
    "write_settings",
]

Json = dict[str, Any]
#: https://platform.openai.com/docs/guides/reasoning#encrypted-reasoning-items: reasoning for a stateless conversation
_ENCRYPTED = "reasoning.encrypted_content"


def read_settings(fields: BodyFields, traits: Traits) -> Json:
    """Take the settings of a body and return them by their neutral names."""
    values = read_plain_settings(fields, traits)
    values |= take_effort(fields, "reasoning", "effort")
    if (summary := fields.take("reasoning", "summary", check=str)) is not None:
        values["reasoning_summary"] = summary
    if (output := openai_output_format(fields.get("text", "format"), is_nested=False)) is not None:
        fields.take("text", "format")
        values["output_format"] = output
    return values


def write_settings(writer: SettingsWriter, traits: Traits) -> None:
    """Write the settings into the body."""
    writer.write_limit()
    _write_reasoning(writer)
    writer.write_output_format(output_fields, OPENAI, enforces=False)
    writer.write_rest()


def _write_reasoning(writer: SettingsWriter) -> None:
    mode, effort, budget = writer.take("reasoning"), writer.take("reasoning_effort"), writer.take("reasoning_budget")
    summary = writer.take("reasoning_summary")
    if writer.facts.reasoning == "none":
        if effort or budget or mode == "auto":
            writer.report(LeftOut("reasoning was left out: the model has none"))
        return
    if budget is not None:
        effort = effort or effort_for(budget)
        writer.report(Translated(f"the reasoning budget of {budget} tokens became the effort {effort!r}"))
    if mode == "off":
        if writer.facts.reasoning_is_optional:
            writer.put("none", "reasoning", "effort")
        else:
            writer.report(LeftOut("reasoning was not turned off: the model always reasons"))
    elif effort:
        writer.put(writer.accepted_effort(effort), "reasoning", "effort")
    if summary == "updates":
        summary = "auto"
    if summary in ("auto", "concise", "detailed"):
        writer.put(summary, "reasoning", "summary")
    if writer.is_foreign and writer.facts.reasoning == "effort":
        # A client of another wire cannot refer to stored responses: its messages carry the reasoning.
        writer.put([_ENCRYPTED], "include")
        writer.put(False, "store")


def output_fields(output: OutputFormat) -> Json:
    """Return the field of the output format.

    https://platform.openai.com/docs/api-reference/responses/create#responses-create-text
    """
    if output.type != "json_schema":
        return {"text": {"format": {"type": "text" if output.type == "text" else "json_object"}}}
    schema: Json = {"type": "json_schema", "name": output.name or "output", "schema": output.json_schema or {}}
    for name in ("description", "strict"):
        if getattr(output, name) is not None:
            schema[name] = getattr(output, name)
    return {"text": {"format": schema}}


_MODES = ("auto", "none", "required")


def read_tools(fields: BodyFields, traits: Traits) -> list[OfferedTool]:
    """Take the tools of a body and return them, with those that its input defines."""
    tools = [tool for raw in fields.take("tools", check=list) or [] for tool in _read(raw, traits.name)]
    items = fields.get(traits.messages_field)
    for item in items if isinstance(items, list) else ():
        kind = item.get("type") if isinstance(item, dict) else None
        if kind == TOOLS_ITEM:
            tools += _listed(item, traits.name)
        elif kind == "tool_search_output" and item.get("execution") == "client":
            known = {
                (tool.namespace, tool.name) for tool in tools if isinstance(tool, ToolDefinition)
            }  # several searches may find the same tool
            tools += (tool for tool in _listed(item, traits.name) if (tool.namespace, tool.name) not in known)
    return tools


def _listed(item: Json, provider: str) -> list[OfferedTool]:
    """Return the tools that an item of the input defines."""
    listed, found = item.get("tools"), list[OfferedTool]()
    for tool in (tool for raw in (listed if isinstance(listed, list) else ()) for tool in _read(raw, provider)):
        if isinstance(tool, HostedTool):
            found.append(copy_with(tool, in_messages=True))
        else:
            found.append(copy_with(tool, metadata={**tool.metadata, "in_messages": True}))
    return found


def _read(raw: Any, provider: str) -> list[OfferedTool]:
    """Return the tool of an entry, or the tools of a namespace."""
    kind = raw.get("type") if isinstance(raw, dict) else None
    if kind == "namespace" and isinstance(raw.get("name"), str) and isinstance(raw.get("tools"), list):
        return _read_namespace(raw, provider)
    definition = _read_definition(raw, provider) if isinstance(raw, dict) else None
    return [HostedTool(provider=provider, raw=raw) if definition is None else definition]


def _read_namespace(raw: Json, provider: str) -> list[OfferedTool]:
    description = raw.get("description")
    group: Json = {
        "namespace": raw["name"],
        "namespace_description": description if isinstance(description, str) else "",
    }
    further = {name: value for name, value in raw.items() if name not in ("type", "name", "description", "tools")}
    found: list[OfferedTool] = []
    for entry in raw["tools"]:
        tool = _read_definition(entry, provider, **group) if isinstance(entry, dict) else None
        if tool is None:
            found.append(HostedTool(provider=provider, raw=entry, **group))
        else:
            metadata = {**tool.metadata, "namespace_fields": further} if further else tool.metadata
            found.append(copy_with(tool, metadata=metadata))
    return found


def _read_definition(raw: Json, provider: str, **group: Any) -> ToolDefinition | None:
    kind = raw.get("type")
    if kind == "tool_search" and raw.get("execution") == "client" and not group:
        fields: Json = {name: raw[name] for name in ("description",) if isinstance(raw.get(name), str)}
        if isinstance(raw.get("parameters"), dict):
            fields["parameters"] = raw["parameters"]
        return ToolDefinition(name=kind, metadata={"provider": provider, CLIENT_TOOL: raw}, **fields)
    if kind == "function":
        return read_definition(raw, provider, schema_field="parameters", known=("type",), **group)
    if kind != "custom":
        return None
    form = raw.get("format")
    grammar = None
    if isinstance(form, dict) and form.keys() == {"type", "syntax", "definition"} and form["type"] == "grammar":
        if isinstance(form["syntax"], str) and isinstance(form["definition"], str):
            grammar = Grammar(syntax=form["syntax"], definition=form["definition"])
    known = ("type",) if grammar is None else ("type", "format")
    return read_definition(
        raw, provider, schema_field="parameters", known=known, grammar=grammar, is_custom=True, **group
    )


def read_tool_choice(fields: BodyFields, traits: Traits) -> ToolChoice | AllowedTools | None:
    """Take the tool choice and return it; None if there is none, and one of another form stays in the body."""
    choice = fields.get("tool_choice")
    if isinstance(choice, str) and choice in _MODES:
        fields.take("tool_choice")
        return choice
    if isinstance(choice, dict) and choice.keys() == {"type", "name"} and choice["type"] in ("function", "custom"):
        if isinstance(choice["name"], str):
            fields.take("tool_choice")
            return choice["name"]
    if fields.get("tool_choice", "type") == "allowed_tools":
        listed = fields.get("tool_choice", "tools")
        entries = [tool for tool in listed if isinstance(tool, dict)] if isinstance(listed, list) else []
        names = [tool.get("name") or tool.get("server_label") or tool.get("type") for tool in entries]
        return take_allowed_tools(fields, fields.get("tool_choice", "mode"), names, "tool_choice")
    return None


def render_tools(tools: Sequence[OfferedTool], traits: Traits) -> list[Json]:
    """Return the definitions of tools, those of a namespace in it, at the place of the first.

    Raises:
        UsageError: a strict tool's schema cannot be converted.
    """
    strict = strict_schemas(tools, OPENAI)
    namespaces: dict[str, Json] = {}
    rendered: list[Json] = []
    for tool in tools:
        entry = tool.raw if isinstance(tool, HostedTool) else _definition(tool, strict.get(tool.name))
        if tool.namespace is None:
            rendered.append(entry)
            continue
        if tool.namespace not in namespaces:
            further = {} if isinstance(tool, HostedTool) else tool.metadata.get("namespace_fields", {})
            group: Json = {"type": "namespace", "name": tool.namespace, "description": tool.namespace_description}
            namespaces[tool.namespace] = {**group, **further, "tools": []}
            rendered.append(namespaces[tool.namespace])
        namespaces[tool.namespace]["tools"].append(entry)
    return rendered


def _definition(tool: ToolDefinition, strict: Json | None) -> Json:
    if isinstance(own := tool.metadata.get(CLIENT_TOOL), dict):
        return own
    definition: Json = {"type": tool.kind, "name": tool.name}
    if tool.description:
        definition["description"] = tool.description
    if tool.kind == "custom":
        if tool.grammar is not None:
            definition["format"] = {"type": "grammar", **tool.grammar.model_dump()}
    else:
        definition["parameters"] = tool.parameters if strict is None else strict
        if strict is not None or "provider" not in tool.metadata:
            # Present for tools of other forms: the API's default is strict, which most schemas do not satisfy.
            definition["strict"] = strict is not None
    return {**definition, **further_fields(tool), **outer_fields(tool)}


def render_tool_choice(choice: ToolChoice | None, tools: Sequence[OfferedTool], traits: Traits) -> Any:
    """Return the field ``tool_choice``; None if it is left out."""
    if choice is None or choice in _MODES:
        return choice
    tool = named_tool(choice, tools)
    if not isinstance(tool, HostedTool) or declared_name(tool.raw) is not None:
        kind = tool.raw.get("type") if isinstance(tool, HostedTool) else "function" if tool is None else tool.kind
        return {"type": kind, "name": choice}
    # https://platform.openai.com/docs/api-reference/responses/create#responses-create-tool_choice
    return {name: tool.raw[name] for name in ("type", "server_label") if name in tool.raw}
