"""The official SDKs, as they come from the registry, hold a conversation of two rounds with the embedded server.

Their own accumulators say what they understood; their chunk objects, fed to ``Turn``, must give what the bytes give.
"""

from __future__ import annotations

from typing import Any

import anthropic
import openai
import pytest
from google import genai
from sdk_conversation import CALLS, SCHEMA, SCRIPT, check

from streamkit.testing import Reasoning, Reply, Status, serve


@pytest.fixture(params=[None, 5], ids=["frames", "reads of five bytes"])
def server(request):
    with serve(SCRIPT, read_size=request.param) as server:
        yield server


# ---------------------------------------------------------------- openai

TOOLS = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in ("get_weather", "get_time")]
QUESTION = [{"role": "user", "content": "Weather?"}]


def openai_client(server, name):
    if name == "azure_openai":
        return openai.AzureOpenAI(azure_endpoint=server.base_url(name), api_version="2024-10-21", api_key="k")
    return openai.OpenAI(base_url=server.base_url(name), api_key="k")


@pytest.mark.parametrize("name", ["openai_chat", "azure_openai", "openai_compatible"])
def test_openai(server, name):
    with openai_client(server, name) as client:
        chunks = []
        with client.chat.completions.stream(model="m", messages=QUESTION, tools=TOOLS) as stream:
            chunks += [event.chunk for event in stream if event.type == "chunk"]
            message = stream.get_final_completion().choices[0].message
        assert message.content == "Let me look at both: Oslo & Tromsø."
        ids = [call.id for call in message.tool_calls]
        assert [call.function.name for call in message.tool_calls] == [call_name for call_name, _ in CALLS]
        results = [{"role": "tool", "tool_call_id": call_id, "content": "4 degrees"} for call_id in ids]
        thread = [*QUESTION, message.to_dict(), *results]
        answer = client.chat.completions.create(model="m", messages=thread, tools=TOOLS, stream=True)
        texts = [chunk.choices[0].delta.content or "" for chunk in answer if chunk.choices]
    assert "".join(texts) == "Tromsø has snow."
    assert [call["id"] for call in server.requests[1].json["messages"][1]["tool_calls"]] == ids
    path = "/openai/deployments/m/chat/completions" if name == "azure_openai" else "/chat/completions"
    check(name, path, server, chunks)


@pytest.mark.asyncio  # the SDK documents asyncio alone
async def test_openai_async(server):
    async with openai.AsyncOpenAI(base_url=server.base_url("openai_chat"), api_key="k") as client:
        stream = await client.chat.completions.create(model="m", messages=QUESTION, tools=TOOLS, stream=True)
        chunks = [chunk async for chunk in stream]
    check("openai_chat", "/chat/completions", server, chunks)


def test_openai_reads_a_rejected_request():
    with (
        serve(Status(400, "no such model")) as server,
        openai_client(server, "openai_chat") as client,
        pytest.raises(openai.BadRequestError, match="no such model"),
    ):
        client.chat.completions.create(model="m", messages=QUESTION, stream=True)


def test_openai_repeats_a_request_and_gets_the_next_turn():
    with serve([Status(429, retry_after=0.01), "now"]) as server, openai_client(server, "openai_chat") as client:
        stream = client.chat.completions.create(model="m", messages=QUESTION, stream=True)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices) == "now"
    assert [request.status for request in server.requests] == [429, 200]


# ---------------------------------------------------------------- anthropic

ANTHROPIC: Any = {
    "model": "m",
    "max_tokens": 100,
    "tools": [{"name": name, "input_schema": SCHEMA} for name in ("get_weather", "get_time")],
}


def test_anthropic(server):
    with anthropic.Anthropic(base_url=server.base_url("anthropic"), api_key="k") as client:
        with client.messages.stream(messages=QUESTION, **ANTHROPIC) as stream:
            message = stream.get_final_message()
        assert message.stop_reason == "tool_use"
        uses = [block for block in message.content if block.type == "tool_use"]
        assert [(block.name, block.input) for block in uses] == CALLS
        results = [{"type": "tool_result", "tool_use_id": block.id, "content": "4 degrees"} for block in uses]
        thread = [
            *QUESTION,
            {"role": "assistant", "content": [block.to_dict() for block in message.content]},
            {"role": "user", "content": results},
        ]
        with client.messages.stream(messages=thread, **ANTHROPIC) as stream:
            assert stream.get_final_text() == "Tromsø has snow."
    assert server.requests[1].headers["user-agent"].startswith("Anthropic/Python")


