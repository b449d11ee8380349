"""Reading ``turn.text``, ``call.partial`` and ``call.arguments_text`` at every delta: the cost of a delta as they grow.

A client that draws the state after every delta reads them that often. The figure is the cost of a delta in a text of
100 KB, divided by that in one of 10 KB, feeding included, and the same for 1 MB and 100 KB; it is 1 if the cost does
not depend on the length. A string of 1 MB is copied in about 50 us, so that only a view that copies none stays flat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

from benchmarks.measure import Row, Settings, interleave
from streamkit import Turn

__all__ = ["measure"]

SIZES = {"10 KB": 625, "100 KB": 6_250, "1 MB": 62_500}  # deltas
TARGET = 1.1
MOST_ROUNDS = 3
DELTA = "a delta of words"


def chunk(delta: dict[str, Any]) -> dict[str, Any]:
    return {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [{"index": 0, "delta": delta}]}


def text_chunks(size: int) -> list[dict[str, Any]]:
    return [chunk({"content": DELTA})] * size


def call_chunks(size: int) -> list[dict[str, Any]]:
    function = {"name": "write_file", "arguments": '{"text":"'}
    start = chunk({"tool_calls": [{"index": 0, "id": "call_0", "type": "function", "function": function}]})
    return [start, *[chunk({"tool_calls": [{"index": 0, "function": {"arguments": DELTA}}]})] * size]


def read_text(turn: Turn) -> object:
    return turn.text


def read_partial(turn: Turn) -> object:
    return turn.calls[0].partial


def read_arguments_text(turn: Turn) -> object:
    return turn.calls[0].arguments_text


def read_nothing(turn: Turn) -> object:
    return None


VIEWS: dict[str, tuple[Callable[[Turn], object], Callable[[int], list[dict[str, Any]]]]] = {
    "turn.text": (read_text, text_chunks),
    "call.partial": (read_partial, call_chunks),
    "call.arguments_text": (read_arguments_text, call_chunks),
    "nothing (feeding alone)": (read_nothing, call_chunks),
}


def run(chunks: list[dict[str, Any]], view: Callable[[Turn], object]) -> None:
    turn = Turn("openai_chat", turn_key="benchmark")
    for data in chunks:
        turn.feed(data)
        view(turn)


def measure(settings: Settings) -> Iterator[Row]:
    """Return, for each view, how much more a delta costs if there are ten times as many."""
    for small, large in pairwise(SIZES):
        for name, (view, make) in VIEWS.items():
            variants = {size: partial(run, make(SIZES[size]), view) for size in (small, large)}
            result = interleave(variants, settings.rounds if large == "100 KB" else min(settings.rounds, MOST_ROUNDS))
            ratio = result.ratio(large, small) * SIZES[small] / SIZES[large]
            note = ", ".join(f"{result.micros(size, SIZES[size]):.2f} us a delta at {size}" for size in (large, small))
            target = None if view is read_nothing else TARGET
            yield Row(f"{name}, {large} against {small}", ratio, target=target, note=note)
