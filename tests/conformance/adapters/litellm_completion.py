"""LiteLLM: stream_chunk_builder, which makes one response of the chunks of a stream."""

import litellm
from cases import answer

MODELS = {"anthropic": "anthropic/claude-sonnet-4-5", "gemini": "gemini/gemini-2.5-flash"}


def read(case):
    model = MODELS.get(case["provider"], "openai/gpt-5")
    options = {"api_key": "k", "api_base": case["base_url"], "num_retries": 0, "max_retries": 0, "stream": True}
    chunks = list(litellm.completion(model, [{"role": "user", "content": "Go."}], **options))
    choice = litellm.stream_chunk_builder(chunks).choices[0]
    calls = choice.message.tool_calls or []
    return {
        "calls": [{"id": c.id, "name": c.function.name or "", "arguments": c.function.arguments} for c in calls],
        "text": choice.message.content or "",
        "finish": choice.finish_reason,
    }


answer(read)
