"""A run: its rounds, from the request to the results of the tools, and how it is watched, left and resumed.

``run_rounds`` has the order of the steps: request, read, run the tools, append, and request again, until the run ends.
``loop_state`` has what the run consists of so far, ``request`` makes the requests, ``executors`` runs the tools. The
stream is read in the task of the caller who asks for the next event, so a slow reader slows the stream and nothing
piles up; only tools run in tasks of their own. Each step is a generator of batches and yields the next one instead of
repeating its events (``batches``).

``Run`` ensures that a run can be left at any moment, from any task, with everything ended that was started. No cancel
scope is open while the reader has control, so a run may be kept open across a ``yield``.
"""

from __future__ import annotations

import warnings
from collections.abc import AsyncGenerator, Awaitable, Generator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from math import inf
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Self,  # a dependency of pydantic; typing's has no default before 3.13
)

import anyio
from typing_extensions import TypeVar

from streamkit.calls import Ended, StreamWarning, ToolCall, ToolResult, Usage
from streamkit.errors import InvalidOutput, StreamInterrupted, UsageError
from streamkit.events import Event, RoundFinished, RoundStarted
from streamkit.execution.executors import Execution
from streamkit.execution.one_call.background import is_event_loop_running
from streamkit.execution.one_call.prepare import to_result_event
from streamkit.execution.round.context import Connection
from streamkit.execution.round.policies import (
    MAX_FAILURES,
    Outcome,
    can_start_eagerly,
    is_paused_by_provider,
    turn_error,
    turn_outcome,
)
from streamkit.execution.round.round import Round
from streamkit.execution.round.scheduler import OccupiedPlace
from streamkit.execution.round.thread_update import ThreadUpdate
from streamkit.execution.run.batches import Batches, BatchReader
from streamkit.execution.run.loop_state import LoopState, ResumedRound
from streamkit.execution.run.request import StreamRequest
from streamkit.history import Content
from streamkit.reading.turn import Turn

if TYPE_CHECKING:
    from streamkit.execution.durable.state import RunState

__all__ = [
    "Out",
    "Run",
    "run_rounds",
]

MAX_PAUSES = 8  #: how often in a row a paused turn is continued

_NOT_STARTED = "Not run: canceled before it began."


async def run_rounds(state: LoopState) -> Batches:
    """Yield all events of a run, to its end."""
    try:
        state.start_clock()
        source = state.options.create_new_stream
        async with source if isinstance(source, Connection) else nullcontext():
            if state.resumed is not None:
                yield _finish_resumed_round(state, state.resumed)
            while state.ended is None or await state.reopens():
                if not state.pauses:
                    if state.recorder is not None and state.recorder.position == 0:
                        await state.record_request(0)  # what the run began with; the lease that it gives has the mail
                    with nullcontext() if state.deadline == inf else anyio.CancelScope(deadline=state.deadline):
                        await state.receive()
                        await state.call_hooks()
                    if state.is_out_of_time():
                        state.ended = "timed_out"
                        break
                yield _run_round(state)
        if state.state is None:
            await state.record_inbox()  # what no request will contain
    except Exception:
        state.ended = state.ended or "error"
        raise
    finally:
        state.ended = state.ended or "canceled"
        state.close()


async def _run_round(state: LoopState) -> Batches:
    started: list[Event] = [state.start_round()]
    for pauses in range(state.pauses, MAX_PAUSES + 1):
        state.pauses = pauses
        await state.record_request(pauses)
        if started:
            yield started
            started = []
        yield _run_turn(state, state.create_request(pauses))
        if state.ended is not None or not is_paused_by_provider(state.turn):
            state.pauses = 0
            return
    warning = state.warn("paused_too_often", f"the provider paused {MAX_PAUSES + 1} times in a row")
    yield [warning]
    state.ended = "max_rounds"
    yield [RoundFinished(state.rounds - 1)]


