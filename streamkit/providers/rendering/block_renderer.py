"""The bases of the renderers to messages that are lists of parts, of two roles that alternate.

`AlternatingRenderer` is for any such wire, with system text apart. `BlockRenderer` is for Anthropic's Messages and
Bedrock's Converse: both refuse blank text, white space at the end of a last assistant message, and results that are not
at the beginning of the user message after their calls. Both take reasoning back only with its signature, and only at
its origin. A subclass converts single blocks. This module depends on no provider.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from streamkit.history.content import (
    UNPAIRED_BLOCKS,
    Block,
    CacheMark,
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
from streamkit.history.tool_results import result_parts
from streamkit.providers.provider import Traits
from streamkit.providers.rendering.media import Media, convert_or_describe, describe, report_name
from streamkit.providers.rendering.message_renderer import AnyTraits, Json, MessageRenderer
from streamkit.providers.requests.request import cache_mark
from streamkit.providers.writing.encoding import text_or_json
from streamkit.values.request_changes import Described, LeftOut, Lost, Translated

__all__ = ["AlternatingRenderer", "BlockRenderer"]


class AlternatingRenderer(MessageRenderer[AnyTraits]):
    """A renderer for messages of two roles that alternate, each a list of parts, and separate system text."""

    assistant_role: ClassVar[str] = "assistant"
    parts_field: ClassVar[str] = "content"

    def add(self, content: Content) -> None:
        """Render the next content: as parts of the last message if the role is the same, else as a new message."""
        if content.speaker == "system":
            self.add_system(content)
            return
        if content.speaker not in ("human", "tool", "ai"):
            self.report(Lost(f"a message of the unknown speaker {content.speaker!r} was left out"))
            return
        speaker = content.speaker
        last_role = "user"
        pushed: list[Any] = []
        for block in content.blocks:
            role = "user"
            if type(block) not in UNPAIRED_BLOCKS and isinstance(block, ToolResponseBlock):
                parts = self.result_parts(block)
            elif speaker == "ai":
                role, parts = self.assistant_role, self.assistant_parts(block)
            elif speaker == "tool" and isinstance(block, (ImageBlock, FileBlock)):
                parts = [self.tool_media_part(block)]
            else:
                parts = self.user_parts(block)
            if parts and "cache" in block.metadata and (mark := cache_mark(block)) is not None:
                parts = self.mark_parts(parts, mark)
            if role != last_role:
                self.push(last_role, pushed)
                last_role, pushed = role, []
            pushed += parts
        self.push(last_role, pushed)

    def mark_parts(self, parts: list[Any], mark: CacheMark) -> list[Any]:
        """Return the parts of a block up to whose end the prompt is cached; unchanged on wires without such marks."""
        return parts

    def result_parts(self, block: ToolResponseBlock) -> list[Any]:
        """Return the parts for the result of a call."""
        raise NotImplementedError

    def tool_media_part(self, block: Media) -> Any:
        """Return the part for an image or file of a tool; text if the target cannot carry it."""
        raise NotImplementedError

    def user_parts(self, block: Block) -> list[Any]:
        """Return the parts for a block of a user's message."""
        raise NotImplementedError

    def assistant_parts(self, block: Block) -> list[Any]:
        """Return the parts for a block of the model's message."""
        raise NotImplementedError

    def push(self, role: str, parts: list[Any]) -> None:
        """Add parts to the last message if it has this role, else to a new one."""
        if not parts:
            return
        last = self.messages[-1] if self.messages else None
        if last is not None and last["role"] == role:
            last[self.parts_field].extend(parts)
            self.members[-1].append(self.content_number)
        else:
            self.append({"role": role, self.parts_field: list(parts)})

    def add_system(self, content: Content) -> None:
        """Add a system message to the system text, wherever it is in the conversation."""
        if self.messages:
            self.report(Lost("a system message from within the conversation was moved to the system text"))
        for block in content.blocks:
            if isinstance(block, OpaqueBlock) and not self.is_own(block):
                self.report(Lost(f"a provider's block was left out: {self.reason_not_own(block)}"))
            elif not isinstance(block, TextBlock):
                self.report(Lost(f"a block of type {block.type!r} in a system message was left out"))
            elif block.text.strip():
                if (mark := cache_mark(block)) is not None:
                    self.system_marks[len(self.system)] = mark
                self.system.append(block.text)


