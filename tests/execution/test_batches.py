"""``BatchReader``: generators of batches that yield one another, read by one task and closed by any."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

from streamkit.events import Text
from streamkit.execution.run.batches import Batches, BatchReader

pytestmark = pytest.mark.anyio


async def texts(reader: BatchReader) -> list[str]:
    return [event.text async for event in reader.events() if isinstance(event, Text)]


class Levels:
    """Three generators, each inside the one before, and what happened in them."""

    def __init__(self, fail: bool = False, hang: bool = False, replace_error: bool = False) -> None:
        self.log: list[str] = []
        self.fail = fail
        self.hang = hang
        self.replace_error = replace_error
        self.waiting = anyio.Event()

    async def outer(self) -> Batches:
        try:
            yield [Text("a")]
            yield self.middle()
            yield [Text("f")]
        except BaseException as error:
            self.log.append(type(error).__name__)
            raise
        finally:
            self.log.append("outer")

    async def middle(self) -> Batches:
        try:
            yield [Text("b"), Text("c")]
            yield self.inner()
            yield [Text("e")]
        except ZeroDivisionError as error:
            if self.replace_error:
                raise KeyError("other") from error
            raise
        finally:
            self.log.append("middle")

    async def inner(self) -> Batches:
        try:
            yield [Text("d")]
            if self.hang:
                self.waiting.set()
                await anyio.sleep_forever()
            if self.fail:
                raise ZeroDivisionError
        finally:
            self.log.append("inner")


async def test_the_batches_come_in_the_order_of_the_generators() -> None:
    levels = Levels()
    reader = BatchReader(levels.outer(), lambda error: [])
    assert await texts(reader) == ["a", "b", "c", "d", "e", "f"]
    assert levels.log == ["inner", "middle", "outer"]
    assert reader.is_exhausted


@pytest.mark.parametrize(("replaced", "error"), [(False, ZeroDivisionError), (True, KeyError)])
async def test_an_exception_is_raised_in_every_generator_around(replaced: bool, error: type[Exception]) -> None:
    levels = Levels(fail=True, replace_error=replaced)
    reader = BatchReader(levels.outer(), lambda error: [])
    with pytest.raises(error) as raised:
        await texts(reader)
    assert levels.log == ["inner", "middle", error.__name__, "outer"]
    assert isinstance(raised.value.__cause__, ZeroDivisionError) is replaced
    assert not reader.is_exhausted


@pytest.mark.parametrize("count", [1, 2, 3, 4])
async def test_closing_ends_the_generators_from_the_innermost(count: int) -> None:
    levels = Levels()
    reader = BatchReader(levels.outer(), lambda error: [])
    events = reader.events()
    for _ in range(count):
        await events.__anext__()
    await reader.aclose()
    entered = {1: ["outer"], 2: ["middle", "outer"], 3: ["middle", "outer"], 4: ["inner", "middle", "outer"]}
    assert [entry for entry in levels.log if entry != "GeneratorExit"] == entered[count]
    with pytest.raises(StopAsyncIteration):  # also in the middle of a batch
        await events.__anext__()
    await reader.aclose()


async def test_closing_the_events_alone_closes_the_generators() -> None:
    levels = Levels()
    events = BatchReader(levels.outer(), lambda error: []).events()
    for _ in range(4):
        await events.__anext__()
    await events.aclose()
    assert levels.log == ["inner", "middle", "GeneratorExit", "outer"]


async def test_a_task_that_waits_ends_in_order_when_another_one_closes(anyio_backend_name: str) -> None:
    if anyio_backend_name == "trio":
        pytest.skip("on trio the task that reads closes")
    levels = Levels(hang=True)
    reader = BatchReader(levels.outer(), lambda error: [])
    task: asyncio.Task[Any] = asyncio.create_task(texts(reader))
    await levels.waiting.wait()
    await anyio.lowlevel.checkpoint()
    await reader.aclose()
    assert await task == ["a", "b", "c", "d"]
    assert levels.log == ["inner", "middle", "CancelledError", "outer"]


async def test_a_wait_that_is_canceled_repeats_no_batch() -> None:
    levels = Levels(hang=True)
    reader = BatchReader(levels.outer(), lambda error: [])
    read: list[str] = []
    async with anyio.create_task_group() as tasks:

        async def cancel() -> None:
            await levels.waiting.wait()
            reader.cancel()

        tasks.start_soon(cancel)
        read += await texts(reader)
    assert read == ["a", "b", "c", "d"]
    assert levels.log[0] == "inner"
    assert levels.log[-1] == "outer"


async def test_a_canceled_reader_stays_canceled() -> None:
    levels = Levels(hang=True)
    reader = BatchReader(levels.outer(), lambda error: [])
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:

            async def cancel() -> None:
                await levels.waiting.wait()
                scope.cancel()

            tasks.start_soon(cancel)
            await texts(reader)
    assert scope.cancelled_caught
    assert levels.log[:2] == ["inner", "middle"]
    assert levels.log[-1] == "outer"
