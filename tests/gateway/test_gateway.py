"""The gateway as an ASGI application: in process, over the scripted server or over responses written here."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest
from gateway.gateway_clients import CLIENTS, QUESTION, Json, client_of, read_turn
from waiting import PATIENCE

from streamkit import Turn, render_request
from streamkit.calls import Usage
from streamkit.errors import UsageError
from streamkit.events import Finished, ResponseStarted, Text, UsageReport
from streamkit.gateway import Exchange, Gateway, GatewayLimits, Upstream, UpstreamRequest
from streamkit.gateway.attempt import Conversion
from streamkit.history import Content, ToolResponseBlock
from streamkit.providers import parse_request, writer
from streamkit.testing import Call, Reasoning, Reply, serve

KEY = "upstream-key-without-a-known-form"
UPSTREAMS = ("anthropic", "openai_chat", "openai_responses", "gemini")


class Response:
    """A response of an upstream, as `Upstream.ask` returns it: parts, each made when it is read."""

    def __init__(self, *parts: bytes | Callable[[], Any], status: int = 200, headers: Json | None = None) -> None:
        self.parts = parts
        self.status_code = status
        self.headers = headers or {}
        self.closed = False

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        for part in self.parts:
            if isinstance(part, bytes):
                yield part
            else:
                await part()

    async def aclose(self) -> None:
        self.closed = True


@dataclass(frozen=True, kw_only=True)
class RecordedUpstream(Upstream):
    """An upstream with the requests that it got."""

    requests: list[UpstreamRequest]


def upstream(*responses: Response | Exception, provider: str = "anthropic", **options: Any) -> RecordedUpstream:
    """Return an upstream that gives these responses in turn."""
    remaining = list(responses)
    requests: list[UpstreamRequest] = []

    @asynccontextmanager
    async def ask(request: UpstreamRequest) -> AsyncIterator[Response]:
        requests.append(request)
        response = remaining.pop(0)
        if isinstance(response, Exception):
            raise response
        yield response

    return RecordedUpstream(provider=provider, ask=ask, secrets=[KEY], requests=requests, **options)


def answer(provider: str = "anthropic", *texts: str) -> list[bytes]:
    """Return the frames of a complete response of a provider, one for each text and the end."""
    live = writer(provider, response_id="r1", model="m")
    frames = [live.write(ResponseStarted("r1", "m")), *(live.write(Text(text)) for text in texts or ("Hello",))]
    return [*frames, live.write(UsageReport(Usage(3, 2))) + live.write(Finished("stop")) + live.close()]


def run(app: Gateway, *requests: tuple[Any, ...], **options: Any) -> list[httpx.Response]:
    """Send requests, one after the other, and return the responses."""

    async def main() -> list[httpx.Response]:
        async with client_of(app) as client:
            return [await client.request(*request, **options) for request in requests]

    return anyio.run(main)


def ask(app: Gateway, client: str = "openai_chat", **options: Any) -> httpx.Response:
    path, body = CLIENTS[client]
    return run(app, ("POST", path), **{"json": body, **options})[0]


def test_the_request_goes_up_before_what_reads_the_response_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is made while the gateway waits, or later if the upstream answers at once."""
    made: list[str] = []

    class Recorded(Conversion):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            made.append("conversion")
            super().__init__(*arguments, **options)

    monkeypatch.setattr("streamkit.gateway.attempt.Conversion", Recorded)

    def asked(waits: int) -> list[str]:
        made.clear()

        @asynccontextmanager
        async def ask_slowly(request: UpstreamRequest) -> AsyncIterator[Response]:
            made.append("request")
            for _ in range(waits):
                await anyio.lowlevel.checkpoint()
            made.append("response")
            yield Response(*answer())

        assert ask(Gateway(Upstream(provider="anthropic", ask=ask_slowly))).status_code == 200
        return made

    assert asked(5) == ["request", "conversion", "response"]
    assert asked(0) == ["request", "response", "conversion"]


