"""What servers of Chat Completions refuse, and what Mistral's refuses beside it.

Wire      https://platform.openai.com/docs/api-reference/chat/create

Most rules hold wherever the wire is spoken; the length of ids is OpenAI's own, and Mistral has a pattern of its own and
an order of roles. Cohere's messages are alike, so ``cohere`` borrows their pairing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from streamkit.providers.call_pairing import (
    arguments_are_object_text,
    calls_have_results,
    calls_of,
    ids_present,
    results_have_calls,
)
from streamkit.providers.message_lists import check_chosen_tool, check_message_form, read_chosen_tool
from streamkit.providers.openai_chat.dialects import ChatDialect
from streamkit.providers.request_rule import Finding, Json, Rule, as_text_or_none, objects, short_json

__all__ = ["list_rules"]

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_NINE = re.compile(r"[a-zA-Z0-9]{9}")


def _all_ids(body: Json) -> Iterator[tuple[str, str]]:
    for at, call in calls_of(body):
        if (given := as_text_or_none(call.get("id"))) is not None:
            yield f"{at}.id", given
    for place, message in objects(body.get("messages")):
        if message.get("role") == "tool" and (given := as_text_or_none(message.get("tool_call_id"))) is not None:
            yield f"messages.{place}.tool_call_id", given


def _form(body: Json, _model: str) -> Iterator[Finding]:
    yield from check_message_form(body, field="messages", content_field="content", roles=_ROLES, may_be_absent=True)
    for place, message in objects(body.get("messages")):
        calls = message.get("tool_calls")
        if calls is not None and (not isinstance(calls, list) or len(objects(calls)) != len(calls)):
            yield f"messages.{place}.tool_calls", f"is {short_json(calls)}, not a list of objects"


def _unique_ids(body: Json, _model: str) -> Iterator[Finding]:
    for place, message in objects(body.get("messages")):
        seen: set[str] = set()
        for number, call in objects(message.get("tool_calls")):
            given = as_text_or_none(call.get("id"))
            if given and given in seen:
                yield f"messages.{place}.tool_calls.{number}.id", f"is {short_json(given)}, as that of a call beside it"
            seen.add(given or "")


def _content(body: Json, _model: str) -> Iterator[Finding]:
    for place, message in objects(body.get("messages")):
        if message.get("content") is not None:
            continue
        role, instead = message.get("role"), ("tool_calls", "function_call", "audio", "refusal", "images")
        if role != "assistant" or not any(message.get(field) for field in instead):
            yield f"messages.{place}.content", "is null; only an assistant message with calls may have no content"


def _choice(body: Json, _model: str) -> Iterator[Finding]:
    tools = objects(body.get("tools"))
    choice = body.get("tool_choice")
    if choice is not None and not tools:
        yield "tool_choice", "is only allowed when tools are specified"
    for kind in ("function", "custom"):
        known = {name for _, tool in tools if (name := read_chosen_tool(tool, kind, "name")) is not None}
        if tools:
            yield from check_chosen_tool("tool_choice", read_chosen_tool(choice, kind, "name"), known)


def _length(body: Json, _model: str) -> Iterator[Finding]:
    for at, given in _all_ids(body):
        if len(given) > 40:
            yield at, f"is {len(given)} characters long, and 40 is the most (string_above_max_length)"


def _nine(body: Json, _model: str) -> Iterator[Finding]:
    for at, given in _all_ids(body):
        if given and not _NINE.fullmatch(given):
            yield at, f"is {short_json(given)}, and must be a-z, A-Z, 0-9, with a length of 9"


def _order(body: Json, _model: str) -> Iterator[Finding]:
    messages = objects(body.get("messages"))
    for (_, before), (place, message) in pairwise(messages):
        if before.get("role") == "tool" and message.get("role") == "user":
            yield f"messages.{place}.role", "unexpected role 'user' after role 'tool'"


def _end(body: Json, _model: str) -> Iterator[Finding]:
    for place, message in objects(body.get("messages"))[-1:]:
        role = message.get("role")
        if role not in ("user", "tool") and not (role == "assistant" and message.get("prefix") is True):
            yield f"messages.{place}.role", "expected last role user or tool, or assistant with prefix true"


def _said(body: Json, _model: str) -> Iterator[Finding]:
    for place, message in objects(body.get("messages")):
        if message.get("role") == "assistant" and message.get("content") in ("", []) and not message.get("tool_calls"):
            yield f"messages.{place}", "an assistant message must have either content or tool_calls"


def _one_result(body: Json, _model: str) -> Iterator[Finding]:
    seen: set[str] = set()
    for place, message in objects(body.get("messages")):
        if message.get("role") != "tool":
            seen = set()
            continue
        given = as_text_or_none(message.get("tool_call_id")) or ""
        if given and given in seen:
            yield f"messages.{place}", f"is a second response to {short_json(given)}: as many responses as calls"
        seen.add(given)


_REFERENCE = "https://platform.openai.com/docs/api-reference/chat/create"
#: Those that hold wherever the wire is spoken.
_RULES = (
    Rule("form", _form, _REFERENCE),
    Rule("content_present", _content, "vercel/ai#13744, run-llama/llama_index#17555"),
    Rule("id_present", ids_present, _REFERENCE),
    Rule("id_unique", _unique_ids, "openclaw/openclaw#47136, can1357/oh-my-pi#2055"),
    Rule("call_answered_next", calls_have_results, "agno-agi/agno#4345, RamiAwar/dataline#172"),
    Rule("result_has_call", results_have_calls, "miurla/morphic#136, prism-php/prism#175"),
    Rule(
        "arguments_are_object_text",
        arguments_are_object_text,
        "bytedance/deer-flow#4445, huggingface/physics-intern#6, sgl-project/sglang#28035",
    ),
    Rule("tool_choice_known", _choice, _REFERENCE),
)
_OPENAI = (*_RULES, Rule("id_length", _length, "agno-agi/agno#5382, microsoft/autogen#6377, vercel/ai#5171"))
_MISTRAL = (
    *_RULES,
    Rule("id_pattern", _nine, "langchain-ai/langchain#24668, anomalyco/opencode#1680"),
    Rule("no_user_after_tool", _order, "NousResearch/hermes-agent#20154, datapizza-labs/datapizza-ai#98"),
    Rule("last_role", _end, "huggingface/smolagents#757"),
    Rule("content_or_calls", _said, "OpenHands/OpenHands#8685"),
    Rule("one_result_a_call", _one_result, "mistralai/client-ts#106"),
)

_TABLES = {"chat": _RULES, "openai": _OPENAI, "mistral": _MISTRAL}


def list_rules(traits: ChatDialect) -> tuple[Rule, ...]:
    """Return the rules of a dialect, in the order in which they are checked."""
    return _TABLES[traits.refuses_as]
