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

Only the frequent event has structs, of two kinds. ``PlainDelta`` is exactly what the vendor sends: a text, thinking,
signature or argument delta with no other field. Whatever does not fit it is read again as plain data. ``Event``
declares every field of every delta for that second reading; its leaves are ``Any`` and ``type`` a plain string, because
gateways send numbers for strings, and types of deltas that the vendor's own types do not have yet
(``compaction_delta`` was one).
The other events come a few times in a turn, and their blocks are kept complete to be sent back, so they are read as
plain data.

This module must not depend on sinks, history or requests.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

__all__ = [
    "DECODER",
    "BlockDelta",
    "Event",
    "InputJsonDelta",
    "Json",
    "OpenEvent",
    "PlainDelta",
    "SignatureDelta",
    "TextDelta",
    "ThinkingDelta",
]

Json: TypeAlias = dict[str, Any]


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