def test_a_conversion_that_cannot_be_made_is_an_error_of_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of the task beside it, which makes it in advance."""

    def fail(*arguments: Any, **options: Any) -> Conversion:
        raise UsageError("no writer")

    monkeypatch.setattr("streamkit.gateway.attempt.Conversion", fail)
    response = ask(Gateway(upstream(Response(*answer()))))
    assert (response.status_code, response.json()["error"]["message"]) == (400, "no writer")


# ---------------------------------------------------------------- translation


@pytest.mark.parametrize("provider", UPSTREAMS)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_tool_loop_across_two_wires(client: str, provider: str) -> None:
    """The scripted server refuses what the upstream's real provider would refuse."""
    path, body = CLIENTS[client]
    calls = [Call("weather", {"city": city}) for city in ("Oslo", "Bergen")]
    script = [Reply(Reasoning("Two cities."), "Let me look.", *calls), Reply("Cold in both.")]

    async def main() -> tuple[Turn, Turn, list[Any]]:
        with serve(script) as server:
            base = server.base_url(provider)
            async with httpx.AsyncClient() as http:
                target = Upstream(
                    provider=provider,
                    ask=lambda request: http.stream("POST", base + request.path, json=request.body),
                    endpoint=base,
                    models={"*": "scripted"},
                )
                async with client_of(Gateway(target)) as user:
                    first = await user.post(path, json=body)
                    assert first.status_code == 200, first.text
                    turn = read_turn(client, first.content)
                    second = await user.post(path, json=next_body(client, body, turn))
                    assert second.status_code == 200, second.text
                    return turn, read_turn(client, second.content), [request.json for request in server.requests]

    first, second, bodies = anyio.run(main)
    assert first.error is None
    assert first.text == "Let me look."
    assert [(call.name, call.arguments, call.state) for call in first.calls] == [
        ("weather", {"city": "Oslo"}, "complete"),
        ("weather", {"city": "Bergen"}, "complete"),
    ]
    assert (second.error, second.text, second.calls) == (None, "Cold in both.", [])
    sent = json.dumps(bodies[1])
    assert [
        word for word in [QUESTION, "Let me look.", "4 degrees in Oslo", "4 degrees in Bergen"] if word not in sent
    ] == []


def next_body(client: str, body: Json, turn: Turn) -> Json:
    """Return the client's next request, with the results of its calls, as its program renders it."""
    request = parse_request(body, client, stream=True)
    results = [
        ToolResponseBlock(call_id=call.id, result=f"4 degrees in {call.arguments['city']}", name=call.name)
        for call in turn.calls
    ]
    contents = [*request.contents, turn.content, Content(speaker="tool", blocks=results)]
    return render_request(request.model_copy(update={"contents": contents}), client)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_request_that_is_not_streamed_gets_one_body(client: str) -> None:
    path, body = CLIENTS[client]
    path = path.replace("streamGenerateContent?alt=sse", "generateContent")
    body = body if client == "gemini" else {**body, "stream": False}
    app = Gateway(upstream(Response(*answer("anthropic", "Hel", "lo"))))
    (response,) = run(app, ("POST", path), json=body)
    assert response.headers["content-type"] == "application/json"
    assert isinstance(response.json(), dict)
    turn = read_turn(client, response.content)
    assert (turn.error, turn.text) == (None, "Hello")


def test_gemini_without_sse_gets_an_array() -> None:
    app = Gateway(upstream(Response(*answer())))
    (response,) = run(app, ("POST", "/v1beta/models/m%3AstreamGenerateContent"), json=CLIENTS["gemini"][1])
    assert isinstance(response.json(), list)
    assert read_turn("gemini", response.content).text == "Hello"


@pytest.mark.parametrize("is_asked", [False, True])
def test_only_a_chat_client_that_asks_for_usage_gets_a_chunk_without_choices(is_asked: bool) -> None:
    fields = {"stream_options": {"include_usage": True}} if is_asked else {}
    app = Gateway(upstream(Response(*answer())))
    response = ask(app, json={**CLIENTS["openai_chat"][1], **fields})
    chunks = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
    counts = {"prompt_tokens": 3, "completion_tokens": 2}
    reported = [chunk for chunk in chunks if chunk.get("usage") is not None]
    assert [len(chunk["choices"]) for chunk in reported] == [0 if is_asked else 1]
    assert reported == [chunk for chunk in chunks if (chunk["choices"] == []) == is_asked][-1:]
    assert counts.items() <= reported[0]["usage"].items()
    assert {"usage" in chunk for chunk in chunks if chunk not in reported} == {is_asked}


