"""The rules for the whole body of a request, beside those for its conversation: fields, types, limits, tools.

``body_rules.json`` has one row a wire: what its server does with the types of the vendor's SDK (`body_types`), its
words for each kind of problem, the limits of its documentation, each with its source, and where its tools are. What has
no source is not refused, such as two tools of one name by OpenAI, which accepts them (eclipse-theia/theia#16122).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from functools import cache, partial
from importlib.resources import files
from typing import Any

import msgspec

from streamkit.testing.rules.body_types import (
    Path,
    Problem,
    TypeRules,
    find_limit,
    find_type_problems,
    read_types,
    values_at,
)
from streamkit.testing.rules.rule import Finding, Json, Rule, short_json

__all__ = ["BodyRules", "build_body_rules"]

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
def build_body_rules(provider: str) -> tuple[Rule, ...]:
    """Return the rules for the body of a provider's requests; none if its requests have no types."""
    about = _read_rows().get(provider)
    if about is None:
        return ()
    wire = about.wire or provider
    types = f"{about.reference}, types of {read_types(wire)['sdk']}"
    of_types = partial(find_type_problems, wire=wire, rules=about.types)
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
    return [problem for at, value in values_at(body, path) for problem in find_limit(value, limits, at)]


def _find_tool_problems(body: Json, tools: tuple[str, str, str]) -> list[Problem]:
    """Return repeated names, schemas of no object, and references to nothing; what is expected is the tool's name."""
    path, name_field, schema_field = tools
    problems: list[Problem] = []
    seen: set[str] = set()
    for at, name in values_at(body, f"{path}.{name_field}"):
        if isinstance(name, str):
            problems += [Problem("repeated", at, name, name)] if name in seen else []
            seen.add(name)
    for at, schema in values_at(body, f"{path}.{schema_field}"):
        if not (isinstance(schema, dict) and schema):
            continue
        _, name = next(values_at(body, ".".join(map(str, (*at[: path.count(".") + 1], name_field)))), (at, ""))
        if str(schema.get("type")).lower() != "object":
            problems.append(Problem("schema", at, schema.get("type"), name))
        waiting: list[Any] = [schema]
        while waiting:
            value = waiting.pop()
            reference = value.get("$ref") if isinstance(value, dict) else None
            pointer = _POINTER.fullmatch(reference) if isinstance(reference, str) else None
            if pointer is not None and next(values_at(schema, pointer[1][1:].replace("/", ".")), None) is None:
                problems.append(Problem("dangling", at, pointer[0], name))
            if isinstance(value, dict):
                waiting += (each for key, each in value.items() if key not in _DATA)
            elif isinstance(value, list):
                waiting += value
    return problems
