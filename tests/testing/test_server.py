from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading

import httpx
import pytest
from smallest_requests import smallest_request
from waiting import PATIENCE

from streamkit import providers
from streamkit.calls import Usage
from streamkit.errors import UnknownProvider, UsageError
from streamkit.reading.turn import Turn
from streamkit.testing import Call, Disconnect, ErrorEvent, RawBytes, Reasoning, Reply, Stall, Status, serve

NAMES = [
    "anthropic",
    "azure_openai",
    "bedrock_converse",
    "bedrock_invoke",
    "cohere",
    "gemini",
    "ollama",
    "openai_chat",
    "openai_compatible",
    "openai_responses",
]
CALL_IDS = {"anthropic": "toolu_01", "bedrock_converse": "tooluse_", "bedrock_invoke": "toolu_bdrk_01", "gemini": None}
WEATHER = Reply("Let me look.", Call("get_weather", {"city": "Oslo"}), Call("get_time", {}))


def post(server, name, conversation="", **more):
    """The request that each vendor's SDK makes, with one message."""
    path = {
        "anthropic": "/v1/messages",
        "gemini": "/v1beta/models/m:streamGenerateContent?alt=sse",
        "azure_openai": "/openai/deployments/m/chat/completions",
        "bedrock_converse": "/model/vendor.m-v1:0/converse-stream",
        "bedrock_invoke": "/model/vendor.m-v1:0/invoke-with-response-stream",
        "cohere": "/v2/chat",
        "ollama": "/api/chat",
        "openai_responses": "/responses",
    }.get(name, "/chat/completions")
    return "POST", server.base_url(name, conversation) + path, {"json": {**smallest_request(name), **more}}


def usage_fields(name):
    """Chat Completions streams usage only if it is asked for; other wires do not have the field."""
    is_chat = providers.get(name).traits.stream_usage
    return {"stream_options": {"include_usage": True}} if is_chat else {}


def ask(client, server, name, conversation="", **more):
    method, url, body = post(server, name, conversation, **more)
    return client.request(method, url, **body)


def read(name, response):
    turn = Turn(name, turn_key="t")
    turn.response(response.status_code, response.headers)
    turn.feed(response.content)
    turn.close()
    return turn


def feed_until_it_breaks(turn, client, method, url, body):
    try:
        with client.stream(method, url, **body) as response:
            for piece in response.iter_bytes():
                turn.feed(piece)
    except httpx.RemoteProtocolError as error:
        return error
    return None


@pytest.fixture(scope="module")
def client():
    with httpx.Client(timeout=PATIENCE) as client:
        yield client


@pytest.mark.parametrize("name", NAMES)
def test_one_script_is_the_same_turn_on_every_wire(client, name):
    with serve([WEATHER]) as server:
        turn = read(name, ask(client, server, name, **usage_fields(name)))
    assert turn.error is None
    assert turn.text == "Let me look."
    assert [(call.name, call.arguments) for call in turn.executable] == [
        ("get_weather", {"city": "Oslo"}),
        ("get_time", {}),
    ]
    assert turn.finish is not None
    assert turn.finish.reason == "tool_calls"
    assert turn.usage is not None
    assert turn.usage.input_tokens
    assert turn.usage.output_tokens
    assert turn.warnings == []


@pytest.mark.parametrize("name", NAMES)
def test_ids_have_the_vendors_form_and_are_the_same_at_every_run(client, name):
    seen = []
    for _ in range(2):
        with serve([WEATHER, WEATHER]) as server:
            seen.append([[call.raw_id for call in read(name, ask(client, server, name)).calls] for _ in range(2)])
    assert seen[0] == seen[1]
    ids = [raw_id for turn in seen[0] for raw_id in turn]
    kind = CALL_IDS.get(name, "call_")
    if kind is None:
        assert ids == [None] * 4
    else:
        assert all(raw_id.startswith(kind) for raw_id in ids)
        assert len(set(ids)) == 4