def test_the_start_of_a_message_has_the_tokens_of_the_prompt() -> None:
    """LangChain.js reads them only there (``_makeMessageChunkFromAnthropicEvent`` of @langchain/anthropic)."""
    live = writer("anthropic", response_id="r1", model="m")
    prompt = Usage(input_tokens=12, output_tokens=1, cache_read_tokens=5)
    frames = [live.write(event) for event in (UsageReport(prompt), ResponseStarted("r1", "m"), Text("Hello"))]
    end = (UsageReport(Usage(input_tokens=12, output_tokens=9, cache_read_tokens=5)), Finished("stop"))
    app = Gateway(upstream(Response(*frames, *(live.write(event) for event in end), live.close())))
    response = ask(app, "anthropic", json={**CLIENTS["anthropic"][1], "stream": True})
    events = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
    assert events[0]["message"]["usage"] == {"input_tokens": 7, "cache_read_input_tokens": 5, "output_tokens": 1}
    assert events[-2]["usage"] == {"input_tokens": 7, "cache_read_input_tokens": 5, "output_tokens": 9}


def test_a_client_of_the_same_wire_gets_the_version_of_the_model_that_it_named() -> None:
    answers = [Response(*answer()) for _ in range(3)]  # of the model m
    target = upstream(*answers, models={"mine": "m", "m-latest": "m-latest"})
    app = Gateway(target)
    body = CLIENTS["anthropic"][1]
    named = [
        ask(app, "anthropic", json={**body, "model": model, "stream": False}).json()["model"]
        for model in ("m-latest", "mine")
    ]
    assert named == ["m", "mine"]
    other = ask(app, "openai_chat", json={**CLIENTS["openai_chat"][1], "model": "m-latest"})
    assert '"model":"m-latest"' in other.text


def test_the_start_of_a_message_has_the_first_report_of_tokens() -> None:
    """A short response comes in one read, with its last report."""
    live = writer("anthropic", response_id="r1", model="m")
    first, last = Usage(input_tokens=12, output_tokens=1), Usage(input_tokens=12, output_tokens=9)
    events = (UsageReport(first), ResponseStarted("r1", "m"), Text("Hello"), UsageReport(last), Finished("stop"))
    app = Gateway(upstream(Response(b"".join([*map(live.write, events), live.close()]))))
    response = ask(app, "anthropic", json={**CLIENTS["anthropic"][1], "stream": True})
    chunks = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
    assert (chunks[0]["message"]["usage"]["output_tokens"], chunks[-2]["usage"]["output_tokens"]) == (1, 9)


