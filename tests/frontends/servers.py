"""Applications of the tests in processes of their own, over real HTTP."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from waiting import wait_until


def free_port() -> int:
    """Return the number of a port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


@contextmanager
def started(command: Sequence[str], port: int, **variables: str) -> Iterator[None]:
    """Run an application that listens on a port, until the block ends."""
    environment = {**os.environ, **variables}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def is_listening() -> bool:
        assert process.poll() is None, process.stdout.read()
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) == 0

    try:
        wait_until(is_listening)
        yield
    finally:
        process.terminate()
        process.communicate()
