"""An answer -> the lines that Ollama would have streamed. The counterpart of ``parse``.

Read again by the parser it is the same turn. Nothing here reads a clock: ``created_at`` is the epoch and durations are
0. It knows neither requests nor sockets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from streamkit.calls import FinishReason, Usage
from streamkit.history import Block, Content, FileBlock, ReasoningBlock, TextBlock, ToolCallBlock
from streamkit.providers.decoding import compact_json
from streamkit.providers.ollama.schema import NAME, WORDS, Json
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
    """The stream that this answer would have been, line by line.

    Args:
        content: the assistant's content; what this wire cannot say (another provider's own blocks) is not said.
        model: the model's name.
        finish: None and ``tool_calls`` are ``stop``, as on this wire; ``error`` ends the stream with an error's line.
        usage: its figures; None: there are none.
        piece: characters of a line's text.
    """
    head: Json = {"model": model, "created_at": "1970-01-01T00:00:00Z"}
    answer = _Answer(max(1, delta_size))
    for block in content.blocks:
        for fields in answer.messages(block):
            yield _line({**head, "message": {"role": "assistant", "content": "", **fields}, "done": False})
    if finish == "error":
        yield _line({"error": "an error was encountered while running the model"})
        return
    word = WORDS.get(finish, finish) if finish is not None else "stop"
    ending: Json = {**head, "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": word}
    ending |= {"total_duration": 0, "load_duration": 0}
    if usage is not None:
        counts = {"prompt_eval_count": usage.input_tokens, "eval_count": usage.output_tokens}
        ending |= {name: count for name, count in counts.items() if count is not None}
    yield _line(ending)


class _Answer:
    """One answer being said: its calls are counted from 0."""

    def __init__(self, delta_size: int) -> None:
        self._piece = delta_size
        self._calls = 0
        self._ids = TargetIds(DEFAULT_ID_RULE)

    def messages(self, block: Block) -> Iterator[Json]:
        """What the messages of a block's lines hold."""
        if isinstance(block, TextBlock):
            for text in self._pieces(block.text):
                yield {"content": text}
        elif isinstance(block, ReasoningBlock):
            for text in self._pieces(block.text):
                yield {"thinking": text}
        elif isinstance(block, ToolCallBlock):
            yield {"tool_calls": [self._call(block)]}
        elif isinstance(block, FileBlock) and block.data and (block.media_type or "image/").startswith("image/"):
            yield {"images": [block.data.partition(";base64,")[2] or block.data]}

    def _call(self, block: ToolCallBlock) -> Json:
        index, self._calls = self._calls, self._calls + 1
        own, raw_id = block.metadata.get("provider") == NAME, block.metadata.get("raw_id")
        arguments = block.metadata.get("raw_arguments")
        if not isinstance(arguments, str):  # else they never were an object, and go out as they came
            arguments = block.parameters if isinstance(block.parameters, dict) else {"input": block.parameters}
        call: Json = {"function": {"index": index, "name": block.name, "arguments": arguments}}
        if not own:
            return {"id": self._ids.call(block.id, block.name), **call}
        return {"id": raw_id, **call} if isinstance(raw_id, str) else call  # older servers gave none

    def _pieces(self, text: str) -> Iterator[str]:
        for start in range(0, len(text), self._piece):
            yield text[start : start + self._piece]


def _line(fields: Json) -> bytes:
    try:
        return compact_json(fields).encode() + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair; JSON can say it, UTF-8 cannot
        return json.dumps(fields, separators=(",", ":"), default=str).encode() + b"\n"


def error_body(status: int, message: str) -> Json:
    """Return the body with which the API answers a bad request."""
    return {"error": message}