def test_an_explicit_id_is_sent_unchanged(client):
    with serve(Reply(Call("f", id="functions.f:0"))) as server:
        assert read("openai_chat", ask(client, server, "openai_chat")).calls[0].raw_id == "functions.f:0"


@pytest.mark.parametrize("name", NAMES)
def test_the_finish_and_the_usage_of_a_reply_are_sent(client, name):
    usage = streamkit_usage(input_tokens=120, output_tokens=30)
    with serve([Reply("Once upon", finish="length", usage=usage)]) as server:
        turn = read(name, ask(client, server, name, **usage_fields(name)))
    assert turn.finish is not None
    assert turn.finish.reason == "length"
    assert (turn.usage.input_tokens, turn.usage.output_tokens) == (120, 30)


@pytest.mark.parametrize(
    ("name", "options", "is_sent"),
    [
        ("openai_chat", None, False),
        ("openai_chat", {}, False),
        ("openai_chat", {"include_usage": False}, False),
        ("openai_chat", {"include_usage": True}, True),
        ("azure_openai", None, False),
        ("openai_compatible", None, False),
        ("mistral", None, True),  # it refuses stream_options
        ("anthropic", None, True),
        ("openai_responses", None, True),
        ("gemini", None, True),
        ("cohere", None, True),
        ("ollama", None, True),
    ],
)
def test_usage_is_sent_only_where_it_need_not_be_asked_for(client, name, options, is_sent):
    """https://platform.openai.com/docs/api-reference/chat/create, "stream_options"."""
    usage = streamkit_usage(input_tokens=120, output_tokens=30)
    with serve([Reply("Hi.", usage=usage)], strict=False) as server:
        more = {} if options is None else {"stream_options": options}
        response = ask(client, server, name, **more)
    turn = read(name, response)
    assert (turn.text, turn.error) == ("Hi.", None)
    assert (turn.usage is not None and turn.usage.input_tokens == 120) == is_sent
    if not is_sent:
        assert b'"usage":{' not in response.content
        assert b'"choices":[]' not in response.content or name == "azure_openai"  # its filter results of the prompt


def streamkit_usage(**figures):
    from streamkit.calls import Usage

    return Usage(**figures)


@pytest.mark.parametrize("name", ["anthropic", "openai_chat"])
def test_argument_text_that_is_not_an_object_is_sent_unchanged(client, name):
    with serve(Reply(Call("f", '{"city": "Os'), finish="length")) as server:
        turn = read(name, ask(client, server, name))
    assert [(call.state, call.arguments_text) for call in turn.calls] == [("incomplete", '{"city": "Os')]


def test_reasoning_has_its_signature(client):
    with serve(Reply(Reasoning("Hm.", signature="c2ln"), "Yes.")) as server:
        turn = read("anthropic", ask(client, server, "anthropic"))
    assert (turn.reasoning, turn.text) == ("Hm.", "Yes.")
    assert turn.content.blocks[0].signature == "c2ln"


def test_a_conversation_goes_on_over_all_base_urls_and_another_starts_anew(client):
    requests = [("openai_chat", ""), ("openai_chat", "second"), ("anthropic", ""), ("gemini", "second")]
    with serve(["one", "two"]) as server:
        texts = [read(name, ask(client, server, name, conversation)).text for name, conversation in requests]
    assert texts == ["one", "one", "two", "two"]
    assert [(request.provider, request.conversation, request.number) for request in server.requests] == [
        ("openai_chat", "", 0),
        ("openai_chat", "second", 0),
        ("anthropic", "", 1),
        ("gemini", "second", 1),
    ]


