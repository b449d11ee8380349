"""Synchronous tools that do not stop: they are abandoned with a warning, and block nothing."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from execution.chat_chunks import answer, closed_turn
from shared_data import ROOT, TESTS

from streamkit import Content, ToolContext, execute_one_tool, execute_tool_calls_batched, run_loop, tool
from streamkit.events import ToolRunning, ToolTimedOut, Warned
from streamkit.execution.one_call.background import WorkerThread

pytestmark = pytest.mark.anyio


class StuckTools:
    """A tool that blocks until it is let go, and one that looks whether it should go on."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.started = threading.Event()
        self.stopped = threading.Event()

    @property
    def tools(self) -> list[Any]:
        def stuck() -> str:
            self.started.set()
            self.go.wait(30)
            self.stopped.set()
            return "late"

        def polite(context: ToolContext) -> str:
            self.started.set()
            while not context.canceled:
                time.sleep(0.002)
            self.stopped.set()
            return "stopped"

        return [stuck, polite]


@pytest.fixture
def stuck() -> Any:
    stuck_tools = StuckTools()
    yield stuck_tools
    stuck_tools.go.set()


async def test_a_blocking_tool_is_abandoned_with_a_warning_after_its_timeout(stuck: StuckTools) -> None:
    execution = execute_tool_calls_batched(closed_turn("", ("stuck", {})), tools=stuck.tools, timeouts=0.05)
    async with execution:
        events = [event async for event in execution]
    assert [event.type for event in events] == ["tool_running", "warned", "tool_timed_out"]
    assert isinstance(events[1], Warned)
    assert events[1].code == "tool_abandoned"
    assert "stuck" in events[1].message
    assert isinstance(events[2], ToolTimedOut)
    assert "may still finish" in (events[2].result.error or "")
    assert [warning.code for warning in execution.update.warnings] == ["tool_abandoned"]
    assert not stuck.stopped.is_set()


async def test_a_tool_that_stops_when_canceled_gives_no_warning(stuck: StuckTools) -> None:
    update = await execute_tool_calls_batched(closed_turn("", ("polite", {})), tools=stuck.tools, timeouts=0.05)
    assert update.results[0].status == "timed_out"
    assert update.results[0].error == "polite did not finish within 0.05 seconds."
    assert update.warnings == []
    assert stuck.stopped.is_set()


@pytest.mark.parametrize(("name", "codes"), [("stuck", ["tool_abandoned"]), ("polite", [])])
async def test_a_run_that_is_left_reports_the_abandoned_thread(stuck: StuckTools, name: str, codes: list[str]) -> None:
    run = run_loop(
        lambda context: answer("", (name, {})),
        provider="openai_chat",
        tools=stuck.tools,
        history=[Content.human("?")],
    )
    async with run:
        async for event in run:
            if isinstance(event, ToolRunning):
                break
        assert await anyio.to_thread.run_sync(stuck.started.wait, 10)
    assert run.ended == "canceled"
    assert [warning.code for warning in run.warnings] == codes
    assert [block.status for block in run.contents[1].blocks] == ["canceled"]  # type: ignore[union-attr]


async def test_execute_one_tool_reports_an_abandoned_thread_too(stuck: StuckTools) -> None:
    reported: list[Any] = []
    [call] = closed_turn("", ("stuck", {})).calls
    await execute_one_tool(call, tools=stuck.tools, timeout=0.02, report=reported.append)
    assert [event.type for event in reported] == ["tool_running", "warned", "tool_timed_out"]


async def test_later_reports_of_an_abandoned_tool_are_ignored(stuck: StuckTools) -> None:
    @tool(timeout=0.02)
    def late(context: ToolContext) -> str:
        stuck.go.wait(30)
        context.progress("too late")
        stuck.stopped.set()
        raise LookupError

    execution = execute_tool_calls_batched(closed_turn("", ("late", {})), tools=[late])
    async with execution:
        events = [event async for event in execution]
    stuck.go.set()
    assert await anyio.to_thread.run_sync(stuck.stopped.wait, 10)
    assert [event.type for event in events] == ["tool_running", "warned", "tool_timed_out"]


async def test_a_worker_thread_runs_the_function_without_the_event_loops_context() -> None:
    names: list[str] = []

    def function() -> int:
        names.append(threading.current_thread().name)
        return anyio.run(inner)  # an event loop of its own: there is none where it runs

    async def inner() -> int:
        await anyio.sleep(0)  # noqa: ASYNC115 - what a tool would write
        return 7

    thread = WorkerThread(function)
    assert not thread.alive
    assert await thread.result() == 7
    assert not thread.alive
    assert names == ["streamkit tool"]
    assert threading.current_thread().name == "MainThread"


async def test_the_exception_of_a_worker_thread_is_raised() -> None:
    def fails() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await WorkerThread(fails).result()


PROGRAM = """
import sys, time
import anyio
from execution.chat_chunks import closed_turn
from streamkit import execute_tool_calls_batched

def stuck() -> None:
    "Wait for a minute."
    time.sleep(60)

async def main():
    update = await execute_tool_calls_batched(closed_turn("", ("stuck", {})), tools=[stuck], timeouts=0.05)
    print(update.results[0].status, [warning.code for warning in update.warnings])

anyio.run(main, backend=sys.argv[1])
"""


async def test_a_tool_that_never_returns_does_not_keep_the_program_from_ending(
    tmp_path: Path, anyio_backend_name: str
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    ran = subprocess.run(  # noqa: ASYNC221 - the test waits for it
        [sys.executable, str(tmp_path / "program.py"), anyio_backend_name],
        capture_output=True, text=True, check=False, timeout=300,
        env={"PYTHONPATH": f"{TESTS}:{ROOT}", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert (ran.stdout.strip(), ran.stderr) == ("timed_out ['tool_abandoned']", "")
