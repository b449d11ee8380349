"""The shared cases of execution (``cases.jsonl``, wire "exec"): one test each, named by its id.

Each asserts all of what the case expects. The parts are tested more closely elsewhere: the rules of one call in
``test_executor``, cancellation at every step in ``test_cancellation``, barriers in ``test_scheduler``, approvals in
``test_approval``, early starts in ``test_eager`` (also that of an answer cut at its length whole calls stand), threads
in ``test_worker_thread``.
"""

from __future__ import annotations

import gc
import json
import re
import threading
import warnings
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import httpx
import pytest
import wire_streams
from execution.chat_chunks import answer, as_bytes, closed_turn
from execution.fake_model import FakeModel, calls_with_status, ids_in_messages, is_nothing_left, tasks_and_threads
from shared_data import CASES_FILE
from virtual_clock import on_a_virtual_clock
from waiting import PATIENCE

from streamkit import (
    Approval,
    Content,
    RoundContext,
    RunState,
    StreamInterrupted,
    execute_tool_calls_batched,
    execute_tool_calls_sequentially,
    run_loop,
    tool,
)
from streamkit.events import (
    Event,
    ToolCanceled,
    ToolCompleted,
    ToolDenied,
    ToolError,
    ToolProgress,
    ToolRunning,
    ToolTimedOut,
    Warned,
)

CASES = CASES_FILE
EXECUTORS = pytest.mark.parametrize("execute", [execute_tool_calls_batched, execute_tool_calls_sequentially])
HISTORY = [Content.human("Go.")]


def loop(model: Any, *tools: Any, **more: Any) -> Any:
    options = {"provider": "openai_chat", "history": HISTORY, "run_key": "k", **more}
    return run_loop(model, tools=tools, **options)


async def collect_events(running: Any) -> list[Event]:
    async with running:
        return [event async for event in running]


async def append_to(events: list[Event], running: Any) -> None:
    """Append events to a list, so that those before an exception are kept."""
    async for event in running:
        events.append(event)  # noqa: PERF401 - a comprehension would lose them


