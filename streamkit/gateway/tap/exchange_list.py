"""``ExchangeList``: the newest exchanges, for readers in other threads.

Readers ask for the changes since a version, and nothing is queued for any of them: one that is slow gets fewer and
larger answers. The number and the size of the exchanges are bounded: the oldest ones are dropped, and counted.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

from streamkit.gateway.tap.observed_exchange import ObservedExchange
from streamkit.gateway.tap.relay import Copies, let_others_run

__all__ = ["Changes", "ExchangeList"]

_MOST_BYTES = 128 * 1024 * 1024
_MOST_ROWS = 500  # of one answer, so that a page shows the first ones while it reads the others


class Changes(NamedTuple):
    """The changes since a reader's last question.

    Attributes:
        version: the version for the next question.
        summaries: of the exchanges that changed, by number.
        dropped: the number of exchanges that are no longer kept.
        rows: the next rows of the selected exchange, as JSON.
        request: the body of its request; None unless the rows begin with the first one.
        next_row: the number of the row after these.
    """

    version: int
    summaries: list[dict[str, Any]]
    dropped: int
    rows: list[bytes]
    request: str | None
    next_row: int


class ExchangeList:
    """The newest exchanges; a target of a ``Relay``.

    Args:
        most: the number of exchanges that are kept.
    """

    def __init__(self, most: int = 200) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._exchanges: dict[int, ObservedExchange] = {}
        self._versions: dict[int, int] = {}
        self._version = 0
        self._dropped = 0

    def take(self, copies: Copies) -> None:
        """Take the new copies of an exchange; those of one that is no longer kept are ignored."""
        with self._lock:
            if copies.start is not None:
                earlier = list(reversed(self._exchanges.values()))
                new = ObservedExchange(copies.key, copies.start, let_others_run, earlier)
                self._exchanges[copies.key] = new
                if new.continued is not None:
                    self._versions[new.continued] = self._version + 1
            exchange = self._exchanges.get(copies.key)
            if exchange is None:
                return
            self._version += 1
            self._versions[copies.key] = self._version
            apply_copies(exchange, copies)
            if copies.start is None and copies.end is None:
                return  # the oldest are not dropped with each part: one exchange is bounded itself
            size = sum(exchange.size for exchange in self._exchanges.values())
            while len(self._exchanges) > 1 and (len(self._exchanges) > self._most or size > _MOST_BYTES):
                key = next(iter(self._exchanges))
                size -= self._exchanges.pop(key).size
                del self._versions[key]
                self._dropped += 1

    def changes(self, since: int, selected: int | None = None, row: int = 0) -> Changes:
        """Return the changes since a version.

        Args:
            since: the version of the last answer; 0 at first.
            selected: the number of the exchange whose rows are wanted.
            row: the number of the first row that is wanted.
        """
        with self._lock:
            new = sorted(key for key, version in self._versions.items() if version > since)
            summaries = [self._exchanges[key].summary() for key in new]
            exchange = None if selected is None else self._exchanges.get(selected)
            rows: list[bytes] = []
            request = None
            if exchange is not None:
                request = exchange.request if row == 0 else None
                row = max(row, exchange.first_row)
                for line in exchange.rows_from(row):
                    rows.append(line)
                    if len(rows) == _MOST_ROWS:
                        break
            return Changes(self._version, summaries, self._dropped, rows, request, row + len(rows))

    def detail(self, key: int) -> bytes | None:
        """Return all that is shown of an exchange, as JSON; None if it is not kept."""
        with self._lock:
            exchange = self._exchanges.get(key)
            return None if exchange is None else exchange.detail()


def apply_copies(exchange: ObservedExchange, copies: Copies) -> None:
    """Add the new copies of an exchange to it."""
    if copies.response is not None:
        exchange.respond(*copies.response)
    if copies.lost:
        exchange.lose(copies.lost)
    for note in copies.notes:
        exchange.add_note(note)
    for at, data in copies.each_part():
        exchange.receive(at, data)
    if copies.end is not None:
        exchange.end(copies.end)
