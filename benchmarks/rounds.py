"""A run of 500 rounds: what a late round costs, against an early one.

Each round's turn has one call of a tool that does nothing. In one run the callback reads ``context.request``, the body
of the next request; in the other it does not, as a caller does that keeps the provider's messages itself. A figure is
the median CPU time of some rounds around the 500th, divided by that of those around the 10th.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Iterator
from itertools import pairwise

from benchmarks.measure import Row, Settings
from streamkit import Content, RoundContext, run_loop, tool

__all__ = ["measure"]

EARLY, LATE = range(6, 15), range(491, 500)
LAST = 501  # whose turn has no call
TARGET = 3.0
MOST_RUNS = 3
HISTORY = [Content.human("Go.")]


async def do_nothing(number: int) -> int:
    """Return the number."""
    return number


TOOLS = [tool(do_nothing)]


def reads_of(number: int) -> list[bytes]:
    """Return a turn of Chat Completions with a text and one call; the last has no call."""
    arguments = json.dumps({"number": number})
    call = {"index": 0, "id": f"call_{number}", "type": "function"}
    call |= {"function": {"name": "do_nothing", "arguments": arguments}}
    deltas: list[dict[str, object]] = [{"role": "assistant", "content": "One more."}]
    if number < LAST:
        deltas.append({"tool_calls": [call]})
    finish = "tool_calls" if number < LAST else "stop"
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    chunks = [{"id": f"c{number}", "object": "chat.completion.chunk", "model": "m", "choices": [c]} for c in choices]
    return [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks] + [b"data: [DONE]\n\n"]


async def run_once(reads_request: bool) -> tuple[list[float], list[float]]:
    """Return the CPU seconds of reading the request in each round, and those of each complete round."""
    requests, starts = [], []

    def create_new_stream(context: RoundContext) -> list[bytes]:
        start = time.process_time()
        starts.append(start)
        if reads_request:
            assert context.request["messages"]
            requests.append(time.process_time() - start)
        return reads_of(len(starts))

    async with run_loop(
        create_new_stream, provider="openai_chat", history=HISTORY, tools=TOOLS, run_key="r", max_rounds=LAST + 1
    ) as run:
        async for _ in run:
            pass
    if run.ended != "answered" or len(starts) != LAST:
        raise SystemExit(f"the run ended {run.ended} after {len(starts)} rounds")
    return requests, [after - before for before, after in pairwise(starts)]


def measure(settings: Settings) -> Iterator[Row]:
    """Return the growth of a request, and of a round whose request is not read."""
    runs = [asyncio.run(run_once(number % 2 == 0)) for number in range(2 * min(settings.rounds, MOST_RUNS))]
    requests, rounds = [requests for requests, _ in runs[::2]], [rounds for _, rounds in runs[1::2]]
    names = {"context.request": (requests, TARGET), "a round without its request": (rounds, None)}
    for name, (seconds, target) in names.items():
        early, late = ([statistics.median(run[n - 1] for n in each) for run in seconds] for each in (EARLY, LATE))
        ratio = statistics.median(after / before for before, after in zip(early, late, strict=True))
        note = f"{statistics.median(late) * 1e3:.2f} ms, at round 10 {statistics.median(early) * 1e3:.2f}"
        yield Row(f"{name}, round 500 against 10", ratio, target=target, note=note)
