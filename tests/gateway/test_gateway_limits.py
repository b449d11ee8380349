"""What one client can make the gateway do, with and without a key: paths, names of models, bodies, memory."""

from __future__ import annotations

import gc
import gzip
import json
import re
import tracemalloc
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any

import anyio
import httpx
import pytest
from gateway.gateway_clients import CLIENTS, client_of, read_turn
from hypothesis import given
from hypothesis import strategies as st

from streamkit import providers
from streamkit.cli.gateway import COLLECTIONS
from streamkit.errors import UsageError
from streamkit.events import Finished, ResponseStarted, Text
from streamkit.gateway import Exchange, Gateway, GatewayLimits, Upstream, UpstreamRequest, bodies, routes
from streamkit.providers import writer

KEY = "the-key-of-the-clients"
QUESTION = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
PATH = "/v1/messages"


def answer(provider: str) -> bytes:
    live = writer(provider, response_id="r", model="m")
    return b"".join(map(live.write, (ResponseStarted("r", "m"), Text("Hello."), Finished("stop")))) + live.close()


def gateway(
    provider: str = "anthropic",
    *,
    failure: Exception | None = None,
    models: Mapping[str, str] = MappingProxyType({}),
    **options: Any,
) -> tuple[Gateway, list[UpstreamRequest], list[Exchange]]:
    """Return a gateway over one upstream, the requests of the upstream, and the reports."""
    requests: list[UpstreamRequest] = []
    reports: list[Exchange] = []

    @asynccontextmanager
    async def ask(request: UpstreamRequest) -> AsyncIterator[list[bytes]]:
        requests.append(request)
        if failure is not None:
            raise failure
        yield [answer(provider)]

    upstream = Upstream(provider=provider, ask=ask, endpoint="http://upstream.internal:9", models=models)
    return Gateway(upstream, observe=reports.append, **options), requests, reports


class Client:
    """One request whose body is sent in parts.

    Args:
        app: the gateway.
        path: the path.
        query: the query.
    """

    def __init__(self, app: Gateway, path: str = PATH, query: bytes = b"") -> None:
        self._send, self._receive = anyio.create_memory_object_stream[dict[str, Any]](100)
        self.status: int | None = None
        self.content = b""
        self._app = app
        self._scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "query_string": query,
            "headers": [],
        }

    async def send(self, body: bytes, *, is_last: bool = True) -> None:
        """Send a part of the body, and let the gateway take it."""
        await self._send.send({"type": "http.request", "body": body, "more_body": not is_last})
        await anyio.wait_all_tasks_blocked()

    async def leave(self) -> None:
        """Disconnect."""
        await self._send.send({"type": "http.disconnect"})
        await anyio.wait_all_tasks_blocked()

    async def run(self) -> None:
        """Serve the request."""
        await self._app(self._scope, self._receive.receive, self._take)
        self._send.close()
        self._receive.close()

    async def _take(self, message: Any) -> None:
        self.status = message.get("status", self.status)
        self.content += message.get("body", b"")


def run(app: Gateway, *requests: tuple[Any, ...], **options: Any) -> list[httpx.Response]:
    """Send requests, one after the other, and return the responses."""

    async def main() -> list[httpx.Response]:
        async with client_of(app) as client:
            return [await client.request(*request, **options) for request in requests]

    return anyio.run(main)


