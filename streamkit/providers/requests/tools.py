"""The tools of a request as a target accepts them: their names, their definitions and the choice among them.

A target may have no namespaces and no custom tools, and may refuse a name. `ToolNames` gives each tool one name that
the target accepts and that no other tool has. The names depend on the tools alone, so they are the same in each request
of a conversation, and the tool of a call is found again without any state.

Several wires share the forms of definitions. A definition that is rendered has ``fields`` only if the target is the
provider that it was read from (`prepare_tools`). Where an API cannot name the tool of a choice, the only way to force
one is to offer no other. This module must not depend on a provider.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from hashlib import sha256
from operator import attrgetter, is_
from typing import Any, Literal, TypeAlias

from streamkit.errors import UsageError
from streamkit.history import Block, Content, OpaqueBlock, ToolCallBlock, ToolResponseBlock
from streamkit.history.content import UNPAIRED_BLOCKS
from streamkit.providers.contract.rendered import ToolChoice
from streamkit.providers.contract.traits import Traits
from streamkit.providers.requests.body_fields import BodyFields
from streamkit.providers.requests.request import AllowedTools, read_cache_mark
from streamkit.tools.custom import Grammar
from streamkit.tools.definition import HostedTool, OfferedTool, ToolDefinition
from streamkit.values.json_data import copy_with
from streamkit.values.request_changes import Lost, RequestChange, Translated, without_fields
from streamkit.values.schemas import StrictProfile

__all__ = [
    "ToolMode",
    "ToolNames",
    "further_fields",
    "named_tool",
    "outer_fields",
    "prepare_tools",
    "read_definition",
    "read_function_tool",
    "read_tool_list",
    "render_function_tool",
    "select_tools",
    "split_tools",
    "strict_schemas",
    "take_allowed_tools",
    "tool_label",
]

_SEPARATOR = "__"
_NAMED = (ToolCallBlock, ToolResponseBlock)  # the blocks that name a tool
_is_strict = attrgetter("strict")
_UNNAMED = UNPAIRED_BLOCKS - {OpaqueBlock}  # those that do not


class ToolNames:
    """The names of a request's tools at a target.

    Args:
        tools: the tools of the request, with the client's names.
        traits: the target's.

    Attributes:
        changes: a sentence for each name that differs.
    """

    def __init__(self, tools: Sequence[OfferedTool], traits: Traits) -> None:
        self._traits = traits
        self._targets: dict[tuple[str | None, str], str] = {}
        self._originals: dict[str, ToolDefinition] = {}
        self._unchanged: set[str] = set()  # the names of tools without a namespace that the target accepts
        self.changes: list[RequestChange] = []
        definitions, _ = split_tools(tools)
        counts = Counter([tool.name for tool in definitions]) if definitions else {}
        for tool in definitions:
            key = (tool.namespace, tool.name)
            if key in self._targets:
                continue  # a second tool of one name: the provider decides about it
            is_own = tool.metadata.get("provider") == traits.name
            if is_own or (tool.namespace is not None and traits.tool_namespaces):
                target = tool.name
            else:
                full = f"{tool.namespace}{_SEPARATOR}{tool.name}" if tool.namespace is not None else tool.name
                wanted = full if counts[tool.name] > 1 else tool.name
                target, longest = traits.legal_name(wanted), traits.longest_name
                if target in self._originals or len(wanted) > longest:  # another tool has it, or it was cut
                    suffix = "_" + sha256(full.encode("utf-8", "surrogatepass")).hexdigest()[:8]
                    target = target[: longest - len(suffix)] + suffix
                if target != tool.name:
                    group = "" if tool.namespace is None else f" of {tool.namespace!r}"
                    sentence = f"the tool {tool.name!r}{group} has the name {target!r} in this request"
                    self.changes.append(Translated(sentence))
            if key == (None, target):
                self._unchanged.add(target)
            self._targets[key] = target
            self._originals.setdefault(target, tool)

    def target_name(self, name: str, namespace: str | None = None) -> str:
        """Return the name of a tool at the target; of an unknown tool a name that the target accepts."""
        known = self._targets.get((namespace, name)) or self._targets.get((None, name))
        return known or self._traits.legal_name(name)

    def original(self, name: str) -> ToolDefinition | None:
        """Return the tool that has this name at the target; None if there is none."""
        return self._originals.get(name)

    def rename(self, contents: Sequence[Content]) -> list[Content]:
        """Return the conversation with the target's names in calls and results.

        Blocks that define tools inside the messages are left out if the target does not read them: it gets these tools
        like all others.
        """
        names: dict[str, str] = {}  # of calls, by their ids
        renamed: list[Content] = []
        for content in contents:
            for block in content.blocks:
                if type(block) not in _UNNAMED and (
                    not isinstance(block, _NAMED)
                    or block.name not in self._unchanged
                    or "namespace" in block.metadata
                    or (names and isinstance(block, ToolResponseBlock))
                ):
                    break  # its name may change
            else:
                renamed.append(content)
                continue
            blocks = [
                self._rename(block, names) if isinstance(block, _NAMED) else block
                for block in content.blocks
                if not (
                    isinstance(block, OpaqueBlock)
                    and block.metadata.get("defines_tools") is True
                    and block.metadata.get("provider") != self._traits.name
                )
            ]
            if len(blocks) == len(content.blocks) and all(map(is_, blocks, content.blocks)):
                renamed.append(content)
            elif blocks:
                renamed.append(copy_with(content, blocks=blocks))
        return renamed

    def _rename(self, block: Block, names: dict[str, str]) -> Block:
        if isinstance(block, ToolCallBlock):
            namespace = block.metadata.get("namespace")
            target = self.target_name(block.name, namespace if isinstance(namespace, str) else None)
            if target != block.name:
                names[block.id] = target
                return copy_with(block, name=target)
        elif isinstance(block, ToolResponseBlock) and block.name is not None:
            target = names.get(block.call_id) or self.target_name(block.name)
            if target != block.name:
                return copy_with(block, name=target)
        return block


def prepare_tools(
    tools: Sequence[OfferedTool], traits: Traits, names: ToolNames, changes: list[RequestChange]
) -> list[OfferedTool]:
    """Return the tools that a target is offered, in its form and with their names there.

    ``changes`` receives a sentence for each tool and each field that is left out.
    """
    prepared: list[OfferedTool] = []
    for tool in tools:
        if isinstance(tool, HostedTool):
            if tool.provider != traits.name:
                changes.append(Lost(f"the tool {tool.label!r} was left out: only {tool.provider} has it"))
            elif not tool.in_messages:
                prepared.append(tool)
        elif tool.metadata.get("provider") == traits.name:
            if not tool.metadata.get("in_messages"):  # else its own messages define it
                prepared.append(tool)
        else:
            prepared.append(_converted(tool, traits, names, changes))
    return prepared


def _converted(tool: ToolDefinition, traits: Traits, names: ToolNames, changes: list[RequestChange]) -> ToolDefinition:
    """Return a tool that was read in another provider's form."""
    further = tool.metadata.get("fields")
    left_out: list[str] = []
    if isinstance(further, dict):
        left_out = [name for name, value in further.items() if value and name not in ("type", "parameters")]
    if left_out:
        listed = ", ".join(map(repr, left_out))
        change = without_fields(f"left out {listed} of tools: only {tool.metadata.get('provider')} has it", left_out)
        if change not in changes:
            changes.append(change)
    parameters = tool.parameters
    if parameters.get("type") != "object" or "properties" not in parameters:
        # OpenAI: "object schema missing properties"; Anthropic: "input_schema.type: Field required"
        parameters = {**parameters, "type": "object", "properties": parameters.get("properties", {})}
    return copy_with(
        tool,
        name=names.target_name(tool.name, tool.namespace),
        namespace=tool.namespace if traits.tool_namespaces else None,
        parameters=parameters,
        metadata={key: tool.metadata[key] for key in ("cache", "added_fields") if key in tool.metadata},
    )


