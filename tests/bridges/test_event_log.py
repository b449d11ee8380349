"""The logs of runs: what readers get from any offset, what is kept, and runs that nobody watches."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from execution.chat_chunks import answer
from hypothesis import given
from hypothesis import strategies as st
from virtual_clock import on_a_virtual_clock

from streamkit import Content, RoundContext, Run, TextBlock, Tool, UsageError, events, run_loop
from streamkit.bridges.event_log import EventLog, FramesGone, LiveRuns, LogReader, UnknownRun, public_events

pytestmark = pytest.mark.anyio


async def read_all(log: EventLog, offset: int = 0) -> list[bytes]:
    return [data async for data in await log.follow(offset)]


def parse(data: bytes) -> list[dict[str, Any]]:
    """Return the events of an event stream, each with its id as a number."""
    found = []
    for block in data.decode().split("\n\n")[:-1]:
        if not block.startswith(":"):
            number, line = block.split("\n")
            found.append({"id": int(number.removeprefix("id: ")), **json.loads(line.removeprefix("data: "))})
    return found


# ---------------------------------------------------------------- one log


async def test_a_reader_gets_the_frames_from_any_offset_to_the_end() -> None:
    log = EventLog()
    assert await log.append(b"a", b"b") == 2
    assert await log.append(b"c", ended=True) == 3
    assert [b"".join(await read_all(log, offset)) for offset in range(4)] == [b"abc", b"bc", b"c", b""]
    assert [(await log.follow(offset)).is_at_end for offset in range(4)] == [False, False, False, True]


async def test_readers_get_each_frame_when_it_is_appended() -> None:
    log = EventLog()
    await log.append()
    readers = [await log.follow() for _ in range(3)]
    for frame in (b"one", b"two"):
        await log.append(frame)
        assert [await anext(reader) for reader in readers] == [frame] * 3
    async with anyio.create_task_group() as group:
        for reader in readers:
            group.start_soon(anext, reader, b"the end")
        await anyio.wait_all_tasks_blocked()
        await log.append(ended=True)
    assert all(reader.is_at_end for reader in readers)


async def test_a_log_that_had_ended_goes_on() -> None:
    log = EventLog()
    await log.append(b"question", ended=True)
    assert b"".join(await read_all(log)) == b"question"
    await log.append()
    assert not (await log.follow(1)).is_at_end
    await log.append(b"answer", ended=True)
    assert b"".join(await read_all(log, 1)) == b"answer"


async def test_what_was_never_appended_to_is_unknown() -> None:
    log = EventLog()
    with pytest.raises(UnknownRun):
        await log.follow()
    with pytest.raises(UnknownRun):
        await log.server_sent_events("3")


@pytest.mark.parametrize("offset", [4, 10**17])
async def test_an_offset_behind_the_next_frame_is_refused(offset: int) -> None:
    log = EventLog()
    await log.append(b"a", b"b", b"c")
    with pytest.raises(UsageError, match="its next frame has 3"):
        await log.follow(offset)


@pytest.mark.parametrize(
    "header", ["x", "-1", "+1", "1.0", " 1", "1 ", "\u0661", "0x1", "1_0", "9" * 5000, "\x00", "3", "99"]
)
async def test_a_last_event_id_that_the_log_has_not_written_is_refused(header: str) -> None:
    log = EventLog()
    await log.append(b"a", b"b", b"c", ended=True)
    with pytest.raises(UsageError):
        await log.server_sent_events(header)


async def test_server_sent_events_go_on_after_the_last_event_id() -> None:
    log = EventLog()
    await log.append(b'{"n":0}', b'{"n":1}', b'{"n":2}', ended=True)

    async def ids(header: str | None) -> list[int]:
        return [event["id"] for event in parse(b"".join([data async for data in await log.server_sent_events(header)]))]

    assert [await ids(header) for header in (None, "", "0", "00", "1", "2")] == [[0, 1, 2]] * 2 + [[1, 2]] * 2 + [
        [2],
        [],
    ]
    assert (await anext(await log.server_sent_events("1"))) == b'id: 2\ndata: {"n":2}\n\n'


@on_a_virtual_clock
async def test_a_comment_is_sent_every_15_seconds_of_silence() -> None:
    log, started = EventLog(), anyio.current_time()
    await log.append(b"a")
    reader, quiet = await log.server_sent_events(), await log.follow(idle=b"")
    assert (await anext(reader), await anext(quiet)) == (b"id: 0\ndata: a\n\n", b"a")
    assert [await anext(reader) for _ in range(3)] == [b":\n\n"] * 3
    assert anyio.current_time() - started == pytest.approx(45)

    async def end() -> None:
        await anyio.sleep(7)
        await log.append(b"b")
        await anyio.sleep(20)
        await log.append(ended=True)

    async with anyio.create_task_group() as group:
        group.start_soon(end)
        rest = [(data, anyio.current_time() - started) async for data in reader]
    assert [(data, round(at)) for data, at in rest] == [(b"id: 1\ndata: b\n\n", 52), (b":\n\n", 67)]
    assert [data async for data in quiet] == [b"b"]


# ---------------------------------------------------------------- what is kept


@pytest.mark.parametrize("bound", [{"max_frames": 10}, {"max_bytes": 10 * (64 + 100)}])
async def test_the_oldest_frames_are_dropped_beyond_the_bound(bound: dict[str, int]) -> None:
    log = EventLog(**bound)
    frames = [b"%03d" % number + b"x" * 97 for number in range(11)]
    await log.append(*frames[:10])
    slow = await log.follow()
    assert await log.read(0) == (frames[:10], False)
    await log.append(frames[10], ended=True)
    with pytest.raises(FramesGone) as caught:
        await log.follow(1)
    assert (caught.value.offset, caught.value.first) == (1, 2)
    assert b"".join(await read_all(log, 2)) == b"".join(frames[2:])
    with pytest.raises(FramesGone):
        await anext(slow)


async def test_a_reader_that_is_too_slow_is_told_so() -> None:
    log, left = EventLog(max_frames=2), []
    await log.append(b"a")
    reader = await log.follow(left=lambda: left.append(True))
    assert await anext(reader) == b"a"
    await log.append(b"b", b"c", b"d")
    with pytest.raises(FramesGone):
        await anext(reader)
    assert left == [True]


async def test_a_frame_above_the_bound_is_dropped_itself() -> None:
    log = EventLog(max_bytes=100)
    assert await log.append(b"x" * 101) == 1
    assert log.size == 0
    with pytest.raises(FramesGone):
        await log.follow()
    await log.append(b"y", ended=True)
    assert await read_all(log, 1) == [b"y"]


@given(
    steps=st.lists(
        st.lists(st.binary(min_size=1, max_size=30), max_size=5) | st.integers(0, 3) | st.none(), max_size=60
    ),
    max_frames=st.integers(1, 12),
    max_bytes=st.integers(1, 1000),
)
def test_readers_get_all_frames_in_order_or_an_error(steps: list[Any], max_frames: int, max_bytes: int) -> None:
    """A list is appended, a number is a reader that reads once, None ends the log."""

    async def check() -> None:
        log = EventLog(max_frames=max_frames, max_bytes=max_bytes)
        written: list[bytes] = []
        offsets = [await log.append()] * 4
        for step in steps:
            if isinstance(step, list):
                written += step
                assert await log.append(*step) == len(written)
                assert log.size <= max_bytes
            elif step is None:
                await log.append(ended=True)
            else:
                first = (len(written) - len(log._frames)) if offsets[step] < len(written) else 0
                if offsets[step] < first:
                    with pytest.raises(FramesGone) as caught:
                        await log.read(offsets[step])
                    assert (caught.value.offset, caught.value.first) == (offsets[step], first)
                    offsets[step] = first
                frames, _ = await log.read(offsets[step])
                assert frames == written[offsets[step] :][: len(frames)]
                assert bool(frames) == (offsets[step] < len(written))
                offsets[step] += len(frames)

    anyio.run(check)


# ---------------------------------------------------------------- many readers


async def test_a_thousand_readers_get_every_frame() -> None:
    log, text = EventLog(), b""
    await log.append()
    read: list[bytes] = []

    async def follow() -> None:
        read.append(b"".join(await read_all(log)))

    async with anyio.create_task_group() as group:
        for _ in range(1000):
            group.start_soon(follow)
        for number in range(6):
            await anyio.lowlevel.checkpoint()
            await log.append(b"%d," % number)
            text += b"%d," % number
        await log.append(ended=True)
    assert read == [text] * 1000


async def test_readers_with_much_to_read_keep_nobody_waiting() -> None:
    log = EventLog()
    await log.append(*[b"%d," % number for number in range(10_000)], ended=True)
    ended: list[int] = []

    async def follow(offset: int) -> None:
        await read_all(log, offset)
        ended.append(offset)

    async with anyio.create_task_group() as group:
        for number in range(1000):
            group.start_soon(follow, 0 if number < 10 else 9990)
    assert ended == [9990] * 990 + [0] * 10


async def test_a_reader_that_does_not_read_costs_the_writer_nothing() -> None:
    log = EventLog()
    await log.append()
    readers = [await log.follow() for _ in range(100)]
    for number in range(1000):
        await log.append(b"%d" % number)
    await log.append(ended=True)
    for reader in readers:
        assert (await anext(reader)).startswith(b"0123")


# ---------------------------------------------------------------- runs


def make_run(*responses: list[dict[str, Any]], **options: Any) -> tuple[Run, list[RoundContext]]:
    """Return a run of a model with these responses, and the contexts that it was requested with."""
    requests: list[RoundContext] = []

    async def ask(context: RoundContext) -> AsyncGenerator[dict[str, Any], None]:
        requests.append(context)
        for chunk in responses[len(requests) - 1]:
            yield chunk

    return run_loop(ask, provider="openai_chat", **{"history": [Content.human("Go.")], **options}), requests


class GatedModel:
    """A model that waits at a gate in the middle of its response, and remembers whether that was closed there."""

    def __init__(self) -> None:
        self.gate = anyio.Event()
        self.is_closed = False

    async def ask(self, context: RoundContext) -> AsyncGenerator[dict[str, Any], None]:
        begin, *rest = answer(f"Response {context.round}.")
        yield begin
        try:
            await self.gate.wait()
        except BaseException:
            self.is_closed = True
            raise
        for chunk in rest:
            yield chunk

    def run(self) -> Run:
        return run_loop(self.ask, provider="openai_chat", history=[Content.human("Go.")])


async def events_of(log: EventLog, header: str | None = None) -> list[dict[str, Any]]:
    return parse(b"".join([data async for data in await log.server_sent_events(header)]))


async def test_a_run_goes_on_when_its_reader_leaves() -> None:
    model = GatedModel()
    async with LiveRuns() as runs:
        log = await runs.start(model.run())
        reader = await log.server_sent_events()
        first = parse(await anext(reader))
        del reader
        model.gate.set()
        rest = await events_of(log, str(first[-1]["id"]))
        assert [event["id"] for event in [*first, *rest]] == list(range(len(first) + len(rest)))
        assert "".join(event["text"] for event in rest if event["type"] == "text") == "Response 0."
        assert (rest[-1]["type"], rest[-1]["ended"]) == ("run_ended", "answered")
        assert await events_of(log) == [*first, *rest]
    assert not model.is_closed


async def cancel_read(reader: LogReader) -> None:
    """Cancel a reader while it waits, as a web framework does when the client leaves."""
    async with anyio.create_task_group() as group:
        group.start_soon(anext, reader)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()


@pytest.mark.parametrize("way", ["cancelled", "dropped", "closed", "never read"])
async def test_a_run_ends_with_its_reader_if_the_application_says_so(way: str) -> None:
    model = GatedModel()
    async with LiveRuns() as runs:
        run = model.run()
        log = await runs.start(run)
        await anyio.wait_all_tasks_blocked()
        reader = await log.server_sent_events(left=run.cancel)
        if way != "never read":
            await anext(reader)
        if way == "cancelled":
            await cancel_read(reader)
        elif way == "closed":
            await reader.aclose()
        del reader
        last = (await events_of(log))[-1]
        assert (last["type"], last["ended"]) == ("run_ended", "canceled")
        assert model.is_closed


async def test_a_reader_that_has_read_everything_cancels_nothing() -> None:
    run, _ = make_run(answer("Done."))
    left: list[bool] = []
    async with LiveRuns() as runs:
        log = await runs.start(run)
        async for _ in await log.follow(left=lambda: left.append(True)):
            pass
    assert left == []


async def test_a_request_of_its_own_ends_a_run() -> None:
    model = GatedModel()
    async with LiveRuns() as runs:
        log = await runs.start(model.run())
        reader = await log.server_sent_events()
        data = await anext(reader)
        runs.run(model_key := next(iter(runs._runs))).cancel()
        data += b"".join([more async for more in reader])
        assert parse(data)[-1]["ended"] == "canceled"
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(UnknownRun):
            runs.run(model_key)
        assert parse(data) == await events_of(runs.log(model_key))


async def test_what_a_page_sends_is_in_the_next_request() -> None:
    model = GatedModel()
    async with LiveRuns() as runs:
        run = model.run()
        log = await runs.start(run)
        await anext(await log.follow())
        runs.run(run.run_key).send(Content.human("Only three."))
        model.gate.set()
        await events_of(log)
    assert run.rounds == 2
    texts = [block.text for content in run.contents for block in content.blocks if isinstance(block, TextBlock)]
    assert texts == ["Response 0.", "Only three.", "Response 1."]


async def test_a_failed_run_ends_its_log_with_the_error(caplog: pytest.LogCaptureFixture) -> None:
    run, _ = make_run([{"error": {"message": "Overloaded", "type": "server_error"}}])
    async with LiveRuns() as runs:
        last = (await events_of(await runs.start(run)))[-1]
    assert (last["ended"], last["error"]["message"]) == ("error", "the provider reported an error")
    assert caplog.records == []


async def test_an_exception_of_the_program_ends_the_log_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def ask(context: RoundContext) -> None:
        raise RuntimeError("at /srv/secret.py")

    run = run_loop(ask, provider="openai_chat", history=[Content.human("Go.")])
    async with LiveRuns() as runs:
        found = await events_of(await runs.start(run))
    assert (found[-1]["type"], found[-1]["ended"]) == ("run_ended", "error")
    assert "secret" not in json.dumps(found)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "/srv/secret.py" in caplog.text


async def test_the_events_are_those_for_people() -> None:
    def crash() -> None:
        """Crash."""
        raise RuntimeError("at /srv/secret.py")

    run, _ = make_run(answer("", ("crash", {})), answer("Sorry."), tools=[crash])
    async with LiveRuns() as runs:
        found = await events_of(await runs.start(run))
    [failed] = [event for event in found if event["type"] == "tool_error"]
    assert failed["result"]["error"] == "crash failed."
    assert "secret" not in json.dumps(found)


async def test_what_has_become_of_a_run_is_stored_before_a_page_reads_its_end() -> None:
    run, _ = make_run(answer("", ("pay", {})), tools=[Tool(lambda: "paid", name="pay", approval="ask")])
    stored: list[Any] = []
    read_by_then: list[int] = []

    async def frames() -> AsyncGenerator[bytes, None]:
        async with run:
            async for event in run:
                if event.type == "run_ended":
                    await anyio.lowlevel.checkpoint()
                    stored.append(run.state)
                yield b"" if event.type == "round_started" else events.to_json(event)
        yield b"the last"

    async with LiveRuns() as runs:
        log = await runs.start(run, frames())
        async for data in await log.follow():
            read_by_then += [len(stored)] * (b"run_ended" in data)
        written, _ = await log.read(0)
        assert written[-1] == b"the last"
        assert b"" not in written
    assert read_by_then == [1]
    assert len(stored[0].pending) == 1


async def test_a_resumed_run_goes_on_in_its_log() -> None:
    tools = [Tool(lambda: "paid", name="pay", approval="ask")]
    run, _ = make_run(answer("", ("pay", {})), tools=tools)
    async with LiveRuns() as runs:
        before = await events_of(await runs.start(run))
        assert before[-1]["ended"] == "awaiting_approval"
        state = run.state
        assert state is not None
        resumed, _ = make_run(
            answer("Paid."), tools=tools, history=None, resume=state.answer(approvals={state.pending[0]: True})
        )
        log = await runs.start(resumed)
        assert log.start == len(before)
        own = parse(b"".join([data async for data in await log.server_sent_events(offset=log.start)]))
        assert [event["type"] for event in own if event["type"].startswith("tool_")] == [
            "tool_running",
            "tool_completed",
        ]
        assert await events_of(log, str(before[-1]["id"])) == own
        assert await events_of(runs.log(run.run_key)) == [*before, *own]


async def test_a_page_may_answer_as_soon_as_it_has_read_the_last_event() -> None:
    tools, tidied = [Tool(lambda: "paid", name="pay", approval="ask")], anyio.Event()
    run, _ = make_run(answer("", ("pay", {})), tools=tools)

    async def frames() -> AsyncGenerator[bytes, None]:
        async for line in public_events(run):
            yield line
        await tidied.wait()

    async with LiveRuns() as runs:
        reader = await (await runs.start(run, frames())).server_sent_events()
        data = b""
        while b"run_ended" not in data:
            data += await anext(reader)
        state = run.state
        assert state is not None
        resumed, _ = make_run(
            answer("Paid."), tools=tools, history=None, resume=state.answer(approvals={state.pending[0]: True})
        )
        logs: list[EventLog] = []

        async def start() -> None:
            logs.append(await runs.start(resumed))

        async with anyio.create_task_group() as group:
            group.start_soon(start)
            await anyio.wait_all_tasks_blocked()
            assert logs == []
            tidied.set()
        assert (await events_of(logs[0]))[-1]["ended"] == "answered"
        assert logs[0].start == len(parse(data))


async def test_a_run_that_works_is_not_started_again() -> None:
    model = GatedModel()
    async with LiveRuns() as runs:
        run = model.run()
        log = await runs.start(run)
        other = run_loop(model.ask, provider="openai_chat", history=[Content.human("Go.")], run_key=run.run_key)
        with pytest.raises(UsageError, match="works already"):
            await runs.start(other)
        other.cancel()
        await other
        model.gate.set()
        assert (await events_of(log))[-1]["ended"] == "answered"


async def test_leaving_cancels_the_runs_and_waits_for_their_ends() -> None:
    models = [GatedModel(), GatedModel()]
    async with LiveRuns() as runs:
        logs = [await runs.start(model.run()) for model in models]
        await anyio.wait_all_tasks_blocked()
    assert all(model.is_closed for model in models)
    assert [(await events_of(log))[-1]["ended"] for log in logs] == ["canceled"] * 2


async def test_logs_of_runs_that_ended_are_forgotten_in_the_order_of_their_ends() -> None:
    async with LiveRuns(max_ended_bytes=6000) as runs:
        keys = []
        for _ in range(6):
            run, _ = make_run(answer("x" * 1000))
            await events_of(await runs.start(run))
            keys.append(run.run_key)
            await anyio.wait_all_tasks_blocked()
        known = []
        for key in keys:
            try:
                known.append(bool(await events_of(runs.log(key))))
            except UnknownRun:
                known.append(False)
        assert known == sorted(known)
        assert known[0] is False
        assert known[-1] is True


async def test_requests_for_unknown_runs_push_nothing_out() -> None:
    async with LiveRuns(max_ended_bytes=6000) as runs:
        run, _ = make_run(answer("Done."))
        await events_of(await runs.start(run))
        for number in range(1000):
            with pytest.raises(UnknownRun):
                await runs.log(str(number)).follow()
        assert (await events_of(runs.log(run.run_key)))[-1]["ended"] == "answered"
        assert len(runs._logs) == 1


# ---------------------------------------------------------------- logs of another place


class SlowLog(EventLog):
    """A log each of whose appends takes a second, or fails."""

    def __init__(self, failing_at: int | None = None) -> None:
        super().__init__()
        self.appends: list[int] = []
        self._failing_at = failing_at

    async def append(self, *frames: bytes, ended: bool = False) -> int:
        await anyio.sleep(1)
        if self._failing_at is not None and len(self.appends) >= self._failing_at:
            raise OSError("the disk is full")
        self.appends.append(len(frames))
        return await super().append(*frames, ended=ended)


@on_a_virtual_clock
async def test_frames_that_come_while_the_log_is_busy_are_appended_at_once() -> None:
    chunks = answer("")
    text = [{**chunks[0], "choices": [{"index": 0, "delta": {"content": str(number)}}]} for number in range(2000)]
    run, _ = make_run([*text, *answer("end")])
    slow = SlowLog()
    async with LiveRuns(lambda run_key: slow) as runs:
        log = await runs.start(run)
        found = await events_of(log)
    assert sum(event["type"] == "text" for event in found) == 2001
    assert len(slow.appends) < 20


@on_a_virtual_clock
async def test_a_log_that_cannot_be_written_ends_its_run(caplog: pytest.LogCaptureFixture) -> None:
    model = GatedModel()
    async with LiveRuns(lambda run_key: SlowLog(failing_at=1)) as runs:
        run = model.run()
        await runs.start(run)
        await anyio.sleep(60)
        with pytest.raises(UnknownRun):
            runs.run(run.run_key)
    assert run.ended == "canceled"
    assert model.is_closed
    assert [record.message for record in caplog.records] == [
        f"the log of the run {run.run_key!r} could not be written",
        f"the log of the run {run.run_key!r} lacks its end",
    ]


async def test_public_events_are_a_generator_to_build_on() -> None:
    run, _ = make_run(answer("Done."))
    lines = [json.loads(line) async for line in public_events(run)]
    assert lines[-1]["type"] == "run_ended"
