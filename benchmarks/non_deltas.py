"""What is not a plain delta, in recorded streams: ``Turn()``, first frame, starts, ends, usage, finish and ``close``.

Each read is timed by itself, in ``Turn.feed`` and in the loop by hand alike, and a figure is the sum over the reads of
their medians, without what the clock takes. A plain delta is a read whose events are texts, reasoning or arguments and
nothing else; "other" are starts and ends of blocks, and reads without an event. The row of all has ``Turn()`` and
``close`` too, which a loop by hand does not have.

The clock here is that of the wall: the CPU's is read by a system call, which costs as much as a frame. Medians of the
rounds leave out a read that another process interrupted.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Iterator
from itertools import pairwise
from time import perf_counter_ns as clock

from benchmarks.floors import DECODE
from benchmarks.measure import Row, Settings
from benchmarks.recorded import FEWEST_FRAMES, Recorded, load_streams
from streamkit import Turn
from streamkit.events import Finished, Reasoning, Text, ToolCallDelta, ToolCallEnd, ToolCallStart, UsageReport

__all__ = ["measure"]

TARGET = 2.2
FEWEST_ROUNDS = 5  # of each read: a median of three may be one that was interrupted
KINDS = ("Turn()", "first frame", "start of a call", "end of a call", "usage and finish", "other", "close()")
PLAIN: set[type] = {Text, Reasoning, ToolCallDelta}


def stamped(reads: list[bytes], stamps: list[int]) -> Iterator[bytes]:
    """Yield the reads, with the time before each and after the last."""
    for read in reads:
        stamps.append(clock())
        yield read
    stamps.append(clock())


def time_nothing(stream: Recorded) -> list[int]:
    stamps: list[int] = []
    for _ in stamped(stream.reads, stamps):
        pass
    return stamps


def time_by_hand(stream: Recorded) -> list[int]:
    stamps: list[int] = []
    DECODE[stream.wire](stamped(stream.reads, stamps))
    return stamps


def time_turn(stream: Recorded) -> list[int]:
    """Return the times of the reads, after that of ``Turn()`` and before that of ``close``."""
    stamps = [clock()]
    turn = Turn(stream.provider, turn_key="benchmark")
    feed = turn.feed
    for read in stamped(stream.reads, stamps):
        feed(read)
    turn.close()
    stamps.append(clock())
    return stamps


def kinds_of(stream: Recorded) -> list[str]:
    """Return the kind of each step of a turn: an empty one for a plain delta."""
    kinds, turn = ["Turn()"], Turn(stream.provider, turn_key="benchmark")
    for number, read in enumerate(stream.reads):
        events = turn.feed(read)
        has: set[type] = {type(event) for event in events}
        if has and has <= PLAIN:
            kinds.append("")
        elif not number:
            kinds.append("first frame")
        elif ToolCallEnd in has:
            kinds.append("end of a call")
        elif ToolCallStart in has:
            kinds.append("start of a call")
        else:
            kinds.append("usage and finish" if has & {UsageReport, Finished} else "other")
    return [*kinds, "close()"]


def medians(runs: list[list[int]]) -> list[float]:
    """Return the median of each step of the runs."""
    steps = [[after - before for before, after in pairwise(run)] for run in runs]
    return [statistics.median(step) for step in zip(*steps, strict=True)]


def measure(settings: Settings) -> Iterator[Row]:
    """Return the ratios of non-deltas and of plain deltas, and the microseconds of each kind."""
    streams = [stream for stream in load_streams(settings.captures) if stream.frames >= FEWEST_FRAMES]
    ways = (time_turn, time_by_hand, time_nothing)
    runs: dict[Callable[[Recorded], list[int]], list[list[list[int]]]] = {way: [[] for _ in streams] for way in ways}
    for number in range(1 + max(settings.rounds, FEWEST_ROUNDS)):
        for way in ways if number % 2 else reversed(ways):
            gc.collect()
            for place, stream in enumerate(streams):
                stamps = way(stream)
                if number:  # the first round warms up
                    runs[way][place].append(stamps)
    ours, by_hand, count = dict.fromkeys(("", *KINDS), 0.0), dict.fromkeys(("", *KINDS), 0.0), dict.fromkeys(KINDS, 0)
    for place, stream in enumerate(streams):
        empty = statistics.median(medians(runs[time_nothing][place]))
        kinds = kinds_of(stream)
        for kind, nanoseconds in zip(kinds, medians(runs[time_turn][place]), strict=True):
            ours[kind] += nanoseconds - empty
            if kind:
                count[kind] += 1
        for kind, nanoseconds in zip(kinds[1:-1], medians(runs[time_by_hand][place]), strict=True):
            by_hand[kind] += nanoseconds - empty
    others = sum(ours[kind] for kind in KINDS)
    reads = sum(len(stream.reads) for stream in streams)
    steps = sum(count.values()) - 2 * len(streams)
    note = f"{steps:,} of {reads:,} reads, {others / sum(ours.values()):.0%} of the time"
    yield Row("non-deltas", others / sum(by_hand[kind] for kind in KINDS), target=TARGET, note=note)
    yield Row("plain deltas", ours[""] / by_hand[""])
    for kind in filter(count.get, KINDS):
        note = f"{count[kind]:,} times" + (
            f", by hand {by_hand[kind] / count[kind] / 1e3:.1f}" if by_hand[kind] else ""
        )
        yield Row(kind, ours[kind] / count[kind] / 1e3, "us", note=note)
