"""``Run``: how a run is watched, left and resumed, and what it has done.

``loop_rounds`` makes the rounds. This module ensures that a run can be left at any moment, from any task, with
everything ended that was started. It must not depend on what happens in a round.
"""

from __future__ import annotations

import warnings
from collections.abc import AsyncGenerator, Awaitable, Generator
from types import TracebackType
from typing import (
    Any,
    Generic,
    Self,  # a dependency of pydantic; typing's has no default before 3.13
)

import anyio
from typing_extensions import TypeVar

from streamkit.calls import Ended, StreamWarning, ToolCall, ToolResult, Usage
from streamkit.errors import UsageError
from streamkit.events import Event
from streamkit.execution.durable.state import RunState
from streamkit.execution.one_call.background import is_event_loop_running
from streamkit.execution.round.scheduler import OccupiedPlace
from streamkit.execution.run.batches import BatchReader
from streamkit.execution.run.loop_rounds import run_rounds
from streamkit.execution.run.loop_state import LoopState
from streamkit.history import Content
from streamkit.reading.turn import Turn

__all__ = ["Out", "Run"]

#: The type of the structured output.
Out = TypeVar("Out", default=Any)


class Run(Generic[Out]):
    """One run of the loop, with an output of the type that was passed. It is used once: awaited, or entered.

    Leaving the block early closes the stream, cancels the running tools, and waits for both.
    """

    # False while neither use nor an error has shown the caller what to do. ``__del__`` is also called if the
    # constructor raises, so the class has it too.
    _is_noticed = True

    def __init__(self, state: LoopState) -> None:
        self._state = state
        self._events: AsyncGenerator[Event, None] | None = None
        self._is_used = self._is_noticed = False
        self._reader = BatchReader(run_rounds(state), state.last_events)

    def __del__(self) -> None:
        if not self._is_noticed:
            message = "run_loop(...) was never awaited: await the run, or enter it with async with"
            warnings.warn(message, RuntimeWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        return f"<Run {self.run_key!r} rounds={self.rounds} ended={self.ended!r}>"

    # ---------------------------------------------------------------- results

    @property
    def run_key(self) -> str:
        """The stable name of the run."""
        return self._state.run_key

    @property
    def ended(self) -> Ended | None:
        """Why it ended; None before."""
        return self._state.ended

    @property
    def rounds(self) -> int:
        """How many rounds were started."""
        return self._state.rounds

    @property
    def turn(self) -> Turn | None:
        """The turn that is read, or was read last; after a failure, all that was received."""
        return self._state.turn

    @property
    def text(self) -> str:
        """The text of the last round so far."""
        return self._state.text

    @property
    def output(self) -> Out | None:
        """The structured output, of the type that was passed as ``output``; None before it is there."""
        output: Out | None = self._state.output
        return output

    @property
    def usage(self) -> Usage | None:
        """The sum of the tokens of all requests; None if no provider reported any. ``raw`` is the list of reports."""
        return Usage.sum(self._state.usage_reports)

    @property
    def cost(self) -> float:
        """What the turns have cost by ``Budget.price``; 0 without it."""
        return self._state.cost

    @property
    def contents(self) -> list[Content]:
        """The contents that the run added; every call in it has its result, at any moment. Append it to your store."""
        return list(self._state.contents)

    @property
    def results(self) -> list[ToolResult]:
        """The result of every call of the run, in call order, with its call (``result.call``), also if it did not run.

        Of a resumed run: those since then, and those of the round in which it was left.
        """
        return list(self._state.results)

    @property
    def history(self) -> list[Content]:
        """The ``history`` argument (nothing for a run with a ``thread``), and the contents that the run added."""
        return list(self._state.context.contents)

    @property
    def thread(self) -> list[dict[str, Any]]:
        """The complete conversation as the provider's own messages."""
        return list(self._state.context.thread)

    @property
    def pending(self) -> list[ToolCall]:
        """The calls that await approval or their results, of a run that ended so (docs/rules.md, "Approval")."""
        return list(self._state.pending)

    @property
    def state(self) -> RunState | None:
        """What a run that ended ``awaiting_approval`` or ``awaiting_results`` is resumed from; else None."""
        return self._state.state

    @property
    def warnings(self) -> list[StreamWarning]:
        """All irregularities: of every turn, of requests and rendering, and of running the tools."""
        return list(self._state.warnings)

    # ---------------------------------------------------------------- use

    def __await__(self) -> Generator[Any, Any, Self]:
        return self._run_unwatched().__await__()

    async def _run_unwatched(self) -> Self:
        async with self:
            async for _ in self:
                pass
        return self

    async def __aenter__(self) -> Self:
        if self._is_used:
            raise UsageError("a run is used once: create a new one")
        self._is_used = self._is_noticed = True
        OccupiedPlace.check_outside_of(self._state.schedule)
        self._events = self._reader.events()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def run_sync(self) -> Self:
        """Run it in a new event loop, and return the run when it has ended.

        Raises:
            UsageError: an event loop is running here; await the run instead.
            StreamInterrupted: as for ``run_loop``.
        """
        if is_event_loop_running():
            self._is_noticed = True
            raise UsageError("an event loop is running here: await the run instead of run_sync()")
        return anyio.run(self._run_unwatched)

    def cancel(self) -> None:
        """End the run from any task or thread, as a stop button does; its reader's loop ends without an exception.

        It returns at once. The stream is closed, tools are canceled, every call gets its result, and the last event is
        a ``RunEnded`` with ``canceled``. A run that has ended stays as it is; one that has not started makes no
        request.
        """
        self._reader.cancel()

    async def aclose(self) -> None:
        """Close the stream and cancel the tools, and wait for the end of both. Idempotent."""
        await self._reader.aclose()
        if self._events is not None:
            await self._events.aclose()
        self._state.ended = self.ended or "canceled"

    def __aiter__(self) -> AsyncGenerator[Event, None]:
        # The generator itself: no further coroutine per event.
        if self._events is None:
            self._is_noticed = True
            raise UsageError("iterate inside the block: async with run_loop(...) as run: async for event in run")
        if self._reader.is_exhausted:
            raise UsageError("the events of this run were read: they arrive once; run.contents has what they added")
        return self._events

    def __anext__(self) -> Awaitable[Event]:
        return (aiter(self) if self._events is None else self._events).__anext__()
