"""The settings, tools, tool choice, strict mode and cache points of a Converse request, read and written.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html,
.../API_runtime_ToolConfiguration.html and .../API_runtime_CachePointBlock.html: a point follows the part that it marks.
Settings of single vendors are in ``additionalModelRequestFields``, by the names of the model's own API
(https://docs.aws.amazon.com/bedrock/latest/userguide/claude-messages-extended-thinking.html).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from streamkit.history.content import CacheMark
from streamkit.providers.bedrock_converse.schema import Json
from streamkit.providers.decoding.decoding import compact_json
from streamkit.providers.provider import ToolChoice, Traits
from streamkit.providers.requests.body_fields import (
    BodyFields,
    SettingsWriter,
    is_number,
    read_plain_settings,
)
from streamkit.providers.requests.models.claude import (
    Thinking,
    omit_sampling,
    read_thinking,
    refuses_thinking,
    take_thinking,
)
from streamkit.providers.requests.request import OutputFormat
from streamkit.providers.requests.strict import CLAUDE_KEYWORDS
from streamkit.providers.requests.tools import further_fields, outer_fields, read_definition, strict_schemas
from streamkit.tools import StrictProfile
from streamkit.tools.definition import HostedTool, OfferedTool, ToolDefinition
from streamkit.values.json_data import copy_with
from streamkit.values.request_changes import LeftOut

__all__ = [
    "STRICT",
    "cache_point",
    "output_fields",
    "read_cache_point",
    "read_settings",
    "read_tool_choice",
    "read_tools",
    "render_tool_choice",
    "render_tools",
    "tool_spec",
    "write_settings",
]

# https://docs.aws.amazon.com/bedrock/latest/userguide/structured-output.html: the same subset for every model, and no
# limits for a request. Only some models have the mode, and the others refuse the field.
STRICT = StrictProfile("Bedrock", keywords=CLAUDE_KEYWORDS, recursive=False)
_CHOICES: dict[str, Json] = {"auto": {"auto": {}}, "required": {"any": {}}}
_MODEL_FIELDS = "additionalModelRequestFields"


# ---------------------------------------------------------------- tools and the tool choice


def read_tools(fields: BodyFields, traits: Traits) -> list[OfferedTool]:
    """Take the tools of a body and return them; a cache point is a mark of the tool before it."""
    tools: list[OfferedTool] = []
    for raw in fields.take("toolConfig", "tools", check=list) or []:
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


def render_tools(tools: Sequence[OfferedTool], *, most_marks: Callable[[], int]) -> list[Json]:
    """Return the definitions of tools, each cache mark as a cache point after its tool; of too many, the last are kept.

    Raises:
        UsageError: the schema of a strict tool cannot be converted.
    """
    strict = strict_schemas(tools, STRICT)
    rendered: list[Json] = []
    surplus = sum("cache" in tool.metadata for tool in tools if isinstance(tool, ToolDefinition))
    surplus -= most_marks() if surplus else 0
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
    """Return the definition of a tool; an empty description is refused and left out."""
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


# ---------------------------------------------------------------- cache points


def cache_point(mark: CacheMark | Json) -> Json:
    """Return the part for a mark."""
    return {"cachePoint": {"type": "default", **mark}}


def read_cache_point(part: Any) -> CacheMark | None:
    """Return the mark of a part that is a cache point; None for any other part."""
    point = part.get("cachePoint") if isinstance(part, dict) and part.keys() == {"cachePoint"} else None
    if not isinstance(point, dict) or point.get("type") != "default":
        return None
    ttl = point.get("ttl")
    return CacheMark(ttl=ttl) if isinstance(ttl, str) else CacheMark()


# ---------------------------------------------------------------- settings


def read_settings(fields: BodyFields, traits: Traits) -> Json:
    """Take the settings of a body and return them by their neutral names."""
    values = read_plain_settings(fields, traits)
    if (thinking := read_thinking(fields.get(_MODEL_FIELDS, "thinking"))) is not None:
        fields.take(_MODEL_FIELDS, "thinking")
        values |= thinking
    if (top_k := fields.take(_MODEL_FIELDS, "top_k", check=is_number)) is not None:
        values["top_k"] = top_k
    if (effort := fields.take("outputConfig", "effort", check=str)) is not None:
        values["reasoning_effort"] = effort
    if (output := _read_output_format(fields.get("outputConfig", "textFormat"))) is not None:
        fields.take("outputConfig", "textFormat")
        values["output_format"] = output
    return values


def _read_output_format(value: Any) -> OutputFormat | None:
    structure = value.get("structure") if isinstance(value, dict) and value.get("type") == "json_schema" else None
    schema = structure.get("jsonSchema") if isinstance(structure, dict) else None
    if not isinstance(schema, dict) or schema.keys() - {"schema", "name", "description"}:
        return None
    try:
        parsed = json.loads(schema.get("schema") or "")
    except (TypeError, ValueError, RecursionError):
        return None
    texts = {name: schema[name] for name in ("name", "description") if isinstance(schema.get(name), str)}
    return (
        OutputFormat(type="json_schema", json_schema=parsed, strict=True, **texts) if isinstance(parsed, dict) else None
    )


def write_settings(writer: SettingsWriter, traits: Traits) -> None:
    """Write the settings into the body.

    Fields of a vendor are written for models whose facts are known, and in requests that had them.
    """
    limit = writer.write_limit()
    thinking = take_thinking(writer, limit)
    if refusal := _refuses_thinking(writer.body, thinking):
        writer.report(LeftOut(f"reasoning was left out of this request: {refusal}"))
        thinking = Thinking(None, thinking.effort)
    is_known = writer.facts.source != "" or not writer.is_foreign
    if is_known and not thinking.is_on and (top_k := writer.take("top_k")) is not None:
        writer.put(top_k, _MODEL_FIELDS, "top_k")
    if thinking.field is not None and is_known:
        writer.put(thinking.field, _MODEL_FIELDS, "thinking")
        if thinking.is_on:
            omit_sampling(writer)
    elif thinking.field is not None:
        writer.report(LeftOut("reasoning was left out: its form is not known for this model"))
    if thinking.effort is not None:
        writer.put(thinking.effort, "outputConfig", "effort")
    writer.write_output_format(output_fields, STRICT)
    if writer.get("parallel_calls"):
        writer.take("parallel_calls")  # what the models do anyway
    writer.write_rest()


def _refuses_thinking(body: Json, thinking: Thinking) -> str:
    """Return why a request with this thinking would be refused; ``""`` if it would not."""
    is_call_forced = bool(body.get("toolConfig", {}).get("toolChoice", {}).keys() & {"any", "tool"})
    responses = [message for message in body.get("messages", ()) if message["role"] == "assistant"]
    parts = responses[-1]["content"] if responses else []
    has_lost_thinking = any("toolUse" in part for part in parts) and "reasoningContent" not in parts[0]
    return refuses_thinking(thinking, is_call_forced=is_call_forced, has_lost_thinking=has_lost_thinking)


def output_fields(output: OutputFormat) -> Json:
    """Return the field of the output format, which exists only for a schema, and has it as a text.

    https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_OutputFormat.html
    """
    if output.type != "json_schema":
        return {}
    texts = {name: text for name in ("name", "description") if (text := getattr(output, name)) is not None}
    schema = {"schema": compact_json(output.json_schema or {}), **texts}
    return {"outputConfig": {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": schema}}}}
