"""The CPU time of the gateway and of LiteLLM's proxy for a chunk, and the delay of the first byte.

A client of Chat Completions gets a stream of Anthropic, frame by frame, over loopback HTTP. The CPU time is that of the
process, user and system, from ``/proc``, and includes its HTTP server and client. LiteLLM's proxy is measured on the
same streams in the same run, if this environment has ``litellm[proxy]``, or the one whose Python ``LITELLM_PYTHON``
names; else its row is left out, and a note says so.
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
from streamkit.events import BlockEnded, Finished, ResponseStarted, Text
from streamkit.providers import writer

__all__ = ["measure"]

CHUNKS = 600
STREAMS = 3
REQUESTS = 100
#: Seconds between two frames: none, so that several are read at once, as from a fast model or after a slow network; and
#: so many that each is read by itself.
PAUSES = {"frames in bursts": 0.0, "each frame by itself": 0.0005}
BODY = json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}).encode()
DIRECT = json.dumps({"model": "m", "stream": True, "max_tokens": 9, "messages": []}).encode()
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


async def serve_upstream(pause: float) -> asyncio.Server:
    """Return a server that gives every request the stream, with a pause of so many seconds between two frames."""
    parts = frames()

    async def respond(reader: asyncio.StreamReader, writer_: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                await _read_request(reader)
                writer_.write(_HEAD)
                for part in parts:
                    if writer_.is_closing():
                        return
                    writer_.write(b"%x\r\n%b\r\n" % (len(part), part))
                    await asyncio.sleep(pause)
                writer_.write(b"0\r\n\r\n")
        writer_.close()

    return await asyncio.start_server(respond, "127.0.0.1", 0)


async def _read_request(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
    await reader.readexactly(int(fields.get(b"content-length", b"0")))


async def ask(port: int, path: str, body: bytes, *, whole: bool) -> tuple[float, bytes]:
    """Return the seconds until the first byte of the body, and the response, or its beginning."""
    reader, writer_ = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer sk-1\r\ncontent-type: application/json\r\n"
    started = time.perf_counter()
    writer_.write(f"{head}connection: close\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
    data = await reader.readuntil(b"\r\n\r\n") + await reader.read(65536)
    seconds = time.perf_counter() - started
    while whole and b"[DONE]" not in data and (part := await reader.read(65536)):
        data += part
    writer_.close()
    return seconds, data


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
    """Return the CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


async def cost(port: int, pid: int) -> float:
    """Return the CPU seconds of a chunk at a gateway, after one stream that warms it up."""
    for number in range(STREAMS + 1):
        if number == 1:
            before = cpu_seconds(pid)
        _, data = await ask(port, "/v1/chat/completions", BODY, whole=True)
        if data.count(b"word ") != CHUNKS:
            raise Skipped(f"the gateway lost a part of a stream: {data[:300]!r}")
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


async def _streamkit(upstream: int) -> tuple[float, float]:
    """Return the CPU seconds of a chunk, and the seconds by which the first byte comes later than directly."""
    port = _free_port()
    command = [sys.executable, "-m", "streamkit", "gateway", "--provider", "anthropic", "--port", str(port)]
    with process([*command, "--base-url", f"http://127.0.0.1:{upstream}"], ANTHROPIC_API_KEY="sk-upstream") as running:
        await wait_for(port, running, 30)
        seconds = await cost(port, running.pid)
        delays = []
        for _ in range(REQUESTS):
            direct, _ = await ask(upstream, "/v1/messages", DIRECT, whole=False)
            through, _ = await ask(port, "/v1/chat/completions", BODY, whole=False)
            delays.append(through - direct)
    return seconds, statistics.median(delays)


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
    server = await serve_upstream(pause)
    upstream = int(server.sockets[0].getsockname()[1])
    try:
        ours, delay = await _streamkit(upstream)
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
        if pause:  # without, the upstream sends all of its frames before it reads the next request
            rows.append(Row("first byte later than from the upstream, median", delay * 1e3, "ms", 2.0))
    finally:
        server.close()
    return rows


def measure(settings: Settings) -> Iterator[Row]:
    """Yield the rows of this subject; the number of rounds does not matter."""
    if not Path("/proc/self/stat").exists():
        raise Skipped("the CPU time of another process is read from /proc, which is not here")
    for label, pause in PAUSES.items():
        yield from asyncio.run(_measure(label, pause))
