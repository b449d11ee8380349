"""Runs over real HTTP: leaving closes the connection at any moment; failed requests are retried.

The embedded server sees what a provider would see, and refuses what a provider would refuse.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anthropic
import anyio
import anyio.lowlevel
import httpx
import openai
import pytest
from execution.fake_model import calls_with_status
from waiting import PATIENCE, wait_until

from streamkit import Content, Retries, RunState, StreamInterrupted, Timeouts, run_loop, tool
from streamkit.events import Event, Failed, ToolTimedOut, Warned
from streamkit.testing import Call, Disconnect, Reply, Request, Server, Stall, Status, serve

pytestmark = pytest.mark.anyio

HISTORY = [Content.system("Be brief."), Content.human("Weather in Oslo?")]
PATHS = {"anthropic": "/v1/messages", "openai_chat": "/chat/completions", "openai_responses": "/responses"}
OSLO = Call("get_weather", {"city": "Oslo"})
ENDLESS = 30.0  # seconds; no test waits for it


class Weather:
    """Tools that never end by themselves, and one that does."""

    def __init__(self) -> None:
        self.running = 0
        self.begun = anyio.Event()

    async def hang(self) -> None:
        self.running += 1
        self.begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.running -= 1

    @property
    def tools(self) -> list[Any]:
        @tool(eager=True)
        async def look(city: str) -> None:
            await self.hang()

        async def walk(city: str) -> None:
            await self.hang()

        async def get_weather(city: str) -> str:
            return f"{city}: rain"

        @tool(approval="ask")
        async def book(city: str) -> str:
            return f"booked {city}"

        return [look, walk, get_weather, book]


class Http:
    """A client of the server, as ``create_new_stream``."""

    def __init__(self, server: Server, client: httpx.AsyncClient, conversation: str = "") -> None:
        self.server = server
        self.client = client
        self.conversation = conversation

    def __call__(self, context: Any) -> Any:
        name = context.provider.name
        url = self.server.base_url(name, self.conversation) + PATHS[name]
        fields = {"max_tokens": 64} if name == "anthropic" else {}
        return self.client.stream("POST", url, json={"model": "m", **fields, **context.request})

    @property
    def connections(self) -> list[Any]:
        pool = self.client._transport._pool  # type: ignore[attr-defined]
        assert pool._requests == []  # no request waits for a connection
        return list(pool.connections)


@asynccontextmanager
async def http(script: Any, **options: Any) -> AsyncIterator[Http]:
    async with serve(script, **options) as server, httpx.AsyncClient(timeout=PATIENCE) as client:
        yield Http(server, client)


def loop(ask: Any, tools: Any = (), provider: str = "anthropic", **more: Any) -> Any:
    given = {"provider": provider, "tools": tools, "run_key": "k"} | more
    if "resume" in given:
        return run_loop(ask, **{name: value for name, value in given.items() if name != "run_key"})
    return run_loop(ask, history=HISTORY, **given)


def wait_until_seen_by(server: Server, what: Callable[[], bool]) -> None:
    """Wait, without running the client's event loop, until the server's thread has observed something."""
    wait_until(what, lambda: [(each.status, each.disconnected) for each in server.requests])


async def collect_events(run: Any) -> list[Event]:
    async with run:
        return [event async for event in run]


# ---------------------------------------------------------------- leaving early


class OwnError(Exception):
    """Of the reader's own code."""


async def leave_by_break(run: Any, there: Callable[[Event], bool]) -> None:
    async with run:
        async for event in run:
            if there(event):
                break


async def leave_by_exception(run: Any, there: Callable[[Event], bool]) -> None:
    with pytest.raises(OwnError):  # noqa: PT012 - the block is what is left
        async with run:
            async for event in run:
                if there(event):
                    raise OwnError


async def leave_by_cancellation(run: Any, there: Callable[[Event], bool]) -> None:
    """Cancel the reader while it waits for the next event."""
    with anyio.CancelScope() as scope:
        async with run:
            async for event in run:
                if there(event):
                    scope.cancel()
    assert scope.cancelled_caught


