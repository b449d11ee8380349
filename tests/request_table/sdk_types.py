"""The documented fields and parts of each wire's requests, from the types of the installed SDKs.

A `Node` is a type in a form that is the same for typed dicts, pydantic models and botocore's shapes. `rows_of` returns
what a wire's requests may have: for each field of the body, of a message, of a part and of a tool its path, and a
sample of the body with it and with nothing else that is optional.
"""

from __future__ import annotations

import enum
import inspect
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from types import UnionType
from typing import Any, Literal, get_args, get_origin

import pydantic
import typing_extensions

Json = dict[str, Any]
Row = tuple[str, Json, Json]  # the path of a field, a body with it, and the same without it
_DEEPEST = 4
WRAPPERS = (typing_extensions.Required, typing_extensions.NotRequired, typing.Required, typing.NotRequired)


@dataclass
class Node:
    """A type: an object with fields, a union, a list, or a value with a sample."""

    name: str = ""
    fields: dict[str, tuple[Node, bool]] = field(default_factory=dict)  # each with whether it is required
    options: list[Node] = field(default_factory=list)
    item: Node | None = None
    sample: Any = None

    @property
    def is_object(self) -> bool:
        """Whether it has fields."""
        return bool(self.fields)


def python_node(kind: Any, depth: int = 0) -> Node:
    """Return the node of a type annotation."""
    origin, args = get_origin(kind), get_args(kind)
    if origin in WRAPPERS or origin in (typing.Annotated, typing_extensions.Annotated):
        return python_node(args[0], depth)
    if isinstance(kind, typing.TypeAliasType if hasattr(typing, "TypeAliasType") else ()):
        return python_node(kind.__value__, depth)
    if origin in (typing.Union, UnionType):
        options = [python_node(each, depth) for each in args if each is not type(None)]
        flat = [inner for option in options for inner in (option.options or [option])]
        return flat[0] if len(flat) == 1 else Node(options=flat)
    if origin in (Literal, typing_extensions.Literal):
        return Node(sample=args[0], options=[])
    if origin in (list, Iterable, Sequence, typing.Iterable, set) or (
        inspect.isclass(origin) and issubclass(origin, Iterable) and not issubclass(origin, Mapping)
    ):
        return Node(item=python_node(args[0], depth + 1))
    if inspect.isclass(kind) and issubclass(kind, enum.Enum):
        values = [each.value for each in kind if "UNSPECIFIED" not in str(each.value)]
        return Node(sample=values[0] if values else "x")
    if typing.is_typeddict(kind) or typing_extensions.is_typeddict(kind):
        if depth > _DEEPEST:
            return Node(name=kind.__name__, sample={})
        hints = typing_extensions.get_type_hints(kind, include_extras=True)
        fields = {name: (python_node(each, depth + 1), is_required(each, kind)) for name, each in hints.items()}
        return Node(name=kind.__name__, fields=fields)
    if inspect.isclass(kind) and issubclass(kind, pydantic.BaseModel):
        if depth > _DEEPEST:
            return Node(name=kind.__name__, sample={})
        fields = {}
        for name, info in kind.model_fields.items():
            node = python_node(info.annotation, depth + 1)
            if isinstance(info.default, str):
                node = Node(sample=info.default)
            fields[info.alias or name] = (node, info.is_required() or isinstance(info.default, str))
        return Node(name=kind.__name__, fields=fields)
    samples: dict[Any, Any] = {
        bool: True,
        int: 3,
        float: 0.5,
        str: "x",
        bytes: "QUJD",
        object: {"a": "b"},
        Any: {"a": "b"},
    }
    if (
        kind in (dict, Mapping)
        or origin in (dict, Mapping)
        or (inspect.isclass(origin) and issubclass(origin, Mapping))
    ):
        return Node(sample={"a": "b"})
    return Node(sample=samples.get(kind, "x"))


def is_required(hint: Any, kind: Any) -> bool:
    """Return True if a field of a typed dict is required. ``__required_keys__`` is wrong for annotations as texts."""
    origin = get_origin(hint)
    if origin in (typing.Annotated, typing_extensions.Annotated):
        origin = get_origin(get_args(hint)[0])
    if origin in (typing.Required, typing_extensions.Required):
        return True
    return bool(kind.__total__) and origin not in (typing.NotRequired, typing_extensions.NotRequired)


def shape_node(shape: Any, depth: int = 0) -> Node:
    """Return the node of a shape of botocore."""
    if shape.type_name == "structure":
        if depth > 2 * _DEEPEST or shape.is_document_type:
            return Node(name=shape.name, sample={"a": "b"})
        fields = {
            name: (shape_node(member, depth + 1), name in shape.required_members)
            for name, member in shape.members.items()
        }
        if shape.is_tagged_union:
            return Node(options=[Node(name=name, fields={name: (node, True)}) for name, (node, _) in fields.items()])
        return Node(name=shape.name, fields=fields)
    if shape.type_name == "list":
        return Node(item=shape_node(shape.member, depth + 1))
    if shape.type_name == "map":
        return Node(sample={"a": "b"})
    if getattr(shape, "enum", None):
        return Node(sample=shape.enum[0])
    samples = {"boolean": True, "integer": 3, "long": 3, "float": 0.5, "double": 0.5, "blob": "QUJD"}
    return Node(sample=samples.get(shape.type_name, "x"))