# ---------------------------------------------------------------- paths


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/v1" * 20_000, b""),
        ("/" * 60_000, b""),
        ("/v1/models/" + "m" * 60_000, b""),
        (PATH, b"a&" * 20_000),
    ],
    ids=["versions", "slashes", "model", "query"],
)
async def test_a_long_path_is_refused_before_it_is_looked_up(
    path: str, query: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20,000 versions took 47 s of CPU without the key."""
    monkeypatch.setattr(routes, "_ROUTES", None)
    app, _, reports = gateway(key=KEY)
    client = Client(app, path, query=query)
    await client.run()
    assert client.status == 414
    assert b"the path has more than 2048 bytes, or the query more than 8192" in client.content
    assert len(reports[0].path) <= 2048


def test_a_path_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Table(dict[str, Any]):
        lookups = 0

        def get(self, *arguments: Any) -> Any:
            self.lookups += 1
            return super().get(*arguments)

    table = Table(routes._ROUTES)
    monkeypatch.setattr(routes, "_ROUTES", table)
    for count in (1, 10, 500):
        assert routes.find_route("/v1" * count, {}, {}).action == "unknown"
        assert routes.find_route("/v1" * count + "/models/m", {}, {}).model == "m"
    assert table.lookups == 6


SEGMENTS = st.one_of(
    st.sampled_from(
        [*routes._ROUTES, "v1", "v1beta", "api", "openai/deployments", "threads", "models", "model", "m:x"]
    ),
    st.text(max_size=5),
)


@given(st.one_of(st.text(), st.lists(SEGMENTS).map(lambda segments: "/" + "/".join(segments))), st.text(max_size=9))
def test_any_path_has_a_route(path: str, mounted_at: str) -> None:
    """``OPTIONS *`` has no slash."""
    route = routes.find_mounted_route(path, mounted_at, {}, {})[1]
    assert route.model is None or (route.model != "" and route.model in path)
    assert routes.client_provider(route) is not None


@pytest.mark.parametrize("client", routes.CLIENTS)
def test_the_table_has_the_path_of_each_wire(client: str) -> None:
    """Each provider declares its path as a pattern, too, which the embedded server matches."""
    endpoint = providers.get(client).traits.endpoint
    path = re.sub(r"{\w+}", "m", endpoint.route_example)
    match = re.fullmatch(endpoint.route, path)
    assert match is not None
    for prefix in ("", "/v1"):
        route = routes.find_route(prefix + path, {}, {})
        assert (route.client, route.action, route.model) == (client, "respond", match.groupdict().get("model"))
    for further in endpoint.further_paths:
        passed_on = routes.find_route(further.format(model="m"), {}, {})
        assert passed_on.action in ("count_tokens", "embed")
        assert further.endswith(passed_on.path_end)


def test_the_model_of_a_deployment_is_in_the_path() -> None:
    path = "/openai/deployments/m/chat/completions"
    assert routes.find_route(path, {}, {}).model == "m"
    assert routes.find_route("/v1" + path, {}, {}).model == "m"


def test_more_headers_than_a_head_may_have_are_refused() -> None:
    app, requests, _ = gateway()
    (response,) = run(app, ("POST", PATH), json=QUESTION, headers={f"x-{number}": "y" * 90 for number in range(1000)})
    assert (response.status_code, requests) == (431, [])
    assert "the headers have more than 65536 bytes" in response.json()["error"]["message"]


# ---------------------------------------------------------------- names of models


NO_NAMES = [".", "..", "%2e", "%2E%2e", "%252e%252e", ".%2e"]
NO_SEGMENTS = [
    "../x",
    "a/../b",
    "a/..",
    "a//b",
    "/a",
    "a/",
    "a\\..\\b",
    "a%2f..%2fb",
    "a%252F%252e%252e%2fb",
    "a%5c..",
    "m" * 3000,
]
IN_PATH = ["gemini", "bedrock_converse", "bedrock_invoke", "azure_openai"]


@pytest.mark.parametrize("name", [*NO_NAMES, *NO_SEGMENTS])
@pytest.mark.parametrize("provider", IN_PATH)
def test_a_model_that_is_another_path_of_the_upstream_is_refused(provider: str, name: str) -> None:
    app, requests, _ = gateway(provider)
    responses = run(app, ("POST", "/v1/chat/completions"), ("POST", PATH), json={**QUESTION, "model": name})
    assert [response.status_code for response in responses] == [400, 400]
    assert "is no name of a model" in responses[0].json()["error"]["message"]
    assert len(responses[0].content) < 500
    assert requests == []


@pytest.mark.parametrize("models", [{}, {"*": "m"}])
def test_a_long_name_of_a_model_is_refused(models: Mapping[str, str]) -> None:
    """Chat Completions repeats the client's name in every chunk: one of 1 MB made 300 deltas 300 MB."""
    app, requests, _ = gateway("openai_chat", models=models)
    name = {**QUESTION, "model": "m" * 2049}
    responses = run(app, ("POST", "/v1/chat/completions"), ("POST", PATH), ("POST", "/api/chat"), json=name)
    assert [response.status_code for response in responses] == [400] * 3
    assert requests == []


def test_a_long_name_of_the_upstreams_model_is_not_repeated() -> None:
    """With an upstream of the client's wire the client gets what the upstream sends, and not more."""
    live = writer("openai_chat", response_id="r", model="m" * 100_000)
    events = (ResponseStarted("r", "m"), *[Text("x", block=0)] * 20, Finished("stop"))

    sent = [*map(live.write, events), live.close()]

    @asynccontextmanager
    async def ask(request: UpstreamRequest) -> AsyncIterator[list[bytes]]:
        yield sent

    app = Gateway(Upstream(provider="openai_chat", ask=ask))
    (response,) = run(app, ("POST", "/v1/chat/completions"), json={**QUESTION, "stream": True})
    assert b"mmm" in response.content
    assert len(response.content) <= len(b"".join(sent))


@pytest.mark.anyio
@pytest.mark.parametrize("name", [*NO_NAMES, *NO_SEGMENTS[:-1]])
@pytest.mark.parametrize("verb", ["converse", "invoke-with-response-stream"])
async def test_a_model_in_a_path_of_bedrock_is_a_name(verb: str, name: str) -> None:
    app, requests, _ = gateway("bedrock_converse")
    client = Client(app, f"/model/{name}/{verb}")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.run)
        await client.send(json.dumps(QUESTION).encode())
    assert (client.status, requests) == (400, [])


