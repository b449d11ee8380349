"""History to Chat Completions messages, and the request that contains them.

Wire: https://platform.openai.com/docs/api-reference/chat/create

An assistant message has text and calls. The results follow directly, one message each, in the order of the calls.
Whatever a message has no field for is left out and reported in ``changes``. An image or file of a person that cannot be
sent raises instead, because the question would make no sense without it. Images and files of a tool never raise. Most
servers take only text in a tool message ("Image URLs are only allowed for messages with role 'user'",
agno-agi/agno#4286, vllm-project/vllm#43203); a user message after the results shows the rest.

Differences between dialects are read from ``ChatDialect``. The model's messages are rendered in ``assistant_message``.
This module must not depend on streams, and it repairs nothing: a call without a result and a result without a call are
rendered as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamkit.errors import UnsupportedContent
from streamkit.history import Block, Content, FileBlock, ImageBlock, OpaqueBlock, TextBlock, ToolResponseBlock
from streamkit.history.tool_results import ResultPart
from streamkit.output import OutputType
from streamkit.providers.openai_chat.assistant_message import (
    AssistantRenderer,
    are_plain_texts,
    has_marks,
    is_content_part,
    join_text,
)
from streamkit.providers.openai_chat.media import file_part, image_part
from streamkit.providers.openai_chat.requests import (
    fill_reasoning,
    is_reasoning,
    output_fields,
    reasoning_switch,
    render_tool_choice,
    render_tools,
    strict_profile,
    why_reasoning_is_refused,
)
from streamkit.providers.openai_chat.traits import ChatDialect
from streamkit.providers.provider import RenderedMessages, RenderOptions, ToolChoice
from streamkit.providers.rendering.media import Media, caption, convert_parts, media_parts, split_text_and_media
from streamkit.providers.rendering.message_renderer import Json, cache_mark
from streamkit.providers.requests.body_fields import merge_fields
from streamkit.providers.requests.cache_marks import MOST_CACHE_MARKS, drop_first_marks
from streamkit.providers.requests.strict import strict_output_if_possible
from streamkit.providers.writing.encoding import text_or_json
from streamkit.tools.definition import OfferedTool

__all__ = ["build_request", "convert_media", "render_messages"]


def render_messages(contents: Sequence[Content], traits: ChatDialect, options: RenderOptions) -> RenderedMessages:
    """Return history as a dialect's messages.

    Args:
        contents: the conversation.
        traits: the dialect.
        options: the id policy, and the model and endpoint that are requested.

    Raises:
        UnsupportedContent: an image or file of a person has a form that a chat message does not take.
    """
    return ChatRenderer(traits, options).render(contents)


def build_request(
    rendered: RenderedMessages,
    traits: ChatDialect,
    *,
    tools: Sequence[OfferedTool] = (),
    tool_choice: ToolChoice | None = None,
    stream: bool = True,
    output: OutputType[Any] | None = None,
) -> Json:
    """Return the fields of a request's body that the conversation decides.

    Raises:
        UsageError: ``tool_choice`` names no tool, or a strict tool's schema cannot be converted.
    """
    messages = rendered.messages
    last = messages[-1] if messages else {}
    if traits.prefix and last.get("role") == "assistant" and "tool_calls" not in last:
        messages = [*messages[:-1], {**last, "prefix": True}]
    body: Json = {traits.messages_field: messages}
    if tools:
        body["tools"] = render_tools(tools, traits)
    if output is not None:
        profile = strict_profile(traits.strict)
        merge_fields(body, output_fields(strict_output_if_possible(output, profile, rendered.changes)))
    choice = render_tool_choice(tool_choice, tools, traits)
    if choice is not None:
        body["tool_choice"] = choice
    if is_reasoning(traits, rendered.model):
        if reason := why_reasoning_is_refused(body, traits):
            body |= reasoning_switch(traits, is_on=False)
            rendered.report(f"reasoning was turned off in this request: {reason}")
        elif tools and traits.tools_need_reasoning:
            body[traits.messages_field] = fill_reasoning(messages, traits)
    if stream:
        body["stream"] = True
        if traits.stream_usage:
            body["stream_options"] = {"include_usage": True}  # without it OpenAI streams no usage
    return body


def convert_media(block: Media, traits: ChatDialect) -> Json:
    """Return an image or file as a part of a user message.

    Raises:
        UnsupportedContent: a chat message does not take it in this form.
    """
    if isinstance(block, ImageBlock):
        part = image_part(block.data, traits.image_types)
        detail = block.metadata.get("detail")
        return {**part, "image_url": {**part["image_url"], "detail": detail}} if isinstance(detail, str) else part
    return file_part(
        block,
        by_address=traits.file_addresses,
        document=traits.document_parts,
        image_types=traits.image_types,
    )


def author_of(content: Content, traits: ChatDialect) -> str | None:
    """Return the name of a message's author if a client of this dialect gave it."""
    author = content.metadata.get("author")
    if not traits.author_names or not isinstance(author, dict) or not traits.is_from_provider(author):
        return None
    name = author.get("name")
    return name if isinstance(name, str) else None


