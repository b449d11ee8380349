"""Requests for approval of an execution's calls. People are slow: all are concurrent, and none occupies a place.

This module must not depend on what a decision means for the other calls.
"""

from __future__ import annotations

from collections.abc import Callable

from anyio.abc import TaskGroup

from streamkit.calls import ToolResult
from streamkit.execution.one_call.prepare import (
    PreparedCall,
    approval_failed_result,
    missing_approval_result,
    request_approval,
)
from streamkit.execution.round.options import ExecutionOptions
from streamkit.tools import Approval

__all__ = ["ApprovalRequests"]


class ApprovalRequests:
    """The requests of one execution.

    Args:
        options: how calls are approved, and what records that.
        may_pause: a call without a decision waits; else it is denied.
        decided: called with a call's position and the call as approved, or its result.
        failed: called with what ``approve``, the recorder or ``decided`` raised, the position and the call's result.
        ended: called when a request has ended in any way.

    Attributes:
        open: how many have not returned.
    """

    def __init__(
        self,
        options: ExecutionOptions,
        *,
        may_pause: bool,
        decided: Callable[[int, PreparedCall | ToolResult], None],
        failed: Callable[[int, ToolResult, Exception], None],
        ended: Callable[[], None],
    ) -> None:
        self._options = options
        self._may_pause = may_pause
        self._decided = decided
        self._failed = failed
        self._ended = ended
        self._to_start: list[tuple[int, PreparedCall]] = []
        self.open = 0

    def add(self, position: int, prepared: PreparedCall) -> None:
        """Add a call that needs approval, for the next ``start``."""
        self._to_start.append((position, prepared))

    def start(self, tasks: TaskGroup) -> None:
        """Start the requests that were added since the last time, each in a task of the group."""
        for position, prepared in self._to_start:
            self.open += 1
            tasks.start_soon(self._request, position, prepared)
        self._to_start.clear()

    async def _request(self, position: int, prepared: PreparedCall) -> None:
        try:
            decision = await request_approval(prepared, self._options.approve, self._options.deps)
            if decision is None and not self._may_pause:
                decision = missing_approval_result(prepared)
            if isinstance(decision, PreparedCall) and self._options.recorder is not None:
                approval = Approval(True, decision.approved_arguments)
                await self._options.recorder.approvals({prepared.call.id: approval})
            if decision is not None:
                self._decided(position, decision)
        except Exception as error:
            self._failed(position, approval_failed_result(prepared.call, error), error)
        finally:
            self.open -= 1
            self._ended()