Json = dict[str, Any]


def read_tool_list(fields: BodyFields, read: Callable[[Json], OfferedTool | None], provider: str) -> list[OfferedTool]:
    """Take the list of tools and return it. An entry that ``read`` returns None for is a tool of the provider."""
    tools = fields.take("tools", check=list)
    if not tools:
        return []
    offered: list[OfferedTool] = []
    for tool in tools:
        definition = read(tool) if isinstance(tool, dict) else None
        offered.append(definition if definition is not None else HostedTool(provider=provider, raw=tool))
    return offered


def read_definition(
    raw: Json,
    provider: str,
    *,
    schema_field: str,
    known: Collection[str] = (),
    grammar: Grammar | None = None,
    is_custom: bool = False,
    **more: Any,
) -> ToolDefinition | None:
    """Return the definition of an object with a name, a description and a schema; None if it has no name.

    Args:
        raw: the object.
        provider: the provider in whose form it is.
        schema_field: the field with the schema of the parameters.
        known: further fields that the caller reads.
        grammar: the grammar of a custom tool.
        is_custom: whether it is a custom tool.
        more: further fields of the definition.
    """
    name = raw.get("name")
    if not isinstance(name, str) or not name:
        return None
    rest = {key: value for key, value in raw.items() if key not in ("name", *known)}
    description, schema = rest.get("description"), rest.get(schema_field)
    values: Json = {"name": name, **more}
    if isinstance(description, str):
        values["description"] = rest.pop("description")
    if rest.get("strict") is True:
        values["strict"] = rest.pop("strict")
    if isinstance(schema, dict) and not is_custom:
        values["parameters"] = rest.pop(schema_field)
    metadata: Json = {"provider": provider}
    if (mark := read_cache_mark(rest.get("cache_control"))) is not None:
        metadata["cache"] = mark
        del rest["cache_control"]
    if rest:
        metadata["fields"] = rest
    if is_custom:
        return ToolDefinition.custom(grammar=grammar, metadata=metadata, **values)
    return ToolDefinition(metadata=metadata, **values)


