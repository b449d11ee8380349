"""A function's parameters as a JSON schema, and the validation of what a model gives for them.

It also says in a sentence what is wrong with given arguments, for the model to read. It calls nothing.
"""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, PydanticUserError, ValidationError, create_model
from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation
from pydantic.json_schema import GenerateJsonSchema

from streamkit.errors import UsageError
from streamkit.tools.function import annotation_of, is_context, parameters_of

__all__ = ["InvalidArguments", "Signature", "object_schema", "check_explicit_schema", "short_repr"]


class InvalidArguments(ValueError):
    """The arguments of a call do not fit the tool. The message is a sentence for the model."""


class _Schema(GenerateJsonSchema):
    # A default that is no JSON is simply not shown to the model.
    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - the base declares it so


class Signature:
    """A function's parameters as a pydantic model.

    Its fields have names of ours, for parameters may be called anything (``schema``, ``_x``); the parameters' names are
    the aliases. A parameter whose own ``Field`` has an alias keeps that.
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
            hint = self._resolved(function, parameter)
            if is_context(hint):
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
        """The same for a tool of another name: sentences about arguments name the tool."""
        made = copy.copy(self)
        made._tool = name
        return made

    def _resolved(self, function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
        try:
            return annotation_of(function, parameter)
        except (NameError, TypeError, SyntaxError, AttributeError) as error:
            raise UsageError(
                f"tool {self._tool}: the annotation {parameter.annotation!r} of parameter {parameter.name!r} cannot be "
                f"resolved ({error}); what it names must be defined or imported at the top of the function's module"
            ) from None

    def _check(self, parameter: inspect.Parameter, parameters: list[inspect.Parameter]) -> None:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
            raise UsageError(
                f"tool {self._tool}: {stars}{parameter.name} has no place in a schema; name the parameters, or give "
                "the schema by Tool(name=, description=, parameters=, function=)"
            )
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise UsageError(f"tool {self._tool}: {parameter.name!r} is positional-only; tools are called by keyword")
        if parameter is parameters[0] and parameter.name == "self" and parameter.annotation is parameter.empty:
            raise UsageError(f"tool {self._tool}: a method becomes a tool by its object: tool(thing.{self._tool})")

    def json_schema(self, described: dict[str, str]) -> dict[str, Any]:
        """What the model is shown."""
        try:
            given = self._model.model_json_schema(schema_generator=_Schema)
        except PydanticUserError as error:
            raise UsageError(f"tool {self._tool}: no JSON schema for its parameters: {_first_line(error)}") from error
        properties = given.get("properties", {})
        for field, name in self._names.items():
            shown = properties.get(self._alias(field))
            if shown is not None and name in described:
                shown.setdefault("description", described[name])
        ordered = {"type": "object", "properties": properties, **given}
        ordered.pop("description", None)  # the model class's own docstring, which is pydantic's
        return dict(_without_titles(ordered))

    def _alias(self, field: str) -> str:
        return self._model.model_fields[field].alias or field

    def validate(self, arguments: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
        """The keyword arguments: coerced, models built, defaults filled in."""
        try:
            values = self._model.model_validate(arguments)
        except ValidationError as error:
            problems = [_problem(dict(found), schema) for found in error.errors(include_url=False)]
            raise InvalidArguments(_sentence(self._tool, problems)) from None
        return {name: getattr(values, field) for field, name in self._names.items()}


def object_schema(name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A schema that was given, which must be an object's. OpenAI refuses one without ``properties``."""
    if not isinstance(parameters, Mapping) or parameters.get("type", "object") != "object":
        raise UsageError(f"tool {name}: parameters is the JSON schema of an object, not {short_repr(parameters)}")
    return {"type": "object", "properties": {}} | dict(parameters)


def _without_titles(schema: Any) -> Any:
    """The schema without pydantic's ``title``s, which repeat the names. A property that is called title stays."""
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for word, value in schema.items():
        if word in ("properties", "$defs", "patternProperties"):
            kept[word] = {name: _without_titles(item) for name, item in value.items()}
        elif word in ("default", "const", "enum", "examples"):
            kept[word] = value
        elif word != "title":
            kept[word] = _without_titles(value)
    return kept


def check_explicit_schema(name: str, arguments: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Arguments for a given schema, as they came: only missing and surplus names are refused."""
    properties = schema.get("properties") or {}
    missing = [wanted for wanted in schema.get("required") or () if wanted not in arguments]
    problems = [_missing(wanted, properties.get(wanted)) for wanted in missing]
    if schema.get("additionalProperties") is False:
        problems += [_surplus(given, arguments[given], properties) for given in arguments if given not in properties]
    if problems:
        raise InvalidArguments(_sentence(name, problems))
    return dict(arguments)


def _problem(found: dict[str, Any], schema: dict[str, Any]) -> str:
    """One error of pydantic as a part of a sentence."""
    first, *rest = found["loc"] or ("the arguments",)
    path = str(first) + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in rest)
    properties = schema.get("properties") or {}
    if found["type"] == "missing":
        return _missing(path, None if rest else properties.get(first))
    if found["type"] == "extra_forbidden":
        return _surplus(path, found["input"], () if rest else properties)
    message = str(found["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    expected = message[:1].lower() + message[1:]
    if expected.startswith("input should be"):
        expected = "expected" + expected.removeprefix("input should be")
    return f"{path} was given {short_repr(found['input'])}, {expected}"


def _missing(path: str, schema: Any) -> str:
    expected = schema.get("type") if isinstance(schema, dict) else None
    if not isinstance(expected, str):
        return f"{path} is missing"
    return f"{path} is missing, expected {'an' if expected[:1] in 'aio' else 'a'} {expected}"


def _surplus(path: str, value: Any, known: Iterable[str]) -> str:
    names = ", ".join(known)
    return f"{path} was given {short_repr(value)}, expected {'only: ' + names if names else 'no such argument'}"


def _sentence(name: str, problems: list[str]) -> str:
    return f"the arguments do not fit {name}: {'; '.join(problems)}"


def short_repr(value: Any) -> str:
    """A value in a sentence: JSON, at most 80 characters."""
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 80 else text[:77] + "..."


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