@pytest.mark.parametrize("name", NAMES)
def test_raw_bytes_are_sent_at_their_position(client, name):
    usage = Usage(1, 1)
    replies = [Reply("one", "two", usage=usage), Reply("one", RawBytes(b"\x00raw"), "two", usage=usage)]
    with serve([*replies, RawBytes(b"all of it")]) as server:
        plain, mixed, raw = (ask(client, server, name) for _ in range(3))
    assert mixed.content.count(b"\x00raw") == 1
    # Ids differ from reply to reply, so the lengths are compared.
    assert len(mixed.content) == len(plain.content) + 4
    turn = Turn(name, turn_key="t")
    turn.feed(mixed.content.partition(b"\x00raw")[0])
    assert turn.text == "one"
    assert raw.content == b"all of it"
    assert raw.headers["content-type"] == plain.headers["content-type"]


def test_raw_bytes_of_a_whole_response_may_have_a_content_type(client):
    with serve([RawBytes(b"<html>", "text/html")]) as server:
        response = ask(client, server, "openai_chat")
    assert response.headers["content-type"].startswith("text/html")
    assert read("openai_chat", response).error.kind == "protocol_error"


@pytest.mark.parametrize("name", NAMES)
def test_an_error_event_ends_the_stream_with_the_providers_error(client, name):
    with serve([Reply("one", ErrorEvent(Status(529, "Overloaded")), "two"), Reply(ErrorEvent("broken"))]) as server:
        first, second = (ask(client, server, name) for _ in range(2))
    turn = read(name, first)
    assert first.status_code == 200
    assert turn.text == "one"
    assert (turn.error.kind, turn.error.message) == ("provider_error", "Overloaded")
    assert read(name, second).error.message == "broken"


@pytest.mark.parametrize(
    ("name", "code", "where"),
    [
        ("anthropic", "billing_error", lambda response: response.json()["error"]["type"]),
        ("openai_chat", "insufficient_quota", lambda response: response.json()["error"]["code"]),
        ("gemini", "FAILED_PRECONDITION", lambda response: response.json()["error"]["status"]),
        ("bedrock_converse", "ServiceQuotaExceededException", lambda response: response.headers["x-amzn-errortype"]),
    ],
)
def test_a_status_has_the_providers_own_code(client, name, code, where):
    with serve([Status(400, "no", code=code), Status(429)]) as server:
        assert where(ask(client, server, name)) == code
        assert where(ask(client, server, name)) not in (None, code)


@pytest.mark.parametrize("name", NAMES)
def test_a_request_after_the_end_of_the_script_is_an_error(client, name):
    with serve("only one") as server:
        ask(client, server, name)
        response = ask(client, server, name)
    assert response.status_code == 500
    assert response.headers["x-should-retry"] == "false"
    turn = read(name, response)
    assert turn.error.kind == "provider_error"
    assert "the script ends after 1 turn and this is request 2" in turn.error.message


@pytest.mark.parametrize("name", NAMES)
def test_a_rejected_request_has_the_vendors_error_body_and_retry_after(client, name):
    with serve([Status(429, "slow down", retry_after=2), "now"]) as server:
        response = ask(client, server, name)
        assert response.status_code == 429
        assert response.headers["retry-after"] == "2"
        turn = read(name, response)
        assert (turn.error.kind, turn.error.message) == ("provider_error", "slow down")
        assert (turn.error.status, turn.error.retry_after) == (429, 2.0)
        assert read(name, ask(client, server, name)).text == "now"
    assert [request.status for request in server.requests] == [429, 200]


def test_a_status_without_a_phrase_is_sent(client):
    with serve(Status(529)) as server:
        response = ask(client, server, "anthropic")
    assert (response.status_code, response.json()["error"]["type"]) == (529, "overloaded_error")


def test_requests_are_recorded(client):
    with serve(["hi"]) as server:
        method, url, body = post(server, "anthropic", messages=[{"role": "user", "content": "hello"}])
        client.request(method, url, headers={"X-Api-Key": "k"}, params={"beta": "true"}, **body)
    (request,) = server.requests
    assert (request.method, request.path, request.query) == ("POST", "/anthropic/v1/messages", {"beta": "true"})
    assert request.headers["x-api-key"] == "k"
    assert request.json["messages"] == [{"role": "user", "content": "hello"}]
    assert not request.disconnected


