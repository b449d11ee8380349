"""The type of a structured output: its JSON schema for the provider, and the validation of a model's JSON.

What can be shown of a type while its value is incomplete, its `Shape`, is derived once from the type: a model, a
dataclass, a list, a set and a dict are shown from their first character on, with what is there of them, and a union of
objects from the text on that distinguishes them. Any other type (a date, an enum) is shown when its value is complete
and valid, because a prefix of it is not of that type.

Most targets take only the schema of an object. Any other type is the one member of an object there (`as_object`).

This module must not depend on a provider or a stream. How a schema is written into a request is decided by the
providers.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import re
import sys
import types
from collections.abc import Mapping, MutableMapping, MutableSequence, MutableSet, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from enum import Enum
from typing import Annotated, Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import AliasChoices, BaseModel, RootModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import from_json

from streamkit.calls import OUTPUT_TOOL
from streamkit.errors import InvalidOutput, UsageError
from streamkit.tools.function import JsonSchemaGenerator, describe_error, without_titles
from streamkit.tools.json_schema import drop_placeholder_nulls, find_problems
from streamkit.values.json_data import json_excerpt
from streamkit.values.schemas import resolve_reference

__all__ = [
    "NOT_SHOWN",
    "OutputType",
    "Shape",
]

T = TypeVar("T")

_ILLEGAL_IN_NAME = re.compile("[^a-zA-Z0-9_-]+")
_DEFINITION = re.compile(r"#/(?:\$defs|definitions)/")


class OutputType(Generic[T]):
    """What a model's output must be.

    Args:
        output: a pydantic model, any other type that pydantic can validate, a ``TypeAdapter``, or a JSON schema.

    Attributes:
        name: a name for the provider, of at most 64 letters, digits, ``_`` and ``-``.
        description: what the output is, for the model: the docstring of the class, or the schema's ``description``.
        schema: its JSON schema.
        annotation: the type; ``Any`` of a JSON schema.

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
            self.annotation = getattr(output, "_type", Any) if isinstance(output, TypeAdapter) else output
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

    @property
    def is_object(self) -> bool:
        """Whether every value of the type is an object."""
        return self.schema.get("type") == "object"

    def as_object(self) -> OutputType[T]:
        """Return the type with the schema of an object: itself, or an object with the output as its one member."""
        if self.is_object:
            return self
        definitions: dict[str, Any] = {
            name: self.schema[name] for name in ("$defs", "definitions") if name in self.schema
        }
        member = {name: value for name, value in self.schema.items() if name not in definitions}
        wrapped = copy.copy(self)
        wrapped.schema = {
            "type": "object",
            "properties": {OUTPUT_TOOL: _refer_below(member, f"#/properties/{OUTPUT_TOOL}")},
            "required": [OUTPUT_TOOL],
            "additionalProperties": False,
            **definitions,
        }
        return wrapped

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


def _refer_below(schema: Any, root: str) -> Any:
    """Return a schema whose references to its root, or into it, are those of another place; definitions stay."""
    if isinstance(schema, list):
        return [_refer_below(item, root) for item in schema]
    if not isinstance(schema, dict):
        return schema
    moved = {name: _refer_below(value, root) for name, value in schema.items()}
    reference = moved.get("$ref")
    if isinstance(reference, str) and reference.startswith("#") and not _DEFINITION.match(reference):
        moved["$ref"] = root + reference[1:]
    return moved


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
_SETS = (set, MutableSet, AbstractSet)
_DICTS = (dict, Mapping, MutableMapping)


