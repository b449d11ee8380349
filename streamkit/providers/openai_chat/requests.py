"""The body of a Chat Completions request, written and read: settings, tools, strict modes, reasoning.

Wire: https://platform.openai.com/docs/api-reference/chat/create

Reasoning is requested in a form of each vendor (`ReasoningRules.setting`); all forms are read of every client. The
messages are rendered in ``messages``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from streamkit.errors import UsageError
from streamkit.providers.contract.traits import budget_for, effort_for
from streamkit.providers.openai_chat.dialects import ChatDialect
from streamkit.providers.provider import RenderedMessages, ToolChoice
from streamkit.providers.requests.body_fields import (
    BodyFields,
    SettingsWriter,
    is_object,
    merge_fields,
    openai_output_format,
    read_plain_settings,
    take_effort,
)
from streamkit.providers.requests.request import AllowedTools, OutputFormat
from streamkit.providers.requests.strict import OPENAI, strict_output_if_possible
from streamkit.providers.requests.tools import (
    further_fields,
    named_tool,
    outer_fields,
    read_definition,
    read_function_tool,
    read_tool_list,
    render_function_tool,
    select_tools,
    strict_schemas,
    take_allowed_tools,
)
from streamkit.tools import StrictProfile
from streamkit.tools.custom import Grammar
from streamkit.tools.definition import OfferedTool, ToolDefinition
from streamkit.values.request_changes import LeftOut, Lost, Translated

if TYPE_CHECKING:
    from streamkit.output import OutputType

__all__ = [
    "BLANK_REASONING",
    "STRICT_PROFILES",
    "build_request",
    "fill_reasoning",
    "is_reasoning",
    "output_fields",
    "read_settings",
    "read_tool_choice",
    "read_tools",
    "reasoning_switch",
    "render_tool_choice",
    "render_tools",
    "strict_profile",
    "why_reasoning_is_refused",
    "write_settings",
]

Json = dict[str, Any]


def build_request(
    rendered: RenderedMessages,
    traits: ChatDialect,
    *,
    tools: Sequence[OfferedTool] = (),
    tool_choice: ToolChoice | None = None,
    stream: bool = True,
    output: OutputType[Any] | None = None,
) -> Json:
    """Return the fields of a request's body that the conversation decides."""
    messages = rendered.messages
    last = messages[-1] if messages else {}
    if traits.messages.prefix and last.get("role") == "assistant" and "tool_calls" not in last:
        messages = [*messages[:-1], {**last, "prefix": True}]
    body: Json = {traits.messages_field: messages}
    if tools:
        body["tools"] = render_tools(tools, traits)
        if traits.strict is None and any(isinstance(tool, ToolDefinition) and tool.strict for tool in tools):
            rendered.report(Lost(f"tools are not strict in this request: {traits.name} has no strict mode"))
    if output is not None:
        profile = strict_profile(traits.strict)
        merge_fields(body, output_fields(strict_output_if_possible(output, profile, rendered.changes)))
    choice = render_tool_choice(tool_choice, tools, traits)
    if choice is not None:
        body["tool_choice"] = choice
    if is_reasoning(traits, rendered.model):
        if reason := why_reasoning_is_refused(body, traits):
            body |= reasoning_switch(traits, is_on=False)
            rendered.report(LeftOut(f"reasoning was turned off in this request: {reason}"))
        elif tools and traits.reasoning.needed_with_tools:
            body[traits.messages_field] = fill_reasoning(messages, traits)
    if stream:
        body["stream"] = True
        if traits.stream_usage:
            body["stream_options"] = {"include_usage": True}  # without it OpenAI streams no usage
    return body


# ---------------------------------------------------------------- refused while the model reasons

