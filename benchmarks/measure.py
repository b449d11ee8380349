"""What the subjects share: rows of the table, and measuring several pieces of work in turns.

All times are process CPU time. The variants of one comparison alternate in one process, so that a change of the
processor's clock reaches all of them, and a figure is the median of the rounds. Before each run the garbage is
collected; during the run the collector works as usual, for every variant alike.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Row", "Settings", "Skipped", "Times", "as_sync", "interleave"]

Work = Callable[[], object]


class Skipped(Exception):
    """The subject cannot be measured on this machine; the message gives the reason."""


@dataclass(frozen=True)
class Settings:
    """The options of a run.

    Attributes:
        rounds: runs of each variant.
        captures: a folder with recorded streams, besides those of the repository; None if there is none.
    """

    rounds: int
    captures: Path | None = None


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        name: what was measured.
        value: the figure.
        unit: "x" is a ratio to the same work by hand.
        target: the figure that must not be exceeded; None for a figure that is only shown.
        note: absolute figures, or what was left out.
    """

    name: str
    value: float
    unit: str = "x"
    target: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Times:
    """The CPU times of the variants of a comparison, in seconds, one for each round."""

    seconds: Mapping[str, list[float]]

    def median(self, variant: str) -> float:
        """Return the median time of a variant."""
        return statistics.median(self.seconds[variant])

    def ratio(self, variant: str, floor: str) -> float:
        """Return the median of the ratios of two variants, each of two runs that followed each other."""
        pairs = zip(self.seconds[variant], self.seconds[floor], strict=True)
        return statistics.median(ours / theirs for ours, theirs in pairs)

    def micros(self, variant: str, count: int) -> float:
        """Return the median time of a variant in microseconds for each of ``count`` items."""
        return self.median(variant) / count * 1e6

    @staticmethod
    def sum(all_times: list[Times]) -> Times:
        """Return the sums of several comparisons, round by round."""
        variants = all_times[0].seconds
        return Times(
            {name: [sum(each) for each in zip(*(t.seconds[name] for t in all_times), strict=True)] for name in variants}
        )


def interleave(variants: Mapping[str, Work], rounds: int, *, warm_up: bool = True) -> Times:
    """Return the times of the variants, run alternately; every second round in the opposite order.

    Args:
        variants: what is run, by name.
        rounds: how often each is run.
        warm_up: run each once before: imports, and code that Python specializes when it has run a few times.
    """
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for work in variants.values() if warm_up else ():
        work()
    gc.collect()
    gc.freeze()  # the inputs are no part of the work: no collection looks at them
    try:
        for number in range(rounds):
            for name in sorted(variants, key=list(variants).index, reverse=number % 2 == 1):
                work = variants[name]
                gc.collect()
                start = time.process_time()
                work()
                seconds[name].append(time.process_time() - start)
    finally:
        gc.unfreeze()
    return Times(seconds)


def as_sync(loop: asyncio.AbstractEventLoop, work: Callable[..., Coroutine[Any, Any, object]], *args: Any) -> Work:
    """Return asynchronous work as a function that runs it to its end in the event loop."""
    return lambda: loop.run_until_complete(work(*args))