def camel(node: Node) -> Node:
    """Return a node with the names of its fields in camelCase, as REST has them."""

    def rename(name: str) -> str:
        first, *rest = name.split("_")
        return first + "".join(map(str.title, rest))

    return Node(
        node.name,
        {rename(name): (camel(each), required) for name, (each, required) in node.fields.items()},
        [camel(each) for each in node.options],
        None if node.item is None else camel(node.item),
        node.sample,
    )


#: Samples by the name of a field, where one of its type would mean nothing, or be refused.
_SAMPLES: dict[str, Any] = {
    "media_type": "image/png",
    "mime_type": "image/png",
    "mimeType": "image/png",
    "data": "QUJD",
    "url": "https://example.com/a.png",
    "image_url": "https://example.com/a.png",
    "file_url": "https://example.com/a.pdf",
    "fileUri": "https://example.com/a.png",
    "file_data": "data:application/pdf;base64,QUJD",
    "bytes": "QUJD",
    "arguments": '{"a": 1}',
    "input_schema": {"type": "object", "properties": {}},
    "schema": {"type": "object", "properties": {}, "additionalProperties": False},
    "tool_use_id": "call_1",
    "call_id": "call_1",
    "tool_call_id": "call_1",
    "toolUseId": "call_1",
    "uri": "s3://bucket/a",
    "images": ["iVBORw0KGgo="],
}
#: The same for fields whose type has a sample.
_BETTER_SAMPLES: dict[str, Any] = {
    "budget_tokens": 2048,
    "token_budget": 2048,
    "thinkingBudget": 2048,
    "parallel_tool_calls": False,
    "temperature": 0.5,
    "effort": "low",
    "service_tier": "flex",
    "summary": "concise",
    "status": "error",
    "detail": "low",
    "citations": [{"title": "x"}],
}


def sample_of(node: Node, name: str = "", depth: int = 0) -> Any:
    """Return a value of a type, with nothing that is optional; of a union one of its first option."""
    is_value = not node.is_object and not any(each.is_object for each in node.options)
    if is_value and name in _BETTER_SAMPLES:
        return _BETTER_SAMPLES[name]
    if is_value and name in _SAMPLES and (node.sample in ("x", None) or not isinstance(node.sample, str)):
        return _SAMPLES[name]
    if node.is_object:
        return {key: sample_of(each, key, depth + 1) for key, (each, required) in node.fields.items() if required}
    if node.options:
        texts = [each for each in node.options if isinstance(each.sample, str) and not each.is_object]
        return sample_of(texts[0] if texts and name not in _SAMPLES else node.options[0], name, depth)
    if node.item is not None:
        return [sample_of(node.item, name, depth + 1)]
    return node.sample


def objects_of(node: Node) -> list[Node]:
    """Return the objects that a value of a type may be."""
    return [each for each in (node.options or [node]) if each.is_object]


def tag_of(node: Node) -> str:
    """Return what distinguishes an option of a union: its type, or its only field."""
    kind = node.fields.get("type")
    if kind is not None and isinstance(kind[0].sample, str):
        return kind[0].sample
    return next(iter(node.fields)) if len(node.fields) == 1 else node.name


def _within(wrap: Callable[[Any], Json], rest: Json, name: str) -> Callable[[Any], Json]:
    return lambda value: wrap({**rest, name: value})


def expand(node: Node, path: str, wrap: Callable[[Any], Json], depth: int = 0) -> Iterator[Row]:
    """Yield a row for each optional field within an object.

    ``wrap`` returns a body that has a sample of the object. Fields of objects are yielded themselves, to a depth.
    """
    base = sample_of(node)
    for name, (each, required) in node.fields.items():
        here = f"{path}.{name}" if path else name
        inner, rest = objects_of(each), {key: value for key, value in base.items() if key != name}
        if len(inner) == 1 and not each.options and depth < 2:
            optional = [key for key, (_, is_required) in inner[0].fields.items() if not is_required]
            if not required and len(optional) < len(inner[0].fields):
                yield here, wrap({**rest, name: sample_of(inner[0])}), wrap(rest)
            if optional:
                yield from expand(inner[0], here, _within(wrap, rest, name), depth + 1)
        elif len(inner) > 1:
            for option in inner:
                yield f"{here}[{tag_of(option)}]", wrap({**base, name: sample_of(option)}), wrap(rest)
            plain = next((option for option in each.options if not option.is_object), None)
            if plain is not None:
                yield here, wrap({**base, name: sample_of(plain, name)}), wrap(rest)
        elif not required:
            yield here, wrap({**base, name: sample_of(each, name)}), wrap(rest)


def versions() -> dict[str, str]:
    """Return the version of the SDK that the fields of each wire are from."""
    sdks = {
        "openai_chat": "openai",
        "openai_responses": "openai",
        "anthropic": "anthropic",
        "gemini": "google-genai",
        "bedrock_converse": "botocore",
        "cohere": "cohere",
        "ollama": "ollama",
    }
    return {wire: f"{name} {version(name)}" for wire, name in sdks.items()}
