"""Several streams, one hand-off of completed calls: streams in one set of tasks, workers in another.

Reading costs what it costs alone: a chunk is fed and its events are given on, and nothing is awaited for it. Only a
turn that is over waits, and only where the hand-off is full, which is how slow workers slow the streams. What a call's
result means for its turn is ``rounds``'; running tools is the workers'.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from streamkit.calls import ToolCall, ToolResult
from streamkit.errors import UsageError
from streamkit.events import Event
from streamkit.execution.round import Round
from streamkit.execution.thread_update import ThreadLayout, ThreadUpdate, check_layout
from streamkit.stream_reader import Source, event_batches
from streamkit.turn import Turn

__all__ = ["QueuedCall", "SharedAccumulator"]


class QueuedCall:
    """A completed call that may run, and the turn that made it.

    Attributes:
        call: the call; it counts as begun.
        turn: its turn, which is closed.
    """

    __slots__ = ("_position", "_round", "call", "turn")

    def __init__(self, made: Round, position: int, turn: Turn) -> None:
        self.call: ToolCall = made.calls[position]
        self.turn = turn
        self._round = made
        self._position = position

    def set_result(self, result: ToolResult) -> ThreadUpdate | None:
        """Give what came of it (``execute_one_tool`` gives that). The turn's last one gives what the thread gains.

        Raises:
            UsageError: it has its result, or this is another call's.
        """
        self._round.set_result(self._position, result)
        return None if self._round.open_positions else self._round.update()


class SharedAccumulator:
    """Gathers the completed calls of several streams for any number of workers.

    Each stream is read in a task of its own, and gives its own events there; its turn's calls go to the hand-off as
    soon as it is over, while the other streams go on::

        async def stream(turn, source):
            async for event in shared.read(turn, source):
                show(event)

        async def work():
            async for handed in shared:
                result = await execute_one_tool(handed.call, tools=tools, turn=handed.turn)
                update = handed.settle(result)  # of the turn's last call; else None

        with SharedAccumulator() as shared:
            async with anyio.create_task_group() as workers:
                workers.start_soon(work)
                async with anyio.create_task_group() as streams:
                    for turn, source in sources:
                        streams.start_soon(stream, turn, source)
                shared.close()

    Only calls of a turn that is confirmed are handed over, never one of a stream that may still fail. (To run calls of
    safe tools earlier, see ``Execution.advance``; to run the calls of several turns under one limit without workers of
    one's own, give their executions one ``Schedule``.)

    Args:
        capacity: how many calls may wait for a worker before the streams wait; at least 1.
        shape: how each turn's calls and results are laid out.

    Raises:
        UsageError: the capacity is below 1.
    """

    def __init__(self, capacity: int = 64, *, shape: ThreadLayout = "batched") -> None:
        if capacity < 1:
            raise UsageError(f"capacity is how many calls may wait for a worker, at least 1, not {capacity!r}")
        check_layout(shape)
        self._shape: ThreadLayout = shape
        self._send: MemoryObjectSendStream[QueuedCall]
        self._receive: MemoryObjectReceiveStream[QueuedCall]
        self._send, self._receive = anyio.create_memory_object_stream(capacity)
        self._reading = 0
        self._closed = False

    async def read(self, turn: Turn, source: Any) -> AsyncGenerator[Event, None]:
        """The events of a stream, as ``streamkit.read`` gives them; at its end its calls are handed over.

        A turn that failed hands over nothing, nor does one that is left early (by ``contextlib.aclosing``).

        Raises:
            UsageError: it was closed.
        """
        if self._closed:
            raise UsageError("the shared accumulator was closed: no stream can be added")
        self._reading += 1
        try:
            async with aclosing(event_batches(turn, Source(turn, source))) as lists:
                async for events in lists:
                    for event in events:
                        yield event
            await self._hand_over(turn)
        finally:
            self._reading -= 1
            self._end_if_over()

    async def enqueue(self, turn: Turn) -> ThreadUpdate | None:
        """The same for a turn that was fed and closed by a loop of one's own.

        Returns:
            What the thread gains, where no call of the turn may run, and so none was handed over; else None.

        Raises:
            UsageError: the turn is not closed, or this was.
        """
        if self._closed:
            raise UsageError("the shared accumulator was closed: no turn can be added")
        return await self._hand_over(turn)

    async def _hand_over(self, turn: Turn) -> ThreadUpdate | None:
        made = Round(turn, shape=self._shape)
        waiting = made.open_positions
        if not waiting:
            return made.update()
        for position in waiting:
            made.start(position)
        try:
            for position in waiting:
                await self._send.send(QueuedCall(made, position, turn))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise UsageError("the shared accumulator was left while calls waited to be handed over") from None
        return None

    def __enter__(self) -> SharedAccumulator:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self._send.close()
        self._receive.close()

    def close(self) -> None:
        """No stream will be added: when those that are read have ended, and all is handed over, workers' loops end."""
        self._closed = True
        self._end_if_over()

    def _end_if_over(self) -> None:
        if self._closed and not self._reading:
            self._send.close()

    def __aiter__(self) -> SharedAccumulator:
        return self

    async def __anext__(self) -> QueuedCall:
        try:
            return await self._receive.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            raise StopAsyncIteration from None