@dataclass(slots=True, eq=False)
class _EarlyCalls:
    """The calls of a turn that start while it is read, in the execution that all its calls get then."""

    state: LoopState
    request: StreamRequest
    execution: Execution | None = None

    async def start(self, events: list[Event]) -> list[Event]:
        """Start the calls that may start after these events of the turn; return the events of running calls."""
        turn = self.request.turn
        assert turn is not None  # noqa: S101 - these are its events
        if self.execution is None:
            calls = self.state.create_round(turn, self.request.context)
            self.execution = self.state.create_execution(calls)
            await self.execution.__aenter__()
        return self.execution.feed(events) if turn_error(turn) is None else []


async def _run_turn(state: LoopState, request: StreamRequest) -> Batches:
    """Read one turn, run its calls, and append all of it."""
    is_last = state.is_last_round
    early = _EarlyCalls(state, request)
    is_handled = False  # the turn failed, or its calls are run and appended by _run_tools
    # With a checkpoint nothing runs for a response that is not recorded: after a crash it would be another one.
    # With a budget of calls none starts that may not be covered.
    may_start_early = not is_last and state.layout == "batched" and state.recorder is None
    may_start_early = may_start_early and state.calls_left is None
    is_eager = may_start_early and any(map(can_start_eagerly, state.offered_tools().values()))
    try:
        yield request.batches(early.start if is_eager else None)
        execution = early.execution
        state.context = request.context
        turn = request.turn
        assert turn is not None  # noqa: S101 - there was an attempt
        error = turn_error(turn)
        is_handled = error is not None
        if error is not None:
            update = await _interrupt(state, turn, execution)
            yield [to_result_event(result) for result in update.results]
            state.ended = "timed_out" if error.kind == "timed_out" else None
            started = [] if execution is None else execution.started
            raise StreamInterrupted(error, turn, started, request.failures) from request.exception
        outcome = turn_outcome(turn)
        has_calls = bool(turn.calls)
        calls: Round | None = None
        if execution is None and (has_calls or state.recorder is not None):
            calls = state.create_round(turn, state.context)
            await state.record_response(turn, calls, outcome)
        is_handled = True
        if execution is None and not has_calls:
            state.append_answer(turn, is_round_over=outcome != "pause")
            events, wrong_output = _end_round(state, outcome, None, is_last=is_last)
            yield events
            if wrong_output is not None:
                raise wrong_output
            return
        if calls is not None:
            execution = early.execution = state.create_execution(calls)
            await execution.__aenter__()
        assert execution is not None  # noqa: S101 - it was created early, or just now
        yield _run_tools(state, execution, outcome)
    finally:
        state.add_warnings(request.warnings)
        state.add_warnings([StreamWarning("content_changed", change) for change in request.context.changes])
        if not is_handled and request.turn is not None:
            # The reader left, or the program failed. At the last events of a turn it is complete all the same.
            state.context = request.context
            update = await _interrupt(state, request.turn, early.execution)
            state.unread_events = [to_result_event(result) for result in update.results]
        elif early.execution is not None:
            await early.execution.aclose()


async def _interrupt(state: LoopState, turn: Turn, execution: Execution | None) -> ThreadUpdate:
    """End a turn whose calls are not run: append it with a result for each call, and return the update."""
    turn.close()
    try:
        if execution is not None:
            await execution.aclose()
    finally:  # asyncio may cancel that once more
        if execution is None:
            calls = state.create_round(turn, state.context, block_reason=_NOT_STARTED)
            execution = state.create_execution(calls)
        execution.cancel_pending()
        update = execution.update if execution.ended else execution.close_without_running()
        for result in execution.started:
            if result.metadata.get("effects_possible"):
                message = f"a call of {result.call.name} had started before its turn ended; it may have had effects"
                state.warn("effects_possible", message, result.call.id)
        state.append(update, is_round_over=True)
    return update


async def _finish_resumed_round(state: LoopState, resumed: ResumedRound) -> Batches:
    """Run the remaining calls of the round in which the run was left."""
    if state.recorder is not None:
        if resumed.calls.open_positions:
            await state.recorder.resumed(resumed.repeated)
        await state.recorder.approvals(resumed.approvals)
    execution = state.create_execution(resumed.calls, resumed.approvals, resumed.results)
    try:
        await execution.__aenter__()
        yield _run_tools(state, execution, state.resumed_outcome, [RoundStarted(state.context.round)])
    finally:
        await execution.aclose()
    state.pauses = state.pauses + 1 if state.resumed_outcome == "pause" else 0


