"""Validation against explicit schemas. The examples are those of json-schema.org, "Understanding JSON Schema"."""

from __future__ import annotations

from typing import Any

import pytest

from streamkit import Tool, UsageError
from streamkit.tools import InvalidArguments
from streamkit.tools.json_schema import MAX_PROBLEMS, MAX_STEPS, find_problems


@pytest.mark.parametrize(
    ("schema", "fitting", "breaking"),
    [
        (True, [None, 1, "x", {}], []),
        (False, [], [None, {}]),
        ({"type": "integer"}, [1, 1.0, -3, 10**40], [True, 1.5, "1", None]),
        ({"type": "number"}, [1, 1.5], [False, "1"]),
        ({"type": "boolean"}, [True], [1, 0]),
        ({"type": "null"}, [None], [0, "", False]),
        ({"type": ["string", "null"]}, ["x", None], [1]),
        ({"type": "string", "nullable": True}, ["x", None], [1]),
        ({"type": "unheard of"}, [1, None], []),
        ({"enum": ["a", 1, None]}, ["a", 1, 1.0, None], ["b", True, False]),
        ({"enum": [{"a": [1]}]}, [{"a": [1.0]}], [{"a": [True]}, {"a": []}]),
        ({"const": 0}, [0, 0.0], [False, "", None]),
        ({"minimum": 1, "maximum": 3}, [1, 3, "x"], [0, 3.5]),
        ({"exclusiveMinimum": 1, "exclusiveMaximum": 3}, [2], [1, 3]),
        ({"minimum": 1, "exclusiveMinimum": True}, [2], [1]),  # draft 4
        ({"multipleOf": 3}, [0, 9], [10]),
        ({"multipleOf": 0.1}, [0.3, 1.1], [0.35]),
        ({"minLength": 2, "maxLength": 3}, ["ab", "äöü"], ["a", "abcd"]),
        ({"pattern": "^[a-z]+$"}, ["abc", 5], ["ABC"]),
        ({"pattern": "b"}, ["abc"], ["ac"]),  # not anchored
        ({"pattern": "(?=a)"}, ["anything"], []),  # look-ahead has no linear time: not checked
        ({"pattern": "("}, ["anything"], []),
        ({"items": {"type": "integer"}}, [[], [1, 2]], [[1, "2"]]),
        ({"prefixItems": [{"type": "integer"}], "items": False}, [[], [1]], [["x"], [1, 2]]),
        ({"items": [{"type": "integer"}], "additionalItems": {"type": "string"}}, [[1, "x"]], [[1, 2]]),
        ({"minItems": 1, "maxItems": 2}, [[1]], [[], [1, 2, 3]]),
        ({"uniqueItems": True}, [[1, True, "1"]], [[1, 1.0], [{"a": 1, "b": 2}, {"b": 2, "a": 1}]]),
        ({"contains": {"type": "integer"}}, [["x", 1]], [["x"], []]),
        ({"contains": {"type": "integer"}, "minContains": 0, "maxContains": 1}, [[]], [[1, 2]]),
        ({"required": ["a"]}, [{"a": None}], [{}]),
        ({"properties": {"a": {"type": "string"}}}, [{}, {"b": 1}], [{"a": 1}]),
        ({"properties": {"a": {}}, "additionalProperties": False}, [{"a": 1}], [{"b": 1}]),
        ({"additionalProperties": {"type": "integer"}}, [{"b": 1}], [{"b": "x"}]),
        (
            {"patternProperties": {"^x-": {"type": "integer"}}, "additionalProperties": False},
            [{"x-a": 1}],
            [{"x-a": "1"}, {"y": 1}],
        ),
        ({"propertyNames": {"maxLength": 2}}, [{"ab": 1}], [{"abc": 1}]),
        ({"minProperties": 1, "maxProperties": 1}, [{"a": 1}], [{}, {"a": 1, "b": 2}]),
        ({"dependentRequired": {"a": ["b"]}}, [{"b": 1}, {"a": 1, "b": 1}], [{"a": 1}]),
        ({"dependentSchemas": {"a": {"required": ["b"]}}}, [{"b": 1}], [{"a": 1}]),
        ({"dependencies": {"a": ["b"], "c": {"required": ["d"]}}}, [{}], [{"a": 1}, {"c": 1}]),
        ({"anyOf": [{"type": "integer"}, {"minLength": 2}]}, [1, "ab"], ["a"]),
        ({"oneOf": [{"multipleOf": 3}, {"multipleOf": 5}]}, [3, 5], [15, 7]),
        ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, [1], [0, 3]),
        ({"not": {"type": "string"}}, [1], ["x"]),
        ({"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}},
         [{"a": 1, "b": 1}, {"c": 1}], [{"a": 1}, {}]),
        ({"$ref": "#/$defs/x~1y/0", "$defs": {"x/y": [{"type": "integer"}]}}, [1], ["1"]),
        # https://github.com/vega/ts-json-schema-generator writes references as URIs
        ({"$ref": "#/definitions/Map%3Cint%3E", "definitions": {"Map<int>": {"type": "integer"}}}, [1], ["1"]),
        ({"$ref": "#/definitions/a%3C", "definitions": {"a%3C": {"type": "integer"}}}, [1], ["1"]),
        ({"$ref": "#/definitions/Gone"}, ["anything"], []),
        ({"$ref": "https://example.com/schema"}, ["anything"], []),
        ({"$ref": "#"}, ["anything"], []),  # it refers to itself
        (
            {"type": "object", "properties": {"next": {"$ref": "#"}, "value": {"type": "integer"}}},
            [{"next": {"next": {"value": 1}}}],
            [{"next": {"next": {"value": "x"}}}],
        ),
        ({"format": "email", "x-unknown": 1}, ["no address"], []),
        ({"required": "a", "properties": [], "minimum": "1", "enum": 5, "anyOf": {}}, [{}, 1], []),  # not well formed
    ],
)  # fmt: skip
def test_keywords(schema: Any, fitting: list[Any], breaking: list[Any]) -> None:
    assert [value for value in fitting if find_problems(value, schema)] == []
    assert [value for value in breaking if not find_problems(value, schema)] == []


