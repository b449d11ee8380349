"""Workers of durable runs that are killed and suspended at random, and a database that is restarted: what is repeated.

``python -m tests.execution.kill_runs`` runs the whole: 400 kills over SQLite and PostgreSQL, with two and four workers,
and 20 restarts of PostgreSQL. It prints what must not happen, all of which must be 0, and what may happen, which is
counted. ``--kills 20`` is a short form, ``--seed`` repeats the choices.

Each run has three rounds: calls with effects (one of ``once``, two that conflict, one that has its effect late and
shows its fence to a resource that checks it), a call with a run inside, and the answer. Workers write a line into one
log for each request, effect and stored entry, with the time of the machine's clock.
"""

from __future__ import annotations

import argparse
import fcntl
import logging
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
if str(ROOT / "tests") not in sys.path:
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import anyio  # noqa: E402 - the path must be set before
import anyio.to_thread  # noqa: E402
from bridges.postgres import PostgresServer, postgres_server  # noqa: E402
from execution.chat_chunks import answer  # noqa: E402

from streamkit import Content, RoundContext, RunState, Tool, ToolContext, run_loop  # noqa: E402
from streamkit.bridges.run_store import ClaimLost, RunClaimed, RunStore  # noqa: E402
from streamkit.execution import Lease, NestedEntry, ResponseEntry, ResultEntry, RunEntry  # noqa: E402

LEASE = 1.0  # seconds of a claim
WINDOW = 6  # unfinished runs that the workers choose from
CALLS = ("pay", "first", "second", "late")

# ---------------------------------------------------------------- the workers


