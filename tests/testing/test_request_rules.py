"""Each rule has a body that breaks it alone, and one that is like it and legal."""

from __future__ import annotations

import copy
import json
import re

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from smallest_requests import smallest_request
from waiting import PATIENCE

from streamkit import providers
from streamkit.errors import UnknownProvider
from streamkit.reading.turn import Turn
from streamkit.testing import Call, Reply, list_rules, serve, validate_request

# ---------------------------------------------------------------- legal conversations, two calls beside each other

ANTHROPIC = {
    "tools": [{"name": "f", "input_schema": {"type": "object"}}],
    "tool_choice": {"type": "tool", "name": "f"},
    "messages": [
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                {"type": "text", "text": "I look. "},
                {"type": "tool_use", "id": "a", "name": "f", "input": {}},
                {"type": "tool_use", "id": "b", "name": "f", "input": {"x": 1}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "b", "content": "2"},
                {"type": "tool_result", "tool_use_id": "a", "content": "", "is_error": True},
                {"type": "text", "text": "And?"},
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "So"}]},
    ],
}


def chat(id_a="a", id_b="b"):
    def call(name):
        return {"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}}

    return {
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
            {"role": "assistant", "content": None, "tool_calls": [call(id_a), call(id_b)]},
            {"role": "tool", "tool_call_id": id_b, "content": ""},
            {"role": "tool", "tool_call_id": id_a, "content": "1"},
            {"role": "assistant", "content": "Done."},
            {"role": "user", "content": "And?"},
        ],
    }


CHAT = chat()
CHAT["messages"][2]["tool_calls"].append({"id": "c", "type": "custom", "custom": {"name": "g", "input": "free"}})
CHAT["messages"].insert(5, {"role": "tool", "tool_call_id": "c", "content": "3"})
MISTRAL = chat("aaaaaaaaa", "bbbbbbbbb")
COHERE = chat()
COHERE["tool_choice"] = "REQUIRED"
COHERE["messages"][2] |= {"content": [{"type": "thinking", "thinking": "Hm."}], "tool_plan": "I look."}
OLLAMA = {
    "messages": [
        {"role": "user", "content": "Hi", "images": ["aGk="]},
        {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]},
        {"role": "tool", "tool_name": "f", "content": "1"},
    ]
}
RESPONSES = {
    "tools": [{"type": "function", "name": "f"}, {"type": "web_search"}],
    "tool_choice": {"type": "function", "name": "f"},
    "input": [
        {"role": "user", "content": "Hi"},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "reasoning", "id": "rs_2", "summary": []},
        {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "b", "name": "g", "input": "free"},
        {"type": "custom_tool_call_output", "call_id": "b", "output": "2"},
        {"type": "function_call_output", "call_id": "a", "output": "1"},
        {"type": "reasoning", "id": "rs_3", "summary": []},
        {"type": "message", "role": "assistant", "id": "msg_1", "content": [{"type": "output_text", "text": "Done."}]},
    ],
}
GEMINI = {
    "model": "gemini-3-pro",
    "tools": [{"functionDeclarations": [{"name": "f"}]}],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
    "contents": [
        {"role": "user", "parts": [{"text": "Hi"}]},
        {
            "role": "model",
            "parts": [
                {"text": ""},
                {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "c2ln"},
                {"functionCall": {"name": "g"}},
            ],
        },
        {
            "parts": [
                {"functionResponse": {"name": "g", "response": {"result": 1}}},
                {"functionResponse": {"name": "f", "response": {}}},
            ]
        },
        {"role": "model", "parts": [{"text": "Done."}]},
        {"role": "user", "parts": [{"text": "And?"}, {"inlineData": {"mimeType": "image/png", "data": ""}}]},
    ],
}
CONVERSE = {
    "toolConfig": {"tools": [{"toolSpec": {"name": "f"}}], "toolChoice": {"tool": {"name": "f"}}},
    "messages": [
        {"role": "user", "content": [{"text": "Hi"}]},
        {
            "role": "assistant",
            "content": [
                {"text": "I look."},
                {"toolUse": {"toolUseId": "a", "name": "f", "input": {}}},
                {"toolUse": {"toolUseId": "b", "name": "f", "input": {}}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "b", "content": [{"text": "no"}], "status": "error"}},
                {"toolResult": {"toolUseId": "a", "content": [{"json": {}}]}},
                {"text": "And?"},
            ],
        },
        {"role": "assistant", "content": [{"text": "So"}]},
    ],
}
LEGAL = {
    "anthropic": ANTHROPIC,
    "bedrock_converse": CONVERSE,
    "bedrock_invoke": ANTHROPIC,
    "cohere": COHERE,
    "gemini": GEMINI,
    "mistral": MISTRAL,
    "ollama": OLLAMA,
    "openai_chat": CHAT,
    "openai_responses": RESPONSES,
}

