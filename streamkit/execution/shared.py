"""One queue of completed calls for several streams: streams in one set of tasks, workers in another.

Reading a stream costs no more than alone: a chunk is fed and its events are yielded, and nothing is awaited for it.
Only a turn that has ended waits, if the queue is full; this is how slow workers slow the streams. ``round`` decides
what a call's result means for its turn. This module must not run tools: the workers do.
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
from streamkit.source import Source
from streamkit.stream_reader import event_batches
from streamkit.turn import Turn

__all__ = ["QueuedCall", "SharedAccumulator"]


class QueuedCall:
    """A completed call that may run, and the turn that made it.

    Attributes:
        call: the call; for its turn's round it has started.
        turn: its turn, which is closed.
    """

    __slots__ = ("_position", "_round", "call", "turn")

    def __init__(self, round: Round, position: int, turn: Turn) -> None:
        self.call: ToolCall = round.calls[position]
        self.turn = turn
        self._round = round
        self._position = position

    def set_result(self, result: ToolResult) -> ThreadUpdate | None:
        """Report the call's result, which ``execute_one_tool`` returns.

        Returns:
            For the last call of its turn, what the turn adds to the conversation; else None.

        Raises:
            UsageError: the call has its result, or the result is another call's.
        """
        self._round.set_result(self._position, result)
        return None if self._round.open_positions else self._round.update()


class SharedAccumulator:
    """A queue of the completed calls of several streams, for any number of workers.

    Each stream is read in a task of its own, which gets its events; its turn's calls are put into the queue as soon as
    it has ended, while other streams continue::

        async def stream(turn, source):
            async for event in shared.read(turn, source):
                show(event)

        async def work():
            async for queued in shared:
                result = await execute_one_tool(queued.call, tools=tools, turn=queued.turn)
                update = queued.set_result(result)  # of the turn's last call; else None

        with SharedAccumulator() as shared:
            async with anyio.create_task_group() as workers:
                workers.start_soon(work)
                async with anyio.create_task_group() as streams:
                    for turn, source in sources:
                        streams.start_soon(stream, turn, source)
                shared.close()

    Only calls of a confirmed turn are put into the queue, never one of a stream that may still fail. (To run calls of
    safe tools earlier, see ``Execution.feed``; to run the calls of several turns under one limit without workers of
    your own, pass one ``Schedule`` to their executions.)

    Args:
        capacity: how many calls may wait for a worker before the streams wait; at least 1.
        shape: the layout of each turn's calls and results.

    Raises:
        UsageError: the capacity is below 1.
    """

    def __init__(self, capacity: int = 64, *, shape: ThreadLayout = "batched") -> None:
        if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 1:
            raise UsageError(f"capacity must be the number of calls that may wait, at least 1, not {capacity!r}")
        check_layout(shape)
        self._layout: ThreadLayout = shape
        self._send: MemoryObjectSendStream[QueuedCall]
        self._receive: MemoryObjectReceiveStream[QueuedCall]
        self._send, self._receive = anyio.create_memory_object_stream(capacity)
        self._reading = 0
        self._closed = False

    async def read(self, turn: Turn, source: Any) -> AsyncGenerator[Event, None]:
        """Yield the events of a stream, as ``streamkit.read`` does; at its end put its calls into the queue.

        A failed turn has no calls to put, nor has one that is left early (by ``contextlib.aclosing``).

        Raises:
            UsageError: this object was closed.
        """
        if self._closed:
            raise UsageError("the shared accumulator was closed: no stream can be added")
        self._reading += 1
        try:
            async with aclosing(event_batches(turn, Source(turn, source))) as batches:
                async for events in batches:
                    for event in events:
                        yield event
            await self._enqueue(turn)
        finally:
            self._reading -= 1
            self._close_if_done()

    async def enqueue(self, turn: Turn) -> ThreadUpdate | None:
        """Put the calls of a turn into the queue that a loop of your own has fed and closed.

        Returns:
            What the turn adds to the conversation, if none of its calls may run; else None.

        Raises:
            UsageError: the turn is open, or this object was closed.
        """
        if self._closed:
            raise UsageError("the shared accumulator was closed: no turn can be added")
        return await self._enqueue(turn)

    async def _enqueue(self, turn: Turn) -> ThreadUpdate | None:
        calls = Round(turn, shape=self._layout)
        waiting = calls.open_positions
        if not waiting:
            return calls.update()
        for position in waiting:
            calls.start(position)
        try:
            for position in waiting:
                await self._send.send(QueuedCall(calls, position, turn))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise UsageError("the shared accumulator was left while calls waited for a place in the queue") from None
        return None

    def __enter__(self) -> SharedAccumulator:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self._send.close()
        self._receive.close()

    def close(self) -> None:
        """Declare that no stream follows. The workers' loops end when all streams have ended and the queue is empty."""
        self._closed = True
        self._close_if_done()

    def _close_if_done(self) -> None:
        if self._closed and not self._reading:
            self._send.close()

    def __aiter__(self) -> SharedAccumulator:
        return self

    async def __anext__(self) -> QueuedCall:
        try:
            return await self._receive.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            raise StopAsyncIteration from None
