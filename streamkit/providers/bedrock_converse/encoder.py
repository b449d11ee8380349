"""The encoder of Bedrock Converse streams: a content as the bytes that ConverseStream would have sent.

The parser reads the same turn from them, opaque state byte for byte. This wire has no field for the response's id nor
for its model. The embedded server uses this module; it must not depend on requests or sockets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from streamkit.calls import FinishReason, Usage
from streamkit.history.content import (
    Block,
    Content,
    FileBlock,
    OpaqueBlock,
    ReasoningBlock,
    ServerToolBlock,
    TextBlock,
    ToolCallBlock,
)
from streamkit.providers import aws_frames
from streamkit.providers.aws_frames import error_body, error_event
from streamkit.providers.bedrock_converse.schema import Json
from streamkit.providers.bedrock_converse.traits import FINISH_REASONS
from streamkit.providers.decoding import compact_json
from streamkit.providers.encoding import (
    arguments_text,
    default_finish_reason,
    raw_call_id,
    split_text,
    uncached_input_tokens,
)
from streamkit.providers.finish_reasons import invert_finish_reasons
from streamkit.providers.provider import Traits

__all__ = ["emit", "error_body", "error_event"]

_STOP_REASONS: Final = invert_finish_reasons(FINISH_REASONS, preferred={"content_filter": "content_filtered"})
_PADDING = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


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
    """Yield the frames of a stream that the parser reads as this content.

    Args:
        content: The assistant's content.
        traits: The traits of the provider; the stream does not depend on them.
        response_id: Not sent; this wire has no field for it.
        model: The same.
        finish: None: ``tool_calls`` if the content has calls, else ``stop``. ``error`` ends the stream with an
            exception.
        usage: The tokens; None is sent as zeros, as this wire always reports usage.
        delta_size: Characters of a delta.
    """
    yield _event("messageStart", {"role": "assistant"})
    parts = (part for block in content.blocks for part in _wire_blocks(block, delta_size))
    for index, (start, deltas) in enumerate(parts):
        if start is not None:
            yield _event("contentBlockStart", {"contentBlockIndex": index, "start": start})
        for delta in deltas:
            yield _event("contentBlockDelta", {"contentBlockIndex": index, "delta": delta})
        yield _event("contentBlockStop", {"contentBlockIndex": index})
    if finish == "error":
        yield aws_frames.encode_exception(
            "modelStreamErrorException", "The model stopped before the end of its response."
        )
        return
    yield _event("messageStop", {"stopReason": _STOP_REASONS[finish or default_finish_reason(content)]})
    yield _event("metadata", {"usage": _usage_fields(usage or Usage()), "metrics": {"latencyMs": 0}})


def _event(name: str, body: Json) -> bytes:
    """Return an event with padding, which hides a text's length from an observer; here its size is deterministic."""
    return aws_frames.encode_event(name, {**body, "p": _PADDING[: len(compact_json(body)) % len(_PADDING)]})


def _usage_fields(usage: Usage) -> Json:
    """Return the usage fields; this wire counts the prompt in parts."""
    fields: Json = {
        "inputTokens": uncached_input_tokens(usage),
        "outputTokens": usage.output_tokens or 0,
        "totalTokens": (usage.input_tokens or 0) + (usage.output_tokens or 0),
    }
    if usage.cache_read_tokens is not None:
        fields["cacheReadInputTokens"] = usage.cache_read_tokens
    if usage.cache_write_tokens is not None:
        fields["cacheWriteInputTokens"] = usage.cache_write_tokens
    return fields


def _wire_blocks(block: Block, delta_size: int) -> Iterator[tuple[Json | None, list[Json]]]:
    """Yield the wire's blocks of one block: the body of its start event, None if it has none, and its deltas."""
    if isinstance(block, TextBlock):
        deltas: list[Json] = [{"text": part} for part in split_text(block.text, delta_size)]
        yield None, [*deltas, *({"citation": citation} for citation in block.metadata.get("citations") or [])]
    elif isinstance(block, ReasoningBlock):
        yield None, _reasoning_deltas(block, delta_size)
    elif isinstance(block, ToolCallBlock):
        start = {"toolUseId": raw_call_id(block) or block.id, "name": block.name}
        yield {"toolUse": start}, _input_deltas(arguments_text(block), delta_size)
    elif isinstance(block, ServerToolBlock):
        for raw in block.raw or _from_other_provider(block):
            yield _server_tool_block(raw, delta_size)
    elif isinstance(block, FileBlock) and (block.media_type or "").startswith("image/"):
        source: Json = {"bytes": block.data} if block.data else {"s3Location": {"uri": block.url}}
        yield {"image": {"format": (block.media_type or "").partition("/")[2]}}, [{"image": {"source": source}}]
    elif isinstance(block, OpaqueBlock) and isinstance(block.raw, dict):
        yield block.raw, []


def _reasoning_deltas(block: ReasoningBlock, delta_size: int) -> list[Json]:
    if isinstance(block.opaque, dict) and "reasoningContent" in block.opaque:
        return [block.opaque]
    deltas: list[Json] = [{"reasoningContent": {"text": part}} for part in split_text(block.text, delta_size)]
    signature = block.signature or block.metadata.get("signature")
    if signature:
        deltas.append({"reasoningContent": {"signature": signature}})
    return deltas


def _server_tool_block(raw: Any, delta_size: int) -> tuple[Json | None, list[Json]]:
    body = next(iter(raw.values()), None) if isinstance(raw, dict) else None
    if not isinstance(body, dict):
        return {"unknown": raw}, []
    if "toolUse" in raw:
        arguments = body.get("input")
        start = {name: value for name, value in body.items() if name != "input"}
        return {"toolUse": start}, _input_deltas(compact_json(arguments) if arguments else "", delta_size)
    if "toolResult" in raw:
        start = {name: value for name, value in body.items() if name != "content"}
        return {"toolResult": start}, [{"toolResult": body.get("content") or []}]
    return raw, []


def _from_other_provider(block: ServerToolBlock) -> list[Json]:
    """Return another provider's server tool as blocks of this wire."""
    use_id = block.id or "tooluse_0"
    arguments = block.arguments if isinstance(block.arguments, dict) else {}
    use = {"toolUseId": use_id, "name": block.name, "type": "server_tool_use", "input": arguments}
    if block.result is None:
        return [{"toolUse": use}]
    content = [{"json": block.result}] if isinstance(block.result, dict) else [{"text": compact_json(block.result)}]
    result = {"toolUseId": use_id, "type": f"{block.name}_result", "status": "success", "content": content}
    return [{"toolUse": use}, {"toolResult": result}]


def _input_deltas(text: str, delta_size: int) -> list[Json]:
    return [{"toolUse": {"input": part}} for part in split_text(text, delta_size)]
