"""How the calls of a round are run, checked when it is put together. Pure.

``ExecutionOptions`` is one value instead of the same parameters in every signature. The public functions have keywords
of their own and describe them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct, field

from streamkit.calls import ToolResult
from streamkit.errors import UsageError
from streamkit.execution.one_call.attempt import AroundCall
from streamkit.execution.one_call.prepare import Approve
from streamkit.execution.round.scheduler import Scheduler
from streamkit.execution.round.thread_update import ThreadLayout, check_layout
from streamkit.reading.time_limits import check_seconds
from streamkit.tools import Approval, Tool

__all__ = ["ExecutionOptions", "ResultRecorder", "check_callable"]


class ResultRecorder(Protocol):
    """What stores decisions and results of calls before they have an effect (``durable.recorder.Recorder``)."""

    async def approvals(self, approvals: Mapping[str, Approval | bool]) -> None:
        """Record decisions on calls, by the call's id, before the calls run."""
        ...

    async def result(self, result: ToolResult) -> None:
        """Record the result of a call, unless it is recorded."""
        ...


class ExecutionOptions(Struct, frozen=True):
    """How the calls of a round are run.

    Attributes:
        tools: by name.
        schedule: the limits, possibly shared with other executions.
        layout: ``sequential`` runs each call alone, in call order.
        timeout: seconds for each call; None for no limit.
        run_timeout: seconds for all of them; of the loop's options, for the complete run.
        deps: the tools' ``ToolContext.deps``.
        approve: called for tools with ``approval="ask"``.
        around_call: called instead of each tool, with the function that calls the tool.
        recorder: gets approvals and results before they have an effect; None if the run is not recorded.

    Raises:
        UsageError: a number of seconds is not above 0, a function is none, or the layout is unknown.
    """

    tools: Mapping[str, Tool]
    schedule: Scheduler = field(default_factory=Scheduler)
    layout: ThreadLayout = "batched"
    timeout: float | None = 30.0
    run_timeout: float | None = None
    deps: Any = None
    approve: Approve | None = None
    around_call: AroundCall | None = None
    recorder: ResultRecorder | None = None

    def __post_init__(self) -> None:
        check_layout(self.layout)
        check_seconds("timeout", self.timeout)
        check_seconds("run_timeout", self.run_timeout)
        check_callable("approve", self.approve)
        check_callable("around_call", self.around_call)

    def __repr__(self) -> str:
        # A log must not contain ``deps`` (keys, connections).
        return f"<ExecutionOptions layout={self.layout!r} tools={list(self.tools)}>"


def check_callable(name: str, function: object) -> None:
    """Check that an option is a function or None.

    Raises:
        UsageError: it is something else.
    """
    if function is not None and not callable(function):
        raise UsageError(f"{name} must be a function, not {function!r}")
