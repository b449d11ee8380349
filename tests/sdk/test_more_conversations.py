"""More official SDKs hold a conversation with the embedded server.

``run_loop`` asks through the SDK with what streamkit renders, reads the objects that the SDK gives, runs the tools, and
asks again. The SDKs check what they are given.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, get_args

import pytest
from sdk_clients import bedrock
from sdk_conversation import CALLS, SCRIPT, check, from_objects

import streamkit
from streamkit import Content, Turn
from streamkit.reading import sdk_objects
from streamkit.testing import Call, ErrorEvent, Reasoning, Reply, Status, serve


@pytest.fixture(params=[None, 5], ids=["frames", "reads of five bytes"])
def server(request: pytest.FixtureRequest) -> Iterator[Any]:
    with serve(SCRIPT, read_size=request.param) as server:
        yield server


def get_weather(city: str, days: list[int] | None = None, detail: dict[str, bool] | None = None) -> str:
    """The weather in a city."""
    return f"{city}: snow"


def get_time() -> str:
    """The time."""
    return "noon"


QUESTION = [{"role": "user", "content": "Weather?"}]
HISTORY = [Content.system("Be brief."), Content.human("Is there snow?")]


async def hold(provider: str, server: Any, ask: Callable[[dict[str, Any]], Iterable[Any]]) -> list[list[Any]]:
    """Two rounds by way of an SDK: ``ask`` gives its stream. The objects of each round."""
    rounds: list[list[Any]] = []

    async def asked(context: Any) -> Iterable[Any]:
        objects = ask(dict(context.request))
        if hasattr(objects, "__aiter__"):
            rounds.append([piece async for piece in objects])
        else:
            rounds.append(list(objects))
        return rounds[-1]

    async with streamkit.run_loop(
        asked, provider=provider, tools=[get_weather, get_time], history=HISTORY, run_key="run"
    ) as run:
        async for _ in run:
            pass
    assert run.ended == "answered"
    assert run.text == "Tromsø has snow."
    assert run.rounds == 2
    results = [block.result for content in run.contents for block in content.blocks if block.type == "tool_response"]
    assert results == ["Tromsø: snow", "Oslo: snow", "noon"]
    assert [request.status for request in server.requests] == [200, 200]
    assert [(call.name, call.arguments) for call in from_objects(provider, rounds[0]).executable] == CALLS
    return rounds


# ---------------------------------------------------------------- openai responses


@pytest.mark.anyio
async def test_openai_responses(server: Any) -> None:
    import openai

    with openai.OpenAI(base_url=server.base_url("openai_responses"), api_key="k") as client:
        rounds = await hold("openai_responses", server, lambda request: client.responses.create(model="m", **request))
    check("openai_responses", "/responses", server, rounds[0])


def test_openai_responses_accumulate_to_the_same_turn(server: Any) -> None:
    import openai

    with (
        openai.OpenAI(base_url=server.base_url("openai_responses"), api_key="k") as client,
        client.responses.stream(model="m", input="Snow?") as stream,
    ):
        chunks = list(stream)
        response = stream.get_final_response()
    assert response.output_text == "Let me look at both: Oslo & Tromsø."
    calls = [item for item in response.output if item.type == "function_call"]
    assert [(item.name, json.loads(item.arguments)) for item in calls] == CALLS
    check("openai_responses", "/responses", server, chunks)


# ---------------------------------------------------------------- groq


@pytest.mark.anyio
async def test_groq(server: Any) -> None:
    import groq

    with groq.Groq(base_url=server.base_url("groq").removesuffix("/v1"), api_key="k") as client:

        def ask(request: dict[str, Any]) -> Iterable[Any]:
            # The API knows stream_options, the SDK's method does not.
            extra = {"stream_options": request.pop("stream_options")}
            return client.chat.completions.create(model="m", **request, extra_body=extra)

        rounds = await hold("groq", server, ask)
    assert server.requests[0].path.endswith("/openai/v1/chat/completions")
    check("groq", "/chat/completions", server, rounds[0])


@pytest.mark.asyncio  # the SDK documents asyncio alone
async def test_groq_async(server: Any) -> None:
    import groq

    async with groq.AsyncGroq(base_url=server.base_url("groq").removesuffix("/v1"), api_key="k") as client:
        stream = await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "?"}], stream=True
        )
        chunks = [chunk async for chunk in stream]
    check("groq", "/chat/completions", server, chunks)


# ---------------------------------------------------------------- mistralai


def without(request: dict[str, Any], *names: str) -> dict[str, Any]:
    """What is said by the method's name instead."""
    return {name: value for name, value in request.items() if name not in names}


