"""Chunks as the bytes of a provider's wire, for cases that are written as chunks.

How a wire frames its chunks is not asked for: it is seen in the stream that the provider's own ``emit`` writes (whether
events are named and by which field, how lines end, what ends the stream). A provider without ``emit`` is taken to have
the plainest form of its framing. This file knows framings, and no vendor.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from streamkit.framing import Frame, framer_for
from streamkit.framing.event_stream import encode_message
from streamkit.history import Content
from streamkit.providers.provider import Provider

__all__ = ["Framing", "json_array", "json_lines"]

Chunk = dict[str, Any]


def json_array(chunks: Sequence[Chunk]) -> bytes:
    """The chunks as one JSON array, which some servers send where events are not asked for."""
    return b"[" + b"\n,\r\n".join(map(_json, chunks)) + b"\n]\n"


def json_lines(chunks: Sequence[Chunk]) -> bytes:
    """The chunks as lines of JSON, as recordings of binary streams are kept."""
    return b"".join(_json(chunk) + b"\n" for chunk in chunks)


class Framing:
    """How one provider frames its chunks."""

    def __init__(self, provider: Provider) -> None:
        self._kind = provider.framing
        sample, frames = _sample(provider)
        payloads = [_object(payload) for _, payload in frames]
        self._line_end = b"\r\n" if b"\r\n" in sample else b"\n"
        #: The field of a chunk that names its event; None where events have no names.
        self._named_by = _field_with(frames[0][0], payloads[0]) if frames else None
        #: What ends the stream beside chunks, such as ``[DONE]``.
        self._end = [payload for (_, payload), found in zip(frames, payloads, strict=True) if found is None]
        #: The event whose payload has the chunk in base64; None where an event's name is the chunk's one member.
        wrapped = frames and all(found is not None and isinstance(found.get("bytes"), str) for found in payloads)
        self._wrapped_in = frames[0][0].decode() if wrapped else None

    def bytes_of(self, chunks: Sequence[Chunk], *, done: bool | str = True) -> bytes:
        """The chunks as one body; ``done``: with what ends the stream, where the wire has that, or with this text."""
        if self._kind == "json_array":
            return json_array(chunks)
        end = [done.encode()] if isinstance(done, str) else self._end if done else []
        return b"".join([*map(self._frame, chunks), *map(self._line, end)])

    def _frame(self, chunk: Chunk) -> bytes:
        if self._kind == "event_stream":
            return self._message(chunk)
        name = chunk.get(self._named_by) if self._named_by is not None else None
        if not isinstance(name, str) or "\n" in name or "\r" in name:
            return self._line(_json(chunk))
        return b"event: " + name.encode("utf-8", "surrogatepass") + self._line_end + self._line(_json(chunk))

    def _line(self, payload: bytes) -> bytes:
        return b"data: " + payload + 2 * self._line_end if self._kind == "sse" else payload + self._line_end

    def _message(self, chunk: Chunk) -> bytes:
        (name, body), *others = chunk.items() or [("", {})]
        if self._wrapped_in is not None and (others or not name.endswith("Exception")):
            name, payload = self._wrapped_in, _json({"bytes": b64encode(_json(chunk)).decode("ascii")})
        else:
            payload = _json(body)
        kind = "exception" if name.endswith("Exception") else "event"
        headers = {f":{kind}-type": name, ":content-type": "application/json", ":message-type": kind}
        return encode_message(headers, payload)


def _sample(provider: Provider) -> tuple[bytes, list[Frame]]:
    """What the provider writes for a short answer, and its frames; nothing where it does not write."""
    try:
        sample = b"".join(provider.emit(Content.ai("Hello."), response_id="r-1", model="m-1"))
    except (AttributeError, NotImplementedError):
        return b"", []
    framer = framer_for(provider.framing)
    return sample, framer.feed(sample) + framer.close()


def _object(payload: bytes) -> Chunk | None:
    try:
        found = json.loads(payload)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _field_with(name: bytes, chunk: Chunk | None) -> str | None:
    """The field that has the event's name as its value."""
    return next((key for key, value in (chunk or {}).items() if name and value == name.decode()), None)


def _json(value: Any) -> bytes:
    """Compact JSON, not ASCII-escaped; half a surrogate pair is written as such, as some servers do."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
