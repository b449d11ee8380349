"""Removal of the nulls that a model sends for omitted arguments, by the schema.

A strict mode whose every property is required leaves a model no other way to omit an argument (see ``strict_schema``).
A null is removed if its property is optional and does not accept null itself; then the default applies, as if nothing
had been sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from streamkit.values.schema_references import resolve_reference

__all__ = ["accepts_null", "drop_placeholder_nulls"]

_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}


def drop_placeholder_nulls(value: Any, schema: Any, root: Mapping[str, Any]) -> Any:
    """Return a value without the nulls of omitted properties, on every level that the schema describes.

    Of several object schemas for one value, the one that matches the value's properties by name and type is used.

    Args:
        value: arguments, or a part of them; it is not changed.
        schema: the schema of the value.
        root: the complete schema, for references.
    """
    if isinstance(value, dict):
        objects = [node for node in _options(schema, root) if isinstance(node.get("properties"), Mapping)]
        matching = _matching_object(value, objects, root)
        if matching is None:
            return value
        properties, required = matching["properties"], matching.get("required") or ()
        return {
            name: drop_placeholder_nulls(item, properties.get(name), root)
            for name, item in value.items()
            if item is not None or name in required or name not in properties or accepts_null(properties[name], root)
        }
    if isinstance(value, list):
        items = {"anyOf": [node["items"] for node in _options(schema, root) if "items" in node]}
        return [drop_placeholder_nulls(item, items, root) for item in value]
    return value


def accepts_null(schema: Any, root: Mapping[str, Any]) -> bool:
    """Return True if null is valid for a schema. A schema that cannot be read accepts it."""
    return any(_allows_null(node) for node in _options(schema, root))


def _allows_null(node: Mapping[str, Any]) -> bool:
    if node.get("nullable") is True:
        return True
    kind = node.get("type")
    if kind is not None:
        return kind == "null" or (isinstance(kind, list) and "null" in kind)
    if "const" in node or "enum" in node:
        values = [node["const"]] if "const" in node else node["enum"]
        return isinstance(values, list) and None in values
    return "properties" not in node and "items" not in node


def _options(schema: Any, root: Mapping[str, Any], seen: set[str] | None = None) -> Iterator[Mapping[str, Any]]:
    """Yield the schemas without reference or union that a schema consists of; one that cannot be read accepts anything.

    ``seen``: the references so far. None is followed twice, because that adds nothing, and they may be circular.
    """
    if not isinstance(schema, Mapping):
        yield {}
        return
    seen = set() if seen is None else seen
    if "$ref" in schema:
        reference = str(schema["$ref"])
        if reference not in seen:
            seen.add(reference)
            yield from _options(resolve_reference(reference, root), root, seen)
        return
    union = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(union, list):
        for option in union:
            yield from _options(option, root, seen)
        return
    all_of = schema.get("allOf")
    if isinstance(all_of, list) and len(all_of) == 1:
        yield from _options(all_of[0], root, seen)
        return
    yield schema


def _matching_object(
    value: Mapping[str, Any], objects: list[Mapping[str, Any]], root: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    if len(objects) < 2:
        return objects[0] if objects else None
    return next((node for node in objects if _matches(value, node, root)), None)


def _matches(value: Mapping[str, Any], node: Mapping[str, Any], root: Mapping[str, Any]) -> bool:
    """Return True if a schema may describe an object, compared no deeper than its properties."""
    properties, required = node["properties"], node.get("required") or ()
    if any(name not in properties for name in value) or any(name not in value for name in required):
        return False
    return all(
        any(_has_type(item, option) for option in _options(properties[name], root))
        for name, item in value.items()
        if item is not None or name in required
    )


def _has_type(value: Any, node: Mapping[str, Any]) -> bool:
    if value is None:
        return _allows_null(node)
    if "const" in node or "enum" in node:
        values = [node["const"]] if "const" in node else node["enum"]
        return isinstance(values, list) and value in values
    types = node.get("type")
    return types is None or any(
        isinstance(value, _TYPES.get(str(name), object)) and isinstance(value, bool) <= (name == "boolean")
        for name in (types if isinstance(types, list) else [types])
    )
