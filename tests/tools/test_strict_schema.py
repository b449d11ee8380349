"""Strict tools: what each provider is sent, and what cannot be sent."""

from __future__ import annotations

import copy
from typing import Annotated, Any, Literal

import pytest
import request_validators
from anthropic.lib._parse._transform import transform_schema
from google.genai import types as gemini_types
from mistralai.client.models import Function
from openai.lib._pydantic import to_strict_json_schema
from pydantic import BaseModel, Field
from tools.strict_tools import Node, Place, given_schema, parameters_for, weather

from streamkit import Content, UsageError, providers, render_request
from streamkit.providers.anthropic.requests import STRICT as ANTHROPIC
from streamkit.providers.bedrock_converse.requests import STRICT as BEDROCK
from streamkit.providers.openai_chat.dialects import DIALECTS
from streamkit.providers.openai_chat.requests import STRICT_PROFILES
from streamkit.providers.requests.strict import OPENAI
from streamkit.tools import Tool, strict_parameters, tool

HISTORY = [Content.human("Weather in Oslo?")]


def request(provider: str, *tools: Any, **options: Any) -> dict[str, Any]:
    return render_request(HISTORY, provider, tools=tools, **options)


# What is sent
ALL_REQUIRED = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "unit": {
            "anyOf": [{"type": "string", "enum": ["c", "f"]}, {"type": "null"}],
            "description": '{default: "c"}',
        },
        "days": {"type": ["integer", "null"], "description": "{default: 1}"},
        "when": {"type": ["string", "null"]},
    },
    "required": ["city", "unit", "days", "when"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("provider", ["openai_chat", "azure_openai", "deepseek", "groq"])
def test_an_optional_parameter_accepts_null_if_all_are_required(provider: str) -> None:
    body = request(provider, tool(weather, strict=True))
    function = {"name": "weather", "description": "Weather of a city.", "parameters": ALL_REQUIRED, "strict": True}
    assert body["tools"] == [{"type": "function", "function": function}]
    request_validators.openai_chat_request(body)


@pytest.mark.parametrize("provider", ["cerebras", "openrouter"])
def test_a_union_replaces_a_refused_list_of_types(provider: str) -> None:
    (made,) = request(provider, tool(weather, strict=True))["tools"]
    assert made["function"]["strict"] is True
    assert made["function"]["parameters"]["properties"]["when"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert made["function"]["parameters"]["required"] == ["city", "unit", "days", "when"]


def test_responses_always_sends_strict() -> None:
    body = request("openai_responses", tool(weather, strict=True), tool(weather, name="loose"))
    strict, loose = body["tools"]
    assert strict == {
        "type": "function",
        "name": "weather",
        "description": "Weather of a city.",
        "parameters": ALL_REQUIRED,
        "strict": True,
    }
    assert loose["strict"] is False
    assert loose["parameters"] == tool(weather).parameters
    for made in body["tools"]:
        request_validators.openai_responses_tool(made)


def test_anthropic_leaves_optional_parameters_optional() -> None:
    body = request("anthropic", tool(weather, strict=True), tool(weather, name="loose"))
    strict, loose = body["tools"]
    assert strict == {
        "name": "weather",
        "description": "Weather of a city.",
        "input_schema": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "unit": {"type": "string", "enum": ["c", "f"], "default": "c"},
                "days": {"type": "integer", "default": 1},
                "when": {"type": ["string", "null"]},
            },
            "required": ["city"],
            "additionalProperties": False,
        },
        "strict": True,
    }
    assert "strict" not in loose
    request_validators.anthropic_request(body)
    assert request("bedrock_invoke", tool(weather, strict=True))["tools"] == [strict]


def test_bedrock_has_the_flag_in_the_specification_of_the_tool() -> None:
    body = request("bedrock_converse", tool(weather, strict=True), tool(weather, name="loose"))
    strict, loose = (made["toolSpec"] for made in body["toolConfig"]["tools"])
    assert strict["strict"] is True
    assert strict["inputSchema"]["json"]["required"] == ["city"]
    assert "strict" not in loose
    request_validators.bedrock_request(body)


