"""Server-sent events: bytes to frames by the WHATWG rules, however the bytes are split into reads.

https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream. This module depends on lines and
fields, not on payloads or vendors. It works on bytes: a character split between two reads, and U+2028 or U+0085 inside
a payload, have no effect (``str.splitlines`` breaks there; openai-python#1230).

``_read_lines`` is one state machine over lines. What it does with a line depends on the lines before it, never on what
else was in the same read. All else is a short cut with the same result: ``take`` for a read that is one event, and
``_take_similar`` for a read of many events with the same beginning. A test compares them with reads of one byte, which
take no short cut.

There are three deliberate differences from the standard (docs/rules.md, "Framing"): the end of the stream dispatches
the last event, data lines that are whole JSON each are events of their own, and so is a field ``error`` with an object.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from streamkit.framing.framer import Frame

__all__ = ["USUAL_STARTS", "SseFramer"]

#: What streams begin with, but for byte order marks, comments and other fields.
USUAL_STARTS = (b"data: ", b"event:")

_BOM = b"\xef\xbb\xbf"
_MOST_STRAY = 1024  # bytes kept of lines that are no fields: enough to identify an error page
_LONGEST_PART = 1 << 20  # bytes of a read that are split into lines at once, so that the list of lines stays small
_MOST_REMEMBERED = 64  # bytes of the line before the data of an event
_LF, _CR = b"\n\r"  # as integers: the search for an integer takes a quarter of the time of a search for bytes
_check_json = msgspec.json.Decoder(msgspec.Raw).decode


class SseFramer:
    """Splits server-sent events into frames: the event's name (``b""`` if none) and its data lines, joined by LF.

    Args:
        limit: the most bytes of the text of one event, each line end counted as one byte. The text begins after the
            last blank line or frame.

    Attributes:
        is_at_event_start: a frame was returned and nothing is pending, so the next read begins an event.
        limit: as above.
        name: the name of the last event that was taken, or that began like the one before.
        overflow: an event exceeds ``limit``; the events before it were returned, nothing is returned after it.
        unseparated: see ``Framer``.
    """

    error: str | None = None  # see ``Framer``

    __slots__ = (
        "_after_cr",
        "_before",
        "_closed",
        "_first",
        "_first_name",
        "_left",
        "_line",
        "_more",
        "_name",
        "_seen",
        "_size",
        "_start",
        "_strays",
        "is_at_event_start",
        "limit",
        "name",
        "overflow",
        "unseparated",
    )

    def __init__(self, limit: int) -> None:
        self.overflow: bool = False
        self.unseparated: bytes | None = None
        self.limit: int = limit
        self.is_at_event_start: bool = False
        self._before = b""  # the last event's line before its data; most events have the same
        self.name: bytes = b""  # the last event's name
        # The unfinished event: the standard's event type and data buffers, and the line that has not ended.
        self._name = b""
        self._first: bytes | None = None  # the first data line
        self._first_name = b""  # the name before it
        self._more = bytearray()  # the data lines after it, each with LF before it; a list of them would be large
        self._size = 0  # bytes of its lines, which count against the limit
        self._line = bytearray()  # it grows in place, so small reads stay linear
        self._after_cr = False  # the last read ended in CR: a following LF belongs to it
        self._start: bytes | None = b""  # the first bytes, while they may be a byte order mark; None afterwards
        self._seen = False  # a frame was returned
        self._strays = bytearray()  # the first lines without a field: of this event, before a frame of the stream
        self._left = b""  # after close: ``pending``
        self._closed = False

    @property
    def pending(self) -> bytes:
        """The unfinished event: its name, its data, and the line that has not ended, with LF as line ends.

        After ``close``: the text that is not a frame, such as half an event without data. Other lines are among it, up
        to 1 KiB: those of the unfinished event, and all if there was no frame, which are a text that came instead of
        events. Comments, ``id`` and ``retry`` are excluded.
        """
        if self._closed:
            return self._left
        name = b"event: %b\n" % self._name if self._name else b""
        data = b""
        if self._first is not None:
            data = b"data: %b%b\n" % (self._first, bytes(self._more).replace(b"\n", b"\ndata: "))
        return b"".join([self._start or b"", name, data, self._strays, self._line])

    def take(self, data: bytes) -> bytes | None:
        """Implement ``Framer.take``."""
        if not self.is_at_event_start or len(data) > self.limit:
            return None
        before, _, rest = data.partition(b"data: ")
        if before != self._before:
            name = _name_in(before) if len(before) <= _MOST_REMEMBERED else None
            if name is None:
                return None
            self.name, self._before = name, before  # an event of another name, of the same shape
        payload, _, rest = rest.partition(b"\n")
        if rest == b"\n":
            if _CR not in payload:
                return payload
        elif rest == b"\r\n":  # Gemini ends every line with CRLF
            payload, cr, rest = payload.partition(b"\r")
            if cr and not rest:
                return payload
        return None

    def feed(self, data: bytes) -> list[Frame]:
        """Return the events that these bytes complete."""
        frames: list[Frame] = []
        if not self.is_at_event_start:
            if self._start == b"" and data[:6] in USUAL_STARTS:  # no byte order mark
                self._start = None
                self.is_at_event_start = True
                payload = self.take(data)
                if payload is not None:
                    self._seen = True
                    frames.append((self.name, payload))
                    return frames
            line = self._line
            if line and data and _LF not in data and _CR not in data:  # the middle of a line
                if self._size + len(line) + len(data) > self.limit:
                    self._set_overflow()
                else:
                    line += data
                return frames
        if len(data) <= _LONGEST_PART:
            self._resume(data, frames)
            return frames
        for at in range(0, len(data), _LONGEST_PART):
            self._resume(data[at : at + _LONGEST_PART], frames)
            if self.overflow:
                break
        return frames

    def close(self) -> list[Frame]:
        """Return the last event, if only its blank line is missing."""
        frames: list[Frame] = []
        if self._closed or self.overflow:
            return frames
        if self._start:
            self._line += self._start
        self._start = None
        if self._line:
            self._read_lines(b"\n", frames)
        if self._first is None and not frames:
            self._left = self.pending.rstrip(b"\n")
        self._read_lines(b"\n", frames)
        self._closed, self.is_at_event_start = True, False
        return frames

    def _resume(self, data: bytes, frames: list[Frame]) -> None:
        """Read bytes in any state."""
        if self._closed or self.overflow:
            return
        if self._start is not None:
            data = self._start + data
            if len(data) < len(_BOM) and _BOM.startswith(data):
                self._start = data
                return
            self._start = None
            data = data.removeprefix(_BOM)
        if self._after_cr and data:
            self._after_cr = False
            if data[0] == _LF:
                data = data[1:]
        is_between_events = not self._size and not self._line and not self._name
        if is_between_events:
            data = self._take_similar(data, frames)
        if data:
            self._after_cr = data[-1] == _CR
            if _CR in data:
                data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            if not is_between_events:  # the short cut begins after the first blank line
                event, blank, data = data.partition(b"\n\n")
                if not self._read_lines(event + blank, frames):
                    return
                data = self._take_similar(data, frames)
            if data and not self._read_lines(data, frames):
                return
        if frames:
            self._seen = True
        is_between_events = not self._size and not self._line and not self._name
        self.is_at_event_start = self._seen and is_between_events

    def _take_similar(self, data: bytes, frames: list[Frame]) -> bytes:
        """Read the events at the start of a read that begin like the first one; return the bytes after them."""
        crlf = _CR in data
        blank = b"\r\n\r\n" if crlf else b"\n\n"
        end = data.rfind(blank)
        if end < 0 or len(data) > self.limit:
            return data
        head = self._before + b"data: "
        if data[: len(head)] != head:
            head, mark, _ = data.partition(b"\ndata: ")
            name = head[7:].removesuffix(b"\r")
            if not mark or head[:7] != b"event: " or _LF in name or _CR in name:
                return data
            self.name, self._before = name, head + b"\n"
            head += mark
        name = self.name
        separator = blank + head
        payloads = data[len(head) : end].split(separator)
        data = data[end + len(blank) :]
        for number, payload in enumerate(payloads):
            if _LF in payload or (crlf and _CR in payload):
                data = head + separator.join(payloads[number:]) + blank + data
                break
            frames.append((name, payload))
        if frames:
            self._strays.clear()
        return data

    def _read_lines(self, data: bytes, frames: list[Frame]) -> bool:
        """Read lines, in any state, and the beginning of the next one; return False after an overflow.

        Args:
            data: text whose line ends are LF.
            frames: the frames are appended to it.
        """
        lines = data.split(b"\n")
        rest = lines.pop()
        unended = self._line
        if lines and unended:
            unended += lines[0]
            lines[0] = bytes(unended)
            unended.clear()
        name, size, most = self._name, self._size, self.limit + 1  # the last line end does not count
        first, first_name, more = self._first, self._first_name, self._more
        is_separated, strays = self.unseparated is None, self._strays
        for line in lines:
            if not line:
                if first is not None:
                    frames.append((name, first + more if more else first))
                    first = None
                    more.clear()
                if strays and (frames or self._seen):
                    strays.clear()
                name, size = b"", 0
                continue
            size += len(line) + 1
            if size > most:
                return self._set_overflow()
            field, _, value = line.partition(b" ")
            if field == b"event:":
                name = value
                continue
            if field != b"data:":
                field, _, value = line.partition(b":")
                value = value.removeprefix(b" ")
                if field == b"event":
                    name = value
                    continue
                if field == b"error" and first is None and value[:1] == b"{":
                    frames.append((field, value))
                    size = 0
                    strays.clear()
                    continue
                if field != b"data":
                    if field and field != b"id" and field != b"retry" and len(strays) < _MOST_STRAY:
                        strays += line[:_MOST_STRAY] + b"\n"
                        del strays[_MOST_STRAY:]
                    continue
            if first is None:
                if is_separated or not _is_whole_json(value):
                    first, first_name = value, name
                    continue
                frames.append((name, value))
            elif more or not is_separated or not (_is_whole_json(first) and _is_whole_json(value)):
                more += b"\n"
                more += value
                continue
            else:  # joined they can never be a document: there should have been a blank line between them
                self.unseparated, is_separated = first, False
                frames += [(first_name, first), (name, value)]
                first = None
            size = 0
            strays.clear()
        if rest:
            unended += rest
            if size + len(unended) >= most:
                return self._set_overflow()
        self._name, self._size = name, size
        self._first, self._first_name = first, first_name
        return True

    def _set_overflow(self) -> bool:
        """Forget the unfinished event; return False."""
        self.overflow, self.is_at_event_start = True, False
        self._name, self._first = b"", None
        self._line.clear()
        self._strays.clear()
        self._more.clear()
        return False


@lru_cache
def _name_in(line: bytes) -> bytes | None:
    """Return the name of an event of which this is the text before its data; None if that is not one line."""
    name = line[7:].removesuffix(b"\n")
    return name if line == b"event: " + name + b"\n" and _LF not in name and _CR not in name else None


def _is_whole_json(value: bytes) -> bool:
    """Return True if a data line is a JSON object or array, or the usual end marker."""
    if value[:1] not in (b"{", b"["):
        return False
    try:
        _check_json(value)
    except (msgspec.DecodeError, RecursionError):
        return value.strip() == b"[DONE]"
    return True
