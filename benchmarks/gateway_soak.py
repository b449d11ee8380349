"""Requests through the gateway with faults, over loopback HTTP: nothing is lost, wrong or open, and memory is flat.

    python -m benchmarks.gateway_soak [MINUTES] [--seed N] [--clients N]
    python -m benchmarks.gateway_soak [MINUTES] --processes N [--store redis]
    python -m benchmarks.gateway_soak --streams 2000

Without options the gateway is an application in this process, whose objects, tasks and connections are counted. With
``--processes`` it is the command with so many workers, a file of keys, metrics and a store that the workers share
(SQLite, or a Redis that is started for it); one worker is killed after half of the time. With ``--streams`` it is the
command with one process, and so many streams are open at once.

Each plan is made from a seed (``gateway_plans``):

- a request with a fault of the first of two upstreams (rejected, overloaded, broken, an error within the stream), or of
  the client, which leaves before the first byte or in the middle;
- a request with no key, a wrong one, or for a model that its key may not ask or that does not exist;
- a conversation of two or three rounds with signed reasoning, which its client sends back, drops, or refers to by
  ``previous_response_id``; in the end the owner of another key sends its last request;
- requests to upstreams that cool down, with a stated time, a growing one, a hung upstream, or both upstreams;
- a hostile request: one damaged as by ``tests/fuzz``, a path of 60 kB, JSON nested 10,000 levels deep, forged state,
  gzip that inflates to 60 MB, half a head or half a body.

Checked are (``gateway_checks``):

- lost: a response whose text, calls or finish are not those of the script; state that its upstream does not get back;
- wrong: a response with a fault that is not its beginning and an error; a request that reaches an upstream that it must
  not reach, one that cools down included, or not the one that it must; state that the owner of another key finds;
- open: a request to an upstream, or a request or task of the gateway, that runs on after its client has left;
- failed: a hostile request to which the gateway answers that it has failed, or does not answer;
- memory, between the first and the last third of the time, at moments without a request: the objects that the garbage
  collector tracks, at most 2% more; of processes that have run for a while the resident set, at most 10% more (what is
  bounded fills up in minutes: metrics of 100 models, 1,000 cooldowns, the pages of the store).

Only requests that were open when their worker was killed may fail; they are sent again. The exit code is 1 if there was
any problem.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from benchmarks.gateway import BODY, DIRECT, HEAD, Client, frames
from benchmarks.gateway_checks import Soak
from benchmarks.gateway_plans import FIRST_EVENT, KEYS, damaged_requests, make_plan, upstreams
from benchmarks.minimal_proxy import read_request
from streamkit.calls import StreamError
from streamkit.gateway import Cooldowns, Gateway, GatewayLimits, Upstream, hash_key
from streamkit.gateway.routing import Candidate
from streamkit.testing import Server, serve

GROWTH = 1.02  # of objects
RESIDENT_GROWTH = 1.10
PERIODS = 9  # moments without a request
WAVES = 4  # of many streams, one after the other
WORDS = 40  # of each of many streams
#: The path, the body and the end of the streams of clients over an upstream of Anthropic.
STREAMS = (
    ("/v1/chat/completions", BODY, b"data: [DONE]"),
    ("/v1/messages", DIRECT, b"event: message_stop"),
    ("/v1/responses", b'{"model": "m", "stream": true, "input": "hi"}', b"event: response.completed"),
)
_PATIENCE = 30.0  # seconds


def open_client(connections: int) -> httpx.AsyncClient:
    """Return a client that keeps so many connections.

    As many wait in its pool on a slow machine as on a fast one: their objects are no leak. They wait shorter than at
    the servers, so that none is closed while a request is on its way.
    """
    limits = httpx.Limits(max_keepalive_connections=connections, keepalive_expiry=2)
    return httpx.AsyncClient(timeout=httpx.Timeout(60.0, pool=None), limits=limits)


async def drive(
    soak: Soak, minutes: float, clients: int, rest: Callable[[], Awaitable[None]], kinds: tuple[str, ...] = ("",)
) -> None:
    """Run plans until the time has passed; *rest* is called at moments without any."""
    async with open_client(clients) as soak.http:
        damaged_requests()  # which takes seconds
        plans = (plan for number in count() if (plan := make_plan(number, soak.seed)).kind.startswith(kinds))
        began, done, period = time.monotonic(), 0, 1
        while not done or time.monotonic() < began + 60 * minutes:
            rests_at = began + 60 * minutes * period / PERIODS

            async def work(rests_at: float = rests_at) -> None:
                nonlocal done
                while time.monotonic() < rests_at:
                    await soak.run(next(plans))
                    done += 1

            await asyncio.gather(*(work() for _ in range(clients)))
            period += 1
            await soak.check_left()
            await rest()
            if sys.stdout.isatty():
                print(f"\r{done} plans, {len(soak.problems)} problems", end="", flush=True)
    print(f"\n{done} plans: " + ", ".join(f"{name} {count}" for name, count in sorted(soak.counts.items())))


def check_growth(soak: Soak, name: str, values: list[int], most: float) -> None:
    """Compare a figure between the first and the last third of the time."""
    third = max(1, len(values) // 3)
    before, after = statistics.median(values[:third]), statistics.median(values[-third:])
    print(f"{name}: {before:,.0f} in the first third of the time, {after:,.0f} in the last")
    if after > before * most:
        soak.problems.append(f"leak: {name} grew from {before:.0f} to {after:.0f}")


def write_keys(folder: Path) -> Path:
    """Write the file of the clients' keys."""
    path = folder / "keys.toml"
    tables = []
    for name, (key, models) in KEYS.items():
        rest = "metrics = true" if models is None else f"models = {json.dumps(models)}"
        tables.append(f'[[key]]\nname = "{name}"\nhash = "{hash_key(key)}"\n{rest}\n')
    path.write_text("\n".join(tables))
    return path


