"""A source of input: opened, read by ``stream_reader``, and closed in order.

A source is what people pass to ``read``: an iterable, a response, an SDK's stream, a single input. This module must not
depend on events, pydantic, providers or tools.

A source of input that is copied to a sink while it is read.

What a ``CopiedSource`` yields is what its source yields, the same objects in the same order; so a recording or an
observer is not part of the reading. The module must not depend on what a sink does, on turns or on providers.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Generator, Iterable, Mapping
from contextlib import suppress
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import Any, Protocol

import anyio
import anyio.lowlevel

from streamkit.calls import StreamError
from streamkit.errors import UsageError
from streamkit.reading.source_failure import find_failed_response, is_programming_error
from streamkit.reading.time_limits import TimeLimits
from streamkit.reading.turn import Turn

__all__ = [
    "BYTES",
    "CopiedSource",
    "InputSink",
    "Source",
    "headers_of",
    "is_readable",
    "status_of",
]


#: Seconds that a source may take to close, canceled or not; a peer that does not respond must not block the program.
CLOSING_TIME = 5.0
#: Seconds to wait for the end of a body after its terminator.
LINGERING = 0.1
# The most parts of a body that can be buffered after one read of the network, and their bytes: httpcore reads 64 KiB,
# and an HTTP chunk has 6 bytes or more; aiohttp reads 256 KiB beside the 128 KiB that it has.
_BUFFERED, _BUFFERED_SIZE = 64 * 1024 // 6, 512 * 1024
BYTES = (bytes, bytearray, memoryview)
#: A complete body. So is an object of a pydantic-based SDK, which iterates over its fields.
SINGLE_INPUTS = (*BYTES, str, dict)


def is_readable(source: Any) -> bool:
    """Return True if ``read`` accepts this object as a source."""
    return (
        isinstance(source, SINGLE_INPUTS)
        or hasattr(source, "model_dump")
        or hasattr(source, "__aiter__")
        or hasattr(source, "aiter_bytes")
        or hasattr(source, "iter_bytes")
        # A future, and what aiohttp returns for a request, iterate over themselves until they are awaited.
        or (hasattr(source, "__iter__") and not isawaitable(source))
        or _find_body_reader(source) is not None
    )


def status_of(response: Any) -> int | None:
    """Return the HTTP status of a response, None if it has none."""
    status = getattr(response, "status_code", None)
    if status is None:
        status = getattr(response, "status", None)  # aiohttp and urllib3
    return status if isinstance(status, int) else None


def headers_of(source: Any) -> Mapping[str, str]:
    """Return the headers of a response, also of one within an SDK's stream or boto3's result; empty if it has none."""
    found: Any = getattr(source, "headers", None)
    if found is None and isinstance(source, dict):
        facts = source.get("ResponseMetadata")
        found = facts.get("HTTPHeaders") if isinstance(facts, Mapping) else None
    elif found is None:
        found = getattr(getattr(source, "response", None), "headers", None)  # the SDKs' streams have httpx's response
    return found if hasattr(found, "get") and hasattr(found, "items") else {}


def report_rejection(turn: Turn, exception: Exception) -> bool:
    """Give a turn without input the response that rejected its request; return False if the exception has none."""
    response = find_failed_response(exception) if turn.input_kind is None else None
    if response is None:
        return False
    turn.response(response.status, response.headers)
    turn.feed(response.body)
    return True


class Source:
    """A source of input, opened and closed.

    Args:
        turn: the turn that gets the status of a response.
        source: an object that ``read`` accepts.
        limits: see below.
        started: see below.

    Attributes:
        limits: how long input is waited for; None for no limit.
        started: the time of the request, on anyio's clock; None if that is when reading starts.
        exception: the exception that the source raised, if it did.
        error: what ended the input too early: the exception, or a time limit.
    """

    __slots__ = ("_closed", "_iterator", "_source", "_turn", "error", "exception", "limits", "started")

    def __init__(
        self, turn: Turn, source: Any, *, limits: TimeLimits | None = None, started: float | None = None
    ) -> None:
        self._turn = turn
        if isinstance(source, dict) and "ResponseMetadata" in source:  # a response of boto3: facts, and the stream
            # https://docs.aws.amazon.com/boto3/latest/reference/services/bedrock-runtime/client/converse_stream.html
            streams = [source.get(name) for name in ("stream", "body")]
            source = next((each for each in streams if hasattr(each, "__iter__") or hasattr(each, "__aiter__")), source)
        self._source = source
        self._iterator: Any = None
        self._closed = False
        self.limits: TimeLimits | None = limits
        self.started: float | None = started
        self.exception: Exception | None = None
        self.error: Exception | StreamError | None = None

    @property
    def is_closed(self) -> bool:
        """Whether the source was closed, after its end or before."""
        return self._closed

    def report(self, exception: Exception) -> None:
        """Record what the source raised.

        Raises:
            Exception: the exception itself, if it reports a defect of the program: no failed connection.
        """
        self.exception = self.error = exception
        if is_programming_error(exception):
            raise exception
        if report_rejection(self._turn, exception):
            self.error = None  # the turn's error is the response

    def open(self, *, sync: bool = False) -> Any:
        """Return an iterator over the input; an async one only if ``sync`` is False.

        Raises:
            UsageError: the object is not a source, or is asynchronous and ``sync`` is True; or it is synchronous and
                silence is limited.
        """
        source = self._source
        if isinstance(source, SINGLE_INPUTS) or hasattr(source, "model_dump"):
            return iter((source,))
        status, headers = status_of(source), getattr(source, "headers", None)
        if status is not None and (headers is None or hasattr(headers, "items")):
            self._turn.response(status, headers)
        if hasattr(source, "aiter_bytes") and not sync and not _is_sync_response(source):
            self._iterator = aiter(source.aiter_bytes())
        elif hasattr(source, "iter_bytes"):
            self._iterator = source.iter_bytes()  # openai's async raw response has an async one under this name
            if hasattr(self._iterator, "__aiter__") and sync:
                raise UsageError(f"{type(source).__name__} is asynchronous: read it with 'async for'")
            self._iterator = aiter(self._iterator) if hasattr(self._iterator, "__aiter__") else iter(self._iterator)
        elif hasattr(source, "__aiter__") and not sync:
            self._iterator = aiter(source)
        elif hasattr(source, "__iter__") and not isawaitable(source):
            self._iterator = iter(source)
        elif not sync and (body := _find_body_reader(source)) is not None:
            self._iterator = _read_body(body)
        elif is_readable(source):
            raise UsageError(f"{type(source).__name__} is asynchronous: read it with 'async for'")
        else:
            raise UsageError(f"read() takes an iterable of input or a response, not {type(source).__name__}")
        if (
            self.limits is not None
            and self.limits.has_silence_limit
            and not hasattr(self._iterator, "__anext__")
            and not isinstance(source, (list, tuple))  # they do not wait
        ):
            raise UsageError(
                "timeouts need an asynchronous source: nothing can end the wait of a"
                f" synchronous one ({type(source).__name__}). Pass an async stream, or set the timeout of the HTTP"
                " client, such as httpx.Timeout(5, read=20)"
            )
        return self._iterator

    async def aclose(self) -> None:
        """Close the source. A second call does nothing."""
        if not (targets := self._to_close()):
            return
        interrupted: BaseException | None = None
        # Shielded, because a canceled reader must still close its connection in order. Nothing is yielded here.
        with anyio.move_on_after(CLOSING_TIME, shield=True) as scope:
            steps = [partial(self._close, target) for target in targets]
            if isinstance(self._iterator, AsyncGenerator) and self._iterator is not self._source:
                steps.insert(0, partial(self._exhaust, self._iterator))
            while steps:
                try:
                    await steps[0]()
                except anyio.get_cancelled_exc_class() as error:
                    if scope.cancel_called:
                        raise
                    interrupted = error  # asyncio's own cancel() ignores the shield: repeat the step
                else:
                    del steps[0]
        if interrupted is not None:
            raise interrupted

    async def _close(self, target: Any) -> None:
        with suppress(Exception):  # the turn has its result; an error at closing the source cannot change it
            asynchronous = hasattr(target, "aclose") and not _is_sync_response(target)
            closing = target.aclose() if asynchronous else target.close()
            if isawaitable(closing):
                await closing

    async def _exhaust(self, iterator: AsyncGenerator[Any, None]) -> None:
        """Read the iterator of a response, or of an SDK's stream, to its end.

        After a body was read to its end its connection can serve the next request, and with httpx a body ends right
        after the terminator. If it does not end at once, or the reader left early, a cancellation unwinds the nested
        generators of httpx and the SDKs; closing the outermost would leave the inner ones to the garbage collector
        (trio warns of that). A generator that is the source itself belongs to the caller, and is only closed.
        """
        size = 0  # a body that arrives faster than it is read never waits, so that no cancellation would end it
        with suppress(Exception):
            if self._turn.done:
                with anyio.move_on_after(LINGERING):
                    while size < _BUFFERED_SIZE:
                        size += _size(await anext(iterator))
                        await anyio.lowlevel.checkpoint()
            with anyio.CancelScope() as scope:
                scope.cancel()
                for _ in range(_BUFFERED):  # no checkpoint: the cancellation must reach the innermost generator
                    if (size := size + _size(await anext(iterator))) > _BUFFERED_SIZE:
                        break

    def close(self) -> None:
        """Close a sync source. A second call does nothing."""
        for target in self._to_close():
            if hasattr(target, "close") and not iscoroutinefunction(target.close):
                with suppress(Exception):  # as in _close
                    target.close()

    def _to_close(self) -> list[Any]:
        """Return the objects to close, the innermost first; none the second time."""
        if self._closed:
            return []
        self._closed = True
        targets = [self._source] if self._iterator is self._source else [self._iterator, self._source]
        return [target for target in targets if hasattr(target, "aclose") or hasattr(target, "close")]


def _size(part: Any) -> int:
    return len(part) if isinstance(part, BYTES) else 0


def _find_body_reader(source: Any) -> Any:
    """Return the reader of the body of aiohttp's response, None for any other object."""
    try:
        body = getattr(source, "content", None)
    except Exception:  # whatever a property of an object that is no response raises
        return None
    return body if hasattr(body, "iter_any") and hasattr(source, "status") else None


async def _read_body(body: Any) -> AsyncGenerator[bytes, None]:
    """Yield the body of aiohttp's response. A generator is read to its end, after which the connection is reused."""
    async for data in body.iter_any():
        yield data


def _is_sync_response(response: Any) -> bool:
    """Return True if a response can only be read sync. httpx has one class for both kinds; its stream differs."""
    stream = getattr(response, "stream", None)
    return stream is not None and hasattr(stream, "__iter__") and not hasattr(stream, "__aiter__")


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
            # openai's async raw response has an async iterator under this name
            return lambda: self._aread(inner) if hasattr(inner := value(), "__aiter__") else self._read(inner)
        return value

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
