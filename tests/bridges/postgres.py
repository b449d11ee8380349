"""A PostgreSQL server that the tests start, from Debian's package, without a network; skipped where it is missing."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from waiting import wait_until

__all__ = ["postgres_server"]

_USER = "postgres"  # the server refuses to run as root


def _find_programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    if not found and on_path is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    return (found[-1] if found else Path(str(on_path))).parent


@contextmanager
def postgres_server() -> Iterator[str]:
    """Start a server with an empty database, and yield its address; stop it at the end."""
    psycopg = pytest.importorskip("psycopg")
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
        data = folder / "data"
        subprocess.run(
            [programs / "initdb", "-D", data, "-U", _USER, "-A", "trust", "--no-sync"],
            check=True,
            capture_output=True,
            cwd=folder,
            **owner,
        )
        server = subprocess.Popen(
            [programs / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            **owner,
        )
        address = f"postgresql://{_USER}@/postgres?host={folder}"
        try:

            def is_up() -> bool:
                assert server.poll() is None, "the server has ended"
                try:
                    psycopg.connect(address).close()
                except psycopg.OperationalError:
                    return False
                return True

            wait_until(is_up)
            yield address
        finally:
            server.terminate()
            server.wait()
    finally:
        shutil.rmtree(folder)