# ---------------------------------------------------------------- one change that breaks one rule

GONE = object()
#: Provider, rule, the place it names; then pairs of a path into the legal body and what is put there.
BREACHES = [
    ("anthropic", "form", "messages", ("messages", "Hi")),
    ("anthropic", "form", "messages.0", ("messages.0", "Hi")),
    ("anthropic", "form", "messages.0.role", ("messages.0.role", "developer")),
    ("anthropic", "form", "messages.0.content", ("messages.0.content", None)),
    ("anthropic", "form", "messages.0.content.0", ("messages.0.content", ["Hi"])),
    ("anthropic", "form", "messages.0.content.0.type", ("messages.0.content", [{"text": "Hi"}])),
    ("anthropic", "first_message_is_user", "messages.0.role", ("messages.0.role", "assistant")),
    ("anthropic", "content_not_empty", "messages.0.content", ("messages.0.content", "")),
    ("anthropic", "content_not_empty", "messages.0.content", ("messages.0.content", [])),
    ("anthropic", "text_not_blank", "messages.0.content", ("messages.0.content", " \n")),
    ("anthropic", "text_not_blank", "messages.1.content.1.text", ("messages.1.content.1.text", "")),
    ("anthropic", "text_not_blank", "messages.1.content.1.text", ("messages.1.content.1.text", " ")),
    ("anthropic", "no_trailing_white_space", "messages.3.content.0.text", ("messages.3.content.0.text", "So ")),
    ("anthropic", "no_trailing_white_space", "messages.3.content", ("messages.3.content", "So\n")),
    *(
        (
            "anthropic",
            "id_pattern",
            "messages.1.content.2.id",
            ("messages.1.content.2.id", bad),
            ("messages.2.content.1.tool_use_id", bad),
        )
        for bad in ("functions.f:0", "", "x" * 65)
    ),
    (
        "anthropic",
        "id_unique",
        "messages.4.content.0.id",
        ("messages.3.content", "So."),
        ("messages.+", {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]}),
        ("messages.+", {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}),
    ),
    ("anthropic", "input_is_object", "messages.1.content.2.input", ("messages.1.content.2.input", '{"x": 1}')),
    ("anthropic", "call_answered_next", "messages.1.content.2", ("messages.2.content.1", GONE)),
    (
        "anthropic",
        "call_answered_next",
        "messages.3.content.0",
        ("messages.3.content.0", ANTHROPIC["messages"][1]["content"][2] | {"id": "z"}),
    ),
    (
        "anthropic",
        "result_has_call",
        "messages.2.content.0.tool_use_id",
        ("messages.2.content.0", {"type": "tool_result", "tool_use_id": "z"}),
        ("messages.1.content.3", GONE),
    ),
    (
        "anthropic",
        "one_result_a_call",
        "messages.2.content.2",
        ("messages.2.content.2", {"type": "tool_result", "tool_use_id": "a"}),
    ),
    ("anthropic", "results_first", "messages.2.content.0", ("messages.2.content.<", {"type": "text", "text": "Here:"})),
    ("anthropic", "thinking_signed", "messages.1.content.0.signature", ("messages.1.content.0.signature", GONE)),
    (
        "anthropic",
        "answer_begins_with_thinking",
        "messages.1.content.0",
        ("messages.3", GONE),
        ("messages.1.content.0", GONE),
        ("thinking", {"type": "enabled", "budget_tokens": 1024}),
    ),
    ("anthropic", "tool_choice_known", "tool_choice", ("tool_choice.name", "g")),
    ("anthropic", "tool_choice_known", "tool_choice", ("tools", [])),
    ("openai_chat", "form", "messages.0", ("messages.0", None)),
    ("openai_chat", "form", "messages.0.role", ("messages.0.role", "human")),
    ("openai_chat", "form", "messages.5.tool_calls", ("messages.5.tool_calls", {})),
    ("openai_chat", "content_present", "messages.6.content", ("messages.6.content", None)),
    ("openai_chat", "content_present", "messages.4.content", ("messages.4.content", GONE)),
    (
        "openai_chat",
        "id_present",
        "messages.2.tool_calls.0.id",
        ("messages.2.tool_calls.0.id", ""),
        ("messages.4", GONE),
    ),
    ("openai_chat", "id_present", "messages.8.tool_call_id", ("messages.+", {"role": "tool", "content": "x"})),
    (
        "openai_chat",
        "id_unique",
        "messages.2.tool_calls.1.id",
        ("messages.2.tool_calls.1.id", "a"),
        ("messages.3", GONE),
    ),
    ("openai_chat", "call_answered_next", "messages.2.tool_calls.0", ("messages.4", GONE)),
    ("openai_chat", "call_answered_next", "messages.2.tool_calls.2", ("messages.5", GONE)),
    (
        "openai_chat",
        "result_has_call",
        "messages.8",
        ("messages.+", {"role": "tool", "tool_call_id": "a", "content": ""}),
    ),
    *(
        (
            "openai_chat",
            "arguments_are_text",
            "messages.2.tool_calls.0.function.arguments",
            ("messages.2.tool_calls.0.function.arguments", bad),
        )
        for bad in ({"x": 1}, None)
    ),
    (
        "openai_chat",
        "arguments_are_text",
        "messages.2.tool_calls.2.custom.input",
        ("messages.2.tool_calls.2.custom.input", {}),
    ),
    *(
        (
            "mistral",
            "arguments_are_object_text",
            "messages.2.tool_calls.0.function.arguments",
            ("messages.2.tool_calls.0.function.arguments", bad),
        )
        for bad in ('{"x": ', '"Oslo"', "", {"x": 1}, None)
    ),
    ("openai_chat", "tool_choice_known", "tool_choice", ("tools", GONE)),
    ("openai_chat", "tool_choice_known", "tool_choice", ("tool_choice.function.name", "h")),
    (
        "openai_chat",
        "id_length",
        "messages.2.tool_calls.0.id",
        ("messages.2.tool_calls.0.id", "x" * 41),
        ("messages.4.tool_call_id", "x" * 41),
    ),
    (
        "mistral",
        "id_pattern",
        "messages.2.tool_calls.0.id",
        ("messages.2.tool_calls.0.id", "call_1234"),
        ("messages.4.tool_call_id", "call_1234"),
    ),
    ("mistral", "no_user_after_tool", "messages.5.role", ("messages.5", GONE)),
    ("mistral", "last_role", "messages.5.role", ("messages.6", GONE)),
    ("mistral", "content_or_calls", "messages.5", ("messages.5.content", "")),
    (
        "mistral",
        "one_result_a_call",
        "messages.5",
        ("messages.5", {"role": "tool", "tool_call_id": "aaaaaaaaa", "content": ""}),
        ("messages.6", GONE),
    ),
    ("openai_responses", "form", "input", ("input", {})),
    ("openai_responses", "form", "input.0", ("input.0", "Hi")),
    ("openai_responses", "form", "input.0.role", ("input.0.role", "tool")),
    ("openai_responses", "form", "input.0.type", ("input.0", {"content": "Hi"})),
    (
        "openai_responses",
        "call_id_length",
        "input.3.call_id",
        ("input.3.call_id", "x" * 65),
        ("input.6.call_id", "x" * 65),
    ),
    (
        "openai_responses",
        "call_id_length",
        "input.9.call_id",
        ("input.+", {"type": "function_call_output", "output": ""}),
    ),
    ("openai_responses", "item_id_prefix", "input.3.id", ("input.3.id", "call_1")),
    ("openai_responses", "item_id_length", "input.7.id", ("input.7.id", "rs_" + "x" * 62)),
    ("openai_responses", "item_id_unique", "input.7.id", ("input.7.id", "rs_1")),
    ("openai_responses", "call_answered", "input.3", ("input.6", GONE)),
    (
        "openai_responses",
        "call_answered",
        "input.3",
        ("input.3.type", "function_call"),
        ("input.6.type", "message"),
        ("input.6.role", "user"),
    ),
    (
        "openai_responses",
        "output_has_call",
        "input.9",
        ("input.+", {"type": "function_call_output", "call_id": "z", "output": ""}),
    ),
    (
        "openai_responses",
        "output_has_call",
        "input.3",
        ("input.3", RESPONSES["input"][6]),
        ("input.6", RESPONSES["input"][3] | {"id": "fc_1"}),
        ("input.2", GONE),
        ("input.1", GONE),
        ("input.<", {"role": "user", "content": ""}),
        ("input.<", {"role": "user", "content": ""}),
    ),
    ("openai_responses", "reasoning_followed", "input.7", ("input.8", GONE)),
    ("openai_responses", "reasoning_followed", "input.7", ("input.8", {"role": "user", "content": "?"})),
    ("openai_responses", "arguments_are_text", "input.3.arguments", ("input.3.arguments", {})),
    ("openai_responses", "arguments_are_text", "input.4.input", ("input.4.input", {})),
    ("openai_responses", "tool_choice_known", "tool_choice", ("tool_choice.name", "h")),
    ("openai_responses", "tool_choice_known", "tool_choice", ("tools", []), ("tool_choice", "required")),
    ("gemini", "form", "contents", ("contents", "Hi")),
    ("gemini", "form", "contents.0.role", ("contents.0.role", "human")),
    ("gemini", "form", "contents.0.parts", ("contents.0.parts", "Hi")),
    ("gemini", "form", "contents.0.parts.0", ("contents.0.parts", ["Hi"])),
    ("gemini", "parts_not_empty", "contents.3.parts", ("contents.3.parts", [])),
    ("gemini", "part_has_data", "contents.3.parts.0", ("contents.3.parts.0", {"thought": True})),
    (
        "gemini",
        "args_and_response_are_objects",
        "contents.1.parts.1.functionCall.args",
        ("contents.1.parts.1.functionCall.args", "{}"),
    ),
    (
        "gemini",
        "args_and_response_are_objects",
        "contents.2.parts.0.functionResponse.response",
        ("contents.2.parts.0.functionResponse.response", "sun"),
    ),
    ("gemini", "call_follows_user", "contents.0", ("contents.0", GONE)),
    ("gemini", "call_follows_user", "contents.1", ("contents.0.role", "model")),
    ("gemini", "as_many_results_as_calls", "contents.1", ("contents.2.parts.0", GONE)),
    (
        "gemini",
        "as_many_results_as_calls",
        "contents.1",
        ("contents.4", GONE),
        ("contents.3", GONE),
        ("contents.2", GONE),
    ),
    ("gemini", "result_names_its_call", "contents.2", ("contents.2.parts.0.functionResponse.name", "f")),
    (
        "gemini",
        "result_follows_call",
        "contents.4",
        ("contents.4.parts", [{"functionResponse": {"name": "f", "response": {}}}]),
    ),
    (
        "gemini",
        "first_call_signed",
        "contents.1.parts.1",
        ("contents.4", GONE),
        ("contents.1.parts.1.thoughtSignature", GONE),
    ),
    ("gemini", "tool_choice_known", "toolConfig.functionCallingConfig.allowedFunctionNames", ("tools", [])),
    ("bedrock_converse", "form", "messages.0.content", ("messages.0.content", "Hi")),
    ("bedrock_converse", "first_message_is_user", "messages.0.role", ("messages.0", GONE)),
    (
        "bedrock_converse",
        "roles_alternate",
        "messages.4.role",
        ("messages.+", {"role": "assistant", "content": [{"text": "x"}]}),
    ),
    ("bedrock_converse", "text_not_blank", "messages.0.content.0.text", ("messages.0.content.0.text", " ")),
    (
        "bedrock_converse",
        "text_not_blank",
        "messages.2.content.0.toolResult.content.0.text",
        ("messages.2.content.0.toolResult.content.0.text", ""),
    ),
    ("bedrock_converse", "no_trailing_white_space", "messages.3.content.0.text", ("messages.3.content.0.text", "So ")),
    (
        "bedrock_converse",
        "id_pattern",
        "messages.1.content.1.toolUse.toolUseId",
        ("messages.1.content.1.toolUse.toolUseId", "f:0"),
        ("messages.2.content.1.toolResult.toolUseId", "f:0"),
    ),
    (
        "bedrock_converse",
        "id_unique",
        "messages.1.content.2.toolUse.toolUseId",
        ("messages.1.content.2.toolUse.toolUseId", "a"),
        ("messages.2.content.0", GONE),
    ),
    (
        "bedrock_converse",
        "input_is_object",
        "messages.1.content.1.toolUse.input",
        ("messages.1.content.1.toolUse.input", []),
    ),
    ("bedrock_converse", "call_answered_next", "messages.1.content.1", ("messages.2.content.1", GONE)),
    (
        "bedrock_converse",
        "result_has_call",
        "messages.2.content.1.toolResult.toolUseId",
        ("messages.1.content.1", GONE),
    ),
    ("bedrock_converse", "results_first", "messages.2.content.0", ("messages.2.content.<", {"text": "Here:"})),
    (
        "bedrock_converse",
        "failed_result_not_empty",
        "messages.2.content.0.toolResult.content",
        ("messages.2.content.0.toolResult.content", []),
    ),
    ("bedrock_converse", "answer_ends_with_calls", "messages.1.content.3", ("messages.1.content.+", {"text": "late"})),
    ("bedrock_converse", "tools_defined", "messages.1", ("toolConfig", GONE)),
    ("bedrock_converse", "tools_defined", "toolConfig.toolChoice", ("toolConfig.toolChoice.tool.name", "g")),
    (
        "gemini",
        "results_have_role_user",
        "contents.2.role",
        ("contents.2.role", "function"),
        ("model", "gemini-3.5-flash"),
    ),
    ("cohere", "form", "messages.0.role", ("messages.0.role", "developer")),
    ("cohere", "form", "messages.5.tool_calls", ("messages.5.tool_calls", [1])),
    ("cohere", "text_or_calls", "messages.2.content", ("messages.2.content", "I look.")),
    ("cohere", "text_or_calls", "messages.2.content", ("messages.2.content.+", {"type": "text", "text": "I look."})),
    ("cohere", "id_present", "messages.7.tool_call_id", ("messages.+", {"role": "tool", "content": "x"})),
    ("cohere", "call_answered_next", "messages.2.tool_calls.1", ("messages.3", GONE)),
    ("cohere", "result_has_call", "messages.7", ("messages.+", {"role": "tool", "tool_call_id": "a", "content": "x"})),
    (
        "cohere",
        "arguments_are_object_text",
        "messages.2.tool_calls.0.function.arguments",
        ("messages.2.tool_calls.0.function.arguments", "[]"),
    ),
    ("cohere", "tool_choice_known", "tool_choice", ("tool_choice", "auto")),
    ("cohere", "tool_choice_known", "tool_choice", ("tools", GONE)),
    ("ollama", "form", "messages", ("messages", {})),
    ("ollama", "form", "messages.0.role", ("messages.0.role", GONE)),
    ("ollama", "content_is_text", "messages.0.content", ("messages.0.content", [{"type": "text", "text": "Hi"}])),
    (
        "ollama",
        "arguments_are_object",
        "messages.1.tool_calls.0.function.arguments",
        ("messages.1.tool_calls.0.function.arguments", "{}"),
    ),
]


