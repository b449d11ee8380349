"""What Ollama refuses: what does not fit its types. It does not pair calls and results.

Wire      https://docs.ollama.com/api/chat
"""

from __future__ import annotations

from collections.abc import Iterator

from streamkit.providers.provider import Traits
from streamkit.providers.request_rule import Finding, Json, Rule, objects, short_json

__all__ = ["list_rules"]


def _form(body: Json, _model: str) -> Iterator[Finding]:
    if "messages" not in body:
        return
    if not isinstance(body["messages"], list):
        yield "messages", f"is {short_json(body['messages'])}, not a list"
        return
    for place, message in enumerate(body["messages"]):
        if not isinstance(message, dict):
            yield f"messages.{place}", f"is {short_json(message)}, not an object"
        elif not isinstance(message.get("role"), str):
            yield f"messages.{place}.role", f"is {short_json(message.get('role'))}, not text"


def _content(body: Json, _model: str) -> Iterator[Finding]:
    for place, message in objects(body.get("messages")):
        if not isinstance(message.get("content") or "", str):
            yield f"messages.{place}.content", f"cannot unmarshal {short_json(message['content'])} into a string"


def _arguments(body: Json, _model: str) -> Iterator[Finding]:
    for place, message in objects(body.get("messages")):
        for number, call in objects(message.get("tool_calls")):
            function = call.get("function")
            given = function.get("arguments") if isinstance(function, dict) else None
            if not isinstance(given, dict):
                at = f"messages.{place}.tool_calls.{number}.function.arguments"
                yield at, f"cannot unmarshal {short_json(given)} into an object"


_RULES = (
    Rule("form", _form, "https://docs.ollama.com/api/chat"),
    Rule("content_is_text", _content, "BerriAI/litellm#11273"),
    Rule("arguments_are_object", _arguments, "neuron-core/neuron-ai#219, aliasrobotics/cai#76"),
)


def list_rules(traits: Traits) -> tuple[Rule, ...]:
    """Return the rules of this provider, in the order in which they are checked."""
    return _RULES
