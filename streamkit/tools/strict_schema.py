"""Conversion of tools' schemas to the form that a provider's strict mode takes.

Strict modes compile the schema to a grammar, so each takes a subset of JSON Schema and refuses requests with anything
else. What they have in common is implemented here, their differences are data (``StrictProfile``), which is declared by
the providers: this module depends on none of them.

* Objects are closed. An open one (``dict[str, int]``) cannot be expressed: a ``UsageError``.
* If every property must be required, an optional one accepts null too. The model then sends null for what it would
  omit; ``drop_placeholder_nulls`` removes these nulls again, so that defaults apply.
* A constraint (``minLength``) that the target does not take is added to the description, as ``transform_schema`` of
  Anthropic's SDK does: "{minLength: 3}". It still holds: the tool's own validation applies it.
* A keyword that gives the schema another shape (``patternProperties``, ``prefixItems``, ``not``) is a ``UsageError``.
* ``oneOf`` becomes ``anyOf``, ``const`` an ``enum`` with one value, a single ``allOf`` is merged: forms that all
  targets take.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, Protocol

from streamkit.errors import UsageError
from streamkit.tools.json_schema import accepts_null
from streamkit.values.schemas import StrictProfile, resolve_reference, unescape_json_pointer

__all__ = [
    "StrictSchema",
    "check_strict",
    "strict_parameters",
]


# Keywords that give a schema another shape than closed objects, arrays of one type, unions and scalars.
_SHAPE_KEYWORDS = frozenset(
    (
        *("patternProperties", "propertyNames", "dependentSchemas", "dependentRequired", "dependencies"),
        *("unevaluatedItems", "prefixItems", "additionalItems", "contains", "minContains", "maxContains"),
        *("not", "if", "then", "else", "$dynamicRef", "$recursiveRef"),
    )
)


# Keywords that tell a model nothing (a title repeats the name), or that were converted to something else.
_CONVERTED_KEYWORDS = frozenset(
    (
        *("$schema", "$id", "$comment", "$anchor", "$defs", "definitions", "title", "description"),
        *("type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "nullable", "discriminator"),
        *("properties", "required", "additionalProperties", "unevaluatedProperties", "items"),
    )
)


# The keywords that apply to one type alone: if a schema has several types, each gets its own.
_KEYWORDS_OF_TYPE = {
    "string": frozenset(["minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"]),
    "number": frozenset(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]),
    "array": frozenset(["items", "minItems", "maxItems", "uniqueItems"]),
    "object": frozenset(["properties", "required", "additionalProperties", "minProperties", "maxProperties"]),
}


_TYPES = ("string", "integer", "number", "boolean", "null", "object", "array")


_ANNOTATIONS = frozenset(("title", "description", "default", "examples"))


_LARGEST = 10_000  # schemas in a schema; definitions that use each other twice grow exponentially


_DEEPEST = 100  # levels of a path


_ANY_TARGET = StrictProfile("", keywords=None)


def check_strict(name: str, parameters: Mapping[str, Any]) -> None:
    """Check that a schema can be converted for some strict mode.

    Raises:
        UsageError: it cannot; the message gives the path and the reason.
    """
    try:
        StrictSchema(f"tool {name}", parameters, _ANY_TARGET).parameters()
    except RecursionError:
        raise UsageError(f"tool {name} cannot be strict: its schema is nested too deeply") from None


class StrictSchema:
    """The conversion of one schema to a target's form, and the counts of its contents.

    ``subject`` names what has the schema in messages, such as "tool search".
    """

    def __init__(self, subject: str, root: Mapping[str, Any], profile: StrictProfile) -> None:
        self.properties: int = 0  # the number of properties; those of a definition count once
        self.optional: int = 0  # the number of properties that are not required
        self.unions: int = 0  # the number of properties with ``anyOf`` or several types
        self._enum_values = 0
        self._schemas = 0
        self._subject = subject
        self._root = dict(root)
        self._profile = profile
        self._definitions: dict[str, Any] = {}  # the referenced ones, by name; empty during the conversion
        self._references: dict[str, str] = {}  # by the name of the definition

    def parameters(self) -> dict[str, Any]:
        """Return the schema in the target's form.

        Raises:
            UsageError: the schema has no such form; the message gives the path and the reason.
        """
        schema = self._convert(self._root, "", ("#",))
        if schema.get("type") != "object":
            self._refuse("", "is not an object")
        if self._definitions:
            schema["$defs"] = {
                unescape_json_pointer(name): definition for name, definition in self._definitions.items()
            }
        for subject, count, limit in (
            ("properties", self.properties, self._profile.properties),
            ("values in enums", self._enum_values, self._profile.enum_values),
            ("nested objects", _depth(schema, schema, {"#": 0}), self._profile.depth),
        ):
            if limit is not None and count > limit:
                self._refuse("", f"has {count} {subject}, but at most {limit} are allowed")
        return schema

    def _refuse(self, path: str, reason: str) -> NoReturn:
        target = f" for {self._profile.target}" if self._profile.target else ""
        raise UsageError(f"{self._subject} cannot be strict{target}: {path or 'its schema'} {reason}")

    def _convert(self, node: Any, path: str, within: tuple[str, ...]) -> dict[str, Any]:
        """Convert one schema. ``path``: its position; ``within``: the references that led to it."""
        self._schemas += 1
        if self._schemas > _LARGEST or path.count(".") + path.count("[") > _DEEPEST:
            self._refuse("", "is too large or too deep after its references are inlined")
        if not isinstance(node, Mapping) or not node:
            self._refuse(path, "accepts anything; give it a type" if node is True or node == {} else "is not a schema")
        if "$ref" in node:
            return self._convert_reference(node, path, within)
        for keyword in node:
            if keyword in _SHAPE_KEYWORDS or (keyword == "unevaluatedProperties" and node[keyword] is not False):
                self._refuse(path, f"uses {keyword}, which no strict mode can express")
        if "allOf" in node:
            if not isinstance(node["allOf"], list) or len(node["allOf"]) != 1:
                self._refuse(path, "uses allOf of several schemas; write them as one")
            return self._convert(self._merge(node["allOf"][0], node, "allOf", path), path, within)
        if node.get("nullable") is True:  # OpenAPI's keyword
            plain = {keyword: value for keyword, value in node.items() if keyword != "nullable"}
            schema = self._convert(plain, path, within)
            return schema if accepts_null(plain, self._root) else self._make_nullable(schema)
        options = node.get("anyOf", node.get("oneOf"))
        if options is not None:
            return self._convert_union(node, options, path, within)
        if "enum" in node or "const" in node:
            return self._convert_enum(node, path)
        kind = node.get("type")
        if isinstance(kind, list) and len(kind) > 1:
            return self._convert_types(node, kind, path, within)
        if isinstance(kind, list) and kind:
            (kind,) = kind
        if kind is None:
            kind = "object" if "properties" in node else "array" if "items" in node else None
        if kind not in _TYPES:
            self._refuse(path, "accepts anything; give it a type" if kind is None else f"has the type {kind!r}")
        return self._convert_typed(node, str(kind), path, within)

    def _convert_reference(self, node: Mapping[str, Any], path: str, within: tuple[str, ...]) -> dict[str, Any]:
        reference = node["$ref"]
        target = resolve_reference(reference, self._root)
        if target is None:
            self._refuse(path, f"refers to {reference!r}, which is not in the schema")
        is_recursive = reference in within
        if is_recursive and not self._profile.recursive:
            self._refuse(path, f"refers to itself ({reference}), and recursive schemas are refused")
        container, _, name = str(reference).rpartition("/")
        is_definition = container in ("#/$defs", "#/definitions")
        merged = self._merge(target, node, "$ref", path)
        if not is_recursive and (merged != target or not is_definition or not path or not self._profile.references):
            # A reference takes no keywords next to it (OpenAI's to_strict_json_schema inlines those too), and the root
            # of a schema is an object, not a reference.
            return self._convert(merged, path, (*within, reference))
        if not is_definition and reference != "#":
            self._refuse(path, f"refers to itself by {reference!r}; only definitions ($defs) can")
        if is_definition and self._references.setdefault(name, reference) != reference:
            self._refuse(path, f"has two definitions with the name {name!r}")
        if is_definition and name not in self._definitions:
            self._definitions[name] = {}  # reserves its position, and ends the recursion
            self._definitions[name] = self._convert(target, name, (*within, reference))
        schema = {"$ref": f"#/$defs/{name}" if is_definition else reference}
        description = self._description(node, {})
        return {"anyOf": [schema], **description} if description else schema

    def _merge(self, inner: Any, node: Mapping[str, Any], keyword: str, path: str) -> Mapping[str, Any]:
        """Merge a schema with the keywords next to the keyword that refers to it."""
        if not isinstance(inner, Mapping):
            self._refuse(path, f"has an {keyword} that is not a schema")
        siblings = {key: value for key, value in node.items() if key not in (keyword, "$defs", "definitions")}
        if siblings.get("properties") == {}:  # every explicit schema has them (``object_schema``)
            del siblings["properties"]
        for key in siblings:
            if key in inner and key not in _ANNOTATIONS and siblings[key] != inner[key]:
                self._refuse(path, f"has {key} next to its {keyword}, which contains it with another value")
        return {**inner, **siblings} if siblings else inner

    def _convert_typed(self, node: Mapping[str, Any], kind: str, path: str, within: tuple[str, ...]) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": kind}
        if kind == "object":
            schema |= self._convert_object(node, path, within)
        elif kind == "array":
            items = node.get("items")
            if items is None or items is True or items == {}:
                self._refuse(path, "is an array of anything; give its items a type")
            schema["items"] = self._convert(items, f"{path}[]", within)
        return self._with_constraints(schema, node)

    def _convert_object(self, node: Mapping[str, Any], path: str, within: tuple[str, ...]) -> dict[str, Any]:
        additional = node.get("additionalProperties", False if "properties" in node else None)
        if additional is not False:
            self._refuse(path, "is an open object; name its properties, or take a list of names and values")
        properties, required = node.get("properties", {}), node.get("required", [])
        if not isinstance(properties, Mapping) or not isinstance(required, list):
            self._refuse(path, "is not the schema of an object: properties must be an object, required a list")
        for name in required:
            if not isinstance(name, str) or name not in properties:
                self._refuse(path, f"requires {name!r}, which is not among its properties")
        if self._profile.some_required and not required:
            self._refuse(path, "has no required property, but at least one is needed")
        converted: dict[str, Any] = {}
        for name, value in properties.items():
            child = self._convert(value, f"{path}.{name}" if path else str(name), within)
            if name not in required:
                if not self._profile.every_required:
                    self.optional += 1
                elif not accepts_null(value, self._root):
                    child = self._make_nullable(child)
            self.unions += "anyOf" in child or isinstance(child.get("type"), list)
            converted[name] = child
        self.properties += len(converted)
        if self._profile.every_required:
            required = list(converted)
        needed = {"required": required} if required or self._profile.every_required else {}
        return {"properties": converted, **needed, "additionalProperties": False}

    def _convert_union(
        self, node: Mapping[str, Any], options: Any, path: str, within: tuple[str, ...]
    ) -> dict[str, Any]:
        conflicts = [keyword for keyword in ("type", "properties", "items", "enum", "const") if keyword in node]
        if conflicts or ("anyOf" in node and "oneOf" in node):
            self._refuse(
                path,
                f"uses {conflicts[0] if conflicts else 'oneOf'} next to anyOf; write each option as a complete schema",
            )
        if not isinstance(options, list) or not options:
            self._refuse(path, "has no options to choose from")
        converted = [
            self._convert(option, f"{path}.anyOf[{n}]".lstrip("."), within) for n, option in enumerate(options)
        ]
        return self._with_constraints(self._union(converted), node)

    def _convert_types(
        self, node: Mapping[str, Any], kinds: Sequence[Any], path: str, within: tuple[str, ...]
    ) -> dict[str, Any]:
        typed_keywords = frozenset().union(*_KEYWORDS_OF_TYPE.values())
        converted = []
        for kind in kinds:
            own_keywords = (
                _KEYWORDS_OF_TYPE.get("number" if kind == "integer" else kind, frozenset())
                if isinstance(kind, str)
                else ()
            )
            part = {keyword: value for keyword, value in node.items() if keyword in own_keywords}
            converted.append(self._convert({"type": kind, **part}, path, within))
        return self._with_constraints(
            self._union(converted), {keyword: node[keyword] for keyword in node if keyword not in typed_keywords}
        )

    def _convert_enum(self, node: Mapping[str, Any], path: str) -> dict[str, Any]:
        values = [node["const"]] if "const" in node else node["enum"]
        kinds = node.get("type", list(_TYPES))
        allowed = kinds if isinstance(kinds, list) else [kinds]
        by_kind: dict[str, list[Any]] = {}
        for value in values if isinstance(values, list) else ():
            kind = _type_of(value)
            if kind is None:
                self._refuse(
                    path, f"has {json.dumps(value, default=repr)} among its values, which is not a plain value"
                )
            fitting = kind if kind in allowed else "number" if kind == "integer" and "number" in allowed else None
            if fitting is not None:
                by_kind.setdefault(fitting, []).append(value)
        if not by_kind:
            self._refuse(path, "has no value that fits its type")
        self._enum_values += sum(map(len, by_kind.values()))
        options = [
            {"type": kind} if kind == "null" else {"type": kind, "enum": values_of_kind}
            for kind, values_of_kind in by_kind.items()
        ]
        return self._with_constraints(self._union(options), node)

    def _union(self, options: list[dict[str, Any]]) -> dict[str, Any]:
        if len(options) == 1:
            return options[0]
        if self._profile.type_lists and all(
            list(option) == ["type"] and isinstance(option["type"], str) and option["type"] not in ("object", "array")
            for option in options
        ):
            return {"type": [option["type"] for option in options]}
        return {"anyOf": options}

    def _make_nullable(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema of the same values or null."""
        null = {"type": "null"}
        description = {"description": schema["description"]} if "description" in schema else {}
        plain = {keyword: value for keyword, value in schema.items() if keyword != "description"}
        if "anyOf" in plain:
            return {"anyOf": [*plain["anyOf"], null], **description}
        if isinstance(plain.get("type"), list):
            plain["type"] = [*plain["type"], "null"]
            return {**plain, **description}
        return {**self._union([plain, null]), **description}

    def _with_constraints(self, schema: dict[str, Any], node: Mapping[str, Any]) -> dict[str, Any]:
        """Add the other keywords of a schema: unchanged if the target takes them, else to the description."""
        untaken: dict[str, Any] = {}
        accepted = self._profile.keywords
        for keyword, value in node.items():
            if keyword in _CONVERTED_KEYWORDS or (keyword == "default" and value is None):
                continue
            values = None if accepted is None else accepted.get(keyword, frozenset())
            if values is None or (isinstance(value, (str, int)) and value in values):
                schema[keyword] = value
            else:
                untaken[keyword] = value
        return schema | self._description({**schema, **node}, untaken)

    def _description(self, node: Mapping[str, Any], untaken: Mapping[str, Any]) -> dict[str, Any]:
        parts = [node["description"]] if node.get("description") else []
        if untaken:
            constraints = (
                f"{keyword}: {json.dumps(value, ensure_ascii=False, default=repr)}"
                for keyword, value in untaken.items()
            )
            parts.append(f"{{{', '.join(constraints)}}}")
        return {"description": "\n\n".join(map(str, parts))} if parts else {}