class Shape:
    """What can be shown of one type."""

    __slots__ = (
        "_adapter", "_annotation", "_children", "_fields", "_options", "_roots", "_tag", "item", "kind",
        "model", "shows_open_text",
    )  # fmt: skip

    def __init__(self, annotation: Any) -> None:
        self._annotation = annotation
        self._adapter: TypeAdapter[Any] | None = None
        self._children: dict[str, tuple[str, Shape]] = {}
        self._fields: dict[str, tuple[str, Any]] | None = None  # of a model or a typed dict, by the key in JSON
        self._roots: tuple[Any, ...] = ()  # the root models around the value, outermost first
        self._options: list[Shape] = []  # those of a union that are containers
        self._tag: tuple[str, dict[str, Shape]] | tuple[()] | None = ()  # (): not determined yet
        self.item: Any = Any  # the annotation of the items of a ``list`` or a ``set``, or of the values of a ``dict``
        self.model: Any = None  # the class of a ``model``
        options = _options(annotation)
        # a string that is still growing is a value of the type
        self.shows_open_text: bool = any(option is str or _is_any(option) for option in options)
        # ``model`` (also a dataclass), ``dict``, ``list``, ``set``, ``any`` (plain data, shown as far as it is there),
        # or ``other`` (shown when it is complete, or when it is known which option of a union it is)
        self.kind: Literal["model", "dict", "list", "set", "any", "other"] = "other"
        if any(map(_is_any, options)):
            self.kind = "any"
        elif len(options) == 1:
            with suppress(NameError):  # a name in an annotation that only the function around the class has
                self._read(options[0])
        else:
            self._options = [shape for shape in map(Shape, options) if shape.kind != "other"]

    def _read(self, annotation: Any) -> None:
        origin, arguments = get_origin(annotation) or annotation, get_args(annotation)
        if isinstance(origin, type) and issubclass(origin, RootModel):
            inner = Shape(annotation.model_fields["root"].annotation)
            self.kind, self.model, self.item, self._fields = inner.kind, inner.model, inner.item, inner._fields
            self._roots = (annotation, *inner._roots)
        elif isinstance(origin, type) and issubclass(origin, BaseModel):
            self.kind, self.model = "model", annotation
            self._fields = _fields_by_key(annotation.model_fields, annotation.model_config)
        elif isinstance(origin, type) and dataclasses.is_dataclass(origin):
            if (described := getattr(origin, "__pydantic_fields__", None)) is not None:
                self._fields = _fields_by_key(described, getattr(origin, "__pydantic_config__", {}))
            else:
                hints = get_type_hints(origin, include_extras=True)
                self._fields = {each.name: (each.name, hints[each.name]) for each in dataclasses.fields(origin)}
            self.kind, self.model = "model", origin
        elif isinstance(origin, type) and issubclass(origin, dict) and hasattr(origin, "__total__"):  # a TypedDict
            self._fields = {name: (name, hint) for name, hint in get_type_hints(origin).items()}
            self.kind = "dict"
        elif origin in _LISTS or origin in _SETS:
            self.kind = "list" if origin in _LISTS else "set"
            self.item = arguments[0] if arguments else Any
        elif origin in _DICTS and (not arguments or arguments[0] is str):
            self.kind = "dict"
            self.item = arguments[1] if arguments else Any

    def opened(self, container: type) -> Shape | None:
        """Return the shape of a list or a dict that begins, which of a union of objects is the union itself.

        None: it is shown when it is complete.
        """
        kinds = ("any", "list", "set") if container is list else ("any", "dict", "model")
        found = [shape for shape in self._options or [self] if shape.kind in kinds]
        if len(found) == 1:
            return found[0]
        return self if container is dict and self.tag is not None else None

    @property
    def tag(self) -> tuple[str, dict[str, Shape]] | None:
        """The member that distinguishes the objects of a union, and the option by its text; None if none does."""
        if self._tag == ():
            self._tag = None
            objects = [shape for shape in self._options if shape.kind in ("any", "dict", "model")]
            for key in objects[0]._fields or () if objects else ():
                texts = [_literals((shape._fields or {}).get(key)) for shape in objects]
                by_text = {text: shape for shape, found in zip(objects, texts, strict=True) for text in found}
                if all(texts) and len(by_text) == sum(map(len, texts)):
                    self._tag = (key, by_text)
                    break
        return self._tag or None

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

    def create(self, value: Any) -> tuple[Any, Any]:
        """Return an empty value, and the container in it that grows; of plain data a copy.

        A model, or a dataclass, has every field None and no field set.
        """
        created: Any
        if self.kind == "any":
            created = value.copy()
        elif self.model is None:
            created = [] if self.kind == "list" else set() if self.kind == "set" else {}
        elif issubclass(self.model, BaseModel):
            created = _create_model(self.model, dict.fromkeys(self.model.model_fields))
        else:
            created = object.__new__(self.model)
            for name, _ in (self._fields or {}).values():
                object.__setattr__(created, name, None)
        shown = created
        for root in reversed(self._roots):
            shown = _create_model(root, {"root": shown})
        return shown, created

    def set_field(self, container: Any, key: str, value: Any) -> None:
        """Set the field of a model, if it has one with this key in JSON."""
        if (field := self.field(key)) is None:
            return
        if issubclass(self.model, BaseModel):
            container.__dict__[field[0]] = value
            container.__pydantic_fields_set__.add(field[0])
        else:
            object.__setattr__(container, field[0], value)  # which may be frozen

    def convert(self, value: Any) -> Any:
        """Return a complete value as one of the type; `NOT_SHOWN` if it is not valid."""
        if self.kind == "any" or (value.__class__ is self._annotation and value.__class__ in _PLAIN):
            return value
        try:
            if self._adapter is None:
                self._adapter = TypeAdapter(self._annotation)
            return self._adapter.validate_python(value)
        except ValidationError:
            return NOT_SHOWN
        except PydanticUserError:  # a name in an annotation that cannot be resolved from here
            self.kind = "any"
            return value


