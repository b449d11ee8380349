"""The store of a gateway in SQLite, for the workers of one machine, or in PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from streamkit.bridges.database import Execute, open_database
from streamkit.gateway.stores.store import DAY, ENTRY_SIZE

__all__ = ["DatabaseStore"]

_Value = TypeVar("_Value")
_TABLES = (
    "CREATE TABLE IF NOT EXISTS streamkit_kept (key TEXT PRIMARY KEY, value BYTEA NOT NULL,"
    " expires DOUBLE PRECISION NOT NULL)",
    "CREATE INDEX IF NOT EXISTS streamkit_kept_expires ON streamkit_kept (expires)",
)
_MOST_KEYS = 500  # of a statement: SQLite before 3.32 takes 999 values
_SLOWEST = 5.0  # seconds for the work of one method, after which a request goes on without it
#: An entry's time starts again with a request after this part of it, so that most requests only read.
_RENEWED_AFTER = 0.1
_PRUNED_AFTER = 1 / 64  # of the limit, in bytes that one process has written


class DatabaseStore:
    """A store in a database; its table is made on first use.

    Args:
        address: the path of a SQLite file, which is made for its owner alone, or ``postgresql://...``.
        limit: the most bytes of all entries, about: each worker looks after some that it has written.
        seconds: how long an entry is kept that nobody asks for, by the database's clock.
        connections: to PostgreSQL, at most.

    Raises:
        ModuleNotFoundError: the address is PostgreSQL's, and psycopg or psycopg_pool is not installed.
    """

    def __init__(
        self,
        address: str | os.PathLike[str],
        *,
        limit: int = 1024 * 1024 * 1024,
        seconds: float = DAY,
        connections: int = 10,
    ) -> None:
        self._database = open_database(os.fspath(address), _TABLES, connections)
        self._limit = limit
        self._seconds = seconds
        self._unpruned = limit  # bytes, so that the first entry that is written removes old ones

    async def get(self, keys: Sequence[str]) -> Mapping[str, bytes]:
        """Return the values of those keys that are stored, and start their time again."""
        return {key: bytes(value) for key, value in await self._renewed("key, value", keys)}

    async def renew(self, keys: Sequence[str]) -> set[str]:
        """Start the time of entries again; return the keys that are stored."""
        return {key for (key,) in await self._renewed("key", keys)}

    async def put(self, entries: Mapping[str, bytes]) -> None:
        """Store values, in place of earlier ones, and remove those above the limit that were not asked for longest."""

        def put(execute: Execute) -> None:
            for key, value in sorted(entries.items()):  # in one order, so that two workers never wait for each other
                execute(
                    f"INSERT INTO streamkit_kept (key, value, expires) VALUES (?, ?, {self._now} + ?) ON CONFLICT (key)"  # noqa: S608
                    " DO UPDATE SET value = excluded.value, expires = excluded.expires",
                    (key, value, self._seconds),
                )
                self._unpruned += ENTRY_SIZE + len(key) + len(value)
            if self._unpruned >= self._limit * _PRUNED_AFTER:
                self._unpruned = 0
                execute(f"DELETE FROM streamkit_kept WHERE expires <= {self._now}", ())  # noqa: S608
                summed = (
                    f"SELECT key, SUM(LENGTH(value) + LENGTH(key) + {ENTRY_SIZE}) OVER (ORDER BY expires DESC, key)"  # noqa: S608
                    " AS size FROM streamkit_kept"
                )
                execute(
                    f"DELETE FROM streamkit_kept WHERE key IN (SELECT key FROM ({summed}) AS summed WHERE size > ?)",  # noqa: S608
                    (self._limit,),
                )

        await self._run(put)

    async def add(self, key: str, value: bytes) -> bytes:
        """Store a value without an end unless the key has one; return the one that is stored."""

        def add(execute: Execute) -> bytes:
            execute(
                "INSERT INTO streamkit_kept (key, value, expires) VALUES (?, ?, 1e18) ON CONFLICT (key) DO NOTHING",
                (key, value),
            )
            (found,) = execute("SELECT value FROM streamkit_kept WHERE key = ?", (key,)).fetchone()
            return bytes(found)

        return await self._run(add)

    async def aclose(self) -> None:
        """Close the connections. The store can be used again."""
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._database.close)

    @property
    def _now(self) -> str:
        return self._database.now

    async def _renewed(self, columns: str, keys: Sequence[str]) -> list[tuple[Any, ...]]:
        """Start the time of entries again; return columns of those that are stored."""
        found: list[tuple[Any, ...]] = []
        latest = self._seconds * (1 - _RENEWED_AFTER)

        def renew(execute: Execute) -> None:
            for start in range(0, len(keys), _MOST_KEYS):
                part = tuple(keys[start : start + _MOST_KEYS])
                known = f"key IN ({', '.join('?' * len(part))}) AND expires > {self._now}"
                found.extend(execute(f"SELECT {columns} FROM streamkit_kept WHERE {known}", part).fetchall())  # noqa: S608
                execute(
                    f"UPDATE streamkit_kept SET expires = {self._now} + ? WHERE {known} AND expires < {self._now} + ?",  # noqa: S608
                    (self._seconds, *part, latest),
                )

        await self._run(renew)
        return found

    async def _run(self, work: Callable[[Execute], _Value]) -> _Value:
        """Do some work in a transaction, in a worker thread; return its result.

        Raises:
            TimeoutError: the database has not responded; the thread ends when it does.
        """
        with anyio.fail_after(_SLOWEST):
            return await anyio.to_thread.run_sync(self._database.transact, work, abandon_on_cancel=True)
