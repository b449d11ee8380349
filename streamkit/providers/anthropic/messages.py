"""History as Anthropic messages, and the parts of a request's body that a conversation decides.

What the API refuses, and where it says so, decides the form: roles alternate, the first message is a user's, all
results of a batch stand at the beginning of the one user message behind their calls
(https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/implement-tool-use), texts are not blank, the last
assistant text does not end in white space, a call's input is an object. A thinking block is taken back only with the
signature that it came with; it, redacted thinking, and whatever the provider ran itself go back unchanged and in their
order, and only to their own family.

This file knows neither streams nor how a broken history is repaired: a call without a result stays one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from streamkit.history.content import (
    Block,
    Content,
    FileBlock,
    ImageBlock,
    OpaqueBlock,
    ReasoningBlock,
    ServerToolBlock,
    TextBlock,
    ToolCallBlock,
    ToolResponseBlock,
)
from streamkit.providers.anthropic.media import as_text, media_block, result_content
from streamkit.providers.anthropic.schema import Json
from streamkit.providers.message_ids import MessageIds
from streamkit.providers.provider import IdPolicy, ToolChoice
from streamkit.providers.rendered import RenderedMessages
from streamkit.providers.strict import ANTHROPIC
from streamkit.providers.tool_result_media import convert_or_describe
from streamkit.tools import Tool, strict_parameters

__all__ = ["render", "render_request"]

_ROLES = {"human": "user", "tool": "user", "ai": "assistant"}
_ILLEGAL_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_CHOICES: dict[str, Json] = {"auto": {"type": "auto"}, "required": {"type": "any"}, "none": {"type": "none"}}


def render(contents: Sequence[Content], *, family: frozenset[str], ids: IdPolicy | None = None) -> RenderedMessages:
    """The thread in Anthropic's form, its system text apart.

    Args:
        contents: the conversation.
        family: the providers whose own blocks this target takes back.
        ids: ``origin`` gives a call of the family its own id back; else every id is made from the canonical one.

    Raises:
        UnsupportedContent: a person's image or file is in a form that the API does not take.
    """
    thread = MessageRenderer(family, ids)
    for content in contents:
        thread.add(content)
    thread.finish()
    return RenderedMessages(thread.messages, "\n\n".join(thread.system) or None, thread.changes)


def render_request(
    contents: Sequence[Content],
    *,
    family: frozenset[str],
    tools: Sequence[Tool] = (),
    tool_choice: ToolChoice | None = None,
    stream: bool = True,
    ids: IdPolicy | None = None,
) -> Json:
    """The body's fields that the conversation decides; ``model``, ``max_tokens`` and settings are the caller's.

    Raises:
        UsageError: the schema of a strict tool, or all of them together, cannot be had.
        UnsupportedContent: as ``render``.
    """
    thread = render(contents, family=family, ids=ids)
    body: Json = {}
    if thread.system is not None:
        body["system"] = thread.system
    body["messages"] = thread.messages
    if tools:
        strict = strict_parameters(tools, ANTHROPIC)
        body["tools"] = [
            {
                "name": tool.name,
                **({"description": tool.description} if tool.description else {}),
                "input_schema": strict.get(tool.name, tool.parameters),
                **({"strict": True} if tool.name in strict else {}),
            }
            for tool in tools
        ]
        if tool_choice is not None:
            body["tool_choice"] = dict(_CHOICES.get(tool_choice) or {"type": "tool", "name": tool_choice})
    container = _container(contents, family)
    if container is not None:
        body["container"] = container
    if stream:
        body["stream"] = True
    return body


class MessageRenderer:
    """The messages as they grow."""

    def __init__(self, family: frozenset[str], ids: IdPolicy | None) -> None:
        self.messages: list[Json] = []
        self.system: list[str] = []
        self.changes: list[str] = []
        self._family = family
        self._ids = MessageIds("anthropic", family, ids)

    def add(self, content: Content) -> None:
        """The next message of the conversation."""
        if content.speaker == "system":
            self._add_system(content)
            return
        role = _ROLES.get(content.speaker)
        if role is None:
            self._change(f"a message of the unknown speaker {content.speaker!r} was left out")
            return
        for block in content.blocks:
            if isinstance(block, ToolResponseBlock):
                self._push("user", self._result(block))
            elif content.speaker == "tool" and isinstance(block, (ImageBlock, FileBlock)):
                shown = convert_or_describe(block, media_block, self.changes, "Anthropic")
                self._push(role, {"type": "text", "text": shown} if isinstance(shown, str) else shown)
            elif role == "user":
                self._push(role, self._said(block))
            else:
                for part in self._answered(block):
                    self._push(role, part)

    def finish(self) -> None:
        """What concerns the thread as a whole."""
        calls: dict[str, int] = {}
        for message in self.messages:
            if message["role"] == "assistant":
                uses = [part["id"] for part in message["content"] if part["type"] == "tool_use"]
                calls = {wire_id: place for place, wire_id in enumerate(uses)}
            else:
                message["content"].sort(key=lambda part: _place(part, calls))
        last = self.messages[-1] if self.messages else None
        if last is not None and last["role"] == "assistant" and last["content"][-1]["type"] == "text":
            # "messages: final assistant content cannot end with trailing whitespace"
            part = last["content"][-1]
            if part["text"] != part["text"].rstrip():
                part["text"] = part["text"].rstrip()
                self._change("white space at the end of the last assistant text was cut off")
        if self.messages and self.messages[0]["role"] != "user":
            self.messages.insert(0, {"role": "user", "content": [{"type": "text", "text": "(continued)"}]})
            self._change("a user message '(continued)' was put in front: the first message must be a user's")

    def _change(self, sentence: str) -> None:
        if sentence not in self.changes:
            self.changes.append(sentence)

    def _push(self, role: str, part: Json | None) -> None:
        if part is None:
            return
        if self.messages and self.messages[-1]["role"] == role:
            self.messages[-1]["content"].append(part)
        else:
            self.messages.append({"role": role, "content": [part]})

    def _add_system(self, content: Content) -> None:
        if self.messages:
            self._change("a system message from within the conversation was moved to the system text")
        for block in content.blocks:
            if isinstance(block, TextBlock):
                if block.text.strip():
                    self.system.append(block.text)
            else:
                self._change(f"a block of type {block.type!r} in a system message was left out")

    # ------------------------------------------------------------ what people and tools say

    def _said(self, block: Block) -> Json | None:
        if isinstance(block, TextBlock):
            return self._text(block)
        if isinstance(block, (ImageBlock, FileBlock)):
            return media_block(block)
        self._change(f"a block of type {block.type!r} in a user message was left out")
        return None

    def _text(self, block: TextBlock) -> Json | None:
        if not block.text.strip():  # "messages: text content blocks must contain non-whitespace text"
            if block.text:
                self._change("a text of nothing but white space was left out")
            return None
        if block.metadata.get("refusal") and self._is_own(block):
            self._change("the explanation of a refusal was left out: it is the provider's word, not the model's")
            return None
        part: Json = {"type": "text", "text": block.text}
        citations = block.metadata.get("citations")
        if citations and self._is_own(block):
            part["citations"] = citations
        return part

    def _result(self, block: ToolResponseBlock) -> Json:
        part: Json = {"type": "tool_result", "tool_use_id": self._ids.result_id(block)}
        if block.error is not None or block.status not in (None, "completed"):
            said = block.error or as_text(block.result)
            part["content"] = said or f"The call did not complete: {block.status}."
            part["is_error"] = True
        else:
            part["content"] = result_content(block.result, self.changes) or as_text(block.result)
        return part

    # ------------------------------------------------------------ what the model said

    def _answered(self, block: Block) -> list[Json]:
        if isinstance(block, TextBlock):
            text = self._text(block)
            return [] if text is None else [text]
        if isinstance(block, ToolCallBlock):
            return [self._call(block)]
        if isinstance(block, ReasoningBlock):
            return self._reasoning(block)
        if isinstance(block, (ServerToolBlock, OpaqueBlock)):
            what = f"the provider's tool {block.name!r}" if isinstance(block, ServerToolBlock) else "a provider's block"
            raw = block.raw if isinstance(block, ServerToolBlock) else [block.raw]
            parts = [part for part in raw if isinstance(part, dict) and isinstance(part.get("type"), str)]
            if self._is_own(block) and parts:
                return parts
            self._change(f"{what} was left out: it can go back only to the provider that made it")
            return []
        self._change(f"a block of type {block.type!r} in an assistant message was left out")
        return []

    def _reasoning(self, block: ReasoningBlock) -> list[Json]:
        if not self._is_own(block):
            self._change("reasoning of another provider was left out: it has no signature of Anthropic's")
            return []
        if isinstance(block.opaque, dict) and isinstance(block.opaque.get("type"), str):
            return [block.opaque]
        signature = block.signature or block.metadata.get("signature")
        if isinstance(signature, str) and signature:
            return [{"type": "thinking", "thinking": block.text, "signature": signature}]
        self._change("reasoning without a signature was left out: the API takes back only signed thinking")
        return []

    def _call(self, block: ToolCallBlock) -> Json:
        name = _ILLEGAL_IN_NAME.sub("_", block.name)[:64] or "unnamed"
        if name != block.name:
            self._change(f"the tool name {block.name!r} was written {name!r}: it has characters that are refused")
        arguments = block.parameters
        if not isinstance(arguments, dict):
            self._change(f"the free text of a call of {block.name!r} was put into an object")
            arguments = {"input": arguments}
        part: Json = {"type": "tool_use", "id": self._ids.call_id(block), "name": name, "input": arguments}
        if self._is_own(block):
            caller = block.metadata.get("caller")
            if isinstance(caller, dict) and caller.get("type") != "direct":  # direct is what an absent one means
                part["caller"] = caller
            if block.metadata.get("toolset_name"):
                part["toolset_name"] = block.metadata["toolset_name"]
        return part

    def _is_own(self, block: Block) -> bool:
        return block.metadata.get("provider") in self._family


def _place(part: Json, calls: dict[str, int]) -> int:
    """Where a part stands in a user message: results first, in the order of their calls."""
    if part["type"] != "tool_result":
        return len(calls) + 1
    return calls.get(part["tool_use_id"], len(calls))


def _container(contents: Sequence[Content], family: frozenset[str]) -> str | None:
    """The container whose code waits for this request's results, where the last answer called from one."""
    last = next((content for content in reversed(contents) if content.speaker == "ai"), None)
    for block in reversed(last.blocks if last is not None else []):
        container, caller = block.metadata.get("container"), block.metadata.get("caller")
        if block.metadata.get("provider") in family and isinstance(container, dict) and isinstance(caller, dict):
            container_id = container.get("id")
            return container_id if isinstance(container_id, str) and caller.get("type") != "direct" else None
    return None
