"""Settings of a Converse request, read and written.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html. Settings of single vendors are in
``additionalModelRequestFields``, by the names of the model's own API
(https://docs.aws.amazon.com/bedrock/latest/userguide/claude-messages-extended-thinking.html).
"""

from __future__ import annotations

import json
from typing import Any

from streamkit.providers.bedrock_converse.strict import STRICT
from streamkit.providers.body_fields import BodyFields, is_number, is_text
from streamkit.providers.claude_thinking import (
    Thinking,
    omit_sampling,
    read_thinking,
    refuses_thinking,
    take_thinking,
)
from streamkit.providers.decoding import compact_json
from streamkit.providers.provider import Traits
from streamkit.providers.settings import SettingsWriter, read_plain_settings
from streamkit.providers.strict import strict_format
from streamkit.request import OutputFormat

__all__ = ["output_fields", "read_settings", "write_settings"]

Json = dict[str, Any]

_MODEL_FIELDS = "additionalModelRequestFields"


def read_settings(fields: BodyFields, traits: Traits) -> Json:
    """Take the settings of a body and return them by their neutral names."""
    values = read_plain_settings(fields, traits)
    if (thinking := read_thinking(fields.get(_MODEL_FIELDS, "thinking"))) is not None:
        fields.take(_MODEL_FIELDS, "thinking")
        values |= thinking
    if (top_k := fields.take(_MODEL_FIELDS, "top_k", check=is_number)) is not None:
        values["top_k"] = top_k
    if (effort := fields.take("outputConfig", "effort", check=is_text)) is not None:
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
    return OutputFormat(type="json_schema", json_schema=parsed, **texts) if isinstance(parsed, dict) else None


def write_settings(writer: SettingsWriter, traits: Traits) -> None:
    """Write the settings into the body.

    Fields of a vendor are written for models whose facts are known, and in requests that had them.
    """
    limit = writer.write_limit()
    thinking = take_thinking(writer, limit)
    if refusal := _refuses_thinking(writer.body, thinking):
        writer.report(f"reasoning was left out of this request: {refusal}")
        thinking = Thinking(None, thinking.effort)
    is_known = writer.facts.source != "" or not writer.is_foreign
    if is_known and not thinking.is_on and (top_k := writer.take("top_k")) is not None:
        writer.put(top_k, _MODEL_FIELDS, "top_k")
    if thinking.field is not None and is_known:
        writer.put(thinking.field, _MODEL_FIELDS, "thinking")
        if thinking.is_on:
            omit_sampling(writer)
    elif thinking.field is not None:
        writer.report("reasoning was left out: its form is not known for this model")
    if thinking.effort is not None:
        writer.put(thinking.effort, "outputConfig", "effort")
    output = writer.write_output_format(_strict_output_fields if writer.is_foreign else output_fields)
    if output is not None and output.type == "json":
        writer.report("the output format JSON was left out: Converse has one only for a schema")
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


def _strict_output_fields(output: OutputFormat) -> Json:
    """Return the field of an output format that was read from another provider's request, or raise OutputRefused."""
    return output_fields(strict_format(output, STRICT))


def output_fields(output: OutputFormat) -> Json:
    """Return the field of the output format, which exists only for a schema, and has it as a text.

    https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_OutputFormat.html
    """
    if output.type != "json_schema":
        return {}
    texts = {name: text for name in ("name", "description") if (text := getattr(output, name)) is not None}
    schema = {"schema": compact_json(output.json_schema or {}), **texts}
    return {"outputConfig": {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": schema}}}}
