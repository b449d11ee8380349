"""The asynchronous shell: run tools, and make further requests.

Pure: ``round`` has the calls of a turn and their results (``calls_without_turn`` checks those of a list),
``blocked_calls`` why some may not run, ``thread_update`` what they add to the conversation, ``scheduler`` which calls
may start, ``policies`` eager start, circuit breaker and retries, ``context`` what a request is made from, ``state`` a
run that was left as data, ``entries`` what happens in a run as data (``replay`` reads them back), ``options`` the
configuration, ``budget`` what a run may spend and has spent, ``run_warnings`` its warnings, ``notifications`` the calls
of a run for people.

Shell: ``prepare_call`` decides whether a call may run, ``tool_attempt`` runs its tool (a synchronous one in a
``worker_thread``), ``run_tool`` does both for one call, ``executor`` for all calls of a round (in ``call_tasks``, with
``approval_requests``), ``execution`` is the caller's side of that, in a task of its own (``background``). ``request``
makes one request, ``loop_rounds`` the rounds of a run (``loop_state``, first made by ``resume``), ``recorder`` its
entries, ``loop`` is the caller's side of it, which reads their ``batches`` of events. ``shared`` queues the calls of
many turns.

All of it works on asyncio and trio. Whatever decides about streams must be in the pure packages below, not here.
"""

from __future__ import annotations

from streamkit.execution.durable.entries import (
    ApprovalEntry,
    RequestEntry,
    ResponseEntry,
    ResultEntry,
    RunEntry,
    parse_entry,
)
from streamkit.execution.durable.recorder import Checkpoint
from streamkit.execution.durable.state import Ended, RunState
from streamkit.execution.one_call.attempt import AroundCall
from streamkit.execution.one_call.prepare import Approve
from streamkit.execution.one_call.run_tool import execute_one_tool
from streamkit.execution.round.context import (
    BeforeFollowUp,
    CreateStream,
    OnOverflow,
    RoundContext,
    Target,
    finalize_tool_execution,
)
from streamkit.execution.round.execution import (
    Execution,
    Schedule,
    execute_tool_calls_batched,
    execute_tool_calls_sequentially,
)
from streamkit.execution.round.round import Round
from streamkit.execution.round.thread_update import ThreadUpdate
from streamkit.execution.run.loop import run_loop
from streamkit.execution.run.notifications import Notifier, ToolNotification
from streamkit.execution.run.run import Run
from streamkit.execution.shared import EndedStream, QueuedCall, SharedAccumulator
from streamkit.reading.stream_reader import StreamReader, read

__all__ = [
    "ApprovalEntry",
    "Approve",
    "AroundCall",
    "BeforeFollowUp",
    "Checkpoint",
    "CreateStream",
    "Ended",
    "EndedStream",
    "Execution",
    "Notifier",
    "OnOverflow",
    "QueuedCall",
    "RequestEntry",
    "ResponseEntry",
    "ResultEntry",
    "Round",
    "RoundContext",
    "Run",
    "RunEntry",
    "RunState",
    "Schedule",
    "SharedAccumulator",
    "StreamReader",
    "Target",
    "ThreadUpdate",
    "ToolNotification",
    "execute_one_tool",
    "execute_tool_calls_batched",
    "execute_tool_calls_sequentially",
    "finalize_tool_execution",
    "parse_entry",
    "read",
    "run_loop",
]
