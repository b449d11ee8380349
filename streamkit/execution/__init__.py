"""The asynchronous shell: read the next piece, run a tool, ask again.

Of one turn: ``read`` feeds it; ``rounds`` is where its calls are, ``schedule`` which may begin, ``early`` which of them
even before the turn is over, ``formatting`` what the thread gains (all pure). ``calling`` runs one tool, ``threads`` a
synchronous one, ``executing`` all of them, in a task of its own (``background``); ``executors`` are the functions for
it. ``shared`` hands over the calls of many turns; ``notifications`` says what happens in words for people (pure).

Of a whole run: ``context`` is what a request is made from, ``retrying`` when it is made again, ``breaker`` when
failures repeat, ``state`` a paused run as data (all pure). ``asking`` makes a request, ``conversation`` is the order of
things, ``loop`` how a run is begun, watched, left and resumed.

Everything works on asyncio and trio. What decides anything about streams is not here but in the pure rooms below.
"""

from __future__ import annotations

from streamkit.execution.context import RoundContext, finalize_tool_execution
from streamkit.execution.execution import Execution
from streamkit.execution.executor import execute_tool_calls_batched, execute_tool_calls_sequentially
from streamkit.execution.loop import Run, run_loop
from streamkit.execution.loop_state import Ended
from streamkit.execution.notifications import Notifier, ToolNotification
from streamkit.execution.round import Round
from streamkit.execution.run_tool import execute_one_tool
from streamkit.execution.scheduler import Schedule
from streamkit.execution.shared import QueuedCall, SharedAccumulator
from streamkit.execution.state import RunState
from streamkit.execution.thread_update import ThreadUpdate
from streamkit.stream_reader import StreamReader, read

__all__ = [
    "Ended",
    "Execution",
    "QueuedCall",
    "Notifier",
    "StreamReader",
    "Round",
    "RoundContext",
    "Run",
    "RunState",
    "Schedule",
    "SharedAccumulator",
    "ThreadUpdate",
    "ToolNotification",
    "execute_one_tool",
    "execute_tool_calls_batched",
    "execute_tool_calls_sequentially",
    "finalize_tool_execution",
    "read",
    "run_loop",
]
