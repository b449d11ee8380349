"""Run tools, and make further requests with their results: the asynchronous shell around the pure state machines.

``one_call``: ``prepare`` decides whether a call may run and has the sentences of calls that did not, ``attempt`` runs
its tool within its time limit, ``background`` has the tasks outside of the caller's scopes and the threads.

``round``: the pure ``round`` has the calls of a turn and their results, ``thread_update`` what they add to the
conversation, ``scheduler`` which calls may start, ``policies`` how calls are run, which start early and what ends a
run, ``context`` what a request is made from. ``executor`` runs all calls of a round.

``executors`` is the caller's side of that. ``shared`` queues the calls of many streams, and ``shared_execution`` runs
these.

``durable``: the ``entries`` of a run, which ``recorder`` hands to the caller's ``checkpoint``, and the ``state`` of a
run that was left. ``run``: the loop, which makes requests until an end.

All of it works on asyncio and trio. Whatever decides about streams must be in the packages below, not here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamkit.calls import Ended
from streamkit.execution.executors import (
    Execution,
    ExecutorOptions,
    Schedule,
    execute_tool_calls_batched,
    execute_tool_calls_sequentially,
)
from streamkit.execution.one_call.attempt import AroundCall, execute_one_tool
from streamkit.execution.one_call.prepare import Approve
from streamkit.execution.round.context import (
    BeforeEveryRequest,
    BeforeFollowUp,
    CreateStream,
    OnOverflow,
    RoundContext,
    Target,
    finalize_tool_execution,
)
from streamkit.execution.round.round import Round
from streamkit.execution.round.thread_update import ThreadUpdate
from streamkit.execution.run.loop import run_loop
from streamkit.execution.run.options import Budget, Retries, TurnOptions
from streamkit.execution.run.run import Run
from streamkit.reading.stream_reader import StreamReader, read
from streamkit.reading.time_limits import Timeouts
from streamkit.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from streamkit.execution.durable.entries import (
        ApprovalEntry,
        MessageEntry,
        NestedEntry,
        RequestEntry,
        ResponseEntry,
        ResultEntry,
        ResumeEntry,
        RunEntry,
        StartEntry,
        parse_entry,
    )
    from streamkit.execution.durable.recorder import Checkpoint, Lease
    from streamkit.execution.durable.state import AnsweredState, RunState
    from streamkit.execution.run.notifications import Notifier, ToolNotification
    from streamkit.execution.shared import EndedStream, QueuedCall, SharedAccumulator
    from streamkit.execution.shared_execution import SharedExecution

__all__ = [
    "AnsweredState",
    "ApprovalEntry",
    "Approve",
    "AroundCall",
    "BeforeEveryRequest",
    "BeforeFollowUp",
    "Budget",
    "Checkpoint",
    "CreateStream",
    "Ended",
    "EndedStream",
    "Execution",
    "ExecutorOptions",
    "Lease",
    "MessageEntry",
    "NestedEntry",
    "Notifier",
    "OnOverflow",
    "QueuedCall",
    "RequestEntry",
    "ResponseEntry",
    "ResultEntry",
    "ResumeEntry",
    "Retries",
    "Round",
    "RoundContext",
    "Run",
    "RunEntry",
    "RunState",
    "Schedule",
    "SharedAccumulator",
    "SharedExecution",
    "StartEntry",
    "StreamReader",
    "Target",
    "ThreadUpdate",
    "Timeouts",
    "ToolNotification",
    "TurnOptions",
    "execute_one_tool",
    "execute_tool_calls_batched",
    "execute_tool_calls_sequentially",
    "finalize_tool_execution",
    "parse_entry",
    "read",
    "run_loop",
]

__getattr__, __dir__ = lazy_names(  # few programs use them
    __name__,
    {
        "durable.entries": (
            "ApprovalEntry",
            "MessageEntry",
            "NestedEntry",
            "RequestEntry",
            "ResponseEntry",
            "ResultEntry",
            "ResumeEntry",
            "RunEntry",
            "StartEntry",
            "parse_entry",
        ),
        "durable.recorder": ("Checkpoint", "Lease"),
        "durable.state": ("AnsweredState", "RunState"),
        "shared_execution": ("SharedExecution",),
        "shared": ("EndedStream", "QueuedCall", "SharedAccumulator"),
        "run.notifications": ("Notifier", "ToolNotification"),
    },
)