def changed(body, changes):
    """The body with each change made: ``+`` puts behind the last of a list, ``<`` before its first."""
    body = copy.deepcopy(body)
    for path, value in changes:
        holder, *keys = body, *path.split(".")  # type: ignore[misc]
        for key in keys[:-1]:
            holder = holder[int(key)] if isinstance(holder, list) else holder[key]
        key = int(keys[-1]) if isinstance(holder, list) and keys[-1].isdigit() else keys[-1]
        if value is GONE:
            del holder[key]
        elif key == "+":
            holder.append(value)
        elif key == "<":
            holder.insert(0, value)
        else:
            holder[key] = value
    return body


@pytest.fixture(scope="module")
def strict():
    with serve(lambda _: "fine", strict="conversation") as server, httpx.Client(timeout=PATIENCE) as client:
        yield lambda name, body: client.post(address(server, name), json=body)


def address(server, name):
    path = {
        "anthropic": "/v1/messages",
        "bedrock_converse": "/model/m/converse-stream",
        "bedrock_invoke": "/model/m/invoke-with-response-stream",
        "cohere": "/v2/chat",
        "gemini": "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse",
        "ollama": "/api/chat",
        "openai_responses": "/responses",
    }
    return server.base_url(name) + path.get(name, "/chat/completions")


