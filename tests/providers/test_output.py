"""``render_request(output=...)``: each provider's own form of a structured output, and a tool where it has none."""

from __future__ import annotations

import json
from typing import Any

import pytest
import request_validators
from pydantic import BaseModel, Field, RootModel

from streamkit import Content, Growing, Tool, UsageError, providers, render_request

Json = dict[str, Any]
ASK = [Content.human("A soup, please.")]


class Recipe(BaseModel):
    """A recipe."""

    name: str
    servings: int = 2


class Prices(BaseModel):
    by_name: dict[str, float]


class Node(BaseModel):
    value: str
    children: list[Node] = Field(default_factory=list)


PLAIN = {
    "description": "A recipe.",
    "properties": {"name": {"type": "string"}, "servings": {"default": 2, "type": "integer"}},
    "required": ["name"],
    "type": "object",
}
CLOSED = {**PLAIN, "additionalProperties": False}
#: Every property is required, so an optional one may be null.
REQUIRED = {
    "type": "object",
    "description": "A recipe.",
    "properties": {
        "name": {"type": "string"},
        "servings": {"type": ["integer", "null"], "description": "{default: 2}"},
    },
    "required": ["name", "servings"],
    "additionalProperties": False,
}
NAMED = {"name": "Recipe", "description": "A recipe."}


def search(query: str) -> str:
    """Search the book."""
    return query


def chat(schema: Json, **strict: bool) -> Json:
    return {"response_format": {"type": "json_schema", "json_schema": {**NAMED, "schema": schema, **strict}}}


@pytest.mark.parametrize(
    ("provider", "fields"),
    [
        ("openai_chat", chat(REQUIRED, strict=True)),
        ("azure_openai", chat(REQUIRED, strict=True)),
        ("mistral", chat(CLOSED, strict=True)),
        ("kimi", chat(CLOSED, strict=True)),
        ("vllm", chat(CLOSED, strict=True)),
        ("xai", chat(PLAIN)),
        ("together", chat(PLAIN)),
        ("openai_compatible", chat(PLAIN)),
        (
            "openai_responses",
            {"text": {"format": {"type": "json_schema", **NAMED, "schema": REQUIRED, "strict": True}}},
        ),
        ("anthropic", {"output_config": {"format": {"type": "json_schema", "schema": CLOSED}}}),
        ("bedrock_invoke", {"output_config": {"format": {"type": "json_schema", "schema": CLOSED}}}),
        ("gemini", {"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": PLAIN}}),
        ("ollama", {"format": PLAIN}),
    ],
)
def test_the_schema_is_in_the_providers_own_field(provider: str, fields: Json) -> None:
    changes: list[str] = []
    body = render_request(ASK, provider, output=Recipe, changes=changes)
    plain = render_request(ASK, provider)
    assert {name: value for name, value in body.items() if name not in plain} == fields
    assert changes == []


def test_bedrock_gets_the_schema_as_text() -> None:
    text_format = render_request(ASK, "bedrock_converse", output=Recipe)["outputConfig"]["textFormat"]
    schema = text_format["structure"]["jsonSchema"].pop("schema")
    assert json.loads(schema) == CLOSED
    assert text_format == {"type": "json_schema", "structure": {"jsonSchema": NAMED}}


def test_cohere_gets_it_as_the_schema_of_a_json_object() -> None:
    format_ = render_request(ASK, "cohere", output=Recipe)["response_format"]
    assert format_["type"] == "json_object"
    assert format_["json_schema"]["required"] == ["name"]


def test_the_sdks_accept_the_bodies() -> None:
    request_validators.openai_chat_request(render_request(ASK, "openai_chat", output=Recipe))
    request_validators.anthropic_request(render_request(ASK, "anthropic", output=Recipe))
    request_validators.bedrock_request(render_request(ASK, "bedrock_converse", output=Recipe))


# ---------------------------------------------------------------- a tool instead


