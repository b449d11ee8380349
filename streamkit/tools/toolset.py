"""A set of tools: some of them chosen, renamed or set up differently, none of them changed.

It is a sequence of tools and stands wherever a list of them does. It must not know where tools come from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from fnmatch import fnmatchcase
from typing import Any, Unpack, overload

from streamkit.errors import UsageError
from streamkit.tools.tool import Tool, ToolOptions, to_tools

__all__ = ["ToolSet"]

_MOST_NAMES = 20  # in a sentence


class ToolSet(Sequence[Tool]):
    """Tools in their order, each name once. Every method gives a new set; neither it nor its tools change.

    ::

        tools = ToolSet([search, delete, *github_tools])
        safe = tools.deny("delete").prefix("files_") + ToolSet(github_tools).allow("github_get_*")
        asked = tools.configure("delete", approval="ask", timeout=5)
        run_loop(ask, provider="openai_chat", tools=asked, history=history)

    A name may be a pattern with ``*``, ``?`` and ``[...]`` (``fnmatch``), as people filter the tools of MCP servers.
    What fits no tool is an error also for a pattern: a tool that was to be denied would be offered unnoticed.

    Args:
        tools: functions and tools.

    Raises:
        UsageError: two have the same name, or one is neither a function nor a tool.
    """

    __slots__ = ("_tools",)

    def __init__(self, tools: Iterable[Callable[..., Any] | Tool] = ()) -> None:
        if not isinstance(tools, Iterable) or isinstance(tools, (str, Mapping)):
            raise UsageError(f"tools is a list of functions and tools, not {tools!r}")
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
        """Whether a tool, or one of that name, is in the set."""
        return item in self._tools if isinstance(item, str) else any(item is tool for tool in self)

    @overload
    def __getitem__(self, index: int) -> Tool: ...
    @overload
    def __getitem__(self, index: slice) -> ToolSet: ...
    def __getitem__(self, index: int | slice) -> Tool | ToolSet:
        found = list(self)[index]
        return found if isinstance(found, Tool) else ToolSet(found)

    def __add__(self, other: Iterable[Callable[..., Any] | Tool]) -> ToolSet:
        return ToolSet([*self, *other]) if isinstance(other, Iterable) else NotImplemented

    def __radd__(self, other: Iterable[Callable[..., Any] | Tool]) -> ToolSet:
        return ToolSet([*other, *self]) if isinstance(other, Iterable) else NotImplemented

    def __repr__(self) -> str:
        return f"<ToolSet {', '.join(self._tools)}>" if self._tools else "<ToolSet of no tools>"

    def allow(self, *names: str) -> ToolSet:
        """These alone, in the set's order.

        Raises:
            UsageError: a name or pattern fits no tool.
        """
        kept = self._chosen(names)
        return ToolSet(tool for tool in self if tool.name in kept)

    def deny(self, *names: str) -> ToolSet:
        """All but these.

        Raises:
            UsageError: a name or pattern fits no tool.
        """
        denied = self._chosen(names)
        return ToolSet(tool for tool in self if tool.name not in denied)

    def rename(self, names: Mapping[str, str]) -> ToolSet:
        """Some under other names, all at once: two may swap theirs. ``conflicts_with`` follows.

        Args:
            names: the new name by the old one.

        Raises:
            UsageError: there is no tool of an old name, two would have the same, or a new one is no legal name.
        """
        for old, new in names.items():
            if old not in self._tools:
                raise self._unknown(old)
            if not isinstance(new, str):
                raise UsageError(f"{new!r} cannot be a tool's name")
        made = []
        for tool in self:
            conflicts = frozenset(names.get(other, other) for other in tool.conflicts_with)
            if tool.name in names or conflicts != tool.conflicts_with:
                tool = tool.replace(name=names.get(tool.name, tool.name), conflicts_with=conflicts)
            made.append(tool)
        return ToolSet(made)

    def prefix(self, prefix: str) -> ToolSet:
        """All with this before their names, so that the tools of two sources do not clash.

        Raises:
            UsageError: a name would be no legal one, such as one of more than 64 characters.
        """
        return self.rename({name: f"{prefix}{name}" for name in self._tools})

    def configure(self, *names: str, **options: Unpack[ToolOptions]) -> ToolSet:
        """These with other options: ``configure("delete_*", approval="ask", timeout=5)``.

        Args:
            names: names or patterns.
            options: as of ``Tool``; the name is changed by ``rename``.

        Raises:
            UsageError: a name or pattern fits no tool, there is no such option, or it cannot have that value.
        """
        if "name" in options:
            raise UsageError("configure changes no names; that is rename({old: new})")
        chosen = self._chosen(names)
        return ToolSet(tool.replace(**options) if tool.name in chosen else tool for tool in self)

    def _chosen(self, names: Sequence[str]) -> set[str]:
        chosen: set[str] = set()
        for name in names:
            if not isinstance(name, str):
                raise UsageError(f'names are given one by one, as in allow("a", "b"), not {name!r}')
            found = [known for known in self._tools if known == name or fnmatchcase(known, name)]
            if not found:
                raise self._unknown(name)
            chosen.update(found)
        return chosen

    def _unknown(self, name: str) -> UsageError:
        nearest = sorted(self._tools, key=lambda known: -SequenceMatcher(None, str(name), known).ratio())
        more = f" and {len(nearest) - _MOST_NAMES} more" if len(nearest) > _MOST_NAMES else ""
        there = f"there are: {', '.join(nearest[:_MOST_NAMES])}{more}" if nearest else "the set is empty"
        return UsageError(f"no tool is called {name!r}; {there}")
