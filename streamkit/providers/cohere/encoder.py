"""Encoder of content as the stream that api.cohere.com would have sent.

Parsed again, the stream is the same turn. This module does not depend on requests, sockets or clocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streamkit.calls import FinishReason, Usage
from streamkit.history import Block, Content, ReasoningBlock, TextBlock, ToolCallBlock
from streamkit.providers.cohere.schema import Json
from streamkit.providers.cohere.traits import FINISH_REASONS
from streamkit.providers.encoding import (
    arguments_text,
    default_finish_reason,
    encode_sse_event,
    raw_call_id,
    split_text,
)
from streamkit.providers.finish_reasons import invert_finish_reasons
from streamkit.providers.provider import Traits
from streamkit.target_ids import DEFAULT_ID_RULE, TargetIds

__all__ = ["emit", "error_body", "error_event"]

# A reason for which the vendor has no name is the neutral one in capitals.
_FINISH_REASONS: Final = invert_finish_reasons(
    FINISH_REASONS, preferred={"refusal": "REFUSAL", "pause": "PAUSE", "other": "OTHER"}
)


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
    """Yield the content as a stream of SSE events, one at a time.

    Args:
        content: the assistant's content. Blocks that this wire cannot express (another provider's opaque ones) are left
            out.
        traits: the provider's.
        response_id: the message's id.
        model: ignored: no event of this wire has the model's name.
        finish: None means ``tool_calls`` if there are calls, else ``stop``. ``error`` comes with an error message.
        usage: the token counts, or None for a stream without usage.
        delta_size: the characters of a delta.
    """
    empty: Json = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
    yield _event({"id": response_id, "type": "message-start", "delta": {"message": empty}})
    encoder = _BlockEncoder(traits, delta_size)
    for block in content.blocks:
        for event in encoder.encode(block):
            yield _event(event)
    reason = finish or default_finish_reason(content)
    ending: Json = {"finish_reason": _FINISH_REASONS[reason]}
    if reason == "error":
        ending["error"] = "internal server error, this has been reported to our developers."
    if usage is not None:
        ending["usage"] = _usage(usage)
    yield _event({"type": "message-end", "delta": ending})
    yield b"data: [DONE]\n\n"


class _BlockEncoder:
    """An encoder of the blocks of one response, which counts its contents, calls and citations from 0."""

    def __init__(self, traits: Traits, delta_size: int) -> None:
        self._accepts_state = traits.accepts_state
        self._call_count = 0
        self._delta_size = delta_size
        self._content_count = 0
        self._citation_count = 0
        self._ids = TargetIds(DEFAULT_ID_RULE)

    def encode(self, block: Block) -> Iterator[Json]:
        """Yield the events of a block."""
        if isinstance(block, TextBlock):
            citations = block.metadata.get("citations") if self._accepts_state(block.metadata) else None
            yield from self._content("text", block.text, citations if isinstance(citations, list) else [])
        elif isinstance(block, ReasoningBlock) and block.kind == "plan":
            for text in split_text(block.text, self._delta_size):
                yield {"type": "tool-plan-delta", "delta": {"message": {"tool_plan": text}}}
        elif isinstance(block, ReasoningBlock):
            yield from self._content("thinking", block.text, [])
        elif isinstance(block, ToolCallBlock):
            yield from self._call(block)

    def _content(self, kind: str, text: str, citations: list[Json]) -> Iterator[Json]:
        index, self._content_count = self._content_count, self._content_count + 1
        yield {"type": "content-start", "index": index, "delta": {"message": {"content": {"type": kind, kind: ""}}}}
        for delta in split_text(text, self._delta_size):
            yield {"type": "content-delta", "index": index, "delta": {"message": {"content": {kind: delta}}}}
        for citation in citations:
            number, self._citation_count = self._citation_count, self._citation_count + 1
            yield {"type": "citation-start", "index": number, "delta": {"message": {"citations": citation}}}
            yield {"type": "citation-end", "index": number}
        yield {"type": "content-end", "index": index}

    def _call(self, block: ToolCallBlock) -> Iterator[Json]:
        index, self._call_count = self._call_count, self._call_count + 1
        raw_id = raw_call_id(block) if self._accepts_state(block.metadata) else None
        call: Json = {
            "id": raw_id or self._ids.call(block.id, block.name),
            "type": "function",
            "function": {"name": block.name, "arguments": ""},
        }
        yield {"type": "tool-call-start", "index": index, "delta": {"message": {"tool_calls": call}}}
        for part in split_text(arguments_text(block), self._delta_size):  # none for a call without arguments
            delta = {"message": {"tool_calls": {"function": {"arguments": part}}}}
            yield {"type": "tool-call-delta", "index": index, "delta": delta}
        yield {"type": "tool-call-end", "index": index}


def _event(fields: Json) -> bytes:
    return encode_sse_event(fields["type"], fields)


def _usage(usage: Usage) -> Json:
    counts = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
    }
    tokens = {name: count for name, count in counts.items() if count is not None}
    billed = {name: count for name, count in tokens.items() if name != "reasoning_tokens"}
    cached = {} if usage.cache_read_tokens is None else {"cached_tokens": usage.cache_read_tokens}
    return {"billed_units": billed, "tokens": tokens, **cached}


def error_body(status: int, message: str, code: str | None = None) -> Json:
    """Return the body with which the API reports a failed request. This wire has no code of an error."""
    return {"message": message}


def error_event(status: int, message: str, code: str | None = None) -> bytes:
    """Return the event that ends a stream with an error (https://docs.cohere.com/v2/reference/chat-stream)."""
    return _event({"type": "message-end", "delta": {"error": message, "finish_reason": "ERROR"}})
