"""Settings of a Cohere v2 request, read and written: https://docs.cohere.com/v2/reference/chat."""

from __future__ import annotations

from typing import Any

from streamkit.providers.body_fields import BodyFields, is_integer, is_object
from streamkit.providers.model_facts import budget_for
from streamkit.providers.provider import Traits
from streamkit.providers.settings import SettingsWriter, read_plain_settings
from streamkit.request import OutputFormat

__all__ = ["output_fields", "read_settings", "write_settings"]

Json = dict[str, Any]

_MODES = {"enabled": "auto", "disabled": "off"}


def read_settings(fields: BodyFields, traits: Traits) -> Json:
    """Take the settings of a body and return them by their neutral names."""
    values = read_plain_settings(fields, traits)
    if (kind := fields.get("thinking", "type")) in list(_MODES):  # a list: the value may be unhashable
        fields.take("thinking", "type")
        values["reasoning"] = _MODES[kind]
    if (budget := fields.take("thinking", "token_budget", check=is_integer)) is not None:
        values["reasoning_budget"] = budget
    output = fields.get("response_format")
    if is_object(output) and output.keys() <= {"type", "json_schema"}:
        schema = output.get("json_schema")
        if output.get("type") == "text" and schema is None:
            values["output_format"] = OutputFormat(type="text")
        elif output.get("type") == "json_object" and (schema is None or is_object(schema)):
            values["output_format"] = OutputFormat(type="json" if schema is None else "json_schema", json_schema=schema)
        if "output_format" in values:
            fields.take("response_format")
    return values


def write_settings(writer: SettingsWriter, traits: Traits) -> None:
    """Write the settings into the body."""
    writer.write_limit()
    mode, effort, budget = writer.take("reasoning"), writer.take("reasoning_effort"), writer.take("reasoning_budget")
    writer.omit("reasoning_summary", "Cohere always shows its reasoning")
    if mode == "off":
        writer.put({"type": "disabled"}, "thinking")
    elif mode is not None or effort or budget:
        if effort and budget is None:
            budget = budget_for(effort)
            writer.report(f"the reasoning effort {effort!r} became a budget of {budget} tokens")
        limit = {} if budget is None else {"token_budget": budget}
        writer.put({"type": "enabled", **limit}, "thinking")
    writer.write_output_format(output_fields)
    writer.write_rest()


def output_fields(output: OutputFormat) -> Json:
    """Return the field of the output format: https://docs.cohere.com/reference/chat-stream#request.body.response_format."""
    schema = {"json_schema": output.json_schema or {}} if output.type == "json_schema" else {}
    return {"response_format": {"type": "text" if output.type == "text" else "json_object", **schema}}
