"""The options and the policies of a round: how its calls are run, which start early, and what ends a run. Pure.

* Options: ``ExecutionOptions`` is one value, checked when it is put together, instead of the same parameters in every
  signature. The public functions have keywords of their own and describe them.
* Eager start: which calls of an open turn may start before it ends (``docs/rules.md``, "Eager start").
* Circuit breaker: a model that repeats a failing call after it was given the error repeats it again, at the price of a
  request each (HKUDS/nanobot#5169; lobehub/lobehub#13817: 17 steps, 487k tokens).
* Outcome: what a turn means for its run (``docs/rules.md``, "Rounds").

This module must not depend on a clock, randomness or HTTP.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct, field

from streamkit.calls import CallRef, StreamError, ToolCall, ToolResult
from streamkit.errors import UsageError
from streamkit.events import ArgumentsRestated, Event, ToolCallDelta, ToolCallEnd, ToolCallStart
from streamkit.execution.one_call.attempt import AroundCall
from streamkit.execution.one_call.nested import OuterRun
from streamkit.execution.one_call.prepare import Approve
from streamkit.execution.round.scheduler import Scheduler
from streamkit.execution.round.thread_update import ThreadLayout, check_layout
from streamkit.finishes import finish_row
from streamkit.reading.time_limits import check_seconds
from streamkit.reading.turn import Turn
from streamkit.tools import Approval, Tool

__all__ = [
    "MAX_FAILURES",
    "CircuitBreaker",
    "EagerCalls",
    "ExecutionOptions",
    "Outcome",
    "ResultRecorder",
    "can_start_eagerly",
    "check_callable",
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


class ResultRecorder(Protocol):
    """What stores decisions and results of calls before they have an effect (``durable.recorder.Recorder``)."""

    async def approvals(self, approvals: Mapping[str, Approval | bool]) -> None:
        """Record decisions on calls, by the call's id, before the calls run."""
        ...

    async def start(self, call_id: str, *, is_once: bool) -> None:
        """Confirm, before a call starts, that it may; record the start of a call of ``once``."""
        ...

    async def result(self, result: ToolResult) -> None:
        """Record the result of a call, unless it is recorded."""
        ...


class ExecutionOptions(Struct, frozen=True):
    """How the calls of a round are run.

    Attributes:
        tools: by name.
        schedule: the limits, possibly shared with other executions.
        layout: ``sequential`` runs each call alone, in call order.
        timeout: seconds for each call; None for no limit.
        run_timeout: seconds for all of them; of the loop's options, for the complete run.
        deps: the tools' ``ToolContext.deps``.
        approve: called for tools with ``approval="ask"``.
        around_call: called instead of each tool, with the function that calls the tool.
        recorder: gets approvals and results before they have an effect; None if the run is not recorded.
        run: the run that makes the calls, for runs inside of them; None outside of a run.

    Raises:
        UsageError: a number of seconds is not above 0, a function is none, or the layout is unknown.
    """

    tools: Mapping[str, Tool]
    schedule: Scheduler = field(default_factory=Scheduler)
    layout: ThreadLayout = "batched"
    timeout: float | None = 30.0
    run_timeout: float | None = None
    deps: Any = None
    approve: Approve | None = None
    around_call: AroundCall | None = None
    recorder: ResultRecorder | None = None
    run: OuterRun | None = None

    def __post_init__(self) -> None:
        check_layout(self.layout)
        check_seconds("timeout", self.timeout)
        check_seconds("run_timeout", self.run_timeout)
        check_callable("approve", self.approve)
        check_callable("around_call", self.around_call)

    def __repr__(self) -> str:
        # A log must not contain ``deps`` (keys, connections).
        return f"<ExecutionOptions layout={self.layout!r} tools={list(self.tools)}>"


def check_callable(name: str, function: object) -> None:
    """Check that an option is a function or None.

    Raises:
        UsageError: it is something else.
    """
    if function is not None and not callable(function):
        raise UsageError(f"{name} must be a function, not {function!r}")
