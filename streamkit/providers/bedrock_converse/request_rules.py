"""What Bedrock's Converse refuses.

Wire      https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html

Some rules are the service's, some those of Claude behind it; what only other models behind it refuse (such as text
beside results, langchain-ai/langchain-aws#141) is not here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from streamkit.providers.message_lists import form_of_messages, named_tool, unknown_tool
from streamkit.providers.provider import Traits
from streamkit.providers.request_rule import Finding, Json, Rule, objects, shown, words

__all__ = ["list_rules"]

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def _parts(message: Json, kind: str) -> list[tuple[int, Json]]:
    found = ((number, part.get(kind)) for number, part in objects(message.get("content")))
    return [(number, value) for number, value in found if isinstance(value, dict)]


def _calls(message: Json) -> list[tuple[int, Json]]:
    """The client's calls; one with a type is run by the service."""
    return [(number, call) for number, call in _parts(message, "toolUse") if "type" not in call]


def _results(message: Json) -> list[tuple[int, Json]]:
    return [(number, result) for number, result in _parts(message, "toolResult") if "type" not in result]


def _form(body: Json, _model: str) -> Iterator[Finding]:
    yield from form_of_messages(
        body, field="messages", parts="content", roles=("user", "assistant"), only_parts=True, bare=False
    )


def _first_is_user(body: Json, _model: str) -> Iterator[Finding]:
    for place, message in objects(body.get("messages"))[:1]:
        if place == 0 and message.get("role") == "assistant":
            yield "messages.0.role", "a conversation must start with a user message"


def _alternate(body: Json, _model: str) -> Iterator[Finding]:
    messages = objects(body.get("messages"))
    for (_, before), (place, message) in pairwise(messages):
        if message.get("role") == before.get("role"):
            yield f"messages.{place}.role", "a conversation must alternate between user and assistant roles"


def _not_blank(body: Json, _model: str) -> Iterator[Finding]:
    for place, message in objects(body.get("messages")):
        for number, part in objects(message.get("content")):
            at = f"messages.{place}.content.{number}"
            texts = [(at, part)]
            if isinstance(part.get("toolResult"), dict):
                inner = objects(part["toolResult"].get("content"))
                texts = [(f"{at}.toolResult.content.{index}", one) for index, one in inner]
            for where, holder in texts:
                if "text" in holder and not (words(holder["text"]) or "").strip():
                    yield f"{where}.text", f"is {shown(holder['text'])}: the text field in the ContentBlock is blank"


def _no_trailing_space(body: Json, _model: str) -> Iterator[Finding]:
    for place, message in objects(body.get("messages"))[-1:]:
        parts = objects(message.get("content"))
        text = words(parts[-1][1].get("text")) if parts else None
        if message.get("role") == "assistant" and text and text.strip() and text != text.rstrip():
            yield f"messages.{place}.content.{parts[-1][0]}.text", "final assistant content ends in white space"


def _ids(body: Json, _model: str) -> Iterator[Finding]:
    for place, message in objects(body.get("messages")):
        for kind, parts in (("toolUse", _calls(message)), ("toolResult", _results(message))):
            for number, value in parts:
                given = words(value.get("toolUseId"))
                if given is None or not _ID.fullmatch(given):
                    at = f"messages.{place}.content.{number}.{kind}.toolUseId"
                    yield at, f"is {shown(value.get('toolUseId'))}, not 1 to 64 of a-z, A-Z, 0-9, _ and -"


def _unique_ids(body: Json, _model: str) -> Iterator[Finding]:
    seen: set[str] = set()
    for place, message in objects(body.get("messages")):
        for number, call in _calls(message):
            given = words(call.get("toolUseId"))
            if given is not None and given in seen:
                yield f"messages.{place}.content.{number}.toolUse", f"{shown(given)}: tool_use ids must be unique"
            seen.add(given or "")


def _input(body: Json, _model: str) -> Iterator[Finding]:
    for place, message in objects(body.get("messages")):
        for number, call in _calls(message):
            if not isinstance(call.get("input"), dict):
                at = f"messages.{place}.content.{number}.toolUse.input"
                yield at, f"is {shown(call.get('input'))}, not an object"


def _ids_of(parts: list[tuple[int, Json]]) -> set[str | None]:
    return {words(value.get("toolUseId")) for _, value in parts}


