"""The fields of a message and of its events that are neither content, usage nor a stop reason.

Wire: https://docs.anthropic.com/en/api/messages. They describe the response and are kept as its metadata, by the
provider's names. A field that the vendor does not document (a gateway's own) is kept too, and reported. The message of
a ``message_start`` is compared with a second one, because relays repeat the event or splice another message into a
stream. This module must not depend on content blocks.
"""

from __future__ import annotations

from typing import Final

import msgspec

from streamkit.json_text import json_size, measure_encoded
from streamkit.providers.anthropic.schema import Json
from streamkit.providers.decoding.decoding import as_text, has_value
from streamkit.providers.provider import Sink

__all__ = [
    "EVENT_FIELDS",
    "INVOCATION_METRICS",
    "StartedMessage",
    "facts_of",
    "keep_facts",
]


#: The field of ``message_stop`` with Bedrock's own count of the tokens.
INVOCATION_METRICS: Final = "amazon-bedrock-invocationMetrics"
#: The fields of each event. ``content_block`` and ``message`` in the last two are of the SDK's accumulating stream, and
#: repeat what was streamed.
EVENT_FIELDS: Final = {
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
_encode = msgspec.json.Encoder(order="sorted").encode  # messages are equal in whatever order their fields are


def facts_of(fields: Json) -> Json:
    """Return the other fields of a message that have a value."""
    facts: Json = {}
    for name, value in fields.items():
        if name not in _READ_ELSEWHERE and value is not None and value != "":
            facts[str(name)] = value
    return facts


def keep_facts(facts: Json, sink: Sink) -> None:
    """Keep the other fields of a message, or of a ``message_delta`` and its delta, as metadata of the response."""
    for name, value in facts.items():
        if name not in _METADATA and has_value(value):
            sink.unknown_field(name, value)
    sink.add_response_metadata(facts)


class StartedMessage:
    """The message of a ``message_start``: its id and a hash of its JSON.

    That is a tenth of the memory of its dicts, and most turns have only one message.

    Args:
        message: the message as plain data.

    Attributes:
        id: its id; None if it has none.
        size: what it counts against a limit (``json_size``).
    """

    __slots__ = ("_hash", "id", "size")

    def __init__(self, message: Json) -> None:
        self.id = as_text(message.get("id"))
        self._hash: int | Json
        try:
            text = _encode(message)
        except (ValueError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError):
            # Half of a surrogate pair, too deep nesting: the message itself is compared.
            self._hash, self.size = message, json_size(message)
        else:
            self._hash, self.size = hash(text), measure_encoded(text)[0]

    def equals(self, other: StartedMessage) -> bool:
        """Return True if another message is equal to this one."""
        try:
            return self._hash == other._hash
        except RecursionError:
            return False