def test_the_start_of_a_message_has_the_tokens_of_the_prompt_that_gemini_reports_with_its_first_chunk() -> None:
    counts = {"promptTokenCount": 12, "totalTokenCount": 12}
    names = {"modelVersion": "m", "responseId": "r"}
    chunks = [
        {"candidates": [{"content": {"parts": [{"text": "Hel"}]}}], "usageMetadata": counts, **names},
        {"candidates": [{"content": {"parts": [{"text": "lo"}]}, "finishReason": "STOP"}], **names},
    ]
    frames = [b"data: " + json.dumps(chunk).encode() + b"\r\n\r\n" for chunk in chunks]
    response = ask(Gateway(upstream(Response(*frames), provider="gemini")), "anthropic")
    first = next(json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {"))
    assert first["message"]["usage"]["input_tokens"] == 12


def test_a_client_of_the_same_wire_gets_the_details_of_an_error_without_secrets() -> None:
    """gemini-cli decides by ``details`` how long it waits, and whether it asks another model."""
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}, {"reason": f"of {KEY}"}]
    error = {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED", "details": details}
    responses = [Response(json.dumps({"error": error}).encode(), status=429) for _ in range(2)]
    app = Gateway(upstream(*responses, provider="gemini"))
    own, other = ask(app, "gemini"), ask(app, "openai_chat")
    assert (own.status_code, own.headers["retry-after"], other.headers["retry-after"]) == (429, "7", "7")
    assert own.json()["error"] == {**error, "details": [details[0], {"reason": "of ***"}]}
    assert "details" not in other.json()["error"]


def test_a_gemini_client_gets_the_candidates_that_it_asked_for() -> None:
    from google.genai import types

    names = {"modelVersion": "m", "responseId": "r"}
    chunks = [
        {"candidates": [{"content": {"parts": [{"text": text}], "role": "model"}, "index": number, **end}], **names}
        for number, text, end in ((0, "a", {}), (1, "b", {"finishReason": "STOP"}), (0, "c", {"finishReason": "STOP"}))
    ]
    stream = b"".join(b"data: " + json.dumps(chunk).encode() + b"\r\n\r\n" for chunk in chunks)
    target, reports = upstream(Response(stream), Response(stream), provider="gemini"), list[Exchange]()
    app, body = Gateway(target, observe=reports.append), CLIENTS["gemini"][1]
    (own,) = run(
        app,
        ("POST", "/v1beta/models/m:generateContent"),
        json={**body, "generationConfig": {"candidateCount": 2}},
    )
    assert target.requests[0].body["generationConfig"] == {"candidateCount": 2}
    read = types.GenerateContentResponse.model_validate(own.json())
    texts = [[part.text for part in each.content.parts or ()] for each in read.candidates or () if each.content]
    assert (texts, reports[0].changes) == ([["ac"], ["b"]], [])
    other = ask(app, "openai_chat", json={**CLIENTS["openai_chat"][1], "stream": False, "n": 2})
    assert [choice["message"]["content"] for choice in other.json()["choices"]] == ["ac"]
    assert [change for change in reports[1].changes if "'n'" in change or "choices" in change] == [
        "left out the fields 'n': only openai_chat has them",
        "the events of all choices but one were left out",
    ]


def test_models_are_mapped_and_the_client_keeps_its_own_name() -> None:
    target = upstream(Response(*answer()), Response(*answer()), models={"m": "mine", "*": "others"})
    app = Gateway(target)
    path, body = CLIENTS["openai_chat"]
    async_bodies = [body, {**body, "model": "another"}]
    responses = [run(app, ("POST", path), json=each)[0] for each in async_bodies]
    assert [request.body["model"] for request in target.requests] == ["mine", "others"]
    assert '"model":"m"' in responses[0].text
    listed = run(app, ("GET", "/v1/models"), ("GET", "/v1beta/models"), ("GET", "/api/tags"), ("GET", "/v1/models/m"))
    assert [entry["id"] for entry in listed[0].json()["data"]] == ["m", "others"]
    assert [entry["name"] for entry in listed[1].json()["models"]] == ["models/m", "models/others"]
    assert [entry["name"] for entry in listed[2].json()["models"]] == ["m", "others"]
    assert listed[3].json()["id"] == "m"


def test_a_model_cannot_change_the_path_of_the_upstream() -> None:
    target = upstream(Response(*answer("gemini")), provider="gemini")
    path, body = CLIENTS["openai_chat"]
    run(Gateway(target), ("POST", path), json={**body, "model": "tuned/x?key=1"})
    assert target.requests[0].path == "/v1beta/models/tuned%2Fx%3Fkey%3D1:streamGenerateContent?alt=sse"


def test_only_headers_of_features_of_the_same_wire_are_sent() -> None:
    given = {"anthropic-beta": "context-management-2025-06-27", "x-api-key": "the-clients", "user-agent": "u"}
    target = upstream(Response(*answer()), Response(*answer()))
    app = Gateway(target)
    ask(app, "anthropic", headers=given)
    ask(app, "openai_chat", headers=given)
    same, other = (request.headers for request in target.requests)
    assert same == {"anthropic-version": "2023-06-01", "anthropic-beta": given["anthropic-beta"]}
    assert other == {"anthropic-version": "2023-06-01"}


#: Headers of responses of each family, of which a client of the wire gets all.
LIMITS = {
    "anthropic": {
        "anthropic-ratelimit-unified-5h-utilization": "0.42", "anthropic-ratelimit-requests-remaining": "49",
        "anthropic-ratelimit-requests-reset": "2026-01-27T12:00:00Z", "anthropic-priority-input-tokens-limit": "10000",
        "anthropic-fast-output-tokens-remaining": "9",
    },
    "openai_chat": {"x-ratelimit-remaining-tokens": "149984", "x-ratelimit-reset-tokens": "6m0s"},
    "openai_responses": {"x-ratelimit-limit-requests": "500", "x-codex-primary-used-percent": "12.5"},
    "cohere": {"x-trial-endpoint-call-remaining": "19", "x-endpoint-monthly-call-limit": "1000"},
}  # fmt: skip
OTHERS = {"Set-Cookie": "__cf_bm=1", "connection": "keep-alive", "anthropic-organization-id": "o", "x-ratelimits": "é"}


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("target", LIMITS)
def test_a_client_of_the_same_wire_gets_the_rate_limits_of_the_upstream(target: str, streams: bool) -> None:
    sent = {name.title(): value for name, value in LIMITS[target].items()}
    app = Gateway(upstream(Response(*answer(target), headers={**sent, **OTHERS}), provider=target))
    response = ask(app, target, json={**CLIENTS[target][1], "stream": streams})
    own = {"cache-control", "content-type", "content-length", "request-id", "x-request-id", "x-streamkit-changes"}
    assert {name: value for name, value in response.headers.items() if name not in own} == LIMITS[target]


@pytest.mark.parametrize(
    ("client", "target", "names"),
    [
        ("openai_responses", "openai_chat", {"x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"}),
        ("openai_chat", "openai_responses", {"x-ratelimit-limit-requests"}),
        ("openai_chat", "groq", {"x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"}),
        ("openai_chat", "anthropic", set()),
        ("anthropic", "openai_chat", set()),
        ("cohere", "openai_chat", set()),
        ("gemini", "anthropic", set()),
    ],
)
def test_rate_limits_of_another_family_are_not_translated(client: str, target: str, names: set[str]) -> None:
    sent = LIMITS["openai_chat" if target == "groq" else target]
    response = ask(Gateway(upstream(Response(*answer(target), headers=sent), provider=target)), client)
    assert response.status_code == 200
    assert {name for name in response.headers if name in {name for each in LIMITS.values() for name in each}} == names


# ---------------------------------------------------------------- errors


def refused(status: int, body: Json, **headers: str) -> Response:
    return Response(json.dumps(body).encode(), status=status, headers=headers)


OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
LIMITED = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}


