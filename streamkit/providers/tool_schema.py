"""Changes to the schemas of tools that a provider would refuse, and with them the whole request.

MCP servers write any JSON Schema. A provider declares in its traits which forms it refuses (`ToolSchemaRules`); only
these are changed, to the nearest form that it accepts, and each change is reported. The tool itself still validates a
call's arguments by the schema that it has. This module depends on no provider.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

__all__ = ["ToolSchemaRules", "adapt_tool_schema"]

Json = dict[str, Any]

_UNIONS = ("anyOf", "oneOf")
_COMBINATIONS = (*_UNIONS, "allOf")
_ANNOTATIONS = ("description", "title", "default", "examples", "$comment")
_TYPES = ("string", "number", "boolean", "object", "array", "null")
#: The type that a schema with one of these keywords, and without a type, describes.
_TYPE_OF_KEYWORD = {
    **dict.fromkeys(("properties", "required", "additionalProperties", "patternProperties"), "object"),
    **dict.fromkeys(("items", "prefixItems", "minItems", "maxItems", "uniqueItems"), "array"),
    **dict.fromkeys(("minLength", "maxLength", "pattern", "format"), "string"),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), "number"),
}
#: The keywords with a schema or a list of schemas, and those with schemas by name.
_SCHEMAS = frozenset({*_COMBINATIONS, "items", "prefixItems", "additionalProperties", "not", "if", "then", "else"})
_SCHEMAS_BY_NAME = frozenset({"properties", "$defs", "definitions", "patternProperties"})
_DEEPEST = 60
_DEFINITION_NAME = re.compile(r"[\w.-]+")
_OWN_DEFINITION = re.compile(r"#/\$defs/[\w.-]+")


class ToolSchemaRules(Struct, frozen=True, kw_only=True):
    """The forms of a tool's schema that a provider refuses.

    Attributes:
        refused_at_root: the keywords that it refuses at the root of a schema.
        refused_keywords: the keywords that it refuses anywhere.
        one_type: every schema must have exactly one type, or be a union of such, without a type next to it; a reference
            has no keywords next to it, and refers to the root or one of the root's ``$defs``.
        typed: every schema must have a type, or be a union or reference.
        numeric_bounds: ``exclusiveMinimum`` and ``exclusiveMaximum`` must be numbers, not the booleans of draft 4.
    """

    refused_at_root: frozenset[str] = frozenset()
    refused_keywords: frozenset[str] = frozenset()
    one_type: bool = False
    typed: bool = False
    numeric_bounds: bool = False


def adapt_tool_schema(schema: Json, rules: ToolSchemaRules) -> tuple[Json, list[str]]:
    """Return a tool's schema in a form that the provider accepts, and a sentence for each change.

    Args:
        schema: the tool's parameters, of the type ``object``.
        rules: what the provider refuses.
    """
    changes: list[str] = []
    complete = schema
    refused = [keyword for keyword in schema if keyword in rules.refused_at_root]
    if refused:
        changes.append(f"{' and '.join(refused)} at its root became one list of properties")
        schema = _merge_root(schema, schema, rules.refused_at_root, 0)
    if rules.refused_keywords:
        schema = _without_keywords(schema, rules.refused_keywords, changes)
    if rules.numeric_bounds and "'exclusiveM" in repr(schema):  # the search is much faster than the walk
        schema = _with_numeric_bounds(schema, changes)
    if rules.typed:
        schema = _with_types(schema, None, changes)
    if rules.one_type:
        schema = _OneType(schema, complete, changes).convert_object()
    return schema, list(dict.fromkeys(changes))


# ---------------------------------------------------------------- the root


def _merge_root(schema: Json, root: Json, refused: frozenset[str], depth: int) -> Json:
    """Return an object's schema without combinations: every property of any of them, and the required ones of all."""
    merged = {name: value for name, value in schema.items() if name not in refused and name not in _COMBINATIONS}
    properties: Json = dict(merged.get("properties") or {})
    required: list[Any] = list(merged.get("required") or ())
    notes: list[str] = []
    for keyword in _COMBINATIONS if depth < _DEEPEST else ():
        options = schema.get(keyword)
        if not isinstance(options, list) or not options:
            continue
        objects = [_merge_root(_resolved(option, root), root, refused, depth + 1) for option in options]
        for option in objects:
            for name, value in (option.get("properties") or {}).items():
                properties[name] = _either(properties.get(name), value)
        needed = [[name for name in option.get("required") or () if isinstance(name, str)] for option in objects]
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