def test_anthropic_objects(server):
    with anthropic.Anthropic(base_url=server.base_url("anthropic"), api_key="k") as client:
        chunks = list(client.messages.create(messages=QUESTION, stream=True, **ANTHROPIC))
    check("anthropic", "/v1/messages", server, chunks)


@pytest.mark.asyncio  # the SDK documents asyncio alone
async def test_anthropic_async(server):
    async with anthropic.AsyncAnthropic(base_url=server.base_url("anthropic"), api_key="k") as client:
        chunks = [chunk async for chunk in await client.messages.create(messages=QUESTION, stream=True, **ANTHROPIC)]
    check("anthropic", "/v1/messages", server, chunks)


def test_anthropic_reads_thinking_with_its_signature():
    with (
        serve(Reply(Reasoning("Hm, Oslo.", signature="c2lnbmVk"), "4 degrees.")) as server,
        anthropic.Anthropic(base_url=server.base_url("anthropic"), api_key="k") as client,
        client.messages.stream(messages=QUESTION, **ANTHROPIC) as stream,
    ):
        thinking = stream.get_final_message().content[0]
    assert (thinking.thinking, thinking.signature) == ("Hm, Oslo.", "c2lnbmVk")


def test_anthropic_reads_a_rejected_request():
    with (
        serve(Status(404, "no such model")) as server,
        anthropic.Anthropic(base_url=server.base_url("anthropic"), api_key="k") as client,
        pytest.raises(anthropic.NotFoundError, match="no such model"),
    ):
        client.messages.create(messages=QUESTION, stream=True, **ANTHROPIC)


# ---------------------------------------------------------------- google-genai

GEMINI_TOOLS = [
    {"function_declarations": [{"name": name, "parameters": SCHEMA} for name in ("get_weather", "get_time")]}
]
GEMINI_CONFIG = {"tools": GEMINI_TOOLS, "automatic_function_calling": {"disable": True}}


def genai_client(server):
    return genai.Client(api_key="k", http_options={"base_url": server.base_url("gemini")})


def test_gemini(server):
    with genai_client(server) as client:
        chunks = list(client.models.generate_content_stream(model="m", contents="Weather?", config=GEMINI_CONFIG))
        calls = [call for chunk in chunks for call in chunk.function_calls or []]
        assert [(call.name, call.args or {}) for call in calls] == CALLS
        thread = [
            {"role": "user", "parts": [{"text": "Weather?"}]},
            {"role": "model", "parts": [part for chunk in chunks for part in chunk.candidates[0].content.parts or []]},
            {
                "role": "user",
                "parts": [{"function_response": {"name": call.name, "response": {"result": "4"}}} for call in calls],
            },
        ]
        again = client.models.generate_content_stream(model="m", contents=thread, config=GEMINI_CONFIG)
        assert "".join(chunk.text or "" for chunk in again) == "Tromsø has snow."
    assert len(server.requests[1].json["contents"][2]["parts"]) == 3
    check("gemini", "/v1beta/models/m:streamGenerateContent?alt=sse", server, chunks)


@pytest.mark.asyncio  # the SDK documents asyncio alone
async def test_gemini_async(server):
    async with genai_client(server).aio as client:
        stream = await client.models.generate_content_stream(model="m", contents="Weather?", config=GEMINI_CONFIG)
        chunks = [chunk async for chunk in stream]
    check("gemini", "/v1beta/models/m:streamGenerateContent?alt=sse", server, chunks)


def test_gemini_reads_a_rejected_request():
    with (
        serve(Status(400, "no such model")) as server,
        genai_client(server) as client,
        pytest.raises(genai.errors.ClientError, match="no such model"),
    ):
        list(client.models.generate_content_stream(model="m", contents="Weather?"))