@pytest.mark.anyio
async def test_mistralai(server: Any) -> None:
    from mistralai.client import Mistral

    with Mistral(server_url=server.base_url("mistral").removesuffix("/v1"), api_key="k") as client:
        rounds = await hold(
            "mistral",
            server,
            lambda request: client.chat.stream(model="m", **without(request, "stream", "stream_options")),
        )
    assert {
        len(message["tool_call_id"]) for message in server.requests[1].json["messages"] if message["role"] == "tool"
    } == {9}
    check("mistral", "/chat/completions", server, rounds[0])


# ---------------------------------------------------------------- cohere


@pytest.mark.anyio
async def test_cohere(server: Any) -> None:
    import cohere
    import httpx

    with httpx.Client() as http:
        client = cohere.ClientV2(base_url=server.base_url("cohere"), api_key="k", httpx_client=http)
        rounds = await hold(
            "cohere", server, lambda request: client.chat_stream(model="m", **without(request, "stream"))
        )
    check("cohere", "/v2/chat", server, rounds[0])


# ---------------------------------------------------------------- ollama


@pytest.mark.anyio
async def test_ollama(server: Any) -> None:
    import ollama

    client = ollama.Client(host=server.base_url("ollama"))
    with contextlib.closing(client._client):
        rounds = await hold("ollama", server, lambda request: client.chat(model="m", **request))
    check("ollama", "/api/chat", server, rounds[0])


# ---------------------------------------------------------------- boto3


@pytest.mark.anyio
async def test_boto3_converse(server: Any) -> None:
    with bedrock(server.base_url("bedrock_converse")) as client:
        rounds = await hold(
            "bedrock_converse",
            server,
            lambda request: client.converse_stream(modelId="vendor.m-v1:0", **request)["stream"],
        )
    check("bedrock_converse", "/model/m/converse-stream", server, rounds[0])


@pytest.mark.anyio
async def test_boto3_invoke(server: Any) -> None:
    with bedrock(server.base_url("bedrock_invoke")) as client:

        def ask(request: dict[str, Any]) -> Iterable[Any]:
            body = json.dumps({"max_tokens": 100, **request})
            return client.invoke_model_with_response_stream(modelId="vendor.m-v1:0", body=body)["body"]

        rounds = await hold("bedrock_invoke", server, ask)
    assert all(isinstance(piece["chunk"]["bytes"], bytes) for piece in rounds[0])
    check("bedrock_invoke", "/model/m/invoke-with-response-stream", server, rounds[0])


def test_boto3_reads_a_rejected_request() -> None:
    from botocore.exceptions import ClientError

    with (
        serve(Status(400, "no such model")) as server,
        bedrock(server.base_url("bedrock_converse")) as client,
        pytest.raises(ClientError, match="no such model"),
    ):
        client.converse_stream(modelId="m", messages=[{"role": "user", "content": [{"text": "?"}]}])


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (Status(429, "slow down"), "ThrottlingException"),
        (Status(400, "too long"), "ValidationException"),
        (Status(400, "enough", code="ServiceQuotaExceededException"), "ServiceQuotaExceededException"),
        (Status(424, "no model"), "ModelErrorException"),
    ],
)
def test_boto3_raises_the_exception_of_that_name(status: Status, name: str) -> None:
    with (
        serve(lambda _: status) as server,
        bedrock(server.base_url("bedrock_converse")) as client,
        pytest.raises(getattr(client.exceptions, name), match=status.message),
    ):
        client.converse_stream(modelId="m", messages=[{"role": "user", "content": [{"text": "?"}]}])


def test_boto3_raises_an_exception_within_the_stream() -> None:
    from botocore.exceptions import EventStreamError

    with (
        serve(Reply("Hm.", ErrorEvent(Status(429, "slow down")))) as server,
        bedrock(server.base_url("bedrock_converse")) as client,
    ):
        stream = client.converse_stream(modelId="m", messages=[{"role": "user", "content": [{"text": "?"}]}])["stream"]
        with contextlib.closing(stream), pytest.raises(EventStreamError, match="throttlingException"):
            list(stream)


