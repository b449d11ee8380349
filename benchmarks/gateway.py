"""The CPU time of the gateway and of LiteLLM's proxy for a chunk, and the delay of the first byte.

Clients of three wires get turns with reasoning, text and two calls (``streams.make_turn``) of an upstream of another
wire, frame by frame, over loopback HTTP; a turn whose text or calls are not whole is reported and not measured. The CPU
time is that of the process, user and system, from ``/proc``, and includes its HTTP server and client. LiteLLM's proxy
is measured in turns with the gateway, stream by stream, if this environment has ``litellm[proxy]``, or the one whose
Python ``LITELLM_PYTHON`` names; else its rows are left out, and a note says so.

The delay of the first byte is that of clients as people have them: they keep their connection, read each stream to its
end, and ask again a little later. Beside it are LiteLLM's, and as a floor that of a proxy that only passes on bytes.
After these come clients that make a connection for each request and leave at its first byte, so that the gateway closes
its connection to the upstream, and makes another one for the next request.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.measure import Row, Settings, Skipped
from benchmarks.minimal_proxy import read_request
from benchmarks.per_chunk import run_turn
from benchmarks.streams import make_turn
from streamkit import Turn
from streamkit.events import BlockEnded, Finished, ResponseStarted, Text
from streamkit.providers import writer

__all__ = ["measure"]

CHUNKS = 600
STREAMS = 5
REQUESTS = 100
#: Frames of the streams whose first byte is timed, and seconds between two requests.
SHORT = 20
TURNAROUND = 0.01
#: Seconds between two frames: none, so that several are read at once, as from a fast model or after a slow network; and
#: so many that each is read by itself.
PAUSES = {"frames in bursts": 0.0, "each frame by itself": 0.0005}
#: The wires of a client and of its upstream, the client's path, and what its body has beside the model.
PAIRS: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("openai_chat", "anthropic", "/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
    ("anthropic", "openai_chat", "/v1/messages", {"max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}),
    ("openai_responses", "anthropic", "/v1/responses", {"input": "hi"}),
)
#: The provider of each upstream for LiteLLM: one of Chat Completions as OpenAI is asked by Responses.
LITELLM = {"anthropic": "anthropic/m", "openai_chat": "hosted_vllm/m"}
BODY = json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}).encode()
DIRECT = json.dumps({"model": "m", "stream": True, "max_tokens": 9, "messages": []}).encode()
_PATH = "/v1/chat/completions"
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def frames() -> list[bytes]:
    """Return a stream of Anthropic with different texts, because LiteLLM ends a stream of equal chunks."""
    live = writer("anthropic", response_id="msg_1", model="m")
    texts = [Text(f"word {number} ") for number in range(CHUNKS)]
    return [
        *map(live.write, [ResponseStarted("msg_1", "m"), *texts, BlockEnded("text")]),
        live.write(Finished("stop")) + live.close(),
    ]


class Paced:
    """A stream for every request, with a pause of so many seconds between two frames."""

    def __init__(self, parts: list[bytes], pause: float = 0.0) -> None:
        self.parts, self.pause = parts, pause

    async def serve(self) -> asyncio.Server:
        """Return a server of it."""
        return await asyncio.start_server(self._respond, "127.0.0.1", 0)

    async def _respond(self, reader: asyncio.StreamReader, writer_: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                await read_request(reader)
                writer_.write(HEAD)
                for part in self.parts:
                    if writer_.is_closing():
                        return
                    writer_.write(b"%x\r\n%b\r\n" % (len(part), part))
                    await asyncio.sleep(self.pause)
                writer_.write(b"0\r\n\r\n")
        writer_.close()


class Client:
    """A client that keeps its connection.

    Attributes:
        seconds: the time until the first byte of the last body.
    """

    def __init__(self, port: int, path: str, body: bytes) -> None:
        self._port = port
        head = f"POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer sk-1\r\ncontent-type: application/json\r\n"
        self._request = f"{head}content-length: {len(body)}\r\n\r\n".encode() + body
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.seconds = 0.0

    async def ask(self) -> bytes:
        """Return the response, read to its end."""
        reader, data = await self._begin()
        while not data.endswith(b"0\r\n\r\n") and (part := await reader.read(65536)):
            data += part
        return data

    async def _begin(self) -> tuple[asyncio.StreamReader, bytes]:
        if self._streams is None or self._streams[0].at_eof():  # the server has closed it meanwhile
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer_ = self._streams
        started = time.perf_counter()
        writer_.write(self._request)
        data = await reader.readuntil(b"\r\n\r\n") + await reader.read(65536)
        self.seconds = time.perf_counter() - started
        return reader, data

    async def ask_and_leave(self) -> None:
        """Ask, and close the connection at the first byte of the body."""
        await self._begin()
        self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


@contextmanager
def process(command: list[str], **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server as a process."""
    running = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **environment}
    )
    try:
        yield running
    finally:
        running.terminate()
        running.wait()


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process's threads so far, in steps of a nanosecond where the kernel has them.

    The times of ``stat`` are in steps of 10 ms (https://docs.kernel.org/scheduler/sched-stats.html). A thread that has
    ended is missing in the others, so they are those of servers whose threads stay.
    """
    threads = [Path(thread, "schedstat") for thread in Path(f"/proc/{pid}/task").iterdir()]
    if all(thread.exists() for thread in threads):
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


async def cost(pid: int, client: Client, check: Callable[[bytes], bool]) -> float:
    """Return the CPU seconds of one chunk of a stream at a gateway.

    Raises:
        Skipped: the stream is not whole.
    """
    before = cpu_seconds(pid)
    data = await client.ask()
    seconds = cpu_seconds(pid) - before
    if not check(data):
        raise Skipped(f"it lost a part of a stream: {data[-300:]!r}")
    return seconds / CHUNKS


def read_chunks(data: bytes) -> bytes:
    """Return the body of a response with ``transfer-encoding: chunked``."""
    rest, body = data.partition(b"\r\n\r\n")[2], b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        body, rest = body + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    return body


async def wait_for(port: int, running: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait until a server listens.

    Raises:
        Skipped: it ended, or does not listen.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and running.poll() is None:
        with suppress(OSError):
            _, writer_ = await asyncio.open_connection("127.0.0.1", port)
            writer_.close()
            return
        await asyncio.sleep(0.1)
    raise Skipped(f"{running.args!r} does not listen")


def _free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@contextmanager
def _gateway(port: int, upstreams: Mapping[str, int]) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "streamkit", "gateway", "--port", str(port)]
    for name, upstream in upstreams.items():
        command += ["--upstream", f"{name}=http://127.0.0.1:{upstream}#{name}=m,*=m"]
    with process(command) as running:
        yield running


@contextmanager
def _litellm(port: int, upstreams: Mapping[str, int]) -> Iterator[subprocess.Popen[bytes]]:
    """Run LiteLLM's proxy.

    Raises:
        Skipped: it is not installed.
    """
    python = os.environ.get("LITELLM_PYTHON", sys.executable)
    check = [python, "-c", "import importlib.util as u; assert u.find_spec('litellm') and u.find_spec('fastapi')"]
    if subprocess.run(check, capture_output=True, check=False).returncode:
        raise Skipped("litellm[proxy] is not installed here, and LITELLM_PYTHON names no Python that has it")
    models = []
    for name, upstream in upstreams.items():
        base = f"http://127.0.0.1:{upstream}" + ("/v1" if name == "openai_chat" else "")
        parameters = {"model": LITELLM[name], "api_base": base, "api_key": "sk-upstream"}
        models += [{"model_name": each, "litellm_params": parameters} for each in (name, *(["m"] * (not models)))]
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "config.yaml")  # JSON is YAML
        config.write_text(json.dumps({"model_list": models}))
        command = [str(Path(python).with_name("litellm")), "--config", str(config), "--host", "127.0.0.1"]
        allowed = {"LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true"}
        with process([*command, "--port", str(port)], LITELLM_LOCAL_MODEL_COST_MAP="True", **allowed) as running:
            yield running


@asynccontextmanager
async def _gateways(upstreams: Mapping[str, int]) -> AsyncIterator[tuple[dict[str, tuple[int, int]], str]]:
    """Yield the ports and processes of the gateway and of LiteLLM, and a note if the latter is not there."""
    with ExitStack() as stack:
        found, note = dict[str, tuple[int, int]](), ""
        for name, start, seconds in (("the gateway", _gateway, 30), ("LiteLLM's proxy", _litellm, 180)):
            port = _free_port()
            try:
                running = stack.enter_context(start(port, upstreams))
                await wait_for(port, running, seconds)
            except Skipped as reason:
                if not found:
                    raise
                note = f"{name} was not measured: {reason}"
            else:
                found[name] = port, running.pid
        yield found, note


async def _measure_first_byte() -> list[Row]:
    """Return by how much later the first byte comes than directly; the requests of all clients alternate."""
    whole = frames()
    server = await Paced([*whole[:SHORT], *whole[-2:]], PAUSES["each frame by itself"]).serve()
    upstream, proxy = int(server.sockets[0].getsockname()[1]), _free_port()
    minimal = [sys.executable, "-m", "benchmarks.minimal_proxy", str(proxy), str(upstream)]
    async with _gateways({"anthropic": upstream}) as (found, note):
        with process(minimal) as running_proxy:
            await wait_for(proxy, running_proxy, 30)
            direct = Client(upstream, "/v1/messages", DIRECT)
            keeping = {name: Client(port, _PATH, BODY) for name, (port, _) in found.items()}
            keeping["a proxy that passes on bytes"] = Client(proxy, _PATH, BODY)
            leaving = {"clients that leave at the first byte": Client(found["the gateway"][0], _PATH, BODY)}
            for client in (direct, *keeping.values()):
                await client.ask()
            delays: dict[str, list[float]] = {name: [] for name in (*keeping, *leaving)}
            for number in range(2 * REQUESTS):
                await direct.ask()
                await asyncio.sleep(TURNAROUND)
                # A client that leaves closes the gateway's connection to the upstream, which the next one would need.
                for name, client in (keeping if number < REQUESTS else leaving).items():
                    await (client.ask_and_leave() if name in leaving else client.ask())
                    await asyncio.sleep(TURNAROUND)
                    delays[name].append(client.seconds - direct.seconds)
            for client in (direct, *keeping.values()):
                client.close()
    server.close()
    medians = {name: statistics.median(each) * 1e3 for name, each in delays.items()}
    first = Row("first byte later than from the upstream, median", medians.pop("the gateway"), "ms", 2.0, note)
    return [first, *(Row(f"the same of {name}", median, "ms") for name, median in medians.items())]


async def _measure_chunks() -> list[Row]:
    """Return the CPU time of a chunk for each pair of wires; the streams of both gateways alternate."""
    paced = {name: Paced(make_turn(name, CHUNKS)) for name in ("anthropic", "openai_chat")}
    servers = {name: await each.serve() for name, each in paced.items()}
    rows = []
    async with _gateways({name: int(each.sockets[0].getsockname()[1]) for name, each in servers.items()}) as found:
        gateways, missing = found
        for (wire, upstream, path, body), label in product(PAIRS, PAUSES):
            wanted = run_turn(upstream, paced[upstream].parts)

            def is_whole(data: bytes, wire: str = wire, wanted: Turn = wanted) -> bool:
                turn = run_turn(wire, [read_chunks(data)])
                arguments = [call.arguments for call in turn.calls]
                return turn.text == wanted.text and arguments == [call.arguments for call in wanted.calls]

            paced[upstream].pause, note = PAUSES[label], missing
            request = json.dumps({"model": upstream, "stream": True, **body}).encode()
            clients = {name: Client(port, path, request) for name, (port, _) in gateways.items()}
            costs: dict[str, list[float]] = {name: [] for name in clients}
            for number, name in product(range(STREAMS + 1), gateways):
                try:
                    seconds = await cost(gateways[name][1], clients[name], is_whole)
                except Skipped as reason:
                    if name == "the gateway":
                        raise
                    note = f"{name}: {reason}"
                else:
                    costs[name] += [seconds] * (number > 0)  # after one that warms it up
            for client in clients.values():
                client.close()
            ours, *theirs = (statistics.median(each) for each in costs.values() if each)
            name = f"{wire} over {upstream}, {label}"
            rows.append(Row(f"CPU of a chunk, {name}", ours * 1e6, "us", note=note))
            rows += [
                Row(f"of LiteLLM's proxy, {name}", ours / each, "x", 0.1, f"{each * 1e6:.0f} us") for each in theirs
            ]
    for server in servers.values():
        server.close()
    return rows


def measure(settings: Settings) -> Iterator[Row]:
    """Yield the rows of this subject; the number of rounds does not matter."""
    if not Path("/proc/self/stat").exists():
        raise Skipped("the CPU time of another process is read from /proc, which is not here")
    yield from asyncio.run(_measure_chunks())
    yield from asyncio.run(_measure_first_byte())
