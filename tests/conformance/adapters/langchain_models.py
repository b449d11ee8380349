"""LangChain: the sum of the chunks of a chat model, whose tool_calls its agents run."""

from functools import reduce
from operator import add

from cases import answer
from langchain_anthropic import ChatAnthropic
from langchain_openai import ChatOpenAI


def read(case):
    options = {"api_key": "k", "base_url": case["base_url"], "max_retries": 0}
    if case["provider"] == "anthropic":
        model = ChatAnthropic(model="claude-sonnet-4-5", **options)
    else:
        model = ChatOpenAI(model="gpt-5", use_responses_api=case["provider"] == "openai_responses", **options)
    message = reduce(add, model.stream("Go."))
    calls = [*message.tool_calls, *message.invalid_tool_calls]  # the text of an invalid call is not run
    data = message.response_metadata
    return {
        "calls": [{"id": c["id"], "name": c["name"] or "", "arguments": c["args"]} for c in calls],
        "text": str(message.text),
        "finish": data.get("finish_reason") or data.get("stop_reason") or data.get("status"),
    }


answer(read)
