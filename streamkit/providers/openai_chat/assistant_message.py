"""History to the messages of the model: its blocks by the field that a dialect has for each, and its calls.

The base of the renderer in ``messages``. ``message_parts`` and ``typed_reasoning`` have the values of the fields. Only
the reasoning that the dialect accepts is sent back. This module must not depend on requests, nor on other messages.

Parts of a message, above all of an assistant's, from the blocks of a content.

Stateless. Which block goes into which message, and which dialect accepts what, is decided in ``messages`` and
``assistant_message``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

from msgspec import Struct, field

from streamkit.history import Block, Content, FileBlock, OpaqueBlock, ReasoningBlock, TextBlock, ToolCallBlock
from streamkit.history.content import CACHE_BREAKPOINT
from streamkit.providers.openai_chat.requests import BLANK_REASONING, is_reasoning
from streamkit.providers.openai_chat.traits import ChatDialect
from streamkit.providers.openai_chat.typed_reasoning import (
    merge_reasoning_blocks,
    merge_reasoning_details,
    merge_reasoning_parts,
    merge_thinking_blocks,
)
from streamkit.providers.provider import RenderedMessages, RenderOptions
from streamkit.providers.rendering.message_renderer import Json, RoleRenderer, cache_mark
from streamkit.providers.requests.models.gemini import SKIP_SIGNATURE, requires_signature
from streamkit.providers.writing.encoding import data_as_json, text_or_json
from streamkit.values.model_copy import copy_with

__all__ = [
    "AssistantRenderer",
    "are_plain_texts",
    "assistant_content",
    "audio_id",
    "file_annotations",
    "generated_image",
    "has_marks",
    "is_content_part",
    "join_text",
    "reasoning_details",
    "reasoning_parts",
    "thinking_blocks",
]


_MARKS = frozenset({"cache", CACHE_BREAKPOINT})


def join_text(blocks: list[TextBlock]) -> str:
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


def has_marks(parts: Sequence[dict[str, Any]]) -> bool:
    """Return True if a part has a cache mark."""
    return any("cache_control" in part or CACHE_BREAKPOINT in part for part in parts)


def are_plain_texts(blocks: Sequence[Block]) -> TypeGuard[list[TextBlock]]:
    """Return True if all blocks are texts without a cache mark."""
    for block in blocks:  # noqa: SIM110  # every message is asked, and a generator takes longer
        if not isinstance(block, TextBlock) or not _MARKS.isdisjoint(block.metadata):
            return False
    return True


def is_content_part(raw: Any) -> bool:
    """Return True if a value has the form of an entry of ``content``."""
    return isinstance(raw, dict) and isinstance(raw.get("type"), str)


def audio_id(block: TextBlock) -> str | None:
    """Return the id of the audio response that a text is the transcript of."""
    audio = block.metadata.get("audio")
    value = audio.get("id") if isinstance(audio, dict) else None
    return value if isinstance(value, str) and value else None


def assistant_content(blocks: Sequence[Block]) -> str | list[dict[str, Any]] | None:
    """Return the ``content`` of an assistant message: one text, or the parts in order, or None if it is empty."""
    texts = [block for block in blocks if isinstance(block, TextBlock)]
    if len(texts) == len(blocks):
        return join_text(texts) or None
    parts: list[dict[str, Any]] = []
    for block in blocks:
        if isinstance(block, OpaqueBlock):
            parts.append(block.raw)
        elif isinstance(block, ReasoningBlock):
            thinking = [{"type": "text", "text": block.text}] if block.text else []
            signature = {} if block.signature is None else {"signature": block.signature}
            parts.append({"type": "thinking", "thinking": thinking, **signature})
        elif isinstance(block, TextBlock) and block.text:
            parts.append({"type": "text", "text": block.text})
    return parts


def file_annotations(block: TextBlock) -> list[Any]:
    """Return the annotations of a text that contain the parsed content of a file."""
    citations = block.metadata.get("citations")
    return [
        citation
        for citation in (citations if isinstance(citations, list) else ())
        if isinstance(citation, dict) and citation.get("type") == "file"
    ]


def generated_image(block: FileBlock) -> dict[str, Any] | None:
    """Return an image that the model generated, in the form in which it was streamed."""
    raw = block.metadata.get("raw")
    return raw if isinstance(raw, dict) and "image_url" in raw else None


def reasoning_details(block: ReasoningBlock) -> list[Any]:
    """Return OpenRouter's typed reasoning, in the deltas in which it was streamed."""
    details = block.metadata.get("reasoning_details")
    return details if isinstance(details, list) else []


def reasoning_parts(block: ReasoningBlock) -> list[Any]:
    """Return Databricks' parts of the content that are reasoning, in the deltas in which they were streamed."""
    parts = block.metadata.get("reasoning_parts")
    return parts if isinstance(parts, list) else []


def thinking_blocks(block: ReasoningBlock) -> list[Any]:
    """Return LiteLLM's thinking blocks, in the deltas in which they were streamed."""
    blocks = block.metadata.get("thinking_blocks")
    return blocks if isinstance(blocks, list) else []


class _AssistantParts(Struct):
    """The blocks of an assistant message, by the field that they are sent in."""

    content: list[Block] = field(default_factory=list)
    reasoning: list[ReasoningBlock] = field(default_factory=list)
    refusals: list[TextBlock] = field(default_factory=list)
    calls: list[ToolCallBlock] = field(default_factory=list)
    fields: Json = field(default_factory=dict)  # ``audio``, ``annotations`` and ``images``, complete


