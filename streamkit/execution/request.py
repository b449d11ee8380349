"""One request of the loop: what the caller's ``create_new_stream`` gives, opened, read, and asked for again.

It decides nothing about the conversation; it knows HTTP only as far as exceptions carry a response. What fails before
its first event is asked for again, of the same provider and then of others, as ``retrying`` says.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import replace
from inspect import isawaitable
from typing import Any

import anyio

from streamkit.calls import StreamError, StreamWarning
from streamkit.errors import StreamkitError, UsageError
from streamkit.events import Event, Failed, Finished, Warned
from streamkit.execution.context import CreateStream, RoundContext
from streamkit.execution.retrying import delay, is_programming_error, is_retryable
from streamkit.providers.provider import Provider
from streamkit.stream_reader import Source, event_batches, is_readable
from streamkit.turn import Turn

__all__ = ["StreamRequest"]

# Awaitables and context managers around a stream, one in the other; what gives itself when entered has no end.
_WRAPPINGS = 8


class StreamRequest:
    """One answer to be had, by as many requests as it takes. To be read once.

    Args:
        create: the caller's ``create_new_stream``.
        context: what the request is made from.
        new_turn: makes the turn of an attempt.
        retries: how often a request that failed before its first event is made again, of each provider.
        fallbacks: the providers to ask next; one that was asked is taken off.
        deadline: on anyio's clock, or None.

    Attributes:
        context: of the attempt that was made last: its provider may be a fallback.
        turn: of that attempt; None before the first.
        cause: what was raised instead of a stream, or by the stream; None where nothing was.
        begun: the first event has come: there will be no other attempt.
        warnings: of attempts that failed.
    """

    def __init__(
        self,
        create: CreateStream,
        context: RoundContext,
        new_turn: Callable[[RoundContext], Turn],
        *,
        retries: int = 0,
        fallbacks: list[Provider],
        deadline: float | None = None,
    ) -> None:
        self._create = create
        self._new_turn = new_turn
        self._retries = retries
        self._fallbacks = fallbacks
        self._deadline = deadline
        self.context = context
        self.turn: Turn | None = None
        self.exception: Exception | None = None
        self.has_events = False
        self.warnings: list[StreamWarning] = []

    async def batches(self) -> AsyncGenerator[list[Event], None]:
        """The events, as the turn gave them. An exception of the caller's code or of the stream is the turn's error.

        Raises:
            UsageError: what ``create_new_stream`` gave cannot be read.
        """
        attempts = 0
        while True:
            attempts += 1
            self.turn = turn = self._new_turn(self.context)
            last: list[Event] = []
            async with aclosing(self._attempt(turn)) as lists:
                async for events in lists:
                    if not self.has_events and turn.error is not None and _says_nothing(events):
                        last += events
                        continue
                    if last:
                        events, last = last + events, []
                    self.has_events = True
                    yield events
            error = turn.error
            if self.has_events or error is None:
                return
            wait = delay(error, attempts, random.random()) if self._again(error, attempts) else None  # noqa: S311
            if wait is not None and self._in_time(wait):
                message = f"{error.kind}: {error.message}; asked again in {wait:.1f} seconds"
                yield [self._warned("request_retried", message)]
                await anyio.sleep(wait)
            elif self._fallbacks and self._in_time(0) and not is_programming_error(self.exception):
                attempts = 0
                following = self._fallbacks.pop(0)
                message = f"{self.context.provider.name} failed with {error.kind}: {error.message}"
                yield [self._warned("provider_fallback", f"{message}; asking {following.name}")]
                self.context = replace(self.context, provider=following)
            else:
                yield last
                return
            self.exception = None

    def _warned(self, code: str, message: str) -> Warned:
        self.warnings.append(StreamWarning(code, message))
        return Warned(code, message)

    def _again(self, error: StreamError, attempts: int) -> bool:
        return attempts <= self._retries and is_retryable(error, self.exception)

    def _in_time(self, seconds: float) -> bool:
        return self._deadline is None or anyio.current_time() + seconds < self._deadline

    async def _attempt(self, turn: Turn) -> AsyncGenerator[list[Event], None]:
        async with AsyncExitStack() as stack:
            try:
                if self._deadline is None:
                    given = await self._opened(stack)
                else:
                    with anyio.fail_after(max(0.0, self._deadline - anyio.current_time())):
                        given = await self._opened(stack)
            except StreamkitError:
                raise
            except Exception as error:  # no connection, a refused request: the stream failed before it began
                self.exception = error
                yield _never_began(turn, error)
                return
            source = Source(turn, given, deadline=self._deadline)
            async with aclosing(event_batches(turn, source)) as lists:
                async for events in lists:
                    self.exception = source.exception
                    yield events
            self.exception = source.exception

    async def _opened(self, stack: AsyncExitStack) -> Any:
        """What ``create_new_stream`` gave, down to something that can be read."""
        given = self._create(self.context)
        for _ in range(_WRAPPINGS):
            if is_readable(given):
                return given
            if hasattr(given, "__aenter__"):
                given = await stack.enter_async_context(given)
            elif isawaitable(given):
                given = await given
            elif hasattr(given, "__enter__"):
                given = stack.enter_context(given)
            else:
                break
        raise UsageError(f"create_new_stream gave {type(given).__name__}, which cannot be read as a stream")


def _says_nothing(events: list[Event]) -> bool:
    """Whether these events of a failed turn tell the reader nothing but that it failed, and is over."""
    return all(isinstance(event, (Failed, Finished, Warned)) for event in events)


def _never_began(turn: Turn, error: Exception) -> list[Event]:
    """Close a turn whose stream could not be had. HTTP clients put the refusing response on their exceptions."""
    response: Any = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    if not isinstance(status, int) or status < 400:
        return turn.close(error)
    turn.response(status, getattr(response, "headers", None))
    with suppress(Exception):  # httpx: the body may not have been read
        turn.feed(response.content)
    return turn.close()
