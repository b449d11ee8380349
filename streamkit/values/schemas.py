"""JSON schemas: their references, and what the strict mode of a provider takes of them.

The keywords of JSON Schema that contain other schemas or refer to them; what a ``$ref`` refers to, by JSON pointer (RFC
6901); the profile of a strict mode, which ``tools.strict_schema`` applies.

https://json-schema.org/draft/2020-12/json-schema-core; ``definitions`` is the name of ``$defs`` in earlier drafts. This
module must not depend on what a target accepts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import Struct

__all__ = [
    "COMBINATIONS",
    "DEEPEST",
    "SCHEMAS",
    "SCHEMAS_BY_NAME",
    "UNIONS",
    "Json",
    "StrictProfile",
    "follow_reference",
    "resolve_reference",
    "resolve_schema",
    "unescape_json_pointer",
]

_URI_BYTES = re.compile(r"(?:%[0-9A-Fa-f]{2})+")


def resolve_reference(reference: Any, root: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the schema to which a reference within the root schema refers, None if there is none."""
    node = follow_reference(reference, root)
    return node if isinstance(node, Mapping) else None


def follow_reference(reference: Any, root: Any) -> Any:
    """Return what a reference within a document refers to, None if there is nothing."""
    if reference == "#":
        return root
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    node = root
    for step in reference[2:].split("/"):
        if isinstance(node, list):
            node = node[int(step)] if step.isdecimal() and int(step) < len(node) else None
        elif isinstance(node, Mapping):
            name = unescape_json_pointer(step)
            # A reference is a URI: "#/definitions/Record%3Cstring%3E" (vega/ts-json-schema-generator, ``encodeRefs``).
            decoded = _URI_BYTES.sub(lambda at: bytes.fromhex(at[0].replace("%", "")).decode(errors="replace"), step)
            node = node.get(name) if name in node else node.get(unescape_json_pointer(decoded))
        else:
            return None
    return node


def unescape_json_pointer(step: str) -> str:
    """Return the name that a step of a JSON pointer represents."""
    return step.replace("~1", "/").replace("~0", "~")


Json: TypeAlias = dict[str, Any]
UNIONS = ("anyOf", "oneOf")
COMBINATIONS = (*UNIONS, "allOf")
#: The keywords with a schema or a list of schemas, and those with schemas by name.
SCHEMAS = frozenset({*COMBINATIONS, "items", "prefixItems", "additionalProperties", "not", "if", "then", "else"})
SCHEMAS_BY_NAME = frozenset({"properties", "$defs", "definitions", "patternProperties"})
#: The levels of schemas that are read; a circular reference has no end.
DEEPEST = 60


def resolve_schema(schema: Any, root: Json) -> Json:
    """Return a schema with what it refers to in place of the reference; an empty one for what is no schema."""
    if not isinstance(schema, dict):
        return {}
    target = resolve_reference(schema.get("$ref"), root) if "$ref" in schema else None
    return schema if target is None else {**target, **{key: schema[key] for key in schema if key != "$ref"}}


class StrictProfile(Struct, frozen=True):
    """The form of a schema that one provider's strict mode takes, and its limits.

    Attributes:
        target: the provider's name for messages.
        every_required: whether every property must be required.
        keywords: the constraint keywords that it takes, each with the values that it takes (None: any value); None: all
            keywords.
        type_lists: whether ``"type": ["string", "null"]`` is taken; else it is expressed by ``anyOf``.
        references: whether ``$ref`` is taken wherever a schema is; else the reference is replaced by what it refers to,
            unless it is recursive.
        recursive: whether a schema may refer to itself.
        some_required: whether every object needs a required property.
        all_or_none: whether the mode holds for all tools of a request or for none, so that it is requested only if all
            of them are strict.
        depth: the most nested objects.
        enum_values: the most enum values of one tool.
        properties: the most properties of one tool.
        tools: the most strict tools of a request.
        fields: the most properties of a request.
        optional: the most properties of a request that are not required.
        unions: the most properties of a request with ``anyOf`` or several types.
    """

    target: str
    every_required: bool = False
    keywords: Mapping[str, frozenset[Any] | None] | None = {}
    type_lists: bool = True
    references: bool = True
    recursive: bool = True
    some_required: bool = False
    all_or_none: bool = False
    depth: int | None = None
    enum_values: int | None = None
    properties: int | None = None
    tools: int | None = None
    fields: int | None = None
    optional: int | None = None
    unions: int | None = None
