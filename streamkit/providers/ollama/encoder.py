"""Encoder of content as the lines that Ollama would have sent.

Parsed again, the stream is the same turn. ``created_at`` is the epoch and durations are 0, so that the lines depend on
the content alone. This module does not depend on requests, sockets or clocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streamkit.calls import FinishReason, Usage
from streamkit.history import Block, Content, FileBlock, ReasoningBlock, TextBlock, ToolCallBlock
from streamkit.providers.encoding import arguments_object, encode_json, raw_call_id, split_text
from streamkit.providers.finish_reasons import invert_finish_reasons
from streamkit.providers.ollama.schema import Json
from streamkit.providers.ollama.traits import FINISH_REASONS
from streamkit.providers.provider import Traits
from streamkit.target_ids import DEFAULT_ID_RULE, TargetIds

__all__ = ["emit", "error_body", "error_event"]

# Calls end in ``stop`` too. A reason for which the vendor has no name is the neutral one.
_DONE_REASONS: Final = invert_finish_reasons(FINISH_REASONS, preferred={"tool_calls": "stop"})


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
    encoder = _BlockEncoder(traits, delta_size)
    for block in content.blocks:
        for fields in encoder.encode(block):
            yield _line({**head, "message": {"role": "assistant", "content": "", **fields}, "done": False})
    if finish == "error":
        yield _line({"error": "an error was encountered while running the model"})
        return
    done_reason = _DONE_REASONS[finish or "stop"]
    ending: Json = {**head, "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": done_reason}
    ending |= {"total_duration": 0, "load_duration": 0}
    if usage is not None:
        counts = {"prompt_eval_count": usage.input_tokens, "eval_count": usage.output_tokens}
        ending |= {name: count for name, count in counts.items() if count is not None}
    yield _line(ending)


class _BlockEncoder:
    """An encoder of the blocks of one response, which counts its calls from 0."""

    def __init__(self, traits: Traits, delta_size: int) -> None:
        self._accepts_state = traits.accepts_state
        self._delta_size = delta_size
        self._call_count = 0
        self._ids = TargetIds(DEFAULT_ID_RULE)

    def encode(self, block: Block) -> Iterator[Json]:
        """Yield the message fields of each line of a block."""
        if isinstance(block, TextBlock):
            for text in split_text(block.text, self._delta_size):
                yield {"content": text}
        elif isinstance(block, ReasoningBlock):
            for text in split_text(block.text, self._delta_size):
                yield {"thinking": text}
        elif isinstance(block, ToolCallBlock):
            yield {"tool_calls": [self._call(block)]}
        elif isinstance(block, FileBlock) and block.data and (block.media_type or "image/").startswith("image/"):
            yield {"images": [block.data.partition(";base64,")[2] or block.data]}

    def _call(self, block: ToolCallBlock) -> Json:
        index, self._call_count = self._call_count, self._call_count + 1
        raw_arguments = block.metadata.get("raw_arguments")  # never were an object, and are encoded unchanged
        arguments = raw_arguments if isinstance(raw_arguments, str) else arguments_object(block)
        call: Json = {"function": {"index": index, "name": block.name, "arguments": arguments}}
        if not self._accepts_state(block.metadata):
            return {"id": self._ids.call(block.id, block.name), **call}
        raw_id = raw_call_id(block)
        return {"id": raw_id, **call} if raw_id else call  # older servers sent none


def _line(fields: Json) -> bytes:
    return encode_json(fields) + b"\n"


def error_body(status: int, message: str, code: str | None = None) -> Json:
    """Return the body with which the API reports a failed request. This wire has no code of an error."""
    return {"error": message}


def error_event(status: int, message: str, code: str | None = None) -> bytes:
    """Return the line that ends a stream with an error (https://docs.ollama.com/api/errors)."""
    return _line(error_body(status, message))