@pytest.mark.parametrize(
    ("choice", "mode"),
    [(None, "VALIDATED"), ("auto", "VALIDATED"), ("none", "NONE"), ("required", "ANY"), ("weather", "ANY")],
)
def test_gemini_validates_if_the_model_need_not_call(choice: str | None, mode: str) -> None:
    body = request("gemini", tool(weather, strict=True), tool_choice=choice)
    assert body["toolConfig"]["functionCallingConfig"]["mode"] == mode
    gemini_types.ToolConfig.model_validate(body["toolConfig"])
    for made in body["tools"]:
        gemini_types.Tool.model_validate(made)
    (declaration,) = body["tools"][0]["functionDeclarations"]
    assert set(declaration) == {"name", "description", "parametersJsonSchema"}
    assert declaration["parametersJsonSchema"]["properties"]["days"] == {
        "type": "integer",
        "description": "{default: 1}",
    }


def test_gemini_gets_no_mode_without_strict_tools() -> None:
    assert "toolConfig" not in request("gemini", weather)


def test_cohere_has_one_switch_for_all_tools() -> None:
    body = request("cohere", tool(weather, strict=True))
    assert body["strict_tools"] is True
    assert set(body["tools"][0]["function"]) == {"name", "description", "parameters"}
    assert body["tools"][0]["function"]["parameters"]["required"] == ["city"]
    assert "strict_tools" not in request("cohere", weather)


@pytest.mark.parametrize("provider", ["mistral", "vllm"])
def test_a_mode_that_takes_every_keyword_gets_the_closed_schema(provider: str) -> None:
    made = given_schema({"q": {"type": "string", "minLength": 2}, "n": {"type": "integer", "default": 1}})
    (sent,) = request(provider, made)["tools"]
    assert sent["function"] == {
        "name": "f",
        "parameters": {
            "type": "object",
            "properties": {"q": {"type": "string", "minLength": 2}, "n": {"type": "integer", "default": 1}},
            "additionalProperties": False,
        },
        "strict": True,
    }
    Function.model_validate(sent["function"], strict=True)


def test_kimi_takes_optional_parameters_and_one_type_each() -> None:
    (sent,) = request("kimi", tool(weather, strict=True))["tools"]
    assert sent["function"]["strict"] is True
    assert sent["function"]["parameters"]["required"] == ["city"]
    assert sent["function"]["parameters"]["properties"]["when"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}


@pytest.mark.parametrize(
    "provider", ["xai", "together", "fireworks", "huggingface", "perplexity", "qwen", "openai_compatible", "ollama"]
)
def test_a_provider_without_the_mode_gets_an_ordinary_tool(provider: str) -> None:
    assert request(provider, tool(weather, strict=True)) == request(provider, weather)


def test_every_provider_declares_its_mode() -> None:
    strict = tool(weather, strict=True)
    assert {name for name in providers.names() if request(name, strict) != request(name, weather)} == {
        "anthropic",
        "azure_openai",
        "bedrock_converse",
        "bedrock_invoke",
        "cerebras",
        "cohere",
        "deepseek",
        "gemini",
        "groq",
        "kimi",
        "mistral",
        "openai_chat",
        "openai_responses",
        "openrouter",
        "vllm",
    }


@pytest.mark.parametrize("provider", ["cerebras", "deepseek", "cohere", "gemini"])
def test_a_mode_for_all_tools_or_none_is_requested_if_all_are_strict(provider: str) -> None:
    mixed = request(provider, tool(weather, strict=True), tool(weather, name="loose"))
    assert mixed == request(provider, weather, tool(weather, name="loose"))


def test_a_custom_dialect_declares_its_mode() -> None:
    (sent,) = request(providers.dialect("acme", strict="groq"), tool(weather, strict=True))["tools"]
    assert sent["function"]["parameters"] == ALL_REQUIRED
    with pytest.raises(UsageError, match=r"one of openai, azure.*not 'acme'"):
        request(providers.dialect("acme", strict="acme"), weather)