def _target(reference: Any, root: Json) -> Mapping[str, Any] | None:
    from streamkit.tools.placeholder_nulls import resolve_reference

    return resolve_reference(reference, root)


def _resolved(schema: Any, root: Json) -> Json:
    if not isinstance(schema, dict):
        return {}
    target = _target(schema.get("$ref"), root) if "$ref" in schema else None
    return schema if target is None else {**target, **{key: schema[key] for key in schema if key != "$ref"}}


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
        elif keyword in _SCHEMAS_BY_NAME and isinstance(value, dict):
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
        if keyword in _SCHEMAS_BY_NAME and isinstance(value, dict):
            converted: Any = {name: _with_numeric_bounds(item, changes) for name, item in value.items()}
            if any(converted[name] is not item for name, item in value.items()):
                changed[keyword] = converted
        elif keyword in _SCHEMAS and (converted := _with_numeric_bounds(value, changes)) is not value:
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


# ---------------------------------------------------------------- types


def _with_types(schema: Any, within: Any, changes: list[str]) -> Any:
    """Return the schema with a type wherever there was none.

    Args:
        schema: the schema.
        within: the type of the schema of which it is an option.
        changes: receives a sentence if there was one without.
    """
    if isinstance(schema, list):
        return [_with_types(item, within, changes) for item in schema]
    if not isinstance(schema, dict):
        return schema
    converted = dict(schema)
    if not any(keyword in schema for keyword in ("type", "$ref", *_COMBINATIONS)):
        changes.append("a type was added where there was none")
        converted = {"type": _type_of(schema, within), **schema}
    for keyword, value in schema.items():
        if keyword in _SCHEMAS_BY_NAME and isinstance(value, dict):
            converted[keyword] = {name: _with_types(item, None, changes) for name, item in value.items()}
        elif keyword in _COMBINATIONS:
            converted[keyword] = _with_types(value, schema.get("type", within), changes)
        elif keyword in ("items", "prefixItems") or (keyword == "additionalProperties" and value != {}):
            converted[keyword] = _with_types(value, None, changes)
    return schema if converted == schema else converted


def _type_of(schema: Json, within: Any) -> Any:
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list) and values:
        kinds = list(dict.fromkeys(map(_kind_of, values)))
        return kinds[0] if len(kinds) == 1 else kinds
    return next((kind for keyword, kind in _TYPE_OF_KEYWORD.items() if keyword in schema), within or list(_TYPES))


# ---------------------------------------------------------------- one type


