"""An answer -> the bytes that api.cohere.com would have streamed. The counterpart of ``parse``.

Read again by the parser it is the same turn. It knows neither requests nor sockets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from streamkit.calls import FinishReason, Usage
from streamkit.history import Block, Content, ReasoningBlock, TextBlock, ToolCallBlock
from streamkit.providers.cohere.schema import NAME, WORDS, Json
from streamkit.providers.decoding import compact_json
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
    """The stream that this answer would have been, one SSE event at a time.

    Args:
        content: the assistant's content; what this wire cannot say (another provider's own blocks) is not said.
        response_id: the message's id.
        finish: None means ``tool_calls`` where there are calls, else ``stop``; ``error`` comes with a message.
        usage: its figures; None: there are none.
        piece: characters of a delta.
    """
    empty: Json = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
    yield _event({"id": response_id, "type": "message-start", "delta": {"message": empty}})
    answer = _Answer(max(1, delta_size))
    for block in content.blocks:
        for event in answer.events(block):
            yield _event(event)
    reason = finish or ("tool_calls" if answer.calls else "stop")
    ending: Json = {"finish_reason": WORDS[reason]}
    if reason == "error":
        ending["error"] = "internal server error, this has been reported to our developers."
    if usage is not None:
        ending["usage"] = _usage(usage)
    yield _event({"type": "message-end", "delta": ending})
    yield b"data: [DONE]\n\n"


class _Answer:
    """One answer being said: the numbers of its contents, calls and citations, each counted from 0."""

    def __init__(self, delta_size: int) -> None:
        self.calls = 0
        self._piece = delta_size
        self._contents = 0
        self._citations = 0
        self._ids = TargetIds(DEFAULT_ID_RULE)

    def events(self, block: Block) -> Iterator[Json]:
        if isinstance(block, TextBlock):
            cited = block.metadata.get("citations") if block.metadata.get("provider") == NAME else None
            yield from self._content("text", block.text, cited if isinstance(cited, list) else [])
        elif isinstance(block, ReasoningBlock) and block.kind == "plan":
            for text in self._pieces(block.text):
                yield {"type": "tool-plan-delta", "delta": {"message": {"tool_plan": text}}}
        elif isinstance(block, ReasoningBlock):
            yield from self._content("thinking", block.text, [])
        elif isinstance(block, ToolCallBlock):
            yield from self._call(block)

    def _content(self, kind: str, whole: str, cited: list[Json]) -> Iterator[Json]:
        index, self._contents = self._contents, self._contents + 1
        yield {"type": "content-start", "index": index, "delta": {"message": {"content": {"type": kind, kind: ""}}}}
        for text in self._pieces(whole):
            yield {"type": "content-delta", "index": index, "delta": {"message": {"content": {kind: text}}}}
        for citation in cited:
            number, self._citations = self._citations, self._citations + 1
            yield {"type": "citation-start", "index": number, "delta": {"message": {"citations": citation}}}
            yield {"type": "citation-end", "index": number}
        yield {"type": "content-end", "index": index}

    def _call(self, block: ToolCallBlock) -> Iterator[Json]:
        index, self.calls = self.calls, self.calls + 1
        raw_id = block.metadata.get("raw_id") if block.metadata.get("provider") == NAME else None
        text = block.metadata.get("raw_arguments")
        if not isinstance(text, str):  # else the arguments never were an object, and go out as they came
            arguments = block.parameters if isinstance(block.parameters, dict) else {"input": block.parameters}
            text = compact_json(arguments) if arguments else ""  # a call without arguments has no delta
        call: Json = {
            "id": raw_id if isinstance(raw_id, str) and raw_id else self._ids.call(block.id, block.name),
            "type": "function",
            "function": {"name": block.name, "arguments": ""},
        }
        yield {"type": "tool-call-start", "index": index, "delta": {"message": {"tool_calls": call}}}
        for part in self._pieces(text):
            delta = {"message": {"tool_calls": {"function": {"arguments": part}}}}
            yield {"type": "tool-call-delta", "index": index, "delta": delta}
        yield {"type": "tool-call-end", "index": index}

    def _pieces(self, text: str) -> Iterator[str]:
        for start in range(0, len(text), self._piece):
            yield text[start : start + self._piece]


def _event(fields: Json) -> bytes:
    try:
        data = compact_json(fields).encode()
    except UnicodeEncodeError:  # half of a surrogate pair; JSON can say it, UTF-8 cannot
        data = json.dumps(fields, separators=(",", ":"), default=str).encode()
    return b"event: %b\ndata: %b\n\n" % (fields["type"].encode(), data)


def _usage(usage: Usage) -> Json:
    given = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
    }
    tokens = {name: count for name, count in given.items() if count is not None}
    billed = {name: count for name, count in tokens.items() if name != "reasoning_tokens"}
    cached = {} if usage.cache_read_tokens is None else {"cached_tokens": usage.cache_read_tokens}
    return {"billed_units": billed, "tokens": tokens, **cached}


def error_body(status: int, message: str) -> Json:
    """Return the body with which the API answers a bad request."""
    return {"message": message}
