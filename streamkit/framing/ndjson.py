"""Newline-delimited JSON: one value a line (Ollama's wire, and every ``.jsonl`` file). It does not parse the JSON.

A line ends at LF; a CR before the LF is part of the line's end. A raw line feed is not allowed inside a JSON string, so
lines can be found without parsing them.

A body that was not streamed may be one value over several lines, and so may each value of a stream, if a gateway
formats JSON for people. So a line that begins an object and does not end one begins a value of several lines, which
ends with its last brace.

JSON objects as they arrive: ``[{...}, {...}]`` (Gemini without ``alt=sse``), one object alone, several in a row.

A top-level object is a frame as soon as its last brace is received. Only that brace is found; whether the object is
JSON is decided by the parser. Each string is skipped by one pattern, and no byte is searched twice except those of a
string that is split between two reads, once.
"""

from __future__ import annotations

import re

from streamkit.framing.framer import Frame

__all__ = [
    "JsonArrayFramer",
    "NdjsonFramer",
]


# Escapes and runs are matched 256 at a time, then the scan continues: without a bound the engine keeps a record of each
# repetition, which for a string of a million escapes takes more memory than the string. _INSIDE leaves a string that is
# long or full of escapes to _STRING_REST, so that one without its end is not searched backwards.
_STRING_REST = re.compile(rb'[^"\\]*(?:\\.[^"\\]*){0,256}', re.DOTALL)
_INSIDE = re.compile(rb'[^"{}]*(?:"[^"\\]{0,128}(?:\\.[^"\\]{0,32}){0,8}"[^"{}]*){0,256}', re.DOTALL)
_OUTSIDE = re.compile(rb'[^"{]*')
_BETWEEN = b" \t\r\n,[]"
_BOM = b"\xef\xbb\xbf"
_MOST_STRAY = 1024  # bytes kept of text outside of objects: enough to identify an error page
_OPEN, _CLOSE = b"{}"
_QUOTE, _ESCAPE = b'"\\'


class JsonArrayFramer:
    """Splits top-level objects into frames without a name, whatever array, commas or line ends are around them.

    Args:
        limit: the most bytes of one object.

    Attributes:
        overflow: an object exceeds ``limit``; the objects before it were returned, nothing is returned after it.
    """

    error: str | None = None  # see ``Framer``, as ``name`` and ``unseparated``
    name = b""
    unseparated: bytes | None = None

    __slots__ = ("_after_backslash", "_buffer", "_closed", "_depth", "_in_string", "_limit", "_stray", "overflow")

    def __init__(self, limit: int) -> None:
        self.overflow: bool = False
        self._limit = limit
        self._buffer = bytearray()  # the unfinished object; it grows in place, so tiny reads stay linear
        self._stray = b""  # the start of the text outside of objects, except brackets and commas
        self._depth = 0  # open braces
        self._in_string = False
        self._after_backslash = False  # the last read ended in a backslash inside a string
        self._closed = False

    @property
    def pending(self) -> bytes:
        """The first KiB of top-level text that is not an object or array, and the unfinished object."""
        stray = self._stray.removeprefix(_BOM).lstrip(_BETWEEN)
        return stray + bytes(self._buffer) if self._buffer else stray.rstrip(_BETWEEN)

    @property
    def is_in_object(self) -> bool:
        """Whether the input so far ends inside an object."""
        return self._depth > 0

    @property
    def is_in_string(self) -> bool:
        """Whether the input so far ends inside a string."""
        return self._in_string

    def take(self, data: bytes) -> None:
        """Implement ``Framer.take``: no frame has a frequent form."""

    def feed(self, data: bytes) -> list[Frame]:
        """Return the objects that these bytes complete."""
        frames: list[Frame] = []
        if self._closed or self.overflow:
            return frames
        at, end = 0, len(data)
        start = 0  # the offset in this read of the unfinished object, or else of the text outside
        if self._after_backslash and end:
            at, self._after_backslash = 1, False
        while at < end:
            if self._in_string:
                match = _STRING_REST.match(data, at)
                at = match.end() if match else end
                if at < end and data[at] == _QUOTE:
                    self._in_string = False
                    at += 1
                elif at == end - 1:
                    self._after_backslash = True
                    at = end
                continue
            match = (_INSIDE if self._depth else _OUTSIDE).match(data, at)
            at = match.end() if match else end
            if at == end:
                break
            byte = data[at]
            if byte == _OPEN:
                if not self._depth:
                    self._keep_stray(data[start:at])
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
                        return self._set_overflow(frames)
                    frames.append((b"", value))
                    start = at + 1
            else:
                self._in_string = True
            at += 1
        if not self._depth:
            self._keep_stray(data[start:])
        else:
            self._buffer += data[start:]
            if len(self._buffer) > self._limit:
                return self._set_overflow(frames)
        return frames

    def close(self) -> list[Frame]:
        """Return nothing: an object ends with its brace or not at all. An unfinished one remains in ``pending``."""
        self._closed = True
        return []

    def _keep_stray(self, text: bytes) -> None:
        if not self._stray:
            text = text.lstrip(_BETWEEN)
        if text and len(self._stray) < _MOST_STRAY:
            self._stray = (self._stray + text)[:_MOST_STRAY]

    def _set_overflow(self, frames: list[Frame]) -> list[Frame]:
        self.overflow = True
        self._buffer.clear()
        return frames


_SPACE = b" \t\r"
_BEFORE_VALUE = b"{[,:"


class NdjsonFramer:
    """Splits lines into frames without a name; blank lines are skipped.

    Args:
        limit: the most bytes of one line, without its line feed, or of one value of several lines.

    Attributes:
        overflow: a line or value exceeds ``limit``; the lines before it were returned, nothing is returned after it.
    """

    error: str | None = None  # see ``Framer``, as ``name`` and ``unseparated``
    name = b""
    unseparated: bytes | None = None

    __slots__ = ("_after_first_line", "_at_start", "_buffer", "_closed", "_document", "_last", "_limit", "overflow")

    def __init__(self, limit: int) -> None:
        self.overflow: bool = False
        self._limit = limit
        self._buffer = bytearray()  # the unfinished line; it grows in place, so tiny reads stay linear
        self._after_first_line = False  # the first line, which may begin with a byte order mark, has ended
        self._document: JsonArrayFramer | None = None  # of the unfinished value of several lines
        self._last = 0  # the last byte of its last line
        self._closed = False
        self._at_start = False  # a line was read and nothing is pending: the next read begins one

    @property
    def pending(self) -> bytes:
        """The unfinished line or value. After ``close``, which returns the last line, only an unfinished value."""
        return (self._document.pending if self._document is not None else b"") + bytes(self._buffer)

    def take(self, data: bytes) -> bytes | None:
        """Implement ``Framer.take``: one line that is an object."""
        if self._at_start:
            line, end, rest = data.partition(b"\n")
            if end and not rest and 1 < len(line) <= self._limit and line[0] == _OPEN and line[-1] == _CLOSE:
                return line
        return None

    def feed(self, data: bytes) -> list[Frame]:
        """Return the lines that these bytes complete."""
        frames: list[Frame] = []
        self._at_start = False
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
        self._at_start = not (self._buffer or self.overflow) and self._after_first_line and self._document is None
        return frames

    def close(self) -> list[Frame]:
        """Return the last line, if only its line feed is missing."""
        frames: list[Frame] = []
        self._at_start = False
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
