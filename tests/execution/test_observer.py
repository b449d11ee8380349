"""What the observer of a run gets, and when."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from execution.chat_chunks import answer, closed_turn

from streamkit import (
    Content,
    Retries,
    RoundContext,
    Run,
    RunState,
    StreamInterrupted,
    Turn,
    execute_tool_calls_batched,
    execute_tool_calls_sequentially,
    run_loop,
    tool,
)
from streamkit.calls import ToolCall, ToolResult
from streamkit.events import RunEnded
from streamkit.execution import RunEntry
from streamkit.tools import Tool

current: ContextVar[str] = ContextVar("current", default="")


class Recorder:
    """An observer of everything: a list of what it gets."""

    def __init__(self, fails_at: str | None = None) -> None:
        self.seen: list[Any] = []
        self._fails_at = fails_at

    def add(self, name: str, *values: Any) -> None:
        self.seen.append((name, *values))
        if name == self._fails_at:
            raise LookupError(name)

    def start_run(self, context: RoundContext, run_key: str, metadata: dict[str, Any]) -> Recorder:
        metadata["seen"] = metadata.get("seen", 0) + 1
        self.add("run", run_key)
        return self

    def start_request(self, context: RoundContext) -> _Request:
        self.add("request", context.model, context.round)
        return _Request(self)

    def start_call(self, call: ToolCall, tool: Tool) -> Callable[[ToolResult | None], object]:
        assert call.name == tool.name
        token = current.set(call.name)
        self.add("call", call.name)

        def end(result: ToolResult | None) -> None:
            current.reset(token)  # in the same task
            self.add("call ended", call.name, None if result is None else result.status)

        return end

    def end(self, ended: RunEnded, error: Exception | None) -> None:
        self.add("run ended", ended.ended, type(error))


class _Request:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    @contextmanager
    def current(self) -> Iterator[None]:
        token = current.set("request")
        try:
            yield
        finally:
            current.reset(token)

    def begin_response(self) -> None:
        self._recorder.add("response")

    def end(self, turn: Turn, error: BaseException | None) -> None:
        self._recorder.add("request ended", turn.finish is not None, type(error))


@tool
async def fetch(city: str) -> str:
    """Fetch."""
    return f"{current.get()} {city}"


HISTORY = [Content.human("Hi")]
NONE = type(None)


def loop(ask: Callable[[RoundContext], Any], observer: Recorder, **options: Any) -> Run[Any]:
    options = {"provider": "openai_chat", "model": "m", "history": HISTORY, "tools": [fetch], **options}
    return run_loop(ask, **options).observe(observer)


@pytest.mark.anyio
async def test_each_operation_starts_and_ends_once() -> None:
    recorder = Recorder()
    responses = [answer("", ("fetch", {"city": "Oslo"})), answer("Done.")]
    run = await loop(lambda context: responses[context.round], recorder, run_key="k")
    assert [result.value for result in run.results] == ["fetch Oslo"]
    assert run.metadata == {"seen": 1}
    assert recorder.seen == [
        ("run", "k"),
        ("request", "m", 0),
        ("response",),
        ("request ended", True, NONE),
        ("call", "fetch"),
        ("call ended", "fetch", "completed"),
        ("request", "m", 1),
        ("response",),
        ("request ended", True, NONE),
        ("run ended", "answered", NONE),
    ]


@pytest.mark.anyio
async def test_attempts_are_one_request_and_fallbacks_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamkit.execution.run.request._FIRST_DELAY", 0.001)
    recorder, contexts = Recorder(), []

    def ask(context: RoundContext) -> Any:
        contexts.append(current.get())
        if context.provider.name == "openai_chat":
            raise ConnectionError("no connection")
        return answer("Done.")

    await loop(ask, recorder, retries=Retries(requests=1, fallbacks=["groq"]))
    assert contexts == ["request"] * 3
    assert [each for each in recorder.seen if each[0] != "run"] == [
        ("request", "m", 0),
        ("request ended", False, NONE),
        ("request", None, 0),
        ("response",),
        ("request ended", True, NONE),
        ("run ended", "answered", NONE),
    ]


@pytest.mark.anyio
async def test_a_defect_is_the_end_of_the_request_and_of_the_run() -> None:
    recorder = Recorder()

    def ask(context: RoundContext) -> Any:
        raise LookupError("a defect")

    with pytest.raises(LookupError):
        await loop(ask, recorder)
    assert recorder.seen[2:] == [("request ended", False, LookupError), ("run ended", "error", LookupError)]


@pytest.mark.anyio
async def test_a_reader_that_leaves_ends_what_has_started() -> None:
    recorder, waits = Recorder(), anyio.Event()

    @tool
    async def wait() -> None:
        """Wait."""
        waits.set()
        await anyio.sleep_forever()

    async with loop(lambda _: answer("", ("wait", {})), recorder, tools=[wait]) as run:
        async for _ in run:
            if waits.is_set():
                break
            await anyio.lowlevel.checkpoint()
    assert recorder.seen[-2:] == [("call ended", "wait", None), ("run ended", "canceled", NONE)]
    assert current.get() == ""


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["run", "request", "response", "request ended", "call"])
async def test_what_an_observer_raises_ends_the_run(name: str) -> None:
    responses = [answer("", ("fetch", {"city": "Oslo"})), answer("Done.")]
    with pytest.raises(LookupError, match=name):
        await loop(lambda context: responses[context.round], Recorder(fails_at=name))
    assert current.get() == ""


@pytest.mark.anyio
async def test_a_failed_response_is_no_first_chunk() -> None:
    recorder = Recorder()
    with pytest.raises(StreamInterrupted):
        await loop(lambda _: [{"error": {"message": "no", "code": 500}}], recorder)
    assert ("response",) not in recorder.seen


@pytest.mark.anyio
@pytest.mark.parametrize("execute", [execute_tool_calls_batched, execute_tool_calls_sequentially])
async def test_an_executor_by_hand_has_an_observer(execute: Any) -> None:
    recorder = Recorder()
    turn = closed_turn("", ("fetch", {"city": "Oslo"}), ("fetch", {}), ("unknown", {}))
    update = await execute(turn, tools=[fetch], observer=recorder)
    assert [result.status for result in update.results] == ["completed", "error", "error"]
    assert recorder.seen == [("call", "fetch"), ("call ended", "fetch", "completed")]  # others do not run


@pytest.mark.anyio
async def test_the_metadata_of_a_run_is_in_its_entries() -> None:
    entries = list[RunEntry]()
    responses = [answer("", ("fetch", {"city": "Oslo"})), answer("Done.")]

    async def store(entry: RunEntry) -> None:
        entries.append(entry)
        if len(entries) == 3:
            run.metadata["later"] = [1]

    run = run_loop(
        lambda context: responses[context.round],
        provider="openai_chat",
        history=HISTORY,
        tools=[fetch],
        checkpoint=store,
    )
    run.metadata["message"] = "m7"
    await run
    assert [RunState.from_entries(entries[:count]).metadata for count in (1, 3, len(entries))] == [
        {"message": "m7"},
        {"message": "m7"},
        {"message": "m7", "later": [1]},
    ]
