"""Settings of a Chat Completions request, read and written.

https://platform.openai.com/docs/api-reference/chat/create. Reasoning is requested in a form of each vendor
(`ChatDialect.reasoning_setting`); all forms are read of every client.
"""

from __future__ import annotations

from typing import Any

from streamkit.providers.body_fields import BodyFields, is_flag, is_integer, is_object
from streamkit.providers.model_facts import budget_for, effort_for
from streamkit.providers.openai_chat.reasoning_switch import reasoning_switch, why_reasoning_is_refused
from streamkit.providers.openai_chat.traits import ChatDialect
from streamkit.providers.settings import SettingsWriter, json_schema_format, read_plain_settings, take_effort
from streamkit.request import OutputFormat

__all__ = ["output_fields", "read_settings", "write_settings"]

Json = dict[str, Any]

_USAGE = {"include_usage"}
#: The names of the limit, the newer one first; a dialect writes the one that its endpoint declares.
_LIMITS = ("max_completion_tokens", "max_tokens")
_REASONING_FIELDS = frozenset({"reasoning_effort", "reasoning", "thinking", "enable_thinking", "thinking_budget"})


def read_settings(fields: BodyFields, traits: ChatDialect) -> Json:
    """Take the settings of a body and return them by their neutral names."""
    values = read_plain_settings(fields, traits)
    if "max_output_tokens" not in values:
        for name in _LIMITS:
            if name in fields.rest and (limit := fields.take(name, check=is_integer)) is not None:
                values["max_output_tokens"] = limit
                break
    options: Any = fields.rest.get("stream_options")
    if is_object(options) and options.keys() <= _USAGE:
        fields.take("stream_options")  # every request for a stream asks for usage
    if not _REASONING_FIELDS.isdisjoint(fields.rest):
        values |= take_effort(fields, "reasoning_effort")
        values |= _read_reasoning_object(fields) | _read_thinking(fields)
    if (output := _read_output_format(fields.rest.get("response_format"))) is not None:
        fields.take("response_format")
        values["output_format"] = output
    return values


def _read_reasoning_object(fields: BodyFields) -> Json:
    """Take OpenRouter's object (https://openrouter.ai/docs/use-cases/reasoning-tokens)."""
    if not isinstance(fields.get("reasoning"), dict):
        return {}
    values = take_effort(fields, "reasoning", "effort")
    if (budget := fields.take("reasoning", "max_tokens", check=is_integer)) is not None:
        values["reasoning_budget"] = budget
    if (is_enabled := fields.take("reasoning", "enabled", check=is_flag)) is not None:
        values["reasoning"] = "auto" if is_enabled else "off"
    if (is_excluded := fields.take("reasoning", "exclude", check=is_flag)) is not None:
        values["reasoning_summary"] = "none" if is_excluded else "auto"
    return values


def _read_thinking(fields: BodyFields) -> Json:
    """Take the switches of DeepSeek, Kimi (``thinking``) and Qwen (``enable_thinking``)."""
    values: Json = {}
    switch = fields.get("thinking")
    if switch in ({"type": "enabled"}, {"type": "disabled"}):
        fields.take("thinking")
        values["reasoning"] = "auto" if switch["type"] == "enabled" else "off"
    if (is_enabled := fields.take("enable_thinking", check=is_flag)) is not None:
        values["reasoning"] = "auto" if is_enabled else "off"
    if (budget := fields.take("thinking_budget", check=is_integer)) is not None:
        values["reasoning_budget"] = budget
    return values


def _read_output_format(value: Any) -> OutputFormat | None:
    if not is_object(value):
        return None
    if value in ({"type": "text"}, {"type": "json_object"}):
        return OutputFormat(type="text" if value["type"] == "text" else "json")
    schema = value.get("json_schema")
    has_form = value.keys() == {"type", "json_schema"} and value["type"] == "json_schema" and is_object(schema)
    return json_schema_format(schema) if has_form else None


