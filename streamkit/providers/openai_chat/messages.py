"""History to Chat Completions messages.

Wire: https://platform.openai.com/docs/api-reference/chat/create

An assistant message has text and calls. The results follow directly, one message each, in the order of the calls. Of
reasoning only what the dialect accepts is sent back, in the fields of ``content_blocks``. Whatever a message has no
field for is left out and reported in ``changes``. An image or file of a person that cannot be sent raises instead,
because the question would make no sense without it. Images and files of a tool never raise. Most servers take only text
in a tool message ("Image URLs are only allowed for messages with role 'user'", agno-agi/agno#4286,
vllm-project/vllm#43203); a user message after the results shows the rest.

Differences between dialects are read from ``ChatDialect``. This module must not depend on streams, and it repairs
nothing: a call without a result and a result without a call are rendered as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any, TypeGuard

from msgspec import Struct, field

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
from streamkit.providers.openai_chat.content_blocks import (
    merge_reasoning_blocks,
    merge_reasoning_details,
    merge_reasoning_parts,
    merge_thinking_blocks,
)
from streamkit.providers.openai_chat.dialects import ChatDialect
from streamkit.providers.openai_chat.media import convert_media, convert_tool_media, image_part
from streamkit.providers.openai_chat.requests import BLANK_REASONING, build_request, is_reasoning
from streamkit.providers.provider import RenderedMessages, RenderOptions
from streamkit.providers.rendering.media import (
    Media,
    caption,
    convert_parts,
    media_parts,
    report_name,
    result_text,
    split_text_and_media,
)
from streamkit.providers.rendering.message_renderer import Json, RoleRenderer, invalid_arguments
from streamkit.providers.requests.models.gemini import SKIP_SIGNATURE, requires_signature
from streamkit.providers.requests.request import MOST_CACHE_MARKS, cache_mark
from streamkit.providers.writing.encoding import data_as_json, text_or_json
from streamkit.values.json_data import copy_with
from streamkit.values.media import is_base64, to_standard_base64
from streamkit.values.request_changes import InWords, LeftOut, Lost, Translated

__all__ = ["build_request", "convert_media", "create_renderer"]

_MARKS = frozenset({"cache", CACHE_BREAKPOINT})


def create_renderer(traits: ChatDialect, options: RenderOptions) -> ChatRenderer:
    """Return a renderer of history as a dialect's messages."""
    return ChatRenderer(traits, options)


