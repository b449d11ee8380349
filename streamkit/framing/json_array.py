"""JSON values as they arrive: ``[{...}, {...}]`` (Gemini without ``alt=sse``), one bare object, several in a row.

A top-level object is a frame as soon as its last brace is there. It finds that brace and judges nothing else: whether
the object is JSON is its reader's business. Strings are jumped over by one pattern each, and nothing is looked at twice
but the string that a read cuts, once.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamkit.framing import Frame

__all__ = ["JsonArrayFramer"]

# Escapes and runs are taken 256 at a time and the scan goes on from there: without a bound the engine keeps a record of
# each repetition, which for a string of a million escapes is more memory than the string.
_STRING_REST = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+){0,256}', re.DOTALL)
_INSIDE = re.compile(rb'(?:[^"{}]++|"[^"\\]*+(?:\\.[^"\\]*+){0,256}"){0,256}', re.DOTALL)
_OUTSIDE = re.compile(rb'[^"{]*')
_BETWEEN = b" \t\r\n,[]"
_BOM = b"\xef\xbb\xbf"
_KEPT = 1024  # bytes kept of what is no object: enough to see whose error page it is
_QUOTE, _OPEN, _CLOSE, _ESCAPE = b'"{}\\'


class JsonArrayFramer:
    """Top-level objects to frames without a name, whatever array, comma or line end stands around them.

    Args:
        limit: bytes that one object may have.

    Attributes:
        overflow: an object passed ``limit``; those before it were given, nothing is given any more.
    """

    error: str | None = None  # see ``Framer``

    __slots__ = ("_buffer", "_closed", "_cut_escape", "_depth", "_in_string", "_limit", "_stray", "overflow")

    def __init__(self, limit: int) -> None:
        self.overflow = False
        self._limit = limit
        self._buffer = bytearray()  # the unfinished object; it grows in place, so tiny reads stay linear
        self._stray = b""  # the start of what stands outside of objects and is more than brackets and commas
        self._depth = 0  # braces that are open
        self._in_string = False
        self._cut_escape = False  # the last read ended in a backslash inside a string
        self._closed = False

    @property
    def pending(self) -> bytes:
        """What stands unread: the first KiB of top-level text that is no object or array, and the unfinished object."""
        stray = self._stray.removeprefix(_BOM).lstrip(_BETWEEN)
        return stray + bytes(self._buffer) if self._buffer else stray.rstrip(_BETWEEN)

    def feed(self, data: bytes) -> list[Frame]:
        """The objects that these bytes complete."""
        frames: list[Frame] = []
        if self._closed or self.overflow:
            return frames
        at, end = 0, len(data)
        start = 0  # where in this read the unfinished object, or else the text outside, begins
        if self._cut_escape and end:
            at, self._cut_escape = 1, False
        while at < end:
            if self._in_string:
                found = _STRING_REST.match(data, at)
                at = found.end() if found else end
                if at < end and data[at] == _QUOTE:
                    self._in_string = False
                    at += 1
                elif at == end - 1:
                    self._cut_escape = True
                    at = end
                continue
            found = (_INSIDE if self._depth else _OUTSIDE).match(data, at)
            at = found.end() if found else end
            if at == end:
                break
            byte = data[at]
            if byte == _OPEN:
                if not self._depth:
                    self._put_aside(data[start:at])
                    start = at
                self._depth += 1
            elif byte == _CLOSE:
                self._depth -= 1
                if not self._depth:
                    value = data[start : at + 1]
                    if self._buffer:
                        value = bytes(self._buffer) + value
                        self._buffer.clear()
                    if len(value) > self._limit:
                        return self._passed_over(frames)
                    frames.append((b"", value))
                    start = at + 1
            elif byte == _QUOTE:
                self._in_string = True
            else:
                continue  # the pattern's bound was reached
            at += 1
        if not self._depth:
            self._put_aside(data[start:])
        else:
            self._buffer += data[start:]
            if len(self._buffer) > self._limit:
                return self._passed_over(frames)
        return frames

    def close(self) -> list[Frame]:
        """Nothing: an object ends with its brace or not at all. What is unfinished stays in ``pending``."""
        self._closed = True
        return []

    def _put_aside(self, text: bytes) -> None:
        if not self._stray:
            text = text.lstrip(_BETWEEN)
        if text and len(self._stray) < _KEPT:
            self._stray = (self._stray + text)[:_KEPT]

    def _passed_over(self, frames: list[Frame]) -> list[Frame]:
        self.overflow = True
        self._buffer.clear()
        return frames
