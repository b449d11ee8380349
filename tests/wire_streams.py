"""Streams for tests: chunks made by hand, framed as their wire frames them, cut as a network may cut them.

Used by the conformance cases, the properties and the tests of ``Turn``. It knows how vendors frame and nothing of what
streamkit makes of it, but for ``run`` and ``summary``, which go through the public contract alone.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Iterable
from typing import Any

from streamkit import Turn
from streamkit.events import Event
from streamkit.testing import every_cut as cuts
from streamkit.testing.case import full_snapshot as summary
from streamkit.testing.case import merge_deltas

__all__ = ["cuts", "merge_deltas", "summary"]  # the conformance kit's, under the names of the tests

Chunk = dict[str, Any]

# ---------------------------------------------------------------- chunks


def chat(delta: Any = None, finish: str | None = None, *, index: int = 0, **fields: Any) -> Chunk:
    """One ``chat.completion.chunk``."""
    choice = {"index": index, "delta": {} if delta is None else delta, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m-1", "choices": [choice], **fields}


def chat_call(
    arguments: str | None = None, *, index: int | None = 0, id: str | None = None, name: str | None = None
) -> Chunk:
    """A chunk with one piece of a call; what is None is left out."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    piece = {key: value for key, value in (("index", index), ("id", id)) if value is not None}
    return chat({"tool_calls": [{**piece, "type": "function", "function": function}]})


def message_start(**message: Any) -> Chunk:
    """Anthropic's first event."""
    whole = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m-1", "content": [], **message}
    return {"type": "message_start", "message": whole}


def block(index: int, start: Chunk, *deltas: Chunk, stop: bool = True) -> list[Chunk]:
    """Anthropic's events of one block."""
    made: list[Chunk] = [{"type": "content_block_start", "index": index, "content_block": start}]
    made += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    return [*made, {"type": "content_block_stop", "index": index}] if stop else made


def message_end(reason: str | None = "end_turn", **usage: int) -> list[Chunk]:
    """Anthropic's last two events."""
    delta: Chunk = {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}}
    if usage:
        delta["usage"] = usage
    return [delta, {"type": "message_stop"}]


def gemini(*parts: Chunk, finish: Any = None, **fields: Any) -> Chunk:
    """One GenerateContentResponse."""
    candidate: Chunk = {"content": {"role": "model", "parts": list(parts)}}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "responseId": "resp-1", "modelVersion": "m-1", **fields}


#: The chunks of a response that is the text "Hello".
HELLO = {
    "openai_chat": [chat({"content": "Hello"}), chat({}, "stop")],
    "anthropic": [
        message_start(),
        *block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Hello"}),
        *message_end(),
    ],
    "gemini": [gemini({"text": "Hello"}), gemini(finish="STOP")],
}

#: The page of a proxy, in place of a response.
HTML = b"<!DOCTYPE html>\n<html><body>\n\n<h1>502 Bad Gateway</h1></body></html>"

# ---------------------------------------------------------------- framing and cutting


def dumped(value: Any) -> bytes:
    """Compact JSON; escaped where it holds half of a surrogate pair, which UTF-8 cannot."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def chat_bytes(chunks: Iterable[Chunk], *, done: bool = True) -> bytes:
    return b"".join(b"data: %b\n\n" % dumped(chunk) for chunk in chunks) + (b"data: [DONE]\n\n" if done else b"")


def anthropic_bytes(chunks: Iterable[Chunk]) -> bytes:
    return b"".join(b"%bdata: %b\n\n" % (_event_line(chunk), dumped(chunk)) for chunk in chunks)


def _event_line(chunk: Chunk) -> bytes:
    name = chunk.get("type")
    plain = isinstance(name, str) and name.isascii() and name.isprintable()
    return b"event: %b\n" % str(name).encode() if name and plain else b""


def gemini_bytes(chunks: Iterable[Chunk]) -> bytes:
    return b"".join(b"data: %b\r\n\r\n" % dumped(chunk) for chunk in chunks)


def gemini_array(chunks: Iterable[Chunk]) -> bytes:
    """The framing without ``alt=sse``."""
    return b"[" + b"\n,\r\n".join(dumped(chunk) for chunk in chunks) + b"\n]\n"


def cohere_bytes(chunks: Iterable[Chunk], *, done: bool = True) -> bytes:
    named = b"".join(b"%bdata: %b\n\n" % (_event_line(chunk), dumped(chunk)) for chunk in chunks)
    return named + (b"data: [DONE]\n\n" if done else b"")


def framed(provider: str, chunks: Iterable[Chunk], *, done: bool = True) -> bytes:
    """The chunks as that provider's bytes; ``done``: with ``[DONE]``, where the wire has it."""
    if provider == "anthropic":
        return anthropic_bytes(chunks)
    if provider == "gemini":
        return gemini_bytes(chunks)
    if provider == "cohere":
        return cohere_bytes(chunks, done=done)
    if provider == "ollama":
        return b"".join(b"%b\n" % dumped(chunk) for chunk in chunks)
    if provider == "bedrock_converse":
        return b"".join(converse_frame(chunk) for chunk in chunks)
    if provider == "bedrock_invoke":
        return b"".join(invoke_frame(chunk) for chunk in chunks)
    return chat_bytes(chunks, done=done)


def amazon_frame(headers: dict[str, str], payload: bytes) -> bytes:
    """One message of ``application/vnd.amazon.eventstream``."""
    written = b"".join(
        struct.pack("!B", len(name)) + name.encode() + struct.pack("!BH", 7, len(value.encode())) + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack("!II", 16 + len(written) + len(payload), len(written))
    whole = prelude + struct.pack("!I", zlib.crc32(prelude)) + written + payload
    return whole + struct.pack("!I", zlib.crc32(whole))


def converse_frame(chunk: Chunk) -> bytes:
    """One event or exception, given as boto3 gives it: ``{name: body}``."""
    ((name, body),) = chunk.items()
    kind = "exception" if name.endswith("Exception") else "event"
    headers = {f":{kind}-type": name, ":content-type": "application/json", ":message-type": kind}
    return amazon_frame(headers, dumped(body))


def invoke_frame(event: Chunk) -> bytes:
    """One of Anthropic's events, or what boto3 gives of a frame: a chunk, an exception."""
    if len(event) == 1 and next(iter(event)).endswith(("chunk", "Exception")):
        return converse_frame(event)
    return converse_frame({"chunk": {"bytes": base64.b64encode(dumped(event)).decode(), "p": "abc"}})


def bytes_one_by_one(data: bytes) -> list[bytes]:
    """The bytes one by one."""
    return [data[at : at + 1] for at in range(len(data))]


# ---------------------------------------------------------------- running


def run(
    provider: Any,
    pieces: Iterable[Any],
    *,
    error: BaseException | None = None,
    complete: bool = False,
    response: tuple[int, dict[str, str]] | None = None,
    key: str | None = "turn-1",
    **options: Any,
) -> tuple[Turn, list[Event]]:
    """A closed turn and all of its events."""
    turn = Turn(provider, turn_key=key, **options)
    if response is not None:
        turn.response(*response)
    seen: list[Event] = []
    for piece in pieces:
        seen += turn.feed(piece)
    seen += turn.close(error, complete=complete)
    return turn, seen
