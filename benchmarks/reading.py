"""``read`` and ``run_loop`` over a source in memory, against an asynchronous loop by hand that yields dicts.

The turns have reasoning and text, no calls, so that the loop makes one round. The source yields one frame at a time and
never waits. ``run_loop`` does what it does for every round too: it renders the history and the request, and appends the
turn to the conversation.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

from benchmarks.floors import as_source, iterate_chunks
from benchmarks.measure import Row, Settings, Times, as_sync, interleave
from benchmarks.streams import TURNS, make_turn
from streamkit import Content, RoundContext, Turn, read, run_loop

__all__ = ["measure"]

SIZES = (200, 2_450)  # frames of a turn
TARGETS = {"read": 1.2, "run_loop": 1.6}
HISTORY = [Content.human("Go.")]


async def iterate_by_hand(reads: list[bytes]) -> None:
    async for _ in iterate_chunks(as_source(reads)):
        pass


async def feed_by_hand(provider: str, reads: list[bytes]) -> None:
    """Feed a turn in an asynchronous loop, without ``read``."""
    turn = Turn(provider, turn_key="benchmark")
    async for data in as_source(reads):
        for _ in turn.feed(data):
            pass
    turn.close()


async def iterate_read(provider: str, reads: list[bytes]) -> None:
    async for _ in read(Turn(provider, turn_key="benchmark"), as_source(reads)):
        pass


async def iterate_loop(provider: str, reads: list[bytes]) -> None:
    def create_new_stream(context: RoundContext) -> AsyncIterator[bytes]:
        return as_source(reads)

    async with run_loop(create_new_stream, provider=provider, history=HISTORY, run_key="benchmark") as run:
        async for _ in run:
            pass
    if run.ended != "answered":
        raise SystemExit(f"{provider}: the run ended {run.ended}")


def measure(settings: Settings) -> Iterator[Row]:
    """Return the ratios of ``read`` and ``run_loop``, for all wires together and for each."""
    loop = asyncio.new_event_loop()
    try:
        for size in SIZES:
            yield from measure_size(size, settings, loop)
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def measure_size(size: int, settings: Settings, loop: asyncio.AbstractEventLoop) -> Iterator[Row]:
    times: dict[str, Times] = {}
    frames: dict[str, int] = {}
    for provider in TURNS:
        reads = make_turn(provider, size, calls=0)
        frames[provider] = len(reads)
        variants = {
            "floor": as_sync(loop, iterate_by_hand, reads),
            "feed": as_sync(loop, feed_by_hand, provider, reads),
            "read": as_sync(loop, iterate_read, provider, reads),
            "run_loop": as_sync(loop, iterate_loop, provider, reads),
        }
        times[provider] = interleave(variants, settings.rounds)
    total, count = Times.sum(list(times.values())), sum(frames.values())
    for variant, target in TARGETS.items():
        note = f"{total.micros(variant, count):.2f} us a frame, by hand {total.micros('floor', count):.2f}"
        note += f", feed in a loop {total.micros('feed', count):.2f}"
        yield Row(f"{variant}, {size:,} frames", total.ratio(variant, "floor"), target=target, note=note)
        for provider, result in times.items():
            ours, floor = (result.micros(name, frames[provider]) for name in (variant, "floor"))
            note = f"{ours:.2f} us a frame, by hand {floor:.2f}"
            yield Row(f"{variant}, {size:,} frames, {provider}", result.ratio(variant, "floor"), note=note)