def _type_of(value: Any) -> str | None:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    if isinstance(value, (int, float)):
        return "integer" if isinstance(value, int) else "number"
    return "string" if isinstance(value, str) else None


def _depth(node: Mapping[str, Any], root: Mapping[str, Any], known: dict[str, int]) -> int:
    """Return the depth of nested objects; a recursion counts once."""
    if "$ref" in node:
        reference = node["$ref"]
        if reference not in known:
            known[reference] = 0
            known[reference] = _depth(resolve_reference(reference, root) or {}, root, known)
        return known[reference]
    inner = [*node.get("properties", {}).values(), *node.get("anyOf", ())]
    if "items" in node:
        inner.append(node["items"])
    return (node.get("type") == "object") + max((_depth(part, root, known) for part in inner), default=0)


class _StrictTool(Protocol):
    """What a tool's strict schema depends on: a ``Tool`` or a definition of one."""

    @property
    def name(self) -> str: ...
    @property
    def parameters(self) -> dict[str, Any]: ...
    @property
    def strict(self) -> bool: ...


def strict_parameters(tools: Iterable[_StrictTool], profile: StrictProfile | None) -> dict[str, dict[str, Any]]:
    """Return the converted parameters of the strict tools, by the tool's name.

    Args:
        tools: all tools of the request.
        profile: the target's profile; None if it has no strict mode.

    Raises:
        UsageError: a schema, or all of them together, cannot be converted; the message gives the tool, the path and the
            reason.
    """
    all_tools = list(tools)
    strict_tools = [tool for tool in all_tools if tool.strict]
    if profile is None or (profile.all_or_none and len(strict_tools) < len(all_tools)):
        return {}
    converted: dict[str, dict[str, Any]] = {}
    fields = optional = unions = 0
    for tool in strict_tools:
        schema = StrictSchema(f"tool {tool.name}", tool.parameters, profile)
        converted[tool.name] = schema.parameters()
        fields += schema.properties
        optional += schema.optional
        unions += schema.unions
    for subject, count, limit in (
        ("strict tools", len(strict_tools), profile.tools),
        ("properties", fields, profile.fields),
        ("properties that are not required", optional, profile.optional),
        ("properties of several types", unions, profile.unions),
    ):
        if limit is not None and count > limit:
            raise UsageError(
                f"the strict tools of a request to {profile.target} may have {limit} {subject}, but these have "
                f"{count}: {', '.join(converted)}; make fewer of them strict"
            )
    return converted
