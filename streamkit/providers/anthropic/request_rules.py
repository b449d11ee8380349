"""What the Messages API refuses; Bedrock's InvokeModel hands the same body on to it.

Wire      https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from streamkit.providers.message_lists import form_of_messages, named_tool, unknown_tool
from streamkit.providers.provider import Traits
from streamkit.providers.request_rule import Finding, Json, Rule, objects, shown, words

__all__ = ["list_rules"]

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PAIRED = "anthropics/claude-code#8210, #18947"


def _parts(message: Json, kind: str) -> list[tuple[int, Json]]:
    return [(place, part) for place, part in objects(message.get("content")) if part.get("type") == kind]


def _every(body: Json, kind: str) -> Iterator[tuple[str, Json]]:
    for place, message in objects(body.get("messages")):
        for number, part in _parts(message, kind):
            yield f"messages.{place}.content.{number}", part


def _form(body: Json, _model: str) -> Iterator[Finding]:
    yield from form_of_messages(body, field="messages", parts="content", roles=("user", "assistant"))
    for place, message in objects(body.get("messages")):
        for number, part in objects(message.get("content")):
            if not isinstance(part.get("type"), str):
                yield f"messages.{place}.content.{number}.type", f"is {shown(part.get('type'))}, not text"


def _first_is_user(body: Json, _model: str) -> Iterator[Finding]:
    for place, message in objects(body.get("messages"))[:1]:
        if place == 0 and message.get("role") == "assistant":
            yield "messages.0.role", "the first message must be a user's"


def _content(body: Json, _model: str) -> Iterator[Finding]:
    messages = objects(body.get("messages"))
    for place, message in messages:
        last_answer = place == messages[-1][0] and message.get("role") == "assistant"
        if message.get("content") in ("", []) and not last_answer:
            yield f"messages.{place}.content", "is empty; only that of a last assistant message may be"


def _not_blank(body: Json, _model: str) -> Iterator[Finding]:
    for place, message in objects(body.get("messages")):
        content = message.get("content")
        if isinstance(content, str) and content and not content.strip():
            yield f"messages.{place}.content", "is nothing but white space"
    for at, part in _every(body, "text"):
        text = words(part.get("text"))
        if text is None or not text.strip():
            yield f"{at}.text", f"is {shown(part.get('text'))}; a text block must contain non-whitespace text"


def _no_trailing_space(body: Json, _model: str) -> Iterator[Finding]:
    for place, message in objects(body.get("messages"))[-1:]:
        content = message.get("content")
        at, text = f"messages.{place}.content", words(content)
        if (
            isinstance(content, list)
            and content
            and isinstance(content[-1], dict)
            and content[-1].get("type") == "text"
        ):
            at, text = f"{at}.{len(content) - 1}.text", words(content[-1].get("text"))
        if message.get("role") == "assistant" and text and text.strip() and text != text.rstrip():
            yield at, "the final assistant content ends in white space"


def _ids(body: Json, _model: str) -> Iterator[Finding]:
    for kind, field in (("tool_use", "id"), ("tool_result", "tool_use_id")):
        for at, part in _every(body, kind):
            given = words(part.get(field))
            if given is None or not _ID.fullmatch(given):
                yield f"{at}.{field}", f"is {shown(part.get(field))}, not 1 to 64 of a-z, A-Z, 0-9, _ and -"


def _unique_ids(body: Json, _model: str) -> Iterator[Finding]:
    seen: set[str] = set()
    for at, part in _every(body, "tool_use"):
        given = words(part.get("id"))
        if given is None:
            continue
        if given in seen:
            yield f"{at}.id", f"is {shown(given)}, as that of a call before it: tool_use ids must be unique"
        seen.add(given)


def _input(body: Json, _model: str) -> Iterator[Finding]:
    for at, part in _every(body, "tool_use"):
        if not isinstance(part.get("input"), dict):
            yield f"{at}.input", f"is {shown(part.get('input'))}, not an object"


def _ids_in(message: Json | None, role: str, kind: str, field: str) -> set[str]:
    if message is None or message.get("role") != role:
        return set()
    return {given for _, part in _parts(message, kind) if (given := words(part.get(field))) is not None}


def _answered(body: Json, _model: str) -> Iterator[Finding]:
    messages = objects(body.get("messages"))
    for (place, message), following in zip(messages, [*messages[1:], (0, None)], strict=False):
        answered = _ids_in(following[1], "user", "tool_result", "tool_use_id")
        for number, part in _parts(message, "tool_use"):
            given = words(part.get("id"))
            if given is not None and given not in answered:
                yield f"messages.{place}.content.{number}", f"{shown(given)} has no tool_result in the next message"


def _expected(body: Json, _model: str) -> Iterator[Finding]:
    before: Json | None = None
    for place, message in objects(body.get("messages")):
        asked = _ids_in(before, "assistant", "tool_use", "id")
        for number, part in _parts(message, "tool_result"):
            given = words(part.get("tool_use_id"))
            if given is not None and given not in asked:
                at = f"messages.{place}.content.{number}.tool_use_id"
                yield at, f"{shown(given)} is the id of no tool_use in the message before"
        before = message


def _one_result(body: Json, _model: str) -> Iterator[Finding]:
    for place, message in objects(body.get("messages")):
        seen: set[str] = set()
        for number, part in _parts(message, "tool_result"):
            given = words(part.get("tool_use_id"))
            if given is not None and given in seen:
                yield f"messages.{place}.content.{number}", f"is a second result of {shown(given)}"
            seen.add(given or "")


def _results_first(body: Json, _model: str) -> Iterator[Finding]:
    for place, message in objects(body.get("messages")):
        results = [number for number, _ in _parts(message, "tool_result")]
        others = [number for number, part in objects(message.get("content")) if part.get("type") != "tool_result"]
        if results and others and others[0] < results[-1]:
            yield f"messages.{place}.content.{others[0]}", "stands before a tool_result; results must come first"


def _signed(body: Json, _model: str) -> Iterator[Finding]:
    for at, part in _every(body, "thinking"):
        if not words(part.get("signature")):
            yield f"{at}.signature", f"is {shown(part.get('signature'))}; thinking goes back with its signature"


def _begins_with_thinking(body: Json, _model: str) -> Iterator[Finding]:
    setting = body.get("thinking")
    if not (isinstance(setting, dict) and setting.get("type") == "enabled"):
        return
    answers = [found for found in objects(body.get("messages")) if found[1].get("role") == "assistant"]
    for place, message in answers[-1:]:
        first = next(iter(objects(message.get("content"))), None)
        if _parts(message, "tool_use") and first and first[1].get("type") not in ("thinking", "redacted_thinking"):
            yield (
                f"messages.{place}.content.0",
                f"expected thinking or redacted_thinking, found {shown(first[1].get('type'))}",
            )


def _choice(body: Json, _model: str) -> Iterator[Finding]:
    tools = objects(body.get("tools"))
    known = {name for _, tool in tools if (name := words(tool.get("name"))) is not None}
    choice = body.get("tool_choice")
    if choice is not None and not tools:
        yield "tool_choice", "there are no tools to choose from"
    elif isinstance(choice, dict) and choice.get("type") == "tool" and len(known) == len(tools):  # else: toolsets
        yield from unknown_tool("tool_choice", named_tool(choice, "name"), known)


_REFERENCE = "https://docs.anthropic.com/en/api/messages"
_RULES = (
    Rule("form", _form, _REFERENCE),
    Rule("first_message_is_user", _first_is_user, "livekit/agents#669"),
    Rule("content_not_empty", _content, "anthropics/claude-code#6774"),
    Rule("text_not_blank", _not_blank, "anthropics/claude-code#59812, NousResearch/hermes-agent#63983"),
    Rule("no_trailing_white_space", _no_trailing_space, "anomalyco/opencode#1295, aaif-goose/goose#5967"),
    Rule("id_pattern", _ids, "maximhq/bifrost#5097, langchain-ai/langchain#37756"),
    Rule("id_unique", _unique_ids, "trycua/cua#524, anthropics/claude-code#20901"),
    Rule("input_is_object", _input, "anthropics/claude-code#6696, prism-php/prism#659"),
    Rule("call_answered_next", _answered, _PAIRED),
    Rule("result_has_call", _expected, _PAIRED),
    Rule("one_result_a_call", _one_result, "vectorize-io/hindsight#4250"),
    Rule(
        "results_first",
        _results_first,
        "https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/implement-tool-use",
    ),
    Rule("thinking_signed", _signed, "alibaba/open-code-review#811, maximhq/bifrost#5638"),
    Rule("answer_begins_with_thinking", _begins_with_thinking, "RooCodeInc/Roo-Code#10351"),
    Rule("tool_choice_known", _choice, _REFERENCE),
)


def list_rules(traits: Traits) -> tuple[Rule, ...]:
    """Return the rules of this provider, in the order in which they are checked."""
    return _RULES
