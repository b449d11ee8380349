"""A thousand streams at the same time through one gateway process, and one whose upstream never waits.

No stream gets its next part from the upstream before every client has the part before it, so that one that starves
stops all of them. Nothing is asserted about time.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from gateway.gateway_clients import CLIENTS, read_turn

from streamkit.events import Finished, ResponseStarted, Text
from streamkit.providers import writer

resource = pytest.importorskip("resource", reason="the limit of open files is POSIX")

STREAMS = 1000
PARTS = 5
#: Files of a process: each stream has two connections, at the gateway and here.
FILES = 2 * STREAMS + 200
PATIENCE = 120  # seconds for all of it; a stream that starves, or never ends, would take forever
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


class Lockstep:
    """Counts the clients that have each part, and opens the next part for the upstream when all have it."""

    def __init__(self) -> None:
        self.received: Counter[int] = Counter()
        self.opened = [asyncio.Event() for _ in range(PARTS + 1)]
        self.opened[0].set()

    def report(self, part: int) -> None:
        self.received[part] += 1
        if self.received[part] == STREAMS:
            self.opened[part + 1].set()


def frames(number: int) -> list[bytes]:
    """Return a response of Anthropic, one frame for each part, the start before the first and the end in the last."""
    live = writer("anthropic", response_id=f"msg_{number}", model="m")
    start = live.write(ResponseStarted(f"msg_{number}", "m"))
    parts = [live.write(Text(f"<{part}>")) for part in range(PARTS)]
    return [start + parts[0], *parts[1:-1], parts[-1] + live.write(Finished("stop")) + live.close()]


async def read_request(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    assert length is not None
    await reader.readexactly(int(length[1]))


async def serve_upstream(lockstep: Lockstep) -> asyncio.Server:
    numbers = iter(range(STREAMS))

    async def respond(reader: asyncio.StreamReader, writer_: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer_.write(HEAD)
        for part, frame in enumerate(frames(next(numbers))):
            await lockstep.opened[part].wait()
            writer_.write(frame)
            await writer_.drain()
        writer_.close()

    return await asyncio.start_server(respond, "127.0.0.1", 0, backlog=STREAMS)


async def ask(port: int, client: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection and send a client's request."""
    path, body = CLIENTS[client]
    content = json.dumps(body).encode()
    reader, writer_ = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST {path} HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\ncontent-length: {len(content)}\r\n\r\n"
    writer_.write(head.encode() + content)
    return reader, writer_


async def read_stream(port: int, lockstep: Lockstep) -> bytes:
    """Ask as a client and return the body."""
    reader, writer_ = await ask(port, "openai_chat")
    data, part = b"", 0
    while received := await reader.read(65536):
        data += received
        while part < PARTS and f"<{part}>".encode() in data:
            lockstep.report(part)
            part += 1
    writer_.close()
    return data


@asynccontextmanager
async def running_gateway(upstream: asyncio.Server, log: bytearray) -> AsyncIterator[int]:
    """Run a gateway for an upstream; yield its port. All that it prints is in the log at the end."""
    address = "http://{}:{}".format(*upstream.sockets[0].getsockname()[:2])
    command = ["-m", "streamkit", "gateway", "--provider", "anthropic", "--base-url", address, "--port", "0"]
    gateway = await asyncio.create_subprocess_exec(
        *(sys.executable, *command),
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "ANTHROPIC_API_KEY": "key-of-the-upstream", "COLUMNS": "300"},
    )
    assert gateway.stderr is not None
    try:
        found = re.search(rb":(\d+) asks ", await gateway.stderr.readline())
        assert found is not None
        printed = asyncio.create_task(gateway.stderr.read())
        async with asyncio.timeout(PATIENCE):
            yield int(found[1])
    finally:
        gateway.terminate()
        await gateway.wait()
        upstream.close()
    log += await printed


async def run_streams() -> tuple[list[bytes], Counter[int], str]:
    lockstep, log = Lockstep(), bytearray()
    async with running_gateway(await serve_upstream(lockstep), log) as port:
        bodies = await asyncio.gather(*(read_stream(port, lockstep) for _ in range(STREAMS)))
    return bodies, lockstep.received, log.decode()


@pytest.mark.slow
def test_a_thousand_streams_are_served_at_the_same_time_and_none_starves() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < FILES:
        pytest.skip(f"a process may open {hard} files here; the test needs {FILES}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, FILES), hard))
    bodies, received, log = asyncio.run(run_streams())
    assert dict(received) == dict.fromkeys(range(PARTS), STREAMS)
    text = "".join(f"<{part}>" for part in range(PARTS))
    turns = [read_turn("openai_chat", body.partition(b"\r\n\r\n")[2]) for body in map(without_chunks, bodies)]
    assert {(turn.text, turn.error is None) for turn in turns} == {(text, True)}
    assert log.count("200  POST") == STREAMS
    assert "Traceback" not in log


def without_chunks(response: bytes) -> bytes:
    """Return a response without the sizes of HTTP's chunks."""
    head, _, body = response.partition(b"\r\n\r\n")
    return head + b"\r\n\r\n" + re.sub(rb"(?:^|\r\n)[0-9a-f]+\r\n", b"", body)


@pytest.mark.parametrize("client", ["openai_chat", pytest.param("anthropic", marks=pytest.mark.slow)])
def test_a_client_leaves_while_the_upstream_sends_without_a_pause(client: str) -> None:
    """Reading that never waits must still let the gateway see that its client has left."""
    has_failed = asyncio.Event()
    live = writer("anthropic", response_id="msg_1", model="m")
    start, text = live.write(ResponseStarted("msg_1", "m")), live.write(Text("word "))
    text += live.write(Text("word ")) * 1000

    async def respond(reader: asyncio.StreamReader, writer_: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer_.write(HEAD + start)
        try:
            while True:
                writer_.write(text)
                await writer_.drain()
        except ConnectionError:
            has_failed.set()
        finally:
            writer_.close()

    async def main() -> bytes:
        log = bytearray()
        async with running_gateway(await asyncio.start_server(respond, "127.0.0.1", 0), log) as port:
            reader, writer_ = await ask(port, client)
            await reader.readuntil(b"word ")
            writer_.close()
            await has_failed.wait()
        return bytes(log)

    log = asyncio.run(main())
    assert b"the client disconnected" in log