def _answered(body: Json, _model: str) -> Iterator[Finding]:
    messages = objects(body.get("messages"))
    for (place, message), following in zip(messages, [*messages[1:], (0, {})], strict=False):
        answered = _ids_of(_results(following[1]))
        for number, call in _calls(message):
            given = words(call.get("toolUseId"))
            if given and given not in answered:
                yield f"messages.{place}.content.{number}", f"expected a toolResult for {shown(given)} in the next one"


def _expected(body: Json, _model: str) -> Iterator[Finding]:
    before: Json = {}
    for place, message in objects(body.get("messages")):
        asked = _ids_of(_calls(before))
        for number, result in _results(message):
            given = words(result.get("toolUseId"))
            if given and given not in asked:
                yield (
                    f"messages.{place}.content.{number}",
                    f"{shown(given)} exceeds the toolUse blocks of the turn before",
                )
        before = message


def _results_first(body: Json, _model: str) -> Iterator[Finding]:
    for place, message in objects(body.get("messages")):
        results = [number for number, _ in _results(message)]
        others = [number for number, part in objects(message.get("content")) if "toolResult" not in part]
        if results and others and others[0] < results[-1]:
            yield f"messages.{place}.content.{others[0]}", "stands before a toolResult; the message begins with them"


def _error_says_something(body: Json, _model: str) -> Iterator[Finding]:
    for place, message in objects(body.get("messages")):
        for number, result in _results(message):
            if result.get("status") == "error" and not objects(result.get("content")):
                at = f"messages.{place}.content.{number}.toolResult.content"
                yield at, "cannot be empty when status value is error"


def _ends_with_calls(body: Json, _model: str) -> Iterator[Finding]:
    for place, message in objects(body.get("messages")):
        parts = objects(message.get("content"))
        if message.get("role") == "assistant" and _calls(message) and "toolUse" not in parts[-1][1]:
            yield (
                f"messages.{place}.content.{parts[-1][0]}",
                "stands behind a toolUse: it is taken for a prefilled answer",
            )


def _tools(body: Json, _model: str) -> Iterator[Finding]:
    config = body.get("toolConfig")
    tools = objects(config.get("tools")) if isinstance(config, dict) else []
    if not tools:
        for place, message in objects(body.get("messages")):
            if _parts(message, "toolUse") or _parts(message, "toolResult"):
                yield (
                    f"messages.{place}",
                    "the toolConfig field must be defined when using toolUse and toolResult blocks",
                )
                return
    known = {name for _, tool in tools if (name := named_tool(tool, "toolSpec", "name")) is not None}
    chosen = named_tool(config, "toolChoice", "tool", "name")
    yield from unknown_tool("toolConfig.toolChoice", chosen, known)


_REFERENCE = "https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_"
_RULES = (
    Rule("form", _form, f"{_REFERENCE}Message.html"),
    Rule("first_message_is_user", _first_is_user, "langgenius/dify#12340, elastic/kibana#246393"),
    Rule("roles_alternate", _alternate, "langchain-ai/langchain-aws#130, Portkey-AI/gateway#748"),
    Rule("text_not_blank", _not_blank, "aws-samples/bedrock-engineer#8, NousResearch/hermes-agent#55092"),
    Rule("no_trailing_white_space", _no_trailing_space, "junjiem/dify-plugin-agent-mcp_sse#118"),
    Rule("id_pattern", _ids, f"{_REFERENCE}ToolUseBlock.html"),
    Rule("id_unique", _unique_ids, "trycua/cua#524, of Claude behind it"),
    Rule("input_is_object", _input, f"{_REFERENCE}ToolUseBlock.html"),
    Rule("call_answered_next", _answered, "genkit-ai/aws-bedrock-js-plugin#664, agno-agi/agno#6694"),
    Rule("result_has_call", _expected, "strands-agents/harness-sdk#1435, pydantic/pydantic-ai#2327"),
    Rule("results_first", _results_first, "langchain-ai/langchain-aws#451"),
    Rule(
        "failed_result_not_empty",
        _error_says_something,
        "aws-samples/sample-multi-agent-orchestration-chat-on-agentcore#15",
    ),
    Rule("answer_ends_with_calls", _ends_with_calls, "NousResearch/hermes-agent#108209"),
    Rule("tools_defined", _tools, "langgenius/dify#16421"),
)


def list_rules(traits: Traits) -> tuple[Rule, ...]:
    """Return the rules of this provider, in the order in which they are checked."""
    return _RULES
