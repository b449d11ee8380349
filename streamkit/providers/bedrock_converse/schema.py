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

Only the frequent event is a struct. Its leaves are ``Any`` because gateways that imitate the API send other types. The
structs refuse fields that they do not declare: such an event is read again as plain data, where the field is reported.
This module must not depend on sinks, history or requests.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

__all__ = [
    "DECODER",
    "BlockDelta",
    "Delta",
    "Json",
    "ReasoningDelta",
    "ToolUseDelta",
]

Json: TypeAlias = dict[str, Any]


class ToolUseDelta(Struct, gc=False, rename="camel", forbid_unknown_fields=True):
    """An increment of a call's argument text."""

    input: Any = None
    tool_use_id: Any = None  #: not in the service's schema; gateways that send no start have it here


class ReasoningDelta(Struct, gc=False, rename="camel", forbid_unknown_fields=True):
    """An increment of reasoning; one member is set."""

    text: Any = None
    signature: Any = None
    redacted_content: Any = None


class Delta(Struct, gc=False, rename="camel", forbid_unknown_fields=True):
    """The increment of a ``contentBlockDelta``, as far as the fast path reads it; one member is set."""

    text: Any = None
    tool_use: ToolUseDelta | None = None
    reasoning_content: ReasoningDelta | None = None


class BlockDelta(Struct, gc=False, rename="camel", forbid_unknown_fields=True):
    """A ``contentBlockDelta``."""

    content_block_index: Any = None
    delta: Delta | None = None
    p: Any = None  #: padding


DECODER = msgspec.json.Decoder(BlockDelta)
