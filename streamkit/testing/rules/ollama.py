"""The requests that Ollama refuses: bodies that do not fit its types. It does not pair calls and results.

https://docs.ollama.com/api/chat

Each rule reports the places of a body that break it. A rule must not raise an exception for a body of another form:
that is reported by the rule ``form``.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamkit.providers.provider import Traits
from streamkit.testing.rules.pairing import calls_of
from streamkit.testing.rules.rule import Finding, Json, Rule, objects, short_json

__all__ = ["build_rules"]


def build_rules(traits: Traits) -> tuple[Rule, ...]:
    """Return the rules of this provider, in the order in which they are checked."""
    return _RULES


def _messages_have_form(body: Json, _model: str) -> Iterator[Finding]:
    if "messages" not in body:
        return
    if not isinstance(body["messages"], list):
        yield "messages", f"is {short_json(body['messages'])}, not a list"
        return
    for index, message in enumerate(body["messages"]):
        if not isinstance(message, dict):
            yield f"messages.{index}", f"is {short_json(message)}, not an object"
        elif not isinstance(message.get("role"), str):
            yield f"messages.{index}.role", f"is {short_json(message.get('role'))}, not text"


def _contents_are_text(body: Json, _model: str) -> Iterator[Finding]:
    for index, message in objects(body.get("messages")):
        if not isinstance(message.get("content") or "", str):
            yield f"messages.{index}.content", f"cannot unmarshal {short_json(message['content'])} into a string"


def _arguments_are_objects(body: Json, _model: str) -> Iterator[Finding]:
    for path, call in calls_of(body):
        function = call.get("function")
        arguments = function.get("arguments") if isinstance(function, dict) else None
        if not isinstance(arguments, dict):
            yield f"{path}.function.arguments", f"cannot unmarshal {short_json(arguments)} into an object"


_RULES = (
    Rule("form", _messages_have_form, "https://docs.ollama.com/api/chat"),
    Rule("content_is_text", _contents_are_text, "BerriAI/litellm#11273"),
    Rule("arguments_are_object", _arguments_are_objects, "neuron-core/neuron-ai#219, aliasrobotics/cai#76"),
)
