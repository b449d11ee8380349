"""The types of each wire's requests, from the installed SDKs, as the data that ``streamkit.testing`` checks bodies by.

A type is a name (``string``, ``integer``, ``number``, ``boolean``, ``object``, ``any``), a list of the allowed values,
``{"list": type}``, ``{"map": type}``, ``{"any": [types]}``, ``{"is": "name of a definition"}`` or, with limits of
botocore's model, ``{"type": name, "min": ...}``. A definition has ``fields`` and the names that are ``required``.
"""

from __future__ import annotations

import enum
import inspect
import json
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin

import botocore.session
import pydantic
import typing_extensions
from anthropic.types.beta.message_create_params import MessageCreateParamsNonStreaming
from cohere.v2.client import V2Client
from google.genai import types as gemini_types
from ollama._types import ChatRequest, Options
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming

from request_table.sdk_types import WRAPPERS, is_required, versions
from request_table.wires import SDK_ONLY

Json = dict[str, Any]
DATA = Path(__file__).parents[2] / "streamkit" / "testing" / "rules" / "request_types.json"
_NAMES: dict[Any, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    bytes: "string",
    object: "any",
    Any: "any",
}


class Types:
    """The definitions of one wire, collected while its types are read."""

    def __init__(self, rename: Callable[[str], str] = lambda name: name) -> None:
        self.definitions: dict[str, Json] = {}
        self._names: dict[Any, str] = {}
        self._rename = rename

    def of(self, kind: Any) -> Any:
        """Return the data of an annotation; None for a type that JSON does not have, such as an open file."""
        origin, args = get_origin(kind), get_args(kind)
        if origin in WRAPPERS or origin in (typing.Annotated, typing_extensions.Annotated):
            return self.of(args[0])
        if isinstance(kind, typing.TypeAliasType if hasattr(typing, "TypeAliasType") else ()):
            return self.of(kind.__value__)
        if origin in (typing.Union, UnionType):
            return self.union(args)
        if origin in (Literal, typing_extensions.Literal):
            return list(args)
        if kind in _NAMES:
            return _NAMES[kind]
        named = inspect.isclass(kind) and origin is None
        if named and issubclass(kind, enum.Enum):
            return [each.value for each in kind]
        if typing.is_typeddict(kind) or typing_extensions.is_typeddict(kind):
            return self._typed_dict(kind)
        if named and issubclass(kind, pydantic.BaseModel):
            return self._model(kind)
        container = origin or kind
        if inspect.isclass(container) and issubclass(container, Mapping):
            return {"map": self.of(args[1]) if len(args) == 2 else "any"}
        if container in (Iterable, Sequence) or (
            inspect.isclass(container) and issubclass(container, (list, set, Sequence))
        ):
            return {"list": self.of(args[0]) if args else "any"}
        return None

    def union(self, kinds: Iterable[Any]) -> Any:
        """Return the data of one of several types, without those that JSON does not have."""
        options: list[Any] = []
        for each in (self.of(kind) for kind in kinds if kind is not type(None)):
            for option in each["any"] if isinstance(each, dict) and "any" in each else [each]:
                if option is not None and option not in options:
                    options.append(option)
        if "string" in options:  # the names that the SDK knows beside it, such as those of models
            options = [each for each in options if not isinstance(each, list)]
        elif any(isinstance(each, list) for each in options):  # an SDK that accepts the values of later versions
            options = [each for each in options if each != "any"]
        # Names first, and sorted: typing has one object for Union[str, float] and Union[float, str], in the order of
        # the one that was made first in the process.
        options.sort(key=lambda each: each if isinstance(each, str) else "~")
        return (options[0] if len(options) == 1 else {"any": options}) if options else None

    def define(self, key: Any, name: str, fields: Callable[[], Iterable[tuple[str, Any, bool]]]) -> Json:
        """Return a reference to the definition of an object, which is read once; fields are name, type, required."""
        if key not in self._names:
            while name in self.definitions:
                name += "_"
            self._names[key] = name
            self.definitions[name] = {}
            read = [(self._rename(field), data, required) for field, data, required in fields()]
            self.definitions[name] = {
                "fields": {field: "any" if data is None else data for field, data, _ in read},
                "required": [field for field, _, required in read if required],
            }
        return {"is": self._names[key]}

    def _typed_dict(self, kind: Any) -> Json:
        def fields() -> Iterable[tuple[str, Any, bool]]:
            for name, hint in typing_extensions.get_type_hints(kind, include_extras=True).items():
                yield _alias(hint) or name, self.of(hint), is_required(hint, kind) and not _may_be_null(hint)

        return self.define(kind, kind.__name__, fields)

    def _model(self, kind: Any) -> Json:
        def fields() -> Iterable[tuple[str, Any, bool]]:
            for name, info in kind.model_fields.items():
                is_tag = isinstance(info.default, str)
                yield info.alias or name, self.of(info.annotation), info.is_required() or is_tag

        return self.define(kind, kind.__name__, fields)

    def shape(self, shape: Any) -> Any:
        """Return the data of a shape of botocore, with its limits."""
        if getattr(shape, "is_document_type", False):
            return "any"
        if shape.type_name == "structure":
            return self.define(
                shape.name,
                shape.name,
                lambda: [
                    (name, self.shape(member), name in shape.required_members) for name, member in shape.members.items()
                ],
            )
        limits = {key: shape.metadata[key] for key in ("min", "max", "pattern") if key in shape.metadata}
        if shape.type_name == "list":
            return {"list": self.shape(shape.member), **limits}
        if shape.type_name == "map":
            return {"map": self.shape(shape.value)}
        if getattr(shape, "enum", None):
            return list(shape.enum)
        names = {"boolean": "boolean", "integer": "integer", "long": "integer", "float": "number", "double": "number"}
        name = names.get(shape.type_name, "string")
        limits = {} if shape.type_name == "blob" else limits  # of its bytes, and the body has them as base64
        return {"type": name, **limits} if limits else name


