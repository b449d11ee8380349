"""The settings, tools, tool choice and strict mode of a generateContent request, read and written.

https://ai.google.dev/api/generate-content#generationconfig, https://ai.google.dev/gemini-api/docs/thinking,
https://ai.google.dev/api/caching#Tool, #FunctionDeclaration and #Schema. A declaration has a JSON schema
(``parametersJsonSchema``) or one in the form of OpenAPI (``parameters``: types in capital letters, ``nullable``,
numbers of items as text), which other targets get as a JSON schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamkit.errors import UsageError
from streamkit.providers.contract.traits import budget_for, effort_for
from streamkit.providers.provider import ToolChoice, Traits
from streamkit.providers.requests.body_fields import (
    LEAST_BUDGET,
    BodyFields,
    SettingsWriter,
    is_object,
    is_texts,
    read_plain_settings,
)
from streamkit.providers.requests.request import AllowedTools, OutputFormat
from streamkit.providers.requests.tools import (
    further_fields,
    named_tool,
    outer_fields,
    read_definition,
    split_tools,
    strict_schemas,
    take_allowed_tools,
)
from streamkit.tools import StrictProfile
from streamkit.tools.definition import HostedTool, OfferedTool, ToolDefinition
from streamkit.values.json_data import copy_with
from streamkit.values.request_changes import LeftOut, Translated

__all__ = [
    "STRICT",
    "output_fields",
    "read_settings",
    "read_tool_choice",
    "read_tools",
    "render_tool_choice",
    "render_tools",
    "to_json_schema",
    "write_settings",
]

Json = dict[str, Any]
# https://ai.google.dev/gemini-api/docs/function-calling: not a field of a tool, but a mode of the request, VALIDATED.
# It "ensures function schema adherence" and leaves the model free to respond with text; ANY is constrained anyway. The
# keywords are those of https://ai.google.dev/gemini-api/docs/structured-output#json-schema-support; others have no
# effect.
STRICT = StrictProfile(
    "Gemini",
    keywords={
        "format": frozenset(("date-time", "date", "time")),
        "minimum": None,
        "maximum": None,
        "minItems": None,
        "maxItems": None,
    },
    all_or_none=True,
)
_CALLING_CONFIG = ("toolConfig", "functionCallingConfig")
_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
_MODE_OF_NAME = {name: mode for mode, name in _MODES.items()}
_ALLOWING_MODES = {"ANY": "required", "VALIDATED": "auto"}  # "only be set when the Mode is ANY or VALIDATED"
_CONFIG = "generationConfig"
_THINKING = (_CONFIG, "thinkingConfig")
_JSON = "application/json"
_OFF, _DYNAMIC = 0, -1  # budgets
_TYPES = {"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"}
_COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
_DEEPEST = 100


# ---------------------------------------------------------------- tools and the tool choice


def read_tools(fields: BodyFields, traits: Traits) -> list[OfferedTool]:
    """Take the tools of a body and return them: each function, and each other tool alone."""
    tools: list[OfferedTool] = []
    for raw in fields.take("tools", check=list) or []:
        declarations = raw.get("functionDeclarations") if isinstance(raw, dict) else None
        if not isinstance(declarations, list):
            tools.append(HostedTool(provider=traits.name, raw=raw))
            continue
        for declaration in declarations:
            tool = None
            if isinstance(declaration, dict):
                tool = read_definition(declaration, traits.name, schema_field="parametersJsonSchema")
                schema = declaration.get("parameters")
                if tool is not None and isinstance(schema, dict) and "parametersJsonSchema" not in declaration:
                    tool = copy_with(tool, parameters=to_json_schema(schema))
            tools.append(tool or HostedTool(provider=traits.name, raw={"functionDeclarations": [declaration]}))
        further = {name: value for name, value in raw.items() if name != "functionDeclarations"}
        tools += (HostedTool(provider=traits.name, raw={name: value}) for name, value in further.items())
    return tools


def read_tool_choice(fields: BodyFields, traits: Traits) -> ToolChoice | AllowedTools | None:
    """Take the mode of function calling and return it; None if there is none, and one of another form stays."""
    mode, names = fields.get(*_CALLING_CONFIG, "mode"), fields.get(*_CALLING_CONFIG, "allowedFunctionNames")
    if not isinstance(mode, str):
        return None
    if names is None:
        if mode not in _MODE_OF_NAME:
            return None
        fields.take(*_CALLING_CONFIG, "mode")
        return _MODE_OF_NAME[mode]
    if mode == "ANY" and is_texts(names) and len(names) == 1:
        fields.take(*_CALLING_CONFIG, "allowedFunctionNames")
        fields.take(*_CALLING_CONFIG, "mode")
        return str(names[0])
    if is_texts(names):
        return take_allowed_tools(fields, _ALLOWING_MODES.get(mode), names, *_CALLING_CONFIG)
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


# ---------------------------------------------------------------- settings


def read_settings(fields: BodyFields, traits: Traits) -> Json:
    """Take the settings of a body and return them by their neutral names."""
    values = read_plain_settings(fields, traits)
    budget = fields.take(*_THINKING, "thinkingBudget", check=int)
    if budget in (_OFF, _DYNAMIC):
        values["reasoning"] = "off" if budget == _OFF else "auto"
    elif budget is not None:
        values["reasoning_budget"] = budget
    if (level := fields.take(*_THINKING, "thinkingLevel", check=_is_level)) is not None:
        values["reasoning_effort"] = level.lower()
    if (is_shown := fields.take(*_THINKING, "includeThoughts", check=bool)) is not None:
        values["reasoning_summary"] = "auto" if is_shown else "none"
    if (output := _take_output_format(fields)) is not None:
        values["output_format"] = output
    return values


def _is_level(value: Any) -> bool:
    return isinstance(value, str) and value != "" and not value.upper().endswith("UNSPECIFIED")


def _take_output_format(fields: BodyFields) -> OutputFormat | None:
    media_type = fields.get(_CONFIG, "responseMimeType")
    if media_type == "text/plain":
        fields.take(_CONFIG, "responseMimeType")
        return OutputFormat(type="text")
    if media_type != _JSON:
        return None
    fields.take(_CONFIG, "responseMimeType")
    schema = fields.take(_CONFIG, "responseJsonSchema", check=is_object)
    if schema is None and (own := fields.take(_CONFIG, "responseSchema", check=is_object)) is not None:
        schema = to_json_schema(own)
    if schema is None:
        return OutputFormat(type="json")
    return OutputFormat(type="json_schema", json_schema=schema, strict=True)


def write_settings(writer: SettingsWriter, traits: Traits) -> None:
    """Write the settings into the body."""
    _write_reasoning(writer, writer.write_limit())
    writer.write_output_format(output_fields)
    if writer.get("parallel_calls"):
        writer.take("parallel_calls")  # what the model does anyway
    writer.write_rest()


def output_fields(output: OutputFormat) -> Json:
    """Return the fields of the output format: JSON Schema, of which unknown keywords have no effect.

    https://ai.google.dev/gemini-api/docs/structured-output
    """
    if output.type == "text":
        return {_CONFIG: {"responseMimeType": "text/plain"}}
    schema = {"responseJsonSchema": output.json_schema or {}} if output.type == "json_schema" else {}
    return {_CONFIG: {"responseMimeType": _JSON, **schema}}


def _write_reasoning(writer: SettingsWriter, limit: int | None) -> None:
    mode, effort, budget = writer.take("reasoning"), writer.take("reasoning_effort"), writer.take("reasoning_budget")
    summary, form = writer.take("reasoning_summary"), writer.facts.reasoning
    is_wanted = mode == "auto" or effort is not None or budget is not None
    if form == "none":
        if effort or budget:
            writer.report(LeftOut("reasoning was left out: the model has none"))
        return
    if mode == "off" and writer.facts.reasoning_is_optional:
        writer.put(_OFF, *_THINKING, "thinkingBudget")
    elif mode == "off":
        writer.report(LeftOut("reasoning was not turned off: the model always reasons"))
    elif form == "budget":
        _write_budget(writer, mode, effort, budget, limit)
    elif form == "effort" and budget is not None:
        level = effort or effort_for(budget)
        writer.report(Translated(f"the reasoning budget of {budget} tokens became the level {level!r}"))
        _put_level(writer, level)
    elif effort:
        _put_level(writer, effort)
    elif budget is not None or mode == "auto":
        _write_budget(writer, mode, effort, budget, limit)
    if summary is None and writer.is_foreign and is_wanted and mode != "off":
        summary = "auto"  # other wires show reasoning without being asked
    if summary is not None:
        writer.put(summary != "none", *_THINKING, "includeThoughts")


def _write_budget(
    writer: SettingsWriter, mode: str | None, effort: str | None, budget: int | None, limit: int | None
) -> None:
    is_exact = budget is not None and not writer.is_foreign
    if budget is None and effort:
        budget = budget_for(effort)
        writer.report(Translated(f"the reasoning effort {effort!r} became a budget of {budget} tokens"))
    if budget is None:
        if mode == "auto":
            writer.put(_DYNAMIC, *_THINKING, "thinkingBudget")
        return
    most = writer.facts.max_budget
    if most is not None and budget > most:
        sentence = f"the reasoning budget was changed from {budget} to {most} tokens, the most of the model"
        writer.report(Translated(sentence))
        budget = most
    fitting = budget if is_exact else writer.fitting_budget(budget, limit, is_exact=False)
    if fitting is None and not writer.facts.reasoning_is_optional:
        fitting = min(LEAST_BUDGET, budget)
    writer.put(fitting or _OFF, *_THINKING, "thinkingBudget")


def _put_level(writer: SettingsWriter, effort: str) -> None:
    writer.put(writer.accepted_effort(effort).upper(), *_THINKING, "thinkingLevel")


# ---------------------------------------------------------------- schemas in the form of OpenAPI


def to_json_schema(schema: Json, depth: int = 0) -> Json:
    """Return a schema as a JSON schema.

    The properties are in the order of ``propertyOrdering``, which JSON Schema does not have: Gemini and others write
    them in the order of the schema (https://ai.google.dev/gemini-api/docs/structured-output).
    """
    if depth > _DEEPEST:
        return {}
    converted: Json = {}
    for name, value in schema.items():
        if name == "type" and isinstance(value, str) and value.upper() in _TYPES:
            converted["type"] = value.lower()
        elif name == "properties" and isinstance(value, dict):
            order = schema.get("propertyOrdering")  # the names that it has come first
            first = [key for key in order if isinstance(key, str)] if isinstance(order, list) else []
            names = dict.fromkeys([*first, *value])
            converted[name] = {key: _convert(value[key], depth) for key in names if key in value}
        elif name == "items":
            converted[name] = _convert(value, depth)
        elif name == "anyOf" and isinstance(value, list):
            converted[name] = [_convert(item, depth) for item in value]
        elif name in _COUNTS and isinstance(value, str) and value.isdecimal():
            converted[name] = int(value)
        elif name == "example":
            converted["examples"] = [value]
        elif name not in ("nullable", "propertyOrdering"):
            converted[name] = value
    if schema.get("nullable") is True and isinstance(converted.get("type"), str):
        converted["type"] = [converted["type"], "null"]
        if isinstance(converted.get("enum"), list):
            converted["enum"] = [*converted["enum"], None]
    return converted


def _convert(value: Any, depth: int) -> Any:
    return to_json_schema(value, depth + 1) if isinstance(value, dict) else value