class AssistantRenderer(RoleRenderer[ChatDialect]):
    """A renderer of what the model said to one dialect's messages.

    Attributes:
        call_names: the names of the tools that were called, by the call's id in history.
    """

    def __init__(self, traits: ChatDialect, options: RenderOptions) -> None:
        super().__init__(traits, options)
        self.call_names: dict[str, str] = {}
        self._requires_signature = requires_signature(options.model) and not traits.reasoning_details
        self._has_reasoning: list[bool] = []  # for each content, whether its reasoning is sent back
        needs_reasoning = traits.calls_need_reasoning and traits.reasoning_replay != "never"
        # the field that a message with calls must have, though its reasoning is unknown
        self._blank_field = traits.reasoning_field if needs_reasoning and is_reasoning(traits, options.model) else None

    def render(self, contents: Sequence[Content]) -> RenderedMessages:
        """Return the conversation as messages."""
        self._has_reasoning = self._select_reasoning(contents)
        return super().render(contents)

    # ------------------------------------------------------------ messages

    def add_assistant(self, blocks: Sequence[Block]) -> None:
        """Append an assistant message, unless it would have neither content nor calls."""
        parts = self._sort_blocks(blocks)
        message: Json = {"role": "assistant", "content": self._assistant_content(parts)}
        refusal = join_text(parts.refusals) if parts.refusals else ""
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
            if any(isinstance(block, dict) and "index" in block for block in message.get("thinking_blocks", ())):
                _write_content_blocks(message)
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
            self.call_places = {call["id"]: place for place, call in enumerate(calls)}

    def _assistant_content(self, parts: _AssistantParts) -> str | list[Json] | None:
        """Return the content of an assistant message; as parts if a text has a cache mark."""
        if self.traits.cache_marks and any(cache_mark(block) is not None for block in parts.calls):
            self.report(f"a cache mark on a call was left out: {self.traits.name} accepts it on parts of content only")
        if not parts.content:
            return None
        if are_plain_texts(parts.content):
            return join_text(parts.content) or None
        texts = [block for block in parts.content if isinstance(block, TextBlock) and block.text]
        marked = [self.marked({"type": "text", "text": block.text}, block) for block in texts]
        if len(texts) == len(parts.content) and has_marks(marked):
            return marked
        return assistant_content(parts.content)

    def marked(self, part: Json, block: Block) -> Json:
        """Return a part with the block's cache mark: OpenAI's own, or in Anthropic's form where the dialect has it."""
        part |= self.breakpoint_of(block)
        mark = cache_mark(block) if self.traits.cache_marks else None
        return part if mark is None else {**part, "cache_control": {"type": "ephemeral", **mark}}

    def _sort_blocks(self, blocks: Sequence[Block]) -> _AssistantParts:
        """Return the model's blocks by the field that they are sent in, and report those that are left out."""
        parts = _AssistantParts()
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

    def _sort_own_text(self, block: TextBlock, parts: _AssistantParts) -> None:
        """Add a text to the field that it is sent in: an audio's id is opaque state, all else is plain content."""
        audio = audio_id(block) if self.own_state(block, "audio") else None
        if audio is not None:
            parts.fields["audio"] = {"id": audio}
        elif block.metadata.get("refusal") is True:
            parts.refusals.append(block)
        else:
            parts.content.append(block)
        if self.traits.file_annotations and (annotations := file_annotations(block)):
            parts.fields["annotations"] = [*parts.fields.get("annotations", []), *annotations]

    def _image_of(self, block: FileBlock) -> Json | None:
        return generated_image(block) if self.traits.image_replay else None

    # ------------------------------------------------------------ reasoning

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

    def _accepts_reasoning(self, block: ReasoningBlock) -> bool:
        if self.traits.thinking_parts:
            return bool(block.text or block.signature)
        if reasoning_details(block) or thinking_blocks(block) or block.metadata.get("reasoning_opaque"):
            return True
        return bool(self.traits.reasoning_field and block.text)

    def _sort_reasoning_parts(self, block: ReasoningBlock, parts: _AssistantParts) -> None:
        """Add signed reasoning to the content as it came, its only form on Databricks (BerriAI/litellm#36931)."""
        signed = merge_reasoning_parts(self.own_state(block, "reasoning_parts") or [])
        parts.content += [OpaqueBlock(raw=part) for part in signed]
        if not signed and self.is_own(block):
            self.omit(block, "its parts are not signed")

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

    # ------------------------------------------------------------ calls

    def _call(self, block: ToolCallBlock) -> Json:
        call_id, name = self.ids.call_id(block), block.name
        self.call_names[block.id] = name
        arguments = text_or_json(block.parameters)
        call: Json
        if block.kind == "custom" and self.traits.custom_calls:
            call = {"id": call_id, "type": "custom", "custom": {"name": name, "input": arguments}}
        else:
            if block.kind == "custom":
                arguments = data_as_json(self.arguments_object(arguments, name))
            call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        if "extra_content" in block.metadata and self.is_from_target(block):  # thought signatures of Gemini's endpoint
            if (extra := self.own_state(block, "extra_content")) is not None:
                call["extra_content"] = extra
        return call


def _write_content_blocks(message: Json) -> None:
    """Replace the thinking blocks of a message by Portkey's field, which it reads instead of the content."""
    content = message["content"]
    texts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    thinking = [
        {name: value for name, value in block.items() if name != "index"} for block in message["thinking_blocks"]
    ]
    del message["thinking_blocks"]
    message["content_blocks"] = [*thinking, *texts]
