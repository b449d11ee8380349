"""Time limits of runs, on a clock that jumps, with the cases of the AI SDK (see ``tests/test_time_limits.py``)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import anyio
import pytest
from execution.chat_chunks import answer, as_bytes
from execution.fake_model import calls_with_status
from virtual_clock import on_a_virtual_clock

from streamkit import Content, Retries, RoundContext, Run, StreamInterrupted, Timeouts, UsageError, run_loop
from streamkit.events import Warned

pytestmark = pytest.mark.anyio

HISTORY = [Content.human("Go.")]
FOREVER = 1e9
HELLO = as_bytes(answer("Hello"))
CALL = as_bytes(answer("", ("slow", {})))
START = as_bytes(answer(""))[:1]


class Model:
    """A model whose responses wait: each is a list of inputs and seconds; the first may be seconds of the request."""

    def __init__(self, *responses: Sequence[Any]) -> None:
        self.responses = list(responses)
        self.asked: list[str] = []

    async def __call__(self, context: RoundContext) -> AsyncIterator[bytes]:
        self.asked.append(context.provider.name)
        steps = list(self.responses.pop(0))
        if steps and isinstance(steps[0], (int, float)):
            await anyio.sleep(steps.pop(0))
        return self.read(steps)

    async def read(self, steps: list[Any]) -> AsyncIterator[bytes]:
        for step in steps:
            if isinstance(step, bytes):
                yield step
            else:
                await anyio.sleep(step)


async def interrupted(run: Run) -> str:
    """Return the message of the time-out that interrupts a run."""
    with pytest.raises(StreamInterrupted) as raised:
        await run
    assert raised.value.error.kind == "timed_out"
    assert run.ended == "timed_out"
    message: str = raised.value.error.message
    return message


def loop(model: Model, **options: Any) -> Run:
    return run_loop(model, **{"provider": "openai_chat", "history": HISTORY, "run_key": "r", **options})


FIRST_5 = "no event arrived within 5 seconds of the request (first_event)"
IDLE_5 = "no input arrived for 5 seconds (idle)"


@on_a_virtual_clock
async def test_the_request_is_part_of_the_first_event_s_time() -> None:
    """AI SDK: should include pending doStream in firstChunkMs; should use one firstChunkMs budget for ...."""
    assert await interrupted(loop(Model([20, *HELLO]), timeouts=Timeouts(first_event=5))) == FIRST_5
    assert await interrupted(loop(Model([3, 3, *HELLO]), timeouts=Timeouts(first_event=5))) == FIRST_5
    run = await loop(Model([2, 2, *HELLO]), timeouts=Timeouts(first_event=5))
    assert run.text == "Hello"


@on_a_virtual_clock
async def test_a_silent_request_is_idle() -> None:
    assert await interrupted(loop(Model([20, *HELLO]), timeouts=Timeouts(idle=5))) == IDLE_5


@on_a_virtual_clock
async def test_hooks_are_not_part_of_it() -> None:
    """AI SDK: should start firstChunkMs after step preparation."""

    async def prepare(context: RoundContext) -> None:
        await anyio.sleep(100)

    async def slow() -> str:
        return "done"

    run = await loop(Model(CALL, HELLO), tools=[slow], before_follow_up=prepare, timeouts=Timeouts(first_event=5))
    assert (run.ended, run.text) == ("answered", "Hello")


@on_a_virtual_clock
async def test_a_long_tool_is_no_silence() -> None:
    """AI SDK: should clear chunkMs before a long streaming tool."""

    async def slow() -> AsyncIterator[int]:
        for number in range(4):
            await anyio.sleep(4)
            yield number

    run = await loop(Model(CALL, HELLO), tools=[slow], timeouts=Timeouts(first_event=5, idle=5))
    assert run.ended == "answered"
    assert calls_with_status(run.contents) == [("slow", "completed")]


@on_a_virtual_clock
async def test_the_time_of_the_run_holds_while_a_tool_runs() -> None:
    """AI SDK: should keep totalMs active during local tool execution."""

    async def slow() -> None:
        await anyio.sleep(200)

    run = await loop(Model(CALL, HELLO), tools=[slow], timeouts=Timeouts(call=None, run=100, first_event=5, idle=5))
    assert (run.ended, calls_with_status(run.contents)) == ("timed_out", [("slow", "timed_out")])


@on_a_virtual_clock
async def test_each_round_has_the_time_anew() -> None:
    """AI SDK: should re-arm firstChunkMs for each model-call step."""

    async def slow() -> str:
        return "done"

    model = Model([*START, 4, *CALL[1:]], [*START, FOREVER])
    run = loop(model, tools=[slow], timeouts=Timeouts(first_event=5))
    assert await interrupted(run) == FIRST_5
    assert len(model.asked) == 2
    assert calls_with_status(run.contents) == [("slow", "completed")]


@on_a_virtual_clock
async def test_a_request_without_an_event_is_made_again_with_the_time_anew() -> None:
    """AI SDK: should give a stream retry a fresh firstChunkMs budget."""
    model = Model([*START, FOREVER], [4, *HELLO])
    run = loop(model, timeouts=Timeouts(first_event=5), retries=1)
    async with run:
        events = [event async for event in run]
    assert (run.ended, run.text, len(model.asked)) == ("answered", "Hello", 2)
    retried = [event for event in events if isinstance(event, Warned)]
    assert [(event.code, FIRST_5 in event.message) for event in retried] == [("request_retried", True)]


@on_a_virtual_clock
async def test_then_the_next_provider_is_asked() -> None:
    model = Model([FOREVER], [FOREVER], HELLO)
    run = await loop(model, timeouts=Timeouts(idle=5), retries=Retries(requests=1, fallbacks=["groq"]))
    assert (run.text, model.asked) == ("Hello", ["openai_chat", "openai_chat", "groq"])


@on_a_virtual_clock
async def test_after_an_event_no_request_is_made_again() -> None:
    model = Model([*HELLO[:2], FOREVER], HELLO)
    run = loop(model, timeouts=Timeouts(idle=5), retries=Retries(requests=3, fallbacks=["groq"]))
    assert await interrupted(run) == IDLE_5
    assert len(model.asked) == 1
    assert [content.metadata["interrupted"] for content in run.contents] == [True]
    assert run.text == "Hello"


@pytest.mark.parametrize("silence", [[FOREVER], [*HELLO[:2], FOREVER]], ids=["before", "within"])
@on_a_virtual_clock
async def test_the_time_of_the_run_ends_a_silent_response(silence: list[Any]) -> None:
    model = Model(silence, HELLO)
    message = await interrupted(loop(model, timeouts=Timeouts(run=50, first_event=80, idle=80), retries=3))
    assert (message, len(model.asked)) == ("the time limit passed before the response had ended", 1)


@on_a_virtual_clock
async def test_comments_count_unless_they_are_excluded() -> None:
    model = [*HELLO[:2], 4, b": keep-alive\n\n", 4, *HELLO[2:]]
    assert (await loop(Model(model), timeouts=Timeouts(idle=5))).ended == "answered"
    message = await interrupted(loop(Model(model), timeouts=Timeouts(idle=5, heartbeats=False)))
    assert message == "no input with an event arrived for 5 seconds (idle)"


async def test_a_synchronous_stream_needs_the_client_s_timeout() -> None:
    with pytest.raises(UsageError, match="need an asynchronous source"):
        await run_loop(lambda context: iter(HELLO), provider="openai_chat", history=HISTORY, timeouts=Timeouts(idle=5))


@pytest.mark.parametrize("name", ["first_event", "idle"])
def test_wrong_seconds(name: str) -> None:
    with pytest.raises(UsageError, match=f"timeouts.{name} must be a number of seconds above 0"):
        Timeouts(**{name: 0})
