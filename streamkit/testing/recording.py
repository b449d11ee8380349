"""A stream written to a file while it is read, with its secrets removed: for bug reports and cases.

``record`` wraps a source of ``read``: what it yields is what the source yields. The file is one that ``streamkit
normalize`` reads, and that may stand beside a conformance case:

- bytes of a text (SSE, NDJSON, JSON) are written as they come, line by line;
- chunks (dicts, an SDK's objects) are written as server-sent events, one for each chunk. So are Amazon's binary frames,
  whose checksums a removed secret would break.

Secrets of known forms are masked (``values.redaction``), within one line or chunk: a secret that a model repeats is
split over several deltas and stays. Read the file before you send it to anybody. The file is written where the source
is read, which blocks the event loop for the time of a write: record to find a defect, not in production.
"""

from __future__ import annotations

from inspect import isawaitable
from pathlib import Path
from types import TracebackType
from typing import Any

from streamkit.errors import UsageError
from streamkit.reading.source import CopiedSource, is_readable
from streamkit.reading.stream_file import StreamFile

__all__ = ["Recording", "record"]


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


class Recording(CopiedSource):
    """A source that is written to a file while it is read. It has the status and headers of a response."""

    def __init__(self, source: Any, path: str | Path) -> None:
        super().__init__(source, StreamFile(Path(path)))


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
