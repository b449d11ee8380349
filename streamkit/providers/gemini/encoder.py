"""Encoder of content as the stream that generativelanguage.googleapis.com would have sent.

The embedded server uses it. Parsed again, the stream is the same turn, opaque state byte for byte. This module does not
depend on requests, sockets or clocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

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
from streamkit.providers.encoding import arguments_object, encode_json, raw_call_id, split_text
from streamkit.providers.finish_reasons import invert_finish_reasons
from streamkit.providers.gemini.media import file_part, image_part
from streamkit.providers.gemini.schema import SIGNATURE
from streamkit.providers.gemini.traits import FINISH_REASONS
from streamkit.providers.provider import Traits

__all__ = ["emit", "error_body", "error_event"]

# The wire has no name of its own for calls, refusals and pauses.
_FINISH_REASONS: Final = invert_finish_reasons(
    FINISH_REASONS, preferred={"tool_calls": "STOP", "refusal": "SAFETY"}, default="OTHER"
)

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
    chunks = _chunks(content, response_id, model, finish, usage, delta_size)
    if traits.framing == "json_array":  # the API's framing without ``alt=sse``
        separator = b"["
        for chunk in chunks:
            yield separator + encode_json(chunk)
            separator = b"\n,\r\n"
        yield b"\n]\n"
        return
    for chunk in chunks:
        yield b"data: %b\r\n\r\n" % encode_json(chunk)


def error_body(status: int, message: str, code: str | None = None) -> dict[str, Any]:
    """Return the body of a failed request. *code* is the name of the status; the default depends on the HTTP status."""
    name = code or _ERROR_STATUSES.get(status) or ("INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
    return {"error": {"code": status, "message": message, "status": name}}


def error_event(status: int, message: str, code: str | None = None) -> bytes:
    """Return the event that ends a stream with an error (googleapis/js-genai#1275)."""
    return b"data: %b\r\n\r\n" % encode_json(error_body(status, message, code))


def _chunks(
    content: Content, response_id: str, model: str, finish: FinishReason | None, usage: Usage | None, delta_size: int
) -> Iterator[dict[str, Any]]:
    prompt = None if usage is None or usage.input_tokens is None else {"promptTokenCount": usage.input_tokens}
    for block in content.blocks:
        for part in _parts(block, delta_size):
            yield _chunk({"content": {"parts": [part], "role": "model"}, "index": 0}, prompt, model, response_id)
    # The last part is an empty text, as Gemini 3 sends it after calls.
    last: dict[str, Any] = {"content": {"parts": [{"text": ""}], "role": "model"}}
    last |= {"finishReason": _FINISH_REASONS[finish or "stop"], "index": 0}
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
        for text in [block.text] if signed else split_text(block.text, delta_size):
            yield {"text": text, **thought, **signed}
    elif isinstance(block, ToolCallBlock):
        call: dict[str, Any] = {"name": block.name, "args": arguments_object(block)}
        if raw_id := raw_call_id(block):
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
