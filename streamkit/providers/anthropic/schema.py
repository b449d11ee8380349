"""What api.anthropic.com streams, as types: the vocabulary of the Messages API.

Wire: https://docs.anthropic.com/en/docs/build-with-claude/streaming and the types of the official Python SDK 2.11.

A message is numbered blocks, and each event names itself in ``type`` (the SSE event name only repeats it)::

    message_start        {message: {id, model, content: [], usage}}
    content_block_start  {index, content_block: {type, ...}}           the block as it stands, mostly empty
    content_block_delta  {index, delta: {type, ...}}                   the hot event: one for each few tokens
    content_block_stop   {index}
    message_delta        {delta: {stop_reason, ...}, usage}            cumulative figures
    message_stop         {}
    ping, error          between any two of them

Only the hot event is a struct. The others come a handful of times in a turn, and their blocks must be kept whole to be
sent back, so they are read as plain data. Leaves are ``Any`` and ``type`` a plain string: gateways send numbers for
strings and kinds of deltas that the vendor's own types do not have yet (``compaction_delta`` was one).

This file knows the wire alone: nothing of sinks, history or requests.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from streamkit.calls import FinishReason

__all__ = ["DECODER", "FAMILY", "STOP_REASONS", "WORDS", "BlockDelta", "Event", "Json"]

Json: TypeAlias = dict[str, Any]

#: Providers whose blocks are good for each other: signatures are "compatible across platforms (Claude APIs, Amazon
#: Bedrock, and Vertex AI)", https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking
FAMILY = frozenset({"anthropic", "bedrock_invoke"})

#: The vendor's word for why the model stopped, and what it means. ``compaction`` is a pause: the client that asked for
#: ``pause_after_compaction`` sends the turn back and goes on.
STOP_REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
    "pause_turn": "pause",
    "compaction": "pause",
}

#: The way back, for the emitted stream.
WORDS: dict[FinishReason, str] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
    "refusal": "refusal",
    "pause": "pause_turn",
    "error": "error",
    "other": "other",
}


class BlockDelta(Struct, gc=False):
    """The piece that a ``content_block_delta`` brings; which field is filled, ``type`` says."""

    type: str = ""
    text: Any = None  #: of a text_delta
    partial_json: Any = None  #: of an input_json_delta: a piece of JSON text, often empty at first
    thinking: Any = None  #: of a thinking_delta
    signature: Any = None  #: of a signature_delta; some relays put it on the last thinking_delta
    citation: Any = None  #: of a citations_delta


class Event(Struct, gc=False):
    """Any event; only a ``content_block_delta`` is told apart further."""

    type: str = ""
    index: Any = None
    delta: BlockDelta | None = None


DECODER = msgspec.json.Decoder(Event)
