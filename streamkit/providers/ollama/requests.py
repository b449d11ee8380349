"""The settings and tools of an Ollama request, read and written. There is no tool choice and no strict mode.

https://docs.ollama.com/api/chat
"""

from __future__ import annotations

from collections.abc import Sequence

from streamkit.providers.contract.traits import effort_for
from streamkit.providers.ollama.schema import Json
from streamkit.providers.provider import ToolChoice, Traits
from streamkit.providers.requests.body_fields import (
    BodyFields,
    SettingsWriter,
    is_object,
    read_plain_settings,
)
from streamkit.providers.requests.request import OutputFormat
from streamkit.providers.requests.tools import further_fields, outer_fields, read_function_tool, read_tool_list
from streamkit.tools.definition import HostedTool, OfferedTool, ToolDefinition
from streamkit.values.request_changes import LeftOut

__all__ = [
    "output_fields",
    "read_settings",
    "read_tool_choice",
    "read_tools",
    "render_tools",
    "write_settings",
]

#: https://docs.ollama.com/capabilities/thinking: gpt-oss has levels and cannot be turned off, other models a switch
_LEVELS = ("low", "medium", "high")


# ---------------------------------------------------------------- tools and the tool choice


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


# ---------------------------------------------------------------- settings


def read_settings(fields: BodyFields, traits: Traits) -> Json:
    """Take the settings of a body and return them by their neutral names."""
    values = read_plain_settings(fields, traits)
    if (is_on := fields.take("think", check=bool)) is not None:
        values["reasoning"] = "auto" if is_on else "off"
    elif (level := fields.take("think", check=str)) is not None:
        values |= {"reasoning": "auto", "reasoning_effort": level}
    output = fields.get("format")
    if output == "json" or is_object(output):
        fields.take("format")
        schema = output if is_object(output) else None
        values["output_format"] = (
            OutputFormat(type="json")
            if schema is None
            else OutputFormat(type="json_schema", json_schema=schema, strict=True)
        )
    return values


def write_settings(writer: SettingsWriter, traits: Traits) -> None:
    """Write the settings into the body. A model without reasoning refuses ``think``, so it is sent only on request."""
    writer.write_limit()
    mode, effort, budget = writer.take("reasoning"), writer.take("reasoning_effort"), writer.take("reasoning_budget")
    writer.omit("reasoning_summary", "Ollama has no field for it")
    if budget is not None and not effort:
        effort = effort_for(budget)
    if mode == "off":
        writer.put(False, "think")
    elif writer.facts.reasoning == "effort" and effort:
        writer.put(writer.accepted_effort(effort), "think")
    elif effort in _LEVELS and not writer.is_foreign:
        writer.put(effort, "think")
    elif mode == "auto" or effort:
        if writer.is_foreign and writer.facts.reasoning == "any":
            # "... does not support thinking" with status 400 (ollama/ollama#10725); those that do, think by default
            sentence = "reasoning was not requested: models without it refuse the field, others reason by default"
            writer.report(LeftOut(sentence))
        else:
            writer.put(True, "think")
    writer.write_output_format(output_fields)
    if writer.get("parallel_calls"):
        writer.take("parallel_calls")  # what the models do anyway
    writer.write_rest()


def output_fields(output: OutputFormat) -> Json:
    """Return the field of the output format: https://docs.ollama.com/capabilities/structured-outputs."""
    if output.type == "text":
        return {}
    return {"format": "json" if output.type == "json" else output.json_schema or {}}
