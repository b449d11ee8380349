"""The entries of runs in SQLite or PostgreSQL, and claims, so that a run has one worker at a time.

A worker claims a run, runs it with ``checkpoint=claim.append``, and renews the claim while it works. If it dies, the
claim expires and another worker can take the run over, from its entries. Each claim of a run has a number, its fence.

* An entry is inserted at its own position (``docs/rules.md``, "Durable runs"). The same entry of the same claim is
  there after a lost connection, so that to append it again is success. Any other one there is another run's:
  ``ClaimLost``, which ends the run that came second, before it does anything.
* A worker whose claim was taken over meanwhile (its process was suspended, its network was gone) can record nothing
  more, and starts no further call: it asks the database again if its claim may have expired.
* The database may restart: what has failed is done again, with growing delays, until the claim expires.

Time is the database's, so the clocks of the workers do not matter; a worker only measures how long its claim lasts.

This module must not depend on how a run is made; it stores what ``checkpoint`` gives it. ``database`` has what differs
between the databases.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from streamkit.bridges.database import Execute, open_database
from streamkit.errors import StreamkitError, UsageError
from streamkit.execution import Lease, RunEntry, RunState, parse_entry
from streamkit.execution.one_call.background import BackgroundTask
from streamkit.history import Content
from streamkit.values.redaction import log_failure

__all__ = ["Claim", "ClaimLost", "RunClaimed", "RunStore"]

_log = logging.getLogger("streamkit")

_Value = TypeVar("_Value")

# The statements that create the tables of a database, unless they exist.
_TABLES = (
    "CREATE TABLE IF NOT EXISTS streamkit_claims (run_key TEXT PRIMARY KEY, fence INTEGER NOT NULL, worker TEXT,"
    " expires DOUBLE PRECISION NOT NULL)",
    "CREATE TABLE IF NOT EXISTS streamkit_entries (run_key TEXT NOT NULL, position INTEGER NOT NULL,"
    " fence INTEGER NOT NULL, entry TEXT NOT NULL, PRIMARY KEY (run_key, position))",
    "CREATE TABLE IF NOT EXISTS streamkit_mail (run_key TEXT NOT NULL, id TEXT NOT NULL,"
    " sent DOUBLE PRECISION NOT NULL, content TEXT NOT NULL, PRIMARY KEY (run_key, id))",
    # of ``stored_log``
    "CREATE TABLE IF NOT EXISTS streamkit_logs (run_key TEXT PRIMARY KEY, fence INTEGER NOT NULL,"
    " first BIGINT NOT NULL, following BIGINT NOT NULL, size BIGINT NOT NULL, ended INTEGER NOT NULL,"
    " append_id TEXT NOT NULL, changed DOUBLE PRECISION NOT NULL)",
    "CREATE TABLE IF NOT EXISTS streamkit_frames (run_key TEXT NOT NULL, number BIGINT NOT NULL, frame BYTEA NOT NULL,"
    " PRIMARY KEY (run_key, number))",
)
_RETRY_TIME = 10.0  # seconds in which work without a claim is done again; a restart of PostgreSQL takes fewer
_RELEASE_TIME = 2.0  # for a release: a claim that is not released expires by itself
_FIRST_DELAY, _MAX_DELAY = 0.05, 1.0


class ClaimLost(StreamkitError):
    """This run must record nothing more. Let it end the run: the next worker that claims it continues it.

    Another worker has taken the run over, or the run was continued before from the same ``RunState``, or the database
    did not respond until the claim expired (then its exception is the cause).
    """


class RunClaimed(StreamkitError):
    """Another worker has the run. Claim it again when it has released it, at the latest when its claim has expired.

    Attributes:
        run_key: the stable name of the run.
        until: when the claim expires if it is not renewed, by the database's clock.
        seconds: how long that is from now, by the same clock.
    """

    def __init__(self, run_key: str, until: datetime, seconds: float) -> None:
        super().__init__(
            f"another worker has the run {run_key!r}: its claim expires at {until:%Y-%m-%d %H:%M:%S} UTC by the"
            f" database's clock, in {seconds:.1f} seconds, if it does not renew it"
        )
        self.run_key = run_key
        self.until = until
        self.seconds = seconds


def _read_clock() -> float:
    """Return seconds that go on while the process, and where it can be measured the machine, is suspended."""
    boot_time = getattr(time, "CLOCK_BOOTTIME", None)  # Linux
    return time.monotonic() if boot_time is None else time.clock_gettime(boot_time)


class RunStore:
    """The runs of a database.

    Args:
        address: the path of a SQLite file, or ``postgresql://...``.
        connections: to PostgreSQL, at most, which all runs share.

    Attributes:
        failures: the driver's exceptions that are raised if the database does not respond for too long.

    Raises:
        ModuleNotFoundError: the address is PostgreSQL's, and psycopg or psycopg_pool is not installed.
    """

    def __init__(self, address: str | os.PathLike[str], *, connections: int = 10) -> None:
        self._database = open_database(os.fspath(address), _TABLES, connections)
        self.failures: tuple[type[Exception], ...] = self._database.failures

    async def __aenter__(self) -> RunStore:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections. The store can be used again."""
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._database.close)

    async def claim(self, run_key: str, *, seconds: float = 30.0) -> Claim:
        """Claim a run, new or not, and read its entries.

        Args:
            run_key: the stable name of the run.
            seconds: for how long the claim lasts after its worker has died. A worker that works renews it.

        Returns:
            The claim, to be entered at once with ``async with``.

        Raises:
            RunClaimed: another worker has the run; the exception has the time until which.
            UsageError: the run's entries cannot be read, or they are not those of one run. Nobody has the claim then.
        """
        _check_key(run_key)
        if not seconds > 0:
            raise UsageError(f"seconds must be above 0, not {seconds!r}")
        worker = secrets.token_hex(16)  # so that a claim whose answer was lost is recognized when it is made again
        claimed_at = _read_clock()

        def claim(execute: Execute) -> tuple[int, float, float]:
            nonlocal claimed_at
            claimed_at = _read_clock()
            now = self._database.now
            row = execute(
                f"INSERT INTO streamkit_claims (run_key, fence, worker, expires) VALUES (?, 1, ?, {now} + ?)"  # noqa: S608
                " ON CONFLICT (run_key) DO UPDATE SET worker = excluded.worker, expires = excluded.expires,"
                " fence = streamkit_claims.fence"
                " + CASE WHEN streamkit_claims.worker = excluded.worker THEN 0 ELSE 1 END"
                f" WHERE streamkit_claims.worker IS NULL OR streamkit_claims.expires <= {now}"
                " OR streamkit_claims.worker = excluded.worker RETURNING fence",
                (run_key, worker, seconds),
            ).fetchone()
            if row is not None:
                return row[0], 0.0, 0.0
            query = f"SELECT expires, {now} FROM streamkit_claims WHERE run_key = ?"  # noqa: S608
            return 0, *execute(query, (run_key,)).fetchone()

        entries: list[RunEntry] = []
        state: RunState | None = None
        try:
            fence, expires, now = await self._run(claim)
            if fence and (entries := await self.entries(run_key)):
                state = RunState.from_entries(entries)
        except (UsageError, ValueError) as error:  # pydantic's is a ValueError
            await self._release(run_key, worker)
            raise UsageError(f"{error}; the claim of the run {run_key!r} was released") from error
        except BaseException:
            await self._release(run_key, worker)
            raise
        if not fence:
            raise RunClaimed(run_key, datetime.fromtimestamp(expires, UTC), max(0.0, expires - now))
        return Claim(self, run_key, worker, fence, seconds, claimed_at + seconds, entries, state)

    async def entries(self, run_key: str, *, after: int = 0) -> list[RunEntry]:
        """Return the entries of a run, in order; none if it has none.

        Args:
            run_key: the stable name of the run.
            after: how many entries to leave out, the first ones.

        Raises:
            UsageError: an entry is missing, or cannot be read; the message has its position.
        """
        query = "SELECT position, entry FROM streamkit_entries WHERE run_key = ? AND position >= ? ORDER BY position"
        rows = await self._run(lambda execute: execute(query, (run_key, after)).fetchall())
        entries: list[RunEntry] = []
        for number, (position, text) in enumerate(rows, after):
            if position != number:
                raise UsageError(f"the run {run_key!r} has an entry at position {position}, but none at {number}")
            try:
                entries.append(parse_entry(text))
            except (UsageError, ValueError) as error:
                raise UsageError(f"the entry {position} of the run {run_key!r} cannot be read: {error}") from error
        return entries

    async def send(self, run_key: str, content: Content) -> None:
        """Send a content to a run, from any process: the worker that has the run adds it to the conversation.

        The next request contains it, after the results of the round before. It waits in the mailbox of the run while no
        worker has it.

        Args:
            run_key: the stable name of the run.
            content: the content, such as ``Content.human("Stop at three.")``.

        Raises:
            UsageError: it is no ``Content``.
        """
        _check_key(run_key)
        if not isinstance(content, Content):
            raise UsageError(f"send takes a Content, such as Content.human(text), not {type(content).__name__}")
        # In the order of time, for what is sent at the same time of the database: SQLite has milliseconds.
        mail_id, text = f"{time.time_ns():020}{secrets.token_hex(8)}", content.model_dump_json()

        def send(execute: Execute) -> None:
            execute(
                f"INSERT INTO streamkit_mail (run_key, id, sent, content) VALUES (?, ?, {self._database.now}, ?)"  # noqa: S608
                " ON CONFLICT (run_key, id) DO NOTHING",
                (run_key, mail_id, text),
            )

        await self._run(send)

    async def claimed(self) -> set[str]:
        """Return the keys of the runs that a worker has now."""
        return set(await self._keys(f"expires > {self._database.now}"))

    async def abandoned(self) -> list[str]:
        """Return the keys of the runs with an expired claim: their workers have ended without releasing it."""
        return await self._keys(f"expires <= {self._database.now}")

    async def _keys(self, condition: str) -> list[str]:
        query = f"SELECT run_key FROM streamkit_claims WHERE worker IS NOT NULL AND {condition} ORDER BY expires"  # noqa: S608
        return [row[0] for row in await self._run(lambda execute: execute(query, ()).fetchall())]

    async def _release(self, run_key: str, worker: str) -> None:
        """Release a claim, if the database responds; never raise an exception of it."""
        query = "UPDATE streamkit_claims SET worker = NULL WHERE run_key = ? AND worker = ?"
        with anyio.CancelScope(shield=True):
            try:
                await self._run(lambda execute: execute(query, (run_key, worker)), until=_read_clock() + _RELEASE_TIME)
            except Exception as error:
                log_failure(_log, "the claim of the run %r was not released, it expires", run_key, error=error)

    async def _run(self, work: Callable[[Execute], _Value], until: float | None = None) -> _Value:
        """Do some work in one transaction, in a thread; do it again while the database does not respond.

        Args:
            work: it may have been done when it is done again: the connection may have been lost after its commit.
            until: the last time to do it again, by ``_read_clock``.
        """
        until = _read_clock() + _RETRY_TIME if until is None else until
        delay = _FIRST_DELAY
        while True:
            try:
                return await anyio.to_thread.run_sync(self._database.transact, work)
            except self.failures as error:
                if _read_clock() + delay >= until:
                    raise
                message = "the database of the runs did not respond (%s), it is asked again in %.2f seconds"
                _log.warning(message, type(error).__name__, delay)
            await anyio.sleep(delay)
            delay = min(2 * delay, _MAX_DELAY)


