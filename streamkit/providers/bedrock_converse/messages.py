"""History as Converse messages, and the fields of a request's body that the conversation determines.

The form follows from what the API refuses: roles alternate and a user begins; all results of a batch are in the one
user message after their calls (https://docs.aws.amazon.com/bedrock/latest/userguide/tool-use-inference-call.html); no
text is blank (langchain-ai/langchain-aws#403); nothing follows the calls of an assistant message, and no assistant
message is reasoning only, because newer models take either for a prefilled response
(NousResearch/hermes-agent#108200, #105780); only a user's message has images and documents, and a document needs a text
next to it (https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Message.html). Reasoning is sent back
with its signature or encrypted, as it came, and only to this provider: some models refuse unsigned reasoning, and none
needs what was left out (langchain-ai/langchain-aws#1229).

This module must not depend on streams. It does not repair a history: a call without a result remains one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from streamkit.history.content import (
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
from streamkit.providers.bedrock_converse.media import media_part, result_content
from streamkit.providers.bedrock_converse.requests import (
    STRICT,
    cache_point,
    output_fields,
    render_tool_choice,
    render_tools,
    tool_spec,
)
from streamkit.providers.bedrock_converse.schema import Json
from streamkit.providers.provider import RenderedMessages, RenderOptions, ToolChoice, Traits
from streamkit.providers.rendering.block_renderer import BlockRenderer
from streamkit.providers.requests.body_fields import merge_fields
from streamkit.providers.requests.request import MOST_CACHE_MARKS, cache_mark
from streamkit.providers.requests.strict import strict_output
from streamkit.tools.definition import OfferedTool
from streamkit.values.request_changes import LeftOut, Lost, Translated

if TYPE_CHECKING:
    from streamkit.output import OutputType

__all__ = ["build_request", "convert_media", "create_renderer"]

_DESCRIPTION_OF_PAST_TOOL = "A tool of the conversation so far. It cannot be called any more."


def create_renderer(traits: Traits, options: RenderOptions) -> ConverseRenderer:
    """Return a renderer of a conversation as Converse messages, with the system text outside of them."""
    return ConverseRenderer(traits, options)


def build_request(
    rendered: RenderedMessages,
    traits: Traits,
    *,
    tools: Sequence[OfferedTool] = (),
    tool_choice: ToolChoice | None = None,
    stream: bool = True,
    output: OutputType[Any] | None = None,
) -> Json:
    """Return the fields of a body that the conversation determines; the request's path decides if it is streamed.

    The API has no tool choice ``none``, and it refuses calls and results in a history without ``toolConfig``
    (langgenius/dify#16421). So for ``none`` no tool is offered, or, with calls in the history, the tools stay and the
    choice is left out. Without tools, those that the
    history calls are declared with an open schema. The provider's own tools whose calls are sent back are declared as
    ``systemTool``.
    """
    body: Json = dict(rendered.request_fields)
    body[traits.messages_field] = rendered.messages
    if output is not None:
        merge_fields(body, output_fields(strict_output(output, STRICT)))

    def most_marks() -> int:
        contents = [body.get("system"), *[message.get("content") for message in rendered.messages]]
        parts = [part for content in contents if isinstance(content, list) for part in content]
        return MOST_CACHE_MARKS - len([part for part in parts if "cachePoint" in part])

    client_tools, system_tools = _called_tools(rendered.messages)
    if tool_choice == "none" and tools and client_tools:
        sentence = "the tool choice 'none' was left out: Converse has none, and needs the tools for earlier calls"
        rendered.report(Lost(sentence))
    elif tool_choice == "none":
        tools = ()
    specs = render_tools(tools, most_marks=most_marks)
    if not specs:
        specs = [tool_spec(name, _DESCRIPTION_OF_PAST_TOOL, {"type": "object"}) for name in client_tools]
    system_specs = [{"systemTool": {"name": name}} for name in system_tools]
    specs += [spec for spec in system_specs if spec not in specs]
    if specs:
        body["toolConfig"] = {"tools": specs}
        if tools and (choice := render_tool_choice(tool_choice)) is not None:
            body["toolConfig"]["toolChoice"] = choice
    return body


def convert_media(block: ImageBlock | FileBlock, traits: Traits) -> Json:
    """Return an image or a file as a part."""
    return media_part(block)


def _called_tools(messages: Sequence[Json]) -> tuple[list[str], list[str]]:
    """Return the names of the tools that messages call, each once: the client's tools, and those the service runs."""
    contents = [message.get("content") for message in messages if message.get("role") != "user"]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    uses = [part["toolUse"] for part in parts if isinstance(part, dict) and isinstance(part.get("toolUse"), dict)]
    named = [use for use in uses if isinstance(use.get("name"), str)]
    client_tools, system_tools = (
        {use["name"]: None for use in named if ("type" in use) is own} for own in (False, True)
    )
    return list(client_tools), list(system_tools)


class ConverseRenderer(BlockRenderer):
    """A rendering of a conversation to Converse messages."""

    target = "Bedrock"
    accepts_blank_results = False
    mark_field = "cachePoint"

    def __init__(self, traits: Traits, options: RenderOptions) -> None:
        super().__init__(traits, options)
        self._system: list[Json] = []  # with cache points, and what is no text

    def add_system(self, content: Content) -> None:
        """Add system text and what a guardrail reads; a system message that was inside the messages stays there.

        Such a message adds and removes tools, too: "use within a `system` role message" (ToolAdditionBlock in the
        service model of boto3 1.44).
        """
        metadata = content.metadata
        is_message = metadata.get("in_messages") is True and metadata.get("provider") == self.traits.name
        if self.messages and not is_message:
            self.report(Lost("a system message from within the conversation was moved to the system text"))
        parts: list[Json] = []
        for block in content.blocks:
            added: list[Json] = []
            if isinstance(block, TextBlock):
                added = [self.text_block(block.text)] if block.text.strip() else []
            elif isinstance(block, OpaqueBlock):
                added = self.own_parts(block)
            else:
                self.report(Lost(f"a block of type {block.type!r} in a system message was left out"))
            if added and (mark := cache_mark(block)) is not None:
                added = self.mark_parts(added, mark)
            parts += added
        if is_message:
            self.push("system", parts)
        else:
            self._system += parts
            self.system.extend(text for part in parts if isinstance(text := part.get("text"), str))

    def finish(self) -> None:
        """Apply the rules for the order of messages and of the parts in them."""
        if self._system:
            self.request_fields["system"] = self._system
        self._drop_reasoning_message()
        self.close_messages(len(self.messages))
        if self.drop_first_marks(self._system):
            sentence = f"the first cache marks were left out: Bedrock accepts {MOST_CACHE_MARKS} in a request"
            self.report(LeftOut(sentence))
        self.strip_last_text()
        self.begin_with_user_text()

    def push(self, role: str, parts: list[Json]) -> None:
        """Add parts to the last message if it has this role, else to a new one, and end the last one."""
        if parts and role != "assistant":
            self._drop_reasoning_message()
        super().push(role, parts)

    def _has_reasoning_message(self) -> bool:
        """Return True if the last message is the model's and reasoning only, so far."""
        last = self.messages[-1] if self.messages else {"role": "user"}
        return last["role"] == "assistant" and all("reasoningContent" in part for part in last["content"])

    def _drop_reasoning_message(self) -> None:
        if self._has_reasoning_message():
            del self.messages[-1], self.members[-1]
            sentence = "a response with reasoning only was left out: the model would take it for a prefilled response"
            self.report(LeftOut(sentence))

    def close_messages(self, stop: int) -> None:
        """Give messages their final form; not the one before a message that may be left out, which goes on then."""
        is_before_open_one = stop == len(self.messages) - 1
        super().close_messages(stop - 1 if is_before_open_one and self._has_reasoning_message() else stop)

    def close_message(self, message: Json) -> None:
        """Apply the rules for the order of the parts of a message."""
        self.put_results_first(message)
        if message["role"] == "assistant":
            message["content"] = self._put_calls_last(message["content"])
        elif message["role"] == "user":
            self._complete_documents(message["content"])
        kept: list[Json] = []  # without a cache point after another, or first: a point is after its part
        for part in message["content"]:
            if "cachePoint" not in part or (kept and "cachePoint" not in kept[-1]):
                kept.append(part)
        message["content"] = kept

    def _put_calls_last(self, parts: list[Json]) -> list[Json]:
        """Return parts with late text before the calls: an assistant message that has calls ends with one."""
        calls = [index for index, part in enumerate(parts) if _is_client_call(part)]
        if not calls:
            return parts
        first, last = calls[0], calls[-1]
        late = {index for index, part in enumerate(parts) if index > first and (_is_text(part) or index > last)}
        if not late:
            return parts
        self.report(Translated("parts after a call in the same message were moved before it"))
        others = [part for index, part in enumerate(parts) if index >= first and index not in late]
        return [*parts[:first], *(parts[index] for index in sorted(late)), *others]

    def _complete_documents(self, parts: list[Json]) -> None:
        """Make the names of documents unique, and add a text if there is none next to them."""
        names: set[str] = set()
        parts[:] = _rename_documents(parts, names)
        for position, part in enumerate(parts):
            result = part.get("toolResult")
            if isinstance(result, dict) and isinstance(result.get("content"), list):
                content = _rename_documents(result["content"], names)
                parts[position] = {**part, "toolResult": {**result, "content": content}}
        if any("document" in part for part in parts) and not any("text" in part for part in parts):
            parts.append({"text": "(see the document)"})
            self.report(Translated("a text was added to a message with a document: the API requires one"))

    # ------------------------------------------------------------ one block

    def mark_parts(self, parts: list[Json], mark: CacheMark) -> list[Json]:
        """Return the parts and a ``cachePoint`` after them, except after reasoning and calls."""
        if "reasoningContent" in parts[-1] or _is_client_call(parts[-1]):
            sentence = "a cache mark on reasoning or a call was left out: nothing may follow these on Bedrock"
            self.report(LeftOut(sentence))
            return parts
        return [*parts, cache_point(mark)]

    def text_block(self, text: str) -> Json:
        """Return a ``text`` part."""
        return {"text": text}

    def media_block(self, block: ImageBlock | FileBlock) -> Json:
        """Return an ``image``, ``video`` or ``document`` part."""
        return media_part(block)

    def text_parts(self, block: TextBlock) -> list[Json]:
        """Return text as a ``text`` part, or as ``citationsContent`` if it has citations; none for blank text."""
        parts = super().text_parts(block)
        citations = self.own_state(block, "citations") if parts and self.is_from_target(block) else None
        if isinstance(citations, list) and citations:
            return [{"citationsContent": {"content": parts, "citations": citations}}]
        return parts

    def result_parts(self, block: ToolResponseBlock) -> list[Json]:
        """Return a result as a ``toolResult`` part."""
        result: Json = {"toolUseId": self.ids.result_id(block)}
        failure = self.failure_text(block)
        if failure is None:
            result["content"] = result_content(block.result, self.changes)
        else:
            result["content"] = [{"text": failure}]
            result["status"] = "error"
        return [{"toolResult": result}]

    def reasoning_block(self, block: ReasoningBlock) -> Json | None:
        """Return a ``reasoningContent`` part, the encrypted one if the reasoning came so."""
        if isinstance(block.opaque, dict) and "reasoningContent" in block.opaque:
            return block.opaque
        signature = block.signature or block.metadata.get("signature")
        if isinstance(signature, str) and signature:
            return {"reasoningContent": {"reasoningText": {"text": block.text, "signature": signature}}}
        return None

    def call_block(self, block: ToolCallBlock) -> Json:
        """Return a ``toolUse`` part."""
        arguments = self.arguments_object(block)
        call_id, name = self.ids.call_id(block), self.tool_name(block.name)
        return {"toolUse": {"toolUseId": call_id, "name": name, "input": arguments}}

    def is_block(self, raw: Any) -> bool:
        """Return True if a value is an object that is not empty."""
        return isinstance(raw, dict) and bool(raw)

    def read_call_id(self, block: Json) -> str | None:
        """Return the id of a client's ``toolUse`` part."""
        return block["toolUse"].get("toolUseId") if _is_client_call(block) else None

    def read_result_id(self, block: Json) -> str | None:
        """Return the id of the call of a ``toolResult`` part."""
        result = block.get("toolResult")
        return result.get("toolUseId") if isinstance(result, dict) else None


def _rename_documents(parts: list[Any], names: set[str]) -> list[Any]:
    """Return the parts, of documents whose name is among the names a copy with another name; add the names to these.

    A part may be a raw value of history, which is not changed, and of any form.
    """
    renamed: list[Any] = []
    for part in parts:
        document = part.get("document") if isinstance(part, dict) else None
        if isinstance(document, dict) and isinstance(name := document.get("name"), str):
            number, unique = 2, name
            while unique in names:
                unique = f"{name} ({number})"
                number += 1
            names.add(unique)
            part = part if unique == name else {**part, "document": {**document, "name": unique}}
        renamed.append(part)
    return renamed


def _is_client_call(part: Json) -> bool:
    """Return True if a part is a call of the client's, not of a tool that the service runs."""
    return isinstance(part.get("toolUse"), dict) and "type" not in part["toolUse"]


def _is_text(part: Json) -> bool:
    return "text" in part or "citationsContent" in part