@pytest.mark.parametrize("path", ["/v1beta/models/{}:generateContent", "/v1beta/models/{}:countTokens"])
@pytest.mark.parametrize("name", ["..", "%2e%2e", "%252e"])
def test_a_model_in_a_path_of_gemini_is_a_name(path: str, name: str) -> None:
    app, requests, _ = gateway("gemini")
    (response,) = run(app, ("POST", path.format(name)), json={"contents": [{"parts": [{"text": "hi"}]}]})
    assert (response.status_code, requests) == (400, [])
    assert "is no name of a model" in response.json()["error"]["message"]


@pytest.mark.parametrize("name", NO_NAMES)
def test_dots_are_no_model_where_the_body_has_it_either(name: str) -> None:
    app, requests, _ = gateway()
    (response,) = run(app, ("POST", PATH), json={**QUESTION, "model": name})
    assert (response.status_code, requests) == (400, [])


@pytest.mark.parametrize("name", ["/models/qwen3", "./qwen3.gguf", "a..b", "meta-llama/Llama-3", "llama3:8b"])
def test_other_names_are_sent_in_the_body_as_they_are(name: str) -> None:
    """vLLM's and llama.cpp's own names of a model are paths of files."""
    app, requests, _ = gateway("openai_compatible")
    (response,) = run(app, ("POST", PATH), json={**QUESTION, "model": name})
    assert (response.status_code, requests[0].model) == (200, name)


def test_the_name_of_a_model_of_bedrock_contains_slashes_and_colons() -> None:
    name = "arn:aws:bedrock:us-east-1:123:inference-profile/us.anthropic.claude-3-5-sonnet-v2:0"
    app, requests, _ = gateway("bedrock_converse")
    (response,) = run(app, ("POST", PATH), json={**QUESTION, "model": name})
    assert response.status_code == 200
    assert requests[0].path.startswith("/model/arn%3Aaws%3Abedrock")


# ---------------------------------------------------------------- texts of failed connections


