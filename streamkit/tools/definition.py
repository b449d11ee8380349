"""Tools as a request offers them: data without a function, read from a client's request or made from a ``Tool``.

A ``Tool`` is what a program runs. A `ToolDefinition` is what a model is told about a tool, and a `HostedTool` is a
provider's own tool, which only that provider understands. Nothing is checked here: a request of a client may contain
any name and any schema. This module must not depend on providers.
"""

# No annotations as texts, as in ``history.content``.

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from streamkit.tools.custom import TEXT_FIELD, Grammar, declared_name, text_schema
from streamkit.tools.tool import Tool
from streamkit.tools.toolset import AnyTool, to_tools
from streamkit.values.json_data import copy_with

__all__ = ["HostedTool", "OfferedTool", "ToolDefinition", "to_definitions"]


class ToolDefinition(BaseModel):
    """A tool of the client: a function, or a custom tool with one text as its argument.

    Attributes:
        name: the name, as the client knows it.
        description: what it does; empty if it has no description.
        parameters: the JSON schema of an object. That of a custom tool has the one text ``input``.
        kind: ``function``, or ``custom`` for a tool whose argument is free text.
        grammar: the grammar of a custom tool's text; None for any text.
        strict: whether the provider enforces the schema.
        namespace: the group that the tool belongs to (Responses API); None for none. Names are unique in a group only.
        namespace_description: what the group is for.
        metadata: ``provider``, the provider in whose form it was read; ``fields``, its further fields in that form,
            sent back to that provider alone; ``cache``, a cache mark; ``in_messages``, True for a tool that is defined
            inside the messages; ``client_tool``, the provider's own declaration of it (``calls.CLIENT_TOOL``);
            ``added_fields``, what ``Tool(fields=...)`` adds for the target of the request.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, defer_build=True)

    name: str
    description: str = ""
    parameters: dict[str, Any] = Field(default_factory=lambda: {"type": "object", "properties": {}})
    kind: Literal["function", "custom"] = "function"
    grammar: Grammar | None = None
    strict: bool = False
    namespace: str | None = None
    namespace_description: str = ""
    metadata: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def custom(cls, name: str, description: str = "", grammar: Grammar | None = None, **more: Any) -> "ToolDefinition":
        """Return the definition of a custom tool, with the schema of an object of one text."""
        return cls(name=name, description=description, grammar=grammar, kind="custom", parameters=text_schema(), **more)

    def with_parameters(self, parameters: dict[str, Any]) -> "ToolDefinition":
        """Return a copy with another schema."""
        return copy_with(self, parameters=parameters)

    def as_function(self) -> "ToolDefinition":
        """Return a custom tool as a function of one text, with its grammar in the description."""
        if self.kind == "function":
            return self
        description = self.description
        if self.grammar is not None:
            rule = f"The text `{TEXT_FIELD}` follows this {self.grammar.syntax} grammar:\n{self.grammar.definition}"
            description = f"{description}\n\n{rule}" if description else rule
        changed = {"kind": "function", "grammar": None, "description": description}
        return copy_with(self, **changed)


class HostedTool(BaseModel):
    """A tool that only its provider understands, such as a search that it runs itself.

    Attributes:
        provider: the provider.
        raw: the definition in its own form, sent to it unchanged.
        namespace: the group that contains it; None for none.
        namespace_description: what the group is for.
        in_messages: whether it is defined inside the messages.
        name: the program's name for it, which a tool choice uses; None for that of the definition.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, defer_build=True)

    provider: str
    raw: Any
    name: str | None = None
    namespace: str | None = None
    namespace_description: str = ""
    in_messages: bool = False

    @property
    def label(self) -> str:
        """The name of the tool, or else its type."""
        raw = self.raw if isinstance(self.raw, dict) else {}
        kind = raw.get("type") if isinstance(raw.get("type"), str) else None
        return self.name or declared_name(raw) or kind or next(iter(raw), "unnamed")


#: A tool in a request: one of the client, or one of the provider.
OfferedTool: TypeAlias = ToolDefinition | HostedTool


def to_definitions(tools: Sequence[AnyTool | OfferedTool], provider: str) -> list[OfferedTool]:
    """Return tools as definitions, in their order.

    Args:
        tools: functions, ``Tool`` objects, definitions, and the provider's own declarations as dicts.
        provider: the name of the target, whose ``Tool(fields=...)`` count.

    Raises:
        UsageError: an entry is none of these, or two functions have the same name.
    """
    if not tools and isinstance(tools, (list, tuple)):
        return []
    if isinstance(tools, (list, tuple)) and all(isinstance(tool, (ToolDefinition, HostedTool)) for tool in tools):
        return list(tools)
    is_list = isinstance(tools, Sequence) and not isinstance(tools, (str, bytes))
    others = [tool for tool in tools if not isinstance(tool, (ToolDefinition, HostedTool))] if is_list else tools
    converted = iter(to_tools(others).values())  # reports what is no tool, and names that are used twice
    return [
        tool if isinstance(tool, (ToolDefinition, HostedTool)) else _offer(next(converted), provider) for tool in tools
    ]


def _offer(tool: Tool, provider: str) -> OfferedTool:
    fields = tool.fields.get(provider, {})
    declaration = fields if "type" in fields else tool.declaration
    if declaration is not None:
        return HostedTool(provider=provider, raw=dict(declaration), name=tool.name)
    return ToolDefinition.model_construct(  # of a tool that was checked
        name=tool.name,
        description=tool.description,
        parameters=dict(tool.parameters),
        kind=tool.kind,
        grammar=tool.grammar,
        strict=tool.strict,
        metadata={"added_fields": dict(fields)} if fields else {},
    )
