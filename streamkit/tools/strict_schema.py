"""A schema in the form that a provider's strict mode takes.

Strict modes compile the schema to a grammar, so each takes a subset of JSON Schema and refuses a request with the rest.
What they have in common is done here, what they differ in is data (``StrictRules``): no provider is known here.

* Objects are closed. One that takes names of its own choice (``dict[str, int]``) cannot be said: a ``UsageError``.
* Where every property must be required, an optional one takes null as well. The model then sends null for what it would
  have left out; ``without_padding`` takes those nulls away again, so that defaults apply.
* A word that only constrains (``minLength``) and that the target does not take is said in the description instead, as
  ``transform_schema`` of Anthropic's SDK does: "{minLength: 3}". It still holds: the tool's own validation sees it.
* A word that gives the schema another shape (``patternProperties``, ``prefixItems``, ``not``) is a ``UsageError``.
* ``oneOf`` becomes ``anyOf``, ``const`` an ``enum`` of one, a single ``allOf`` is merged: the forms that all take.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from streamkit.errors import UsageError
from streamkit.tools.strict_rules import StrictProfile
from streamkit.tools.unpadding import accepts_null, resolve_reference, unescape_json_pointer

__all__ = ["StrictSchema"]

# What gives a schema another shape than closed objects, arrays of one kind, unions and scalars.
_SHAPES = frozenset(
    [
        "patternProperties",
        "propertyNames",
        "dependentSchemas",
        "dependentRequired",
        "dependencies",
        "unevaluatedItems",
        "prefixItems",
        "additionalItems",
        "contains",
        "minContains",
        "maxContains",
        "not",
        "if",
        "then",
        "else",
        "$dynamicRef",
        "$recursiveRef",
    ]
)
# What says nothing to a model (a title repeats the name), or has been read into something else.
_SILENT = frozenset(
    [
        "$schema",
        "$id",
        "$comment",
        "$anchor",
        "$defs",
        "definitions",
        "title",
        "description",
        "type",
        "enum",
        "const",
        "anyOf",
        "oneOf",
        "allOf",
        "$ref",
        "nullable",
        "discriminator",
        "properties",
        "required",
        "additionalProperties",
        "unevaluatedProperties",
        "items",
    ]
)
# The words that concern one type alone: of several types, each gets its own.
_CONCERNS = {
    "string": frozenset(["minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"]),
    "number": frozenset(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]),
    "array": frozenset(["items", "minItems", "maxItems", "uniqueItems"]),
    "object": frozenset(["properties", "required", "additionalProperties", "minProperties", "maxProperties"]),
}
_TYPES = ("string", "integer", "number", "boolean", "null", "object", "array")
_ANNOTATIONS = frozenset(("title", "description", "default", "examples"))
_LARGEST = 10_000  # schemas in a schema: beyond it, definitions that use each other twice have grown exponentially
_DEEPEST = 100


class StrictSchema:
    """One tool's schema on its way into a target's form, and what is counted on the way.

    Args:
        tool: its name, for sentences.
        root: its parameters.
        rules: the target's.

    Attributes:
        properties: how many there are, those of a definition counted once.
        optional: of them, those that are not required.
        unions: of them, those that say ``anyOf`` or several types.
    """

    def __init__(self, tool: str, root: Mapping[str, Any], rules: StrictProfile) -> None:
        self.properties = 0
        self.optional = 0
        self.unions = 0
        self._enum_values = 0
        self._schemas = 0
        self._tool = tool
        self._root = dict(root)
        self._rules = rules
        self._definitions: dict[str, Any] = {}  # those that are referred to, by name; empty while one is being made
        self._references: dict[str, str] = {}  # by the name of their definition

    def parameters(self) -> dict[str, Any]:
        """The schema in the target's form.

        Raises:
            UsageError: it has none; the message names the path and says why.
        """
        made = self._schema(self._root, "", ("#",))
        if made.get("type") != "object":
            self._refuse("", "is not an object")
        if self._definitions:
            made["$defs"] = {unescape_json_pointer(name): definition for name, definition in self._definitions.items()}
        for what, count, most in (
            ("properties", self.properties, self._rules.properties),
            ("values in enums", self._enum_values, self._rules.enum_values),
            ("objects in each other", _depth(made, made, {"#": 0}), self._rules.depth),
        ):
            if most is not None and count > most:
                self._refuse("", f"has {count} {what}, and {most} are the most")
        return made

    def _refuse(self, path: str, why: str) -> NoReturn:
        of = f" for {self._rules.target}" if self._rules.target else ""
        raise UsageError(f"tool {self._tool} cannot be strict{of}: {path or 'its schema'} {why}")

    def _schema(self, node: Any, path: str, within: tuple[str, ...]) -> dict[str, Any]:
        """One schema. ``path``: where it stands; ``within``: the references that led here."""
        self._schemas += 1
        if self._schemas > _LARGEST or path.count(".") + path.count("[") > _DEEPEST:
            self._refuse("", "is too large, or too deep, once its references are written out")
        if not isinstance(node, Mapping) or not node:
            self._refuse(path, "accepts anything; give it a type" if node is True or node == {} else "is no schema")
        if "$ref" in node:
            return self._referred(node, path, within)
        for word in node:
            if word in _SHAPES or (word == "unevaluatedProperties" and node[word] is not False):
                self._refuse(path, f"uses {word}, which no strict mode can express")
        if "allOf" in node:
            if not isinstance(node["allOf"], list) or len(node["allOf"]) != 1:
                self._refuse(path, "uses allOf of several schemas; write them as one")
            return self._schema(self._merged(node["allOf"][0], node, "allOf", path), path, within)
        if node.get("nullable") is True:  # OpenAPI's word
            rest = {word: value for word, value in node.items() if word != "nullable"}
            made = self._schema(rest, path, within)
            return made if accepts_null(rest, self._root) else self._nullable(made)
        options = node.get("anyOf", node.get("oneOf"))
        if options is not None:
            return self._union_of(node, options, path, within)
        if "enum" in node or "const" in node:
            return self._enum(node, path)
        kind = node.get("type")
        if isinstance(kind, list) and len(kind) > 1:
            return self._types(node, kind, path, within)
        if isinstance(kind, list) and kind:
            (kind,) = kind
        if kind is None:
            kind = "object" if "properties" in node else "array" if "items" in node else None
        if kind not in _TYPES:
            self._refuse(path, "accepts anything; give it a type" if kind is None else f"has the type {kind!r}")
        return self._typed(node, str(kind), path, within)

    def _referred(self, node: Mapping[str, Any], path: str, within: tuple[str, ...]) -> dict[str, Any]:
        reference = node["$ref"]
        target = resolve_reference(reference, self._root)
        if target is None:
            self._refuse(path, f"refers to {reference!r}, which is not in the schema")
        again = reference in within
        if again and not self._rules.recursive:
            self._refuse(path, f"refers to itself ({reference}), and recursive schemas are refused")
        place, _, name = str(reference).rpartition("/")
        named = place in ("#/$defs", "#/definitions")
        whole = self._merged(target, node, "$ref", path)
        if not again and (whole != target or not named or not path or not self._rules.references):
            # A reference takes no words beside it (OpenAI's to_strict_json_schema writes those out, too), and the whole
            # is an object, no reference.
            return self._schema(whole, path, (*within, reference))
        if not named and reference != "#":
            self._refuse(path, f"refers to itself by {reference!r}; only definitions ($defs) can")
        if named and self._references.setdefault(name, reference) != reference:
            self._refuse(path, f"has two definitions that are called {name!r}")
        if named and name not in self._definitions:
            self._definitions[name] = {}  # keeps its place, and ends the recursion
            self._definitions[name] = self._schema(target, name, (*within, reference))
        made = {"$ref": f"#/$defs/{name}" if named else reference}
        described = self._description(node, {})
        return {"anyOf": [made], **described} if described else made

    def _merged(self, inner: Any, node: Mapping[str, Any], word: str, path: str) -> Mapping[str, Any]:
        """A schema with what is said beside the word that brought it here."""
        if not isinstance(inner, Mapping):
            self._refuse(path, f"has an {word} that is no schema")
        beside = {key: value for key, value in node.items() if key not in (word, "$defs", "definitions")}
        if beside.get("properties") == {}:  # every given schema has them (``object_schema``)
            del beside["properties"]
        for key in beside:
            if key in inner and key not in _ANNOTATIONS and beside[key] != inner[key]:
                self._refuse(path, f"says {key} beside its {word}, which says it too")
        return {**inner, **beside} if beside else inner

    def _typed(self, node: Mapping[str, Any], kind: str, path: str, within: tuple[str, ...]) -> dict[str, Any]:
        made: dict[str, Any] = {"type": kind}
        if kind == "object":
            made |= self._object(node, path, within)
        elif kind == "array":
            items = node.get("items")
            if items is None or items is True or items == {}:
                self._refuse(path, "is an array of anything; give its items a type")
            made["items"] = self._schema(items, f"{path}[]", within)
        return self._with_words(made, node)

    def _object(self, node: Mapping[str, Any], path: str, within: tuple[str, ...]) -> dict[str, Any]:
        additional = node.get("additionalProperties", False if "properties" in node else None)
        if additional is not False:
            self._refuse(path, "is an open object; name its properties, or take a list of names and values")
        properties, required = node.get("properties", {}), node.get("required", [])
        if not isinstance(properties, Mapping) or not isinstance(required, list):
            self._refuse(path, "is no object's schema: properties is an object, required a list")
        for name in required:
            if not isinstance(name, str) or name not in properties:
                self._refuse(path, f"requires {name!r}, which is not among its properties")
        if self._rules.some_required and not required:
            self._refuse(path, "has no required property, and one is the least")
        made: dict[str, Any] = {}
        for name, value in properties.items():
            child = self._schema(value, f"{path}.{name}" if path else str(name), within)
            if name not in required:
                if not self._rules.every_required:
                    self.optional += 1
                elif not accepts_null(value, self._root):
                    child = self._nullable(child)
            self.unions += "anyOf" in child or isinstance(child.get("type"), list)
            made[name] = child
        self.properties += len(made)
        if self._rules.every_required:
            required = list(made)
        needed = {"required": required} if required or self._rules.every_required else {}
        return {"properties": made, **needed, "additionalProperties": False}

    def _union_of(self, node: Mapping[str, Any], options: Any, path: str, within: tuple[str, ...]) -> dict[str, Any]:
        beside = [word for word in ("type", "properties", "items", "enum", "const") if word in node]
        if beside or ("anyOf" in node and "oneOf" in node):
            self._refuse(path, f"uses {beside[0] if beside else 'oneOf'} beside anyOf; write each option whole")
        if not isinstance(options, list) or not options:
            self._refuse(path, "has no options to choose from")
        made = [self._schema(option, f"{path}.anyOf[{n}]".lstrip("."), within) for n, option in enumerate(options)]
        return self._with_words(self._union(made), node)

    def _types(
        self, node: Mapping[str, Any], kinds: Sequence[Any], path: str, within: tuple[str, ...]
    ) -> dict[str, Any]:
        every = frozenset().union(*_CONCERNS.values())
        made = []
        for kind in kinds:
            own = _CONCERNS.get("number" if kind == "integer" else kind, frozenset()) if isinstance(kind, str) else ()
            part = {word: value for word, value in node.items() if word in own}
            made.append(self._schema({"type": kind, **part}, path, within))
        return self._with_words(self._union(made), {word: node[word] for word in node if word not in every})

    def _enum(self, node: Mapping[str, Any], path: str) -> dict[str, Any]:
        values = [node["const"]] if "const" in node else node["enum"]
        kinds = node.get("type", list(_TYPES))
        allowed = kinds if isinstance(kinds, list) else [kinds]
        by_kind: dict[str, list[Any]] = {}
        for value in values if isinstance(values, list) else ():
            kind = _kind(value)
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
        made = [{"type": kind} if kind == "null" else {"type": kind, "enum": given} for kind, given in by_kind.items()]
        return self._with_words(self._union(made), node)

    def _union(self, options: list[dict[str, Any]]) -> dict[str, Any]:
        if len(options) == 1:
            return options[0]
        if self._rules.type_lists and all(list(option) == ["type"] and _scalar(option) for option in options):
            return {"type": [option["type"] for option in options]}
        return {"anyOf": options}

    def _nullable(self, made: dict[str, Any]) -> dict[str, Any]:
        """The same or null."""
        null = {"type": "null"}
        description = {"description": made["description"]} if "description" in made else {}
        plain = {word: value for word, value in made.items() if word != "description"}
        if "anyOf" in plain:
            return {"anyOf": [*plain["anyOf"], null], **description}
        if isinstance(plain.get("type"), list):
            plain["type"] = [*plain["type"], "null"]
            return {**plain, **description}
        return {**self._union([plain, null]), **description}

    def _with_words(self, made: dict[str, Any], node: Mapping[str, Any]) -> dict[str, Any]:
        """What a schema says beside its shape: as it is where the target takes it, else in the description."""
        said: dict[str, Any] = {}
        taken = self._rules.words
        for word, value in node.items():
            if word in _SILENT or (word == "default" and value is None):
                continue
            values = None if taken is None else taken.get(word, frozenset())
            if values is None or (isinstance(value, (str, int)) and value in values):
                made[word] = value
            else:
                said[word] = value
        return made | self._description({**made, **node}, said)

    def _description(self, node: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
        parts = [node["description"]] if node.get("description") else []
        if said:
            words = (f"{word}: {json.dumps(value, ensure_ascii=False, default=repr)}" for word, value in said.items())
            parts.append(f"{{{', '.join(words)}}}")
        return {"description": "\n\n".join(map(str, parts))} if parts else {}


def _kind(value: Any) -> str | None:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    if isinstance(value, (int, float)):
        return "integer" if isinstance(value, int) else "number"
    return "string" if isinstance(value, str) else None


def _scalar(option: Mapping[str, Any]) -> bool:
    return isinstance(option["type"], str) and option["type"] not in ("object", "array")


def _depth(node: Mapping[str, Any], root: Mapping[str, Any], known: dict[str, int]) -> int:
    """How many objects stand in each other; a recursion counts once."""
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