class ChatRenderer(RoleRenderer[ChatDialect]):
    """A renderer of history to one dialect's messages.

    Attributes:
        call_names: the names of the tools that were called, by the call's id in history.
    """

    def __init__(self, traits: ChatDialect, options: RenderOptions) -> None:
        super().__init__(traits, options)
        self.call_names: dict[str, str] = {}
        self._has_reasoning: list[bool] = []  # for each content so far, whether its reasoning is sent back
        self._author: str | None = None  # of the content that is being rendered, until its message is there
        self._is_prefix = False  # the last content that was rendered asked to be continued by this dialect
        needs_reasoning = traits.calls_need_reasoning and traits.reasoning_replay != "never"
        # the field that a message with calls must have, though its reasoning is unknown
        self._blank_field = traits.reasoning_field if needs_reasoning and is_reasoning(traits, options.model) else None

    # ------------------------------------------------------------ messages of people

    def push(self, message: Json) -> None:
        """Append a message; between a tool message and a user message, the dialect's separator first."""
        author, self._author = self._author, None
        self.flush_results()
        if author is not None:
            message = {**message, "name": author}
        separator, messages = self.traits.messages.separator_text, self.messages
        if separator and message["role"] == "user" and messages and messages[-1]["role"] == "tool":
            self.append({"role": "assistant", "content": separator})
            self.changes.append(Translated("added an assistant message between a tool's result and a person's message"))
        self.append(message)

    def finish(self) -> None:
        """Append the last results, and remove the first cache marks if there are too many.

        Where a system message must not be the last one, it becomes a person's.
        """
        super().finish()
        if self._is_prefix and self.messages and self.messages[-1]["role"] == "assistant":
            self.messages[-1]["prefix"] = True
        last = self.messages[-1] if len(self.messages) > 1 else {}
        if self.traits.messages.prefix and last.get("role") == "system":
            self.messages.pop()
            members = self.members.pop()
            self.push({**last, "role": "user"})
            self.members[-1] = members
            self.changes.append(Lost("the last message, a system message, was sent as a person's"))
        if self.traits.cache_marks:
            self.close_messages(len(self.messages))
            if self.drop_first_marks([]):
                self.report(LeftOut(f"the first cache marks were left out: a request may have {MOST_CACHE_MARKS}"))

    def add(self, content: Content) -> None:
        """Render the next content as messages of its role; a developer's message has that role where there is one."""
        is_developer = self.traits.messages.developer_role and content.metadata.get("role") == "developer"
        self.system_role = "developer" if is_developer else "system"
        # DeepSeek continues a last message that asks for it (https://api-docs.deepseek.com/guides/chat_prefix_completion).
        self._is_prefix = content.metadata.get("prefix") is True and self.traits.is_from_provider(content.metadata)
        self._author = _author_of(content, self.traits) if "author" in content.metadata else None
        super().add(content)
        self._author = None

    def accepts_author(self, content: Content) -> bool:
        """Return True if the dialect named the author itself."""
        return _author_of(content, self.traits) is not None

    def add_user(self, blocks: Sequence[Block]) -> None:
        """Append a user message: parts if there are images or files, else one text."""
        if _are_plain_texts(blocks):
            if text := _join_text(blocks):
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
                if parts[-1]["type"] == "text":
                    self.report(InWords("a text file became text: few servers of this wire accept such a file"))
                else:
                    report_name(block, parts[-1], self.changes)
            elif isinstance(block, OpaqueBlock) and self.is_own(block) and _is_content_part(block.raw):
                parts.append(block.raw)
            else:
                self.omit(block, "a user message has no field for it")
        if len(parts) > len(texts) or _has_marks(parts):
            self.push({"role": "user", "content": parts})
        elif texts:
            self.push({"role": "user", "content": _join_text(texts)})

    def add_system(self, blocks: Sequence[Block]) -> None:
        """Append a system message of one text, or of parts if a text has a cache mark."""
        if _are_plain_texts(blocks):
            super().add_system(blocks)
            return
        texts = [block for block in blocks if isinstance(block, TextBlock) and block.text]
        parts = [self.marked({"type": "text", "text": block.text}, block) for block in texts]
        if not _has_marks(parts):
            super().add_system(blocks)
            return
        super().add_system([block for block in blocks if not isinstance(block, TextBlock)])  # reports them
        self.push({"role": self.system_role, "content": parts})

    # ------------------------------------------------------------ messages of the model

    def add_assistant(self, blocks: Sequence[Block]) -> None:
        """Append an assistant message, unless it would have neither content nor calls."""
        parts = self._sort_blocks(blocks)
        message: Json = {"role": "assistant", "content": self._assistant_content(parts)}
        refusal = _join_text(parts.refusals) if parts.refusals else ""
        if refusal and message["content"] is None and not parts.calls:
            # "one or more of type text, or exactly one of type refusal": content is required if there are no calls
            message["content"] = [{"type": "refusal", "refusal": refusal}]
        elif refusal:
            message["refusal"] = refusal
        if message["content"] is None and not parts.calls and not parts.fields.keys() & {"audio", "images"}:
            if blocks:
                self.changes.append(LeftOut("left out an assistant message: it has neither text nor calls"))
            return
        if parts.reasoning:
            message |= self._reasoning_fields(parts.reasoning)
            if any(isinstance(block, dict) and "index" in block for block in message.get("thinking_blocks", ())):
                # Portkey reads its own field of blocks instead of the content.
                content = message["content"]
                texts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
                thinking = [
                    {name: value for name, value in block.items() if name != "index"}
                    for block in message.pop("thinking_blocks")
                ]
                message["content_blocks"] = [*thinking, *texts]
        if parts.calls and self._blank_field is not None:
            message.setdefault(self._blank_field, BLANK_REASONING)
        self.push(message | parts.fields if parts.fields else message)
        if parts.calls:
            self.ids.start_round()
            self.messages[-1]["tool_calls"] = calls = [self._call(call) for call in parts.calls]
            if self._requires_signature:
                # On Google's endpoint of this wire; a router with typed reasoning adds its own.
                # https://ai.google.dev/gemini-api/docs/thought-signatures#openai
                calls[0].setdefault("extra_content", {"google": {"thought_signature": SKIP_SIGNATURE}})
            self.call_places: dict[str, int] = {call["id"]: place for place, call in enumerate(calls)}

    def _assistant_content(self, parts: _AssistantParts) -> str | list[Json] | None:
        """Return the content of an assistant message; as parts if a text has a cache mark."""
        if self.traits.cache_marks and any(cache_mark(block) is not None for block in parts.calls):
            sentence = f"a cache mark on a call was left out: {self.traits.name} accepts it on parts of content only"
            self.report(LeftOut(sentence))
        if not parts.content:
            return None
        if _are_plain_texts(parts.content):
            return _join_text(parts.content) or None
        texts = [block for block in parts.content if isinstance(block, TextBlock)]
        marked = [self.marked({"type": "text", "text": block.text}, block) for block in texts if block.text]
        if len(marked) == len(parts.content) and _has_marks(marked):
            return marked
        if len(texts) == len(parts.content):
            return _join_text(texts) or None
        content: list[Json] = []
        for block in parts.content:
            if isinstance(block, OpaqueBlock):
                content.append(block.raw)
            elif isinstance(block, ReasoningBlock):
                thinking = [{"type": "text", "text": block.text}] if block.text else []
                signature = {} if block.signature is None else {"signature": block.signature}
                content.append({"type": "thinking", "thinking": thinking, **signature})
            elif isinstance(block, TextBlock) and block.text:
                content.append({"type": "text", "text": block.text})
        return content

    def marked(self, part: Json, block: Block) -> Json:
        """Return a part with the block's cache mark: OpenAI's own, or in Anthropic's form where the dialect has it."""
        part |= self.breakpoint_of(block)
        mark = cache_mark(block) if self.traits.cache_marks else None
        return part if mark is None else {**part, "cache_control": {"type": "ephemeral", **mark}}

    def _sort_blocks(self, blocks: Sequence[Block]) -> _AssistantParts:
        """Return the model's blocks by the field that they are sent in, and report those that are left out."""
        parts, replays_images = _AssistantParts(), self.traits.media.image_replay
        for block in blocks:
            if isinstance(block, ToolCallBlock):
                parts.calls.append(block)
                continue
            is_theirs = self.is_from_target(block)
            if isinstance(block, TextBlock):
                if is_theirs:
                    self._sort_own_text(block, parts)
                else:
                    parts.content.append(block)
            elif isinstance(block, ReasoningBlock) and is_theirs and _metadata_list(block, "reasoning_parts"):
                # It is sent as it came, its only form on Databricks (BerriAI/litellm#36931).
                signed = merge_reasoning_parts(self.own_state(block, "reasoning_parts") or [])
                parts.content += [OpaqueBlock(raw=part) for part in signed]
                if not signed and self.is_own(block):
                    self.omit(block, "its parts are not signed")
            elif isinstance(block, ReasoningBlock) and is_theirs and self._accepts_reasoning(block):
                if not self._has_reasoning[self.content_number]:
                    self.omit(block, f"{self.traits.name} does not accept it here")
                elif self.traits.thinking_parts:
                    if block.signature is not None and not self.is_own(block):
                        self.report(LeftOut(f"the signature of reasoning was left out: {self.reason_not_own(block)}"))
                        block = copy_with(block, signature=None)
                    parts.content.append(block)
                else:
                    parts.reasoning.append(block)
            elif isinstance(block, OpaqueBlock) and is_theirs and _is_content_part(block.raw):
                if self.is_own(block):
                    parts.content.append(block)
                else:
                    self.omit(block, self.reason_not_own(block))
            elif isinstance(block, FileBlock) and is_theirs and replays_images and _is_generated_image(block):
                parts.fields["images"] = [*parts.fields.get("images", []), block.metadata["raw"]]
            elif not (isinstance(block, FileBlock) and is_theirs and "audio" in parts.fields):  # sent as the audio's id
                takes_own = isinstance(block, ReasoningBlock) and self.traits.plain_reasoning
                no_field = f"an assistant message to {self.traits.name} has no field for it"
                self.omit(block, f"{self.traits.name} accepts only its own" if takes_own else no_field)
        return parts

    def _sort_own_text(self, block: TextBlock, parts: _AssistantParts) -> None:
        """Add a text to the field that it is sent in: an audio's id is opaque state, all else is plain content."""
        audio = self.own_state(block, "audio")
        audio_id = audio.get("id") if isinstance(audio, dict) else None
        if isinstance(audio_id, str) and audio_id:
            parts.fields["audio"] = {"id": audio_id}
        elif block.metadata.get("refusal") is True:
            parts.refusals.append(block)
        else:
            parts.content.append(block)
        for citation in _metadata_list(block, "citations") if self.traits.media.file_annotations else ():
            if isinstance(citation, dict) and citation.get("type") == "file":  # with the parsed content of the file
                parts.fields.setdefault("annotations", []).append(citation)

    # ------------------------------------------------------------ reasoning

    def render(self, contents: Sequence[Content], *, is_end: bool = True) -> RenderedMessages:
        """Render the next contents, after finding whose reasoning is sent back. A person's message begins a turn."""
        replay, model = self.traits.reasoning_replay, self.options.model
        if self.traits.reasoning.of_reasoners and model and self.traits.facts_for(model).reasoning == "none":
            replay = "never"
        if replay != "tool_turns":
            self._has_reasoning += [replay == "always"] * len(contents)
            return super().render(contents, is_end=is_end)
        # The first turn may lack its beginning, and the beginning may have had calls.
        turn, turns_with_calls = 0, {0} if not self._has_reasoning or self._has_reasoning[-1] else set[int]()
        turns: list[int] = []
        for content in contents:
            kinds = {block.type for block in content.blocks}
            turn += content.speaker == "human" and kinds != {"tool_response"}
            turns.append(turn)
            if "tool_call" in kinds:
                turns_with_calls.add(turn)
        self._has_reasoning += [turn in turns_with_calls for turn in turns]
        return super().render(contents, is_end=is_end)

    def _accepts_reasoning(self, block: ReasoningBlock) -> bool:
        if self.traits.thinking_parts:
            return bool(block.text or block.signature)
        if _metadata_list(block, "reasoning_details") or _metadata_list(block, "thinking_blocks"):
            return True
        return bool(block.metadata.get("reasoning_opaque") or (self.traits.reasoning_field and block.text))

    def _reasoning_fields(self, blocks: Sequence[ReasoningBlock]) -> Json:
        """Return the fields of an assistant message that have its reasoning.

        Typed reasoning contains signatures; of another model only its text is sent.
        """
        fields: Json = {}
        text = "".join([block.text for block in blocks])
        opaque = [state for block in blocks if (state := self.own_state(block, "reasoning_opaque"))]
        if opaque:  # GitHub Copilot, in the fields in which it sent them (anomalyco/opencode#4468)
            fields |= {"reasoning_text": text, "reasoning_opaque": opaque[-1]}
        elif own := [
            entry for block in blocks for entry in merge_reasoning_blocks(self._own(block, "reasoning_blocks"))
        ]:
            fields["reasoning_content"] = own  # SAP's blocks
        elif self.traits.reasoning_field and text:
            fields[self.traits.reasoning_field] = text
        if details := [detail for block in blocks for detail in self._own(block, "reasoning_details")]:
            fields["reasoning_details"] = merge_reasoning_details(details)
        thinking = [delta for block in blocks for delta in self._own(block, "thinking_blocks")]
        if merged := merge_thinking_blocks(thinking):
            fields["thinking_blocks"] = merged
        return fields

    def _own(self, block: ReasoningBlock, name: str) -> list[Any]:
        """Return the deltas of typed reasoning of the target; empty if there are none, or of another model."""
        deltas = self.own_state(block, name)
        return deltas if isinstance(deltas, list) else []

    # ------------------------------------------------------------ calls

    def _call(self, block: ToolCallBlock) -> Json:
        call_id, name = self.ids.call_id(block), block.name
        self.call_names[block.id] = name
        call: Json
        if block.kind == "custom" and self.traits.custom_calls:
            call = {"id": call_id, "type": "custom", "custom": {"name": name, "input": text_or_json(block.parameters)}}
        else:
            invalid = invalid_arguments(block) if self.traits.messages.any_arguments else None
            arguments = data_as_json(self.arguments_object(block)) if invalid is None else invalid
            call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        if "extra_content" in block.metadata and self.is_from_target(block):  # thought signatures of Gemini's endpoint
            extra = self.own_state(block, "extra_content")
            google = extra.get("google") if isinstance(extra, dict) else None
            signature = google.get("thought_signature") if isinstance(google, dict) else None
            if isinstance(signature, str) and not is_base64(to_standard_base64(signature)):
                self.report(LeftOut("a thought signature was left out: it is no base64, so Gemini refuses it"))
                extra = {name: value for name, value in extra.items() if name != "google"} or None
            if extra is not None:
                call["extra_content"] = extra
        return call

    @cached_property
    def _requires_signature(self) -> bool:
        """The first call of a message must have a signature."""
        return requires_signature(self.options.model) and not self.traits.stream.reasoning_details

    # ------------------------------------------------------------ results

    def add_result(self, block: ToolResponseBlock) -> None:
        """Buffer the tool message of a result. Media that it cannot have are shown by a user message."""
        call_id = self.ids.result_id(block)
        name = block.name or self.call_names.get(block.call_id)
        content, media = self._split_result(block)
        if self.traits.cache_marks and content and cache_mark(block) is not None:
            parts_of_result = [{"type": "text", "text": content}] if isinstance(content, str) else content
            content = [*parts_of_result[:-1], self.marked(parts_of_result[-1], block)]
        message = {"role": "tool", "tool_call_id": call_id, "content": content}
        if self.traits.messages.result_names and name:
            message["name"] = name
        self.buffer_result(self.call_places.get(call_id, len(self.call_places)), message, caption(media, name))

    def _split_result(self, block: ToolResponseBlock) -> tuple[str | list[Json], list[Media]]:
        """Return the content of a tool message, and the media that a user message shows."""
        if (own_parts := media_parts(block)) is None:
            return result_text(block), []
        parts = self.tool_media(own_parts)
        if not self.traits.media.result_images or not any(isinstance(part, ImageBlock) for part in parts):
            return split_text_and_media(parts)
        content: list[Json] = []
        files: list[Media] = []
        for part in parts:
            if isinstance(part, FileBlock):
                files.append(part)
            elif isinstance(part, ImageBlock):
                content.append(image_part(part.data, self.traits.media.image_types))
            elif part.text:
                content.append({"type": "text", "text": part.text})
        return content, files

    def tool_media(self, parts: Sequence[ResultPart]) -> list[ResultPart]:
        """Return the images and files of tools that a message can show; text for the others."""
        return convert_parts(parts, partial(convert_tool_media, traits=self.traits), self.changes, self.traits.name)


