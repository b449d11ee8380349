"""A function as a tool: its name, docstring and kind, the schema of its parameters, and the check of arguments.

Invalid arguments are described in a sentence for the model. This module calls no tool.
"""

from __future__ import annotations

import copy
import functools
import inspect
import re
import typing
import warnings
from collections.abc import Callable, Mapping
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, PydanticUserError, ValidationError, create_model
from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core.core_schema import ErrorType

from streamkit.errors import StreamkitWarning, UsageError
from streamkit.tools.context import ToolContext
from streamkit.values.json_data import json_excerpt

__all__ = [
    "FunctionKind",
    "InvalidArguments",
    "JsonSchemaGenerator",
    "Signature",
    "annotation_of",
    "check_context_parameter",
    "check_explicit_schema",
    "context_parameter",
    "describe_error",
    "docstring_of",
    "is_context",
    "kind_of",
    "name_of",
    "object_schema",
    "parameters_of",
    "warn_of_unclear",
    "without_titles",
]

#: How the function is called: an async one is awaited; a generator's last value is its result.
FunctionKind: TypeAlias = Literal["sync", "async", "generator", "async_generator"]


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that has the annotations and the docstring: inside a partial, or an object's method."""
    while isinstance(function, functools.partial):
        function = function.func
    if not (inspect.isroutine(function) or inspect.isclass(function)):
        return type(function).__call__
    return function


def name_of(function: Callable[..., Any] | None) -> str:
    """Return a function's own name.

    Raises:
        UsageError: it has none.
    """
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", None)
    if not isinstance(name, str):
        raise UsageError("a tool needs name= if its function has no name")
    return name


def kind_of(function: Callable[..., Any] | None) -> FunctionKind:
    """Return how a function is called."""
    if function is None:
        return "sync"
    plain = _plain(function)
    if inspect.isasyncgenfunction(plain):
        return "async_generator"
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(plain):
        return "async"
    return "generator" if inspect.isgeneratorfunction(plain) else "sync"


_SECTION = re.compile(r"(Args|Arguments|Parameters):\s*")
_ARGUMENT = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)")


def docstring_of(function: Callable[..., Any] | None) -> tuple[str, dict[str, str]]:
    """Return the first paragraph of a docstring, and the descriptions of the parameters in its Args section."""
    text = inspect.getdoc(_plain(function)) if function is not None else None
    lines = (text or "").splitlines()
    start = len(lines)  # of the Args section
    for number, line in enumerate(lines):
        if _SECTION.fullmatch(line):
            start = number
            break
    paragraph: list[str] = []
    for line in lines[:start]:
        if not line.strip():
            break
        paragraph.append(line.strip())
    descriptions: dict[str, str] = {}
    depth: int | None = None
    name = ""
    for line in lines[start + 1 :]:
        indent = len(line) - len(line.lstrip())
        if not line.strip():
            continue
        if indent == 0:
            break
        depth = indent if depth is None else depth
        match = _ARGUMENT.fullmatch(line.strip()) if indent <= depth else None
        if match:
            name = match[1]
            descriptions[name] = match[2]
        elif name:
            descriptions[name] = f"{descriptions[name]} {line.strip()}".strip()
    return " ".join(paragraph), descriptions


def is_context(hint: Any) -> bool:
    """Return True if an annotation is the ``ToolContext``, also as ``ToolContext[Deps]`` or ``ToolContext | None``."""
    origin = get_origin(hint)
    if isinstance(origin, type) and issubclass(origin, ToolContext):
        return True
    if origin is Annotated:
        return is_context(get_args(hint)[0])
    if origin in (Union, UnionType):
        return any(is_context(option) for option in get_args(hint))
    return isinstance(hint, type) and issubclass(hint, ToolContext)