# ---------------------------------------------------------------- one process


async def run_in_process(minutes: float, seed: int, clients: int, kinds: tuple[str, ...] = ("",)) -> Soak:
    """Run with a gateway in this process; only plans whose kinds have such a beginning."""
    soak = Soak(seed)
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # what is no HTTP is hostile here
    objects: list[int] = []
    async with AsyncExitStack() as stack:
        server = stack.enter_context(serve(soak.reply))
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        upstream_http = await stack.enter_async_context(open_client(clients))
        gateway = _gateway(upstream_http, server, write_keys(Path(folder)))
        options: dict[str, Any] = {"lifespan": "off", "ws": "none", "log_config": None, "access_log": False}
        config = uvicorn.Config(gateway, port=0, timeout_keep_alive=60, **options)
        serving = uvicorn.Server(config)
        task = asyncio.create_task(serving.serve())
        while not serving.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.01)
        soak.url = "http://{}:{}".format(*serving.servers[0].sockets[0].getsockname()[:2])
        allowed_tasks = len(asyncio.all_tasks())

        async def rest() -> None:
            for _ in range(100):
                await asyncio.sleep(0.02)
                busy = len(gateway._state.open_requests)
                tasks = len(asyncio.all_tasks()) - allowed_tasks
                if not busy and tasks <= 0:
                    break
            else:
                soak.problems.append(f"open: {busy} requests and {tasks} tasks remain")
            server.requests.clear()
            gc.collect()
            objects.append(len(gc.get_objects()))

        await drive(soak, minutes, clients, rest, kinds)
        serving.should_exit = True
        await task
    check_growth(soak, "objects", objects, GROWTH)
    return soak


def _gateway(http: httpx.AsyncClient, server: Server, keys: Path) -> Gateway:
    """Return a gateway whose bounded memory is full at the start: what remains is a leak."""

    def upstream(name: str, base: str, models: dict[str, str], has_limit: bool) -> Upstream:
        return Upstream(
            provider=name,
            ask=lambda request: http.stream("POST", base + request.path, headers=request.headers, json=request.body),
            endpoint=base,
            models=models,
            first_event_timeout=FIRST_EVENT if has_limit else None,
        )

    cooldowns, found = Cooldowns(), [upstream(*each) for each in upstreams(server)]
    for number in range(1000):
        error = StreamError("provider_error", "slow down", code="rate_limited", status=429)
        cooldowns.fail(Candidate(1, found[0], f"before-{number}"), error, is_probe=False)
    state_key = "a key of sixteen bytes"
    return Gateway(*found, keys=keys, state_key=state_key, limits=GatewayLimits(stored=2_000_000), cooldowns=cooldowns)


