"""The cutting of a body where its frames end, so that the events of each frame are known. Pure."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["FramePieces"]

_LENGTH_SIZE = 4  # bytes of a binary frame's own length, with which it begins


class FramePieces:
    """The cutting of bytes where frames end, so that each frame is read alone.

    Text is cut at line ends, binary frames (``application/vnd.amazon.eventstream``) by their own length.
    """

    def __init__(self) -> None:
        self._is_binary: bool | None = None
        self._begin = b""  # less than the length of a binary frame
        self._left = 0  # bytes until the end of a binary frame

    def cut(self, data: bytes) -> Iterator[bytes]:
        """Yield the bytes in pieces, none of which has bytes of two frames."""
        if self._is_binary is None and data:
            self._is_binary = data[:1] == b"\0"  # of a frame's length; text never begins so
        if not self._is_binary:
            yield from data.splitlines(keepends=True)
            return
        data, self._begin = self._begin + data, b""
        while data:
            if not self._left:
                if len(data) < _LENGTH_SIZE:
                    self._begin = data
                    return
                self._left = max(int.from_bytes(data[:_LENGTH_SIZE], "big"), _LENGTH_SIZE)
            piece, data = data[: self._left], data[self._left :]
            self._left -= len(piece)
            yield piece
