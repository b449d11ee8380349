"""Several processes that serve one socket: ``streamkit gateway --workers N``.

This process serves nothing. It runs its own command once for each worker, which gets the socket, passes signals on, and
starts another worker for each that ends unexpectedly. A worker is in a process group of its own: Ctrl-C of a terminal
reaches all processes of a group, and a second one, which this process passes on, would end open responses. The workers
end with this process, however it ends: then a pipe ends that each of them reads.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress

__all__ = ["run_workers", "worker_socket"]

_VARIABLE = "STREAMKIT_GATEWAY_WORKER"  # of a worker: its number, and the files of the socket and of the pipe
_REFUSED = 2  # the exit code of a command that cannot work
_SHORT = 1.0  # seconds; a worker that ends sooner is started again after as much time


def worker_socket() -> tuple[socket.socket, bool] | None:
    """Return the socket of this worker, and whether it is the first one; None in a process that is no worker."""
    if (given := os.environ.get(_VARIABLE)) is None:
        return None
    number, listening, pipe = map(int, given.split())

    def end_with_parent() -> None:
        os.read(pipe, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_with_parent, daemon=True).start()
    return socket.socket(fileno=listening), number == 0


def run_workers(count: int, listening: socket.socket, report: Callable[[str], None], *, reloads: bool) -> int:
    """Run workers until a signal; return the exit code, or raise KeyboardInterrupt after Ctrl-C.

    SIGHUP is passed on if a worker *reloads* by it; else it ends this process, as usual.
    """
    began: dict[int, float] = {}  # the time of each worker by its process
    received: list[int] = []  # signals that end
    pipe, held = os.pipe()
    os.set_inheritable(pipe, True)
    os.set_inheritable(listening.fileno(), True)
    code = 0

    def pass_on(number: int, frame: object) -> None:
        received.extend([] if number == signal.SIGHUP else [number])
        for process in began:
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def start(number: int) -> None:
        worker = {
            _VARIABLE: f"{number} {listening.fileno()} {pipe}",
            "PROMETHEUS_MULTIPROC_DIR": folder,  # read by prometheus-client, if there are metrics
        }
        command = [sys.executable, *sys.orig_argv[1:]]
        process = os.posix_spawn(sys.executable, command, {**os.environ, **worker}, setpgroup=0)
        began[process] = time.monotonic()
        if received:  # meanwhile
            os.kill(process, signal.SIGTERM)

    signals = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if reloads else [])]
    before = {number: signal.signal(number, pass_on) for number in signals}
    with tempfile.TemporaryDirectory(prefix="streamkit-metrics-") as folder:
        for number in range(count):
            start(number)
        while began:
            process, status = os.waitpid(-1, 0)
            seconds, ended = time.monotonic() - began.pop(process, 0.0), os.waitstatus_to_exitcode(status)
            with suppress(ModuleNotFoundError):
                from prometheus_client.multiprocess import mark_process_dead

                mark_process_dead(process, folder)  # type: ignore[no-untyped-call] # its gauges; counters never fall
            if received:
                continue
            if ended == _REFUSED:  # all others end likewise, and have reported why
                code = ended
                pass_on(signal.SIGTERM, None)
                continue
            reason = f"signal {signal.Signals(-ended).name}" if ended < 0 else f"exit code {ended}"
            report(f"worker {process} has ended by {reason}: another one is started")
            time.sleep(_SHORT if seconds < _SHORT else 0)
            if not received:
                start(count)
    os.close(held)
    for number, handler in before.items():
        signal.signal(number, handler)
    if code == 0 and signal.SIGTERM in received:
        signal.raise_signal(signal.SIGTERM)
    if code == 0 and signal.SIGINT in received:
        raise KeyboardInterrupt
    return code
