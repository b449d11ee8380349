"""Copies on their way to a target: bounded, without waiting, whatever the target does; and the list for the page."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from waiting import PATIENCE

from streamkit.gateway.tap import relay as relay_module
from streamkit.gateway.tap.exchange_folder import ExchangeFolder
from streamkit.gateway.tap.exchange_list import ExchangeList
from streamkit.gateway.tap.observed_exchange import ExchangeEnd, ExchangeStart
from streamkit.gateway.tap.relay import Copies, Relay

FRAME = b'data: {"id":"r","choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'


def start(path: str = "/p", **fields: Any) -> ExchangeStart:
    return ExchangeStart(at=100.0, method="POST", path=path, provider="openai_chat", **fields)


class Taken:
    """A target that keeps what it takes, and blocks until it may go on."""

    def __init__(self, *, is_open: bool = True) -> None:
        self.copies: list[Copies] = []
        self.is_blocked = threading.Event()
        self.gate = threading.Event()
        if is_open:
            self.gate.set()

    def take(self, copies: Copies) -> None:
        self.is_blocked.set()
        self.gate.wait(PATIENCE)
        self.copies.append(copies)

    def parts(self, key: int) -> list[bytes]:
        return [data for copies in self.copies if copies.key == key for _, data in copies.parts]

    def lost(self, key: int) -> int:
        return sum(copies.lost for copies in self.copies if copies.key == key)


def test_copies_arrive_in_order() -> None:
    target = Taken()
    relay = Relay(target)
    relay.start(1, start())
    relay.respond(1, 100.1, 200, {})
    for number in range(100):
        relay.receive(1, 101.0, b"%d" % number)
    relay.note(1, "a note")
    relay.end(1, ExchangeEnd(at=102.0))
    relay.close()
    assert target.parts(1) == [b"%d" % number for number in range(100)]
    assert target.copies[0].start == start()
    assert target.copies[-1].end == ExchangeEnd(at=102.0)
    assert [note for copies in target.copies for note in copies.notes] == ["a note"]


def test_of_a_target_that_is_slow_the_oldest_parts_are_dropped_and_counted() -> None:
    target = Taken(is_open=False)
    relay = Relay(target, most_bytes=100)
    relay.start(1, start())
    assert target.is_blocked.wait(PATIENCE)
    for number in range(30):
        relay.receive(1, 101.0, b"%010d" % number)  # returns at once, though the target does not
    relay.end(1, ExchangeEnd(at=102.0))
    target.gate.set()
    relay.close()
    assert target.parts(1) == [b"%010d" % number for number in range(20, 30)]
    assert target.lost(1) == 20
    assert target.copies[-1].end is not None


def test_the_number_of_waiting_parts_and_exchanges_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "_MOST_PARTS", 5)
    monkeypatch.setattr(relay_module, "_MOST_EXCHANGES", 3)
    target = Taken(is_open=False)
    relay = Relay(target)
    relay.start(0, start())
    assert target.is_blocked.wait(PATIENCE)
    for key in range(1, 7):
        relay.start(key, start())
        for _ in range(4):
            relay.receive(key, 101.0, b"")
    target.gate.set()
    relay.close()
    assert sorted({copies.key for copies in target.copies}) == [0, 4, 5, 6]
    assert sum(len(copies.parts) for copies in target.copies) == 5


@pytest.mark.parametrize("kind", ["list", "folder"])
def test_other_threads_run_while_a_long_request_is_masked(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search holds the interpreter: with a request of 23 MB all streams stood still for seconds."""
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    target = ExchangeList() if kind == "list" else ExchangeFolder(tmp_path)
    body = b'{"messages": [{"role": "user", "content": "%s"}]}' % (b"the key of page 1: " * 100_000)
    target.take(Copies(1, start=start(request=body)))
    assert pauses.count(0) >= 2 * (len(body) // 65_536)  # two patterns search it


def test_a_target_that_raises_is_reported_once_and_called_again() -> None:
    class Broken(Taken):
        def take(self, copies: Copies) -> None:
            super().take(copies)
            raise OSError("No space left on device")

    said: list[str] = []
    target = Broken()
    relay = Relay(target, report=said.append)
    for key in (1, 2):
        relay.start(key, start())
        assert relay.flush()
    relay.close()
    assert [copies.key for copies in target.copies] == [1, 2]
    assert said == ["Broken failed and misses an exchange: OSError: No space left on device"]


def test_a_report_that_raises_is_no_matter() -> None:
    class Broken:
        def take(self, copies: Copies) -> None:
            raise ValueError

    def report(sentence: str) -> None:
        raise ValueError(sentence)

    relay = Relay(Broken(), report=report)
    for key in (1, 2):
        relay.start(key, start())
        assert relay.flush()
    relay.close()


def test_a_relay_that_is_closed_ends_its_thread() -> None:
    before = set(threading.enumerate())
    relay = Relay(Taken())
    relay.close()
    relay.start(1, start())
    relay = Relay(Taken())
    relay.start(1, start())
    relay.close()
    assert set(threading.enumerate()) <= before


# ---------------------------------------------------------------- the list


def filled(count: int, most: int = 200) -> ExchangeList:
    exchanges = ExchangeList(most)
    for key in range(1, count + 1):
        copies = Copies(key, start=start(f"/{key}"), response=(100.1, 200, {}))
        copies.parts.extend([(101.0, FRAME)] * key)
        exchanges.take(copies)
    return exchanges


def test_a_reader_gets_what_is_new() -> None:
    exchanges = filled(3)
    first = exchanges.changes(0, selected=2)
    assert [summary["path"] for summary in first.summaries] == ["/1", "/2", "/3"]
    assert (len(first.rows), first.next_row) == (2, 2)
    assert not exchanges.changes(first.version, 2, first.next_row).summaries
    more = Copies(2, end=ExchangeEnd(at=102.0))
    more.parts.append((101.5, FRAME))
    exchanges.take(more)
    second = exchanges.changes(first.version, 2, first.next_row)
    assert [summary["path"] for summary in second.summaries] == ["/2"]
    assert second.summaries[0]["state"] == "failed"  # no terminator
    assert (len(second.rows), second.next_row) == (2, 4)  # the frame, and the events of the end


def test_a_reader_that_is_slow_gets_many_rows_in_bounded_answers() -> None:
    exchanges = filled(1)
    copies = Copies(1)
    copies.parts.extend([(101.0, FRAME)] * 1200)
    exchanges.take(copies)
    row, sizes = 0, []
    while rows := (changes := exchanges.changes(0, 1, row)).rows:
        sizes.append(len(rows))
        row = changes.next_row
    assert sizes == [500, 500, 201]


def test_the_oldest_exchanges_are_dropped_and_counted() -> None:
    exchanges = filled(5, most=2)
    changes = exchanges.changes(0, selected=1)
    assert [summary["id"] for summary in changes.summaries] == [4, 5]
    assert (changes.dropped, changes.rows) == (3, [])
    assert exchanges.detail(1) is None
    exchanges.take(Copies(1, end=ExchangeEnd(at=102.0)))  # of one that is no longer kept
    assert exchanges.changes(changes.version).summaries == []
