"""The events of a run: generators of batches that contain one another, read one event at a time.

Each generator that an event passes costs a fifth of a microsecond, and a run has several levels: run, round, turn,
request, source. So events pass them as lists, and a generator does not repeat the batches of another one: it yields
that generator, which is then read directly, as by ``yield from`` (PEP 380) where nothing is awaited. For the inputs of
a source, of which most have one event, even one generator is saved: they are awaited and fed here.

On trio each batch is waited for in a cancel scope, because nothing else can end that wait for ``cancel``; on asyncio
the task is cancelled, and an event or batch costs nothing for it.

This module must not depend on what the events mean.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, Union

import anyio

from streamkit.events import Event
from streamkit.execution.one_call.background import asyncio_event_loop, call_soon_of, current_asyncio_task
from streamkit.reading.stream_reader import TurnReading

__all__ = ["BatchReader", "Batches"]

#: A generator of lists of events, and of further generators whose batches come next. What such a generator raises is
#: raised in the one that has yielded it, which must not go on after that. It may also yield the ``TurnReading`` whose
#: batches it iterates over: its inputs are then read directly, until the turn is done or its source has ended.
Batches: TypeAlias = AsyncGenerator[Union[Sequence[Event], "Batches", TurnReading], None]


class BatchReader:
    """The reading of a generator of batches, by one task at a time. Any task may close it, and any thread cancel it.

    Args:
        batches: the generator.
        last_events: called when the generators have ended, with the exception that they ended in; it returns the events
            to yield after theirs. Not called if the reader has left.
    """

    __slots__ = (
        "_call_soon",
        "_generators",
        "_is_canceled",
        "_is_interrupted",
        "_last_events",
        "_scope",
        "_stopped",
        "_task",
        "is_closed",
        "is_exhausted",
    )

    def __init__(self, batches: Batches, last_events: Callable[[Exception | None], list[Event]]) -> None:
        self._generators = [batches]  # the innermost last
        self._last_events = last_events
        self._call_soon: Callable[[Callable[[], None]], Any] | None = None  # in the event loop, from any thread
        self._task: asyncio.Task[Any] | None = None  # that waits in them, on asyncio; on trio it closes them itself
        self._scope: anyio.CancelScope | None = None  # in which it waits or has waited last, on trio
        self._stopped: anyio.Event | None = None  # set when that task has stopped, because another one closes this
        self._is_interrupted = False  # that task was cancelled from here
        self._is_canceled = False
        self.is_closed: bool = False  # it was closed before its end; no event follows
        self.is_exhausted: bool = False  # all events were read

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yield all events."""
        generators = self._generators
        event_loop, current_task = asyncio_event_loop(), asyncio.current_task
        reading: TurnReading | None = None  # whose inputs are read in place of the innermost generator
        advance: Any = None  # returns an awaitable of the next batch or input; None if what is read has changed
        batch: Any
        self._call_soon = call_soon_of(event_loop)
        error: BaseException | None = None
        try:
            while generators:
                if self._is_canceled:
                    if self._is_interrupted and (task := current_asyncio_task()) is not None:
                        task.uncancel()  # the wait has returned a batch all the same
                    error = await self._unwind(GeneratorExit())
                    break
                if advance is None:
                    advance = generators[-1].__anext__ if reading is None else reading.next_input
                try:
                    if event_loop is not None:
                        self._task = current_task(event_loop)
                        batch = await advance()
                    else:
                        with anyio.CancelScope() as self._scope:
                            batch = await advance()
                        if self._scope.cancelled_caught:
                            continue  # the wait has returned no batch
                except BaseException as raised:
                    advance = None
                    if reading is None:
                        generators.pop()
                        if isinstance(raised, StopAsyncIteration):
                            continue
                    elif isinstance(raised, Exception):
                        reading.ended_by, reading = raised, None
                        continue
                    error = await self._unwind(raised)
                    if isinstance(error, asyncio.CancelledError) and self._is_interrupted and self._task is not None:
                        if self._task.uncancel() == 0:  # it was canceled from here alone
                            error = None
                    break
                finally:
                    self._task = None
                    if self._stopped is not None:
                        self._stopped.set()
                if reading is not None:
                    try:
                        batch = reading.feed(batch)
                    except BaseException as raised:
                        error = await self._unwind(raised)
                        break
                    if reading.turn.done:
                        reading = advance = None
                elif not isinstance(batch, list):
                    if isinstance(batch, TurnReading):
                        reading = batch
                    else:
                        generators.append(batch)
                    advance = None
                    continue
                for event in batch:
                    yield event
                    if self.is_closed:
                        return
            if self.is_closed:
                return
            if isinstance(error, GeneratorExit):
                error = None
            if error is None or isinstance(error, Exception):
                for event in self._last_events(error):
                    yield event
            if error is not None:
                raise error  # here, where no other exception is handled, it keeps its context
            self.is_exhausted = True
        except GeneratorExit:  # dropped, and closed by the event loop
            await self.aclose()
            raise
        finally:
            del error  # its traceback refers to this frame

    def cancel(self) -> None:
        """End the generators after the current batch, or the wait for the next one; from any task or thread."""
        self._is_canceled = True
        if self._call_soon is not None:
            with suppress(RuntimeError):  # the event loop has ended
                self._call_soon(self._interrupt)

    def _interrupt(self) -> None:
        """End the wait of the reading task, if it waits."""
        if self._task is not None and not self._is_interrupted:
            self._is_interrupted = True
            self._task.cancel()
        elif self._scope is not None:
            self._scope.cancel()

    async def aclose(self) -> None:
        """Close the generators, the innermost first. If another task waits in them, its iteration ends in order."""
        self.is_closed = True
        if self._task is not None and self._task is not current_asyncio_task():
            self._stopped = anyio.Event()
            self._interrupt()
            with anyio.CancelScope(shield=True):
                await self._stopped.wait()
        error = await self._unwind(GeneratorExit())
        if not isinstance(error, GeneratorExit):
            raise error

    async def _unwind(self, error: BaseException) -> BaseException:
        """Raise an exception in each generator, the innermost first; return the one that the outermost raises."""
        while self._generators:
            try:
                await self._generators.pop().athrow(error)
            except StopAsyncIteration:
                continue
            except BaseException as raised:
                error = raised
        return error