@pytest.mark.parametrize("name", LEGAL)
def test_a_legal_conversation_breaks_no_rule_and_gets_a_response(name, strict):
    assert validate_request(name, LEGAL[name]) == []
    response = strict(name, {**LEGAL[name], "stream": True})
    assert response.status_code == 200, response.text


@pytest.mark.parametrize(
    ("name", "rule", "place", "changes"),
    [(name, rule, place, changes) for name, rule, place, *changes in BREACHES],
    ids=[f"{breach[0]}-{breach[1]}-{number}" for number, breach in enumerate(BREACHES)],
)
def test_a_body_that_breaks_a_rule_violates_only_this_rule(name, rule, place, changes, strict):
    body = changed(LEGAL[name], changes)
    faults = validate_request(name, body)
    assert {fault.rule for fault in faults} == {rule}
    assert faults[0].path == place
    response = strict(name, {**body, "stream": True})
    assert response.status_code == 400
    assert response.json() == providers.get(name).error_body(400, faults[0].message)


@pytest.mark.parametrize("name", sorted(LEGAL))
def test_every_rule_has_a_body_that_breaks_it(name):
    like = "anthropic" if name == "bedrock_invoke" else name
    tried = {rule for tried_name, rule, *_ in BREACHES if tried_name == like}
    if name == "mistral":  # the other rules are those of the wire, tried as openai_chat
        tried |= {rule.name for rule in list_rules("openai_chat")} - {"id_length", "arguments_are_text"}
    assert {rule.name for rule in list_rules(name)} == tried


