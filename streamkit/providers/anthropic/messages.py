"""History as Anthropic messages, and the fields of a request's body that the conversation determines.

The form follows from what the API refuses: roles alternate; the first message is a user's; all results of a batch are
at the beginning of the one user message after their calls
(https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/implement-tool-use); texts are not blank; the last
assistant text does not end in white space; a call's input is an object. A thinking block is accepted only with the
signature that it came with. Thinking, redacted thinking and the blocks of tools that the provider ran are sent back
unchanged and in their order, and only to compatible providers.

This module must not depend on streams. It does not repair a history: a call without a result remains one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from streamkit.history.content import (
    Block,
    CacheMark,
    Content,
    FileBlock,
    ImageBlock,
    OpaqueBlock,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResponseBlock,
)
from streamkit.providers.anthropic.media import OWN_MEDIA_FIELDS, media_block, result_content
from streamkit.providers.anthropic.requests import STRICT, output_fields, render_tool_choice, render_tools
from streamkit.providers.anthropic.schema import SYSTEM_MESSAGE_FIELDS, Json
from streamkit.providers.provider import RenderedMessages, RenderOptions, ToolChoice, Traits
from streamkit.providers.rendering.block_renderer import BlockRenderer
from streamkit.providers.requests.body_fields import merge_fields
from streamkit.providers.requests.request import MOST_CACHE_MARKS, cache_mark
from streamkit.providers.requests.strict import strict_output
from streamkit.providers.writing.encoding import text_or_json
from streamkit.tools.definition import OfferedTool
from streamkit.values.json_data import copy_with
from streamkit.values.request_changes import LeftOut, Lost

if TYPE_CHECKING:
    from streamkit.output import OutputType

__all__ = ["build_request", "convert_media", "create_renderer"]

#: The metadata of a call that Anthropic's own calls have.
_CALL_FIELDS = frozenset({"caller", "toolset_name"})
#: The blocks without cache marks: https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching
_UNMARKED_BLOCKS = ("thinking", "redacted_thinking")


def create_renderer(traits: Traits, options: RenderOptions) -> AnthropicRenderer:
    """Return a renderer of a conversation as Anthropic's messages, with the system text outside of them.

    The id policy ``origin`` sends the ids of compatible providers back.
    """
    return AnthropicRenderer(traits, options)


def build_request(
    rendered: RenderedMessages,
    traits: Traits,
    *,
    tools: Sequence[OfferedTool] = (),
    tool_choice: ToolChoice | None = None,
    stream: bool = True,
    output: OutputType[Any] | None = None,
) -> Json:
    """Return the fields of a body that the conversation determines; the caller adds ``model`` and ``max_tokens``."""
    body: Json = {}
    if rendered.system is not None:
        body["system"] = rendered.system
    body[traits.messages_field] = rendered.messages
    body |= rendered.request_fields
    if output is not None:
        merge_fields(body, output_fields(strict_output(output, STRICT)))
    if tools:
        body["tools"] = render_tools(tools, traits, most_marks=lambda: MOST_CACHE_MARKS - _count_marks(body))
        choice = render_tool_choice(tool_choice, tools, traits)
        if choice is not None:
            body["tool_choice"] = choice
    if stream:
        body["stream"] = True
    return body


def convert_media(block: ImageBlock | FileBlock, traits: Traits) -> Json:
    """Return an image or a file as a block."""
    return media_block(block)


def _count_marks(body: Json) -> int:
    """Return the number of cache marks on system text and messages; those of a caller may have a text for blocks."""
    contents = [body.get("system"), *[message.get("content") for message in body["messages"]]]
    blocks = [block for content in contents if isinstance(content, list) for block in content]
    return len([block for block in blocks if isinstance(block, dict) and "cache_control" in block])


class AnthropicRenderer(BlockRenderer):
    """A rendering of a conversation to Anthropic's messages."""

    target = "Anthropic"

    _toolsets: Mapping[str, Any] = MappingProxyType({})  # by the id of a call of a toolset's member

    def add(self, content: Content) -> None:
        """Render the next content, and keep the container in which the model's code ran.

        That is the last one of a response of this server. The files and the code of earlier turns are in it, and code
        that waits for a client's tool continues in it
        (https://platform.claude.com/docs/en/agents-and-tools/tool-use/programmatic-tool-calling). Whether it has
        expired is not decided here, where no clock is: ``expires_at`` is in the content's metadata.
        """
        metadata = content.metadata
        container = metadata.get("container")
        if isinstance(container, dict) and metadata.get("provider") == self.traits.name:
            container_id, skills = container.get("id"), container.get("skills")
            is_valid = isinstance(container_id, str) and bool(container_id)
            if is_valid and self.traits.accepts_state(metadata, None, self.options.endpoint):
                has_skills = isinstance(skills, list) and bool(skills)
                self.request_fields["container"] = (
                    {"id": container_id, "skills": skills} if has_skills else container_id
                )
        super().add(content)

    def add_system(self, content: Content) -> None:
        """Add system text; a system message that was inside Anthropic's messages stays in its place."""
        metadata = content.metadata
        if metadata.get("in_messages") is not True or metadata.get("provider") != self.traits.name:
            if any(isinstance(block, OpaqueBlock) for block in content.blocks):
                content = copy_with(content, blocks=[self._own_system_text(block) for block in content.blocks])
            super().add_system(content)
            return
        blocks: list[Json] = []
        for block in content.blocks:
            if isinstance(block, TextBlock):
                parts = self.text_parts(block)
                if parts and (mark := cache_mark(block)) is not None:
                    parts = self.mark_parts(parts, mark)
                blocks += parts
            elif isinstance(block, OpaqueBlock):
                raw = block.raw
                if isinstance(raw, dict) and raw.get("role") == "system" and self.is_own(block):
                    metadata = {**raw, **metadata}  # it has no content, so these fields are all that it is
                else:
                    blocks += self.own_parts(block)  # such as the addition of a tool
            else:
                self.report(Lost(f"a block of type {block.type!r} in a system message was left out"))
        fields = {name: metadata[name] for name in SYSTEM_MESSAGE_FIELDS if metadata.get(name)}
        if not blocks and "output_config" not in fields:
            return  # "A message with neither content nor output_config fields is rejected" (BetaSystemMessageParam)
        previous = self.messages[-1] if self.messages else {}
        if fields or not previous.keys().isdisjoint(SYSTEM_MESSAGE_FIELDS):  # the fields are of one message
            self.append({"role": "system", "content": blocks, **fields})
        else:
            self.push("system", blocks)

    def _own_system_text(self, block: Block) -> Block:
        """Return the text of a system block that only this provider gets; any other block unchanged."""
        raw = block.raw if isinstance(block, OpaqueBlock) and self.is_own(block) else None
        if not isinstance(raw, dict) or not isinstance(text := raw.get("text"), str):
            return block
        return TextBlock(text=text, metadata=block.metadata)

    def finish(self) -> None:
        """Put results first, limit the cache marks, strip the last text and begin with a user message."""
        self.close_messages(len(self.messages))
        system: list[Json] = []
        if self.system_marks:  # system text with marks is blocks
            system = [{"type": "text", "text": text} for text in self.system]
            for position, mark in self.system_marks.items():
                system[position]["cache_control"] = {"type": "ephemeral", **mark}
            self.request_fields["system"] = system
        if (system or self.marked_messages) and self.drop_first_marks(system):
            sentence = f"the first cache marks were left out: Anthropic accepts {MOST_CACHE_MARKS} in a request"
            self.report(LeftOut(sentence))
        self.strip_last_text()  # "messages: final assistant content cannot end with trailing whitespace"
        self.begin_with_user_text()

    def close_message(self, message: Json) -> None:
        """Put results first, and leave out the content of a system message that has only fields."""
        self.put_results_first(message)
        if not message["content"]:
            del message["content"]

    def mark_parts(self, parts: list[Json], mark: CacheMark) -> list[Json]:
        """Return the blocks with ``cache_control`` on the last, unless it is thinking, which cannot have one."""
        last = parts[-1]
        if last.get("type") in _UNMARKED_BLOCKS:
            self.report(LeftOut("a cache mark on thinking was left out: Anthropic accepts none there"))
            return parts
        return [*parts[:-1], {**last, "cache_control": {"type": "ephemeral", **mark}}]

    def text_block(self, text: str) -> Json:
        """Return a ``text`` block."""
        return {"type": "text", "text": text}

    def media_block(self, block: ImageBlock | FileBlock) -> Json:
        """Return an ``image`` or ``document`` block, with the fields that only this wire has."""
        part = media_block(block)
        if self.is_from_target(block):
            names = OWN_MEDIA_FIELDS[part["type"]]
            part |= {name: block.metadata[name] for name in names if block.metadata.get(name) is not None}
        return part

    def text_parts(self, block: TextBlock) -> list[Json]:
        """Return text with its citations as a ``text`` block; none for a refusal's explanation or blank text."""
        parts = super().text_parts(block)  # "messages: text content blocks must contain non-whitespace text"
        if not parts and block.metadata.get("citations"):
            self.report(LeftOut("citations without text were left out: Anthropic refuses a blank text"))
        if not parts or not self.is_from_target(block):
            return parts
        if block.metadata.get("refusal"):
            self.report(Lost("the explanation of a refusal was left out: its author is the provider, not the model"))
            return []
        citations = self.own_state(block, "citations")  # those of a search contain encrypted references
        if citations:
            parts[0]["citations"] = citations
        return parts

    def result_parts(self, block: ToolResponseBlock) -> list[Json]:
        """Return a result as a ``tool_result`` block."""
        part: Json = {"type": "tool_result", "tool_use_id": self.ids.result_id(block)}
        failure = self.failure_text(block)
        if failure is None:
            part["content"] = result_content(block.result, self.changes) or text_or_json(block.result)
        else:
            part["content"] = failure
            part["is_error"] = True
        own = block.metadata.get("toolset_name")
        if own is not None and not self.is_from_target(block):
            own = None
        if toolset := own or self._toolsets.get(part["tool_use_id"]):
            part["toolset_name"] = toolset
        return [part]

    def reasoning_block(self, block: ReasoningBlock) -> Json | None:
        """Return a ``thinking`` block, or the opaque block that the reasoning came as."""
        if isinstance(block.opaque, dict) and self.is_block(block.opaque):
            return block.opaque
        signature = block.signature or block.metadata.get("signature")
        if isinstance(signature, str) and signature:
            return {"type": "thinking", "thinking": block.text, "signature": signature}
        return None

    def call_block(self, block: ToolCallBlock) -> Json:
        """Return a ``tool_use`` block."""
        part: Json = {"type": "tool_use", "id": self.ids.call_id(block), "name": self.tool_name(block.name)}
        part["input"] = self.arguments_object(block)
        if not _CALL_FIELDS.isdisjoint(block.metadata) and self.is_from_target(block):
            caller = block.metadata.get("caller")
            # An absent caller means direct. Any other names a server tool's block, which is opaque state, too.
            if isinstance(caller, dict) and caller.get("type") != "direct" and self.own_state(block, "caller"):
                part["caller"] = caller
            if block.metadata.get("toolset_name"):
                # The result of a toolset's member repeats the name: members are distinguished by it (the SDK's
                # lib/tools/_toolsets/_runnable.py).
                part["toolset_name"] = block.metadata["toolset_name"]
                self._toolsets = {**self._toolsets, part["id"]: part["toolset_name"]}
        return part

    def is_block(self, raw: Any) -> bool:
        """Return True if a value is an object with a ``type``."""
        return isinstance(raw, dict) and isinstance(raw.get("type"), str)

    def read_call_id(self, block: Json) -> str | None:
        """Return the id of a ``tool_use`` block."""
        return block.get("id") if block["type"] == "tool_use" else None

    def read_result_id(self, block: Json) -> str | None:
        """Return the id of the call of a ``tool_result`` block."""
        return block.get("tool_use_id") if block["type"] == "tool_result" else None