def test_a_refusal_has_the_status_the_message_and_the_headers_in_the_clients_words() -> None:
    response = ask(Gateway(upstream(refused(429, LIMITED, **{"retry-after": "7", "request-id": "req_1"}))))
    assert (response.status_code, response.headers["retry-after"]) == (429, "7")
    assert response.headers["x-request-id"] == "req_1"
    assert response.json()["error"]["message"] == "slow down"
    assert response.json()["error"]["code"] == "rate_limit_exceeded"


@pytest.mark.parametrize(("given", "sent"), [("1234567", "1234567"), ("2.5", "2.5"), ("1" + 20 * "0", "1" + 20 * "0")])
def test_a_long_time_to_wait_is_a_number_of_http(given: str, sent: str) -> None:
    """It was sent as 1.23457e+06."""
    response = ask(Gateway(upstream(refused(429, LIMITED, **{"retry-after": given}))))
    assert response.headers["retry-after"] == sent


@pytest.mark.parametrize(("client", "limits"), [("anthropic", LIMITS["anthropic"]), ("openai_chat", {})])
def test_a_refusal_says_what_remains_and_whether_it_is_worth_another_try(client: str, limits: dict[str, str]) -> None:
    """The SDKs of Anthropic and OpenAI read ``x-should-retry`` before the status."""
    sent = {**LIMITS["anthropic"], "x-should-retry": "false", "set-cookie": "a=b"}
    response = ask(Gateway(upstream(refused(429, LIMITED, **sent))), client)
    given = {name: value for name, value in response.headers.items() if name in sent}
    assert (response.status_code, given) == (429, {**limits, "x-should-retry": "false"})


@pytest.mark.parametrize("client", CLIENTS)
def test_every_client_understands_a_refusal(client: str) -> None:
    response = ask(Gateway(upstream(refused(429, LIMITED))), client)
    turn = Turn(client)
    turn.response(response.status_code, response.headers)
    turn.feed(response.content)
    turn.close()
    assert turn.error is not None
    assert (turn.error.code, turn.error.message) == ("rate_limited", "slow down")


def test_an_error_that_comes_first_in_the_stream_is_a_status() -> None:
    frame = b"event: error\ndata: " + json.dumps(OVERLOADED).encode() + b"\n\n"
    response = ask(Gateway(upstream(Response(frame))))
    assert response.status_code == 503
    assert response.json()["error"]["message"] == "Overloaded"


@pytest.mark.parametrize("client", CLIENTS)
def test_an_error_after_content_is_an_event_of_the_clients_wire(client: str) -> None:
    frame = b"event: error\ndata: " + json.dumps(OVERLOADED).encode() + b"\n\n"
    response = ask(Gateway(upstream(Response(*answer()[:-1], frame))), client)
    turn = read_turn(client, response.content)
    assert (response.status_code, turn.text) == (200, "Hello")
    assert turn.error is not None
    assert "Overloaded" in turn.error.message


