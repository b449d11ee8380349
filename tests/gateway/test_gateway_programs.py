"""The gateway in a program of one's own: what its ``ask`` raises and returns, and a server that loses its client."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import openai
import pydantic
import pytest
from carried_states import KEY
from gateway.gateway_clients import client_of
from starlette.exceptions import HTTPException

from streamkit.errors import UsageError
from streamkit.gateway import Exchange, Gateway, GatewayLimits, Upstream, UpstreamRequest
from streamkit.gateway.tap import ExchangeObserver

Json = dict[str, Any]

CHUNKS: list[Json] = [
    {"id": "c1", "model": "m", "choices": [{"index": 0, "delta": {"content": "Hello"}}]},
    {"id": "c1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {"id": "c1", "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}},
]
QUESTION: Json = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}


def opening(response: Any) -> Callable[[UpstreamRequest], Any]:
    """Return a function that opens a response; one that raises an exception, if that is the response."""

    @asynccontextmanager
    async def ask(request: UpstreamRequest) -> AsyncIterator[Any]:
        if isinstance(response, Exception):
            raise response
        yield response() if callable(response) else response

    return ask


def send(
    asks: Callable[[UpstreamRequest], Any] | Sequence[Callable[[UpstreamRequest], Any]],
    path: str = "/v1/chat/completions",
    *,
    provider: str = "openai_chat",
    **fields: Any,
) -> tuple[httpx.Response, Exchange]:
    """Send a request to a gateway over upstreams that are asked so; return the response and the report."""
    reports: list[Exchange] = []
    upstreams = [Upstream(provider=provider, ask=ask) for ask in (asks if isinstance(asks, list) else [asks])]

    async def main() -> httpx.Response:
        app = Gateway(*upstreams, observe=reports.append, state_key=KEY)
        async with client_of(app) as client:
            return await client.post(path, json={**QUESTION, **fields})

    response = anyio.run(main)
    (report,) = reports
    return response, report


# ---------------------------------------------------------------- defects of ask


async def no_context_manager(request: UpstreamRequest) -> list[Json]:
    return CHUNKS


async def generate(request: UpstreamRequest) -> AsyncIterator[Json]:
    for chunk in CHUNKS:
        yield chunk


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            no_context_manager,
            "async context manager over the response, as http.stream(...) of httpx does, not coroutine",
        ),
        (generate, "contextlib.asynccontextmanager"),
        (lambda request: CHUNKS, "not list"),
        (opening(None), "an iterable of input or a response, not NoneType"),
        (opening("Hello"), "feed() takes bytes, not str"),
        (opening(UsageError("a wrong call")), "a wrong call"),
    ],
)
def test_a_wrong_ask_is_a_defect_of_the_gateway_and_not_of_the_request(
    ask: Callable[[UpstreamRequest], Any], message: str, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A client that reads 400 corrects its request, and nobody looks at the gateway."""
    with caplog.at_level(logging.ERROR):
        response, report = send(ask, stream=stream)
    assert response.status_code == 500
    assert response.json()["error"]["message"] == "this gateway failed: UsageError"
    assert message in (report.error or "")
    assert message in caplog.text


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"provider": "antropic"}, "unknown provider 'antropic'"),
        ({"ask": None}, "must be a function"),
        ({"secrets": "a-key-of-more-than-8-characters"}, r"secrets=\[key\]"),
        ({"models": "gpt-5"}, r"models=\[name\]"),
        ({"models": {"m": ""}}, "not 'm': ''"),
        ({"models": ["a*b*c"]}, "at most one"),
        ({"models": {"m": "*"}}, "at most one"),
    ],
)
def test_an_upstream_that_cannot_be_asked_is_refused_when_it_is_made(fields: Json, message: str) -> None:
    """Else each client is told of it, with status 400; and a key that is no list is never masked."""
    with pytest.raises(UsageError, match=message):
        Upstream(**{"provider": "openai_chat", "ask": opening(CHUNKS), **fields})


def test_the_secrets_of_a_tap_are_a_list() -> None:
    with pytest.raises(UsageError, match=r"secrets=\[key\]"):
        ExchangeObserver(secrets="a-key-of-more-than-8-characters")


# ---------------------------------------------------------------- refusals


LIMITS = {"retry-after": "17", "x-ratelimit-remaining-requests": "0", "x-should-retry": "false"}


