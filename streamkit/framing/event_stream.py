"""``application/vnd.amazon.eventstream``: the binary framing of Amazon's services, to frames and from them.

https://docs.aws.amazon.com/lexv2/latest/dg/event-stream-encoding.html. A message is, all numbers big-endian::

    total length 4 | headers' length 4 | CRC-32 of these 8 bytes | headers | payload | CRC-32 of all before it
    a header:  length of its name 1 | name | type of its value 1 | value

It knows lengths, checksums and headers; not what a payload means, nor any service. A frame is named after its
``:message-type``: an ``event`` by its ``:event-type``, an ``exception`` or ``error`` by ``exception:`` and its
``:exception-type`` or ``:error-code``. No event's name has a colon, so the two cannot be taken for each other. An
``error`` has no payload but an ``:error-message``, which is then the frame's payload.

Both checksums are checked before anything is given. Where one is wrong, or a length is impossible, nothing behind it
can be trusted, not even where the next message begins: ``fault`` says what was wrong, and nothing is given any more.
Bytes whose very first checksum is wrong are no event stream at all; they are put aside for the reader to see.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import TYPE_CHECKING, Final
from zlib import crc32

if TYPE_CHECKING:
    from streamkit.framing import Frame

__all__ = ["EXCEPTION", "EventStreamFramer", "encode_message"]

#: How the name of a frame begins that reports an error.
EXCEPTION: Final = b"exception:"

_PRELUDE = Struct(">III")
_AROUND = _PRELUDE.size + 4  # bytes of a message beside its headers and its payload
_MOST_HEADERS = 128 * 1024  # bytes; the format's own bound
_KEPT = 1024  # bytes kept of what is no event stream: enough to see whose error page it is
_REMEMBERED = 64  # headers whose name is remembered; a service has a dozen kinds of events

# Bytes of a header's value by its type: true, false, byte, short, integer, long, timestamp, uuid. The values of the
# other two, bytes (6) and text (7), begin with their length.
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
_BYTES, _TEXT = 6, 7

_unpack = _PRELUDE.unpack_from
_checksum_at = Struct(">I").unpack_from


class EventStreamFramer:
    """Messages to frames.

    Args:
        limit: bytes that one message may have.

    Attributes:
        overflow: a message passed ``limit``, or has a ``fault``; those before it were given, nothing is given any more.
        fault: what was wrong with the bytes, a sentence; None while nothing was. Without ``overflow``: they were no
            event stream from the start.
    """

    __slots__ = ("_begun", "_buffer", "_closed", "_limit", "_names", "_need", "_plain", "error", "overflow")

    def __init__(self, limit: int) -> None:
        self.overflow = False
        self.error: str | None = None
        self._limit = limit
        self._buffer = bytearray()  # the unfinished message; it grows in place, so tiny reads stay linear
        self._need = _PRELUDE.size  # bytes that it must have before looking at it again says more
        self._names: dict[bytes, bytes] = {}  # by headers: all messages of one event have the same
        self._begun = False  # a message's lengths were right: it is an event stream
        self._closed = False
        self._plain = False  # a message was given and nothing is pending: the next read begins one

    @property
    def pending(self) -> bytes:
        """The unfinished message. After a fault: the first KiB of the message that has it, or of what is no message."""
        return bytes(self._buffer)

    def feed(self, data: bytes) -> list[Frame]:
        """The messages that these bytes complete."""
        if self._plain and len(data) >= _AROUND:  # mostly a read is one message; else all is looked at in turn
            total, headers_size, checksum = _unpack(data)
            if total == len(data) <= self._limit and headers_size <= total - _AROUND:
                if crc32(data[:8]) == checksum and crc32(data[8:-4], checksum) == _checksum_at(data, total - 4)[0]:
                    name = self._names.get(data[_PRELUDE.size : _PRELUDE.size + headers_size])
                    if name is not None:
                        return [(name, data[_PRELUDE.size + headers_size : -4])]
        return self._resume(data)

    def _resume(self, data: bytes) -> list[Frame]:
        """Feed a read of any shape, in any state."""
        self._plain = False
        buffer = self._buffer
        if self._closed or self.overflow:
            return []
        if self.error is not None:
            buffer += data[: _KEPT - len(buffer)]
            return []
        if buffer:
            buffer += data
            if len(buffer) < self._need:
                return []
            data = bytes(buffer)
            buffer.clear()
        frames: list[Frame] = []
        at, end = 0, len(data)
        self._need = _PRELUDE.size
        while end - at >= _PRELUDE.size:
            total, headers_size, checksum = _unpack(data, at)
            if crc32(data[at : at + 8]) != checksum:
                return self._stop(frames, "the checksum of a message's lengths is wrong", data, at, _PRELUDE.size)
            self._begun = True
            payload_at = at + _PRELUDE.size + headers_size
            payload_end = at + total - 4
            if payload_at > payload_end or headers_size > _MOST_HEADERS:
                fault = f"a message has impossible lengths: {total} bytes with {headers_size} of headers"
                return self._stop(frames, fault, data, at, _PRELUDE.size)
            if total > self._limit:
                self.overflow = True
                return frames
            if end - at < total:
                self._need = total
                break
            # The message's checksum goes on where that of its first 8 bytes ended.
            if crc32(data[at + 8 : payload_end], checksum) != _checksum_at(data, payload_end)[0]:
                return self._stop(frames, "the checksum of a message is wrong", data, at, total)
            headers = data[at + _PRELUDE.size : payload_at]
            payload = data[payload_at:payload_end]
            name = self._names.get(headers)
            if name is None:
                read = _headers(headers)
                if read is None:
                    return self._stop(frames, "the headers of a message are not what they should be", data, at, total)
                name, payload = self._name(headers, read, payload)
            frames.append((name, payload))
            at += total
        if at < end:
            buffer += data[at:]
        else:
            self._plain = self._begun
        return frames

    def close(self) -> list[Frame]:
        """Nothing: a message ends where its length says or not at all. What is unfinished stays in ``pending``."""
        self._closed, self._plain = True, False
        return []

    def _name(self, headers: bytes, read: dict[bytes, bytes], payload: bytes) -> Frame:
        """What a message with these headers is called; that of an event is remembered."""
        kind = read.get(b":message-type", b"event")
        if kind == b"exception":
            return EXCEPTION + read.get(b":exception-type", b""), payload
        if kind == b"error":
            return EXCEPTION + read.get(b":error-code", b""), payload or read.get(b":error-message", b"")
        name = read.get(b":event-type", b"")
        if len(self._names) < _REMEMBERED:
            self._names[headers] = name
        return name, payload

    def _stop(self, frames: list[Frame], fault: str, data: bytes, at: int, size: int) -> list[Frame]:
        """Nothing more can be read, because of a message of which so many bytes are known to be its own."""
        self.error = fault
        self.overflow = self._begun
        self._buffer += data[at : at + (min(size, _KEPT) if self._begun else _KEPT)]
        return frames


def _headers(data: bytes) -> dict[bytes, bytes] | None:
    """The headers that are text, by name; None where this is no list of headers."""
    found: dict[bytes, bytes] = {}
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
            found.setdefault(name, data[at : at + size])
        at += size
    return found


def encode_message(headers: Mapping[str, str], payload: bytes) -> bytes:
    """One message whose headers are all text; an event's are ``:event-type``, ``:content-type``, ``:message-type``."""
    written = b"".join(
        bytes([len(name.encode())]) + name.encode() + b"\x07" + len(value.encode()).to_bytes(2) + value.encode()
        for name, value in headers.items()
    )
    lengths = (_AROUND + len(written) + len(payload)).to_bytes(4) + len(written).to_bytes(4)
    whole = lengths + crc32(lengths).to_bytes(4) + written + payload
    return whole + crc32(whole).to_bytes(4)
