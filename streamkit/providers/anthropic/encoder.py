"""An answer back to the bytes that api.anthropic.com would have streamed, for the embedded server.

Read again by the parser it is the same turn, opaque state byte for byte. It knows neither requests nor sockets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeGuard

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
from streamkit.providers.anthropic.schema import WORDS, Json
from streamkit.providers.decoding import compact_json
from streamkit.providers.provider import Traits

__all__ = ["emit", "error_body"]

#: https://docs.anthropic.com/en/api/errors
_ERRORS = {
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
    """The stream that this answer would have been, one SSE event at a time.

    Args:
        content: the assistant's content.
        response_id: the message's id.
        model: the model's name.
        finish: None means ``tool_calls`` where there are calls, else ``stop``; ``error`` ends it with an error event.
        usage: its figures; zeros where there are none, as the wire always has some.
        piece: characters of a delta.
    """
    figures = usage or Usage()
    prompt = _prompt(figures)
    message: Json = {
        "id": response_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**prompt, "output_tokens": min(1, figures.output_tokens or 0)},
    }
    yield _event("message_start", {"message": message})
    for index, (block, deltas) in enumerate(_blocks(content.blocks, max(1, delta_size))):
        yield _event("content_block_start", {"index": index, "content_block": block})
        if index == 0:
            yield _event("ping", {})
        for delta in deltas:
            yield _event("content_block_delta", {"index": index, "delta": delta})
        yield _event("content_block_stop", {"index": index})
    if finish == "error":
        yield _event("error", {"error": {"type": "api_error", "message": "Internal server error"}})
        return
    calls = [block for block in content.blocks if isinstance(block, ToolCallBlock)]
    refusal = "".join(block.text for block in content.blocks if _is_refusal(block))
    word = WORDS[finish or ("refusal" if refusal else "tool_calls" if calls else "stop")]
    ending: Json = {"stop_reason": word, "stop_sequence": None}
    if refusal:
        ending["stop_details"] = {"type": "refusal", "category": None, "explanation": refusal}
    if calls and "container" in calls[-1].metadata:
        ending["container"] = calls[-1].metadata["container"]
    output: Json = {**prompt, "output_tokens": figures.output_tokens or 0}
    if figures.reasoning_tokens is not None:
        output["output_tokens_details"] = {"thinking_tokens": figures.reasoning_tokens}
    yield _event("message_delta", {"delta": ending, "usage": output})
    yield _event("message_stop", {})


def error_body(status: int, message: str) -> Json:
    """The body with which the API answers a bad request."""
    kind = _ERRORS.get(status) or ("api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


def _is_refusal(block: Block) -> TypeGuard[TextBlock]:
    return isinstance(block, TextBlock) and bool(block.metadata.get("refusal"))


def _event(name: str, fields: Json) -> bytes:
    text = compact_json({"type": name, **fields})
    return f"event: {name}\ndata: {text}\n\n".encode("utf-8", "surrogatepass")


def _prompt(usage: Usage) -> Json:
    """The whole prompt told apart again: what was read from the cache, what was written to it, the rest."""
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    prompt: Json = {"input_tokens": max(0, (usage.input_tokens or 0) - (read or 0) - (written or 0))}
    if written is not None:
        prompt["cache_creation_input_tokens"] = written
    if read is not None:
        prompt["cache_read_input_tokens"] = read
    return prompt


def _blocks(blocks: list[Block], delta_size: int) -> Iterator[tuple[Json, list[Json]]]:
    """Each block as it stands at its start, and the deltas that fill it."""
    for block in blocks:
        if _is_refusal(block):
            continue  # it goes into the end of the message
        if isinstance(block, TextBlock):
            cited = block.metadata.get("citations") or []
            deltas: list[Json] = [{"type": "text_delta", "text": part} for part in _pieces(block.text, delta_size)]
            deltas += [{"type": "citations_delta", "citation": citation} for citation in cited]
            yield {"type": "text", "text": ""}, deltas
        elif isinstance(block, ReasoningBlock):
            yield _thinking(block, delta_size)
        elif isinstance(block, ToolCallBlock):
            yield _call(block, delta_size)
        elif isinstance(block, ServerToolBlock):
            for raw in block.raw or _server_blocks(block):
                yield _server(raw, delta_size)
        elif isinstance(block, OpaqueBlock) and isinstance(block.raw, dict):
            yield block.raw, []


def _thinking(block: ReasoningBlock, delta_size: int) -> tuple[Json, list[Json]]:
    if isinstance(block.opaque, dict) and block.opaque.get("type") == "redacted_thinking":
        return block.opaque, []
    deltas: list[Json] = [{"type": "thinking_delta", "thinking": part} for part in _pieces(block.text, delta_size)]
    signature = block.signature or block.metadata.get("signature")
    if signature:
        deltas.append({"type": "signature_delta", "signature": signature})
    return {"type": "thinking", "thinking": "", "signature": ""}, deltas


def _call(block: ToolCallBlock, delta_size: int) -> tuple[Json, list[Json]]:
    raw_id, text = block.metadata.get("raw_id"), block.metadata.get("raw_arguments")
    if not isinstance(text, str):  # else the arguments never were an object, and go out as they came
        arguments = block.parameters if isinstance(block.parameters, dict) else {"input": block.parameters}
        text = compact_json(arguments) if arguments else ""
    start: Json = {
        "type": "tool_use",
        "id": raw_id if isinstance(raw_id, str) and raw_id else block.id,
        "name": block.name,
        "input": {},
    }
    start.update({name: block.metadata[name] for name in ("caller", "toolset_name") if name in block.metadata})
    return start, _json_deltas(text, delta_size)


def _server(raw: Any, delta_size: int) -> tuple[Json, list[Json]]:
    if not isinstance(raw, dict):
        return {"type": "unknown", "value": raw}, []
    given = raw.get("input")
    if str(raw.get("type")).endswith("_tool_use") and isinstance(given, dict) and given:
        return {**raw, "input": {}}, _json_deltas(compact_json(given), delta_size)
    return raw, []


def _server_blocks(block: ServerToolBlock) -> list[Json]:
    """Another provider's tool in this one's form."""
    use_id = block.id or "srvtoolu_0"
    arguments = block.arguments if isinstance(block.arguments, dict) else {}
    blocks: list[Json] = [{"type": "server_tool_use", "id": use_id, "name": block.name, "input": arguments}]
    if block.result is not None:
        blocks.append({"type": f"{block.name}_tool_result", "tool_use_id": use_id, "content": block.result})
    return blocks


def _json_deltas(text: str, delta_size: int) -> list[Json]:
    """Argument text in pieces; the first one is empty, as the API sends it."""
    return [{"type": "input_json_delta", "partial_json": part} for part in ("", *_pieces(text, delta_size))]


def _pieces(text: str, delta_size: int) -> list[str]:
    return [text[start : start + delta_size] for start in range(0, len(text), delta_size)]
