"""The fields of a message and of its events that are neither content, usage nor a stop reason.

Wire: https://docs.anthropic.com/en/api/messages. They describe the response and are kept as its metadata, by the
provider's names. A field that the vendor does not document (a gateway's own) is kept too, and reported. This module
must not depend on content blocks.
"""

from __future__ import annotations

from typing import Any, Final

from streamkit.providers.anthropic.schema import Json
from streamkit.providers.provider import Sink
from streamkit.providers.unknown_fields import has_value, report_unknown_fields

__all__ = ["INVOCATION_METRICS", "facts_of", "keep_facts", "report_event_fields"]

#: The field of ``message_stop`` with Bedrock's own count of the tokens.
INVOCATION_METRICS: Final = "amazon-bedrock-invocationMetrics"

#: The fields of each event. ``content_block`` and ``message`` in the last two are of the SDK's accumulating stream, and
#: repeat what was streamed.
_EVENT_FIELDS: Final = {
    "content_block_start": frozenset({"type", "index", "content_block"}),
    "content_block_stop": frozenset({"type", "index", "content_block"}),
    "message_start": frozenset({"type", "message", "usage"}),
    "message_stop": frozenset({"type", "message", "usage", INVOCATION_METRICS}),
    "ping": frozenset({"type"}),
}
#: Fields of a message or a ``message_delta`` that have a place of their own.
_READ_ELSEWHERE: Final = frozenset({"type", "id", "model", "role", "content", "delta", "usage", "stop_reason"})
#: Documented fields without an event (BetaMessage and BetaRawMessageDeltaEvent of the SDK 2.12); ``provider`` is
#: OpenRouter's.
_METADATA: Final = frozenset(
    {"stop_sequence", "stop_details", "container", "context_management", "diagnostics", "input_transformations"}
    | {"provider"}
)


def report_event_fields(event: Json, event_type: Any, sink: Sink) -> None:
    """Report the fields of an event that its type does not have; ``message_delta`` has facts."""
    known = _EVENT_FIELDS.get(event_type) if isinstance(event_type, str) else None
    if known is not None:
        report_unknown_fields(sink, event, known)


def facts_of(fields: Json) -> Json:
    """Return the other fields of a message that have a value."""
    return {
        str(name): value
        for name, value in fields.items()
        if name not in _READ_ELSEWHERE and value is not None and value != ""
    }


def keep_facts(facts: Json, sink: Sink) -> None:
    """Keep the other fields of a message, or of a ``message_delta`` and its delta, as metadata of the response."""
    for name, value in facts.items():
        if name not in _METADATA and has_value(value):
            sink.unknown_field(name, value)
    sink.add_response_metadata(facts)
