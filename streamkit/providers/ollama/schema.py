"""Types of Ollama's native stream: one JSON object a line.

Source: https://docs.ollama.com/api/chat and .../api/generate, and the types of the vendor's SDK. A line of /api/chat,
and the last one:

    {model, created_at, message: {role, content, thinking?, tool_calls?, images?}, done: false}
    {..., done: true, done_reason, prompt_eval_count, eval_count, total_duration, load_duration, ...}

A call comes complete: ``{id?, function: {index, name, arguments}}``. Its arguments are an object. It has an id only
since v0.12.10 (ollama/ollama#12956), and its index counts the calls of the turn or is 0 for all of them
(ollama/ollama#15457), so neither distinguishes calls. A line of /api/generate has ``response`` and ``thinking`` instead
of the message. A body that was not streamed is one such object with ``done``. An error is ``{"error": "..."}``, also
within a stream. No field of this wire names the response.

Only the plain line is a struct; the others are read as plain data. Leaves are ``Any``.

This module does not depend on sinks, history or requests.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

__all__ = ["DECODER", "ChatChunk", "Json"]

Json: TypeAlias = dict[str, Any]


class Message(Struct, gc=False):
    """The message of a line."""

    content: Any = None
    thinking: Any = None
    tool_calls: Any = None
    images: Any = None


class ChatChunk(Struct, gc=False):
    """A line, with the fields that show whether it contains text or thinking and nothing else."""

    model: Any = None
    message: Message | None = None
    done: Any = None
    done_reason: Any = None
    error: Any = None


DECODER = msgspec.json.Decoder(ChatChunk)
