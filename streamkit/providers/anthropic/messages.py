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

from collections.abc import Sequence
from typing import Any

from streamkit.history.content import (
    Content,
    FileBlock,
    ImageBlock,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResponseBlock,
)
from streamkit.providers.anthropic.media import media_block, result_content
from streamkit.providers.anthropic.schema import Json
from streamkit.providers.anthropic.strict import STRICT
from streamkit.providers.block_renderer import BlockRenderer
from streamkit.providers.encoding import text_or_json
from streamkit.providers.provider import RenderedMessages, RenderOptions, ToolChoice, Traits
from streamkit.tools import Tool, strict_parameters

__all__ = ["build_request", "convert_media", "render_messages"]

_TOOL_CHOICES: dict[str, Json] = {"auto": {"type": "auto"}, "required": {"type": "any"}, "none": {"type": "none"}}


def render_messages(contents: Sequence[Content], traits: Traits, options: RenderOptions) -> RenderedMessages:
    """Return a conversation as Anthropic's messages, with the system text outside of them.

    Args:
        contents: The conversation.
        traits: The traits of the target.
        options: The id policy (``origin`` sends the ids of compatible providers back), and the model and endpoint that
            are requested.

    Raises:
        UnsupportedContent: A person's image or file is in a form that the API does not accept.
    """
    return AnthropicRenderer(traits, options).render(contents)


def build_request(
    rendered: RenderedMessages,
    traits: Traits,
    *,
    tools: Sequence[Tool] = (),
    tool_choice: ToolChoice | None = None,
    stream: bool = True,
) -> Json:
    """Return the fields of a body that the conversation determines; the caller adds ``model`` and ``max_tokens``.

    Raises:
        UsageError: The schema of a strict tool cannot be converted, or all of them together exceed a limit.
    """
    body: Json = {}
    if rendered.system is not None:
        body["system"] = rendered.system
    body[traits.messages_field] = rendered.messages
    if tools:
        strict = strict_parameters(tools, STRICT)
        body["tools"] = [_tool_definition(tool, strict.get(tool.name)) for tool in tools]
        if tool_choice is not None:
            body["tool_choice"] = dict(_TOOL_CHOICES.get(tool_choice) or {"type": "tool", "name": tool_choice})
    body |= rendered.request_fields
    if stream:
        body["stream"] = True
    return body


def convert_media(block: ImageBlock | FileBlock, traits: Traits) -> Json:
    """Return an image or a file as a block.

    Raises:
        UnsupportedContent: The API does not accept it in this form.
    """
    return media_block(block)


def _tool_definition(tool: Tool, strict_schema: Json | None) -> Json:
    definition: Json = {"name": tool.name}
    if tool.description:
        definition["description"] = tool.description
    definition["input_schema"] = tool.parameters if strict_schema is None else strict_schema
    if strict_schema is not None:
        definition["strict"] = True
    return definition


class AnthropicRenderer(BlockRenderer):
    """A rendering of a conversation to Anthropic's messages."""

    target = "Anthropic"

    def render(self, contents: Sequence[Content]) -> RenderedMessages:
        """Return the conversation as messages, with the container in which its last code runs."""
        container = self._find_container(contents)
        if container is not None:
            self.request_fields["container"] = container
        return super().render(contents)

    def _find_container(self, contents: Sequence[Content]) -> str | None:
        """Return the id of the container in which the code that made the last calls runs; None if no code made them."""
        last = next((content for content in reversed(contents) if content.speaker == "ai"), None)
        for block in reversed(last.blocks if last is not None else []):
            container, caller = block.metadata.get("container"), block.metadata.get("caller")
            if self.is_own(block) and isinstance(container, dict) and isinstance(caller, dict):
                container_id = container.get("id")
                return container_id if isinstance(container_id, str) and caller.get("type") != "direct" else None
        return None

    def finish(self) -> None:
        """Put results first, strip the last text and begin with a user message."""
        self.put_results_first()
        self.strip_last_text()  # "messages: final assistant content cannot end with trailing whitespace"
        self.begin_with_user_text()

    def text_block(self, text: str) -> Json:
        """Return a ``text`` block."""
        return {"type": "text", "text": text}

    def media_block(self, block: ImageBlock | FileBlock) -> Json:
        """Return an ``image`` or ``document`` block."""
        return media_block(block)

    def text_parts(self, block: TextBlock) -> list[Json]:
        """Return text with its citations as a ``text`` block; none for a refusal's explanation or blank text."""
        parts = super().text_parts(block)  # "messages: text content blocks must contain non-whitespace text"
        if not parts or not self.is_from_target(block):
            return parts
        if block.metadata.get("refusal"):
            self.report("the explanation of a refusal was left out: its author is the provider, not the model")
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
        part["input"] = self.arguments_object(block.parameters, block.name)
        if self.is_from_target(block):
            caller = block.metadata.get("caller")
            # An absent caller means direct. Any other names a server tool's block, which is opaque state, too.
            if isinstance(caller, dict) and caller.get("type") != "direct" and self.own_state(block, "caller"):
                part["caller"] = caller
            if block.metadata.get("toolset_name"):
                part["toolset_name"] = block.metadata["toolset_name"]
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
