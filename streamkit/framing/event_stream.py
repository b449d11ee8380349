"""``application/vnd.amazon.eventstream``: the binary framing of Amazon's services, decoded and encoded.

https://docs.aws.amazon.com/lexv2/latest/dg/event-stream-encoding.html. A message is, all numbers big-endian::

    total length 4 | headers' length 4 | CRC-32 of these 8 bytes | headers | payload | CRC-32 of all before it
    a header:  length of its name 1 | name | type of its value 1 | value

This module depends on lengths, checksums and headers, not on payloads or services. A frame is named after its
``:message-type``: an ``event`` by its ``:event-type``, an ``exception`` or ``error`` by ``exception:`` and its
``:exception-type`` or ``:error-code``. No event's name contains a colon, so the two cannot be confused. An ``error``
has no payload but an ``:error-message``, which becomes the frame's payload.

Both checksums are verified before anything is returned. If one is wrong, or a length is impossible, nothing after it
can be trusted, not even the start of the next message: ``error`` describes the error, and nothing more is returned.
Bytes whose very first checksum is wrong are not an event stream; their start remains in ``pending``.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Final
from zlib import crc32

from streamkit.framing.framer import Frame

__all__ = ["EXCEPTION", "EventStreamFramer", "encode_message"]

#: The prefix of the name of a frame that reports an error.
EXCEPTION: Final = b"exception:"

_PRELUDE = Struct(">III")
_HEADERS_AT: Final = _PRELUDE.size
_OVERHEAD: Final = _HEADERS_AT + 4  # bytes of a message without its headers and its payload
_MOST_HEADERS = 128 * 1024  # bytes; the format's own bound
_MOST_PENDING = 1024  # bytes kept of invalid input: enough to identify an error page
_MOST_NAMES = 64  # cached names of headers; a service has a dozen types of events

# Bytes of a header's value by its type: true, false, byte, short, integer, long, timestamp, uuid. The values of the
# other two, bytes (6) and text (7), begin with their length.
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
_BYTES, _TEXT = 6, 7

_BEFORE_NAME = b"\x0b:event-type\x07"
_AFTER_NAME = b"\r:content-type\x07\x00\x10application/json\r:message-type\x07\x00\x05event"

_unpack = _PRELUDE.unpack_from
_checksum_at = Struct(">I").unpack_from


class EventStreamFramer:
    """Splits messages into frames.

    Args:
        limit: the most bytes of one message.

    Attributes:
        overflow: a message exceeds ``limit`` or is invalid; those before it were returned, nothing is returned after
            it.
        error: a sentence about the invalid bytes; None if there are none. Without ``overflow`` the input was not an
            event stream from its start.
        name: the name of the last message that was taken.
    """

    unseparated: bytes | None = None  # see ``Framer``

    __slots__ = (
        "_at_start",
        "_buffer",
        "_closed",
        "_is_event_stream",
        "_limit",
        "_names",
        "_need",
        "error",
        "name",
        "overflow",
    )

    def __init__(self, limit: int) -> None:
        self.overflow: bool = False
        self.error: str | None = None
        self.name: bytes = b""
        self._limit = limit
        self._buffer = bytearray()  # the unfinished message; it grows in place, so tiny reads stay linear
        self._need = _HEADERS_AT  # bytes that the message must have before it is parsed again
        self._names: dict[bytes, bytes] = {}  # by headers, which all messages of one event type share
        self._is_event_stream = False  # the lengths of a message were valid
        self._closed = False
        self._at_start = False  # a message was returned and nothing is pending: the next read begins one

    @property
    def pending(self) -> bytes:
        """The unfinished message. After an error: the first KiB of the invalid message or input."""
        return bytes(self._buffer)

    def take(self, data: bytes) -> bytes | None:
        """Implement ``Framer.take``: a message whose headers were read before, as most are."""
        size = len(data)
        if not self._at_start or size < _OVERHEAD or size > self._limit:
            return None
        total, headers_size, checksum = _unpack(data)
        if total != size or headers_size > size - _OVERHEAD or crc32(data[:8]) != checksum:
            return None
        payload_at = _HEADERS_AT + headers_size
        headers = data[_HEADERS_AT:payload_at]
        name = self._names.get(headers)
        if name is None or crc32(data[8:-4], checksum) != _checksum_at(data, size - 4)[0]:
            return None
        self.name = name
        return data[payload_at:-4]

    def feed(self, data: bytes) -> list[Frame]:
        """Return the messages that these bytes complete."""
        self._at_start = False
        buffer = self._buffer
        if self._closed or self.overflow:
            return []
        if self.error is not None:
            buffer += data[: _MOST_PENDING - len(buffer)]
            return []
        if buffer:
            buffer += data
            if len(buffer) < self._need:
                return []
            data = bytes(buffer)
            buffer.clear()
        frames: list[Frame] = []
        at, end = 0, len(data)
        self._need = _HEADERS_AT
        while end - at >= _HEADERS_AT:
            total, headers_size, checksum = _unpack(data, at)
            if crc32(data[at : at + 8]) != checksum:
                return self._stop(frames, "the checksum of a message's lengths is wrong", data, at, _HEADERS_AT)
            self._is_event_stream = True
            payload_at = at + _HEADERS_AT + headers_size
            payload_end = at + total - 4
            if payload_at > payload_end or headers_size > _MOST_HEADERS:
                error = f"a message has impossible lengths: {total} bytes with {headers_size} of headers"
                return self._stop(frames, error, data, at, _HEADERS_AT)
            if total > self._limit:
                self.overflow = True
                return frames
            if end - at < total:
                self._need = total
                break
            # The message's checksum continues that of its first 8 bytes.
            if crc32(data[at + 8 : payload_end], checksum) != _checksum_at(data, payload_end)[0]:
                return self._stop(frames, "the checksum of a message is wrong", data, at, total)
            headers = data[at + _HEADERS_AT : payload_at]
            payload = data[payload_at:payload_end]
            name = self._names.get(headers)
            if name is None:
                texts = _parse_headers(headers)
                if texts is None:
                    return self._stop(frames, "the headers of a message are invalid", data, at, total)
                kind = texts.get(b":message-type", b"event")
                if kind == b"exception":
                    name = EXCEPTION + texts.get(b":exception-type", b"")
                elif kind == b"error":
                    name = EXCEPTION + texts.get(b":error-code", b"")
                    payload = payload or texts.get(b":error-message", b"")
                else:
                    name = texts.get(b":event-type", b"")
                    if len(self._names) < _MOST_NAMES:
                        self._names[headers] = name
            frames.append((name, payload))
            at += total
        if at < end:
            buffer += data[at:]
        else:
            self._at_start = self._is_event_stream
        return frames

    def close(self) -> list[Frame]:
        """Return nothing: a message ends by its length or not at all. An unfinished one remains in ``pending``."""
        self._closed, self._at_start = True, False
        return []

    def _stop(self, frames: list[Frame], error: str, data: bytes, at: int, size: int) -> list[Frame]:
        """Stop at an invalid message, of which *size* bytes are certainly its own."""
        self.error = error
        self.overflow = self._is_event_stream
        self._buffer += data[at : at + (min(size, _MOST_PENDING) if self._is_event_stream else _MOST_PENDING)]
        return frames


def _parse_headers(data: bytes) -> dict[bytes, bytes] | None:
    """Return the text headers by name, None if the bytes are not a list of headers."""
    if data.startswith(_BEFORE_NAME) and data.endswith(_AFTER_NAME):  # an event of Bedrock
        name = data[len(_BEFORE_NAME) + 2 : -len(_AFTER_NAME)]
        if len(name) == int.from_bytes(data[len(_BEFORE_NAME) : len(_BEFORE_NAME) + 2]):
            return {b":event-type": name}
    headers: dict[bytes, bytes] = {}
    at, end = 0, len(data)
    while at < end:
        name_end = at + 1 + data[at]
        if name_end >= end:
            return None
        name, kind = data[at + 1 : name_end], data[name_end]
        at = name_end + 1
        if kind in (_BYTES, _TEXT):
            size = int.from_bytes(data[at : at + 2]) if at + 2 <= end else end
            at += 2
        else:
            size = _SIZES.get(kind, end)
        if at + size > end:
            return None
        if kind == _TEXT:
            headers.setdefault(name, data[at : at + size])
        at += size
    return headers


def encode_message(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Encode one message with text headers; an event's are ``:event-type``, ``:content-type``, ``:message-type``."""
    encoded = b"".join(
        bytes([len(name.encode())]) + name.encode() + b"\x07" + len(value.encode()).to_bytes(2) + value.encode()
        for name, value in headers.items()
    )
    lengths = (_OVERHEAD + len(encoded) + len(payload)).to_bytes(4) + len(encoded).to_bytes(4)
    message = lengths + crc32(lengths).to_bytes(4) + encoded + payload
    return message + crc32(message).to_bytes(4)
