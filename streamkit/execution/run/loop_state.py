"""The state of a run: the conversation so far, its warnings, the current turn, and the context of the next request.

``run`` has the order of the steps and calls this module at each (``docs/rules.md``, "Rounds"). It must not depend on
how a stream is read or what a warning means for the run, nor on an event loop, except for the clock of the run's time
limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

import anyio
from msgspec import Struct, structs

from streamkit.calls import OUTPUT_TOOL, Ended, StreamError, StreamWarning, ToolCall, ToolResult, Usage
from streamkit.errors import InvalidOutput, StreamInterrupted
from streamkit.events import Event, RoundStarted, RunEnded, Warned
from streamkit.execution.executors import Execution
from streamkit.execution.one_call.nested import OuterRun
from streamkit.execution.one_call.prepare import awaits_client, unknown_outcome_result
from streamkit.execution.round.context import RoundContext, check_hook
from streamkit.execution.round.policies import CircuitBreaker, Outcome
from streamkit.execution.round.round import Round
from streamkit.execution.round.scheduler import Scheduler
from streamkit.execution.run.conversation import Conversation
from streamkit.execution.run.options import LoopOptions, Spending, count_calls
from streamkit.execution.run.request import StreamRequest
from streamkit.history.content import TextBlock
from streamkit.reading.time_limits import TimeLimits
from streamkit.reading.turn import Turn
from streamkit.tools import Approval, Tool, to_tools

if TYPE_CHECKING:
    from streamkit.execution.durable.state import RunState
    from streamkit.execution.round.observer import ObservedRun, RunObserver
    from streamkit.execution.run.output import RunOutput

__all__ = [
    "LoopState",
    "ResumedRound",
]

_LAST_ROUND = "Not run: this was the last round, in which no such tool can be called."
_NO_CALLS_LEFT = "Not run: the tool calls that this run may make are used up."


class ResumedRound(Struct, frozen=True):
    """The round in which a run was left."""

    calls: Round  #: its calls, and the results so far
    approvals: Mapping[str, Approval | bool]  #: decisions, by the call's id
    results: Mapping[str, ToolResult]  #: those that come from the client, by the call's id
    repeated: list[str]  #: the ids of calls that may have run before and run once more


class LoopState(Conversation):
    """The state of one run, with the arguments and attributes of its conversation.

    Attributes:
        options: how rounds are made.
        layout: the layout of calls and results.
        warnings: irregularities of all turns, requests and executions so far.
    """

    def __init__(
        self, context: RoundContext, options: LoopOptions, run_key: str, outer: OuterRun | None = None
    ) -> None:
        super().__init__(context, options, run_key, outer)
        self.turn: Turn | None = None  # the turn that is read, or was read last
        self.ended: Ended | None = None  # why it ended; None before
        self.rounds: int = 0  # how many rounds were started
        self.pending: list[ToolCall] = []  # the calls that await approval or their results
        self.state: RunState | None = None  # what a paused run is resumed from
        self._fallbacks = options.retries.targets()
        self._previous_text = ""  # of the round's closed turns: more than one if the provider paused
        self._spending = Spending(options.budget, outer=outer)
        self._on_overflow = options.retries.on_overflow  # None once it was called
        # the results of calls that were canceled with the run, for a reader who has not left
        self.unread_events: list[Event] = []
        self._breaker = CircuitBreaker()
        self._output: RunOutput[Any] | None = None
        if options.output is not None:
            from streamkit.execution.run.output import RunOutput  # most runs have none

            self._output = RunOutput(options.output, options.retries.output)
            self._output.check_tools(context.tools)
        self._final_result: ToolResult | None = None  # of a tool that has ended the run
        self.resumed: ResumedRound | None = None  # the round in which the run was left that this one continues
        self.resumed_outcome: Outcome = None  # what the response of that round means for the run
        self.pauses: int = 0  # how often the provider had paused the round that is continued with a request
        self.metadata: dict[str, Any] = {}  # the application's, for the state of the run
        self._inner_calls = 0
        self.observer: RunObserver | None = None  # takes the start of the run
        self._observed: ObservedRun | None = None  # the run that has started and not ended, with an observer

    def resume(
        self, state: RunState, approvals: Mapping[str, Approval | bool], results: Mapping[str, ToolResult]
    ) -> None:
        """Start from a run that was left."""
        self.restore(state)
        count = count_calls(state, without=None if self._output is None else OUTPUT_TOOL) + state.nested_calls
        self._spending = Spending(self.options.budget, state.usage, state.cost, count, self._outer)
        self._breaker = CircuitBreaker(state.failures)
        self.pauses = state.pauses
        self._inner_calls = state.nested_calls
        self.metadata = dict(state.metadata)
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
        calls_left, tools = state.to_round(self.context, self.layout), self.offered_tools()
        repeated: list[str] = []
        for position in calls_left.open_positions:
            call = calls_left.calls[position]
            tool = tools.get(call.name)
            if tool is None or state.is_paused or awaits_client(call, tools):
                continue
            if tool.once and call.id in state.started:
                result = calls_left.set_result(position, unknown_outcome_result(call))
                calls_left.blocked_results += [] if result is None else [result]
            elif not tool.once and (tool.approval == "allow" or call.id in state.approvals):
                repeated.append(call.id)
        self.attempts.update(repeated)
        self.resumed = ResumedRound(calls_left, approvals, results, repeated)

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
        """Return the events at the end of the run, with the exception that it ends in."""
        self.ended = self.ended or "canceled"  # it was canceled before it started
        return [*self.unread_events, self._describe_end(self.ended, error)]

    def _describe_end(self, ended: Ended, error: Exception | None) -> RunEnded:
        turn_error = error.error if isinstance(error, StreamInterrupted) else None
        finish = self.turn.finish if self.turn is not None else None
        usage = Usage.sum(self.usage_reports)
        cost = self.cost if self.options.budget.price is not None else None
        return RunEnded(ended, turn_error, tuple(self.pending), finish, usage, cost)

    # ---------------------------------------------------------------- a round and its turns

    def start(self) -> None:
        """Start the run: its time limit, if it has one, and its observation."""
        if self.recorder is not None:
            self.recorder.metadata = self.metadata
        if self.observer is not None:
            self._observed = self.observer.start_run(self.context, self.run_key, self.metadata)
        seconds = self.options.execution.timeouts.run
        if seconds is not None:
            self.deadline: float = anyio.current_time() + seconds
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
            self.context: RoundContext = replace(
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

    def create_request(self, pauses: int) -> StreamRequest:
        """Return the next request of the round, after so many pauses of the turn by the provider."""
        limits = TimeLimits.of(self.options.execution.timeouts, None if self.deadline == inf else self.deadline)
        return StreamRequest(
            self.options.create_new_stream,
            self.context,
            partial(self._create_turn, self._turn_key(self.context.round, pauses)),
            retries=self.options.retries.requests,
            fallbacks=self._fallbacks,
            on_overflow=None if self._on_overflow is None else self._shorten,
            limits=limits if limits.is_limited else None,
            confirm=None if self.recorder is None else self.recorder.confirm,
            observer=self._observed,
        )

    def _create_turn(self, turn_key: str, context: RoundContext) -> Turn:
        """Return the turn of a request that is made from this context."""
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

    def _turn_key(self, round: int, pauses: int) -> str:
        """Return the key of a turn. That of a continued one is another: its calls would get the ids of earlier ones."""
        return f"{self.run_key}:{round}.{pauses}" if pauses else f"{self.run_key}:{round}"

    async def _shorten(self, error: StreamError, context: RoundContext) -> RoundContext | None:
        hook, self._on_overflow = self._on_overflow, None
        assert hook is not None  # noqa: S101 - a request calls this once, and gets it only if there is a hook
        shortened: RoundContext | None = None
        with anyio.CancelScope(deadline=self.deadline):
            shortened = await check_hook("on_overflow", hook(error, context), context)
        if shortened is not None:
            self.replace_context(shortened)
            await self.record_request(self.pauses)
            return self.context
        return None

    def _release_turn(self) -> None:
        """Keep the text and usage of the last turn, and release it."""
        if self.turn is not None:
            self._spending.add(self.turn)
            self._previous_text += self.turn.text
            self._warnings.end_turn()
            self.turn = None

    def is_out_of_time(self) -> bool:
        """Return True if the time limit of the run has passed."""
        return self.deadline != inf and anyio.current_time() >= self.deadline

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
            run=self,
            observer=self._observed,
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
                self.correct(self._output.correction(error))
        return None

    def pause(self, execution: Execution, outcome: Outcome) -> None:
        """End the run until calls are approved or have results; nothing of the round is appended."""
        from streamkit.execution.durable.state import RunState  # few runs pause

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
            position=0 if self.recorder is None else self.recorder.position,
            messages=list(self.inbox),
            nested_calls=self._inner_calls,
            metadata=self.metadata,
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
        """Return True if the run, or one around it, has spent more than it may."""
        return self._spending.is_over_budget(self.turn)

    # ---------------------------------------------------------------- its calls, and runs inside them

    @property
    def price(self) -> Callable[[Turn], float] | None:
        """The prices of its budget."""
        return self.options.budget.price

    @property
    def calls_left(self) -> int | None:
        """How many calls its budget, and those around it, still cover; None without a limit."""
        return self._spending.calls_left

    def spend(self, usage: Usage, cost: float) -> None:
        """Count what a turn of an inner run has used."""
        self._spending.add_usage(usage, cost)
        if self._outer is not None:
            self._outer.spend(usage, cost)

    def spend_calls(self, calls: int) -> None:
        """Count calls of an inner run."""
        self._inner_calls += calls
        self._spending.add_calls(calls)

    def check_usage(self, turn: Turn | None) -> list[Event]:
        """Return a warning, once a run, if a turn without usage keeps the budget from being checked."""
        if turn is None or not self._spending.misses_usage(turn):
            return []
        message = f"{turn.provider.name} reported no usage, so this turn does not count for the budget"
        return [self.warn("usage_unknown", message)]

    async def reopens(self) -> bool:
        """Return True if the run goes on, although the model has ended it, because something was sent to it."""
        is_limited = self.is_out_of_time() or self.is_over_budget() or self.context.round >= self.options.max_rounds
        if self.ended not in ("answered", "refusal", "filtered", "length") or is_limited or not await self.receive():
            return False
        self.ended = None
        self._final_result = None
        if self._output is not None:
            self._output.clear()
        return True

    def close(self) -> None:
        """Take nothing more that is sent, and count the last turn in the budget of the run around this one."""
        self._spending.count_outside(self.turn)
        self.close_inbox(is_kept=self.state is not None)

    def end(self, ended: Ended, error: Exception | None = None) -> None:
        """Set why the run ended, unless that is set, and report the end to its observer, once."""
        self.ended = self.ended or ended
        observed, self._observed = self._observed, None
        if observed is not None:
            observed.end(self._describe_end(self.ended, error), error)

    async def record_response(self, turn: Turn, calls: Round, outcome: Outcome) -> None:
        """Record a response, before any of its calls starts."""
        if (recorder := self.recorder) is not None:
            await recorder.response(self.context, self.pauses, turn, calls, outcome, self._spending.turn_cost(turn))

    def warn(self, code: str, message: str, call_id: str | None = None) -> Warned:
        """Add a warning of the run, and return its event."""
        self.warnings.append(StreamWarning(code, message, call_id))
        return Warned(code, message)
