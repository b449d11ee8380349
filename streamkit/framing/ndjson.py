"""Newline-delimited JSON: one value a line (Ollama's wire, and every ``.jsonl`` file). It does not parse the JSON.

A line ends at LF; a CR before the LF is part of the line's end. A raw line feed is not allowed inside a JSON string, so
lines can be found without parsing them.

A body that was not streamed may be one value over several lines, and so may each value of a stream, if a gateway
formats JSON for people. So a line that begins an object and does not end one begins a value of several lines, which
ends with its last brace.
"""

from __future__ import annotations

from streamkit.framing.framer import Frame
from streamkit.framing.json_array import JsonArrayFramer

__all__ = ["NdjsonFramer"]

_BOM = b"\xef\xbb\xbf"
_SPACE = b" \t\r"
_OPEN, _CLOSE = b"{}"
_BEFORE_VALUE = b"{[,:"


class NdjsonFramer:
    """Splits lines into frames without a name; blank lines are skipped.

    Args:
        limit: the most bytes of one line, without its line feed, or of one value of several lines.

    Attributes:
        overflow: a line or value exceeds ``limit``; the lines before it were returned, nothing is returned after it.
    """

    error: str | None = None  # see ``Framer``, as ``name`` and ``warning``
    name = b""
    warning: str | None = None

    __slots__ = ("_after_first_line", "_buffer", "_closed", "_document", "_last", "_limit", "overflow")

    def __init__(self, limit: int) -> None:
        self.overflow = False
        self._limit = limit
        self._buffer = bytearray()  # the unfinished line; it grows in place, so tiny reads stay linear
        self._after_first_line = False  # the first line, which may begin with a byte order mark, has ended
        self._document: JsonArrayFramer | None = None  # of the unfinished value of several lines
        self._last = 0  # the last byte of its last line
        self._closed = False

    @property
    def pending(self) -> bytes:
        """The unfinished line or value. After ``close``, which returns the last line, only an unfinished value."""
        return (self._document.pending if self._document is not None else b"") + bytes(self._buffer)

    def take(self, data: bytes) -> None:
        """Implement ``Framer.take``: no frame has a frequent form."""

    def feed(self, data: bytes) -> list[Frame]:
        """Return the lines that these bytes complete."""
        frames: list[Frame] = []
        if self._closed or self.overflow:
            return frames
        lines = data.split(b"\n")
        if self._buffer:
            self._buffer += lines[0]
            if len(lines) > 1:
                lines[0] = bytes(self._buffer)
                self._buffer.clear()
                tail = lines.pop()
            else:
                lines.clear()
                tail = b""
        else:
            tail = lines.pop()
        for line in lines:
            self._add_frame(line, frames)
        if tail and not self.overflow:
            self._buffer += tail
        if len(self._buffer) > self._limit:
            self._set_overflow()
        return frames

    def close(self) -> list[Frame]:
        """Return the last line, if only its line feed is missing."""
        frames: list[Frame] = []
        if not self._closed and not self.overflow:
            self._closed = True
            self._add_frame(bytes(self._buffer), frames)
            self._buffer.clear()
        return frames

    def _add_frame(self, line: bytes, frames: list[Frame]) -> None:
        if len(line) > self._limit:
            self._set_overflow()
        if self.overflow:
            return
        if not self._after_first_line:
            self._after_first_line = True
            line = line.removeprefix(_BOM)
        line = line.strip(_SPACE)
        if not line:
            return
        if self._document is None and (self._closed or line[0] != _OPEN or line[-1] == _CLOSE):
            frames.append((b"", line))
        else:
            self._add_to_document(line, frames)

    def _add_to_document(self, line: bytes, frames: list[Frame]) -> None:
        """Add a line to the value of several lines, or begin one with it; append the value if it ends."""
        document = self._document
        if document is None:
            document = self._document = JsonArrayFramer(self._limit)
        elif line[0] == _OPEN and self._last not in _BEFORE_VALUE:
            self._end_document(frames)  # the value before is broken: an object cannot begin here within another
            self._add_frame(line, frames)
            return
        self._last = line[-1]
        frames += document.feed(line + b"\n")
        if document.overflow:
            self._set_overflow()
        elif document.is_in_string:  # no string goes on over lines, so the line is broken
            self._end_document(frames)
        elif not document.is_in_object:
            self._document = None

    def _end_document(self, frames: list[Frame]) -> None:
        """Append a value that is not JSON, for the parser to report."""
        if self._document is not None:
            frames.append((b"", self._document.pending.rstrip(b"\n")))
            self._document = None

    def _set_overflow(self) -> None:
        self.overflow = True
        self._document = None
        self._buffer.clear()
