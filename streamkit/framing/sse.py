"""Server-sent events: bytes to events by the WHATWG rules, however the bytes are split into reads.

https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream. This module depends on lines and
fields, not on payloads or vendors. It works on bytes: a character split between two reads, and U+2028 or U+0085 inside
a payload, have no effect (``str.splitlines`` breaks there; openai-python#1230).

There are three deliberate differences. The standard discards the last event if its blank line is missing; vendors end
streams like that (recorded Anthropic streams do), so ``close`` returns it, and the parser decides if its payload is
complete. And servers leave out the blank lines between events (rexxars/eventsource-parser#31): if the first two data
lines of an event are whole JSON each, which joined they can never be, then from there on each such line is an event.
And a field ``error`` with an object is the data of an event of this name, because llama.cpp's server reported the
errors of a stream so until September 2025 (ggml-org/llama.cpp#16109).

Why it is exact and still cheap: a read that is one complete event of a common shape (a ``data:`` line, or an ``event:``
and a ``data:`` line) is split at its few delimiters, and a read of many events with the same beginning is split once.
In everything else the line ends are first converted to LF, so that an event's text ends at its first empty line and its
meaning depends on that text alone; the text of an unfinished event is kept until its end is received, and
``_read_events`` reads its lines one by one.
"""

from __future__ import annotations

import msgspec

from streamkit.framing.framer import Frame

__all__ = ["USUAL_STARTS", "SseFramer"]

#: What streams begin with, but for byte order marks, comments and other fields.
USUAL_STARTS = (b"data: ", b"event:")

_BOM = b"\xef\xbb\xbf"
_MOST_LEFT = 1024  # bytes kept of a body that is not an event stream: enough to identify an error page
_MOST_EXAMINATIONS = 64  # of the lines of one unfinished event, for missing blank lines
_LF, _CR = b"\n\r"  # as integers: the search for an integer takes a quarter of the time of a search for bytes
_check_json = msgspec.json.Decoder(msgspec.Raw).decode


