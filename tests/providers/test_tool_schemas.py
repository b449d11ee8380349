"""Schemas of tools: changed where the target would refuse the whole request, and nowhere else."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from providers.foreign_schemas import REFUSED, STRING, VERCEL_INPUTS
from providers.github_tools import GITHUB_TOOLS

from streamkit import Content, Tool, ToolDefinition, providers, render_request
from streamkit.tools.json_schema import find_problems

Json = dict[str, Any]
ALL = {**GITHUB_TOOLS, **REFUSED, **VERCEL_INPUTS}
ROOT_REFUSED = {
    "anthropic": {"anyOf", "oneOf", "allOf"},
    "bedrock_invoke": {"anyOf", "oneOf", "allOf"},
    "bedrock_converse": {"anyOf", "oneOf", "allOf"},
    "openai_chat": {"anyOf", "oneOf", "allOf", "enum", "not"},
    "azure_openai": {"anyOf", "oneOf", "allOf", "enum", "not"},
    "openai_responses": {"anyOf", "oneOf", "allOf", "enum", "not"},
}


def rendered(schema: Json, provider: str, changes: list[str] | None = None) -> Json:
    """Return the schema as a request has it."""
    tool = Tool(name="t", parameters=copy.deepcopy(schema))
    body = render_request([Content.human("?")], provider, tools=[tool], changes=changes)
    found = [value for name, value in walk(body.get("tools") or body["toolConfig"]["tools"]) if name in SCHEMA_FIELDS]
    (schema,) = found
    return schema["json"] if provider == "bedrock_converse" else schema


SCHEMA_FIELDS = ("parameters", "input_schema", "inputSchema", "parametersJsonSchema")


def walk(data: Any) -> Iterator[tuple[str, Any]]:
    for name, value in data.items() if isinstance(data, dict) else [("", item) for item in data]:
        if name in SCHEMA_FIELDS:
            yield name, value
        elif isinstance(value, dict | list):
            yield from walk(value)


def sent(schema: Json) -> Json:
    """Return the schema as a target without rules gets it: an object's, with properties."""
    return {"type": "object", "properties": {}} | schema


def moonshot_problems(schema: Any, path: str = "root", definitions: Json | None = None) -> list[str]:
    """Return what Moonshot refuses in a schema, in the words of its errors.

    https://github.com/MoonshotAI/walle/blob/main/docs/mfjs-spec.md and the reports in ``foreign_schemas``.
    """
    if path == "root" and schema.get("type") != "object":
        return ['type is required and must be "object"']
    if not isinstance(schema, dict):
        return [f"{path}: not a schema"]
    definitions = definitions if definitions is not None else schema.get("$defs", {})
    if "$ref" in schema:
        start, _, name = schema["$ref"].rpartition("/")
        if schema["$ref"] != "#" and start != "#/$defs":
            return [f"{path}: references must start with #/$defs/"]
        if schema["$ref"] != "#" and name not in definitions:
            return [f"{path}: $defs not found for reference: {schema['$ref']}"]
        return [f"{path}: conflicting keywords found after $ref expansion"] if len(schema) > 1 else []
    refused = ("oneOf", "allOf", "if", "const", "$schema", "definitions", *(("$defs",) if path != "root" else ()))
    problems = [f"{path}: {keyword}" for keyword in refused if keyword in schema]
    if "anyOf" in schema:
        if "type" in schema:
            problems.append(f"{path}: when using anyOf, type should be defined in anyOf items")
        for option in schema["anyOf"]:
            problems += moonshot_problems(option, f"{path}.anyOf", definitions)
    elif not isinstance(schema.get("type"), str):
        problems.append(f"{path}: type is not defined")
    if len({type(value) for value in schema.get("enum", ())}) > 1 or None in schema.get("enum", ()):
        problems.append(f"{path}: an enum of several types")
    for name, value in (schema.get("properties") or {}).items():
        problems += moonshot_problems(value, f"{path}.{name}", definitions)
    for name, value in (schema.get("$defs") or {}).items():
        problems += moonshot_problems(value, f"{path}.$defs.{name}", definitions)
    if "items" in schema:
        problems += moonshot_problems(schema["items"], f"{path}[]", definitions)
    if isinstance(schema.get("additionalProperties"), dict):
        problems += moonshot_problems(schema["additionalProperties"], f"{path}.*", definitions)
    return problems


