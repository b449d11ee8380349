"""The check of a request's body against the types of the vendor's SDK.

``request_types.json`` has the types of each wire, with the SDK's version; ``tests/request_table/request_types.py``
writes it and describes its form. A field without a type in it is unknown. This module must not depend on a provider:
what differs between wires is in `TypeRules`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

__all__ = ["Path", "Problem", "TypeRules", "find_limit", "find_type_problems", "read_types", "values_at"]

Path: TypeAlias = tuple[str | int, ...]
_DEEPEST = 60  # what nests deeper is not checked
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "number": (int, float),
    "integer": (int,),
    "object": (dict,),
}


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


@cache
def read_types(wire: str) -> dict[str, Any]:
    """Return the SDK and the types of a wire; the type ``body`` is that of the body."""
    data: dict[str, Any] = json.loads(files(__package__).joinpath("request_types.json").read_text("utf-8"))[wire]
    return data


def find_type_problems(body: Any, wire: str, rules: TypeRules) -> list[Problem]:
    """Return every value of a body that is not of its type, in the order of the body. No value raises an exception."""
    return _Checker(read_types(wire)["types"], rules).check(body, {"is": "body"}, ())


def find_limit(value: Any, limits: dict[str, Any], path: Path) -> list[Problem]:
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


def values_at(value: Any, path: str) -> Iterator[tuple[Path, Any]]:
    """Yield each value at a path such as ``tools.*.function.name``, with its own path."""
    key, _, rest = path.partition(".")
    found: list[tuple[str | int, Any]] = []
    if isinstance(value, list) and (key == "*" or key.isdigit()):
        found = [(index, item) for index, item in enumerate(value) if key in ("*", str(index))]
    elif isinstance(value, dict) and key in value:
        found = [(key, value[key])]
    for at, item in found:
        if rest:
            yield from (((at, *deeper), each) for deeper, each in values_at(item, rest))
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
            problems = find_limit(value, kind, path)
            for index, item in enumerate(value):
                problems += self.check(item, kind["list"], (*path, index))
            return problems
        return self.check(value, kind["type"], path) or find_limit(value, kind, path)

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
        return self._fields.get(kind) or self._definitions[kind]["fields"]  # type: ignore[no-any-return]

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
