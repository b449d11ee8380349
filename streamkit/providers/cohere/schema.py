"""The wire format of Cohere's v2 chat stream: the types of its events.

Wire: https://docs.cohere.com/v2/docs/streaming and .../tool-use-streaming, the reference at
https://docs.cohere.com/v2/reference/chat-stream, and the types of the vendor's SDK. Every chunk is an SSE event; the
event's name is also the chunk's ``type``:

    message-start     {id, delta: {message: {role, content: [], tool_plan: "", tool_calls: [], citations: []}}}
    content-start     {index, delta: {message: {content: {type: "text" | "thinking", text | thinking: ""}}}}
    content-delta     {index, delta: {message: {content: {text | thinking}}}}
    content-end       {index}
    tool-plan-delta   {delta: {message: {tool_plan}}}
    tool-call-start   {index, delta: {message: {tool_calls: {id, type, function: {name, arguments: ""}}}}}
    tool-call-delta   {index, delta: {message: {tool_calls: {function: {arguments}}}}}
    tool-call-end     {index}
    citation-start    {index, delta: {message: {citations: {start, end, text, sources, type, content_index}}}}
    citation-end      {index}
    debug             {prompt}
    message-end       {id?, delta: {finish_reason, error?, usage}}    the terminator; ``[DONE]`` may follow

In a stream ``content``, ``tool_calls`` and ``citations`` are one object, in a body that was not streamed lists of such
objects; libraries that expected a list in the stream lost the calls (genkit-ai/genkit#4518). Contents, calls and
citations have indexes of their own, each from 0. Leaves are ``Any``. A body that was not streamed is read as plain
data, as is an event with a field that is not declared here, which the decoder refuses.

This module must not depend on sinks, history or requests.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

__all__ = [
    "CALL_FIELDS",
    "CONTENT_FIELDS",
    "DECODER",
    "DELTA_FIELDS",
    "EVENT_FIELDS",
    "FUNCTION_FIELDS",
    "MESSAGE_FIELDS",
    "CallDelta",
    "ContentDelta",
    "Event",
    "Json",
    "MessageDelta",
]

Json: TypeAlias = dict[str, Any]
#: The fields of each object that are known; ``prompt`` is that of ``debug``.
DELTA_FIELDS = frozenset({"message", "finish_reason", "usage", "error", "error_type"})
EVENT_FIELDS = DELTA_FIELDS | {"type", "id", "index", "delta", "prompt", "logprobs"}
MESSAGE_FIELDS = frozenset({"role", "content", "tool_plan", "tool_calls", "citations"})
CONTENT_FIELDS = frozenset({"type", "text", "thinking"})
CALL_FIELDS = frozenset({"id", "type", "function"})
FUNCTION_FIELDS = frozenset({"name", "arguments"})


class ContentDelta(Struct, gc=False, forbid_unknown_fields=True):
    """The content of an event, in one of the first two fields. A ``content-delta`` has no ``type``."""

    text: str | None = None
    thinking: str | None = None
    type: str | None = None


class FunctionDelta(Struct, gc=False, forbid_unknown_fields=True):
    """The function of a call; a ``tool-call-delta`` has only ``arguments``."""

    arguments: str | None = None
    name: str | None = None


class CallDelta(Struct, gc=False, forbid_unknown_fields=True):
    """The call of an event; a ``tool-call-delta`` has only ``function``."""

    function: FunctionDelta | None = None
    id: str | None = None
    type: str | None = None


class MessageDelta(Struct, gc=False, forbid_unknown_fields=True):
    """The message of an event. The event's ``type`` decides which field is set; ``message-start`` has empty lists."""

    content: ContentDelta | list[Any] | None = None
    tool_plan: str | None = None
    tool_calls: CallDelta | list[Any] | None = None
    citations: Any = None
    role: Any = None


class Delta(Struct, gc=False, forbid_unknown_fields=True):
    """The envelope of every message, and the end of a stream."""

    message: MessageDelta | None = None
    finish_reason: Any = None
    usage: Any = None
    error: Any = None
    error_type: Any = None


class Event(Struct, gc=False, forbid_unknown_fields=True):
    """Any event of the usual form."""

    type: str = ""
    index: int | None = None
    delta: Delta | None = None
    id: Any = None


DECODER = msgspec.json.Decoder(Event)