# Some requests are refused while the model reasons: forced calls, and messages whose reasoning is missing.
#
# DeepSeek: "Thinking mode does not support this tool_choice" (deepseek-ai/DeepSeek-V3#1376). Kimi: "tool_choice
# 'specified' is incompatible with thinking enabled" (can1357/oh-my-pi#827, #1077). Qwen: "The tool_choice parameter
# does not support being set to required or object in thinking mode" (cloudwego/eino#994).
#
# DeepSeek: "The `reasoning_content` in the thinking mode must be passed back to the API" for a call without it
# (anomalyco/opencode#24722), in a request with tools for every message of the model (openclaw/openclaw#73417,
# bojieli/ai-agent-book#982). Kimi: "thinking is enabled but reasoning_content is missing in assistant tool call
# message" (JohnnyZ93/oai-compatible-copilot#140). The reasoning of another provider's model, and one that the model did
# not have, cannot be passed back. LiteLLM sends a space to both vendors, as the least that they accept
# (BerriAI/litellm#28045).

BLANK_REASONING = " "


def is_reasoning(traits: ChatDialect, model: str | None) -> bool:
    """Return True if the model is known to reason unless a request turns it off."""
    return traits.reasoning.unless_off is not None and bool(traits.reasoning.unless_off.match((model or "").casefold()))


def reasoning_switch(traits: ChatDialect, *, is_on: bool) -> dict[str, Any]:
    """Return the field with which a dialect turns reasoning on or off; empty if it has no such field."""
    if traits.reasoning.setting == "thinking":
        return {"thinking": {"type": "enabled" if is_on else "disabled"}}
    return {"enable_thinking": is_on} if traits.reasoning.setting == "enable_thinking" else {}


def why_reasoning_is_refused(body: dict[str, Any], traits: ChatDialect) -> str:
    """Return why a request is refused while the model reasons; ``""`` if it is not, or the dialect has no switch."""
    choice = body.get("tool_choice")
    is_forced = isinstance(choice, dict) or (choice is not None and choice == traits.required_choice)
    if is_forced and reasoning_switch(traits, is_on=False):
        return f"{traits.name} refuses it together with a tool choice that forces a call"
    return ""


def fill_reasoning(messages: list[dict[str, Any]], traits: ChatDialect) -> list[dict[str, Any]]:
    """Return messages in which every one of the model has reasoning, if only a blank one."""
    name = traits.reasoning_field
    if name is None:
        return messages
    return [
        {**message, name: BLANK_REASONING} if message.get("role") == "assistant" and name not in message else message
        for message in messages
    ]


# ---------------------------------------------------------------- settings

_USAGE = {"include_usage"}
#: The names of the limit, the newer one first; a dialect writes the one that its endpoint declares.
_LIMITS = ("max_completion_tokens", "max_tokens")
_REASONING_FIELDS = frozenset({"reasoning_effort", "reasoning", "thinking", "enable_thinking", "thinking_budget"})


def read_settings(fields: BodyFields, traits: ChatDialect) -> Json:
    """Take the settings of a body and return them by their neutral names."""
    values = read_plain_settings(fields, traits)
    if "max_output_tokens" not in values:
        for name in _LIMITS:
            if name in fields.rest and (limit := fields.take(name, check=int)) is not None:
                values["max_output_tokens"] = limit
                break
    options: Any = fields.rest.get("stream_options")
    if is_object(options) and options.keys() <= _USAGE:
        fields.take("stream_options")  # every request for a stream asks for usage
    if not _REASONING_FIELDS.isdisjoint(fields.rest):
        values |= take_effort(fields, "reasoning_effort")
        values |= _read_reasoning_object(fields) | _read_thinking(fields)
    if (output := openai_output_format(fields.rest.get("response_format"), is_nested=True)) is not None:
        fields.take("response_format")
        values["output_format"] = output
    return values


def _read_reasoning_object(fields: BodyFields) -> Json:
    """Take OpenRouter's object (https://openrouter.ai/docs/use-cases/reasoning-tokens)."""
    if not isinstance(fields.get("reasoning"), dict):
        return {}
    values = take_effort(fields, "reasoning", "effort")
    if (budget := fields.take("reasoning", "max_tokens", check=int)) is not None:
        values["reasoning_budget"] = budget
    if (is_enabled := fields.take("reasoning", "enabled", check=bool)) is not None:
        values["reasoning"] = "auto" if is_enabled else "off"
    if (is_excluded := fields.take("reasoning", "exclude", check=bool)) is not None:
        values["reasoning_summary"] = "none" if is_excluded else "auto"
    return values


