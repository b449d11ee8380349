"""Memory of a turn: the bytes that ``tracemalloc`` counts, idle, after one delta, and of text that was not read yet.

And the objects that the garbage collector looks at again and again while a turn is open: after 30 deltas, with a call.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.measure import Row, Settings
from benchmarks.streams import TURNS, WHOLE_CALLS, make_turn
from streamkit import Turn
from streamkit.events import Event, Text, ToolCallEnd

__all__ = ["measure"]

TURNS_AT_ONCE = 500
CHARACTERS = 700_000
FRAMES_OF_OPEN_CALL, TRACKED = 30, 40  # deltas, and the target of objects
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
    reads = make_turn(provider, 40, calls=0, reasoning=0)
    turn = Turn(provider, turn_key="benchmark")
    for number, read in enumerate(reads):
        if any(isinstance(event, Text) for event in turn.feed(read)):
            return reads[: number + 1]
    raise SystemExit(f"{provider}: the turn has no text")


def open_call(provider: str) -> list[bytes]:
    """Return the first reads of a turn, 30 deltas of text and of a call that is open."""
    reads = make_turn(provider, FRAMES_OF_OPEN_CALL, calls=1, reasoning=0)
    turn = Turn(provider, turn_key="benchmark")
    for number, read in enumerate(reads):
        if any(isinstance(event, ToolCallEnd) for event in turn.feed(read)):
            return reads[:number]
    raise SystemExit(f"{provider}: no call ends")


def tracked_objects(provider: str, reads: list[bytes]) -> float:
    """Return how many objects the garbage collector looks at, for each of many turns that were fed the reads."""
    gc.collect()
    before = len(gc.get_objects())
    turns = make_fed(provider, reads)
    gc.collect()  # some objects are no longer tracked after the first collection
    count = len(gc.get_objects()) - before
    return count / len(turns)


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
    make_idle("openai_chat")  # modules are loaded, and caches filled, once a process
    yield Row("idle", allocated(partial(make_idle, "openai_chat")) / TURNS_AT_ONCE, "bytes", IDLE)
    for provider in TURNS:
        reads = first_text(provider)
        make_fed(provider, reads)
        size = allocated(partial(make_fed, provider, reads)) / TURNS_AT_ONCE
        yield Row(f"after one text delta, {provider}", size, "bytes", AFTER_ONE_DELTA)
    for provider in TURNS:
        if provider not in WHOLE_CALLS:
            reads = open_call(provider)
            note = f"after {len(reads)} frames"
            yield Row(f"open call, {provider}", tracked_objects(provider, reads), "objects", TRACKED, note)
    hold_text()
    yield Row("text before it is read, a character", allocated(hold_text) / CHARACTERS, "bytes", HELD)
