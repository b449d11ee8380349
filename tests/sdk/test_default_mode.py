"""The official SDKs hold a conversation in their default mode, without a stream, with the embedded server."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from sdk_clients import bedrock
from sdk_conversation import CALLS, SCHEMA

from streamkit.testing import Call, Reasoning, Reply, Server, Status, serve

FIRST = "Let me look at both: Oslo & Tromsø."
LAST = "Tromsø has snow."
SCRIPT = [
    Reply(Reasoning("Two cities."), FIRST, *(Call(name, arguments) for name, arguments in CALLS)),
    Reply(LAST),
]
NAMES = ("get_weather", "get_time")
QUESTION: list[Any] = [{"role": "user", "content": "Weather?"}]
CHAT_TOOLS: list[Any] = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in NAMES]


@pytest.fixture
def server() -> Iterator[Server]:
    with serve(SCRIPT) as server:
        yield server
    # None, if the SDK is missing and the test was skipped.
    assert [request.status for request in server.requests] in ([], [200, 200])


def chat_results(ids: list[str]) -> list[dict[str, str]]:
    return [{"role": "tool", "tool_call_id": call_id, "content": "4 degrees"} for call_id in ids]


@pytest.mark.parametrize("name", ["openai_chat", "openai_compatible", "azure_openai"])
def test_openai_chat(server: Server, name: str) -> None:
    import openai

    url = server.base_url(name)
    client: openai.OpenAI
    if name == "azure_openai":
        client = openai.AzureOpenAI(azure_endpoint=url, api_version="2024-10-21", api_key="k")
    else:
        client = openai.OpenAI(base_url=url, api_key="k")
    with client:
        first = client.chat.completions.create(model="m", messages=QUESTION, tools=CHAT_TOOLS)
        message = first.choices[0].message
        assert message.content == FIRST
        assert first.choices[0].finish_reason == "tool_calls"
        assert first.usage is not None
        calls: list[Any] = message.tool_calls or []
        assert [(call.function.name, json.loads(call.function.arguments)) for call in calls] == CALLS
        thread: list[Any] = [*QUESTION, message.to_dict(), *chat_results([call.id for call in calls])]
        last = client.chat.completions.create(model="m", messages=thread, tools=CHAT_TOOLS)
    assert last.choices[0].message.content == LAST


def test_openai_responses(server: Server) -> None:
    import openai

    tools: list[Any] = [{"type": "function", "name": name, "parameters": SCHEMA, "strict": False} for name in NAMES]
    with openai.OpenAI(base_url=server.base_url("openai_responses"), api_key="k") as client:
        first = client.responses.create(model="m", input="Weather?", tools=tools)
        assert first.output_text == FIRST
        assert [item.summary[0].text for item in first.output if item.type == "reasoning"] == ["Two cities."]
        calls = [item for item in first.output if item.type == "function_call"]
        assert [(call.name, json.loads(call.arguments)) for call in calls] == CALLS
        results = [{"type": "function_call_output", "call_id": call.call_id, "output": "4 degrees"} for call in calls]
        thread: list[Any] = [*QUESTION, *(item.to_dict() for item in first.output), *results]
        last = client.responses.create(model="m", input=thread, tools=tools)
    assert last.output_text == LAST


def test_anthropic(server: Server) -> None:
    import anthropic

    tools: list[Any] = [{"name": name, "input_schema": SCHEMA} for name in NAMES]
    with anthropic.Anthropic(base_url=server.base_url("anthropic"), api_key="k") as client:
        first = client.messages.create(model="m", max_tokens=100, messages=QUESTION, tools=tools)
        assert first.stop_reason == "tool_use"
        assert [block.thinking for block in first.content if block.type == "thinking"] == ["Two cities."]
        assert [block.text for block in first.content if block.type == "text"] == [FIRST]
        uses = [block for block in first.content if block.type == "tool_use"]
        assert [(block.name, block.input) for block in uses] == CALLS
        results = [{"type": "tool_result", "tool_use_id": block.id, "content": "4 degrees"} for block in uses]
        own = [block.to_dict() for block in first.content if block.type != "thinking"]  # this one has no signature
        thread: list[Any] = [*QUESTION, {"role": "assistant", "content": own}, {"role": "user", "content": results}]
        last = client.messages.create(model="m", max_tokens=100, messages=thread, tools=tools)
    assert [block.text for block in last.content if block.type == "text"] == [LAST]


def test_google_genai(server: Server) -> None:
    from google import genai

    declared: Any = [{"name": name, "parameters": SCHEMA} for name in NAMES]
    config: Any = {"tools": [{"function_declarations": declared}], "automatic_function_calling": {"disable": True}}
    with genai.Client(api_key="k", http_options={"base_url": server.base_url("gemini")}) as client:
        chat = client.chats.create(model="m", config=config)
        first = chat.send_message("Weather?")
        calls = first.function_calls or []
        assert [(call.name, call.args or {}) for call in calls] == CALLS
        results: list[Any] = [
            genai.types.Part.from_function_response(name=call.name or "", response={"result": "4 degrees"})
            for call in calls
        ]
        assert chat.send_message(results).text == LAST


def test_google_genai_runs_tools_itself() -> None:
    from google import genai

    def get_weather(city: str) -> str:
        """Return the weather of a city."""
        return f"{city}: 4 degrees"

    script = [Reply(Call("get_weather", {"city": "Oslo"}), Call("get_weather", {"city": "Bergen"})), Reply(LAST)]
    with (
        serve(script) as server,
        genai.Client(api_key="k", http_options={"base_url": server.base_url("gemini")}) as sdk,
    ):
        response = sdk.models.generate_content(model="m", contents="Weather?", config={"tools": [get_weather]})
    assert response.text == LAST
    assert "Oslo: 4 degrees" in str(server.requests[1].json)
    assert "Bergen: 4 degrees" in str(server.requests[1].json)


def test_mistralai(server: Server) -> None:
    from mistralai.client import Mistral

    with Mistral(server_url=server.base_url("mistral").removesuffix("/v1"), api_key="k") as client:
        first = client.chat.complete(model="m", messages=QUESTION, tools=CHAT_TOOLS)
        message: Any = first.choices[0].message
        assert [part.text for part in message.content if part.type == "text"] == [FIRST]
        calls = message.tool_calls
        assert [(call.function.name, json.loads(call.function.arguments)) for call in calls] == CALLS
        thread: Any = [*QUESTION, message, *chat_results([call.id for call in calls])]
        last = client.chat.complete(model="m", messages=thread, tools=CHAT_TOOLS)
    assert last.choices[0].message is not None
    assert last.choices[0].message.content == LAST


def test_cohere(server: Server) -> None:
    import cohere
    import httpx

    with httpx.Client() as http:
        client = cohere.ClientV2(base_url=server.base_url("cohere"), api_key="k", httpx_client=http)
        first: Any = client.chat(model="m", messages=QUESTION, tools=CHAT_TOOLS)
        assert [part.text for part in first.message.content if part.type == "text"] == [FIRST]
        calls = first.message.tool_calls
        assert [(call.function.name, json.loads(call.function.arguments)) for call in calls] == CALLS
        thread: Any = [
            *QUESTION,
            {"role": "assistant", "tool_calls": calls, "tool_plan": "Look."},
            *chat_results([call.id for call in calls]),
        ]
        last: Any = client.chat(model="m", messages=thread, tools=CHAT_TOOLS)
    assert last.message.content[0].text == LAST


def test_ollama(server: Server) -> None:
    import ollama

    client = ollama.Client(host=server.base_url("ollama"))
    with contextlib.closing(client._client):
        first = client.chat(model="m", messages=QUESTION, tools=CHAT_TOOLS)  # which sends "stream": false
        assert (first.message.content, first.message.thinking) == (FIRST, "Two cities.")
        calls = first.message.tool_calls or []
        assert [(call.function.name, dict(call.function.arguments)) for call in calls] == CALLS
        results = [{"role": "tool", "tool_name": call.function.name, "content": "4 degrees"} for call in calls]
        last = client.chat(model="m", messages=[*QUESTION, first.message, *results], tools=CHAT_TOOLS)
    assert last.message.content == LAST


def test_boto3_converse(server: Server) -> None:
    tools = {"tools": [{"toolSpec": {"name": name, "inputSchema": {"json": SCHEMA}}} for name in NAMES]}
    question = {"role": "user", "content": [{"text": "Weather?"}]}
    with bedrock(server.base_url("bedrock_converse")) as client:
        first = client.converse(modelId="vendor.m", messages=[question], toolConfig=tools)
        assert first["stopReason"] == "tool_use"
        content = first["output"]["message"]["content"]
        assert [block["text"] for block in content if "text" in block] == [FIRST]
        uses = [block["toolUse"] for block in content if "toolUse" in block]
        assert [(use["name"], use["input"]) for use in uses] == CALLS
        results = [{"toolResult": {"toolUseId": use["toolUseId"], "content": [{"text": "4 degrees"}]}} for use in uses]
        thread = [question, {"role": "assistant", "content": content}, {"role": "user", "content": results}]
        last = client.converse(modelId="vendor.m", messages=thread, toolConfig=tools)
    assert last["output"]["message"]["content"] == [{"text": LAST}]


def test_boto3_invoke(server: Server) -> None:
    body = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9, "messages": QUESTION}
    with bedrock(server.base_url("bedrock_invoke")) as client:
        bodies = [
            json.loads(client.invoke_model(modelId="vendor.m", body=json.dumps(body))["body"].read()) for _ in range(2)
        ]
    assert [(block["name"], block["input"]) for block in bodies[0]["content"] if block["type"] == "tool_use"] == CALLS
    assert bodies[1]["content"] == [{"type": "text", "text": LAST}]


def test_the_sdks_raise_the_error_of_a_status_without_a_stream() -> None:
    import anthropic
    import botocore.exceptions
    import openai
    from google import genai

    with serve([Status(404, "no such model")] * 4) as server:
        with (
            openai.OpenAI(base_url=server.base_url("openai_chat"), api_key="k") as chat,
            pytest.raises(openai.NotFoundError, match="no such model"),
        ):
            chat.chat.completions.create(model="m", messages=QUESTION)
        with (
            anthropic.Anthropic(base_url=server.base_url("anthropic"), api_key="k") as messages,
            pytest.raises(anthropic.NotFoundError, match="no such model"),
        ):
            messages.messages.create(model="m", max_tokens=9, messages=QUESTION)
        with (
            genai.Client(api_key="k", http_options={"base_url": server.base_url("gemini")}) as gemini,
            pytest.raises(genai.errors.ClientError, match="no such model"),
        ):
            gemini.models.generate_content(model="m", contents="Weather?")
        with (
            bedrock(server.base_url("bedrock_converse")) as converse,
            pytest.raises(botocore.exceptions.ClientError, match=r"ResourceNotFoundException.*no such model"),
        ):
            converse.converse(modelId="vendor.m", messages=[{"role": "user", "content": [{"text": "Weather?"}]}])
