"""The check of a request by the rules of its provider: what real providers refuse with status 400 or 422.

The real provider rejects an invalid request (a call without its result, an unknown field), and so does the embedded
server, with that provider's error body. The rules can also be applied without a server::

    assert validate_request("anthropic", body) == []

They check the conversation in a body, and its fields, types, limits and tools with ``complete``; without it, a body
without a conversation violates none. A rule that only applies to some models or settings is included only if the body
contains them. The vendor may still reject a body without violations; it rejects one with a violation according to the
source of the rule.

- ``Traits.request_rules`` names a wire's module, whose ``build_rules(traits)`` returns the rules of the conversation.
- ``request_types.json`` has the types of each wire, with the SDK's version; ``tests/request_table/request_types.py``
  writes it and describes its form. A field without a type in it is unknown.
- ``body_rules.json`` has one row a wire (`BodyRules`): what its server does with these types, its words for each kind
  of problem, the limits of its documentation, each with its source, and where its tools are. What has no source is
  not refused, such as two tools of one name by OpenAI, which accepts them (eclipse-theia/theia#16122).

This module must not depend on a provider.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from functools import cache, partial
from importlib import import_module
from importlib.resources import files
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from streamkit import providers
from streamkit.providers.provider import Provider
from streamkit.providers.registry import ProviderName
from streamkit.testing.rules.rule import Finding, Json, Rule, Violation, short_json

__all__ = ["BodyRules", "TypeRules", "list_rules", "validate_request"]

Path: TypeAlias = tuple[str | int, ...]
_DEEPEST = 60  # what nests deeper is not checked
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "number": (int, float),
    "integer": (int,),
    "object": (dict,),
}
_FOUND = {str: "string", bool: "boolean", int: "number", float: "number", list: "array", dict: "object"}
_TYPE_RULES: dict[str, tuple[str, ...]] = {
    "field_types": ("type",),
    "fields_present": ("missing",),
    "fields_known": ("unknown",),
    "values_allowed": ("value",),
    "limits_of_types": ("min", "max", "pattern"),
}
_TOOL_RULES = {"tool_names_unique": ("repeated",), "schema_is_object": ("schema",), "refs_resolve": ("dangling",)}
#: Keywords of a schema whose values are data and no schemas.
_DATA = {"const", "default", "enum", "example", "examples"}
#: A reference within a schema, of names without an escape.
_POINTER = re.compile(r"#((?:/[\w$-]+)+)")


def list_rules(provider: ProviderName | str | Provider, *, complete: bool = False) -> tuple[Rule, ...]:
    """Return the rules of a provider's wire, in the order in which they are checked.

    Args:
        provider: its name, or a ``Provider`` object.
        complete: whether to return the rules for the whole body as well, before those for the conversation.

    Raises:
        UnknownProvider: no provider has this name.
    """
    traits = providers.get(provider).traits
    rules: tuple[Rule, ...] = ()
    if traits.request_rules is not None:
        rules = import_module(traits.request_rules).build_rules(traits)
    return (*_build_body_rules(traits.name), *rules) if complete else rules


def validate_request(
    provider: ProviderName | str | Provider, body: Any, *, model: str = "", complete: bool = False
) -> list[Violation]:
    """Return the violations in a request's body for which the provider would reject it; empty if it is legal.

    Args:
        provider: its name, or a ``Provider`` object.
        body: the decoded JSON body. No value raises an exception.
        model: the requested model, if the body does not contain it, but the path.
        complete: whether to check the whole body (fields, types, limits, tools), as a strict server does, and not its
            conversation alone.

    Returns:
        The violations, in the order of the rules.

    Raises:
        UnknownProvider: no provider has this name.
    """
    rules = list_rules(provider, complete=complete)
    if not isinstance(body, dict):
        return [Violation("form", "body", "is not a JSON object", rules[0].source)] if rules else []
    name = body.get("model")
    requested_model = model or (name if isinstance(name, str) else "")
    return [violation for rule in rules for violation in rule.violations(body, requested_model)]


# ---------------------------------------------------------------- the rules of the body


class Problem(NamedTuple):
    """A value that is not of its type.

    ``kind`` is ``missing``, ``unknown``, ``type``, ``value`` (none of those allowed), or a limit: ``min``, ``max``,
    ``pattern``. ``expected`` is the type, the allowed values, or the limit.
    """

    kind: str
    path: Path
    value: Any
    expected: Any


class TypeRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a wire's server does with its types.

    Attributes:
        refuses_unknown: where it refuses unknown fields.
        is_protobuf: it reads JSON as protobuf: fields in either spelling, one value for a list, numbers as text,
            values in any case.
        not_required: fields that it does not require although the SDK's types do, such as ``ToolParam.type``, with the
            source of that.
        required: fields that it requires although the SDK's types do not, with the source.
        accepted: further types that it accepts of a field, such as ``body.top_k``, and the source of that. The SDK's
            types need not have the field.
    """

    refuses_unknown: Literal["everywhere", "at top", "nowhere"] = "nowhere"
    is_protobuf: bool = False
    not_required: dict[str, str] = {}
    required: dict[str, str] = {}
    accepted: dict[str, tuple[Any, str]] = {}


class BodyRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a wire refuses of a body.

    Attributes:
        reference: the vendor's page of the request.
        words: its message for each kind of `Problem`, with the fields of `write`. For a limit of a list or a text, the
            kind is followed by `` length``. A kind without a message is not refused.
        sources: where a kind was seen refused, beside the page and the types.
        type_names: its names of types, where they are not those of JSON.
        codes, statuses: its code of an error, and the HTTP status if it is not 400, by kind.
        limits: the limits of its documentation and their source, by path.
        tools: the path of its tools, and the fields of their name and schema.
        separator: what is between the keys of a path; None for indexes in brackets.
        wire: the provider whose types it has, and whose row where its own does not differ.
    """

    reference: str
    types: TypeRules
    words: dict[str, str]
    sources: dict[str, str] = {}
    type_names: dict[str, str] = {}
    codes: dict[str, str] = {}
    statuses: dict[str, int] = {}
    limits: dict[str, tuple[Json, str]] = {}
    tools: tuple[str, str, str] = ("tools.*", "name", "parameters")
    separator: str | None = None
    wire: str = ""

    def write(self, problem: Problem) -> Finding | None:
        """Return the path of a problem and the vendor's message; None if the vendor does not refuse it."""
        kind, path, value, expected = problem
        is_sized = isinstance(value, (str, list)) and kind in ("min", "max")
        words = self.words.get(f"{kind} length" if is_sized else kind)
        if words is None:
            return None
        if isinstance(expected, list):
            expected = ", ".join(f"'{each}'" for each in expected)
        elif kind == "type":
            expected = " or ".join(self.type_names.get(each, each) for each in expected.split(" or "))
        return self.write_path(path), words.format(
            path=self.write_path(path),
            name=path[-1] if path else "body",
            parent=self.write_path(path[:-1]),
            value=short_json(value),
            expected=expected,
            found=_FOUND.get(type(value), "null"),
            size=len(value) if is_sized else 0,
        )

    def write_path(self, path: Path) -> str:
        """Return a path as the vendor writes it."""
        if self.separator is not None:
            return self.separator.join(map(str, path))
        return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).removeprefix(".")


@cache
def _read_rows() -> dict[str, BodyRules]:
    rows = msgspec.json.decode(files(__package__).joinpath("body_rules.json").read_bytes())
    return msgspec.convert(
        {name: rows.get(row.get("wire"), {}) | row for name, row in rows.items()}, dict[str, BodyRules]
    )


@cache
def _build_body_rules(provider: str) -> tuple[Rule, ...]:
    """Return the rules for the body of a provider's requests; none if its requests have no types."""
    about = _read_rows().get(provider)
    if about is None:
        return ()
    wire = about.wire or provider
    types = f"{about.reference}, types of {_read_types(wire)['sdk']}"
    of_types = partial(_find_type_problems, wire=wire, rules=about.types)
    of_tools = partial(_find_tool_problems, tools=about.tools)
    rules = []
    for name, kinds in (_TYPE_RULES | _TOOL_RULES).items():
        find, seen = (of_types if name in _TYPE_RULES else of_tools), about.sources.get(kinds[0])
        if kinds[0] in about.words:
            rules.append(_build_rule(about, name, kinds, find, f"{types}, {seen}" if seen else types))
    for path, (limits, source) in about.limits.items():
        find = partial(_find_limits, path=path, limits=limits)
        rules.append(_build_rule(about, f"limit {path}", ("min", "max", "pattern"), find, source))
    return tuple(rules)


def _build_rule(
    about: BodyRules, name: str, kinds: Collection[str], find: Callable[[Json], list[Problem]], source: str
) -> Rule:
    def check(body: Json, _model: str) -> Iterator[Finding]:
        for problem in find(body):
            if problem.kind in kinds and (finding := about.write(problem)) is not None:
                yield finding

    kind = next(iter(kinds))
    return Rule(name, check, source, about.statuses.get(kind, 400), about.codes.get(kind), in_own_words=True)


