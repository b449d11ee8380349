"""Requests in neutral form together with what `render_request` adds: structured outputs, cache marks, tool schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from streamkit import (
    Content,
    OutputFormat,
    Request,
    Settings,
    ToolDefinition,
    UsageError,
    parse_request,
    render_request,
)

Json = dict[str, Any]

SCHEMA: Json = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
#: OpenAI and Kimi refuse a union at the root of a tool's schema.
UNION: Json = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "zip": {"type": "string"}},
    "anyOf": [{"required": ["city"]}, {"required": ["zip"]}],
}
QUESTION: Json = {"role": "user", "content": "Where?"}
CHAT: Json = {
    "model": "m",
    "messages": [{"role": "system", "content": "Be brief."}, QUESTION],
    "tools": [
        {"type": "function", "function": {"name": "look", "parameters": UNION}},
        {"type": "function", "function": {"name": "find", "parameters": SCHEMA}},
    ],
}
FORMAT: Json = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA, "strict": True}}


class Place(BaseModel):
    """A place."""

    city: str


def test_the_schema_of_a_clients_tool_is_adapted_for_another_provider_alone() -> None:
    request = parse_request(CHAT, "openai_chat")
    changes: list[str] = []
    own = render_request(request, "openai_chat", changes=changes)
    assert own["tools"] == CHAT["tools"]
    assert changes == []
    other = render_request(request, "kimi", changes=changes)
    assert "anyOf" not in other["tools"][0]["function"]["parameters"]
    assert other["tools"][1]["function"]["parameters"] == SCHEMA
    assert any("the schema of the tool look was changed for kimi" in change for change in changes)


def test_a_definition_of_a_program_is_adapted_like_a_tool() -> None:
    definition = ToolDefinition(name="look", parameters=UNION)
    body = render_request([Content.human("Where?")], "openai_chat", tools=[definition])
    assert "anyOf" not in body["tools"][0]["function"]["parameters"]


@pytest.mark.parametrize(
    "provider", ["openai_chat", "openai_responses", "anthropic", "gemini", "cohere", "ollama", "bedrock_converse"]
)
def test_an_output_and_an_output_format_of_one_schema_are_the_same_fields(provider: str) -> None:
    contents = [Content.human("Where?")]
    form = OutputFormat(type="json_schema", json_schema=SCHEMA, name="output", strict=True)
    by_output = render_request(contents, provider, output=SCHEMA)
    by_setting = render_request(contents, provider, settings={"output_format": form})
    assert "'city'" in str(by_output).replace('"', "'")
    assert _parsed({name: by_setting[name] for name in by_output}) == _parsed(by_output)


def _parsed(value: Any) -> Any:
    """Return a body with the schemas parsed that are JSON texts."""
    if isinstance(value, dict):
        return {name: _parsed(item) for name, item in value.items()}
    return json.loads(value) if isinstance(value, str) and value.startswith("{") else value


def test_an_output_replaces_the_output_format_of_a_request() -> None:
    other: Json = {"type": "json_schema", "json_schema": {"name": "other", "schema": {"type": "object"}}}
    request = parse_request({**CHAT, "response_format": other}, "openai_chat")
    body = render_request(request, "openai_chat", output=Place)
    assert body["response_format"]["json_schema"]["name"] == "Place"
    body = render_request(request, "deepseek", output=Place)
    assert "response_format" not in body
    assert body["tools"][-1]["function"]["name"] == "final_output"
    assert body["tool_choice"] == "required"


def test_a_schema_that_the_target_refuses_is_that_of_a_tool() -> None:
    request = parse_request({**CHAT, "response_format": FORMAT}, "openai_chat")
    for target, reason in (("deepseek", "no field for its schema"), ("cohere", "refused next to tools")):
        changes: list[str] = []
        body = render_request(request, target, changes=changes)
        assert "response_format" not in body
        assert [tool["function"]["name"] for tool in body["tools"]] == ["look", "find", "final_output"]
        assert any("as the arguments of a tool" in change and reason in change for change in changes)
    assert render_request(request, "openai_chat")["response_format"] == FORMAT
    assert "response_format" in render_request(request, "mistral")


#: Zod and pydantic make such keywords; OpenAI's strict mode accepts them.
CONSTRAINED: Json = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "degrees": {"type": "number", "minimum": -90, "description": "in Celsius"},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
        "place": {"type": ["string", "null"]},
    },
    "required": ["degrees", "tags", "place"],
}
CLAUDE_FORM: Json = {
    "type": "object",
    "properties": {
        "degrees": {"type": "number", "description": "in Celsius\n\n{minimum: -90}"},
        "tags": {"type": "array", "items": {"type": "string"}, "description": "{maxItems: 3}"},
        "place": {"type": ["string", "null"]},
    },
    "required": ["degrees", "tags", "place"],
    "additionalProperties": False,
}


def _output_schema(body: Json) -> Any:
    if "output_config" in body:
        return body["output_config"]["format"]["schema"]
    return json.loads(body["outputConfig"]["textFormat"]["structure"]["jsonSchema"]["schema"])


@pytest.mark.parametrize("target", ["anthropic", "bedrock_invoke", "bedrock_converse"])
def test_the_schema_of_a_clients_output_has_the_form_that_claude_accepts(target: str) -> None:
    """The API: "For 'integer' type, property 'minimum' is not supported" (agentjido/req_llm#302)."""
    model = {"model": "anthropic.claude-sonnet-4-5" if target != "anthropic" else "claude-sonnet-4-5"}
    form: Json = {"type": "json_schema", "json_schema": {"name": "weather", "schema": CONSTRAINED, "strict": True}}
    body = render_request(parse_request({**CHAT, "response_format": form}, "openai_chat"), target, settings=model)
    assert _output_schema(body) == CLAUDE_FORM
    gemini: Json = {"responseMimeType": "application/json", "responseJsonSchema": CONSTRAINED}
    request = parse_request({"contents": [], "generationConfig": gemini}, "gemini", model="m", stream=True)
    assert _output_schema(render_request(request, target, settings=model)) == CLAUDE_FORM


@pytest.mark.parametrize("target", ["anthropic", "bedrock_invoke", "bedrock_converse"])
def test_a_schema_of_a_clients_output_without_a_form_for_claude_is_that_of_a_tool(target: str) -> None:
    model = {"model": "anthropic.claude-sonnet-4-5" if target != "anthropic" else "claude-sonnet-4-5"}
    schema: Json = {"type": "object", "properties": {"counts": {"type": "object", "additionalProperties": {}}}}
    form: Json = {"type": "json_schema", "json_schema": {"name": "counts", "schema": schema}}
    changes: list[str] = []
    request = parse_request({**CHAT, "response_format": form}, "openai_chat")
    body = render_request(request, target, settings=model, changes=changes)
    assert not {"output_config", "outputConfig"} & body.keys()
    (change,) = [change for change in changes if "as the arguments of a tool" in change]
    assert "counts is an open object" in change


def test_a_schema_of_a_client_of_the_messages_api_is_sent_as_it_is() -> None:
    own: Json = {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    own["output_config"] = {"format": {"type": "json_schema", "schema": CONSTRAINED}}
    assert render_request(parse_request(own, "anthropic"), "anthropic")["output_config"] == own["output_config"]


def test_automatic_cache_marks_are_in_a_request() -> None:
    request = parse_request(CHAT, "openai_chat")
    body = render_request(request, "anthropic", cache="auto")
    marked: Json = {"type": "ephemeral"}
    assert [tool.get("cache_control") for tool in body["tools"]] == [None, marked]
    assert body["system"] == [{"type": "text", "text": "Be brief.", "cache_control": marked}]
    assert body["messages"][-1]["content"][-1]["cache_control"] == marked
    body = render_request(request, "bedrock_converse", cache="auto")
    assert body["toolConfig"]["tools"][-1] == {"cachePoint": {"type": "default"}}
    assert all("cache" not in tool.metadata for tool in request.tools if isinstance(tool, ToolDefinition))


@pytest.mark.parametrize(("marks", "kept"), [(1, 4), (2, 4), (4, 4), (6, 4)])
def test_the_last_marks_of_tools_are_kept(marks: int, kept: int) -> None:
    tools = [ToolDefinition(name=f"t{number}", metadata={"cache": {}}) for number in range(marks + 3)]
    for target, name in (("anthropic", "cache_control"), ("bedrock_converse", "cachePoint")):
        body = render_request([Content.human("Where?")], target, tools=tools)
        assert str(body).count(name) == kept
        listed = body["tools"] if target == "anthropic" else body["toolConfig"]["tools"]
        assert name in listed[-1]


def test_an_invalid_output_of_a_request_is_an_error() -> None:
    request = Request(contents=[Content.human("Where?")], settings=Settings(model="m"))
    with pytest.raises(UsageError, match="output must be a pydantic model"):
        render_request(request, "anthropic", output=5)


@pytest.mark.parametrize(
    ("client", "fields"),
    [
        (
            "openai_responses",
            {"model": "m", "input": [], "include": [], "metadata": {}, "user": None},
        ),  # the Agents SDK
        ("gemini", {"contents": [], "generationConfig": {}, "safetySettings": []}),  # instructor
    ],
)
def test_fields_without_a_value_are_not_reported_as_left_out(client: str, fields: Json) -> None:
    changes: list[str] = []
    request = parse_request(fields, client)
    render_request(request, "anthropic", settings={"model": "claude-sonnet-4-5"}, changes=changes)
    assert changes == []
