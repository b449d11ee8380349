"""A Redis server that the tests start, from Debian's package, without a network; skipped where it is missing."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from waiting import wait_until

__all__ = ["redis_server"]


@contextmanager
def redis_server() -> Iterator[str]:
    """Start an empty server, and yield its address; stop it at the end."""
    redis = pytest.importorskip("redis")
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        pytest.skip("Redis is not installed (Debian: apt-get install redis-server)")
    folder = Path(tempfile.mkdtemp(prefix="streamkit-redis-", dir="/tmp"))
    socket = folder / "redis.sock"
    options = ["--port", "0", "--unixsocket", str(socket), "--save", "", "--appendonly", "no"]
    try:
        server = subprocess.Popen([program, *options], cwd=folder, stdout=subprocess.DEVNULL)
        try:

            def is_up() -> bool:
                assert server.poll() is None, "the server has ended"
                try:
                    return bool(redis.Redis(unix_socket_path=str(socket)).ping())
                except redis.ConnectionError:
                    return False

            wait_until(is_up)
            yield f"unix://{socket}"
        finally:
            server.terminate()
            server.wait()
    finally:
        shutil.rmtree(folder)
