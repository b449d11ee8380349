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

A line of a message, or of the end, is a struct. A line with any other field, or with a value of another type, is read
as plain data.

This module must not depend on sinks, history or requests.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Struct

__all__ = [
    "CALL_FIELDS",
    "COUNT_FIELDS",
    "DECODER",
    "FUNCTION_FIELDS",
    "LINE_FIELDS",
    "LONG_DECODER",
    "MESSAGE_FIELDS",
    "RESPONSE_FIELDS",
    "Json",
    "LongLine",
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
    """A message of text, thinking and calls."""

    role: str = ""
    content: str = ""
    thinking: str | None = None
    tool_calls: Any = None


class PlainLine(Struct, gc=False, forbid_unknown_fields=True):
    """A line that contains a message and nothing else."""

    model: str
    message: PlainMessage
    created_at: str | None = None
    done: bool = False
    remote_model: str | None = None
    remote_host: str | None = None


class LongLine(PlainLine, gc=False, forbid_unknown_fields=True):
    """The same, with the fields of an end. A struct of more fields is made slower, so it is not that of the deltas."""

    done_reason: Any = None
    total_duration: Any = UNSET
    load_duration: Any = UNSET
    prompt_eval_count: Any = UNSET
    prompt_eval_cached_count: Any = UNSET
    prompt_eval_duration: Any = UNSET
    eval_count: Any = UNSET
    eval_duration: Any = UNSET


DECODER = msgspec.json.Decoder(PlainLine)
LONG_DECODER = msgspec.json.Decoder(LongLine)
#: The fields of a line with what is counted.
COUNT_FIELDS = tuple(name for name in LongLine.__struct_fields__ if name.endswith(("_count", "_duration")))
