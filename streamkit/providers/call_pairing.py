"""Request rules of wires that pair calls and results as Chat Completions does.

Calls are in an assistant message, and each result is a message of the role ``tool`` after it. The counterpart for wires
with content blocks is ``block_pairing``. This module depends on no provider.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamkit.providers.request_rule import Finding, Json, as_text_or_none, is_object_text, objects, short_json

__all__ = ["arguments_are_object_text", "calls_have_results", "calls_of", "ids_present", "results_have_calls"]


def calls_of(body: Json) -> Iterator[tuple[str, Json]]:
    """Yield every call of the conversation with its path."""
    for index, message in objects(body.get("messages")):
        for number, call in objects(message.get("tool_calls")):
            yield f"messages.{index}.tool_calls.{number}", call


def ids_present(body: Json, _model: str) -> Iterator[Finding]:
    """Yield calls and results without an id."""
    for path, call in calls_of(body):
        if not as_text_or_none(call.get("id")):
            yield f"{path}.id", f"is {short_json(call.get('id'))}, not the id of the call"
    for index, message in objects(body.get("messages")):
        if message.get("role") == "tool" and not as_text_or_none(message.get("tool_call_id")):
            path = f"messages.{index}.tool_call_id"
            yield path, f"is {short_json(message.get('tool_call_id'))}, not the id of a call"


def calls_have_results(body: Json, _model: str) -> Iterator[Finding]:
    """Yield calls without a tool message directly after theirs."""
    messages = objects(body.get("messages"))
    for position, (index, message) in enumerate(messages):
        calls = objects(message.get("tool_calls"))
        if not calls or message.get("role") != "assistant":
            continue
        result_ids: set[str | None] = set()
        for _, following in messages[position + 1 :]:
            if following.get("role") != "tool":
                break
            result_ids.add(as_text_or_none(following.get("tool_call_id")))
        for number, call in calls:
            call_id = as_text_or_none(call.get("id"))
            if call_id and call_id not in result_ids:
                path = f"messages.{index}.tool_calls.{number}"
                yield path, f"no tool message after it is the result of {short_json(call_id)}"


def results_have_calls(body: Json, _model: str) -> Iterator[Finding]:
    """Yield tool messages that are the result of no call of the assistant message before them."""
    call_ids: set[str | None] = set()
    for index, message in objects(body.get("messages")):
        if message.get("role") == "tool":
            call_id = as_text_or_none(message.get("tool_call_id"))
            if call_id and call_id not in call_ids:
                yield (
                    f"messages.{index}",
                    f"is the result of {short_json(call_id)}, which the message before did not call",
                )
        else:
            call_ids = {as_text_or_none(call.get("id")) for _, call in objects(message.get("tool_calls"))}


def arguments_are_object_text(body: Json, _model: str) -> Iterator[Finding]:
    """Yield calls whose arguments are not the JSON text of an object."""
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
