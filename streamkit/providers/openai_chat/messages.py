"""History to Chat Completions messages, and the request that contains them.

Wire: https://platform.openai.com/docs/api-reference/chat/create

An assistant message has text and calls. The results follow directly, one message each, in the order of the calls.
Whatever a message has no field for is left out and reported in ``changes``. An image or file of a person that cannot be
sent raises instead, because the question would make no sense without it. Images and files of a tool never raise. Most
servers take only text in a tool message ("Image URLs are only allowed for messages with role 'user'",
agno-agi/agno#4286, vllm-project/vllm#43203); a user message after the results shows the rest.

Differences between dialects are read from ``ChatDialect``. This module must not depend on streams, and it repairs
nothing: a call without a result and a result without a call are rendered as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from streamkit.errors import UnsupportedContent
from streamkit.history import (
    Block,
    Content,
    FileBlock,
    ImageBlock,
    OpaqueBlock,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResponseBlock,
)
from streamkit.history.content import CACHE_BREAKPOINT
from streamkit.history.tool_results import ResultPart
from streamkit.model_copy import copy_with
from streamkit.output import OutputType
from streamkit.providers.body_fields import merge_fields
from streamkit.providers.cache_marks import MOST_CACHE_MARKS, drop_first_marks
from streamkit.providers.encoding import data_as_json, text_or_json
from streamkit.providers.gemini_models import SKIP_SIGNATURE, requires_signature
from streamkit.providers.message_renderer import Json, RoleRenderer, cache_mark
from streamkit.providers.openai_chat.media import file_part, image_part
from streamkit.providers.openai_chat.message_parts import (
    assistant_content,
    audio_id,
    file_annotations,
    generated_image,
    is_content_part,
    join_text,
    reasoning_details,
    reasoning_parts,
    thinking_blocks,
)
from streamkit.providers.openai_chat.reasoning_switch import (
    BLANK_REASONING,
    fill_reasoning,
    is_reasoning,
    reasoning_switch,
    why_reasoning_is_refused,
)
from streamkit.providers.openai_chat.settings import output_fields
from streamkit.providers.openai_chat.strict import strict_profile
from streamkit.providers.openai_chat.tool_definitions import render_tool_choice, render_tools
from streamkit.providers.openai_chat.traits import ChatDialect
from streamkit.providers.openai_chat.typed_reasoning import (
    merge_reasoning_blocks,
    merge_reasoning_details,
    merge_reasoning_parts,
    merge_thinking_blocks,
)
from streamkit.providers.provider import RenderedMessages, RenderOptions, ToolChoice
from streamkit.providers.strict import strict_output_if_possible
from streamkit.providers.tool_result_media import Media, caption, convert_parts, result_parts, split_text_and_media
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


def _has_marks(parts: Sequence[Json]) -> bool:
    return any("cache_control" in part or CACHE_BREAKPOINT in part for part in parts)


def author_of(content: Content, traits: ChatDialect) -> str | None:
    """Return the name of a message's author if a client of this dialect gave it."""
    author = content.metadata.get("author")
    if not traits.author_names or not isinstance(author, dict) or not traits.is_from_provider(author):
        return None
    name = author.get("name")
    return name if isinstance(name, str) else None


@dataclass(slots=True)
class _AssistantParts:
    """The blocks of an assistant message, by the field that they are sent in."""

    content: list[Block] = field(default_factory=list)
    reasoning: list[ReasoningBlock] = field(default_factory=list)
    refusals: list[TextBlock] = field(default_factory=list)
    calls: list[ToolCallBlock] = field(default_factory=list)
    fields: Json = field(default_factory=dict)  # ``audio``, ``annotations`` and ``images``, complete


