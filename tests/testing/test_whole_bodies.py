"""Requests without ``stream``: the same script as one complete body of each wire."""

from __future__ import annotations

import httpx
import pytest
from smallest_requests import smallest_request
from waiting import PATIENCE

from streamkit import providers
from streamkit.calls import Usage
from streamkit.reading.turn import Turn
from streamkit.testing import (
    Call,
    Disconnect,
    ErrorEvent,
    RawBytes,
    Reasoning,
    Reply,
    Server,
    Stall,
    Status,
    serve,
)

WIRES = ["anthropic", "bedrock_converse", "bedrock_invoke", "cohere", "gemini", "ollama", "openai_chat"]
WIRES += ["openai_responses"]
USAGE = Usage(input_tokens=120, output_tokens=30)
REPLY = Reply(
    Reasoning("Hm."),
    "Let me look, says Tromsø.",
    Call("get_weather", {"city": "Oslo", "days": [1, 2]}),
    Call("get_time"),
    usage=USAGE,
)


def ask(server: Server, name: str, *, stream: bool = False) -> httpx.Response:
    """Return the response to a request that the endpoint of a provider describes."""
    endpoint = providers.get(name).traits.endpoint
    path = endpoint.path.format(model="vendor.m")
    if not stream:
        path = path.replace(":streamGenerateContent?alt=sse", ":generateContent")
        path = path.replace("/converse-stream", "/converse").replace("/invoke-with-response-stream", "/invoke")
    body = {key: value for key, value in smallest_request(name).items() if key != "stream"}
    if "stream" in smallest_request(name) or endpoint.streams_by_default:
        body["stream"] = stream
    if stream and providers.get(name).traits.stream_usage:
        body["stream_options"] = {"include_usage": True}
    return httpx.post(server.base_url(name) + path, json=body, timeout=PATIENCE)


def read(name: str, response: httpx.Response) -> Turn:
    turn = Turn(name, turn_key="t")
    turn.response(response.status_code, response.headers)
    turn.feed(response.content)
    turn.close()
    return turn


def describe(turn: Turn) -> tuple[object, ...]:
    return (
        turn.text,
        turn.reasoning,
        [(call.name, call.arguments, call.state, call.raw_id) for call in turn.executable],
        turn.finish and turn.finish.reason,
        turn.usage and (turn.usage.input_tokens, turn.usage.output_tokens),
        turn.error,
        turn.warnings,
    )


@pytest.mark.parametrize("name", providers.names())
def test_a_body_is_the_same_turn_as_the_stream(name: str) -> None:
    turns = []
    for stream in (True, False):
        with serve([REPLY], strict=False) as server:
            response = ask(server, name, stream=stream)
        turns.append(describe(read(name, response)))
    assert response.headers["content-type"] == "application/json"
    assert response.json()
    assert turns[0] == turns[1]
    text, _, calls, *rest = turns[1]
    assert text == "Let me look, says Tromsø."
    assert [call[:3] for call in calls] == [  # type: ignore[attr-defined]
        ("get_weather", {"city": "Oslo", "days": [1, 2]}, "complete"),
        ("get_time", {}, "complete"),
    ]
    assert rest == ["tool_calls", (120, 30), None, []]


@pytest.mark.parametrize("name", WIRES)
def test_a_script_goes_on_from_a_body_to_a_stream(name: str) -> None:
    with serve(["one", "two"], strict=False) as server:
        turns = [read(name, ask(server, name, stream=stream)) for stream in (False, True)]
    assert [turn.text for turn in turns] == ["one", "two"]


@pytest.mark.parametrize("name", WIRES)
def test_an_error_within_a_reply_is_the_response_of_a_body(name: str) -> None:
    replies = [Reply("one", ErrorEvent(Status(529, "Overloaded", retry_after=2))), Reply(ErrorEvent("broken"))]
    with serve([*replies, Status(429, "slow down")], strict=False) as server:
        responses = [ask(server, name) for _ in range(3)]
    assert [response.status_code for response in responses] == [529, 500, 429]
    assert responses[0].headers["retry-after"] == "2"
    for response, message in zip(responses, ["Overloaded", "broken", "slow down"], strict=True):
        turn = read(name, response)
        assert turn.error is not None
        assert (turn.error.kind, turn.error.message) == ("provider_error", message)


@pytest.mark.parametrize("name", WIRES)
def test_the_finish_of_a_body_is_that_of_the_reply(name: str) -> None:
    with serve([Reply("Once upon", finish="length")], strict=False) as server:
        turn = read(name, ask(server, name))
    assert turn.finish is not None
    assert turn.finish.reason == "length"


def test_a_disconnect_sends_half_of_a_body() -> None:
    with (
        serve([Reply("one", Stall(0.01), Disconnect())]) as server,
        pytest.raises(httpx.RemoteProtocolError),
    ):
        ask(server, "openai_chat")
    assert [request.status for request in server.requests] == [200]


def test_raw_bytes_have_no_place_within_a_body_but_may_be_all_of_it() -> None:
    with serve([Reply("one", RawBytes(b"x")), RawBytes(b"{", "application/json")]) as server:
        refused, raw = (ask(server, "openai_chat") for _ in range(2))
    assert refused.status_code == 500
    assert "RawBytes within a Reply have no place" in refused.json()["error"]["message"]
    assert raw.content == b"{"


def test_a_body_is_sent_in_reads_of_a_size() -> None:
    with serve([REPLY], read_size=7, strict=False) as server:
        assert describe(read("anthropic", ask(server, "anthropic")))[0] == "Let me look, says Tromsø."


def test_a_body_of_chat_completions_has_usage_that_was_not_asked_for() -> None:
    with serve(["Hi."]) as server:
        assert ask(server, "openai_chat").json()["usage"]["total_tokens"] > 0


def test_a_body_of_kimi_has_its_usage_at_the_top() -> None:
    """A stream of Kimi has it in the choice; OpenAI's clients read that of a body at its top."""
    with serve([Reply("Hi.", usage=USAGE)]) as server:
        body = ask(server, "kimi").json()
    assert body["usage"]["prompt_tokens"] == 120
    assert "usage" not in body["choices"][0]


def test_stream_must_be_true_or_false() -> None:
    with serve(["Hi."]) as server:
        response = httpx.post(f"{server.base_url('openai_chat')}/chat/completions", json={"stream": "yes"})
    assert response.status_code == 400
    assert "stream is 'yes', not true or false" in response.json()["error"]["message"]


@pytest.mark.parametrize("name", WIRES)
def test_a_response_that_failed_is_no_body_of_a_response_that_ended(name: str) -> None:
    """Anthropic, Bedrock and Ollama have no finish reason for it: their bodies were those of a normal end."""
    with serve([Reply("Once", finish="error")], strict=False) as server:
        response = ask(server, name)
    turn = read(name, response)
    assert turn.error is not None or (turn.finish is not None and turn.finish.reason == "error")
    has_finish = name in ("cohere", "gemini", "openai_chat", "openai_responses")
    assert response.status_code == (200 if has_finish else 500)
