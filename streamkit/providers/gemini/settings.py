"""Settings of a generateContent request, read and written.

https://ai.google.dev/api/generate-content#generationconfig and https://ai.google.dev/gemini-api/docs/thinking
"""

from __future__ import annotations

from typing import Any

from streamkit.providers.body_fields import BodyFields, is_flag, is_integer, is_object, is_text
from streamkit.providers.gemini.openapi_schema import to_json_schema
from streamkit.providers.model_facts import budget_for, effort_for
from streamkit.providers.provider import Traits
from streamkit.providers.settings import SettingsWriter, read_plain_settings
from streamkit.request import OutputFormat

__all__ = ["output_fields", "read_settings", "write_settings"]

Json = dict[str, Any]

_CONFIG = "generationConfig"
_THINKING = (_CONFIG, "thinkingConfig")
_JSON = "application/json"
_OFF, _DYNAMIC = 0, -1  # budgets


def read_settings(fields: BodyFields, traits: Traits) -> Json:
    """Take the settings of a body and return them by their neutral names."""
    values = read_plain_settings(fields, traits)
    budget = fields.take(*_THINKING, "thinkingBudget", check=is_integer)
    if budget in (_OFF, _DYNAMIC):
        values["reasoning"] = "off" if budget == _OFF else "auto"
    elif budget is not None:
        values["reasoning_budget"] = budget
    if (level := fields.take(*_THINKING, "thinkingLevel", check=_is_level)) is not None:
        values["reasoning_effort"] = level.lower()
    if (is_shown := fields.take(*_THINKING, "includeThoughts", check=is_flag)) is not None:
        values["reasoning_summary"] = "auto" if is_shown else "none"
    if (output := _take_output_format(fields)) is not None:
        values["output_format"] = output
    return values


def _is_level(value: Any) -> bool:
    return is_text(value) and not value.upper().endswith("UNSPECIFIED")


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
    return OutputFormat(type="json") if schema is None else OutputFormat(type="json_schema", json_schema=schema)


def write_settings(writer: SettingsWriter, traits: Traits) -> None:
    """Write the settings into the body."""
    writer.write_limit()
    _write_reasoning(writer)
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


def _write_reasoning(writer: SettingsWriter) -> None:
    mode, effort, budget = writer.take("reasoning"), writer.take("reasoning_effort"), writer.take("reasoning_budget")
    summary, form = writer.take("reasoning_summary"), writer.facts.reasoning
    is_wanted = mode == "auto" or effort is not None or budget is not None
    if form == "none":
        if effort or budget:
            writer.report("reasoning was left out: the model has none")
        return
    if mode == "off":
        _turn_off(writer)
    elif form == "budget":
        _write_budget(writer, mode, effort, budget)
    elif form == "effort" and budget is not None:
        level = effort or effort_for(budget)
        writer.report(f"the reasoning budget of {budget} tokens became the level {level!r}")
        _put_level(writer, level)
    elif effort:
        _put_level(writer, effort)
    elif budget is not None or mode == "auto":
        writer.put(_DYNAMIC if budget is None else budget, *_THINKING, "thinkingBudget")
    if summary is None and writer.is_foreign and is_wanted and mode != "off":
        summary = "auto"  # other wires show reasoning without being asked
    if summary is not None:
        writer.put(summary != "none", *_THINKING, "includeThoughts")


def _turn_off(writer: SettingsWriter) -> None:
    if writer.facts.reasoning_is_optional:
        writer.put(_OFF, *_THINKING, "thinkingBudget")
    else:
        writer.report("reasoning was not turned off: the model always reasons")


def _write_budget(writer: SettingsWriter, mode: str | None, effort: str | None, budget: int | None) -> None:
    if budget is None and effort:
        budget = budget_for(effort)
        writer.report(f"the reasoning effort {effort!r} became a budget of {budget} tokens")
    if budget is None:
        if mode == "auto":
            writer.put(_DYNAMIC, *_THINKING, "thinkingBudget")
        return
    most = writer.facts.max_budget
    if most is not None and budget > most:
        writer.report(f"the reasoning budget was changed from {budget} to {most} tokens, the most of the model")
        budget = most
    writer.put(budget, *_THINKING, "thinkingBudget")


def _put_level(writer: SettingsWriter, effort: str) -> None:
    writer.put(writer.accepted_effort(effort).upper(), *_THINKING, "thinkingLevel")
