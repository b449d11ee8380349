"""An answer back to the bytes that generativelanguage.googleapis.com would have streamed, for the embedded server.

Read again by the parser it is the same turn, opaque state byte for byte. It knows neither requests nor sockets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamkit.calls import FinishReason, Usage
from streamkit.history.content import (
    Block,
    Content,
    FileBlock,
    ImageBlock,
    OpaqueBlock,
    ReasoningBlock,
    ServerToolBlock,
    TextBlock,
    ToolCallBlock,
)
from streamkit.providers.decoding import compact_json
from streamkit.providers.gemini.media import file_part, image_part
from streamkit.providers.gemini.schema import SIGNATURE
from streamkit.providers.provider import Traits

__all__ = ["emit", "error_body"]

_WORDS: dict[FinishReason, str] = {
    "stop": "STOP",
    "tool_calls": "STOP",  # the wire has no word of its own for it
    "length": "MAX_TOKENS",
    "content_filter": "SAFETY",
    "refusal": "SAFETY",
    "error": "MALFORMED_FUNCTION_CALL",
    "pause": "OTHER",
    "other": "OTHER",
}

#: https://cloud.google.com/apis/design/errors#handling_errors
_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


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
    """The stream that this answer would have been, one SSE event at a time (``alt=sse``).

    Args:
        content: the assistant's content.
        response_id: the response's id, in every chunk.
        model: the model's name, in every chunk.
        finish: None means ``STOP``, with calls and without.
        usage: its figures; the prompt's are in every chunk, all of them in the last.
        piece: characters of a piece of text. Signed text comes whole: its signature is of one part.
    """
    chunks = _chunks(content, response_id, model, finish, usage, max(1, delta_size))
    if traits.framing == "json_array":  # what the API sends if ``alt=sse`` was not asked for: an element at a time
        begin = "["
        for chunk in chunks:
            yield f"{begin}{compact_json(chunk)}".encode("utf-8", "surrogatepass")
            begin = "\n,\r\n"
        yield b"\n]\n"
        return
    for chunk in chunks:
        yield f"data: {compact_json(chunk)}\r\n\r\n".encode("utf-8", "surrogatepass")


def error_body(status: int, message: str) -> dict[str, Any]:
    """The body with which the API answers a bad request."""
    word = _STATUSES.get(status) or ("INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
    return {"error": {"code": status, "message": message, "status": word}}


def _chunks(
    content: Content, response_id: str, model: str, finish: FinishReason | None, usage: Usage | None, delta_size: int
) -> Iterator[dict[str, Any]]:
    prompt = None if usage is None or usage.input_tokens is None else {"promptTokenCount": usage.input_tokens}
    for block in content.blocks:
        for part in _parts(block, delta_size):
            yield _chunk({"content": {"parts": [part], "role": "model"}, "index": 0}, prompt, model, response_id)
    # The last part is an empty text, as Gemini 3 sends it behind calls.
    last = {"content": {"parts": [{"text": ""}], "role": "model"}, "finishReason": _WORDS[finish or "stop"], "index": 0}
    yield _chunk(last, None if usage is None else _counts(usage), model, response_id)


def _chunk(candidate: dict[str, Any], counts: Any, model: str, response_id: str) -> dict[str, Any]:
    chunk: dict[str, Any] = {"candidates": [candidate]}
    if counts:
        chunk["usageMetadata"] = counts
    return {**chunk, "modelVersion": model, "responseId": response_id}


def _counts(usage: Usage) -> dict[str, int]:
    answer = usage.output_tokens
    if answer is not None and usage.reasoning_tokens is not None:
        answer = max(0, answer - usage.reasoning_tokens)
    figures = {
        "promptTokenCount": usage.input_tokens,
        "cachedContentTokenCount": usage.cache_read_tokens,
        "candidatesTokenCount": answer,
        "thoughtsTokenCount": usage.reasoning_tokens,
        "totalTokenCount": (usage.input_tokens or 0) + (usage.output_tokens or 0),
    }
    return {name: figure for name, figure in figures.items() if figure is not None}


def _parts(block: Block, delta_size: int) -> Iterator[dict[str, Any]]:
    """The parts that a block came as."""
    signature = block.metadata.get(SIGNATURE)
    signed = {SIGNATURE: signature} if isinstance(signature, str) and signature else {}
    if isinstance(block, (TextBlock, ReasoningBlock)):
        thought = {"thought": True} if isinstance(block, ReasoningBlock) else {}
        size = max(1, len(block.text)) if signed else delta_size
        for at in range(0, max(len(block.text), 1 if signed else 0), size):
            yield {"text": block.text[at : at + size], **thought, **signed}
    elif isinstance(block, ToolCallBlock):
        call: dict[str, Any] = {"name": block.name}
        call["args"] = block.parameters if isinstance(block.parameters, dict) else {"input": block.parameters}
        raw_id = block.metadata.get("raw_id")
        if isinstance(raw_id, str) and raw_id:
            call["id"] = raw_id
        yield {"functionCall": call, **signed}
    elif isinstance(block, ServerToolBlock):
        yield from block.raw or _tool_parts(block)
    elif isinstance(block, OpaqueBlock):
        if isinstance(block.raw, dict):
            yield block.raw
    elif isinstance(block, (FileBlock, ImageBlock)):
        raw = block.metadata.get("raw")
        if isinstance(raw, dict):
            yield raw
        else:
            yield {**(file_part(block) if isinstance(block, FileBlock) else image_part(block.data)), **signed}


def _tool_parts(block: ServerToolBlock) -> Iterator[dict[str, Any]]:
    """A tool that a script says Google ran."""
    named = {"toolType": block.name, **({"id": block.id} if block.id else {})}
    yield {"toolCall": {**named, "args": block.arguments} if block.arguments is not None else named}
    if block.result is not None:
        yield {"toolResponse": {**named, "response": block.result}}
