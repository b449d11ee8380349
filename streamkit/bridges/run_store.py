"""The entries of runs in SQLite or PostgreSQL, and claims, so that a run has one worker at a time.

A worker claims a run, runs it with ``checkpoint=claim.append``, and renews the claim while it works. If it dies, the
claim expires and another worker can take the run over, from its entries. A worker whose claim was taken over meanwhile
(its process was suspended, its network was gone) can record nothing more: ``append`` raises ``ClaimLost``, which ends
its run. Time is the database's, so the clocks of the workers do not matter.

SQLite is for the processes of one machine, PostgreSQL (the extra ``postgres``) for several. The two tables,
``streamkit_entries`` and ``streamkit_claims``, are created on first use. Both drivers are synchronous and run in
threads, because psycopg's asynchronous connection does not run on trio.

This module must not depend on how a run is made; it stores what ``checkpoint`` gives it.
"""

from __future__ import annotations

import logging
import os
import secrets
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from streamkit.errors import StreamkitError, UsageError
from streamkit.execution import RunEntry, RunState, parse_entry
from streamkit.execution.one_call.background import BackgroundTask
from streamkit.values.redaction import log_failure

__all__ = ["Claim", "ClaimLost", "RunStore"]

_log = logging.getLogger("streamkit")

_Value = TypeVar("_Value")

_TABLES = (
    "CREATE TABLE IF NOT EXISTS streamkit_claims"
    " (run_key TEXT PRIMARY KEY, worker TEXT NOT NULL, expires DOUBLE PRECISION NOT NULL)",
    "CREATE TABLE IF NOT EXISTS streamkit_entries"
    " (run_key TEXT NOT NULL, position INTEGER NOT NULL, entry TEXT NOT NULL, PRIMARY KEY (run_key, position))",
)


class ClaimLost(StreamkitError):
    """Another worker has taken the run over, so this one must record nothing more. Let it end the run."""


