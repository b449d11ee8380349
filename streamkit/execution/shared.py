"""One queue of completed calls for several streams: streams in one set of tasks, workers in another.

A stream arrives as a source (``read``), as a turn (``enqueue``), or as the chunks of a parser of one's own (``put`` and
``end``). All three use what every stream uses: an ``Accumulator`` makes the calls, a ``Round`` decides what a call's
result means. Reading costs no more than alone: a chunk is accumulated and its events are returned, and nothing is
awaited for it. Only the end of a stream waits, if the queue is full; this is how slow workers slow the streams. This
module must not run tools: the workers do.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias
from weakref import WeakSet

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from streamkit import providers
from streamkit.accumulator import Accumulator, process_tool_call_chunk
from streamkit.calls import StreamError, ToolCall, ToolResult
from streamkit.errors import UnknownProvider, UsageError
from streamkit.events import NormalizedToolChunk, TurnEvent
from streamkit.execution.one_call.prepare import reason_to_block
from streamkit.execution.round.round import Round
from streamkit.execution.round.thread_update import FormatCallbacks, Messages, ThreadLayout, ThreadUpdate, check_layout
from streamkit.providers.provider import Provider
from streamkit.providers.registry import ProviderName
from streamkit.reading.source import Source
from streamkit.reading.source_failure import to_turn_error
from streamkit.reading.stream_reader import TurnReading
from streamkit.reading.turn import Turn

__all__ = ["MOST_ENDED_NAMES", "EndedStream", "QueuedCall", "RunsCalls", "SharedAccumulator", "Stream"]

#: One of several streams: a turn, or the name or accumulator of a stream of chunks.
Stream: TypeAlias = Turn | str | Accumulator

#: How many names of ended streams are remembered. A server that runs for months must not keep the name of every stream.
MOST_ENDED_NAMES = 4096


class QueuedCall:
    """A completed call that may run, and the stream that it came from.

    Attributes:
        call: the call; for its stream's round it has started.
        turn: its turn, which is closed; None for a stream of chunks.
        stream: the name or accumulator of a stream of chunks, as passed to ``put``; None for a turn.
    """

    __slots__ = ("_position", "_round", "call", "stream", "turn")

    def __init__(self, round: Round, position: int, stream: str | Accumulator | None) -> None:
        self.call: ToolCall = round.calls[position]
        self.turn: Turn | None = round.turn
        self.stream: str | Accumulator | None = stream
        self._round = round
        self._position = position

    def set_result(self, result: ToolResult) -> ThreadUpdate | None:
        """Report the call's result, which ``execute_one_tool`` returns.

        Returns:
            For the last call of its stream, what the stream adds to the conversation; else None.

        Raises:
            UsageError: the call has its result, or the result is another call's.
        """
        self._round.set_result(self._position, result)
        return None if self._round.open_positions else self._round.update()


class RunsCalls(Protocol):
    """What runs the calls of all streams in place of workers (``SharedExecution``)."""

    @property
    def layout(self) -> ThreadLayout:
        """The layout of each stream's calls and results."""

    async def add(self, calls: Round, stream: Stream) -> None:
        """Add the calls of a stream that has ended, and wait while too many calls wait."""

    def close(self) -> None:
        """Declare that no stream follows."""


@dataclass(frozen=True, slots=True)
class EndedStream:
    """The end of a stream of chunks.

    Attributes:
        events: the last events of the stream: its calls end and are ready.
        calls: its calls in order, in their final state; the executable ones are in the queue.
        update: what the stream adds to the conversation, if none of its calls may run and workers run the others; else
            None.
    """

    events: list[TurnEvent]
    calls: list[ToolCall]
    update: ThreadUpdate | None


