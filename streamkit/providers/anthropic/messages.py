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
from streamkit.providers.message_renderer import AlternatingRenderer
from streamkit.providers.provider import IdPolicy, RenderedMessages, ToolChoice, Traits
from streamkit.providers.strict import ANTHROPIC
from streamkit.providers.tool_result_media import Media, convert_or_describe
from streamkit.tools import Tool, strict_parameters

__all__ = ["build_request", "convert_media", "render_messages"]

_CHOICES: dict[str, Json] = {"auto": {"type": "auto"}, "required": {"type": "any"}, "none": {"type": "none"}}


def render_messages(contents: Sequence[Content], traits: Traits, *, ids: IdPolicy | None = None) -> RenderedMessages:
    """The thread in Anthropic's form, its system text apart.

    Args:
        contents: the conversation.
        traits: the target's.
        ids: ``origin`` gives a call of the family its own id back; else every id is made from the canonical one.

    Raises:
        UnsupportedContent: a person's image or file is in a form that the API does not take.
    """
    return AnthropicRenderer(traits, ids).render(contents)


def build_request(
    rendered: RenderedMessages,
    traits: Traits,
    *,
    tools: Sequence[Tool] = (),
    tool_choice: ToolChoice | None = None,
    stream: bool = True,
) -> Json:
    """The body's fields that the conversation decides; ``model``, ``max_tokens`` and settings are the caller's.

    Raises:
        UsageError: the schema of a strict tool, or all of them together, cannot be had.
    """
    body: Json = {}
    if rendered.system is not None:
        body["system"] = rendered.system
    body[traits.messages_field] = rendered.messages
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
    body |= rendered.request_fields
    if stream:
        body["stream"] = True
    return body


class AnthropicRenderer(AlternatingRenderer[Traits]):
    """Renders history as Anthropic's messages."""

    illegal_in_name = re.compile(r"[^a-zA-Z0-9_-]")

    def render(self, contents: Sequence[Content]) -> RenderedMessages:
        """Return the conversation as messages, with the container that its last code runs in."""
        container = _container(contents, self.traits)
        if container is not None:
            self.request_fields["container"] = container
        return super().render(contents)

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
                self.report("white space at the end of the last assistant text was cut off")
        self.begin_with_user({"type": "text", "text": "(continued)"})

    # ------------------------------------------------------------ what people and tools say

    def user_parts(self, block: Block) -> list[Json]:
        """See ``AlternatingRenderer``."""
        if isinstance(block, TextBlock):
            return self._text(block)
        if isinstance(block, (ImageBlock, FileBlock)):
            return [media_block(block)]
        self.report(f"a block of type {block.type!r} in a user message was left out")
        return []

    def tool_media_part(self, block: Media) -> Json:
        """See ``AlternatingRenderer``."""
        part = convert_or_describe(block, media_block, self.changes, "Anthropic")
        return {"type": "text", "text": part} if isinstance(part, str) else part

    def _text(self, block: TextBlock) -> list[Json]:
        if not block.text.strip():  # "messages: text content blocks must contain non-whitespace text"
            if block.text:
                self.report("a text of nothing but white space was left out")
            return []
        if block.metadata.get("refusal") and self.is_own(block):
            self.report("the explanation of a refusal was left out: it is the provider's word, not the model's")
            return []
        part: Json = {"type": "text", "text": block.text}
        citations = block.metadata.get("citations")
        if citations and self.is_own(block):
            part["citations"] = citations
        return [part]

    def result_parts(self, block: ToolResponseBlock) -> list[Json]:
        """See ``AlternatingRenderer``."""
        part: Json = {"type": "tool_result", "tool_use_id": self.ids.result_id(block)}
        if block.error is not None or block.status not in (None, "completed"):
            said = block.error or as_text(block.result)
            part["content"] = said or f"The call did not complete: {block.status}."
            part["is_error"] = True
        else:
            part["content"] = result_content(block.result, self.changes) or as_text(block.result)
        return [part]

    # ------------------------------------------------------------ what the model said

    def assistant_parts(self, block: Block) -> list[Json]:
        """See ``AlternatingRenderer``."""
        if isinstance(block, TextBlock):
            return self._text(block)
        if isinstance(block, ToolCallBlock):
            return [self._call(block)]
        if isinstance(block, ReasoningBlock):
            return self._reasoning(block)
        if isinstance(block, (ServerToolBlock, OpaqueBlock)):
            what = f"the provider's tool {block.name!r}" if isinstance(block, ServerToolBlock) else "a provider's block"
            raw = block.raw if isinstance(block, ServerToolBlock) else [block.raw]
            parts = [part for part in raw if isinstance(part, dict) and isinstance(part.get("type"), str)]
            if self.is_own(block) and parts:
                return parts
            self.report(f"{what} was left out: it can go back only to the provider that made it")
            return []
        self.report(f"a block of type {block.type!r} in an assistant message was left out")
        return []

    def _reasoning(self, block: ReasoningBlock) -> list[Json]:
        if not self.is_own(block):
            self.report("reasoning of another provider was left out: it has no signature of Anthropic's")
            return []
        if isinstance(block.opaque, dict) and isinstance(block.opaque.get("type"), str):
            return [block.opaque]
        signature = block.signature or block.metadata.get("signature")
        if isinstance(signature, str) and signature:
            return [{"type": "thinking", "thinking": block.text, "signature": signature}]
        self.report("reasoning without a signature was left out: the API takes back only signed thinking")
        return []

    def _call(self, block: ToolCallBlock) -> Json:
        part: Json = {"type": "tool_use", "id": self.ids.call_id(block), "name": self.tool_name(block.name)}
        part["input"] = self.arguments_object(block.parameters, block.name)
        if self.is_own(block):
            caller = block.metadata.get("caller")
            if isinstance(caller, dict) and caller.get("type") != "direct":  # direct is what an absent one means
                part["caller"] = caller
            if block.metadata.get("toolset_name"):
                part["toolset_name"] = block.metadata["toolset_name"]
        return part


def _place(part: Json, calls: dict[str, int]) -> int:
    """Where a part stands in a user message: results first, in the order of their calls."""
    if part["type"] != "tool_result":
        return len(calls) + 1
    return calls.get(part["tool_use_id"], len(calls))


def _container(contents: Sequence[Content], traits: Traits) -> str | None:
    """The container whose code waits for this request's results, where the last answer called from one."""
    last = next((content for content in reversed(contents) if content.speaker == "ai"), None)
    for block in reversed(last.blocks if last is not None else []):
        container, caller = block.metadata.get("container"), block.metadata.get("caller")
        if traits.accepts_state(block.metadata) and isinstance(container, dict) and isinstance(caller, dict):
            container_id = container.get("id")
            return container_id if isinstance(container_id, str) and caller.get("type") != "direct" else None
    return None


def convert_media(block: ImageBlock | FileBlock, traits: Traits) -> Json:
    """Return an image or a file as a block.

    Raises:
        UnsupportedContent: the API does not accept it in this form.
    """
    return media_block(block)