def test_every_mode_of_the_chat_wire_belongs_to_a_dialect() -> None:
    assert {facts.strict for facts in DIALECTS if facts.strict} == set(STRICT_PROFILES)


def test_rendering_does_not_change_the_tool() -> None:
    def find(place: Place, tree: Node, tags: Annotated[list[str], Field(min_length=2)]) -> None: ...

    made = tool(find, strict=True)
    before = copy.deepcopy(made.parameters)
    for rules in (OPENAI, *STRICT_PROFILES.values()):
        strict_parameters([made], rules)
    assert made.parameters == before == tool(find).parameters


# The form


@pytest.mark.parametrize(
    ("told", "form"),
    [
        ({"type": "string", "pattern": "^a"}, {"type": "string", "pattern": "^a"}),
        ({"type": "string", "format": "date"}, {"type": "string", "format": "date"}),
        ({"type": "string", "format": "uri"}, {"type": "string", "description": '{format: "uri"}'}),
        (
            {"type": "string", "minLength": 3, "maxLength": 5, "description": "A word."},
            {"type": "string", "description": "A word.\n\n{minLength: 3, maxLength: 5}"},
        ),
        ({"type": "integer", "minimum": 1}, {"type": "integer", "minimum": 1}),
        (
            {"type": "array", "items": {"type": "string"}, "minItems": 2, "uniqueItems": True},
            {"type": "array", "items": {"type": "string"}, "minItems": 2, "description": "{uniqueItems: true}"},
        ),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        (
            {"enum": ["a", 1, None]},
            {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "integer", "enum": [1]}, {"type": "null"}]},
        ),
        ({"type": "number", "enum": [1, 2.5]}, {"type": "number", "enum": [1, 2.5]}),
        ({"type": ["string", "integer"]}, {"type": ["string", "integer"]}),
        (
            {"type": ["string", "array"], "items": {"type": "integer"}, "minLength": 2, "description": "Any."},
            {
                "anyOf": [
                    {"type": "string", "description": "{minLength: 2}"},
                    {"type": "array", "items": {"type": "integer"}},
                ],
                "description": "Any.",
            },
        ),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, {"type": ["string", "null"]}),
        ({"anyOf": [{"type": "string"}]}, {"type": "string"}),
        ({"allOf": [{"type": "string"}], "description": "One."}, {"type": "string", "description": "One."}),
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "title": "X", "description": "Said."}, {"type": "string", "description": "Said."}),
        (
            {"type": "string", "nullable": True, "enum": ["a", None], "description": "A."},
            {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}], "description": "A."},
        ),
        ({"type": ["string", "null"], "nullable": True}, {"type": ["string", "null"]}),
        ({"type": ["boolean"]}, {"type": "boolean"}),
    ],
)
def test_a_schema_in_openais_form(told: dict[str, Any], form: dict[str, Any]) -> None:
    made = parameters_for(given_schema({"x": told}, required=["x"]), OPENAI)
    assert made["properties"]["x"] == form


@pytest.mark.parametrize(("least", "kept"), [(1, {"minItems": 1}), (2, {"description": "{minItems: 2}"})])
def test_claude_accepts_a_minimum_of_one_item(least: int, kept: dict[str, Any]) -> None:
    made = given_schema({"x": {"type": "array", "items": {"type": "string"}, "minItems": least}})
    assert parameters_for(made, ANTHROPIC)["properties"]["x"] == {
        "type": "array",
        "items": {"type": "string"},
        **kept,
    }