class Folder:
    """The files that the workers of a campaign share.

    Args:
        path: the folder.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.log = self.path / "log"

    def write(self, *words: object) -> None:
        """Append a line with the time, in one call of the system."""
        descriptor = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, f"{time.monotonic_ns()} {' '.join(map(str, words))}\n".encode())
        os.close(descriptor)

    def accepts(self, run_key: str, fence: int) -> bool:
        """Return True, as a resource that remembers fences, unless it has seen a higher one."""
        with (self.path / f"fence-{run_key}").open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            highest = int(file.read() or 0)
            if fence > highest:
                file.truncate(0)
                file.write(str(fence))
        return fence >= highest

    def finish(self, number: int) -> None:
        (self.path / f"done-{number}").touch()

    def next_runs(self) -> list[int] | None:
        """Return the first runs that are not finished; None when all are that may be started."""
        last = int(text) if (text := self._read("last")) else None
        found: list[int] = []
        number = 0
        while len(found) < WINDOW and (last is None or number < last):
            if not (self.path / f"done-{number}").exists():
                found.append(number)
            number += 1
        return found or None

    def _read(self, name: str) -> str:
        with suppress(FileNotFoundError):
            return (self.path / name).read_text()
        return ""


def make_tools(folder: Folder, run_key: str) -> list[Tool]:
    async def effect(context: ToolContext) -> str:
        folder.write("effect", context.call.name, context.id, context.attempt, context.fence)
        await anyio.sleep(random.uniform(0, 0.03))
        return f"{context.call.name} done"

    async def late(context: ToolContext) -> str:
        await anyio.sleep(random.uniform(0, 0.03))
        assert context.fence is not None
        if folder.accepts(run_key, context.fence):
            folder.write("effect", "late", context.id, context.attempt, context.fence)
        return "late done"

    async def inside(context: ToolContext) -> str:
        def ask(inner: RoundContext) -> Any:
            folder.write("request", context.id, inner.round)
            return answer("Inside done.") if inner.round else answer("", ("first", {}), ("pay", {}))

        tools = [Tool(effect, name="first", description="f"), Tool(effect, name="pay", description="p", once=True)]
        run = await run_loop(ask, provider="openai_chat", tools=tools, history=[Content.human("Go.")])
        return run.text

    return [
        Tool(effect, name="pay", description="p", once=True),
        Tool(effect, name="first", description="f"),
        Tool(effect, name="second", description="s", conflicts_with=["first"]),
        Tool(late, name="late", description="l"),
        Tool(inside, name="inside", description="i"),
    ]


async def make_run(store: RunStore, folder: Folder, number: int) -> None:
    """Claim a run, and run it to its end."""
    run_key = f"run-{number}"

    def ask(context: RoundContext) -> Any:
        folder.write("request", run_key, context.round)
        if context.round == 0:
            return answer("", *[(name, {}) for name in CALLS])
        return answer("", ("inside", {}), ("first", {})) if context.round == 1 else answer("Done.")

    async with await store.claim(run_key, seconds=LEASE) as claim:

        async def checkpoint(entry: RunEntry) -> Lease:
            lease = await claim.append(entry)
            stored = entry.entry if isinstance(entry, NestedEntry) else entry
            if isinstance(stored, ResponseEntry):
                folder.write("response", stored.run_key, stored.round)
            elif isinstance(stored, ResultEntry):
                folder.write("result", stored.result.call_id)
            return lease

        start: dict[str, Any] = {"resume": claim.state}
        if claim.state is None:
            start = {"history": [Content.human("Go.")], "provider": "openai_chat", "run_key": run_key}
        run = await run_loop(ask, tools=make_tools(folder, run_key), checkpoint=checkpoint, **start)
        assert (run.ended, run.text) == ("answered", "Done."), (run.ended, run.text)
        folder.finish(number)


async def work(address: str, path: str) -> None:
    folder = Folder(path)
    async with RunStore(address, connections=2) as store:
        while (numbers := folder.next_runs()) is not None:
            number = random.choice(numbers)
            try:
                await make_run(store, folder, number)
            except RunClaimed:
                await anyio.sleep(random.uniform(0, 0.05))
            except ClaimLost as error:
                folder.write("lost" if error.__cause__ is None else "away", number)
            except store.failures:
                folder.write("away", number)
            except Exception as error:
                folder.write("failed", number, repr(error)[:500].replace("\n", " "))
                raise


def worker(address: str, path: str, event_loop: str) -> None:
    """Run in a process of its own."""
    logging.disable()  # of what is meant to fail here
    anyio.run(work, address, path, backend=event_loop)


# ---------------------------------------------------------------- killing them


@dataclass
class Found:
    """What has happened in a campaign, or in several.

    Attributes:
        must_be_zero: what must not happen, by its name.
        counted: what may happen.
    """

    must_be_zero: Counter[str] = field(default_factory=Counter)
    counted: Counter[str] = field(default_factory=Counter)

    def add(self, other: Found) -> None:
        self.must_be_zero.update(other.must_be_zero)
        self.counted.update(other.counted)


NEVER = (
    "runs stuck",
    "results lost",
    "requests repeated after their response was stored",
    "effects after a recorded result",
    "effects of once tools twice",
    "workers that failed",
)


class Campaign:
    """Workers on one database.

    Args:
        address: of the database.
        server: of PostgreSQL, to be restarted; None for SQLite.
        workers: how many.
        kills: how many of them are killed or suspended.
        restarts: of the server.
        choices: the random choices.
    """

    def __init__(
        self,
        address: str,
        server: PostgresServer | None,
        workers: int,
        kills: int,
        restarts: int,
        choices: random.Random,
    ) -> None:
        self.address, self.server, self.count = address, server, workers
        self.kills, self.restarts, self.choices = kills, restarts, choices
        self.folder = Folder(tempfile.mkdtemp(prefix="streamkit-kills-"))
        self.found = Found()
        self.workers: list[ForkServerProcess] = []
        self.suspended: set[int | None] = set()
        self._started = 0

    def start(self, processes: ForkServerContext) -> None:
        self._started += 1
        event_loop = ("asyncio", "trio")[self._started % 2]
        process = processes.Process(target=worker, args=(self.address, str(self.folder.path), event_loop))
        process.start()
        self.workers.append(process)

    async def run(self, processes: ForkServerContext) -> Found:
        for _ in range(self.count):
            self.start(processes)
        while not self.folder.log.exists():  # noqa: ASYNC110 - another process writes it
            await anyio.sleep(0.05)
        restart_at = {round((number + 0.5) * self.kills / (self.restarts or 1)) for number in range(self.restarts or 1)}
        async with anyio.create_task_group() as tasks:
            number = 0
            while number < self.kills:
                await anyio.sleep(self.choices.uniform(0.02, 0.4))
                self._replace_failed(processes)
                running = [each for each in self.workers if each.pid not in self.suspended]
                if running:
                    number += 1
                    victim = self.choices.choice(running)
                    if self.choices.random() < 0.5:
                        self.found.counted["killed"] += 1
                        victim.kill()
                        await anyio.to_thread.run_sync(victim.join)
                        self.workers.remove(victim)
                        self.start(processes)
                    else:
                        self.found.counted["suspended"] += 1
                        tasks.start_soon(self._suspend, victim, LEASE + self.choices.uniform(0.05, 1.0))
                if number in restart_at and self.server is not None:
                    restart_at.discard(number)
                    self.found.counted["restarts"] += 1
                    await anyio.to_thread.run_sync(self.server.stop)
                    await anyio.sleep(self.choices.uniform(0, 0.3))
                    await anyio.to_thread.run_sync(self.server.start)
        (self.folder.path / "last").write_text(str(max(self._begun()) + 1))
        deadline = time.monotonic() + 60
        while self.workers and time.monotonic() < deadline:
            self._replace_failed(processes)
            await anyio.sleep(0.1)
        for process in self.workers:
            process.kill()
        await self._check(self._begun())
        return self.found

    def _replace_failed(self, processes: ForkServerContext) -> None:
        for process in [each for each in self.workers if each.exitcode is not None]:
            self.workers.remove(process)
            if process.exitcode != 0:
                self.found.must_be_zero["workers that failed"] += 1
                self.start(processes)

    async def _suspend(self, victim: ForkServerProcess, seconds: float) -> None:
        assert victim.pid is not None
        self.suspended.add(victim.pid)
        os.kill(victim.pid, signal.SIGSTOP)
        await anyio.sleep(seconds)
        os.kill(victim.pid, signal.SIGCONT)
        self.suspended.discard(victim.pid)

    def _begun(self) -> set[int]:
        return {int(words[2].removeprefix("run-")) for words in self._lines() if words[2].startswith("run-")}

    def _lines(self) -> list[list[str]]:
        return sorted(
            (line.split() for line in self.folder.log.read_text().splitlines()), key=lambda words: int(words[0])
        )

    async def _check(self, runs: set[int]) -> None:
        never, counted = self.found.must_be_zero, self.found.counted
        counted["runs"] += len(runs)
        done: set[tuple[str, ...]] = set()
        effects: Counter[tuple[str, str]] = Counter()
        shown: set[str] = set()
        for _, kind, *words in self._lines():
            if kind == "request":
                never["requests repeated after their response was stored"] += ("response", *words) in done
                counted["requests"] += 1
            elif kind == "response":
                done.add((kind, *words))
            elif kind == "result":
                done.add((kind, words[0]))
                shown.add(words[0])
            elif kind == "effect":
                name, call_id = words[:2]
                never["effects after a recorded result"] += ("result", call_id) in done
                effects[name, call_id] += 1
            elif kind == "failed":
                print(" ".join([kind, *words]), file=sys.stderr)
            else:
                counted[{"lost": "runs left to another worker", "away": "runs left by a missing database"}[kind]] += 1
        for (name, _), count in effects.items():
            counted["effects"] += count
            kind = "effects of once tools twice" if name == "pay" else "other effects repeated"
            (never if name == "pay" else counted)[kind] += count - 1
        async with RunStore(self.address) as store:
            for number in runs:
                entries = await store.entries(f"run-{number}")
                state = RunState.from_entries(entries)
                if state.outcome != "answered":
                    never["runs stuck"] += 1
                results = [entry.entry if isinstance(entry, NestedEntry) else entry for entry in entries]
                stored = [entry.result.call_id for entry in results if isinstance(entry, ResultEntry)]
                # six calls of the run and two of the one inside, each with one result
                if len(set(stored)) != 8 or len(stored) != 8:
                    never["results lost"] += 1
                    self._show(number, [f"entry {position}: {entry!r}" for position, entry in enumerate(entries)])
                counted["calls with an unknown outcome"] += sum(
                    entry.result.status == "error" for entry in results if isinstance(entry, ResultEntry)
                )
                shown.difference_update(stored)
        if shown:
            never["results lost"] += len(shown)
            print(f"results that were stored and are gone: {sorted(shown)}", file=sys.stderr)

    def _show(self, number: int, entries: list[str]) -> None:
        """Print what a run left behind."""
        run_key = f"run-{number}"
        log = [" ".join(words) for words in self._lines()]
        print(f"{run_key}, in {self.folder.path}", *entries, *log, sep="\n", file=sys.stderr)


def make_processes() -> ForkServerContext:
    """Return what starts processes that have imported everything."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["execution.kill_runs"])
    os.environ["PYTHONPATH"] = f"{ROOT}:{ROOT / 'tests'}"  # of the server, when it is started
    forkserver.ensure_running()
    return context


