"""The round: the calls of one turn, from what the model asked for to exactly one result each. Pure.

A state machine. Each call is in one stage, ``TRANSITIONS`` says which may follow which, and an ending is followed by
nothing. Whoever runs the tools (an executor, a loop of one's own, a durable workflow) tells the round what happens and
is told what that means; what the thread gains is written by ``formatting``. Nothing here runs, nor waits: no event
loop, clock or thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from streamkit import providers
from streamkit.calls import ResultStatus, StreamWarning, ToolCall, ToolResult
from streamkit.errors import UsageError
from streamkit.execution.thread_update import (
    FormatCallbacks,
    ThreadLayout,
    ThreadUpdate,
    build_assistant_content,
    build_thread_update,
    check_layout,
)
from streamkit.history import Content
from streamkit.providers.provider import Provider
from streamkit.turn import Turn

__all__ = ["TRANSITIONS", "CallStage", "Round", "blocked_result"]

#: Where a call is between being made and having its result.
CallStage: TypeAlias = Literal["waiting", "asking", "running", "held"] | ResultStatus

#: What may follow what.
TRANSITIONS: Mapping[CallStage, frozenset[CallStage]] = {
    # It may run as soon as there is room; or it may not run at all.
    "waiting": frozenset({"asking", "running", "error", "denied", "timed_out", "canceled"}),
    # Somebody must agree first.
    "asking": frozenset({"waiting", "error", "denied", "timed_out", "canceled"}),
    # Its tool was called. Back to waiting: it began early, with arguments that were not the last.
    "running": frozenset({"held", "waiting", "completed", "error", "timed_out", "canceled"}),
    # It began early and is done, but its turn is not over: what it came to counts only once the turn is confirmed.
    "held": frozenset({"waiting", "completed", "error", "timed_out", "canceled"}),
    # The result is there.
    "completed": frozenset(),
    "error": frozenset(),
    "denied": frozenset(),
    "timed_out": frozenset(),
    "canceled": frozenset(),
}

_TAIL = 60  # how much of an argument text is quoted to the model
_EFFECTS = {"effects_possible": True}


class Round:
    """The calls of one turn, or a list of calls, on their way to their results.

    Args:
        subject: a turn (its text, reasoning and opaque state go into the assistant message), or calls alone. Of a turn
            that is still open, calls may begin early (``begin_early``); ``close`` says that it is over.
        provider: whose format the messages have; by default the turn's.
        shape: how calls and results are laid out.
        formatting: the caller's callbacks.
        withheld: a sentence, where no call of this round may run; it is each call's result.

    Attributes:
        turn: the turn, where there is one.
        calls: every call, in call order; a call's place in it is its position. Empty while the turn is open.
        refused: the results of the calls that may not run, known as soon as all calls are.

    Raises:
        UsageError: there are calls alone, and neither a provider nor callbacks; there is no such shape.
    """

    def __init__(
        self,
        turn_or_calls: Turn | Iterable[ToolCall],
        *,
        provider: str | Provider | None = None,
        shape: ThreadLayout = "batched",
        formatting: FormatCallbacks | None = None,
        withheld: str | None = None,
    ) -> None:
        check_layout(shape)
        self.turn = turn_or_calls if isinstance(turn_or_calls, Turn) else None
        self.calls: tuple[ToolCall, ...] = ()
        self.refused: list[ToolResult] = []
        self._formatting = formatting or FormatCallbacks()
        self._shape: ThreadLayout = shape
        self._withheld = withheld
        self._asked: Content | None = None  # of a restored round: what the turn was
        self._stages: list[CallStage] = []
        self._results: list[ToolResult | None] = []
        self._early: dict[int, tuple[ToolCall, ToolResult | None]] = {}  # what began before the turn was over
        self._retracted: set[int] = set()  # begun early, and not to be counted
        self._again: set[int] = set()  # begun early with other arguments
        self._closed = False
        if provider is not None:
            self._provider: Provider | None = providers.get(provider)
        else:
            self._provider = self.turn.provider if self.turn is not None else None
        if self._provider is None and not self._formatting.is_complete:
            raise UsageError("calls alone do not say whose format the thread has: give provider=, or the callbacks")
        if self.turn is None:
            self._open(turn_or_calls)  # type: ignore[arg-type]  # no turn
        elif self.turn.closed or self.turn.done:
            self.turn.close()
            self.close()

    @classmethod
    def restored(
        cls,
        assistant: Content,
        calls: Sequence[ToolCall],
        results: Iterable[ToolResult],
        asking: Iterable[str] = (),
        *,
        provider: str | Provider,
        shape: ThreadLayout = "batched",
    ) -> Round:
        """A round that was stored half way.

        Args:
            asked: what the model said.
            calls: its calls.
            results: those that are there.
            asking: the ids of the calls that somebody was asked about.
            provider: whose format the messages have.
            shape: how calls and results are laid out.
        """
        made = cls(calls, provider=provider, shape=shape)
        made.refused = []  # they were told then
        made._asked = assistant
        positions = {call.id: position for position, call in enumerate(made.calls)}
        for result in results:
            position = positions[result.call.id]
            made._stages[position] = result.status
            made._results[position] = result
        for call_id in asking:
            made.require_approval(positions[call_id])
        return made

    # ---------------------------------------------------------------- what it is

    @property
    def closed(self) -> bool:
        """All calls are known: the turn is over, or there was none."""
        return self._closed

    @property
    def open_positions(self) -> list[int]:
        """The positions of the calls that have no result yet; at first those that may run."""
        return [position for position, result in enumerate(self._results) if result is None]

    @property
    def results_so_far(self) -> list[ToolResult]:
        """The results that are there, in call order; at first those of the calls that may not run."""
        return [result for result in self._results if result is not None]

    @property
    def assistant(self) -> Content:
        """What the model said, with every call."""
        if self._asked is not None:
            return self._asked
        return self.turn.content if self.turn is not None else build_assistant_content(self.calls, self._provider)

    def stage(self, position: int) -> CallStage:
        """Where a call is."""
        if not self._closed and position in self._early:
            return "running" if self._early[position][1] is None else "held"
        return self._stages[position] if self._closed else "waiting"

    # ---------------------------------------------------------------- what happens

    def start_early(self, call: ToolCall) -> None:
        """A call of an open turn that is known to be whole (``Turn.whole_call``) begins to run.

        Raises:
            UsageError: the turn is over, or the call has begun.
        """
        if self._closed or self.turn is None:
            raise UsageError("only a call of a turn that goes on begins early")
        if call.index in self._early:
            raise UsageError(f"call {call.id} has begun")
        self._early[call.index] = (call, None)

    def close(self) -> list[int]:
        """The turn is over: all calls are known. Gives the positions of early runs that are not to be counted.

        Those were begun for a call that may not run after all, or with arguments that were not the last: whoever runs
        them stops them, and settles them as ever.

        Raises:
            UsageError: the turn goes on.
        """
        if self._closed:
            return []
        if self.turn is None or not self.turn.closed:
            raise UsageError("the turn is not over: close() it before its calls are run")
        self._open(self.turn.calls)
        for position, (begun, held) in self._early.items():
            self._stages[position] = "running" if held is None else "held"
            call = self.calls[position]
            may_run = self._results[position] is None
            self._results[position] = None  # what began is settled when it has stopped
            if not may_run or (call.name, call.arguments) != (begun.name, begun.arguments):
                self._retracted.add(position)
                if may_run:
                    self._again.add(position)
        self.refused = [result for result in self.refused if result.call.index not in self._early]
        return sorted(self._retracted)

    def require_approval(self, position: int) -> None:
        """Somebody is asked whether the call may run."""
        self._transition(position, "asking")

    def approve(self, position: int) -> None:
        """They agreed."""
        self._transition(position, "waiting")

    def start(self, position: int) -> None:
        """The call's tool is called. A call begins once.

        Raises:
            UsageError: it has begun, has its result, or waits for somebody's answer.
        """
        self._transition(position, "running")

    def set_result(self, position: int, result: ToolResult) -> ToolResult | None:
        """Give a call what came of it.

        Returns:
            The call's one result. For a call that began early: None while the turn goes on (the result is held), and
            where it has to run again, because its arguments were not the last; of a call that may not run after all it
            is ``canceled``, with ``effects_possible`` in its metadata.

        Raises:
            UsageError: it has its result, it never ran, or this is another call's.
        """
        early = self._early.get(position)
        if not self._closed:
            if early is None or early[1] is not None:
                raise UsageError("the turn is not over, and no call of that position runs")
            self._early[position] = (early[0], result)
            return None
        call = self.calls[position]
        if result.call.id != call.id:
            raise UsageError(f"the result is of call {result.call.id}, not of {call.id}")
        if position in self._retracted:
            self._retracted.discard(position)
            if position in self._again:
                self._transition(position, "waiting")
                return None
            stopped = self._may_not_run(call) or ToolResult(call, "canceled", error="Not run.")
            result = ToolResult(call, "canceled", error=_stopped_early(stopped.error), metadata=_EFFECTS)
        elif early is not None or position in self._again:
            doubtful = position in self._again or result.status == "canceled"
            result = msgspec.structs.replace(
                result, call=call, metadata=result.metadata | (_EFFECTS if doubtful else {})
            )
        self._transition(position, result.status)
        self._results[position] = result
        return result

    def commit_early_results(self) -> list[ToolResult]:
        """After ``close``: settle what began early and is done. Gives the results that there are now."""
        held = [(position, result) for position, (_, result) in self._early.items() if result is not None]
        made = [self.set_result(position, result) for position, result in held if self._stages[position] == "held"]
        return [result for result in made if result is not None]

    def update(self, warnings: Iterable[StreamWarning] = ()) -> ThreadUpdate:
        """What the thread gains. *warnings* of who ran the tools stand before those of writing it down.

        Raises:
            UsageError: a call has no result yet, or the turn is not over.
        """
        if not self._closed:
            raise UsageError("the turn is not over: close() it before its calls are run")
        if missing := self.open_positions:
            raise UsageError(f"{len(missing)} of {len(self.calls)} calls have no result yet")
        update = build_thread_update(self.assistant, self.results_so_far, self._provider, self._shape, self._formatting)
        update.warnings[:0] = warnings
        return update

    # ---------------------------------------------------------------- inside

    def _open(self, calls: Iterable[ToolCall]) -> None:
        self.calls = tuple(calls)
        self._closed = True
        self._executable = {call.id for call in self.turn.executable} if self.turn is not None else set()
        for call in self.calls:
            result = self._may_not_run(call)
            self._stages.append("waiting" if result is None else result.status)
            self._results.append(result)
        self.refused = self.results_so_far

    def _transition(self, position: int, stage: CallStage) -> None:
        now = self._stages[position]
        if stage not in TRANSITIONS[now]:
            call = self.calls[position]
            if not TRANSITIONS[now]:
                raise UsageError(f"call {call.id} has its result; every call gets exactly one")
            raise UsageError(f"call {call.id} is {now}, and cannot be {stage} next")
        self._stages[position] = stage

    def _may_not_run(self, call: ToolCall) -> ToolResult | None:
        """The result of a call that may not run; None for one that may."""
        broken = blocked_result(call, self.turn)
        if broken is not None:
            return broken
        if self.turn is not None and call.id not in self._executable:
            return ToolResult(call, "canceled", error=f"Not run: {_why_stopped(self.turn)}.")
        return ToolResult(call, "canceled", error=self._withheld) if self._withheld is not None else None


# ---------------------------------------------------------------- why a call may not run


def blocked_result(call: ToolCall, turn: Turn | None = None) -> ToolResult | None:
    """The ``error`` of a call that is incomplete or invalid, with what was wrong and where; None for a complete one."""
    if call.state == "incomplete":
        length = turn is not None and turn.finish is not None and turn.finish.reason == "length"
        cut = "the answer reached its length limit" if length else "the answer ended there"
        where = f" They end in: {call.arguments_text[-_TAIL:]!r}." if call.arguments_text else ""
        return ToolResult(
            call,
            "error",
            error=f"Not run: the arguments are incomplete, because {cut}.{where}"
            " Make the call again with the whole arguments, shorter where they were cut.",
        )
    if call.state == "invalid":
        found = [warning.message for warning in call.warnings if warning.code in ("invalid_arguments", "nameless_call")]
        what = "; ".join(found) or f"they cannot be read: {call.arguments_text[:_TAIL]!r}"
        return ToolResult(
            call,
            "error",
            error=f"Not run: the call is not valid: {what}. Make it again, with its arguments as one JSON object.",
        )
    return None


def _why_stopped(turn: Turn) -> str:
    if turn.error is not None:
        return f"the answer that made the call ended in an error ({turn.error.kind})"
    return {
        "content_filter": "the provider's content filter stopped the answer that made the call",
        "refusal": "the answer that made the call was a refusal",
        "pause": "the answer that made the call was paused by the provider",
    }.get(
        turn.finish.reason if turn.finish is not None else "",
        "the provider ended the answer that made the call in an error",
    )


def _stopped_early(error: str | None) -> str:
    """Of a call that had begun before it showed that it may not run."""
    why = (error or "").removeprefix("Not run: ")
    return f"Stopped, and what it may have done does not count: {why}"