def _create_model(model: type[BaseModel], fields: dict[str, Any]) -> BaseModel:
    """Return an instance of a model with these fields, none of which counts as set.

    Not by ``model_construct``: it sets the defaults, which are not part of the output yet, and calls model_post_init.
    """
    value = model.__new__(model)
    object.__setattr__(value, "__dict__", fields)
    object.__setattr__(value, "__pydantic_fields_set__", set())
    object.__setattr__(value, "__pydantic_extra__", None)
    object.__setattr__(value, "__pydantic_private__", None)
    return value


def _is_any(annotation: Any) -> bool:
    return annotation is Any or annotation is object


def _options(annotation: Any) -> list[Any]:
    """Return the types of a union without ``None``, with annotations removed and aliases replaced by their types."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    alias = get_origin(annotation) or annotation
    if type(alias).__name__ == "TypeAliasType":  # of typing, or of typing_extensions before Python 3.12
        holder = types.SimpleNamespace(__annotations__={"value": alias.__value__})
        names = {**vars(sys.modules[alias.__module__]), alias.__name__: alias}
        value = get_type_hints(holder, names, include_extras=True)["value"]  # an alias may refer to itself by its name
        return _options(value[get_args(annotation)] if get_args(annotation) else value)
    if get_origin(annotation) in (Union, types.UnionType):
        return [option for each in get_args(annotation) for option in _options(each)]
    return [] if annotation is None or annotation is type(None) else [annotation]


def _literals(field: tuple[str, Any] | None) -> set[Any]:
    """Return the texts that a field may have, if these are literals; else none."""
    options = [] if field is None else _options(field[1])
    if not all(get_origin(option) is Literal for option in options):
        return set()
    values = [value.value if isinstance(value, Enum) else value for option in options for value in get_args(option)]
    return set(values) if all(isinstance(value, str) for value in values) else set()


def _fields_by_key(described: Mapping[str, FieldInfo], config: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """Return the name and the annotation of each field of a model, by its keys in JSON."""
    by_name = config.get("populate_by_name") or config.get("validate_by_name")
    fields: dict[str, tuple[str, Any]] = {}
    for name, field in described.items():
        alias = field.validation_alias if config.get("validate_by_alias", True) else None
        choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
        aliases = [choice for choice in choices if isinstance(choice, str)]
        annotation = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
        for key in [*aliases, name] if by_name or not aliases else aliases:
            fields[key] = name, annotation
    return fields