NAMES = [*REFUSED, *VERCEL_INPUTS]


@pytest.mark.parametrize("name", NAMES)
def test_openai_and_anthropic_get_no_union_at_the_root(name: str) -> None:
    for provider, root_refused in ROOT_REFUSED.items():
        changes: list[str] = []
        schema = rendered(ALL[name], provider, changes)
        refused = root_refused & set(ALL[name])
        assert not root_refused & set(schema), provider
        assert schema["type"] == "object", provider
        assert len(changes) == bool(refused), provider
        if not refused:
            assert schema == sent(ALL[name]), provider


@pytest.mark.parametrize("name", NAMES)
def test_kimi_gets_the_subset_that_it_accepts(name: str) -> None:
    changes: list[str] = []
    schema = rendered(ALL[name], "kimi", changes)
    assert moonshot_problems(schema) == []
    was_legal = moonshot_problems(sent(ALL[name])) == []
    if was_legal:
        assert changes == []
        assert schema == sent(ALL[name])


@pytest.mark.parametrize("provider", [*ROOT_REFUSED, "openrouter", "mistral"])
def test_bounds_of_draft_4_become_numbers(provider: str) -> None:
    """Dokploy/mcp#74, Dokploy/mcp#83, SylphxAI/pdf-reader-mcp#63: such a schema is refused as invalid."""
    ttl = {"type": "integer", "exclusiveMinimum": True, "minimum": 0, "maximum": 9}
    pages = {"anyOf": [{"type": "array", "items": {"type": "number", "exclusiveMaximum": True, "maximum": 5}}]}
    named = {
        "exclusiveMinimum": {"type": "boolean"},
        "low": {"type": "number", "exclusiveMinimum": False, "minimum": 1},
    }
    changes: list[str] = []
    schema = rendered({"type": "object", "properties": {"ttl": ttl, "pages": pages, **named}}, provider, changes)
    assert schema["properties"] == {
        "ttl": {"type": "integer", "exclusiveMinimum": 0, "maximum": 9},
        "pages": {"anyOf": [{"type": "array", "items": {"type": "number", "exclusiveMaximum": 5}}]},
        "exclusiveMinimum": {"type": "boolean"},
        "low": {"type": "number", "minimum": 1},
    }
    assert len(changes) == 2


def untyped(schema: Any, path: str = "root") -> list[str]:
    """Return the schemas that Fireworks does not understand."""
    if not isinstance(schema, dict):
        return []
    problems = [] if {"type", "$ref", "anyOf", "oneOf", "allOf"} & set(schema) else [path]
    for keyword in ("properties", "$defs", "definitions"):
        for name, value in (schema.get(keyword) or {}).items():
            problems += untyped(value, f"{path}.{name}")
    for keyword in ("anyOf", "oneOf", "allOf", "items"):
        values = schema.get(keyword, [])
        for value in values if isinstance(values, list) else [values]:
            problems += untyped(value, f"{path}.{keyword}")
    return problems


@pytest.mark.parametrize("name", NAMES)
def test_fireworks_gets_a_type_in_every_schema(name: str) -> None:
    changes: list[str] = []
    schema = rendered(ALL[name], "fireworks", changes)
    assert untyped(schema) == []
    assert bool(changes) == bool(untyped(sent(ALL[name])))
    if not changes:
        assert schema == sent(ALL[name])