class _AssistantParts(Struct):
    """The blocks of an assistant message, by the field that they are sent in."""

    content: list[Block] = field(default_factory=list)
    reasoning: list[ReasoningBlock] = field(default_factory=list)
    refusals: list[TextBlock] = field(default_factory=list)
    calls: list[ToolCallBlock] = field(default_factory=list)
    fields: Json = field(default_factory=dict)  # ``audio``, ``annotations`` and ``images``, complete


def _author_of(content: Content, traits: ChatDialect) -> str | None:
    """Return the name of a message's author if a client of this dialect gave it."""
    author = content.metadata.get("author")
    if not traits.messages.author_names or not isinstance(author, dict) or not traits.is_from_provider(author):
        return None
    name = author.get("name")
    return name if isinstance(name, str) else None


def _join_text(blocks: list[TextBlock]) -> str:
    """Return the texts of several blocks as one.

    Blocks that one model streamed (around its calls and citations) are one text. Blocks that were written separately
    are joined by a newline.
    """
    if len(blocks) == 1:
        return blocks[0].text
    text = ""
    previous: TextBlock | None = None
    for block in blocks:
        if not block.text:
            continue
        is_streamed = previous is not None and "provider" in previous.metadata and "provider" in block.metadata
        text += block.text if previous is None or is_streamed else "\n" + block.text
        previous = block
    return text


def _has_marks(parts: Sequence[dict[str, Any]]) -> bool:
    """Return True if a part has a cache mark."""
    return any("cache_control" in part or CACHE_BREAKPOINT in part for part in parts)


def _are_plain_texts(blocks: Sequence[Block]) -> TypeGuard[list[TextBlock]]:
    """Return True if all blocks are texts without a cache mark."""
    for block in blocks:  # noqa: SIM110  # every message is asked, and a generator takes longer
        if not isinstance(block, TextBlock) or not _MARKS.isdisjoint(block.metadata):
            return False
    return True


def _is_content_part(raw: Any) -> bool:
    """Return True if a value has the form of an entry of ``content``."""
    return isinstance(raw, dict) and isinstance(raw.get("type"), str)


def _metadata_list(block: Block, name: str) -> list[Any]:
    """Return a list in a block's metadata, such as the deltas of typed reasoning; empty if there is none."""
    value = block.metadata.get(name)
    return value if isinstance(value, list) else []


def _is_generated_image(block: FileBlock) -> bool:
    """Return True if a file is an image that the model generated, in the form in which it was streamed."""
    raw = block.metadata.get("raw")
    return isinstance(raw, dict) and "image_url" in raw
