"""10,000 streams at once on one core: the cost of a chunk, against the same streams one after the other.

``feed``: the next chunk of each turn, in turn, without an event loop. ``read``: a task for each stream, whose source
gives control to the others before each chunk; one after the other, the source does the same alone. Streams that follow
each other are at different chunks, as if they had begun by chance: fed the same chunk, they would share the
processor's caches and branch predictions, and be cheaper than a single one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from inspect import iscoroutinefunction
from typing import Any

from benchmarks.measure import Row, Settings, as_sync, interleave
from benchmarks.streams import make_turn
from streamkit import Turn, read

__all__ = ["measure"]

STREAMS = 10_000
SINGLE = 2_000  # streams one after the other: enough for the cost of a chunk
FRAMES = 12
TARGET = 1.2
MOST_ROUNDS = 3


def feed_concurrently(provider: str, reads: list[bytes]) -> None:
    count = len(reads)
    turns = [Turn(provider, turn_key="benchmark") for _ in range(STREAMS)]
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


async def waiting_source(reads: list[bytes]) -> AsyncIterator[bytes]:
    for data in reads:
        await asyncio.sleep(0)
        yield data


async def read_one(provider: str, reads: list[bytes], number: int) -> None:
    for _ in range(number % len(reads)):
        await asyncio.sleep(0)
    async for _ in read(Turn(provider, turn_key="benchmark"), waiting_source(reads)):
        pass


async def read_concurrently(provider: str, reads: list[bytes]) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(STREAMS):
            group.create_task(read_one(provider, reads, number))


async def read_one_by_one(provider: str, reads: list[bytes]) -> None:
    for number in range(SINGLE):
        await asyncio.create_task(read_one(provider, reads, number))


def measure(settings: Settings) -> Iterator[Row]:
    """Return the ratios of ``feed`` and of ``read``."""
    rounds = min(settings.rounds, MOST_ROUNDS)
    loop = asyncio.new_event_loop()
    comparisons: tuple[tuple[str, str, Callable[..., Any], Callable[..., Any]], ...] = (
        ("feed", "openai_chat", feed_concurrently, feed_one_by_one),
        ("feed", "anthropic", feed_concurrently, feed_one_by_one),
        ("read", "openai_chat", read_concurrently, read_one_by_one),
    )
    try:
        for name, provider, many, single in comparisons:
            reads = make_turn(provider, FRAMES)
            works: dict[str, Callable[[], object]] = {}
            for variant, work in (("many", many), ("single", single)):
                is_async = iscoroutinefunction(work)
                works[variant] = as_sync(loop, work, provider, reads) if is_async else partial(work, provider, reads)
            works["single"]()
            result = interleave(works, rounds, warm_up=False)
            ours, floor = result.micros("many", STREAMS * len(reads)), result.micros("single", SINGLE * len(reads))
            note = f"{ours:.2f} us a chunk, one stream at a time {floor:.2f}"
            ratio = result.ratio("many", "single") * SINGLE / STREAMS
            yield Row(f"{name}, {provider}", ratio, target=TARGET, note=note)
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
