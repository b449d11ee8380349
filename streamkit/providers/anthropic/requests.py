"""The settings, tools, tool choice and strict mode of a Messages request, read and written.

https://docs.anthropic.com/en/api/messages. Tools of Anthropic's own types (search, bash, text editor) are kept as they
are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from streamkit.providers.provider import ToolChoice, Traits
from streamkit.providers.requests.body_fields import BodyFields, SettingsWriter, read_plain_settings
from streamkit.providers.requests.models.claude import (
    NO_THINKING,
    Thinking,
    omit_sampling,
    read_thinking,
    refuses_thinking,
    take_thinking,
)
from streamkit.providers.requests.request import OutputFormat
from streamkit.providers.requests.strict import CLAUDE_KEYWORDS
from streamkit.providers.requests.tools import (
    further_fields,
    outer_fields,
    read_definition,
    read_tool_list,
    strict_schemas,
)
from streamkit.tools import StrictProfile
from streamkit.tools.definition import HostedTool, OfferedTool, ToolDefinition
from streamkit.values.request_changes import LeftOut

__all__ = [
    "STRICT",
    "output_fields",
    "read_settings",
    "read_tool_choice",
    "read_tools",
    "render_tool_choice",
    "render_tools",
    "write_settings",
]

# https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations (read 2026-11), for
# strict tools as well: optional properties stay optional, recursion is refused, and all strict schemas of a request
# together may have 20 tools, 24 optional properties and 16 of several types. A ``pattern`` is accepted if it is simple;
# the page does not define that exactly, so it goes into the description, as in the SDK's transform_schema.
STRICT = StrictProfile("Anthropic", keywords=CLAUDE_KEYWORDS, recursive=False, tools=20, optional=24, unions=16)
Json = dict[str, Any]
_MODES: dict[str, Json] = {"auto": {"type": "auto"}, "required": {"type": "any"}, "none": {"type": "none"}}
_MODE_OF_TYPE = {value["type"]: mode for mode, value in _MODES.items()}
_THINKING = ("thinking", "redacted_thinking")
#: The form of the beta, which LiteLLM sends, and the present one, which counts if both are there
#: (https://platform.claude.com/docs/en/build-with-claude/structured-outputs).
_OUTPUT_FORMATS = (("output_format",), ("output_config", "format"))

# ---------------------------------------------------------------- tools and the tool choice


def read_tools(fields: BodyFields, traits: Traits) -> list[OfferedTool]:
    """Take the tools of a body and return them."""
    return read_tool_list(fields, partial(_read_tool, provider=traits.name), traits.name)


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
    """Return the definitions of tools; of more cache marks than ``most_marks`` returns, the last are kept.

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


# ---------------------------------------------------------------- settings


def read_settings(fields: BodyFields, traits: Traits) -> Json:
    """Take the settings of a body and return them by their neutral names."""
    values = read_plain_settings(fields, traits)
    if (thinking := read_thinking(fields.get("thinking"))) is not None:
        fields.take("thinking")
        values |= thinking
    if (effort := fields.take("output_config", "effort", check=str)) is not None:
        values["reasoning_effort"] = effort
    for path in _OUTPUT_FORMATS:
        output = fields.get(*path)
        if isinstance(output, dict) and output.keys() == {"type", "schema"} and isinstance(output["schema"], dict):
            fields.take(*path)
            values["output_format"] = OutputFormat(type="json_schema", json_schema=output["schema"], strict=True)
    if (is_disabled := fields.take("tool_choice", "disable_parallel_tool_use", check=bool)) is not None:
        values["parallel_calls"] = not is_disabled
    return values


def write_settings(writer: SettingsWriter, traits: Traits) -> None:
    """Write the settings into the body."""
    limit = writer.write_limit()
    thinking = take_thinking(writer, limit)
    if thinking is not NO_THINKING:
        if refusal := _refuses_thinking(writer.body, thinking):
            writer.report(LeftOut(f"reasoning was left out of this request: {refusal}"))
            thinking = Thinking(None, thinking.effort)
        if thinking.field is not None:
            writer.put(thinking.field, "thinking")
        if thinking.effort is not None:
            writer.put(thinking.effort, "output_config", "effort")
        if thinking.is_on:
            omit_sampling(writer)
    writer.write_output_format(output_fields, STRICT)
    if (parallel := writer.take("parallel_calls")) is not None:
        # A field of the tool choice, which exists only with tools, and not with ``none``.
        choice = writer.body.get("tool_choice") or {"type": "auto"}
        is_sent = parallel is False or "tool_choice" in writer.body
        if is_sent and writer.body.get("tools") and choice["type"] != "none":
            writer.put({**choice, "disable_parallel_tool_use": not parallel}, "tool_choice")
    writer.write_rest()


def _refuses_thinking(body: Json, thinking: Thinking) -> str:
    """Return why a request with this thinking would be refused; ``""`` if it would not."""
    is_call_forced = body.get("tool_choice", {}).get("type") in ("any", "tool")
    responses = [message for message in body.get("messages", ()) if message["role"] == "assistant"]
    blocks = responses[-1]["content"] if responses else []
    has_calls = any(block.get("type") == "tool_use" for block in blocks)
    has_lost_thinking = has_calls and blocks[0].get("type") not in _THINKING
    return refuses_thinking(thinking, is_call_forced=is_call_forced, has_lost_thinking=has_lost_thinking)


def output_fields(output: OutputFormat) -> Json:
    """Return the field of the output format, which exists only for a schema.

    https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-outputs
    """
    if output.type != "json_schema":
        return {}
    return {"output_config": {"format": {"type": "json_schema", "schema": output.json_schema or {}}}}