async def run_campaigns(kills: int, restarts: int, seed: int, report: Callable[[str], Any] = print) -> Found:
    """Run campaigns on both databases with two and four workers; return what has happened.

    Args:
        kills: in all.
        restarts: of PostgreSQL, in all.
        seed: of the random choices.
        report: called with a line for each campaign.
    """
    choices = random.Random(seed)
    processes, total = make_processes(), Found(Counter(dict.fromkeys(NEVER, 0)))
    with ExitStack() as stack:
        server = stack.enter_context(postgres_server())
        for name, workers in (("SQLite", 2), ("SQLite", 4), ("PostgreSQL", 2), ("PostgreSQL", 4)):
            is_postgres = name == "PostgreSQL"
            path = tempfile.mkdtemp(prefix="streamkit-kills-")
            if is_postgres:
                await recreate_tables(server.address)
            campaign = Campaign(
                server.address if is_postgres else f"{path}/runs.db",
                server if is_postgres else None,
                workers,
                kills // 4,
                restarts // 2 if is_postgres else 0,
                choices,
            )
            found = await campaign.run(processes)
            report(f"{name}, {workers} workers: {dict(found.must_be_zero)} {dict(found.counted)}")
            total.add(found)
    return total


async def recreate_tables(address: str) -> None:
    async with RunStore(address) as store:

        def drop(execute: Callable[..., Any]) -> None:
            for table in ("entries", "claims", "mail"):
                execute(f"DELETE FROM streamkit_{table}", ())

        await anyio.to_thread.run_sync(store._database.transact, drop)


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--kills", type=int, default=400)
    parser.add_argument("--restarts", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    options = parser.parse_args()
    print(f"seed {options.seed}")
    total = anyio.run(run_campaigns, options.kills, options.restarts, options.seed)
    print("\nmust be 0:")
    for name, count in total.must_be_zero.items():
        print(f"  {count:6} {name}")
    print("counted:")
    for name, count in total.counted.items():
        print(f"  {count:6} {name}")
    return int(any(total.must_be_zero.values()))


if __name__ == "__main__":
    from execution import kill_runs  # so that the processes find its functions by that name

    sys.exit(kill_runs.main())
