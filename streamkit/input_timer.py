"""The wait for each input of an async source, ended by time limits.

A cancel scope for each input costs more than the input's normalization. On asyncio there is one timer instead, which is
not moved for an input: when it fires, it compares the time at which the present wait began with the limits, and either
cancels the waiting task, as ``asyncio.timeout`` does, or fires again later. An input costs a few attributes. On trio,
where only a cancel scope can end a wait, each wait has one; without limits there is none.

This module must not depend on sources, turns or what an input is, nor load asyncio, which is large: it is loaded where
its event loop runs.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from math import inf
from typing import TYPE_CHECKING, Any

import anyio

from streamkit.calls import StreamError
from streamkit.events import TurnEvent
from streamkit.time_limits import TimeLimits, has_content

if TYPE_CHECKING:
    import asyncio

__all__ = ["InputTimedOut", "InputTimer", "create_timer"]


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

    def __init__(
        self,
        limits: TimeLimits,
        anext_input: Callable[[], Awaitable[Any]],
        feed: Callable[[Any], list[TurnEvent]],
        started: float | None,
    ) -> None:
        super().__init__(limits, anext_input, feed, started)
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


def create_timer(
    limits: TimeLimits,
    anext_input: Callable[[], Awaitable[Any]],
    feed: Callable[[Any], list[TurnEvent]],
    started: float | None = None,
) -> InputTimer:
    """Return the timer for the event loop that runs; the arguments are those of ``InputTimer``."""
    is_on_asyncio = (asyncio := sys.modules.get("asyncio")) is not None and asyncio._get_running_loop() is not None
    return (_AsyncioTimer if is_on_asyncio else InputTimer)(limits, anext_input, feed, started)
