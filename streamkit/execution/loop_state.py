"""How a run of the loop goes: ask, read, run the tools, write back, ask again. And when to stop.

Everything hard is elsewhere: requests in ``asking``, running in ``executing``, what the thread gains in ``rounds``.
Here is the order of things. The stream is read in the task of whoever asks for the next event, so a slow reader slows
the stream and nothing piles up; only tools run in tasks of their own. No scope of ours is open while the reader has
control, so a run may be held open over a ``yield`` and be left from another task (``loop.Run`` sees to that).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from inspect import isawaitable
from typing import TYPE_CHECKING, Literal, TypeAlias

import anyio

from streamkit.accumulator import Limits
from streamkit.calls import StreamError, StreamWarning, ToolCall, ToolResult, Usage
from streamkit.errors import StreamInterrupted, UsageError
from streamkit.events import Event, RoundFinished, RoundStarted, Warned
from streamkit.execution.breaker import FAILURES, CircuitBreaker
from streamkit.execution.context import CreateStream, RoundContext
from streamkit.execution.early import can_start_eagerly
from streamkit.execution.execution import Execution
from streamkit.execution.request import StreamRequest
from streamkit.execution.round import Round
from streamkit.execution.run_tool import Approve, to_result_event
from streamkit.execution.scheduler import Schedule
from streamkit.execution.state import RunState
from streamkit.execution.thread_update import ThreadLayout, ThreadUpdate
from streamkit.history import Content
from streamkit.providers.provider import Provider
from streamkit.tools import Approval, Tool, to_tools
from streamkit.turn import Turn

if TYPE_CHECKING:
    from streamkit.leaked_markup import LeakedMarkup

__all__ = ["BeforeFollowUp", "LoopState", "Ended", "LoopOptions"]

#: Why a run ended.
Ended: TypeAlias = Literal[
    "answered",  # the model answered
    "max_rounds",  # it still called tools in the last round, which was asked without
    "breaker",  # it made the same failing call again and again
    "refusal",
    "filtered",  # by the provider's content filter
    "length",  # the answer was cut at its length limit, and no call of it was whole
    "awaiting_approval",  # calls wait for somebody's answer: ``pending`` says which, ``state`` is what to go on from
    "canceled",  # the reader left, or was cancelled
    "timed_out",  # after run_timeout
    "error",  # of the stream, or of what should have brought it
]

#: ``before_follow_up(context)``: called before each request but the first; what it returns replaces the context.
BeforeFollowUp: TypeAlias = Callable[[RoundContext], "Awaitable[RoundContext | None] | RoundContext | None"]

PAUSES = 8  #: how often in a row a paused turn is continued


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """What ``run_loop`` was told; its docstring describes each."""

    create_new_stream: CreateStream
    approve: Approve | None
    max_rounds: int
    schedule: Schedule
    timeout: float | None
    run_timeout: float | None
    shape: ThreadLayout
    retries: int
    fallbacks: tuple[Provider, ...]
    before_follow_up: tuple[BeforeFollowUp, ...]
    turn_limits: Limits | None
    leaked_markup: LeakedMarkup


class LoopState:
    """One run: what it has so far, and the events of what it does next.

    Attributes:
        context: what the next request is made from.
        contents: what the run added.
        turn: the turn that is read, or was read last.
        warnings: what was odd outside of the turns.
        ended: why it ended; None while it has not.
        rounds: how many rounds were begun.
        pending: calls that wait for somebody's answer.
        state: what a paused run is resumed from.
    """

    def __init__(self, context: RoundContext, options: LoopOptions, run_key: str) -> None:
        self.context = context
        self.contents: list[Content] = []
        self.turn: Turn | None = None
        self.warnings: list[StreamWarning] = []
        self.ended: Ended | None = None
        self.rounds = 0
        self.pending: list[ToolCall] = []
        self.state: RunState | None = None
        self.run_key = run_key
        self._how = options
        self._fallbacks = list(options.fallbacks)
        self._answer = ""  # the text of the round's turns that are over: more than one where the provider paused
        self._usage: list[Usage] = []  # of the turns that are over
        self._breaker = CircuitBreaker()
        self._deadline: float | None = None
        self._paused: tuple[Round, Mapping[str, Approval | bool]] | None = None

    def resume(self, state: RunState, approvals: Mapping[str, Approval | bool]) -> None:
        """Begin where that one was paused."""
        self.contents = list(state.contents)
        self.rounds = state.round + 1
        self._usage = list(state.usage)
        self._breaker = CircuitBreaker(state.failures)
        self._answer = "".join([block.text for block in state.assistant.blocks if block.type == "text"])  # type: ignore[union-attr]
        self._paused = state.to_round(self.context.provider, self._how.shape), approvals

    @property
    def text(self) -> str:
        """The text of the last round's answer, as far as it is there."""
        return self._answer + (self.turn.text if self.turn is not None else "")

    @property
    def reports(self) -> list[Usage]:
        """The usage of each turn that told any."""
        now = self.turn.usage if self.turn is not None else None
        return [*self._usage, now] if now is not None else list(self._usage)

    # ---------------------------------------------------------------- the rounds

    async def events(self) -> AsyncGenerator[Event, None]:
        """All that happens, to its end."""
        try:
            if self._how.run_timeout is not None:
                self._deadline = anyio.current_time() + self._how.run_timeout
            if self._paused is not None:
                async with aclosing(self._finish_paused(*self._paused)) as events:
                    async for event in events:
                        yield event
            while self.ended is None:
                if self.context.round > 0:
                    await self._call_hooks()
                async with aclosing(self._round(last=self._is_last())) as events:
                    async for event in events:
                        yield event
        except Exception:
            self.ended = "error"
            raise
        finally:
            self.ended = self.ended or "canceled"

    def _is_last(self) -> bool:
        return self.context.round >= self._how.max_rounds - 1

    async def _call_hooks(self) -> None:
        for hook in self._how.before_follow_up:
            changed = hook(self.context)
            if isawaitable(changed):
                changed = await changed
            if changed is None:
                continue
            if not isinstance(changed, RoundContext):
                raise UsageError(f"before_follow_up returns a RoundContext or None, not {type(changed).__name__}")
            if changed.messages is not None and changed.provider is not self.context.provider:
                raise UsageError("a thread of one provider's own messages cannot go on with another: give history")
            self.context = changed

    async def _round(self, *, last: bool) -> AsyncGenerator[Event, None]:
        number = self.context.round
        if last and self.context.tools:
            self.context = replace(self.context, tool_choice="none")
        self.rounds = number + 1
        self._turn_is_over()
        self._answer = ""
        yield RoundStarted(number)
        for pauses in range(PAUSES + 1):
            async with aclosing(self._take_turn(pauses, last=last)) as events:
                async for event in events:
                    yield event
            turn = self.turn
            if self.ended is not None or turn is None or turn.finish is None or turn.finish.reason != "pause":
                return
        yield self._warned("paused_too_often", f"the provider paused {PAUSES + 1} times in a row")
        self.ended = "max_rounds"
        yield RoundFinished(number)

    async def _take_turn(self, pauses: int, *, last: bool) -> AsyncGenerator[Event, None]:
        """One answer: read, its calls run, and all of it appended."""
        asking = self._asking(pauses)
        early = not last and self._how.shape == "batched" and any(map(can_start_eagerly, self._offered().values()))
        execution: Execution | None = None
        taken = False
        try:
            async with aclosing(asking.batches()) as lists:
                async for events in lists:
                    turn = asking.turn
                    if early and asking.has_events and turn is not None and execution is None:
                        execution = self._execution(Round(turn, shape=self._how.shape))
                        await execution.__aenter__()
                    for event in events:
                        yield event
                    if execution is not None and turn is not None and _failure(turn) is None:
                        for event in execution.feed(events):
                            yield event
            self.context = asking.context
            turn = asking.turn
            assert turn is not None  # noqa: S101 - there was an attempt
            failure = _failure(turn)
            if failure is not None:
                if execution is not None:
                    await execution.aclose()
                    for result in execution.started:
                        yield to_result_event(result)
                self._fail(failure, turn, asking.exception)
                return
            taken = True
            if execution is None:
                withheld = "Not run: this was the last round, and tools were no longer to be called." if last else None
                execution = self._execution(Round(turn, shape=self._how.shape, withheld=withheld))
                if turn.calls:
                    await execution.__aenter__()
            async with aclosing(self._run_tools(execution, turn, last=last)) as tool_events:
                async for event in tool_events:
                    yield event
        finally:
            self.warnings += asking.warnings
            try:
                if execution is not None:
                    await execution.aclose()
            finally:  # asyncio may cancel that once more
                turn = asking.turn
                if not taken and turn is not None and turn.finish is not None and _failure(turn) is None:
                    # The reader left at the last events of an answer: it was said all the same.
                    withheld = "Not run: canceled before it began."
                    left = execution or self._execution(Round(turn, shape=self._how.shape, withheld=withheld))
                    left.cancel_pending()
                    self.context = asking.context
                    self._append(left.update if left.ended else left.close_without_running(), followed=True)

    def _asking(self, pauses: int) -> StreamRequest:
        key = f"{self.run_key}:{self.context.round}"

        def new_turn(context: RoundContext) -> Turn:
            # A continued turn is another one: without ids on the wire its calls would be named as before the pause.
            self._turn_is_over()
            self.turn = Turn(
                context.provider,
                turn_key=f"{key}.{pauses}" if pauses else key,
                limits=self._how.turn_limits,
                leaked_markup=self._how.leaked_markup,
            )
            return self.turn

        return StreamRequest(
            self._how.create_new_stream,
            self.context,
            new_turn,
            retries=self._how.retries,
            fallbacks=self._fallbacks,
            deadline=self._deadline,
        )

    def _turn_is_over(self) -> None:
        """Keep of the last turn what its run needs, and let go of it."""
        if self.turn is not None:
            self._usage = self.reports
            self._answer += self.turn.text
            self.turn = None

    def _fail(self, error: StreamError, turn: Turn, cause: Exception | None) -> None:
        """End the run where the turn failed; nothing of it is appended."""
        if isinstance(cause, TimeoutError) and self._out_of_time():
            self.ended = "timed_out"
            return
        raise StreamInterrupted(error, turn) from cause

    def _remaining(self) -> float | None:
        return None if self._deadline is None else max(0.001, self._deadline - anyio.current_time())

    def _out_of_time(self) -> bool:
        return self._deadline is not None and anyio.current_time() >= self._deadline

    # ---------------------------------------------------------------- the tools of a round

    def _offered(self) -> dict[str, Tool]:
        """The tools of the request; only those run. A hook may have given others than the run began with."""
        return to_tools(self.context.tools)

    def _execution(self, calls: Round, approvals: Mapping[str, Approval | bool] | None = None) -> Execution:
        how = self._how
        return Execution(
            calls,
            self._offered(),
            limit=how.schedule,
            sequential=how.shape == "sequential",
            timeout=how.timeout,
            run_timeout=self._remaining(),
            deps=self.context.deps,
            approve=how.approve,
            approvals=approvals or {},
            pause_for_approval=True,
        )

    async def _finish_paused(
        self, calls: Round, approvals: Mapping[str, Approval | bool]
    ) -> AsyncGenerator[Event, None]:
        """The rest of the round in which a run was paused."""
        execution = self._execution(calls, approvals)
        try:
            await execution.__aenter__()
            async with aclosing(self._run_tools(execution, None, last=self._is_last())) as events:
                async for event in events:
                    yield event
        finally:
            await execution.aclose()

    async def _run_tools(self, execution: Execution, turn: Turn | None, *, last: bool) -> AsyncGenerator[Event, None]:
        """Run what is left of a round's calls, append the update, and see whether the run ends with it."""
        number = self.context.round
        paused_by_provider = turn is not None and turn.finish is not None and turn.finish.reason == "pause"
        left = True
        try:
            if execution.entered:
                async for event in execution:
                    yield event
            else:
                execution.close_without_running()
            left = False
        finally:  # also where the reader has left: every call has its result
            try:
                await execution.aclose()
            finally:  # asyncio may cancel that once more: what has run must be told all the same
                if left:  # also by a reader to whom it was not told yet that somebody must answer
                    execution.cancel_pending()
                if execution.ended:
                    self._append(execution.update, followed=not paused_by_provider)
        if execution.paused:
            self._pause(execution)
            return
        if paused_by_provider:
            return
        results = execution.update.results
        self._end(turn, results, last=last)
        if self.ended == "breaker":
            yield self._warned("breaker", f"the same call failed in {FAILURES} rounds, and the run was ended")
        yield RoundFinished(number, execution.update if results else None)

    def _append(self, update: ThreadUpdate, *, followed: bool) -> None:
        self.contents += update.contents
        self.warnings += update.warnings
        self.context = self.context.with_update(update)
        if followed:
            self.context = self.context.next_round()

    def _pause(self, execution: Execution) -> None:
        """Somebody must answer first: the round is kept as it is, and nothing of it is appended."""
        self.warnings += execution.warnings
        self.ended = "awaiting_approval"
        self.pending = execution.pending
        self.state = RunState.from_round(
            execution.round,
            self.pending,
            run_key=self.run_key,
            provider=self.context.provider.name,
            round=self.context.round,
            tool_choice=self.context.tool_choice,
            history=self.context.contents,
            contents=self.contents,
            thread=self.context.messages,
            usage=self.reports,
            failures=self._breaker.failures,
        )

    def _end(self, turn: Turn | None, results: Sequence[ToolResult], *, last: bool) -> None:
        """After a round: whether and why the run ends with it. Without a turn: the rest of a paused round."""
        reason = turn.finish.reason if turn is not None and turn.finish is not None else None
        if reason == "content_filter":
            self.ended = "filtered"
        elif reason == "refusal" or (turn is not None and turn.refusal is not None and not results):
            self.ended = "refusal"
        elif reason == "length" and turn is not None and not turn.executable:
            # To ask again would cut the answer at the same place (lobehub/lobehub#13817: 17 steps, 487k tokens).
            self.ended = "length"
        elif not results:
            self.ended = "answered"
        elif self._out_of_time():
            self.ended = "timed_out"
        elif last:
            self.ended = "max_rounds"
        elif self._breaker.trips(results):
            self.ended = "breaker"

    def _warned(self, code: str, message: str) -> Warned:
        self.warnings.append(StreamWarning(code, message))
        return Warned(code, message)


def _failure(turn: Turn) -> StreamError | None:
    """What ended a turn so that nothing of it counts."""
    if turn.error is None and turn.finish is not None and turn.finish.reason == "error":
        return StreamError("provider_error", f"the provider ended the answer with {turn.finish.raw!r}")
    return turn.error