def _read_thinking(fields: BodyFields) -> Json:
    """Take the switches of DeepSeek, Kimi (``thinking``) and Qwen (``enable_thinking``)."""
    values: Json = {}
    switch = fields.get("thinking")
    if switch in ({"type": "enabled"}, {"type": "disabled"}):
        fields.take("thinking")
        values["reasoning"] = "auto" if switch["type"] == "enabled" else "off"
    if (is_enabled := fields.take("enable_thinking", check=bool)) is not None:
        values["reasoning"] = "auto" if is_enabled else "off"
    if (budget := fields.take("thinking_budget", check=int)) is not None:
        values["reasoning_budget"] = budget
    return values


def write_settings(writer: SettingsWriter, traits: ChatDialect) -> None:
    """Write the settings into the body."""
    limit = writer.write_limit()
    _write_reasoning(writer, traits, limit)
    writer.write_output_format(output_fields, strict_profile(traits.strict), enforces=False)
    if not writer.body.get("tools"):
        # "'parallel_tool_calls' is only allowed when 'tools' are specified" (openai/openai-agents-python#39)
        writer.take("parallel_calls")
    writer.write_rest()


def _write_reasoning(writer: SettingsWriter, traits: ChatDialect, limit: int | None) -> None:
    if not writer.sets_reasoning:
        return
    mode, effort, budget = writer.take("reasoning"), writer.take("reasoning_effort"), writer.take("reasoning_budget")
    summary, form = writer.take("reasoning_summary"), traits.reasoning.setting
    is_exact = budget is not None and not writer.is_foreign
    if summary is not None and form != "object":
        writer.report(LeftOut("reasoning is displayed as the server does it: there is no field for it"))
    if writer.facts.reasoning == "none" or form is None:
        if effort or budget:
            writer.report(LeftOut("reasoning was left out: the model or the server has no setting for it"))
        return
    if mode != "off" and (reason := why_reasoning_is_refused(writer.body, traits)):
        writer.report(LeftOut(f"reasoning was turned off in this request: {reason}"))
        mode, effort, budget = "off", None, None
    if budget is not None and form not in ("object", "enable_thinking"):
        effort = effort or effort_for(budget)
        if form in ("effort", "switch") or traits.reasoning.effort_with_switch:
            writer.report(Translated(f"the reasoning budget of {budget} tokens became the effort {effort!r}"))
    if form == "effort":
        if mode != "off":
            if effort:
                writer.put(writer.accepted_effort(effort), "reasoning_effort")
        elif writer.facts.reasoning == "any" or writer.facts.reasoning_is_optional:
            writer.put("none", "reasoning_effort")
        else:
            writer.report(LeftOut("reasoning was not turned off: the model always reasons"))
    elif form == "switch":
        if mode == "off" or (mode == "auto" and not effort):
            writer.put({"enabled": mode == "auto"}, "reasoning")
        elif effort:
            writer.put(writer.accepted_effort(effort), "reasoning_effort")
    elif form == "object":
        if budget is not None and not is_exact:
            budget = writer.fitting_budget(budget, limit, is_exact=False)
        _write_object(writer, {"mode": mode, "effort": effort, "budget": budget, "summary": summary})
    elif form == "thinking":
        writer.body.update(reasoning_switch(traits, is_on=mode != "off"))
        if effort and mode != "off" and traits.reasoning.effort_with_switch:
            writer.put(writer.accepted_effort(effort), "reasoning_effort")
        elif effort and mode != "off":
            sentence = f"the reasoning effort {effort!r} was left out: {traits.name} can only turn reasoning on"
            writer.report(LeftOut(sentence))
    else:
        if effort and budget is None:
            budget = budget_for(effort)
            writer.report(Translated(f"the reasoning effort {effort!r} became a budget of {budget} tokens"))
        if budget is not None and mode != "off" and not is_exact:
            budget = writer.fitting_budget(budget, limit, is_exact=False)
            mode = "off" if budget is None else mode
        writer.body.update(reasoning_switch(traits, is_on=mode != "off"))
        if budget is not None and mode != "off":
            writer.put(budget, "thinking_budget")


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