@pytest.mark.parametrize("path", [PATH, "/v1/messages/count_tokens"])
def test_the_text_of_a_failed_connection_is_for_the_log_alone(path: str) -> None:
    failure = ConnectionRefusedError(111, "Connect call failed ('10.0.0.7', 8000) to upstream.internal")
    app, _, reports = gateway(failure=failure)
    (response,) = run(app, ("POST", path), json=QUESTION)
    assert response.status_code == 502
    assert response.json()["error"]["message"] == "the connection to the upstream failed"
    assert "10.0.0.7" not in response.text
    assert "10.0.0.7" in str(reports[0].error)


# ---------------------------------------------------------------- bodies


#: 64 KiB a body; half of that is read at once of all together; 4 uploads.
SMALL = GatewayLimits(body=64 * 1024, bodies=256 * 1024, uploads=4)
PART = b" " * 16 * 1024


def state_of(app: Gateway) -> bodies.Bodies:
    return app._state.bodies


@pytest.mark.anyio
async def test_unfinished_bodies_are_counted_from_their_first_byte_and_shut_nobody_out() -> None:
    """20 clients with 45 MB each of an unfinished body took 860 MB."""
    app, requests, _ = gateway(limits=SMALL)
    clients = [Client(app) for _ in range(20)]
    held = []
    async with anyio.create_task_group() as tasks:
        for client in clients:
            tasks.start_soon(client.run)
            for _ in range(3):
                await client.send(PART, is_last=False)
                held.append(state_of(app).size)
        ordinary = Client(app)
        tasks.start_soon(ordinary.run)
        await ordinary.send(json.dumps(QUESTION).encode())
        refused = [client.status for client in clients]
        for client in clients:
            if client.status is None:
                await client.leave()
    assert max(held) <= SMALL.bodies // 4 + len(PART)
    assert (ordinary.status, len(requests)) == (200, 1)
    assert refused == [408] * 19 + [None]
    assert b"came too slowly, while this gateway had too many to read" in clients[0].content
    assert (state_of(app).size, state_of(app).read_size, state_of(app).reading) == (0, 0, {})


@pytest.mark.anyio
async def test_one_upload_more_ends_the_one_that_began_first() -> None:
    app, _, _ = gateway(limits=SMALL)
    clients = [Client(app) for _ in range(6)]
    async with anyio.create_task_group() as tasks:
        for client in clients:
            tasks.start_soon(client.run)
            await client.send(b"{", is_last=False)
        assert [client.status for client in clients] == [408, 408, None, None, None, None]
        await clients[2].send(json.dumps(QUESTION).encode()[1:])
        for client in clients[3:]:
            await client.leave()
    assert clients[2].status == 200


def test_a_stalled_body_ends_and_a_slow_one_goes_on() -> None:
    """By the clock of trio's tests: no time passes."""
    trio = pytest.importorskip("trio")
    app, _, _ = gateway(limits=GatewayLimits(body_time=30))
    stalled, slow = Client(app), Client(app)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stalled.run)
            tasks.start_soon(slow.run)
            await stalled.send(b"{", is_last=False)
            for _ in range(20):
                await anyio.sleep(8)
                if slow.status is None:
                    await slow.send(b" " * 128 * 1024, is_last=False)
            assert (stalled.status, slow.status) == (408, None)
            await slow.send(json.dumps(QUESTION).encode())

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert b"came too slowly, and is no longer waited for" in stalled.content
    assert slow.status == 200


def test_the_values_of_a_body_are_counted_and_not_its_bytes_alone() -> None:
    """21,000,000 empty objects, 63 MB of JSON, took 3.7 GB and minutes."""
    app, requests, _ = gateway(limits=SMALL)
    body = b'{"model": "m", "messages": [' + b"{}," * 20_000 + b"{}]}"
    (response,) = run(app, ("POST", PATH), content=body)
    assert (response.status_code, requests) == (413, [])
    assert "the values of the body take more than 262144 bytes of memory" in response.json()["error"]["message"]