def test_an_unknown_path_gets_a_message(client):
    with serve("hi") as server:
        nobody = client.post(f"{server.url}/v1/chat/completions", json={})
        wrong = client.post(f"{server.base_url('anthropic')}/v1/complete", json={"stream": True})
        got = client.get(f"{server.base_url('anthropic')}/v1/messages")
    assert (nobody.status_code, wrong.status_code, got.status_code) == (404, 404, 404)
    assert "openai_chat" in nobody.json()["error"]["message"]
    assert "POST /v1/messages, not by POST /v1/complete" in wrong.json()["error"]["message"]
    assert [request.provider for request in server.requests] == [None, "anthropic", "anthropic"]


def test_an_unknown_path_of_openai_is_no_unknown_model(client):
    with serve("hi") as server:
        response = client.post(f"{server.base_url('openai_chat')}/completions", json={"stream": True})
    assert response.status_code == 404
    assert (response.json()["error"]["type"], response.json()["error"]["code"]) == ("invalid_request_error", None)


def test_a_body_that_is_not_json_is_rejected(client):
    with serve(["hi"]) as server:
        response = client.post(f"{server.base_url('anthropic')}/v1/messages", content=b"{")
    assert response.status_code == 400
    assert server.requests[0].json is None


@pytest.mark.parametrize("read_size", [None, 7])
def test_gemini_without_events_sends_one_json_array(client, read_size):
    with serve([WEATHER], read_size=read_size) as server:
        url = f"{server.base_url('gemini')}/v1beta/models/m:streamGenerateContent"
        response = client.post(url, json=smallest_request("gemini"))
    assert response.headers["content-type"] == "application/json"
    assert isinstance(response.json(), list)
    turn = read("gemini", response)
    assert (turn.text, [call.name for call in turn.executable]) == ("Let me look.", ["get_weather", "get_time"])


def test_events_have_the_content_type_of_an_event_stream(client):
    with serve(["hi"]) as server:
        assert ask(client, server, "openai_chat").headers["content-type"] == "text/event-stream"


@pytest.mark.parametrize("name", NAMES)
def test_the_read_size_changes_the_chunks_and_no_byte(name):
    bodies = []
    for size in (None, 20, 100):
        with serve(["hi"], read_size=size, delay=0.001) as server, httpx.Client() as client:
            method, url, body = post(server, name)
            with client.stream(method, url, **body) as response:
                bodies.append(list(response.iter_raw()))
    assert b"".join(bodies[0]) == b"".join(bodies[1]) == b"".join(bodies[2])
    assert len(bodies[1]) > len(bodies[2]) >= len(bodies[0]) > 1  # the network may join some; the pace keeps most apart


class RecordedWaits:
    """The server's ``asyncio`` with a ``wait`` that records the seconds and returns when the test allows it."""

    def __init__(self, monkeypatch):
        self.seconds = []
        self.entered, self.allowed = threading.Event(), threading.Event()
        monkeypatch.setattr("streamkit.testing.application.asyncio", self)

    def __getattr__(self, name):
        return getattr(asyncio, name)

    async def wait(self, tasks, *, timeout):  # noqa: ASYNC109 - the signature of asyncio.wait
        self.seconds.append(timeout)
        self.entered.set()
        assert await asyncio.to_thread(self.allowed.wait, 10)


def test_the_delay_is_kept(client, monkeypatch):
    waits = RecordedWaits(monkeypatch)
    waits.allowed.set()
    with serve(["a text of some length, in pieces"], delta_size=4, delay=0.02) as server:
        ask(client, server, "openai_chat")
    assert len(waits.seconds) >= 8
    assert set(waits.seconds) == {0.02}


