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

Only the frequent event is a struct. The others come a few times in a turn, and their blocks are kept complete to be
sent back, so they are read as plain data. Leaves are ``Any`` and ``type`` a plain string: gateways send numbers for
strings, and types of deltas that the vendor's own types do not have yet (``compaction_delta`` was one).

This module must not depend on sinks, history or requests.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

__all__ = ["DECODER", "BlockDelta", "Event", "Json"]

Json: TypeAlias = dict[str, Any]


class BlockDelta(Struct, gc=False):
    """The increment of a ``content_block_delta``; ``type`` names the field that is set."""

    type: str = ""
    text: Any = None  #: of a text_delta
    partial_json: Any = None  #: of an input_json_delta: a part of JSON text, often empty in the first delta
    thinking: Any = None  #: of a thinking_delta
    signature: Any = None  #: of a signature_delta; some relays put it on the last thinking_delta
    citation: Any = None  #: of a citations_delta


class Event(Struct, gc=False):
    """An event of any type; only a ``content_block_delta`` is decoded further."""

    type: str = ""
    index: Any = None
    delta: BlockDelta | None = None


DECODER = msgspec.json.Decoder(Event)
