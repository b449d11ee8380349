"""The objects in an event of Cohere as plain data, and the report of their unknown fields.

An event of the usual form is decoded to structs, which have no other fields. This module must not depend on the state
of a stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamkit.providers.cohere.schema import (
    CALL_FIELDS,
    CONTENT_FIELDS,
    DELTA_FIELDS,
    EVENT_FIELDS,
    FUNCTION_FIELDS,
    MESSAGE_FIELDS,
    Json,
)
from streamkit.providers.provider import Sink
from streamkit.providers.unknown_fields import report_unknown_fields

__all__ = ["as_object", "message_in", "numbered", "report_event_fields"]


def report_event_fields(event: Json, sink: Sink) -> None:
    """Report the fields of an event, or of a body, that no event of this package describes."""
    report_unknown_fields(sink, event, EVENT_FIELDS)
    report_unknown_fields(sink, event.get("delta"), DELTA_FIELDS, "delta.")
    message = message_in(event) or as_object(event.get("message"))
    report_unknown_fields(sink, message, MESSAGE_FIELDS, "message.")
    for _, call in numbered(message.get("tool_calls")):
        function = as_object(call).get("function")
        if isinstance(function, dict):  # another call is unknown as a whole, as is a part below
            report_unknown_fields(sink, call, CALL_FIELDS, "tool_call.")
            report_unknown_fields(sink, function, FUNCTION_FIELDS, "tool_call.function.")
    for _, part in numbered(message.get("content")):
        if as_object(part).keys() & {"text", "thinking"}:
            report_unknown_fields(sink, part, CONTENT_FIELDS, "content.")


def message_in(event: Json) -> Json | None:
    """Return the message of an event; None if it has none."""
    delta = event.get("delta")
    message = delta.get("message") if isinstance(delta, dict) else None
    return message if isinstance(message, dict) else None


def numbered(value: Any) -> Iterator[tuple[int, Any]]:
    """Yield the numbered values of a field that is one object in a stream and a list of objects in a body."""
    if isinstance(value, list):
        yield from enumerate(value)
    elif value is not None and value != "":
        yield 0, value


def as_object(value: Any) -> Json:
    """Return a value if it is an object, else an empty object."""
    return value if isinstance(value, dict) else {}
