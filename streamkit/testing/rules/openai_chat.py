"""Requests that servers of Chat Completions refuse, by vendor.

Wire: https://platform.openai.com/docs/api-reference/chat/create

A rule is a vendor's if there is evidence for it; of a server without evidence only the form of the wire is required.
vLLM, for example, pairs no calls and results. The rules for pairing them are shared with Cohere (``pairing``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from streamkit.providers.openai_chat.dialects import ChatDialect
from streamkit.testing.rules.pairing import (
    arguments_are_object_text,
    arguments_are_text,
    calls_have_results,
    calls_of,
    ids_present,
    results_have_calls,
)
from streamkit.testing.rules.rule import (
    Finding,
    Json,
    Rule,
    as_text_or_none,
    check_chosen_tool,
    check_message_form,
    objects,
    read_chosen_tool,
    short_json,
)

__all__ = ["RULES_OF_DIALECTS", "build_rules"]

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_LONGEST_ID = 40
_MISTRAL_ID = re.compile(r"[a-zA-Z0-9]{9}")
#: The fields that an assistant message without content may have instead.
_CONTENT_ALTERNATIVES = ("tool_calls", "function_call", "audio", "refusal", "images")


def _call_ids(body: Json) -> Iterator[tuple[str, str]]:
    """Yield the id of every call and every result, with its path."""
    for path, call in calls_of(body):
        if (call_id := as_text_or_none(call.get("id"))) is not None:
            yield f"{path}.id", call_id
    for place, message in objects(body.get("messages")):
        if message.get("role") == "tool" and (call_id := as_text_or_none(message.get("tool_call_id"))) is not None:
            yield f"messages.{place}.tool_call_id", call_id


def _form(body: Json, _model: str) -> Iterator[Finding]:
    yield from check_message_form(body, field="messages", content_field="content", roles=_ROLES, may_be_absent=True)
    yield from _calls_have_form(body)


def _wire_form(body: Json, _model: str) -> Iterator[Finding]:
    yield from check_message_form(body, field="messages", content_field="content", roles=None, may_be_absent=True)
    yield from _calls_have_form(body)


def _calls_have_form(body: Json) -> Iterator[Finding]:
    for place, message in objects(body.get("messages")):
        calls = message.get("tool_calls")
        if calls is not None and (not isinstance(calls, list) or len(objects(calls)) != len(calls)):
            yield f"messages.{place}.tool_calls", f"is {short_json(calls)}, not a list of objects"


def _content_present(body: Json, _model: str) -> Iterator[Finding]:
    for place, message in objects(body.get("messages")):
        if message.get("content") is not None:
            continue
        if message.get("role") != "assistant" or not any(message.get(name) for name in _CONTENT_ALTERNATIVES):
            yield f"messages.{place}.content", "is null; only an assistant message with calls may have no content"


def _id_unique(body: Json, _model: str) -> Iterator[Finding]:
    for place, message in objects(body.get("messages")):
        seen: set[str] = set()
        for number, call in objects(message.get("tool_calls")):
            call_id = as_text_or_none(call.get("id"))
            if call_id and call_id in seen:
                path = f"messages.{place}.tool_calls.{number}.id"
                yield path, f"is {short_json(call_id)}, the id of another call of the same message"
            seen.add(call_id or "")


def _id_length(body: Json, _model: str) -> Iterator[Finding]:
    for path, call_id in _call_ids(body):
        if len(call_id) > _LONGEST_ID:
            yield path, f"has {len(call_id)} characters; the maximum is {_LONGEST_ID} (string_above_max_length)"


def _id_pattern(body: Json, _model: str) -> Iterator[Finding]:
    for path, call_id in _call_ids(body):
        if call_id and not _MISTRAL_ID.fullmatch(call_id):
            yield path, f"is {short_json(call_id)}, and must be a-z, A-Z, 0-9, with a length of 9"


def _tool_choice_known(body: Json, _model: str) -> Iterator[Finding]:
    tools = objects(body.get("tools"))
    choice = body.get("tool_choice")
    if choice is not None and not tools:
        yield "tool_choice", "is only allowed when tools are specified"
    for kind in ("function", "custom"):
        known = {name for _, tool in tools if (name := read_chosen_tool(tool, kind, "name")) is not None}
        if tools:
            yield from check_chosen_tool("tool_choice", read_chosen_tool(choice, kind, "name"), known)


# ---------------------------------------------------------------- Mistral


def _no_user_after_tool(body: Json, _model: str) -> Iterator[Finding]:
    messages = objects(body.get("messages"))
    for (_, previous), (place, message) in pairwise(messages):
        if previous.get("role") == "tool" and message.get("role") == "user":
            yield f"messages.{place}.role", "unexpected role 'user' after role 'tool'"


def _last_role(body: Json, _model: str) -> Iterator[Finding]:
    for place, message in objects(body.get("messages"))[-1:]:
        role = message.get("role")
        if role not in ("user", "tool") and not (role == "assistant" and message.get("prefix") is True):
            yield f"messages.{place}.role", "expected last role user or tool, or assistant with prefix true"


def _content_or_calls(body: Json, _model: str) -> Iterator[Finding]:
    for place, message in objects(body.get("messages")):
        if message.get("role") == "assistant" and message.get("content") in ("", []) and not message.get("tool_calls"):
            yield f"messages.{place}", "an assistant message must have either content or tool_calls"


def _one_result_per_call(body: Json, _model: str) -> Iterator[Finding]:
    seen: set[str] = set()
    for place, message in objects(body.get("messages")):
        if message.get("role") != "tool":
            seen = set()
            continue
        call_id = as_text_or_none(message.get("tool_call_id")) or ""
        if call_id and call_id in seen:
            yield f"messages.{place}", f"is a second response to {short_json(call_id)}; a call has one response"
        seen.add(call_id)


# ---------------------------------------------------------------- tables

_REFERENCE = "https://platform.openai.com/docs/api-reference/chat/create"
_COMMON = (
    Rule("form", _form, _REFERENCE),
    Rule("content_present", _content_present, "vercel/ai#13744, run-llama/llama_index#17555"),
    Rule("id_present", ids_present, _REFERENCE),
    Rule("id_unique", _id_unique, "openclaw/openclaw#47136, can1357/oh-my-pi#2055"),
    Rule("call_answered_next", calls_have_results, "agno-agi/agno#4345, RamiAwar/dataline#172"),
    Rule("result_has_call", results_have_calls, "miurla/morphic#136, prism-php/prism#175"),
    Rule("tool_choice_known", _tool_choice_known, _REFERENCE),
)
_OPENAI = (
    *_COMMON,
    Rule("arguments_are_text", arguments_are_text, _REFERENCE),
    Rule("id_length", _id_length, "agno-agi/agno#5382, microsoft/autogen#6377, vercel/ai#5171"),
)
_MISTRAL = (
    *_COMMON,
    Rule(
        "arguments_are_object_text",
        arguments_are_object_text,
        "bytedance/deer-flow#4445, huggingface/physics-intern#6, sgl-project/sglang#28035",
    ),
    Rule("id_pattern", _id_pattern, "langchain-ai/langchain#24668, anomalyco/opencode#1680"),
    Rule("no_user_after_tool", _no_user_after_tool, "NousResearch/hermes-agent#20154, datapizza-labs/datapizza-ai#98"),
    Rule("last_role", _last_role, "huggingface/smolagents#757"),
    Rule("content_or_calls", _content_or_calls, "OpenHands/OpenHands#8685"),
    Rule("one_result_a_call", _one_result_per_call, "mistralai/client-ts#106"),
)

_WIRE = (Rule("form", _wire_form, _REFERENCE),)
_DEEPSEEK = (
    *_WIRE,
    Rule("id_present", ids_present, "EKKOLearnAI/hermes-studio#323"),
    Rule("call_answered_next", calls_have_results, "langgenius/dify#32222, gptme/gptme#3421"),
)
_QWEN = (
    *_WIRE,
    Rule("call_answered_next", calls_have_results, "QwenLM/qwen-code#869, alibaba/spring-ai-alibaba#914"),
    Rule("result_has_call", results_have_calls, "QwenLM/qwen-code#2360, labring/FastGPT#4184"),
)

#: The rules of the dialects of which more than the form of the wire is known.
RULES_OF_DIALECTS: dict[str, tuple[Rule, ...]] = {
    "openai_chat": _OPENAI,
    "azure_openai": _OPENAI,
    "mistral": _MISTRAL,
    "deepseek": _DEEPSEEK,
    "qwen": _QWEN,
}


def build_rules(traits: ChatDialect) -> tuple[Rule, ...]:
    """Return the rules of a dialect, in the order in which they are checked."""
    return RULES_OF_DIALECTS.get(traits.name, _WIRE)