# ---------------------------------------------------------------- several processes


async def run_processes(minutes: float, seed: int, clients: int, processes: int, store: str) -> Soak:
    """Run with the command and so many workers; one is killed after half of the time."""
    soak = Soak(seed, processes)
    resident: dict[int, list[int]] = {}
    async with AsyncExitStack() as stack:
        server = stack.enter_context(serve(soak.reply))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        address = stack.enter_context(_redis(folder)) if store == "redis" else str(folder / "gateway.db")
        config = folder / "gateway.toml"
        config.write_text("\n".join(_tables(server)))
        options = ["--config", str(config), "--keys", str(write_keys(folder)), "--metrics", "--store", address]
        command = stack.enter_context(_command(soak, folder, *options, "--workers", str(processes)))

        async def rest() -> None:
            await _check_open_requests(soak)
            server.requests.clear()
            for worker in _workers(command):
                resident.setdefault(worker, []).append(_resident(worker))

        if processes > 1:
            asyncio.get_running_loop().call_later(30 * minutes, _kill_worker, soak, command)
        await drive(soak, minutes, clients, rest)
    periods = max(map(len, resident.values()))
    most = max(values[-1] for values in resident.values() if len(values) == periods)
    for worker, values in resident.items():
        name = f"resident bytes of worker {worker}"
        if len(values) == periods:
            check_growth(soak, f"{name} when warm", values[periods // 3 :], RESIDENT_GROWTH)
        else:  # the one that was killed, and the one in its place, which has not run for as long as another one
            check_growth(soak, f"{name} beside {most:,}", [most, *values], RESIDENT_GROWTH)
    return soak


def _tables(server: Server) -> Iterator[str]:
    for name, base, models, has_limit in upstreams(server):
        pairs = ", ".join(f"{json.dumps(known)} = {json.dumps(own)}" for known, own in models.items())
        limit = f"first-event-timeout = {FIRST_EVENT}\n" if has_limit else ""
        yield f'[[upstream]]\nprovider = "{name}"\nbase-url = "{base}"\n{limit}models = {{ {pairs} }}\n'


@contextmanager
def _redis(folder: Path) -> Iterator[str]:
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        raise SystemExit("Redis is not installed (Debian: apt-get install redis-server)")
    path = folder / "redis.sock"
    options = ["--port", "0", "--unixsocket", str(path), "--save", "", "--appendonly", "no"]
    with subprocess.Popen([program, *options], cwd=folder, stdout=subprocess.DEVNULL) as running:
        while not path.exists():
            time.sleep(0.02)
        try:
            yield f"unix://{path}"
        finally:
            running.terminate()


@contextmanager
def _command(soak: Soak, folder: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the command, set the address of the gateway, and look through its log at the end."""
    log = folder / "log"
    command = [sys.executable, "-m", "streamkit", "gateway", "--port", "0", *options]
    with log.open("wb") as written, subprocess.Popen(command, stderr=written) as running:
        try:
            while (found := re.search(r"(http://127\.0\.0\.1:\d+) asks", log.read_text())) is None:
                if running.poll() is not None:
                    raise SystemExit(log.read_text())
                time.sleep(0.05)
            soak.url = found[1]
            yield running
        finally:
            running.terminate()
            running.wait(_PATIENCE)
    text = log.read_text()
    ended = re.findall(r"worker \d+ has ended by .*", text)
    if "Traceback" in text or len(ended) != len(soak.killed):
        soak.problems.append(f"failed: the log has a traceback, or {ended}: {text[text.find('Traceback') :][:3000]}")


def _workers(command: subprocess.Popen[bytes]) -> list[int]:
    """Return the processes that the command has started; the command itself if it has none."""
    children = Path(f"/proc/{command.pid}/task/{command.pid}/children").read_text().split()
    return [*map(int, children)] or [command.pid]


def _resident(process: int) -> int:
    """Return the bytes of a process in memory."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _kill_worker(soak: Soak, command: subprocess.Popen[bytes]) -> None:
    soak.killed.append(time.monotonic())
    os.kill(_workers(command)[0], signal.SIGKILL)


async def _check_open_requests(soak: Soak) -> None:
    """Record requests that are open in any worker, as the metrics count them."""
    headers = {"authorization": f"Bearer {KEYS['eve'][0]}"}
    for _ in range(100):
        metrics = (await soak.http.get(f"{soak.url}/metrics", headers=headers)).text
        found = re.search(r"^streamkit_gateway_open_requests ([\d.]+)$", metrics, re.MULTILINE)
        if found is not None and float(found[1]) == 0:
            return
        await asyncio.sleep(0.05)
    soak.problems.append(f"open: {found[1] if found else 'no'} requests remain")


# ---------------------------------------------------------------- many streams


@dataclass
class ManyStreams:
    """The upstream and the clients of many streams. Each response waits after its first word until all have begun."""

    wanted: int  # responses that begin before any goes on
    begun: int = 0

    def __post_init__(self) -> None:
        whole = frames()
        self._first, self._rest = whole[0] + whole[1], [*whole[2 : WORDS + 1], *whole[-2:]]
        self.all_have_begun = asyncio.Event()

    async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Respond to the requests of one connection."""
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                await read_request(reader)
                writer.write(HEAD + b"%x\r\n%b\r\n" % (len(self._first), self._first))
                self.begun += 1
                if self.begun == self.wanted:
                    self.all_have_begun.set()
                await self.all_have_begun.wait()
                for part in self._rest:
                    writer.write(b"%x\r\n%b\r\n" % (len(part), part))
                    await asyncio.sleep(0)
                writer.write(b"0\r\n\r\n")
        writer.close()

    async def read(self, soak: Soak, number: int) -> float:
        """Read one stream to its end; return the seconds until its first byte."""
        path, body, end = STREAMS[number % len(STREAMS)]
        client = Client(int(soak.url.rpartition(":")[2]), path, body)
        data = await client.ask()
        client.close()
        deltas = data.partition(b"response.output_text.done")[0]  # after it Responses repeats the text
        if deltas.count(b"word ") != WORDS or end not in data:
            soak.problems.append(f"lost: stream {number} of {path}: {deltas.count(b'word ')} words, {data[-300:]!r}")
        return client.seconds


async def run_streams(number: int) -> Soak:
    """Have so many streams open at once in one process of the command."""
    soak, warm = Soak(0), len(STREAMS) * 10
    streams = ManyStreams(warm)
    server = await asyncio.start_server(streams.respond, "127.0.0.1", 0, backlog=number)
    base = "http://{}:{}".format(*server.sockets[0].getsockname()[:2])
    limits = ["--max-requests", str(number), "--connections", str(2 * number)]
    with (
        tempfile.TemporaryDirectory() as folder,
        _command(soak, Path(folder), "--provider", "anthropic", "--base-url", base, *limits) as running,
    ):
        await asyncio.gather(*(streams.read(soak, each) for each in range(warm)))
        before, resident = _resident(running.pid), list[int]()
        for _ in range(WAVES):
            streams.begun, streams.wanted, streams.all_have_begun = 0, number, asyncio.Event()
            reading = [asyncio.create_task(streams.read(soak, each)) for each in range(number)]
            await asyncio.wait_for(streams.all_have_begun.wait(), 4 * _PATIENCE)
            resident.append(_resident(running.pid))
            seconds = sorted(await asyncio.gather(*reading))
            median, most = seconds[number // 2], seconds[number * 99 // 100]
            size = (resident[-1] - before) / number
            print(f"{number} streams at once: {size:,.0f} bytes of memory for each")
            print(f"first byte: {median:.2f} s in the median, {most:.2f} s for 99 of 100")
    check_growth(soak, "resident bytes of a wave after the first", resident[1:], RESIDENT_GROWTH)
    server.close()
    return soak


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway_soak", description=__doc__)
    parser.add_argument("minutes", nargs="?", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--processes", type=int)
    parser.add_argument("--store", choices=("sqlite", "redis"), default="sqlite")
    parser.add_argument("--streams", type=int)
    options = parser.parse_args()
    if options.streams is not None:
        running = run_streams(options.streams)
    elif options.processes is not None:
        running = run_processes(*(options.minutes, options.seed, options.clients), options.processes, options.store)
    else:
        running = run_in_process(options.minutes, options.seed, options.clients)
    soak = asyncio.run(running)
    for problem in soak.problems[:20]:
        print(problem[:2000])
    print(f"{len(soak.problems)} problems")
    return 1 if soak.problems else 0


if __name__ == "__main__":
    sys.exit(main())