class ChatRenderer(AssistantRenderer):
    """A renderer of history to one dialect's messages."""

    def __init__(self, traits: ChatDialect, options: RenderOptions) -> None:
        super().__init__(traits, options)
        self._author: str | None = None  # of the content that is being rendered, until its message is there
        self._is_prefix = False  # the last content that was rendered asked to be continued by this dialect
        self._is_developer = False  # the content that is being rendered is a developer's message

    # ------------------------------------------------------------ messages

    def push(self, message: Json) -> None:
        """Append a message; between a tool message and a user message, the dialect's separator first."""
        author, self._author = self._author, None
        self.flush_results()
        if author is not None:
            message = {**message, "name": author}
        separator, messages = self.traits.separator_text, self.messages
        if separator and message["role"] == "user" and messages and messages[-1]["role"] == "tool":
            self.append({"role": "assistant", "content": separator})
            self.changes.append("added an assistant message between a tool's result and a person's message")
        self.append(message)

    def finish(self) -> None:
        """Append the last results, and remove the first cache marks if there are too many.

        Where a system message must not be the last one, it becomes a person's.
        """
        super().finish()
        if self._is_prefix and self.messages and self.messages[-1]["role"] == "assistant":
            self.messages[-1]["prefix"] = True
        last = self.messages[-1] if len(self.messages) > 1 else {}
        if self.traits.prefix and last.get("role") == "system":
            contents_of_last = self.contents_of(self.messages.pop())
            message = {**last, "role": "user"}
            self.push(message)
            self.mark(message, contents_of_last)
            self.changes.append("the last message, a system message, was sent as a person's")
        contents = [message.get("content") for message in self.messages if self.traits.cache_marks]
        parts = [part for content in contents if isinstance(content, list) for part in content]
        marked = [part for part in parts if "cache_control" in part]
        if drop_first_marks(marked, lambda part: part.pop("cache_control")):
            self.report(f"the first cache marks were left out: a request may have {MOST_CACHE_MARKS}")

    def add(self, content: Content) -> None:
        """Render the next content as messages of its role; a developer's message has that role where there is one."""
        self._is_developer = self.traits.developer_role and content.metadata.get("role") == "developer"
        # DeepSeek continues a last message that asks for it (https://api-docs.deepseek.com/guides/chat_prefix_completion).
        self._is_prefix = content.metadata.get("prefix") is True and self.traits.is_from_provider(content.metadata)
        self._author = author_of(content, self.traits) if "author" in content.metadata else None
        super().add(content)
        self._author = None

    def accepts_author(self, content: Content) -> bool:
        """Return True if the dialect named the author itself."""
        return author_of(content, self.traits) is not None

    def add_user(self, blocks: Sequence[Block]) -> None:
        """Append a user message: parts if there are images or files, else one text."""
        if are_plain_texts(blocks):
            if text := join_text(blocks):
                self.push({"role": "user", "content": text})
            return
        parts: list[Json] = []
        texts: list[TextBlock] = []
        for block in blocks:
            if isinstance(block, TextBlock):
                if block.text:
                    texts.append(block)
                    parts.append(self.marked({"type": "text", "text": block.text}, block))
            elif isinstance(block, (ImageBlock, FileBlock)):
                parts.append(self.marked(convert_media(block, self.traits), block))
            elif isinstance(block, OpaqueBlock) and self.is_own(block) and is_content_part(block.raw):
                parts.append(block.raw)
            else:
                self.omit(block, "a user message has no field for it")
        if len(parts) > len(texts) or has_marks(parts):
            self.push({"role": "user", "content": parts})
        elif texts:
            self.push({"role": "user", "content": join_text(texts)})

    def add_system(self, blocks: Sequence[Block]) -> None:
        """Append a system message of one text, or of parts if a text has a cache mark."""
        texts = [block for block in blocks if isinstance(block, TextBlock) and block.text]
        parts = [self.marked({"type": "text", "text": block.text}, block) for block in texts]
        if not has_marks(parts):
            super().add_system(blocks)
            return
        super().add_system([block for block in blocks if not isinstance(block, TextBlock)])  # reports them
        self.push({"role": self.system_role, "content": parts})

    @property
    def system_role(self) -> str:
        """The role of the system message that is being rendered."""
        return "developer" if self._is_developer else "system"

    # ------------------------------------------------------------ results

    def add_result(self, block: ToolResponseBlock) -> None:
        """Buffer the tool message of a result. Media that it cannot have are shown by a user message."""
        call_id = self.ids.result_id(block)
        name = block.name or self.call_names.get(block.call_id)
        parts = media_parts(block)
        media: list[Media] = []
        content: str | list[Json]
        if parts is None:
            content = text_or_json(block.result if block.error is None else block.error)
        else:
            content, media = self._split_result(self.tool_media(parts))
        if self.traits.cache_marks and content and cache_mark(block) is not None:
            parts_of_result = [{"type": "text", "text": content}] if isinstance(content, str) else content
            content = [*parts_of_result[:-1], self.marked(parts_of_result[-1], block)]
        message = {"role": "tool", "tool_call_id": call_id, "content": content}
        if self.traits.result_names and name:
            message["name"] = name
        self.buffer_result(self.call_places.get(call_id, len(self.call_places)), message, caption(media, name))

    def _split_result(self, parts: Sequence[ResultPart]) -> tuple[str | list[Json], list[Media]]:
        """Return the content of a tool message, and the media that a user message shows."""
        if not self.traits.result_images or not any(isinstance(part, ImageBlock) for part in parts):
            return split_text_and_media(parts)
        content: list[Json] = []
        files: list[Media] = []
        for part in parts:
            if isinstance(part, FileBlock):
                files.append(part)
            elif isinstance(part, ImageBlock):
                content.append(image_part(part.data, self.traits.image_types))
            elif part.text:
                content.append({"type": "text", "text": part.text})
        return content, files

    def tool_media(self, parts: Sequence[ResultPart]) -> list[ResultPart]:
        """Return the images and files of tools that a message can show; text for the others."""
        return convert_parts(parts, self._tool_media_part, self.changes, self.traits.name)

    def _tool_media_part(self, block: Media) -> Json:
        part = convert_media(block, self.traits)
        if isinstance(block, FileBlock) and part["type"] in ("file", "document_url"):
            kind = (block.media_type or "application/pdf").lower()
            if kind != "application/pdf":
                # https://platform.openai.com/docs/guides/pdf-files; a text file is sent as its text
                raise UnsupportedContent(f"few servers of this wire accept files other than PDF, such as {kind}")
        return part