# ---------------------------------------------------------------- strict modes

# The strict modes of the dialects, as data. The tools of a dialect without ``strict`` are sent without the field. These
# have none:
#     xai            "strict": "Not supported. Only maintained for compatibility reasons"
#                    (https://docs.x.ai/docs/api-reference)
#     together       a tool has name, description and parameters, and no other field
#                    (https://docs.together.ai/docs/inference/function-calling/best-practices)
#     huggingface    the generated types of huggingface_hub (TGI) have no such field in a function
#     fireworks      its page on tool calling names no such field (https://docs.fireworks.ai/guides/function-calling)
#     perplexity, qwen  nothing is documented
#     openai_compatible  the server is unknown; some refuse the field (NVIDIA NIM: "extra_forbidden")

#: The profiles by the name that a dialect's ``strict`` has.
STRICT_PROFILES: dict[str, StrictProfile] = {
    "openai": OPENAI,
    # https://learn.microsoft.com/azure/ai-foundry/openai/how-to/structured-outputs: no constraint keyword is accepted,
    # "up to 100 object properties total, with up to five levels of nesting". It asks for parallel_tool_calls: false,
    # which the caller sets.
    "azure": replace(OPENAI, target="Azure OpenAI", keywords={}, properties=100, depth=5),
    # https://inference-docs.cerebras.ai/capabilities/structured-outputs: all properties are required, a list of types
    # is refused ("use anyOf instead"); for qwen no pattern, minLength, maxLength (capabilities/tool-use). 422
    # "Tools with mixed values for 'strict' are not allowed. Please set all tools to 'strict: true' or 'strict: false'".
    "cerebras": StrictProfile("Cerebras", every_required=True, type_lists=False, all_or_none=True),
    # https://api-docs.deepseek.com/guides/tool_calls#strict-mode-beta: all functions must be strict. It needs the base
    # address https://api.deepseek.com/beta, which the caller sets. A reference within anyOf is refused
    # (0xPlaygrounds/rig replaces it by its definition).
    "deepseek": StrictProfile(
        "DeepSeek",
        every_required=True,
        keywords={
            "pattern": None,
            "format": frozenset(["email", "hostname", "ipv4", "ipv6", "uuid"]),
            "minimum": None,
            "maximum": None,
            "exclusiveMinimum": None,
            "exclusiveMaximum": None,
            "multipleOf": None,
        },
        references=False,
        all_or_none=True,
    ),
    # https://console.groq.com/docs/structured-outputs: all properties are required, all objects closed. "minItems is
    # not supported" (i-am-bee/beeai-framework#1215). References within a union are not followed
    # ("additionalProperties:false must be set on every object"), so they are replaced by their definitions.
    "groq": StrictProfile("Groq", every_required=True, references=False),
    # https://github.com/MoonshotAI/walle/blob/main/docs/mfjs-spec.md: properties may be optional, definitions and
    # recursion are accepted, ``type`` is one string, no constraint keyword is accepted.
    "kimi": StrictProfile("Kimi", keywords={"default": None}, type_lists=False),
    # The SDK closes the objects and changes nothing else (mistralai.extra.utils, rec_strict_json_schema).
    "mistral": StrictProfile("Mistral", keywords=None),
    # It passes the field on to the server that it selects: the form that each of them accepts.
    "openrouter": StrictProfile("OpenRouter", every_required=True, type_lists=False, references=False),
    # https://docs.vllm.ai/en/latest/features/tool_calling: a tool's ``strict`` constrains the arguments by a
    # grammar of xgrammar, which accepts all keywords; older servers ignore the field.
    "vllm": StrictProfile("vLLM", keywords=None),
}


def strict_profile(name: str | None) -> StrictProfile | None:
    """Return the profile of that name; None for None.

    Raises:
        UsageError: there is no profile of that name.
    """
    if name is None:
        return None
    if name not in STRICT_PROFILES:
        raise UsageError(f"strict of a chat dialect is one of {', '.join(STRICT_PROFILES)}, not {name!r}")
    return STRICT_PROFILES[name]


# ---------------------------------------------------------------- tools

_MODES = {"auto": "auto", "none": "none", "required": "required", "any": "required"}


