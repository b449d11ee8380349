"""The judges must refuse what is wrong, or every test that asks them is worth nothing."""

from __future__ import annotations

from typing import Any

import pytest
import request_validators

USER = {"role": "user", "content": "hi"}


def _chat_call(**function: Any) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
    }


def test_the_openai_chat_validator_accepts_a_round() -> None:
    result = {"role": "tool", "tool_call_id": "call_1", "content": "21"}
    messages = [USER, _chat_call(name="w", arguments="{}"), result]
    request_validators.openai_chat_messages(messages)
    tool = {"type": "function", "function": {"name": "w", "description": "d", "parameters": {"type": "object"}}}
    request_validators.openai_chat_request(
        {"messages": messages, "tools": [tool], "tool_choice": "auto", "stream": True}
    )


@pytest.mark.parametrize(
    "message",
    [
        _chat_call(name="w"),
        _chat_call(name="w", arguments={"a": 1}),
        _chat_call(name="w", arguments="{}", extra=1),
        {"role": "tool", "content": "21"},
        {"role": "tool", "tool_call_id": "call_" + "x" * 40, "content": "21"},
        {"role": "user", "content": [{"type": "image", "image": "x"}]},
    ],
)
def test_the_openai_chat_validator_rejects(message: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        request_validators.openai_chat_messages([USER, message])


def test_the_openai_responses_validator() -> None:
    call = {"type": "function_call", "call_id": "call_1", "name": "w", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "call_1", "output": "21"}
    request_validators.openai_responses_input([USER, call, output])
    with pytest.raises(ValueError, match=r"."):
        request_validators.openai_responses_input([{"type": "function_call_output", "output": "21"}])


def test_the_anthropic_validator() -> None:
    use = {"type": "tool_use", "id": "toolu_1", "name": "w", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "21"}
    messages = [USER, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    request_validators.anthropic_messages(messages)
    request_validators.anthropic_request({"messages": messages, "stream": True})
    for wrong in (
        {"role": "assistant", "content": [{"type": "tool_use", "name": "w", "input": {}}]},
        {"role": "assistant", "content": [use | {"id": "a|b"}]},
        {"role": "assistant", "content": [use | {"input": "{}"}]},
        {"role": "tool", "content": "x"},
    ):
        with pytest.raises(ValueError, match=r"."):
            request_validators.anthropic_messages([USER, wrong])


def test_the_gemini_validator() -> None:
    call = {"functionCall": {"id": "1", "name": "w", "args": {"a": 1}}, "thoughtSignature": "AAAA"}
    result = {"functionResponse": {"id": "1", "name": "w", "response": {"output": 21}}}
    request_validators.gemini_contents([{"role": "model", "parts": [call]}, {"role": "user", "parts": [result]}])
    for wrong in (
        {"functionCall": {"name": "w", "args": "{}"}},
        {"tool_use": {}},
        {"functionResponse": {"name": "w", "response": "21"}},
    ):
        with pytest.raises(ValueError, match=r"."):
            request_validators.gemini_contents([{"role": "model", "parts": [wrong]}])


def test_the_bedrock_validator() -> None:
    user = {"role": "user", "content": [{"text": "hi"}]}
    use = {"toolUse": {"toolUseId": "t1", "name": "w", "input": {"a": 1}}}
    result = {"toolResult": {"toolUseId": "t1", "content": [{"json": {"t": 21}}]}}
    answer = {"role": "assistant", "content": [{"text": "a"}, use]}
    results = {"role": "user", "content": [result]}
    request_validators.bedrock_messages([user, answer, results])
    spec = {"toolSpec": {"name": "w", "inputSchema": {"json": {"type": "object"}}}}
    request_validators.bedrock_request(
        {"messages": [user, answer, results], "toolConfig": {"tools": [spec]}, "system": []}
    )
    for wrong in (
        [user, {"role": "assistant", "content": [{"toolUse": {"name": "w", "input": {}}}]}],
        [user, {"role": "assistant", "content": [{"toolUse": {**use["toolUse"], "toolUseId": "a|b"}}]}],
        [user, {"role": "assistant", "content": [{"toolUse": {**use["toolUse"], "extra": 1}}]}],
        [user, {"role": "assistant", "content": [{"text": " "}]}],
        [user, {"role": "assistant", "content": [use, {"text": "late"}]}],
        [user, answer, user],
        [user, user],
        [answer],
        [user, answer, {"role": "user", "content": [{"toolResult": {"toolUseId": "t1", "content": "21"}}]}],
    ):
        with pytest.raises(ValueError, match=r"."):
            request_validators.bedrock_messages(wrong)
    with pytest.raises(ValueError, match="toolConfig"):
        request_validators.bedrock_request({"messages": [user, answer, results], "system": []})