def events_of_type(kind: Any, events: list[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


@pytest.mark.skipif(not CASES.exists(), reason=f"the shared data is not there: {CASES}")
def test_every_exec_case_of_the_shared_data_has_a_test_here() -> None:
    lines = CASES.read_text().splitlines()
    wanted = {case["id"] for case in map(json.loads, filter(None, lines)) if case["wire"] == "exec"}
    assert len(wanted) >= 15
    tested = {f"ex-{match[1]}" for match in (re.match(r"test_ex_(\d+)_", name) for name in globals()) if match}
    assert wanted - tested == set()


# ---------------------------------------------------------------- what a tool may do


@pytest.mark.anyio
async def test_ex_001_the_error_of_an_unknown_tool_lists_the_names_and_the_others_run() -> None:
    async def bash(command: str) -> str:
        return f"ran {command}"

    calls = [("execute_python", {"code": "1"}), ("bash", {"command": "ls"})]
    model = FakeModel(answer("", *calls), answer("Done."))
    run = loop(model, bash)
    events = await collect_events(run)
    assert calls_with_status(run.contents) == [("execute_python", "error"), ("bash", "completed")]
    expected = "Not run: there is no tool 'execute_python'. There are: bash. Call one of these instead."
    assert [event.result.error for event in events_of_type(ToolError, events)] == [expected]
    assert [event.result.value for event in events_of_type(ToolCompleted, events)] == ["ran ls"]
    assert [message["content"] for message in model.requests[1]["messages"][-2:]] == [expected, "ran ls"]
    assert (run.ended, run.rounds, run.text) == ("answered", 2, "Done.")


@pytest.mark.anyio
@EXECUTORS
async def test_ex_002_a_tool_that_raises_gets_an_error_result_and_the_other_call_its_own(execute: Any) -> None:
    async def fail() -> None:
        raise LookupError("no such city")

    async def work() -> str:
        return "worked"

    update = await execute(closed_turn("", ("fail", {}), ("work", {})), tools=[fail, work])
    assert [(result.status, result.value, result.error) for result in update.results] == [
        ("error", None, "fail failed with LookupError: no such city."),
        ("completed", "worked", None),
    ]
    assert calls_with_status(update.contents) == [("fail", "error"), ("work", "completed")]
    call_ids, result_ids = ids_in_messages(update.messages)
    assert result_ids == [each for ids in call_ids for each in ids]
    assert [message["content"] for message in update.messages if message["role"] == "tool"] == [
        "fail failed with LookupError: no such city.",
        "worked",
    ]


@on_a_virtual_clock
@pytest.mark.anyio
@EXECUTORS
async def test_ex_003_a_tool_that_never_returns_times_out_and_leaves_no_task_or_thread(execute: Any) -> None:
    ended: list[str] = []

    @tool(timeout=0.1)
    async def hang() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("hang")

    before = tasks_and_threads()
    execution = execute(closed_turn("", ("hang", {})), tools=[hang], timeouts=None)
    events = await collect_events(execution)
    assert [type(event) for event in events] == [ToolRunning, ToolTimedOut]
    [result] = execution.update.results
    assert (result.status, result.error) == ("timed_out", "hang did not finish within 0.1 seconds.")
    assert ended == ["hang"]
    assert is_nothing_left(before)

    run = await loop(FakeModel(answer("", ("hang", {})), answer("Too slow.")), hang, timeouts=None)
    assert calls_with_status(run.contents) == [("hang", "timed_out")]
    assert (run.ended, run.text) == ("answered", "Too slow.")
    assert ended == ["hang", "hang"]
    assert is_nothing_left(before)


class Three:
    """Three tools that wait for ever, and take a moment to end when they are cancelled."""

    def __init__(self) -> None:
        self.began = 0
        self.ended = 0
        self.all_run = anyio.Event()

    def __iter__(self) -> Any:
        return iter([tool(self.wait, name=name) for name in ("one", "two", "three")])

    async def wait(self) -> None:
        self.began += 1
        if self.began == 3:
            self.all_run.set()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):  # a caller that does not wait for this leaves before it is counted
                await anyio.sleep(0.01)
            self.ended += 1


@pytest.mark.anyio
async def test_ex_004_a_canceled_batch_is_awaited_and_has_three_canceled_results() -> None:
    before = tasks_and_threads()
    three = Three()
    model = FakeModel(answer("Now.", ("one", {}), ("two", {}), ("three", {})))
    run = loop(model, *three)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(collect_events, run)
        await three.all_run.wait()
        tasks.cancel_scope.cancel()
    assert three.ended == 3
    assert calls_with_status(run.contents) == [("one", "canceled"), ("two", "canceled"), ("three", "canceled")]
    call_ids, result_ids = ids_in_messages(run.thread)
    assert call_ids == [result_ids]
    assert len(result_ids) == 3
    assert run.ended == "canceled"
    assert [stream.closed for stream in model.streams] == [True]
    assert is_nothing_left(before)

    three = Three()
    turn = closed_turn("Now.", ("one", {}), ("two", {}), ("three", {}))
    execution = execute_tool_calls_batched(turn, tools=list(three))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(collect_events, execution)
        await three.all_run.wait()
        tasks.cancel_scope.cancel()
    assert three.ended == 3
    assert [result.status for result in execution.update.results] == ["canceled"] * 3
    assert [message["role"] for message in execution.update.messages] == ["assistant", "tool", "tool", "tool"]
    assert is_nothing_left(before)


# ---------------------------------------------------------------- concurrency


class Crowd:
    """Counts how many calls of a tool run at once."""

    def __init__(self) -> None:
        self.running = 0
        self.most = 0

    async def step(self, n: int) -> int:
        self.running += 1
        self.most = max(self.most, self.running)
        for _ in range(20 - n % 10):  # they end in another order than they began in
            await anyio.lowlevel.checkpoint()
        self.running -= 1
        return n


@pytest.mark.anyio
async def test_ex_005_of_800_calls_five_run_at_a_time_and_results_keep_call_order() -> None:
    calls = [("step", {"n": n}) for n in range(800)]
    crowd = Crowd()
    update = await execute_tool_calls_batched(closed_turn("", *calls), tools=[crowd.step], limit=5)
    assert crowd.most == 5
    assert [result.value for result in update.results] == list(range(800))

    crowd = Crowd()
    model = FakeModel(answer("", *calls), answer("Done."))
    run = await loop(model, crowd.step, limit=5)
    assert crowd.most == 5
    assert run.ended == "answered"
    result_ids = [message["content"] for message in model.requests[1]["messages"] if message["role"] == "tool"]
    assert result_ids == [str(n) for n in range(800)]
    call_ids, answered = ids_in_messages(run.thread)
    assert call_ids == [answered]
    assert len(set(answered)) == 800


@pytest.mark.anyio
async def test_ex_006_an_exclusive_tool_waits_for_earlier_calls_and_blocks_later_ones() -> None:
    log: list[str] = []
    both_read = anyio.Event()

    async def read(n: int) -> str:
        log.append(f"read {n} began")
        if "read 0 began" in log and "read 1 began" in log:
            both_read.set()
        await both_read.wait()  # never set, were the two not read side by side
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        log.append(f"read {n} ended")
        return f"read {n}"

    @tool(exclusive=True)
    async def write() -> str:
        log.append("write began")
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        log.append("write ended")
        return "written"

    calls = [("read", {"n": 0}), ("read", {"n": 1}), ("write", {}), ("read", {"n": 2})]
    for running in (execute_tool_calls_batched(closed_turn("", *calls), tools=[read, write]), None):
        log.clear()
        both_read = anyio.Event()
        if running is not None:
            contents = (await running).contents
        else:
            contents = (await loop(FakeModel(answer("", *calls), answer("Done.")), read, write)).contents
        assert log[:2] == ["read 0 began", "read 1 began"]
        assert sorted(log[2:4]) == ["read 0 ended", "read 1 ended"]
        assert log[4:] == ["write began", "write ended", "read 2 began", "read 2 ended"]
        results = [block.result for block in contents[1].blocks]
        assert results == ["read 0", "read 1", "written", "read 2"]


# ---------------------------------------------------------------- approval


@pytest.mark.anyio
@pytest.mark.parametrize("first", ["look", "remove"])
async def test_ex_007_of_a_mixed_batch_one_call_runs_and_the_pending_one_is_added_on_resuming(first: str) -> None:
    ran: list[str] = []

    async def look() -> str:
        ran.append("look")
        return "seen"

    @tool(approval="ask")
    async def remove() -> str:
        ran.append("remove")
        return "removed"

    names = ["look", "remove"] if first == "look" else ["remove", "look"]
    paused = loop(FakeModel(answer("", *[(name, {}) for name in names])), look, remove)
    events = await collect_events(paused)
    assert ran == ["look"]
    assert [event.call.name for event in events_of_type(ToolCompleted, events)] == ["look"]
    assert paused.ended == "awaiting_approval"
    assert [call.name for call in paused.pending] == ["remove"]
    assert paused.contents == []

    [waiting] = paused.pending
    state = RunState.model_validate_json(paused.state.model_dump_json())
    model = FakeModel(answer("Done."))
    run = run_loop(model, resume=state.answer(approvals={waiting.id: True}), tools=[look, remove])
    events = await collect_events(run)
    assert ran == ["look", "remove"]
    assert [event.call.name for event in events_of_type(ToolCompleted, events)] == ["remove"]
    assert calls_with_status(run.contents) == [(name, "completed") for name in names]
    call_ids, result_ids = ids_in_messages(model.requests[0]["messages"])
    assert call_ids == [result_ids]
    contents = [message["content"] for message in model.requests[0]["messages"] if message["role"] == "tool"]
    assert contents == [{"look": "seen", "remove": "removed"}[name] for name in names]
    assert run.ended == "answered"


@pytest.mark.anyio
async def test_ex_008_a_denied_call_never_runs_and_the_model_gets_the_reason() -> None:
    ran: list[str] = []

    @tool(approval="ask")
    async def remove() -> None:
        ran.append("remove")

    async def approve(call: Any, deps: Any) -> Approval:
        return Approval(False, reason="it is still needed")

    model = FakeModel(answer("", ("remove", {})), answer("I left it."))
    run = loop(model, remove, approve=approve)
    events = await collect_events(run)
    expected = "Not run: remove was not approved: it is still needed."
    assert ran == []
    assert [(event.result.status, event.result.error) for event in events_of_type(ToolDenied, events)] == [
        ("denied", expected)
    ]
    assert events_of_type(ToolRunning, events) == []
    assert calls_with_status(run.contents) == [("remove", "denied")]
    assert model.requests[1]["messages"][-1]["content"] == expected
    assert (run.ended, run.text) == ("answered", "I left it.")


# ---------------------------------------------------------------- when to stop


async def get_weather(city: str) -> str:
    return f"{city}: rain"


CALL = ("get_weather", {"city": "Oslo"})


@pytest.mark.anyio
@pytest.mark.parametrize("forced", ["required", "get_weather"])
async def test_ex_009_a_forced_tool_choice_applies_to_the_first_round_unless_a_hook_keeps_it(forced: str) -> None:
    named = {"type": "function", "function": {"name": "get_weather"}}
    wire = "required" if forced == "required" else named

    model = FakeModel(answer("", CALL), answer("", CALL), answer("Rain."))
    run = await loop(model, get_weather, tool_choice=forced)
    assert run.ended == "answered"
    # Left out is OpenAI's "auto": https://platform.openai.com/docs/api-reference/chat/create#chat-create-tool_choice
    assert [request.get("tool_choice") for request in model.requests] == [wire, None, None]
    assert all(request["tools"] for request in model.requests)

    def keep(context: RoundContext) -> RoundContext:
        return replace(context, tool_choice=forced)

    model = FakeModel(answer("", CALL), answer("", CALL), answer("Rain."))
    await loop(model, get_weather, tool_choice=forced, before_follow_up=keep)
    assert [request.get("tool_choice") for request in model.requests] == [wire, wire, wire]


@pytest.mark.anyio
@pytest.mark.parametrize("wire", ["openai_chat", "anthropic"])
async def test_ex_010_the_last_round_is_requested_without_tools_and_every_call_has_a_result(wire: str) -> None:
    use = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {}}
    delta = {"type": "input_json_delta", "partial_json": '{"city": "Oslo"}'}
    blocks = [wire_streams.message_start(), *wire_streams.block(0, use, delta), *wire_streams.message_end("tool_use")]
    model = FakeModel(blocks if wire == "anthropic" else answer("", CALL))
    run = await loop(model, get_weather, provider=wire, max_rounds=3)
    none = {"type": "none"} if wire == "anthropic" else "none"
    assert [request.get("tool_choice") for request in model.requests] == [None, None, none]
    assert (run.ended, run.rounds) == ("max_rounds", 3)
    assert calls_with_status(run.contents) == [
        ("get_weather", "completed"),
        ("get_weather", "completed"),
        ("get_weather", "canceled"),
    ]
    if wire == "anthropic":
        parts = [part for message in run.thread for part in message["content"] if not isinstance(part, str)]
        used = [part["id"] for part in parts if part["type"] == "tool_use"]
        assert [part["tool_use_id"] for part in parts if part["type"] == "tool_result"] == used
    else:
        call_ids, result_ids = ids_in_messages(run.thread)
        used = [each for ids in call_ids for each in ids]
        assert result_ids == used
    assert len(set(used)) == 3


