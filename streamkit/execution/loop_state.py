"""The rounds of a run: request, read, run the tools, append, and request again, until the run ends.

This module has the order of these steps and the reasons to end (``docs/rules.md``, "Rounds"); ``request`` makes the
requests, ``execution`` runs the tools, ``round`` builds what is appended. The stream is read in the task of the caller
who asks for the next event, so a slow reader slows the stream and nothing piles up; only tools run in tasks of their
own. No cancel scope is open while the reader has control, so a run may be kept open across a ``yield`` and be closed
from another task (``loop.Run`` ensures that).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from inspect import isawaitable
from typing import Any

import anyio

from streamkit.calls import StreamWarning, ToolCall, ToolResult, Usage
from streamkit.errors import InvalidOutput, StreamInterrupted, UsageError
from streamkit.events import Event, RoundFinished, RoundStarted, Warned
from streamkit.execution.context import RoundContext
from streamkit.execution.execution import Execution
from streamkit.execution.options import LoopOptions
from streamkit.execution.output import RunOutput, correction
from streamkit.execution.policies import (
    MAX_FAILURES,
    CircuitBreaker,
    can_start_eagerly,
    is_paused_by_provider,
    reason_to_end,
    turn_error,
)
from streamkit.execution.request import StreamRequest
from streamkit.execution.round import Round
from streamkit.execution.run_tool import to_result_event
from streamkit.execution.scheduler import Schedule
from streamkit.execution.state import Ended, RunState
from streamkit.execution.thread_update import ThreadUpdate, mark_interrupted
from streamkit.history import Content
from streamkit.history.content import TextBlock
from streamkit.output import OUTPUT_TOOL
from streamkit.tools import Approval, Tool, to_tools
from streamkit.turn import Turn

__all__ = ["LoopState"]

MAX_PAUSES = 8  #: how often in a row a paused turn is continued

_LAST_ROUND = "Not run: this was the last round, in which no tools can be called."
_NOT_STARTED = "Not run: canceled before it began."


class LoopState:
    """One run: its state so far, and the events of its further rounds.

    Args:
        context: what the first request is made from.
        options: how rounds are made.
        run_key: the stable name of the run.

    Attributes:
        context: what the next request is made from.
        contents: what the run added.
        turn: the turn that is read, or was read last.
        warnings: irregularities of all turns, requests and executions so far.
        ended: why it ended; None before.
        rounds: how many rounds were started.
        pending: the calls that await approval or their results.
        state: what a paused run is resumed from.
    """

    def __init__(self, context: RoundContext, options: LoopOptions, run_key: str) -> None:
        self.context = context
        self.contents: list[Content] = []
        self.turn: Turn | None = None
        self._warnings: list[StreamWarning] = []
        self._turn_warnings = 0  # how many of the turn's are among these
        self.ended: Ended | None = None
        self.rounds = 0
        self.pending: list[ToolCall] = []
        self.state: RunState | None = None
        self.run_key = run_key
        self._options = options
        self._layout = options.execution.layout
        self._fallbacks = list(options.fallbacks)
        self._previous_text = ""  # of the round's closed turns: more than one if the provider paused
        self._previous_usage: list[Usage] = []  # of all closed turns
        self._breaker = CircuitBreaker()
        self._reported_changes: set[str] = set()
        self._deadline: float | None = None
        self._resumed: tuple[Round, Mapping[str, Approval | bool]] | None = None
        self._output = None if options.output is None else RunOutput(options.output, options.retries)

    def resume(self, state: RunState, approvals: Mapping[str, Approval | bool]) -> None:
        """Start from a paused run."""
        self.contents = list(state.contents)
        self.rounds = state.round + 1
        self._previous_usage = list(state.usage)
        self._breaker = CircuitBreaker(state.failures)
        self._previous_text = "".join([block.text for block in state.assistant.blocks if isinstance(block, TextBlock)])
        self._resumed = state.to_round(self.context, self._layout), approvals

    @property
    def schedule(self) -> Schedule:
        """The limits of the run's tools."""
        return self._options.execution.schedule

    @property
    def text(self) -> str:
        """The text of the last round so far."""
        return self._previous_text + (self.turn.text if self.turn is not None else "")

    @property
    def output(self) -> Any:
        """The structured output of the run; None before it is there."""
        return None if self._output is None else self._output.value

    @property
    def warnings(self) -> list[StreamWarning]:
        """The irregularities of all turns, requests and executions so far."""
        if self.turn is not None:
            added = self.turn.warnings[self._turn_warnings :]
            self._turn_warnings += len(added)
            self._warnings += added
        return self._warnings

    @property
    def usage_reports(self) -> list[Usage]:
        """The usage of each turn that reported any."""
        current = self.turn.usage if self.turn is not None else None
        return [*self._previous_usage, current] if current is not None else list(self._previous_usage)

    # ---------------------------------------------------------------- the rounds

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yield all events of the run, to its end."""
        try:
            if self._options.execution.run_timeout is not None:
                self._deadline = anyio.current_time() + self._options.execution.run_timeout
            if self._resumed is not None:
                async with aclosing(self._finish_resumed_round(*self._resumed)) as events:
                    async for event in events:
                        yield event
            while self.ended is None:
                if self.context.round > 0:
                    await self._call_hooks()
                async with aclosing(self._run_round(is_last=self._is_last_round())) as events:
                    async for event in events:
                        yield event
        except Exception:
            self.ended = self.ended or "error"
            raise
        finally:
            self.ended = self.ended or "canceled"

    def _is_last_round(self) -> bool:
        return self.context.round >= self._options.max_rounds - 1

    async def _call_hooks(self) -> None:
        for hook in self._options.before_follow_up:
            context = hook(self.context)
            if isawaitable(context):
                context = await context
            if context is None:
                continue
            if not isinstance(context, RoundContext):
                raise UsageError(f"before_follow_up must return a RoundContext or None, not {type(context).__name__}")
            if context.messages is not None and context.provider is not self.context.provider:
                raise UsageError("the messages of thread= cannot be sent to another provider: pass history= instead")
            self.context = context

    async def _run_round(self, *, is_last: bool) -> AsyncGenerator[Event, None]:
        number = self.context.round
        if is_last and self.context.tools:
            self.context = replace(self.context, tool_choice="none")
        self.rounds = number + 1
        self._release_turn()
        self._previous_text = ""
        yield RoundStarted(number)
        for pauses in range(MAX_PAUSES + 1):
            async with aclosing(self._run_turn(pauses, is_last=is_last)) as events:
                async for event in events:
                    yield event
            if self.ended is not None or not is_paused_by_provider(self.turn):
                return
        yield self._warn("paused_too_often", f"the provider paused {MAX_PAUSES + 1} times in a row")
        self.ended = "max_rounds"
        yield RoundFinished(number)

    async def _run_turn(self, pauses: int, *, is_last: bool) -> AsyncGenerator[Event, None]:
        """Read one turn, run its calls, and append all of it."""
        request = self._create_request(pauses)
        is_eager = (
            not is_last and self._layout == "batched" and any(map(can_start_eagerly, self._offered_tools().values()))
        )
        execution: Execution | None = None
        is_handled = False  # the turn failed, or its calls are run and appended by _run_tools
        try:
            async with aclosing(request.batches()) as batches:
                async for events in batches:
                    turn = request.turn
                    if is_eager and request.has_events and turn is not None and execution is None:
                        execution = self._create_execution(self._create_round(turn, request.context))
                        await execution.__aenter__()
                    for event in events:
                        yield event
                    if execution is not None and turn is not None and turn_error(turn) is None:
                        for event in execution.feed(events):
                            yield event
            self.context = request.context
            turn = request.turn
            assert turn is not None  # noqa: S101 - there was an attempt
            error = turn_error(turn)
            if error is not None:
                is_handled = True
                update = await self._interrupt(turn, execution)
                for result in update.results:
                    yield to_result_event(result)
                self.ended = "timed_out" if error.kind == "timed_out" else None
                started = [] if execution is None else execution.started
                raise StreamInterrupted(error, turn, started) from request.exception
            is_handled = True
            if execution is None:
                is_blocked = is_last and not (self._output is not None and self._output.is_called(turn))
                calls = self._create_round(turn, self.context, block_reason=_LAST_ROUND if is_blocked else None)
                execution = self._create_execution(calls)
                if turn.calls:
                    await execution.__aenter__()
            async with aclosing(self._run_tools(execution, turn, is_last=is_last)) as tool_events:
                async for event in tool_events:
                    yield event
        finally:
            self._add_warnings(request.warnings)
            self._add_warnings([StreamWarning("content_changed", change) for change in request.context.changes])
            if not is_handled and request.turn is not None:
                # The reader left, or the program failed. At the last events of a turn it is complete all the same.
                self.context = request.context
                await self._interrupt(request.turn, execution)
            elif execution is not None:
                await execution.aclose()

    async def _interrupt(self, turn: Turn, execution: Execution | None) -> ThreadUpdate:
        """End a turn whose calls are not run: append it with a result for each call, and return the update."""
        turn.close()
        try:
            if execution is not None:
                await execution.aclose()
        finally:  # asyncio may cancel that once more
            if execution is None:
                calls = self._create_round(turn, self.context, block_reason=_NOT_STARTED)
                execution = self._create_execution(calls)
            execution.cancel_pending()
            update = execution.update if execution.ended else execution.close_without_running()
            if turn.finish is None or turn_error(turn) is not None:
                update = mark_interrupted(update)
            for result in execution.started:
                if result.metadata.get("effects_possible"):
                    message = f"a call of {result.call.name} had started before its turn ended; it may have had effects"
                    self.warnings.append(StreamWarning("effects_possible", message, result.call.id))
            self._append(update, is_round_over=True)
        return update

    def _create_round(self, turn: Turn, context: RoundContext, block_reason: str | None = None) -> Round:
        return Round(turn, shape=self._layout, block_reason=block_reason, options=context.render_options)

    def _add_warnings(self, warnings: Sequence[StreamWarning]) -> None:
        """Add warnings; each change of content once a run, because every round renders the history again."""
        for warning in warnings:
            if warning.code != "content_changed" or warning.message not in self._reported_changes:
                self.warnings.append(warning)
                if warning.code == "content_changed":
                    self._reported_changes.add(warning.message)

    def _create_request(self, pauses: int) -> StreamRequest:
        turn_key = f"{self.run_key}:{self.context.round}"
        if pauses:  # a continued turn is another one: without ids from the wire its calls would have the same ids
            turn_key = f"{turn_key}.{pauses}"

        def create_turn(context: RoundContext) -> Turn:
            self._release_turn()
            self.turn = Turn(
                context.provider,
                turn_key=turn_key,
                limits=self._options.turn_limits,
                leaked_markup=self._options.leaked_markup,
                endpoint=context.endpoint,
                model=context.model,
                used_ids=context.call_ids,
                tools=[tool.name for tool in context.tools] + ([] if self._output is None else [OUTPUT_TOOL]),
            )
            return self.turn

        return StreamRequest(
            self._options.create_new_stream,
            self.context,
            create_turn,
            retries=self._options.retries,
            fallbacks=self._fallbacks,
            deadline=self._deadline,
        )

    def _release_turn(self) -> None:
        """Keep the text and usage of the last turn, and release it."""
        if self.turn is not None:
            self._previous_usage = self.usage_reports
            self._previous_text += self.turn.text
            self._warnings = self.warnings
            self._turn_warnings = 0
            self.turn = None

    def _is_out_of_time(self) -> bool:
        return self._deadline is not None and anyio.current_time() >= self._deadline

    # ---------------------------------------------------------------- the tools of a round

    def _offered_tools(self) -> dict[str, Tool]:
        """Return the tools of the request; only these run. A hook may have replaced those of the run's start."""
        offered = to_tools(self.context.tools)
        return offered if self._output is None else {**offered, OUTPUT_TOOL: self._output.tool}

    def _create_execution(self, calls: Round, approvals: Mapping[str, Approval | bool] | None = None) -> Execution:
        remaining = None if self._deadline is None else max(0.001, self._deadline - anyio.current_time())
        options = replace(
            self._options.execution, tools=self._offered_tools(), run_timeout=remaining, deps=self.context.deps
        )
        return Execution(calls, options, approvals=approvals, pause_for_approval=True)

    async def _finish_resumed_round(
        self, calls: Round, approvals: Mapping[str, Approval | bool]
    ) -> AsyncGenerator[Event, None]:
        """Run the remaining calls of the round in which the run was paused."""
        execution = self._create_execution(calls, approvals)
        try:
            await execution.__aenter__()
            async with aclosing(self._run_tools(execution, None, is_last=self._is_last_round())) as events:
                async for event in events:
                    yield event
        finally:
            await execution.aclose()

    async def _run_tools(
        self, execution: Execution, turn: Turn | None, *, is_last: bool
    ) -> AsyncGenerator[Event, None]:
        """Run the remaining calls of a round, append the update, and decide whether the run ends with it."""
        number = self.context.round
        is_pause = is_paused_by_provider(turn)
        has_reader_left = True
        try:
            if execution.entered:
                async for event in execution:
                    yield event
            else:
                execution.close_without_running()
            has_reader_left = False
        finally:  # also if the reader has left: every call has its result
            try:
                await execution.aclose()
            finally:  # asyncio may cancel that once more: what has run must be appended all the same
                if has_reader_left:  # such a reader has not seen that calls await approval
                    execution.cancel_pending()
                if execution.ended:
                    self._append(execution.update, is_round_over=not is_pause)
        if execution.paused:
            self._pause(execution)
            return
        if is_pause:
            return
        results = execution.update.results
        self.ended = self._reason_to_end(turn, results, is_last=is_last)
        wrong_output = self._check_output()
        if self.ended == "breaker":
            yield self._warn("breaker", f"the same call failed in {MAX_FAILURES} rounds, and the run was ended")
        yield RoundFinished(number, execution.update if results else None)
        if wrong_output is not None:
            raise wrong_output

    def _check_output(self) -> InvalidOutput | None:
        """Read the output after a round, and let the model correct a wrong one; return the error that ends the run."""
        if self._output is None:
            return None
        is_answered = self.ended == "answered"
        error = self._output.check_round(self.text if is_answered else None)
        if self._output.is_set:
            self.ended = "answered"
        elif error is not None:
            can_continue = self.ended in (None, "answered") and self.context.round < self._options.max_rounds
            if not (can_continue and self._output.may_correct):
                self.ended = "error"
                return error
            self.ended = None
            if is_answered:
                self._append(correction(error, self.context), is_round_over=False)
        return None

    def _append(self, update: ThreadUpdate, *, is_round_over: bool) -> None:
        self.contents += update.contents
        self._add_warnings(update.warnings)
        self.context = self.context.with_update(update)
        if is_round_over:
            self.context = self.context.next_round()

    def _pause(self, execution: Execution) -> None:
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
            failures=self._breaker.failures,
        )

    def _reason_to_end(self, turn: Turn | None, results: Sequence[ToolResult], *, is_last: bool) -> Ended | None:
        """Return why the run ends after a round, or None if it continues. *turn* is None for a resumed round."""
        if ended := reason_to_end(turn, has_results=bool(results)):
            return ended
        if self._is_out_of_time():
            return "timed_out"
        if is_last:
            return "max_rounds"
        return "breaker" if self._breaker.trips(results) else None

    def _warn(self, code: str, message: str) -> Warned:
        self.warnings.append(StreamWarning(code, message))
        return Warned(code, message)
