"""One request of the loop: the stream of ``create_new_stream``, opened and read, with retries and fallbacks.

A request that fails before its first event is made again, to the same provider and then to the fallbacks, as
`is_retryable` and `delay` decide (``docs/rules.md``, "Rounds"). After the first event it is not: the reader has seen a
part of the response, and the provider has charged for it. This module must not depend on the conversation; of HTTP it
uses only the response that exceptions carry.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, nullcontext
from dataclasses import KW_ONLY, dataclass, field
from inspect import isawaitable
from time import monotonic
from typing import TYPE_CHECKING, Any

import anyio

from streamkit.calls import FailedRequest, StreamError, StreamWarning
from streamkit.errors import UsageError
from streamkit.events import Event, Warned
from streamkit.execution.one_call.background import BLOCKED, await_in_steps
from streamkit.execution.round.context import CreateStream, RoundContext, Target
from streamkit.execution.round.policies import turn_error
from streamkit.execution.run.batches import Batches
from streamkit.reading.source import Source, is_readable
from streamkit.reading.source_failure import find_address, is_io_failure, is_programming_error
from streamkit.reading.stream_reader import TurnReading
from streamkit.reading.time_limits import TimeLimits, has_content
from streamkit.reading.turn import Turn

if TYPE_CHECKING:
    from streamkit.execution.round.observer import ObservedRequest, ObservedRun

__all__ = ["StreamRequest", "delay", "is_retryable"]

# What both official SDKs retry: openai-python `_should_retry` and anthropic-sdk-python `_should_retry` (408, 409, 429,
# 5xx); 425 is RFC 8470's "too early", 529 Anthropic's "overloaded".
_RETRYABLE_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})

_RETRYABLE_CODES = ("rate_limited", "overloaded")

_FIRST_DELAY, _MAX_DELAY, _MAX_RETRY_AFTER = 0.5, 8.0, 60.0  # seconds; as in the official SDKs

# Awaitables and context managers around a stream, nested; the limit ends one that returns itself when entered.
_MAX_WRAPPERS = 8


@dataclass(eq=False, repr=False)
class StreamRequest:
    """One turn, requested in as many attempts as needed. It is read once."""

    create_new_stream: CreateStream  #: the caller's function
    context: RoundContext  #: what the request is made from; then that of the last attempt, perhaps of a fallback
    create_turn: Callable[[RoundContext], Turn]  #: returns the turn of an attempt
    _: KW_ONLY
    retries: int  #: how often a request that failed before its first event is made again, for each provider
    fallbacks: list[Target]  #: the targets to try next; those that were tried are removed
    #: called once with the error of a request that exceeds the context; returns that of the next attempt, or None
    on_overflow: Callable[[StreamError, RoundContext], Awaitable[RoundContext | None]] | None
    limits: TimeLimits | None  #: how long each attempt is waited for, and the deadline of all of them, on anyio's clock
    confirm: Callable[[], Awaitable[None]] | None  #: called before each attempt; raises if the run is another worker's
    observer: ObservedRun | None = None  #: takes the start of a request
    turn: Turn | None = field(default=None, init=False)  #: of the last attempt; None before the first
    #: what ``create_new_stream`` or the stream raised; None if nothing was
    exception: Exception | None = field(default=None, init=False)
    has_events: bool = field(default=False, init=False)  #: the first event has come, so no other attempt will follow
    warnings: list[StreamWarning] = field(default_factory=list, init=False)  #: of attempts that failed
    failures: list[FailedRequest] = field(default_factory=list, init=False)  #: the attempts that failed
    #: the attempts since the context changed, which are one request for its observer; None without one
    _observed: ObservedRequest | None = field(default=None, init=False)
    _blocked: float = field(default=0.0, init=False)  # the seconds of the longest step up to the first event

    async def batches(self, follow: Callable[[list[Event]], Awaitable[list[Event]]] | None = None) -> Batches:
        """Yield the events in the batches of the turn. A failed connection or request is the error of the turn.

        Args:
            follow: called after each batch of the turn that counts; it returns the events to yield next.

        Raises:
            UsageError: what ``create_new_stream`` returned cannot be read.
            Exception: what else ``create_new_stream`` raised, unchanged: it is a defect of the program.
        """
        attempts = 0
        try:
            while True:
                attempts += 1
                if self.confirm is not None:  # not within the attempt: a failure of it is none of the provider
                    await self.confirm()
                self.turn = turn = self.create_turn(self.context)
                if self.observer is not None and self._observed is None:
                    self._observed = self.observer.start_request(self.context)
                observed = self._observed
                early_events: list[Event] = []  # shown with the first content, or if no other attempt follows
                async with AsyncExitStack() as stack:
                    with nullcontext() if observed is None else observed.current():
                        source = await self._open_source(turn, stack)
                    reading = TurnReading(turn, source)
                    batches = reading.batches()
                    try:
                        with nullcontext() if observed is None else observed.current():
                            # A generator makes its request when it is read first.
                            events = await await_in_steps(anext(batches, None), self._end_step)
                        if self._blocked >= BLOCKED:
                            message = (
                                f"create_new_stream, or its stream, blocked the event loop for {self._blocked:.1f}"
                                " seconds: no tool, other run or time limit went on. Use the SDK's asynchronous client"
                            )
                            early_events.append(self._warn("event_loop_blocked", message))
                            self._blocked = 0.0
                        if observed is not None and events is not None and not turn.has_error:
                            observed.begin_response()
                        while events is not None:
                            early_events += events
                            if self.has_events or has_content(events):
                                self.has_events = True
                                yield early_events
                                if follow is not None:
                                    if following := await follow(early_events):
                                        yield following
                                elif not turn.closed:  # the other inputs need not be looked at
                                    yield batches if reading.next_input is None else reading
                                early_events = []
                            events = await anext(batches, None)
                    finally:
                        await batches.aclose()
                    self.exception = source.exception
                error, failed_with = turn.error, turn_error(turn)
                if failed_with is not None:
                    self.failures.append(turn.failed_request(failed_with, find_address(self.exception)))
                if self.has_events or error is None:
                    if early_events:
                        yield early_events
                    return
                failure = f"{self.failures[-1].target} failed with {error.kind}: {error.message}"
                if (shorter := await self._shorten(error)) is not None:
                    attempts = 0
                    self._end_observed()
                    self.context = shorter
                    message = f"{failure}; the request is made again with the history of on_overflow"
                    yield [self._warn("history_shortened", message)]
                    continue
                may_retry = attempts <= self.retries and is_retryable(error, self.exception)
                wait = delay(error, attempts, random.random()) if may_retry else None  # noqa: S311
                if wait is not None and self._is_in_time(wait):
                    message = f"{failure}; the request is made again in {wait:.1f} seconds"
                    yield [self._warn("request_retried", message)]
                    await anyio.sleep(wait)
                elif self.fallbacks and self._is_in_time(0):
                    attempts = 0
                    self._end_observed()
                    self.context = self.context.with_target(self.fallbacks.pop(0))
                    model = "" if self.context.model is None else f", model {self.context.model}"
                    message = f"{failure}; the next provider is {self.context.provider.name}{model}"
                    yield [self._warn("provider_fallback", message)]
                else:
                    yield early_events
                    return
                self.exception = None
        except BaseException as error:
            self._end_observed(error)
            raise
        finally:
            self._end_observed()

    def _end_observed(self, error: BaseException | None = None) -> None:
        """Report the end of the observed request, once, with what was raised in it."""
        observed, self._observed = self._observed, None
        if observed is not None and self.turn is not None:
            observed.end(self.turn, error)

    async def _shorten(self, error: StreamError) -> RoundContext | None:
        """Return the context that the hook makes for a request that exceeds the model's context, None without one."""
        hook = self.on_overflow
        if error.code != "context_overflow" or hook is None or not self._is_in_time(0):
            return None
        self.on_overflow = None
        return await hook(error, self.context)

    def _warn(self, code: str, message: str) -> Warned:
        self.warnings.append(StreamWarning(code, message))
        return Warned(code, message)

    def _end_step(self, seconds: float, is_last: bool) -> None:
        self._blocked = max(self._blocked, seconds)

    def _is_in_time(self, seconds: float) -> bool:
        deadline = None if self.limits is None else self.limits.deadline
        return deadline is None or anyio.current_time() + seconds < deadline

    async def _open_source(self, turn: Turn, stack: AsyncExitStack) -> Source:
        """Return the stream of an attempt; one without input, but with an error, if it could not be opened."""
        limits = self.limits
        try:
            if limits is None:
                return Source(turn, await self._open(stack))
            now = anyio.current_time()
            with anyio.CancelScope(deadline=limits.expiry(now, now, has_first_event=False)):
                return Source(turn, await self._open(stack), limits=limits, started=now)
            failed = Source(turn, ())
            failed.error = limits.error(anyio.current_time(), has_first_event=False)
        except Exception as error:
            if not is_io_failure(error):
                turn.close(error)
                raise
            failed = Source(turn, ())
            failed.report(error)  # no connection, or a rejected request
        return failed

    async def _open(self, stack: AsyncExitStack) -> Any:
        """Call ``create_new_stream``; return its value, awaited and entered until it can be read."""
        began = monotonic()
        stream = self.create_new_stream(self.context)
        self._end_step(monotonic() - began, True)
        for _ in range(_MAX_WRAPPERS):
            if is_readable(stream):
                return stream
            if hasattr(stream, "__aenter__"):
                stream = await stack.enter_async_context(stream)
            elif isawaitable(stream):
                stream = await await_in_steps(stream, self._end_step)
            elif hasattr(stream, "__enter__"):
                stream = stack.enter_context(stream)
            else:
                break
        raise UsageError(f"create_new_stream returned {type(stream).__name__}, which cannot be read as a stream")


