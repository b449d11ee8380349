"""Reading a source into a turn: ``read`` and the ``StreamReader`` that it returns.

The module gets the next input of a source, feeds it to the turn, and closes both. It depends on anyio, and must not
depend on pydantic, execution, providers, calls or tools.

No cancel scope, task group or lock is open across a ``yield`` (anyio's documentation calls that "Bad!" for async
generators), and none is entered per input: there is one asynchronous hop for each read of the network.
"""

from __future__ import annotations

import logging
import warnings
import weakref
from collections.abc import AsyncGenerator, Awaitable, Generator
from contextlib import aclosing, suppress
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import Any

import anyio
import anyio.lowlevel

from streamkit.calls import StreamError
from streamkit.errors import UsageError
from streamkit.events import Event
from streamkit.source_failure import find_failed_response, is_programming_error
from streamkit.turn import Turn

__all__ = ["TIMED_OUT", "Source", "StreamReader", "event_batches", "is_readable", "read", "report_rejection"]

#: Seconds that a source may take to close, canceled or not; a peer that does not respond must not block the program.
CLOSING_TIME = 5.0

#: The error of a turn whose time limit has passed.
TIMED_OUT = StreamError("timed_out", "the time limit passed before the response had ended")

#: Seconds to wait for the end of a body after its terminator.
LINGERING = 0.1

# The most parts of a body that can be buffered after one read of the network: httpcore reads 64 KiB, and an HTTP chunk
# has 6 bytes or more.
_BUFFERED = 64 * 1024 // 6

_BYTES = (bytes, bytearray, memoryview)

_log = logging.getLogger("streamkit")


def read(turn: Turn, source: Any) -> StreamReader:
    """Feed a turn from a source and return a reader of its events, for ``async for`` or ``for``.

    The reader stops at ``turn.done``, closes the turn, and always closes the source. An exception of the source ends
    the turn: it becomes the turn's error and a ``Failed`` event, and is not raised, unless it reports a defect of the
    program (``NameError``, ``TypeError``, ...). ``turn.error`` is not raised either; use ``turn.raise_for_error()``. An
    error that is read neither there nor by ``turn.error`` is logged by the logger ``streamkit`` when the turn is
    collected. Cancellation closes the turn and the source, and propagates.

    Leaving the loop early ends the turn too. A ``break`` does not reach the iterator, so if the time of closing
    matters, use ``async with read(turn, source) as events`` (or ``with``): the source is closed at the end of the
    block. Otherwise it is closed when the iterator is collected: by CPython at once after ``for``, by the event loop
    after ``async for``.

    Args:
        turn: a turn that was not fed yet, or one to continue.
        source: an iterable of input, sync or async (bytes of the body, chunks as dicts, an SDK's stream); a response
            with ``aiter_bytes`` or ``iter_bytes`` (its status and headers are passed to the turn); or a single input,
            such as the complete body of a response that was not streamed. ``async for`` accepts sync sources as well,
            and blocks the event loop while they wait.

    Returns:
        An iterator and context manager, both async and sync; it is read once. One that is never used is a
        ``RuntimeWarning``.

    Raises:
        UsageError: the turn is no ``Turn``, or was closed. While reading: the source is none of these, or is
            asynchronous and read with ``for``; the events were read before.
    """
    if not isinstance(turn, Turn):
        raise UsageError(f"read() takes a Turn first, as in read(Turn('anthropic'), response), not {turn!r}")
    if turn.closed:
        raise UsageError("the turn was read and closed: make a new Turn for the next stream")
    return StreamReader(turn, Source(turn, source))


def is_readable(source: Any) -> bool:
    """Return True if ``read`` accepts this object as a source."""
    return _is_single_input(source) or any(
        hasattr(source, name) for name in ("aiter_bytes", "iter_bytes", "__aiter__", "__iter__")
    )