# ---------------------------------------------------------------- streams that accumulate, and their own events

TALK = [Reply(Reasoning("Hm.", signature="c2ln"), "Let me look.", Call("get_weather", {"city": "Oslo"}))]


def kinds_of(union: Any) -> list[str]:
    """The types of a union of events."""
    found: list[str] = []
    for member in get_args(get_args(union)[0]) or get_args(union):
        kind = getattr(member, "model_fields", {}).get("type")
        found += [] if kind is None else get_args(kind.annotation)
    return found


def test_derived_events_of_the_anthropic_sdk_are_not_read_twice() -> None:
    import anthropic

    with (
        serve(TALK) as server,
        anthropic.Anthropic(base_url=server.base_url("anthropic"), api_key="k") as client,
        client.messages.stream(model="m", max_tokens=9, messages=QUESTION) as stream,
    ):
        events = list(stream)
    assert {"text", "thinking", "signature", "input_json", "content_block_stop"} <= {event.type for event in events}
    turn = from_objects("anthropic", events)
    assert (turn.text, turn.reasoning) == ("Let me look.", "Hm.")
    assert [call.arguments for call in turn.executable] == [{"city": "Oslo"}]
    assert turn.content.blocks[0].signature == "c2ln"
    assert turn.warnings == []
    fed = Turn("anthropic")
    assert [event for piece in events for event in fed.feed(piece) if event.type == "unknown"] == []


def test_derived_events_of_the_openai_sdk_are_not_read_twice() -> None:
    import openai

    with (
        serve([Reply("Let me look.", Call("get_weather", {"city": "Oslo"}))]) as server,
        openai.OpenAI(base_url=server.base_url("openai_chat"), api_key="k") as client,
        client.chat.completions.stream(model="m", messages=QUESTION) as stream,
    ):
        events = list(stream)
    assert {"chunk", "content.delta", "content.done", "tool_calls.function.arguments.delta"} <= {e.type for e in events}
    turn = from_objects("openai_chat", events)
    assert turn.text == "Let me look."
    assert [call.arguments for call in turn.executable] == [{"city": "Oslo"}]
    assert turn.warnings == []
    assert [event for piece in events for event in Turn("openai_chat").feed(piece) if event.type == "unknown"] == []


def test_every_event_of_an_accumulating_stream_is_of_the_wire_or_left_out() -> None:
    from anthropic.lib.streaming._beta_types import ParsedBetaMessageStreamEvent
    from anthropic.lib.streaming._types import ParsedMessageStreamEvent
    from anthropic.types import RawMessageStreamEvent
    from openai.lib.streaming.chat import ChatCompletionStreamEvent

    raw = set(kinds_of(RawMessageStreamEvent))
    assert "content_block_delta" in raw
    own = {*kinds_of(ParsedMessageStreamEvent), *kinds_of(ParsedBetaMessageStreamEvent)} - raw
    own |= set(kinds_of(ChatCompletionStreamEvent)) - {"chunk"}
    assert own == sdk_objects._REPEATS


def test_an_event_of_the_wire_with_such_a_type_is_not_left_out() -> None:
    class Event:
        type = "text"

        def model_dump(self, **_: Any) -> dict[str, Any]:
            return {"type": "text", "text": "Hi"}

    assert sdk_objects.dump_chunk(Event()) == {"type": "text", "text": "Hi"}


def test_mistrals_event_is_its_data() -> None:
    from mistralai.client.models import CompletionChunk, CompletionEvent

    chunk = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": None}]}
    assert sdk_objects.dump_chunk(CompletionEvent(data=CompletionChunk.model_validate(chunk))) == chunk


def test_an_object_that_nests_too_deeply_ends_the_turn() -> None:
    class Deep:
        def model_dump(self, **_: Any) -> dict[str, Any]:
            value: dict[str, Any] = {}
            for _ in range(5000):  # type: ignore[assignment]
                value = {"a": value}
            return value

    turn = Turn("openai_chat")
    assert [event.type for event in turn.feed(Deep())] == ["failed"]
    turn.close()
    assert turn.error is not None
    assert turn.error.kind == "limit_exceeded"