@pytest.mark.parametrize("client", CLIENTS)
def test_a_stream_that_breaks_off_never_ends_well(client: str) -> None:
    async def break_off() -> None:
        raise httpx.ReadError("connection reset")

    response = ask(Gateway(upstream(Response(*answer()[:-1], break_off))), client)
    turn = read_turn(client, response.content)
    assert turn.text == "Hello"
    assert turn.error is not None


def test_no_connection_is_status_502() -> None:
    response = ask(Gateway(upstream(httpx.ConnectError("no route"))), "anthropic")
    assert response.status_code == 502
    assert response.json()["error"]["type"] == "api_error"
    assert response.json()["error"]["message"] == "the connection to the upstream failed"


def test_a_defect_is_logged_and_answered(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        response = ask(Gateway(upstream(LookupError(f"of {KEY}"))), "anthropic")
    assert response.status_code == 500
    assert response.json()["error"]["message"] == "this gateway failed: LookupError"
    assert "LookupError" in caplog.text
    assert KEY not in caplog.text


def test_the_next_upstream_is_asked_before_the_first_event() -> None:
    reports: list[Exchange] = []
    first, second = upstream(refused(529, OVERLOADED)), upstream(Response(*answer("gemini")), provider="gemini")
    response = ask(Gateway(first, second, observe=reports.append), "anthropic")
    assert read_turn("anthropic", response.content).text == "Hello"
    assert [len(each.requests) for each in (first, second)] == [1, 1]
    assert reports[0].provider == "gemini"


def test_another_upstream_is_not_asked_after_content_nor_for_an_invalid_request() -> None:
    invalid = {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}
    for response in (refused(400, invalid), Response(*answer()[:-1])):
        second = upstream()
        ask(Gateway(upstream(response), second))
        assert second.requests == []


# ---------------------------------------------------------------- what is refused here


@pytest.mark.parametrize(
    ("path", "client"),
    [
        ("/v1/messages/batches", "anthropic"),
        ("/v1/embeddings", "openai_chat"),
        ("/v1beta/models/m:embedContent", "gemini"),
        ("/api/generate", "ollama"),
        ("/v2/rerank", "cohere"),
    ],
)
def test_what_is_not_served_is_404_in_the_wire_of_the_path(path: str, client: str) -> None:
    target = upstream()
    (response,) = run(Gateway(target), ("POST", path), json=CLIENTS[client][1])
    turn = Turn(client)
    turn.response(response.status_code)
    turn.feed(response.content)
    turn.close()
    assert response.status_code == 404
    assert turn.error is not None
    assert "this gateway" in turn.error.message
    assert target.requests == []


@pytest.mark.parametrize(
    ("extensions", "sent"),
    [
        (
            {"websocket.http.response": {}},
            [("websocket.http.response.start", 426), ("websocket.http.response.body", None)],
        ),
        ({}, [("websocket.close", None)]),
    ],
)
def test_a_websocket_that_the_server_has_recognized_is_refused(extensions: Json, sent: list[Any]) -> None:
    messages: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        messages.append(message)

    scope = {"type": "websocket", "path": "/v1/responses", "headers": [], "extensions": extensions}
    anyio.run(Gateway(upstream()), scope, receive, send)
    assert [(message["type"], message.get("status")) for message in messages] == sent


def test_another_method_is_405_and_the_root_is_healthy() -> None:
    get, head, root = run(Gateway(upstream()), ("GET", "/v1/messages"), ("HEAD", "/"), ("GET", "/"))
    assert (get.status_code, get.headers["allow"], get.json()["type"]) == (405, "POST", "error")
    assert (head.status_code, root.status_code) == (200, 200)


@pytest.mark.parametrize(
    ("client", "content"),
    [
        *((client, content) for client in CLIENTS for content in (b"{", b'"text"', b"[" * 100_000)),
        ("anthropic", b'{"model": "m", "messages": 3}'),
        ("openai_chat", b'{"messages": []}'),
        ("gemini", b'{"contents": "text"}'),
    ],
)
def test_a_body_that_is_no_request_is_400(client: str, content: bytes) -> None:
    (response,) = run(Gateway(upstream()), ("POST", CLIENTS[client][0]), content=content)
    assert response.status_code == 400
    turn = Turn(client)
    turn.response(400)
    turn.feed(response.content)
    turn.close()
    assert turn.error is not None
    assert turn.error.message


def test_a_body_that_is_too_large_is_413() -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield b" " * 300

    app = Gateway(upstream(), limits=GatewayLimits(body=1000))
    for content in (b" " * 1001, parts()):
        response = ask(app, "anthropic", json=None, content=content)
        assert response.status_code == 413
        assert response.json()["error"]["type"] == "request_too_large"


def test_a_gateway_needs_an_upstream() -> None:
    for others in ([], [["a list"]], ["anthropic"]):
        with pytest.raises(UsageError, match="pass one Upstream or several"):
            Gateway(*others)  # type: ignore[arg-type]


# ---------------------------------------------------------------- keys


@pytest.mark.parametrize(
    ("headers", "query", "status"),
    [
        ({}, "", 401),
        ({"x-api-key": "wrong"}, "", 401),
        ({"authorization": "Basic c2VjcmV0"}, "", 401),
        ({"authorization": "Bearer secret"}, "", 200),
        ({"x-api-key": "secret"}, "", 200),
        ({"x-goog-api-key": "secret"}, "", 200),
        ({}, "?key=secret", 200),
    ],
)
def test_a_required_key_is_that_of_the_clients_own_sdk(headers: Json, query: str, status: int) -> None:
    app = Gateway(upstream(), key="secret")
    (response,) = run(app, ("GET", f"/v1/models{query}"), headers=headers)
    assert response.status_code == status


def test_no_key_is_in_an_error_a_log_or_a_report(caplog: pytest.LogCaptureFixture) -> None:
    """A server repeats the key that it refuses, and an exception names the URL with it."""
    repeated = {"type": "error", "error": {"type": "authentication_error", "message": f"invalid x-api-key: {KEY}"}}
    failure = b"event: error\ndata: " + json.dumps(repeated).encode() + b"\n\n"
    reports: list[Exchange] = []
    responses = [refused(401, repeated), httpx.ConnectError(f"https://{KEY}@host"), Response(*answer()[:-1], failure)]
    with caplog.at_level(logging.DEBUG):
        for response in responses:
            app = Gateway(upstream(response), observe=reports.append)
            given = ask(app, "anthropic", headers={"x-api-key": "key-of-the-client"})
            assert KEY not in given.text
            assert "***" in given.text or "connection to the upstream failed" in given.text
    written = caplog.text + repr(reports)
    assert KEY not in written
    assert "key-of-the-client" not in written
    assert ["***" in str(report.error) for report in reports] == [True] * 3


# ---------------------------------------------------------------- connections


class Connection:
    """An ASGI connection whose client reads message by message."""

    def __init__(self, client: str, *, stream: bool = True) -> None:
        path, body = CLIENTS[client]
        body = {**body, "stream": stream}
        path, _, query = path.partition("?")
        self.scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "path": path,
            "raw_path": path.encode(), "query_string": query.encode(), "headers": [], "client": ("c", 1),
            "server": ("s", 80), "scheme": "http", "root_path": "",
        }  # fmt: skip
        self._body: list[Json] = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]
        self.left = anyio.Event()
        self._send, self.messages = anyio.create_memory_object_stream[Any](0)

    async def receive(self) -> Json:
        if self._body:
            return self._body.pop()
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        await self._send.send(message)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self._send.close()
        self.messages.close()


