"""Lists and sets of tools: what ``tools=`` takes, by name, and selections of it, renamed or configured.

A set is a sequence of tools and is accepted wherever a list of tools is. This module depends neither on the source of
tools nor on providers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from types import FunctionType
from typing import Any, TypeAlias, Unpack, overload
from weakref import WeakKeyDictionary

from msgspec import Struct

from streamkit.errors import UsageError
from streamkit.tools.custom import declared_name
from streamkit.tools.tool import Tool, ToolOptions
from streamkit.values.json_data import json_excerpt

__all__ = [
    "AnyTool",
    "ToolSet",
    "quote_name",
    "sort_by_similarity",
    "to_tools",
]

#: What ``tools=`` takes: functions, tools, and a provider's own declarations (``{"type": "web_search"}``). It contains
#: ``object`` because mypy infers ``list[object]`` for a list of two tools whose parameters differ: it joins no
#: ``ParamSpec`` (``mypy/join.py``, ``visit_instance``). `to_tools` refuses everything else with a message.
AnyTool: TypeAlias = Callable[..., Any] | Tool | Mapping[str, Any] | object


def to_tools(tools: Sequence[AnyTool]) -> dict[str, Tool]:
    """Return tools by name, in their order; plain functions become tools, and so do a provider's own declarations.

    A declaration (a dict with a ``type``) has the name that it contains, or else that of its type, with a number after
    the first.

    Raises:
        UsageError: two have the same name, or one is neither a function nor a tool nor a declaration.
    """
    is_list = isinstance(tools, list)  # a check of an abstract class takes longer
    if not is_list and (callable(tools) or isinstance(tools, (str, bytes, Mapping)) or not isinstance(tools, Iterable)):
        raise UsageError(f"tools must be a list of functions and tools, not {tools!r}")
    by_name: dict[str, Tool] = {}
    for item in tools:
        # An object with a type, and Gemini's form, one name with settings (``{"googleSearch": {}}``). A bare schema
        # with a name is no declaration: most often it was meant as the description of a function.
        if isinstance(item, Tool):
            tool = item
        elif isinstance(item, Mapping) and (
            isinstance(item.get("type"), str) or (len(item) == 1 and isinstance(next(iter(item.values())), Mapping))
        ):
            declared = _to_declared_tool(item, by_name)
            by_name[declared.name] = declared
            continue
        elif callable(item):
            tool = _to_function_tool(item)
        else:
            raise UsageError(
                f"tools must be functions or tools, not {json_excerpt(item)}; make one of a JSON schema with"
                " Tool(function, name=..., description=..., parameters=...); a provider declaration has a type"
            )
        if tool.name in by_name:
            raise UsageError(f"two tools have the name {tool.name!r}; rename one of them with tool(f, name=...)")
        by_name[tool.name] = tool
    return by_name


class _FunctionTool(Struct, frozen=True):
    """The tool of a function, without the function, which it would keep alive, and what it was made from."""

    tool: Tool
    source: tuple[Any, ...]
    defaults: tuple[Any, ...] | None
    keyword_defaults: dict[str, Any] | None


_function_tools: WeakKeyDictionary[FunctionType, _FunctionTool] = WeakKeyDictionary()


def _to_function_tool(function: Callable[..., Any]) -> Tool:
    """Return a tool of a function. A function is inspected once: the model of its parameters takes 0.7 ms."""
    if not isinstance(function, FunctionType) or function.__dict__:  # such as a function that wraps another
        return Tool(function)
    try:
        source = (function.__name__, function.__doc__, function.__code__, dict(function.__annotations__))
    except NameError:  # Python 3.14 evaluates annotations when they are read
        return Tool(function)
    # Defaults are compared by identity: they may be of any type, also of one that cannot be compared.
    defaults, keyword_defaults = function.__defaults__, function.__kwdefaults__
    made = _function_tools.get(function)
    if (
        made is None
        or made.source != source
        or made.defaults is not defaults
        or made.keyword_defaults is not keyword_defaults
    ):
        template = Tool(function)
        template.function = None
        made = _function_tools[function] = _FunctionTool(template, source, defaults, keyword_defaults)
    tool = copy.copy(made.tool)
    tool.function = function
    return tool


def _to_declared_tool(declaration: Mapping[str, Any], others: Collection[str]) -> Tool:
    """Return a tool for a provider's own declaration, which is sent unchanged. Its calls are for the client."""
    name = declared_name(declaration)
    if name is None:
        kind = declaration.get("type")
        stem = name = kind if isinstance(kind, str) else next(iter(declaration))
        number = 2
        while name in others:
            name, number = f"{stem}_{number}", number + 1
    elif name in others:
        raise UsageError(f"two tools have the name {name!r}; leave one of them out, or rename it")
    declared = Tool(name=name)
    declared.declaration = dict(declaration)
    return declared


_MOST_NAMES = 20  # in a message


