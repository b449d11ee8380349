"""The policies of a round: which calls start early, and what ends a run. Pure.

* Eager start: which calls of an open turn may start before it ends (``docs/rules.md``, "Eager start").
* Circuit breaker: a model that repeats a failing call after it was given the error repeats it again, at the price of a
  request each (HKUDS/nanobot#5169; lobehub/lobehub#13817: 17 steps, 487k tokens).
* Outcome: what a turn means for its run (``docs/rules.md``, "Rounds").

This module must not depend on a clock, randomness or HTTP.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from streamkit.calls import CallRef, StreamError, ToolCall, ToolResult
from streamkit.events import ArgumentsRestated, Event, ToolCallDelta, ToolCallEnd, ToolCallStart
from streamkit.finishes import finish_row
from streamkit.reading.turn import Turn
from streamkit.tools import Tool

__all__ = [
    "MAX_FAILURES",
    "CircuitBreaker",
    "EagerCalls",
    "Outcome",
    "can_start_eagerly",
    "is_paused_by_provider",
    "turn_error",
    "turn_outcome",
]

#: What a turn means for its run: ``pause`` if it is to be continued in the same round, why the run ends with it, or
#: None if the model has to read the results of its calls.
Outcome: TypeAlias = Literal["pause", "answered", "refusal", "filtered", "length"] | None

MAX_FAILURES = 3  #: rounds in which the same call with the same arguments may fail

_FAILURE_STATUSES = ("error", "timed_out", "denied")


def can_start_eagerly(tool: Tool) -> bool:
    """Return True if calls of this tool may start before their turn ends."""
    return tool.eager and tool.approval == "allow" and tool.function is not None


class EagerCalls:
    """The calls that may start eagerly of a turn that is being read."""

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
                # The start of a call may prove that an earlier one is complete. Each change of a call is examined once,
                # so that the work is linear in calls and deltas. The latest call stays to be examined.
                changed, self._changed = self._changed, {index} & self._candidates
                for number in sorted(changed):
                    call = self._turn.completed_call(number)
                    if call is not None:
                        self._candidates.discard(number)
                        self._changed.discard(number)
                        yield call


class CircuitBreaker:
    """The number of failures of equal calls, over the rounds of a run; it starts with the counts of earlier rounds."""

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


def is_paused_by_provider(turn: Turn | None) -> bool:
    """Return True if the provider paused the turn, so that it has to be continued."""
    return turn is not None and finish_row(turn.finish).outcome == "pause"


def turn_error(turn: Turn) -> StreamError | None:
    """Return the error of a turn that does not count, or None."""
    error, finish = turn.error, turn.finish
    if error is None and finish is not None and finish_row(finish).is_error:
        return StreamError("provider_error", f"the provider ended the response with {finish.raw!r}")
    return error


def turn_outcome(turn: Turn) -> Outcome:
    """Return the outcome of a turn; None if the model has to read the results of its calls."""
    row = finish_row(turn.finish)
    if row.outcome is not None and not row.runs_calls:
        return row.outcome
    if turn.refusal is not None and not turn.calls:
        return "refusal"
    if row.outcome is not None and not turn.executable:
        return row.outcome
    return None if turn.calls else "answered"
