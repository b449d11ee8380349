"""Encoder of content as the lines that Ollama would have sent.

Parsed again, the stream is the same turn. ``created_at`` is the epoch and durations are 0, so that the lines depend on
the content alone. This module does not depend on requests, sockets or clocks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from streamkit.calls import FinishReason, Usage
from streamkit.history import Block, Content, FileBlock, ReasoningBlock, TextBlock, ToolCallBlock
from streamkit.providers.decoding import compact_json
from streamkit.providers.ollama.schema import FINISH_REASON_NAMES, NAME, Json
from streamkit.providers.provider import Traits
from streamkit.target_ids import DEFAULT_ID_RULE, TargetIds

__all__ = ["emit", "error_body"]


def emit(
    content: Content,
    traits: Traits,
    *,
    response_id: str,
    model: str,
    finish: FinishReason | None = None,
    usage: Usage | None = None,
    delta_size: int = 16,
) -> Iterator[bytes]:
    """Yield the content as a stream, one line at a time.

    Args:
        content: the assistant's content. Blocks that this wire cannot express (another provider's opaque ones) are left
            out.
        traits: the provider's.
        response_id: ignored: this wire has no response id.
        model: the model's name.
        finish: None and ``tool_calls`` are ``stop``, as on this wire. ``error`` ends the stream with an error line.
        usage: the token counts, or None for a stream without usage.
        delta_size: the characters of a text delta.
    """
    head: Json = {"model": model, "created_at": "1970-01-01T00:00:00Z"}
    encoder = _BlockEncoder(max(1, delta_size))
    for block in content.blocks:
        for fields in encoder.encode(block):
            yield _line({**head, "message": {"role": "assistant", "content": "", **fields}, "done": False})
    if finish == "error":
        yield _line({"error": "an error was encountered while running the model"})
        return
    done_reason = FINISH_REASON_NAMES.get(finish, finish) if finish is not None else "stop"
    ending: Json = {**head, "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": done_reason}
    ending |= {"total_duration": 0, "load_duration": 0}
    if usage is not None:
        counts = {"prompt_eval_count": usage.input_tokens, "eval_count": usage.output_tokens}
        ending |= {name: count for name, count in counts.items() if count is not None}
    yield _line(ending)


class _BlockEncoder:
    """An encoder of the blocks of one response, which counts its calls from 0."""

    def __init__(self, delta_size: int) -> None:
        self._delta_size = delta_size
        self._call_count = 0
        self._ids = TargetIds(DEFAULT_ID_RULE)

    def encode(self, block: Block) -> Iterator[Json]:
        """Yield the message fields of each line of a block."""
        if isinstance(block, TextBlock):
            for text in self._deltas(block.text):
                yield {"content": text}
        elif isinstance(block, ReasoningBlock):
            for text in self._deltas(block.text):
                yield {"thinking": text}
        elif isinstance(block, ToolCallBlock):
            yield {"tool_calls": [self._call(block)]}
        elif isinstance(block, FileBlock) and block.data and (block.media_type or "image/").startswith("image/"):
            yield {"images": [block.data.partition(";base64,")[2] or block.data]}

    def _call(self, block: ToolCallBlock) -> Json:
        index, self._call_count = self._call_count, self._call_count + 1
        is_own, raw_id = block.metadata.get("provider") == NAME, block.metadata.get("raw_id")
        arguments = block.metadata.get("raw_arguments")
        if not isinstance(arguments, str):  # raw arguments never were an object, and are encoded unchanged
            arguments = block.parameters if isinstance(block.parameters, dict) else {"input": block.parameters}
        call: Json = {"function": {"index": index, "name": block.name, "arguments": arguments}}
        if not is_own:
            return {"id": self._ids.call(block.id, block.name), **call}
        return {"id": raw_id, **call} if isinstance(raw_id, str) else call  # older servers sent none

    def _deltas(self, text: str) -> Iterator[str]:
        for start in range(0, len(text), self._delta_size):
            yield text[start : start + self._delta_size]


def _line(fields: Json) -> bytes:
    try:
        return compact_json(fields).encode() + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can escape and UTF-8 cannot encode
        return json.dumps(fields, separators=(",", ":"), default=str).encode() + b"\n"


def error_body(status: int, message: str) -> Json:
    """Return the body with which the API answers a bad request."""
    return {"error": message}
