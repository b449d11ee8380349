"""pydantic-ai: an agent whose tools are run by its caller, so that its output has the calls which it would run."""

from cases import answer
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.google import GoogleProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import ExternalToolset

MODELS = {
    "anthropic": (AnthropicModel, "claude-sonnet-4-5", AnthropicProvider),
    "gemini": (GoogleModel, "gemini-2.5-flash", GoogleProvider),
    "openai_responses": (OpenAIResponsesModel, "gpt-5", OpenAIProvider),
}


async def read_all(_, events):
    async for _event in events:
        pass


def read(case):
    model, name, provider = MODELS.get(case["provider"], (OpenAIChatModel, "gpt-5", OpenAIProvider))
    tools = ExternalToolset(
        [ToolDefinition(name=tool, parameters_json_schema={"type": "object"}) for tool in case["tools"]]
    )
    agent = Agent(
        model(name, provider=provider(api_key="k", base_url=case["base_url"])),
        toolsets=[tools],
        output_type=[str, DeferredToolRequests],
        retries=0,
    )
    result = agent.run_sync("Go.", event_stream_handler=read_all)
    response = result.response
    calls = result.output.calls if isinstance(result.output, DeferredToolRequests) else []
    return {
        "calls": [{"id": call.tool_call_id, "name": call.tool_name, "arguments": call.args} for call in calls],
        "text": response.text or "",
        "finish": response.finish_reason,
    }


answer(read)
