"""``read`` and ``run_loop`` over a source in memory, against an asynchronous loop by hand that yields dicts.

One stream at a time, and 1,000 at once: a task for each, whose source gives control to the others before each frame.
The turns have reasoning and text, no calls, so that the loop makes one round. The source yields one frame at a time.
``run_loop`` does what it does for every round too: it renders the history and the request, and appends the turn to the
conversation.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

from benchmarks.floors import iterate_chunks
from benchmarks.measure import Row, Settings, Times, as_sync, interleave
from benchmarks.streams import make_turn
from streamkit import Content, RoundContext, Turn, read, run_loop

__all__ = ["measure"]

PROVIDERS = ("openai_chat", "openrouter", "anthropic", "openai_responses", "gemini")
SIZES = (200, 2_450)  # frames of a turn
AT_ONCE, FRAMES_AT_ONCE = 1_000, 100
TARGETS = {"read": 1.2, "run_loop": 1.5}
TARGETS_AT_ONCE = {"read": 1.3, "run_loop": 1.7}
MOST_ROUNDS_AT_ONCE = 3
HISTORY = [Content.human("Go.")]


async def as_source(reads: list[bytes], waits: bool = False) -> AsyncIterator[bytes]:
    """Yield reads from memory, as a client yields those of the network."""
    for data in reads:
        if waits:
            await asyncio.sleep(0)
        yield data


async def by_hand(provider: str, reads: list[bytes], waits: bool = False) -> None:
    async for _ in iterate_chunks(as_source(reads, waits)):
        pass


async def with_read(provider: str, reads: list[bytes], waits: bool = False) -> None:
    async for _ in read(Turn(provider, turn_key="benchmark"), as_source(reads, waits)):
        pass


async def with_run_loop(provider: str, reads: list[bytes], waits: bool = False) -> None:
    def create_new_stream(context: RoundContext) -> AsyncIterator[bytes]:
        return as_source(reads, waits)

    async with run_loop(create_new_stream, provider=provider, history=HISTORY, run_key="benchmark") as run:
        async for _ in run:
            pass
    if run.ended != "answered":
        raise SystemExit(f"{provider}: the run ended {run.ended}")


WAYS: dict[str, Callable[[str, list[bytes], bool], Awaitable[None]]] = {
    "floor": by_hand,
    "read": with_read,
    "run_loop": with_run_loop,
}


async def repeat(way: str, provider: str, reads: list[bytes]) -> None:
    for _ in range(max(1, SIZES[-1] // len(reads))):
        await WAYS[way](provider, reads, False)


async def at_once(way: str, provider: str, reads: list[bytes]) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(WAYS[way](provider, reads, True))  # type: ignore[arg-type]


def measure(settings: Settings) -> Iterator[Row]:
    """Return the ratios of ``read`` and ``run_loop``, for all wires together and for each."""
    loop = asyncio.new_event_loop()
    try:
        for size in SIZES:
            times, frames = {}, {}
            for provider in PROVIDERS:
                reads = make_turn(provider, size, calls=0)
                frames[provider] = len(reads) * max(1, SIZES[-1] // len(reads))
                works = {way: as_sync(loop, repeat, way, provider, reads) for way in WAYS}
                times[provider] = interleave(works, settings.rounds)
            yield from rows(f"{size:,} frames", TARGETS, times, frames)
        reads = make_turn("openai_chat", FRAMES_AT_ONCE, calls=0)
        works = {way: as_sync(loop, at_once, way, "openai_chat", reads) for way in WAYS}
        result = interleave(works, min(settings.rounds, MOST_ROUNDS_AT_ONCE), warm_up=False)
        yield from rows(
            f"{AT_ONCE:,} at once", TARGETS_AT_ONCE, {"openai_chat": result}, {"openai_chat": AT_ONCE * len(reads)}
        )
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def rows(name: str, targets: dict[str, float], times: dict[str, Times], frames: dict[str, int]) -> Iterator[Row]:
    total, count = Times.sum(list(times.values())), sum(frames.values())
    for way, target in targets.items():
        note = f"{total.micros(way, count):.2f} us a frame, by hand {total.micros('floor', count):.2f}"
        yield Row(f"{way}, {name}", total.ratio(way, "floor"), target=target, note=note)
        for provider, result in times.items() if len(times) > 1 else ():
            ours, floor = (result.micros(each, frames[provider]) for each in (way, "floor"))
            note = f"{ours:.2f} us a frame, by hand {floor:.2f}"
            yield Row(f"{way}, {name}, {provider}", result.ratio(way, "floor"), note=note)
