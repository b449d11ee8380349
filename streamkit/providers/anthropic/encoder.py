"""The encoder of Anthropic Messages streams: a content as the bytes that api.anthropic.com would have streamed.

The parser reads the same turn from them, opaque state byte for byte. The embedded server uses this module; it must not
depend on requests or sockets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeGuard

from streamkit.calls import FinishReason, Usage
from streamkit.history.content import (
    Block,
    Content,
    OpaqueBlock,
    ReasoningBlock,
    ServerToolBlock,
    TextBlock,
    ToolCallBlock,
)
from streamkit.providers.anthropic.schema import Json
from streamkit.providers.anthropic.traits import FINISH_REASONS
from streamkit.providers.decoding import compact_json
from streamkit.providers.encoding import (
    arguments_text,
    default_finish_reason,
    encode_sse_event,
    raw_call_id,
    split_text,
    uncached_input_tokens,
)
from streamkit.providers.finish_reasons import invert_finish_reasons
from streamkit.providers.provider import Traits

__all__ = ["emit", "error_body", "error_event"]

#: This wire has no name for a filtered turn; a refusal is the nearest.
_STOP_REASONS: Final = invert_finish_reasons(FINISH_REASONS, preferred={"content_filter": "refusal"})

#: https://docs.anthropic.com/en/api/errors
_ERROR_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
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
    """Yield the SSE events of a stream that the parser reads as this content.

    Args:
        content: The assistant's content.
        traits: The traits of the provider; the stream does not depend on them.
        response_id: The message's id.
        model: The model's name.
        finish: None: ``refusal`` if the content has one, ``tool_calls`` if it has calls, else ``stop``. ``error``
            ends the stream with an error event.
        usage: The tokens; None is sent as zeros, as this wire always reports usage.
        delta_size: Characters of a delta.
    """
    tokens = usage or Usage()
    prompt = _prompt_usage(tokens)
    message: Json = {
        "id": response_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**prompt, "output_tokens": min(1, tokens.output_tokens or 0)},
    }
    yield _event("message_start", {"message": message})
    for index, (block, deltas) in enumerate(_wire_blocks(content.blocks, delta_size)):
        yield _event("content_block_start", {"index": index, "content_block": block})
        if index == 0:
            yield _event("ping", {})
        for delta in deltas:
            yield _event("content_block_delta", {"index": index, "delta": delta})
        yield _event("content_block_stop", {"index": index})
    if finish == "error":
        yield _event("error", {"error": {"type": "api_error", "message": "Internal server error"}})
        return
    output: Json = {**prompt, "output_tokens": tokens.output_tokens or 0}
    if tokens.reasoning_tokens is not None:
        output["output_tokens_details"] = {"thinking_tokens": tokens.reasoning_tokens}
    yield _event("message_delta", {"delta": _stop_fields(content, finish), "usage": output})
    yield _event("message_stop", {})


def error_body(status: int, message: str, code: str | None = None) -> Json:
    """Return the JSON body of a refused request. *code* is the type of the error; the default depends on the status."""
    error_type = code or _ERROR_TYPES.get(status) or ("api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": error_type, "message": message}}


def error_event(status: int, message: str, code: str | None = None) -> bytes:
    """Return the event that ends a stream with an error."""
    return encode_sse_event("error", error_body(status, message, code))


def _event(name: str, fields: Json) -> bytes:
    return encode_sse_event(name, {"type": name, **fields})


def _prompt_usage(usage: Usage) -> Json:
    """Return the usage fields of the prompt, which this wire counts in parts."""
    fields: Json = {"input_tokens": uncached_input_tokens(usage)}
    if usage.cache_write_tokens is not None:
        fields["cache_creation_input_tokens"] = usage.cache_write_tokens
    if usage.cache_read_tokens is not None:
        fields["cache_read_input_tokens"] = usage.cache_read_tokens
    return fields


def _stop_fields(content: Content, finish: FinishReason | None) -> Json:
    refusal = "".join(block.text for block in content.blocks if _is_refusal(block))
    reason = finish or ("refusal" if refusal else default_finish_reason(content))
    fields: Json = {"stop_reason": _STOP_REASONS[reason], "stop_sequence": None}
    if refusal:
        fields["stop_details"] = {"type": "refusal", "category": None, "explanation": refusal}
    container = content.metadata.get("container")
    if isinstance(container, dict):
        fields["container"] = container
    return fields


def _is_refusal(block: Block) -> TypeGuard[TextBlock]:
    return isinstance(block, TextBlock) and bool(block.metadata.get("refusal"))


def _wire_blocks(blocks: list[Block], delta_size: int) -> Iterator[tuple[Json, list[Json]]]:
    """Yield each block as its start event has it, and its deltas."""
    for block in blocks:
        if _is_refusal(block):
            continue  # sent at the message's end, in stop_details
        if isinstance(block, TextBlock):
            citations = block.metadata.get("citations") or []
            deltas: list[Json] = [{"type": "text_delta", "text": part} for part in split_text(block.text, delta_size)]
            deltas += [{"type": "citations_delta", "citation": citation} for citation in citations]
            yield {"type": "text", "text": ""}, deltas
        elif isinstance(block, ReasoningBlock):
            yield _thinking_block(block, delta_size)
        elif isinstance(block, ToolCallBlock):
            yield _call_block(block, delta_size)
        elif isinstance(block, ServerToolBlock):
            for raw in block.raw or _from_other_provider(block):
                yield _server_tool_block(raw, delta_size)
        elif isinstance(block, OpaqueBlock) and isinstance(block.raw, dict):
            yield block.raw, []


def _thinking_block(block: ReasoningBlock, delta_size: int) -> tuple[Json, list[Json]]:
    if isinstance(block.opaque, dict) and block.opaque.get("type") == "redacted_thinking":
        return block.opaque, []
    deltas: list[Json] = [{"type": "thinking_delta", "thinking": part} for part in split_text(block.text, delta_size)]
    signature = block.signature or block.metadata.get("signature")
    if signature:
        deltas.append({"type": "signature_delta", "signature": signature})
    return {"type": "thinking", "thinking": "", "signature": ""}, deltas


def _call_block(block: ToolCallBlock, delta_size: int) -> tuple[Json, list[Json]]:
    start: Json = {"type": "tool_use", "id": raw_call_id(block) or block.id, "name": block.name, "input": {}}
    start.update({name: block.metadata[name] for name in ("caller", "toolset_name") if name in block.metadata})
    return start, _input_deltas(arguments_text(block), delta_size)


def _server_tool_block(raw: Any, delta_size: int) -> tuple[Json, list[Json]]:
    if not isinstance(raw, dict):
        return {"type": "unknown", "value": raw}, []
    arguments = raw.get("input")
    if str(raw.get("type")).endswith("_tool_use") and isinstance(arguments, dict) and arguments:
        return {**raw, "input": {}}, _input_deltas(compact_json(arguments), delta_size)
    return raw, []


def _from_other_provider(block: ServerToolBlock) -> list[Json]:
    """Return another provider's server tool as blocks of this wire."""
    use_id = block.id or "srvtoolu_0"
    arguments = block.arguments if isinstance(block.arguments, dict) else {}
    blocks: list[Json] = [{"type": "server_tool_use", "id": use_id, "name": block.name, "input": arguments}]
    if block.result is not None:
        blocks.append({"type": f"{block.name}_tool_result", "tool_use_id": use_id, "content": block.result})
    return blocks


def _input_deltas(text: str, delta_size: int) -> list[Json]:
    """Return argument text as deltas; the first is empty, as the API sends it."""
    return [{"type": "input_json_delta", "partial_json": part} for part in ("", *split_text(text, delta_size))]
