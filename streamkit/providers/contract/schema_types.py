"""The types in the schemas of tools, for targets that require one in every schema.

JSON Schema requires none. Where a type is missing, the values, the other keywords or the schema around it show which
one is meant; without any of these it is every type. Only ``tool_schema`` knows what a target requires: this module must
not depend on it, nor on a provider.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Any

from streamkit.values.schemas import (
    COMBINATIONS,
    DEEPEST,
    SCHEMAS_BY_NAME,
    UNIONS,
    Json,
    resolve_reference,
    resolve_schema,
)

__all__ = ["OneTypeSchema", "with_types"]

_ANNOTATIONS = ("description", "title", "default", "examples", "$comment")
_TYPES = ("string", "number", "boolean", "object", "array", "null")
#: The type that a schema with one of these keywords, and without a type, describes.
_TYPE_OF_KEYWORD = {
    **dict.fromkeys(("properties", "required", "additionalProperties", "patternProperties"), "object"),
    **dict.fromkeys(("items", "prefixItems", "minItems", "maxItems", "uniqueItems"), "array"),
    **dict.fromkeys(("minLength", "maxLength", "pattern", "format"), "string"),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), "number"),
}
_DEFINITION_NAME = re.compile(r"[\w.-]+")
_OWN_DEFINITION = re.compile(r"#/\$defs/[\w.-]+")


# ---------------------------------------------------------------- a type in every schema


def with_types(schema: Any, within: Any, changes: list[str]) -> Any:
    """Return the schema with a type wherever there was none; add a sentence to ``changes`` if there was such a place.

    ``within`` is the type of the schema of which it is an option.
    """
    if isinstance(schema, list):
        return [with_types(item, within, changes) for item in schema]
    if not isinstance(schema, dict):
        return schema
    converted = dict(schema)
    if not any(keyword in schema for keyword in ("type", "$ref", *COMBINATIONS)):
        changes.append("a type was added where there was none")
        converted = {"type": _type_of(schema, within), **schema}
    for keyword, value in schema.items():
        if keyword in SCHEMAS_BY_NAME and isinstance(value, dict):
            converted[keyword] = {name: with_types(item, None, changes) for name, item in value.items()}
        elif keyword in COMBINATIONS:
            converted[keyword] = with_types(value, schema.get("type", within), changes)
        elif keyword in ("items", "prefixItems") or (keyword == "additionalProperties" and value != {}):
            converted[keyword] = with_types(value, None, changes)
    return schema if converted == schema else converted


def _type_of(schema: Json, within: Any) -> Any:
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list) and values:
        kinds = list(dict.fromkeys(map(_kind_of, values)))
        return kinds[0] if len(kinds) == 1 else kinds
    return next((kind for keyword, kind in _TYPE_OF_KEYWORD.items() if keyword in schema), within or list(_TYPES))


# ---------------------------------------------------------------- one type


class OneTypeSchema:
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
        if not isinstance(schema, dict) or depth > DEEPEST:
            return schema if isinstance(schema, dict) else self._any_type({}) if schema is True else schema
        if "$ref" in schema:
            return self._convert_reference(schema, depth)
        if "allOf" in schema:
            self._changes.append("allOf was merged")
            siblings = {key: value for key, value in schema.items() if key != "allOf"}
            return self._convert(_merge_all([siblings, *map(self._resolve, schema["allOf"])]), depth + 1)
        for keyword in UNIONS:
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
        target = resolve_reference(schema["$ref"], self._root) or resolve_reference(schema["$ref"], self._complete)
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
        shared = {key: value for key, value in schema.items() if key not in (*UNIONS, *_ANNOTATIONS) and key != "type"}
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
        return resolve_schema(schema, self._root)


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
