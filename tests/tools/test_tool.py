from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import pytest
from pydantic import AfterValidator, BaseModel, Field

from streamkit import tools as room
from streamkit.calls import ToolCall
from streamkit.errors import UsageError
from streamkit.tools import Approval, InvalidArguments, Tool, ToolContext, to_tools, tool

if TYPE_CHECKING:
    from decimal import Decimal as OnlyForCheckers


T = TypeVar("T")


class Place(BaseModel):
    """Where on earth."""

    title: str
    latitude: float = 0.0


class Unit(Enum):
    CELSIUS = "celsius"
    KELVIN = "kelvin"


async def weather(city: str, days: int = 3, unit: Literal["C", "F"] = "C") -> OnlyForCheckers:
    """Say what
    the weather will be.

    It is often wrong.

    Args:
        city (str): The city,
            with its country.
        days: How many days.

    Returns:
        city: not this one.
    """
    raise NotImplementedError


def test_a_typed_function_is_a_tool() -> None:
    made = tool(weather)
    assert made.name == "weather"
    assert made.description == "Say what the weather will be."
    assert made.function_kind == "async"
    assert made.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "The city, with its country."},
            "days": {"type": "integer", "default": 3, "description": "How many days."},
            "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
        },
        "required": ["city"],
        "additionalProperties": False,
    }


def test_validation_coerces_and_fills_in_defaults() -> None:
    assert tool(weather).validate({"city": "Oslo", "days": "4"}) == {"city": "Oslo", "days": 4, "unit": "C"}


def test_models_are_described_and_built() -> None:
    def go(to: Place, via: list[Place] | None = None, unit: Unit = Unit.CELSIUS) -> None: ...

    made = Tool(go)
    place = made.parameters["$defs"]["Place"]
    assert place["properties"] == {"title": {"type": "string"}, "latitude": {"type": "number", "default": 0.0}}
    assert "title" not in place
    given = made.validate({"to": {"title": "Oslo"}, "via": [{"title": "Bergen", "latitude": 60}], "unit": "kelvin"})
    assert given == {
        "to": Place(title="Oslo"),
        "via": [Place(title="Bergen", latitude=60.0)],
        "unit": Unit.KELVIN,
    }


def test_parameters_may_have_any_name() -> None:
    def odd(schema: str, _hidden: int = 1, model_config: bool = False, json: str = "", copy: str = "") -> None: ...

    made = tool(odd)
    assert list(made.parameters["properties"]) == ["schema", "_hidden", "model_config", "json", "copy"]
    assert made.validate({"schema": "s", "_hidden": 2})["_hidden"] == 2


def test_pydantic_fields_constrain_describe_and_rename() -> None:
    def move(
        steps: Annotated[int, Field(ge=1, description="How far.")],
        from_: Annotated[str, Field(alias="from")] = "here",
        speed: int = Field(default=5, le=9),
    ) -> None:
        """Move.

        Args:
            steps: overruled by the field's own.
        """

    made = tool(move)
    properties = made.parameters["properties"]
    assert properties["steps"] == {"type": "integer", "minimum": 1, "description": "How far."}
    assert properties["speed"] == {"type": "integer", "maximum": 9, "default": 5}
    assert made.validate({"steps": 1, "from": "there"}) == {"steps": 1, "from_": "there", "speed": 5}
    with pytest.raises(InvalidArguments, match="steps was given 0, expected greater than or equal to 1"):
        made.validate({"steps": 0})


def test_the_message_of_a_validator_is_kept() -> None:
    def half(
        number: Annotated[int, AfterValidator(even)], name: Annotated[str, Field(min_length=3)] = "abc"
    ) -> None: ...

    with pytest.raises(InvalidArguments) as caught:
        tool(half).validate({"number": 3, "name": "a"})
    assert str(caught.value).endswith(
        'number was given 3, Only even numbers; name was given "a", string should have at least 3 characters'
    )


