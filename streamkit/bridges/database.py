"""Databases: their connections, tables, time, and failures after which work is done again.

SQLite is for the processes of one machine, PostgreSQL (the extra ``postgres``) for several. The tables are created on
first use. Both drivers are synchronous and run in threads, because psycopg's asynchronous connection does not run on
trio. This module must not depend on what is stored.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

from streamkit.values.distribution import missing_package

__all__ = ["Database", "Execute", "open_database"]

_Value = TypeVar("_Value")

#: Runs one statement, with ``?`` for each value, and returns the driver's cursor.
Execute: TypeAlias = Callable[[str, tuple[Any, ...]], Any]


class Database:
    """The connections to one database, opened when they are needed.

    Attributes:
        now: the SQL of the database's time, in seconds.
        failures: the exceptions after which the same work may succeed.
    """

    now: str
    failures: tuple[type[Exception], ...]

    def transact(self, work: Callable[[Execute], _Value]) -> _Value:
        """Do some work in a transaction, and return its value."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the connections."""
        raise NotImplementedError


class SQLite(Database):
    now = "(julianday('now') - 2440587.5) * 86400.0"  # julianday of 1970-01-01; unixepoch('subsec') needs SQLite 3.42
    failures: tuple[type[Exception], ...] = (sqlite3.OperationalError,)

    def __init__(self, address: str, tables: Sequence[str]) -> None:
        self._address = address
        self._tables = tables
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def transact(self, work: Callable[[Execute], _Value]) -> _Value:
        """Do some work in a transaction, one thread at a time. After an error of SQLite the connection is closed."""
        with self._lock:
            try:
                connection = self._connection or self._connect()
                connection.execute("BEGIN IMMEDIATE")  # a transaction that reads first cannot always write later
                value = work(connection.execute)
                connection.execute("COMMIT")
            except sqlite3.Error:
                self._close()
                raise
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            return value

    def _connect(self) -> sqlite3.Connection:
        if self._address and self._address != ":memory:":
            # For the owner alone; SQLite gives its other files the same mode. One that exists is never opened: closing
            # it would drop this process's locks on it (https://www.sqlite.org/howtocorrupt.html, section 2.2).
            with suppress(OSError):  # SQLite reports what cannot be opened
                os.close(os.open(self._address, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        connection = self._connection = sqlite3.connect(
            self._address, timeout=30, isolation_level=None, check_same_thread=False
        )
        # The change of the mode fails at once while another connection writes, whatever the timeout (SQLite 3.40). The
        # mode is only for speed; a later connection changes it.
        with suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")  # which waits
        for table in self._tables:
            connection.execute(table)
        connection.execute("COMMIT")
        return connection

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # it is of no more use, and the first error is the one to report
                connection.close()


class Postgres(Database):
    now = "CAST(extract(epoch FROM clock_timestamp()) AS DOUBLE PRECISION)"

    def __init__(self, address: str, tables: Sequence[str], connections: int) -> None:
        try:
            import psycopg
            import psycopg_pool
        except ModuleNotFoundError as error:
            raise missing_package("a store in PostgreSQL", error, "postgres") from None
        self.failures: tuple[type[Exception], ...] = (psycopg.OperationalError, psycopg.InterfaceError)
        self._address = address
        self._tables = tables
        self._driver = psycopg
        self._lock = threading.Lock()
        self._pool: Any = None

        def create_pool() -> Any:
            # One attempt to connect, and a short wait: the store repeats both.
            return psycopg_pool.ConnectionPool(
                address, min_size=1, max_size=connections, timeout=1.0, reconnect_timeout=0.05, open=True
            )

        self._create_pool = create_pool

    def transact(self, work: Callable[[Execute], _Value]) -> _Value:
        """Do some work in a transaction of one of the connections. After an error each of them is checked."""
        pool = self._open()
        try:
            with pool.connection() as connection:
                return work(lambda query, values: connection.execute(query.replace("?", "%s"), values))
        except self.failures:
            pool.check()
            raise

    def _open(self) -> Any:
        with self._lock:
            if self._pool is None:
                with self._driver.connect(self._address) as connection:
                    # CREATE TABLE IF NOT EXISTS fails if two sessions run it at once; the number is any that others do
                    # not use.
                    connection.execute("SELECT pg_advisory_xact_lock(7310579615)")
                    for table in self._tables:
                        connection.execute(table)
                self._pool = self._create_pool()
            return self._pool

    def close(self) -> None:
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()


def open_database(address: str, tables: Sequence[str], connections: int) -> Database:
    """Return the database of an address; nothing is connected yet.

    Args:
        address: the path of a SQLite file, or ``postgresql://...``.
        tables: the statements that create its tables, unless they exist.
        connections: to PostgreSQL, at most.

    Raises:
        ModuleNotFoundError: the address is PostgreSQL's, and psycopg or psycopg_pool is not installed.
    """
    if address.startswith(("postgresql://", "postgres://")):
        return Postgres(address, tables, connections)
    return SQLite(address, tables)
