"""Decisions of the shell: eager start, the circuit breaker, retries, and the end of a run. Pure.

* Eager start: which calls of an open turn may start before it ends (``docs/rules.md``, "Eager start").
* Circuit breaker: when equal calls have failed too often. A model that repeats a failing call after it was given the
  error repeats it again, at the price of a request each (HKUDS/nanobot#5169; lobehub/lobehub#13817: 17 steps, 487k
  tokens).
* Retries: when a request that failed before its first event is made again, and after how long. After the first event it
  is not: the reader has seen a part of the response, and the provider has charged for it.
* End: what a turn means for its run (``docs/rules.md``, "Rounds").

This module must not depend on a clock, randomness or HTTP; of HTTP it has only status codes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from streamkit.calls import CallRef, StreamError, ToolCall, ToolResult
from streamkit.events import ArgumentsRestated, Event, ToolCallDelta, ToolCallEnd, ToolCallStart
from streamkit.execution.durable.entries import Outcome
from streamkit.reading.source_failure import is_programming_error
from streamkit.reading.turn import Turn
from streamkit.tools import Tool

__all__ = [
    "MAX_FAILURES",
    "CircuitBreaker",
    "EagerCalls",
    "can_start_eagerly",
    "delay",
    "is_paused_by_provider",
    "is_retryable",
    "turn_error",
    "turn_outcome",
]

# ---------------------------------------------------------------- eager start


def can_start_eagerly(tool: Tool) -> bool:
    """Return True if calls of this tool may start before their turn ends."""
    return tool.eager and tool.approval == "allow" and tool.function is not None


class EagerCalls:
    """The calls of one open turn that may start eagerly.

    Args:
        turn: the turn, while it is read.
        tools: by name.
    """

    def __init__(self, turn: Turn, tools: Mapping[str, Tool]) -> None:
        self._turn = turn
        self._tools = tools
        self._candidates: set[int] = set()  # indexes of calls of eager tools that are not known to be complete
        self._changed: set[int] = set()  # those of them that have changed since they were last examined

    def feed(self, events: Iterable[Event]) -> Iterator[tuple[CallRef, Tool] | ToolCall]:
        """Yield, for the turn's next events, each started call of a known tool, and each call that may run now."""
        for event in events:
            if event.choice or not isinstance(event, (ToolCallDelta, ArgumentsRestated, ToolCallStart, ToolCallEnd)):
                continue
            index = event.call.index
            if isinstance(event, ToolCallStart) and (tool := self._tools.get(event.call.name)) is not None:
                yield event.call, tool
                if can_start_eagerly(tool):
                    self._candidates.add(index)
            if index in self._candidates:
                self._changed.add(index)
            if isinstance(event, (ToolCallStart, ToolCallEnd)):
                yield from self._find_completed(index)

    def _find_completed(self, latest: int) -> Iterator[ToolCall]:
        """Yield the calls that are complete: the start of a call may prove that of an earlier one.

        Each change of a call is examined once, so that the work is linear in calls and deltas. The latest call stays to
        be examined, since the start of another one proves its end.
        """
        changed, self._changed = self._changed, {latest} & self._candidates
        for index in sorted(changed):
            call = self._turn.completed_call(index)
            if call is not None:
                self._candidates.discard(index)
                self._changed.discard(index)
                yield call


# ---------------------------------------------------------------- circuit breaker

MAX_FAILURES = 3  #: rounds in which the same call with the same arguments may fail

_FAILURE_STATUSES = ("error", "timed_out", "denied")


class CircuitBreaker:
    """The number of failures of equal calls, over the rounds of a run.

    Args:
        failures: the counts of earlier rounds.
    """

    def __init__(self, failures: Mapping[str, int] | None = None) -> None:
        self._failures = dict(failures or {})

    @property
    def failures(self) -> dict[str, int]:
        """How often each call has failed; to be stored, and passed to another ``CircuitBreaker``."""
        return dict(self._failures)

    def trips(self, results: Sequence[ToolResult]) -> bool:
        """Count a round's results; return True if one of its calls has now failed in ``MAX_FAILURES`` rounds.

        A success resets the count of its call. Equal calls of one round count once: the model had not read the error
        of the first when it made the second.
        """
        failed = {_call_identity(result.call) for result in results if result.status in _FAILURE_STATUSES}
        for result in results:
            if result.status == "completed":
                self._failures.pop(_call_identity(result.call), None)
        for call in failed:
            self._failures[call] = self._failures.get(call, 0) + 1
        return any(self._failures[call] >= MAX_FAILURES for call in failed)


def _call_identity(call: ToolCall) -> str:
    arguments = call.arguments if call.state == "complete" else call.arguments_text
    return json.dumps([call.name, arguments], sort_keys=True, default=repr)


# ---------------------------------------------------------------- retries

# What both official SDKs retry: openai-python `_should_retry` and anthropic-sdk-python `_should_retry` (408, 409, 429,
# 5xx); 425 is RFC 8470's "too early", 529 Anthropic's "overloaded".
_RETRYABLE_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})

_RETRYABLE_CODES = ("rate_limited", "overloaded")

_FIRST_DELAY, _MAX_DELAY, _MAX_RETRY_AFTER = 0.5, 8.0, 60.0  # seconds; as in the official SDKs


def is_retryable(error: StreamError, exception: BaseException | None) -> bool:
    """Return True if another attempt may succeed.

    The code decides, which the provider's package derives from the error object: a 429 that is an overflow of the
    context or a spent quota fails again. An error without a code or a status was sent in a stream that the provider had
    begun, so the request itself was accepted.

    Args:
        error: the error of the last attempt.
        exception: what was raised, if anything.
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


# ---------------------------------------------------------------- the end of a run


def is_paused_by_provider(turn: Turn | None) -> bool:
    """Return True if the provider paused the turn, so that it has to be continued."""
    finish = None if turn is None else turn.finish
    return finish is not None and finish.reason == "pause"


def turn_error(turn: Turn) -> StreamError | None:
    """Return the error of a turn that does not count, or None."""
    error, finish = turn.error, turn.finish
    if error is None and finish is not None and finish.reason == "error":
        return StreamError("provider_error", f"the provider ended the response with {finish.raw!r}")
    return error


def turn_outcome(turn: Turn) -> Outcome:
    """Return the outcome of a turn; None if the model has to read the results of its calls."""
    finish = turn.finish
    reason = None if finish is None else finish.reason
    if reason == "pause":
        return "pause"
    if reason == "content_filter":
        return "filtered"
    if reason == "refusal" or (turn.refusal is not None and not turn.calls):
        return "refusal"
    if reason == "length" and not turn.executable:
        # Another request would be truncated at the same place (lobehub/lobehub#13817: 17 steps, 487k tokens).
        return "length"
    return None if turn.calls else "answered"
