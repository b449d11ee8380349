"""Newline-delimited JSON: one value a line (Ollama's wire, and every ``.jsonl``). Knows lines, not JSON.

A line ends at LF; a CR before it belongs to the line's end. A raw line feed cannot stand inside a JSON string, so the
lines can be told apart without reading them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamkit.framing import Frame

__all__ = ["NdjsonFramer"]

_BOM = b"\xef\xbb\xbf"
_SPACE = b" \t\r"


class NdjsonFramer:
    """Lines to frames without a name; blank lines are nothing.

    Args:
        limit: bytes that one line may have, without its line feed.

    Attributes:
        overflow: a line passed ``limit``; those before it were given, nothing is given any more.
    """

    error: str | None = None  # see ``Framer``

    __slots__ = ("_begun", "_buffer", "_closed", "_limit", "overflow")

    def __init__(self, limit: int) -> None:
        self.overflow = False
        self._limit = limit
        self._buffer = bytearray()  # the unfinished line; it grows in place, so tiny reads stay linear
        self._begun = False  # the first line, which may begin with a byte order mark, is over
        self._closed = False

    @property
    def pending(self) -> bytes:
        """The unfinished line. After ``close`` nothing: the last line was given, whole or not."""
        return bytes(self._buffer)

    def feed(self, data: bytes) -> list[Frame]:
        """The lines that these bytes complete."""
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
            self._take(line, frames)
        if tail and not self.overflow:
            self._buffer += tail
        if len(self._buffer) > self._limit:
            self._pass_over()
        return frames

    def close(self) -> list[Frame]:
        """The last line, where only its line feed is missing."""
        frames: list[Frame] = []
        if not self._closed and not self.overflow:
            self._closed = True
            self._take(bytes(self._buffer), frames)
            self._buffer.clear()
        return frames

    def _take(self, line: bytes, frames: list[Frame]) -> None:
        if len(line) > self._limit:
            self._pass_over()
        if self.overflow:
            return
        if not self._begun:
            self._begun = True
            line = line.removeprefix(_BOM)
        line = line.strip(_SPACE)
        if line:
            frames.append((b"", line))

    def _pass_over(self) -> None:
        self.overflow = True
        self._buffer.clear()
