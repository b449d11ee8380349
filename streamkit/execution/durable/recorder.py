"""The recorder: the entries of a run, each handed to the caller's ``checkpoint`` once; what that raises ends the run.

The rounds of a run and the executor of its calls use it at the moments that ``docs/rules.md``, "Durable runs", lists.
``checkpoint`` is called for one entry at a time, although calls end concurrently, so that it may use one connection or
file, and each entry has the position after the one before. What it raises is raised to that caller, for whom the entry
is not recorded: the executor stops all calls (``Executor._record``), and the run ends. What it returns may be a
``Lease``: the right of this worker to the run, which is confirmed before each call.

This module must not depend on storage, or on how calls run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from inspect import isawaitable
from math import inf
from typing import Any, TypeAlias

import anyio
import anyio.to_thread
from anyio import from_thread
from anyio.lowlevel import current_token

from streamkit.calls import ToolResult
from streamkit.events import Event, ToolCompleted, ToolDenied, ToolError, ToolTimedOut
from streamkit.execution.durable.entries import (
    ApprovalEntry,
    HistoryChange,
    MessageEntry,
    NestedEntry,
    RequestEntry,
    ResponseEntry,
    ResultEntry,
    ResumeEntry,
    RunEntry,
    StartEntry,
    StoredResult,
)
from streamkit.execution.round.context import RoundContext
from streamkit.execution.round.policies import Outcome
from streamkit.execution.round.round import Round
from streamkit.execution.round.thread_update import ThreadLayout
from streamkit.history import Content
from streamkit.reading.turn import Turn
from streamkit.tools import Approval

__all__ = ["Checkpoint", "Lease", "Recorder"]


class Lease:
    """The right of one worker to a run, which a ``checkpoint`` may return. A store of one's own derives from it.

    Attributes:
        fence: the number of the claim, above those of all earlier claims of the run; ``ToolContext.fence``.
    """

    fence: int

    async def confirm(self) -> None:
        """Return if the run is still this worker's: called before each call and request, fast if that is certain.

        Raises:
            Exception: it is not; the run ends with that, and the call does not start.
        """

    async def receive(self) -> list[tuple[str, Content]]:
        """Return what was sent to the run and is not in its log, each with its id, which ``MessageEntry.mail_id`` is.

        A store removes it there when it stores that entry.
        """
        return []


#: ``checkpoint(entry)``: stores an entry of the run; the run continues when it has returned.
Checkpoint: TypeAlias = Callable[[RunEntry], Awaitable[Lease | None] | Lease | None]

#: Seconds that an entry has at least, because what has happened must be recorded when the time of the run is over too.
RECORDING_TIME = 10.0

# A canceled call has not run to its end because the run was stopped; it runs when the run is resumed.
_FINAL = (ToolCompleted, ToolError, ToolDenied, ToolTimedOut)


class _InnerLease(Lease):
    """The lease of a run inside a call: that of the run around it, whose mail is not its own."""

    def __init__(self, fence: int, confirm: Callable[[], Awaitable[None]]) -> None:
        self.fence = fence
        self._confirm = confirm

    async def confirm(self) -> None:
        """Confirm the run around it."""
        await self._confirm()


class Recorder:
    """The entries of one run, which the caller's function stores."""

    def __init__(self, checkpoint: Checkpoint, run_key: str, layout: ThreadLayout) -> None:
        self._checkpoint = checkpoint
        self.deadline = inf  # when the time of the run is over, by the event loop's clock; infinity without a limit
        self.position: int = 0  # of the next entry
        self.lease: Lease | None = None  # what the checkpoint has returned last; None if that was no lease
        self._lock = anyio.Lock()
        self._is_cut_off = False  # an entry has taken too long
        self._interrupted: RunEntry | None = None  # may be stored: its checkpoint was cancelled
        self.metadata: dict[str, Any] = {}  # of the run, recorded with each request
        self._run_key = run_key
        self._layout = layout
        self._results: set[str] = set()  # the ids of calls whose results are recorded, of the current round
        self._approvals: set[str] = set()
        self._token: Any = None  # of the event loop of the run
        # for a run inside a call an entry was not stored, or the lease not confirmed
        self._inner_failure: Exception | None = None
        # the checkpoint, if it stores the entries in the log of a run around this one
        self.outer: Checkpoint | None = None

    async def _record(self, kind: type[RunEntry], **fields: Any) -> None:
        """Hand the next entry to the checkpoint; raise what it raises.

        Raises:
            Exception: what the checkpoint raised; the entry counts as not recorded.
            TimeoutError: it, or that of an earlier entry, has not returned although the time of the run is over.
        """
        self._token = self._token or current_token()
        async with self._lock:
            if self._inner_failure is not None:
                raise self._inner_failure
            if self.deadline == inf:
                await self._store(kind, fields)
                return
            if not self._is_cut_off:
                with anyio.CancelScope(deadline=max(self.deadline, anyio.current_time() + RECORDING_TIME)):
                    await self._store(kind, fields)
                    return
                self._is_cut_off = True  # others would hang too, one after the other
            message = f"timeouts.run is over, and the checkpoint has not stored a {kind.__name__}: it was cut off"
            raise TimeoutError(message)

    async def _store(self, kind: type[RunEntry], fields: Mapping[str, Any]) -> None:
        """Store an entry; before it, again, one whose checkpoint was cancelled: that may have its position."""
        is_stored = False
        while not is_stored:
            is_stored = self._interrupted is None
            entry = self._interrupted or kind(run_key=self._run_key, position=self.position, **fields)
            self._interrupted = entry
            try:
                done = self._checkpoint(entry)
                if isawaitable(done):
                    done = await done
            except Exception:
                self._interrupted = None
                raise
            self._interrupted = None
            self.lease = done if isinstance(done, Lease) else None
            self.position += 1

    def resume(self, position: int, results: Iterable[str], approvals: Iterable[str]) -> None:
        """Declare what is recorded, of the calls of the current round by their ids, and the position that follows."""
        self.position = position
        self._results, self._approvals = set(results), set(approvals)

    async def request(
        self,
        context: RoundContext,
        pauses: int,
        history: list[Content] | None,
        thread: list[dict[str, Any]] | None,
        correction: Content | None,
        change: HistoryChange | None,
        added: list[Content],
    ) -> None:
        """Record a request that is about to be made, with what only its entry has of the conversation."""
        await self._record(
            RequestEntry,
            round=context.round,
            pauses=pauses,
            provider=context.provider.name,
            model=context.model,
            endpoint=context.endpoint,
            tool_choice=context.tool_choice,
            ids=context.ids,
            shape=self._layout,
            history=history,
            thread=thread,
            correction=correction,
            change=change,
            added=added,
            metadata=dict(self.metadata),
        )

    async def response(
        self, context: RoundContext, pauses: int, turn: Turn, calls: Round, outcome: Outcome, cost: float
    ) -> None:
        """Record a response that was read, before any of its calls starts."""
        self._results = {result.call.id for result in calls.results_so_far}
        self._approvals = set()
        await self._record(
            ResponseEntry,
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

    async def approvals(self, approvals: Mapping[str, Approval | bool]) -> None:
        """Record decisions on calls, by the call's id, before the calls run."""
        for call_id, decision in approvals.items():
            if call_id in self._approvals:
                continue
            approval = Approval(decision) if isinstance(decision, bool) else decision
            await self._record(
                ApprovalEntry,
                call_id=call_id,
                allow=approval.allow,
                arguments=approval.arguments,
                reason=approval.reason,
            )
            self._approvals.add(call_id)

    async def resumed(self, call_ids: Sequence[str]) -> None:
        """Record that the calls of a round without results are about to run, of which some may have run before."""
        await self._record(ResumeEntry, call_ids=call_ids)

    async def start(self, call_id: str, *, is_once: bool) -> None:
        """Confirm, before a call starts, that the run is still this worker's; record the start of a call of ``once``.

        Raises:
            Exception: what the checkpoint or its lease raised: the call must not start.
        """
        if is_once:
            await self._record(StartEntry, call_id=call_id)
        await self.confirm()

    async def confirm(self) -> None:
        """Confirm, before a request or a call, that the run is still this worker's; raise what the lease raises."""
        if self.lease is not None:
            await self.lease.confirm()

    @property
    def fence(self) -> int | None:
        """The number of the claim; None without one."""
        return None if self.lease is None else self.lease.fence

    async def message(self, content: Content, mail_id: str | None = None) -> None:
        """Record a content that was sent to the run."""
        await self._record(MessageEntry, content=content, mail_id=mail_id)

    def nested(self, call_id: str) -> Checkpoint:
        """Return the checkpoint of a run inside a call: it stores that run's entries in the log of this one."""
        if self.outer is not None:  # the log is flat
            return self.outer

        async def run_outer(function: Callable[..., Coroutine[Any, Any, None]], *arguments: Any) -> None:
            try:
                await function(*arguments)
            except Exception as error:  # which that run's tool, or a tool around it, may take for its own failure
                self._inner_failure = error
                raise

        async def run_here(function: Callable[..., Coroutine[Any, Any, None]], *arguments: Any) -> None:
            if current_token() == self._token:
                await run_outer(function, *arguments)
            else:  # that run has an event loop of its own, in the thread of a synchronous tool
                run = partial(from_thread.run, run_outer, function, *arguments, token=self._token)
                await anyio.to_thread.run_sync(run)

        async def checkpoint(entry: RunEntry) -> Lease | None:
            await run_here(partial(self._record, call_id=call_id, entry=entry), NestedEntry)
            return None if self.lease is None else _InnerLease(self.lease.fence, partial(run_here, self.confirm))

        return checkpoint

    async def result(self, result: ToolResult) -> None:
        """Record the result of a call, unless it is recorded."""
        if result.call.id not in self._results:
            await self._record(ResultEntry, result=StoredResult.from_result(result))
            self._results.add(result.call.id)

    def may_show(self, event: Event) -> bool:
        """Return False for the result of a call that could not be recorded, because that call runs again."""
        return not isinstance(event, _FINAL) or event.result.call.id in self._results

    async def results_of(self, events: Iterable[Event]) -> None:
        """Record the results that are about to be shown, and are not recorded: those of calls that did not run."""
        for event in events:
            if isinstance(event, _FINAL):
                await self.result(event.result)
