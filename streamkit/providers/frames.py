"""Encoding of chunks as frames by a provider's traits, the inverse of framing."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable
from typing import Any

from streamkit.framing.event_stream import encode_message
from streamkit.providers.provider import Traits

__all__ = ["encode_frame", "encode_json_array", "encode_stream"]


def encode_stream(chunks: Iterable[dict[str, Any]], traits: Traits, *, end_marker: str | None = None) -> bytes:
    """Return chunks as the bytes of one body.

    Args:
        chunks: the chunks, as plain data.
        traits: the provider's.
        end_marker: the payload after the chunks, such as ``traits.end_marker``; None for none.
    """
    if traits.framing == "json_array":
        return encode_json_array(chunks)
    frames = [encode_frame(chunk, traits) for chunk in chunks]
    return b"".join(frames if end_marker is None else [*frames, _line(end_marker.encode(), traits)])


def encode_json_array(chunks: Iterable[dict[str, Any]]) -> bytes:
    """Return chunks as one JSON array, which some servers send if the request did not ask for events."""
    return b"[" + b"\n,\r\n".join(map(_json, chunks)) + b"\n]\n"


def encode_frame(chunk: dict[str, Any], traits: Traits) -> bytes:
    """Return a chunk as one frame: an SSE event, a line of JSON, or an AWS event-stream message."""
    if traits.framing == "event_stream":
        return _message(chunk, traits)
    line = _line(_json(chunk), traits)
    name = chunk.get(traits.event_name_field) if traits.event_name_field is not None else None
    if not isinstance(name, str) or "\n" in name or "\r" in name:
        return line
    return b"event: " + name.encode("utf-8", "surrogatepass") + traits.line_end.encode() + line


def _line(payload: bytes, traits: Traits) -> bytes:
    line_end = traits.line_end.encode()
    return b"data: " + payload + 2 * line_end if traits.framing == "sse" else payload + line_end


def _message(chunk: dict[str, Any], traits: Traits) -> bytes:
    (name, body), *others = chunk.items() or [("", {})]
    if traits.wrapper_event is not None and (others or not name.endswith("Exception")):
        name, payload = traits.wrapper_event, _json({"bytes": b64encode(_json(chunk)).decode("ascii")})
    else:
        payload = _json(body)
    kind = "exception" if name.endswith("Exception") else "event"
    headers = {f":{kind}-type": name, ":content-type": "application/json", ":message-type": kind}
    return encode_message(headers, payload)


def _json(value: Any) -> bytes:
    """Return compact JSON, not ASCII-escaped; half a surrogate pair is encoded unchanged, as some servers do."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
