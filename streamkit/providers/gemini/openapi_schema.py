"""Gemini's schemas in the form of OpenAPI, as JSON schemas.

https://ai.google.dev/api/caching#Schema: types in capital letters, ``nullable``, numbers of items as text.
"""

from __future__ import annotations

from typing import Any

__all__ = ["to_json_schema"]

Json = dict[str, Any]

_TYPES = {"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"}
_COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
_DEEPEST = 100


def to_json_schema(schema: Json, depth: int = 0) -> Json:
    """Return a schema as a JSON schema.

    The properties are in the order of ``propertyOrdering``, which JSON Schema does not have: Gemini and others write
    them in the order of the schema (https://ai.google.dev/gemini-api/docs/structured-output).
    """
    if depth > _DEEPEST:
        return {}
    converted: Json = {}
    for name, value in schema.items():
        if name == "type" and isinstance(value, str) and value.upper() in _TYPES:
            converted["type"] = value.lower()
        elif name == "properties" and isinstance(value, dict):
            converted[name] = {key: _convert(value[key], depth) for key in _ordered(schema, value)}
        elif name == "items":
            converted[name] = _convert(value, depth)
        elif name == "anyOf" and isinstance(value, list):
            converted[name] = [_convert(item, depth) for item in value]
        elif name in _COUNTS and isinstance(value, str) and value.isdecimal():
            converted[name] = int(value)
        elif name == "example":
            converted["examples"] = [value]
        elif name not in ("nullable", "propertyOrdering"):
            converted[name] = value
    if schema.get("nullable") is True and isinstance(converted.get("type"), str):
        converted["type"] = [converted["type"], "null"]
        if isinstance(converted.get("enum"), list):
            converted["enum"] = [*converted["enum"], None]
    return converted


def _ordered(schema: Json, properties: Json) -> list[str]:
    """Return the names of the properties: those that ``propertyOrdering`` has come first."""
    order = schema.get("propertyOrdering")
    names = [name for name in order if isinstance(name, str)] if isinstance(order, list) else []
    return [name for name in dict.fromkeys([*names, *properties]) if name in properties]


def _convert(value: Any, depth: int) -> Any:
    return to_json_schema(value, depth + 1) if isinstance(value, dict) else value
