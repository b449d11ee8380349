"""Reading a source into a turn: ``read`` and the ``StreamReader`` that it returns.

The module gets the next input of a source, feeds it to the turn, and closes both. It depends on anyio, and must not
depend on pydantic, execution, providers, calls or tools.

No cancel scope, task group or lock is open across a ``yield`` (anyio's documentation calls that "Bad!" for async
generators), and none is entered per input: there is one asynchronous hop for each read of the network.

The wait for each input of an async source, ended by time limits.

A cancel scope for each input costs more than the input's normalization. On asyncio there is one timer instead, which is
not moved for an input: when it fires, it compares the time at which the present wait began with the limits, and either
cancels the waiting task, as ``asyncio.timeout`` does, or fires again later. An input costs a few attributes. On trio,
where only a cancel scope can end a wait, each wait has one; without limits there is none.

This module must not depend on sources, turns or what an input is, nor load asyncio, which is large: it is loaded where
its event loop runs.
"""

from __future__ import annotations

import logging
import sys
import warnings
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from math import inf
from typing import TYPE_CHECKING, Any

import anyio

from streamkit.calls import StreamError
from streamkit.errors import UsageError
from streamkit.events import TurnEvent
from streamkit.reading.source import BYTES, Source
from streamkit.reading.time_limits import TimeLimits, Timeouts, has_content
from streamkit.reading.turn import Turn

if TYPE_CHECKING:
    import asyncio

__all__ = [
    "StreamReader",
    "TurnReading",
    "read",
]


class InputTimedOut(Exception):
    """A wait for input that a time limit has ended, with the error of the turn."""

    def __init__(self, error: StreamError) -> None:
        super().__init__(error.message)
        self.error = error


class InputTimer:
    """The waits for the inputs of one source, on any event loop.

    Args:
        limits: at least one.
        anext_input: returns an awaitable of the next input.
        feed: the turn's.
        started: the time of the request; None for now.
    """

    def __init__(
        self,
        limits: TimeLimits,
        anext_input: Callable[[], Awaitable[Any]],
        feed: Callable[[Any], list[TurnEvent]],
        started: float | None,
    ) -> None:
        self._limits = limits
        self._anext_input = anext_input
        self._feed = feed
        self._started = anyio.current_time() if started is None else started
        self._silent_since = self._started
        self._has_input = False  # since then
        self._has_first_event = False

    async def next_input(self) -> Any:
        """Return the next input.

        Raises:
            InputTimedOut: a limit has ended the wait.
            StopAsyncIteration: the source has ended.
        """
        if self._has_input:
            self._silent_since, self._has_input = anyio.current_time(), False
        with anyio.CancelScope(deadline=self._expiry()):
            data = await self._anext_input()
            self._has_input = self._limits.heartbeats
            return data
        raise InputTimedOut(self._error(anyio.current_time()))

    def feed(self, data: Any) -> list[TurnEvent]:
        """Feed the turn and return its events, which end the silence."""
        events = self._feed(data)
        if events:
            self._has_input = True
            if not self._has_first_event and has_content(events):
                self._has_first_event = True
                self._forget_expiry()
        return events

    def close(self) -> None:
        """Stop the timer. Idempotent."""

    def _forget_expiry(self) -> None:
        """Compute the next expiry anew: it may be earlier than the last one."""

    def _expiry(self) -> float:
        return self._limits.expiry(self._started, self._silent_since, has_first_event=self._has_first_event)

    def _error(self, now: float) -> StreamError:
        return self._limits.error(now, has_first_event=self._has_first_event)


