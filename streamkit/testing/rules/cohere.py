"""The requests that Cohere's v2 chat refuses. Its calls and results pair as those of Chat Completions.

https://docs.cohere.com/v2/reference/chat

Each rule reports the places of a body that break it. A rule must not raise an exception for a body of another form:
that is reported by the rule ``form``.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamkit.providers.provider import Traits
from streamkit.testing.rules.pairing import (
    arguments_are_object_text,
    calls_have_results,
    ids_present,
    results_have_calls,
)
from streamkit.testing.rules.rule import Finding, Json, Rule, check_message_form, objects, short_json

__all__ = ["build_rules"]


def build_rules(traits: Traits) -> tuple[Rule, ...]:
    """Return the rules of this provider, in the order in which they are checked."""
    return _RULES


def _messages_have_form(body: Json, _model: str) -> Iterator[Finding]:
    roles = ("system", "user", "assistant", "tool")
    yield from check_message_form(body, field="messages", content_field="content", roles=roles, may_be_absent=True)
    for index, message in objects(body.get("messages")):
        calls = message.get("tool_calls")
        if calls is not None and (not isinstance(calls, list) or len(objects(calls)) != len(calls)):
            yield f"messages.{index}.tool_calls", f"is {short_json(calls)}, not a list of objects"


def _messages_have_text_or_calls(body: Json, _model: str) -> Iterator[Finding]:
    for index, message in objects(body.get("messages")):
        content = message.get("content")
        text = isinstance(content, str) and content
        has_text = text or any(part.get("type") == "text" for _, part in objects(content))
        if objects(message.get("tool_calls")) and has_text:
            yield f"messages.{index}.content", "text content is not allowed when tool_calls are provided: use tool_plan"


def _tool_choice_is_valid(body: Json, _model: str) -> Iterator[Finding]:
    choice = body.get("tool_choice")
    if choice is not None and choice not in ("REQUIRED", "NONE"):
        yield "tool_choice", f"is {short_json(choice)}, not REQUIRED or NONE"
    elif choice is not None and not objects(body.get("tools")):
        yield "tool_choice", "there are no tools to choose from"


_REFERENCE = "https://docs.cohere.com/v2/reference/chat"
_RULES = (
    Rule("form", _messages_have_form, _REFERENCE),
    Rule("text_or_calls", _messages_have_text_or_calls, "vercel/ai#5794"),
    Rule("id_present", ids_present, f"{_REFERENCE} (ToolMessageV2.tool_call_id), ethz-spylab/agentdojo#200"),
    Rule("call_answered_next", calls_have_results, "oracle/langchain-oracle#10, ethz-spylab/agentdojo#200"),
    Rule("result_has_call", results_have_calls, "https://docs.cohere.com/v2/docs/tool-use-usage-patterns"),
    Rule("arguments_are_object_text", arguments_are_object_text, f"{_REFERENCE} (ToolCallV2Function.arguments)"),
    Rule("tool_choice_known", _tool_choice_is_valid, _REFERENCE),
)
