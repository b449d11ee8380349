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

Only the frequent event is a struct. One that has other fields, or values of other types as gateways send them, is read
again as plain data, where a field that is not known is reported.
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

    input: str


class ReasoningDelta(Struct, gc=False, rename="camel", forbid_unknown_fields=True):
    """An increment of the text of reasoning."""

    text: str


class Delta(Struct, gc=False, rename="camel", forbid_unknown_fields=True):
    """The increment of a ``contentBlockDelta``; one member is set."""

    text: str | None = None
    tool_use: ToolUseDelta | None = None
    reasoning_content: ReasoningDelta | None = None


class BlockDelta(Struct, gc=False, rename="camel", forbid_unknown_fields=True):
    """A ``contentBlockDelta`` of text, arguments or the text of reasoning."""

    content_block_index: int
    delta: Delta
    p: Any = None  #: padding


DECODER = msgspec.json.Decoder(BlockDelta)
