"""The wire format of Anthropic's Messages API: the types of its stream's events, and a message's other fields.

Wire: https://docs.anthropic.com/en/docs/build-with-claude/streaming and the types of the official Python SDK 2.11.

A message is a list of indexed blocks. Each event has its name in ``type``; the SSE event name only repeats it::

    message_start        {message: {id, model, content: [], usage}}
    content_block_start  {index, content_block: {type, ...}}           the block's initial state, mostly empty
    content_block_delta  {index, delta: {type, ...}}                   the frequent event: one for a few tokens
    content_block_stop   {index}
    message_delta        {delta: {stop_reason, ...}, usage}            cumulative usage
    message_stop         {}
    ping, error          between any two of them

``PlainDelta`` is exactly what the vendor sends of the frequent event: a text, thinking, signature or argument delta
with no other field. ``PlainEvent`` is any event of the usual form; its blocks and messages are plain data, because they
are kept complete to be sent back. Whatever does not fit is read again as plain data. ``Event`` declares every field of
every delta for that second reading; its leaves are ``Any`` and ``type`` a plain string, because gateways send numbers
for strings, and types of deltas that the vendor's own types do not have yet (``compaction_delta`` was one).

The fields of a message that are neither content, usage nor a stop reason (https://docs.anthropic.com/en/api/messages)
describe the response and are kept as its metadata, by the provider's names. A field that the vendor does not document
(a gateway's own) is kept too, and reported. The message of a ``message_start`` is compared with a second one, because
relays repeat the event or splice another message into a stream. This module must not depend on content blocks, history
or requests.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct, field

from streamkit.providers.decoding.decoding import has_value
from streamkit.providers.provider import Sink

__all__ = [
    "DECODER",
    "EVENT_DECODER",
    "EVENT_FIELDS",
    "INVOCATION_METRICS",
    "SYSTEM_MESSAGE_FIELDS",
    "BlockDelta",
    "BlockStart",
    "BlockStop",
    "Event",
    "InputJsonDelta",
    "Json",
    "MessageDelta",
    "MessageStart",
    "MessageStop",
    "OpenEvent",
    "PlainDelta",
    "PlainEvent",
    "SignatureDelta",
    "TextDelta",
    "ThinkingDelta",
    "encode_message",
    "facts_of",
    "keep_facts",
]


Json: TypeAlias = dict[str, Any]


#: The fields of a system message among the messages of a request, beside its content (``BetaSystemMessageParam`` of the
#: SDK 2.12).
SYSTEM_MESSAGE_FIELDS: Final = ("clear_at", "output_config")


class TextDelta(Struct, gc=False, tag_field="type", tag="text_delta", forbid_unknown_fields=True):
    """A delta of a text."""

    text: str


class InputJsonDelta(Struct, gc=False, tag_field="type", tag="input_json_delta", forbid_unknown_fields=True):
    """A delta of a call's arguments: a part of JSON text, often empty in the first delta."""

    partial_json: str


class ThinkingDelta(Struct, gc=False, tag_field="type", tag="thinking_delta", forbid_unknown_fields=True):
    """A delta of thinking."""

    thinking: str


class SignatureDelta(Struct, gc=False, tag_field="type", tag="signature_delta", forbid_unknown_fields=True):
    """The signature of a thinking block, or a part of it."""

    signature: str


class PlainDelta(Struct, gc=False, tag_field="type", tag="content_block_delta", forbid_unknown_fields=True):
    """A ``content_block_delta`` without anything unusual."""

    index: int
    delta: TextDelta | InputJsonDelta | ThinkingDelta | SignatureDelta


class BlockStart(Struct, gc=False, tag_field="type", tag="content_block_start", forbid_unknown_fields=True):
    """The start of a block."""

    index: int
    content_block: dict[str, Any]


class BlockStop(Struct, gc=False, tag_field="type", tag="content_block_stop", forbid_unknown_fields=True):
    """The end of a block."""

    index: int


class MessageStart(Struct, gc=False, tag_field="type", tag="message_start", forbid_unknown_fields=True):
    """The start of a message."""

    message: dict[str, Any]


class MessageDelta(Struct, gc=False, tag_field="type", tag="message_delta", forbid_unknown_fields=True):
    """The end of a message's content: the stop reason and the usage."""

    delta: dict[str, Any]
    usage: Any = None
    context_management: Any = None


class MessageStop(Struct, gc=False, tag_field="type", tag="message_stop", forbid_unknown_fields=True):
    """The end of a message."""

    metrics: Any = field(name="amazon-bedrock-invocationMetrics", default=None)


class Ping(Struct, gc=False, tag_field="type", tag="ping", forbid_unknown_fields=True):
    """A sign of life. It shows nothing: other wires have it too."""


PlainEvent: TypeAlias = PlainDelta | BlockStart | BlockStop | MessageStart | MessageDelta | MessageStop | Ping


class BlockDelta(Struct, gc=False, forbid_unknown_fields=True):
    """The increment of any ``content_block_delta``; ``type`` names the field that is set."""

    type: str = ""
    text: Any = None  #: of a text_delta
    partial_json: Any = None  #: of an input_json_delta
    thinking: Any = None  #: of a thinking_delta
    signature: Any = None  #: of a signature_delta; some relays put it on the last thinking_delta
    citation: Any = None  #: of a citations_delta


class Event(Struct, gc=False, forbid_unknown_fields=True):
    """A ``content_block_delta`` of any kind."""

    type: str = ""
    index: Any = None
    delta: BlockDelta | None = None


class _OpenBlockDelta(BlockDelta, gc=False, forbid_unknown_fields=False):
    """A delta that may have further fields."""


class OpenEvent(Event, gc=False, forbid_unknown_fields=False):
    """A ``content_block_delta`` whose further fields are not reported, because the whole event is kept."""

    delta: _OpenBlockDelta | None = None


DECODER = msgspec.json.Decoder(PlainDelta)


EVENT_DECODER = msgspec.json.Decoder(PlainEvent)


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


#: Messages are equal in whatever order their fields are.
encode_message = msgspec.json.Encoder(order="sorted").encode


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