class _AsyncioTimer(InputTimer):
    """The same with one timer of asyncio's event loop."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        import asyncio

        self._event_loop = asyncio.get_running_loop()
        self._get_task = asyncio.current_task
        self._cancelled_error = asyncio.CancelledError
        self._handle: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[Any] | None = None  # that waits
        self._cancellations = 0  # of that task, when its wait began
        self._timed_out: StreamError | None = None  # why its wait was cancelled

    async def next_input(self) -> Any:
        if self._has_input:
            self._silent_since, self._has_input = self._event_loop.time(), False
        if self._handle is None:
            self._start(self._expiry())
        self._task = task = self._get_task(self._event_loop)
        assert task is not None  # noqa: S101 - a coroutine runs in one
        self._cancellations = task.cancelling()
        try:
            data = await self._anext_input()
        except BaseException as error:
            timed_out, self._timed_out = self._timed_out, None
            if timed_out is None:
                raise
            is_only_timed_out = task.uncancel() <= self._cancellations
            if is_only_timed_out and isinstance(error, self._cancelled_error):
                raise InputTimedOut(timed_out) from None
            raise
        finally:
            self._task = None
        if self._timed_out is not None:  # the source has swallowed the cancellation, and has an input after all
            task.uncancel()
            self._timed_out = None
        self._has_input = self._limits.heartbeats
        return data

    def close(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    _forget_expiry = close

    def _start(self, expiry: float) -> None:
        if expiry != inf:
            self._handle = self._event_loop.call_at(expiry, self._check)

    def _check(self) -> None:
        self._handle = None
        if self._task is None:
            return  # the reader has control, and its next wait starts the timer
        # No function of anyio: a callback of the event loop is in no task, and without anyio.run (under uvicorn, for
        # example) anyio finds no event loop there.
        expiry, now = self._expiry(), self._event_loop.time()
        if now < expiry:
            self._start(expiry)
        else:
            self._timed_out = self._error(now)
            self._task.cancel()


_log = logging.getLogger("streamkit")


def read(
    turn: Turn,
    source: Any,
    *,
    timeouts: Timeouts | None = None,
) -> StreamReader:
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
        source: an iterable of input, sync or async (bytes of the body, chunks as dicts, an SDK's stream); a response of
            an HTTP client (httpx, aiohttp, requests, urllib3, and others with ``aiter_bytes`` or ``iter_bytes``), whose
            status and headers are passed to the turn, or of boto3; or a single input, such as the complete body of a
            response that was not streamed. ``async for`` accepts sync sources as well, and blocks the event loop while
            they wait.
        timeouts: ``Timeouts(first_event=20, idle=60)``: the seconds count from the start of reading. Limits of calls
            and of runs do not apply here. None for no limit.

    Returns:
        An iterator and context manager, both async and sync; it is read once. One that is never used is a
        ``RuntimeWarning``.

    Raises:
        UsageError: the turn is no ``Turn``, or was closed; ``timeouts`` is something else. While reading: the source
            is none of these, or is asynchronous and read with ``for``, or is synchronous and has a timeout, which
            nothing could enforce: set that of the HTTP client instead; the events were read before.
    """
    if not isinstance(turn, Turn):
        raise UsageError(f"read() takes a Turn first, as in read(Turn('anthropic'), response), not {turn!r}")
    if turn.closed:
        raise UsageError("the turn was read and closed: make a new Turn for the next stream")
    if timeouts is not None and not isinstance(timeouts, Timeouts):
        raise UsageError(f"timeouts must be Timeouts(first_event=..., idle=...), or None, not {timeouts!r}")
    limits = TimeLimits.of(timeouts or Timeouts())
    return StreamReader(turn, Source(turn, source, limits=limits if limits.has_silence_limit else None))