def _find_limits(body: Json, path: str, limits: Json) -> list[Problem]:
    return [problem for at, value in _values_at(body, path) for problem in _find_limit(value, limits, at)]


def _find_tool_problems(body: Json, tools: tuple[str, str, str]) -> list[Problem]:
    """Return repeated names, schemas of no object, and references to nothing; what is expected is the tool's name."""
    path, name_field, schema_field = tools
    problems: list[Problem] = []
    seen: set[str] = set()
    for at, name in _values_at(body, f"{path}.{name_field}"):
        if isinstance(name, str):
            problems += [Problem("repeated", at, name, name)] if name in seen else []
            seen.add(name)
    for at, schema in _values_at(body, f"{path}.{schema_field}"):
        if not (isinstance(schema, dict) and schema):
            continue
        _, name = next(_values_at(body, ".".join(map(str, (*at[: path.count(".") + 1], name_field)))), (at, ""))
        if str(schema.get("type")).lower() != "object":
            problems.append(Problem("schema", at, schema.get("type"), name))
        waiting: list[Any] = [schema]
        while waiting:
            value = waiting.pop()
            reference = value.get("$ref") if isinstance(value, dict) else None
            pointer = _POINTER.fullmatch(reference) if isinstance(reference, str) else None
            if pointer is not None and next(_values_at(schema, pointer[1][1:].replace("/", ".")), None) is None:
                problems.append(Problem("dangling", at, pointer[0], name))
            if isinstance(value, dict):
                waiting += (each for key, each in value.items() if key not in _DATA)
            elif isinstance(value, list):
                waiting += value
    return problems


# ---------------------------------------------------------------- the types of the body


@cache
def _read_types(wire: str) -> dict[str, Any]:
    """Return the SDK and the types of a wire; the type ``body`` is that of the body."""
    data: dict[str, Any] = json.loads(files(__package__).joinpath("request_types.json").read_text("utf-8"))[wire]
    return data


def _find_type_problems(body: Any, wire: str, rules: TypeRules) -> list[Problem]:
    """Return every value of a body that is not of its type, in the order of the body. No value raises an exception."""
    return _Checker(_read_types(wire)["types"], rules).check(body, {"is": "body"}, ())