def test_type_variables_of_a_generic_function_resolve() -> None:
    def first(items: list[T]) -> None: ...

    first.__annotations__["items"] = "list[Item]"
    first.__type_params__ = (TypeVar("Item"),)  # type: ignore[attr-defined] # what `def first[Item]` has
    assert tool(first).parameters["properties"] == {"items": {"type": "array", "items": {}}}


def test_a_mutable_default_is_not_shared() -> None:
    def add(items: list[int] = []) -> None: ...  # noqa: B006 - the point

    made = tool(add)
    made.validate({})["items"].append(1)
    assert made.validate({}) == {"items": []}


def test_the_context_is_not_in_the_schema() -> None:
    def plain(context: ToolContext, city: str) -> None: ...
    def optional(city: str, context: ToolContext | None = None) -> None: ...
    def annotated(city: str, context: Annotated[ToolContext, "x"]) -> None: ...

    for function in (plain, optional, annotated):
        made = tool(function)
        assert made.context_parameter == "context"
        assert list(made.parameters["properties"]) == ["city"]
        assert made.validate({"city": "Oslo"}) == {"city": "Oslo"}
    assert tool(weather).context_parameter is None


def test_the_context_may_be_imported_only_for_type_checkers() -> None:
    scope: dict[str, Any] = {}
    exec("def look(context: 'ToolContext', x: 'int') -> 'Nowhere': ...", scope)  # noqa: S102 - a module of its own
    made = tool(scope["look"])
    assert made.context_parameter == "context"
    assert made.parameters["properties"] == {"x": {"type": "integer"}}


def test_unannotated_parameters_accept_anything() -> None:
    made = tool(lambda x, y=None: x, name="any")
    assert made.parameters["properties"] == {"x": {}, "y": {"default": None}}
    assert made.validate({"x": [1]}) == {"x": [1], "y": None}


def test_a_default_that_is_not_json_is_omitted_from_the_schema() -> None:
    def call(key: Any = object) -> None: ...

    made = tool(call)
    assert made.parameters["properties"] == {"key": {}}
    assert made.validate({}) == {"key": object}


def _raises(function: Callable[..., Any], match: str, **options: Any) -> None:
    with pytest.raises(UsageError, match=match):
        tool(function, **options)


def test_an_invalid_tool_is_refused_with_the_reason() -> None:
    def positions(*cities: str) -> None: ...
    def keywords(**options: str) -> None: ...
    def positional(city: str, /) -> None: ...
    def unresolved(city: OnlyForCheckers) -> None: ...
    def no_schema(then: Callable[[int], int]) -> None: ...
    def no_type(city: NoType) -> None: ...
    def method(self, city: str) -> None: ...  # type: ignore[no-untyped-def]
    def positional_context(context: ToolContext, /, city: str) -> None: ...
    def contexts(*contexts: ToolContext) -> None: ...
    def two_contexts(city: str, context: ToolContext, other: ToolContext[int]) -> None: ...

    _raises(weather, "tool weather: ends_run must be True or False, not 'yes'", ends_run="yes")
    _raises(positions, r"\*cities cannot be part of a schema")
    _raises(keywords, r"\*\*options cannot be part of a schema")
    _raises(positional, "'city' is positional-only")
    _raises(unresolved, "'OnlyForCheckers' of parameter 'city' cannot be resolved")
    _raises(no_schema, "no JSON schema")
    _raises(no_type, "pydantic cannot validate its parameters")
    _raises(method, "pass a bound method")
    for options in ({}, {"parameters": {"type": "object"}}):
        _raises(positional_context, "'context' is positional-only", **options)
        _raises(contexts, r"\*contexts cannot take the ToolContext", **options)
        _raises(two_contexts, "'context' and 'other' are both a ToolContext", **options)
    _raises(lambda: None, "'<lambda>' cannot be the name of a tool")
    _raises(weather, "cannot be the name of a tool", name="the weather")
    _raises(weather, "cannot be the name of a tool", name="w" * 65)
    _raises(weather, "cannot be the name of a tool", name="weather\n")
    _raises(weather, "5 cannot be the name of a tool", name=5)
    _raises(weather, "approval must be", approval="never")
    _raises(weather, "timeout must be a number of seconds above 0", timeout=0)
    _raises("weather", "must be callable")  # type: ignore[arg-type]
    _raises(Tool(weather), "is already a tool")
    _raises(Nameless(), "needs name=")
    _raises(max, "parameters of <built-in function max> cannot be read")