class SseFramer:
    """Splits server-sent events into frames: the event's name (``b""`` if none) and its data lines, joined by LF.

    Args:
        limit: the most bytes of the text of one event, each line end counted as one byte.

    Attributes:
        is_at_event_start: a frame was returned and nothing is pending, so the next read begins an event.
        limit: as above.
        name: the name of the last event that was taken, or that began like the one before.
        overflow: an event exceeds ``limit``; the events before it were returned, nothing is returned after it.
        warning: set if events were not separated by blank lines.
    """

    error: str | None = None  # see ``Framer``

    __slots__ = (
        "_after_cr",
        "_buffer",
        "_closed",
        "_examinations",
        "_head",
        "_left",
        "_seen",
        "_start",
        "is_at_event_start",
        "limit",
        "name",
        "overflow",
        "warning",
    )

    def __init__(self, limit: int) -> None:
        self.overflow: bool = False
        self.warning: str | None = None
        self.limit: int = limit
        self.is_at_event_start: bool = False
        self._head = b"data: "  # the last event's text before its payload; most events have the same
        self.name: bytes = b""  # the last event's name
        self._buffer = bytearray()  # text of the unfinished event; it grows in place, so small reads stay linear
        self._examinations = 0  # of the unfinished event's lines that may still be made
        self._after_cr = False  # the last read ended in CR: a following LF belongs to it
        self._start: bytes | None = b""  # the first bytes, while they may be a byte order mark; None afterwards
        self._seen = False  # a frame was returned
        self._left = b""  # before the first frame, the start of lines without a field; after close, ``pending``
        self._closed = False

    @property
    def pending(self) -> bytes:
        """The text of the unfinished event, with LF as line ends. After ``close``: the text that is not a frame.

        That is the end of the stream if it is half an event without data; and, if there was no frame at all, the text
        that came instead of events: all of it if it has no blank lines, else its first KiB. Comments, ``id`` and
        ``retry`` are excluded.
        """
        return self._left if self._closed else (self._start or b"") + bytes(self._buffer)

    def take(self, data: bytes) -> bytes | None:
        """Implement ``Framer.take``."""
        if not self.is_at_event_start or len(data) > self.limit:
            return None
        before, _, rest = data.partition(self._head)
        if before:
            before, mark, rest = data.partition(b"\ndata: ")
            if before[:7] != b"event: " or not mark or _LF in before or _CR in before:
                return None
            self.name, self._head = before[7:], before + mark  # an event of another name, of the same shape
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
        if not self.is_at_event_start:
            if self._start == b"" and data[:6] in USUAL_STARTS and not self._closed:  # no byte order mark
                self._start = None
                self.is_at_event_start = True
                payload = self.take(data)
                if payload is not None:
                    self._seen = True
                    return [(self.name, payload)]
            buffer = self._buffer
            if buffer and data and _LF not in data and _CR not in data:  # the middle of a line
                self._after_cr = False
                buffer += data
                if len(buffer) > self.limit:
                    self._set_overflow()
                return []
        return self._resume(data)

    def close(self) -> list[Frame]:
        """Return the last event, if only its blank line is missing."""
        frames: list[Frame] = []
        if self._closed or self.overflow:
            return frames
        text, left = self.pending, self._left
        self._closed, self.is_at_event_start = True, False
        self._buffer.clear()
        lines = text.split(b"\n")
        self._read_events([*lines, b""], frames)
        self._left = b""
        if not frames:
            if any(line.partition(b":")[0] not in (b"", b"id", b"retry") for line in lines):
                self._left = text.rstrip(b"\n")
            if left:
                self._left = left if len(left) == _MOST_LEFT else left + self._left
        return frames

    def _resume(self, data: bytes) -> list[Frame]:
        """Read bytes of any length in any state."""
        frames: list[Frame] = []
        if self._closed or self.overflow:
            return frames
        if self._start is not None:
            data = self._start + data
            if len(data) < len(_BOM) and _BOM.startswith(data):
                self._start = data
                return frames
            self._start = None
            data = data.removeprefix(_BOM)
        if self._after_cr and data:
            self._after_cr = False
            if data[0] == _LF:
                data = data[1:]
        buffer = self._buffer
        if not buffer:
            data = self._take_similar(data, frames)
        if data:
            self._after_cr = data[-1] == _CR
            if _CR in data:
                data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            if buffer:
                data = self._complete(data, frames)
            if data:
                self._split(data, frames)
        if frames:
            self._seen = True
            self._left = b""
        self.is_at_event_start = self._seen and not buffer and not self.overflow
        return frames

    def _complete(self, data: bytes, frames: list[Frame]) -> bytes:
        """Read the unfinished event if its end was received; return the bytes after it."""
        buffer = self._buffer
        if data[0] == _LF == buffer[-1]:  # the two line feeds of an event's end may come in two reads
            end = 0
        else:
            end = data.find(b"\n\n") + 1
            if not end:
                self._keep(data, frames)
                return b""
            buffer += data[:end]
        text = bytes(buffer)
        buffer.clear()
        if len(text) - 1 > self.limit:
            self._set_overflow()
            return b""
        self._read_events(text.split(b"\n"), frames)
        return self._take_similar(data[end + 1 :], frames)

    def _take_similar(self, data: bytes, frames: list[Frame]) -> bytes:
        """Read the events at the start of a read that begin like the first one; return the bytes after them."""
        crlf = _CR in data
        blank = b"\r\n\r\n" if crlf else b"\n\n"
        end = data.rfind(blank)
        if end < 0 or len(data) > self.limit:
            return data
        head = self._head
        if data[: len(head)] != head:
            head, mark, _ = data.partition(b"\ndata: ")
            name = head[7:].removesuffix(b"\r")
            if not mark or head[:7] != b"event: " or _LF in name or _CR in name:
                return data
            self.name = name
            self._head = head = head + mark
        name = self.name
        separator = blank + head
        payloads = data[len(head) : end].split(separator)
        for number, payload in enumerate(payloads):
            if _LF in payload or (crlf and _CR in payload):
                return head + separator.join(payloads[number:]) + data[end:]
            frames.append((name, payload))
        return data[end + len(blank) :]

    def _split(self, data: bytes, frames: list[Frame]) -> None:
        """Read the events of text that begins with one; keep the text after the last one."""
        end = data.rfind(b"\n\n") + 1
        if end:
            if len(data) > self.limit:
                for text in data[: end - 1].split(b"\n\n"):
                    if len(text.strip(b"\n")) > self.limit:
                        self._set_overflow()
                        return
                    self._read_events([*text.split(b"\n"), b""], frames)
            else:
                self._read_events(data[:end].split(b"\n"), frames)
            data = data[end + 1 :]
        elif data[0] == _LF:  # a blank line before an event has no meaning
            data = data[1:]
        if data:
            self._keep(data, frames)

    def _read_events(self, lines: list[bytes], frames: list[Frame]) -> None:
        """Append the frames of complete events; the last line is the empty line that ends the last event."""
        if self.warning is not None:
            self._read_lines(lines, frames)
            return
        before, left = len(frames), self._left
        name, payload = b"", None
        more: list[bytes] = []  # data lines after the first
        other_lines: list[bytes] = []  # lines without a known field
        for line in lines:
            if not line:
                if payload is not None:
                    if more:
                        payload = b"\n".join([payload, *more])
                        more.clear()
                    frames.append((name, payload))
                    payload = None
                elif other_lines and not self._seen:
                    self._left = (self._left + b"\n".join([*other_lines, b""]))[:_MOST_LEFT]
                name = b""
                other_lines.clear()
                continue
            field, _, value = line.partition(b" ")
            if field == b"data:":
                pass
            elif field == b"event:":
                name = value
                continue
            else:
                field, _, value = line.partition(b":")
                if value[:1] == b" ":
                    value = value[1:]
                if field == b"event":
                    name = value
                    continue
                if field == b"error" and value[:1] == b"{" and payload is None:
                    name = field
                elif field != b"data":
                    if field and field != b"id" and field != b"retry":
                        other_lines.append(line)
                    continue
            if payload is None:
                payload = value
            elif not more and _is_whole_json(payload) and _is_whole_json(value):
                self._set_unseparated()
                self._left = left
                del frames[before:]
                self._read_lines(lines, frames)
                return
            else:
                more.append(value)

    def _set_unseparated(self) -> None:
        self.warning = "events are not separated by blank lines; each line was read as an event"

    def _read_lines(self, lines: list[bytes], frames: list[Frame]) -> tuple[bytes, list[bytes]]:
        """Append the frames of events of which each data line that is whole JSON is one.

        Returns:
            The name of the next event, if the lines contain it, and the lines after the last frame.
        """
        name = b""
        values: list[bytes] = []  # data lines that are not whole JSON: one event until an empty line
        start = 0
        for number, line in enumerate(lines, 1):
            field, _, value = line.partition(b":")
            value = value[1:] if value[:1] == b" " else value
            if not line:
                if values:
                    frames.append((name, b"\n".join(values)))
                    values.clear()
                name, start = b"", number
            elif field == b"event":
                name = value
            elif field == b"error" and not values and _is_whole_json(value):
                frames.append((field, value))
                start = number
            elif field == b"data":
                if not values and _is_whole_json(value):
                    frames.append((name, value))
                    start = number
                else:
                    values.append(value)
        return name, lines[start:]

    def _release_lines(self, frames: list[Frame]) -> None:
        """Append the frames of an unfinished event that is several, without waiting for its end."""
        self._examinations -= 1
        *lines, rest = bytes(self._buffer).split(b"\n")
        if self.warning is None:
            values = [line[5:].lstrip(b" ") for line in lines if line[:5] == b"data:"][:2]
            if len(values) < 2:
                return
            if not all(map(_is_whole_json, values)):
                self._examinations = 0  # one event of several lines
                return
            self._set_unseparated()
        name, left = self._read_lines(lines, frames)
        if any(line[:5] == b"data:" for line in left):  # an event of several lines, whose end is an empty line
            left[:0] = [b"event: " + name] if name else []
            self._examinations = 0
        else:
            left = [b"event: " + name] if name else []  # it is the name of the lines that follow, too
            self._examinations = _MOST_EXAMINATIONS
        self._buffer[:] = b"\n".join([*left, rest])

    def _keep(self, data: bytes, frames: list[Frame]) -> None:
        """Keep the next part of an unfinished event; append its frames if it turns out to be several."""
        buffer = self._buffer
        if not buffer:
            self._examinations = _MOST_EXAMINATIONS
        buffer += data
        self.is_at_event_start = False
        if self._examinations and _LF in data:
            self._release_lines(frames)
            if not buffer:
                return
        if len(buffer) - (buffer[-1] == _LF) > self.limit:
            self._set_overflow()

    def _set_overflow(self) -> None:
        self.overflow, self.is_at_event_start = True, False
        self._buffer.clear()


def _is_whole_json(value: bytes) -> bool:
    """Return True if a data line is a JSON object or array, or the usual end marker."""
    if value[:1] not in (b"{", b"["):
        return False
    try:
        _check_json(value)
    except (msgspec.DecodeError, RecursionError):
        return value.strip() == b"[DONE]"
    return True