def write_settings(writer: SettingsWriter, traits: ChatDialect) -> None:
    """Write the settings into the body."""
    writer.write_limit()
    _write_reasoning(writer, traits)
    writer.write_output_format(output_fields)
    if not writer.body.get("tools"):
        # "'parallel_tool_calls' is only allowed when 'tools' are specified" (openai/openai-agents-python#39)
        writer.take("parallel_calls")
    writer.write_rest()


def _write_reasoning(writer: SettingsWriter, traits: ChatDialect) -> None:
    if not writer.sets_reasoning:
        return
    mode, effort, budget = writer.take("reasoning"), writer.take("reasoning_effort"), writer.take("reasoning_budget")
    summary, form = writer.take("reasoning_summary"), traits.reasoning_setting
    if writer.facts.reasoning == "none" or form is None:
        if effort or budget:
            writer.report("reasoning was left out: the model or the server has no setting for it")
        return
    if mode != "off" and (reason := why_reasoning_is_refused(writer.body, traits)):
        writer.report(f"reasoning was turned off in this request: {reason}")
        mode, effort, budget = "off", None, None
    if budget is not None and form not in ("object", "enable_thinking"):
        effort = effort or effort_for(budget)
        if form in ("effort", "switch") or traits.effort_with_switch:
            writer.report(f"the reasoning budget of {budget} tokens became the effort {effort!r}")
    if form == "effort":
        _write_effort(writer, mode, effort)
    elif form == "switch":
        if mode == "off" or (mode == "auto" and not effort):
            writer.put({"enabled": mode == "auto"}, "reasoning")
        elif effort:
            writer.put(writer.accepted_effort(effort), "reasoning_effort")
    elif form == "object":
        _write_object(writer, {"mode": mode, "effort": effort, "budget": budget, "summary": summary})
    elif form == "thinking":
        writer.body.update(reasoning_switch(traits, is_on=mode != "off"))
        if effort and mode != "off" and traits.effort_with_switch:
            writer.put(writer.accepted_effort(effort), "reasoning_effort")
        elif effort and mode != "off":
            writer.report(f"the reasoning effort {effort!r} was left out: {traits.name} can only turn reasoning on")
    else:
        writer.body.update(reasoning_switch(traits, is_on=mode != "off"))
        if effort and budget is None:
            budget = budget_for(effort)
            writer.report(f"the reasoning effort {effort!r} became a budget of {budget} tokens")
        if budget is not None and mode != "off":
            writer.put(budget, "thinking_budget")


def _write_effort(writer: SettingsWriter, mode: str | None, effort: str | None) -> None:
    if mode == "off":
        if writer.facts.reasoning == "any" or writer.facts.reasoning_is_optional:
            writer.put("none", "reasoning_effort")
        else:
            writer.report("reasoning was not turned off: the model always reasons")
    elif effort:
        writer.put(writer.accepted_effort(effort), "reasoning_effort")


def _write_object(writer: SettingsWriter, values: Json) -> None:
    reasoning: Json = {}
    if values["mode"] == "off":
        reasoning["enabled"] = False
    elif values["budget"] is not None:  # "one of the following (not both)": effort, max_tokens
        reasoning["max_tokens"] = values["budget"]
    elif values["effort"]:
        reasoning["effort"] = writer.accepted_effort(values["effort"])
    elif values["mode"] == "auto":
        reasoning["enabled"] = True
    if values["summary"] is not None:
        reasoning["exclude"] = values["summary"] == "none"
    writer.put(reasoning, "reasoning")


def output_fields(output: OutputFormat) -> Json:
    """Return the field of the output format: https://platform.openai.com/docs/guides/structured-outputs."""
    if output.type != "json_schema":
        return {"response_format": {"type": "text" if output.type == "text" else "json_object"}}
    schema: Json = {"name": output.name or "output", "schema": output.json_schema or {}}
    for name in ("description", "strict"):
        if getattr(output, name) is not None:
            schema[name] = getattr(output, name)
    return {"response_format": {"type": "json_schema", "json_schema": schema}}