def even(number: int) -> int:
    if number % 2:
        raise ValueError("Only even numbers")
    return number


class NoType:
    pass


class Nameless:
    def __call__(self, city: str) -> str:
        """Look."""
        return city


def test_methods_partials_and_callable_objects() -> None:
    class Station:
        async def measure(self, city: str) -> None:
            """Measure."""

    made = tool(Station().measure)
    assert (made.name, made.description, made.function_kind) == ("measure", "Measure.", "async")
    assert list(made.parameters["properties"]) == ["city"]

    fixed = tool(functools.partial(weather, days=1))
    assert (fixed.name, fixed.function_kind, list(fixed.parameters["properties"])) == (
        "weather",
        "async",
        ["city", "unit"],
    )

    named = tool(Nameless(), name="look")
    assert (named.description, list(named.parameters["properties"])) == ("Look.", ["city"])


def test_a_tool_has_the_kind_of_its_function() -> None:
    def plain() -> None: ...
    async def awaited() -> None: ...
    def generator() -> Iterator[int]:
        yield 1

    async def async_generator() -> AsyncIterator[int]:
        yield 1

    kinds = [tool(function).function_kind for function in (plain, awaited, generator, async_generator)]
    assert kinds == ["sync", "async", "generator", "async_generator"]
    assert Tool(name="shown").function_kind == "sync"


def test_decorator_with_and_without_options() -> None:
    @tool
    def one(x: int) -> int:
        return x + 1

    @tool(approval="ask", timeout=5, exclusive=True, eager=True, name="zwei", description="Two.")
    def two() -> None: ...

    assert one(1) == 2
    assert (two.name, two.description, two.approval, two.timeout) == ("zwei", "Two.", "ask", 5)
    assert two.exclusive
    assert two.eager
    assert repr(two) == "<Tool zwei>"
    assert (one.approval, one.timeout, one.exclusive, one.eager) == ("allow", None, False, False)


def test_the_error_lists_each_argument_with_its_value_and_what_is_expected() -> None:
    def go(to: Place, days: int, unit: str = "C") -> None: ...

    with pytest.raises(InvalidArguments) as caught:
        tool(go).validate({"to": {"latitude": "north"}, "unit": 5, "speed": 9})
    assert str(caught.value) == (
        "the arguments do not fit go: to.title is missing; "
        'to.latitude was given "north", expected a valid number, unable to parse string as a number; '
        "days is missing, expected an integer; unit was given 5, expected a valid string; "
        "speed was given 9, expected only: to, days, unit"
    )


def test_a_function_without_parameters_accepts_none() -> None:
    def now() -> None: ...

    made = tool(now)
    assert made.parameters == {"type": "object", "properties": {}, "additionalProperties": False}
    assert made.validate({}) == {}
    with pytest.raises(InvalidArguments, match="x was given 1, expected no such argument"):
        made.validate({"x": 1})


def test_long_values_are_truncated_in_the_message() -> None:
    with pytest.raises(InvalidArguments) as caught:
        tool(weather).validate({"city": "x", "days": "d" * 5000})
    assert len(str(caught.value)) < 250


def test_arguments_that_are_not_an_object_are_refused() -> None:
    with pytest.raises(InvalidArguments, match=r"takes its arguments as an object, not \[1\]"):
        tool(weather).validate([1])  # type: ignore[arg-type]


def test_a_text_is_the_value_of_the_only_parameter() -> None:
    def shell(command: str, context: ToolContext) -> None: ...

    assert tool(shell).validate("ls -l") == {"command": "ls -l"}
    with pytest.raises(InvalidArguments, match="takes an object with: city, days, unit"):
        tool(weather).validate("Oslo")


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a"]}


