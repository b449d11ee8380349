"""``read``: sources of every kind, their end, cancellation, and leaving early."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import httpx
import pytest
from execution.chat_chunks import answer, as_bytes
from waiting import PATIENCE

from streamkit import StreamInterrupted, Turn, UsageError, read
from streamkit.events import Failed, Finished, Text

pytestmark = pytest.mark.anyio


def new_turn() -> Turn:
    return Turn("openai_chat", turn_key="k")


async def texts(events: Any) -> str:
    return "".join([event.text async for event in events if isinstance(event, Text)])


class AsyncSource:
    """A source that counts how often it was closed."""

    def __init__(self, inputs: list[Any], error: BaseException | None = None, endless: bool = False) -> None:
        self.remaining = list(inputs)
        self.error = error
        self.endless = endless
        self.closed = 0

    def __aiter__(self) -> AsyncSource:
        return self

    async def __anext__(self) -> Any:
        await anyio.lowlevel.checkpoint()
        if self.remaining:
            return self.remaining.pop(0)
        if self.error is not None:
            raise self.error
        if self.endless:
            await anyio.sleep_forever()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.closed += 1


class SyncSource:
    def __init__(self, inputs: list[Any], error: BaseException | None = None) -> None:
        self.remaining = list(inputs)
        self.error = error
        self.closed = 0

    def __iter__(self) -> SyncSource:
        return self

    def __next__(self) -> Any:
        if self.remaining:
            return self.remaining.pop(0)
        if self.error is not None:
            raise self.error
        raise StopIteration

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("kind", [AsyncSource, SyncSource])
@pytest.mark.parametrize("make", [answer, lambda *a: as_bytes(answer(*a))])
async def test_a_source_is_read_to_its_end_and_closed(kind: Any, make: Any) -> None:
    turn, source = new_turn(), kind(make("Hello."))
    assert await texts(read(turn, source)) == "Hello."
    assert turn.closed
    assert turn.error is None
    assert turn.finish is not None
    assert turn.finish.reason == "stop"
    assert source.closed == 1


def test_a_sync_source_is_read_without_an_event_loop() -> None:
    turn, source = new_turn(), SyncSource(as_bytes(answer("Hello.")))
    events = list(read(turn, source))
    assert [event.text for event in events if isinstance(event, Text)] == ["Hello."]
    assert source.closed == 1
    assert turn.error is None


async def test_the_events_are_those_of_feed() -> None:
    inputs = as_bytes(answer("Hi.", ("f", {"a": 1})))
    turn = new_turn()
    expected = [event for data in inputs for event in turn.feed(data)] + turn.close()
    assert [event async for event in read(new_turn(), inputs)] == expected
    assert list(read(new_turn(), inputs)) == expected


async def test_reading_stops_at_the_terminator() -> None:
    source = AsyncSource([*as_bytes(answer("Hi.")), b"data: never read\n\n"])
    assert await texts(read(new_turn(), source)) == "Hi."
    assert source.remaining == [b"data: never read\n\n"]
    assert source.closed == 1


@pytest.mark.parametrize("kind", [AsyncSource, SyncSource])
async def test_an_exception_of_the_source_is_the_error_of_the_turn(kind: Any) -> None:
    turn, source = new_turn(), kind(as_bytes(answer("Hi."))[:2], ConnectionResetError("peer"))
    events = [event async for event in read(turn, source)]
    assert isinstance(events[-1], Failed)
    assert turn.error is not None
    assert turn.error.kind == "transport_error"
    assert "ConnectionResetError: peer" in turn.error.message
    assert turn.text == "Hi."
    assert source.closed == 1


def test_an_exception_of_a_sync_source_is_the_error_of_the_turn() -> None:
    turn, source = new_turn(), SyncSource(as_bytes(answer("Hi."))[:2], ConnectionResetError("peer"))
    assert isinstance(list(read(turn, source))[-1], Failed)
    assert source.closed == 1


async def test_the_end_of_an_sdk_iterator_confirms_a_turn_without_a_finish_reason() -> None:
    chunks = answer("Hi.")[:-1]
    turn = new_turn()
    events = [event async for event in read(turn, chunks)]
    assert isinstance(events[-1], Finished)
    assert turn.error is None


async def test_bytes_without_a_finish_reason_are_truncated() -> None:
    turn = new_turn()
    async for _ in read(turn, as_bytes(answer("Hi.")[:-1])[:-1]):
        pass
    assert turn.error is not None
    assert turn.error.kind == "stream_truncated"


async def test_cancellation_closes_the_turn_and_the_source_and_propagates() -> None:
    turn, source = new_turn(), AsyncSource(as_bytes(answer("Hi."))[:2], endless=True)
    with anyio.CancelScope() as scope:
        async for event in read(turn, source):
            if isinstance(event, Text):
                scope.cancel()
    assert scope.cancelled_caught
    assert turn.closed
    assert turn.text == "Hi."
    assert turn.executable == []
    assert source.closed == 1


async def test_leaving_the_block_early_closes_the_source() -> None:
    turn, source = new_turn(), AsyncSource(as_bytes(answer("Hi."))[:2], endless=True)
    async with read(turn, source) as events:
        async for _ in events:
            break
        assert source.closed == 0
    assert source.closed == 1
    assert turn.closed


async def test_a_block_without_reading_closes_the_source() -> None:
    turn, source = new_turn(), AsyncSource(as_bytes(answer("Hi.")))
    async with read(turn, source):
        pass
    assert source.closed == 1
    assert turn.closed


async def test_break_closes_the_source_when_the_iterator_is_collected(anyio_backend_name: str) -> None:
    if anyio_backend_name == "trio":
        pytest.skip("trio warns of generators that are left to the garbage collector")
    turn, source = new_turn(), AsyncSource(as_bytes(answer("Hi."))[:2], endless=True)
    async for _ in read(turn, source):
        break
    gc.disable()  # reference counting is enough
    try:
        with anyio.fail_after(PATIENCE):
            while not source.closed:  # noqa: ASYNC110 - the event loop closes it without a notification
                await anyio.sleep(0.001)
    finally:
        gc.enable()
    assert turn.closed


def test_break_closes_a_sync_source_at_once() -> None:
    turn, source = new_turn(), SyncSource(as_bytes(answer("Hi.")))
    gc.disable()
    try:
        for _ in read(turn, source):
            break
        assert source.closed == 1
    finally:
        gc.enable()
    assert turn.closed


def test_the_end_of_a_sync_block_closes_its_source() -> None:
    source = SyncSource(as_bytes(answer("Hi.")))
    with read(new_turn(), source) as events:
        next(events)
        assert source.closed == 0
    assert source.closed == 1


async def test_an_error_at_closing_the_source_does_not_change_the_result() -> None:
    class FailsToClose(AsyncSource):
        async def aclose(self) -> None:
            raise OSError("no")

    turn = new_turn()
    assert await texts(read(turn, FailsToClose(as_bytes(answer("Hi."))))) == "Hi."
    assert turn.error is None


async def test_an_async_source_is_rejected_by_for() -> None:
    with pytest.raises(UsageError, match="async for"):
        list(read(new_turn(), AsyncSource([])))


async def test_an_object_that_is_not_a_source_is_rejected() -> None:
    with pytest.raises(UsageError, match="int"):
        async for _ in read(new_turn(), 3):
            pass


async def test_a_source_of_text_is_rejected_and_closed() -> None:
    source = AsyncSource(["data: {}"])
    with pytest.raises(UsageError, match="bytes"):
        async for _ in read(new_turn(), source):
            pass
    assert source.closed == 1


async def test_a_complete_body_is_a_source() -> None:
    body = b"".join(as_bytes(answer("Hi.")))
    assert await texts(read(new_turn(), body)) == "Hi."
    body_dict = {"id": "1", "object": "chat.completion", "choices": [{"index": 0, "message": {"role": "assistant"}}]}
    body_dict["choices"][0] |= {"message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}  # type: ignore[index, operator]
    assert await texts(read(new_turn(), body_dict)) == "Hi."


# ---------------------------------------------------------------- responses


def transport(status: int, body: bytes, headers: dict[str, str] | None = None) -> httpx.MockTransport:
    async def content() -> AsyncIterator[bytes]:
        for at in range(0, len(body), 7):
            yield body[at : at + 7]

    return httpx.MockTransport(lambda request: httpx.Response(status, headers=headers, content=content()))


async def test_an_httpx_response_is_read_and_closed() -> None:
    body = b"".join(as_bytes(answer("Hi.")))
    turn, http = new_turn(), httpx.AsyncClient(transport=transport(200, body))
    async with http, http.stream("POST", "http://x/") as response:
        assert await texts(read(turn, response)) == "Hi."
        assert response.is_closed
    assert turn.error is None


async def test_the_status_of_a_response_is_passed_to_the_turn() -> None:
    body = b'{"error": {"message": "slow down", "type": "rate_limit"}}'
    turn, http = new_turn(), httpx.AsyncClient(transport=transport(429, body, {"retry-after": "7"}))
    async with http, http.stream("POST", "http://x/") as response:
        events = [event async for event in read(turn, response)]
    assert isinstance(events[-1], Failed)
    assert turn.error is not None
    assert (turn.error.kind, turn.error.status, turn.error.retry_after) == ("provider_error", 429, 7.0)


def sync_response() -> httpx.Response:
    body = b"".join(as_bytes(answer("Hi.")))

    class Stream(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            yield from (body[:50], body[50:])

    return httpx.Response(200, stream=Stream())


def test_a_sync_httpx_response_is_read_with_for() -> None:
    response = sync_response()
    assert [event.text for event in read(new_turn(), response) if isinstance(event, Text)] == ["Hi."]
    assert response.is_closed


async def test_a_sync_httpx_response_can_be_read_with_async_for() -> None:
    response = sync_response()
    assert await texts(read(new_turn(), response)) == "Hi."
    assert response.is_closed


async def test_a_response_with_an_async_iter_bytes_is_read() -> None:
    class Raw:  # the form of openai's with_streaming_response
        status_code = 200
        headers = httpx.Headers()
        closed = False

        async def iter_bytes(self) -> AsyncIterator[bytes]:
            for data in as_bytes(answer("Hi.")):
                yield data

        async def close(self) -> None:
            self.closed = True

    response = Raw()
    assert await texts(read(new_turn(), response)) == "Hi."
    assert response.closed
    with pytest.raises(UsageError, match="async for"):
        list(read(new_turn(), Raw()))


class AiohttpBody:
    """The reader in ``aiohttp.ClientResponse.content``."""

    def __init__(self, data: list[bytes]) -> None:
        self.data = data

    async def iter_any(self) -> AsyncIterator[bytes]:
        for each in self.data:
            yield each


class AiohttpResponse:
    def __init__(self, status: int, data: list[bytes], headers: dict[str, str] | None = None) -> None:
        self.status, self.headers, self.content = status, headers or {}, AiohttpBody(data)
        self.closed = False

    def close(self) -> None:
        self.closed = True


async def test_a_response_of_aiohttp_is_read_with_its_status_and_closed() -> None:
    response = AiohttpResponse(200, as_bytes(answer("Hi.")))
    assert await texts(read(new_turn(), response)) == "Hi."
    assert response.closed
    turn = new_turn()
    async for _ in read(turn, AiohttpResponse(429, [b'{"error": {"message": "slow"}}'], {"Retry-After": "7"})):
        pass
    assert turn.error is not None
    assert (turn.error.message, turn.error.status, turn.error.retry_after) == ("slow", 429, 7.0)
    with pytest.raises(UsageError, match="async for"):
        list(read(new_turn(), AiohttpResponse(200, [])))


@pytest.mark.parametrize("name", ["status_code", "status"])  # of requests, of urllib3
def test_the_status_of_a_response_that_iterates_over_its_body_is_passed_to_the_turn(name: str) -> None:
    source = SyncSource([b'{"error": {"message": "slow"}}'])
    vars(source).update({name: 429, "headers": {"retry-after": "7"}})
    turn = new_turn()
    list(read(turn, source))
    assert turn.error is not None
    assert (turn.error.message, turn.error.status, turn.error.retry_after) == ("slow", 429, 7.0)
    source = SyncSource([b"<html>no upstream</html>"])
    vars(source).update({name: 502, "headers": {}})
    turn = new_turn()
    list(read(turn, source))
    assert turn.error is not None
    assert (turn.error.kind, turn.error.status) == ("provider_error", 502)


@pytest.mark.parametrize("member", ["stream", "body"])  # of converse_stream, of invoke_model_with_response_stream
async def test_the_response_of_boto3_is_read_by_its_stream(member: str) -> None:
    source = AsyncSource(answer("Hi."))
    response = {"ResponseMetadata": {"HTTPStatusCode": 200}, member: source}
    assert await texts(read(new_turn(), response)) == "Hi."
    assert source.closed == 1


class Body:
    """A response whose body ends after the terminator, or never."""

    status_code = 200
    headers = httpx.Headers()

    def __init__(self, endless: bool) -> None:
        self.endless = endless
        self.ended = ""
        self.closed = False

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        try:
            for data in as_bytes(answer("Hi.")):
                yield data
            await anyio.lowlevel.checkpoint()
            if self.endless:
                await anyio.sleep_forever()
            self.ended = "read to its end"
        finally:
            self.ended = self.ended or "abandoned"

    async def aclose(self) -> None:
        self.closed = True


@pytest.mark.parametrize(("endless", "ended"), [(False, "read to its end"), (True, "abandoned")])
async def test_the_body_is_read_to_its_end_if_it_ends_at_once(endless: bool, ended: str) -> None:
    response = Body(endless)
    with anyio.fail_after(PATIENCE):
        assert await texts(read(new_turn(), response)) == "Hi."
    assert response.ended == ended
    assert response.closed


class Flood(Body):
    """A response whose body always has more, so that nothing waits and no cancellation is delivered."""

    size = 0

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        yield as_bytes(answer("Hi."))[0]
        while True:
            self.size += 65_536
            yield b":" + b" " * 65_534 + b"\n"


async def test_a_body_that_never_waits_is_left() -> None:
    """It was read on for 10,922 parts after the reader had left: minutes, in which the upstream was asked on."""
    response = Flood(endless=True)
    reader = read(new_turn(), response)
    await anext(aiter(reader))
    await reader.aclose()
    assert response.size <= 1_000_000
    assert response.closed


# ---------------------------------------------------------------- errors of the program, and errors that nobody reads


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_defect_of_a_source_propagates(kind: str) -> None:
    def broken() -> Any:
        yield {"type": "message_start", "message": {"id": "m", "model": "m", "usage": {}}}
        raise NameError("gone")

    async def broken_async() -> Any:
        for chunk in broken():
            yield chunk

    turn = Turn("anthropic")
    with pytest.raises(NameError, match="gone"):  # noqa: PT012 - one of two loops
        if kind == "sync":
            list(read(turn, broken()))
        else:
            [event async for event in read(turn, broken_async())]
    assert turn.closed
    assert turn.error is not None


async def test_a_second_loop_over_a_reader_is_rejected() -> None:
    events = read(Turn("anthropic", turn_key="t"), [])
    assert [event async for event in events]
    with pytest.raises(UsageError, match="were read"):
        [event async for event in events]
    events = read(Turn("anthropic", turn_key="t"), [])
    assert list(events)
    with pytest.raises(UsageError, match="were read"):
        list(events)


async def test_a_turn_is_read_once() -> None:
    turn = Turn("anthropic", turn_key="t")
    list(read(turn, []))
    with pytest.raises(UsageError, match="make a new Turn"):
        read(turn, [])
    with pytest.raises(UsageError, match="takes a Turn"):
        read("anthropic", [])  # type: ignore[arg-type]
    assert turn.error is not None


async def test_a_reader_that_is_never_read_is_a_warning() -> None:
    events = [read(Turn("anthropic"), [])]
    with pytest.warns(RuntimeWarning, match="never read"):
        events.clear()


@pytest.mark.usefixtures("small_heap")
@pytest.mark.parametrize("looks", [True, False])
@pytest.mark.parametrize("how", ["for", "async for", "left"])
async def test_an_error_that_is_not_read_is_logged(looks: bool, how: str, caplog: pytest.LogCaptureFixture) -> None:
    turn_key = f"of {how}, {looks}"
    turn = Turn("anthropic", turn_key=turn_key)
    if how == "for":
        list(read(turn, []))
    elif how == "async for":
        [event async for event in read(turn, [])]
    else:
        async with read(turn, []):
            pass
    caplog.clear()
    if looks and how != "left":  # without a loop the turn was closed by hand
        with pytest.raises(StreamInterrupted):
            turn.raise_for_error()
    del turn
    gc.collect()
    records = [(each.name, each.levelname) for each in caplog.records if turn_key in each.getMessage()]
    assert records == ([] if looks or how == "left" else [("streamkit", "WARNING")])