def test_fireworks_gets_the_type_that_the_other_keywords_describe() -> None:
    schema = rendered(REFUSED["parts without a type"], "fireworks")
    assert schema["properties"] == {
        "value": {
            "type": ["string", "number", "boolean", "object", "array", "null"],
            "description": "a value of any type",
        },
        "paths": {"type": "array", "items": STRING},
        "level": {"type": "string", "enum": ["low", "high"]},
        "filter": {
            "type": "object",
            "anyOf": [{"type": "object", "required": ["criteria"]}, {"type": "object", "description": "or nothing"}],
        },
    }


def test_kimi_gets_what_a_reference_refers_to() -> None:
    """It is in the root's definitions, and the same reference always refers to the same one."""
    folder = {
        "type": "object",
        "properties": {"name": STRING, "childFolders": {"type": "array", "items": {"$ref": "#/$defs/items"}}},
    }
    schema = rendered(REFUSED["references to properties"], "kimi")
    assert schema["properties"]["body"]["properties"]["childFolders"] == {"type": "array", "items": folder}
    assert schema["properties"]["body"]["properties"]["zone"] == {
        "anyOf": [{"$ref": "#/$defs/zone"}],
        "description": "d",
    }
    assert schema["$defs"] == {"items": folder, "zone": STRING}

    changes: list[str] = []
    schema = rendered(REFUSED["definitions of draft 7"], "kimi", changes)
    assert schema["$defs"]["Filter"]["properties"]["all"]["items"] == {"$ref": "#/$defs/Filter"}
    assert schema["properties"]["map"] == {"$ref": "#/$defs/Map_3Cstring_3E"}
    assert schema["$defs"]["Map_3Cstring_3E"] == {"type": "object", "additionalProperties": STRING}
    assert changes == ["the schema of the tool t was changed for kimi: what a $ref refers to moved into $defs"]


def test_a_definition_that_contains_itself_with_a_keyword_next_to_the_reference_ends() -> None:
    reference = {"$ref": "#/$defs/N", "minProperties": 1}
    node = {"type": "object", "properties": {"left": reference, "right": reference}}
    schema = rendered({"type": "object", "properties": {"tree": reference}, "$defs": {"N": node}}, "kimi")
    own = {"$ref": "#/$defs/N_2"}
    expected = {"type": "object", "properties": {"left": own, "right": own}, "minProperties": 1}
    assert schema["properties"]["tree"] == schema["$defs"]["N_2"] == expected
    assert moonshot_problems(schema) == []


@pytest.mark.parametrize("name", NAMES)
def test_gemini_gets_json_schema_without_its_dialect(name: str) -> None:
    expected = {keyword: value for keyword, value in sent(ALL[name]).items() if keyword != "$schema"}
    changes: list[str] = []
    assert rendered(ALL[name], "gemini", changes) == expected
    assert changes == []  # Claude Code has it in each of its tools, and it forbids no value


#: The tools of the GitHub server that a target refuses: one has a value without a type, one alternatives.
REFUSED_BY = {
    "kimi": ["create_or_update_organization_custom_properties", "custom_properties_write"],
    "fireworks": ["create_or_update_organization_custom_properties"],
}


@pytest.mark.parametrize("provider", providers.names())
def test_every_target_takes_the_complete_tool_list_of_the_github_server(provider: str) -> None:
    """Send all tools in one request, because one refused schema fails all of it."""
    tools = [Tool(name=name, parameters=copy.deepcopy(schema)) for name, schema in GITHUB_TOOLS.items()]
    changes: list[str] = []
    body = render_request([Content.human("?")], provider, tools=tools, changes=changes)
    found = [value for name, value in walk(body.get("tools") or body["toolConfig"]["tools"]) if name in SCHEMA_FIELDS]
    schemas = [schema["json"] if provider == "bedrock_converse" else schema for schema in found]
    assert len(GITHUB_TOOLS) >= 50
    assert len(schemas) == len(GITHUB_TOOLS), f"add the field in which {provider} has schemas to SCHEMA_FIELDS"
    changed = REFUSED_BY.get(provider, [])
    assert sorted({change.split()[5] for change in changes}) == changed
    for (name, schema), rendered_schema in zip(GITHUB_TOOLS.items(), schemas, strict=True):
        assert not ROOT_REFUSED["openai_chat"] & set(rendered_schema)
        if provider == "kimi":
            assert moonshot_problems(rendered_schema) == []
        if name not in changed:
            assert rendered_schema == sent(schema)


