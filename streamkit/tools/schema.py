"""A function's parameters as a JSON schema, and the validation of a model's arguments.

Invalid arguments are described in a sentence for the model. It calls nothing.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, PydanticUserError, ValidationError, create_model
from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation
from pydantic.json_schema import GenerateJsonSchema

from streamkit.errors import UsageError
from streamkit.tools.function import annotation_of, check_context_parameter, is_context, parameters_of
from streamkit.tools.json_schema import describe_missing, describe_surplus, find_problems, short_json

__all__ = [
    "InvalidArguments",
    "JsonSchemaGenerator",
    "Signature",
    "check_explicit_schema",
    "describe_error",
    "object_schema",
    "without_titles",
]


class InvalidArguments(ValueError):
    """The arguments of a call do not fit the tool. The message is a sentence for the model."""


class JsonSchemaGenerator(GenerateJsonSchema):
    """A generator of JSON schemas without pydantic's warnings."""

    # A default that is not JSON is omitted from the schema.
    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - the base declares it so


class Signature:
    """A function's parameters as a pydantic model.

    Its fields have generated names, because parameters may have any name (``schema``, ``_x``); the parameters' names
    are the aliases. A parameter whose own ``Field`` has an alias keeps that.

    Args:
        name: the tool's name, for messages.
        function: the function.

    Attributes:
        context_parameter: the name of the parameter that takes the ``ToolContext``, or None.

    Raises:
        UsageError: the function's parameters have no schema.
    """

    __slots__ = ("_model", "_names", "_tool", "context_parameter")

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._tool = name
        self._names: dict[str, str] = {}
        self.context_parameter: str | None = None
        fields: dict[str, Any] = {}
        try:
            parameters = parameters_of(function)
        except (TypeError, ValueError, NameError) as error:
            raise UsageError(f"tool {name}: the parameters of {function!r} cannot be read ({error})") from None
        for parameter in parameters:
            hint = self._resolve_annotation(function, parameter)
            if is_context(hint):
                check_context_parameter(name, parameter, self.context_parameter)
                self.context_parameter = parameter.name
                continue
            self._check(parameter, parameters)
            default = ... if parameter.default is inspect.Parameter.empty else parameter.default
            field = f"parameter_{len(fields)}"
            fields[field] = (hint, default)
            self._names[field] = parameter.name
        names = self._names
        config = ConfigDict(extra="forbid", alias_generator=lambda field: names.get(field, field))
        try:
            self._model: type[BaseModel] = create_model(name, __config__=config, **fields)
        except (PydanticSchemaGenerationError, PydanticUserError, PydanticUndefinedAnnotation, TypeError) as error:
            raise UsageError(f"tool {name}: pydantic cannot validate its parameters: {_first_line(error)}") from error

    def renamed(self, name: str) -> Signature:
        """Return the signature for a tool of another name, which is part of the messages."""
        renamed = copy.copy(self)
        renamed._tool = name
        return renamed

    def _resolve_annotation(self, function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
        try:
            return annotation_of(function, parameter)
        except (NameError, TypeError, SyntaxError, AttributeError) as error:
            raise UsageError(
                f"tool {self._tool}: the annotation {parameter.annotation!r} of parameter {parameter.name!r} cannot be "
                f"resolved ({error}); define or import its names at the top of the function's module"
            ) from None

    def _check(self, parameter: inspect.Parameter, parameters: list[inspect.Parameter]) -> None:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
            raise UsageError(
                f"tool {self._tool}: {stars}{parameter.name} cannot be part of a schema; name the parameters, or set "
                "the schema with Tool(name=, description=, parameters=, function=)"
            )
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise UsageError(f"tool {self._tool}: {parameter.name!r} is positional-only; tools are called by keyword")
        if parameter is parameters[0] and parameter.name == "self" and parameter.annotation is parameter.empty:
            raise UsageError(f"tool {self._tool}: pass a bound method: tool(object.{self._tool})")

    def json_schema(self, descriptions: dict[str, str]) -> dict[str, Any]:
        """Return the schema for the model, with the descriptions of the parameters by their names."""
        try:
            schema = self._model.model_json_schema(schema_generator=JsonSchemaGenerator)
        except PydanticUserError as error:
            raise UsageError(f"tool {self._tool}: no JSON schema for its parameters: {_first_line(error)}") from error
        properties = schema.get("properties", {})
        for field, name in self._names.items():
            member = properties.get(self._alias(field))
            if member is not None and name in descriptions:
                member.setdefault("description", descriptions[name])
        ordered = {"type": "object", "properties": properties, **schema}
        ordered.pop("description", None)  # the model class's own docstring, which is pydantic's
        return dict(without_titles(ordered))

    def _alias(self, field: str) -> str:
        return self._model.model_fields[field].alias or field

    def validate(self, arguments: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments: coerced, with models built and defaults filled in.

        Raises:
            InvalidArguments: they do not fit.
        """
        try:
            values = self._model.model_validate(arguments)
        except ValidationError as error:
            problems = [
                describe_error(dict(details), schema, "the arguments") for details in error.errors(include_url=False)
            ]
            raise InvalidArguments(_sentence(self._tool, problems)) from None
        return {name: getattr(values, field) for field, name in self._names.items()}


def object_schema(name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return an explicit schema, which must be an object's, with ``properties``: OpenAI refuses one without them."""
    if not isinstance(parameters, Mapping) or parameters.get("type", "object") != "object":
        raise UsageError(f"tool {name}: parameters must be the JSON schema of an object, not {short_json(parameters)}")
    return {"type": "object", "properties": {}} | dict(parameters)


def without_titles(schema: Any) -> Any:
    """Return the schema without pydantic's ``title``s, which repeat the names. A property named title is kept."""
    if isinstance(schema, list):
        return [without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in ("properties", "$defs", "patternProperties"):
            kept[keyword] = {name: without_titles(item) for name, item in value.items()}
        elif keyword in ("default", "const", "enum", "examples"):
            kept[keyword] = value
        elif keyword != "title":
            kept[keyword] = without_titles(value)
    return kept


def check_explicit_schema(tool: str, arguments: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Return arguments for an explicit schema unchanged.

    Raises:
        InvalidArguments: they break the schema.
    """
    problems = find_problems(arguments, schema)
    if problems:
        raise InvalidArguments(_sentence(tool, problems))
    return dict(arguments)


def describe_error(details: dict[str, Any], schema: dict[str, Any], root: str) -> str:
    """Return one error of pydantic as a part of a sentence.

    Args:
        details: an item of ``ValidationError.errors``.
        schema: the schema of the value.
        root: what the value is called that has the error itself, such as "the arguments".
    """
    first, *rest = details["loc"] or (root,)
    start = f"[{first}]" if isinstance(first, int) else str(first)
    path = start + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in rest)
    properties = schema.get("properties") or {}
    if details["type"] == "missing":
        return describe_missing(path, None if rest else properties.get(first))
    if details["type"] == "extra_forbidden":
        return describe_surplus(path, details["input"], () if rest else properties)
    message = str(details["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    expected = message[:1].lower() + message[1:]
    if expected.startswith("input should be"):
        expected = "expected" + expected.removeprefix("input should be")
    return f"{path} was given {short_json(details['input'])}, {expected}"


def _sentence(name: str, problems: list[str]) -> str:
    return f"the arguments do not fit {name}: {'; '.join(problems)}"


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