def read_function_tool(raw: Json, provider: str) -> ToolDefinition | None:
    """Return a tool of the form of Chat Completions, ``{"type": "function", "function": {...}}``; None for others."""
    function = raw.get("function")
    if raw.get("type", "function") != "function" or not isinstance(function, dict):
        return None
    outside = {name: value for name, value in raw.items() if name not in ("type", "function")}
    definition = read_definition(function, provider, schema_field="parameters")
    if definition is None or not outside:
        return definition
    metadata = {**definition.metadata, "outer_fields": outside}
    return copy_with(definition, metadata=metadata)


def render_function_tool(tool: ToolDefinition, schema: Json | None, *, is_strict: bool = False) -> Json:
    """Return a tool in the form of Chat Completions, with its schema in the target's strict form unless that is None.

    The field ``strict`` is written only with ``is_strict``.
    """
    function: Json = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = tool.parameters if schema is None else schema
    if is_strict:
        function["strict"] = True
    return {"type": "function", "function": {**function, **further_fields(tool)}, **outer_fields(tool)}


def further_fields(tool: ToolDefinition) -> Json:
    """Return the fields that the target's own definition had besides those that a definition has."""
    fields = tool.metadata.get("fields")
    return dict(fields) if isinstance(fields, dict) else {}


def outer_fields(tool: ToolDefinition) -> Json:
    """Return the fields around the target's own definition, and those that the caller adds to it."""
    return {**tool.metadata.get("outer_fields", {}), **tool.metadata.get("added_fields", {})}


def split_tools(tools: Sequence[OfferedTool]) -> tuple[list[ToolDefinition], list[HostedTool]]:
    """Return the tools of the client, and those of the provider."""
    definitions: list[ToolDefinition] = []
    hosted: list[HostedTool] = []
    for tool in tools:
        if isinstance(tool, ToolDefinition):
            definitions.append(tool)
        else:
            hosted.append(tool)
    return definitions, hosted


def strict_schemas(tools: Sequence[OfferedTool], profile: StrictProfile | None) -> dict[str, Json]:
    """Return the schemas of the strict tools in the target's form, by the tool's name.

    A schema that was read in the target's form is sent as it came.

    Raises:
        UsageError: a schema cannot be converted.
    """
    definitions, _ = split_tools(tools)
    if not any(map(_is_strict, definitions)):
        return {}
    own = {tool.name: tool.parameters for tool in definitions if tool.strict and "provider" in tool.metadata}
    from streamkit.tools.strict_schema import strict_parameters  # few tools are strict

    converted = strict_parameters([tool for tool in definitions if tool.name not in own], profile)
    return own | converted


def take_allowed_tools(fields: BodyFields, mode: Any, names: Sequence[Any], *path: str) -> AllowedTools | None:
    """Take the field at a path, which allows some of the tools; None, and it stays, if it has another form."""
    if mode not in ("auto", "required") or not names or not all(isinstance(name, str) for name in names):
        return None
    kept: Json = {path[-1]: fields.take(*path)}
    for name in reversed(path[:-1]):
        kept = {name: kept}
    return AllowedTools(names=list(names), mode=mode, fields=kept)


ToolMode: TypeAlias = Literal["auto", "none", "required"]


def named_tool(choice: ToolChoice | None, tools: Sequence[OfferedTool]) -> OfferedTool | None:
    """Return the tool that a choice names; None if it names none. The provider's own tools have names, too."""
    return next((tool for tool in tools if tool_label(tool) == choice), None)


def tool_label(tool: OfferedTool) -> str:
    """Return the name of a tool; of one of the provider the name by which a choice or a sentence calls it."""
    return tool.label if isinstance(tool, HostedTool) else tool.name


def select_tools(choice: ToolChoice | None, tools: Sequence[OfferedTool]) -> tuple[list[OfferedTool], ToolMode]:
    """Return the tools among which a model chooses, and whether it may, must not or must call one.

    Args:
        choice: ``auto``, ``none``, ``required`` or a tool's name, which precedes; None is ``auto``.
        tools: all tools of the request.

    Raises:
        UsageError: the choice names no tool, or requires one and there are none.
    """
    if (named := named_tool(choice, tools)) is not None:
        return [named], "required"
    if choice is None or choice == "auto":
        return list(tools), "auto"
    if choice == "none":
        return list(tools), "none"
    if choice == "required" and tools:
        return list(tools), "required"
    if choice == "required":
        raise UsageError('tool_choice is "required", but there are no tools')
    names = f"nor one of the tools: {', '.join(map(tool_label, tools))}" if tools else "and there are no tools"
    raise UsageError(f'tool_choice {choice!r} is not "auto", "none" or "required", {names}')