def read_tools(fields: BodyFields, traits: ChatDialect) -> list[OfferedTool]:
    """Take the tools of a body and return them."""
    return read_tool_list(fields, lambda raw: _read_tool(raw, traits.name), traits.name)


def _read_tool(raw: Json, provider: str) -> ToolDefinition | None:
    custom = raw.get("custom")
    if raw.get("type") != "custom" or not isinstance(custom, dict) or raw.keys() > {"type", "custom"}:
        return read_function_tool(raw, provider)
    form = custom.get("format")
    given = form.get("grammar") if isinstance(form, dict) and form.keys() == {"type", "grammar"} else None
    grammar = None
    if isinstance(given, dict) and given.keys() == {"syntax", "definition"}:
        if isinstance(given["syntax"], str) and isinstance(given["definition"], str):
            grammar = Grammar(**given)
    known = () if grammar is None else ("format",)
    return read_definition(custom, provider, schema_field="parameters", known=known, grammar=grammar, is_custom=True)


def read_tool_choice(fields: BodyFields, traits: ChatDialect) -> ToolChoice | AllowedTools | None:
    """Take the tool choice and return it; None if there is none, and one of another form stays in the body."""
    choice = fields.get("tool_choice")
    if choice is None:
        return None
    if isinstance(choice, str) and choice in _MODES:
        fields.take("tool_choice")
        return _MODES[choice]
    for kind in ("function", "custom"):
        named = choice.get(kind) if isinstance(choice, dict) and choice.keys() == {"type", kind} else None
        if isinstance(named, dict) and named.keys() == {"name"} and isinstance(named["name"], str):
            fields.take("tool_choice")
            return named["name"]
    if fields.get("tool_choice", "type") == "allowed_tools":
        listed, names = fields.get("tool_choice", "allowed_tools", "tools"), list[Any]()
        for tool in listed if isinstance(listed, list) else ():
            named = tool.get(tool.get("type")) if isinstance(tool, dict) and isinstance(tool.get("type"), str) else None
            names.append(named.get("name") if isinstance(named, dict) else None)
        return take_allowed_tools(fields, fields.get("tool_choice", "allowed_tools", "mode"), names, "tool_choice")
    return None


def render_tools(tools: Sequence[OfferedTool], traits: ChatDialect) -> list[Json]:
    """Return the definitions of tools.

    Raises:
        UsageError: a strict tool's schema cannot be converted.
    """
    strict = strict_schemas(tools, strict_profile(traits.strict))
    rendered: list[Json] = []
    for tool in tools:
        if not isinstance(tool, ToolDefinition):
            rendered.append(tool.raw)
        elif tool.kind == "custom":
            custom: Json = {"name": tool.name}
            if tool.description:
                custom["description"] = tool.description
            if tool.grammar is not None:
                custom["format"] = {"type": "grammar", "grammar": tool.grammar.model_dump()}
            rendered.append({"type": "custom", "custom": {**custom, **further_fields(tool)}, **outer_fields(tool)})
        else:
            schema = strict.get(tool.name)
            rendered.append(render_function_tool(tool, schema, is_strict=schema is not None))
    return rendered


def render_tool_choice(choice: ToolChoice | None, tools: Sequence[OfferedTool], traits: ChatDialect) -> Any:
    """Return the field ``tool_choice``; None if it is left out.

    Raises:
        UsageError: the choice names no tool, or one that cannot be named, or requires one and there are none.
    """
    if choice is None:
        return None
    _, mode = select_tools(choice, tools)
    if not tools:
        return None  # OpenAI: "tool_choice is only allowed when tools are specified"
    if (tool := named_tool(choice, tools)) is None:
        return traits.required_choice if mode == "required" else mode
    kind = tool.kind if isinstance(tool, ToolDefinition) else tool.raw.get("type")
    if kind in ("function", "custom"):
        return {"type": kind, kind: {"name": choice}}
    if len(tools) == 1:
        return traits.required_choice
    raise UsageError(
        f"tool_choice {choice!r} cannot be requested of {traits.name}, whose own tools have no names there; offer no"
        ' other tools and pass tool_choice="required"'
    )