def refused_by_openai() -> openai.RateLimitError:
    body = {"error": {"message": "Rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}}
    request = httpx.Request("POST", "https://api.openai.com/v1/chat/completions")
    response = httpx.Response(429, headers={**LIMITS, "x-request-id": "req_1"}, json=body, request=request)
    return openai.RateLimitError("Error code: 429", response=response, body=body["error"])


@pytest.mark.parametrize("stream", [True, False])
def test_the_exception_of_an_sdk_has_the_headers_of_its_response(stream: bool) -> None:
    response, report = send(opening(refused_by_openai()), stream=stream)
    assert response.status_code == 429
    assert response.json()["error"]["message"] == "Rate limit reached"
    assert {name: response.headers.get(name) for name in LIMITS} == LIMITS
    assert response.headers["x-request-id"] == report.request_id == "req_1"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/messages/count_tokens"])
def test_a_program_refuses_a_request_by_an_exception_with_a_status(path: str) -> None:
    """As the endpoints of its framework do."""
    refusal = HTTPException(429, "the budget of team-a is used up", headers={"Retry-After": "30"})
    response, report = send(opening(refusal), path, provider="anthropic")
    assert response.status_code == 429
    assert response.json()["error"]["message"] == "the budget of team-a is used up"
    assert response.headers["retry-after"] == "30"
    assert (report.error or "").endswith("the budget of team-a is used up")


def test_an_exception_with_a_status_and_no_response_keeps_its_message() -> None:
    """As litellm.APIConnectionError, whose status 500 is no server's."""
    error = openai.InternalServerError(
        "OpenAIException - No module named 'mcp'",
        response=httpx.Response(500, request=httpx.Request("POST", "https://docs.litellm.ai")),
        body=None,
    )
    response, report = send(opening(error))
    assert response.status_code == 500
    assert response.json()["error"]["message"] == "OpenAIException - No module named 'mcp'"
    assert (report.error or "").endswith("OpenAIException - No module named 'mcp'")


class SdkStream:
    """The stream of an SDK: chunks, and the response of httpx that they come from."""

    def __init__(self) -> None:
        self.response = httpx.Response(200, headers={"x-ratelimit-remaining-requests": "41", "x-request-id": "req_1"})

    def __aiter__(self) -> AsyncIterator[Json]:
        return generate_chunks()


@pytest.mark.parametrize("is_observed", [False, True])
def test_the_stream_of_an_sdk_has_the_headers_of_its_response(is_observed: bool) -> None:
    async def main() -> httpx.Response:
        observer = ExchangeObserver() if is_observed else None
        app = Gateway(Upstream(provider="openai_chat", ask=opening(SdkStream())), observer=observer, state_key=KEY)
        async with client_of(app) as client:
            return await client.post("/v1/chat/completions", json={**QUESTION, "stream": True})

    response = anyio.run(main)
    assert (response.headers["x-ratelimit-remaining-requests"], response.headers["x-request-id"]) == ("41", "req_1")
    assert "Hello" in response.text


def test_the_result_of_boto3_has_the_headers_of_its_response() -> None:
    chunks = [{"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "Hello"}}}]
    end = [{"contentBlockStop": {"contentBlockIndex": 0}}, {"messageStop": {"stopReason": "end_turn"}}]
    facts = {"HTTPStatusCode": 200, "HTTPHeaders": {"x-amzn-requestid": "id-1"}}
    result = {"ResponseMetadata": facts, "stream": chunks + end}
    response, report = send(opening(result), provider="bedrock_converse")
    assert "Hello" in response.text
    assert response.headers["x-request-id"] == report.request_id == "id-1"


# ---------------------------------------------------------------- counts of tokens


class AiohttpResponse:
    """A response as that of aiohttp: the status and the body have names of their own."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status, self.headers, self.content = status, {"retry-after": "7"}, self
        self.body = body

    async def iter_any(self) -> AsyncIterator[bytes]:
        yield self.body[:3]
        yield self.body[3:]

    def close(self) -> None:
        pass


class Count(pydantic.BaseModel):
    """The object of an SDK."""

    input_tokens: int


@pytest.mark.parametrize(
    "response",
    [
        AiohttpResponse(200, b'{"input_tokens":3}'),
        {"input_tokens": 3},
        b'{"input_tokens":3}',
        Count(input_tokens=3),
        [b'{"input_tok', b'ens":3}'],
    ],
)
def test_a_count_is_read_from_whatever_a_stream_is_read_from(response: Any) -> None:
    answer, report = send(opening(response), "/v1/messages/count_tokens", provider="anthropic")
    assert (answer.status_code, answer.json()) == (200, {"input_tokens": 3})
    assert report.error is None


@pytest.mark.parametrize("is_raised", [False, True])
def test_a_refused_count_has_the_status_and_the_body_of_the_upstream(is_raised: bool) -> None:
    body = b'{"type":"error","error":{"type":"rate_limit_error","message":"later"}}'
    refused = httpx.Response(429, headers={"retry-after": "7"}, content=body, request=httpx.Request("POST", "http://x"))
    error = httpx.HTTPStatusError("status 429", request=refused.request, response=refused)
    response = error if is_raised else AiohttpResponse(429, body)
    answer, report = send(opening(response), "/v1/messages/count_tokens", provider="anthropic")
    assert (answer.status_code, answer.content, answer.headers["retry-after"]) == (429, body, "7")
    assert report.error == "the upstream refused the request: status 429"


def test_a_count_that_is_too_long_is_not_read_to_its_end() -> None:
    parts: list[int] = []

    async def generate_parts() -> AsyncIterator[bytes]:
        for number in range(1000):
            parts.append(number)
            yield bytes(65_536)

    answer, _ = send(opening(generate_parts), "/v1/messages/count_tokens", provider="anthropic")
    assert answer.status_code == 502
    assert len(parts) < 20


def test_a_wrong_ask_is_a_defect_of_a_count_too(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        answer, _ = send(no_context_manager, "/v1/messages/count_tokens", provider="anthropic")
    assert answer.status_code == 500
    assert "async context manager over the response" in caplog.text


# ---------------------------------------------------------------- the end of a response


def closing_with(error: Exception, *parts: Json) -> Callable[[UpstreamRequest], Any]:
    @asynccontextmanager
    async def ask(request: UpstreamRequest) -> AsyncIterator[Any]:
        yield parts or CHUNKS
        raise error

    return ask


@pytest.mark.parametrize("stream", [True, False])
def test_a_connection_that_fails_when_it_is_closed_changes_nothing(
    stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    response, report = send(closing_with(httpx.ReadError("reset")), stream=stream)
    assert response.status_code == 200
    assert "Hello" in response.text
    assert (report.status, report.error, caplog.text) == (200, None, "")


@pytest.mark.parametrize("event_loop", ["asyncio", "trio"])
def test_a_task_of_ask_that_fails_beside_the_stream_ends_the_response(event_loop: str) -> None:
    """Its task group cancels the reader, which must not look like a cancellation by the server."""
    reports: list[Exchange] = []
    server = Server(100, stream=True)

    async def fail_after_first_chunk() -> None:
        while len(server.sent) < 2:
            await anyio.lowlevel.checkpoint()
        raise ConnectionError("the tunnel is gone")

    @asynccontextmanager
    async def ask(request: UpstreamRequest) -> AsyncIterator[Any]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fail_after_first_chunk)
            yield wait_after_first_chunk()

    app = Gateway(Upstream(provider="openai_chat", ask=ask), observe=reports.append, state_key=KEY)
    anyio.run(app, server.scope, server.receive, server.send, backend=event_loop)
    assert b"this gateway failed: ExceptionGroup" in server.sent[-1]["body"]
    assert not server.sent[-1]["more_body"]
    assert (reports[0].error or "").startswith("ExceptionGroup")


@pytest.mark.parametrize("event_loop", ["asyncio", "trio"])
def test_a_connection_that_fails_to_close_after_its_client_has_left_is_no_defect(
    event_loop: str, caplog: pytest.LogCaptureFixture
) -> None:
    reports: list[Exchange] = []
    server = Server(100, stream=True)

    async def receive() -> Json:
        if server.body:
            return await server.receive()
        while len(server.sent) < 2:
            await anyio.lowlevel.checkpoint()
        return {"type": "http.disconnect"}

    @asynccontextmanager
    async def ask(request: UpstreamRequest) -> AsyncIterator[Any]:
        try:
            yield wait_after_first_chunk()
        finally:
            raise httpx.ReadError("reset")

    app = Gateway(Upstream(provider="openai_chat", ask=ask), observe=reports.append, state_key=KEY)
    anyio.run(app, server.scope, receive, server.send, backend=event_loop)
    (report,) = reports
    assert (report.disconnected, report.error, caplog.text) == (True, None, "")
    assert len(server.sent) == 2


def test_the_next_upstream_is_asked_if_the_failed_one_cannot_be_closed_either() -> None:
    overloaded = {"error": {"message": "overloaded", "type": "server_error", "code": None}}
    response, report = send([closing_with(httpx.ReadError("reset"), overloaded), opening(CHUNKS)])
    assert response.status_code == 200
    assert report.upstream == 2


@pytest.mark.parametrize("stream", [True, False])
def test_a_defect_after_the_end_of_a_response_is_logged_and_not_sent(
    stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The body has ended, and servers raise an exception at a second end."""
    with caplog.at_level(logging.ERROR):
        response, report = send(closing_with(RuntimeError("at the end")), stream=stream)
    assert response.status_code == 200
    assert "failed" not in response.text
    assert report.error == "RuntimeError: at the end"
    assert "at the end" in caplog.text


# ---------------------------------------------------------------- clients that have left, and servers that stop


class Server:
    """A server whose client leaves after some messages, and that raises an exception at the next one."""

    def __init__(self, messages: int, **fields: Any) -> None:
        self.scope: Json = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
            "path": "/v1/chat/completions", "raw_path": b"", "root_path": "", "query_string": b"", "headers": [],
        }  # fmt: skip
        self.body = [{"type": "http.request", "body": json.dumps({**QUESTION, **fields}).encode(), "more_body": False}]
        self._messages = messages
        self.sent: list[Any] = []
        self.refused: list[Any] = []

    async def receive(self) -> Json:
        if not self.body:
            await anyio.sleep_forever()
        return self.body.pop()

    async def send(self, message: Any) -> None:
        if len(self.sent) == self._messages:
            self.refused.append(message)
            raise OSError("the connection is closed")
        self.sent.append(message)


async def generate_chunks() -> AsyncIterator[Json]:
    for chunk in CHUNKS:
        await anyio.lowlevel.checkpoint()
        yield chunk


async def wait_after_first_chunk() -> AsyncIterator[Json]:
    yield CHUNKS[0]
    await anyio.sleep_forever()


@pytest.mark.parametrize("event_loop", ["asyncio", "trio"])
@pytest.mark.parametrize(("stream", "messages"), [(True, 0), (True, 1), (True, 2), (False, 0), (False, 1)])
def test_a_server_that_refuses_what_is_sent_has_lost_its_client(
    stream: bool, messages: int, event_loop: str, caplog: pytest.LogCaptureFixture
) -> None:
    reports: list[Exchange] = []
    server = Server(messages, stream=stream)
    app = Gateway(Upstream(provider="openai_chat", ask=opening(generate_chunks)), observe=reports.append, state_key=KEY)
    anyio.run(app, server.scope, server.receive, server.send, backend=event_loop)
    assert len(server.refused) == 1
    (report,) = reports
    assert (report.disconnected, report.error, caplog.text) == (True, None, "")


def test_a_web_socket_is_refused_without_an_exception() -> None:
    """Servers answer its end before it is accepted with 403, and an exception with 500 and a traceback in the log."""
    server = Server(100)
    reports: list[Exchange] = []
    app = Gateway(Upstream(provider="openai_chat", ask=opening(CHUNKS)), observe=reports.append, state_key=KEY)
    anyio.run(app, {**server.scope, "type": "websocket"}, server.receive, server.send)
    assert [message["type"] for message in server.sent] == ["websocket.close"]
    assert reports == []


@pytest.mark.parametrize(("path", "status"), [("/v1/models", 200), ("/v1/images", 404)])
def test_a_response_to_head_has_no_body(path: str, status: int) -> None:
    server = Server(100)
    app = Gateway(Upstream(provider="openai_chat", ask=opening(CHUNKS), models={"m": "n"}), state_key=KEY)
    anyio.run(app, {**server.scope, "method": "HEAD", "path": path}, server.receive, server.send)
    start, body = server.sent
    assert (start["status"], body["body"], body.get("more_body", False)) == (status, b"", False)
    assert int(dict(start["headers"])[b"content-length"]) > 0


@pytest.mark.parametrize("event_loop", ["asyncio", "trio"])
def test_a_heartbeat_that_cannot_be_sent_ends_the_request(event_loop: str, caplog: pytest.LogCaptureFixture) -> None:
    reports: list[Exchange] = []
    server = Server(0, stream=True)

    @asynccontextmanager
    async def hang(request: UpstreamRequest) -> AsyncIterator[Any]:
        await anyio.sleep_forever()
        yield

    upstream = Upstream(provider="openai_chat", ask=hang)
    app = Gateway(upstream, observe=reports.append, limits=GatewayLimits(silence=0.01), state_key=KEY)
    anyio.run(app, server.scope, server.receive, server.send, backend=event_loop)
    (report,) = reports
    assert (report.disconnected, report.error, caplog.text) == (True, None, "")


def test_the_report_of_a_request_that_the_server_cancels_does_not_blame_the_upstream() -> None:
    reports: list[Exchange] = []
    server = Server(100, stream=True)
    app = Gateway(
        Upstream(provider="openai_chat", ask=opening(wait_after_first_chunk)), observe=reports.append, state_key=KEY
    )

    async def main() -> None:
        task = asyncio.create_task(app(server.scope, server.receive, server.send))
        while len(server.sent) < 2:
            await anyio.lowlevel.checkpoint()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    anyio.run(main)
    (report,) = reports
    assert report.error == "the server canceled the request before the end of the response"
    assert not report.disconnected
