"""The tools that a request allows, and the choices that a target does not have."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamkit import parse_request, render_request

Json = dict[str, Any]
WIRES = ("anthropic", "bedrock_converse", "cohere", "gemini", "ollama", "openai_chat", "openai_responses")
SCHEMA: Json = {"type": "object", "properties": {}}
CHAT_TOOLS = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in "abc"]


def chat(mode: str) -> Json:
    """Return a request of Chat Completions that allows two of three tools."""
    allowed = [{"type": "function", "function": {"name": name}} for name in "ab"]
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": allowed}}
    messages = [{"role": "user", "content": "Go."}]
    return {"model": "m", "messages": messages, "tools": CHAT_TOOLS, "tool_choice": choice}


def responses(mode: str) -> Json:
    """Return the same request of Responses."""
    choice = {"type": "allowed_tools", "mode": mode, "tools": [{"type": "function", "name": name} for name in "ab"]}
    tools = [{"type": "function", "name": name, "parameters": SCHEMA} for name in "abc"]
    return {"model": "m", "input": "Go.", "tools": tools, "tool_choice": choice}


def gemini(mode: str) -> Json:
    """Return the same request of Gemini."""
    config = {"mode": "ANY" if mode == "required" else "VALIDATED", "allowedFunctionNames": ["a", "b"]}
    tools = [{"functionDeclarations": [{"name": name, "parametersJsonSchema": SCHEMA} for name in "abc"]}]
    contents = [{"role": "user", "parts": [{"text": "Go."}]}]
    return {"contents": contents, "tools": tools, "toolConfig": {"functionCallingConfig": config}}


CLIENTS = {"openai_chat": chat, "openai_responses": responses, "gemini": gemini}
REQUIRED = {
    "anthropic": {"type": "any"},
    "bedrock_converse": {"any": {}},
    "cohere": "REQUIRED",
    "gemini": {"mode": "ANY"},
    "ollama": None,
    "openai_chat": "required",
    "openai_responses": "required",
}


def choice_of(body: Json) -> Any:
    """Return the tool choice of a body of any wire."""
    config = body.get("toolConfig", {})
    return body.get("tool_choice") or config.get("toolChoice") or config.get("functionCallingConfig")


@pytest.mark.parametrize("mode", ["auto", "required"])
@pytest.mark.parametrize("target", WIRES)
@pytest.mark.parametrize("client", CLIENTS)
def test_only_allowed_tools_are_offered(client: str, target: str, mode: str) -> None:
    body, changes = CLIENTS[client](mode), []
    if client == "openai_responses":
        body = {**body, "input": [{"role": "user", "content": "Go."}]}
    written = render_request(parse_request(body, client, changes=changes), target, changes=changes)
    if client == target:
        assert choice_of(written) == choice_of(body)
        assert changes == []
        return
    assert '"name": "c"' not in json.dumps(written)
    assert '"name": "a"' in json.dumps(written)
    assert changes[0] == "only these tools were offered, which the request allows: a, b"
    if mode == "required":
        assert choice_of(written) == REQUIRED[target]
        assert len(changes) == (2 if target == "ollama" else 1)


def test_a_choice_of_the_caller_replaces_the_allowed_tools() -> None:
    request = parse_request(chat("required"), "openai_chat")
    assert len(render_request(request, "anthropic", tool_choice="none")["tools"]) == 3
    assert render_request(request, "openai_chat", tool_choice="none")["tool_choice"] == "none"


@pytest.mark.parametrize("has_calls", [False, True])
def test_none_is_no_tool_on_converse_or_said(has_calls: bool) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "a", "arguments": "{}"}}
    history = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "1"},
    ]
    messages = [{"role": "user", "content": "Go."}, *(history if has_calls else [])]
    body = {"model": "m", "messages": messages, "tools": CHAT_TOOLS, "tool_choice": "none"}
    changes: list[str] = []
    written = render_request(parse_request(body, "openai_chat"), "bedrock_converse", changes=changes)
    assert ("toolConfig" in written) is has_calls
    assert len(changes) == has_calls


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "a"}}])
def test_ollama_cannot_be_forced_to_call(choice: Any) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Go."}], "tools": CHAT_TOOLS, "tool_choice": choice}
    changes: list[str] = []
    render_request(parse_request(body, "openai_chat"), "ollama", changes=changes)
    assert changes == ["that a tool must be called was left out: Ollama has no tool choice"]