@pytest.mark.anyio
@pytest.mark.parametrize("broken", ['{"city": ', '{"city": Oslo}', '{"town": "Oslo"}'])
async def test_ex_011_the_same_broken_call_three_times_trips_the_circuit_breaker_with_a_warning(broken: str) -> None:
    model = FakeModel(answer("", ("get_weather", broken)))
    run = loop(model, get_weather, max_rounds=17)
    events = await collect_events(run)
    assert (run.ended, run.rounds, len(model.requests)) == ("breaker", 3, 3)
    expected = "the same call failed in 3 rounds, and the run was ended"
    assert [(event.code, event.message) for event in events_of_type(Warned, events) if event.code == "breaker"] == [
        ("breaker", expected)
    ]
    assert [warning.message for warning in run.warnings if warning.code == "breaker"] == [expected]
    assert calls_with_status(run.contents) == [("get_weather", "error")] * 3


# ---------------------------------------------------------------- how tools run


@pytest.mark.anyio
async def test_ex_012_progress_is_for_the_caller_and_the_last_value_is_the_result() -> None:
    async def count() -> AsyncIterator[Any]:
        yield {"counted": "one of three"}
        await anyio.lowlevel.checkpoint()
        yield {"counted": "two of three"}
        yield {"total": 3}

    model = FakeModel(answer("", ("count", {})), answer("Three."))
    run = loop(model, count)
    events = await collect_events(run)
    assert [event.value for event in events_of_type(ToolProgress, events)] == [
        {"counted": "one of three"},
        {"counted": "two of three"},
    ]
    assert [event.result.value for event in events_of_type(ToolCompleted, events)] == [{"total": 3}]
    assert json.loads(model.requests[1]["messages"][-1]["content"]) == {"total": 3}
    assert "of three" not in json.dumps(run.thread)
    assert "of three" not in "".join([content.model_dump_json() for content in run.contents])


