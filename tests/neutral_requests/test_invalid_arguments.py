"""Arguments of a call that are no JSON object: what each wire's history has of them when the client sends them back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamkit import parse_request, render_request

Json = dict[str, Any]
INVALID = '{"city": "Par'
RESULT = "these arguments are not JSON"


def chat_body() -> Json:
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": INVALID}}
    return {
        "model": "m",
        "messages": [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": RESULT},
        ],
    }


def responses_body() -> Json:
    call = {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": INVALID}
    output = {"type": "function_call_output", "call_id": "call_1", "output": RESULT}
    return {"model": "m", "input": [{"role": "user", "content": "?"}, call, output]}


CLIENTS = {"openai_chat": chat_body, "openai_responses": responses_body}


@pytest.mark.parametrize("target", ["openai_chat", "openai_responses"])
@pytest.mark.parametrize("client", CLIENTS)
def test_they_go_back_as_the_model_wrote_them(client: str, target: str) -> None:
    changes: list[str] = []
    body = render_request(parse_request(CLIENTS[client](), client), target, changes=changes)
    if target == "openai_chat":
        [call] = body["messages"][1]["tool_calls"]
        assert call["function"]["arguments"] == INVALID
    else:
        assert body["input"][1]["arguments"] == INVALID
    assert changes == []


@pytest.mark.parametrize("target", ["anthropic", "bedrock_converse", "cohere", "gemini", "ollama", "openai_compatible"])
@pytest.mark.parametrize("client", CLIENTS)
def test_they_are_in_words_where_a_history_is_json(client: str, target: str) -> None:
    changes: list[str] = []
    body = json.dumps(render_request(parse_request(CLIENTS[client](), client), target, changes=changes))
    assert "INVALID_JSON" in body
    assert "Par" in body
    assert changes == ["the arguments of a call of 'weather' were put into an object as text: they were none"]


def test_empty_arguments_are_an_empty_object() -> None:
    body = chat_body()
    body["messages"][1]["tool_calls"][0]["function"]["arguments"] = ""
    changes: list[str] = []
    written = render_request(parse_request(body, "openai_chat"), "anthropic", changes=changes)
    assert written["messages"][1]["content"][0]["input"] == {}
    assert changes == []
