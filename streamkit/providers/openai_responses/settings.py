"""Settings of a Responses request, read and written.

https://platform.openai.com/docs/api-reference/responses/create
"""

from __future__ import annotations

from typing import Any

from streamkit.providers.body_fields import BodyFields, is_object, is_text
from streamkit.providers.model_facts import effort_for
from streamkit.providers.provider import Traits
from streamkit.providers.settings import SettingsWriter, json_schema_format, read_plain_settings, take_effort
from streamkit.request import OutputFormat

__all__ = ["output_fields", "read_settings", "write_settings"]

Json = dict[str, Any]

#: https://platform.openai.com/docs/guides/reasoning#encrypted-reasoning-items: reasoning for a stateless conversation
_ENCRYPTED = "reasoning.encrypted_content"


def read_settings(fields: BodyFields, traits: Traits) -> Json:
    """Take the settings of a body and return them by their neutral names."""
    values = read_plain_settings(fields, traits)
    values |= take_effort(fields, "reasoning", "effort")
    if (summary := fields.take("reasoning", "summary", check=is_text)) is not None:
        values["reasoning_summary"] = summary
    if (output := _read_output_format(fields.get("text", "format"))) is not None:
        fields.take("text", "format")
        values["output_format"] = output
    return values


def _read_output_format(value: Any) -> OutputFormat | None:
    if not is_object(value):
        return None
    if value in ({"type": "text"}, {"type": "json_object"}):
        return OutputFormat(type="text" if value["type"] == "text" else "json")
    return json_schema_format(value) if value.get("type") == "json_schema" else None


def write_settings(writer: SettingsWriter, traits: Traits) -> None:
    """Write the settings into the body."""
    writer.write_limit()
    _write_reasoning(writer)
    writer.write_output_format(output_fields)
    writer.write_rest()


def _write_reasoning(writer: SettingsWriter) -> None:
    mode, effort, budget = writer.take("reasoning"), writer.take("reasoning_effort"), writer.take("reasoning_budget")
    summary = writer.take("reasoning_summary")
    if writer.facts.reasoning == "none":
        if effort or budget or mode == "auto":
            writer.report("reasoning was left out: the model has none")
        return
    if budget is not None:
        effort = effort or effort_for(budget)
        writer.report(f"the reasoning budget of {budget} tokens became the effort {effort!r}")
    if mode == "off":
        if writer.facts.reasoning_is_optional:
            writer.put("none", "reasoning", "effort")
        else:
            writer.report("reasoning was not turned off: the model always reasons")
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
