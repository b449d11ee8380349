"""Runs of the loop as DBOS workflows: started once, queued, cancelled and taken over by another worker.

A run is one workflow, whose id is the run key, with one step, which is the complete run. DBOS has the workflow's
input, status and outcome, its queue and its recovery. The entries of the run are in a ``RunStore``, with the claim by
which one worker at a time makes it: an execution of the workflow claims the run and continues it from its entries.
Both databases are SQLite or PostgreSQL, and may be the same. On Python 3.12 and later DBOS stores times in SQLite by
``unixepoch('subsec')``, which SQLite has since 3.42.

The calls are not steps, because DBOS numbers the steps of a workflow in the order in which they start. If parallel
calls start in another order after a kill, each gets the result that another one has recorded under its number (checked
with 3.4.0), or the workflow fails with ``DBOSUnexpectedStepError`` if their steps have different names
(github.com/dbos-inc/dbos-transact-py/issues/688). As child workflows they would have ids of their own, but DBOS
recovers each of those alone, apart from the run whose schedule decides which calls may run at once.

Claims are needed beside DBOS, because without its Conductor it does not detect that a worker is dead: a worker that is
launched recovers the workflows of its own ``executor_id``, also while another process with that id executes them
(docs.dbos.dev/production/workflow-recovery). A run whose workflow is executed twice is made once: the second execution
waits for the claim, and returns the same outcome. The workers look for workflows that none of them executes.

The store goes on when its database restarts (``run_store``), and a run that it gives up is claimed and continued again.
Measured with DBOS 3.4.0: of 40 runs at once, with PostgreSQL stopped for two seconds in the middle, all were answered,
and none of their 120 calls ran twice; 40 workflows with a step for each call all raised OperationalError.

Live events go to one function (``show``).

DBOS requires asyncio. This module must not depend on what happens in a run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, TypedDict

import anyio
from pydantic import TypeAdapter

from streamkit.bridges.run_store import Claim, ClaimLost, RunClaimed, RunStore
from streamkit.calls import Ended
from streamkit.errors import StreamkitError, UsageError
from streamkit.events import Event
from streamkit.execution import ApprovalEntry, ResultEntry, Run, RunEntry, RunState
from streamkit.execution.durable.entries import StoredResult
from streamkit.execution.one_call.background import BackgroundTask
from streamkit.execution.run.loop import to_conversation
from streamkit.history import Content
from streamkit.tools import Approval
from streamkit.values.distribution import missing_package
from streamkit.values.json_data import copy_with
from streamkit.values.redaction import log_failure

__all__ = [
    "DurableRuns",
    "RunFailed",
    "RunOutcome",
]


try:
    from dbos import DBOS, SetWorkflowID, WorkflowHandleAsync
except ModuleNotFoundError as _error:
    raise missing_package("streamkit.bridges.dbos", _error, "dbos") from None


_log = logging.getLogger("streamkit")
_contents = TypeAdapter(list[Content])
_ACTIVE = ("PENDING", "ENQUEUED", "DELAYED")


class RunOutcome(TypedDict):
    """The result of a run's workflow.

    Attributes:
        ended: why the run ended, as ``run.ended``.
        text: the text of its last round.
        pending: the ids of the calls that await approval, for ``resume``.
        awaiting_results: the ids of the calls that await their results from the client.
    """

    ended: Ended | None
    text: str
    pending: list[str]
    awaiting_results: list[str]


class RunFailed(StreamkitError):
    """A run ended in an exception: its type and message, and the exception itself in the process that made the run.

    DBOS pickles the exception of a workflow. With its turn a ``StreamInterrupted`` is too large for that, and another
    package's exception may not be picklable.
    """


class DurableRuns:
    """The durable runs of one kind. Create it before ``DBOS.launch()``, in every process that starts or makes them.

    Enter it after that, with ``async with``, in every worker. Inside the block the worker takes over the runs of dead
    ones; at the end it stops those that it makes, and other workers continue them. Leave it before the clients are
    closed that the runs use.

    Args:
        store: the store of the entries and claims, the same in all processes.
        create_run: ``create_run(start, **inputs)`` returns ``run_loop(..., **start)``. It is called in the process that
            makes the run, again after each takeover. ``start`` has the conversation and the run key of a new run or the
            state of one that is continued, and the checkpoint.
        name: the name of the workflow, the same in all processes.
        queue: the DBOS queue of the runs, so that any worker that listens to it makes them. None: the process that
            starts a run makes it.
        claim_seconds: after how long another worker may take over the runs of a dead one.
        show: ``show(run_key, event)``, called with each event of the runs that this process makes, in their event loop.
            It must not wait. What was shown and not stored is shown again after a takeover.
    """

    def __init__(
        self,
        store: RunStore,
        create_run: Callable[..., Run],
        *,
        name: str = "streamkit_run",
        queue: str | None = None,
        claim_seconds: float = 30.0,
        show: Callable[[str, Event], object] | None = None,
    ) -> None:
        self._store = store
        self._create_run = create_run
        self._name = name
        self._queue = queue
        self._claim_seconds = claim_seconds
        self._show = show
        self._tasks: set[asyncio.Task[Any]] = set()  # that make runs
        self._is_closing = False

        @DBOS.workflow(name=name)
        async def workflow(run_key: str, conversation: dict[str, Any], inputs: dict[str, Any]) -> RunOutcome:
            async def step() -> RunOutcome:  # DBOS logs the arguments of a step that is cancelled: it has none
                return await self._make(run_key, conversation, inputs)

            # A preemptible step ends when its workflow is cancelled; the run then closes its stream and its tools.
            return await DBOS.run_step_async({"name": name, "preemptible": True}, step)

        self._workflow = workflow

    # ---------------------------------------------------------------- starting and continuing

    async def start(
        self,
        run_key: str,
        *,
        history: Sequence[Content] | None = None,
        thread: Sequence[dict[str, Any]] | None = None,
        inputs: Mapping[str, Any] | None = None,
    ) -> WorkflowHandleAsync[RunOutcome]:
        """Start a run, unless it was started before, and return the handle of its workflow.

        Args:
            run_key: the stable name of the run, and the id of its workflow.
            history: the conversation so far.
            thread: instead of history, the provider's own messages.
            inputs: further arguments of ``create_run``, by name, which DBOS can store: plain data.

        Returns:
            The handle: ``await handle.get_result()`` waits for the ``RunOutcome``, and raises ``RunFailed``.
            ``DBOS.cancel_workflow_async(run_key)`` cancels the run.

        Raises:
            UsageError: neither or both of history and thread are passed, one is no list of Contents or messages, or
                there is no key.
        """
        if not isinstance(run_key, str) or not run_key:
            raise UsageError(f"run_key must be a text that is not empty, not {run_key!r}")
        if (history is None) == (thread is None):
            raise UsageError("pass start either history (Contents) or thread (the provider's own messages)")
        contents, messages = to_conversation(history, thread)
        conversation: dict[str, Any] = {"thread": messages}
        if messages is None:
            conversation = {"history": _contents.dump_python(contents, mode="json")}
        arguments = (run_key, conversation, dict(inputs or {}))
        with SetWorkflowID(run_key):
            if self._queue is None:
                return await DBOS.start_workflow_async(self._workflow, *arguments)
            return await DBOS.enqueue_workflow_async(self._queue, self._workflow, *arguments)

    async def resume(
        self,
        run_key: str,
        *,
        approvals: Mapping[str, Approval | bool] | None = None,
        results: Mapping[str, Any] | None = None,
    ) -> WorkflowHandleAsync[RunOutcome]:
        """Continue a run that has paused, failed or been cancelled, and return the handle of its workflow.

        It waits until the run has ended. The decisions become entries before the run continues, so that they are
        durable.

        Args:
            run_key: the stable name of the run.
            approvals: for calls that await approval, by their ids, as for ``run_loop``.
            results: for calls that await their results, by their ids, as for ``run_loop``.

        Raises:
            UsageError: a decision is for a call that does not await one.
            dbos.error.DBOSException: there is no such run, or another process continues it.
        """
        handle: WorkflowHandleAsync[RunOutcome] = await DBOS.retrieve_workflow_async(run_key)
        awaited: dict[str, Any] = {}
        with suppress(Exception):  # a run that has failed or was cancelled awaits nothing
            outcome = await handle.get_result(polling_interval_sec=0.1)
            awaited = {"pending": outcome["pending"], "awaiting_results": outcome["awaiting_results"]}
        if approvals or results:
            async with await self._claim(run_key) as claim:
                state = copy_with(RunState.from_entries(claim.entries), is_paused=True, **awaited)
                answered = state.answer(approvals=approvals, results=results)
                for position, (call_id, decision) in enumerate((approvals or {}).items(), state.position):
                    await claim.append(ApprovalEntry.of(run_key, position, call_id, decision))
                first = state.position + len(approvals or {})
                for position, result in enumerate(answered.results.values(), first):
                    stored = StoredResult.from_result(result)
                    await claim.append(ResultEntry(run_key=run_key, position=position, result=stored))
        # In the current version of the program, which may not be the one that the run was started with.
        return await DBOS.rewind_workflow_async(
            run_key, application_version=DBOS.application_version, queue_name=self._queue
        )

    async def __aenter__(self) -> DurableRuns:
        self._is_closing = False
        self._taking_over = BackgroundTask(self._take_over)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_closing = True
        await self._taking_over.aclose()
        for task in list(self._tasks):
            task.get_loop().call_soon_threadsafe(task.cancel)
        with anyio.CancelScope(shield=True):
            while self._tasks:  # noqa: ASYNC110 - they may be in another event loop
                await anyio.sleep(0.01)

    async def _take_over(self) -> None:
        suspects: set[str] = set()
        while True:
            try:
                suspects = await self._look(suspects)
            except Exception as error:  # the database may answer again
                log_failure(_log, "the runs of dead workers were not looked for", error=error)
            await anyio.sleep(self._claim_seconds / 2)

    async def _look(self, suspects: set[str]) -> set[str]:
        """Have the suspects executed again that no worker has claimed, and return the others that none has claimed.

        DBOS lists them as being executed: their worker died, or has them for a moment without a claim.
        """
        running = await DBOS.list_workflows_async(
            name=self._name, status="PENDING", load_input=False, load_output=False
        )
        unclaimed = {workflow.workflow_id for workflow in running} - await self._store.claimed()
        for run_key in unclaimed & suspects:
            await DBOS.resume_workflow_async(run_key, queue_name=self._queue)
        return unclaimed - suspects

    async def follow(self, run_key: str, *, after: int = 0, interval: float = 0.5) -> AsyncGenerator[RunEntry, None]:
        """Yield the entries of a run when they are stored, in any process, until the run has ended.

        Args:
            run_key: the stable name of the run.
            after: how many entries to leave out, because they were read before.
            interval: seconds between two looks at the store.
        """
        while True:
            status = await DBOS.get_workflow_status_async(run_key)  # before the entries, so that none is missed
            for entry in await self._store.entries(run_key, after=after):
                after += 1
                yield entry
            if status is None or status.status not in _ACTIVE:
                return
            await anyio.sleep(interval)

    # ---------------------------------------------------------------- making the run

    async def _make(self, run_key: str, conversation: dict[str, Any], inputs: dict[str, Any]) -> RunOutcome:
        """Make a run, or continue it, when no other worker does."""
        if self._is_closing:
            raise asyncio.CancelledError  # DBOS records no outcome then: another worker makes it
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a step runs in one
        self._tasks.add(task)
        try:
            while True:
                async with await self._claim(run_key) as claim:
                    with suppress(ClaimLost):  # another worker makes the run: wait for its entries
                        return await self._run(claim, conversation, inputs)
        finally:
            self._tasks.discard(task)

    async def _claim(self, run_key: str) -> Claim:
        while True:
            try:
                return await self._store.claim(run_key, seconds=self._claim_seconds)
            except RunClaimed as claimed:
                await anyio.sleep(min(1.0, self._claim_seconds / 10, claimed.seconds + 0.01))
            except self._store.failures as error:  # a workflow waits for its database, as DBOS itself does
                log_failure(_log, "the run %r could not be claimed", run_key, error=error)
                await anyio.sleep(1.0)

    async def _run(self, claim: Claim, conversation: dict[str, Any], inputs: dict[str, Any]) -> RunOutcome:
        start: dict[str, Any] = {"run_key": claim.run_key, **conversation}
        if (state := claim.state) is not None:
            start = {"resume": state}
        elif "history" in start:
            start["history"] = _contents.validate_python(start["history"])
        try:
            run = self._create_run({**start, "checkpoint": claim.append}, **inputs)
            async with run:
                async for event in run:
                    if self._show is not None:
                        self._show(claim.run_key, event)
        except ClaimLost:
            raise
        except Exception as error:
            raise RunFailed(f"{type(error).__name__}: {error}") from error
        paused = run.state
        return {
            "ended": run.ended,
            "text": run.text,
            "pending": [] if paused is None else paused.pending,
            "awaiting_results": [] if paused is None else paused.awaiting_results,
        }