class BlockRenderer(AlternatingRenderer[Traits]):
    """A rendering of a conversation to messages of content blocks."""

    #: the provider's name in reported changes
    target: ClassVar[str]
    #: the API accepts a result whose text is only white space
    accepts_blank_results: ClassVar[bool] = True

    # of the last assistant message that is closed: by id, the places of its calls; their number
    _call_places: Mapping[str, int] = MappingProxyType({})
    _after_calls: int = 0

    # ---------------------------------------------------------------- one block, by the subclass

    def text_block(self, text: str) -> Json:
        """Return text as a block."""
        raise NotImplementedError

    def media_block(self, block: Media) -> Json:
        """Return an image or a file as a block.

        Raises:
            UnsupportedContent: The API does not accept it in this form.
        """
        raise NotImplementedError

    def reasoning_block(self, block: ReasoningBlock) -> Json | None:
        """Return reasoning whose state is accepted as a block; None if it has neither signature nor opaque block."""
        raise NotImplementedError

    def call_block(self, block: ToolCallBlock) -> Json:
        """Return a call as a block."""
        raise NotImplementedError

    def is_block(self, raw: Any) -> bool:
        """Return True if a raw value that history contains is a block of this wire."""
        raise NotImplementedError

    def read_call_id(self, block: Json) -> str | None:
        """Return the id of a block that is a call of the client's; None for any other block."""
        raise NotImplementedError

    def read_result_id(self, block: Json) -> str | None:
        """Return the id of the call that a result block belongs to; None for any other block."""
        raise NotImplementedError

    # ---------------------------------------------------------------- blocks of a message

    def user_parts(self, block: Block) -> list[Json]:
        """Return text, images and files as blocks; any other block is left out."""
        if isinstance(block, TextBlock):
            return self.text_parts(block)
        if isinstance(block, (ImageBlock, FileBlock)):
            part = self.media_block(block)
            report_name(block, part, self.changes)
            return [part]
        if isinstance(block, OpaqueBlock):
            return self.own_parts(block)
        self.report(Lost(f"a block of type {block.type!r} in a user message was left out"))
        return []

    def tool_media_part(self, block: Media) -> Json:
        """Return an image or file that a tool made; a text block that describes it if the API does not accept it."""
        part = convert_or_describe(block, self.media_block, self.changes, self.target)
        return self.text_block(part) if isinstance(part, str) else part

    def assistant_parts(self, block: Block) -> list[Json]:
        """Return the model's text, calls and signed reasoning as blocks, and the provider's own blocks unchanged."""
        if isinstance(block, TextBlock):
            return self.text_parts(block)
        if isinstance(block, ToolCallBlock):
            return [self.call_block(block)]
        if isinstance(block, ReasoningBlock):
            if not self.is_own(block):
                self.report(LeftOut(f"reasoning was left out: {self.reason_not_replayed(block, self.target)}"))
            elif (part := self.reasoning_block(block)) is not None:
                return [part]
            else:
                sentence = f"reasoning without a signature was left out: {self.target} accepts only signed reasoning"
                self.report(LeftOut(sentence))
            return []
        if isinstance(block, (ServerToolBlock, OpaqueBlock)):
            return self.own_parts(block)
        self.report(Lost(f"a block of type {block.type!r} in an assistant message was left out"))
        return []

    def text_parts(self, block: TextBlock) -> list[Json]:
        """Return text as blocks; none for blank text, which the APIs refuse."""
        if block.text.strip():
            return [self.text_block(block.text)]
        if block.text:
            self.report(LeftOut("a text of nothing but white space was left out"))
        return []

    def has_failure_flag(self, block: ToolResponseBlock) -> bool:
        """Return True: a result has a field for its failure."""
        return True

    def failure_text(self, block: ToolResponseBlock) -> str | None:
        """Return the text of a result that is an error or did not complete; None for a completed result."""
        if block.error is None and block.status in (None, "completed"):
            return None
        text = block.error or _text_of(block.result)
        parts = result_parts(block.result) if not block.error else None
        if parts is not None and not all(isinstance(part, TextBlock) for part in parts):
            # 400 "all content must be type 'text' if 'is_error' is true" (caozhiyuan/copilot-api#196)
            sentence = f"put text in the place of images and files of a failed result: {self.target} refuses them"
            self.report(Described(sentence))
        has_text = bool(text if self.accepts_blank_results else text.strip())
        return text if has_text else f"The call did not complete: {block.status}."

    def own_parts(self, block: ServerToolBlock | OpaqueBlock) -> list[Json]:
        """Return the blocks that the target's provider made, unchanged; none, reported, if it does not accept them."""
        raw = block.raw if isinstance(block, ServerToolBlock) else [block.raw]
        parts = [part for part in raw if self.is_block(part)]
        if self.is_own(block) and parts:
            return parts
        label = f"the provider's tool {block.name!r}" if isinstance(block, ServerToolBlock) else "a provider's block"
        reason = "it has no block of this wire" if self.is_own(block) else self.reason_not_own(block)
        self.report(Lost(f"{label} was left out: {reason}"))
        return []

    # ---------------------------------------------------------------- all messages

    def put_results_first(self, message: Json) -> None:
        """Move the results of a user message to its beginning, in the order of the calls before it."""
        blocks = message["content"]
        if message["role"] == "assistant":
            ids = [self.read_call_id(block) for block in blocks]
            # A block that the provider made may have any value as its id.
            self._call_places = {call_id: place for place, call_id in enumerate(ids) if isinstance(call_id, str)}
            self._after_calls = len(blocks)
            return

        def place(block: Json) -> int:
            call_id = self.read_result_id(block)
            return self._after_calls + 1 if call_id is None else self._call_places.get(call_id, self._after_calls)

        if len(blocks) > 1:
            blocks.sort(key=place)

    def strip_last_text(self) -> None:
        """Remove white space at the end of the last assistant message, for which the APIs refuse a request."""
        if not self.messages or self.messages[-1]["role"] != "assistant":
            return
        blocks = self.messages[-1]["content"]
        text = blocks[-1].get("text")
        if isinstance(text, str) and text != text.rstrip():
            blocks[-1] = {**blocks[-1], "text": text.rstrip()}
            self.report(LeftOut("white space at the end of the last assistant text was removed"))

    def begin_with_user_text(self) -> None:
        """Insert a user message with a text in front if the first message is the model's."""
        if self.messages and self.messages[0]["role"] != "user":
            self.messages.insert(0, {"role": "user", self.parts_field: [self.text_block("(continued)")]})
            self.members.insert(0, [])
            self.report(Translated("a user message '(continued)' was put in front: the first message must be a user's"))


def _text_of(result: Any) -> str:
    """Return a failed result as text. An image or file is named: its base64 would be a text for the model."""
    parts = result_parts(result)
    if parts is None:
        return text_or_json(result)
    return "\n".join(part.text if isinstance(part, TextBlock) else describe(part) for part in parts)
