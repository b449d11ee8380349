"""The type of a structured output: its JSON schema for the provider, and the validation of a model's JSON.

What can be shown of a type while its value is incomplete, its `Shape`, is derived once from the type: a model, a list
and a dict are shown from their first character on, with what is there of them. Any other type (a date, an enum, a union
of models) is shown when its value is complete and valid, because a prefix of it is not of that type.

This module must not depend on a provider or a stream. How a schema is written into a request is decided by the
providers.
"""

from __future__ import annotations

import json
import re
import types
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from typing import Annotated, Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import AliasChoices, BaseModel, RootModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import from_json

from streamkit.errors import InvalidOutput, UsageError
from streamkit.tools.function import JsonSchemaGenerator, describe_error, without_titles
from streamkit.tools.json_schema import drop_placeholder_nulls, find_problems, json_excerpt
from streamkit.values.schema_references import resolve_reference

__all__ = [
    "NOT_SHOWN",
    "OUTPUT_TOOL",
    "OutputType",
    "Shape",
]


T = TypeVar("T")


#: The tool that a request makes the model call where the provider has no field for the schema of the output.
OUTPUT_TOOL = "final_output"


_ILLEGAL_IN_NAME = re.compile("[^a-zA-Z0-9_-]+")


class OutputType(Generic[T]):
    """What a model's output must be.

    Args:
        output: a pydantic model, any other type that pydantic can validate, a ``TypeAdapter``, or a JSON schema.

    Attributes:
        name: a name for the provider, of at most 64 letters, digits, ``_`` and ``-``.
        description: what the output is, for the model: the docstring of the class, or the schema's ``description``.
        schema: its JSON schema.
        annotation: the type; ``Any`` of a JSON schema or a ``TypeAdapter``.

    Raises:
        UsageError: pydantic cannot validate the type, or it has no JSON schema.
    """

    def __init__(self, output: Any) -> None:
        self.annotation: Any = Any
        self._adapter: TypeAdapter[T] | None = None
        if isinstance(output, Mapping):
            self.schema: dict[str, Any] = dict(output)
        else:
            self._adapter, self.schema = _read_type(output)
            self.annotation = Any if isinstance(output, TypeAdapter) else output
        title = self.schema.get("title") or getattr(output, "__name__", None) or "output"
        if get_origin(output) is not None:
            title = "output"
        self.name: str = _ILLEGAL_IN_NAME.sub("_", str(title))[:64].strip("_") or "output"
        description = self.schema.get("description")
        self.description: str = description if isinstance(description, str) else ""
        if self._adapter is not None:
            self.schema = without_titles(self.schema)
        reference = self.schema.get("$ref")
        if isinstance(reference, str) and (target := resolve_reference(reference, self.schema)):
            self.schema = {**target, **self.schema}  # of a model that refers to itself; targets want an object there
            del self.schema["$ref"]

    def validate_json(self, text: str) -> T:
        """Return the value of a JSON text.

        Raises:
            InvalidOutput: the text is not JSON, or its value does not fit; the message is for the model.
        """
        try:
            data = from_json(text, allow_inf_nan=False)
        except ValueError as error:
            raise InvalidOutput(f"the output is not valid JSON: {error}", text) from None
        if "null" in text:  # a strict mode without optional properties makes the model write null for absent ones
            cleaned = drop_placeholder_nulls(data, self.schema, self.schema)
            if cleaned != data:
                data, text = cleaned, json.dumps(cleaned)
        if self._adapter is None:
            problems = find_problems(data, self.schema)
            if not problems:
                value: T = data
                return value
        else:
            try:
                return self._adapter.validate_json(text)
            except ValidationError as error:
                problems = [describe_error(dict(each), self.schema, "the output") for each in error.errors()]
        reasons = "; ".join(problem.replace("the arguments was", "the output was", 1) for problem in problems)
        raise InvalidOutput(f"the output does not fit {self.name}: {reasons}", text)


def _read_type(output: Any) -> tuple[TypeAdapter[Any], dict[str, Any]]:
    try:
        adapter = output if isinstance(output, TypeAdapter) else TypeAdapter(output)
        return adapter, adapter.json_schema(schema_generator=JsonSchemaGenerator)
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError, NameError) as error:
        reason = str(error).partition("\n")[0]
        raise UsageError(
            f"output must be a pydantic model, a type that pydantic can validate, or a JSON schema, not "
            f"{json_excerpt(output)}: {reason}"
        ) from error


#: The result of `Shape.convert` for a value that is not of the type.
NOT_SHOWN: Any = object()


_PLAIN = (str, int, float, bool)


_LISTS = (list, Sequence, MutableSequence)


_DICTS = (dict, Mapping, MutableMapping)


