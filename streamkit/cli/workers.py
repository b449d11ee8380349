"""Several processes that serve one socket: ``streamkit gateway --workers N``.

This process starts the workers, passes signals on to them, and starts another one for each that ends unexpectedly. It
serves nothing and has no event loop, so that it can fork at any time. A worker is in a process group of its own: Ctrl-C
of a terminal reaches all processes of a group, and a second one, which this process passes on, would end responses that
are open. The workers end with this process, however it ends: each waits for the end of a pipe.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from streamkit.cli.exit_codes import WRONG_USE

__all__ = ["run_workers", "shared_metrics"]

_SHORT = 1.0  # seconds; a worker that ends sooner is started again after as much time


def run_workers(
    count: int,
    work: Callable[[bool], int],
    report: Callable[[str], None],
    *,
    reloads: bool,
    on_end: Callable[[int], None] | None = None,
) -> int:
    """Run workers until a signal; return the exit code, or raise what the signal raises in a process without workers.

    Args:
        count: the number of workers.
        work: serves in a worker, and returns its exit code; with True in the first one.
        report: takes a line about a worker that has ended.
        reloads: SIGHUP is passed on to the workers; else it ends this process, as usual.
        on_end: called with the id of each process that has ended.

    Raises:
        KeyboardInterrupt: Ctrl-C, when all workers have ended.
    """
    began: dict[int, float] = {}  # the time of each worker by its process
    received: list[int] = []  # signals that end
    lifeline, held = os.pipe()
    code = 0

    def pass_on(number: int, frame: object) -> None:
        if number != getattr(signal, "SIGHUP", None):
            received.append(number)
        for process in began:
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def start(*, is_first: bool = False) -> None:
        with _blocked(signals):  # a signal between both statements would not reach the worker
            process = os.fork()
            if process == 0:
                os.close(held)
                _run_worker(work, is_first, lifeline, signals)
            began[process] = time.monotonic()

    signals = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if reloads else [])]
    before = {number: signal.signal(number, pass_on) for number in signals}
    try:
        for index in range(count):
            start(is_first=index == 0)
        while began:
            process, status = os.waitpid(-1, 0)
            seconds = time.monotonic() - began.pop(process, 0.0)
            if on_end is not None:
                on_end(process)
            if received:
                continue
            ended = os.waitstatus_to_exitcode(status)
            if ended == WRONG_USE:  # all others end likewise, and have reported why
                code = ended
                pass_on(signal.SIGTERM, None)
                continue
            reason = f"signal {signal.Signals(-ended).name}" if ended < 0 else f"exit code {ended}"
            report(f"worker {process} has ended by {reason}: another one is started")
            if seconds < _SHORT:
                time.sleep(_SHORT)
            if not received:
                start()
    finally:
        os.close(held)
        os.close(lifeline)
        for number, handler in before.items():
            signal.signal(number, handler)
    if code == 0 and signal.SIGTERM in received:
        signal.raise_signal(signal.SIGTERM)
    if code == 0 and signal.SIGINT in received:
        raise KeyboardInterrupt
    return code


@contextmanager
def shared_metrics(is_on: bool) -> Iterator[Callable[[int], None] | None]:
    """Let workers count in files that all of them read; yield what removes the gauges of one that has ended.

    Counters stay, so that none of them falls.
    """
    if not is_on:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="streamkit-metrics-") as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder  # read when prometheus-client is imported, below

        def remove_gauges(process: int) -> None:
            from prometheus_client.multiprocess import mark_process_dead

            mark_process_dead(process, folder)  # type: ignore[no-untyped-call]

        try:
            yield remove_gauges
        finally:
            del os.environ["PROMETHEUS_MULTIPROC_DIR"]


@contextmanager
def _blocked(signals: list[signal.Signals]) -> Iterator[None]:
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)


def _run_worker(work: Callable[[bool], int], is_first: bool, lifeline: int, signals: list[signal.Signals]) -> NoReturn:
    """Serve in the forked process, and end it."""
    code = 1
    try:
        os.setpgid(0, 0)
        for number in signals:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
        threading.Thread(target=_end_with_parent, args=(lifeline,), daemon=True).start()
        code = work(is_first)
    finally:
        os._exit(code)  # without what this process has begun before it has forked


def _end_with_parent(lifeline: int) -> None:
    os.read(lifeline, 1)
    os.kill(os.getpid(), signal.SIGTERM)
