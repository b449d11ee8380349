"""The nulls that a model sends for omitted arguments of strict tools."""

from __future__ import annotations

import copy
import enum
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from tools.strict_tools import Node, Place, given_schema, parameters_for, weather

from streamkit.providers.openai_chat.requests import STRICT_PROFILES
from streamkit.providers.requests.strict import OPENAI
from streamkit.tools import InvalidArguments, StrictProfile, Tool, tool
from streamkit.tools.json_schema import drop_placeholder_nulls

WORDLESS = StrictProfile("acme", every_required=True)


def test_a_null_for_an_optional_parameter_becomes_its_default() -> None:
    made = tool(weather, strict=True)
    assert made.validate({"city": "Oslo", "unit": None, "days": None, "when": None}) == {
        "city": "Oslo",
        "unit": "c",
        "days": 1,
        "when": None,
    }


def test_a_null_that_is_a_valid_value_is_kept() -> None:
    def note(text: str | None = "none given", level: Annotated[int | None, Field(ge=1)] = 5) -> None: ...

    assert tool(note, strict=True).validate({"text": None, "level": None}) == {"text": None, "level": None}


def test_a_null_for_a_required_parameter_is_refused() -> None:
    with pytest.raises(InvalidArguments, match="city was given null"):
        tool(weather, strict=True).validate({"city": None, "unit": None, "days": None, "when": None})


def test_without_strict_a_null_is_a_value() -> None:
    with pytest.raises(InvalidArguments, match="days was given null"):
        tool(weather).validate({"city": "Oslo", "days": None})


class Circle(BaseModel):
    shape: Literal["circle"]
    radius: float = 1.0


class Square(BaseModel):
    shape: Literal["square"]
    side: float = 2.0
    label: str | None = "square"


@dataclass
class Point:
    x: int = 0
    y: int = 0


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


def test_nulls_become_defaults_on_every_level() -> None:
    def draw(
        places: list[Place],
        tree: Node,
        shape: Annotated[Circle | Square, Field(discriminator="shape")],
        point: Point | None = None,
        colour: Colour = Colour.RED,
        corners: list[Point] = [],  # noqa: B006 - it is not changed
    ) -> None: ...

    given = {
        "places": [{"name": "Oslo", "zoom": None}, {"name": "Bergen", "zoom": 7}],
        "tree": {"value": None, "children": [{"value": 2, "children": None}]},
        "shape": {"shape": "square", "side": None, "label": None},
        "point": {"x": None, "y": 4},
        "colour": None,
        "corners": None,
    }
    before = copy.deepcopy(given)
    assert tool(draw, strict=True).validate(given) == {
        "places": [Place(name="Oslo", zoom=3), Place(name="Bergen", zoom=7)],
        "tree": Node(value=1, children=[Node(value=2, children=[])]),
        "shape": Square(shape="square", side=2.0, label=None),
        "point": Point(x=0, y=4),
        "colour": Colour.RED,
        "corners": [],
    }
    assert given == before


def test_an_optional_union_accepts_null_and_its_types() -> None:
    def wait(seconds: int | float | str = 1, place: Place | str = "here") -> None: ...

    made = tool(wait, strict=True)
    sent = parameters_for(made, OPENAI)["properties"]
    assert sent["seconds"]["type"] == ["integer", "number", "string", "null"]
    assert sent["place"]["anyOf"] == [{"$ref": "#/$defs/Place"}, {"type": "string"}, {"type": "null"}]
    assert made.validate({"seconds": None, "place": None}) == {"seconds": 1, "place": "here"}


class Hourly(BaseModel):
    at: int
    every: int = 1


class Daily(BaseModel):
    at: str
    every: int | None = 7


class Once(BaseModel):
    at: bool
    every: str | None = "once"


def test_of_objects_with_the_same_names_the_one_with_matching_types_is_used() -> None:
    def plan(when: list[Hourly] | list[Daily | Once]) -> None: ...

    made = tool(plan, strict=True)
    assert made.validate({"when": [{"at": 3, "every": None}]}) == {"when": [Hourly(at=3, every=1)]}
    mixed = [{"at": "noon", "every": None}, {"at": True, "every": None}]
    assert made.validate({"when": mixed}) == {"when": [Daily(at="noon", every=None), Once(at=True, every=None)]}


def without_nulls(made: Tool, arguments: dict[str, Any]) -> Any:
    return drop_placeholder_nulls(arguments, made.parameters, made.parameters)


def test_a_null_for_a_required_property_excludes_an_object() -> None:
    either = {
        "anyOf": [
            {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a"]},
            {"type": "object", "properties": {"a": {"type": ["string", "null"]}, "b": {"enum": ["x", None]}}},
        ]
    }
    made = given_schema({"x": either})
    assert made.validate({"x": {"a": None, "b": None}}) == {"x": {"a": None, "b": None}}
    assert made.validate({"x": {"a": "y", "b": None}}) == {"x": {"a": "y"}}
    assert without_nulls(made, {"x": {"a": 3, "b": None}}) == {"x": {"a": 3, "b": None}}  # it fits neither


def test_the_default_of_the_function_applies_with_an_explicit_schema() -> None:
    def search(query: str, limit: int = 10, **filters: Any) -> None: ...

    parameters = {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "limit": {"type": "integer"},
            "filters": {
                "type": "object",
                "properties": {"since": {"type": "string"}, "by": {"type": ["string", "null"]}},
            },
        },
        "required": ["query"],
    }
    made = Tool(search, parameters=parameters, strict=True)
    assert made.validate({"query": "x", "limit": None, "filters": {"since": None, "by": None}}) == {
        "query": "x",
        "filters": {"by": None},
    }


