"""Other libraries hold a conversation with the embedded server unchanged: it is a provider's double for any client.

They are the extra ``peers``, which the other tests do not need; without it, these are skipped.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamkit.testing import Call, Reply, Server, serve

pytestmark = pytest.mark.filterwarnings("default")  # theirs are not ours to mend: deprecated models, open sockets

SCRIPT = [Reply("Let me look.", Call("get_weather", {"city": "Oslo"})), Reply("Rain in Oslo.")]
QUESTION = "Weather in Oslo?"


def get_weather(city: str) -> str:
    """Return the weather of a city."""
    return f"{city}: rain"


#: By streams, and in the default mode of these libraries, without.
BOTH_MODES = pytest.mark.parametrize("stream", [True, False], ids=["stream", "body"])


def check(server: Server, provider: str) -> None:
    """Check that the server got the question and then the result, and refused neither."""
    assert [(request.provider, request.status) for request in server.requests] == [(provider, 200)] * 2
    assert "Oslo: rain" in str(server.requests[1].json)


@pytest.mark.asyncio  # pydantic-ai needs asyncio
@pytest.mark.parametrize("provider", ["openai_chat", "openai_responses", "anthropic", "gemini"])
@BOTH_MODES
async def test_pydantic_ai(provider: str, stream: bool) -> None:
    pydantic_ai = pytest.importorskip("pydantic_ai")
    async with serve(SCRIPT) as server:
        agent = pydantic_ai.Agent(_pydantic_ai_model(provider, server.base_url(provider)), tools=[get_weather])
        # ``run`` with a handler streams; ``run_stream`` takes the text before a call for the final one.
        result = await agent.run(QUESTION, event_stream_handler=_read_all if stream else None)
    assert result.output == "Rain in Oslo."
    check(server, provider)


async def _read_all(_: Any, events: Any) -> None:
    async for _event in events:
        pass


def _pydantic_ai_model(provider: str, url: str) -> Any:
    if provider == "anthropic":
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        return AnthropicModel("claude-sonnet-4-5", provider=AnthropicProvider(api_key="k", base_url=url))
    if provider == "gemini":
        from pydantic_ai.models.google import GoogleModel
        from pydantic_ai.providers.google import GoogleProvider

        return GoogleModel("gemini-2.5-flash", provider=GoogleProvider(api_key="k", base_url=url))
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIResponsesModel if provider == "openai_responses" else OpenAIChatModel
    return model("gpt-5", provider=OpenAIProvider(api_key="k", base_url=url))


@pytest.mark.parametrize("provider", ["openai_chat", "openai_responses", "anthropic"])
@BOTH_MODES
def test_langchain(provider: str, stream: bool) -> None:
    pytest.importorskip("langchain_openai")
    pytest.importorskip("langchain_anthropic")
    from langchain_core.messages import HumanMessage, ToolMessage

    with serve(SCRIPT) as server:
        model = _langchain_model(provider, server.base_url(provider)).bind_tools([get_weather])
        messages: list[Any] = [HumanMessage(QUESTION)]
        first = _joined(model.stream(messages)) if stream else model.invoke(messages)
        assert [(call["name"], call["args"]) for call in first.tool_calls] == [("get_weather", {"city": "Oslo"})]
        results = [ToolMessage(get_weather(**call["args"]), tool_call_id=call["id"]) for call in first.tool_calls]
        thread = [*messages, first, *results]
        last = _joined(model.stream(thread)) if stream else model.invoke(thread)
    assert last.text == "Rain in Oslo."
    check(server, provider)


def _joined(chunks: Any) -> Any:
    message = None
    for chunk in chunks:
        message = chunk if message is None else message + chunk
    return message


def _langchain_model(provider: str, url: str) -> Any:
    if provider == "anthropic":
        from langchain_anthropic import ChatAnthropic

        return ChatAnthropic(model="claude-sonnet-4-5", api_key="k", base_url=url)
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model="gpt-5", api_key="k", base_url=url, use_responses_api=provider == "openai_responses")


@pytest.mark.parametrize(
    ("provider", "model"), [("openai_chat", "openai/gpt-5"), ("anthropic", "anthropic/claude-sonnet-4-5")]
)
@BOTH_MODES
def test_litellm(provider: str, model: str, stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else its import asks the network for prices
    litellm = pytest.importorskip("litellm")
    tool = {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
    messages: list[Any] = [{"role": "user", "content": QUESTION}]

    def ask(url: str) -> Any:
        response = litellm.completion(model, messages=messages, tools=[tool], stream=stream, api_base=url, api_key="k")
        if stream:
            response = litellm.stream_chunk_builder(list(response), messages=messages)
        return response.choices[0].message

    with serve(SCRIPT) as server:
        first = ask(server.base_url(provider))
        (call,) = first.tool_calls
        assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"city": "Oslo"})
        messages += [first.model_dump(), {"role": "tool", "tool_call_id": call.id, "content": get_weather("Oslo")}]
        last = ask(server.base_url(provider))
    assert last.content == "Rain in Oslo."
    check(server, provider)


@pytest.mark.asyncio  # the SDK needs asyncio
@pytest.mark.parametrize("provider", ["openai_chat", "openai_responses"])
@BOTH_MODES
async def test_openai_agents(provider: str, stream: bool) -> None:
    agents = pytest.importorskip("agents")
    import openai

    agents.set_tracing_disabled(True)
    kind = agents.OpenAIResponsesModel if provider == "openai_responses" else agents.OpenAIChatCompletionsModel
    async with serve(SCRIPT) as server, openai.AsyncOpenAI(base_url=server.base_url(provider), api_key="k") as client:
        model = kind(model="gpt-5", openai_client=client)
        agent = agents.Agent(name="weather", model=model, tools=[agents.function_tool(get_weather)])
        if stream:
            result = agents.Runner.run_streamed(agent, QUESTION)
            await _read_all(None, result.stream_events())
        else:
            result = await agents.Runner.run(agent, QUESTION)
    assert result.final_output == "Rain in Oslo."
    check(server, provider)