async def leave_by_closing_a_generator(run: Any, there: Callable[[Event], bool]) -> None:
    """Close the generator of a response from another task, as web frameworks do."""

    async def body() -> AsyncIterator[Event]:
        async with run:
            async for event in run:
                yield event

    events = body()
    async for event in events:
        if there(event):
            break
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(events.aclose)  # type: ignore[attr-defined]


WAYS = [leave_by_break, leave_by_exception, leave_by_cancellation, leave_by_closing_a_generator]

#: Where a run is left: the response of the model, the event, and if the response was still arriving.
MOMENTS: dict[str, tuple[Reply, Callable[[Event], bool]]] = {
    "in the middle of text": (
        Reply("Let me look at the weather.", Stall(ENDLESS), "more"),
        lambda event: event.type == "text",
    ),
    "at the start of a call": (
        Reply(Call("walk", {"city": "Oslo"}), Stall(ENDLESS), "more"),
        lambda event: event.type == "tool_call_start",
    ),
    "while an eager tool runs": (
        # The event of the tool comes with the first input after its start.
        Reply(Call("look", {"city": "Oslo"}), *(["so", Stall(0.05)] * 100), Stall(ENDLESS), "more"),
        lambda event: event.type == "tool_running",
    ),
}


@pytest.mark.parametrize("leave", WAYS)
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("provider", ["anthropic", "openai_chat"])
async def test_leaving_closes_the_connection_before_the_block_is_left(leave: Any, moment: str, provider: str) -> None:
    reply, there = MOMENTS[moment]
    if moment == "while an eager tool runs" and provider == "openai_chat":
        pytest.skip("there a call is known to be whole only when another one begins")
    weather = Weather()
    async with http(reply) as ask:
        run = loop(ask, weather.tools, provider)
        await leave(run, there)
        assert ask.connections == []
        wait_until_seen_by(ask.server, lambda: ask.server.requests[0].disconnected)
    assert weather.running == 0
    assert weather.begun.is_set() == (moment == "while an eager tool runs")
    assert run.ended == "canceled"
    assert run.contents[0].metadata["interrupted"] is True
    calls_with_status(run.contents)  # each call has its result


@pytest.mark.parametrize("leave", WAYS)
async def test_leaving_at_the_first_event_makes_no_request(leave: Any) -> None:
    async with http("never asked for") as ask:
        run = loop(ask)
        await leave(run, lambda event: event.type == "round_started")
        assert ask.connections == []
        # A reader who is cancelled learns of it where it waits, which may be where the request was sent already.
        assert leave is leave_by_cancellation or ask.server.requests == []
    assert (run.ended, run.contents) == ("canceled", [])


@pytest.mark.parametrize("leave", WAYS)
async def test_leaving_while_a_tool_runs_leaves_a_connection_that_others_can_use(leave: Any) -> None:
    weather = Weather()
    async with http(lambda request: Reply("Now.", Call("walk", {"city": "Oslo"}))) as ask:
        for _ in range(3):
            run = loop(ask, weather.tools)
            await leave(run, lambda event: event.type == "tool_running")
            assert weather.running == 0
            assert [connection.is_idle() for connection in ask.connections] == [True]
            assert calls_with_status(run.contents) == [("walk", "canceled")]
        assert [request.disconnected for request in ask.server.requests] == [False] * 3


@pytest.mark.parametrize("often", [1, 2, 5])
async def test_asyncio_may_cancel_more_than_once(anyio_backend_name: str, often: int) -> None:
    """Cancel hanging tasks repeatedly, as a server does that shuts down.

    Cancelled a second time while httpcore closes its connection, httpx leaves that in its pool, also without us
    (measured with httpcore 1.0.9); everything of ours has ended all the same.
    """
    if anyio_backend_name != "asyncio":
        pytest.skip("Task.cancel() is asyncio's")
    weather = Weather()
    async with http(Reply(Call("look", {"city": "Oslo"}), "so", Stall(ENDLESS), "more")) as ask:
        run = loop(ask, weather.tools)
        task = asyncio.create_task(collect_events(run))
        await weather.begun.wait()
        for _ in range(often):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert weather.running == 0
        if often == 1:
            assert ask.connections == []
            wait_until_seen_by(ask.server, lambda: ask.server.requests[0].disconnected)
    assert run.ended == "canceled"


