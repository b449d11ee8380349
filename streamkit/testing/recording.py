"""A stream written to a file while it is read, with its secrets removed: for bug reports and cases.

``record`` wraps a source of ``read``: what it yields is what the source yields. The file is one that ``streamkit
normalize`` reads, and that may stand beside a conformance case:

- bytes of a text (SSE, NDJSON, JSON) are written as they come, line by line;
- chunks (dicts, an SDK's objects) are written as server-sent events, one for each chunk. So are Amazon's binary frames,
  whose checksums a removed secret would break.

Secrets of known forms are masked (``streamkit.redaction``), within one line or chunk: a secret that a model repeats is
split over several deltas and stays. Read the file before you send it to anybody. The file is written where the source
is read, which blocks the event loop for the time of a write: record to find a defect, not in production.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Generator, Iterable
from contextlib import suppress
from inspect import isawaitable
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import msgspec

from streamkit.errors import UsageError
from streamkit.framing import framer_for
from streamkit.framing.event_stream import EXCEPTION
from streamkit.redaction import redact
from streamkit.sdk_objects import to_plain
from streamkit.source import BYTES, is_readable

__all__ = ["Recording", "record"]

_MOST_PENDING = 16 * 1024 * 1024  # bytes without the end of a line; then what there is is written
_OF_A_RESPONSE = ("aiter_bytes", "iter_bytes", "status_code", "headers", "stream")


def record(source: Any, path: str | Path) -> Any:
    """Return a source that yields the same input and writes it to a file, with its secrets removed.

    ::

        async for event in read(turn, record(response, "turn.sse")):
            ...

    Args:
        source: any source of ``read``: a response, an iterable of bytes or chunks, an SDK's stream, a complete body; or
            a context manager of one (``httpx.stream(...)``), as ``create_new_stream`` of ``run_loop`` may return it.
        path: the file, which is created, or overwritten when the first input arrives. Its folder must exist.

    Returns:
        A ``Recording``; of a context manager a context manager of one.

    Raises:
        UsageError: the source is none of these.
        OSError: while it is read: the file cannot be written.
    """
    if is_readable(source):
        return Recording(source, path)
    if hasattr(source, "__aenter__") or hasattr(source, "__enter__"):
        return _RecordedContext(source, path)
    raise UsageError(f"record() takes a source that read() accepts, not {type(source).__name__}")


class Recording:
    """A source that is written to a file while it is read. It has the status and headers of a response."""

    def __init__(self, source: Any, path: str | Path) -> None:
        self._source = source
        self._inputs: AsyncGenerator[Any, None] | None = None
        self._file = _File(Path(path))

    def __getattr__(self, name: str) -> Any:
        if name not in _OF_A_RESPONSE or "_source" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        value = getattr(self._source, name)
        if name == "aiter_bytes":
            return lambda: self._aread(value())
        if name == "iter_bytes":
            return self._iter_bytes
        return value

    def _iter_bytes(self) -> Any:
        inner = self._source.iter_bytes()  # openai's async raw response has an async one under this name
        return self._aread(inner) if hasattr(inner, "__aiter__") else self._read(inner)

    def __aiter__(self) -> Recording:
        # Itself, as a generator that is the source: one that is left early is closed, and not read to its end.
        return self

    def __anext__(self) -> Awaitable[Any]:
        if self._inputs is None:
            self._inputs = self._aread(self._source)
        return self._inputs.__anext__()

    def __iter__(self) -> Generator[Any, None, None]:
        if hasattr(self._source, "__aiter__") and not hasattr(self._source, "__iter__"):
            raise UsageError(f"{type(self._source).__name__} is asynchronous: read it with 'async for'")
        return self._read(self._source)

    async def _aread(self, inputs: Any) -> AsyncGenerator[Any, None]:
        try:
            if isinstance(inputs, AsyncIterable):
                async for data in inputs:
                    self._file.write(data)
                    yield data
            else:
                for data in _iterable(inputs):
                    self._file.write(data)
                    yield data
        finally:
            self._file.close()

    def _read(self, inputs: Any) -> Generator[Any, None, None]:
        try:
            for data in _iterable(inputs):
                self._file.write(data)
                yield data
        finally:
            self._file.close()

    async def aclose(self) -> None:
        """Close the source and complete the file. A second call does nothing."""
        if self._inputs is not None:
            await self._inputs.aclose()
        self._file.close()
        close = getattr(self._source, "aclose", None) or getattr(self._source, "close", None)
        if close is not None and isawaitable(closing := close()):
            await closing

    def close(self) -> None:
        """Close a sync source and complete the file. A second call does nothing."""
        self._file.close()
        if hasattr(self._source, "close"):
            self._source.close()


class _RecordedContext:
    """A context manager of a source, which is entered and recorded."""

    def __init__(self, context: Any, path: str | Path) -> None:
        self._context = context
        self._path = path

    async def __aenter__(self) -> Recording:
        is_async = hasattr(self._context, "__aenter__")
        source = await self._context.__aenter__() if is_async else self._context.__enter__()
        return Recording(source, self._path)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Any:
        is_async = hasattr(self._context, "__aexit__")
        left = self._context.__aexit__(kind, error, trace) if is_async else self._context.__exit__(kind, error, trace)
        return await left if isawaitable(left) else left

    def __enter__(self) -> Recording:
        return Recording(self._context.__enter__(), self._path)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Any:
        return self._context.__exit__(kind, error, trace)


def _iterable(inputs: Any) -> Iterable[Any]:
    """Return the inputs of a sync source; of a complete body, that alone."""
    return (inputs,) if isinstance(inputs, (*BYTES, dict)) or hasattr(inputs, "model_dump") else inputs


class _File:
    """The file of a recording, with text unchanged and chunks as server-sent events."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._is_closed = False
        self._pending = b""  # the beginning of a line
        self._frames = framer_for("event_stream")
        self._is_binary: bool | None = None  # known with the first byte

    def write(self, data: Any) -> None:
        """Write the next input."""
        if self._is_closed:
            return
        if self._file is None:
            self._file = self._path.open("wb")
        if not isinstance(data, BYTES):
            chunk = to_plain(data) if not isinstance(data, dict) else data
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
            self._write_frame(name, payload)
        self._file.flush()

    def close(self) -> None:
        """Write the last line and close the file. A second call does nothing."""
        if self._file is not None and not self._is_closed:
            self._file.write(_mask(self._pending))
            self._file.close()
        self._is_closed = True

    def _write_text(self, data: bytes) -> None:
        assert self._file is not None  # noqa: S101 - write has opened it
        lines, end, rest = (self._pending + data).rpartition(b"\n")
        if not end and len(rest) > _MOST_PENDING:
            lines, rest = rest, b""
        self._file.write(_mask(lines) + end)
        self._file.flush()
        self._pending = rest

    def _write_frame(self, name: bytes, payload: bytes) -> None:
        try:
            body = msgspec.json.decode(payload)
        except (msgspec.DecodeError, RecursionError):
            body = payload.decode("utf-8", "replace")
        self._write_chunk({name.removeprefix(EXCEPTION).decode("utf-8", "replace"): body})

    def _write_chunk(self, chunk: dict[str, Any]) -> None:
        assert self._file is not None  # noqa: S101 - write has opened it
        text = _inner_event(chunk) or msgspec.json.encode(chunk, enc_hook=str)
        self._file.write(b"data: " + _mask(text) + b"\n\n")
        self._file.flush()


def _inner_event(chunk: dict[str, Any]) -> bytes | None:
    """Return the event in the base64 of a chunk of Bedrock's InvokeModel, or None if the chunk has none."""
    inner = chunk.get("chunk")
    data = inner.get("bytes") if isinstance(inner, dict) else None
    with suppress(ValueError, TypeError, msgspec.DecodeError):
        event = b64decode(data) if isinstance(data, str) else data
        return event if event is not None and isinstance(msgspec.json.decode(event), dict) else None
    return None


def _mask(data: bytes) -> bytes:
    """Return text with its secrets masked; bytes that are not UTF-8 are kept."""
    return redact(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
