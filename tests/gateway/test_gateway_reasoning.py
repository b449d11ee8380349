"""Reasoning of one provider in the form that clients of Responses read, and its way back to the provider."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from gateway.gateway_server import Target, serve_gateway

from streamkit import Turn
from streamkit.testing import Call, Reasoning, Reply, serve

THOUGHT = "I look at both cities."
TOOL = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}
QUESTION = {"role": "user", "content": "Is it wet?"}


def ask(url: str, *items: Any, stream: bool = False) -> httpx.Response:
    body = {
        "model": "m",
        "input": [QUESTION, *items],
        "tools": [TOOL],
        "stream": stream,
        "reasoning": {"effort": "low"},
    }
    return httpx.post(f"{url}/v1/responses", json=body)


@pytest.mark.parametrize("upstream", ["anthropic", "gemini", "deepseek", "bedrock_converse", "openai_responses"])
def test_reasoning_is_a_summary_which_clients_of_responses_show(upstream: str) -> None:
    # Models of OpenAI show summaries only, and LiteLLM, LangChain and agno read nothing else.
    script = [Reply(Reasoning(THOUGHT), "It is.")] * 2
    with serve(script, strict=False) as server, serve_gateway(Target(upstream, server.base_url(upstream))) as url:
        body, stream = ask(url).json(), ask(url, stream=True).content
    reasoning, message = body["output"]
    assert reasoning["summary"] == [{"type": "summary_text", "text": THOUGHT}]
    assert "content" not in reasoning
    assert message["content"][0]["text"] == "It is."

    assert b"response.reasoning_summary_text.delta" in stream
    assert b"response.reasoning_text.delta" not in stream
    turn = Turn("openai_responses")
    turn.feed(stream)
    turn.close()
    assert (turn.reasoning, turn.text, turn.error) == (THOUGHT, "It is.", None)


def test_the_reasoning_of_the_clients_own_wire_keeps_its_kind() -> None:
    script = [Reply(Reasoning(THOUGHT, kind="text"), "It is.")]
    with serve(script) as server, serve_gateway(Target("openai_responses", server.base_url("openai_responses"))) as url:
        reasoning = ask(url).json()["output"][0]
    assert (reasoning["summary"], reasoning["content"]) == ([], [{"type": "reasoning_text", "text": THOUGHT}])


def test_a_summary_that_comes_back_is_the_signed_reasoning() -> None:
    script = [Reply(Reasoning(THOUGHT, signature="c2lnbmVk"), Call("get_weather")), "It is."]
    with serve(script) as server, serve_gateway(Target("anthropic", server.base_url("anthropic"))) as url:
        output = ask(url).json()["output"]
        result = {"type": "function_call_output", "call_id": output[-1]["call_id"], "output": "rain"}
        assert ask(url, *output, result).json()["output"][0]["content"][0]["text"] == "It is."
        blocks = server.requests[1].json["messages"][1]["content"]
    assert blocks[0] == {"type": "thinking", "thinking": THOUGHT, "signature": "c2lnbmVk"}