def test_a_definition_is_referenced_or_inlined() -> None:
    def go(start: Place, end: Annotated[Place, Field(description="Where to.")]) -> None: ...

    place = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "zoom": {"type": ["integer", "null"], "description": "{default: 3}"},
        },
        "required": ["name", "zoom"],
        "additionalProperties": False,
    }
    made = tool(go, strict=True)
    kept = parameters_for(made, OPENAI)
    assert kept["properties"] == {"start": {"$ref": "#/$defs/Place"}, "end": {**place, "description": "Where to."}}
    assert kept["$defs"] == {"Place": place}
    written = parameters_for(made, STRICT_PROFILES["groq"])
    assert written["properties"] == {"start": place, "end": {**place, "description": "Where to."}}
    assert "$defs" not in written


def test_a_recursive_schema_is_accepted_or_refused_by_the_profile() -> None:
    def plant(tree: Node) -> None: ...

    made = tool(plant, strict=True)
    node = {
        "type": "object",
        "properties": {
            "value": {"type": ["integer", "null"], "description": "{default: 1}"},
            "children": {
                "anyOf": [{"type": "array", "items": {"$ref": "#/$defs/Node"}}, {"type": "null"}],
                "description": "{default: []}",
            },
        },
        "required": ["value", "children"],
        "additionalProperties": False,
    }
    assert parameters_for(made, OPENAI)["$defs"] == {"Node": node}
    assert parameters_for(made, STRICT_PROFILES["groq"])["properties"]["tree"] == node
    assert parameters_for(made, STRICT_PROFILES["groq"])["$defs"] == {"Node": node}
    for rules in (ANTHROPIC, BEDROCK):
        with pytest.raises(UsageError, match=r"Node\.children\[\] refers to itself \(#/\$defs/Node\)"):
            strict_parameters([made], rules)


