"""Copies of exchanges, which a thread passes to a target.

``Relay`` is between a response and its observer. Its methods take a lock for the time of an assignment and return; the
target gets the copies that have accumulated. A target that is slow, blocks or raises does not delay or fail a response:
the waiting copies are bounded, the oldest parts are dropped first, and their number is passed on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from streamkit.gateway.tap.observed_exchange import ExchangeEnd, ExchangeStart
from streamkit.reading.source import BYTES

__all__ = ["Copies", "Relay", "RelayTarget", "let_others_run"]

_log = logging.getLogger("streamkit.tap")

_MOST_BYTES = 32 * 1024 * 1024
_MOST_PARTS = 100_000
_MOST_EXCHANGES = 2_000
_SIZE_OF_OBJECT = 1024  # bytes that a chunk which is no bytes counts as


@dataclass(slots=True)
class Copies:
    """The copies of one exchange since the last time.

    Attributes:
        key: the number of the exchange.
        start: the request, if it is new.
        response: the time, the status and the headers of the response, if they are new.
        parts: the time and the data of each new part.
        lost: the number of parts before these that were dropped.
        notes: sentences about the exchange.
        end: the end, if it is new.
    """

    key: int
    start: ExchangeStart | None = None
    response: tuple[float, int, Mapping[str, str]] | None = None
    parts: deque[tuple[float, Any]] = field(default_factory=deque)
    lost: int = 0
    notes: list[str] = field(default_factory=list)
    end: ExchangeEnd | None = None

    def each_part(self) -> Iterator[tuple[float, Any]]:
        """Yield the parts, and let other threads run between them."""
        for part in self.parts:
            yield part
            let_others_run()


def let_others_run() -> None:
    """Let other threads run.

    Otherwise an event loop that has input waits for the interpreter's switch interval of 5 ms, once for each input.
    """
    time.sleep(0)


class RelayTarget(Protocol):
    """Takes copies, in the relay's thread."""

    def take(self, copies: Copies, /) -> None:
        """Take the new copies of an exchange."""


class Relay:
    """Copies that a thread passes to a target.

    Args:
        target: gets the copies.
        report: called with one sentence when the target fails for the first time, in the relay's thread.
        most_bytes: the bytes of the copies that may wait.
    """

    def __init__(
        self, target: RelayTarget, *, report: Callable[[str], None] | None = None, most_bytes: int = _MOST_BYTES
    ) -> None:
        self._target = target
        self._report = report or _log.warning
        self._most_bytes = most_bytes
        self._condition = threading.Condition()
        self._waiting: dict[int, Copies] = {}
        self._bytes = 0
        self._parts = 0
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._is_busy = False
        self._has_failed = False

    # ---------------------------------------------------------------- copies

    def start(self, key: int, start: ExchangeStart) -> None:
        """Take a request."""
        with self._condition:
            self._copies(key).start = start

    def respond(self, key: int, at: float, status: int, headers: Mapping[str, str]) -> None:
        """Take the status and the headers of a response."""
        with self._condition:
            self._copies(key).response = (at, status, headers)

    def receive(self, key: int, at: float, data: Any) -> None:
        """Take a part of a response."""
        with self._condition:
            self._copies(key).parts.append((at, data))
            self._bytes += _size(data)
            self._parts += 1
            while (self._bytes > self._most_bytes or self._parts > _MOST_PARTS) and self._drop_part():
                pass

    def note(self, key: int, note: str) -> None:
        """Take a sentence about an exchange."""
        with self._condition:
            self._copies(key).notes.append(note)

    def end(self, key: int, end: ExchangeEnd) -> None:
        """Take the end of an exchange."""
        with self._condition:
            self._copies(key).end = end

    def _copies(self, key: int) -> Copies:
        """Return the waiting copies of an exchange, and wake the thread."""
        copies = self._waiting.get(key)
        if copies is None:
            if len(self._waiting) >= _MOST_EXCHANGES:
                oldest = self._waiting.pop(next(iter(self._waiting)))
                self._parts -= len(oldest.parts)
                self._bytes -= sum(_size(data) for _, data in oldest.parts)
            copies = self._waiting[key] = Copies(key)
        if self._thread is None and not self._is_closed:
            self._thread = threading.Thread(target=self._run, name="streamkit.tap", daemon=True)
            self._thread.start()
        self._condition.notify_all()
        return copies

    def _drop_part(self) -> bool:
        """Drop the oldest part of the exchange that has waited longest; return False if none is left."""
        for copies in self._waiting.values():
            if copies.parts:
                _, data = copies.parts.popleft()
                copies.lost += 1
                self._bytes -= _size(data)
                self._parts -= 1
                return True
        return False

    # ---------------------------------------------------------------- the thread

    def _run(self) -> None:
        while True:
            with self._condition:
                self._is_busy = False
                self._condition.notify_all()
                while not self._waiting:
                    if self._is_closed:
                        return
                    self._condition.wait()
                waiting, self._waiting = self._waiting, {}
                self._bytes = self._parts = 0
                self._is_busy = True
            for copies in waiting.values():
                self._pass_on(copies)

    def _pass_on(self, copies: Copies) -> None:
        try:
            self._target.take(copies)
        except Exception as error:  # a defect of the target must not fail a response
            if not self._has_failed:
                self._has_failed = True
                sentence = (
                    f"{type(self._target).__name__} failed and misses an exchange: {type(error).__name__}: {error}"
                )
                try:
                    self._report(sentence)
                except Exception:
                    _log.debug("the report of a relay failed", exc_info=True)
            _log.debug("the target of a relay failed", exc_info=True)

    def flush(self, timeout: float = 5.0) -> bool:
        """Wait until the target has taken all copies; return False if it has not within *timeout* seconds."""
        with self._condition:
            return self._condition.wait_for(lambda: not self._waiting and not self._is_busy, timeout)

    def close(self, timeout: float = 5.0) -> None:
        """Pass on the waiting copies, at most for *timeout* seconds, and end the thread."""
        with self._condition:
            self._is_closed = True
            self._condition.notify_all()
        if self._thread is not None:
            self._thread.join(timeout)


def _size(data: Any) -> int:
    return len(data) if isinstance(data, BYTES) else _SIZE_OF_OBJECT
