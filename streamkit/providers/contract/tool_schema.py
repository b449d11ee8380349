"""Changes to the schemas of tools that a provider would refuse, and with them the whole request.

MCP servers write any JSON Schema. A provider declares in its traits which forms it refuses (`ToolSchemaRules`); only
these are changed, to the nearest form that it accepts, and each change is reported. The tool itself still validates a
call's arguments by the schema that it has. This module depends on no provider.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from streamkit.errors import UsageError
from streamkit.json_text import nests_deeper
from streamkit.values.schemas import COMBINATIONS, DEEPEST, SCHEMAS, SCHEMAS_BY_NAME, Json, resolve_schema

__all__ = ["ToolSchemaRules", "adapt_tool_schema"]

MOST_NESTED = 256  # as many levels as arguments may have (``Limits.nesting``): what walks a schema is recursive


class ToolSchemaRules(Struct, frozen=True, kw_only=True):
    """The forms of a tool's schema that a provider refuses."""

    refused_at_root: frozenset[str] = frozenset()  #: the keywords that it refuses at the root of a schema
    refused_keywords: frozenset[str] = frozenset()  #: the keywords that it refuses anywhere
    #: every schema must have exactly one type, or be a union of such, without a type next to it; a reference has no
    #: keywords next to it, and refers to the root or one of the root's ``$defs``
    one_type: bool = False
    typed: bool = False  #: every schema must have a type, or be a union or reference
    #: ``exclusiveMinimum`` and ``exclusiveMaximum`` must be numbers, not the booleans of draft 4
    numeric_bounds: bool = False


def adapt_tool_schema(name: str, schema: Json, rules: ToolSchemaRules) -> tuple[Json, list[str]]:
    """Return a tool's schema, an object's, in a form that the provider accepts, and a sentence for each change.

    Raises:
        UsageError: it is nested more deeply than arguments may be.
    """
    changes: list[str] = []
    complete = schema
    try:  # a search of the text is much faster than a walk
        text = msgspec.json.encode(schema)
        is_deep = text.count(b"{") + text.count(b"[") > MOST_NESTED and nests_deeper(schema, MOST_NESTED)
        may_have_bounds = b'"exclusiveM' in text
    except RecursionError:
        is_deep = may_have_bounds = True
    except (TypeError, ValueError):  # a schema that is no JSON
        is_deep, may_have_bounds = nests_deeper(schema, MOST_NESTED), True
    if is_deep:
        raise UsageError(f"the schema of the tool {name!r} is nested more than {MOST_NESTED} levels deep")
    refused = [keyword for keyword in schema if keyword in rules.refused_at_root]
    if refused:
        changes.append(f"{' and '.join(refused)} at its root became one list of properties")
        schema = _merge_root(schema, schema, rules.refused_at_root, {}, 0)
    if rules.refused_keywords:
        schema = _without_keywords(schema, rules.refused_keywords, changes)
    if rules.numeric_bounds and may_have_bounds:
        schema = _with_numeric_bounds(schema, changes)
    if rules.typed:
        from streamkit.providers.contract.schema_types import with_types

        schema = with_types(schema, None, changes)
    if rules.one_type:
        from streamkit.providers.contract.schema_types import OneTypeSchema

        schema = OneTypeSchema(schema, complete, changes).convert_object()
    return schema, list(dict.fromkeys(changes))


# ---------------------------------------------------------------- the root