@pytest.mark.slow
@pytest.mark.parametrize("leave", WAYS)
async def test_unread_data_is_released(leave: Any) -> None:
    """Many small frames that came by one read: nothing of httpx is left to the collector, of which trio would warn."""
    async with http(Reply("word " * 400, Stall(ENDLESS), "more"), delta_size=1) as ask:
        for number in range(5):
            asking = Http(ask.server, ask.client, f"c{number}")
            await leave(loop(asking), lambda event: event.type == "text")
            assert asking.connections == []
        gc.collect()
        await anyio.lowlevel.checkpoint()
        wait_until_seen_by(ask.server, lambda: all(request.disconnected for request in ask.server.requests))


async def test_cancellation_before_the_response_has_started_leaves_no_connection() -> None:
    asked = anyio.Event()

    async def silence(request: Request) -> str:
        await asyncio.sleep(ENDLESS)  # in the server's own event loop
        return "late"

    async with http(silence) as ask:
        run = loop(ask)

        async def watch_requests() -> None:
            while not ask.server.requests:  # noqa: ASYNC110 - it is in another thread
                await anyio.sleep(0.001)
            asked.set()

        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watch_requests)
                tasks.start_soon(collect_events, run)
                await asked.wait()
                scope.cancel()
        assert ask.connections == []
    assert (run.ended, run.contents) == ("canceled", [])


async def test_a_run_that_ends_leaves_one_idle_connection() -> None:
    async with http([Reply("Let me look.", OSLO), Reply("It rains.")]) as ask:
        run = await loop(ask, Weather().tools)
        assert (run.ended, run.text) == ("answered", "It rains.")
        assert [connection.is_idle() for connection in ask.connections] == [True]
        assert [request.disconnected for request in ask.server.requests] == [False, False]
        assert len({request.headers["host"] for request in ask.server.requests}) == 1


async def test_50_concurrent_runs_left_at_any_moment_leave_no_connection() -> None:
    weather = Weather()
    script = [Reply("Let me look.", OSLO, Call("look", {"city": "Bergen"}), "so", Stall(ENDLESS)), Reply("never")]
    async with serve(script) as server, httpx.AsyncClient(limits=httpx.Limits(max_connections=60)) as client:
        asks = [Http(server, client, f"c{number}") for number in range(50)]
        runs = [loop(ask, weather.tools) for ask in asks]

        async def leave(number: int) -> None:
            seen = 0
            async with runs[number] as run:
                async for _ in run:
                    seen += 1
                    if seen > number % 9:
                        break

        with anyio.move_on_after(5) as scope:
            async with anyio.create_task_group() as tasks:
                for number in range(50):
                    tasks.start_soon(leave, number)
        assert not scope.cancelled_caught
        assert asks[0].connections == []
        wait_until_seen_by(server, lambda: all(request.disconnected for request in server.requests))
    assert weather.running == 0


# ---------------------------------------------------------------- retries


def warnings_of(events: list[Event]) -> list[str]:
    return [event.code for event in events if isinstance(event, Warned)]


@pytest.mark.parametrize("provider", PATHS)
async def test_rejected_requests_are_retried_after_the_providers_delay(provider: str) -> None:
    refusals = [Status(429, "slow down", retry_after=0.01), Status(500, retry_after=0.01), Status(529, retry_after=0.0)]
    async with http([*refusals, Reply("Let me look.", OSLO), refusals[0], Reply("It rains.")]) as ask:
        run = loop(ask, Weather().tools, provider, retries=3)
        events = await collect_events(run)
        assert [request.status for request in ask.server.requests] == [429, 500, 529, 200, 429, 200]
        assert len(ask.connections) <= 1
        assert all(connection.is_idle() for connection in ask.connections)
    assert (run.ended, run.text) == ("answered", "It rains.")
    assert warnings_of(events) == ["request_retried"] * 4
    assert not any(isinstance(event, Failed) for event in events)
    assert calls_with_status(run.contents) == [("get_weather", "completed")]


