"""Memory of a turn, as ``tracemalloc`` counts it: idle, after one delta, and of text that was not read yet."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.measure import Row, Settings
from benchmarks.streams import TURNS, make_turn
from streamkit import Turn
from streamkit.events import Event, Text

__all__ = ["measure"]

TURNS_AT_ONCE = 500
CHARACTERS = 700_000
IDLE, AFTER_ONE_DELTA, HELD = 1_536, 3_072, 4  # the targets, in bytes; HELD for a character


def allocated(make: Callable[[], object]) -> int:
    """Return the bytes that are still allocated when ``make`` has returned and its result is alive."""
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        kept = make()
        gc.collect()
        after = tracemalloc.get_traced_memory()[0]
        del kept
    finally:
        tracemalloc.stop()
    return after - before


def first_text(provider: str) -> list[bytes]:
    """Return the reads of a turn of text up to its first delta."""
    reads = [read for read in make_turn(provider, 40, calls=0) if b"thinking" not in read and b"reasoning" not in read]
    reads = [read for read in reads if b'"thought"' not in read and b"rs_1" not in read and b"signature" not in read]
    turn = Turn(provider, turn_key="benchmark")
    for number, read in enumerate(reads):
        if any(isinstance(event, Text) for event in turn.feed(read)):
            return reads[: number + 1]
    raise SystemExit(f"{provider}: the turn has no text")


def make_idle(provider: str) -> list[Turn]:
    return [Turn(provider, turn_key="benchmark") for _ in range(TURNS_AT_ONCE)]


def make_fed(provider: str, reads: list[bytes]) -> list[Turn]:
    turns = make_idle(provider)
    for turn in turns:
        for read in reads:
            turn.feed(read)
    return turns


def hold_text() -> Turn:
    """Return a turn that was fed a text in deltas of 7 characters, which differ."""
    turn = Turn("openai_chat", turn_key="benchmark")
    for number in range(CHARACTERS // 7):
        delta = b'{"choices":[{"index":0,"delta":{"content":"%07d"}}]}' % number
        events: list[Event] = turn.feed(b"data: " + delta + b"\n\n")
        del events
    return turn


def measure(settings: Settings) -> Iterator[Row]:
    """Return the bytes of a turn, and of a character of its text."""
    for name, target in (("idle", IDLE), ("after one text delta", AFTER_ONE_DELTA)):
        for provider in TURNS:
            reads = first_text(provider) if target == AFTER_ONE_DELTA else []
            make_fed(provider, reads)  # modules are loaded, and caches filled, once a process
            size = allocated(partial(make_fed, provider, reads)) / TURNS_AT_ONCE
            yield Row(f"{name}, {provider}", size, "bytes", target)
    hold_text()
    yield Row("text before it is read, a character", allocated(hold_text) / CHARACTERS, "bytes", HELD)