def annotation_of(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """Return the annotation of a parameter, with names resolved. The return annotation is not resolved.

    Raises:
        NameError, TypeError, SyntaxError: it cannot be resolved.
    """
    if parameter.annotation is inspect.Parameter.empty:
        return Any
    scope = getattr(inspect.unwrap(_plain(function)), "__globals__", {})
    # If it is imported only for type checkers, as linters advise, it is not in the function's globals.
    local = {} if "ToolContext" in scope else {"ToolContext": ToolContext}
    for variable in getattr(_plain(function), "__type_params__", ()):
        local[variable.__name__] = variable
    holder = SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    return typing.get_type_hints(holder, globalns=scope, localns=local, include_extras=True)[parameter.name]


def parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters that a call must or may have, without those that a partial has fixed."""
    fixed: set[str] = set()
    inner = function
    while isinstance(inner, functools.partial):
        fixed |= inner.keywords.keys()
        inner = inner.func
    parameters = list(inspect.signature(function).parameters.values())
    return [parameter for parameter in parameters if parameter.name not in fixed] if fixed else parameters


def context_parameter(tool: str, function: Callable[..., Any] | None) -> str | None:
    """Return the name of the parameter that takes the context; the other parameters are not inspected.

    Raises:
        UsageError: the context cannot be passed to it.
    """
    if function is None:
        return None
    try:
        parameters = parameters_of(function)
    except (TypeError, ValueError):  # a builtin without a signature
        return None
    name: str | None = None
    for parameter in parameters:
        try:
            hint = annotation_of(function, parameter)
        except (NameError, TypeError, SyntaxError):
            continue
        if is_context(hint):
            check_context_parameter(tool, parameter, name)
            name = parameter.name
    return name


def check_context_parameter(tool: str, parameter: inspect.Parameter, other: str | None) -> None:
    """Check that the context, which is passed by keyword, reaches a function; ``other`` had the annotation before.

    Raises:
        UsageError: it does not.
    """
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
        raise UsageError(f"tool {tool}: {stars}{parameter.name} cannot take the ToolContext; use a plain parameter")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise UsageError(f"tool {tool}: {parameter.name!r} is positional-only; tools are called by keyword")
    if other is not None:
        raise UsageError(f"tool {tool}: {other!r} and {parameter.name!r} are both a ToolContext; keep one of them")


def warn_of_unclear(tool: str, function: Callable[..., Any], *, is_described: bool) -> None:
    """Warn of a function that a model cannot use well: without a docstring, or with parameters of any type.

    The warning is located at the function, so that Python shows it once for each, however often a tool is made of it.

    Args:
        tool: the tool's name.
        function: its function, whose parameters make the schema.
        is_described: whether the tool has a description, its own or that of the function.
    """
    problems: list[str] = []
    if not is_described:
        problems.append("has no description: give its function a docstring, or pass description=")
    try:
        parameters = parameters_of(function)
    except (TypeError, ValueError):  # a builtin without a signature, which cannot be a tool
        parameters = []
    untyped = [repr(parameter.name) for parameter in parameters if parameter.annotation is parameter.empty]
    if untyped:
        problems.append(f"has parameters without an annotation, so the model may send anything: {', '.join(untyped)}")
    if not problems:
        return
    message = f"tool {tool} {'; it '.join(problems)}"
    code = getattr(inspect.unwrap(_plain(function)), "__code__", None)
    if code is None:
        warnings.warn(message, StreamkitWarning, stacklevel=4)
    else:
        names = getattr(inspect.unwrap(_plain(function)), "__globals__", {})
        registry = names.setdefault("__warningregistry__", {})
        module = names.get("__name__", "")
        warnings.warn_explicit(message, StreamkitWarning, code.co_filename, code.co_firstlineno, module, registry)


class InvalidArguments(ValueError):
    """The arguments of a call do not fit the tool. The message is a sentence for the model."""


class JsonSchemaGenerator(GenerateJsonSchema):
    """A generator of JSON schemas without pydantic's warnings."""

    # A default that is not JSON is omitted from the schema.
    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - as in the base


class Signature:
    """A function's parameters as a pydantic model.

    Its fields have generated names, because parameters may have any name (``schema``, ``_x``); the parameters' names
    are the aliases. A parameter whose own ``Field`` has an alias keeps that.

    Args:
        name: the tool's name, for messages.
        function: the function.

    Raises:
        UsageError: the function's parameters have no schema.
    """

    __slots__ = ("_model", "_names", "_tool", "context_parameter")

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._tool = name
        self._names: dict[str, str] = {}
        self.context_parameter: str | None = None  # the name of the parameter that takes the ``ToolContext``, or None
        fields: dict[str, Any] = {}
        try:
            parameters = parameters_of(function)
        except (TypeError, ValueError, NameError) as error:
            raise UsageError(f"tool {name}: the parameters of {function!r} cannot be read ({error})") from None
        for parameter in parameters:
            try:
                hint = annotation_of(function, parameter)
            except (NameError, TypeError, SyntaxError, AttributeError) as error:
                raise UsageError(
                    f"tool {name}: the annotation {parameter.annotation!r} of parameter {parameter.name!r} cannot be "
                    f"resolved ({error}); define or import its names at the top of the function's module"
                ) from None
            if is_context(hint):
                check_context_parameter(name, parameter, self.context_parameter)
                self.context_parameter = parameter.name
                continue
            _check_parameter(name, parameter, parameters)
            default = ... if parameter.default is inspect.Parameter.empty else parameter.default
            field = f"parameter_{len(fields)}"
            fields[field] = (hint, default)
            self._names[field] = parameter.name
        names = self._names
        # A TypedDict in an annotation gets this configuration too, so other fields keep their names.
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

    def json_schema(self, descriptions: dict[str, str]) -> dict[str, Any]:
        """Return the schema for the model, with the descriptions of the parameters by their names."""
        try:
            schema = self._model.model_json_schema(schema_generator=JsonSchemaGenerator)
        except PydanticUserError as error:
            raise UsageError(f"tool {self._tool}: no JSON schema for its parameters: {_first_line(error)}") from error
        properties = schema.get("properties", {})
        for field, name in self._names.items():
            member = properties.get(self._model.model_fields[field].alias or field)
            if member is not None and name in descriptions:
                member.setdefault("description", descriptions[name])
        ordered = {"type": "object", "properties": properties, **schema}
        ordered.pop("description", None)  # the model class's own docstring, which is pydantic's
        return dict(without_titles(ordered))

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


def _check_parameter(tool: str, parameter: inspect.Parameter, parameters: list[inspect.Parameter]) -> None:
    """Check that a call can pass a parameter by its name."""
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
        raise UsageError(
            f"tool {tool}: {stars}{parameter.name} cannot be part of a schema; name the parameters, or set "
            "the schema with Tool(name=, description=, parameters=, function=)"
        )
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise UsageError(f"tool {tool}: {parameter.name!r} is positional-only; tools are called by keyword")
    if parameter is parameters[0] and parameter.name == "self" and parameter.annotation is parameter.empty:
        raise UsageError(f"tool {tool}: pass a bound method: tool(object.{tool})")


def object_schema(name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return an explicit schema, which must be an object's, with ``properties``: OpenAI refuses one without them."""
    if not isinstance(parameters, Mapping) or parameters.get("type", "object") != "object":
        raise UsageError(
            f"tool {name}: parameters must be the JSON schema of an object, not {json_excerpt(parameters)}"
        )
    return {"type": "object", "properties": {}} | dict(parameters)


def without_titles(schema: Any) -> Any:
    """Return the schema without pydantic's ``title``s, which repeat the names. A property named title is kept."""
    if isinstance(schema, list):
        return list(map(without_titles, schema))
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
    from streamkit.tools.json_schema import find_problems  # pydantic validates most tools' arguments

    problems = find_problems(arguments, schema)
    if problems:
        raise InvalidArguments(_sentence(tool, problems))
    return dict(arguments)


_PYDANTIC_ERRORS = frozenset(get_args(ErrorType))


def describe_error(details: dict[str, Any], schema: dict[str, Any], root: str) -> str:
    """Return one error of pydantic as a part of a sentence.

    Args:
        details: an item of ``ValidationError.errors``.
        schema: the schema of the value.
        root: what the value is called that has the error itself, such as "the arguments".
    """
    from streamkit.tools.json_schema import describe_missing, describe_surplus  # few arguments are invalid

    first, *rest = details["loc"] or (root,)
    start = f"[{first}]" if isinstance(first, int) else str(first)
    path = start + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in rest)
    properties = schema.get("properties") or {}
    if details["type"] == "missing":
        return describe_missing(path, None if rest else properties.get(first))
    if details["type"] == "extra_forbidden":
        return describe_surplus(path, details["input"], () if rest else properties)
    message = str(details["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    # A validator's words stay as they are. Those of pydantic continue a sentence.
    is_own = details["type"] in _PYDANTIC_ERRORS and details["type"] not in ("value_error", "assertion_error")
    expected = message[:1].lower() + message[1:] if is_own else message
    if expected.startswith("input should be"):
        expected = "expected" + expected.removeprefix("input should be")
    return f"{path} was given {json_excerpt(details['input'])}, {expected}"


def _sentence(name: str, problems: list[str]) -> str:
    return f"the arguments do not fit {name}: {'; '.join(problems)}"


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