class StreamReader:
    """An iterator over the events of a turn that reads one source; also a context manager, async or sync."""

    # The generators refer to the source and not to this object: without a cycle, a dropped iterator is closed at once.
    __slots__ = ("_events", "_is_used", "_source", "_turn")

    def __init__(self, turn: Turn, source: Source) -> None:
        self._turn = turn
        self._source = source
        self._events: AsyncGenerator[TurnEvent, None] | Generator[TurnEvent, None, None] | None = None
        self._is_used = False  # iterated, entered or closed

    def __del__(self) -> None:
        if not self._is_used:
            message = "a stream was never read: iterate over read(turn, source)"
            warnings.warn(message, RuntimeWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        state = "closed" if self._source.is_closed else "unread" if self._events is None else "open"
        return f"<StreamReader {state} {self._turn!r}>"

    def _check_unread(self) -> None:
        # The generator of a second loop would be empty, as if the response were.
        if self._source.is_closed:
            raise UsageError("the events of this reader were read: they arrive once; turn.content has what they added")

    def __aiter__(self) -> AsyncGenerator[TurnEvent, None]:
        # The generator itself: no further hop per event, and the event loop closes it if the loop is left early.
        self._is_used = True
        if self._events is None:
            self._events = _events(self._turn, self._source)
        if isinstance(self._events, Generator):
            raise UsageError("this reader was started with 'for'; continue it with 'for'")
        self._check_unread()
        return self._events

    def __anext__(self) -> Awaitable[TurnEvent]:
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

    def __iter__(self) -> Generator[TurnEvent, None, None]:
        self._is_used = True
        if self._events is None:
            self._events = _sync_events(self._turn, self._source)
        if isinstance(self._events, AsyncGenerator):
            raise UsageError("this reader was started with 'async for'; continue it with 'async for'")
        self._check_unread()
        return self._events

    def __next__(self) -> TurnEvent:
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


async def _events(turn: Turn, source: Source) -> AsyncGenerator[TurnEvent, None]:
    # The loop of TurnReading.batches() again: an event that passes two generators costs as much as one that is fed.
    reading = TurnReading(turn, source)
    try:
        iterator, anext_input, feed = reading.open()
        while not turn.done:
            try:
                data = next(iterator) if anext_input is None else await anext_input()
            except Exception as error:
                reading.stop(error)
                break
            reading.last_input = data
            for event in feed(data):
                yield event
        for event in reading.end():
            yield event
    finally:
        await reading.aclose()


def _sync_events(turn: Turn, source: Source) -> Generator[TurnEvent, None, None]:
    reading = TurnReading(turn, source)
    feed = turn.feed
    try:
        iterator = source.open(sync=True)
        while not turn.done:
            try:
                data = next(iterator)
            except Exception as error:
                reading.stop(error)
                break
            reading.last_input = data
            yield from feed(data)
        yield from reading.end()
    finally:
        reading.close()


class TurnReading:
    """The reading of one source into a turn.

    Attributes:
        turn: the turn.
        next_input: returns an awaitable of the next input; None before the source is open, and if it is synchronous.
        feed: takes an input, and returns the events that it caused.
        ended_by: what has ended the input before the turn was done: the exception that ``next_input`` has raised.
        last_input: the newest input; of a turn all have the same type.
    """

    __slots__ = ("_ended", "_source", "_timer", "ended_by", "feed", "last_input", "next_input", "turn")

    def __init__(self, turn: Turn, source: Source) -> None:
        self.turn: Turn = turn
        self.next_input: Callable[[], Awaitable[Any]] | None = None
        self.feed: Callable[[Any], list[TurnEvent]] = turn.feed
        self.ended_by: Exception | None = None
        self.last_input: Any = b""
        self._source = source
        self._ended = False  # the source reported its end
        self._timer: InputTimer | None = None

    async def batches(self) -> AsyncGenerator[list[TurnEvent], None]:
        """Yield the events of each input that caused any.

        Between two of them the caller may read input by itself, until ``ended_by`` is set or the turn is done.
        """
        turn = self.turn
        try:
            iterator, next_input, feed = self.open()
            while self.ended_by is None and not turn.done:
                try:
                    data = next(iterator) if next_input is None else await next_input()
                except Exception as error:
                    self.ended_by = error
                    break
                self.last_input = data
                if events := feed(data):
                    yield events
            if self.ended_by is not None:
                self.stop(self.ended_by)
            if events := self.end():
                yield events
        finally:
            self.ended_by = None  # its traceback refers to the frames of those who have waited
            await self.aclose()

    def open(self) -> tuple[Any, Callable[[], Awaitable[Any]] | None, Callable[[Any], list[TurnEvent]]]:
        """Return an iterator over the input, the function to await for each (None if it is sync), and ``feed``."""
        source = self._source
        iterator = source.open()
        if hasattr(iterator, "__anext__"):
            self.next_input = iterator.__anext__
            if source.limits is not None:
                asyncio = sys.modules.get("asyncio")
                # trio as its guest runs within asyncio's event loop, in none of its tasks.
                is_on_asyncio = asyncio and asyncio._get_running_loop() is not None and asyncio.current_task()
                timer_type = _AsyncioTimer if is_on_asyncio else InputTimer
                self._timer = timer = timer_type(source.limits, self.next_input, self.feed, source.started)
                self.next_input, self.feed = timer.next_input, timer.feed
        return iterator, self.next_input, self.feed

    def stop(self, error: Exception) -> None:
        """Record the end of the iterator, or its error."""
        self._ended = isinstance(error, (StopIteration, StopAsyncIteration))
        if isinstance(error, InputTimedOut):
            self._source.error = error.error
        elif not self._ended:
            self._source.report(error)

    def end(self) -> list[TurnEvent]:
        """Close the turn after the last input; return its last events."""
        has_objects = not isinstance(self.last_input, BYTES)
        events = self.turn.close(self._source.error, complete=self._ended and has_objects)
        turn = self.turn
        if turn.has_error and turn.withdraw_error_reminder is None:
            # logged when the turn is collected, unless it was read before
            reminder = weakref.finalize(
                turn,
                _log.warning,
                "the stream of turn %r (%s) ended in an error that was not read: use turn.error or"
                " turn.raise_for_error()",
                turn.turn_key,
                turn.provider.name,
            )
            turn.withdraw_error_reminder = reminder.detach
        return events

    async def aclose(self) -> None:
        """Close the source, and the turn if the reader left early or was canceled: no input follows."""
        if self._timer is not None:
            self._timer.close()
        self.turn.close(self._source.error)
        await self._source.aclose()

    def close(self) -> None:
        """Do the same for a sync source."""
        self.turn.close(self._source.error)
        self._source.close()
