"""Observers of a run, of its requests and of its calls, for traces.

A run without an observer calls nothing of this, and one with an observer calls nothing for a chunk. The methods are
called in the task that does the work, so they must not wait. What they raise ends the run.

``start_call`` is called in the task that a call has for itself, which its end is in, too: context variables that it
sets are those of the tool, also in the thread of a synchronous one. A request shares the task of its reader, who has
control between two events. So ``ObservedRequest.current`` is entered around each part of its opening, and left again.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

from streamkit.events import RunEnded
from streamkit.execution.one_call.attempt import CallObserver
from streamkit.execution.round.context import RoundContext
from streamkit.reading.turn import Turn

__all__ = ["ObservedRequest", "ObservedRun", "RunObserver"]


class ObservedRequest(Protocol):
    """A request with all of its attempts: the same context, requested of one provider."""

    def current(self) -> AbstractContextManager[object]:
        """Return the context in which an attempt is opened, and waited for until its first chunk."""

    def begin_response(self) -> None:
        """Take the arrival of an attempt's first chunk, which is no error."""

    def end(self, turn: Turn, error: BaseException | None) -> None:
        """Take the end: the turn of the last attempt, closed, and what was raised in place of an end, or by leaving."""


class ObservedRun(CallObserver, Protocol):
    """One run, with its calls."""

    def start_request(self, context: RoundContext) -> ObservedRequest:
        """Take the start of a request that is made from a context."""

    def end(self, ended: RunEnded, error: Exception | None) -> None:
        """Take the end of the run, and the exception that it ends in."""


class RunObserver(Protocol):
    """Observes runs, any number at once; see ``Run.observe``."""

    def start_run(self, context: RoundContext, run_key: str, metadata: dict[str, Any]) -> ObservedRun:
        """Take the start of a run, in the task that reads it.

        Args:
            context: of its first request.
            run_key: the name of the run.
            metadata: ``run.metadata``: what is written into it is in the state of a run that pauses, and comes back
                when that is resumed.
        """