def problems(arguments: dict[str, Any], **properties: Any) -> str:
    made = Tool(print, name="f", parameters={"type": "object", "properties": properties})
    with pytest.raises(InvalidArguments) as caught:
        made.validate(arguments)
    return str(caught.value)


def test_the_message_has_the_place_the_value_and_what_is_expected() -> None:
    schema = {
        "type": "array",
        "items": {"type": "object", "required": ["at"], "properties": {"at": {"type": "integer"}}},
    }
    message = problems({"when": [{"at": "noon"}, {}]}, when=schema)
    assert 'when[0].at was given "noon", expected an integer' in message
    assert "when[1].at is missing, expected an integer" in message


def test_the_message_of_a_union_lists_its_forms() -> None:
    message = problems({"x": []}, x={"anyOf": [{"type": "string"}, {"type": "integer"}]})
    assert "expected a string" in message
    assert "expected an integer" in message


def test_the_number_of_problems_is_bounded() -> None:
    assert len(find_problems(["x"] * 1000, {"items": {"type": "integer"}})) == MAX_PROBLEMS


def test_a_schema_whose_alternatives_multiply_is_compared_once_a_value() -> None:
    both = {"anyOf": [{"$ref": "#/$defs/node"}, {"$ref": "#/$defs/node"}]}
    root = {"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"next": both}}}}
    value: dict[str, Any] = {}
    for _ in range(60):  # two alternatives at each of 60 levels
        value = {"next": value}
    assert find_problems(value, root) == []


@pytest.mark.parametrize("value", [5, {"a": {"a": 5}}], ids=["a number", "an object"])
@pytest.mark.parametrize("keyword", ["anyOf", "allOf"])
def test_definitions_that_contain_the_next_one_twice_are_compared_once(keyword: str, value: Any) -> None:
    """There are 2^40 ways to the last one, and as many problems if the ones of each way were listed."""
    levels: dict[str, Any] = {f"l{n}": {keyword: [{"$ref": f"#/$defs/l{n + 1}"}] * 2} for n in range(40)}
    levels["l40"] = {"type": "object", "required": ["b"]}
    problems = find_problems(value, {"$ref": "#/$defs/l0", "$defs": levels})
    assert 1 <= len(problems) <= 2


@pytest.mark.slow
def test_what_takes_too_long_to_check_is_refused() -> None:
    assert find_problems([0] * (MAX_STEPS + 1), {"items": {"type": "integer"}}) != []


def test_a_tool_that_changes_its_arguments_does_not_change_the_call() -> None:
    arguments = {"at": {"x": [1]}}
    made = Tool(print, name="f", parameters={"type": "object"})
    made.validate(arguments)["at"] = 2
    assert arguments == {"at": {"x": [1]}}


@pytest.mark.parametrize("option", [{"timeout": "3"}, {"timeout": float("nan")}, {"limit": 1.5}, {"limit": True}])
def test_an_option_of_another_type_is_refused(option: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(option))):
        Tool(print, name="f", parameters={}, **option)
