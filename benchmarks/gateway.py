"""The CPU time of the gateway and of LiteLLM's proxy for a chunk, and the delay of the first byte.

A client of Chat Completions gets a stream of Anthropic, frame by frame, over loopback HTTP. The CPU time is that of the
process, user and system, from ``/proc``, and includes its HTTP server and client. LiteLLM's proxy is measured on the
same streams in the same run, if this environment has ``litellm[proxy]``, or the one whose Python ``LITELLM_PYTHON``
names; else its row is left out, and a note says so.

The delay of the first byte is that of clients as people have them: they keep their connection, read each stream to its
end, and ask again a little later. Beside it, as a floor, is a proxy that only passes on bytes. After these come
clients that make a connection for each request and leave at its first byte, so that the gateway closes its connection
to the upstream, and makes another one for the next request.
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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.measure import Row, Settings, Skipped
from benchmarks.minimal_proxy import read_request
from streamkit.events import BlockEnded, Finished, ResponseStarted, Text
from streamkit.providers import writer

__all__ = ["measure"]

CHUNKS = 600
STREAMS = 3
REQUESTS = 100
#: Frames of the streams whose first byte is timed, and seconds between two requests.
SHORT = 20
TURNAROUND = 0.01
#: Seconds between two frames: none, so that several are read at once, as from a fast model or after a slow network; and
#: so many that each is read by itself.
PAUSES = {"frames in bursts": 0.0, "each frame by itself": 0.0005}
BODY = json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}).encode()
DIRECT = json.dumps({"model": "m", "stream": True, "max_tokens": 9, "messages": []}).encode()
_PATH = "/v1/chat/completions"
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def frames() -> list[bytes]:
    """Return a stream of Anthropic with different texts, because LiteLLM ends a stream of equal chunks."""
    live = writer("anthropic", response_id="msg_1", model="m")
    texts = [Text(f"word {number} ") for number in range(CHUNKS)]
    return [
        *map(live.write, [ResponseStarted("msg_1", "m"), *texts, BlockEnded("text")]),
        live.write(Finished("stop")) + live.close(),
    ]


async def serve_upstream(parts: list[bytes], pause: float) -> asyncio.Server:
    """Return a server that gives every request the stream, with a pause of so many seconds between two frames."""

    async def respond(reader: asyncio.StreamReader, writer_: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                await read_request(reader)
                writer_.write(_HEAD)
                for part in parts:
                    if writer_.is_closing():
                        return
                    writer_.write(b"%x\r\n%b\r\n" % (len(part), part))
                    await asyncio.sleep(pause)
                writer_.write(b"0\r\n\r\n")
        writer_.close()

    return await asyncio.start_server(respond, "127.0.0.1", 0)


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
        if self._streams is None:
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


async def cost(port: int, pid: int) -> float:
    """Return the CPU seconds of a chunk at a gateway, after one stream that warms it up."""
    client = Client(port, _PATH, BODY)
    for number in range(STREAMS + 1):
        if number == 1:
            before = cpu_seconds(pid)
        data = await client.ask()
        if data.count(b"word ") != CHUNKS:
            raise Skipped(f"the gateway lost a part of a stream: {data[:300]!r}")
    client.close()
    return (cpu_seconds(pid) - before) / (STREAMS * CHUNKS)


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
def _gateway(port: int, upstream: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "streamkit", "gateway", "--provider", "anthropic", "--port", str(port)]
    with process([*command, "--base-url", f"http://127.0.0.1:{upstream}"], ANTHROPIC_API_KEY="sk-upstream") as running:
        yield running


async def _streamkit(upstream: int) -> float:
    """Return the CPU seconds of a chunk."""
    port = _free_port()
    with _gateway(port, upstream) as running:
        await wait_for(port, running, 30)
        return await cost(port, running.pid)


async def _measure_first_byte() -> list[Row]:
    """Return by how much later the first byte comes than directly; the requests of all clients alternate."""
    whole = frames()
    server = await serve_upstream([*whole[:SHORT], *whole[-2:]], PAUSES["each frame by itself"])
    upstream, port, proxy = int(server.sockets[0].getsockname()[1]), _free_port(), _free_port()
    minimal = [sys.executable, "-m", "benchmarks.minimal_proxy", str(proxy), str(upstream)]
    with _gateway(port, upstream) as running, process(minimal) as running_proxy:
        await wait_for(port, running, 30)
        await wait_for(proxy, running_proxy, 30)
        direct = Client(upstream, "/v1/messages", DIRECT)
        kept, floor, leaving = Client(port, _PATH, BODY), Client(proxy, _PATH, BODY), Client(port, _PATH, BODY)
        for client in (direct, kept, floor):
            await client.ask()
        delays: dict[Client, list[float]] = {kept: [], floor: [], leaving: []}
        for number in range(2 * REQUESTS):
            await direct.ask()
            await asyncio.sleep(TURNAROUND)
            # A client that leaves closes the gateway's connection to the upstream, which the next request would need.
            for client in (kept, floor) if number < REQUESTS else (leaving,):
                await (client.ask_and_leave() if client is leaving else client.ask())
                await asyncio.sleep(TURNAROUND)
                delays[client].append(client.seconds - direct.seconds)
        for client in (direct, kept, floor):
            client.close()
    server.close()
    gateway, minimum, left = (statistics.median(each) * 1e3 for each in delays.values())
    return [
        Row("first byte later than from the upstream, median", gateway, "ms", 2.0),
        Row("the same of a proxy that passes on bytes", minimum, "ms"),
        Row("the same of clients that leave at the first byte", left, "ms"),
    ]


def _litellm_command(port: int, upstream: int, folder: str) -> list[str]:
    """Return the command of LiteLLM's proxy over an upstream.

    Raises:
        Skipped: it is not installed.
    """
    python = os.environ.get("LITELLM_PYTHON", sys.executable)
    check = [python, "-c", "import litellm.proxy.proxy_cli, fastapi, backoff"]
    if subprocess.run(check, capture_output=True, check=False).returncode:
        raise Skipped("litellm[proxy] is not installed here, and LITELLM_PYTHON names no Python that has it")
    parameters = {"model": "anthropic/m", "api_base": f"http://127.0.0.1:{upstream}", "api_key": "sk-upstream"}
    config = Path(folder, "config.yaml")  # JSON is YAML
    config.write_text(json.dumps({"model_list": [{"model_name": "m", "litellm_params": parameters}]}))
    command = [str(Path(python).with_name("litellm")), "--config", str(config), "--host", "127.0.0.1"]
    return [*command, "--port", str(port)]


async def _litellm(upstream: int) -> float:
    """Return the CPU seconds of a chunk at LiteLLM's proxy."""
    port = _free_port()
    with tempfile.TemporaryDirectory() as folder:
        command = await asyncio.to_thread(_litellm_command, port, upstream, folder)
        allowed = {"LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true"}
        with process(command, LITELLM_LOCAL_MODEL_COST_MAP="True", **allowed) as running:
            await wait_for(port, running, 180)
            return await cost(port, running.pid)


async def _measure(label: str, pause: float) -> list[Row]:
    server = await serve_upstream(frames(), pause)
    upstream = int(server.sockets[0].getsockname()[1])
    try:
        ours = await _streamkit(upstream)
        name = f"CPU of the gateway's process for a chunk, {label}"
        try:
            theirs = await _litellm(upstream)
        except Skipped as reason:
            rows = [Row(name, ours * 1e6, "us", note=f"LiteLLM's proxy was not measured: {reason}")]
        else:
            rows = [
                Row(name, ours * 1e6, "us", note=f"LiteLLM's proxy: {theirs * 1e6:.0f} us"),
                Row(f"of LiteLLM's proxy, {label}", ours / theirs, "x", None if pause else 0.1),
            ]
    finally:
        server.close()
    return rows


def measure(settings: Settings) -> Iterator[Row]:
    """Yield the rows of this subject; the number of rounds does not matter."""
    if not Path("/proc/self/stat").exists():
        raise Skipped("the CPU time of another process is read from /proc, which is not here")
    for label, pause in PAUSES.items():
        yield from asyncio.run(_measure(label, pause))
    yield from asyncio.run(_measure_first_byte())
