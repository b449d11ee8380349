"""The settings, tools, tool choice and strict mode of a Cohere v2 request, read and written.

https://docs.cohere.com/v2/reference/chat. One switch, ``strict_tools``, makes all tools strict.
"""

from __future__ import annotations

from collections.abc import Sequence

from streamkit.providers.cohere.schema import Json
from streamkit.providers.contract.traits import budget_for
from streamkit.providers.provider import ToolChoice, Traits
from streamkit.providers.requests.body_fields import (
    BodyFields,
    SettingsWriter,
    is_object,
    read_plain_settings,
)
from streamkit.providers.requests.request import OutputFormat
from streamkit.providers.requests.tools import (
    read_function_tool,
    read_tool_list,
    render_function_tool,
    select_tools,
    strict_schemas,
)
from streamkit.tools import StrictProfile
from streamkit.tools.definition import HostedTool, OfferedTool, ToolDefinition
from streamkit.values.json_data import copy_with
from streamkit.values.request_changes import Translated

__all__ = [
    "STRICT",
    "output_fields",
    "read_settings",
    "read_tool_choice",
    "read_tools",
    "render_tool_fields",
    "write_settings",
]

# https://docs.cohere.com/docs/structured-outputs#parameter-types-support and .../tool-use-parameter-types (read
# 2026-11): one switch for the request; no range of a number or a length; these formats; patterns only without ^ and $,
# which few are; a required parameter in each tool, 200 fields in all of them.
STRICT = StrictProfile(
    "Cohere",
    keywords={"format": frozenset(("date-time", "uuid", "date", "time"))},
    some_required=True,
    all_or_none=True,
    fields=200,
)
_CHOICES = {"NONE": "none", "REQUIRED": "required"}
_NAMES = {"auto": None, "none": "NONE", "required": "REQUIRED"}
#: The neutral value of ``thinking.type``.
_MODES = {"enabled": "auto", "disabled": "off"}


# ---------------------------------------------------------------- tools and the tool choice


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


# ---------------------------------------------------------------- settings


def read_settings(fields: BodyFields, traits: Traits) -> Json:
    """Take the settings of a body and return them by their neutral names."""
    values = read_plain_settings(fields, traits)
    if (kind := fields.get("thinking", "type")) in list(_MODES):  # a list: the value may be unhashable
        fields.take("thinking", "type")
        values["reasoning"] = _MODES[kind]
    if (budget := fields.take("thinking", "token_budget", check=int)) is not None:
        values["reasoning_budget"] = budget
    output = fields.get("response_format")
    if is_object(output) and output.keys() <= {"type", "json_schema"}:
        schema = output.get("json_schema")
        if output.get("type") == "text" and schema is None:
            values["output_format"] = OutputFormat(type="text")
        elif output.get("type") == "json_object" and (schema is None or is_object(schema)):
            values["output_format"] = (
                OutputFormat(type="json")
                if schema is None
                else OutputFormat(type="json_schema", json_schema=schema, strict=True)
            )
        if "output_format" in values:
            fields.take("response_format")
    return values


def write_settings(writer: SettingsWriter, traits: Traits) -> None:
    """Write the settings into the body."""
    most = writer.write_limit()
    mode, effort, budget = writer.take("reasoning"), writer.take("reasoning_effort"), writer.take("reasoning_budget")
    writer.omit("reasoning_summary", "Cohere always shows its reasoning")
    if mode == "off":
        writer.put({"type": "disabled"}, "thinking")
    elif mode is not None or effort or budget:
        is_exact, wanted = budget is not None and not writer.is_foreign, budget
        if effort and budget is None:
            wanted = budget = budget_for(effort)
            writer.report(Translated(f"the reasoning effort {effort!r} became a budget of {budget} tokens"))
        if budget is not None and not is_exact:
            budget = writer.fitting_budget(budget, most, is_exact=False)
        limit = {} if budget is None else {"token_budget": budget}
        writer.put({"type": "enabled" if wanted is None or limit else "disabled", **limit}, "thinking")
    writer.write_output_format(output_fields)
    writer.write_rest()


def output_fields(output: OutputFormat) -> Json:
    """Return the field of the output format: https://docs.cohere.com/reference/chat-stream#request.body.response_format."""
    schema = {"json_schema": output.json_schema or {}} if output.type == "json_schema" else {}
    return {"response_format": {"type": "text" if output.type == "text" else "json_object", **schema}}