class _OneType:
    """The conversion of a schema to one in which every schema has one type or is a union of such."""

    def __init__(self, root: Json, complete: Json, changes: list[str]) -> None:
        """Create a conversion of the root; ``complete`` has what references refer to and the root has no more."""
        self._root = root
        self._complete = complete
        self._changes = changes
        self._names: dict[str, str] = {}  # of the definitions that the root gets, by the references to them
        self._definitions: Json = {}
        self._merging: set[str] = set()  # the references with keywords next to them that are being converted

    def convert_object(self) -> Json:
        """Return the root; the same object if nothing was changed."""
        converted = self._convert_children(self._root, 0)
        if self._definitions:
            converted["$defs"] = {**converted.get("$defs", {}), **self._definitions}
        return self._root if converted == self._root else converted

    def _convert(self, schema: Any, depth: int) -> Any:
        if not isinstance(schema, dict) or depth > _DEEPEST:
            return schema if isinstance(schema, dict) else self._any_type({}) if schema is True else schema
        if "$ref" in schema:
            return self._convert_reference(schema, depth)
        if "allOf" in schema:
            self._changes.append("allOf was merged")
            siblings = {key: value for key, value in schema.items() if key != "allOf"}
            return self._convert(_merge_all([siblings, *map(self._resolve, schema["allOf"])]), depth + 1)
        for keyword in _UNIONS:
            if isinstance(schema.get(keyword), list):
                return self._convert_union(schema, keyword, depth)
        if isinstance(schema.get("type"), list):
            self._changes.append("a list of types became a union")
            return self._union(schema, [{"type": kind} for kind in schema["type"]], depth)
        if isinstance(schema.get("enum"), list) or "const" in schema:
            return self._convert_values(schema)
        if "type" not in schema:
            found = [kind for keyword, kind in _TYPE_OF_KEYWORD.items() if keyword in schema]
            self._changes.append("a type was added where there was none")
            if not found:
                return self._any_type(schema)
            schema = {"type": found[0], **schema}
        return self._convert_children(schema, depth)

    def _convert_children(self, schema: Json, depth: int) -> Json:
        converted = dict(schema)
        # What they define is moved where it is referred to. "$defs must be defined at the schema root level".
        converted.pop("definitions", None)
        if schema is not self._root:
            converted.pop("$defs", None)
        for keyword in ("properties", "$defs"):
            if isinstance(converted.get(keyword), dict):
                converted[keyword] = {
                    name: self._convert(each, depth + 1)
                    for name, each in schema[keyword].items()
                    if keyword == "properties" or _DEFINITION_NAME.fullmatch(name)
                }
        items = schema.get("items")
        if isinstance(items, list):  # one schema for each position (anomalyco/opencode#39995)
            self._changes.append("items in order became items of any of their forms")
            items = {"anyOf": [item for item in items if isinstance(item, dict)]}
            items = items if items["anyOf"] else {}
        if isinstance(items, dict):
            converted["items"] = self._convert(items, depth + 1)
        if isinstance(schema.get("additionalProperties"), dict) and schema["additionalProperties"]:
            converted["additionalProperties"] = self._convert(schema["additionalProperties"], depth + 1)
        return converted

    def _convert_reference(self, schema: Json, depth: int) -> Json:
        siblings = {key: value for key, value in schema.items() if key != "$ref"}
        target = _target(schema["$ref"], self._root) or _target(schema["$ref"], self._complete)
        if target is None:
            self._changes.append("a $ref that refers to nothing was left out")
            return self._convert(siblings, depth + 1)  # type: ignore[no-any-return]
        if any(key not in _ANNOTATIONS for key in siblings):
            self._changes.append("keywords next to a $ref were merged with what it refers to")
            return self._merge_with_target(schema, {**target, **siblings}, depth)
        reference = {"$ref": self._move(schema["$ref"], target, depth)}
        if not siblings:
            return schema if reference == schema else reference
        self._changes.append("keywords next to a $ref were merged with what it refers to")
        return {"anyOf": [reference], **siblings}

    def _merge_with_target(self, schema: Json, merged: Json, depth: int) -> Json:
        """Return what a reference and the keywords next to it describe; if that contains the same, as a definition."""
        key = repr(schema)
        if key in self._merging:
            name = self._names.get(key) or self._name(key, schema["$ref"])
            return {"$ref": f"#/$defs/{name}"}
        self._merging.add(key)
        converted: Json = self._convert(merged, depth + 1)
        self._merging.discard(key)
        if key in self._names:
            self._definitions[self._names[key]] = converted
        return converted

    def _move(self, reference: str, target: Mapping[str, Any], depth: int) -> str:
        """Return a reference to the same schema as one of the root's ``$defs``, to which it is added if it is none.

        "references must start with #/$defs/": NousResearch/hermes-agent#14804, anomalyco/opencode#27054.
        """
        if reference == "#" or _OWN_DEFINITION.fullmatch(reference):
            return reference
        name = self._names.get(reference)
        if name is None:
            self._changes.append("what a $ref refers to moved into $defs")
            name = self._name(reference, reference)
            self._definitions[name] = self._convert(target, depth + 1)
        return f"#/$defs/{name}"

    def _name(self, key: str, reference: str) -> str:
        """Return the name of a new definition, which is reserved for the key."""
        taken = {*(self._root.get("$defs") or {}), *self._definitions}
        stem = re.sub(r"[^\w.-]", "_", reference.rpartition("/")[2]) or "_"
        name = next(
            each for each in itertools.chain([stem], (f"{stem}_{n}" for n in itertools.count(2))) if each not in taken
        )
        self._names[key] = name
        self._definitions[name] = {}
        return name

    def _convert_union(self, schema: Json, keyword: str, depth: int) -> Json:
        siblings = {key: value for key, value in schema.items() if key != keyword and key not in _ANNOTATIONS}
        if keyword == "oneOf":
            self._changes.append("oneOf became anyOf")
        if siblings:
            self._changes.append(f"the keywords next to {keyword} moved into its options")
        return self._union(schema, [option for option in schema[keyword] if isinstance(option, dict)], depth)

    def _union(self, schema: Json, options: list[Json], depth: int) -> Json:
        """Return a union of the options, each with the schema's keywords that it does not have itself."""
        shared = {key: value for key, value in schema.items() if key not in (*_UNIONS, *_ANNOTATIONS) and key != "type"}
        kind = schema.get("type")
        converted: list[Any] = []
        for option in options:
            own_kind = option.get("type", kind if isinstance(kind, str) else None)
            fitting = {key: value for key, value in shared.items() if _fits(key, own_kind)}
            complete = _merge_all([fitting, option]) | ({"type": own_kind} if own_kind and "$ref" not in option else {})
            if "enum" in complete and own_kind is not None:
                complete["enum"] = [value for value in complete["enum"] if _kind_of(value) in (own_kind, "integer")]
                if own_kind == "null" or not complete["enum"]:
                    del complete["enum"]
            converted.append(self._convert(complete, depth + 1))
        annotations = {key: value for key, value in schema.items() if key in _ANNOTATIONS}
        return {"anyOf": converted, **annotations}

    def _convert_values(self, schema: Json) -> Json:
        """Return an enum or a constant with values of one type, or a union if they have several."""
        values = [schema["const"]] if "const" in schema else schema["enum"]
        others = {key: value for key, value in schema.items() if key not in ("const", "enum", "type")}
        by_kind: dict[str, list[Any]] = {}
        for value in values:
            kind = _kind_of(value)
            kind = "number" if kind == "integer" and schema.get("type") == "number" else kind
            by_kind.setdefault(kind, []).append(value)
        options = [
            {"type": kind, "enum": found} if kind in ("string", "number", "integer") else {"type": kind}
            for kind, found in by_kind.items()
        ]
        if len(options) == 1:
            converted = {**others, **options[0]}
            if "type" not in schema:
                self._changes.append("a type was added where there was none")
            elif converted != schema:
                self._changes.append("a constant became an enum")
            return converted
        self._changes.append("an enum of several types became a union")
        return {"anyOf": options, **others}

    def _any_type(self, schema: Json) -> Json:
        return {**schema, "anyOf": [{"type": kind} for kind in _TYPES]}

    def _resolve(self, schema: Any) -> Json:
        return _resolved(schema, self._root)


def _merge_all(schemas: list[Json]) -> Json:
    """Return one schema with the keywords of all: properties and required names together, else the last one's."""
    merged: Json = {}
    for schema in schemas:
        for keyword, value in schema.items():
            before = merged.get(keyword)
            if keyword == "properties" and isinstance(before, dict) and isinstance(value, dict):
                merged[keyword] = {**before, **value}
            elif keyword == "required" and isinstance(before, list) and isinstance(value, list):
                merged[keyword] = list(dict.fromkeys([*before, *value]))
            elif keyword not in ("if", "then", "else", "not"):
                merged[keyword] = value
    return merged


def _fits(keyword: str, kind: Any) -> bool:
    expected = _TYPE_OF_KEYWORD.get(keyword)
    return expected is None or kind is None or expected == kind or (expected == "number" and kind == "integer")


def _kind_of(value: Any) -> str:
    for kind, types in (("boolean", bool), ("integer", int), ("number", float), ("string", str), ("array", list)):
        if isinstance(value, types):
            return kind
    return "null" if value is None else "object" if isinstance(value, Mapping) else "string"