@pytest.mark.parametrize("name", sorted(LEGAL))
def test_every_rule_has_a_unique_name_and_a_source(name):
    rules = list_rules(name)
    assert len({rule.name for rule in rules}) == len(rules)
    for rule in rules:
        assert re.match(r"https://|[\w.-]+/[\w.-]+#\d+", rule.source), rule


@pytest.mark.parametrize("name", sorted(LEGAL))
def test_a_body_without_a_conversation_breaks_no_rule(name):
    assert validate_request(name, {"stream": True}) == []


@pytest.mark.parametrize("name", providers.names())
def test_every_provider_has_rules(name):
    assert "form" in {rule.name for rule in list_rules(name)}


def test_an_unknown_provider_is_an_error():
    with pytest.raises(UnknownProvider):
        list_rules("antropic")
    with pytest.raises(UnknownProvider):
        validate_request("antropic", {})


# ---------------------------------------------------------------- what some rules leave alone


def test_results_in_user_messages_of_their_own_pass_on_anthropic():
    split = changed(ANTHROPIC, [("messages.2.content.0", GONE)])
    split["messages"].insert(2, {"role": "user", "content": [ANTHROPIC["messages"][2]["content"][0]]})
    assert validate_request("anthropic", split) == []
    lost = changed(split, [("messages.3.content.0", GONE)])
    assert [fault.rule for fault in validate_request("anthropic", lost)] == ["call_answered_next"]
    assert "roles_alternate" in {rule.name for rule in list_rules("bedrock_converse")}