class ToolSet(Sequence[Tool]):
    """Tools in their order, each name once. Every method returns a new set; neither it nor its tools change.

    ::

        tools = ToolSet([search, delete, *github_tools])
        safe = tools.deny("delete").prefix("files_") + ToolSet(github_tools).allow("github_get_*")
        asked = tools.configure("delete", approval="ask", timeout=5)
        run_loop(ask, provider="openai_chat", tools=asked, history=history)

    A name may be a pattern with ``*``, ``?`` and ``[...]`` (``fnmatch``), as in filters for the tools of MCP servers. A
    pattern that matches no tool is an error too: otherwise a tool that should be denied would be offered unnoticed.

    Args:
        tools: functions and tools.

    Raises:
        UsageError: two have the same name, or one is neither a function nor a tool.
    """

    __slots__ = ("_tools",)

    def __init__(self, tools: Iterable[AnyTool] = ()) -> None:
        if not isinstance(tools, Iterable) or isinstance(tools, (str, Mapping)):
            raise UsageError(f"tools must be a list of functions and tools, not {tools!r}")
        self._tools = to_tools(list(tools))

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in order."""
        return tuple(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __contains__(self, item: object) -> bool:
        """Return True if a tool, or one of that name, is in the set."""
        return item in self._tools if isinstance(item, str) else any(item is tool for tool in self)

    @overload
    def __getitem__(self, index: int) -> Tool: ...
    @overload
    def __getitem__(self, index: slice) -> ToolSet: ...
    def __getitem__(self, index: int | slice) -> Tool | ToolSet:
        selected = list(self)[index]
        return selected if isinstance(selected, Tool) else ToolSet(selected)

    def __add__(self, other: Iterable[AnyTool]) -> ToolSet:
        return ToolSet([*self, *other]) if isinstance(other, Iterable) else NotImplemented

    def __radd__(self, other: Iterable[AnyTool]) -> ToolSet:
        return ToolSet([*other, *self]) if isinstance(other, Iterable) else NotImplemented

    def __repr__(self) -> str:
        return f"<ToolSet {', '.join(self._tools)}>" if self._tools else "<ToolSet of no tools>"

    def allow(self, *names: str) -> ToolSet:
        """Return these tools alone, in the set's order.

        Raises:
            UsageError: a name or pattern matches no tool.
        """
        kept = self._matching_names(names)
        return ToolSet(tool for tool in self if tool.name in kept)

    def deny(self, *names: str) -> ToolSet:
        """Return all but these tools.

        Raises:
            UsageError: a name or pattern matches no tool.
        """
        denied = self._matching_names(names)
        return ToolSet(tool for tool in self if tool.name not in denied)

    def rename(self, names: Mapping[str, str]) -> ToolSet:
        """Rename some tools, all at once: two may swap their names. ``conflicts_with`` is updated.

        Args:
            names: the new name by the old one.

        Raises:
            UsageError: there is no tool of an old name, two would have the same name, or a new one is not allowed.
        """
        for old, new in names.items():
            if old not in self._tools:
                raise self._unknown(old)
            if not isinstance(new, str):
                raise UsageError(f"{new!r} cannot be the name of a tool")
        renamed = []
        for tool in self:
            conflicts = frozenset(names.get(other, other) for other in tool.conflicts_with)
            if tool.name in names or conflicts != tool.conflicts_with:
                tool = tool.replace(name=names.get(tool.name, tool.name), conflicts_with=conflicts)
            renamed.append(tool)
        return ToolSet(renamed)

    def prefix(self, prefix: str) -> ToolSet:
        """Add a prefix to all names, so that the tools of two sources do not clash.

        Raises:
            UsageError: a name would not be allowed, such as one of more than 64 characters.
        """
        return self.rename({name: f"{prefix}{name}" for name in self._tools})

    def configure(self, *names: str, **options: Unpack[ToolOptions]) -> ToolSet:
        """Set options of these tools: ``configure("delete_*", approval="ask", timeout=5)``.

        Args:
            names: names or patterns.
            options: as for ``Tool``; the name is changed by ``rename``.

        Raises:
            UsageError: a name or pattern matches no tool, there is no such option, or it cannot have that value.
        """
        if "name" in options:
            raise UsageError("configure does not change names; use rename({old: new})")
        matching = self._matching_names(names)
        return ToolSet(tool.replace(**options) if tool.name in matching else tool for tool in self)

    def _matching_names(self, names: Sequence[str]) -> set[str]:
        matching: set[str] = set()
        for name in names:
            if not isinstance(name, str):
                raise UsageError(f'names must be separate arguments, as in allow("a", "b"), not {name!r}')
            selected = [known for known in self._tools if known == name or fnmatchcase(known, name)]
            if not selected:
                raise self._unknown(name)
            matching.update(selected)
        return matching

    def _unknown(self, name: str) -> UsageError:
        nearest = sort_by_similarity(str(name), self._tools)
        more = f" and {len(nearest) - _MOST_NAMES} more" if len(nearest) > _MOST_NAMES else ""
        available = f"the tools are: {', '.join(nearest[:_MOST_NAMES])}{more}" if nearest else "the set is empty"
        return UsageError(f"no tool has the name {quote_name(str(name))}; {available}")


# ---------------------------------------------------------------- unknown names, in messages

# An unknown name comes from a model, so only its beginning is compared: the cost of ``difflib`` grows with the square
# of the length, and a name of 320 kB would stop the event loop for seconds.
_COMPARED = 64  # characters of the unknown name: the names of tools have at most 64
_COMPARED_NAMES = 256  # of the known ones; those after them are listed in their own order
_SHOWN = 100  # characters of the unknown name in a message


def sort_by_similarity(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names, the most similar to *name* first; case, and what follows 64 characters, are ignored."""
    from difflib import SequenceMatcher  # few names are unknown

    names = list(known)
    compared, rest = names[:_COMPARED_NAMES], names[_COMPARED_NAMES:]
    matcher = SequenceMatcher(None, autojunk=False)
    matcher.set_seq2(name[:_COMPARED].lower())  # difflib keeps its index of the second text
    distances: dict[str, float] = {}
    for other in compared:
        matcher.set_seq1(other[:_COMPARED].lower())
        distances[other] = -matcher.ratio()
    return sorted(compared, key=distances.__getitem__) + rest


def quote_name(name: str) -> str:
    """Return a name in quotes for a message; of a long one its beginning and its length."""
    if len(name) <= _SHOWN:
        return repr(name)
    return f"{name[:_SHOWN]!r}... ({len(name)} characters)"