@pytest.mark.parametrize(
    ("refusal", "retries", "made"),
    [
        (Status(429, "slow down", retry_after=0.0), 2, 3),
        (Status(429, "come back tomorrow", retry_after=86400), 2, 1),
        (Status(400, "no such model"), 2, 1),
        (Status(529, "overloaded"), 0, 1),
    ],
)
async def test_a_request_that_is_always_rejected_ends_the_run_with_the_providers_message(
    refusal: Status, retries: int, made: int
) -> None:
    async with http(lambda request: refusal) as ask:
        run = loop(ask, retries=retries)
        with pytest.raises(StreamInterrupted) as caught:
            await collect_events(run)
        assert len(ask.server.requests) == made
        assert all(connection.is_idle() for connection in ask.connections)
    assert caught.value.error.kind == "provider_error"
    assert caught.value.error.status == refusal.status
    assert caught.value.error.retry_after == refusal.retry_after
    assert refusal.message in caught.value.error.message
    assert (run.ended, run.contents) == ("error", [])


# (Anthropic's first event, the tokens of its prompt, comes before any text.)
@pytest.mark.parametrize("provider", ["openai_chat", "openai_responses"])
async def test_a_connection_lost_before_the_first_event_is_retried(provider: str) -> None:
    async with http([Reply(Disconnect()), Reply("It rains.")]) as ask:
        run = loop(ask, provider=provider, retries=1)
        events = await collect_events(run)
        assert len(ask.server.requests) == 2
    assert (run.ended, run.text) == ("answered", "It rains.")
    assert warnings_of(events) == ["request_retried"]


@pytest.mark.parametrize("provider", PATHS)
async def test_a_connection_lost_after_the_first_event_is_not_retried(provider: str) -> None:
    async with http([Reply("It ", Disconnect(), "rains."), Reply("never asked for")]) as ask:
        run = loop(ask, provider=provider, retries=Retries(requests=1, fallbacks=["openai_chat"]))
        with pytest.raises(StreamInterrupted) as caught:
            await collect_events(run)
        assert ask.connections == []
        assert len(ask.server.requests) == 1
    assert caught.value.error.kind == "transport_error"
    assert caught.value.turn.text == "It "
    assert run.ended == "error"
    assert [content.metadata["interrupted"] for content in run.contents] == [True]


async def test_a_connection_lost_while_an_eager_tool_runs_stops_it() -> None:
    weather = Weather()
    async with http(Reply(Call("look", {"city": "Oslo"}), "so", Stall(2), Disconnect())) as ask:
        run = loop(ask, weather.tools, retries=3)
        with pytest.raises(StreamInterrupted):
            await collect_events(run)
        assert len(ask.server.requests) == 1
    assert weather.begun.is_set()
    assert weather.running == 0
    assert run.ended == "error"
    assert run.contents[0].metadata["interrupted"] is True
    assert calls_with_status(run.contents) == [("look", "canceled")]


async def test_a_refused_connection_is_a_transport_error() -> None:
    async with httpx.AsyncClient() as client:
        run = run_loop(
            lambda context: client.stream("POST", "http://127.0.0.1:9/", json=context.request),
            provider="anthropic",
            history=HISTORY,
        )
        with pytest.raises(StreamInterrupted) as caught:
            await run
    assert caught.value.error.kind == "transport_error"
    assert isinstance(caught.value.__cause__, httpx.ConnectError)


@pytest.mark.parametrize(("first", "second"), [("anthropic", "openai_chat"), ("openai_responses", "anthropic")])
async def test_a_fallback_continues_over_another_wire_when_the_first_provider_fails(first: str, second: str) -> None:
    """Fall back in the second round, with calls and results that another provider made."""

    def script(request: Request) -> Reply | Status:
        if request.provider == second:
            return Reply("It rains in Oslo.")
        return Reply("Let me look.", OSLO, OSLO) if request.number == 0 else Status(529, "overloaded", retry_after=0.0)

    async with http(script) as ask:
        run = loop(ask, Weather().tools, first, retries=Retries(requests=1, fallbacks=[second]))
        events = await collect_events(run)
        assert [(request.provider, request.status) for request in ask.server.requests] == [
            (first, 200),
            (first, 529),
            (first, 529),
            (second, 200),
        ]
    assert (run.ended, run.text) == ("answered", "It rains in Oslo.")
    assert warnings_of(events) == ["request_retried", "provider_fallback"]
    assert calls_with_status(run.contents) == [("get_weather", "completed")] * 2


# ---------------------------------------------------------------- pausing