def is_retryable(error: StreamError, exception: BaseException | None) -> bool:
    """Return True if another attempt may succeed after this error, and after what was raised, if anything.

    The code decides, which the provider's package derives from the error object: a 429 that is an overflow of the
    context or a spent quota fails again. An error without a code or a status was sent in a stream that the provider had
    begun, so the request itself was accepted.
    """
    if error.code is not None:
        return error.code in _RETRYABLE_CODES
    if error.status is not None:
        return error.status in _RETRYABLE_STATUSES
    if error.kind == "provider_error":
        return True
    return error.kind in ("transport_error", "stream_truncated", "timed_out") and not is_programming_error(exception)


def delay(error: StreamError, attempt: int, jitter: float) -> float | None:
    """Return the seconds to wait before the next attempt, or None if the provider demands more than 60.

    Args:
        error: the error of the last attempt; its ``retry_after`` is obeyed.
        attempt: the number of attempts so far.
        jitter: a number from 0 to 1, which shortens the delay by up to a quarter: two clients that failed together
            should not retry together.
    """
    if error.retry_after is not None:
        return error.retry_after if error.retry_after <= _MAX_RETRY_AFTER else None
    doubled: float = _FIRST_DELAY * 2.0 ** min(attempt - 1, 10)
    return min(doubled, _MAX_DELAY) * (1 - 0.25 * jitter)
