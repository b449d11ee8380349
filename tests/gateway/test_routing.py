"""Which upstream is asked for a model, and which one is left alone after it has failed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import anyio
import httpx
import pytest
from gateway.gateway_clients import CLIENTS, Json, client_of, read_turn
from gateway.gateway_server import Target, serve_gateway, serve_responses
from waiting import PATIENCE

from streamkit import Turn
from streamkit.calls import StreamError
from streamkit.errors import UsageError
from streamkit.events import Finished, ResponseStarted, Text
from streamkit.gateway import Cooldowns, Exchange, Gateway, Upstream, UpstreamRequest
from streamkit.gateway.routing import Candidate, ModelNotFound, Router
from streamkit.providers import writer

JSON = {"content-type": "application/json"}
SSE = {"content-type": "text/event-stream"}


def answer(text: str, provider: str = "openai_chat") -> bytes:
    live = writer(provider, response_id="r", model="m")
    return b"".join(
        [*map(live.write, (ResponseStarted("r", "m"), Text(text, block=0), Finished("stop"))), live.close()]
    )


def refused(status: int, **headers: str) -> tuple[int, Json, bytes]:
    return status, {**JSON, **{name.replace("_", "-"): value for name, value in headers.items()}}, b'{"error": "no"}'


def upstream(models: Mapping[str, str] | Sequence[str] = (), provider: str = "openai_chat") -> Upstream:
    return Upstream(provider=provider, ask=lambda request: nullcontext(), models=models)


def found(model: str | None, *models: Mapping[str, str] | Sequence[str]) -> list[tuple[int, str]]:
    """Return the numbers of the upstreams that are asked for a model, and their names of it."""
    router = Router([upstream(each) for each in models])
    return [(each.position, each.model) for each in router.find(None, {} if model is None else {"model": model})]


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("model", "models", "expected"),
    [
        # Upstreams without names are asked in their order, and one with a model for every name is one of them.
        ("m", [(), ()], [(1, "m"), (2, "m")]),
        ("m", [(), {"*": "x"}], [(1, "m"), (2, "x")]),
        (None, [{"*": "x"}], [(1, "x")]),
        # The one that names the model comes first; of the others those that take every name.
        ("gpt-5", [(), ["gpt-5"]], [(2, "gpt-5")]),
        ("gpt-5", [(), {"*": "qwen3"}, ["claude-1", "gpt-5"]], [(3, "gpt-5"), (2, "qwen3")]),
        ("gpt-5", [{"*": "*"}, {"gpt-5": "mine"}], [(2, "mine"), (1, "gpt-5")]),
        ("other", [(), ["gpt-5"]], [(1, "other")]),
        # Of those that name it the first one: a table of aliases makes none of them another's fallback.
        ("gpt-5", [["gpt-*"], {"gpt-5": "x", "*": "y"}], [(1, "gpt-5"), (2, "x")]),
        ("gpt-5", [{"*": "x"}, ["gpt-*"], ["gpt-5"]], [(2, "gpt-5"), (3, "gpt-5"), (1, "x")]),
        # Of the names of one upstream the name itself, then the longest pattern.
        ("gpt-5", [{"*": "a", "gpt-*": "b", "gpt-5": "c"}], [(1, "c")]),
        ("gpt-6", [{"*": "a", "gpt-*": "b", "gpt-5": "c"}], [(1, "b")]),
        ("gpt-6-mini", [{"gpt-*": "a", "gpt-*-mini": "b", "g*": "c"}], [(1, "b")]),
        # What a pattern leaves open is a part of the upstream's name.
        ("openai/gpt-5", [{"openai/*": "*"}], [(1, "gpt-5")]),
        ("a-5-latest", [{"a-*-latest": "b-*"}], [(1, "b-5")]),
        ("a--latest", [["a-*-latest"], {"*": "x"}], [(1, "a--latest"), (2, "x")]),
        ("a-latest", [["a-*-latest"], {"*": "x"}], [(2, "x")]),
        ("org/qwen3:8b", [["*:8b"]], [(1, "org/qwen3:8b")]),
    ],
)
def test_the_upstream_that_names_a_model_is_asked_first(
    model: str | None, models: list[Any], expected: list[tuple[int, str]]
) -> None:
    assert found(model, *models) == expected


def test_a_model_that_no_upstream_has_is_not_found_and_the_names_that_there_are_are_listed() -> None:
    with pytest.raises(ModelNotFound, match=r"no model 'x': it has gpt-5, claude-\*"):
        found("x", ["gpt-5"], ["claude-*"])
    with pytest.raises(ModelNotFound, match=r"m0, .*, m49, \.\.\.$"):
        found("x", [f"m{number}" for number in range(60)])


@pytest.mark.parametrize("models", [(), ["m"], {"*": "*"}])
def test_a_request_without_a_model_is_the_clients_error(models: Any) -> None:
    with pytest.raises(UsageError, match="names no model"):
        found(None, models)


def model_of(client: str, name: str) -> tuple[str, Json]:
    path, body = CLIENTS[client]
    return (path.replace("/m:", f"/{name}:"), body) if client == "gemini" else (path, {**body, "model": name})


@pytest.mark.parametrize("client", CLIENTS)
def test_each_client_gets_the_upstream_of_its_model_over_http(client: str) -> None:
    replies = [(200, SSE, answer("of the second"))]
    with (
        serve_responses() as (first, unasked),
        serve_responses(*replies) as (second, requests),
        serve_gateway(
            Target("anthropic", first, models=["claude-*"]),
            Target("openai_chat", second, models={"org/qwen3:8b": "qwen"}),
        ) as url,
    ):
        path, body = model_of(client, "org/qwen3:8b")
        response = httpx.post(url + path, json=body)
        path, body = model_of(client, "gpt-5")
        missing = httpx.post(url + path, json=body)
    assert (response.status_code, read_turn(client, response.content).text) == (200, "of the second")
    assert (json.loads(requests[0].content)["model"], unasked) == ("qwen", [])
    assert missing.status_code == 404
    turn = Turn(client)
    turn.response(404, missing.headers)
    turn.feed(missing.content)
    turn.close()
    assert turn.error is not None
    assert turn.error.code == "not_found"
    assert turn.error.message == "this gateway has no model 'gpt-5': it has claude-*, org/qwen3:8b"


def test_a_count_is_that_of_the_upstream_of_the_model() -> None:
    path, count = "/v1/messages/count_tokens", (200, JSON, b'{"input_tokens": 3}')
    with (
        serve_responses(count) as (first, one),
        serve_responses(count) as (second, two),
        serve_gateway(
            Target("anthropic", first, models=["a"]),
            Target("anthropic", second, models=["b"]),
            Target("openai_chat", "http://127.0.0.1:9", models=["c"]),
        ) as url,
    ):
        statuses = [httpx.post(url + path, json={"model": model}).status_code for model in ("b", "c", "d")]
    assert (statuses, len(one), len(two)) == ([200, 404, 404], 0, 1)


# ---------------------------------------------------------------- failures


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def cooldowns(clock: Clock, **options: float) -> Cooldowns:
    return Cooldowns(clock=clock, random=lambda: 1.0, **options)


A = Candidate(1, upstream(), "m")
LIMITED = StreamError("provider_error", "slow down", code="rate_limited", status=429)


def test_a_stated_time_is_waited_for_and_bounded() -> None:
    clock = Clock()
    state = cooldowns(clock, stated=90)
    for stated, waited in ((60.0, 60.0), (3600.0, 90.0), (0.0, 0.0)):
        state.failures.clear()
        state.fail(A, StreamError("provider_error", "no", code="overloaded", retry_after=stated), is_probe=False)
        assert state.wait(A) == waited
    assert [state.wait(Candidate(2, A.upstream, "m")), state.wait(Candidate(1, A.upstream, "n"))] == [0, 0]


def test_delays_without_a_stated_time_grow_with_each_failure_and_no_further_than_the_longest() -> None:
    clock, waits = Clock(), []
    state = cooldowns(clock, first=1, longest=10)
    for _ in range(6):
        state.fail(A, LIMITED, is_probe=state.probe(A))
        waits.append(state.wait(A))
        clock.now += waits[-1]
    assert waits == [1, 2, 4, 8, 10, 10]
    early = Cooldowns(clock=clock, random=lambda: 0.0)
    early.fail(A, LIMITED, is_probe=False)
    assert early.wait(A) == 0.5


def test_requests_that_were_on_their_way_when_the_upstream_failed_count_as_one_failure() -> None:
    clock = Clock()
    state = cooldowns(clock)
    for _ in range(50):
        state.fail(A, LIMITED, is_probe=False)
    assert state.wait(A) == 1
    state.fail(A, StreamError("provider_error", "no", status=429, retry_after=60.0), is_probe=False)
    state.fail(A, LIMITED, is_probe=False)
    assert state.wait(A) == 60


def test_one_request_at_a_time_asks_an_upstream_whose_time_has_passed() -> None:
    clock = Clock()
    state = cooldowns(clock)
    state.fail(A, LIMITED, is_probe=False)
    clock.now += 2
    assert state.wait(A) == 0
    assert state.probe(A)
    assert state.wait(A) == 1
    state.fail(A, LIMITED, is_probe=False)  # of a request that had begun before
    clock.now += 5
    assert state.wait(A) == 1
    state.release(A)
    assert state.wait(A) == 0


@pytest.mark.parametrize(
    ("error", "has_begun", "is_left_alone"),
    [
        (StreamError("provider_error", "x", status=429), False, True),
        (StreamError("provider_error", "x", status=503), False, True),
        (StreamError("provider_error", "x", status=529, code="overloaded"), False, True),
        (StreamError("provider_error", "x", code="overloaded"), True, True),  # an event of Anthropic's
        (StreamError("provider_error", "x", code="quota_exceeded", status=429), False, True),
        (StreamError("transport_error", "x"), False, True),
        (StreamError("timed_out", "x"), False, True),
        (StreamError("transport_error", "x"), True, False),
        (StreamError("provider_error", "x", code="context_overflow", status=429), False, False),  # Groq
        (StreamError("provider_error", "x", status=500), False, False),
        (StreamError("provider_error", "x", code="invalid_request", status=400), False, False),
        (StreamError("provider_error", "x", code="unauthorized", status=401), False, False),
        (StreamError("protocol_error", "x"), False, False),
    ],
)
def test_load_and_lost_connections_are_failures_of_an_upstream(
    error: StreamError, has_begun: bool, is_left_alone: bool
) -> None:
    state = cooldowns(Clock())
    state.fail(A, error, is_probe=False, has_begun=has_begun)
    assert (state.wait(A) > 0) == is_left_alone


def test_failures_of_models_that_clients_make_up_take_no_memory_without_end() -> None:
    state = cooldowns(Clock())
    for number in range(5000):
        state.fail(Candidate(1, A.upstream, f"m{number}"), LIMITED, is_probe=False)
    assert len(state.failures) == 1000
    assert state.wait(Candidate(1, A.upstream, "m4999")) > 0


def test_without_delays_every_request_asks() -> None:
    state = cooldowns(Clock(), longest=0, stated=0)
    state.fail(A, LIMITED, is_probe=False)
    assert state.failures == {}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("status", [429, 503])
def test_an_upstream_that_stated_a_time_is_not_asked_again_before(client: str, status: int) -> None:
    clock, reports = Clock(), list[Exchange]()
    replies = [refused(status, retry_after="60"), (200, SSE, answer("again"))]
    path, body = CLIENTS[client]
    with (
        serve_responses(*replies) as (address, requests),
        serve_responses(refused(status, retry_after="600")) as (other, others),
        serve_gateway(
            *(Target("openai_chat", each) for each in (address, other)), cooldowns=cooldowns(clock), reports=reports
        ) as url,
    ):
        responses = []
        for seconds in (0.0, 0.5, 59.0, 1.0):
            clock.now += seconds
            responses.append(httpx.post(url + path, json=body))
    assert [response.status_code for response in responses] == [status] * 3 + [200]
    assert [response.headers.get("retry-after") for response in responses] == ["600", "60", "1", None]
    assert (len(requests), len(others)) == (2, 1)
    turn = Turn(client)
    turn.response(status, responses[2].headers)
    turn.feed(responses[2].content)
    turn.close()
    assert turn.error is not None
    assert (turn.error.code, turn.error.retry_after) == ("rate_limited" if status == 429 else "overloaded", 1)
    assert "openai_chat is not asked for 1 more seconds" in turn.error.message
    assert [report.upstream for report in reports] == [2, 0, 0, 1]
    assert reports[1].failures == [
        f"openai_chat: not asked for {seconds} seconds, because it has failed" for seconds in (60, 600)
    ]


def test_the_only_upstream_of_a_model_is_always_asked() -> None:
    """There is no other one to ask, and its client knows from the same header how long to wait."""
    path, body = CLIENTS["openai_chat"]
    with (
        serve_responses(*[refused(429, retry_after="60")] * 2, (200, SSE, answer("again"))) as (address, requests),
        serve_gateway(Target("openai_chat", address), cooldowns=cooldowns(Clock())) as url,
    ):
        responses = [httpx.post(url + path, json=body) for _ in range(3)]
    assert [response.status_code for response in responses] == [429, 429, 200]
    assert len(requests) == 3


def test_the_next_upstream_is_asked_at_once_while_one_is_left_alone_and_the_first_one_after_it() -> None:
    clock, path, body = Clock(), *CLIENTS["openai_chat"]
    first_replies = [refused(529), refused(529), (200, SSE, answer("first")), (200, SSE, answer("first"))]
    with (
        serve_responses(*first_replies) as (first, asked),
        serve_responses(*[(200, SSE, answer("second"))] * 5) as (second, _),
        serve_gateway(Target("openai_chat", first), Target("openai_chat", second), cooldowns=cooldowns(clock)) as url,
    ):
        texts, counts = [], []
        for seconds in (0.0, 0.5, 0.6, 1.5, 0.6, 0.0):
            clock.now += seconds
            texts.append(read_turn("openai_chat", httpx.post(url + path, json=body).content).text)
            counts.append(len(asked))
    assert texts == ["second", "second", "second", "second", "first", "first"]
    assert counts == [1, 1, 2, 2, 3, 4]


def test_clients_get_the_shortest_time_when_all_upstreams_are_left_alone() -> None:
    clock, path, body = Clock(), *CLIENTS["anthropic"]
    with (
        serve_responses(refused(429, retry_after="90")) as (first, _),
        serve_responses(refused(503, retry_after="20")) as (second, _),
        serve_gateway(Target("anthropic", first), Target("openai_chat", second), cooldowns=cooldowns(clock)) as url,
    ):
        httpx.post(url + path, json=body)
        response = httpx.post(url + path, json=body)
    assert (response.status_code, response.headers["retry-after"]) == (503, "20")
    assert response.json()["error"]["type"] == "overloaded_error"
    assert "openai_chat is not asked for 20 more seconds" in response.json()["error"]["message"]


def run(app: Gateway, client: Callable[[httpx.AsyncClient], Any]) -> Any:
    async def main() -> Any:
        async with client_of(app) as http:
            with anyio.fail_after(PATIENCE):
                return await client(http)

    return anyio.run(main)


def test_a_silent_upstream_costs_one_request_its_time_limit() -> None:
    """The first request waits for the time limit, which is as short as can be; the others ask the second upstream."""
    asked = [0, 0]

    @asynccontextmanager
    async def ask_in_vain(request: UpstreamRequest) -> AsyncIterator[Any]:
        asked[0] += 1
        await anyio.sleep_forever()
        yield ()

    @asynccontextmanager
    async def ask(request: UpstreamRequest) -> AsyncIterator[Any]:
        asked[1] += 1
        yield [answer("second")]

    silent = Upstream(provider="openai_chat", ask=ask_in_vain, first_event_timeout=0.001)
    app = Gateway(silent, Upstream(provider="openai_chat", ask=ask), cooldowns=cooldowns(Clock()), state_key=b"k" * 16)

    async def client(http: httpx.AsyncClient) -> list[str]:
        path, body = CLIENTS["openai_chat"]
        return [read_turn("openai_chat", (await http.post(path, json=body)).content).text for _ in range(4)]

    assert (run(app, client), asked) == (["second"] * 4, [1, 4])


@asynccontextmanager
async def ask_in_vain(request: UpstreamRequest) -> AsyncIterator[Any]:
    """Ask an upstream that states a long time."""
    asking = httpx.Request("POST", "http://upstream")
    response = httpx.Response(429, headers={"retry-after": "3600"}, request=asking)
    raise httpx.HTTPStatusError("slow down", request=asking, response=response)
    yield ()


@pytest.mark.parametrize("client_leaves", [False, True])
def test_one_request_asks_an_upstream_after_its_time_until_it_ends(client_leaves: bool) -> None:
    """Others that come meanwhile do not ask; if the client of that request leaves, the next one asks."""
    clock, asked, is_open = Clock(), list[str](), anyio.Event()

    @asynccontextmanager
    async def ask(request: UpstreamRequest) -> AsyncIterator[Any]:
        asked.append(request.model)
        if len(asked) == 1:
            raise ConnectionError("no route")
        if len(asked) == 2:
            await is_open.wait()
        yield [answer("here")]

    app = Gateway(
        Upstream(provider="openai_chat", ask=ask),
        Upstream(provider="openai_chat", ask=ask_in_vain),
        cooldowns=cooldowns(clock, stated=3600),
        state_key=b"k" * 16,
    )

    async def client(http: httpx.AsyncClient) -> list[int]:
        path, body = CLIENTS["openai_chat"]
        statuses = [(await http.post(path, json=body)).status_code]
        clock.now += 30

        async def probe() -> None:
            statuses.append((await http.post(path, json=body)).status_code)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(probe)
            while len(asked) < 2:
                await anyio.lowlevel.checkpoint()
            response = await http.post(path, json=body)
            statuses.append(response.status_code)
            assert response.headers["retry-after"] == "1"
            if client_leaves:
                tasks.cancel_scope.cancel()
            else:
                is_open.set()
        statuses.append((await http.post(path, json=body)).status_code)
        return statuses

    served = [429, 502, 200] if client_leaves else [429, 502, 200, 200]
    assert (run(app, client), len(asked)) == (served, 3)