@pytest.mark.parametrize("event_loop", ["asyncio", "trio"])
def test_text_reaches_the_client_while_the_upstream_still_sends(event_loop: str) -> None:
    async def main() -> None:
        go_on = anyio.Event()
        first, text, *rest = answer("anthropic", "Hello", " there")
        app = Gateway(upstream(Response(first, text, go_on.wait, *rest)))
        with anyio.fail_after(PATIENCE), Connection("openai_chat") as connection:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(app, connection.scope, connection.receive, connection.send)
                data = b""
                while b"Hello" not in data:
                    data += (await connection.messages.receive()).get("body", b"")
                go_on.set()
                message: dict[str, Any] = {"more_body": True}
                while message["more_body"]:
                    message = await connection.messages.receive()
                    data += message["body"]
        assert data.endswith(b"data: [DONE]\n\n")
        assert read_turn("openai_chat", data).text == "Hello there"

    anyio.run(main, backend=event_loop)


def test_the_client_gets_the_end_before_the_upstreams_body_ends() -> None:
    open_requests: list[int] = []

    async def main() -> None:
        async def wait() -> None:
            open_requests.append(len(app._state.open_requests))  # 0: the client's next request is not refused
            await anyio.sleep_forever()

        app = Gateway(upstream(Response(*answer("anthropic"), wait)))
        with anyio.fail_after(PATIENCE), Connection("openai_chat") as connection:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(app, connection.scope, connection.receive, connection.send)
                message: dict[str, Any] = {"more_body": True}
                while message.get("more_body", True):
                    message = await connection.messages.receive()

    anyio.run(main)
    assert open_requests == [0]