def _find_limit(value: Any, limits: dict[str, Any], path: Path) -> list[Problem]:
    """Return the limit that a number, or the length or form of a text or list, is beyond; a list of at most one."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    size = value if is_number else len(value) if isinstance(value, (str, list)) else None
    if size is None:
        return []
    for name, is_beyond in (
        ("min", "min" in limits and size < limits["min"]),
        ("max", "max" in limits and size > limits["max"]),
        ("pattern", isinstance(value, str) and not re.fullmatch(limits.get("pattern", r"(?s:.*)"), value)),
    ):
        if is_beyond:
            return [Problem(name, path, value, limits[name])]
    return []


def _values_at(value: Any, path: str) -> Iterator[tuple[Path, Any]]:
    """Yield each value at a path such as ``tools.*.function.name``, with its own path."""
    key, _, rest = path.partition(".")
    found: list[tuple[str | int, Any]] = []
    if isinstance(value, list) and (key == "*" or key.isdigit()):
        found = [(index, item) for index, item in enumerate(value) if key in ("*", str(index))]
    elif isinstance(value, dict) and key in value:
        found = [(key, value[key])]
    for at, item in found:
        if rest:
            yield from (((at, *deeper), each) for deeper, each in _values_at(item, rest))
        else:
            yield (at,), item


class _Checker:
    """The check of values against the types of one wire."""

    def __init__(self, definitions: dict[str, Any], rules: TypeRules) -> None:
        self._definitions = definitions
        self._rules = rules
        self._fields: dict[str, dict[str, Any]] = {}  # of each definition with accepted types
        for name, (kind, _) in rules.accepted.items():
            owner, _, field = name.partition(".")
            fields = self._fields.setdefault(owner, dict(definitions[owner]["fields"]))
            fields[field] = {"any": [fields[field], kind]} if field in fields else kind

    def check(self, value: Any, kind: Any, path: Path) -> list[Problem]:
        """Return the problems of a value. An optional field may be null: no vendor's page forbids it."""
        if value is None or kind == "any" or len(path) > _DEEPEST:
            return []
        if isinstance(kind, str):
            return [] if self._is_of_type(value, kind) else [Problem("type", path, value, kind)]
        if isinstance(kind, list):
            return self._check_choice(value, kind, path)
        if "any" in kind:
            return self._check_union(value, kind["any"], path)
        if "is" in kind:
            return self._check_object(value, kind["is"], path)
        if "map" in kind:
            if not isinstance(value, dict):
                return [Problem("type", path, value, "object")]
            return [each for key, item in value.items() for each in self.check(item, kind["map"], (*path, key))]
        if "list" in kind:
            if self._rules.is_protobuf and isinstance(value, dict):
                return self.check(value, kind["list"], path)
            if not isinstance(value, list):
                return [Problem("type", path, value, "array")]
            problems = _find_limit(value, kind, path)
            for index, item in enumerate(value):
                problems += self.check(item, kind["list"], (*path, index))
            return problems
        return self.check(value, kind["type"], path) or _find_limit(value, kind, path)

    def _is_of_type(self, value: Any, kind: str) -> bool:
        if kind in ("number", "integer"):
            if isinstance(value, str):
                return self._rules.is_protobuf and re.fullmatch(r"-?\d+(\.\d+)?", value) is not None
            return not isinstance(value, bool) and (
                isinstance(value, _PYTHON_TYPES[kind]) or (isinstance(value, float) and value.is_integer())
            )
        return isinstance(value, _PYTHON_TYPES[kind])

    def _check_choice(self, value: Any, allowed: list[Any], path: Path) -> list[Problem]:
        if value in allowed or (self._rules.is_protobuf and (isinstance(value, int) or str(value).upper() in allowed)):
            return []
        if not any(type(value) is type(each) for each in allowed):
            return [Problem("type", path, value, "string")]
        return [Problem("value", path, value, allowed)]

    def _check_union(self, value: Any, options: list[Any], path: Path) -> list[Problem]:
        """Return the problems with the option that has the most of the value's fields, and its tag if any has."""
        attempts = [(self.check(value, option, path), option) for option in options]
        if not all(problems for problems, _ in attempts):
            return []
        own = [each for each in attempts if not (each[0][0].path == path and each[0][0].kind == "type")]
        if not own:
            names = dict.fromkeys(str(problems[0].expected) for problems, _ in attempts)
            return [Problem("type", path, value, " or ".join(names))]
        own = [each for each in own if not _is_tag(each[0][0], path, "type")] or own
        most = max(self._count_fields(value, option) for _, option in own)
        own = [each for each in own if self._count_fields(value, each[1]) == most]
        own = [each for each in own if not _is_tag(each[0][0], path, "role")] or own
        problems = own[0][0]
        if not _is_tag(problems[0], path, "type", "role"):
            return problems
        named = [each[0].expected for each, _ in own if each[0].path == problems[0].path and each[0].kind == "value"]
        return [problems[0]._replace(expected=list(dict.fromkeys(name for names in named for name in names)))]

    def _count_fields(self, value: Any, option: Any) -> int:
        """Return how many of a value's fields an option of a union has."""
        if not (isinstance(value, dict) and isinstance(option, dict) and "is" in option):
            return 0
        return len(value.keys() & self._fields_of(option["is"]).keys())

    def _fields_of(self, kind: str) -> dict[str, Any]:
        return self._fields.get(kind) or self._definitions[kind]["fields"]

    def _check_object(self, value: Any, kind: str, path: Path) -> list[Problem]:
        if not isinstance(value, dict):
            return [Problem("type", path, value, "object")]
        fields = self._fields_of(kind)
        for tag in ("type", "role"):
            if isinstance(fields.get(tag), list) and value.get(tag) is not None:
                wrong = self._check_choice(value[tag], fields[tag], (*path, tag))
                if wrong:
                    return wrong  # the other fields are those of another type
        names = {self._spell(name): name for name in value}
        further = [name.removeprefix(f"{kind}.") for name in self._rules.required if name.startswith(f"{kind}.")]
        problems = [
            Problem("missing", (*path, name), None, name)
            for name in [*self._definitions[kind]["required"], *further]
            if value.get(names.get(name, name)) is None and f"{kind}.{name}" not in self._rules.not_required
        ]
        refuses = {"everywhere": True, "at top": not path, "nowhere": False}[self._rules.refuses_unknown]
        for spelled, name in names.items():
            if spelled in fields:
                problems += self.check(value[name], fields[spelled], (*path, name))
            elif refuses:
                problems.append(Problem("unknown", (*path, name), value[name], sorted(fields)))
        return problems

    def _spell(self, name: str) -> str:
        """Return a field's name as the types have it: protobuf accepts snake_case as well."""
        first, *rest = name.split("_") if self._rules.is_protobuf else [name]
        return first + "".join(word[:1].upper() + word[1:] for word in rest)


def _is_tag(problem: Problem, path: Path, *names: str) -> bool:
    """Return True if a problem is that a tag of the object at the path has another value."""
    return problem.kind == "value" and problem.path[:-1] == path and problem.path[-1] in names
