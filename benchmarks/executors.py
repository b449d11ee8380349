"""Calls that do nothing, run by the executors, against the same by hand: one call of a turn, and 1,000.

By hand means what a careful program does: the arguments validated by a pydantic model, a time limit for each call, the
value serialized, and the provider's messages written. ``batched`` is compared with a task group that runs all calls at
once, ``sequential`` with a loop; neither limits how many run, emits an event, asks anybody, or gives a result to a
call that failed or was canceled. Both are written with anyio, which the executors run on too, so that they work under
asyncio and trio; what asyncio's own task group and timeout cost is shown beside it. The turns are in the form of Chat
Completions. A run repeats a turn of one call within one coroutine, so that the start of an event loop does not count.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import anyio
from pydantic import BaseModel, ConfigDict

from benchmarks.measure import Row, Settings, as_sync, interleave
from streamkit import ToolCall, Turn, execute_tool_calls_batched, execute_tool_calls_sequentially, tool

__all__ = ["measure"]

TIMEOUT = 30.0
REPEATED = {1: 200, 1_000: 1}  # how often a turn of so many calls is run within a run
TARGETS = {("batched", 1): 2.2, ("sequential", 1): 9.0, ("batched", 1_000): 1.5, ("sequential", 1_000): 4.0}


class Arguments(BaseModel):
    """The parameters of the tool."""

    model_config = ConfigDict(extra="forbid")
    number: int
    text: str


async def do_nothing(number: int, text: str) -> int:
    """Return the number."""
    return number


TOOL = tool(do_nothing)


def closed_turn(calls: int) -> Turn:
    """Return a turn with that many calls."""
    turn = Turn("openai_chat", turn_key="benchmark")
    for number in range(calls):
        function = {"name": "do_nothing", "arguments": json.dumps({"number": number, "text": "some text"})}
        call = {"index": number, "id": f"call_{number}", "type": "function", "function": function}
        delta = {"index": 0, "delta": {"tool_calls": [call]}}
        turn.feed({"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m", "choices": [delta]})
    turn.feed({"id": "chatcmpl-1", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    turn.close()
    return turn


def write_messages(calls: list[ToolCall], results: list[str]) -> list[dict[str, Any]]:
    functions = [{"name": call.name, "arguments": json.dumps(call.arguments)} for call in calls]
    parts = [{"id": c.raw_id, "type": "function", "function": f} for c, f in zip(calls, functions, strict=True)]
    answers = [
        {"role": "tool", "tool_call_id": call.raw_id, "content": text}
        for call, text in zip(calls, results, strict=True)
    ]
    return [{"role": "assistant", "content": None, "tool_calls": parts}, *answers]


async def run_one(call: ToolCall, results: dict[int, str]) -> None:
    arguments = Arguments.model_validate(call.arguments)
    with anyio.fail_after(TIMEOUT):
        value = await do_nothing(arguments.number, arguments.text)
    results[call.index] = json.dumps(value)


async def batched_by_hand(turn: Turn) -> list[dict[str, Any]]:
    calls = turn.calls
    results: dict[int, str] = {}
    async with anyio.create_task_group() as group:
        for call in calls:
            group.start_soon(run_one, call, results)
    return write_messages(calls, [results[call.index] for call in calls])


async def sequential_by_hand(turn: Turn) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    results: dict[int, str] = {}
    for call in turn.calls:
        await run_one(call, results)
        messages += write_messages([call], [results[call.index]])
    return messages


async def run_one_asyncio(call: ToolCall) -> str:
    arguments = Arguments.model_validate(call.arguments)
    async with asyncio.timeout(TIMEOUT):
        value = await do_nothing(arguments.number, arguments.text)
    return json.dumps(value)


async def batched_asyncio(turn: Turn) -> list[dict[str, Any]]:
    calls = turn.calls
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run_one_asyncio(call)) for call in calls]
    return write_messages(calls, [task.result() for task in tasks])


async def sequential_asyncio(turn: Turn) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for call in turn.calls:
        messages += write_messages([call], [await run_one_asyncio(call)])
    return messages


async def batched(turn: Turn) -> list[dict[str, Any]]:
    update = await execute_tool_calls_batched(turn, tools=[TOOL], timeouts=TIMEOUT)
    return update.messages


async def sequential(turn: Turn) -> list[dict[str, Any]]:
    update = await execute_tool_calls_sequentially(turn, tools=[TOOL], timeouts=TIMEOUT)
    return update.messages


LAYOUTS = {
    "batched": (batched, batched_by_hand, batched_asyncio),
    "sequential": (sequential, sequential_by_hand, sequential_asyncio),
}


async def repeat(work: Callable[[Turn], Awaitable[object]], turn: Turn, times: int) -> None:
    for _ in range(times):
        await work(turn)


def measure(settings: Settings) -> Iterator[Row]:
    """Return the ratios of both executors, for one call and for many."""
    loop = asyncio.new_event_loop()
    try:
        for (layout, calls), target in TARGETS.items():
            turn, times = closed_turn(calls), REPEATED[calls]
            works = LAYOUTS[layout]
            written = {len(loop.run_until_complete(work(turn))) for work in works}
            if len(written) != 1:
                raise SystemExit(f"{layout}: the numbers of messages differ: {written}")
            names = ("ours", "anyio", "asyncio")
            variants = {name: as_sync(loop, repeat, work, turn, times) for name, work in zip(names, works, strict=True)}
            result = interleave(variants, settings.rounds)
            name = f"{layout}, {calls:,} call{'s' * (calls > 1)}"
            for floor, suffix, wanted in (("anyio", "", target), ("asyncio", ", against asyncio alone", None)):
                ours, by_hand = (result.micros(each, calls * times) for each in ("ours", floor))
                note = f"{ours:.1f} us a call, by hand {by_hand:.1f}"
                yield Row(name + suffix, result.ratio("ours", floor), target=wanted, note=note)
    finally:
        loop.close()