@pytest.mark.anyio
async def test_what_open_requests_have_is_refused_to_others_but_not_to_ordinary_ones() -> None:
    limits = GatewayLimits(body=4 * 1024 * 1024, bodies=16 * 1024 * 1024)
    app, requests, _ = gateway(limits=limits)
    state_of(app).size = 12 * 1024 * 1024
    large, ordinary, full = Client(app), Client(app), Client(app)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(large.run)
        await large.send(b" " * 2 * 1024 * 1024)
        tasks.start_soon(ordinary.run)
        await ordinary.send(json.dumps(QUESTION).encode())
        state_of(app).size = limits.bodies
        tasks.start_soon(full.run)
        await full.send(json.dumps(QUESTION).encode())
    assert (large.status, ordinary.status, full.status, len(requests)) == (503, 200, 503, 1)
    assert state_of(app).size == limits.bodies


def test_a_compressed_body_is_bounded_while_it_is_made() -> None:
    """58 kB became 60 MB, and a quarter of a gigabyte of values."""
    limits = GatewayLimits()
    app, requests, _ = gateway(limits=limits)
    content = gzip.compress(b" " * limits.body)
    tracemalloc.start()
    try:
        (response,) = run(app, ("POST", PATH), content=content, headers={"content-encoding": "gzip"})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (response.status_code, requests) == (413, [])
    assert peak < 2 * (100 * len(content) + 2**20) < limits.body


@pytest.mark.parametrize(("coding", "status"), [("gzip, gzip, gzip", 415), ("gzip," * 10_000, 415), (",gzip", 200)])
def test_few_codings_are_removed_from_a_body(coding: str, status: int) -> None:
    app, _, _ = gateway()
    content = gzip.compress(json.dumps(QUESTION).encode())
    (response,) = run(app, ("POST", PATH), content=content, headers={"content-encoding": coding})
    assert response.status_code == status
    assert len(response.content) < 1000


