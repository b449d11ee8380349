"""A PostgreSQL server that the tests start, from Debian's package, without a network; skipped where it is missing."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from waiting import wait_until

__all__ = ["PostgresServer", "postgres_server"]

_USER = "postgres"  # the server refuses to run as root


def _find_programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    if not found and on_path is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    return (found[-1] if found else Path(str(on_path))).parent


class PostgresServer:
    """A running server.

    Attributes:
        address: of its empty database.
    """

    def __init__(self, programs: Path, folder: Path, owner: dict[str, Any]) -> None:
        self.address = f"postgresql://{_USER}@/postgres?host={folder}"
        self._command = [programs / "postgres", "-D", folder / "data", "-k", folder, "-c", "listen_addresses="]
        self._options: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
        self._options |= owner
        self.start()

    def start(self) -> None:
        """Start the server, and return when it takes connections."""
        psycopg = pytest.importorskip("psycopg")
        self._server = subprocess.Popen([*self._command, "-c", "fsync=off"], **self._options)

        def is_up() -> bool:
            assert self._server.poll() is None, "the server has ended"
            try:
                psycopg.connect(self.address).close()
            except psycopg.OperationalError:
                return False
            return True

        wait_until(is_up)

    def stop(self) -> None:
        """Stop the server at once: its clients lose their connections."""
        self._server.send_signal(signal.SIGINT)  # fast shutdown
        self._server.wait()


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Start a server with an empty database, and yield it; stop it at the end."""
    pytest.importorskip("psycopg_pool")
    programs = _find_programs()
    owner: dict[str, Any] = {}
    if os.geteuid() == 0:
        try:
            pwd.getpwnam(_USER)
        except KeyError:
            pytest.skip("PostgreSQL cannot run as root, and there is no user postgres")
        owner = {"user": _USER}
    folder = Path(tempfile.mkdtemp(prefix="streamkit-pg-", dir="/tmp"))
    try:
        if owner:
            shutil.chown(folder, _USER)
        initdb = [programs / "initdb", "-D", folder / "data", "-U", _USER, "-A", "trust", "--no-sync"]
        subprocess.run(initdb, check=True, capture_output=True, cwd=folder, **owner)
        server = PostgresServer(programs, folder, owner)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)