class RunStore:
    """The runs of a database.

    Args:
        address: the path of a SQLite file, or ``postgresql://...``.

    Raises:
        ModuleNotFoundError: the address is PostgreSQL's, and psycopg is not installed.
    """

    def __init__(self, address: str | os.PathLike[str]) -> None:
        text = os.fspath(address)
        is_postgres = text.startswith(("postgresql://", "postgres://"))
        self._database: _Database = _Postgres(text) if is_postgres else _SQLite(text)

    async def __aenter__(self) -> RunStore:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection. The store can be used again."""
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._database.close)

    async def claim(self, run_key: str, *, seconds: float = 30.0) -> Claim | None:
        """Claim a run, new or not, and read its entries.

        Args:
            run_key: the stable name of the run.
            seconds: for how long the claim lasts after its worker has died. A worker that works renews it.

        Returns:
            The claim, to be entered at once with ``async with``; None if another worker has the run.
        """
        if not isinstance(run_key, str) or not run_key:
            raise UsageError(f"run_key must be a text that is not empty, not {run_key!r}")
        if not seconds > 0:
            raise UsageError(f"seconds must be above 0, not {seconds!r}")
        worker = secrets.token_hex(16)

        def claim(database: _Database) -> bool:
            return bool(
                database.execute(
                    f"INSERT INTO streamkit_claims (run_key, worker, expires) VALUES (?, ?, {database.now} + ?)"  # noqa: S608
                    " ON CONFLICT (run_key) DO UPDATE SET worker = excluded.worker, expires = excluded.expires"
                    f" WHERE streamkit_claims.expires <= {database.now}",
                    (run_key, worker, seconds),
                ).rowcount
            )

        if not await self._run(claim):
            return None
        return Claim(self, run_key, worker, seconds, await self.entries(run_key))

    async def entries(self, run_key: str, *, after: int = 0) -> list[RunEntry]:
        """Return the entries of a run, in order; none if it has none.

        Args:
            run_key: the stable name of the run.
            after: how many entries to leave out, the first ones.
        """
        query = "SELECT entry FROM streamkit_entries WHERE run_key = ? AND position >= ? ORDER BY position"
        rows = await self._run(lambda database: database.execute(query, (run_key, after)).fetchall())
        return [parse_entry(row[0]) for row in rows]

    async def claimed(self) -> set[str]:
        """Return the keys of the runs that a worker has now."""
        rows = await self._run(
            lambda database: database.execute(
                f"SELECT run_key FROM streamkit_claims WHERE expires > {database.now}",  # noqa: S608
                (),
            ).fetchall()
        )
        return {row[0] for row in rows}

    async def abandoned(self) -> list[str]:
        """Return the keys of the runs with an expired claim: their workers have ended without releasing it."""
        rows = await self._run(
            lambda database: database.execute(
                f"SELECT run_key FROM streamkit_claims WHERE expires <= {database.now} ORDER BY expires",  # noqa: S608
                (),
            ).fetchall()
        )
        return [row[0] for row in rows]

    async def _run(self, work: Callable[[_Database], _Value]) -> _Value:
        """Do some work in one transaction, in a thread."""
        return await anyio.to_thread.run_sync(self._database.transact, work)


class Claim:
    """The right of one worker to record a run, until it is left or lost. ``RunStore.claim`` returns it.

    Attributes:
        run_key: the stable name of the run.
        entries: of the run, when it was claimed.
        is_lost: another worker has taken the run over.
    """

    def __init__(self, store: RunStore, run_key: str, worker: str, seconds: float, entries: list[RunEntry]) -> None:
        self.run_key = run_key
        self.entries = entries
        self.is_lost: bool = False
        self._store = store
        self._worker = worker
        self._seconds = seconds
        self._renewal: BackgroundTask | None = None

    @property
    def state(self) -> RunState | None:
        """What the run is resumed from; None if it is new."""
        return RunState.from_entries(self.entries) if self.entries else None

    async def __aenter__(self) -> Claim:
        self._renewal = BackgroundTask(self._renew)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._renewal is not None:
            await self._renewal.aclose()
        with anyio.CancelScope(shield=True):
            await self._store._run(
                lambda database: database.execute(
                    "DELETE FROM streamkit_claims WHERE run_key = ? AND worker = ?", (self.run_key, self._worker)
                )
            )

    async def append(self, entry: RunEntry) -> None:
        """Store the next entry of the run: the ``checkpoint`` of ``run_loop``. It renews the claim.

        Raises:
            ClaimLost: another worker has taken the run over.
            UsageError: the entry is of another run.
        """
        if entry.run_key != self.run_key:
            raise UsageError(
                f"the entry is of the run {entry.run_key!r}, but the claim of {self.run_key!r}: pass run_loop"
                f" run_key={self.run_key!r}"
            )
        text = entry.to_json()

        def append(database: _Database) -> bool:
            if not self._extend(database):  # it also locks the row, so that nobody takes the run over meanwhile
                return False
            database.execute(
                "INSERT INTO streamkit_entries (run_key, position, entry)"
                " SELECT ?, COALESCE(MAX(position) + 1, 0), ? FROM streamkit_entries WHERE run_key = ?",
                (self.run_key, text, self.run_key),
            )
            return True

        if not await self._store._run(append):
            self.is_lost = True
            raise ClaimLost(f"another worker has taken the run {self.run_key!r} over")

    def _extend(self, database: _Database) -> bool:
        return bool(
            database.execute(
                f"UPDATE streamkit_claims SET expires = {database.now} + ? WHERE run_key = ? AND worker = ?",  # noqa: S608
                (self._seconds, self.run_key, self._worker),
            ).rowcount
        )

    async def _renew(self) -> None:
        while not self.is_lost:
            await anyio.sleep(self._seconds / 3)
            try:
                self.is_lost = not await self._store._run(self._extend)
            except Exception as error:  # the database may answer again before the claim expires; append() raises
                log_failure(_log, "the claim of the run %r was not renewed", self.run_key, error=error)


class _Database:
    """One connection, used by one thread at a time, opened when it is needed.

    Attributes:
        now: the SQL of the database's time, in seconds.
    """

    now: str

    def __init__(self, address: str) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._connection: Any = None

    def connect(self) -> Any:
        """Return a connection to a database with the tables."""
        raise NotImplementedError

    def begin(self) -> None:
        """Begin a transaction, if the driver does not."""

    def execute(self, query: str, values: tuple[Any, ...]) -> Any:
        """Run one statement, with ``?`` for each value; return the driver's cursor."""
        return self._connection.execute(query, values)

    def transact(self, work: Callable[[Any], _Value]) -> _Value:
        """Do some work in a transaction, and return its value. After an error the connection is closed."""
        with self._lock:
            if self._connection is None:
                self._connection = self.connect()
            try:
                self.begin()
                value = work(self)
                self._connection.commit()
            except BaseException:
                self._close()
                raise
            return value

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # it is of no more use, and the first error is the one to report
                connection.close()


class _SQLite(_Database):
    now = "(julianday('now') - 2440587.5) * 86400.0"  # julianday of 1970-01-01; unixepoch('subsec') needs SQLite 3.42

    def connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._address, timeout=30, isolation_level=None, check_same_thread=False)
        # The change of the mode fails at once while another connection writes, whatever the timeout (SQLite 3.40). The
        # mode is only for speed; a later connection changes it.
        with suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")  # which waits
        for table in _TABLES:
            connection.execute(table)
        connection.execute("COMMIT")
        return connection

    def begin(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")  # a transaction that reads first cannot always write later


class _Postgres(_Database):
    now = "CAST(extract(epoch FROM clock_timestamp()) AS DOUBLE PRECISION)"

    def __init__(self, address: str) -> None:
        super().__init__(address)
        try:
            import psycopg
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"a RunStore in PostgreSQL needs {error.name}: pip install 'streamkit[postgres]'", name=error.name
            ) from None
        self._driver = psycopg

    def connect(self) -> Any:
        connection = self._driver.connect(self._address)
        # CREATE TABLE IF NOT EXISTS fails if two sessions run it at once; the number is any that others do not use.
        connection.execute("SELECT pg_advisory_xact_lock(7310579615)")
        for table in _TABLES:
            connection.execute(table)
        connection.commit()
        return connection

    def execute(self, query: str, values: tuple[Any, ...]) -> Any:
        return self._connection.execute(query.replace("?", "%s"), values)
