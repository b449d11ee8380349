"""The same work by hand: the loops that people write without a library, which give the floor of every ratio.

- ``DECODE``: splits the frames of a wire and decodes each with ``orjson.loads``, and nothing else: no events, no calls,
  no text kept, no limits, no errors. SSE lines may end with LF or CRLF, and may change: this is the main reference.
- ``decode_told``: the same for SSE whose line end the caller passes, as if each server were known.
- ``KEEP``: what users keep besides: the text, the reasoning, and the calls with their arguments parsed. It is right for
  the usual form of a wire; checks, ids, other choices and server tools are left out.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from typing import Any

import orjson

__all__ = ["DECODE", "KEEP", "Kept", "decode_sse", "decode_told", "iterate_chunks", "wire_of"]

Reads = Iterable[bytes]
Kept = tuple[str, str, list[tuple[str, Any]]]
Chunks = Iterator[Any]
Calls = dict[int, tuple[str, str, list[str]]]  # id, name and the parts of the arguments, by index


def wire_of(provider: str) -> str:
    """Return the name of the wire format that a provider sends."""
    from streamkit import providers

    return providers.get(provider).package.rpartition(".")[2]


def decode_sse(reads: Reads) -> int:
    """Split SSE at its blank lines and decode each data line; return the number of chunks."""
    count, tail = 0, b""
    for read in reads:
        tail += read
        if b"\r" in tail:
            tail = tail.replace(b"\r\n", b"\n")
        *events, tail = tail.split(b"\n\n")
        for event in events:
            for line in event.split(b"\n"):
                if line.startswith(b"data: "):
                    payload = line[6:]
                elif line.startswith(b"data:"):
                    payload = line[5:]
                else:
                    continue
                if payload != b"[DONE]":
                    orjson.loads(payload)
                    count += 1
    return count


def decode_told(reads: Reads, line_end: bytes) -> int:
    """Do what ``decode_sse`` does for one line end."""
    count, tail, event_end = 0, b"", line_end * 2
    for read in reads:
        tail += read
        *events, tail = tail.split(event_end)
        for event in events:
            for line in event.split(line_end):
                if line.startswith(b"data: "):
                    payload = line[6:]
                elif line.startswith(b"data:"):
                    payload = line[5:]
                else:
                    continue
                if payload != b"[DONE]":
                    orjson.loads(payload)
                    count += 1
    return count


def sse_chunks(reads: Reads) -> Chunks:
    """Yield the chunks of SSE as dicts: ``decode_sse`` as a generator."""
    tail = b""
    for read in reads:
        tail += read
        if b"\r" in tail:
            tail = tail.replace(b"\r\n", b"\n")
        *events, tail = tail.split(b"\n\n")
        for event in events:
            for line in event.split(b"\n"):
                if line.startswith(b"data: "):
                    payload = line[6:]
                elif line.startswith(b"data:"):
                    payload = line[5:]
                else:
                    continue
                if payload != b"[DONE]":
                    yield orjson.loads(payload)


async def iterate_chunks(source: AsyncIterable[bytes]) -> AsyncIterator[dict[str, Any]]:
    """Yield the chunks of an asynchronous source of SSE: ``decode_sse`` as an asynchronous generator."""
    tail = b""
    async for read in source:
        tail += read
        if b"\r" in tail:
            tail = tail.replace(b"\r\n", b"\n")
        *events, tail = tail.split(b"\n\n")
        for event in events:
            for line in event.split(b"\n"):
                if line.startswith(b"data: "):
                    payload = line[6:]
                elif line.startswith(b"data:"):
                    payload = line[5:]
                else:
                    continue
                if payload != b"[DONE]":
                    yield orjson.loads(payload)


def ndjson_chunks(reads: Reads) -> Chunks:
    tail = b""
    for read in reads:
        tail += read
        *lines, tail = tail.split(b"\n")
        for line in lines:
            if line:
                yield orjson.loads(line)


def event_stream_chunks(reads: Reads) -> Chunks:
    """Yield ``(name, chunk)`` of AWS event streams, without a look at the checksums."""
    tail = b""
    for read in reads:
        tail += read
        while len(tail) >= 16 and len(tail) >= (size := int.from_bytes(tail[:4], "big")):
            headers_end = 12 + int.from_bytes(tail[4:8], "big")
            name = tail[12:headers_end].partition(b":event-type\x07")[2]
            yield name[2 : 2 + int.from_bytes(name[:2], "big")], orjson.loads(tail[headers_end : size - 4])
            tail = tail[size:]


def invoke_chunks(reads: Reads) -> Chunks:
    """Yield the chunks of a model that Bedrock passes on in base64."""
    for _, chunk in event_stream_chunks(reads):
        if "bytes" in chunk:
            yield orjson.loads(base64.b64decode(chunk["bytes"]))


def keep_chat(reads: Reads) -> Kept:
    text, reasoning = [], []
    calls: Calls = {}
    for chunk in sse_chunks(reads):
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta")
            if not delta or choice.get("index"):
                continue
            content = delta.get("content")
            if content.__class__ is str:
                text.append(content)
            elif content:  # Mistral
                for part in content:
                    if part["type"] == "text":
                        text.append(part["text"])
                    elif part["type"] == "thinking":
                        reasoning += [inner["text"] for inner in part["thinking"]]
            thought = delta.get("reasoning_content") or delta.get("reasoning")
            if thought:
                reasoning.append(thought)
            for call in delta.get("tool_calls") or ():
                index, function = call.get("index") or 0, call.get("function") or {}
                if index not in calls:
                    calls[index] = (call.get("id"), function.get("name"), [])
                calls[index][2].append(function.get("arguments") or "")
    return "".join(text), "".join(reasoning), [(name, _arguments(parts)) for _, name, parts in calls.values()]


def keep_anthropic(reads: Reads, chunks: Callable[[Reads], Chunks] = sse_chunks) -> Kept:
    text, reasoning = [], []
    calls: Calls = {}
    for chunk in chunks(reads):
        kind = chunk.get("type")
        if kind == "content_block_delta":
            delta = chunk["delta"]
            kind = delta["type"]
            if kind == "text_delta":
                text.append(delta["text"])
            elif kind == "input_json_delta":
                if chunk["index"] in calls:
                    calls[chunk["index"]][2].append(delta["partial_json"])
            elif kind == "thinking_delta":
                reasoning.append(delta["thinking"])
        elif kind == "content_block_start" and chunk["content_block"]["type"] == "tool_use":
            block = chunk["content_block"]
            calls[chunk["index"]] = (block["id"], block["name"], [])
    return "".join(text), "".join(reasoning), [(name, _arguments(parts)) for _, name, parts in calls.values()]


def keep_responses(reads: Reads) -> Kept:
    text, reasoning = [], []
    calls: Calls = {}
    for chunk in sse_chunks(reads):
        kind = chunk.get("type")
        if kind == "response.output_text.delta":
            text.append(chunk["delta"])
        elif kind == "response.function_call_arguments.delta":
            calls[chunk["output_index"]][2].append(chunk["delta"])
        elif kind in ("response.reasoning_summary_text.delta", "response.reasoning_text.delta"):
            reasoning.append(chunk["delta"])
        elif kind == "response.output_item.added" and chunk["item"]["type"] == "function_call":
            item = chunk["item"]
            calls[chunk["output_index"]] = (item["call_id"], item["name"], [])
    return "".join(text), "".join(reasoning), [(name, _arguments(parts)) for _, name, parts in calls.values()]


def keep_gemini(reads: Reads) -> Kept:
    text, reasoning, calls = [], [], []
    for chunk in sse_chunks(reads):
        for candidate in chunk.get("candidates") or ():
            for part in candidate.get("content", {}).get("parts") or ():
                if "text" in part:
                    (reasoning if part.get("thought") else text).append(part["text"])
                elif "functionCall" in part:
                    calls.append((part["functionCall"].get("name"), part["functionCall"].get("args", {})))
    return "".join(text), "".join(reasoning), calls


def keep_converse(reads: Reads) -> Kept:
    text, reasoning = [], []
    calls: Calls = {}
    for name, chunk in event_stream_chunks(reads):
        if name == b"contentBlockDelta":
            delta = chunk["delta"]
            if "text" in delta:
                text.append(delta["text"])
            elif "reasoningContent" in delta:
                reasoning.append(delta["reasoningContent"].get("text", ""))
            elif "toolUse" in delta and chunk["contentBlockIndex"] in calls:
                calls[chunk["contentBlockIndex"]][2].append(delta["toolUse"]["input"])
        elif name == b"contentBlockStart" and "toolUse" in chunk["start"]:
            use = chunk["start"]["toolUse"]
            if "type" not in use:  # a tool that the server runs
                calls[chunk["contentBlockIndex"]] = (use["toolUseId"], use["name"], [])
    return "".join(text), "".join(reasoning), [(name, _arguments(parts)) for _, name, parts in calls.values()]


def keep_cohere(reads: Reads) -> Kept:
    text, reasoning = [], []
    calls: Calls = {}
    for chunk in sse_chunks(reads):
        kind = chunk.get("type")
        if kind == "content-delta":
            content = chunk["delta"]["message"]["content"]
            if "text" in content:
                text.append(content["text"])
            else:
                reasoning.append(content["thinking"])
        elif kind == "tool-plan-delta":
            reasoning.append(chunk["delta"]["message"]["tool_plan"])
        elif kind == "tool-call-delta":
            calls[chunk["index"]][2].append(chunk["delta"]["message"]["tool_calls"]["function"]["arguments"])
        elif kind == "tool-call-start":
            call = chunk["delta"]["message"]["tool_calls"]
            calls[chunk["index"]] = (call["id"], call["function"]["name"], [call["function"].get("arguments", "")])
    return "".join(text), "".join(reasoning), [(name, _arguments(parts)) for _, name, parts in calls.values()]


def keep_ollama(reads: Reads) -> Kept:
    text, reasoning, calls = [], [], []
    for chunk in ndjson_chunks(reads):
        message = chunk["message"]
        text.append(message["content"])
        if "thinking" in message:
            reasoning.append(message["thinking"])
        calls += [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls", ())]
    return "".join(text), "".join(reasoning), calls


def _arguments(parts: list[str]) -> Any:
    return orjson.loads("".join(parts) or "{}")


def _count(chunks: Callable[[Reads], Chunks]) -> Callable[[Reads], int]:
    def count(reads: Reads) -> int:
        number = 0
        for _ in chunks(reads):
            number += 1
        return number

    return count


#: Of each wire.
DECODE: dict[str, Callable[[Reads], int]] = {
    **dict.fromkeys(("openai_chat", "anthropic", "openai_responses", "gemini", "cohere"), decode_sse),
    "bedrock_converse": _count(event_stream_chunks),
    "bedrock_invoke": _count(invoke_chunks),
    "ollama": _count(ndjson_chunks),
}
KEEP: dict[str, Callable[[Reads], Kept]] = {
    "openai_chat": keep_chat,
    "anthropic": keep_anthropic,
    "openai_responses": keep_responses,
    "gemini": keep_gemini,
    "bedrock_converse": keep_converse,
    "bedrock_invoke": lambda reads: keep_anthropic(reads, invoke_chunks),
    "cohere": keep_cohere,
    "ollama": keep_ollama,
}