def test_results_with_the_role_function_pass_on_earlier_gemini_models():
    body = changed(GEMINI, [("contents.2.role", "function")])
    assert validate_request("gemini", body, model="gemini-2.5-flash") == []
    assert [fault.rule for fault in validate_request("gemini", body, model="gemini-3.5-pro")] == [
        "results_have_role_user"
    ]


def test_a_server_without_evidence_refuses_only_another_wire():
    orphan = {"messages": [{"role": "observer"}, {"role": "tool", "tool_call_id": "x" * 99, "content": "1"}]}
    acme = providers.dialect("acme", base="mistral")
    for provider in ("vllm", "openai_compatible", "openrouter", acme):
        assert validate_request(provider, orphan) == []
    assert validate_request("vllm", {"messages": "Hi"}) != []
    assert validate_request("openai_chat", orphan) != []
    assert validate_request("deepseek", orphan) == []  # no source says that it looks for the call of a result
    assert [fault.rule for fault in validate_request("qwen", orphan)] == ["result_has_call"]


def test_the_longest_ids_pass():
    for name, length in (("anthropic", 64), ("openai_chat", 40), ("openai_compatible", 200)):
        text = json.dumps(LEGAL[name if name in LEGAL else "openai_chat"])
        assert validate_request(name, json.loads(text.replace('"a"', f'"{"x" * length}"'))) == []


