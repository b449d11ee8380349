"""What the Responses API refuses.

Wire      https://platform.openai.com/docs/api-reference/responses/create

Where the provider keeps the conversation (``previous_response_id``, ``conversation``), calls may stand there: an output
without its call is then no fault.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamkit.providers.message_lists import check_chosen_tool, read_chosen_tool
from streamkit.providers.provider import Traits
from streamkit.providers.request_rule import Finding, Json, Rule, as_text_or_none, is_object_text, objects, short_json

__all__ = ["list_rules"]

_ROLES = ("user", "assistant", "system", "developer")
_CALLS = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}
_OUTPUTS = {output: call for call, output in _CALLS.items()}
_PREFIXES = {"function_call": "fc", "reasoning": "rs", "message": "msg"}


def _kind(item: Json) -> str | None:
    kind = item.get("type")
    return "message" if kind is None and "role" in item else as_text_or_none(kind)


def _items(body: Json, *kinds: str) -> Iterator[tuple[str, Json]]:
    for place, item in objects(body.get("input")):
        if _kind(item) in kinds:
            yield f"input.{place}", item


def _form(body: Json, _model: str) -> Iterator[Finding]:
    given = body.get("input", "")
    if not isinstance(given, (str, list)):
        yield "input", f"is {short_json(given)}, not text or a list"
    elif isinstance(given, list):
        for place, item in enumerate(given):
            at = f"input.{place}"
            if not isinstance(item, dict):
                yield at, f"is {short_json(item)}, not an object"
            elif _kind(item) is None:
                yield f"{at}.type", f"is {short_json(item.get('type'))}, not the name of a type"
            elif _kind(item) == "message" and as_text_or_none(item.get("role")) not in _ROLES:
                yield f"{at}.role", f"is {short_json(item.get('role'))}, not one of {', '.join(_ROLES)}"


def _call_ids(body: Json, _model: str) -> Iterator[Finding]:
    for at, item in _items(body, *_CALLS, *_OUTPUTS):
        given = as_text_or_none(item.get("call_id"))
        if not given:
            yield f"{at}.call_id", f"is {short_json(item.get('call_id'))}, not text that names the call"
        elif len(given) > 64:
            yield f"{at}.call_id", f"is {len(given)} characters long, and 64 is the most (string_above_max_length)"


def _item_ids(body: Json, _model: str) -> Iterator[Finding]:
    for at, item in _items(body, *_PREFIXES):
        given, prefix = item.get("id"), _PREFIXES[_kind(item) or ""]
        if given is not None and not (isinstance(given, str) and given.startswith(prefix)):
            yield f"{at}.id", f"is {short_json(given)}: expected an id that begins with '{prefix}'"


def _item_id_length(body: Json, _model: str) -> Iterator[Finding]:
    for place, item in objects(body.get("input")):
        given = as_text_or_none(item.get("id")) or ""
        if len(given) > 64:
            yield f"input.{place}.id", f"is {len(given)} characters long, and 64 is the most"


def _unique_items(body: Json, _model: str) -> Iterator[Finding]:
    seen: set[str] = set()
    for place, item in objects(body.get("input")):
        given = as_text_or_none(item.get("id"))
        if given is not None and _kind(item) != "item_reference":
            if given in seen:
                yield f"input.{place}.id", f"duplicate item found with id {short_json(given)}"
            seen.add(given)


def _answered(body: Json, _model: str) -> Iterator[Finding]:
    outputs = {(_kind(item), as_text_or_none(item.get("call_id"))) for _, item in _items(body, *_OUTPUTS)}
    for at, item in _items(body, *_CALLS):
        given = as_text_or_none(item.get("call_id"))
        if given and (_CALLS[_kind(item) or ""], given) not in outputs:
            yield at, f"no tool output found for function call {short_json(given)}"


def _expected(body: Json, _model: str) -> Iterator[Finding]:
    if body.get("previous_response_id") or body.get("conversation"):
        return
    asked: set[tuple[str | None, str | None]] = set()
    references = next(_items(body, "item_reference"), None) is not None
    for at, item in _items(body, *_CALLS, *_OUTPUTS):
        kind, given = _kind(item) or "", as_text_or_none(item.get("call_id"))
        if kind in _CALLS:
            asked.add((kind, given))
        elif given and (_OUTPUTS[kind], given) not in asked and not references:
            yield at, f"no tool call found before it for function call output with call_id {short_json(given)}"


def _followed(body: Json, _model: str) -> Iterator[Finding]:
    items = body.get("input")
    following: Json = {}
    for place, item in reversed(objects(items)):
        kind = _kind(following)
        led = kind is not None and kind not in _OUTPUTS and (kind != "message" or following.get("role") == "assistant")
        if _kind(item) == "reasoning" and not led:
            yield f"input.{place}", "of type 'reasoning' was provided without its required following item"
        following = item


def _arguments(body: Json, _model: str) -> Iterator[Finding]:
    for at, item in _items(body, "function_call"):
        if not is_object_text(item.get("arguments")):
            yield f"{at}.arguments", f"is {short_json(item.get('arguments'))}, not the JSON text of an object"
    for at, item in _items(body, "custom_tool_call"):
        if not isinstance(item.get("input"), str):
            yield f"{at}.input", f"is {short_json(item.get('input'))}, not text"


def _choice(body: Json, _model: str) -> Iterator[Finding]:
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
    Rule("call_id_length", _call_ids, "openclaw/openclaw#31934, orchidfiles/ungate#26"),
    Rule("item_id_prefix", _item_ids, "nodetool-ai/nodetool#4252, continuedev/continue#11785"),
    Rule("item_id_length", _item_id_length, "NousResearch/hermes-agent#10788, can1357/oh-my-pi#284"),
    Rule("item_id_unique", _unique_items, "vercel/ai#7883"),
    Rule("call_answered", _answered, "router-for-me/CLIProxyAPI#2368, symgraph/GhidrAssist#78"),
    Rule("output_has_call", _expected, "continuedev/continue#10092, can1357/oh-my-pi#106"),
    Rule("reasoning_followed", _followed, "openai/openai-node#1567, openai/openai-agents-python#1660"),
    Rule("arguments_are_object_text", _arguments, "local-inference-lab/vllm#684"),
    Rule("tool_choice_known", _choice, _REFERENCE),
)


def list_rules(traits: Traits) -> tuple[Rule, ...]:
    """Return the rules of this provider, in the order in which they are checked."""
    return _RULES
