"""The keywords of JSON Schema that contain other schemas or refer to them.

https://json-schema.org/draft/2020-12/json-schema-core; ``definitions`` is the name of ``$defs`` in earlier drafts. This
module must not depend on what a target accepts.
"""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = ["COMBINATIONS", "DEEPEST", "SCHEMAS", "SCHEMAS_BY_NAME", "UNIONS", "Json", "resolve_schema"]

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
    from streamkit.tools.schema_references import resolve_reference

    if not isinstance(schema, dict):
        return {}
    target = resolve_reference(schema.get("$ref"), root) if "$ref" in schema else None
    return schema if target is None else {**target, **{key: schema[key] for key in schema if key != "$ref"}}