@pytest.mark.parametrize("provider", ["mistral", "cohere", "ollama", "vllm", "xai"])
def test_other_targets_get_every_schema_unchanged(provider: str) -> None:
    for schema in ALL.values():
        assert rendered(schema, provider) == sent(schema)


# ---------------------------------------------------------------- what is kept


def test_variants_at_the_root_become_one_list_of_properties() -> None:
    changes: list[str] = []
    assert rendered(REFUSED["variants at the root"], "anthropic", changes) == {
        "type": "object",
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "description": "Provide exactly one of the documented input variants. Give at least one of: filename and"
        " content; filename and source_url.",
        "properties": {"filename": STRING, "content": STRING, "source_url": STRING},
        "required": ["filename"],
    }
    assert changes == [
        "the schema of the tool t was changed for anthropic: anyOf at its root became one list of properties"
    ]


def test_an_open_property_of_a_variant_does_not_replace_the_typed_one() -> None:
    schema = rendered(REFUSED["required sets at the root"], "openai_chat")
    assert schema["properties"] == REFUSED["required sets at the root"]["properties"]
    assert schema["description"] == "Give at least one of: stock_code; year and report_type."


def test_properties_of_several_forms_are_a_union() -> None:
    options = [{"properties": {"to": STRING}, "required": ["to"]}, {"properties": {"to": {"type": "integer"}}}]
    schema = rendered({"type": "object", "oneOf": options, "additionalProperties": False}, "openai_responses")
    assert schema["properties"] == {"to": {"anyOf": [STRING, {"type": "integer"}]}}
    assert schema["description"] == "Give exactly one of: to; none."


def test_allof_and_references_at_the_root_are_merged() -> None:
    schema = {
        "type": "object",
        "allOf": [{"$ref": "#/$defs/Base"}, {"properties": {"b": STRING}, "required": ["b"]}],
        "$defs": {"Base": {"type": "object", "properties": {"a": STRING}, "required": ["a"]}},
    }
    merged = rendered(schema, "anthropic")
    assert merged["properties"] == {"a": STRING, "b": STRING}
    assert merged["required"] == ["a", "b"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"type": ["string", "null"]}, {"anyOf": [STRING, {"type": "null"}]}),
        (
            {"type": ["string", "integer"], "minLength": 2, "minimum": 1, "description": "d"},
            {"anyOf": [{"type": "string", "minLength": 2}, {"type": "integer", "minimum": 1}], "description": "d"},
        ),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        ({"const": True}, {"type": "boolean"}),
        (
            {"enum": [1, "all", None]},
            {"anyOf": [{"type": "integer", "enum": [1]}, {"type": "string", "enum": ["all"]}, {"type": "null"}]},
        ),
        ({"enum": [1, 2.5], "type": "number"}, {"type": "number", "enum": [1, 2.5]}),
        ({"properties": {"a": STRING}}, {"type": "object", "properties": {"a": STRING}}),
        ({"items": {"pattern": "x"}}, {"type": "array", "items": {"type": "string", "pattern": "x"}}),
        (
            {"type": "string", "anyOf": [{"minLength": 1}, {"type": "null"}]},
            {"anyOf": [{"minLength": 1, "type": "string"}, {"type": "null"}]},
        ),
        ({"allOf": [STRING, {"minLength": 5}]}, {"type": "string", "minLength": 5}),
        ({"oneOf": [STRING, {"type": "null"}]}, {"anyOf": [STRING, {"type": "null"}]}),
    ],
)
def test_each_form_has_a_type_for_kimi(before: Json, after: Json) -> None:
    schema = {"type": "object", "properties": {"value": before}}
    assert rendered(schema, "kimi")["properties"]["value"] == after


