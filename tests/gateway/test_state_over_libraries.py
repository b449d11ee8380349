"""Unchanged libraries that send no state back: the gateway sends the upstream that of every round before.

Those of the extra ``peers`` and the AI SDK of tests/vercel are skipped where they are missing.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from gateway.gateway_clients import CITY
from gateway.three_rounds import check_third_request, serve_upstream

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # theirs are not ours to mend

QUESTION = "Which is colder?"
PROVIDERS = ["anthropic", "gemini", "openai_responses"]
FUNCTION = {"type": "function", "function": {"name": "weather", "parameters": CITY}}
VERCEL = Path(__file__).parent.parent / "vercel"


def weather(city: str) -> str:
    """Return the weather of a city."""
    return f"{city}: 4 degrees"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_openai(provider: str, stream: bool) -> None:
    openai = pytest.importorskip("openai")
    with serve_upstream(provider) as (url, server), openai.OpenAI(api_key="k", base_url=f"{url}/v1") as client:
        messages: list[Any] = [{"role": "user", "content": QUESTION}]
        request = {"model": "m", "tools": [FUNCTION], "reasoning_effort": "high"}
        while True:
            if stream:
                with client.chat.completions.stream(messages=messages, **request) as chunks:
                    message = chunks.get_final_completion().choices[0].message
            else:
                message = client.chat.completions.create(messages=messages, **request).choices[0].message
            if not message.tool_calls:
                break
            calls = [
                {"id": call.id, "type": "function", "function": call.function.model_dump(include={"name", "arguments"})}
                for call in message.tool_calls
            ]
            messages.append({"role": "assistant", "content": message.content, "tool_calls": calls})
            for call in message.tool_calls:
                result = weather(**json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    assert message.content == "Cold."
    check_third_request(server, provider)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_ollama(provider: str, stream: bool) -> None:
    ollama = pytest.importorskip("ollama")
    with serve_upstream(provider) as (url, server):
        client = ollama.Client(host=url)
        messages: list[Any] = [{"role": "user", "content": QUESTION}]
        while True:
            response = client.chat("m", messages=messages, tools=[weather], think=True, stream=stream)
            parts = [part.message for part in response] if stream else [response.message]
            text = "".join(part.content or "" for part in parts)
            calls = [call for part in parts for call in part.tool_calls or ()]
            messages.append(ollama.Message(role="assistant", content=text, tool_calls=calls or None))
            if not calls:
                break
            for call in calls:
                result = weather(**call.function.arguments)
                messages.append({"role": "tool", "tool_name": call.function.name, "content": result})
    assert text == "Cold."
    check_third_request(server, provider)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_cohere(provider: str) -> None:
    cohere = pytest.importorskip("cohere")
    with serve_upstream(provider) as (url, server):
        client = cohere.ClientV2(api_key="k", base_url=url)
        messages: list[Any] = [{"role": "user", "content": QUESTION}]
        while True:
            message = client.chat(model="m", messages=messages, tools=[FUNCTION]).message
            if not message.tool_calls:
                break
            texts = [part.text for part in message.content or () if part.type == "text"]
            calls = [call.model_dump() for call in message.tool_calls]
            messages.append({"role": "assistant", "tool_calls": calls, "content": "".join(texts)})
            for call in message.tool_calls:
                result = weather(**json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    assert [part.text for part in message.content if part.type == "text"] == ["Cold."]
    check_third_request(server, provider)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_langchain(provider: str) -> None:
    openai = pytest.importorskip("langchain_openai")
    from langchain_core.messages import HumanMessage, ToolMessage

    with serve_upstream(provider) as (url, server):
        model = openai.ChatOpenAI(model="gpt-5", api_key="k", base_url=f"{url}/v1", reasoning_effort="high")
        messages: list[Any] = [HumanMessage(QUESTION)]
        while True:
            message: Any = None
            for chunk in model.bind_tools([weather]).stream(messages):
                message = chunk if message is None else message + chunk
            if not message.tool_calls:
                break
            messages.append(message)
            messages += [ToolMessage(weather(**call["args"]), tool_call_id=call["id"]) for call in message.tool_calls]
    assert message.text == "Cold."
    check_third_request(server, provider)


@pytest.mark.asyncio  # both libraries need asyncio
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_pydantic_ai(provider: str) -> None:
    pydantic_ai = pytest.importorskip("pydantic_ai")
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    with serve_upstream(provider) as (url, server):
        model = OpenAIChatModel("gpt-5", provider=OpenAIProvider(api_key="k", base_url=f"{url}/v1"))
        result = await pydantic_ai.Agent(model, tools=[weather]).run(QUESTION, event_stream_handler=_read_all)
    assert result.output == "Cold."
    check_third_request(server, provider)


async def _read_all(_: Any, events: Any) -> None:
    async for _event in events:
        pass


@pytest.mark.asyncio  # both libraries need asyncio
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_openai_agents(provider: str) -> None:
    agents = pytest.importorskip("agents")
    import openai

    agents.set_tracing_disabled(disabled=True)
    with serve_upstream(provider) as (url, server):
        client = openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1")
        agent = agents.Agent(
            name="agent",
            tools=[agents.function_tool(weather)],
            model=agents.OpenAIChatCompletionsModel(model="gpt-5", openai_client=client),
        )
        result = agents.Runner.run_streamed(agent, QUESTION)
        async for _event in result.stream_events():
            pass
    assert result.final_output == "Cold."
    check_third_request(server, provider)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_ai_sdk(provider: str) -> None:
    if shutil.which("node") is None or not (VERCEL / "node_modules" / "@ai-sdk" / "openai-compatible").is_dir():
        pytest.skip("node or the packages of tests/vercel are not installed: npm ci --ignore-scripts")
    with serve_upstream(provider) as (url, server):
        ended = subprocess.run(
            ["node", "converse.mjs", f"{url}/v1", QUESTION],  # noqa: S607 - wherever node is installed
            cwd=VERCEL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert (ended.returncode, ended.stdout) == (0, "Cold."), ended.stderr
    check_third_request(server, provider)