@pytest.mark.parametrize("name", NAMES)
def test_a_stall_delays_only_what_follows_it(client, name, monkeypatch):
    waits = RecordedWaits(monkeypatch)
    with serve(Reply("before", Stall(0.15), Call("after", {}))) as server:
        method, url, body = post(server, name)
        turn = Turn(name, turn_key="t")
        with client.stream(method, url, **body) as response:
            for piece in response.iter_bytes():
                turn.feed(piece)
                if turn.text == "before" and not waits.allowed.is_set():
                    assert waits.entered.wait(PATIENCE)
                    assert turn.calls == []
                    waits.allowed.set()
        turn.close()
    assert waits.seconds == [0.15]
    assert [call.name for call in turn.executable] == ["after"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "reply",
    [
        Reply("before", Call("kept", {"n": 1}), Disconnect()),
        Reply("before", Call("kept", {"n": 1}), Disconnect(), Call("lost", {"n": 2})),
    ],
)
def test_a_connection_breaks_at_the_position_in_the_script(client, name, reply):
    with serve(reply) as server:
        method, url, body = post(server, name)
        turn = Turn(name, turn_key="t")
        broken = feed_until_it_breaks(turn, client, method, url, body)
        turn.close(broken)
    assert turn.error.kind == "transport_error"
    assert (turn.text, [call.name for call in turn.calls], turn.executable) == ("before", ["kept"], [])
    assert turn.calls[0].arguments_text.replace(" ", "") == '{"n":1}'
    assert not server.requests[0].disconnected  # it was the server that hung up


def test_a_connection_breaks_in_the_middle_of_a_text(client):
    with serve(Reply("half a ", Disconnect(), "sentence")) as server:
        method, url, body = post(server, "anthropic")
        turn = Turn("anthropic", turn_key="t")
        assert feed_until_it_breaks(turn, client, method, url, body) is not None
    assert turn.text == "half a "


@pytest.mark.parametrize("name", NAMES)
def test_a_client_that_disconnects_early_is_recorded(client, name):
    with serve(Reply("before", Stall(30), "after")) as server:
        method, url, body = post(server, name)
        with client.stream(method, url, **body) as response:
            next(response.iter_bytes())
    assert server.requests[0].disconnected


# (Cohere's own end, message-end, is followed by a [DONE]: who leaves there leaves before the last frame.)
@pytest.mark.parametrize("name", [name for name in NAMES if name != "cohere"])
def test_a_client_that_disconnects_after_the_terminator_is_not_recorded(name):
    with serve(["hi"], delay=0.002) as server, httpx.Client() as client:
        for _ in range(5):
            method, url, body = post(server, name, conversation=f"c{_}")
            turn = Turn(name, turn_key="t")
            with client.stream(method, url, **body) as response:
                for piece in response.iter_bytes():
                    turn.feed(piece)
                    if turn.done:
                        break
    assert [request.disconnected for request in server.requests] == [False] * 5


def test_exiting_the_block_ends_a_stalled_response_at_once(client):
    with serve(Reply("x", Stall(1e6))) as server:  # exiting does not wait for its end
        method, url, body = post(server, "anthropic")
        response = client.send(client.build_request(method, url, **body), stream=True)
    assert not server.requests[0].disconnected  # nobody left; the server went
    response.close()


def test_no_thread_and_no_port_remains():
    before = set(threading.enumerate())
    with serve("hi") as server, httpx.Client() as client:
        port = int(server.url.rpartition(":")[2])
        ask(client, server, "anthropic")
    assert set(threading.enumerate()) <= before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=1)


@pytest.mark.anyio
async def test_the_server_works_with_asyncio_and_trio():
    async with serve([WEATHER]) as server, httpx.AsyncClient() as client:
        method, url, body = post(server, "anthropic")
        response = await client.request(method, url, **body)
    assert read("anthropic", response).text == "Let me look."


@pytest.mark.asyncio  # it is about asyncio.gather
async def test_many_conversations_at_once():
    async with serve([Reply("hello")], delay=0.001) as server, httpx.AsyncClient() as client:

        async def one(number):
            method, url, body = post(server, NAMES[number % 5], f"n{number}")
            return read(NAMES[number % 5], await client.request(method, url, **body)).text

        assert await asyncio.gather(*(one(number) for number in range(40))) == ["hello"] * 40


