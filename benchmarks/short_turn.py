"""The price of a short turn, step by step: ``Turn()``, each frame of a turn with a few deltas, and ``close``.

A step is the median over many turns, of which each is timed step by step, with the clock's own microsecond in it. The
first row of a wire is the complete turn, timed at once, and its ratio to the loop by hand.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from functools import partial

import msgspec

from benchmarks.measure import Row, Settings, interleave
from benchmarks.per_chunk import repeat_floor, repeat_turn
from benchmarks.streams import TURNS, make_turn
from streamkit import Turn

__all__ = ["measure"]

DELTAS, TURNS_IN_A_ROUND = 6, 100


def describe(read: bytes) -> str:
    """Return a name for a frame: its type, else the fields of its delta or the end of its text."""
    payload = read.partition(b"data: ")[2].strip()
    if payload == b"[DONE]":
        return "[DONE]"
    chunk = msgspec.json.decode(payload)
    if "type" in chunk:
        return str(chunk["type"])
    if "candidates" in chunk:
        candidate = chunk["candidates"][0]
        return "finishReason" if "finishReason" in candidate else ", ".join(candidate["content"]["parts"][0])
    if not chunk["choices"]:
        return "usage"
    choice = chunk["choices"][0]
    return "finish_reason" if choice["finish_reason"] else "delta: " + ", ".join(choice["delta"])


def time_steps(provider: str, reads: list[bytes]) -> list[float]:
    """Return the CPU seconds of ``Turn()``, of each read, and of ``close``."""
    clock = time.process_time
    steps = []
    start = clock()
    turn = Turn(provider, turn_key="benchmark")
    steps.append(clock() - start)
    for data in reads:
        start = clock()
        turn.feed(data)
        steps.append(clock() - start)
    start = clock()
    turn.close()
    steps.append(clock() - start)
    return steps


def measure(settings: Settings) -> Iterator[Row]:
    """Return the microseconds of a short turn of each wire, and of its steps."""
    for provider in TURNS:
        reads = make_turn(provider, DELTAS, calls=0)
        variants = {
            "turn": partial(repeat_turn, provider, reads, TURNS_IN_A_ROUND),
            "by hand": partial(repeat_floor, reads, TURNS_IN_A_ROUND),
        }
        result = interleave(variants, settings.rounds)
        by_hand = result.micros("by hand", TURNS_IN_A_ROUND)
        note = f"{result.ratio('turn', 'by hand'):.2f} times by hand, which takes {by_hand:.1f} us"
        yield Row(f"{provider}, {len(reads)} frames", result.micros("turn", TURNS_IN_A_ROUND), "us", note=note)
        runs = [time_steps(provider, reads) for _ in range(settings.rounds * TURNS_IN_A_ROUND)]
        steps = ["Turn()", *map(describe, reads), "close()"]
        for step, seconds in zip(steps, zip(*runs, strict=True), strict=True):
            yield Row(f"{provider}: {step}", statistics.median(seconds) * 1e6, "us")
