"""How a provider's requests state the schema of a structured output: in a field of their own, or as a tool.

A provider declares an `OutputSupport` in its traits. Where no field can be used, the output is the arguments of a tool
that the model must call, which every provider with tools accepts. This module depends on no provider.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from streamkit.errors import UsageError

if TYPE_CHECKING:
    from streamkit.output import OutputType
    from streamkit.tools.definition import OfferedTool

__all__ = ["OLDER_CLAUDE", "OutputRefused", "OutputSupport", "add_output_tool", "check_tool_names"]

#: Claude models without structured outputs: all before Sonnet 4.5, Opus 4.1 and Haiku 4.5
#: (https://platform.claude.com/docs/en/build-with-claude/structured-outputs, read 2026-11).
OLDER_CLAUDE = re.compile(r"claude-(?:instant|v2|[123][-.]|(?:opus|sonnet)-4(?![-.]?[1-9](?!\d)))")


class OutputRefused(UsageError):
    """The provider's field does not accept this schema; a tool may."""


class OutputSupport(Struct, frozen=True, kw_only=True):
    """What a provider accepts for a structured output."""

    has_field: bool = False  #: a field of the request takes the schema
    with_stream: bool = True  #: the field is accepted in a request whose response is streamed
    with_tools: bool = True  #: the field is accepted in a request with tools
    with_tools_of: re.Pattern[str] | None = None  #: matches the models that accept that, if ``with_tools`` is False
    not_of: re.Pattern[str] | None = None  #: matches the models that do not accept the field
    #: the schema may be that of a list or of another value; else such an output is a member of an object
    #: (``OutputType.as_object``)
    any_root: bool = False

    def reason_without_field(self, model: str | None, *, stream: bool, has_tools: bool) -> str | None:
        """Return why no field of a request takes the schema of its output; None if one does."""
        if not self.has_field:
            return "there is no field for its schema"
        if model and self.not_of is not None and self.not_of.search(model):
            return f"{model} has no field for its schema"
        if stream and not self.with_stream:
            return "the field for its schema is refused in streams"
        if has_tools and not self.with_tools:
            if not (model and self.with_tools_of is not None and self.with_tools_of.search(model)):
                return "the field for its schema is refused next to tools"
        return None


def check_tool_names(names: Iterable[str | None]) -> None:
    """Check that no tool of a request with a structured output has the name of the tool that returns the output.

    Raises:
        UsageError: one has it.
    """
    from streamkit.output import OUTPUT_TOOL

    if OUTPUT_TOOL in names:
        raise UsageError(f"the tool {OUTPUT_TOOL!r} is the one that makes the model return the output; rename yours")


def add_output_tool(
    output: OutputType[object], tools: Sequence[OfferedTool], tool_choice: str | None
) -> tuple[list[OfferedTool], str]:
    """Return the tools of a request with the output's own tool added, and the tool choice.

    Without other tools, and where these must not be called, the model must call that tool; else it must call one.
    """
    from streamkit.output import OUTPUT_TOOL
    from streamkit.tools.definition import ToolDefinition

    output = output.as_object()
    names = {tool.name for tool in tools if isinstance(tool, ToolDefinition)}
    purpose = "Give the final answer, once you know it."
    description = f"{output.description}\n{purpose}" if output.description else purpose
    parameters = {"properties": {}, **output.schema}
    output_tool = ToolDefinition(name=OUTPUT_TOOL, description=description, parameters=parameters)
    if tool_choice in (None, "auto", "required") and tools:
        return [*tools, output_tool], "required"
    return [*tools, output_tool], tool_choice if tool_choice in names and tool_choice is not None else OUTPUT_TOOL