def test_a_function_makes_the_response_to_each_request(client):
    def echo(request):
        return Reply(f"{request.provider} {request.number} {request.json['messages'][0]}")

    with serve(echo, strict=False) as server:  # a word is no message
        texts = [read("anthropic", ask(client, server, "anthropic", messages=[word])).text for word in "ab"]
    assert texts == ["anthropic 0 a", "anthropic 1 b"]


def test_a_function_can_be_one_turn_of_many_and_asynchronous(client):
    async def second(_request):
        await asyncio.sleep(0)
        return Status(503)

    with serve(["one", second]) as server:
        assert read("anthropic", ask(client, server, "anthropic")).text == "one"
        response = ask(client, server, "anthropic")
    assert (response.status_code, response.json()["error"]["message"]) == (503, "Service Unavailable")


def test_a_function_that_raises_becomes_an_error_for_the_client(client):
    def broken(request):
        assert request.json["model"] == "another", "the wrong model is asked"

    with serve([broken]) as server:
        response = ask(client, server, "openai_chat")
    assert response.status_code == 500
    assert "request 1 raised AssertionError: the wrong model is asked" in response.json()["error"]["message"]


def test_a_function_that_returns_no_turn_becomes_an_error_for_the_client(client):
    with serve(lambda _: 3) as server:  # type: ignore[return-value]
        assert "not 3" in ask(client, server, "openai_chat").json()["error"]["message"]


def test_a_third_party_provider_is_served(client):
    base = providers.get("openai_chat")

    class Own:
        name = "my_gateway"

        def __getattr__(self, attribute):
            return getattr(base, attribute)

    with serve(["hi"]) as server:
        response = client.post(server.base_url(Own()) + "/chat/completions", json=smallest_request("openai_chat"))
    assert read(Own(), response).text == "hi"
    assert server.requests[0].provider == "my_gateway"


def test_a_reply_that_a_provider_cannot_send_becomes_an_error_for_the_client(client):
    base = providers.get("openai_chat")

    class Mute:
        name = "mute"

        def __getattr__(self, attribute):
            return getattr(base, attribute)

        def emit(self, content, **_):
            raise ValueError(f"no words for {content.blocks[0].text}")

    with serve(["hi"]) as server:
        response = client.post(server.base_url(Mute()) + "/chat/completions", json=smallest_request("openai_chat"))
    assert response.status_code == 500
    assert "mute cannot send this reply: ValueError: no words for hi" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Reply(3), "not int: 3"),
        (lambda: Status(200), "from 400 to 599"),
        (lambda: serve([Call("f")]), "put it into a Reply"),
        (lambda: serve([3]), "a turn must be a Reply"),
        (lambda: serve("x", delta_size=0), "at least 1"),
        (lambda: serve("x", read_size=0), "at least 1"),
        (lambda: serve("x", delay=-1), "delay must be"),
        (lambda: serve("x").url, "only inside its `with`"),
        (lambda: serve("x").base_url("anthropic"), "only inside its `with`"),
    ],
)
def test_misuse_raises_at_once(make, sentence):
    with pytest.raises(UsageError, match=sentence):
        make()


def test_a_server_runs_once():
    with serve("x") as server:
        with pytest.raises(UnknownProvider):
            server.base_url("antropic")
        with pytest.raises(UsageError, match="letters"):
            server.base_url("anthropic", "a/b")
        with pytest.raises(UsageError, match="once"), server:
            pass
        assert server.url
    with pytest.raises(UsageError, match="once"), server:
        pass


def test_without_the_extra_the_error_names_what_to_install():
    code = "import sys; sys.modules['uvicorn'] = None; from streamkit.testing import serve"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "streamkit.testing needs uvicorn: pip install 'streamkit-llm[testing]'" in done.stderr
