"""The events of a run: generators of batches that contain one another, read one event at a time.

Each generator that an event passes costs a fifth of a microsecond, and a run has several levels: run, round, turn,
request, source. So events pass them as lists, and a generator does not repeat the batches of another one: it yields
that generator, which is then read directly, as by ``yield from`` (PEP 380) where nothing is awaited.

This module must not depend on what the events mean.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, TypeAlias, Union

import anyio

from streamkit.events import Event
from streamkit.execution.background import current_asyncio_task

__all__ = ["BatchReader", "Batches"]

#: A generator of lists of events, and of further generators whose batches come next. What such a generator raises is
#: raised in the one that has yielded it, which must not go on after that.
Batches: TypeAlias = AsyncGenerator[Union[list[Event], "Batches"], None]


class BatchReader:
    """The reading of a generator of batches, by one task at a time. Any task may close it.

    Attributes:
        is_closed: it was closed before its end; no event follows.
        is_exhausted: all events were read.
    """

    __slots__ = ("_generators", "_stopped", "_task", "is_closed", "is_exhausted")

    def __init__(self, batches: Batches) -> None:
        self._generators = [batches]  # the innermost last
        self._task: asyncio.Task[Any] | None = None  # that waits in them, on asyncio; on trio it closes them itself
        self._stopped: anyio.Event | None = None  # set when that task has stopped, because another one closes this
        self.is_closed = False
        self.is_exhausted = False

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yield all events."""
        generators = self._generators
        event_loop = _asyncio_event_loop()
        error: BaseException | None = None
        try:
            while generators:
                if event_loop is not None:
                    self._task = asyncio.current_task(event_loop)
                try:
                    batch = await generators[-1].__anext__()
                except StopAsyncIteration:
                    generators.pop()
                    continue
                except BaseException as raised:
                    generators.pop()
                    error = await self._unwind(raised)
                    if isinstance(error, asyncio.CancelledError) and self._is_only_stopped():
                        return
                    break
                finally:
                    self._task = None
                    if self._stopped is not None:
                        self._stopped.set()
                if not isinstance(batch, list):
                    generators.append(batch)
                    continue
                for event in batch:
                    yield event
                    if self.is_closed:
                        return
            if error is not None:
                raise error  # here, where no other exception is handled, it keeps its context
            self.is_exhausted = True
        except GeneratorExit:  # dropped, and closed by the event loop
            await self.aclose()
            raise
        finally:
            del error  # its traceback refers to this frame

    async def aclose(self) -> None:
        """Close the generators, the innermost first. If another task waits in them, its iteration ends in order."""
        self.is_closed = True
        if self._task is not None and self._task is not current_asyncio_task():
            self._stopped = anyio.Event()
            self._task.cancel()
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

    def _is_only_stopped(self) -> bool:
        """Return True if the task that waits was canceled by ``aclose`` alone, and remove that cancellation."""
        return self._stopped is not None and self._task is not None and self._task.uncancel() == 0


def _asyncio_event_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:  # on trio
        return None
