"""Reading ``turn.text``, ``call.partial`` and ``call.arguments_text`` at every delta: the cost of a delta as they grow.

A client that draws the state after every delta reads them that often. The figure is the cost of a delta in a text of
1 MB, divided by that in one of 100 KB, feeding included; it is 1 if the cost does not depend on the length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from benchmarks.measure import Row, Settings, interleave
from streamkit import Turn

__all__ = ["measure"]

SIZES = (6_250, 62_500)  # deltas
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
    small, large = SIZES
    for name, (view, make) in VIEWS.items():
        variants = {"small": partial(run, make(small), view), "large": partial(run, make(large), view)}
        result = interleave(variants, min(settings.rounds, MOST_ROUNDS))
        ratio = result.ratio("large", "small") * small / large
        note = f"{result.micros('large', large):.2f} us a delta at 1 MB, {result.micros('small', small):.2f} at 100 KB"
        yield Row(name, ratio, target=None if view is read_nothing else TARGET, note=note)