@pytest.mark.parametrize(("first", "second"), [("anthropic", "anthropic"), ("openai_chat", "anthropic")])
async def test_a_run_that_awaits_approval_has_no_connection_and_resumes_in_another_client(
    first: str, second: str
) -> None:
    script = [Reply("Let me see.", OSLO, Call("book", {"city": "Oslo"}), Call("book", {"city": "Bergen"}))]
    async with http(script) as ask:
        run = await loop(ask, Weather().tools, first)
        assert run.ended == "awaiting_approval"
        assert all(connection.is_idle() for connection in ask.connections)
        stored = run.state.model_dump_json()
        oslo, bergen = [call.id for call in run.pending]
    async with http(Reply("Booked.")) as ask:  # later, elsewhere
        state = RunState.model_validate_json(stored)
        resumed = await loop(ask, Weather().tools, second, resume=state.answer(approvals={oslo: True, bergen: False}))
        assert [request.status for request in ask.server.requests] == [200]  # it refuses what the provider would
    assert (resumed.ended, resumed.text) == ("answered", "Booked.")
    assert calls_with_status(resumed.contents) == [
        ("get_weather", "completed"),
        ("book", "completed"),
        ("book", "denied"),
    ]


# ---------------------------------------------------------------- time


@pytest.mark.parametrize(
    "reply", [Reply(Stall(ENDLESS), "late"), Reply("It ", Stall(ENDLESS), "rains.")], ids=["before", "within"]
)
async def test_run_timeout_closes_a_stalled_response(reply: Reply) -> None:
    async with http(reply) as ask:
        run = loop(ask, timeouts=Timeouts(run=0.3))
        with pytest.raises(StreamInterrupted, match="timed_out"):
            await run
        assert ask.connections == []
        wait_until_seen_by(ask.server, lambda: ask.server.requests[0].disconnected)
    assert run.ended == "timed_out"
    assert [content.metadata["interrupted"] for content in run.contents] == [True] * bool(run.text)


async def test_run_timeout_before_the_response_has_started() -> None:
    async def silence(request: Request) -> str:
        await asyncio.sleep(ENDLESS)
        return "late"

    async with http(silence) as ask:
        run = loop(ask, timeouts=Timeouts(run=0.3), retries=3)
        with pytest.raises(StreamInterrupted, match="timed_out"):
            await run
        assert ask.connections == []
    assert (run.ended, run.contents) == ("timed_out", [])


async def test_run_timeout_while_a_tool_runs_gives_its_result() -> None:
    async with http([Reply("Now.", Call("walk", {"city": "Oslo"})), Reply("never asked for")]) as ask:
        run = loop(ask, Weather().tools, timeouts=Timeouts(call=None, run=2))
        events = await collect_events(run)
        assert len(ask.server.requests) == 1
    assert run.ended == "timed_out"
    assert calls_with_status(run.contents) == [("walk", "timed_out")]
    assert any(isinstance(event, ToolTimedOut) for event in events)


# ---------------------------------------------------------------- the official SDKs as create_new_stream


def ask_openai(client: Any, streams: list[Any]) -> Any:
    async def ask(context: Any) -> Any:
        streams.append(await client.chat.completions.create(model="m", **context.request))
        return streams[-1]

    return ask


def ask_openai_by_block(client: Any, streams: list[Any]) -> Any:
    def ask(context: Any) -> Any:
        fields = {name: value for name, value in context.request.items() if name != "stream"}
        return client.chat.completions.stream(model="m", **fields)

    return ask


def ask_responses(client: Any, streams: list[Any]) -> Any:
    async def ask(context: Any) -> Any:
        streams.append(await client.responses.create(model="m", **context.request))
        return streams[-1]

    return ask


def ask_anthropic(client: Any, streams: list[Any]) -> Any:
    async def ask(context: Any) -> Any:
        streams.append(await client.messages.create(model="m", max_tokens=64, **context.request))
        return streams[-1]

    return ask


def ask_anthropic_by_block(client: Any, streams: list[Any]) -> Any:
    def ask(context: Any) -> Any:
        fields = {name: value for name, value in context.request.items() if name != "stream"}
        return client.messages.stream(model="m", max_tokens=64, **fields)

    return ask


