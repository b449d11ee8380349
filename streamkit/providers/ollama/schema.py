"""What Ollama's native stream is made of: one JSON object a line.

Source: https://docs.ollama.com/api/chat and .../api/generate, and the types of the vendor's SDK. A line of /api/chat,
and the last one:

    {model, created_at, message: {role, content, thinking?, tool_calls?, images?}, done: false}
    {..., done: true, done_reason, prompt_eval_count, eval_count, total_duration, load_duration, ...}

A call comes whole: ``{id?, function: {index, name, arguments}}``. Its arguments are an object. It has an id since
v0.12.10 only (ollama/ollama#12956), and its index counts the calls of the turn or stands at 0 for all of them
(ollama/ollama#15457), so neither tells calls apart. A line of /api/generate has ``response`` and ``thinking`` instead
of the message. Not streamed, the answer is one such object with ``done``. An error is ``{"error": "..."}``, also in
the middle of a stream. Nothing on this wire names the response.

Only the plain line is a struct, the others are read as plain data. Leaves are ``Any``.

This file knows the wire alone: nothing of sinks, history or requests.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from streamkit.calls import FinishReason

__all__ = ["DECODER", "DONE_REASONS", "NAME", "WORDS", "ChatChunk", "Json"]

Json: TypeAlias = dict[str, Any]

NAME: Final = "ollama"

#: Why the model stopped. ``load`` and ``unload`` answer a request without messages, which only moves the model in or
#: out of memory: they are none of these.
DONE_REASONS: Final[dict[str, FinishReason]] = {"stop": "stop", "length": "length"}

#: The way back, for the emitted stream: calls end in ``stop`` too, and what the vendor has no word for is sent as ours.
WORDS: Final[dict[FinishReason, str]] = {"tool_calls": "stop"}


class Message(Struct, gc=False):
    """The message of a line."""

    content: Any = None
    thinking: Any = None
    tool_calls: Any = None
    images: Any = None


class ChatChunk(Struct, gc=False):
    """A line, as far as it must be known to see that it brings a piece of text or thinking and nothing else."""

    model: Any = None
    message: Message | None = None
    done: Any = None
    done_reason: Any = None
    error: Any = None


DECODER = msgspec.json.Decoder(ChatChunk)
