"""The tools of a request as a target accepts them, and the way back.

A target may have no namespaces and no custom tools, and may refuse a name. `ToolNames` gives each tool one name that
the target accepts and that no other tool has. The names depend on the tools alone, so they are the same in each request
of a conversation, and the tool of a call is found again without any state. This module must not depend on a provider.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from operator import is_

from streamkit.history import Block, Content, OpaqueBlock, ToolCallBlock, ToolResponseBlock
from streamkit.history.content import UNPAIRED_BLOCKS
from streamkit.providers.contract.traits import Traits
from streamkit.tools.definition import HostedTool, OfferedTool, ToolDefinition
from streamkit.values.json_data import copy_with

__all__ = ["ToolNames", "prepare_tools"]

_SEPARATOR = "__"
_NAMED = (ToolCallBlock, ToolResponseBlock)  # the blocks that name a tool
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
        self.changes: list[str] = []
        definitions = [tool for tool in tools if isinstance(tool, ToolDefinition)]
        counts = Counter([tool.name for tool in definitions]) if definitions else {}
        for tool in definitions:
            self._add(tool, is_shared=counts[tool.name] > 1)

    def _add(self, tool: ToolDefinition, *, is_shared: bool) -> None:
        key = (tool.namespace, tool.name)
        if key in self._targets:
            return  # a second tool of one name: the provider decides about it
        is_own = tool.metadata.get("provider") == self._traits.name
        if is_own or (tool.namespace is not None and self._traits.tool_namespaces):
            target = tool.name
        else:
            full = f"{tool.namespace}{_SEPARATOR}{tool.name}" if tool.namespace is not None else tool.name
            target = self._legal_name(full if is_shared else tool.name, full)
            if target != tool.name:
                group = "" if tool.namespace is None else f" of {tool.namespace!r}"
                self.changes.append(f"the tool {tool.name!r}{group} has the name {target!r} in this request")
        if key == (None, target):
            self._unchanged.add(target)
        self._targets[key] = target
        self._originals.setdefault(target, tool)

    def _legal_name(self, wanted: str, full: str) -> str:
        """Return a name that the target accepts and that no other tool has, the wanted one if possible."""
        legal, longest = self._traits.legal_name(wanted), self._traits.longest_name
        if legal not in self._originals and len(wanted) <= longest:
            return legal
        suffix = "_" + sha256(full.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        return legal[: longest - len(suffix)] + suffix

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
            if self._are_kept(content.blocks, names):
                renamed.append(content)
                continue
            blocks = [
                self._rename(block, names) if isinstance(block, _NAMED) else block
                for block in content.blocks
                if not (isinstance(block, OpaqueBlock) and self._is_foreign_definition(block))
            ]
            if len(blocks) == len(content.blocks) and all(map(is_, blocks, content.blocks)):
                renamed.append(content)
            elif blocks:
                renamed.append(copy_with(content, blocks=blocks))
        return renamed

    def _are_kept(self, blocks: Sequence[Block], names: Mapping[str, str]) -> bool:
        """Return True if no block names a tool whose name changes; False if that is not known."""
        for block in blocks:
            if type(block) in _UNNAMED:
                continue
            if not isinstance(block, _NAMED) or block.name not in self._unchanged or "namespace" in block.metadata:
                return False
            if names and isinstance(block, ToolResponseBlock):
                return False
        return True

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

    def _is_foreign_definition(self, block: OpaqueBlock) -> bool:
        if block.metadata.get("defines_tools") is not True:
            return False
        return block.metadata.get("provider") != self._traits.name


def prepare_tools(
    tools: Sequence[OfferedTool], traits: Traits, names: ToolNames, changes: list[str]
) -> list[OfferedTool]:
    """Return the tools that a target is offered, in its form.

    Args:
        tools: the tools of the request.
        traits: the target's.
        names: their names at the target.
        changes: receives a sentence for each tool and each field that is left out.
    """
    prepared: list[OfferedTool] = []
    for tool in tools:
        if isinstance(tool, HostedTool):
            if tool.provider != traits.name:
                changes.append(f"the tool {tool.label!r} was left out: only {tool.provider} has it")
            elif not tool.in_messages:
                prepared.append(tool)
        elif tool.metadata.get("provider") == traits.name:
            if not tool.metadata.get("in_messages"):  # else its own messages define it
                prepared.append(tool)
        else:
            prepared.append(_converted(tool, traits, names, changes))
    return prepared


def _converted(tool: ToolDefinition, traits: Traits, names: ToolNames, changes: list[str]) -> ToolDefinition:
    """Return a tool that was read in another provider's form."""
    further = tool.metadata.get("fields")
    left_out = [name for name, value in further.items() if value] if isinstance(further, dict) else []
    left_out = [name for name in left_out if name not in ("type", "parameters")]
    if left_out:
        listed = ", ".join(map(repr, left_out))
        sentence = f"left out {listed} of tools: only {tool.metadata.get('provider')} has it"
        if sentence not in changes:
            changes.append(sentence)
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
