"""The log of a run that outlives the connections which show it: frames with offsets, for any number of readers.

``LiveRuns`` makes runs in tasks of their own, and writes what browsers are sent into the ``EventLog`` of each. A
response reads the log from any offset, now or later. Its end means nothing to the run, unless the application says so
(``left=run.cancel``); a person who stops a run makes a request of its own, which calls ``run.cancel()``.

A frame is bytes, encoded once for all readers; the log does not depend on what it means. It is in memory, within a
bound, unless a subclass keeps it elsewhere (``stored_log``). No reader slows the run or another reader.

The rules are in ``docs/rules.md``, "Logs of runs". This module must not depend on a web framework or a database.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Final
from weakref import WeakValueDictionary

import anyio
import anyio.lowlevel

from streamkit.errors import StreamInterrupted, StreamkitError, UsageError
from streamkit.events import to_json
from streamkit.execution import Run
from streamkit.execution.one_call.background import BackgroundTask
from streamkit.values.redaction import log_failure

__all__ = ["EVENT_STREAM_HEADERS", "EventLog", "FramesGone", "LiveRuns", "LogReader", "UnknownRun", "public_events"]

_log = logging.getLogger("streamkit")

#: The headers of a response of server-sent events; without the last two, caches and nginx hold it back.
EVENT_STREAM_HEADERS = {"content-type": "text/event-stream", "cache-control": "no-cache", "x-accel-buffering": "no"}
_COMMENT: Final = b":\n\n"  # of server-sent events: clients skip it, and no proxy takes the connection for dead
_IDLE_SECONDS: Final = 15.0  # html.spec.whatwg.org/multipage/server-sent-events.html, "Authoring notes"
_BATCH: Final = 256  # frames that are read or written at once
_DIGITS: Final = 18  # of an offset that a client sends
FRAME_COST: Final = 64  #: bytes of memory beside a frame
_LOG_COST: Final = 1024


class UnknownRun(StreamkitError):
    """There is no such run, or it is forgotten."""

    status: ClassVar[int] = 404  #: of the response


class FramesGone(StreamkitError):
    """The log has dropped the frame: the page loads the stored conversation.

    Attributes:
        offset: of the frame.
        first: the offset of the first frame that is kept.
    """

    status: ClassVar[int] = 410  #: of the response

    def __init__(self, offset: int, first: int) -> None:
        super().__init__(f"the frame {offset} of the log was dropped: the first one that is kept is {first}")
        self.offset = offset
        self.first = first


class EventLog:
    """The log of one run, in memory, for one event loop. One of another place overrides ``append`` and ``read``.

    Args:
        max_bytes: what is kept, with 64 bytes more for each frame; beyond that the oldest frames are dropped.
        max_frames: what is kept, in the same way.

    Attributes:
        size: the bytes that it keeps in memory.
        start: the offset of the first frame since ``LiveRuns.start`` was called for it last.
    """

    def __init__(self, *, max_bytes: int = 16 << 20, max_frames: int = 100_000) -> None:
        self.size: int = 0
        self.start: int = 0
        self._max_bytes = max_bytes
        self._max_frames = max_frames
        self._frames: list[bytes] = []
        self._first = 0  # the offset of the first one that is kept
        self._exists = self._ended = False
        self._news: anyio.Event | None = None  # readers wait for it

    async def append(self, *frames: bytes, ended: bool = False) -> int:
        """Append frames, possibly none; the first call creates the log. A log that had ended is continued.

        Args:
            *frames: the frames.
            ended: the run has ended with them.

        Returns:
            The offset that the next frame will have.
        """
        self._exists, self._ended = True, ended
        self._frames.extend(frames)
        self.size += sum(map(len, frames)) + FRAME_COST * len(frames)
        if len(self._frames) > self._max_frames or self.size > self._max_bytes:
            dropped = 0
            for frame in self._frames:
                if len(self._frames) - dropped <= 0.9 * self._max_frames and self.size <= 0.9 * self._max_bytes:
                    break  # a tenth more than necessary was dropped, because what is kept is moved
                self.size -= len(frame) + FRAME_COST
                dropped += 1
            del self._frames[:dropped]
            self._first += dropped
        self._announce()
        return self._first + len(self._frames)

    async def read(self, offset: int, *, wait: float = 0.0) -> tuple[Sequence[bytes], bool]:
        """Return frames from an offset on, not necessarily all.

        Args:
            offset: of the first frame to return.
            wait: for how many seconds to wait for a frame or the end of the run.

        Returns:
            The frames, possibly none, and whether the run has ended with them.

        Raises:
            UnknownRun: there is no such log: nothing was ever appended.
            FramesGone: the frame at the offset was dropped.
            UsageError: the offset is above that of the next frame.
        """
        if not self._exists:
            raise UnknownRun("there is no log of this run, or it is forgotten")
        if wait and not self._ended and offset == self._first + len(self._frames):
            await self._wait(wait)
        else:
            await anyio.lowlevel.checkpoint()  # one who has much to read must not keep others from reading
        if offset < self._first:
            raise FramesGone(offset, self._first)
        end = self._first + len(self._frames)
        if offset > end:
            raise UsageError(f"the log has no offset {offset}: its next frame has {end}")
        frames = self._frames[offset - self._first : offset - self._first + _BATCH]
        return frames, self._ended and offset + len(frames) == end

    def _announce(self) -> None:
        if self._news is not None:
            self._news.set()
            self._news = None

    async def _wait(self, seconds: float) -> None:
        self._news = self._news or anyio.Event()
        with anyio.move_on_after(seconds):
            await self._news.wait()

    async def follow(
        self,
        offset: int = 0,
        *,
        encode: Callable[[int, bytes], bytes] | None = None,
        idle: bytes = _COMMENT,
        left: Callable[[], object] | None = None,
    ) -> LogReader:
        """Return a reader to iterate over. What ``read`` raises, this raises before a response has begun.

        Args:
            offset: of the first frame.
            encode: ``encode(offset, frame)`` returns what is read in place of the frame.
            idle: what is read when nothing has happened for 15 seconds, possibly nothing.
            left: called if the reader leaves before the run has ended: ``run.cancel``, if the run is for it alone.
        """
        frames, ended = await self.read(offset)
        return LogReader(self, offset, encode, idle, left, is_at_end=ended and not frames)

    async def server_sent_events(
        self, last_event_id: str | None = None, *, offset: int = 0, left: Callable[[], object] | None = None
    ) -> LogReader:
        """Return a reader of server-sent events (``follow``): the id of each is its offset, its data the frame, a line.

        Args:
            last_event_id: the header ``Last-Event-ID``, after whose event the reader begins.
            offset: of the first event without that header.
            left: as for ``follow``.

        Raises:
            UsageError: the header is not an id of this log: status 400.
        """
        if last_event_id:
            if not (last_event_id.isascii() and last_event_id.isdecimal() and len(last_event_id) <= _DIGITS):
                raise UsageError("the Last-Event-ID is not the id of an event of this log")
            offset = int(last_event_id) + 1
        return await self.follow(
            offset, encode=lambda number, data: b"id: %d\ndata: %b\n\n" % (number, data), left=left
        )


@dataclass(eq=False)
class LogReader:
    """One reader of a log: an asynchronous iterator of bytes, all frames that there are each time, to the run's end.

    Attributes:
        is_at_end: the run has ended and everything was read. A server responds to a new reader with status 204 then,
            after which an ``EventSource`` does not connect again.
    """

    _log: EventLog
    _offset: int
    _encode: Callable[[int, bytes], bytes] | None
    _idle: bytes
    _left: Callable[[], object] | None
    is_at_end: bool

    def __aiter__(self) -> LogReader:
        return self

    async def __anext__(self) -> bytes:
        data = b""
        while not (data or self.is_at_end):
            try:
                frames, self.is_at_end = await self._log.read(self._offset, wait=_IDLE_SECONDS)
            except BaseException:  # most often it is cancelled, because the client has left
                self._leave()
                raise
            offsets = range(self._offset, self._offset + len(frames))
            data = b"".join(frames if self._encode is None else map(self._encode, offsets, frames))
            if not frames and not self.is_at_end:
                data = self._idle
            self._offset = offsets.stop
        if not data:
            raise StopAsyncIteration
        return data

    async def aclose(self) -> None:
        """Leave the log."""
        self._leave()

    def __del__(self) -> None:
        self._leave()  # frameworks do not close the iterator of a response whose client has left

    def _leave(self) -> None:
        left, self._left = self._left, None
        if left is not None and not self.is_at_end:
            left()


async def public_events(run: Run[Any]) -> AsyncGenerator[bytes, None]:
    """Make a run, and yield each event as a line of JSON for the people who use a front end."""
    async with run:
        async for event in run:
            yield to_json(event, public=True)


class LiveRuns:
    """The runs that this process makes apart from the connections that show them, and their logs, by their run keys.

    Leave it when the application stops, with ``async with`` or ``aclose()``: it cancels the runs and waits for them.

    Args:
        create_log: returns the log of a run key, such as ``lambda run_key: StoredLog(store, run_key)``; default: one in
            memory.
        max_ended_bytes: of the logs of runs that have ended; those that ended first are forgotten.
    """

    def __init__(
        self, create_log: Callable[[str], EventLog] = lambda run_key: EventLog(), *, max_ended_bytes: int = 64 << 20
    ) -> None:
        self._create_log = create_log
        self._max_ended_bytes = max_ended_bytes
        self._runs: dict[str, Run[Any]] = {}
        self._tasks: dict[str, BackgroundTask] = {}
        self._logs: WeakValueDictionary[str, EventLog] = WeakValueDictionary()  # all readers of a run share one
        self._ended: dict[str, EventLog] = {}  # what ended first comes first
        self._ended_bytes = 0
        self._end = anyio.Event()  # of the run that ends next

    async def start(
        self, run: Run[Any], frames: AsyncGenerator[bytes, None] | None = None, *, log: EventLog | None = None
    ) -> EventLog:
        """Start a run, and return its log; a resumed run continues its log.

        A log that cannot be written any more ends its run.

        Args:
            run: what ``run_loop`` has returned, not started yet.
            frames: a generator of your own that makes the run and yields its frames: to store what has become of it
                before a page reads that, or to encode it otherwise. Default: ``public_events(run)``.
            log: a log of its own, such as one with the number of a claim.

        Raises:
            UsageError: a run of this key works here.
        """
        run_key = run.run_key
        while run_key in self._runs and self._runs[run_key].ended is not None:
            await self._end.wait()  # a page has answered the last event of the run that is resumed
        log = log or self.log(run_key)
        start = await log.append()  # from here on there is such a log
        if run_key in self._runs:
            raise UsageError(f"the run {run_key!r} works already: wait for its end, or run.cancel() it")
        log.start = start
        if (ended := self._ended.pop(run_key, None)) is not None:
            self._ended_bytes -= ended.size + _LOG_COST
        self._runs[run_key], self._logs[run_key] = run, log
        frames = public_events(run) if frames is None else frames
        self._tasks[run_key] = BackgroundTask(lambda: self._make(run, log, frames))
        return log

    def run(self, run_key: str) -> Run[Any]:
        """Return a run that works here, to ``send`` to it or to ``cancel`` it.

        Raises:
            UnknownRun: it has ended, or another process makes it.
        """
        if run_key not in self._runs:
            raise UnknownRun(f"no run {run_key!r} works here")
        return self._runs[run_key]

    def log(self, run_key: str) -> EventLog:
        """Return the log of a run, also of one that has ended; reading it raises ``UnknownRun`` if there is none."""
        log = self._logs.get(run_key)
        if log is None:
            log = self._logs[run_key] = self._create_log(run_key)
        return log

    async def __aenter__(self) -> LiveRuns:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Cancel all runs, and wait for their ends."""
        while self._runs:
            for run in self._runs.values():
                run.cancel()
            await self._end.wait()

    async def _make(self, run: Run[Any], log: EventLog, frames: AsyncGenerator[bytes, None]) -> None:
        try:
            await _write_frames(run, log, frames)
        except Exception as error:
            log_failure(_log, "the log of the run %r could not be written", run.run_key, error=error)
        finally:
            with anyio.CancelScope(shield=True):
                await run.aclose()
                try:
                    await log.append(ended=True)
                except Exception as error:
                    log_failure(_log, "the log of the run %r lacks its end", run.run_key, error=error)
            del self._runs[run.run_key]
            self._tasks.pop(run.run_key, None)
            if log.size:  # of another place it is read there
                self._ended[run.run_key] = log
                self._ended_bytes += log.size + _LOG_COST
            while self._ended_bytes > self._max_ended_bytes:
                self._ended_bytes -= self._ended.pop(next(iter(self._ended))).size + _LOG_COST
            self._end.set()
            self._end = anyio.Event()


async def _write_frames(run: Run[Any], log: EventLog, frames: AsyncGenerator[bytes, None]) -> None:
    """Write frames into a log; those that come while it is busy are appended at once."""
    send, receive = anyio.create_memory_object_stream[bytes](_BATCH)

    async def write() -> None:
        async for frame in receive:
            waiting = [frame]
            with suppress(anyio.WouldBlock, anyio.EndOfStream):
                while True:
                    waiting.append(receive.receive_nowait())
            await log.append(*waiting)

    with receive:
        async with anyio.create_task_group() as group:
            group.start_soon(write)
            with send:
                try:
                    async with aclosing(frames):
                        async for frame in frames:
                            if frame:
                                await send.send(frame)
                except StreamInterrupted:
                    pass  # readers have it: the last event has the error
                except Exception as error:
                    log_failure(_log, "the run %r ended in an exception", run.run_key, error=error)