def test_unsigned_calls_pass_with_other_models_and_in_earlier_turns():
    unsigned = changed(GEMINI, [("contents.1.parts.1.thoughtSignature", GONE)])
    assert validate_request("gemini", unsigned) == []  # a person spoke since
    asking = changed(unsigned, [("contents.4", GONE)])
    assert [fault.rule for fault in validate_request("gemini", asking)] == ["first_call_signed"]
    assert validate_request("gemini", asking, model="gemini-2.5-pro") == []


def test_outputs_of_calls_that_the_provider_keeps_pass():
    body = {"input": [{"type": "function_call_output", "call_id": "a", "output": "1"}]}
    assert [fault.rule for fault in validate_request("openai_responses", body)] == ["output_has_call"]
    assert validate_request("openai_responses", {**body, "previous_response_id": "resp_1"}) == []
    assert validate_request("openai_responses", {"input": "Hi"}) == []


def test_a_last_assistant_message_may_be_empty_for_anthropic_and_is_a_prefix_for_mistral():
    assert validate_request("anthropic", changed(ANTHROPIC, [("messages.3.content", "")])) == []
    ending = changed(MISTRAL, [("messages.6", GONE), ("messages.5.prefix", True)])
    assert validate_request("mistral", ending) == []


@pytest.mark.parametrize("content", [{}, {"content": []}])
def test_a_system_message_of_anthropic_may_have_settings_alone(content):
    setting = {"role": "system", **content, "output_config": {"effort": "low"}}
    body = {**ANTHROPIC, "messages": [*ANTHROPIC["messages"], {"role": "user", "content": "?"}, setting]}
    assert validate_request("anthropic", body) == []
    body["messages"][-1] = {**setting, "output_config": {}}
    assert [violation.rule for violation in validate_request("anthropic", body)] != []