def test_a_value_of_any_type_is_a_union_of_all() -> None:
    value = rendered(REFUSED["no type"], "kimi")["properties"]["truncateMode"]
    assert {option["type"] for option in value["anyOf"]} == {"string", "number", "boolean", "object", "array", "null"}
    assert value["description"] == "mode"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("custom_properties_write", {"level": "repository", "properties": [{"property_name": "p", "value": ["a"]}]}),
        (
            "custom_properties_write",
            {"level": "enterprise", "properties": [{"property_name": "p", "value_type": "string"}]},
        ),
        ("an enum of several types", {"limit": "all"}),
        ("an enum of several types", {"limit": None}),
        ("a type next to anyOf", {"skill": "x"}),
        ("variants at the root", {"filename": "a", "source_url": "b"}),
        ("null", {"nullableField": None, "explicitNullField": None}),
    ],
)
def test_arguments_that_fit_the_tool_fit_what_the_model_is_shown(name: str, arguments: Json) -> None:
    assert find_problems(arguments, ALL[name]) == []
    for provider in ("kimi", "openai_chat", "anthropic", "gemini"):
        assert find_problems(arguments, rendered(ALL[name], provider)) == []


def test_the_tool_validates_by_its_own_schema() -> None:
    tool = Tool(name="t", parameters=REFUSED["required sets at the root"])
    shown = rendered(tool.parameters, "anthropic")
    assert tool.parameters == REFUSED["required sets at the root"]
    with pytest.raises(ValueError, match="another form"):
        tool.validate({"year": 2026})
    assert shown != tool.parameters


def test_the_callers_schema_is_not_changed() -> None:
    before = json.dumps(ALL)
    for schema in ALL.values():
        for provider in ("kimi", "openai_chat", "gemini"):
            render_request([Content.human("?")], provider, tools=[Tool(name="t", parameters=schema)])
    assert json.dumps(ALL) == before


def test_alternatives_that_contain_themselves_or_share_alternatives_end() -> None:
    """Each level has the next one twice: 2^60 ways through the first schema, 2^40 through the second one."""
    circular: Json = {"type": "object", "properties": {"a": STRING}, "anyOf": [{"$ref": "#"}, {"$ref": "#"}]}
    assert rendered(circular, "openai_chat")["properties"] == {"a": STRING}
    levels = {f"l{n}": {"anyOf": [{"$ref": f"#/$defs/l{n + 1}", "title": "x"}] * 2} for n in range(40)}
    last = {"type": "object", "properties": {"b": STRING}, "required": ["b"]}
    shared = rendered({"type": "object", **levels["l0"], "$defs": {**levels, "l40": last}}, "openai_chat")
    assert (shared["properties"], shared["required"]) == ({"b": STRING}, ["b"])


def test_a_schema_that_contains_itself_ends() -> None:
    schema: Json = {"type": "object", "anyOf": [{"$ref": "#"}], "properties": {"a": {"$ref": "#", "minProperties": 1}}}
    for provider in ("openai_chat", "kimi"):
        assert json.dumps(rendered(schema, provider))


@pytest.mark.parametrize("wrong", ["l", [1], 7, True, None])
@pytest.mark.parametrize("name", ["properties", "required"])
@pytest.mark.parametrize("provider", ROOT_REFUSED)
def test_a_schema_of_the_wrong_form_is_merged_as_if_it_were_empty(provider: str, name: str, wrong: Any) -> None:
    """A server of MCP may send any JSON as a tool's schema."""
    wrong_option = {"type": "object", "properties": {"a": STRING}, name: wrong}
    for parameters in ({"type": "object", name: wrong, "allOf": []}, {"type": "object", "anyOf": [wrong_option]}):
        tool = ToolDefinition(name="t", parameters=parameters)
        body = json.loads(json.dumps(render_request([Content.human("?")], provider, tools=[tool])))
        schemas = [value for key, value in walk(body) if key in SCHEMA_FIELDS]
        assert schemas
        assert not any(isinstance(each.get("properties"), (str, list, int)) for each in schemas if "json" not in each)
