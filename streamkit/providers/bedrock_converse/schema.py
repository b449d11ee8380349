"""The wire format of Bedrock's ConverseStream: the types of its events.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html. A message is a list of indexed
blocks::

    messageStart         {role}
    contentBlockStart    {contentBlockIndex, start: {toolUse | toolResult | image}}      text and reasoning have none
    contentBlockDelta    {contentBlockIndex, delta: {text | toolUse | reasoningContent | citation | toolResult | image}}
    contentBlockStop     {contentBlockIndex}
    messageStop          {stopReason, additionalModelResponseFields}
    metadata             {usage, metrics, trace}                                         follows messageStop

Each event is a frame of that name. boto3 yields the same as ``{name: body}``, with binary values as bytes where the
JSON has base64. Every body also has ``p``, padding of random length without meaning.

Only the frequent event is a struct. Its leaves are ``Any`` because gateways that imitate the API send other types. This
module must not depend on sinks, history or requests.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from streamkit.calls import FinishReason

__all__ = [
    "DECODER",
    "FAMILY",
    "FINISH_REASONS",
    "PREFERRED_NAMES",
    "BlockDelta",
    "Delta",
    "Json",
    "ReasoningDelta",
    "ToolUseDelta",
]

Json: TypeAlias = dict[str, Any]

#: Providers whose blocks are sent back to this one unchanged. A Claude's signature is valid on Anthropic's own wires
#: too, but this service also runs other vendors' models, which refuse it, and the messages do not name the model.
FAMILY = frozenset({"bedrock_converse"})

#: The neutral reason of each ``stopReason``. The last two are not the service's but Claude's, for gateways that imitate
#: the API over Anthropic's.
FINISH_REASONS: Final[dict[str, FinishReason]] = {
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

#: The names that the inverse of ``FINISH_REASONS`` has instead of the table's first.
PREFERRED_NAMES: Final[dict[FinishReason, str]] = {"content_filter": "content_filtered"}


class ToolUseDelta(Struct, gc=False, rename="camel"):
    """An increment of a call's argument text."""

    input: Any = None
    tool_use_id: Any = None  #: not in the service's schema; gateways that send no start have it here


class ReasoningDelta(Struct, gc=False, rename="camel"):
    """An increment of reasoning; one member is set."""

    text: Any = None
    signature: Any = None
    redacted_content: Any = None


class Delta(Struct, gc=False, rename="camel"):
    """The increment of a ``contentBlockDelta``, as far as the fast path reads it; one member is set."""

    text: Any = None
    tool_use: ToolUseDelta | None = None
    reasoning_content: ReasoningDelta | None = None


class BlockDelta(Struct, gc=False, rename="camel"):
    """A ``contentBlockDelta``."""

    content_block_index: Any = None
    delta: Delta | None = None


DECODER = msgspec.json.Decoder(BlockDelta)
