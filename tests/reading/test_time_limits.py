"""Time limits of reading, on a clock that jumps, with the cases of the AI SDK.

The cases marked AI SDK are those of ``firstChunkMs`` and ``chunkMs`` in
https://github.com/vercel/ai/blob/main/packages/ai/src/generate-text/stream-text-timeout.test.ts, in this package's
terms: milliseconds became seconds, parts became chunks of Anthropic's wire.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import anyio
import pytest
from virtual_clock import VirtualLoop, on_a_virtual_clock

from streamkit import StreamError, Timeouts, Turn, UsageError, read
from streamkit.reading.source import Source
from streamkit.reading.stream_reader import TurnReading
from streamkit.reading.time_limits import TIMED_OUT, TimeLimits, has_content

pytestmark = pytest.mark.anyio

START = {"type": "message_start", "message": {"id": "r1", "model": "m", "usage": {"input_tokens": 1}}}
STOP: list[Any] = [
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
    {"type": "message_stop"},
]
PING = b": ping\n\n"


def sse(chunk: dict[str, Any]) -> bytes:
    return f"event: {chunk['type']}\ndata: {json.dumps(chunk)}\n\n".encode()


def block(kind: str, index: int = 0, **fields: Any) -> bytes:
    return sse({"type": "content_block_start", "index": index, "content_block": {"type": kind, **fields}})


def delta(kind: str, index: int = 0, **fields: Any) -> bytes:
    return sse({"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}})


TEXT = block("text", text="") + delta("text_delta", text="Hello")
END = b"".join(map(sse, STOP))


class TimedSource:
    """A source that waits between its inputs: numbers are seconds."""

    def __init__(self, steps: Sequence[Any]) -> None:
        self.steps = list(steps)
        self.is_closed = False

    def __aiter__(self) -> TimedSource:
        return self

    async def __anext__(self) -> bytes:
        while self.steps:
            step = self.steps.pop(0)
            if isinstance(step, bytes):
                return step
            await anyio.sleep(step)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self.is_closed = True


FOREVER = 1e9


async def read_all(*steps: Any, **limits: Any) -> tuple[Turn, float]:
    """Read a source under time limits; return the turn and the seconds that it took."""
    turn, source = Turn("anthropic", turn_key="t"), TimedSource(steps)
    started = anyio.current_time()
    async for _ in read(turn, source, **limits):
        pass
    assert source.is_closed
    return turn, anyio.current_time() - started


def message(turn: Turn) -> str:
    assert turn.error is not None
    assert turn.error.kind == "timed_out"
    return turn.error.message


FIRST_5 = "no event arrived within 5 seconds of the request (first_event)"
IDLE_5 = "no input arrived for 5 seconds (idle)"

# ---------------------------------------------------------------- the first event


@on_a_virtual_clock
async def test_input_without_content_is_no_first_event() -> None:
    """AI SDK: should abort when only non-output chunks arrive before firstChunkMs."""
    steps = [sse(START), 1.0, block("text", text=""), delta("text_delta", text=""), 1.0, PING, sse({"type": "ping"})]
    turn, seconds = await read_all(*steps, FOREVER, timeouts=Timeouts(first_event=5))
    assert (message(turn), seconds) == (FIRST_5, 5)
    assert turn.response_id == "r1"


OUTPUTS = {
    "text delta": TEXT,
    "reasoning delta": block("thinking", thinking="") + delta("thinking_delta", thinking="Hm"),
    "tool input delta": block("tool_use", id="toolu_1", name="f", input={})
    + delta("input_json_delta", partial_json='{"value":'),
    "tool call": block("tool_use", id="toolu_1", name="f", input={"value": "test"}),
}


@pytest.mark.parametrize("output", OUTPUTS)
@on_a_virtual_clock
async def test_the_first_event_ends_its_limit(output: str) -> None:
    """AI SDK: should disarm firstChunkMs before forwarding the first ...."""
    turn, _ = await read_all(sse(START), 4, OUTPUTS[output], 100, END, timeouts=Timeouts(first_event=5))
    assert turn.error is None


@on_a_virtual_clock
async def test_an_error_of_the_provider_ends_the_limit() -> None:
    """AI SDK: should clear firstChunkMs when the provider stream errors."""
    error = sse({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    turn, _ = await read_all(4, error, FOREVER, timeouts=Timeouts(first_event=5, idle=5))
    assert turn.error is not None
    assert turn.error.code == "overloaded"


@on_a_virtual_clock
async def test_a_reader_that_leaves_has_no_timer_left() -> None:
    """AI SDK: should clear firstChunkMs when the registered step stream is cancelled."""
    turn = Turn("anthropic", turn_key="t")
    async with read(turn, TimedSource([sse(START), FOREVER]), timeouts=Timeouts(first_event=5)) as events:
        async for _ in events:
            break
    await anyio.sleep(100)
    assert turn.error is not None
    assert turn.error.kind == "stream_truncated"


# ---------------------------------------------------------------- silence


@on_a_virtual_clock
async def test_an_idle_limit_alone_holds_before_the_first_input() -> None:
    turn, seconds = await read_all(FOREVER, timeouts=Timeouts(idle=5))
    assert (message(turn), seconds) == (IDLE_5, 5)


@on_a_virtual_clock
async def test_silence_after_the_first_event() -> None:
    """AI SDK: should start chunkMs only after output begins in the next step."""
    turn, seconds = await read_all(10, sse(START) + TEXT, FOREVER, timeouts=Timeouts(first_event=15, idle=5))
    assert (message(turn), seconds) == (IDLE_5, 15)
    assert turn.text == "Hello"


@on_a_virtual_clock
async def test_each_input_starts_a_new_silence() -> None:
    more = [part for _ in range(20) for part in (4, delta("text_delta", text="!"))]
    turn, seconds = await read_all(sse(START) + TEXT, *more, END, timeouts=Timeouts(idle=5))
    assert (turn.error, seconds) == (None, 80)


@pytest.mark.parametrize("heartbeat", [PING, sse({"type": "ping"})], ids=["comment", "ping"])
@on_a_virtual_clock
async def test_heartbeats_count_unless_they_are_excluded(heartbeat: bytes) -> None:
    """AI SDK: should not reset chunkMs for non-output chunks."""
    steps = [sse(START) + TEXT, 2, heartbeat, 2, heartbeat, 2, END]
    turn, _ = await read_all(*steps, timeouts=Timeouts(idle=5))
    assert turn.error is None
    turn, seconds = await read_all(*steps, timeouts=Timeouts(idle=5, heartbeats=False))
    assert message(turn) == "no input with an event arrived for 5 seconds (idle)"
    assert seconds == 5


@on_a_virtual_clock
async def test_a_slow_reader_is_no_silence() -> None:
    """AI SDK: should clear output timers before slow stream processing."""
    turn = Turn("anthropic", turn_key="t")
    source = TimedSource([sse(START), TEXT, 4, delta("text_delta", text="!"), 4, END])
    async for _ in read(turn, source, timeouts=Timeouts(first_event=5, idle=5)):
        await anyio.sleep(4)
    assert (turn.error, turn.text) == (None, "Hello!")


@on_a_virtual_clock
async def test_the_limits_of_many_readers_are_their_own() -> None:
    results: dict[int, str] = {}

    async def run(seconds: int) -> None:
        steps = [sse(START) + TEXT, seconds, END]
        turn, _ = await read_all(*steps, timeouts=Timeouts(idle=10))
        results[seconds] = turn.error.kind if turn.error is not None else "ended"

    async with anyio.create_task_group() as group:
        for seconds in (1, 9, 11, 30):
            group.start_soon(run, seconds)
    assert results == {1: "ended", 9: "ended", 11: "timed_out", 30: "timed_out"}


# ---------------------------------------------------------------- sources and cancellation


@on_a_virtual_clock
async def test_a_cancellation_from_outside_is_not_a_time_out() -> None:
    turn = Turn("anthropic", turn_key="t")
    with anyio.move_on_after(3) as scope:
        async for _ in read(turn, TimedSource([sse(START), FOREVER]), timeouts=Timeouts(idle=5)):
            pass
    assert scope.cancelled_caught
    assert turn.error is not None
    assert turn.error.kind == "stream_truncated"


@on_a_virtual_clock
async def test_a_time_out_leaves_no_cancellation_behind() -> None:
    await read_all(FOREVER, timeouts=Timeouts(idle=5))
    await anyio.sleep(1)
    if (task := _asyncio_task()) is not None:
        assert task.cancelling() == 0


def _asyncio_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


@on_a_virtual_clock
async def test_a_source_that_swallows_the_cancellation_is_read_on() -> None:
    """On trio a source cannot: the cancellation is repeated at its next checkpoint."""
    if _asyncio_task() is None:
        pytest.skip("trio repeats a cancellation that was swallowed")

    async def stubborn() -> AsyncIterator[bytes]:
        try:
            await anyio.sleep(FOREVER)
        except asyncio.CancelledError:
            yield sse(START) + TEXT + END

    turn = Turn("anthropic", turn_key="t")
    async for _ in read(turn, stubborn(), timeouts=Timeouts(idle=5)):
        pass
    assert (turn.error, turn.text) == (None, "Hello")
    task = _asyncio_task()
    assert task is not None
    assert task.cancelling() == 0


@on_a_virtual_clock
async def test_a_source_with_scopes_of_its_own() -> None:
    """httpcore enters a scope for each read."""

    async def scoped() -> AsyncIterator[bytes]:
        yield sse(START)
        with anyio.fail_after(100):
            await anyio.sleep(FOREVER)

    turn = Turn("anthropic", turn_key="t")
    async for _ in read(turn, scoped(), timeouts=Timeouts(idle=5)):
        pass
    assert message(turn) == IDLE_5


@pytest.mark.parametrize("limits", [Timeouts(first_event=5), Timeouts(idle=5)])
async def test_a_synchronous_source_has_no_limits(limits: Timeouts) -> None:
    def chunks() -> Any:
        yield START

    with pytest.raises(
        UsageError, match=r"need an asynchronous source: .* \(generator\). .*timeout of the HTTP client"
    ):
        async for _ in read(Turn("anthropic"), chunks(), timeouts=limits):
            pass
    with pytest.raises(UsageError, match="need an asynchronous source"):
        list(read(Turn("anthropic"), chunks(), timeouts=limits))


async def test_what_is_complete_is_not_waited_for() -> None:
    body = sse(START) + TEXT + END
    for source in (body, [body]):
        turn = Turn("anthropic", turn_key="t")
        assert [event.type for event in read(turn, source, timeouts=Timeouts(idle=5))]
        assert turn.error is None


@pytest.mark.parametrize(
    ("limits", "error"),
    [
        ({"first_event": 0}, "timeouts.first_event must be a number of seconds above 0"),
        ({"idle": -1}, "timeouts.idle must be"),
        ({"idle": True}, "timeouts.idle must be"),
        ({"idle": 5, "heartbeats": None}, "timeouts.heartbeats must be True or False"),
    ],
)
def test_wrong_limits(limits: dict[str, Any], error: str) -> None:
    with pytest.raises(UsageError, match=error):
        Timeouts(**limits)


@pytest.mark.parametrize("wrong", [5, "5", {"idle": 5}])
def test_reading_has_no_calls_that_a_number_could_limit(wrong: Any) -> None:
    with pytest.raises(UsageError, match="timeouts must be Timeouts"):
        read(Turn("anthropic"), [], timeouts=wrong)


# ---------------------------------------------------------------- the pure part


@pytest.mark.parametrize("limit", ["first_event", "idle"])
def test_a_limit_holds_in_an_event_loop_that_anyio_has_not_started(limit: str) -> None:
    """As under uvicorn. In a callback of such an event loop anyio finds none, if the package sniffio is installed."""

    async def hang() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    async def main() -> str | None:
        turn = Turn("openai_chat")
        async with asyncio.timeout(60):
            async for _ in read(turn, hang(), timeouts=Timeouts(**{limit: 1.0})):
                pass
        return turn.error.kind if turn.error is not None else None

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(main()) == "timed_out"


def test_the_earliest_limit_counts() -> None:
    limits = TimeLimits(first_event=10, idle=5, deadline=107)
    assert limits.expiry(100, 100, has_first_event=False) == 107
    assert limits.expiry(100, 101, has_first_event=True) == 106
    assert limits.error(107, has_first_event=False) is TIMED_OUT
    assert limits.error(106, has_first_event=True) == StreamError("timed_out", IDLE_5)
    assert TimeLimits(deadline=107).expiry(100, 100, has_first_event=False) == 107


def test_without_limits_nothing_expires() -> None:
    assert TimeLimits().expiry(0, 0, has_first_event=True) == float("inf")
    assert not TimeLimits().has_silence_limit


def test_content() -> None:
    turn = Turn("anthropic", turn_key="t")
    assert not has_content(turn.feed(sse(START)))
    assert has_content(turn.feed(TEXT))


# ---------------------------------------------------------------- cost


async def count_timers(inputs: int) -> int:
    """Return how many timers of asyncio reading that many inputs starts."""
    loop = asyncio.get_running_loop()
    call_at, timers = loop.call_at, 0

    def counting(*args: Any, **fields: Any) -> Any:
        nonlocal timers
        timers += 1
        return call_at(*args, **fields)

    steps = [sse(START) + TEXT, *[delta("text_delta", text="!")] * inputs, END]
    limits = TimeLimits(first_event=1000, idle=1000)
    source = Source(Turn("anthropic", turn_key="t"), TimedSource(steps), limits=limits)
    loop.call_at = counting  # type: ignore[method-assign, assignment]
    try:
        assert len([batch async for batch in TurnReading(Turn("anthropic", turn_key="t"), source).batches()]) > inputs
    finally:
        del loop.call_at
    return timers


async def test_an_input_moves_no_timer_of_asyncio() -> None:
    if _asyncio_task() is None:
        pytest.skip("on trio each wait has a cancel scope")
    assert await count_timers(10) == await count_timers(200)