async def _run_tools(
    state: LoopState, execution: Execution, outcome: Outcome, first_events: Sequence[Event] = ()
) -> Batches:
    """Run the remaining calls of a round, append the update, and decide whether the run ends with it."""
    is_last = state.is_last_round
    has_reader_left = True
    try:
        if first_events:
            yield first_events
        while events := await execution.next_batch():
            if state.recorder is not None:
                await state.recorder.results_of(events)
            yield events
        has_reader_left = False
    finally:  # also if the reader has left: every call has its result
        try:
            await execution.aclose()
        finally:  # asyncio may cancel that once more: what has run must be appended all the same
            if has_reader_left:  # such a reader has not seen that calls await approval
                execution.cancel_pending()
                recorder, unread = state.recorder, execution.drain()
                state.unread_events = [event for event in unread if recorder is None or recorder.may_show(event)]
            if execution.ended:
                state.append(execution.update, is_round_over=outcome != "pause")
    if execution.paused:
        await state.record_inbox()
        state.pause(execution, outcome)
        return
    update = execution.update if execution.update.results else None
    events, wrong_output = _end_round(state, outcome, update, is_last=is_last)
    yield events
    if wrong_output is not None:
        raise wrong_output


def _end_round(
    state: LoopState, outcome: Outcome, update: ThreadUpdate | None, *, is_last: bool
) -> tuple[list[Event], InvalidOutput | None]:
    """Decide whether the run ends after a round that was appended; return its last events, and an error to raise."""
    number = state.rounds - 1
    if outcome == "pause":
        if not state.is_over_budget():
            return [], None
        state.ended = "budget"
        return [RoundFinished(number)], None
    results = [] if update is None else update.results
    state.ended = state.reason_to_end(outcome, results, is_last=is_last)
    wrong_output = state.check_output()
    events = state.check_usage(state.turn)
    if state.ended == "breaker":
        events.append(state.warn("breaker", f"the same call failed in {MAX_FAILURES} rounds, and the run was ended"))
    return [*events, RoundFinished(number, update)], wrong_output


#: The type of the structured output.
Out = TypeVar("Out", default=Any)


