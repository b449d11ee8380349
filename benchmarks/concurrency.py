"""10,000 open turns on one core: the cost of a chunk, against the same turns one after the other.

The next chunk of each turn, in turn, without an event loop. Turns that follow each other are at different chunks, as if
they had begun by chance: fed the same chunk, they would share the processor's caches and branch predictions, and be
cheaper than a single one. With the garbage collector and without it, which looks at all open turns again and again.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from functools import partial

from benchmarks.measure import Row, Settings, interleave
from benchmarks.streams import make_turn
from streamkit import Turn

__all__ = ["measure"]

OPEN = 10_000
SINGLE = 2_000  # turns one after the other: enough for the cost of a chunk
FRAMES = 12
TARGET = 1.4
MOST_ROUNDS = 3


def feed_concurrently(provider: str, reads: list[bytes]) -> None:
    count = len(reads)
    turns = [Turn(provider, turn_key="benchmark") for _ in range(OPEN)]
    for step in range(2 * count):
        for number, turn in enumerate(turns):
            place = step - number % count
            if 0 <= place < count:
                turn.feed(reads[place])
    for turn in turns:
        turn.close()


def feed_one_by_one(provider: str, reads: list[bytes]) -> None:
    for _ in range(SINGLE):
        turn = Turn(provider, turn_key="benchmark")
        for data in reads:
            turn.feed(data)
        turn.close()


def without_collection(provider: str, reads: list[bytes]) -> None:
    gc.disable()
    try:
        feed_concurrently(provider, reads)
    finally:
        gc.enable()


def measure(settings: Settings) -> Iterator[Row]:
    """Return the ratios with and without the garbage collector."""
    for provider in ("openai_chat", "anthropic"):
        reads = make_turn(provider, FRAMES)
        works = {
            "open": partial(feed_concurrently, provider, reads),
            "uncollected": partial(without_collection, provider, reads),
            "single": partial(feed_one_by_one, provider, reads),
        }
        works["single"]()
        result = interleave(works, min(settings.rounds, MOST_ROUNDS), warm_up=False)
        floor = result.micros("single", SINGLE * len(reads))
        for variant, name, target in (("open", "", TARGET), ("uncollected", ", garbage collector off", None)):
            note = f"{result.micros(variant, OPEN * len(reads)):.2f} us a chunk, one turn at a time {floor:.2f}"
            ratio = result.ratio(variant, "single") * SINGLE / OPEN
            yield Row(f"{OPEN:,} open turns, {provider}{name}", ratio, target=target, note=note)
