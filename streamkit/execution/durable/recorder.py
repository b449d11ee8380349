"""The recorder: the entries of a run, each handed to the caller's ``checkpoint`` once; what that raises ends the run.

The rounds of a run and the executor of its calls use it at the moments that ``docs/rules.md``, "Durable runs", lists.
``checkpoint`` is called for one entry at a time, although calls end concurrently, so that it may use one connection or
file. What it raises is raised to that caller, for whom the entry is not recorded: the executor stops all calls
(``Executor._record``), and the run ends.

This module must not depend on storage, or on how calls run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from inspect import isawaitable
from math import inf
from typing import TypeAlias

import anyio

from streamkit.calls import ToolResult
from streamkit.events import Event, ToolCompleted, ToolDenied, ToolError, ToolTimedOut
from streamkit.execution.durable.entries import (
    ApprovalEntry,
    RequestEntry,
    ResponseEntry,
    ResultEntry,
    RunEntry,
    StoredResult,
)
from streamkit.execution.round.context import RoundContext
from streamkit.execution.round.policies import Outcome
from streamkit.execution.round.round import Round
from streamkit.execution.round.thread_update import ThreadLayout
from streamkit.history import Content
from streamkit.reading.turn import Turn
from streamkit.tools import Approval

__all__ = ["Checkpoint", "Recorder"]

#: ``checkpoint(entry)``: stores an entry of the run; the run continues when it has returned.
Checkpoint: TypeAlias = Callable[[RunEntry], Awaitable[None] | None]

#: Seconds that an entry has at least, because what has happened must be recorded when the time of the run is over too.
RECORDING_TIME = 10.0

# A canceled call has not run to its end because the run was stopped; it runs when the run is resumed.
_FINAL = (ToolCompleted, ToolError, ToolDenied, ToolTimedOut)


class Recorder:
    """The entries of one run.

    Args:
        checkpoint: the caller's function.
        run_key: the stable name of the run.
        layout: the layout of calls and results.

    Attributes:
        deadline: when the time of the run is over, by the event loop's clock; infinity without a limit.
    """

    def __init__(self, checkpoint: Checkpoint, run_key: str, layout: ThreadLayout) -> None:
        self._checkpoint = checkpoint
        self.deadline = inf
        self._lock = anyio.Lock()
        self._is_cut_off = False  # an entry has taken too long
        self._run_key = run_key
        self._layout = layout
        self._results: set[str] = set()  # the ids of calls whose results are recorded, of the current round
        self._approvals: set[str] = set()
        self._contents: list[Content] | None = None  # as the entries so far make it
        self._messages: list[dict[str, object]] | None = None
        self._correction: Content | None = None  # of the next request

    async def _record(self, entry: RunEntry) -> None:
        """Hand an entry to the checkpoint; raise what it raises.

        Raises:
            Exception: what the checkpoint raised; the entry counts as not recorded.
            TimeoutError: it, or that of an earlier entry, has not returned although the time of the run is over.
        """
        async with self._lock:
            if self.deadline == inf:
                await self._store(entry)
                return
            if not self._is_cut_off:
                with anyio.CancelScope(deadline=max(self.deadline, anyio.current_time() + RECORDING_TIME)):
                    await self._store(entry)
                    return
                self._is_cut_off = True  # others would hang too, one after the other
            name = type(entry).__name__
            raise TimeoutError(f"timeouts.run is over, and the checkpoint has not stored a {name}: it was cut off")

    async def _store(self, entry: RunEntry) -> None:
        done = self._checkpoint(entry)
        if isawaitable(done):
            await done

    def resume(self, results: Iterable[str], approvals: Iterable[str]) -> None:
        """Declare which results and approvals of the current round are recorded, by the calls' ids."""
        self._results = set(results)
        self._approvals = set(approvals)

    def follow(self, context: RoundContext) -> None:
        """Declare that the entries so far give the conversation of this context."""
        self._contents, self._messages = context.contents, context.messages

    def correct(self, message: Content) -> None:
        """Declare the message that corrects the model's output before the next request."""
        self._correction = message

    async def request(self, context: RoundContext, pauses: int) -> None:
        """Record a request that is about to be made."""
        has_other_contents = context.contents is not self._contents
        has_other_messages = context.messages is not None and context.messages is not self._messages
        await self._record(
            RequestEntry(
                run_key=self._run_key,
                round=context.round,
                pauses=pauses,
                provider=context.provider.name,
                model=context.model,
                endpoint=context.endpoint,
                tool_choice=context.tool_choice,
                ids=context.ids,
                shape=self._layout,
                history=context.contents if has_other_contents else None,
                thread=context.messages if has_other_messages else None,
                correction=self._correction,
            )
        )
        self._correction = None
        self.follow(context)

    async def response(
        self, context: RoundContext, pauses: int, turn: Turn, calls: Round, outcome: Outcome, cost: float
    ) -> None:
        """Record a response that was read, before any of its calls starts."""
        self._results = {result.call.id for result in calls.results_so_far}
        self._approvals = set()
        await self._record(
            ResponseEntry(
                run_key=self._run_key,
                round=context.round,
                pauses=pauses,
                provider=context.provider.name,
                model=context.model,
                endpoint=context.endpoint,
                assistant=calls.assistant,
                calls=list(calls.calls),
                results=[StoredResult.from_result(result) for result in calls.results_so_far],
                usage=turn.usage,
                outcome=outcome,
                cost=cost,
            )
        )

    async def approvals(self, approvals: Mapping[str, Approval | bool]) -> None:
        """Record decisions on calls, by the call's id, before the calls run."""
        for call_id, decision in approvals.items():
            if call_id in self._approvals:
                continue
            await self._record(ApprovalEntry.of(self._run_key, call_id, decision))
            self._approvals.add(call_id)

    async def result(self, result: ToolResult) -> None:
        """Record the result of a call, unless it is recorded."""
        if result.call.id not in self._results:
            await self._record(ResultEntry(run_key=self._run_key, result=StoredResult.from_result(result)))
            self._results.add(result.call.id)

    def may_show(self, event: Event) -> bool:
        """Return False for the result of a call that could not be recorded, because that call runs again."""
        return not isinstance(event, _FINAL) or event.result.call.id in self._results

    async def results_of(self, events: Iterable[Event]) -> None:
        """Record the results that are about to be shown, and are not recorded: those of calls that did not run."""
        for event in events:
            if isinstance(event, _FINAL):
                await self.result(event.result)
