"""Reading a stream: the pieces of a source into a turn, its events out.

The only thing done here is to get the next piece, and to end what was begun. Nothing is known here of providers,
calls or tools. No cancel scope, task group or lock is held over a ``yield`` (anyio's documentation calls that "Bad!"
for async generators), and nothing is entered per piece: one asynchronous hop for each read of the network.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Generator
from contextlib import aclosing, suppress
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import Any

import anyio
import anyio.lowlevel

from streamkit.errors import UsageError
from streamkit.events import Event
from streamkit.turn import Turn

__all__ = ["StreamReader", "Source", "event_batches", "is_readable", "read"]

#: Seconds that a source may take to close, cancelled or not; a peer that does not answer must not hold the program.
CLOSING_TIME = 5.0

#: Seconds to wait for the end of a body whose terminator was seen.
LINGERING = 0.1

# Pieces of a body that can have come by one read of the network and wait to be given: httpcore reads 64 KiB, and an
# HTTP chunk has 6 bytes or more.
_BUFFERED = 64 * 1024 // 6

_BYTES = (bytes, bytearray, memoryview)


def read(turn: Turn, source: Any) -> StreamReader:
    """Feed a turn from a source and give its events, to ``async for`` or to ``for``.

    It stops where the wire says that the turn is over (``turn.done``), closes the turn, and closes the source in every
    case. What the source raises ends the turn: it becomes its error and a ``failed`` event, and is not raised; nor is
    ``turn.error`` (that is ``turn.raise_for_error()``). Cancellation closes both and goes on its way.

    Leaving the loop early ends the turn too. ``break`` tells the iterator nothing, so where the moment of closing
    matters, say ``async with read(turn, source) as events`` (or ``with``): the source is closed when the block is
    left. Otherwise that happens when the iterator is collected, which CPython does at once for ``for``, and hands to
    the event loop for ``async for``.

    Args:
        turn: a turn that was not fed yet, or one to go on with.
        source: an iterable of pieces, sync or async (bytes of the body, chunks as dicts, an SDK's stream); a response
            with ``aiter_bytes`` or ``iter_bytes`` (its status and headers are given to the turn); or one piece, such
            as the whole body of an answer that was not streamed. ``async for`` takes sync sources as well, and waits
            for them without giving way.

    Raises:
        UsageError: on reading: the source is none of these, or is asynchronous and read with ``for``.
    """
    return StreamReader(turn, Source(turn, source))


def is_readable(source: Any) -> bool:
    """Whether ``read`` takes this as a source."""
    return _is_one_piece(source) or any(
        hasattr(source, name) for name in ("aiter_bytes", "iter_bytes", "__aiter__", "__iter__")
    )


class StreamReader:
    """One reading of one source, as an iterator and a context manager, async or sync."""

    # The generators know the source and not this object: no cycle, so an iterator that is let go is closed at once.
    __slots__ = ("_events", "_source", "_turn")

    def __init__(self, turn: Turn, source: Source) -> None:
        self._turn = turn
        self._source = source
        self._events: AsyncGenerator[Event, None] | Generator[Event, None, None] | None = None

    def __aiter__(self) -> AsyncGenerator[Event, None]:
        # The generator itself: no further hop per event, and the event loop closes it where the reader just left.
        if self._events is None:
            self._events = _events(self._turn, self._source)
        if isinstance(self._events, Generator):
            raise UsageError("this reading was begun with 'for'")
        return self._events

    def __anext__(self) -> Awaitable[Event]:
        return aiter(self).__anext__()

    async def __aenter__(self) -> StreamReader:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the reading: close the source, and the turn with it. A second time does nothing."""
        if self._events is not None:
            await aiter(self).aclose()
        self._turn.close()
        await self._source.aclose()

    def __iter__(self) -> Generator[Event, None, None]:
        if self._events is None:
            self._events = _sync_events(self._turn, self._source)
        if isinstance(self._events, AsyncGenerator):
            raise UsageError("this reading was begun with 'async for'")
        return self._events

    def __next__(self) -> Event:
        return next(iter(self))

    def __enter__(self) -> StreamReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the reading of a sync source: close it, and the turn with it. A second time does nothing."""
        if self._events is not None:
            iter(self).close()
        self._turn.close()
        self._source.close()


async def _events(turn: Turn, source: Source) -> AsyncGenerator[Event, None]:
    async with aclosing(event_batches(turn, source)) as lists:
        async for events in lists:
            for event in events:
                yield event


async def event_batches(turn: Turn, source: Source) -> AsyncGenerator[list[Event], None]:
    """The events as ``feed`` gave them: one list for each piece that brought any."""
    ended = objects = False
    try:
        pieces = source.open()
        get = getattr(pieces, "__anext__", None)
        while not turn.done:
            try:
                if get is None:
                    piece = next(pieces)
                elif source.deadline is None:
                    piece = await get()
                else:
                    with anyio.fail_after(max(0.0, source.deadline - anyio.current_time())):
                        piece = await get()
            except (StopAsyncIteration, StopIteration):
                ended = True
                break
            except Exception as error:  # whatever the source raises is the error of the turn
                source.exception = error
                break
            objects = not isinstance(piece, _BYTES)
            if events := turn.feed(piece):
                yield events
        if events := turn.close(source.exception, complete=ended and objects):
            yield events
    finally:
        turn.close()  # left early, or cancelled: what came is all there will be
        await source.aclose()


def _sync_events(turn: Turn, source: Source) -> Generator[Event, None, None]:
    ended = objects = False
    try:
        pieces = source.open(sync=True)
        while not turn.done:
            try:
                piece = next(pieces)
            except StopIteration:
                ended = True
                break
            except Exception as error:  # whatever the source raises is the error of the turn
                source.exception = error
                break
            objects = not isinstance(piece, _BYTES)
            yield from turn.feed(piece)
        yield from turn.close(source.exception, complete=ended and objects)
    finally:
        turn.close()
        source.close()


class Source:
    """Whatever brings the pieces of a turn, opened and closed.

    Attributes:
        deadline: on anyio's clock; waiting for a piece beyond it fails with TimeoutError. None for no end.
        cause: what the source raised, if it did.
    """

    __slots__ = ("_closed", "_given", "_pieces", "_turn", "exception", "deadline")

    def __init__(self, turn: Turn, given: Any, *, deadline: float | None = None) -> None:
        self._turn = turn
        self._given = given
        self._pieces: Any = None
        self._closed = False
        self.deadline = deadline
        self.exception: Exception | None = None

    def open(self, *, sync: bool = False) -> Any:
        """The iterator over the pieces; an async one only where the reader can wait.

        Raises:
            UsageError: there are no pieces in it, or only for a reader who can wait.
        """
        given = self._given
        if _is_one_piece(given):
            return iter((given,))
        if hasattr(given, "aiter_bytes") and not sync and not _is_sync_response(given):
            self._answered(given)
            self._pieces = aiter(given.aiter_bytes())
        elif hasattr(given, "iter_bytes"):
            self._answered(given)
            self._pieces = given.iter_bytes()  # which openai's async raw response has under this name
            if hasattr(self._pieces, "__aiter__") and sync:
                raise UsageError(f"{type(given).__name__} is asynchronous: read it with 'async for'")
            self._pieces = aiter(self._pieces) if hasattr(self._pieces, "__aiter__") else iter(self._pieces)
        elif hasattr(given, "__aiter__") and not sync:
            self._pieces = aiter(given)
        elif hasattr(given, "__iter__"):
            self._pieces = iter(given)
        elif is_readable(given):
            raise UsageError(f"{type(given).__name__} is asynchronous: read it with 'async for'")
        else:
            raise UsageError(f"read() takes pieces or a response, not {type(given).__name__}")
        return self._pieces

    def _answered(self, response: Any) -> None:
        status = getattr(response, "status_code", None)
        if isinstance(status, int):
            self._turn.response(status, getattr(response, "headers", None))

    async def aclose(self) -> None:
        """Close the source, whatever happened. A second time does nothing."""
        if not (targets := self._to_close()):
            return
        interrupted: BaseException | None = None
        # Shielded, because a cancelled reader must still be able to say goodbye to the peer. Nothing is yielded here.
        with anyio.move_on_after(CLOSING_TIME, shield=True) as scope:
            steps = [partial(self._close, target) for target in targets]
            if isinstance(self._pieces, AsyncGenerator) and self._pieces is not self._given:
                steps.insert(0, partial(self._run_out, self._pieces))
            while steps:
                try:
                    await steps[0]()
                except anyio.get_cancelled_exc_class() as error:
                    if scope.cancel_called:
                        raise
                    interrupted = error  # asyncio's own cancel() knows no shield: the same once more
                else:
                    del steps[0]
        if interrupted is not None:
            raise interrupted

    async def _close(self, target: Any) -> None:
        with suppress(Exception):  # the turn has its result; a source that closes badly cannot change it
            asynchronous = hasattr(target, "aclose") and not _is_sync_response(target)
            closing = target.aclose() if asynchronous else target.close()
            if isawaitable(closing):
                await closing

    async def _run_out(self, pieces: AsyncGenerator[Any, None]) -> None:
        """Let the iterator of a response, or of an SDK's stream, come to its end.

        A body read to its end leaves its connection to the next request, and with httpx a body ends just behind the
        terminator. Where it does not at once, or the reader left early, the cancellation unwinds the generators that
        httpx and the SDKs have nested in each other, which closing the outermost would leave to the collector (trio
        warns of that). A generator that is the source itself is its writer's, and is closed as generators are.
        """
        with suppress(Exception):
            if self._turn.done:
                with anyio.move_on_after(LINGERING):
                    while True:
                        await anext(pieces)
                        await anyio.lowlevel.checkpoint()
            with anyio.CancelScope() as scope:
                scope.cancel()
                for _ in range(_BUFFERED):  # no checkpoint: the cancellation is for where the innermost of them waits
                    await anext(pieces)

    def close(self) -> None:
        """The same for a sync source."""
        for target in self._to_close():
            if hasattr(target, "close") and not iscoroutinefunction(target.close):
                with suppress(Exception):  # as above
                    target.close()

    def _to_close(self) -> list[Any]:
        """What there is to close, the innermost first; only once."""
        if self._closed:
            return []
        self._closed = True
        whole = [self._given] if self._pieces is self._given else [self._pieces, self._given]
        return [each for each in whole if hasattr(each, "aclose") or hasattr(each, "close")]


def _is_one_piece(source: Any) -> bool:
    """Bytes, a dict, or one object of a pydantic-based SDK (whose own iteration is over its fields)."""
    return isinstance(source, (*_BYTES, str, dict)) or hasattr(source, "model_dump")


def _is_sync_response(response: Any) -> bool:
    """Whether it can only be read sync. httpx has one class for both kinds; what streams below it tells them apart."""
    stream = getattr(response, "stream", None)
    return stream is not None and hasattr(stream, "__iter__") and not hasattr(stream, "__aiter__")
