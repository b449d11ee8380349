"""Nulls that a model sends for what it would rather have left out, taken away by the schema.

A strict mode whose every property is required leaves a model no other way to omit an argument (see ``strict``). A null
goes where its property is optional and takes no null itself; then the default applies, as if nothing had been sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["accepts_null", "resolve_reference", "unescape_json_pointer", "drop_placeholder_nulls"]


_KINDS: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}


def drop_placeholder_nulls(value: Any, schema: Any, root: Mapping[str, Any]) -> Any:
    """A value without the nulls that stand for omitted properties, on every level that the schema describes.

    Of several objects that a place may hold, that one is meant whose properties are the value's, by name and by kind.

    Args:
        value: arguments, or a part of them; it is not changed.
        schema: what describes it.
        root: the whole schema, for references.
    """
    if isinstance(value, dict):
        objects = [node for node in _options(schema, root) if isinstance(node.get("properties"), Mapping)]
        meant = _meant(value, objects, root)
        if meant is None:
            return value
        properties, required = meant["properties"], meant.get("required") or ()
        return {
            name: drop_placeholder_nulls(given, properties.get(name), root)
            for name, given in value.items()
            if given is not None or name in required or name not in properties or accepts_null(properties[name], root)
        }
    if isinstance(value, list):
        items = {"anyOf": [node["items"] for node in _options(schema, root) if "items" in node]}
        return [drop_placeholder_nulls(given, items, root) for given in value]
    return value


def accepts_null(schema: Any, root: Mapping[str, Any]) -> bool:
    """Whether null is a value of a schema. What cannot be read accepts it."""
    return any(_is_null(node) for node in _options(schema, root))


def _is_null(node: Mapping[str, Any]) -> bool:
    if node.get("nullable") is True:
        return True
    kind = node.get("type")
    if kind is not None:
        return kind == "null" or (isinstance(kind, list) and "null" in kind)
    if "const" in node or "enum" in node:
        values = [node["const"]] if "const" in node else node["enum"]
        return isinstance(values, list) and None in values
    return "properties" not in node and "items" not in node


def resolve_reference(reference: Any, root: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What a reference within the schema refers to; None where that is no schema of it."""
    if reference == "#":
        return root
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    found: Any = root
    for step in reference[2:].split("/"):
        found = found.get(unescape_json_pointer(step)) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else None


def unescape_json_pointer(step: str) -> str:
    """A step of a JSON pointer as the name that it stands for."""
    return step.replace("~1", "/").replace("~0", "~")


def _options(schema: Any, root: Mapping[str, Any], seen: set[str] | None = None) -> Iterator[Mapping[str, Any]]:
    """The schemas without reference or union that a schema comes down to; what cannot be read accepts anything.

    ``seen``: the references so far. None is followed twice, for that says nothing new, and they may lead in a circle.
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
    whole = schema.get("allOf")
    if isinstance(whole, list) and len(whole) == 1:
        yield from _options(whole[0], root, seen)
        return
    yield schema


def _meant(
    value: Mapping[str, Any], objects: list[Mapping[str, Any]], root: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    if len(objects) < 2:
        return objects[0] if objects else None
    return next((node for node in objects if _fits(value, node, root)), None)


def _fits(value: Mapping[str, Any], node: Mapping[str, Any], root: Mapping[str, Any]) -> bool:
    """Whether an object may be meant by a schema, looked at no deeper than its properties."""
    properties, required = node["properties"], node.get("required") or ()
    if any(name not in properties for name in value) or any(name not in value for name in required):
        return False
    return all(
        any(_is_of(given, option) for option in _options(properties[name], root))
        for name, given in value.items()
        if given is not None or name in required
    )


def _is_of(given: Any, node: Mapping[str, Any]) -> bool:
    if given is None:
        return _is_null(node)
    if "const" in node or "enum" in node:
        values = [node["const"]] if "const" in node else node["enum"]
        return isinstance(values, list) and given in values
    kinds = node.get("type")
    return kinds is None or any(
        isinstance(given, _KINDS.get(str(kind), object)) and isinstance(given, bool) <= (kind == "boolean")
        for kind in (kinds if isinstance(kinds, list) else [kinds])
    )
