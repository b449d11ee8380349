"""The vocabulary of Bedrock's ConverseStream.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html. A message is numbered blocks::

    messageStart         {role}
    contentBlockStart    {contentBlockIndex, start: {toolUse | toolResult | image}}      text and reasoning have none
    contentBlockDelta    {contentBlockIndex, delta: {text | toolUse | reasoningContent | citation | toolResult | image}}
    contentBlockStop     {contentBlockIndex}
    messageStop          {stopReason, additionalModelResponseFields}
    metadata             {usage, metrics, trace}                                         follows messageStop

Each event is a frame of that name. boto3 gives the same as ``{name: body}``, with binary values as bytes where the JSON
has base64. Every body also has ``p``, padding of random length that says nothing.

Only the hot event is a struct; leaves are ``Any`` because gateways that imitate the API send other types. This file
knows the wire alone: nothing of sinks, history or requests.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from streamkit.calls import FinishReason

__all__ = ["DECODER", "FAMILY", "STOP_REASONS", "WORDS", "BlockDelta", "Delta", "Json", "Thought", "ToolInput"]

Json: TypeAlias = dict[str, Any]

#: Providers whose blocks go back to this one unchanged. A Claude's signature is good on Anthropic's own wires too, but
#: behind this one stand other vendors' models that refuse it, and which one does is not known here.
FAMILY = frozenset({"bedrock_converse"})

#: The service's word for why the model stopped, and what it means. The last two are not its own but Claude's, for
#: gateways that imitate the API over Anthropic's.
STOP_REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
    "malformed_model_output": "error",
    "malformed_tool_use": "error",
    "refusal": "refusal",
    "pause_turn": "pause",
}

#: The way back, for the emitted stream; an ``error`` is an exception instead.
WORDS: dict[FinishReason, str] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "content_filtered",
    "refusal": "refusal",
    "pause": "pause_turn",
    "error": "malformed_model_output",
    "other": "other",
}


class ToolInput(Struct, gc=False, rename="camel"):
    """A piece of a call's argument text."""

    input: Any = None
    tool_use_id: Any = None  #: not in the vocabulary; gateways that leave the start out have it here


class Thought(Struct, gc=False, rename="camel"):
    """A piece of reasoning; one member is there."""

    text: Any = None
    signature: Any = None
    redacted_content: Any = None


class Delta(Struct, gc=False, rename="camel"):
    """What a ``contentBlockDelta`` brings, as far as the short path reads it; one member is there."""

    text: Any = None
    tool_use: ToolInput | None = None
    reasoning_content: Thought | None = None


class BlockDelta(Struct, gc=False, rename="camel"):
    """A ``contentBlockDelta``."""

    content_block_index: Any = None
    delta: Delta | None = None


DECODER = msgspec.json.Decoder(BlockDelta)