def _check_key(run_key: Any) -> None:
    if not isinstance(run_key, str) or not run_key:
        raise UsageError(f"run_key must be a text that is not empty, not {run_key!r}")


class Claim(Lease):
    """The right of one worker to record a run, until it is left or lost. ``RunStore.claim`` returns it.

    Attributes:
        run_key: the stable name of the run.
        fence: the number of the claim, above those of all earlier claims of the run.
        entries: of the run, when it was claimed.
        state: what the run is resumed from; None if it is new.
        is_lost: another worker has taken the run over.
    """

    def __init__(
        self,
        store: RunStore,
        run_key: str,
        worker: str,
        fence: int,
        seconds: float,
        expires: float,
        entries: list[RunEntry],
        state: RunState | None,
    ) -> None:
        self.run_key = run_key
        self.fence = fence
        self.entries = entries
        self.state = state
        self.is_lost: bool = False
        self._store = store
        self._worker = worker
        self._seconds = seconds
        self._expires = expires  # at the latest, by ``_read_clock``
        self._renewal: BackgroundTask | None = None

    async def __aenter__(self) -> Claim:
        self._renewal = BackgroundTask(self._renew)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._renewal is not None:
                await self._renewal.aclose()
        finally:
            await self._store._release(self.run_key, self._worker)

    async def append(self, entry: RunEntry) -> Claim:
        """Store an entry of the run at its position: the ``checkpoint`` of ``run_loop``. It renews the claim.

        Returns:
            The claim itself, from which the run has its fence and its mail: a checkpoint of your own that calls this
            must return it.

        Raises:
            ClaimLost: another worker has taken the run over, another entry has that position, or the database has not
                responded until the claim expired.
            UsageError: the entry is of another run.
        """
        if entry.run_key != self.run_key:
            raise UsageError(
                f"the entry is of the run {entry.run_key!r}, but the claim of {self.run_key!r}: pass run_loop"
                f" run_key={self.run_key!r}"
            )
        text, mail_id = entry.to_json(), entry.mail_id if entry.type == "message" else None

        def insert(execute: Execute) -> bool:
            is_new = execute(
                "INSERT INTO streamkit_entries (run_key, position, fence, entry) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (run_key, position) DO NOTHING",
                (self.run_key, entry.position, self.fence, text),
            ).rowcount
            if is_new and mail_id is not None:
                execute("DELETE FROM streamkit_mail WHERE run_key = ? AND id = ?", (self.run_key, mail_id))
            if is_new:
                return True
            query = "SELECT fence, entry FROM streamkit_entries WHERE run_key = ? AND position = ?"
            return tuple(execute(query, (self.run_key, entry.position)).fetchone()) == (self.fence, text)

        if not await self._extend(insert):
            raise ClaimLost(
                f"position {entry.position} of the run {self.run_key!r} has another entry: the run was continued before"
                " from the same state"
            )
        return self

    async def confirm(self) -> None:
        """Return if the run is still this worker's: at once, unless the claim may have expired.

        Raises:
            ClaimLost: another worker has taken the run over.
        """
        if self.is_lost or _read_clock() >= self._expires:
            await self._extend(lambda execute: None)

    async def receive(self) -> list[tuple[str, Content]]:
        """Return the contents in the mailbox of the run, each with its id, in the order in which they were sent.

        Raises:
            ClaimLost: as for ``append``.
        """
        query = "SELECT id, content FROM streamkit_mail WHERE run_key = ? ORDER BY sent, id"
        rows = await self._extend(lambda execute: execute(query, (self.run_key,)).fetchall())
        return [(mail_id, Content.model_validate_json(text)) for mail_id, text in rows]

    async def _extend(self, work: Callable[[Execute], _Value]) -> _Value:
        """Renew the claim and do some work in one transaction, so that no other worker takes the run over.

        Raises:
            ClaimLost: another worker has taken the run over, or the database has not responded until it expired.
        """
        started = _read_clock()

        def extend(execute: Execute) -> _Value:
            nonlocal started
            started = _read_clock()
            is_held = execute(
                f"UPDATE streamkit_claims SET expires = {self._store._database.now} + ?"  # noqa: S608
                " WHERE run_key = ? AND worker = ?",
                (self._seconds, self.run_key, self._worker),
            ).rowcount
            if not is_held:
                self.is_lost = True
                raise ClaimLost(f"another worker has taken the run {self.run_key!r} over")
            return work(execute)

        try:
            value = await self._store._run(extend, self._expires)
        except self._store.failures as error:
            message = f"the database has not responded until the claim of the run {self.run_key!r} expired"
            raise ClaimLost(message) from error
        self._expires = max(self._expires, started + self._seconds)
        return value

    async def _renew(self) -> None:
        while not self.is_lost:
            await anyio.sleep(self._seconds / 3)
            try:
                await self._extend(lambda execute: None)
            except Exception as error:  # the database may respond again before another worker claims the run
                if not self.is_lost:  # else the next entry or call of the run finds it out
                    log_failure(_log, "the claim of the run %r was not renewed", self.run_key, error=error)
