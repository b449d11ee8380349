"""The state of a run: the conversation so far, its warnings, the current turn, and the context of the next request.

``run`` has the order of the steps and calls this module at each (``docs/rules.md``, "Rounds"). It must not depend on
how a stream is read or what a warning means for the run, nor on an event loop, except for the clock of the run's time
limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any

import anyio
from msgspec import structs

from streamkit.calls import Ended, StreamError, StreamWarning, ToolCall, ToolResult, Usage
from streamkit.errors import InvalidOutput, StreamInterrupted
from streamkit.events import Event, RoundStarted, RunEnded, Warned
from streamkit.execution.durable.recorder import Recorder
from streamkit.execution.durable.state import RunState
from streamkit.execution.executors import Execution
from streamkit.execution.round.context import RoundContext, check_hook
from streamkit.execution.round.policies import CircuitBreaker, Outcome
from streamkit.execution.round.round import Round
from streamkit.execution.round.scheduler import Scheduler
from streamkit.execution.round.thread_update import ThreadUpdate
from streamkit.execution.run.options import LoopOptions, Spending, count_calls
from streamkit.execution.run.request import StreamRequest
from streamkit.history import Content
from streamkit.history.content import TextBlock
from streamkit.output import OUTPUT_TOOL
from streamkit.reading.time_limits import TimeLimits
from streamkit.reading.turn import Turn
from streamkit.tools import Approval, Tool, to_tools

if TYPE_CHECKING:
    from streamkit.execution.run.output import RunOutput

__all__ = [
    "LoopState",
    "ResumedRound",
    "RunWarnings",
]


_LAST_ROUND = "Not run: this was the last round, in which no such tool can be called."
_NO_CALLS_LEFT = "Not run: the tool calls that this run may make are used up."


class RunWarnings:
    """The warnings of a run so far. Those of its current turn are read from the turn, which adds more of them.

    Attributes:
        turn: the current turn; None between two turns.
    """

    def __init__(self) -> None:
        self.turn: Turn | None = None
        self._warnings: list[StreamWarning] = []
        self._of_turn = 0  # how many of the turn's are among these
        self._unrendered: Callable[[], ThreadUpdate] | None = None  # of an answer whose warnings are not among these
        self._reported_changes: set[str] = set()

    def all(self) -> list[StreamWarning]:
        """Return the warnings; the list itself, to which others may be added."""
        if self.turn is not None:
            added = self.turn.warnings[self._of_turn :]
            self._of_turn += len(added)
            self._warnings += added
        if self._unrendered is not None:
            render, self._unrendered = self._unrendered, None
            self.add(render().warnings)
        return self._warnings

    def add(self, warnings: Sequence[StreamWarning]) -> None:
        """Add warnings; each change of content once a run, because every round renders the history again."""
        for warning in warnings:
            if warning.code != "content_changed" or warning.message not in self._reported_changes:
                self.all().append(warning)
                if warning.code == "content_changed":
                    self._reported_changes.add(warning.message)

    def add_changes_of(self, render: Callable[[], ThreadUpdate]) -> None:
        """Add, when the warnings are read, those about the changes that rendering makes to an answer.

        Args:
            render: returns what the answer adds to the conversation.
        """
        self.all()
        self._unrendered = render

    def end_turn(self) -> None:
        """Add the last warnings of the current turn."""
        self.all()
        self.turn, self._of_turn = None, 0


@dataclass(frozen=True, slots=True)
class ResumedRound:
    """The round in which a run was left.

    Attributes:
        calls: its calls, and the results so far.
        approvals: decisions, by the call's id.
        results: those that come from the client, by the call's id.
    """

    calls: Round
    approvals: Mapping[str, Approval | bool]
    results: Mapping[str, ToolResult]


class LoopState:
    """The state of one run.

    Args:
        context: what the first request is made from.
        options: how rounds are made.
        run_key: the stable name of the run.

    Attributes:
        options: how rounds are made.
        layout: the layout of calls and results.
        context: what the next request is made from.
        contents: what the run added.
        results: the results of the rounds that were appended.
        turn: the turn that is read, or was read last.
        warnings: irregularities of all turns, requests and executions so far.
        ended: why it ended; None before.
        rounds: how many rounds were started.
        pending: the calls that await approval or their results.
        state: what a paused run is resumed from.
        unread_events: the results of calls that were canceled with the run, for a reader who has not left.
        resumed: the round in which the run was left that this one continues.
        resumed_outcome: what the response of that round means for the run.
        pauses: how often the provider had paused the round that is continued with a request.
        recorder: makes the entries of the run; None if it has no ``checkpoint``.
        deadline: when its time limit passes, by the event loop's clock; infinity without one.
    """

    def __init__(self, context: RoundContext, options: LoopOptions, run_key: str) -> None:
        self.context: RoundContext = context
        self.contents: list[Content] = []
        self.results: list[ToolResult] = []
        self.turn: Turn | None = None
        self._warnings = RunWarnings()
        self.ended: Ended | None = None
        self.rounds: int = 0
        self.pending: list[ToolCall] = []
        self.state: RunState | None = None
        self.run_key = run_key
        self.options = options
        self.layout = options.execution.layout
        self._fallbacks = options.retries.targets()
        self._previous_text = ""  # of the round's closed turns: more than one if the provider paused
        self._spending = Spending(options.budget)
        self._on_overflow = options.retries.on_overflow  # None once it was called
        self.unread_events: list[Event] = []
        self._breaker = CircuitBreaker()
        self.deadline: float = inf
        self._output: RunOutput[Any] | None = None
        if options.output is not None:
            from streamkit.execution.run.output import RunOutput  # most runs have none

            self._output = RunOutput(options.output, options.retries.output)
            self._output.check_tools(context.tools)
        self._final_result: ToolResult | None = None  # of a tool that has ended the run
        self.resumed: ResumedRound | None = None
        self.resumed_outcome: Outcome = None
        self.pauses: int = 0
        self.recorder: Recorder | None = None
        if options.checkpoint is not None:
            self.recorder = Recorder(options.checkpoint, run_key, self.layout)

    def resume(
        self, state: RunState, approvals: Mapping[str, Approval | bool], results: Mapping[str, ToolResult]
    ) -> None:
        """Start from a run that was left."""
        self.contents = list(state.contents)
        count = count_calls(state, without=None if self._output is None else OUTPUT_TOOL)
        self._spending = Spending(self.options.budget, state.usage, state.cost, count)
        self._breaker = CircuitBreaker(state.failures)
        self.pauses = state.pauses
        if self.recorder is not None:
            self.recorder.follow(self.context)
            self.recorder.resume([result.call_id for result in state.results], state.approvals)
        if self._output is not None:
            self._output.restore(state.calls, state.results)
        if state.assistant is None:
            return
        self.rounds = state.round + 1
        keys = [self._turn_key(state.round, pauses) for pauses in range(state.pauses)]  # of the parts before a pause
        parts = [content for content in state.contents if content.metadata.get("turn_key") in keys]
        texts = [block for part in [*parts, state.assistant] for block in part.blocks if isinstance(block, TextBlock)]
        self._previous_text = "".join([block.text for block in texts if not block.metadata.get("refusal")])
        self.resumed_outcome = state.outcome
        self.resumed = ResumedRound(state.to_round(self.context, self.layout), approvals, results)

    @property
    def schedule(self) -> Scheduler:
        """The limits of the run's tools."""
        return self.options.execution.schedule

    @property
    def text(self) -> str:
        """The text of the last round so far."""
        return self._previous_text + (self.turn.text if self.turn is not None else "")

    @property
    def output(self) -> Any:
        """The output of the run, structured or the value of a tool that has ended it; None before it is there."""
        if self._final_result is not None:
            return self._final_result.value
        return None if self._output is None else self._output.value

    @property
    def warnings(self) -> list[StreamWarning]:
        """The irregularities of all turns, requests and executions so far."""
        return self._warnings.all()

    @property
    def usage_reports(self) -> list[Usage]:
        """The usage of each turn that reported any."""
        return self._spending.reports(self.turn)

    @property
    def cost(self) -> float:
        """What all turns with usage have cost so far."""
        return self._spending.cost(self.turn)

    def last_events(self, error: Exception | None) -> list[Event]:
        """Return the events at the end of the run.

        Args:
            error: the exception that the run ends in.
        """
        self.ended = self.ended or "canceled"  # it was canceled before it started
        turn_error = error.error if isinstance(error, StreamInterrupted) else None
        finish = self.turn.finish if self.turn is not None else None
        usage = Usage.sum(self.usage_reports)
        cost = self.cost if self.options.budget.price is not None else None
        return [*self.unread_events, RunEnded(self.ended, turn_error, tuple(self.pending), finish, usage, cost)]

    # ---------------------------------------------------------------- a round and its turns

    def start_clock(self) -> None:
        """Start the time limit of the run, if it has one."""
        seconds = self.options.execution.timeouts.run
        if seconds is not None:
            self.deadline = anyio.current_time() + seconds
            if self.recorder is not None:
                self.recorder.deadline = self.deadline

    @property
    def is_last_round(self) -> bool:
        """Whether no round may follow the current one, so that it is requested without tools."""
        return self.context.round >= self.options.max_rounds - 1

    def start_round(self) -> RoundStarted:
        """Start the round of the context, and return its event.

        Raises:
            UsageError: the tools of the context do not fit the output of the run.
        """
        if self._output is not None:
            self._output.check_tools(self.context.tools)
        if self.is_last_round and self.context.tools:  # only the output can follow
            ending = [tool for tool in self.context.tools if tool.ends_run]
            choices = [None, "auto", "none", "required", *[tool.name for tool in ending]]
            choice = self.context.tool_choice if self.context.tool_choice in choices else None
            self.context = replace(
                self.context, tools=ending or self.context.tools, tool_choice=choice if ending else "none"
            )
        self.rounds = self.context.round + 1
        self._release_turn()
        if not self.pauses:  # else the round is continued
            self._previous_text = ""
        return RoundStarted(self.context.round)

    def create_round(self, turn: Turn, context: RoundContext, block_reason: str | None = None) -> Round:
        """Return the calls of a turn; with a reason to block them, each gets that as its result.

        Without one, those of the last round are blocked, unless one of them may give the run its output, and those that
        the budget does not cover.
        """
        calls = turn.executable if turn.closed else []  # of an open turn all may run: it is not the last round
        if block_reason is None and self.is_last_round and not any(map(self._may_end_run, calls)):
            block_reason = _LAST_ROUND
        if block_reason is not None:
            blocked = dict.fromkeys([call.id for call in calls], block_reason)
        else:
            counted = [call for call in calls if self._output is None or call.name != OUTPUT_TOOL]
            blocked = dict.fromkeys([call.id for call in self._spending.count_calls(counted)], _NO_CALLS_LEFT)
        return Round(turn, shape=self.layout, blocked=blocked, options=context.render_options)

    def add_warnings(self, warnings: Sequence[StreamWarning]) -> None:
        """Add warnings; each change of content once a run."""
        self._warnings.add(warnings)

    def create_request(self, pauses: int) -> StreamRequest:
        """Return the next request of the round.

        Args:
            pauses: how often the provider has paused the turn.
        """
        turn_key = self._turn_key(self.context.round, pauses)

        def create_turn(context: RoundContext) -> Turn:
            self._release_turn()
            self.turn = self._warnings.turn = Turn(
                context.provider,
                turn_key=turn_key,
                limits=self.options.turn.limits,
                leaked_markup=self.options.turn.leaked_markup,
                repair_arguments=self.options.turn.repair_arguments,
                endpoint=context.endpoint,
                model=context.model,
                used_ids=context.call_ids,
                tools=[tool.name for tool in context.tools] + ([] if self._output is None else [OUTPUT_TOOL]),
            )
            return self.turn

        limits = TimeLimits.of(self.options.execution.timeouts, None if self.deadline == inf else self.deadline)
        return StreamRequest(
            self.options.create_new_stream,
            self.context,
            create_turn,
            retries=self.options.retries.requests,
            fallbacks=self._fallbacks,
            on_overflow=None if self._on_overflow is None else self._shorten,
            limits=limits if limits.is_limited else None,
        )

    def _turn_key(self, round: int, pauses: int) -> str:
        """Return the key of a turn. That of a continued one is another: its calls would get the ids of earlier ones."""
        return f"{self.run_key}:{round}.{pauses}" if pauses else f"{self.run_key}:{round}"

    async def _shorten(self, error: StreamError, context: RoundContext) -> RoundContext | None:
        hook, self._on_overflow = self._on_overflow, None
        assert hook is not None  # noqa: S101 - a request calls this once, and gets it only if there is a hook
        shortened: RoundContext | None = None
        with anyio.CancelScope(deadline=self.deadline):
            shortened = await check_hook("on_overflow", hook(error, context), context)
        if shortened is not None and self.recorder is not None:
            await self.recorder.request(shortened, self.pauses)
        return shortened

    def _release_turn(self) -> None:
        """Keep the text and usage of the last turn, and release it."""
        if self.turn is not None:
            self._spending.add(self.turn)
            self._previous_text += self.turn.text
            self._warnings.end_turn()
            self.turn = None

    def is_out_of_time(self) -> bool:
        """Return True if the time limit of the run has passed."""
        return anyio.current_time() >= self.deadline

    # ---------------------------------------------------------------- the tools of a round

    def offered_tools(self) -> dict[str, Tool]:
        """Return the tools of the request; only these run. A hook may have replaced those of the run's start."""
        offered = to_tools(self.context.tools)
        return offered if self._output is None else {**offered, OUTPUT_TOOL: self._output.tool}

    def _may_end_run(self, call: ToolCall) -> bool:
        """Return True if a completed result of the call ends the run."""
        tool = self.offered_tools().get(call.name)
        return tool is not None and tool.ends_run

    def create_execution(
        self,
        calls: Round,
        approvals: Mapping[str, Approval | bool] | None = None,
        results: Mapping[str, ToolResult] | None = None,
    ) -> Execution:
        """Return the execution of a round's calls, with the tools and the time that the run has left."""
        execution = self.options.execution
        remaining = None if self.deadline == inf else max(0.001, self.deadline - anyio.current_time())
        options = structs.replace(
            execution,
            tools=self.offered_tools(),
            timeouts=structs.replace(execution.timeouts, run=remaining),
            deps=self.context.deps,
            recorder=self.recorder,
        )
        return Execution(calls, options, approvals=approvals, results=results, pause_for_approval=True)

    def check_output(self) -> InvalidOutput | None:
        """Read the output after a round, and let the model correct a wrong one; return the error that ends the run."""
        if self._output is None:
            return None
        is_answered = self.ended == "answered"
        error = self._output.check_round(self.text if is_answered else None)
        if self._output.is_set:
            self.ended = "answered"
        elif error is not None:
            can_continue = self.ended in (None, "answered") and self.context.round < self.options.max_rounds
            if not (can_continue and self._output.may_correct):
                self.ended = "error"
                return error
            self.ended = None
            if is_answered:
                message = self._output.correction(error)
                self.append(self.context.message_update(message), is_round_over=False)
                if self.recorder is not None:
                    self.recorder.correct(message)
        return None

    def append(self, update: ThreadUpdate, *, is_round_over: bool) -> None:
        """Append the update of a round, or of a part of one."""
        self.contents += update.contents
        self.results += update.results
        self.add_warnings(update.warnings)
        self.context = self.context.with_update(update, is_round_over=is_round_over)
        if self.recorder is not None:
            self.recorder.follow(self.context)

    def append_answer(self, turn: Turn, *, is_round_over: bool) -> None:
        """Append a turn without calls.

        Its messages are needed by a run with a ``thread`` only. Else they would be rendered for the warnings alone,
        which is done when these are read.
        """
        layout, context = self.layout, self.context

        def update() -> ThreadUpdate:
            return Round(turn, shape=layout, options=context.render_options).update()

        if context.messages is not None:
            self.append(update(), is_round_over=is_round_over)
            return
        self._warnings.add_changes_of(update)
        content = turn.content
        self.append(ThreadUpdate([], [content] if content.blocks else [], []), is_round_over=is_round_over)

    def pause(self, execution: Execution, outcome: Outcome) -> None:
        """End the run until calls are approved or have results; nothing of the round is appended."""
        self.warnings.extend(execution.warnings)
        to_approve, without_function = execution.pending, execution.awaiting_results
        self.ended = "awaiting_approval" if to_approve else "awaiting_results"
        self.pending = sorted([*to_approve, *without_function], key=execution.round.calls.index)
        self.state = RunState.from_round(
            execution.round,
            to_approve,
            awaiting_results=[call.id for call in without_function],
            run_key=self.run_key,
            provider=self.context.provider.name,
            model=self.context.model,
            endpoint=self.context.endpoint,
            round=self.context.round,
            tool_choice=self.context.tool_choice,
            history=self.context.contents,
            contents=self.contents,
            thread=self.context.messages,
            usage=self.usage_reports,
            cost=self.cost,
            failures=self._breaker.failures,
            pauses=self.pauses,
            outcome=outcome,
        )

    def reason_to_end(self, outcome: Outcome, results: Sequence[ToolResult], *, is_last: bool) -> Ended | None:
        """Return why the run ends after a round, or None if it continues."""
        if outcome is not None and outcome != "pause":
            return outcome
        completed = [result for result in results if result.status == "completed" and self._may_end_run(result.call)]
        if completed and self._output is None:
            self._final_result = completed[0]
            return "answered"
        if self.is_out_of_time():
            return "timed_out"
        if self.is_over_budget():
            return "budget"
        if is_last:
            return "max_rounds"
        return "breaker" if self._breaker.trips(results) else None

    def is_over_budget(self) -> bool:
        """Return True if the run has spent more than it may."""
        return self._spending.is_over_budget(self.turn)

    def check_usage(self, turn: Turn | None) -> list[Event]:
        """Return a warning, once a run, if a turn without usage keeps the budget from being checked."""
        if turn is None or not self._spending.misses_usage(turn):
            return []
        message = f"{turn.provider.name} reported no usage, so this turn does not count for the budget"
        return [self.warn("usage_unknown", message)]

    def warn(self, code: str, message: str, call_id: str | None = None) -> Warned:
        """Add a warning of the run, and return its event."""
        self.warnings.append(StreamWarning(code, message, call_id))
        return Warned(code, message)
