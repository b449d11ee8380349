"""Requests that the Responses API refuses.

Wire: https://platform.openai.com/docs/api-reference/responses/create

If the provider keeps the conversation (``previous_response_id``, ``conversation``), it may have the call of an output,
so an output without its call is accepted then.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamkit.providers.provider import Traits
from streamkit.testing.rules.rule import (
    Finding,
    Json,
    Rule,
    as_text_or_none,
    check_chosen_tool,
    objects,
    read_chosen_tool,
    short_json,
)

__all__ = ["build_rules"]

_ROLES = ("user", "assistant", "system", "developer")
_OUTPUT_OF_CALL = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}
_CALL_OF_OUTPUT = {output: call for call, output in _OUTPUT_OF_CALL.items()}
_ID_PREFIXES = {"function_call": "fc", "reasoning": "rs", "message": "msg"}
_LONGEST_ID = 64


def _item_type(item: Json) -> str | None:
    kind = item.get("type")
    return "message" if kind is None and "role" in item else as_text_or_none(kind)


def _items(body: Json, *types: str) -> Iterator[tuple[str, Json]]:
    """Yield the items of these types, each with its path."""
    for place, item in objects(body.get("input")):
        if _item_type(item) in types:
            yield f"input.{place}", item


def _form(body: Json, _model: str) -> Iterator[Finding]:
    items = body.get("input", "")
    if not isinstance(items, (str, list)):
        yield "input", f"is {short_json(items)}, not text or a list"
    elif isinstance(items, list):
        for place, item in enumerate(items):
            path = f"input.{place}"
            if not isinstance(item, dict):
                yield path, f"is {short_json(item)}, not an object"
            elif _item_type(item) is None:
                yield f"{path}.type", f"is {short_json(item.get('type'))}, not the name of a type"
            elif _item_type(item) == "message" and as_text_or_none(item.get("role")) not in _ROLES:
                yield f"{path}.role", f"is {short_json(item.get('role'))}, not one of {', '.join(_ROLES)}"


def _call_id_length(body: Json, _model: str) -> Iterator[Finding]:
    for path, item in _items(body, *_OUTPUT_OF_CALL, *_CALL_OF_OUTPUT):
        call_id = as_text_or_none(item.get("call_id"))
        if not call_id:
            yield f"{path}.call_id", f"is {short_json(item.get('call_id'))}, not the id of a call"
        elif len(call_id) > _LONGEST_ID:
            sentence = f"has {len(call_id)} characters; the maximum is {_LONGEST_ID} (string_above_max_length)"
            yield f"{path}.call_id", sentence


def _item_id_prefix(body: Json, _model: str) -> Iterator[Finding]:
    for path, item in _items(body, *_ID_PREFIXES):
        item_id, prefix = item.get("id"), _ID_PREFIXES[_item_type(item) or ""]
        if item_id is not None and not (isinstance(item_id, str) and item_id.startswith(prefix)):
            yield f"{path}.id", f"is {short_json(item_id)}: expected an id that begins with '{prefix}'"


def _item_id_length(body: Json, _model: str) -> Iterator[Finding]:
    for place, item in objects(body.get("input")):
        item_id = as_text_or_none(item.get("id")) or ""
        if len(item_id) > _LONGEST_ID:
            yield f"input.{place}.id", f"has {len(item_id)} characters; the maximum is {_LONGEST_ID}"


def _item_id_unique(body: Json, _model: str) -> Iterator[Finding]:
    seen: set[str] = set()
    for place, item in objects(body.get("input")):
        item_id = as_text_or_none(item.get("id"))
        if item_id is not None and _item_type(item) != "item_reference":
            if item_id in seen:
                yield f"input.{place}.id", f"duplicate item found with id {short_json(item_id)}"
            seen.add(item_id)


def _calls_have_outputs(body: Json, _model: str) -> Iterator[Finding]:
    outputs = {(_item_type(item), as_text_or_none(item.get("call_id"))) for _, item in _items(body, *_CALL_OF_OUTPUT)}
    for path, item in _items(body, *_OUTPUT_OF_CALL):
        call_id = as_text_or_none(item.get("call_id"))
        if item.get("async") is True:  # https://developers.openai.com/api/docs/guides/async-tool-calling
            continue
        if call_id and (_OUTPUT_OF_CALL[_item_type(item) or ""], call_id) not in outputs:
            yield path, f"no tool output found for function call {short_json(call_id)}"


def _outputs_have_calls(body: Json, _model: str) -> Iterator[Finding]:
    if body.get("previous_response_id") or body.get("conversation"):
        return
    calls: set[tuple[str | None, str | None]] = set()
    has_references = next(_items(body, "item_reference"), None) is not None
    for path, item in _items(body, *_OUTPUT_OF_CALL, *_CALL_OF_OUTPUT):
        kind, call_id = _item_type(item) or "", as_text_or_none(item.get("call_id"))
        if kind in _OUTPUT_OF_CALL:
            calls.add((kind, call_id))
        elif call_id and (_CALL_OF_OUTPUT[kind], call_id) not in calls and not has_references:
            yield path, f"no tool call found before it for function call output with call_id {short_json(call_id)}"


def _reasoning_has_next_item(body: Json, _model: str) -> Iterator[Finding]:
    following: Json = {}
    for place, item in reversed(objects(body.get("input"))):
        if _item_type(item) == "reasoning" and not _is_output_item(following):
            yield f"input.{place}", "of type 'reasoning' was provided without its required following item"
        following = item


def _is_output_item(item: Json) -> bool:
    """Return True if a model may have sent the item, so that reasoning may have led to it."""
    kind = _item_type(item)
    if kind == "message":
        return item.get("role") == "assistant"
    return kind is not None and kind not in _CALL_OF_OUTPUT


def _arguments_are_text(body: Json, _model: str) -> Iterator[Finding]:
    for kind, field in (("function_call", "arguments"), ("custom_tool_call", "input")):
        for path, item in _items(body, kind):
            if not isinstance(item.get(field), str):
                yield f"{path}.{field}", f"is {short_json(item.get(field))}, not text"


def _tool_choice_known(body: Json, _model: str) -> Iterator[Finding]:
    tools, choice = objects(body.get("tools")), body.get("tool_choice")
    if choice == "required" and not tools:
        yield "tool_choice", "there are no tools to choose from"
    for kind in ("function", "custom"):
        if isinstance(choice, dict) and choice.get("type") == kind:
            known = {
                name for _, tool in tools if tool.get("type") == kind and (name := as_text_or_none(tool.get("name")))
            }
            yield from check_chosen_tool("tool_choice", read_chosen_tool(choice, "name"), known)


_REFERENCE = "https://platform.openai.com/docs/api-reference/responses/create"
_RULES = (
    Rule("form", _form, _REFERENCE),
    Rule("call_id_length", _call_id_length, "openclaw/openclaw#31934, orchidfiles/ungate#26"),
    Rule("item_id_prefix", _item_id_prefix, "nodetool-ai/nodetool#4252, continuedev/continue#11785"),
    Rule("item_id_length", _item_id_length, "NousResearch/hermes-agent#10788, can1357/oh-my-pi#284"),
    Rule("item_id_unique", _item_id_unique, "vercel/ai#7883"),
    Rule("call_answered", _calls_have_outputs, "router-for-me/CLIProxyAPI#2368, symgraph/GhidrAssist#78"),
    Rule("output_has_call", _outputs_have_calls, "continuedev/continue#10092, can1357/oh-my-pi#106"),
    Rule("reasoning_followed", _reasoning_has_next_item, "openai/openai-node#1567, openai/openai-agents-python#1660"),
    Rule("arguments_are_text", _arguments_are_text, _REFERENCE),
    Rule("tool_choice_known", _tool_choice_known, _REFERENCE),
)


def build_rules(traits: Traits) -> tuple[Rule, ...]:
    """Return the rules of this provider, in the order in which they are checked."""
    return _RULES