def test_an_explicit_schema_passes_arguments_unchanged() -> None:
    async def run(context: ToolContext, **given: Any) -> None: ...

    made = Tool(name="run", description="Runs.", parameters=SCHEMA, function=run)
    assert made.parameters == SCHEMA
    assert made.description == "Runs."
    assert made.context_parameter == "context"
    assert made.function_kind == "async"
    assert made.validate({"a": 1, "c": 2}) == {"a": 1, "c": 2}
    with pytest.raises(InvalidArguments, match="run: a is missing, expected an integer"):
        made.validate({"b": 1})


def test_a_closed_explicit_schema_refuses_other_arguments() -> None:
    made = Tool(name="run", parameters={**SCHEMA, "additionalProperties": False}, function=print)
    with pytest.raises(InvalidArguments, match="c was given 2, expected only: a, b"):
        made.validate({"a": 1, "c": 2})


def test_an_explicit_schema_needs_no_readable_function() -> None:
    def unresolved(city: OnlyForCheckers, context: ToolContext) -> None: ...

    assert Tool(max, parameters=SCHEMA).context_parameter is None
    assert Tool(unresolved, parameters=SCHEMA).context_parameter == "context"


def test_an_explicit_schema_must_be_that_of_an_object() -> None:
    with pytest.raises(UsageError, match="parameters must be the JSON schema of an object"):
        Tool(name="run", parameters={"type": "string"})
    assert Tool(name="run", parameters={"type": "object"}).parameters == {"type": "object", "properties": {}}


def test_a_tool_without_a_function_is_only_offered() -> None:
    made = Tool(name="search", description="Search.")
    assert made.parameters == {"type": "object", "properties": {}}
    with pytest.raises(UsageError, match="search has no function"):
        made()
    with pytest.raises(UsageError, match="needs name="):
        Tool()


def test_to_tools_keeps_the_order_and_refuses_equal_names() -> None:
    second = Tool(name="b", function=print, parameters={})
    assert list(to_tools([weather, second])) == ["weather", "b"]
    assert to_tools([second])["b"] is second
    assert to_tools(()) == {}
    with pytest.raises(UsageError, match="two tools have the name 'weather'"):
        to_tools([weather, Tool(weather)])
    with pytest.raises(UsageError, match="must be functions or tools"):
        to_tools([{"name": "weather"}])  # type: ignore[list-item]
    for single in (weather, second, "weather"):
        with pytest.raises(UsageError, match="tools must be a list"):
            to_tools(single)  # type: ignore[arg-type]


def test_the_context_has_the_values_of_execution() -> None:
    call = ToolCall(id="hist_tool_x", name="f", index=0)
    seen: list[Any] = []
    context = ToolContext(call, deps="db", turn="turn", progress=seen.append, canceled=lambda: bool(seen))
    assert (context.call, context.id, context.deps, context.turn) == (call, "hist_tool_x", "db", "turn")
    assert not context.canceled
    context.progress(0.5)
    assert seen == [0.5]
    assert context.canceled
    bare = ToolContext(call, id="other")
    bare.progress(1)
    assert (bare.id, bare.canceled) == ("other", False)


def test_approval_is_a_value() -> None:
    assert Approval(True) == Approval(allow=True, arguments=None, reason=None)


def test_docstring_without_a_paragraph_or_sections() -> None:
    def only_arguments(x: int) -> None:
        """Args:
        x: A number.
        """

    def starred(x: int, y: int) -> None:
        """Do.

        Parameters:
            x (int, optional): First.

            y:
                Second.
        """

    def rambling(x: int) -> None:
        """Do.

        Args:
            whatever is needed
            x: Known.
        """

    def none(x: int) -> None: ...

    assert tool(only_arguments).description == ""
    described = {name: item["description"] for name, item in tool(starred).parameters["properties"].items()}
    assert described == {"x": "First.", "y": "Second."}
    assert tool(none).description == ""
    assert tool(rambling).parameters["properties"]["x"]["description"] == "Known."


def test_every_exported_name_exists() -> None:
    assert all(hasattr(room, name) for name in room.__all__)