def _may_be_null(hint: Any) -> bool:
    while get_origin(hint) in WRAPPERS or get_origin(hint) in (typing.Annotated, typing_extensions.Annotated):
        hint = get_args(hint)[0]
    return type(None) in get_args(hint)


def _alias(hint: Any) -> str | None:
    """Return the name on the wire of a field that Python calls otherwise, such as ``from_``."""
    while get_origin(hint) in WRAPPERS:
        (hint,) = get_args(hint)
    return next((each.alias for each in getattr(hint, "__metadata__", ()) if getattr(each, "alias", None)), None)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.title, rest))


def _typed(kind: Any, wire: str, **more: Any) -> Types:
    types = Types()
    types.of(kind)
    body = types.definitions[kind.__name__]
    body["fields"] = {name: each for name, each in body["fields"].items() if name not in SDK_ONLY[wire]} | more
    body["fields"]["stream"] = "boolean"
    types.definitions = {"body": types.definitions.pop(kind.__name__), **types.definitions}
    return types


def _gemini() -> Types:
    types = Types(_camel)
    types.of(gemini_types.GenerateContentConfigDict)
    config = types.definitions.pop("GenerateContentConfigDict")["fields"]
    types.of(gemini_types.GenerationConfigDict)
    nested = types.definitions.pop("GenerationConfigDict")["fields"]
    nested |= {name: config[name] for name in ("imageConfig", "continuationToken") if name in config}
    fields = {name: each for name, each in config.items() if name not in nested and name not in SDK_ONLY["gemini"]}
    content = types.of(gemini_types.ContentDict)
    types.definitions["generation config"] = {"fields": nested, "required": []}
    types.of(gemini_types.ToolDict)
    fields |= {
        "contents": {"list": content},
        "systemInstruction": content,
        "generationConfig": {"is": "generation config"},
        "tools": {"list": {"is": "ToolDict"}},
        "model": "string",
        "store": "boolean",
    }
    types.definitions = {"body": {"fields": fields, "required": ["contents"]}, **types.definitions}
    return types


def _converse() -> Types:
    types = Types()
    model = botocore.session.get_session().get_service_model("bedrock-runtime")
    shape = model.operation_model("ConverseStream").input_shape
    types.shape(shape)
    body = types.definitions.pop(shape.name)
    body["fields"].pop("modelId")
    body["required"] = ["messages"]  # of the model; the documentation demands it of all but prompts of Bedrock
    types.definitions = {"body": body, **types.definitions}
    return types


def _cohere() -> Types:
    types = Types()
    hints = typing.get_type_hints(V2Client.chat_stream, include_extras=True)
    fields = {
        name: types.of(kind) for name, kind in hints.items() if name not in SDK_ONLY["cohere"] and name != "return"
    }
    body = {"fields": {**fields, "stream": "boolean"}, "required": ["model", "messages"]}
    types.definitions = {"body": body, **types.definitions}
    return types


def _ollama() -> Types:
    types = Types()
    types.of(ChatRequest)
    types.of(Options)
    body = types.definitions.pop("ChatRequest")
    body["fields"]["options"] = {"is": "Options"}
    body["fields"]["messages"] = {"list": {"is": "Message"}}  # the SDK accepts any mapping, and checks it then
    types.definitions.pop("Image")
    types.definitions["Message"]["fields"]["images"] = {"list": "string"}
    types.definitions = {"body": body, **types.definitions}
    return types


def build_types() -> Json:
    """Return the types of every wire's requests; the first definition of each is that of the body."""
    built = {
        "openai_chat": _typed(CompletionCreateParamsNonStreaming, "openai_chat"),
        "openai_responses": _typed(ResponseCreateParamsNonStreaming, "openai_responses"),
        "anthropic": _typed(MessageCreateParamsNonStreaming, "anthropic"),
        "gemini": _gemini(),
        "bedrock_converse": _converse(),
        "cohere": _cohere(),
        "ollama": _ollama(),
    }
    sdks = versions()
    return {wire: {"sdk": sdks[wire], "types": types.definitions} for wire, types in built.items()}


def types_text(data: Json) -> str:
    """Return the types as JSON, a definition on a line."""
    wires = []
    for wire, about in data.items():
        rows = [
            f"  {json.dumps(name)}: {json.dumps(each, separators=(',', ':'))}" for name, each in about["types"].items()
        ]
        wires.append(
            f' {json.dumps(wire)}: {{"sdk": {json.dumps(about["sdk"])}, "types": {{\n' + ",\n".join(rows) + "}}"
        )
    return "{\n" + ",\n".join(wires) + "\n}\n"
