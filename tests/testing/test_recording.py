"""Recording a stream while it is read, with its secrets removed."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from execution.chat_chunks import answer

from streamkit import Content, Turn, UsageError, cli, providers, read, run_loop
from streamkit.reading import stream_file
from streamkit.reading.stream_file import StreamFile
from streamkit.testing import Reply, Status, record, serve
from streamkit.testing.case import encode_stream

pytestmark = pytest.mark.anyio
KEY = "sk-proj-abcdefghijklmnop0123"
CHUNKS = answer(f"The key is {KEY}.", ("f", {"x": 1}))


MASKED = json.loads(json.dumps(CHUNKS).replace(KEY, "***"))


def encode(provider: str, chunks: list[dict[str, Any]]) -> bytes:
    traits = providers.get(provider).traits
    return encode_stream(chunks, traits, end_marker=traits.end_marker)


def cut(data: bytes, size: int = 7) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def content_of(path: Path) -> bytes:
    return path.read_bytes()


def recorded_chunks(path: Path) -> list[Any]:
    return [json.loads(line.removeprefix(b"data: ")) for line in content_of(path).splitlines() if line]


def turn_of(provider: str, path: Path) -> Turn:
    turn = Turn(provider, turn_key="t")
    for part in cut(content_of(path)):
        turn.feed(part)
    turn.close()
    return turn


async def read_all(turn: Turn, source: Any) -> Turn:
    async for _ in read(turn, source):
        pass
    return turn


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "turn.sse"


async def asynchronous(parts: list[Any]) -> AsyncGenerator[Any, None]:
    for part in parts:
        yield part


async def test_bytes_are_recorded_as_they_came_without_secrets(path: Path) -> None:
    data = encode("openai_chat", CHUNKS)
    turn = await read_all(Turn("openai_chat", turn_key="t"), record(asynchronous(cut(data)), path))
    assert KEY in turn.text
    assert content_of(path) == data.replace(KEY.encode(), b"***")
    recorded = turn_of("openai_chat", path)
    assert recorded.text == "The key is ***."
    assert [call.arguments for call in recorded.executable] == [{"x": 1}]


def test_a_sync_source_is_recorded(path: Path) -> None:
    data = encode("openai_chat", CHUNKS)
    for _ in read(Turn("openai_chat", turn_key="t"), record(cut(data), path)):
        pass
    assert content_of(path) == data.replace(KEY.encode(), b"***")


@pytest.mark.parametrize("is_async", [True, False])
async def test_chunks_are_recorded_as_events(path: Path, is_async: bool) -> None:
    source = asynchronous(CHUNKS) if is_async else CHUNKS
    turn = await read_all(Turn("openai_chat", turn_key="t"), record(source, path))
    assert KEY in turn.text
    assert recorded_chunks(path) == MASKED
    assert turn_of("openai_chat", path).text == "The key is ***."


async def test_a_complete_body_is_recorded(path: Path) -> None:
    message = {"role": "assistant", "content": KEY}
    body = {
        "id": "r",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    }
    for source in (body, json.dumps(body).encode()):
        turn = await read_all(Turn("openai_chat", turn_key="t"), record(source, path))
        assert turn.text == KEY
        assert turn_of("openai_chat", path).text == "***"


CONVERSE: list[dict[str, Any]] = [
    {"messageStart": {"role": "assistant"}},
    {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": f"It is {KEY}."}}},
    {"contentBlockStop": {"contentBlockIndex": 0}},
    {"messageStop": {"stopReason": "end_turn"}},
]
INVOKE: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"id": "m", "role": "assistant", "model": "m", "content": [], "usage": {}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": f"It is {KEY}."}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
    {"type": "message_stop"},
]


@pytest.mark.parametrize(("provider", "chunks"), [("bedrock_converse", CONVERSE), ("bedrock_invoke", INVOKE)])
async def test_binary_frames_are_recorded_as_events(path: Path, provider: str, chunks: list[dict[str, Any]]) -> None:
    turn = await read_all(Turn(provider, turn_key="t"), record(asynchronous(cut(encode(provider, chunks))), path))
    assert turn.text == f"It is {KEY}."
    assert KEY.encode() not in content_of(path)
    recorded = turn_of(provider, path)
    assert (recorded.text, recorded.error, recorded.finish) == ("It is ***.", None, turn.finish)


async def test_secrets_in_the_base64_of_chunks_are_found(path: Path) -> None:
    inner = b64encode(json.dumps(INVOKE[2]).encode()).decode()
    await read_all(
        Turn("bedrock_invoke", turn_key="t"), record([{"chunk": {"bytes": inner}}, {"chunk": {"bytes": 7}}], path)
    )
    assert recorded_chunks(path)[0]["delta"]["text"] == "It is ***."


async def test_a_response_keeps_its_status_and_is_closed(path: Path) -> None:
    async with (
        serve([Reply("Hello."), Status(400)]) as server,
        httpx.AsyncClient(base_url=server.base_url("anthropic")) as http,
    ):
        body = {"model": "m", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
        async with http.stream("POST", "/v1/messages", json=body) as response:
            turn = await read_all(Turn("anthropic", turn_key="t"), record(response, path))
            assert response.is_closed
        assert turn.text == "Hello."
        assert turn_of("anthropic", path).text == "Hello."
        async with http.stream("POST", "/v1/messages", json=body) as response:
            turn = await read_all(Turn("anthropic", turn_key="t"), record(response, path))
        assert turn.error is not None
        assert turn.error.status == 400
        assert b'"error"' in content_of(path)


async def test_a_run_is_recorded_by_its_context_manager(path: Path) -> None:
    async with serve([Reply("Hello.")]) as server, httpx.AsyncClient(base_url=server.base_url("openai_chat")) as http:

        async def ask(context: Any) -> Any:
            return record(http.stream("POST", "/chat/completions", json={"model": "m", **context.request}), path)

        run = await run_loop(ask, provider="openai_chat", history=[Content.human("Hi")])
    assert run.text == "Hello."
    assert turn_of("openai_chat", path).text == "Hello."


async def test_context_managers_of_both_kinds_are_left(path: Path) -> None:
    left: list[str] = []

    @contextmanager
    def sync() -> Iterator[Any]:
        yield CHUNKS
        left.append("sync")

    @asynccontextmanager
    async def asyn() -> AsyncIterator[Any]:
        yield asynchronous(CHUNKS)
        left.append("async")

    with record(sync(), path) as source:
        for _ in read(Turn("openai_chat", turn_key="t"), source):
            pass
    for context in (record(sync(), path), record(asyn(), path)):
        async with context as source:
            await read_all(Turn("openai_chat", turn_key="t"), source)
    assert left == ["sync", "sync", "async"]


async def test_a_stream_that_is_left_early_is_recorded_so_far(path: Path) -> None:
    async with read(Turn("openai_chat", turn_key="t"), record(asynchronous(CHUNKS), path)) as events:
        async for _ in events:
            break
    recorded = recorded_chunks(path)
    assert 0 < len(recorded) < len(MASKED)
    assert recorded == MASKED[: len(recorded)]


def test_the_command_line_reads_a_recording(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in read(Turn("openai_chat", turn_key="t"), record(CHUNKS, path)):
        pass
    assert cli.main(["normalize", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["text"] == "The key is ***."


async def test_an_asynchronous_source_is_read_with_async_for(path: Path) -> None:
    source = asynchronous(CHUNKS)
    with pytest.raises(UsageError, match="async for"):
        next(read(Turn("openai_chat", turn_key="t"), record(source, path)))
    assert not list(path.parent.iterdir())
    await source.aclose()


@pytest.mark.parametrize("source", [None, 7, "text"])
def test_anything_else_is_rejected(path: Path, source: Any) -> None:
    if isinstance(source, str):
        with pytest.raises(UsageError):
            next(read(Turn("openai_chat", turn_key="t"), record(source, path)))
    else:
        with pytest.raises(UsageError, match="record"):
            record(source, path)


async def test_a_line_of_many_parts_is_written_whole(path: Path) -> None:
    """A picture in one line has megabytes, which must not be copied with each part."""
    parts = [b"data: ", b"a" * 10, b"b" * 10, b"\n\nda", b"ta: x", f"data: {KEY[:5]}".encode(), KEY[5:].encode(), b"\n"]
    file = StreamFile(path)
    seen = []
    for part in parts:
        file.write(part)
        seen.append(len(content_of(path)))
    file.close()
    assert seen == [0, 0, 0, 28, 28, 28, 28, 45]
    assert content_of(path) == b"data: aaaaaaaaaabbbbbbbbbb\n\ndata: xdata: ***\n"


async def test_a_line_without_an_end_is_written_in_parts(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_file, "_MOST_PENDING", 100)
    file = StreamFile(path)
    for _ in range(25):
        file.write(b"a" * 10)
    assert len(content_of(path)) == 220
    file.close()
    assert content_of(path) == b"a" * 250
