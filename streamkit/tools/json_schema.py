"""Validation of arguments against an explicit JSON schema, and removal of nulls that stand for omitted arguments.

The keywords are those of draft 2020-12 and their older forms that MCP servers and OpenAPI documents still use. Unknown
keywords, ``format`` and references to other documents are ignored, as the specification allows for the first two. A
``pattern`` is matched by pydantic's engine, whose time is linear in the text; one that it cannot compile is ignored.

Schemas come from foreign servers and may refer to themselves: a value and a schema are compared once, and the number of
comparisons is bounded. Problems are parts of a sentence for the model, with the path of the value.

A strict mode whose every property is required leaves a model no other way to omit an argument than null (see
``strict_schema``). A null is removed if its property is optional and does not accept null itself; then the default
applies, as if nothing had been sent.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeGuard

from pydantic_core import SchemaError, SchemaValidator, core_schema

from streamkit.values.json_data import json_excerpt
from streamkit.values.schemas import follow_reference, resolve_reference

__all__ = [
    "accepts_null",
    "describe_missing",
    "describe_surplus",
    "drop_placeholder_nulls",
    "find_problems",
]


MAX_STEPS = 100_000  #: comparisons of a value with a schema


MAX_PROBLEMS = 8  #: problems that are reported at once


_MISSING = object()


def find_problems(value: Any, schema: Any) -> list[str]:
    """Return what in JSON data breaks a schema, at most ``MAX_PROBLEMS`` sentences; none if it fits."""
    validator = _Validator(schema)
    try:
        return list(dict.fromkeys(validator.check(value, schema, "")))[:MAX_PROBLEMS]
    except (_TooManyStepsError, RecursionError):
        return ["they are too large or nested too deeply to be checked against the schema"]


def describe_missing(path: str, schema: Any) -> str:
    """Return the sentence for a required property that is absent."""
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    return f"{path} is missing" + (f", expected {_article(kind)}" if isinstance(kind, str) else "")


def describe_surplus(path: str, value: Any, known: Iterable[str]) -> str:
    """Return the sentence for a property that the schema does not allow."""
    names = ", ".join(known)
    return _wrong(path, value, f"only: {names}" if names else "no such argument")


def _wrong(path: str, value: Any, expected: str) -> str:
    return f"{path or 'the arguments'} was given {json_excerpt(value)}, expected {expected}"


class _TooManyStepsError(Exception):
    pass


class _Validator:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._steps = 0
        # By the identity of schema and value, which live as long, and by the path, because equal texts and numbers may
        # be one object in several places.
        self._known: dict[tuple[int, int, str], list[str]] = {}

    def check(self, value: Any, schema: Any, path: str) -> list[str]:
        """Return the problems of a value."""
        if schema is False:
            return [_wrong(path, value, "no value here")]
        if not isinstance(schema, Mapping):  # True, or no schema at all
            return []
        identity = (id(schema), id(value), "" if isinstance(value, (dict, list)) else path)
        if identity in self._known:
            return self._known[identity]
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise _TooManyStepsError
        self._known[identity] = []  # a schema that refers to itself for the same value adds nothing
        found = (problem for check in self._checks(value, schema) for problem in check(value, schema, path))
        problems = list(dict.fromkeys(found))  # of a schema that several others contain the same ones would add up
        self._known[identity] = problems
        return problems

    def _fits(self, value: Any, schema: Any) -> bool:
        return not self.check(value, schema, "")

    def _checks(self, value: Any, schema: Mapping[str, Any]) -> Iterator[Callable[..., Iterator[str]]]:
        if value is None and schema.get("nullable") is True:  # OpenAPI 3.0
            return
        yield self._reference
        kinds = schema.get("type", [])
        if "type" in schema and not any(
            _has_type(value, kind) for kind in (kinds if isinstance(kinds, list) else [kinds])
        ):
            yield self._type  # what the other keywords report would follow from it
            return
        yield self._values
        yield self._combinations
        if isinstance(value, str):
            yield self._string
        elif isinstance(value, dict):
            yield self._object
            yield self._names
        elif isinstance(value, list):
            yield self._array
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield self._number

    def _reference(self, value: Any, schema: Mapping[str, Any], path: str) -> Iterator[str]:
        if isinstance(schema.get("$ref"), str):
            yield from self.check(value, _resolve(schema["$ref"], self._root), path)

    def _type(self, value: Any, schema: Mapping[str, Any], path: str) -> Iterator[str]:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        yield _wrong(path, value, " or ".join(_article(kind) for kind in kinds))

    def _values(self, value: Any, schema: Mapping[str, Any], path: str) -> Iterator[str]:
        if "const" in schema and not _is_equal(value, schema["const"]):
            yield _wrong(path, value, json_excerpt(schema["const"]))
        options = schema.get("enum")
        if isinstance(options, list) and not any(_is_equal(value, option) for option in options):
            yield _wrong(path, value, f"one of: {', '.join(map(json_excerpt, options[:20]))}")

    def _combinations(self, value: Any, schema: Mapping[str, Any], path: str) -> Iterator[str]:
        for option in _list(schema.get("allOf")):
            yield from self.check(value, option, path)
        options = _list(schema.get("anyOf"))
        if options:
            yield from self._any_of(value, options, path)
        options = _list(schema.get("oneOf"))
        if options:
            count = sum(self._fits(value, option) for option in options)
            if count > 1:
                yield _wrong(path, value, f"a value of one form, but it has {count} of them")
            elif not count:
                yield from self._any_of(value, options, path)
        if "not" in schema and self._fits(value, schema["not"]):
            yield _wrong(path, value, f"a value that does not fit {json_excerpt(schema['not'])}")
        if "if" in schema:
            branch = "then" if self._fits(value, schema["if"]) else "else"
            if branch in schema:
                yield from self.check(value, schema[branch], path)

    def _any_of(self, value: Any, options: list[Any], path: str) -> Iterator[str]:
        problems = [self.check(value, option, path) for option in options]
        if all(problems):
            # The option that fits best is the one that was meant.
            yield (
                min(problems, key=len)[0]
                if len(options) == 1
                else _wrong(
                    path, value, "another form: " + " or: ".join(dict.fromkeys(each[0] for each in problems[:4]))
                )
            )

    def _string(self, value: str, schema: Mapping[str, Any], path: str) -> Iterator[str]:
        yield from self._bounds(len(value), value, schema, path, ("minLength", "maxLength"), "characters")
        pattern = schema.get("pattern")
        if isinstance(pattern, str) and not _matches(pattern, value):
            yield _wrong(path, value, f"a text that matches {pattern}")

    def _number(self, value: float, schema: Mapping[str, Any], path: str) -> Iterator[str]:
        is_lowest, is_highest = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")  # draft 4: booleans
        low, high = schema.get("minimum"), schema.get("maximum")
        if _is_number(low) and (value < low or (is_lowest is True and value == low)):
            yield _wrong(path, value, f"at least {low}")
        if _is_number(high) and (value > high or (is_highest is True and value == high)):
            yield _wrong(path, value, f"at most {high}")
        if _is_number(is_lowest) and value <= is_lowest:
            yield _wrong(path, value, f"more than {is_lowest}")
        if _is_number(is_highest) and value >= is_highest:
            yield _wrong(path, value, f"less than {is_highest}")
        factor = schema.get("multipleOf")
        if _is_number(factor) and factor > 0 and not _is_multiple(value, factor):
            yield _wrong(path, value, f"a multiple of {factor}")

    def _array(self, value: list[Any], schema: Mapping[str, Any], path: str) -> Iterator[str]:
        yield from self._bounds(len(value), value, schema, path, ("minItems", "maxItems"), "items")
        items = schema.get("items", True)
        prefix = _list(schema.get("prefixItems"))
        if isinstance(items, list):  # before draft 2020-12
            prefix, items = items, schema.get("additionalItems", True)
        for number, item in enumerate(value):
            yield from self.check(item, prefix[number] if number < len(prefix) else items, f"{path}[{number}]")
        if schema.get("uniqueItems") is True and len({_canonical(item) for item in value}) < len(value):
            yield _wrong(path, value, "items that differ")
        if "contains" in schema:
            count = sum(self._fits(item, schema["contains"]) for item in value)
            low, high = schema.get("minContains", 1), schema.get("maxContains", math.inf)
            if _is_number(low) and _is_number(high) and not low <= count <= high:
                yield _wrong(path, value, f"a list with items that fit {json_excerpt(schema['contains'])}")

    def _object(self, value: dict[str, Any], schema: Mapping[str, Any], path: str) -> Iterator[str]:
        yield from self._bounds(len(value), value, schema, path, ("minProperties", "maxProperties"), "properties")
        properties = schema.get("properties")
        properties = properties if isinstance(properties, Mapping) else {}
        patterns = schema.get("patternProperties")
        patterns = patterns if isinstance(patterns, Mapping) else {}
        for name in _list(schema.get("required")):
            if name not in value:
                yield describe_missing(_join(path, name), properties.get(name))
        others = schema.get("additionalProperties", True)
        for name, item in value.items():
            at = _join(path, name)
            matching = [each for pattern, each in patterns.items() if _matches(pattern, name)]
            if name in properties:
                matching.append(properties[name])
            if matching:
                for each in matching:
                    yield from self.check(item, each, at)
            elif others is False:
                yield describe_surplus(at, item, [] if path else list(properties))
            else:
                yield from self.check(item, others, at)

    def _names(self, value: dict[str, Any], schema: Mapping[str, Any], path: str) -> Iterator[str]:
        if "propertyNames" in schema:
            for name in value:
                yield from self.check(name, schema["propertyNames"], f"the name {json_excerpt(name)}")
        for keyword in ("dependentRequired", "dependentSchemas", "dependencies"):
            dependents = schema.get(keyword)
            for name, needed in dependents.items() if isinstance(dependents, Mapping) else ():
                if name not in value:
                    continue
                if isinstance(needed, list):
                    yield from (describe_missing(_join(path, each), None) for each in needed if each not in value)
                else:
                    yield from self.check(value, needed, path)

    def _bounds(
        self, size: int, value: Any, schema: Mapping[str, Any], path: str, names: tuple[str, str], unit: str
    ) -> Iterator[str]:
        low, high = schema.get(names[0]), schema.get(names[1])
        if _is_number(low) and size < low:
            yield _wrong(path, value, f"at least {low} {unit}")
        if _is_number(high) and size > high:
            yield _wrong(path, value, f"at most {high} {unit}")


# ---------------------------------------------------------------- JSON's own meaning of types and equality


def _has_type(value: Any, kind: Any) -> bool:
    if kind == "integer":  # 1.0 is one
        return not isinstance(value, bool) and (
            isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        )
    if kind == "number":
        return _is_number(value)
    types: dict[Any, type] = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
    return isinstance(value, types.get(kind, object)) if isinstance(kind, str) else True


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_equal(one: Any, other: Any) -> bool:
    return bool(one == other) and _canonical(one) == _canonical(other)  # not True == 1


def _canonical(value: Any) -> str:
    return json.dumps(_normalize(value), sort_keys=True, default=repr)


def _normalize(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _normalize(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_normalize(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_multiple(value: float, factor: float) -> bool:
    if isinstance(value, int) and isinstance(factor, int):
        return value % factor == 0
    try:
        quotient = value / factor
    except OverflowError:
        return True
    return math.isfinite(quotient) and abs(quotient - round(quotient)) < 1e-9


# ---------------------------------------------------------------- references and patterns


def _resolve(reference: str, root: Any) -> Any:
    """Return the schema to which a reference refers; True, which accepts anything, if that is not in this document."""
    found = follow_reference(reference, root)
    return True if found is None else found


@lru_cache(256)
def _compile(pattern: str) -> SchemaValidator | None:
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError:  # look-around and references within a pattern have no linear time
        return None


def _matches(pattern: str, text: str) -> bool:
    compiled = _compile(pattern)
    return compiled is None or compiled.isinstance_python(text)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _join(path: str, name: Any) -> str:
    return f"{path}.{name}" if path else str(name)


def _article(kind: Any) -> str:
    return "null" if kind == "null" else f"{'an' if str(kind)[:1] in 'aio' else 'a'} {kind}"


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
        if len(objects) > 1:
            objects = [node for node in objects if _matches_value(value, node, root)]
        if not objects:
            return value
        matching = objects[0]
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


def _matches_value(value: Mapping[str, Any], node: Mapping[str, Any], root: Mapping[str, Any]) -> bool:
    """Return True if a schema may describe an object, compared no deeper than its properties."""
    properties, required = node["properties"], node.get("required") or ()
    if any(name not in properties for name in value) or any(name not in value for name in required):
        return False
    return all(
        any(_may_have_type(item, option) for option in _options(properties[name], root))
        for name, item in value.items()
        if item is not None or name in required
    )


def _may_have_type(value: Any, node: Mapping[str, Any]) -> bool:
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