def test_redacted_thinking_may_begin_an_assistant_message():
    body = changed(ANTHROPIC, [("messages.3", GONE), ("thinking", {"type": "enabled"})])
    assert validate_request("anthropic", body) == []
    redacted = changed(body, [("messages.1.content.0", {"type": "redacted_thinking", "data": "x"})])
    assert validate_request("anthropic", redacted) == []


# ---------------------------------------------------------------- at the server


def test_a_rejected_request_takes_no_turn_and_names_the_place_and_the_rule():
    with serve(["hi"]) as server, httpx.Client() as client:
        whole = {**smallest_request("anthropic"), **ANTHROPIC}
        broken = changed(whole, [("messages.2.content.1", GONE)])
        response = client.post(address(server, "anthropic"), json=broken)
        turn = Turn("anthropic", turn_key="t")
        turn.response(response.status_code, response.headers)
        turn.feed(response.content)
        turn.close()
        fine = client.post(address(server, "anthropic"), json=whole)
    assert response.json()["error"]["type"] == "invalid_request_error"
    assert turn.error is not None
    assert turn.error.status == 400
    assert turn.error.message.startswith('messages.1.content.2: "a" has no tool_result in the next message')
    assert "rule call_answered_next; source: anthropics/claude-code#8210" in turn.error.message
    assert fine.status_code == 200
    assert [request.number for request in server.requests] == [-1, 0]


def test_a_server_that_is_not_strict_accepts_any_body():
    with serve(["hi"], strict=False) as server, httpx.Client() as client:
        body = {"stream": True, "messages": ["what is this?"]}
        assert client.post(address(server, "anthropic"), json=body).status_code == 200


def test_gemini_3_signs_the_first_call_of_a_response():
    with serve([Reply(Call("f"), Call("g"))] * 2) as server, httpx.Client() as client:
        new = client.post(address(server, "gemini"), json=smallest_request("gemini")).text
        older = client.post(
            address(server, "gemini").replace("gemini-3", "gemini-2.5"), json=smallest_request("gemini")
        ).text
    assert (new.count("thoughtSignature"), older.count("thoughtSignature")) == (1, 0)
    assert new.index("thoughtSignature") < new.index('"g"')


@pytest.mark.parametrize("name", sorted(LEGAL))
def test_a_body_that_nests_too_deeply_is_rejected(name, strict):
    with serve("hi") as server, httpx.Client() as client:
        response = client.post(address(server, name), content=b'{"messages": ' + b"[" * 100_000)
    assert response.status_code == 400


# ---------------------------------------------------------------- any body

SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.sampled_from(["user", "model", "tool"])


def places(value, path=()):
    yield path
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(item, (*path, key))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(LEGAL))
@given(data=st.data())
def test_no_body_makes_a_rule_raise(name, data):
    body = copy.deepcopy(LEGAL[name])
    anything = st.recursive(
        SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    )
    for _ in range(data.draw(st.integers(1, 4))):
        path = data.draw(st.sampled_from(list(places(body))))
        value = data.draw(anything)
        if not path:
            body = value
            continue
        holder = body
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = value
    for fault in validate_request(name, body):
        fault.message.encode()


@pytest.mark.parametrize("name", sorted(LEGAL))
def test_a_value_of_another_type_never_raises(name):
    for path in places(LEGAL[name]):
        for odd in (None, 3, "", "x", [], {}, [[]], [{}], {"type": []}, "\ud800", float("inf")):
            body = changed(LEGAL[name], [(".".join(map(str, path)), odd)]) if path else odd
            for fault in validate_request(name, body):
                fault.message.encode()
