"""CPU time from bytes to completed calls on synthetic turns, against splitting the frames and decoding each by hand.

Short turns and long ones of each wire format, one frame in each read. ``Turn`` does all its work, with every limit and
warning on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.floors import DECODE, wire_of
from benchmarks.measure import Row, Settings, interleave
from benchmarks.streams import TURNS, make_turn
from streamkit import Turn

__all__ = ["measure", "run_turn"]

#: The frames of a turn, with the target of its ratio, and how often it is repeated within a run.
SIZES = {200: (1.3, 12), 2_450: (0.95, 1)}


def run_turn(provider: str, reads: list[bytes]) -> Turn:
    """Feed the reads to a ``Turn``, close it and return it."""
    turn = Turn(provider, turn_key="benchmark")
    for read in reads:
        turn.feed(read)
    turn.close()
    return turn


def repeat(work: Callable[[], object], times: int) -> None:
    for _ in range(times):
        work()


def measure(settings: Settings) -> Iterator[Row]:
    """Return the ratio of each wire format and size."""
    for frames, (target, times) in SIZES.items():
        for provider in TURNS:
            reads = make_turn(provider, frames)
            turn = run_turn(provider, reads)
            if turn.error is not None or turn.warnings or len(turn.executable) != 2 or not turn.reasoning:
                raise SystemExit(f"{provider}: the stream was not read correctly: {turn.error} {turn.warnings}")
            works = {"floor": partial(DECODE[wire_of(provider)], reads), "turn": partial(run_turn, provider, reads)}
            variants = {name: partial(repeat, work, times) for name, work in works.items()}
            result = interleave(variants, settings.rounds)
            ours, floor = (result.micros(name, len(reads) * times) for name in ("turn", "floor"))
            note = f"{ours:.2f} us a frame, by hand {floor:.2f}"
            yield Row(f"{provider}, {len(reads):,} frames", result.ratio("turn", "floor"), target=target, note=note)
