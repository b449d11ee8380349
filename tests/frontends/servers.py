"""Applications in processes of their own, over real HTTP.

As a command it kills one without notice and starts it anew: ``python servers.py FOLDER PORT COMMAND ...``. The folder
has the number of the process, and what it prints.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

if (tests := str(Path(__file__).resolve().parent.parent)) not in sys.path:
    sys.path.insert(0, tests)

from waiting import wait_until


def free_port() -> int:
    """Return the number of a port that is free now, below those that the system gives to connections."""
    while True:
        port = 10_000 + secrets.randbelow(20_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def is_listening(port: int) -> bool:
    """Return True if a server accepts connections at a port."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def start(folder: Path, port: int, command: Sequence[str], **variables: str) -> None:
    """Start an application, and wait until it listens."""
    with (folder / "output").open("a") as output:
        process = subprocess.Popen(command, env={**os.environ, **variables}, stdout=output, stderr=output)
    (folder / "pid").write_text(str(process.pid))

    def has_started() -> bool:
        assert process.poll() is None, (folder / "output").read_text()
        return is_listening(port)

    wait_until(has_started)
    process.returncode = 0  # it outlives this object


def stop(folder: Path, port: int) -> None:
    """Kill the application, and wait until it is gone."""
    os.kill(int((folder / "pid").read_text()), signal.SIGKILL)
    wait_until(lambda: not is_listening(port))


@contextmanager
def started(folder: Path, port: int, command: Sequence[str], **variables: str) -> Iterator[None]:
    """Run an application until the block ends."""
    start(folder, port, command, **variables)
    try:
        yield
    finally:
        stop(folder, port)


if __name__ == "__main__":
    stop(Path(sys.argv[1]), int(sys.argv[2]))
    start(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