class StreamReader:
    """An iterator over the events of a turn that reads one source; also a context manager, async or sync."""

    # The generators refer to the source and not to this object: without a cycle, a dropped iterator is closed at once.
    __slots__ = ("_events", "_is_used", "_source", "_turn")

    def __init__(self, turn: Turn, source: Source) -> None:
        self._turn = turn
        self._source = source
        self._events: AsyncGenerator[Event, None] | Generator[Event, None, None] | None = None
        self._is_used = False  # iterated, entered or closed

    def __del__(self) -> None:
        if not self._is_used:
            message = "a stream was never read: iterate over read(turn, source)"
            warnings.warn(message, RuntimeWarning, stacklevel=2, source=self)

    def _check_unread(self) -> None:
        # The generator of a second loop would be empty, as if the response were.
        if self._source.is_closed:
            raise UsageError("the events of this reader were read: they arrive once; turn.content has what they added")

    def __aiter__(self) -> AsyncGenerator[Event, None]:
        # The generator itself: no further hop per event, and the event loop closes it if the loop is left early.
        self._is_used = True
        if self._events is None:
            self._events = _events(self._turn, self._source)
        if isinstance(self._events, Generator):
            raise UsageError("this reader was started with 'for'; continue it with 'for'")
        self._check_unread()
        return self._events

    def __anext__(self) -> Awaitable[Event]:
        if isinstance(self._events, AsyncGenerator):
            return self._events.__anext__()
        return aiter(self).__anext__()

    async def __aenter__(self) -> StreamReader:
        self._is_used = True
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the source and the turn. A second call does nothing."""
        self._is_used = True
        if isinstance(self._events, Generator):
            raise UsageError("this reader was started with 'for'; close it with close()")
        if self._events is not None:
            await self._events.aclose()
        self._turn.close()
        await self._source.aclose()

    def __iter__(self) -> Generator[Event, None, None]:
        self._is_used = True
        if self._events is None:
            self._events = _sync_events(self._turn, self._source)
        if isinstance(self._events, AsyncGenerator):
            raise UsageError("this reader was started with 'async for'; continue it with 'async for'")
        self._check_unread()
        return self._events

    def __next__(self) -> Event:
        return next(self._events if isinstance(self._events, Generator) else iter(self))

    def __enter__(self) -> StreamReader:
        self._is_used = True
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close a sync source and the turn. A second call does nothing."""
        self._is_used = True
        if isinstance(self._events, AsyncGenerator):
            raise UsageError("this reader was started with 'async for'; close it with aclose()")
        if self._events is not None:
            self._events.close()
        self._turn.close()
        self._source.close()


async def _events(turn: Turn, source: Source) -> AsyncGenerator[Event, None]:
    async with aclosing(event_batches(turn, source)) as batches:
        async for events in batches:
            for event in events:
                yield event


def report_rejection(turn: Turn, exception: Exception) -> bool:
    """Give a turn without input the response that rejected its request; return False if the exception has none."""
    response = find_failed_response(exception) if turn.input_kind is None else None
    if response is None:
        return False
    turn.response(response.status, response.headers)
    turn.feed(response.body)
    return True


async def event_batches(turn: Turn, source: Source) -> AsyncGenerator[list[Event], None]:
    """Yield the events of each input that caused any, as ``feed`` returned them."""
    ended = has_objects = False
    try:
        iterator = source.open()
        anext_input = getattr(iterator, "__anext__", None)
        while not turn.done:
            try:
                if anext_input is None:
                    data = next(iterator)
                elif source.deadline is None:
                    data = await anext_input()
                else:
                    with anyio.move_on_after(max(0.0, source.deadline - anyio.current_time())) as scope:
                        data = await anext_input()
                    if scope.cancelled_caught:
                        source.error = TIMED_OUT
                        break
            except (StopAsyncIteration, StopIteration):
                ended = True
                break
            except Exception as error:
                source.report(error)
                break
            has_objects = not isinstance(data, _BYTES)
            if events := turn.feed(data):
                yield events
        if events := turn.close(source.error, complete=ended and has_objects):
            yield events
    finally:
        turn.close(source.error)  # left early, or canceled: no input follows
        _remind_of_error(turn)
        await source.aclose()


