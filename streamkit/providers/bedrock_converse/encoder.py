"""An answer back to the bytes that ConverseStream would have sent, for the embedded server.

Read again by the parser it is the same turn, opaque state byte for byte. The wire has no place for the id of an answer
nor for its model. It knows neither requests nor sockets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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
from streamkit.providers import aws_errors
from streamkit.providers.aws_errors import error_body
from streamkit.providers.bedrock_converse.schema import WORDS, Json
from streamkit.providers.decoding import compact_json
from streamkit.providers.provider import Traits

__all__ = ["emit", "error_body"]

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
    """The stream that this answer would have been, one frame at a time.

    Args:
        content: the assistant's content.
        finish: None means ``tool_calls`` where there are calls, else ``stop``; ``error`` ends it with an exception.
        usage: its figures; zeros where there are none, as the wire always has some.
        piece: characters of a delta.
    """
    yield _event("messageStart", {"role": "assistant"})
    parts = (part for block in content.blocks for part in _parts(block, max(1, delta_size)))
    for index, (start, deltas) in enumerate(parts):
        if start is not None:
            yield _event("contentBlockStart", {"contentBlockIndex": index, "start": start})
        for delta in deltas:
            yield _event("contentBlockDelta", {"contentBlockIndex": index, "delta": delta})
        yield _event("contentBlockStop", {"contentBlockIndex": index})
    if finish == "error":
        yield aws_errors.exception("modelStreamErrorException", "The model stopped in the middle of its answer.")
        return
    calls = any(isinstance(block, ToolCallBlock) for block in content.blocks)
    yield _event("messageStop", {"stopReason": WORDS[finish or ("tool_calls" if calls else "stop")]})
    yield _event("metadata", {"usage": _usage(usage or Usage()), "metrics": {"latencyMs": 0}})


def _event(name: str, body: Json) -> bytes:
    """An event with its padding, which hides from a listener how long the text is; here it is the same every time."""
    return aws_errors.event(name, {**body, "p": _PADDING[: len(compact_json(body)) % len(_PADDING)]})


def _usage(usage: Usage) -> Json:
    """The whole prompt told apart again: what was read from the cache, what was written to it, the rest."""
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    prompt, output = usage.input_tokens or 0, usage.output_tokens or 0
    figures = {"inputTokens": max(0, prompt - (read or 0) - (written or 0)), "outputTokens": output}
    figures["totalTokens"] = prompt + output
    if read is not None:
        figures["cacheReadInputTokens"] = read
    if written is not None:
        figures["cacheWriteInputTokens"] = written
    return figures


def _parts(block: Block, delta_size: int) -> Iterator[tuple[Json | None, list[Json]]]:
    """The wire's blocks of one block: what its start says, if it has one, and its deltas."""
    if isinstance(block, TextBlock):
        deltas: list[Json] = [{"text": part} for part in _pieces(block.text, delta_size)]
        yield None, [*deltas, *({"citation": citation} for citation in block.metadata.get("citations") or [])]
    elif isinstance(block, ReasoningBlock):
        yield None, _reasoning(block, delta_size)
    elif isinstance(block, ToolCallBlock):
        raw_id, text = block.metadata.get("raw_id"), block.metadata.get("raw_arguments")
        if not isinstance(text, str):  # else the arguments never were an object, and go out as they came
            arguments = block.parameters if isinstance(block.parameters, dict) else {"input": block.parameters}
            text = compact_json(arguments) if arguments else ""
        call_id = raw_id if isinstance(raw_id, str) and raw_id else block.id
        yield {"toolUse": {"toolUseId": call_id, "name": block.name}}, _inputs(text, delta_size)
    elif isinstance(block, ServerToolBlock):
        for raw in block.raw or _server_blocks(block):
            yield _server(raw, delta_size)
    elif isinstance(block, FileBlock) and (block.media_type or "").startswith("image/"):
        source: Json = {"bytes": block.data} if block.data else {"s3Location": {"uri": block.url}}
        yield {"image": {"format": (block.media_type or "").partition("/")[2]}}, [{"image": {"source": source}}]
    elif isinstance(block, OpaqueBlock) and isinstance(block.raw, dict):
        yield block.raw, []


def _reasoning(block: ReasoningBlock, delta_size: int) -> list[Json]:
    if isinstance(block.opaque, dict) and "reasoningContent" in block.opaque:
        return [block.opaque]
    deltas: list[Json] = [{"reasoningContent": {"text": part}} for part in _pieces(block.text, delta_size)]
    signature = block.signature or block.metadata.get("signature")
    if signature:
        deltas.append({"reasoningContent": {"signature": signature}})
    return deltas


def _server(raw: Any, delta_size: int) -> tuple[Json | None, list[Json]]:
    body = next(iter(raw.values()), None) if isinstance(raw, dict) else None
    if not isinstance(body, dict):
        return {"unknown": raw}, []
    if "toolUse" in raw:
        given = body.get("input")
        start = {name: value for name, value in body.items() if name != "input"}
        return {"toolUse": start}, _inputs(compact_json(given) if given else "", delta_size)
    if "toolResult" in raw:
        start = {name: value for name, value in body.items() if name != "content"}
        return {"toolResult": start}, [{"toolResult": body.get("content") or []}]
    return raw, []


def _server_blocks(block: ServerToolBlock) -> list[Json]:
    """Another provider's tool in this one's form."""
    use_id = block.id or "tooluse_0"
    arguments = block.arguments if isinstance(block.arguments, dict) else {}
    use = {"toolUseId": use_id, "name": block.name, "type": "server_tool_use", "input": arguments}
    if block.result is None:
        return [{"toolUse": use}]
    content = [{"json": block.result}] if isinstance(block.result, dict) else [{"text": compact_json(block.result)}]
    result = {"toolUseId": use_id, "type": f"{block.name}_result", "status": "success", "content": content}
    return [{"toolUse": use}, {"toolResult": result}]


def _inputs(text: str, delta_size: int) -> list[Json]:
    return [{"toolUse": {"input": part}} for part in _pieces(text, delta_size)]


def _pieces(text: str, delta_size: int) -> list[str]:
    return [text[start : start + delta_size] for start in range(0, len(text), delta_size)]