def test_all_of_a_compressed_body_is_read() -> None:
    """Also what is left of one part, or of the output, at the limit of the next one."""
    for size in (0, 1, 2**20 - 60, 2**20, 3 * 2**20 + 7):
        app, requests, _ = gateway()
        text = "".join(map(chr, (97 + number * number % 26 for number in range(2000)))) * (size // 2000 + 1)
        body = json.dumps({**QUESTION, "messages": [{"role": "user", "content": "x" + text[:size]}]}).encode()
        (response,) = run(app, ("POST", PATH), content=gzip.compress(body, 1), headers={"content-encoding": "gzip"})
        assert response.status_code == 200
        assert len(requests[0].body["messages"][0]["content"]) == size + 1


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"body": 1000, "bodies": 3999}, "bodies must be at least four times body"),
        ({"body_time": 0}, "body_time must be"),
    ],
)
def test_limits_that_cannot_work_are_refused(limits: Mapping[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        GatewayLimits(**limits)


@pytest.mark.anyio
async def test_requests_that_had_their_bodies_at_the_same_time_are_limited_together() -> None:
    """Each was below the limit when its body began."""
    app, requests, _ = gateway(limits=GatewayLimits(requests=1))
    clients = [Client(app), Client(app)]
    async with anyio.create_task_group() as tasks:
        for client in clients:
            tasks.start_soon(client.run)
            await client.send(b"{", is_last=False)
        app._state.open_requests.add(object())  # type: ignore[arg-type]  # another one
        for client in clients:
            await client.send(b"}")
    assert ([client.status for client in clients], requests) == ([503, 503], [])
    assert len(app._state.open_requests) == 1


# ---------------------------------------------------------------- worker threads


def large(count: int) -> dict[str, Any]:
    roles = ("user", "assistant")
    return {**QUESTION, "messages": [{"role": roles[at % 2], "content": f"message {at}"} for at in range(count)]}


@pytest.mark.anyio
@pytest.mark.parametrize(("count", "functions"), [(9, []), (10_001, ["_decode", "Attempt", "render"])])
async def test_a_large_body_is_decoded_and_translated_in_a_worker_thread(
    count: int, functions: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """100,000 messages stopped all other requests for 5 seconds."""
    called: list[str] = []
    run_in_thread = bodies.run_in_thread

    async def record(function: Any, *arguments: Any) -> Any:
        called.append(getattr(function, "func", function).__name__)
        return await run_in_thread(function, *arguments)

    monkeypatch.setattr(bodies, "run_in_thread", record)
    monkeypatch.setattr("streamkit.gateway.application.run_in_thread", record)
    app, requests, _ = gateway("openai_chat")
    async with client_of(app) as client:
        response = await client.post(PATH, json=large(count))
    assert (response.status_code, len(requests[0].body["messages"]), called) == (200, count, functions)


class LargeResponse:
    """A response with a length, whose body may break off."""

    status_code = 200

    def __init__(self, data: bytes, *, breaks_off: bool = False) -> None:
        self.headers = {"content-type": "application/json", "content-length": str(len(data))}
        self._data, self._breaks_off = data, breaks_off

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        end = len(self._data) // 2 if self._breaks_off else len(self._data)
        for start in range(0, end, 50_000):
            yield self._data[start : start + 50_000]
        if self._breaks_off:
            raise ConnectionResetError("the connection to 10.0.0.7 broke")


def large_message(count: int) -> bytes:
    blocks = [{"type": "text", "text": f"text {number}, "} for number in range(count)]
    return json.dumps(
        {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": blocks,
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
    ).encode()


@pytest.mark.anyio
@pytest.mark.parametrize("count", [10, 10_000])
@pytest.mark.parametrize("client", ["openai_chat", "gemini", "cohere", "anthropic"])
async def test_a_large_response_is_read_and_written_in_a_worker_thread(
    client: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of 5 MB stopped all other requests for 1.5 s."""
    called: list[Any] = []
    run_in_thread = bodies.run_in_thread

    async def record(function: Any, *arguments: Any) -> Any:
        called.append(function)
        return await run_in_thread(function, *arguments)

    monkeypatch.setattr("streamkit.gateway.attempt.run_in_thread", record)

    @asynccontextmanager
    async def ask(request: UpstreamRequest) -> AsyncIterator[LargeResponse]:
        yield LargeResponse(large_message(count))

    path, body = CLIENTS[client]
    app = Gateway(Upstream(provider="anthropic", ask=ask))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
        response = await http.post(path, json={**body, "stream": False})
    turn = read_turn(client, response.content)
    assert (turn.text, turn.error) == ("".join(f"text {number}, " for number in range(count)), None)
    assert len(called) == (3 if count > 10 else 0)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "data", [large_message(10_000), b" " * 300_000, b"<" * 300_000], ids=["broken", "empty", "page"]
)
async def test_a_large_response_that_is_none_is_an_error(data: bytes) -> None:
    @asynccontextmanager
    async def ask(request: UpstreamRequest) -> AsyncIterator[LargeResponse]:
        yield LargeResponse(data, breaks_off=data[:1] == b"{")

    app = Gateway(Upstream(provider="anthropic", ask=ask))
    async with client_of(app) as http:
        response = await http.post("/v1/chat/completions", json=QUESTION)
    assert response.status_code == 502
    assert "10.0.0.7" not in response.text


def test_the_command_collects_no_garbage_of_all_requests_for_a_large_body() -> None:
    """A full collection stops all threads, and there were 16 for 100,000 messages."""
    usual, counted = gc.get_threshold(), []
    for thresholds in (usual, COLLECTIONS):
        gc.collect()
        gc.freeze()  # else it depends on what the other tests keep
        gc.collect()
        before = gc.get_stats()[2]["collections"]
        gc.set_threshold(*thresholds)
        try:
            (response,) = run(gateway("openai_chat")[0], ("POST", PATH), json=large(30_001))
        finally:
            gc.set_threshold(*usual)
            gc.unfreeze()
        assert response.status_code == 200
        counted.append(gc.get_stats()[2]["collections"] - before)
    assert counted[0] > counted[1] == 0
