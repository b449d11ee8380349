"""Newline-delimited JSON: one value a line (Ollama's wire, and every ``.jsonl`` file). It does not parse the JSON.

A line ends at LF; a CR before the LF is part of the line's end. A raw line feed is not allowed inside a JSON string, so
lines can be found without parsing them.
"""

from __future__ import annotations

from streamkit.framing.framer import Frame

__all__ = ["NdjsonFramer"]

_BOM = b"\xef\xbb\xbf"
_SPACE = b" \t\r"


class NdjsonFramer:
    """Splits lines into frames without a name; blank lines are skipped.

    Args:
        limit: the most bytes of one line, without its line feed.

    Attributes:
        overflow: a line exceeds ``limit``; the lines before it were returned, nothing is returned after it.
    """

    error: str | None = None  # see ``Framer``

    __slots__ = ("_after_first_line", "_buffer", "_closed", "_limit", "overflow")

    def __init__(self, limit: int) -> None:
        self.overflow = False
        self._limit = limit
        self._buffer = bytearray()  # the unfinished line; it grows in place, so tiny reads stay linear
        self._after_first_line = False  # the first line, which may begin with a byte order mark, has ended
        self._closed = False

    @property
    def pending(self) -> bytes:
        """The unfinished line. Empty after ``close``, which returns the last line, complete or not."""
        return bytes(self._buffer)

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
        if line:
            frames.append((b"", line))

    def _set_overflow(self) -> None:
        self.overflow = True
        self._buffer.clear()
