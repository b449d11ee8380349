"""Encoder of content as the stream that generativelanguage.googleapis.com would have sent.

The embedded server uses it. Parsed again, the stream is the same turn, opaque state byte for byte. This module does not
depend on requests, sockets or clocks.
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
from streamkit.providers.gemini.schema import FINISH_REASON_NAMES, SIGNATURE
from streamkit.providers.provider import Traits

__all__ = ["emit", "error_body"]

#: https://cloud.google.com/apis/design/errors#handling_errors
_ERROR_STATUSES = {
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
    """Yield the content as a stream: an SSE event (``alt=sse``) or an element of a JSON array at a time.

    Args:
        content: the assistant's content.
        traits: the target's; its framing is ``sse`` or ``json_array``.
        response_id: the response's id, in every chunk.
        model: the model's name, in every chunk.
        finish: None means ``STOP``, with or without calls.
        usage: the token counts. Those of the prompt are in every chunk, all of them in the last.
        delta_size: the characters of a text delta. Signed text is not split: its signature belongs to one part.
    """
    chunks = _chunks(content, response_id, model, finish, usage, max(1, delta_size))
    if traits.framing == "json_array":  # the API's framing without ``alt=sse``
        separator = "["
        for chunk in chunks:
            yield f"{separator}{compact_json(chunk)}".encode("utf-8", "surrogatepass")
            separator = "\n,\r\n"
        yield b"\n]\n"
        return
    for chunk in chunks:
        yield f"data: {compact_json(chunk)}\r\n\r\n".encode("utf-8", "surrogatepass")


def error_body(status: int, message: str) -> dict[str, Any]:
    """Return the body with which the API reports a failed request of that HTTP status."""
    name = _ERROR_STATUSES.get(status) or ("INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
    return {"error": {"code": status, "message": message, "status": name}}


def _chunks(
    content: Content, response_id: str, model: str, finish: FinishReason | None, usage: Usage | None, delta_size: int
) -> Iterator[dict[str, Any]]:
    prompt = None if usage is None or usage.input_tokens is None else {"promptTokenCount": usage.input_tokens}
    for block in content.blocks:
        for part in _parts(block, delta_size):
            yield _chunk({"content": {"parts": [part], "role": "model"}, "index": 0}, prompt, model, response_id)
    # The last part is an empty text, as Gemini 3 sends it after calls.
    last: dict[str, Any] = {"content": {"parts": [{"text": ""}], "role": "model"}}
    last |= {"finishReason": FINISH_REASON_NAMES[finish or "stop"], "index": 0}
    yield _chunk(last, None if usage is None else _usage_metadata(usage), model, response_id)


def _chunk(
    candidate: dict[str, Any], usage_metadata: dict[str, int] | None, model: str, response_id: str
) -> dict[str, Any]:
    chunk: dict[str, Any] = {"candidates": [candidate]}
    if usage_metadata:
        chunk["usageMetadata"] = usage_metadata
    return {**chunk, "modelVersion": model, "responseId": response_id}


def _usage_metadata(usage: Usage) -> dict[str, int]:
    output = usage.output_tokens
    if output is not None and usage.reasoning_tokens is not None:
        output = max(0, output - usage.reasoning_tokens)
    counts = {
        "promptTokenCount": usage.input_tokens,
        "cachedContentTokenCount": usage.cache_read_tokens,
        "candidatesTokenCount": output,
        "thoughtsTokenCount": usage.reasoning_tokens,
        "totalTokenCount": (usage.input_tokens or 0) + (usage.output_tokens or 0),
    }
    return {name: count for name, count in counts.items() if count is not None}


def _parts(block: Block, delta_size: int) -> Iterator[dict[str, Any]]:
    """Yield the parts of a block as the API would have sent them."""
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
        yield from block.raw or _server_tool_parts(block)
    elif isinstance(block, OpaqueBlock):
        if isinstance(block.raw, dict):
            yield block.raw
    elif isinstance(block, (FileBlock, ImageBlock)):
        raw = block.metadata.get("raw")
        if isinstance(raw, dict):
            yield raw
        else:
            yield {**(file_part(block) if isinstance(block, FileBlock) else image_part(block.data)), **signed}


def _server_tool_parts(block: ServerToolBlock) -> Iterator[dict[str, Any]]:
    """Yield the parts of a server tool that has no parts of the API's own."""
    tool = {"toolType": block.name, **({"id": block.id} if block.id else {})}
    yield {"toolCall": {**tool, "args": block.arguments} if block.arguments is not None else tool}
    if block.result is not None:
        yield {"toolResponse": {**tool, "response": block.result}}
