"""Rules of wires whose calls and results pair as those of Chat Completions do: calls in an assistant message, then one
message of the role ``tool`` for each result.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamkit.providers.request_rule import Finding, Json, is_object_text, objects, short_json, as_text_or_none

__all__ = ["arguments_are_object_text", "calls_have_results", "calls_of", "ids_present", "results_have_calls"]


def calls_of(body: Json) -> Iterator[tuple[str, Json]]:
    """Every call of the thread, with its place."""
    for place, message in objects(body.get("messages")):
        for number, call in objects(message.get("tool_calls")):
            yield f"messages.{place}.tool_calls.{number}", call


def ids_present(body: Json, _model: str) -> Iterator[Finding]:
    """Calls and results without an id."""
    for at, call in calls_of(body):
        if not as_text_or_none(call.get("id")):
            yield f"{at}.id", f"is {short_json(call.get('id'))}, not text that names the call"
    for place, message in objects(body.get("messages")):
        if message.get("role") == "tool" and not as_text_or_none(message.get("tool_call_id")):
            at = f"messages.{place}.tool_call_id"
            yield at, f"is {short_json(message.get('tool_call_id'))}, not the id of a call"


def calls_have_results(body: Json, _model: str) -> Iterator[Finding]:
    """Calls without a tool message directly behind theirs."""
    messages = objects(body.get("messages"))
    for index, (place, message) in enumerate(messages):
        calls = objects(message.get("tool_calls"))
        if not calls or message.get("role") != "assistant":
            continue
        results: set[str | None] = set()
        behind = index + 1
        while behind < len(messages) and messages[behind][1].get("role") == "tool":
            results.add(as_text_or_none(messages[behind][1].get("tool_call_id")))
            behind += 1
        for number, call in calls:
            given = as_text_or_none(call.get("id"))
            if given and given not in results:
                yield (
                    f"messages.{place}.tool_calls.{number}",
                    f"no tool message behind it responds to {short_json(given)}",
                )


def results_have_calls(body: Json, _model: str) -> Iterator[Finding]:
    """Tool messages that respond to no call of the assistant message that they follow."""
    asked: set[str | None] = set()
    for place, message in objects(body.get("messages")):
        if message.get("role") == "tool":
            given = as_text_or_none(message.get("tool_call_id"))
            if given and given not in asked:
                yield f"messages.{place}", f"responds to {short_json(given)}, which the message before it did not call"
        else:
            asked = {as_text_or_none(call.get("id")) for _, call in objects(message.get("tool_calls"))}


def arguments_are_object_text(body: Json, _model: str) -> Iterator[Finding]:
    """Calls whose arguments are not the JSON text of an object."""
    for at, call in calls_of(body):
        if call.get("type") == "custom":
            custom = call.get("custom")
            if not isinstance(custom, dict) or not isinstance(custom.get("input"), str):
                yield f"{at}.custom.input", "is not text"
            continue
        function = call.get("function")
        given = function.get("arguments") if isinstance(function, dict) else None
        if not is_object_text(given):
            yield f"{at}.function.arguments", f"is {short_json(given)}, not the JSON text of an object"