def _sync_events(turn: Turn, source: Source) -> Generator[Event, None, None]:
    ended = has_objects = False
    try:
        iterator = source.open(sync=True)
        while not turn.done:
            try:
                data = next(iterator)
            except StopIteration:
                ended = True
                break
            except Exception as error:
                source.report(error)
                break
            has_objects = not isinstance(data, _BYTES)
            yield from turn.feed(data)
        yield from turn.close(source.error, complete=ended and has_objects)
    finally:
        turn.close(source.error)
        _remind_of_error(turn)
        source.close()


def _remind_of_error(turn: Turn) -> None:
    """Have the error of a closed turn logged when the turn is collected, unless it is read before."""
    if turn.has_error and turn.unread_error_reminder is None:
        turn.unread_error_reminder = weakref.finalize(turn, _log_unread_error, turn.provider.name, turn.turn_key)


def _log_unread_error(provider: str, turn_key: str | None) -> None:
    _log.warning(
        "the stream of turn %r (%s) ended in an error that was not read: use turn.error or turn.raise_for_error()",
        turn_key,
        provider,
    )


class Source:
    """A source of input, opened and closed.

    Args:
        turn: the turn that gets the status of a response.
        source: an object that ``read`` accepts.
        deadline: see below.

    Attributes:
        deadline: a time of anyio's clock; waiting for input beyond it ends the turn with ``TIMED_OUT``. None for no
            limit.
        exception: the exception that the source raised, if it did.
        error: what ended the input too early: the exception, or the time limit.
    """

    __slots__ = ("_closed", "_iterator", "_source", "_turn", "deadline", "error", "exception")

    def __init__(self, turn: Turn, source: Any, *, deadline: float | None = None) -> None:
        self._turn = turn
        self._source = source
        self._iterator: Any = None
        self._closed = False
        self.deadline = deadline
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
            UsageError: the object is not a source, or is asynchronous and ``sync`` is True.
        """
        source = self._source
        if _is_single_input(source):
            return iter((source,))
        if hasattr(source, "aiter_bytes") and not sync and not _is_sync_response(source):
            self._report_status(source)
            self._iterator = aiter(source.aiter_bytes())
        elif hasattr(source, "iter_bytes"):
            self._report_status(source)
            self._iterator = source.iter_bytes()  # openai's async raw response has an async one under this name
            if hasattr(self._iterator, "__aiter__") and sync:
                raise UsageError(f"{type(source).__name__} is asynchronous: read it with 'async for'")
            self._iterator = aiter(self._iterator) if hasattr(self._iterator, "__aiter__") else iter(self._iterator)
        elif hasattr(source, "__aiter__") and not sync:
            self._iterator = aiter(source)
        elif hasattr(source, "__iter__"):
            self._iterator = iter(source)
        elif is_readable(source):
            raise UsageError(f"{type(source).__name__} is asynchronous: read it with 'async for'")
        else:
            raise UsageError(f"read() takes an iterable of input or a response, not {type(source).__name__}")
        return self._iterator

    def _report_status(self, response: Any) -> None:
        status = getattr(response, "status_code", None)
        if isinstance(status, int):
            self._turn.response(status, getattr(response, "headers", None))

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
        with suppress(Exception):
            if self._turn.done:
                with anyio.move_on_after(LINGERING):
                    while True:
                        await anext(iterator)
                        await anyio.lowlevel.checkpoint()
            with anyio.CancelScope() as scope:
                scope.cancel()
                for _ in range(_BUFFERED):  # no checkpoint: the cancellation must reach the innermost generator
                    await anext(iterator)

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


def _is_single_input(source: Any) -> bool:
    """Return True for bytes, a dict, or an object of a pydantic-based SDK, which iterates over its fields."""
    return isinstance(source, (*_BYTES, str, dict)) or hasattr(source, "model_dump")


def _is_sync_response(response: Any) -> bool:
    """Return True if a response can only be read sync. httpx has one class for both kinds; its stream differs."""
    stream = getattr(response, "stream", None)
    return stream is not None and hasattr(stream, "__iter__") and not hasattr(stream, "__aiter__")