def test_a_provider_without_a_field_gets_a_tool_that_must_be_called() -> None:
    changes: list[str] = []
    body = render_request(ASK, "deepseek", output=Recipe, changes=changes)
    (tool,) = body["tools"]
    assert tool["function"] == {
        "name": "final_output",
        "description": "A recipe.\nGive the final answer, once you know it.",
        "parameters": PLAIN,
    }
    assert body["tool_choice"] == {"type": "function", "function": {"name": "final_output"}}
    assert body["thinking"] == {"type": "disabled"}
    assert changes == [
        "the output is requested as the arguments of a tool of deepseek: there is no field for its schema",
        "reasoning was turned off in this request: deepseek refuses it together with a tool choice that forces a call",
    ]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, "required"),
        ("auto", "required"),
        ("required", "required"),
        ("none", {"type": "function", "function": {"name": "final_output"}}),
        ("search", {"type": "function", "function": {"name": "search"}}),
    ],
)
def test_with_other_tools_the_model_chooses_among_them(choice: str | None, expected: Any) -> None:
    body = render_request(ASK, "deepseek", output=Recipe, tools=[search], tool_choice=choice)
    assert [tool["function"]["name"] for tool in body["tools"]] == ["search", "final_output"]
    assert body["tool_choice"] == expected


