"""A set of tools: a selection of tools, renamed or configured, without changing them.

It is a sequence of tools and is accepted wherever a list of tools is. It must not depend on the source of tools.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Unpack, overload

from streamkit.errors import UsageError
from streamkit.tools.nearest import quote_name, sort_by_similarity
from streamkit.tools.tool import Tool, ToolOptions
from streamkit.tools.tool_list import to_tools

__all__ = ["ToolSet"]

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

    def __init__(self, tools: Iterable[Callable[..., Any] | Tool] = ()) -> None:
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

    def __add__(self, other: Iterable[Callable[..., Any] | Tool]) -> ToolSet:
        return ToolSet([*self, *other]) if isinstance(other, Iterable) else NotImplemented

    def __radd__(self, other: Iterable[Callable[..., Any] | Tool]) -> ToolSet:
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
