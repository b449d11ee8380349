"""History as the ``input`` items of a Responses request, and the fields of its body that a conversation decides.

What the model said is rendered in ``assistant_message``; the outputs of its calls follow, in the order of the calls.
System text keeps its position, as items with the role ``system`` or ``developer``; the instructions of a request are
its field again. This module must not depend on streams, and it repairs nothing: a call without a result is rendered as
it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamkit.history.content import Block, Content, FileBlock, ImageBlock, OpaqueBlock, TextBlock, ToolResponseBlock
from streamkit.history.pairing import NO_RESULT
from streamkit.output import OutputType
from streamkit.providers.openai_responses.assistant_message import AssistantRenderer, RenderedCall
from streamkit.providers.openai_responses.client_items import output_item, stored_item
from streamkit.providers.openai_responses.media import detail_of, input_file, input_image, media_part, output_of
from streamkit.providers.openai_responses.requests import output_fields, render_tool_choice, render_tools
from streamkit.providers.openai_responses.schema import Json
from streamkit.providers.provider import RenderedMessages, RenderOptions, ToolChoice, Traits
from streamkit.providers.requests.body_fields import merge_fields
from streamkit.providers.requests.strict import OPENAI, strict_output_if_possible
from streamkit.tools.definition import OfferedTool

__all__ = ["build_request", "convert_media", "render_messages"]


def render_messages(contents: Sequence[Content], traits: Traits, options: RenderOptions) -> RenderedMessages:
    """Return history as input items.

    Args:
        contents: the conversation.
        traits: the target's traits.
        options: the id policy (``origin``: a call of this provider keeps its own ``call_id``), and the model and
            endpoint that are requested.

    Raises:
        UnsupportedContent: an image or file of a person has a form that the API does not accept.
    """
    return ResponsesRenderer(traits, options).render(contents)


def build_request(
    rendered: RenderedMessages,
    traits: Traits,
    *,
    tools: Sequence[OfferedTool] = (),
    tool_choice: ToolChoice | None = None,
    stream: bool = True,
    output: OutputType[Any] | None = None,
) -> Json:
    """Return the fields of a request's body that the conversation decides; the caller adds ``model`` and settings.

    Raises:
        UsageError: a strict tool's schema cannot be converted.
    """
    body: Json = {} if rendered.system is None else {"instructions": rendered.system}
    body[traits.messages_field] = rendered.messages
    if tools:
        body["tools"] = render_tools(tools, traits)
        choice = render_tool_choice(tool_choice, tools, traits)
        if choice is not None:
            body["tool_choice"] = choice
    if output is not None:
        merge_fields(body, output_fields(strict_output_if_possible(output, OPENAI, rendered.changes)))
    if stream:
        body["stream"] = True
    return body


def convert_media(block: ImageBlock | FileBlock, traits: Traits) -> Json:
    """Return an image or file as a part of a message.

    Raises:
        UnsupportedContent: the API does not accept it in this form.
    """
    if not isinstance(block, ImageBlock):
        return input_file(block)
    return input_image(block.data) | detail_of(block)


class ResponsesRenderer(AssistantRenderer):
    """A renderer of history to input items."""

    def __init__(self, traits: Traits, options: RenderOptions) -> None:
        super().__init__(traits, options)
        self._results: list[tuple[str, Json, int]] = []  # buffered, each with its target id and content number

    def add(self, content: Content) -> None:
        """Render the next content: a response as its items, all else as one message and the outputs of calls."""
        if content.speaker == "ai":
            self.add_assistant(content)
            return
        if content.speaker not in ("human", "tool", "system"):
            self.report(f"a message of the unknown speaker {content.speaker!r} was left out")
            return
        if content.speaker == "system" and self._add_special_system(content):
            return
        parts: list[Json] = []
        for block in content.blocks:
            if isinstance(block, ToolResponseBlock):
                self.buffer_result(block)
            elif content.speaker == "tool" and isinstance(block, (ImageBlock, FileBlock)):
                part = media_part(block, self.changes)
                parts.append({"type": "input_text", "text": part} if isinstance(part, str) else part)
            else:
                parts += self._input_parts(block, content.speaker)
        if parts:
            self.flush_results()
            match parts:
                case [{"type": "input_text", "text": text, **others}] if not others:
                    said = text
                case _:
                    said = parts
            role = "user"
            if content.speaker == "system":
                role = "developer" if content.metadata.get("role") == "developer" else "system"
            self.append({"role": role, "content": said})

    def flush_results(self) -> None:
        """Append the buffered results in the order of their calls, and after them those without a call."""
        if not self._results:
            return
        last = len(self.call_places)
        for _, item, content in sorted(self._results, key=lambda result: self.call_places.get(result[0], last)):
            self.append(item, [content])
        self._results, self.call_places = [], {}

    def finish(self) -> None:
        """Append the last results."""
        self.flush_results()

    # ------------------------------------------------------------ messages of people and tools

    def _add_special_system(self, content: Content) -> bool:
        """Add the instructions, or an item that defines tools; return False for any other system message."""
        blocks = content.blocks
        if content.metadata.get("role") == "instructions" and not self.system:
            self.system.append("\n\n".join(block.text for block in blocks if isinstance(block, TextBlock)))
            return True
        raw = [block.raw for block in blocks if isinstance(block, OpaqueBlock) and self.is_own(block)]
        items = [item for item in raw if isinstance(item, dict) and "type" in item]  # and not a part of a message
        if not items or len(items) < len(blocks):
            return False
        self.flush_results()
        for item in items:
            self.append(item)
        return True

    def _input_parts(self, block: Block, speaker: str) -> list[Json]:
        if isinstance(block, TextBlock):
            return [{"type": "input_text", "text": block.text, **self.breakpoint_of(block)}] if block.text else []
        if isinstance(block, (ImageBlock, FileBlock)) and speaker != "system":
            return [convert_media(block, self.traits) | self.breakpoint_of(block)]
        raw = block.raw if isinstance(block, OpaqueBlock) and self.is_own(block) else None
        if isinstance(raw, dict) and isinstance(raw.get("content"), list):
            return list(raw["content"])  # an unknown part, as the importer keeps it
        if isinstance(block, OpaqueBlock) and not self.is_own(block):
            self.report(f"a provider's block was left out: {self.reason_not_own(block)}")
        else:
            self.report(f"a block of type {block.type!r} in a message of the speaker {speaker!r} was left out")
        return []

    def buffer_result(self, block: ToolResponseBlock) -> None:
        """Buffer the result of a call, in the form that the call needs."""
        call = self.calls.get(block.call_id) or RenderedCall()
        if call.is_async and block.error == NO_RESULT:
            return  # the call still runs (https://developers.openai.com/api/docs/guides/async-tool-calling)
        kind, asked, caller = call.kind, call.item, call.caller
        if asked is None and kind is None and self.is_from_target(block):  # the provider stores the call
            kind, asked = block.metadata.get("kind"), stored_item(block)
            caller = self.own_state(block, "caller")
        answer = None if asked is None else output_item(asked, block)
        if answer is not None:
            self._results.append((call.target_id, answer, self.content_number))
            return
        output_type = "custom_tool_call_output" if kind == "custom" else "function_call_output"
        output = output_of(block, self.changes, is_own=self.is_from_target(block))
        item: Json = {"type": output_type, "call_id": self.ids.result_id(block), "output": output}
        if isinstance(caller, dict) and caller.get("type") == "program":
            item["caller"] = caller
        self._results.append((item["call_id"], item, self.content_number))
