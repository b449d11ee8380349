"""The asynchronous shell: it runs tools, and makes the requests of a run.

``one_call`` runs one call of a tool, ``round`` the calls of one turn, to exactly one result each, ``run`` makes the
rounds of a run. ``durable`` has runs as data: the entries that are stored, their replay, the state of a run that was
left. ``shared`` queues the calls of several turns. Imports point in this order: run, durable, shared, round, one_call.

All of it works on asyncio and trio. Whatever decides about streams must be in the pure packages below, not here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from streamkit.calls import Ended
from streamkit.execution.durable.entries import (
    ApprovalEntry,
    RequestEntry,
    ResponseEntry,
    ResultEntry,
    RunEntry,
    parse_entry,
)
from streamkit.execution.durable.recorder import Checkpoint
from streamkit.execution.durable.state import AnsweredState, RunState
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
    execute_tool_calls_batched,
    execute_tool_calls_sequentially,
)
from streamkit.execution.round.round import Round
from streamkit.execution.round.shared_schedule import Schedule
from streamkit.execution.round.thread_update import ThreadUpdate
from streamkit.execution.run.budget import Budget
from streamkit.execution.run.loop import run_loop
from streamkit.execution.run.options import Retries, TurnOptions
from streamkit.execution.run.run import Run
from streamkit.reading.stream_reader import StreamReader, read
from streamkit.reading.time_limits import Timeouts

if TYPE_CHECKING:
    from streamkit.execution.run.notifications import Notifier, ToolNotification
    from streamkit.execution.shared import EndedStream, QueuedCall, SharedAccumulator

__all__ = [
    "AnsweredState",
    "ApprovalEntry",
    "Approve",
    "AroundCall",
    "BeforeFollowUp",
    "Budget",
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
    "Retries",
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

_LAZY_IMPORTS = {  # few programs use them
    "EndedStream": "shared",
    "Notifier": "run.notifications",
    "QueuedCall": "shared",
    "SharedAccumulator": "shared",
    "ToolNotification": "run.notifications",
}


def __getattr__(name: str) -> Any:
    module = _LAZY_IMPORTS.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    return value


def __dir__() -> list[str]:
    """List the lazily loaded names too."""
    return sorted(set(globals()) | set(__all__))
