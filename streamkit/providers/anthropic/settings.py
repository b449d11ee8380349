"""Settings of a Messages request, read and written.

https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

from typing import Any

from streamkit.providers.anthropic.strict import STRICT
from streamkit.providers.anthropic.tool_definitions import take_parallel_calls
from streamkit.providers.body_fields import BodyFields, is_text
from streamkit.providers.claude_thinking import (
    NO_THINKING,
    Thinking,
    omit_sampling,
    read_thinking,
    refuses_thinking,
    take_thinking,
)
from streamkit.providers.provider import Traits
from streamkit.providers.settings import SettingsWriter, read_plain_settings
from streamkit.providers.strict import strict_format
from streamkit.request import OutputFormat

__all__ = ["output_fields", "read_settings", "write_settings"]

Json = dict[str, Any]

_THINKING = ("thinking", "redacted_thinking")
#: The form of the beta, which LiteLLM sends, and the present one, which counts if both are there
#: (https://platform.claude.com/docs/en/build-with-claude/structured-outputs).
_OUTPUT_FORMATS = (("output_format",), ("output_config", "format"))


def read_settings(fields: BodyFields, traits: Traits) -> Json:
    """Take the settings of a body and return them by their neutral names."""
    values = read_plain_settings(fields, traits)
    if (thinking := read_thinking(fields.get("thinking"))) is not None:
        fields.take("thinking")
        values |= thinking
    if (effort := fields.take("output_config", "effort", check=is_text)) is not None:
        values["reasoning_effort"] = effort
    for path in _OUTPUT_FORMATS:
        output = fields.get(*path)
        if isinstance(output, dict) and output.keys() == {"type", "schema"} and isinstance(output["schema"], dict):
            fields.take(*path)
            values["output_format"] = OutputFormat(type="json_schema", json_schema=output["schema"])
    if (parallel := take_parallel_calls(fields)) is not None:
        values["parallel_calls"] = parallel
    return values


def write_settings(writer: SettingsWriter, traits: Traits) -> None:
    """Write the settings into the body."""
    limit = writer.write_limit()
    thinking = take_thinking(writer, limit)
    if thinking is not NO_THINKING:
        _write_thinking(writer, thinking)
    output = writer.write_output_format(_strict_output_fields if writer.is_foreign else output_fields)
    if output is not None and output.type == "json":
        writer.report("the output format JSON was left out: Anthropic has one only for a schema")
    _write_parallel_calls(writer)
    writer.write_rest()


def _write_thinking(writer: SettingsWriter, thinking: Thinking) -> None:
    refusal = _refuses_thinking(writer.body, thinking)
    if refusal:
        writer.report(f"reasoning was left out of this request: {refusal}")
        thinking = Thinking(None, thinking.effort)
    if thinking.field is not None:
        writer.put(thinking.field, "thinking")
    if thinking.effort is not None:
        writer.put(thinking.effort, "output_config", "effort")
    if thinking.is_on:
        omit_sampling(writer)


def _refuses_thinking(body: Json, thinking: Thinking) -> str:
    """Return why a request with this thinking would be refused; ``""`` if it would not."""
    is_call_forced = body.get("tool_choice", {}).get("type") in ("any", "tool")
    responses = [message for message in body.get("messages", ()) if message["role"] == "assistant"]
    blocks = responses[-1]["content"] if responses else []
    has_calls = any(block.get("type") == "tool_use" for block in blocks)
    has_lost_thinking = has_calls and blocks[0].get("type") not in _THINKING
    return refuses_thinking(thinking, is_call_forced=is_call_forced, has_lost_thinking=has_lost_thinking)


def _strict_output_fields(output: OutputFormat) -> Json:
    """Return the field of an output format that was read from another provider's request, or raise OutputRefused."""
    return output_fields(strict_format(output, STRICT))


def output_fields(output: OutputFormat) -> Json:
    """Return the field of the output format, which exists only for a schema.

    https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-outputs
    """
    if output.type != "json_schema":
        return {}
    return {"output_config": {"format": {"type": "json_schema", "schema": output.json_schema or {}}}}


def _write_parallel_calls(writer: SettingsWriter) -> None:
    """Write the setting into the tool choice, which exists only with tools and not with ``none``."""
    parallel = writer.take("parallel_calls")
    if parallel is None:
        return
    choice = writer.body.get("tool_choice") or {"type": "auto"}
    is_sent = parallel is False or "tool_choice" in writer.body
    if is_sent and writer.body.get("tools") and choice["type"] != "none":
        writer.put({**choice, "disable_parallel_tool_use": not parallel}, "tool_choice")
