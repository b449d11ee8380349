"""History as the ``input`` items of a Responses request, and the fields of its body that a conversation decides.

What the API refuses decides the form (https://platform.openai.com/docs/guides/conversation-state). A reasoning item is
taken back only where the item that it led to follows it: "Item 'rs_...' of type 'reasoning' was provided without its
required following item". An item's id is sent only where its reasoning is sent before it: "Item 'fc_...' of type
'function_call' was provided without its required 'reasoning' item" (laravel/ai#1052, 0xPlaygrounds/rig#751); without
its id an item needs nothing. Both, and what the provider ran itself, go back unchanged and only to their own family.

System text stays where it stands, as items of the role ``system``: nothing is moved, and nothing is lost.
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
from streamkit.providers.decoding import compact_json
from streamkit.providers.message_renderer import MessageRenderer
from streamkit.providers.openai_responses.media import (
    input_file,
    input_image,
    item_ids,
    media_part,
    output_of,
    output_part,
    reasoning_item,
    strip_output_only_fields,
)
from streamkit.providers.openai_responses.schema import Json
from streamkit.providers.provider import IdPolicy, RenderedMessages, ToolChoice, Traits
from streamkit.providers.strict import OPENAI
from streamkit.tools import Tool, strict_parameters

__all__ = ["build_request", "convert_media", "render_messages"]

_CHOICES = ("auto", "none", "required")


def render_messages(contents: Sequence[Content], traits: Traits, *, ids: IdPolicy | None = None) -> RenderedMessages:
    """The thread as input items.

    Args:
        contents: the conversation.
        traits: the target's.
        ids: ``origin`` gives a call of the family its own ``call_id`` back; else every id is made from the canonical
            one.

    Raises:
        UnsupportedContent: a person's image or file is in a form that the API does not take.
    """
    return ResponsesRenderer(traits, ids).render(contents)


def build_request(
    rendered: RenderedMessages,
    traits: Traits,
    *,
    tools: Sequence[Tool] = (),
    tool_choice: ToolChoice | None = None,
    stream: bool = True,
) -> Json:
    """The body's fields that the conversation decides; ``model`` and settings are the caller's.

    Raises:
        UsageError: a strict tool's schema cannot be had.
    """
    body: Json = {traits.messages_field: rendered.messages}
    if tools:
        strict = strict_parameters(tools, OPENAI)
        body["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                **({"description": tool.description} if tool.description else {}),
                "parameters": strict.get(tool.name, tool.parameters),
                # Said either way: the API's default is strict, which few schemas of people's functions keep.
                "strict": tool.name in strict,
            }
            for tool in tools
        ]
        if tool_choice is not None:
            named: Json = {"type": "function", "name": tool_choice}
            body["tool_choice"] = tool_choice if tool_choice in _CHOICES else named
    if stream:
        body["stream"] = True
    return body


class ResponsesRenderer(MessageRenderer[Traits]):
    """Renders history as input items."""

    illegal_in_name = re.compile(r"[^a-zA-Z0-9_-]")

    def __init__(self, traits: Traits, ids: IdPolicy | None = None) -> None:
        super().__init__(traits, ids)
        self._kinds: dict[str, str] = {}  # of the calls, by their id in history
        self._places: dict[str, int] = {}  # of the calls since the last results, by their id on the wire
        self._results: list[tuple[Json, int]] = []  # with the number of their content
        self._reasoning: list[Json] = []  # waits for the item that it led to
        self._led = False  # reasoning was sent, and only items of the same answer since
        self._continues = False  # the block before was reasoning whose item has been taken
        self._callers: dict[str, Json] = {}  # of the calls that a program of the provider's made, by the call's id
        self._kept: set[str] = set()  # ids of the provider's items that this answer holds
        self._texts: tuple[object, Json] | None = None  # the message that the next text may belong to

    def add(self, content: Content) -> None:
        """The next message of the conversation."""
        if content.speaker == "ai":
            self._kept = item_ids(content)
            for block in content.blocks:
                self._answered(block)
            self._end_answer()
            return
        if content.speaker not in ("human", "tool", "system"):
            self.report(f"a message of the unknown speaker {content.speaker!r} was left out")
            return
        parts: list[Json] = []
        for block in content.blocks:
            if isinstance(block, ToolResponseBlock):
                self._result(block)
            elif content.speaker == "tool" and isinstance(block, (ImageBlock, FileBlock)):
                shown = media_part(block, self.changes)
                parts.append({"type": "input_text", "text": shown} if isinstance(shown, str) else shown)
            else:
                parts += self._said(block, content.speaker)
        if parts:
            self.flush_results()
            role = "system" if content.speaker == "system" else "user"
            self.append({"role": role, "content": parts[0]["text"] if _is_plain(parts) else parts})

    def flush_results(self) -> None:
        """The results of a round, in call order; those that belong to no call of it stay behind them as they came."""
        if not self._results:
            return
        last = len(self._places)
        for item, content in sorted(self._results, key=lambda result: self._places.get(result[0]["call_id"], last)):
            self.append(item, [content])
        self._results, self._places = [], {}

    def finish(self) -> None:
        """Write the last results."""
        self.flush_results()

    # ------------------------------------------------------------ what people and tools say

    def _said(self, block: Block, speaker: str) -> list[Json]:
        if isinstance(block, TextBlock):
            return [{"type": "input_text", "text": block.text}] if block.text else []
        if isinstance(block, ImageBlock) and speaker != "system":
            return [input_image(block.data)]
        if isinstance(block, FileBlock) and speaker != "system":
            return [input_file(block)]
        self.report(f"a block of type {block.type!r} in a message of the speaker {speaker!r} was left out")
        return []

    def _result(self, block: ToolResponseBlock) -> None:
        custom = self._kinds.get(block.call_id) == "custom"
        kind = "custom_tool_call_output" if custom else "function_call_output"
        item: Json = {"type": kind, "call_id": self.ids.result_id(block), "output": output_of(block, self.changes)}
        if block.call_id in self._callers:
            item["caller"] = self._callers[block.call_id]
        self._results.append((item, self.content_number))

    # ------------------------------------------------------------ what the model said

    def _answered(self, block: Block) -> None:
        item = reasoning_item(block) if self.is_own(block) else None
        if item is not None:
            self._reasoning.append(strip_output_only_fields(item))
            self._continues, self._texts = True, None
            return
        parts = {"summary_index", "content_index"} & block.metadata.keys()
        if self._continues and parts and isinstance(block, ReasoningBlock) and self.is_own(block):
            return  # a further part of the item that was taken with its first
        self._continues = False
        if isinstance(block, TextBlock):
            self._text(block)
        elif isinstance(block, ToolCallBlock):
            self._call(block)
        elif isinstance(block, ToolResponseBlock):
            self._end_answer()
            self._result(block)
        elif isinstance(block, (ServerToolBlock, OpaqueBlock)):
            self._raw(block)
        elif isinstance(block, FileBlock) and self.is_own(block) and "item_id" in block.metadata:
            pass  # it stands in the item of the tool that made it
        elif isinstance(block, ReasoningBlock):
            why = "it has no item to send back" if self.is_own(block) else "it is another provider's"
            self.report(f"reasoning was left out: {why}")
        else:
            self._leave(f"a block of type {block.type!r} in an assistant message was left out")

    def _push(self, item: Json, *, own: bool) -> None:
        """An item of an answer; reasoning goes before it where it is the one that the reasoning led to."""
        self.flush_results()
        if own and self._reasoning:
            for reasoning in self._reasoning:
                self.append(reasoning)
            self._reasoning, self._led = [], True
        elif not own:
            self._drop_reasoning()
        self._texts = None
        self.append(item)

    def _leave(self, sentence: str) -> None:
        self.report(sentence)
        self._drop_reasoning()

    def _drop_reasoning(self) -> None:
        if self._reasoning:
            self.report("reasoning was left out: the item that it led to is gone")
        self._reasoning, self._led = [], False

    def _end_answer(self) -> None:
        self._drop_reasoning()
        self._continues, self._texts = False, None

    def _item_id(self, block: Block, prefix: str) -> str | None:
        """The block's item id where it may be sent: its reasoning is sent before it, too."""
        given = block.metadata.get("item_id")
        led = self.is_own(block) and (self._led or bool(self._reasoning))
        return given if led and isinstance(given, str) and given.startswith(prefix) else None

    def _text(self, block: TextBlock) -> None:
        if not block.text:
            return
        own = self.is_own(block)
        item_id = self._item_id(block, "msg_")
        refusal = bool(block.metadata.get("refusal"))
        if refusal and item_id is None:
            self.report("a refusal was sent back as text: without its item's id there is no other form")
        whose = (own, block.metadata.get("item_id")) if own else (own, block.metadata.get("provider"))
        if self._texts is not None and self._texts[0] == whose:
            _append_text(self._texts[1], block, apart=not own and "provider" not in block.metadata)
            return
        message: Json = {"type": "message", "role": "assistant"}
        if item_id is None:
            message["content"] = block.text
        else:
            message |= {"id": item_id, "status": "completed", "content": [output_part(block)]}
        phase = block.metadata.get("phase")
        if own and phase in ("commentary", "final_answer"):
            message["phase"] = phase
        self._push(message, own=own)
        self._texts = (whose, message)

    def _call(self, block: ToolCallBlock) -> None:
        custom = block.kind == "custom"
        given = block.parameters if isinstance(block.parameters, str) else compact_json(block.parameters)
        item: Json = {
            "type": "custom_tool_call" if custom else "function_call",
            "call_id": self.ids.call_id(block),
            "name": self.tool_name(block.name),
            "input" if custom else "arguments": given,
        }
        item_id = self._item_id(block, "ctc_" if custom else "fc_")
        if item_id is not None:
            item["id"] = item_id
        if self.is_own(block):
            caller = block.metadata.get("caller")
            item |= {field: block.metadata[field] for field in ("namespace", "caller") if block.metadata.get(field)}
            if isinstance(caller, dict) and caller.get("type") == "program":
                self._callers[block.id] = caller  # its output has a field for it, too
        self._kinds[block.id] = block.kind
        self._push(item, own=self.is_own(block))
        self._places.setdefault(item["call_id"], len(self._places))

    def _raw(self, block: ServerToolBlock | OpaqueBlock) -> None:
        raw = block.raw if isinstance(block, ServerToolBlock) else [block.raw]
        items = [item for item in raw if isinstance(item, dict) and isinstance(item.get("type"), str)]
        if self.is_own(block) and items:
            for item in items:
                self._push(item, own=True)
            return
        if self.is_own(block) and isinstance(block, ServerToolBlock) and block.id in self._kept:
            return  # its item ended after others, and stands where it ended
        what = f"the provider's tool {block.name!r}" if isinstance(block, ServerToolBlock) else "a provider's item"
        why = "it was cut" if self.is_own(block) else "it can go back only to the provider that made it"
        self._leave(f"{what} was left out: {why}")


def _is_plain(parts: list[Json]) -> bool:
    return len(parts) == 1 and parts[0]["type"] == "input_text"


def _append_text(message: Json, block: TextBlock, *, apart: bool) -> None:
    """A further text of a message: what was streamed in stretches is one text, what was written apart is not."""
    if isinstance(message["content"], list):
        message["content"].append(output_part(block))
    else:
        message["content"] += f"\n{block.text}" if apart else block.text


def convert_media(block: ImageBlock | FileBlock, traits: Traits) -> Json:
    """Return an image or a file as a part.

    Raises:
        UnsupportedContent: the API does not accept it in this form.
    """
    return input_image(block.data) if isinstance(block, ImageBlock) else input_file(block)