def anthropic_response(*, end: list[Any]) -> list[Any]:
    """A stream in which call A is complete and B has half of its arguments; the test sends the rest."""

    def use(index: int, name: str) -> dict[str, Any]:
        return {"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": {}}

    half = {"type": "input_json_delta", "partial_json": '{"wh'}
    return [
        wire_streams.message_start(),
        *wire_streams.block(0, use(0, "look")),
        *wire_streams.block(1, use(1, "move"), half, stop=False),
        *end,
    ]


REST = [
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": 'at": "it"}'}},
    {"type": "content_block_stop", "index": 1},
    *wire_streams.message_end("tool_use"),
]
ANSWER = [
    wire_streams.message_start(),
    *wire_streams.block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Done."}),
    *wire_streams.message_end(),
]


class Early:
    """An eager tool that may be held back, and one that is not eager."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.began = anyio.Event()
        self.may_end = anyio.Event()

    def tools(self, *, eager: bool = True) -> list[Any]:
        @tool(eager=eager)
        async def look() -> str:
            self.log.append("look began")
            self.began.set()
            try:
                await self.may_end.wait()
            except anyio.get_cancelled_exc_class():
                self.log.append("look canceled")
                raise
            self.log.append("look ended")
            return "seen"

        async def move(what: str) -> str:
            self.log.append(f"move {what}")
            self.may_end.set()
            return "moved"

        return [look, move]


@pytest.mark.anyio
async def test_ex_013_an_eager_call_starts_while_the_next_one_streams_and_results_keep_call_order() -> None:
    early = Early()
    # B's last piece is not sent before A runs, and A does not end before B has run.
    model = FakeModel(anthropic_response(end=[early.began, *REST]), ANSWER)
    run = await loop(model, *early.tools(), provider="anthropic")
    assert early.log == ["look began", "move it", "look ended"]
    assert calls_with_status(run.contents) == [("look", "completed"), ("move", "completed")]
    result_ids = [part for message in run.thread for part in message["content"] if part["type"] == "tool_result"]
    assert [(part["tool_use_id"][-1:], part["content"]) for part in result_ids] == [
        (part["id"][-1:], expected)
        for part, expected in zip(
            [part for message in run.thread for part in message["content"] if part["type"] == "tool_use"],
            ["seen", "moved"],
            strict=True,
        )
    ]
    assert run.text == "Done."


@pytest.mark.anyio
async def test_ex_013_only_an_eager_tool_starts_before_the_turn_ends() -> None:
    early = Early()
    early.may_end.set()
    seen: list[str] = []
    model = FakeModel(anthropic_response(end=REST), ANSWER)
    async with loop(model, *early.tools(eager=False), provider="anthropic") as run:
        async for event in run:
            seen.append(event.type)
            if "round_finished" not in seen and event.type in ("tool_call_end", "finished"):
                assert early.log == []
    assert sorted(early.log) == ["look began", "look ended", "move it"]
    assert seen.index("finished") < seen.index("tool_running")


@pytest.mark.anyio
@pytest.mark.parametrize("done", [True, False], ids=["A had ended", "A still ran"])
@pytest.mark.parametrize("how", ["the stream fails", "the stream is cut", "the provider reports an error"])
async def test_ex_013_early_runs_are_canceled_or_discarded_if_the_turn_fails(how: str, done: bool) -> None:
    early = Early()
    if done:
        early.may_end.set()
    failure = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    ends: dict[str, list[Any]] = {
        "the stream fails": [ConnectionError("reset")],
        "the stream is cut": [],
        "the provider reports an error": [failure],
    }
    pieces = anthropic_response(end=[early.began, *ends[how]])
    if how == "the stream is cut":  # bytes, since only they show that their end is missing
        pieces = [
            piece if isinstance(piece, anyio.Event) else wire_streams.anthropic_bytes([piece]) for piece in pieces
        ]
    model = FakeModel(pieces)
    run = loop(model, *early.tools(), provider="anthropic")
    events: list[Event] = []
    async with run:
        with pytest.raises(StreamInterrupted):
            await append_to(events, run)
    assert early.log == ["look began", "look ended" if done else "look canceled"]
    assert events_of_type(ToolCompleted, events) == []
    canceled, *_ = events_of_type(ToolCanceled, events)
    assert canceled.result.metadata == {"effects_possible": True}
    assert canceled.result.value is None
    assert run.contents[0].metadata["interrupted"] is True
    assert run.ended == "error"
    assert [stream.closed for stream in model.streams] == [True]


@pytest.mark.anyio
async def test_ex_014_a_blocking_tool_runs_in_a_thread_and_the_event_loop_continues() -> None:
    home, threads = threading.get_ident(), list[int]()
    go = threading.Event()

    def block() -> str:
        threads.append(threading.get_ident())
        return "let go" if go.wait(PATIENCE) else "stuck"

    async def release() -> str:  # runs in the event loop, while the other blocks
        await anyio.lowlevel.checkpoint()
        go.set()
        return "released"

    model = FakeModel(answer("", ("block", {}), ("release", {})), answer("Done."))
    run = await loop(model, block, release)
    assert len(threads) == 1
    assert threads[0] != home
    assert [block.result for block in run.contents[1].blocks] == ["let go", "released"]


@pytest.mark.anyio
async def test_ex_014_a_thread_that_cannot_be_stopped_is_reported() -> None:
    go = threading.Event()
    running: list[threading.Thread] = []

    def block() -> None:
        running.append(threading.current_thread())
        go.wait(PATIENCE)

    try:
        run = loop(FakeModel(answer("", ("block", {})), answer("Too slow.")), block, timeouts=0.5)
        events = await collect_events(run)
        assert calls_with_status(run.contents) == [("block", "timed_out")]
        expected = "block did not finish within 0.5 seconds. Its thread cannot be stopped and may still finish."
        assert [event.result.error for event in events_of_type(ToolTimedOut, events)] == [expected]
        assert [event.code for event in events_of_type(Warned, events)] == ["tool_abandoned"]
        assert [warning.code for warning in run.warnings] == ["tool_abandoned"]
        assert running[0].is_alive()  # it was true
        assert (run.ended, run.text) == ("answered", "Too slow.")
    finally:
        go.set()
    with anyio.fail_after(PATIENCE):
        await anyio.to_thread.run_sync(running[0].join)  # it sets an event in the event loop when it has ended


class Body(httpx.AsyncByteStream):
    """An answer that never ends after its pieces."""

    def __init__(self, pieces: list[bytes], *, endless: bool) -> None:
        self.pieces = pieces
        self.endless = endless
        self.closed = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            await anyio.lowlevel.checkpoint()
            yield piece
        if self.endless:
            await anyio.sleep_forever()

    async def aclose(self) -> None:
        self.closed += 1


@pytest.mark.anyio
@pytest.mark.parametrize("at", ["text", "tool_running"])
async def test_ex_015_a_reader_who_stops_iterating_leaves_a_closed_response_and_no_task(at: str) -> None:
    ended: list[str] = []

    async def hang() -> None:
        """Wait for ever."""
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("hang")

    bodies: list[Body] = []
    responses: list[httpx.Response] = []

    def respond(request: httpx.Request) -> httpx.Response:
        pieces = as_bytes(answer("Now.", ("hang", {})))
        bodies.append(Body(pieces[:2] if at == "text" else pieces, endless=at == "text"))
        responses.append(httpx.Response(200, stream=bodies[-1]))
        return responses[-1]

    before = tasks_and_threads()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        async with httpx.AsyncClient(transport=httpx.MockTransport(respond)) as http:

            async def ask(context: RoundContext) -> Any:
                return http.stream("POST", "http://x/", json={"model": "m", **context.request})

            async with loop(ask, hang) as run:
                async for event in run:
                    if event.type == at:
                        break
            assert [body.closed for body in bodies] == [1]
            assert [response.is_closed for response in responses] == [True]
            assert ended == ([] if at == "text" else ["hang"])
            assert is_nothing_left(before)
        del event
        gc.collect()
        await anyio.lowlevel.checkpoint()
    assert [str(each.message) for each in warned] == []
    assert run.ended == "canceled"
    assert calls_with_status(run.contents) == ([] if at == "text" else [("hang", "canceled")])
