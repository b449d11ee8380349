"""History to the items of the model: its texts, reasoning, calls and server tools, with the ids that the API accepts.

The base of the renderer in ``messages``. The refusals of the API decide the form
(https://platform.openai.com/docs/guides/conversation-state):

- A reasoning item is accepted only if the item that it led to follows: "Item 'rs_...' of type 'reasoning' was provided
  without its required following item".
- An item has its id only if its reasoning is sent before it: "Item 'fc_...' of type 'function_call' was provided
  without its required 'reasoning' item" (laravel/ai#1052, 0xPlaygrounds/rig#751). Without its id an item needs no
  reasoning.
- Reasoning, item ids and the items of server tools are sent back unchanged, and only to the model and endpoint that
  made them.
- An id must begin with the prefix of its type ("Expected an ID that begins with 'fc'"), which those of other servers do
  not: such an id is left out, and an item that needs one is, too.
- The provider did not retain the items of a response that was cut off ("Item with id 'rs_...' not found",
  vercel/ai#8811, vercel/ai#10638). Content that is marked as ``interrupted`` is sent without ids.
- An item that asks the client for an action is sent as it came, with its result as the API's own item. Other targets
  get an ordinary call and result.

This module must not depend on requests, nor on other messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from streamkit.history.content import (
    Block,
    Content,
    FileBlock,
    OpaqueBlock,
    ReasoningBlock,
    ServerToolBlock,
    TextBlock,
    ToolCallBlock,
    ToolResponseBlock,
)
from streamkit.providers.decoding.decoding import as_text
from streamkit.providers.openai_responses.client_items import client_item, output_item
from streamkit.providers.openai_responses.output_items import (
    has_required_id,
    is_reference,
    item_type,
    without_foreign_id,
)
from streamkit.providers.openai_responses.schema import MESSAGE_PHASES, Json
from streamkit.providers.provider import RenderedMessages, RenderOptions, Traits
from streamkit.providers.rendering.message_renderer import MessageRenderer
from streamkit.providers.writing.encoding import text_or_json

__all__ = ["AssistantRenderer", "RenderedCall"]


@dataclass(slots=True)
class RenderedCall:
    """What the output of a call depends on.

    Attributes:
        kind: the kind of the call; None for one that was sent as the provider's item.
        caller: who made it; its output has the same field if a program did.
        is_async: the model does not wait for its result.
        item: the provider's item, if it was sent as that.
        target_id: the id of that item's call.
    """

    kind: str | None = None
    caller: Any = None
    is_async: bool = False
    item: Json | None = None
    target_id: str = ""


class AssistantRenderer(MessageRenderer[Traits]):
    """A renderer of what the model said to input items.

    Attributes:
        calls: the calls that were sent, by the call's id in history.
        call_places: the places of the calls since the last results, by target id.
    """

    def __init__(self, traits: Traits, options: RenderOptions) -> None:
        super().__init__(traits, options)
        self.calls: dict[str, RenderedCall] = {}
        self.call_places: dict[str, int] = {}
        self._responses: dict[str, ToolResponseBlock] = {}  # by the call's id in history
        self._sent_item_ids: set[str] = set()  # "Duplicate item found with id ..." (vercel/ai#7883)
        # of the response that is being rendered
        self._pending_reasoning: list[Json] = []  # until the item that it led to
        self._has_reasoning = False  # reasoning was sent, and after it only items of the same response
        self._in_reasoning = False  # the last block was a reasoning item or a part of it
        self._server_item_ids: set[str] = set()
        self._last_text: tuple[object, Json] | None = None  # the origin and the message of the last text
        self._is_interrupted = False  # the provider did not retain the response

    def render(self, contents: Sequence[Content]) -> RenderedMessages:
        """Return the conversation as input items."""
        for content in contents:
            for block in content.blocks:
                if isinstance(block, ToolResponseBlock):
                    self._responses.setdefault(block.call_id, block)
        return super().render(contents)

    def buffer_result(self, block: ToolResponseBlock) -> None:
        """Buffer the result of a call."""
        raise NotImplementedError

    def flush_results(self) -> None:
        """Append the buffered results."""
        raise NotImplementedError

    def add_assistant(self, content: Content) -> None:
        """Append the items of a response of the model."""
        self._server_item_ids = _ids_of_server_items(content)
        self._is_interrupted = bool(content.metadata.get("interrupted"))
        for block in content.blocks:
            self._add_output(block)
        self._end_response()

    def _add_output(self, block: Block) -> None:
        is_own = self.is_own(block)
        item = _reasoning_item(block) if is_own else None
        if item is not None:
            self._add_reasoning(_strip_output_only_fields(item))
            return
        is_later_part = bool({"summary_index", "content_index"} & block.metadata.keys())
        if self._in_reasoning and is_later_part and is_own and isinstance(block, ReasoningBlock):
            return  # the item, sent with its first part, includes it
        self._in_reasoning = False
        if isinstance(block, TextBlock):
            self._add_text(block)
        elif isinstance(block, ToolCallBlock):
            self._add_call(block)
        elif isinstance(block, ToolResponseBlock):
            self._end_response()
            self.buffer_result(block)
        elif isinstance(block, (ServerToolBlock, OpaqueBlock)):
            self._add_raw(block)
        elif isinstance(block, FileBlock) and is_own and "item_id" in block.metadata:
            pass  # a part of the item of the tool that made it
        elif isinstance(block, ReasoningBlock):
            reason = "it has no item to send back" if is_own else self.reason_not_replayed(block, "OpenAI")
            self.report(f"reasoning was left out: {reason}")
        else:
            self._omit(f"a block of type {block.type!r} in an assistant message was left out")

    def _add_reasoning(self, item: Json) -> None:
        """Keep a reasoning item until the item that it led to.

        Without an id the API reads its encrypted content; with an id that it did not retain, it refuses the request
        (NousResearch/hermes-agent#10217, router-for-me/CLIProxyAPI#4285).
        """
        self._in_reasoning, self._last_text = True, None
        if self._is_interrupted:
            item = {name: value for name, value in item.items() if name != "id"}
        item = without_foreign_id(item)
        if "id" not in item and not item.get("encrypted_content") and (self._is_interrupted or not item.get("content")):
            self.report("reasoning was left out: the provider did not retain it, and it has no encrypted content")
            return
        self._pending_reasoning.append(item)

    def _push(self, item: Json, *, is_own: bool) -> None:
        """Append an item of a response, and before it the reasoning that led to it."""
        self.flush_results()
        if not is_own:
            self._drop_reasoning()
        elif self._pending_reasoning:
            for reasoning in self._pending_reasoning:
                self.append(self._with_unique_id(reasoning))
            self._pending_reasoning, self._has_reasoning = [], True
        self._last_text = None
        self.append(self._with_unique_id(item))

    def _with_unique_id(self, item: Json) -> Json:
        """Return an item, without its id if an item before it has the same one."""
        item_id = item.get("id")
        if not isinstance(item_id, str) or is_reference(item):
            return item
        if item_id in self._sent_item_ids:
            return {name: value for name, value in item.items() if name != "id"}
        self._sent_item_ids.add(item_id)
        return item

    def _omit(self, sentence: str) -> None:
        """Report an item that is left out; its reasoning is left out, too."""
        self.report(sentence)
        self._drop_reasoning()

    def _drop_reasoning(self) -> None:
        if self._pending_reasoning:
            self.report("reasoning was left out: the item that it led to is not sent")
        self._pending_reasoning, self._has_reasoning = [], False

    def _end_response(self) -> None:
        self._drop_reasoning()
        self._in_reasoning, self._last_text = False, None

    def _item_id(self, block: Block, prefix: str) -> str | None:
        """Return the block's item id if its reasoning is sent before it; else the API would refuse the id."""
        item_id = block.metadata.get("item_id")
        if self.is_from_target(block):
            item_id = self.own_state(block, "item_id")
        if not isinstance(item_id, str) or not item_id.startswith(prefix) or self._is_interrupted:
            return None
        return item_id if (self._has_reasoning or self._pending_reasoning) and self.is_own(block) else None

    def _add_text(self, block: TextBlock) -> None:
        if not block.text:
            return
        is_own = self.is_own(block)
        item_id = self._item_id(block, "msg_")
        if block.metadata.get("refusal") and item_id is None:
            self.report("a refusal was sent back as text: without its item's id there is no other form")
        origin = (is_own, block.metadata.get("item_id" if is_own else "provider"))
        if self._last_text is not None and self._last_text[0] == origin:
            _extend_message(self._last_text[1], block, is_streamed=is_own or "provider" in block.metadata)
            return
        message: Json = {"type": "message", "role": "assistant"}
        if item_id is None:
            message["content"] = block.text
        else:
            message |= {"id": item_id, "status": "completed", "content": [_output_part(block)]}
        phase = block.metadata.get("phase")
        if self.is_from_target(block) and phase in MESSAGE_PHASES:
            message["phase"] = phase
        if agent := self.own_state(block, "agent"):
            message["agent"] = agent
        self._push(message, is_own=is_own)
        self._last_text = (origin, message)

    def _add_client_item(self, block: ToolCallBlock) -> bool:
        """Append the provider's item that a call carries; return False if it has to be an ordinary call."""
        item, response = client_item(block), self._responses.get(block.id)
        if item is None or not self.is_own(block):
            return False
        if response is not None and output_item(item, response) is None:
            return False
        has_legal_id = not self._is_interrupted and "id" in without_foreign_id(item)
        if has_required_id(item):
            if not has_legal_id:
                return False
        elif not (has_legal_id and (self._has_reasoning or self._pending_reasoning)):
            item = {name: value for name, value in item.items() if name != "id"}
        target_id = self.ids.call_id(block)
        call = self.calls.setdefault(block.id, RenderedCall())
        call.target_id, call.item = target_id, item
        self._push(item, is_own=True)
        self.call_places.setdefault(target_id, len(self.call_places))
        return True

    def _add_call(self, block: ToolCallBlock) -> None:
        if self._add_client_item(block):
            return
        is_custom = block.kind == "custom"
        call = self.calls.setdefault(block.id, RenderedCall())
        call.kind = block.kind
        item: Json = {
            "type": "custom_tool_call" if is_custom else "function_call",
            "call_id": self.ids.call_id(block),
            "name": self.tool_name(block.name),
            "input" if is_custom else "arguments": text_or_json(block.parameters),
        }
        item_id = self._item_id(block, "ctc_" if is_custom else "fc_")
        if item_id is not None:
            item["id"] = item_id
        if self.is_from_target(block):
            if block.metadata.get("namespace"):
                item["namespace"] = block.metadata["namespace"]
            if block.metadata.get("async") is True:
                item["async"] = True
                call.is_async = True
            if agent := self.own_state(block, "agent"):
                item["agent"] = agent
            caller = self.own_state(block, "caller")  # it names an item of the program that made the call
            if caller:
                item["caller"] = call.caller = caller
        self._push(item, is_own=self.is_own(block))
        self.call_places.setdefault(item["call_id"], len(self.call_places))

    def _add_raw(self, block: ServerToolBlock | OpaqueBlock) -> None:
        """Append the provider's own items unchanged; report them if they are another provider's."""
        is_own = self.is_own(block)
        raw = block.raw if isinstance(block, ServerToolBlock) else [block.raw]
        items = [
            item for item in raw if isinstance(item, dict) and (isinstance(item.get("type"), str) or is_reference(item))
        ]
        if is_own and self._is_interrupted and not (items and all("id" not in item for item in items)):
            self._omit("a provider's item was left out: the provider did not retain the response that was cut off")
            return
        if is_own and items:
            for item in items:
                legal = without_foreign_id(item)
                if "id" not in legal and has_required_id(item):
                    self._omit(f"an item of type {item_type(item)!r} was left out: its id is of another server")
                elif legal.get("id") in self._sent_item_ids:
                    self.report(f"an item of type {item_type(item)!r} was left out: it was sent already")
                else:
                    self._push(legal, is_own=True)
            return
        if is_own and isinstance(block, ServerToolBlock) and block.id in self._server_item_ids:
            return  # another block of this response has its item, which ended later
        what = f"the provider's tool {block.name!r}" if isinstance(block, ServerToolBlock) else "a provider's item"
        reason = "it is incomplete" if is_own else self.reason_not_own(block)
        self._omit(f"{what} was left out: {reason}")


def _extend_message(message: Json, block: TextBlock, *, is_streamed: bool) -> None:
    """Add a text to a message. Texts that were streamed are one text, texts that were written separately are lines."""
    if isinstance(message["content"], list):
        message["content"].append(_output_part(block))
    else:
        message["content"] += block.text if is_streamed else f"\n{block.text}"


def _ids_of_server_items(content: Content) -> set[str]:
    """Return the ids of the items of the provider's own tools in a response."""
    raw = [item for block in content.blocks if isinstance(block, ServerToolBlock) for item in block.raw]
    return {
        item_id
        for item in raw
        if isinstance(item, dict)
        for name in ("id", "call_id")
        if (item_id := as_text(item.get(name)))
    }


def _reasoning_item(block: Block) -> Json | None:
    """Return the provider's reasoning item that a block carries."""
    raw = block.metadata.get("item")
    if isinstance(block, ReasoningBlock):
        raw = block.opaque or raw
    elif isinstance(block, OpaqueBlock):
        raw = block.raw
    return raw if isinstance(raw, dict) and raw.get("type") == "reasoning" else None


def _strip_output_only_fields(item: Json) -> Json:
    """Return a reasoning item as the API accepts it: with a summary, without null in ``status`` and ``content``."""
    fields = {name: value for name, value in item.items() if value is not None or name not in ("status", "content")}
    return fields if isinstance(fields.get("summary"), list) else {**fields, "summary": []}


def _output_part(block: TextBlock) -> Json:
    """Return a part of a message item that is sent back with its id."""
    if block.metadata.get("refusal"):
        return {"type": "refusal", "refusal": block.text}
    citations = block.metadata.get("citations")
    return {
        "type": "output_text",
        "text": block.text,
        "annotations": citations if isinstance(citations, list) else [],
    }
