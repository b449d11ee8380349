"""Server-sent events: bytes to events, by the WHATWG rules, however the reads cut them.

https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream. It knows lines and fields; it
does not know what a payload means, nor any vendor. It works on bytes: a character cut between two reads, and U+2028 or
U+0085 inside a payload, are nothing to it (``str.splitlines`` breaks there; openai-python#1230).

One deliberate difference: the standard throws the last event away when its blank line is missing; vendors end streams
so (recorded Anthropic streams do), thus ``close`` gives it, and the reader judges whether its payload is whole.

Why it is exact and still cheap: a read that is one whole event of a shape that vendors send (a ``data:`` line, or an
``event:`` and a ``data:`` line) is taken apart at its few marks, and a read of many that begin alike is split once.
Everything else has its line ends made LF first, so that an event's text ends at its first empty line and what it says
is a function of that text alone; the text of an unfinished event is kept until its end is there, and ``_read`` takes
the lines one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamkit.framing import Frame

__all__ = ["SseFramer"]

_BOM = b"\xef\xbb\xbf"
_KEPT = 1024  # bytes kept of a body that is no event stream: enough to see whose error page it is
_LF, _CR = b"\n\r"  # as numbers: bytes are searched for a number in a quarter of the time of a search for bytes


class SseFramer:
    """Server-sent events to frames: an event's name (``b""`` where it has none) and its data lines, joined by LF.

    Args:
        limit: bytes that the text of one event may have, each line end counted as one byte.

    Attributes:
        overflow: an event passed ``limit``; those before it were given, nothing is given any more.
    """

    error: str | None = None  # see ``Framer``

    __slots__ = (
        "_after_cr",
        "_buffer",
        "_closed",
        "_head",
        "_left",
        "_limit",
        "_name",
        "_plain",
        "_seen",
        "_start",
        "overflow",
    )

    def __init__(self, limit: int) -> None:
        self.overflow = False
        self._limit = limit
        self._plain = False  # a frame was given and nothing is pending: the next read begins an event
        self._head = b"data: "  # how the last event began, up to its payload; most begin like the one before
        self._name = b""  # and its name
        self._buffer = bytearray()  # text of the unfinished event; it grows in place, so tiny reads stay linear
        self._after_cr = False  # the last read ended in CR: an LF that follows belongs to it
        self._start: bytes | None = b""  # the first bytes, while they may be a byte order mark; None afterwards
        self._seen = False  # a frame was given
        self._left = b""  # until then the start of the lines that are no field; once closed, what ``pending`` says
        self._closed = False

    @property
    def pending(self) -> bytes:
        """The text of the unfinished event, line ends as LF. After ``close``: what could not be made a frame.

        That is the end of the stream, where it is half an event without data; and, where no frame was ever given, the
        text that came instead of events: whole where it has no blank lines, else its first KiB. Comments, ``id`` and
        ``retry`` are not it.
        """
        return self._left if self._closed else (self._start or b"") + bytes(self._buffer)

    def feed(self, data: bytes) -> list[Frame]:
        """The events that these bytes complete."""
        if not self._plain:
            buffer = self._buffer
            if buffer and data and _LF not in data and _CR not in data:  # the middle of a line
                self._after_cr = False
                buffer += data
                if len(buffer) > self._limit:
                    self._pass_over()
                return []
            return self._resume(data)
        if len(data) > self._limit:
            return self._resume(data)
        before, _, rest = data.partition(self._head)
        if not before:
            payload, _, rest = rest.partition(b"\n")
            if rest == b"\n":
                if _CR not in payload:
                    return [(self._name, payload)]
            elif rest == b"\r\n":  # Gemini ends every line with CRLF
                payload, cr, rest = payload.partition(b"\r")
                if cr and not rest:
                    return [(self._name, payload)]
        return self._resume(data)

    def close(self) -> list[Frame]:
        """The last event, where only its blank line is missing."""
        frames: list[Frame] = []
        if self._closed or self.overflow:
            return frames
        text, left = self.pending, self._left
        self._closed, self._plain = True, False
        self._buffer.clear()
        lines = text.split(b"\n")
        self._read([*lines, b""], frames)
        self._left = b""
        if not frames:
            if any(line.partition(b":")[0] not in (b"", b"id", b"retry") for line in lines):
                self._left = text.rstrip(b"\n")
            if left:
                self._left = left if len(left) == _KEPT else left + self._left
        return frames

    def _resume(self, data: bytes) -> list[Frame]:
        """Feed a read of any shape, in any state."""
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
            data = self._take_alike(data, frames)
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
        self._plain = self._seen and not buffer and not self.overflow
        return frames

    def _complete(self, data: bytes, frames: list[Frame]) -> bytes:
        """Read the unfinished event, if its end is here; returns what follows it."""
        buffer = self._buffer
        if data[0] == _LF == buffer[-1]:  # the two line feeds of an event's end may come in two reads
            end = 0
        else:
            end = data.find(b"\n\n") + 1
            if not end:
                self._keep(data)
                return b""
            buffer += data[:end]
        text = bytes(buffer)
        buffer.clear()
        if len(text) - 1 > self._limit:
            self._pass_over()
            return b""
        self._read(text.split(b"\n"), frames)
        return self._take_alike(data[end + 1 :], frames)

    def _take_alike(self, data: bytes, frames: list[Frame]) -> bytes:
        """Take the events that begin like the first one off the front of a read; returns the rest."""
        crlf = _CR in data
        blank = b"\r\n\r\n" if crlf else b"\n\n"
        end = data.rfind(blank)
        if end < 0 or len(data) > self._limit:
            return data
        head = self._head
        if data[: len(head)] != head:
            head, mark, _ = data.partition(b"\ndata: ")
            name = head[7:].removesuffix(b"\r")
            if not mark or head[:7] != b"event: " or _LF in name or _CR in name:
                return data
            self._name = name
            self._head = head = head + mark
        name = self._name
        between = blank + head
        payloads = data[len(head) : end].split(between)
        for number, payload in enumerate(payloads):
            if _LF in payload or (crlf and _CR in payload):
                return head + between.join(payloads[number:]) + data[end:]
            frames.append((name, payload))
        return data[end + len(blank) :]

    def _split(self, data: bytes, frames: list[Frame]) -> None:
        """Read the events of text that begins with one; keep what is left of it."""
        end = data.rfind(b"\n\n") + 1
        if end:
            if len(data) > self._limit:
                for text in data[: end - 1].split(b"\n\n"):
                    if len(text.strip(b"\n")) > self._limit:
                        self._pass_over()
                        return
                    self._read([*text.split(b"\n"), b""], frames)
            else:
                self._read(data[:end].split(b"\n"), frames)
            data = data[end + 1 :]
        elif data[0] == _LF:  # a blank line before an event is nothing
            data = data[1:]
        if data:
            self._keep(data)

    def _read(self, lines: list[bytes], frames: list[Frame]) -> None:
        """The frames of whole events, from their lines; the empty line that ends the last one is the last item."""
        name, payload = b"", None
        more: list[bytes] = []  # data lines behind the first
        odd: list[bytes] = []  # lines that are no field
        for line in lines:
            if not line:
                if payload is not None:
                    if more:
                        payload = b"\n".join([payload, *more])
                        more.clear()
                    frames.append((name, payload))
                    payload = None
                elif odd and not self._seen:
                    self._left = (self._left + b"\n".join([*odd, b""]))[:_KEPT]
                name = b""
                odd.clear()
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
                if field != b"data":
                    if field and field != b"id" and field != b"retry":
                        odd.append(line)
                    continue
            if payload is None:
                payload = value
            else:
                more.append(value)

    def _keep(self, data: bytes) -> None:
        """Keep the next piece of an unfinished event."""
        buffer = self._buffer
        buffer += data
        self._plain = False
        if len(buffer) - (buffer[-1] == _LF) > self._limit:
            self._pass_over()

    def _pass_over(self) -> None:
        self.overflow, self._plain = True, False
        self._buffer.clear()