@pytest.mark.parametrize("event_loop", ["asyncio", "trio"])
def test_the_upstreams_body_is_read_to_its_end_after_the_response_has_ended(event_loop: str) -> None:
    # So its connection can serve another request. A server reports the end of a response like a client that left.
    steps: list[str] = []

    async def main() -> None:
        async def end_later() -> None:
            await anyio.wait_all_tasks_blocked()
            steps.append("body ended")

        app = Gateway(upstream(Response(*answer("anthropic"), end_later)))
        with anyio.fail_after(PATIENCE), Connection("openai_chat") as connection:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(app, connection.scope, connection.receive, connection.send)
                message: dict[str, Any] = {}
                while message.get("more_body", True):
                    message = await connection.messages.receive()
                steps.append("response ended")
                connection.left.set()

    anyio.run(main, backend=event_loop)
    assert steps == ["response ended", "body ended"]


@pytest.mark.parametrize("event_loop", ["asyncio", "trio"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_disconnects_closes_the_upstream(stream: bool, event_loop: str) -> None:
    reports: list[Exchange] = []

    async def main() -> None:
        reached = anyio.Event()

        async def wait() -> None:
            reached.set()
            await anyio.sleep_forever()

        response = Response(*answer()[:-1], wait)
        app = Gateway(upstream(response), observe=reports.append)
        with anyio.fail_after(PATIENCE), Connection("openai_chat", stream=stream) as connection:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(app, connection.scope, connection.receive, connection.send)
                if stream:
                    data = b""
                    while b"Hello" not in data:
                        data += (await connection.messages.receive()).get("body", b"")
                await reached.wait()
                connection.left.set()
        assert response.closed

    anyio.run(main, backend=event_loop)
    assert [(report.disconnected, report.error) for report in reports] == [(True, None)]


def test_the_upstream_is_read_no_faster_than_the_client() -> None:
    async def main() -> None:
        read: list[int] = []
        frames = answer("anthropic", *[f"part {number} " for number in range(50)])

        def counted(number: int) -> Callable[[], Any]:
            async def count() -> None:
                read.append(number)

            return count

        parts = [part for number, frame in enumerate(frames) for part in (counted(number), frame)]
        app = Gateway(upstream(Response(*parts)))
        with Connection("anthropic") as connection:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(app, connection.scope, connection.receive, connection.send)
                for _ in range(3):
                    await connection.messages.receive()
                await anyio.wait_all_tasks_blocked()
                assert len(read) <= 4
                tasks.cancel_scope.cancel()

    anyio.run(main)


def test_more_requests_than_the_limit_are_refused_as_overloaded() -> None:
    async def main() -> None:
        reached = anyio.Event()

        async def wait() -> None:
            reached.set()
            await anyio.sleep_forever()

        app = Gateway(upstream(Response(wait)), limits=GatewayLimits(requests=1))
        path, body = CLIENTS["anthropic"]
        async with client_of(app) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: client.post(path, json=body))
            with anyio.fail_after(PATIENCE):
                await reached.wait()
                response = await client.post(path, json=body)
            assert (response.status_code, response.headers["retry-after"]) == (503, "1")
            tasks.cancel_scope.cancel()

    anyio.run(main)


def test_a_report_describes_the_exchange() -> None:
    reports: list[Exchange] = []
    ask(Gateway(upstream(Response(*answer()), models={"m": "mine"}), observe=reports.append))
    (report,) = reports
    assert (report.status, report.method, report.path) == (200, "POST", "/v1/chat/completions")
    assert (report.client, report.provider) == ("openai_chat", "anthropic")
    assert (report.model, report.upstream_model, report.calls, report.error) == ("m", "mine", 0, None)


def test_a_placeholder_instead_of_a_key_is_not_masked() -> None:
    upstream = Upstream(provider="ollama", ask=lambda request: nullcontext(), secrets=["ollama", "", KEY])
    assert upstream.clean(f"ollama refused {KEY}") == "ollama refused ***"
