"""The wire format of Anthropic's Messages API: the types of its stream's events.

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

This module must not depend on sinks, history or requests.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

__all__ = [
    "DECODER",
    "EVENT_DECODER",
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