class Shape:
    """What can be shown of one type.

    Args:
        annotation: the type.

    Attributes:
        kind: ``model``, ``dict``, ``list``, ``any`` (plain data, shown as far as it is there), or ``other`` (shown when
            it is complete).
        model: the class of a ``model``.
        item: the annotation of the items of a ``list`` or of the values of a ``dict``.
        shows_open_text: a string that is still growing is a value of the type.
    """

    __slots__ = ("_adapter", "_annotation", "_children", "_fields", "item", "kind", "model", "shows_open_text")

    def __init__(self, annotation: Any) -> None:
        self._annotation = annotation
        self._adapter: TypeAdapter[Any] | None = None
        self._children: dict[str, tuple[str, Shape]] = {}
        self._fields: dict[str, tuple[str, Any]] | None = None  # of a model or a typed dict, by the key in JSON
        self.item: Any = Any
        self.model: type[BaseModel] | None = None
        options = _options(annotation)
        self.shows_open_text: bool = any(option is str or _is_any(option) for option in options)
        self.kind: Literal["model", "dict", "list", "any", "other"] = "other"
        if any(map(_is_any, options)):
            self.kind = "any"
        elif len(options) == 1:
            self._read(options[0])

    def _read(self, annotation: Any) -> None:
        origin, arguments = get_origin(annotation) or annotation, get_args(annotation)
        if isinstance(origin, type) and issubclass(origin, BaseModel) and not issubclass(origin, RootModel):
            self.kind, self.model = "model", annotation
            self._fields = _fields_by_key(annotation)
        elif isinstance(origin, type) and issubclass(origin, dict) and hasattr(origin, "__total__"):  # a TypedDict
            self.kind = "dict"
            self._fields = {name: (name, hint) for name, hint in get_type_hints(origin).items()}
        elif origin in _LISTS:
            self.kind = "list"
            self.item = arguments[0] if arguments else Any
        elif origin in _DICTS and (not arguments or arguments[0] is str):
            self.kind = "dict"
            self.item = arguments[1] if arguments else Any

    def field(self, key: str) -> tuple[str, Shape] | None:
        """Return the name and the shape of the field with this key in JSON; None if there is none."""
        if self._fields is None:
            return key, self.item_shape()
        if key not in self._children:
            if key not in self._fields:
                return None
            name, annotation = self._fields[key]
            self._children[key] = name, Shape(annotation)
        return self._children[key]

    def item_shape(self) -> Shape:
        """Return the shape of the items."""
        if "" not in self._children:
            self._children[""] = "", Shape(self.item)
        return self._children[""][1]

    def create(self) -> Any:
        """Return an empty value; for a model an instance with every field None and no field set."""
        if self.model is None:
            return [] if self.kind == "list" else {}
        # Not model_construct: it sets the defaults, which are not part of the output yet, and calls model_post_init.
        value = self.model.__new__(self.model)
        object.__setattr__(value, "__dict__", dict.fromkeys(self.model.model_fields))
        object.__setattr__(value, "__pydantic_fields_set__", set())
        object.__setattr__(value, "__pydantic_extra__", None)
        object.__setattr__(value, "__pydantic_private__", None)
        return value

    def convert(self, value: Any) -> Any:
        """Return a complete value as one of the type; `NOT_SHOWN` if it is not valid."""
        if self.kind == "any" or (value.__class__ is self._annotation and value.__class__ in _PLAIN):
            return value
        if self._adapter is None:
            try:
                self._adapter = TypeAdapter(self._annotation)
            except PydanticUserError:  # an annotation that refers to itself by a name
                self.kind = "any"
                return value
        try:
            return self._adapter.validate_python(value)
        except ValidationError:
            return NOT_SHOWN


def _is_any(annotation: Any) -> bool:
    return annotation is Any or annotation is object


def _options(annotation: Any) -> list[Any]:
    """Return the types of a union without ``None``, with annotations removed."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, types.UnionType):
        return [option for each in get_args(annotation) for option in _options(each)]
    return [] if annotation is None or annotation is type(None) else [annotation]


def _fields_by_key(model: Any) -> dict[str, tuple[str, Any]]:
    config = model.model_config
    by_name = config.get("populate_by_name") or config.get("validate_by_name")
    by_alias = config.get("validate_by_alias", True)
    fields: dict[str, tuple[str, Any]] = {}
    for name, field in model.model_fields.items():
        aliases = _aliases(field) if by_alias else []
        for key in [*aliases, name] if by_name or not aliases else aliases:
            fields[key] = name, _annotation(field)
    return fields


def _aliases(field: FieldInfo) -> list[str]:
    alias = field.validation_alias
    choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
    return [choice for choice in choices if isinstance(choice, str)]


def _annotation(field: FieldInfo) -> Any:
    return Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
