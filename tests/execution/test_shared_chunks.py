"""Streams of ``NormalizedToolChunk`` from parsers of one's own, with one queue of completed calls."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from execution.chat_chunks import closed_turn

from streamkit import (
    Accumulator,
    Limits,
    NormalizedToolChunk,
    SharedAccumulator,
    StreamError,
    ThreadUpdate,
    ToolResult,
    UsageError,
    execute_one_tool,
    ids,
)
from streamkit.execution import QueuedCall
from streamkit.execution.shared import MOST_ENDED_NAMES
from streamkit.providers import WireTraits

pytestmark = pytest.mark.anyio


@pytest.fixture(name="shared")
async def _shared() -> AsyncIterator[SharedAccumulator]:
    with SharedAccumulator() as accumulator:
        yield accumulator


def chunks(*arguments: str) -> list[NormalizedToolChunk]:
    """Return the chunks of calls of ``double``, the arguments of each in parts of three characters, interleaved."""
    starts = [NormalizedToolChunk("start", name="double", metadata={"index": n}) for n in range(len(arguments))]
    parts = [(at, n, text[at : at + 3]) for n, text in enumerate(arguments) for at in range(0, len(text), 3)]
    deltas = [NormalizedToolChunk("delta", arguments_delta=part, metadata={"index": n}) for _, n, part in sorted(parts)]
    return [*starts, *deltas]


async def double(n: int) -> int:
    return 2 * n


async def run_all(shared: SharedAccumulator) -> list[ThreadUpdate]:
    """Return the updates of all queued calls."""
    shared.close()
    updates = [queued.set_result(await execute_one_tool(queued.call, tools=[double])) async for queued in shared]
    return [update for update in updates if update is not None]


async def test_several_parsers_and_workers_share_one_accumulator() -> None:
    updates: dict[Any, ThreadUpdate] = {}
    events: dict[str, list[str]] = {name: [] for name in "abc"}

    async def parse(name: str, number: int) -> None:
        for chunk in chunks(*[f'{{"n":{10 * number + n}}}' for n in range(3)]):
            events[name] += [event.type for event in shared.put(chunk, stream=name)]
            await anyio.lowlevel.checkpoint()  # the streams alternate
        ended = await shared.end(name)
        assert ended.update is None
        events[name] += [event.type for event in ended.events]

    async def work() -> None:
        async for queued in shared:
            update = queued.set_result(await execute_one_tool(queued.call, tools=[double]))
            if update is not None:
                updates[queued.stream] = update

    with SharedAccumulator(provider="openai_chat") as shared:
        async with anyio.create_task_group() as workers:
            for _ in range(2):
                workers.start_soon(work)
            async with anyio.create_task_group() as streams:
                for number, name in enumerate("abc"):
                    streams.start_soon(parse, name, number)
            shared.close()
    assert {name: [result.value for result in update.results] for name, update in updates.items()} == {
        "a": [0, 2, 4],
        "b": [20, 22, 24],
        "c": [40, 42, 44],
    }
    assert [message["role"] for message in updates["b"].messages] == ["assistant", "tool", "tool", "tool"]
    for name in "abc":
        assert [events[name].count(f"tool_call_{what}") for what in ("start", "end", "ready")] == [3, 3, 3]


async def test_the_ids_are_canonical_with_the_streams_name_as_turn_key(shared: SharedAccumulator) -> None:
    (event,) = shared.put(NormalizedToolChunk("start", id="raw", name="double"), stream="turn-7")
    assert event.type == "tool_call_start"
    assert event.call.id == ids.canonical_tool_id(raw_id="raw", tool_name="double", turn_key="turn-7", call_index=0)


async def test_an_accumulator_of_ones_own_has_its_provider_wire_and_limits(shared: SharedAccumulator) -> None:
    mine = Accumulator("mistral", WireTraits(whole_names=False, reuses_slots=True), turn_key="t")
    for part in (NormalizedToolChunk("delta", name="dou", key=0), NormalizedToolChunk("delta", name="ble", key=0)):
        assert shared.put(part, stream=mine) == []
    shared.put(NormalizedToolChunk("delta", arguments_delta='{"n":4}', key=0), stream=mine)
    await shared.end(mine)
    (update,) = await run_all(shared)
    assert [result.value for result in update.results] == [8]
    assert len(update.messages[0]["tool_calls"][0]["id"]) == 9  # Mistral's rule

    with SharedAccumulator() as other:
        small = Accumulator("mine", turn_key="t", limits=Limits(arguments=3))
        for chunk in chunks('{"n":1000}'):
            other.put(chunk, stream=small)
        ended = await other.end(small)
    assert ended.update is not None
    assert [result.status for result in ended.update.results] == ["error"]  # its arguments were cut at the limit


async def test_put_awaits_nothing_and_only_the_end_waits_for_a_place_in_the_queue() -> None:
    over: list[str] = []

    async def stream() -> None:
        await shared.end("a")
        over.append("a")

    with SharedAccumulator(capacity=1) as shared:
        for chunk in chunks('{"n":1}', '{"n":2}'):
            shared.put(chunk, stream="a")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream)
            await anyio.wait_all_tasks_blocked()
            assert over == []
            await anext(shared)
            await anyio.wait_all_tasks_blocked()
            assert over == ["a"]


async def test_calls_that_may_not_run_get_their_results_without_a_worker(shared: SharedAccumulator) -> None:
    for chunk in chunks('{"n":1', "no object"):
        shared.put(chunk, stream="a")
    ended = await shared.end("a")
    assert ended.update is not None
    assert [result.status for result in ended.update.results] == ["error", "error"]
    assert [call.state for call in ended.calls] == ["incomplete", "invalid"]


@pytest.mark.parametrize(
    "error", [ConnectionResetError("gone"), StreamError("provider_error", "overloaded")], ids=lambda error: error.kind
    if isinstance(error, StreamError) else "transport_error"
)  # fmt: skip
async def test_a_stream_that_failed_enqueues_nothing(shared: SharedAccumulator, error: Any) -> None:
    for chunk in chunks('{"n":1}'):
        shared.put(chunk, stream="a")
    ended = await shared.end("a", error)
    assert ended.update is not None
    assert [result.status for result in ended.update.results] == ["canceled"]
    kind = error.kind if isinstance(error, StreamError) else "transport_error"
    assert kind in str(ended.update.results[0].error)
    assert await run_all(shared) == []


async def test_a_filtered_stream_enqueues_nothing(shared: SharedAccumulator) -> None:
    calls = Accumulator("mine", turn_key="t")
    for chunk in chunks('{"n":1}'):
        shared.put(chunk, stream=calls)
    calls.choice(0).finish("SAFETY", "content_filter")
    ended = await shared.end(calls)
    assert ended.update is not None
    assert "content filter" in str(ended.update.results[0].error)


async def test_the_callbacks_write_the_messages() -> None:
    def call(call: Any, arguments: Any) -> dict[str, Any]:
        return {"call": call.name, "with": arguments}

    def result(result: ToolResult, call: Any, arguments: Any) -> dict[str, Any]:
        return {"result": result.value, "of": arguments}

    def batch(completed: list[ToolResult]) -> list[dict[str, Any]]:
        return [{"all": [result.value for result in completed]}]

    for callbacks, expected in (
        (
            {"format_tool_call_for_thread": call, "format_tool_result_for_thread": result},
            [{"call": "double", "with": {"n": 1}}, {"result": 2, "of": {"n": 1}}],
        ),
        ({"format_batch_for_thread": batch}, [{"all": [2]}]),
    ):
        with SharedAccumulator(**callbacks) as shared:  # type: ignore[arg-type]
            for chunk in chunks('{"n":1}'):
                shared.put(chunk, stream="a")
            await shared.end("a")
            (update,) = await run_all(shared)
        assert update.messages == expected


async def test_without_provider_and_callbacks_the_update_has_contents_alone(shared: SharedAccumulator) -> None:
    for chunk in chunks('{"n":1}'):
        shared.put(chunk, stream="a")
    await shared.end("a")
    (update,) = await run_all(shared)
    assert update.messages == []
    assert [content.speaker for content in update.contents] == ["ai", "tool"]


async def test_turns_and_chunks_share_the_queue(shared: SharedAccumulator) -> None:
    await shared.enqueue(closed_turn("", ("double", {"n": 1})))
    for chunk in chunks('{"n":2}'):
        shared.put(chunk, stream="a")
    await shared.end("a")
    shared.close()
    queued: list[QueuedCall] = [each async for each in shared]
    assert [(each.call.arguments, each.stream, each.turn is None) for each in queued] == [
        ({"n": 1}, None, False),
        ({"n": 2}, "a", True),
    ]


async def test_after_its_end_a_stream_is_rejected_and_after_close_a_new_one(shared: SharedAccumulator) -> None:
    (chunk,) = chunks("")
    mine = Accumulator("mine", turn_key="t")
    for stream in ("a", mine):
        shared.put(chunk, stream=stream)
        await shared.end(stream)
        with pytest.raises(UsageError, match="has ended"):
            shared.put(chunk, stream=stream)
        with pytest.raises(UsageError, match="has ended"):
            await shared.end(stream)
    shared.put(chunk, stream="open")
    shared.close()
    shared.put(chunk, stream="open")  # it was added before
    with pytest.raises(UsageError, match="closed"):
        shared.put(chunk, stream="new")
    await shared.end("open")
    assert len([queued async for queued in shared]) == 4


async def test_the_names_of_ended_streams_take_no_memory_without_bound(shared: SharedAccumulator) -> None:
    for number in range(MOST_ENDED_NAMES + 3):
        await shared.end(f"stream {number}")
    with pytest.raises(UsageError, match="has ended"):
        shared.put(chunks("{}")[0], stream=f"stream {MOST_ENDED_NAMES + 2}")
    with pytest.raises(UsageError, match="has ended"):
        shared.put(chunks("{}")[0], stream="stream 3")
    shared.put(chunks("{}")[0], stream="stream 2")  # a new stream: the earlier one of this name is forgotten
    await shared.end("stream 2")


async def test_workers_wait_for_the_streams_that_have_not_ended(shared: SharedAccumulator) -> None:
    values: list[int] = []

    async def work() -> None:
        values.extend([(await execute_one_tool(queued.call, tools=[double])).value async for queued in shared])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        for chunk in chunks('{"n":1}'):
            shared.put(chunk, stream="a")
        shared.close()
        await anyio.wait_all_tasks_blocked()
        await shared.end("a")
    assert values == [2]


async def test_the_end_of_a_response_without_calls(shared: SharedAccumulator) -> None:
    ended = await shared.end("text only")
    assert (ended.calls, [event.type for event in ended.events]) == ([], ["finished"])
    assert ended.update is not None
    assert ended.update.results == []


@pytest.mark.parametrize("stream", [None, 7, ["a"]])
async def test_a_stream_is_a_name_or_an_accumulator(shared: SharedAccumulator, stream: Any) -> None:
    with pytest.raises(UsageError, match="a name or an Accumulator"):
        shared.put(NormalizedToolChunk("start", name="f"), stream=stream)


def test_an_unknown_provider_is_rejected() -> None:
    with pytest.raises(UsageError, match="unknown provider"):
        SharedAccumulator(provider="nothing")
