"""The logs of runs (``event_log``) in the database of a ``RunStore``, for readers in any process.

The frames of all runs are in two tables. A process that does not write a log looks for new frames four times a second,
once for all its readers of one ``StoredLog``. This module must not depend on what a frame means.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, Final

import anyio

from streamkit.bridges.database import Execute
from streamkit.bridges.event_log import FRAME_COST, EventLog, FramesGone, UnknownRun
from streamkit.bridges.run_store import ClaimLost, RunStore
from streamkit.errors import UsageError

__all__ = ["StoredLog", "delete_logs"]

_POLL_SECONDS: Final = 0.25
_BATCH: Final = 256  # frames that are read at once


class StoredLog(EventLog):
    """The log of one run in the database of a store. The readers of a process should share one object.

    Args:
        store: the store, of whose runs this one needs not be.
        run_key: the stable name of the run.
        fence: the number of the claim on a durable run (``claim.fence``): a worker that has lost the run appends
            nothing more, and gets ``ClaimLost``.
        max_bytes: as for ``EventLog``.
        max_frames: as for ``EventLog``.
    """

    def __init__(
        self, store: RunStore, run_key: str, *, fence: int = 0, max_bytes: int = 16 << 20, max_frames: int = 100_000
    ) -> None:
        super().__init__(max_bytes=max_bytes, max_frames=max_frames)
        self._store = store
        self._run_key = run_key
        self._fence = fence
        self._lock = anyio.Lock()  # of the one who reads the database
        self._latest: tuple[int, list[bytes], bool] = 0, [], False  # what was read last, from its offset on
        self._read_at = float("-inf")

    async def append(self, *frames: bytes, ended: bool = False) -> int:
        """Append frames (``EventLog.append``).

        Raises:
            ClaimLost: another worker has claimed the run since.
        """
        run_key, now = self._run_key, self._store._database.now
        append_id = secrets.token_hex(8)  # so that an append whose confirmation was lost is recognized

        def append(execute: Execute) -> int:
            row = execute(
                "INSERT INTO streamkit_logs (run_key, fence, first, following, size, ended, append_id, changed)"  # noqa: S608
                f" VALUES (?, ?, 0, 0, 0, 0, '', {now}) ON CONFLICT (run_key) DO UPDATE SET fence = excluded.fence"
                " WHERE streamkit_logs.fence <= excluded.fence RETURNING first, following, size, append_id",
                (run_key, self._fence),
            ).fetchone()
            if row is None:
                raise ClaimLost(f"another worker writes the log of the run {run_key!r}")
            first, following, size, last_id = row
            if last_id == append_id:
                return following  # type: ignore[no-any-return]
            for number, frame in enumerate(frames, following):
                insert = "INSERT INTO streamkit_frames (run_key, number, frame) VALUES (?, ?, ?)"
                execute(insert, (run_key, number, frame))
            following += len(frames)
            size += sum(map(len, frames)) + FRAME_COST * len(frames)
            if following - first > self._max_frames or size > self._max_bytes:
                sizes = "SELECT length(frame) FROM streamkit_frames WHERE run_key = ? ORDER BY number"
                for (length,) in execute(sizes, (run_key,)).fetchall():
                    if following - first <= 0.9 * self._max_frames and size <= 0.9 * self._max_bytes:
                        break
                    first, size = first + 1, size - length - FRAME_COST
                execute("DELETE FROM streamkit_frames WHERE run_key = ? AND number < ?", (run_key, first))
            execute(
                "UPDATE streamkit_logs SET first = ?, following = ?, size = ?, ended = ?, append_id = ?,"  # noqa: S608
                f" changed = {now} WHERE run_key = ?",
                (first, following, size, int(ended), append_id, run_key),
            )
            return following  # type: ignore[no-any-return]

        following = await self._store._run(append)
        self._read_at = float("-inf")
        self._announce()
        return following

    async def read(self, offset: int, *, wait: float = 0.0) -> tuple[Sequence[bytes], bool]:
        """Return frames from an offset on (``EventLog.read``)."""
        deadline = anyio.current_time() + wait
        while True:
            async with self._lock:
                first, frames, ended = self._latest
                # Another reader has read the frame, or has looked for it just now in vain, since when a run that had
                # ended may go on in another process.
                is_read = first <= offset < first + len(frames) + (not ended)
                if not is_read or anyio.current_time() >= self._read_at + _POLL_SECONDS:
                    self._latest = offset, *await self._query(offset)
                    self._read_at = anyio.current_time()
                first, frames, ended = self._latest
            seconds = deadline - anyio.current_time()
            if (frames := frames[offset - first :]) or ended or seconds <= 0:
                return frames, ended
            await self._wait(min(seconds, _POLL_SECONDS))

    async def _query(self, offset: int) -> tuple[list[bytes], bool]:
        log = "SELECT following, ended FROM streamkit_logs WHERE run_key = ?"
        frames = "SELECT number, frame FROM streamkit_frames WHERE run_key = ? AND number >= ? ORDER BY number LIMIT ?"

        def read(execute: Execute) -> tuple[Any, Any]:
            row = execute(log, (self._run_key,)).fetchone()
            return row, execute(frames, (self._run_key, offset, _BATCH)).fetchall()

        row, rows = await self._store._run(read)
        if row is None:
            raise UnknownRun(f"there is no log of a run {self._run_key!r}")
        following, ended = row
        first = rows[0][0] if rows else following
        if offset < first:
            raise FramesGone(offset, first)
        if offset > first:
            raise UsageError(f"the log has no offset {offset}: its next frame has {following}")
        return [frame for _, frame in rows], bool(ended) and offset + len(rows) == following


async def delete_logs(store: RunStore, *, seconds: float) -> None:
    """Delete the logs of a store in which nothing has been written for so many seconds.

    Args:
        store: the store.
        seconds: more than the longest silence of a run, and than the time in which pages come back.
    """

    def delete(execute: Execute) -> None:
        old = f"SELECT run_key FROM streamkit_logs WHERE changed < {store._database.now} - ?"  # noqa: S608
        execute(f"DELETE FROM streamkit_frames WHERE run_key IN ({old})", (seconds,))  # noqa: S608
        execute(f"DELETE FROM streamkit_logs WHERE changed < {store._database.now} - ?", (seconds,))  # noqa: S608

    await store._run(delete)