@pytest.mark.parametrize(
    "given", [{"x": [1, None]}, {"gone": None}, {"gone": {"y": None}}, {"x": {"y": None}}, {"x": 1}]
)
def test_arguments_that_do_not_fit_the_schema_are_unchanged_before_validation(given: dict[str, Any]) -> None:
    made = given_schema({"x": {"type": "array", "items": {"type": "integer"}}})
    assert without_nulls(made, given) == given


def test_arguments_may_be_as_deep_as_a_wire_allows() -> None:
    def plant(tree: Node) -> Node:
        return tree

    leaf: dict[str, Any] = {"value": None, "children": None}
    for _ in range(120):
        leaf = {"value": None, "children": [leaf]}
    (tree,) = tool(plant, strict=True).validate({"tree": leaf}).values()
    depth = 0
    while tree.children:
        (tree,) = tree.children
        depth += 1
    assert (depth, tree.value) == (120, 1)


def values(schema: dict[str, Any], root: dict[str, Any], depth: int = 0) -> st.SearchStrategy[Any]:
    """Anything that a model which is held to a schema can say."""
    if "$ref" in schema:
        return values(root["$defs"][schema["$ref"].rpartition("/")[2]], root, depth + 1)
    if "anyOf" in schema:
        options = [option for option in schema["anyOf"] if option == {"type": "null"} or depth < 4]
        return st.one_of(*(values(option, root, depth) for option in options or schema["anyOf"]))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kind = schema["type"]
    if isinstance(kind, list):
        return st.one_of(*(values({"type": one}, root, depth) for one in kind))
    if kind == "object":
        properties = {name: values(told, root, depth) for name, told in schema["properties"].items()}
        optional = {name: properties.pop(name) for name in list(properties) if name not in schema.get("required", ())}
        return st.fixed_dictionaries(properties, optional=optional)
    if kind == "array":
        return st.just([]) if depth > 3 else st.lists(values(schema["items"], root, depth + 1), max_size=2)
    plain = {"string": st.text(max_size=3), "integer": st.integers(), "boolean": st.booleans(), "null": st.none()}
    return plain[kind] if kind in plain else st.floats(allow_nan=False, allow_infinity=False)


def everything(
    places: list[Place],
    tree: Node,
    shape: Annotated[Circle | Square, Field(discriminator="shape")],
    either: Circle | Point | str = "none",
    point: Point | None = None,
    colour: Colour = Colour.RED,
    mixed: Literal["a", 1, None] = "a",
    flag: bool = False,
    ratio: float = 0.5,
    tags: set[str] = set(),  # noqa: B006 - it is not changed
) -> None: ...


@pytest.mark.slow
@pytest.mark.parametrize("rules", [OPENAI, WORDLESS, STRICT_PROFILES["groq"], STRICT_PROFILES["kimi"]])
@given(data=st.data())
def test_every_value_that_the_strict_schema_allows_is_accepted(rules: StrictProfile, data: Any) -> None:
    made = tool(everything, strict=True)
    schema = parameters_for(made, rules)
    made.validate(data.draw(values(schema, schema)))


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ({"type": "string", "nullable": True}, True),
        ({"enum": ["a", None]}, True),
        ({"const": None}, True),
        ({"enum": ["a"]}, False),
        ({"type": "null"}, True),
        ({"type": ["string", "null"]}, True),
        ({"allOf": [{"type": "string"}]}, False),
        ({"allOf": [{"type": ["string", "null"]}]}, True),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, True),
        ({"properties": {"y": {"type": "string"}}}, False),
        ({"items": {"type": "string"}}, False),
    ],
)
def test_a_null_is_kept_if_the_parameter_accepts_it(told: dict[str, Any], kept: bool) -> None:
    assert given_schema({"x": told}).validate({"x": None}) == ({"x": None} if kept else {})


def test_one_of_two_objects_may_be_identified_by_a_value_alone() -> None:
    first = {"type": "object", "properties": {"kind": {"const": "a"}, "n": {"type": "integer"}}, "required": ["kind"]}
    second = {
        "type": "object",
        "properties": {"kind": {"enum": ["b", "c"]}, "n": {"type": ["integer", "null"]}},
        "required": ["kind"],
    }
    made = given_schema({"x": {"anyOf": [first, second]}})
    assert made.validate({"x": {"kind": "a", "n": None}}) == {"x": {"kind": "a"}}
    assert made.validate({"x": {"kind": "c", "n": None}}) == {"x": {"kind": "c", "n": None}}
    assert without_nulls(made, {"x": {"kind": "d", "n": None}}) == {"x": {"kind": "d", "n": None}}
    assert without_nulls(made, {"x": {"m": 1, "n": None}}) == {"x": {"m": 1, "n": None}}
