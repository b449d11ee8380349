"""Request rules for wires with the message form of Chat Completions.

Calls are in an assistant message, and each result is a message of the role ``tool`` after it. This module must not
depend on a provider.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamkit.providers.request_rule import Finding, Json, as_text_or_none, is_object_text, objects, short_json

__all__ = ["arguments_are_object_text", "calls_have_results", "calls_of", "ids_present", "results_have_calls"]


def calls_of(body: Json) -> Iterator[tuple[str, Json]]:
    """Yield every call of a body's messages with its path."""
    for index, message in objects(body.get("messages")):
        for number, call in objects(message.get("tool_calls")):
            yield f"messages.{index}.tool_calls.{number}", call


def ids_present(body: Json, _model: str) -> Iterator[Finding]:
    """Yield every call and every result without an id."""
    for path, call in calls_of(body):
        if not as_text_or_none(call.get("id")):
            yield f"{path}.id", f"is {short_json(call.get('id'))}, not text that names the call"
    for index, message in objects(body.get("messages")):
        if message.get("role") == "tool" and not as_text_or_none(message.get("tool_call_id")):
            path = f"messages.{index}.tool_call_id"
            yield path, f"is {short_json(message.get('tool_call_id'))}, not the id of a call"


def calls_have_results(body: Json, _model: str) -> Iterator[Finding]:
    """Yield every call without a result among the tool messages directly after its message."""
    messages = objects(body.get("messages"))
    for position, (index, message) in enumerate(messages):
        calls = objects(message.get("tool_calls"))
        if not calls or message.get("role") != "assistant":
            continue
        result_ids: set[str | None] = set()
        following = position + 1
        while following < len(messages) and messages[following][1].get("role") == "tool":
            result_ids.add(as_text_or_none(messages[following][1].get("tool_call_id")))
            following += 1
        for number, call in calls:
            call_id = as_text_or_none(call.get("id"))
            if call_id and call_id not in result_ids:
                path = f"messages.{index}.tool_calls.{number}"
                yield path, f"no tool message after it responds to {short_json(call_id)}"


def results_have_calls(body: Json, _model: str) -> Iterator[Finding]:
    """Yield every tool message that responds to no call of the assistant message before it."""
    call_ids: set[str | None] = set()
    for index, message in objects(body.get("messages")):
        if message.get("role") == "tool":
            result_id = as_text_or_none(message.get("tool_call_id"))
            if result_id and result_id not in call_ids:
                reason = f"responds to {short_json(result_id)}, which the assistant message before it did not call"
                yield f"messages.{index}", reason
        else:
            call_ids = {as_text_or_none(call.get("id")) for _, call in objects(message.get("tool_calls"))}


def arguments_are_object_text(body: Json, _model: str) -> Iterator[Finding]:
    """Yield every call whose arguments are not the JSON text of an object."""
    for path, call in calls_of(body):
        if call.get("type") == "custom":
            custom = call.get("custom")
            if not isinstance(custom, dict) or not isinstance(custom.get("input"), str):
                yield f"{path}.custom.input", "is not text"
            continue
        function = call.get("function")
        arguments = function.get("arguments") if isinstance(function, dict) else None
        if not is_object_text(arguments):
            yield f"{path}.function.arguments", f"is {short_json(arguments)}, not the JSON text of an object"