def _merge_root(
    schema: Json, root: Json, refused: frozenset[str], merged_options: dict[int, Json | None], depth: int
) -> Json:
    """Return an object's schema without combinations: every property of any of them, and the required ones of all.

    *merged_options* has what was returned for each member of a combination, by its ``id``; None while that is unknown,
    because a schema that contains itself adds nothing to itself. *depth* is how many combinations contain the schema.
    """
    merged = {name: value for name, value in schema.items() if name not in refused and name not in COMBINATIONS}
    properties: Json = dict(_properties(merged))
    required = _required(merged)
    notes: list[str] = []
    for keyword in COMBINATIONS if depth < DEEPEST else ():
        options = schema.get(keyword)
        if not isinstance(options, list) or not options:
            continue
        for option in options:
            if id(option) not in merged_options:
                merged_options[id(option)] = None
                option_schema = resolve_schema(option, root)
                merged_options[id(option)] = _merge_root(option_schema, root, refused, merged_options, depth + 1)
        objects = [known for option in options if (known := merged_options[id(option)]) is not None]
        if not objects:
            continue
        for option in objects:
            for name, value in _properties(option).items():
                properties[name] = _either(properties.get(name), value)
        needed = [_required(option) for option in objects]
        if keyword == "allOf":
            required += [name for names in needed for name in names]
        else:
            required += [name for name in needed[0] if all(name in names for names in needed)]
            if any(needed):
                count = "at least" if keyword == "anyOf" else "exactly"
                notes.append(f"Give {count} one of: {'; '.join(' and '.join(names) or 'none' for names in needed)}.")
        if any("additionalProperties" in option for option in objects):
            merged.pop("additionalProperties", None)
    merged["properties"] = properties
    if required:
        merged["required"] = list(dict.fromkeys(required))
    if notes:
        merged["description"] = " ".join([text for text in (merged.get("description"),) if text] + notes)
    return merged


def _properties(schema: Json) -> Json:
    """Return the properties of a schema; none if they are no object, as an MCP server may send them."""
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _required(schema: Json) -> list[str]:
    """Return the names of the properties that a schema requires."""
    required = schema.get("required")
    return [name for name in required if isinstance(name, str)] if isinstance(required, list) else []


def _either(one: Any, other: Any) -> Any:
    if one is None or one == other or one == {}:
        return other
    if other == {}:
        return one
    options = one["anyOf"] if isinstance(one, dict) and list(one) == ["anyOf"] else [one]
    return {"anyOf": options if other in options else [*options, other]}


# ---------------------------------------------------------------- keywords


def _without_keywords(schema: Any, refused: frozenset[str], changes: list[str]) -> Any:
    """Return the schema without these keywords; a property of such a name is kept."""
    if isinstance(schema, list):
        items = [_without_keywords(item, refused, changes) for item in schema]
        return schema if all(map(_is_same, items, schema)) else items
    if not isinstance(schema, dict):
        return schema
    kept: Json = {}
    for keyword, value in schema.items():
        if keyword == "$schema" and keyword in refused:
            pass  # it names the version of JSON Schema and forbids no value
        elif keyword in refused:
            changes.append(f"{keyword} was left out")
        elif keyword in SCHEMAS_BY_NAME and isinstance(value, dict):
            kept[keyword] = {name: _without_keywords(item, refused, changes) for name, item in value.items()}
        elif keyword in ("default", "const", "enum", "examples"):
            kept[keyword] = value
        else:
            kept[keyword] = _without_keywords(value, refused, changes)
    return schema if kept == schema else kept


def _with_numeric_bounds(schema: Any, changes: list[str]) -> Any:
    """Return the schema with the bounds of draft 4 in their later form; the same object if it has none."""
    if isinstance(schema, list):
        items = [_with_numeric_bounds(item, changes) for item in schema]
        return schema if all(map(_is_same, items, schema)) else items
    if not isinstance(schema, dict):
        return schema
    changed: Json = {}
    for keyword, value in schema.items():
        if keyword in SCHEMAS_BY_NAME and isinstance(value, dict):
            converted: Any = {name: _with_numeric_bounds(item, changes) for name, item in value.items()}
            if any(converted[name] is not item for name, item in value.items()):
                changed[keyword] = converted
        elif keyword in SCHEMAS and (converted := _with_numeric_bounds(value, changes)) is not value:
            changed[keyword] = converted
    result = {**schema, **changed} if changed else schema
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(exclusive), bool):
            changes.append(f"{exclusive} became a number")
            result = {name: value for name, value in result.items() if name != exclusive}
            if schema[exclusive] and bound in schema:
                result[exclusive] = result.pop(bound)
    return result


def _is_same(one: Any, other: Any) -> bool:
    return one is other