class ChatRenderer(RoleRenderer[ChatDialect]):
    """A renderer of history to one dialect's messages."""

    def __init__(self, traits: ChatDialect, options: RenderOptions) -> None:
        super().__init__(traits, options)
        self._tool_names: dict[str, str] = {}  # by the call's id in history
        self._call_places: dict[str, int] = {}  # by target id, of the calls of the last assistant message
        self._has_reasoning: list[bool] = []  # for each content, whether its reasoning is sent back
        self._author: str | None = None  # of the content that is being rendered, until its message is there
        self._is_prefix = False  # the last content that was rendered asked to be continued by this dialect
        self._is_developer = False  # the content that is being rendered is a developer's message
        needs_reasoning = traits.calls_need_reasoning and traits.reasoning_replay != "never"
        # the field that a message with calls must have, though its reasoning is unknown
        self._blank_field = traits.reasoning_field if needs_reasoning and is_reasoning(traits, options.model) else None

    def render(self, contents: Sequence[Content]) -> RenderedMessages:
        """Return the conversation as messages."""
        self._has_reasoning = self._select_reasoning(contents)
        return super().render(contents)

    def _select_reasoning(self, contents: Sequence[Content]) -> list[bool]:
        """Return for each content whether its reasoning is sent back. A person's message begins a turn."""
        replay, model = self.traits.reasoning_replay, self.options.model
        if self.traits.reasoning_of_reasoners and model and self.traits.facts_for(model).reasoning == "none":
            replay = "never"
        if replay != "tool_turns":
            return [replay == "always"] * len(contents)
        turn, turns_with_calls = 0, {0}  # the first turn may lack its beginning, and the beginning may have had calls
        turns: list[int] = []
        for content in contents:
            kinds = {block.type for block in content.blocks}
            turn += content.speaker == "human" and kinds != {"tool_response"}
            turns.append(turn)
            if "tool_call" in kinds:
                turns_with_calls.add(turn)
        return [turn in turns_with_calls for turn in turns]

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

    def results_flushed(self) -> None:
        """Forget the calls of the last assistant message."""
        self._call_places = {}

    def add(self, content: Content) -> None:
        """Render the next content as messages of its role; a developer's message has that role where there is one."""
        self._is_developer = self.traits.developer_role and content.metadata.get("role") == "developer"
        # DeepSeek continues a last message that asks for it (https://api-docs.deepseek.com/guides/chat_prefix_completion).
        self._is_prefix = content.metadata.get("prefix") is True and self.traits.is_from_provider(content.metadata)
        self._author = author_of(content, self.traits)
        super().add(content)
        self._author = None

    def accepts_author(self, content: Content) -> bool:
        """Return True if the dialect named the author itself."""
        return author_of(content, self.traits) is not None

    def add_user(self, blocks: Sequence[Block]) -> None:
        """Append a user message: parts if there are images or files, else one text."""
        parts: list[Json] = []
        texts: list[TextBlock] = []
        for block in blocks:
            if isinstance(block, TextBlock):
                if block.text:
                    texts.append(block)
                    parts.append(self._marked({"type": "text", "text": block.text}, block))
            elif isinstance(block, (ImageBlock, FileBlock)):
                parts.append(self._marked(convert_media(block, self.traits), block))
            elif isinstance(block, OpaqueBlock) and self.is_own(block) and is_content_part(block.raw):
                parts.append(block.raw)
            else:
                self.omit(block, "a user message has no field for it")
        if len(parts) > len(texts) or _has_marks(parts):
            self.push({"role": "user", "content": parts})
        elif texts:
            self.push({"role": "user", "content": join_text(texts)})

    def add_system(self, blocks: Sequence[Block]) -> None:
        """Append a system message of one text, or of parts if a text has a cache mark."""
        texts = [block for block in blocks if isinstance(block, TextBlock) and block.text]
        parts = [self._marked({"type": "text", "text": block.text}, block) for block in texts]
        if not _has_marks(parts):
            super().add_system(blocks)
            return
        super().add_system([block for block in blocks if not isinstance(block, TextBlock)])  # reports them
        self.push({"role": self.system_role, "content": parts})

    @property
    def system_role(self) -> str:
        """The role of the system message that is being rendered."""
        return "developer" if self._is_developer else "system"

    def _marked(self, part: Json, block: Block) -> Json:
        """Return a part with the block's cache mark: OpenAI's own, or in Anthropic's form where the dialect has it."""
        part |= self.breakpoint_of(block)
        mark = cache_mark(block) if self.traits.cache_marks else None
        return part if mark is None else {**part, "cache_control": {"type": "ephemeral", **mark}}

    def add_assistant(self, blocks: Sequence[Block]) -> None:
        """Append an assistant message, unless it would have neither content nor calls."""
        parts = self._sort_blocks(blocks)
        message: Json = {"role": "assistant", "content": self._assistant_content(parts)}
        refusal = join_text(parts.refusals)
        if refusal and message["content"] is None and not parts.calls:
            # "one or more of type text, or exactly one of type refusal": content is required if there are no calls
            message["content"] = [{"type": "refusal", "refusal": refusal}]
        elif refusal:
            message["refusal"] = refusal
        if message["content"] is None and not parts.calls and not parts.fields.keys() & {"audio", "images"}:
            if blocks:
                self.changes.append("left out an assistant message: it has neither text nor calls")
            return
        if parts.reasoning:
            message |= self._reasoning_fields(parts.reasoning)
        if parts.calls and self._blank_field is not None:
            message.setdefault(self._blank_field, BLANK_REASONING)
        self.push(message | parts.fields)
        if parts.calls:
            self.ids.start_round()
            self.messages[-1]["tool_calls"] = calls = [self._call(call) for call in parts.calls]
            if requires_signature(self.options.model) and not self.traits.reasoning_details:
                # On Google's endpoint of this wire; a router with typed reasoning adds its own.
                # https://ai.google.dev/gemini-api/docs/thought-signatures#openai
                calls[0].setdefault("extra_content", {"google": {"thought_signature": SKIP_SIGNATURE}})
            self._call_places = {call["id"]: place for place, call in enumerate(calls)}

    def _assistant_content(self, parts: _AssistantParts) -> str | list[Json] | None:
        """Return the content of an assistant message; as parts if a text has a cache mark."""
        if self.traits.cache_marks and any(cache_mark(block) is not None for block in parts.calls):
            self.report(f"a cache mark on a call was left out: {self.traits.name} accepts it on parts of content only")
        if not parts.content:
            return None
        texts = [block for block in parts.content if isinstance(block, TextBlock) and block.text]
        marked = [self._marked({"type": "text", "text": block.text}, block) for block in texts]
        if len(texts) == len(parts.content) and _has_marks(marked):
            return marked
        return assistant_content(parts.content)

    def _sort_blocks(self, blocks: Sequence[Block]) -> _AssistantParts:
        """Return the model's blocks by the field that they are sent in, and report those that are left out."""
        parts = _AssistantParts()
        for block in blocks:
            is_theirs = self.is_from_target(block)
            if isinstance(block, TextBlock):
                self._sort_text(block, parts, is_theirs=is_theirs)
            elif isinstance(block, ToolCallBlock):
                parts.calls.append(block)
            elif isinstance(block, ReasoningBlock) and is_theirs and reasoning_parts(block):
                self._sort_reasoning_parts(block, parts)
            elif isinstance(block, ReasoningBlock) and is_theirs and self._accepts_reasoning(block):
                if not self._has_reasoning[self.content_number]:
                    self.omit(block, f"{self.traits.name} does not accept it here")
                elif self.traits.thinking_parts:
                    parts.content.append(self._unsigned_unless_own(block))
                else:
                    parts.reasoning.append(block)
            elif isinstance(block, OpaqueBlock) and is_theirs and is_content_part(block.raw):
                if self.is_own(block):
                    parts.content.append(block)
                else:
                    self.omit(block, self.reason_not_own(block))
            elif isinstance(block, FileBlock) and is_theirs and self._image_of(block):
                parts.fields["images"] = [*parts.fields.get("images", []), self._image_of(block)]
            elif not (isinstance(block, FileBlock) and is_theirs and "audio" in parts.fields):  # sent as the audio's id
                takes_own = isinstance(block, ReasoningBlock) and self.traits.plain_reasoning
                no_field = f"an assistant message to {self.traits.name} has no field for it"
                self.omit(block, f"{self.traits.name} accepts only its own" if takes_own else no_field)
        return parts

    def _sort_reasoning_parts(self, block: ReasoningBlock, parts: _AssistantParts) -> None:
        """Add signed reasoning to the content as it came, its only form on Databricks (BerriAI/litellm#36931)."""
        signed = merge_reasoning_parts(self.own_state(block, "reasoning_parts") or [])
        parts.content += [OpaqueBlock(raw=part) for part in signed]
        if not signed and self.is_own(block):
            self.omit(block, "its parts are not signed")

    def _sort_text(self, block: TextBlock, parts: _AssistantParts, *, is_theirs: bool) -> None:
        """Add a text to the field that it is sent in: an audio's id is opaque state, all else is plain content."""
        audio = audio_id(block) if is_theirs and self.own_state(block, "audio") else None
        if audio is not None:
            parts.fields["audio"] = {"id": audio}
        elif is_theirs and block.metadata.get("refusal") is True:
            parts.refusals.append(block)
        else:
            parts.content.append(block)
        if is_theirs and self.traits.file_annotations and (annotations := file_annotations(block)):
            parts.fields["annotations"] = [*parts.fields.get("annotations", []), *annotations]

    def _reasoning_fields(self, blocks: Sequence[ReasoningBlock]) -> Json:
        """Return the fields of an assistant message that have its reasoning."""
        fields: Json = {}
        text = "".join([block.text for block in blocks])
        opaque = [state for block in blocks if (state := self.own_state(block, "reasoning_opaque"))]
        if opaque:  # GitHub Copilot, in the fields in which it sent them (anomalyco/opencode#4468)
            fields |= {"reasoning_text": text, "reasoning_opaque": opaque[-1]}
        elif own := [entry for block in blocks for entry in self._reasoning_blocks(block)]:
            fields["reasoning_content"] = own
        elif self.traits.reasoning_field and text:
            fields[self.traits.reasoning_field] = text
        if details := [detail for block in blocks for detail in self._reasoning_details(block)]:
            fields["reasoning_details"] = merge_reasoning_details(details)
        if thinking := self._thinking_blocks(blocks):
            fields["thinking_blocks"] = thinking
        return fields

    def _reasoning_details(self, block: ReasoningBlock) -> list[Any]:
        """Return typed reasoning, which contains signatures; of another model only the text is sent."""
        return reasoning_details(block) if self.own_state(block, "reasoning_details") else []

    def _reasoning_blocks(self, block: ReasoningBlock) -> list[Any]:
        """Return SAP's reasoning blocks, which contain signatures; of another model only the text is sent."""
        deltas = self.own_state(block, "reasoning_blocks")
        return merge_reasoning_blocks(deltas) if isinstance(deltas, list) else []

    def _thinking_blocks(self, blocks: Sequence[ReasoningBlock]) -> list[Any]:
        """Return LiteLLM's thinking blocks, which contain signatures; of another model only the text is sent."""
        own = [block for block in blocks if self.own_state(block, "thinking_blocks")]
        return merge_thinking_blocks([delta for block in own for delta in thinking_blocks(block)])

    def _unsigned_unless_own(self, block: ReasoningBlock) -> ReasoningBlock:
        if block.signature is None or self.is_own(block):
            return block
        self.report(f"the signature of reasoning was left out: {self.reason_not_own(block)}")
        return copy_with(block, signature=None)

    def _image_of(self, block: FileBlock) -> Json | None:
        return generated_image(block) if self.traits.image_replay else None

    def _accepts_reasoning(self, block: ReasoningBlock) -> bool:
        if self.traits.thinking_parts:
            return bool(block.text or block.signature)
        if reasoning_details(block) or thinking_blocks(block) or block.metadata.get("reasoning_opaque"):
            return True
        return bool(self.traits.reasoning_field and block.text)

    # ------------------------------------------------------------ calls and results

    def _call(self, block: ToolCallBlock) -> Json:
        call: Json = {"id": self.ids.call_id(block)}
        self._tool_names[block.id] = block.name
        arguments = text_or_json(block.parameters)
        if block.kind == "custom" and self.traits.custom_calls:
            call |= {"type": "custom", "custom": {"name": block.name, "input": arguments}}
        else:
            if block.kind == "custom":
                arguments = data_as_json(self.arguments_object(arguments, block.name))
            call |= {"type": "function", "function": {"name": block.name, "arguments": arguments}}
        if "extra_content" in block.metadata and self.is_from_target(block):  # thought signatures of Gemini's endpoint
            if (extra := self.own_state(block, "extra_content")) is not None:
                call["extra_content"] = extra
        return call

    def add_result(self, block: ToolResponseBlock) -> None:
        """Buffer the tool message of a result. Media that it cannot have are shown by a user message."""
        call_id = self.ids.result_id(block)
        name = block.name or self._tool_names.get(block.call_id)
        parts = result_parts(block)
        media: list[Media] = []
        content: str | list[Json]
        if parts is None:
            content = text_or_json(block.result if block.error is None else block.error)
        else:
            content, media = self._split_result(self.tool_media(parts))
        if self.traits.cache_marks and content and cache_mark(block) is not None:
            parts_of_result = [{"type": "text", "text": content}] if isinstance(content, str) else content
            content = [*parts_of_result[:-1], self._marked(parts_of_result[-1], block)]
        message = {"role": "tool", "tool_call_id": call_id, "content": content}
        if self.traits.result_names and name:
            message["name"] = name
        self.buffer_result(self._call_places.get(call_id, len(self._call_places)), message, caption(media, name))

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