@pytest.mark.parametrize(
    ("provider", "model", "tools", "stream", "has_field"),
    [
        ("anthropic", "claude-3-7-sonnet-20250219", [], True, False),
        ("anthropic", "claude-sonnet-4-20250514", [], True, False),
        ("anthropic", "claude-opus-4-0", [], True, False),
        ("anthropic", "claude-opus-4-1-20250805", [], True, True),
        ("anthropic", "claude-sonnet-4-5", [search], True, True),
        ("anthropic", "claude-haiku-4-5-20251001", [], True, True),
        ("anthropic", None, [], True, True),
        ("bedrock_invoke", "us.anthropic.claude-sonnet-4-20250514-v1:0", [], True, False),
        ("bedrock_converse", "amazon.nova-pro-v1:0", [], True, False),
        ("bedrock_converse", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", [search], True, True),
        ("gemini", "gemini-2.5-flash", [], True, True),
        ("gemini", "gemini-2.5-flash", [search], True, False),
        ("gemini", None, [search], True, False),
        ("gemini", "gemini-3-pro-preview", [search], True, True),
        ("groq", "openai/gpt-oss-120b", [], True, False),
        ("groq", "openai/gpt-oss-120b", [], False, True),
        ("groq", "openai/gpt-oss-120b", [search], False, False),
        ("cohere", None, [search], True, False),
        ("ollama", None, [search], True, False),
        ("qwen", None, [], True, False),
    ],
)
def test_the_field_is_used_where_model_tools_and_streams_allow_it(
    provider: str, model: str | None, tools: list[Any], stream: bool, has_field: bool
) -> None:
    changes: list[str] = []
    body = render_request(ASK, provider, model=model, tools=tools, stream=stream, output=Recipe, changes=changes)
    assert ("final_output" in json.dumps(body)) is not has_field
    assert len(changes) == (0 if has_field else 2 if provider == "ollama" else 1)  # Ollama cannot be forced to call it


def test_a_tool_of_that_name_is_refused() -> None:
    tool = Tool(search, name="final_output")
    with pytest.raises(UsageError, match="rename yours"):
        render_request(ASK, "deepseek", output=Recipe, tools=[tool])


# ---------------------------------------------------------------- schemas that a target cannot take


def test_a_schema_that_cannot_be_strict_is_loose_where_that_is_accepted() -> None:
    changes: list[str] = []
    body = render_request(ASK, "openai_chat", output=Prices, changes=changes)
    assert body["response_format"]["json_schema"]["strict"] is False
    assert changes == [
        "the output Prices cannot be strict for OpenAI: by_name is an open object; name its properties, or take a list"
        " of names and values; the model is not forced to keep to the schema"
    ]


def test_it_is_a_tool_where_only_strict_ones_are_accepted() -> None:
    for provider in ("anthropic", "bedrock_converse"):
        changes: list[str] = []
        body = render_request(ASK, provider, output=Prices, changes=changes)
        assert "final_output" in json.dumps(body)
        assert "by_name is an open object" in changes[0]
    many = {f"p{number}": {"type": "string"} for number in range(25)}
    changes = []
    render_request(ASK, "anthropic", output={"type": "object", "properties": many}, changes=changes)
    assert "25 properties that are not required, but at most 24" in changes[0]


def test_a_model_that_refers_to_itself_is_an_object() -> None:
    schema = render_request(ASK, "openai_responses", output=Node)["text"]["format"]["schema"]
    assert schema["type"] == "object"
    assert schema["$defs"]["Node"]["properties"].keys() == {"value", "children"}


BARE = {"gemini", "ollama", "vllm"}


@pytest.mark.parametrize("provider", sorted(set(providers.names()) - BARE))
@pytest.mark.parametrize(
    "output", [list[Recipe], Recipe | Prices | None, dict[str, Recipe] | int, RootModel[list[int]]]
)
def test_an_output_that_is_no_object_is_a_member_of_one_where_it_must_be_one(provider: str, output: Any) -> None:
    body = render_request(ASK, provider, output=output)
    schemas = [each for each in json_values(body) if isinstance(each, dict) and "final_output" in each]
    assert [schema.keys() for schema in schemas] == [{"final_output"}]  # the properties of one object
    parents = [each for each in json_values(body) if isinstance(each, dict) and each.get("properties") in schemas]
    assert [(parent["type"], parent["required"]) for parent in parents] == [("object", ["final_output"])]
    references = {each["$ref"] for each in json_values(body) if isinstance(each, dict) and "$ref" in each}
    for reference in references:
        assert reference.removeprefix("#/$defs/") in parents[0]["$defs"]


def test_references_of_a_schema_to_itself_lead_into_the_object() -> None:
    schema = {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#"}}, {"$ref": "#/anyOf/0"}]}
    written = render_request(ASK, "xai", output=schema)["response_format"]["json_schema"]["schema"]
    member = written["properties"]["final_output"]
    assert member["anyOf"][1]["items"] == {"$ref": "#/properties/final_output"}
    assert member["anyOf"][2] == {"$ref": "#/properties/final_output/anyOf/0"}


@pytest.mark.parametrize("provider", providers.names())
def test_a_tool_with_the_name_of_the_outputs_own_is_an_error(provider: str) -> None:
    with pytest.raises(UsageError, match="rename yours"):
        render_request(ASK, provider, output=Recipe, tools=[Tool(search, name="final_output")])


@pytest.mark.parametrize("provider", sorted(BARE))
def test_a_list_is_requested_where_it_may_be_one(provider: str) -> None:
    body = render_request(ASK, provider, output=list[int])
    assert {"items": {"type": "integer"}, "type": "array"} in json_values(body)


def json_values(data: Any) -> list[Any]:
    if isinstance(data, str) and data.startswith('{"'):
        data = json.loads(data)  # Converse has the schema as text
    items = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return [data, *(inner for item in items for inner in json_values(item))]


def test_a_json_schema_is_taken_as_it_is() -> None:
    schema = {"title": "A point!", "type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    described = render_request(ASK, "xai", output=schema)["response_format"]["json_schema"]
    assert described == {"name": "A_point", "schema": schema}


@pytest.mark.parametrize("provider", providers.names())
def test_every_provider_states_the_output(provider: str) -> None:
    body = render_request(ASK, provider, output=Recipe)
    assert "servings" in json.dumps(body)


def test_null_for_an_optional_property_is_its_default() -> None:
    growing = Growing(Recipe)
    growing.feed('{"name":"Soup","servings":null}')
    assert growing.close() == Recipe(name="Soup", servings=2)
    loose = Growing({"type": "object", "properties": {"x": {"type": "integer"}}})
    loose.feed('{"x":null}')
    assert loose.close() == {}