class Run(Generic[Out]):
    """One run of the loop, with an output of the type that was passed. It is used once: awaited, or entered.

    Leaving the block early closes the stream, cancels the running tools, and waits for both.
    """

    # False while neither use nor an error has shown the caller what to do. ``__del__`` is also called if the
    # constructor raises, so the class has it too.
    _is_noticed = True

    def __init__(self, state: LoopState) -> None:
        self._state = state
        self._events: AsyncGenerator[Event, None] | None = None
        self._is_used = self._is_noticed = False
        self._reader = BatchReader(run_rounds(state), state.last_events)

    def __del__(self) -> None:
        if not self._is_noticed:
            message = "run_loop(...) was never awaited: await the run, or enter it with async with"
            warnings.warn(message, RuntimeWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        return f"<Run {self.run_key!r} rounds={self.rounds} ended={self.ended!r}>"

    # ---------------------------------------------------------------- results

    @property
    def run_key(self) -> str:
        """The stable name of the run."""
        return self._state.run_key

    @property
    def ended(self) -> Ended | None:
        """Why it ended; None before."""
        return self._state.ended

    @property
    def rounds(self) -> int:
        """How many rounds were started."""
        return self._state.rounds

    @property
    def turn(self) -> Turn | None:
        """The turn that is read, or was read last; after a failure, all that was received."""
        return self._state.turn

    @property
    def text(self) -> str:
        """The text of the last round so far."""
        return self._state.text

    @property
    def output(self) -> Out | None:
        """The structured output, of the type that was passed as ``output``; None before it is there."""
        output: Out | None = self._state.output
        return output

    @property
    def usage(self) -> Usage | None:
        """The sum of the tokens of all requests; None if no provider reported any. ``raw`` is the list of reports."""
        return Usage.sum(self._state.usage_reports)

    @property
    def cost(self) -> float:
        """What the turns have cost by ``Budget.price``; 0 without it."""
        return self._state.cost

    @property
    def contents(self) -> list[Content]:
        """The contents that the run added; every call in it has its result, at any moment. Append it to your store."""
        return list(self._state.contents)

    @property
    def results(self) -> list[ToolResult]:
        """The result of every call of the run, in call order, with its call (``result.call``), also if it did not run.

        Of a resumed run: those since then, and those of the round in which it was left.
        """
        return list(self._state.results)

    @property
    def history(self) -> list[Content]:
        """The ``history`` argument (nothing for a run with a ``thread``), and the contents that the run added."""
        return list(self._state.context.contents)

    @property
    def thread(self) -> list[dict[str, Any]]:
        """The complete conversation as the provider's own messages."""
        return list(self._state.context.thread)

    @property
    def pending(self) -> list[ToolCall]:
        """The calls that await approval or their results, of a run that ended so (docs/rules.md, "Approval")."""
        return list(self._state.pending)

    @property
    def state(self) -> RunState | None:
        """What a run that ended ``awaiting_approval`` or ``awaiting_results`` is resumed from; else None."""
        return self._state.state

    @property
    def metadata(self) -> dict[str, Any]:
        """What the application keeps with the run, any JSON: the ``metadata`` of ``run.state`` and of a resumed run."""
        return self._state.metadata

    @property
    def warnings(self) -> list[StreamWarning]:
        """All irregularities: of every turn, of requests and rendering, and of running the tools."""
        return list(self._state.warnings)

    # ---------------------------------------------------------------- use

    def __await__(self) -> Generator[Any, Any, Self]:
        return self._run_unwatched().__await__()

    async def _run_unwatched(self) -> Self:
        async with self:
            async for _ in self:
                pass
        return self

    async def __aenter__(self) -> Self:
        if self._is_used:
            raise UsageError("a run is used once: create a new one")
        self._is_used = self._is_noticed = True
        OccupiedPlace.check_outside_of(self._state.schedule)
        self._events = self._reader.events()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def run_sync(self) -> Self:
        """Run it in a new event loop, and return the run when it has ended.

        Raises:
            UsageError: an event loop is running here; await the run instead.
            StreamInterrupted: as for ``run_loop``.
        """
        if is_event_loop_running():
            self._is_noticed = True
            raise UsageError("an event loop is running here: await the run instead of run_sync()")
        return anyio.run(self._run_unwatched)

    def send(self, content: Content) -> None:
        """Add a content to the conversation of the run while it works, from any task or thread.

        The next request contains it, after the results of the round before, never between a call and its result. If the
        model ends the run before, there is one more round, unless a limit of the run excludes that. It is then the last
        of ``run.contents``, and of a run that pauses it is in ``run.state``. A run with a ``checkpoint`` records it
        when it is added: to a run of a store, and from another process, ``store.send(run_key, content)`` sends it.

        Args:
            content: the content, such as ``Content.human("Only the first three.")``.

        Raises:
            UsageError: the run has ended, or it is no ``Content``.
        """
        self._state.send(content)

    def cancel(self) -> None:
        """End the run from any task or thread, as a stop button does; its reader's loop ends without an exception.

        It returns at once. The stream is closed, tools are canceled, every call gets its result, and the last event is
        a ``RunEnded`` with ``canceled``. A run that has ended stays as it is; one that has not started makes no
        request.
        """
        self._reader.cancel()

    async def aclose(self) -> None:
        """Close the stream and cancel the tools, and wait for the end of both. Idempotent."""
        await self._reader.aclose()
        self._state.close()
        if self._events is not None:
            await self._events.aclose()
        self._state.ended = self.ended or "canceled"

    def __aiter__(self) -> AsyncGenerator[Event, None]:
        # The generator itself: no further coroutine per event.
        if self._events is None:
            self._is_noticed = True
            raise UsageError("iterate inside the block: async with run_loop(...) as run: async for event in run")
        if self._reader.is_exhausted:
            raise UsageError("the events of this run were read: they arrive once; run.contents has what they added")
        return self._events

    def __anext__(self) -> Awaitable[Event]:
        return (aiter(self) if self._events is None else self._events).__anext__()
