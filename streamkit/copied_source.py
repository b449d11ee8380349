"""A source of input that is copied to a sink while it is read.

What a ``CopiedSource`` yields is what its source yields, the same objects in the same order; so a recording or an
observer is not part of the reading. The module must not depend on what a sink does, on turns or on providers.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Generator, Iterable
from inspect import isawaitable
from typing import Any, Protocol

from streamkit.errors import UsageError
from streamkit.source import BYTES

__all__ = ["CopiedSource", "InputSink"]

_OF_A_RESPONSE = ("aiter_bytes", "iter_bytes", "status_code", "headers", "response", "stream")


class InputSink(Protocol):
    """Takes the copies. What it raises is raised to the reader."""

    def write(self, data: Any, /) -> None:
        """Take the next input."""

    def close(self) -> None:
        """Take the end of the input; it may come more than once, and before the source's own end."""


class CopiedSource:
    """A source that is copied to a sink while it is read. It has the status and headers of a response.

    Args:
        source: any source of ``read``: a response, an iterable of bytes or chunks, an SDK's stream, a complete body.
        sink: takes the copies.
    """

    def __init__(self, source: Any, sink: InputSink) -> None:
        self._source = source
        self._inputs: AsyncGenerator[Any, None] | None = None
        self._sink = sink

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

    def __aiter__(self) -> CopiedSource:
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
                    self._sink.write(data)
                    yield data
            else:
                for data in _iterable(inputs):
                    self._sink.write(data)
                    yield data
        finally:
            self._sink.close()

    def _read(self, inputs: Any) -> Generator[Any, None, None]:
        try:
            for data in _iterable(inputs):
                self._sink.write(data)
                yield data
        finally:
            self._sink.close()

    async def aclose(self) -> None:
        """Close the source and the copy. A second call does nothing."""
        if self._inputs is not None:
            await self._inputs.aclose()
        self._sink.close()
        close = getattr(self._source, "aclose", None) or getattr(self._source, "close", None)
        if close is not None and isawaitable(closing := close()):
            await closing

    def close(self) -> None:
        """Close a sync source and the copy. A second call does nothing."""
        self._sink.close()
        if hasattr(self._source, "close"):
            self._source.close()


def _iterable(inputs: Any) -> Iterable[Any]:
    """Return the inputs of a sync source; of a complete body, that alone."""
    return (inputs,) if isinstance(inputs, (*BYTES, dict)) or hasattr(inputs, "model_dump") else inputs