def test_a_reference_to_the_root_is_kept() -> None:
    made = given_schema({"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, required=["next"])
    assert parameters_for(made, OPENAI) == {
        "type": "object",
        "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
        "required": ["next"],
        "additionalProperties": False,
    }


def test_a_schema_may_consist_of_a_reference() -> None:
    place = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    made = Tool(name="f", parameters={"$ref": "#/$defs/Place", "$defs": {"Place": place}}, strict=True)
    assert parameters_for(made, OPENAI) == {**place, "additionalProperties": False}


def test_definitions_of_the_older_name_and_with_odd_names() -> None:
    text = {"type": "string"}
    made = given_schema({"a": {"$ref": "#/definitions/a~1b"}}, definitions={"a/b": text}, required=["a"])
    assert parameters_for(made, OPENAI)["$defs"] == {"a/b": text}
    assert parameters_for(made, OPENAI)["properties"] == {"a": {"$ref": "#/$defs/a~1b"}}


class WholePlace(BaseModel):
    name: str
    zoom: int


class AllRequired(BaseModel):
    name: str
    places: list[WholePlace]
    kind: Literal["a", "b"]


def _without_titles(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {word: _without_titles(value) for word, value in schema.items() if word != "title"}
    return [_without_titles(item) for item in schema] if isinstance(schema, list) else schema


def test_the_sdks_convert_a_simple_schema_to_the_same_form() -> None:
    made = Tool(name="f", parameters=AllRequired.model_json_schema(), strict=True)
    openai = to_strict_json_schema(AllRequired)
    assert parameters_for(made, OPENAI) == _without_titles(openai)
    anthropic = _without_titles(transform_schema(AllRequired))
    ours = parameters_for(made, ANTHROPIC)
    assert ours["$defs"]["WholePlace"]["properties"] == anthropic["$defs"]["WholePlace"]["properties"]
    # The SDK says an enum without its type.
    assert ours["properties"]["kind"] == {"type": "string", **anthropic["properties"]["kind"]}
    assert ours["properties"]["places"] == anthropic["properties"]["places"]


# What cannot be sent


ANYTHING: dict[str, Any] = {}


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        ({"x": {"type": "object", "additionalProperties": {"type": "integer"}}}, "x is an open object"),
        ({"x": {"type": "object"}}, "x is an open object"),
        ({"x": {"type": "object", "properties": {}, "additionalProperties": True}}, "x is an open object"),
        ({"x": {"type": "array", "items": {"type": "object"}}}, r"x\[\] is an open object"),
        ({"x": ANYTHING}, "x accepts anything"),
        ({"x": True}, "x accepts anything"),
        ({"x": False}, "x is not a schema"),
        ({"x": {"description": "Any."}}, "x accepts anything"),
        ({"x": {"type": "array"}}, "x is an array of anything"),
        ({"x": {"type": "any"}}, "x has the type 'any'"),
        ({"x": {"type": "array", "prefixItems": [{"type": "string"}]}}, "x uses prefixItems"),
        ({"x": {"type": "object", "properties": {}, "patternProperties": {}}}, "x uses patternProperties"),
        ({"x": {"type": "string", "not": {"const": "a"}}}, "x uses not"),
        ({"x": {"allOf": [{"type": "string"}, {"minLength": 2}]}}, "x uses allOf of several"),
        ({"x": {"allOf": [True]}}, "x has an allOf that is not a schema"),
        ({"x": {"allOf": [{"type": "string", "minLength": 2}], "minLength": 3}}, "x has minLength next to its allOf"),
        ({"x": {"type": "string", "anyOf": [{"format": "date"}]}}, "x uses type next to anyOf"),
        ({"x": {"anyOf": [{"type": "string"}, {"type": "object"}]}}, r"x\.anyOf\[1\] is an open object"),
        ({"x": {"anyOf": []}}, "x has no options"),
        ({"x": {"enum": []}}, "x has no value"),
        ({"x": {"enum": [1], "type": "string"}}, "x has no value that fits its type"),
        ({"x": {"enum": [{"a": 1}]}}, 'x has {"a": 1} among its values'),
        ({"x": {"$ref": "https://example.org/schema"}}, "x refers to 'https://example.org/schema'"),
        ({"x": {"$ref": "#/$defs/Gone"}}, "x refers to '#/\\$defs/Gone', which is not in the schema"),
        ({"x": {"$ref": "#/properties/x"}}, "x refers to itself"),
        ({"x": {"type": "object", "properties": {"a.b": ANYTHING}}}, r"x\.a\.b accepts anything"),
        ({"x": {"type": "object", "properties": {}, "required": ["gone"]}}, "x requires 'gone', which is not among"),
        ({"x": {"type": "object", "properties": [], "required": "x"}}, "x is not the schema of an object"),
    ],
)
def test_a_schema_that_no_strict_mode_can_express_is_refused_when_the_tool_is_created(
    properties: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UsageError, match=f"tool f cannot be strict: {sentence}"):
        given_schema(properties)
    Tool(name="f", parameters={"type": "object", "properties": properties})  # not strict, it is as good as any


def test_a_typed_function_with_an_open_parameter_cannot_be_strict() -> None:
    def tally(counts: dict[str, int]) -> None: ...

    with pytest.raises(UsageError, match="tool tally cannot be strict: counts is an open object; name its properties"):
        tool(tally, strict=True)


def test_an_open_root_schema_cannot_be_strict() -> None:
    with pytest.raises(UsageError, match="its schema is an open object"):
        Tool(name="f", parameters={"type": "object", "additionalProperties": True}, strict=True)


def test_definitions_that_grow_exponentially_are_refused() -> None:
    twice = {
        f"D{n}": {
            "type": "object",
            "properties": {side: {"$ref": f"#/$defs/D{n + 1}", "description": side} for side in ("left", "right")},
        }
        for n in range(40)
    }
    twice["D40"] = {"type": "string"}  # type: ignore[dict-item]
    with pytest.raises(UsageError, match="too large"):
        given_schema({"x": {"$ref": "#/$defs/D0"}}, **{"$defs": twice})


def test_a_schema_that_is_nested_too_deeply_is_refused() -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(5000):
        deep = {"type": "array", "items": deep}
    with pytest.raises(UsageError, match="too deep"):
        given_schema({"x": deep})


def test_circular_references_end() -> None:
    circle = {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}
    made = given_schema({"x": {"$ref": "#/$defs/A"}}, **{"$defs": circle})
    assert made.validate({"x": 1}) == {"x": 1}
    with pytest.raises(UsageError, match="refers to itself"):
        strict_parameters([made], ANTHROPIC)


def test_unions_that_refer_to_unions_are_not_followed_twice() -> None:
    def chain(n: int) -> dict[str, Any]:
        return {"anyOf": [{"$ref": f"#/$defs/D{n}"}, {"$ref": f"#/$defs/D{n}"}, {"type": "string"}]}

    chained = {f"D{n}": chain(n + 1) for n in range(60)} | {"D60": {"type": "integer"}}
    made = given_schema({"x": chain(0)}, **{"$defs": chained})
    assert made.validate({"x": None}) == {}


def test_two_definitions_of_one_name_are_refused() -> None:
    text, number = {"N": {"type": "string"}}, {"N": {"type": "number"}}
    properties = {"a": {"$ref": "#/$defs/N"}, "b": {"$ref": "#/definitions/N"}}
    with pytest.raises(UsageError, match="b has two definitions with the name 'N'"):
        given_schema(properties, **{"$defs": text, "definitions": number})


def test_a_root_that_is_not_an_object_is_refused() -> None:
    with pytest.raises(UsageError, match="has type next to its"):
        Tool(name="f", parameters={"$ref": "#/$defs/T", "$defs": {"T": {"type": "string"}}}, strict=True)
    with pytest.raises(UsageError, match="its schema is not an object"):
        Tool(name="f", parameters={"type": "object", "properties": {}, "nullable": True}, strict=True)


def test_the_limits_of_openai() -> None:
    def nested(levels: int) -> Tool:
        inner: dict[str, Any] = {"type": "string"}
        for _ in range(levels - 1):
            inner = {"type": "object", "properties": {"x": inner}}
        return given_schema({"x": inner})

    strict_parameters([nested(10)], OPENAI)
    with pytest.raises(UsageError, match="for OpenAI: its schema has 11 nested objects, but at most 10 are allowed"):
        strict_parameters([nested(11)], OPENAI)
    with pytest.raises(
        UsageError, match="for Azure OpenAI: its schema has 101 properties, but at most 100 are allowed"
    ):
        request("azure_openai", given_schema({f"x{n}": {"type": "string"} for n in range(101)}))
    with pytest.raises(UsageError, match="has 1001 values in enums, but at most 1000 are allowed"):
        request("openai_chat", given_schema({"x": {"enum": list(range(1001))}}))


def test_the_limits_of_anthropic_for_a_request() -> None:
    plain = [tool(weather, name=f"w{n}", strict=True) for n in range(8)]  # three optional, one union each
    strict_parameters(plain, ANTHROPIC)
    with pytest.raises(UsageError, match="may have 24 properties that are not required, but these have 27: w0, w1"):
        strict_parameters([*plain, tool(weather, strict=True)], ANTHROPIC)
    required = [given_schema({"x": {"type": "string"}}, required=["x"]).replace(name=f"r{n}") for n in range(21)]
    strict_parameters(required[:20], ANTHROPIC)
    with pytest.raises(UsageError, match="to Anthropic may have 20 strict tools, but these have 21"):
        request("anthropic", *required)
    names = [f"x{n}" for n in range(17)]
    either = given_schema({name: {"type": ["string", "null"]} for name in names}, required=names)
    with pytest.raises(UsageError, match="may have 16 properties of several types, but these have 17"):
        strict_parameters([either], ANTHROPIC)
    request("bedrock_converse", either)


def test_cohere_needs_a_required_parameter_and_accepts_200_fields() -> None:
    def now(zone: str = "UTC") -> str:
        return zone

    with pytest.raises(UsageError, match="tool now cannot be strict for Cohere: its schema has no required property"):
        request("cohere", tool(now, strict=True))
    many = given_schema({f"x{n}": {"type": "string"} for n in range(201)}, required=["x0"])
    with pytest.raises(UsageError, match="may have 200 properties, but these have 201"):
        request("cohere", many)
