"""A worker process: it claims a run and runs it to its end, or kills itself at one of its checkpoints.

The run has four calls, of which c conflicts with a and d with b. A log gets a line for each request and each effect.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
from execution.chat_chunks import answer

from streamkit import Content, RoundContext, Run, Tool, ToolContext, run_loop
from streamkit.bridges.run_store import Claim, RunClaimed, RunStore
from streamkit.execution import Lease, ResultEntry, RunEntry

HISTORY = [Content.human("Go.")]


def write(log: str, line: str) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


def make_tools(log: str) -> list[Tool]:
    async def effect(context: ToolContext) -> str:
        write(log, f"effect {context.call.name} {context.id}")
        await anyio.sleep(0.002 if context.call.name == "a" else 0.001)  # so that d starts before c
        return f"{context.call.name} done"

    def make(name: str, **options: Any) -> Tool:
        return Tool(effect, name=name, description=name, **options)

    return [make("a"), make("b"), make("c", conflicts_with=["a"]), make("d", conflicts_with=["b"])]


def make_run(start: dict[str, Any], log: str, kill: tuple[str, int] | None) -> Run:
    """Return the run: a new one or one that is continued, with the checkpoint at which it is killed."""

    def ask(context: RoundContext) -> Any:
        write(log, f"request {context.round}")
        return answer("Done.") if context.round else answer("", ("a", {}), ("b", {}), ("c", {}), ("d", {}))

    append = start["checkpoint"]
    count = 0

    async def checkpoint(entry: RunEntry) -> Lease | None:
        nonlocal count
        number, count = count, count + 1
        if kill == ("before", number):
            os.kill(os.getpid(), signal.SIGKILL)
        if kill == ("suspended", number):
            os.kill(os.getpid(), signal.SIGSTOP)
        lease: Lease | None = await append(entry)
        if kill == ("after", number):
            os.kill(os.getpid(), signal.SIGKILL)
        return lease

    return run_loop(ask, provider="openai_chat", tools=make_tools(log), **{**start, "checkpoint": checkpoint})


def check(run: Run) -> None:
    """Check that the run has its answer, with each call's own result."""
    assert run.ended == "answered"
    assert [block.result for block in run.contents[1].blocks] == [f"{name} done" for name in "abcd"]  # type: ignore[union-attr]


async def work(claim: Claim, log: str, kill: tuple[str, int] | None) -> None:
    start: dict[str, Any] = {"history": HISTORY, "run_key": claim.run_key}
    if claim.state is not None:
        start = {"resume": claim.state}
    check(await make_run({**start, "checkpoint": claim.append}, log, kill))


def check_log(log: Path, stored: list[RunEntry], entries: list[RunEntry]) -> None:
    """Compare what happened with what was stored when the first worker was killed."""
    [names] = [{call.id: call.name for call in e.calls} for e in entries if e.type == "response" and e.calls]
    lines = [line.split() for line in log.read_text().splitlines()]
    effects = Counter(line[1] for line in lines if line[0] == "effect")
    requests = Counter(line[1] for line in lines if line[0] == "request")
    finished = {names[entry.result.call_id] for entry in stored if isinstance(entry, ResultEntry)}
    assert set(effects) == set("abcd")
    assert all(effects[name] == 1 for name in finished)
    assert all(count <= 2 for count in effects.values())
    keys = {(line[1], line[2]) for line in lines if line[0] == "effect"}
    assert keys == {(name, call_id) for call_id, name in names.items()}  # one idempotency key for each call
    for entry in stored:
        if entry.type == "response":
            assert requests[str(entry.round)] == 1
    results = [entry.result for entry in entries if isinstance(entry, ResultEntry)]
    assert {names[result.call_id]: result.value for result in results} == {name: f"{name} done" for name in "abcd"}
    assert len(results) == 4


async def run_once_claimed(address: str, run_key: str, log: str, seconds: float, kill: tuple[str, int] | None) -> None:
    async with RunStore(address) as store:
        while True:
            try:
                claim = await store.claim(run_key, seconds=seconds)
            except RunClaimed as claimed:
                await anyio.sleep(min(0.05, claimed.seconds))
                continue
            async with claim:
                await work(claim, log, kill)
            return


def main(address: str, run_key: str, log: str, seconds: float, kill: tuple[str, int] | None = None) -> None:
    """Run in a process of its own.

    Args:
        address: of the store.
        run_key: the run.
        log: the path of the log.
        seconds: of the claim.
        kill: at which checkpoint the process kills itself: ``before`` or ``after`` the entry, and its number;
            ``suspended``: it suspends itself before the entry.
    """
    anyio.run(run_once_claimed, address, run_key, log, seconds, kill)
