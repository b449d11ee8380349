"""The file of a recorded stream, with its secrets removed.

Text (SSE, NDJSON, JSON) is written as it comes, line by line. Chunks (dicts, an SDK's objects) are written as
server-sent events, one for each chunk. So are Amazon's binary frames, whose checksums a removed secret would break. The
module must not depend on turns or providers.
"""

from __future__ import annotations

import os
from base64 import b64decode
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from streamkit.framing import framer_for
from streamkit.framing.event_stream import EXCEPTION
from streamkit.reading.sdk_objects import dump_chunk
from streamkit.reading.source import BYTES
from streamkit.values.redaction import redact

__all__ = ["StreamFile", "create_private"]

_MOST_PENDING = 16 * 1024 * 1024  # bytes without the end of a line; then what there is is written


def create_private(path: Path) -> BinaryIO:
    """Open a file for writing, emptied; one that did not exist can be read by its owner alone, whatever the umask is.

    Raises:
        OSError: the file cannot be written.
    """
    return open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600))


class StreamFile:
    """A file that is written while a stream is read: text unchanged, chunks as server-sent events.

    Args:
        path: the file, which is created, or overwritten, when the first input arrives.
        clean: returns a text without its secrets.

    Attributes:
        lines: the number of line ends that it has.
    """

    def __init__(self, path: Path, clean: Callable[[str], str] = redact) -> None:
        self._path = path
        self._clean = clean
        self._file: BinaryIO | None = None
        self._is_closed = False
        self._pending: list[bytes] = []  # the beginning of a line, in parts: one of megabytes is not copied with each
        self._pending_size = 0
        self._frames = framer_for("event_stream")
        self._is_binary: bool | None = None  # known with the first byte
        self.lines: int = 0

    def write(self, data: Any) -> None:
        """Write the next input."""
        if self._is_closed:
            return
        if self._file is None:
            self._file = create_private(self._path)
        if not isinstance(data, BYTES):
            chunk = dump_chunk(data) if not isinstance(data, dict) else data
            if chunk is not None:
                self._write_chunk(chunk)
            return
        data = bytes(data)
        if self._is_binary is None and data:
            self._is_binary = data[:1] == b"\0"  # of a frame's length; text never begins so
        if not self._is_binary:
            self._write_text(data)
            return
        for name, payload in self._frames.feed(data):
            try:
                body = msgspec.json.decode(payload)
            except (msgspec.DecodeError, RecursionError):
                body = payload.decode("utf-8", "replace")
            self._write_chunk({name.removeprefix(EXCEPTION).decode("utf-8", "replace"): body})
        self._file.flush()

    def close(self) -> None:
        """Write the last line and close the file. A second call does nothing."""
        if self._file is not None and not self._is_closed:
            self._is_closed = True
            with self._file:  # also if nothing more can be written
                self._file.write(self._mask(b"".join(self._pending)))
        self._is_closed = True

    def _write_text(self, data: bytes) -> None:
        assert self._file is not None  # noqa: S101 - write has opened it
        end = data.rfind(b"\n") + 1
        self.lines += data.count(b"\n")
        if not end and self._pending_size + len(data) > _MOST_PENDING:
            end = len(data)
        self._pending.append(data[:end] if end else data)
        self._pending_size += len(data)
        if end:
            self._file.write(self._mask(b"".join(self._pending)))
            self._file.flush()
            self._pending, self._pending_size = [data[end:]], len(data) - end

    def _write_chunk(self, chunk: dict[str, Any]) -> None:
        assert self._file is not None  # noqa: S101 - write has opened it
        text = _inner_event(chunk) or msgspec.json.encode(chunk, enc_hook=str)
        self._file.write(b"data: " + self._mask(text) + b"\n\n")
        self.lines += 2
        self._file.flush()

    def _mask(self, data: bytes) -> bytes:
        """Return text with its secrets masked; bytes that are not UTF-8 are kept."""
        return self._clean(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _inner_event(chunk: dict[str, Any]) -> bytes | None:
    """Return the event in the base64 of a chunk of Bedrock's InvokeModel, or None if the chunk has none."""
    inner = chunk.get("chunk")
    data = inner.get("bytes") if isinstance(inner, dict) else None
    with suppress(ValueError, TypeError, msgspec.DecodeError):
        event = b64decode(data) if isinstance(data, str) else data
        return event if event is not None and isinstance(msgspec.json.decode(event), dict) else None
    return None