SDKS: dict[str, tuple[str, Any, Any]] = {
    "openai": ("openai_chat", openai.AsyncOpenAI, ask_openai),
    "openai, by its block": ("openai_chat", openai.AsyncOpenAI, ask_openai_by_block),
    "openai responses": ("openai_responses", openai.AsyncOpenAI, ask_responses),
    "anthropic": ("anthropic", anthropic.AsyncAnthropic, ask_anthropic),
    "anthropic, by its block": ("anthropic", anthropic.AsyncAnthropic, ask_anthropic_by_block),
}


@asynccontextmanager
async def sdk(which: str, script: Any) -> AsyncIterator[tuple[Server, str, Any, list[Any], Any]]:
    provider, kind, ask = SDKS[which]
    streams: list[Any] = []
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serve(script))
        client = await stack.enter_async_context(kind(base_url=server.base_url(provider), api_key="k", max_retries=0))
        yield server, provider, ask(client, streams), streams, client


def skip_where_the_sdk_warns(which: str, backend: str) -> None:
    """openai leaves three generators to the collector when it has read ``[DONE]``, and trio warns; also without us."""
    if which in ("openai", "openai, by its block") and backend == "trio":
        pytest.skip("openai 3.54 itself does not end its generators behind [DONE]")


def pool_of(client: Any) -> list[Any]:
    return list(client._client._transport._pool.connections)


@pytest.mark.slow
@pytest.mark.parametrize("leave", WAYS)
@pytest.mark.parametrize("which", SDKS)
async def test_leaving_a_response_of_an_sdk_closes_its_stream(which: str, leave: Any) -> None:
    async with sdk(which, Reply("It", Stall(ENDLESS), "rains.")) as (server, provider, ask, streams, client):
        await leave(loop(ask, provider=provider), lambda event: event.type == "text")
        assert all(stream.response.is_closed for stream in streams)
        assert pool_of(client) == []
        wait_until_seen_by(server, lambda: server.requests[0].disconnected)
        streams.clear()
        gc.collect()  # what is left to the collector warns here
        await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("which", SDKS)
async def test_a_complete_conversation_with_an_sdk(which: str, anyio_backend_name: str) -> None:
    skip_where_the_sdk_warns(which, anyio_backend_name)
    script = [Reply("Let me look.", OSLO, OSLO), Reply("It rains.")]
    async with sdk(which, script) as (
        server,
        provider,
        ask,
        streams,
        _,
    ):
        run = await loop(ask, Weather().tools, provider)
        assert [request.status for request in server.requests] == [200, 200]
        assert all(stream.response.is_closed for stream in streams)
    assert (run.ended, run.text) == ("answered", "It rains.")
    assert calls_with_status(run.contents) == [("get_weather", "completed")] * 2


@pytest.mark.slow
@pytest.mark.parametrize("leave", WAYS)
@pytest.mark.parametrize("which", SDKS)
async def test_leaving_the_second_response_of_an_sdk_closes_its_stream(
    which: str, leave: Any, anyio_backend_name: str
) -> None:
    skip_where_the_sdk_warns(which, anyio_backend_name)
    script = [Reply("Let me look.", OSLO), Reply("It", Stall(ENDLESS), "rains.")]
    async with sdk(which, script) as (server, provider, ask, streams, client):
        run = loop(ask, Weather().tools, provider)
        await leave(run, lambda event: event.type == "text" and run.rounds == 2)
        assert all(stream.response.is_closed for stream in streams)
        assert pool_of(client) == []
        wait_until_seen_by(server, lambda: server.requests[1].disconnected)
        streams.clear()
        gc.collect()  # what is left to the collector warns here
        await anyio.lowlevel.checkpoint()
    assert not server.requests[0].disconnected


@pytest.mark.parametrize("which", ["openai responses", "anthropic"])
async def test_the_exception_of_an_sdk_for_a_rejected_request_is_the_turns_error(which: str) -> None:
    script = [Status(429, "slow down", retry_after=0.0), Reply("It rains.")]
    async with sdk(which, script) as (
        server,
        provider,
        ask,
        *_,
    ):
        run = loop(ask, provider=provider, retries=1)
        events = await collect_events(run)
        assert [request.status for request in server.requests] == [429, 200]
    assert (run.ended, run.text) == ("answered", "It rains.")
    assert warnings_of(events) == ["request_retried"]