class SharedAccumulator:
    """A queue of the completed calls of several streams, for any number of workers.

    Each stream is read in a task of its own, which gets its events; its calls are put into the queue as soon as it has
    ended, while other streams continue::

        async def stream(turn, source):
            async for event in shared.read(turn, source):
                show(event)

        async def stream_of_my_own(name, chunks):
            async for chunk in chunks:  # of NormalizedToolChunk
                for event in shared.put(chunk, stream=name):
                    show(event)
            await shared.end(name)

        async def work():
            async for queued in shared:
                result = await execute_one_tool(queued.call, tools=tools, turn=queued.turn)
                update = queued.set_result(result)  # of the stream's last call; else None

        with SharedAccumulator() as shared:
            async with anyio.create_task_group() as workers:
                workers.start_soon(work)
                async with anyio.create_task_group() as streams:
                    for turn, source in sources:
                        streams.start_soon(stream, turn, source)
                    streams.start_soon(stream_of_my_own, "turn-3", chunks)
                shared.close()

    Only calls of a confirmed stream are put into the queue, never one of a stream that may still fail. (To run calls of
    safe tools earlier, see ``Execution.feed``.) ``execute_tool_calls_batched(shared, ...)`` runs the calls without
    workers of your own.

    Args:
        capacity: how many calls may wait for a worker, or a place, before the streams wait; at least 1.
        shape: the layout of each stream's calls and results, if workers run the calls; else it is the executor's.
        provider: the provider of the streams of chunks that have a name: a part of their calls' ids, and the format of
            their messages. Without it an accumulator's provider is used, if it is a registered one.
        format_tool_call_for_thread: ``(call, arguments)`` to the assistant message of one call.
        format_tool_result_for_thread: ``(result, call, arguments)`` to the message of one ``ToolResult``.
        format_batch_for_thread: ``(completed)``, the ``ToolResult`` list in call order, to all messages. The callbacks
            replace the provider's format. With neither, an update has no messages; ``render`` its contents.

    Raises:
        UsageError: the capacity is below 1, or there is no such layout or provider.
    """

    def __init__(
        self,
        capacity: int = 64,
        *,
        shape: ThreadLayout = "batched",
        provider: ProviderName | str | Provider | None = None,
        format_tool_call_for_thread: Callable[[ToolCall, Any], Messages] | None = None,
        format_tool_result_for_thread: Callable[[ToolResult, ToolCall, Any], Messages] | None = None,
        format_batch_for_thread: Callable[[list[ToolResult]], Messages] | None = None,
    ) -> None:
        if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 1:
            raise UsageError(f"capacity must be the number of calls that may wait, at least 1, not {capacity!r}")
        check_layout(shape)
        self.capacity = capacity
        self._layout: ThreadLayout = shape
        self._execution: RunsCalls | None = None
        self._provider = None if provider is None else providers.get(provider)
        self._callbacks = FormatCallbacks(
            format_tool_call_for_thread, format_tool_result_for_thread, format_batch_for_thread
        )
        self._send: MemoryObjectSendStream[QueuedCall]
        self._receive: MemoryObjectReceiveStream[QueuedCall]
        self._send, self._receive = anyio.create_memory_object_stream(capacity)
        self._reading = 0  # streams that have not ended
        self._streams: dict[str | Accumulator, Accumulator] = {}  # those of chunks
        self._ended_names: dict[str, None] = {}  # the latest, in order: a late chunk is no new stream
        self._ended: WeakSet[Accumulator] = WeakSet()
        self._closed = False
        self._is_left = False
        self._has_queued = False

    # ---------------------------------------------------------------- turns

    async def read(self, turn: Turn, source: Any) -> AsyncGenerator[TurnEvent, None]:
        """Yield the events of a stream, as ``streamkit.read`` does; at its end put its calls into the queue.

        A failed turn has no calls to put, nor has one that is left early (by ``contextlib.aclosing``).

        Raises:
            UsageError: this object was closed.
        """
        self._check_open("stream")
        self._reading += 1
        try:
            async with aclosing(TurnReading(turn, Source(turn, source)).batches()) as batches:
                async for events in batches:
                    for event in events:
                        yield event
            await self._enqueue(self._create_round(turn), turn)
        finally:
            self._reading -= 1
            self._close_if_done()

    async def enqueue(self, turn: Turn) -> ThreadUpdate | None:
        """Put the calls of a turn into the queue that a loop of your own has fed and closed.

        Returns:
            What the turn adds to the conversation, if none of its calls may run and workers run the others; else None.

        Raises:
            UsageError: the turn is open, or this object was closed.
        """
        self._check_open("turn")
        return await self._enqueue(self._create_round(turn), turn)

    # ---------------------------------------------------------------- chunks

    def put(self, chunk: NormalizedToolChunk, *, stream: str | Accumulator) -> list[TurnEvent]:
        """Accumulate the next delta of a stream; its first one adds the stream. Nothing is awaited.

        Args:
            chunk: the delta.
            stream: the name of the stream, which is unique and is the turn key of its calls' ids; or an ``Accumulator``
                of your own, with the provider's name, the facts about its wire (``WireTraits``) and limits.

        Returns:
            The events that the delta caused, in order.

        Raises:
            UsageError: the stream has ended (it is one of the last 4,096 with a name); it is a new one and this object
                was closed; or the delta is no ``NormalizedToolChunk``, or a field of it has another type.
        """
        return process_tool_call_chunk(chunk, self._accumulator(stream))

    async def end(self, stream: str | Accumulator, error: BaseException | StreamError | None = None) -> EndedStream:
        """End a stream of chunks, and put its complete calls into the queue. Every stream must be ended.

        Args:
            stream: as passed to ``put``; also one that had no chunk, because its response called no tool.
            error: what ended the stream too early; its calls then get ``canceled`` results and none is queued.

        Raises:
            UsageError: the stream has ended; or it had no chunk and this object was closed; or this object was left.
        """
        calls = self._accumulator(stream)
        failure = to_turn_error(error) if isinstance(error, BaseException) else error
        calls.state.has_started = True  # as in put: the caller reads the response, so its start is no news
        calls.close(complete=failure is None, failure=failure)
        events = calls.events[:]
        calls.events.clear()
        del self._streams[stream]
        if isinstance(stream, Accumulator):
            self._ended.add(stream)
        else:
            self._ended_names[stream] = None
            if len(self._ended_names) > MOST_ENDED_NAMES:
                del self._ended_names[next(iter(self._ended_names))]
        try:
            update = await self._enqueue(self._create_round(calls), stream)
        finally:
            self._reading -= 1
            self._close_if_done()
        return EndedStream(events, calls.calls, update)

    def _accumulator(self, stream: str | Accumulator) -> Accumulator:
        """Return the accumulator of a stream; add the stream if it is a new one."""
        if not isinstance(stream, (str, Accumulator)):
            raise UsageError(f"stream must be a name or an Accumulator, not {stream!r}")
        calls = self._streams.get(stream)
        if calls is not None:
            return calls
        if stream in self._ended_names or stream in self._ended:
            raise UsageError("the stream has ended: give the next stream a name or an Accumulator of its own")
        self._check_open("stream")
        if isinstance(stream, Accumulator):
            calls = stream
        elif self._provider is None:
            calls = Accumulator("", turn_key=stream)
        else:
            calls = Accumulator(self._provider.name, self._provider.traits, turn_key=stream)
        self._streams[stream] = calls
        self._reading += 1
        return calls

    # ---------------------------------------------------------------- the queue

    def _check_open(self, added: str) -> None:
        if self._closed:
            raise UsageError(f"the shared accumulator was closed: no {added} can be added")

    def _create_round(self, ended: Turn | Accumulator) -> Round:
        if isinstance(ended, Turn):
            return Round(ended, shape=self._layout, callbacks=self._callbacks)
        provider, callbacks = self._provider or _registered(ended.state.provider_name), self._callbacks
        if provider is None and not callbacks.is_complete:
            callbacks = _NO_MESSAGES
        choice, blocked = ended.turn_choice, {}
        if not choice.executable:
            reason = f"Not run: {reason_to_block(ended.error, choice.effective_finish)}."
            blocked = dict.fromkeys([call.id for call in ended.calls], reason)
        return Round(
            ended.calls,
            provider=provider,
            shape=self._layout,
            callbacks=callbacks,
            blocked=blocked,
            origin=ended.state.origin,
        )

    def hand_over_to(self, execution: RunsCalls) -> None:
        """Have an execution run the calls of all streams, in place of workers.

        Raises:
            UsageError: another one does, or a stream has ended before.
        """
        if self._execution is not None:
            raise UsageError("the calls of this shared accumulator are run by another execution")
        if self._has_queued:
            raise UsageError("calls are in the queue for workers: create the execution before the first stream ends")
        self._execution = execution
        self._layout = execution.layout
        self._send.close()  # the queue for workers is not needed, and anyio warns of one that is left open
        self._receive.close()
        self._close_if_done()

    async def _enqueue(self, calls: Round, stream: Stream) -> ThreadUpdate | None:
        if self._execution is not None:
            if self._is_left:
                raise UsageError("the shared accumulator was left before the stream had ended")
            await self._execution.add(calls, stream)
            return None
        self._has_queued = True
        waiting = calls.open_positions
        if not waiting:
            return calls.update()
        for position in waiting:
            calls.start(position)
        try:
            for position in waiting:
                name = None if isinstance(stream, Turn) else stream
                await self._send.send(QueuedCall(calls, position, name))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise UsageError("the shared accumulator was left while calls waited for a place in the queue") from None
        return None

    def __enter__(self) -> SharedAccumulator:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = self._is_left = True
        self._send.close()
        self._receive.close()
        if self._execution is not None:
            self._execution.close()

    def close(self) -> None:
        """Declare that no stream follows. The workers' loops end when all streams have ended and the queue is empty."""
        self._closed = True
        self._close_if_done()

    def _close_if_done(self) -> None:
        if self._closed and not self._reading:
            self._send.close()
            if self._execution is not None:
                self._execution.close()

    def __aiter__(self) -> SharedAccumulator:
        return self

    async def __anext__(self) -> QueuedCall:
        if self._execution is not None:
            raise UsageError("an execution runs the calls of this shared accumulator: iterate over that")
        try:
            return await self._receive.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            raise StopAsyncIteration from None


def _registered(name: str) -> Provider | None:
    """Return the provider of that name, or None if there is none: the name of an accumulator is the caller's own."""
    try:
        return providers.get(name)
    except UnknownProvider:
        return None


_NO_MESSAGES = FormatCallbacks(batch=lambda _: [])
