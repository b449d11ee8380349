"""The wire format of Ollama's native stream: the types of its lines, each one JSON object.

Wire: https://docs.ollama.com/api/chat and .../api/generate, and the types of the vendor's SDK. A line of /api/chat,
and the last one:

    {model, created_at, message: {role, content, thinking?, tool_calls?, images?}, done: false}
    {..., done: true, done_reason, prompt_eval_count, eval_count, total_duration, load_duration, ...}

A call comes complete: ``{id?, function: {index, name, arguments}}``. Its arguments are an object. It has an id only
since v0.12.10 (ollama/ollama#12956), and its index counts the calls of the turn or is 0 for all of them
(ollama/ollama#15457), so neither distinguishes calls. A line of /api/generate has ``response`` and ``thinking`` instead
of the message. A body that was not streamed is one such object with ``done``. An error is ``{"error": "..."}``, also
within a stream. No field of this wire names the response.

Only the plain line is a struct. The others are read as plain data, as is a line that the decoder refuses because it has
another field or a value of another type.

This module must not depend on sinks, history or requests.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

__all__ = [
    "CALL_FIELDS",
    "DECODER",
    "FUNCTION_FIELDS",
    "LINE_FIELDS",
    "MESSAGE_FIELDS",
    "RESPONSE_FIELDS",
    "Json",
    "PlainLine",
]

Json: TypeAlias = dict[str, Any]
#: The fields of a line that are facts about the response: the model and host behind a cloud model.
RESPONSE_FIELDS = ("remote_model", "remote_host")

#: The fields of each object that are known. ``context`` are the tokens of /api/generate, whose message is the line.
LINE_FIELDS = frozenset(
    {"model", "created_at", "message", "done", "done_reason", "error", "logprobs", "response", "context", "image"}
    | {"thinking", "tool_calls", "images", "eval_count", "eval_duration"}
    | {"prompt_eval_count", "prompt_eval_cached_count", "prompt_eval_duration"}
    | {"total_duration", "load_duration", *RESPONSE_FIELDS}
)
MESSAGE_FIELDS = frozenset({"role", "content", "thinking", "tool_calls", "images"})
CALL_FIELDS = frozenset({"id", "type", "function"})
FUNCTION_FIELDS = frozenset({"index", "name", "arguments"})


class PlainMessage(Struct, gc=False, forbid_unknown_fields=True):
    """A message of text and thinking, if it has no calls."""

    role: str = ""
    content: str = ""
    thinking: str | None = None
    tool_calls: Any = None


class PlainLine(Struct, gc=False, forbid_unknown_fields=True):
    """A line that contains text or thinking and nothing else."""

    model: str
    message: PlainMessage
    created_at: str | None = None
    done: bool = False
    remote_model: str | None = None
    remote_host: str | None = None


DECODER = msgspec.json.Decoder(PlainLine)
