"""History as the ``input`` items of a Responses request, and the fields of its body that a conversation decides.

System text keeps its position, as items with the role ``system`` or ``developer``; the instructions of a request are
its field again. The items of the model have the ids that the API accepts, and the outputs of its calls follow, in the
order of the calls. The refusals of the API decide the form of the model's items
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

This module must not depend on streams, and it repairs nothing: a call without a result is rendered as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
from streamkit.history.pairing import NO_RESULT
from streamkit.providers.decoding.decoding import as_text
from streamkit.providers.openai_responses.client_items import client_item, output_item, stored_item
from streamkit.providers.openai_responses.media import detail_of, input_file, input_image, media_part, output_of
from streamkit.providers.openai_responses.output_items import (
    has_required_id,
    is_reference,
    item_type,
    without_foreign_id,
)
from streamkit.providers.openai_responses.requests import output_fields, render_tool_choice, render_tools
from streamkit.providers.openai_responses.schema import MESSAGE_PHASES, Json
from streamkit.providers.provider import RenderedMessages, RenderOptions, ToolChoice, Traits
from streamkit.providers.rendering.media import report_name
from streamkit.providers.rendering.message_renderer import MessageRenderer, invalid_arguments
from streamkit.providers.requests.body_fields import merge_fields
from streamkit.providers.requests.strict import OPENAI, strict_output_if_possible
from streamkit.providers.writing.encoding import text_or_json
from streamkit.tools.definition import OfferedTool
from streamkit.values.request_changes import InWords, LeftOut, Lost, RequestChange

if TYPE_CHECKING:
    from streamkit.output import OutputType

__all__ = ["build_request", "convert_media", "create_renderer"]


def create_renderer(traits: Traits, options: RenderOptions) -> ResponsesRenderer:
    """Return a renderer of history as input items.

    With the id policy ``origin`` a call of this provider keeps its ``call_id``.
    """
    return ResponsesRenderer(traits, options)


def build_request(
    rendered: RenderedMessages,
    traits: Traits,
    *,
    tools: Sequence[OfferedTool] = (),
    tool_choice: ToolChoice | None = None,
    stream: bool = True,
    output: OutputType[Any] | None = None,
) -> Json:
    """Return the fields of a request's body that the conversation decides; the caller adds ``model`` and settings."""
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
    """Return an image or file as a part of a message."""
    if not isinstance(block, ImageBlock):
        return input_file(block)
    return input_image(block.data) | detail_of(block)


@dataclass(slots=True)
class _RenderedCall:
    """What the output of a call depends on."""

    kind: str | None = None  # of the call; None for one that was sent as the provider's item
    caller: Any = None  # who made it; its output has the same field if a program did
    is_async: bool = False  # the model does not wait for its result
    item: Json | None = None  # of the provider, if it was sent as that
    target_id: str = ""  # the id of that item's call


class ResponsesRenderer(MessageRenderer[Traits]):
    """A renderer of history to input items."""

    def __init__(self, traits: Traits, options: RenderOptions) -> None:
        super().__init__(traits, options)
        self._calls: dict[str, _RenderedCall] = {}  # that were sent, by the call's id in history
        self._call_places: dict[str, int] = {}  # of the calls since the last results, by target id
        self._results: list[tuple[str, Json, int]] = []  # buffered, each with its target id and content number
        self._responses: dict[str, ToolResponseBlock] = {}  # by the call's id in history
        self._sent_item_ids: set[str] = set()  # "Duplicate item found with id ..." (vercel/ai#7883)
        # of the response that is being rendered
        self._pending_reasoning: list[Json] = []  # until the item that it led to
        self._has_reasoning = False  # reasoning was sent, and after it only items of the same response
        self._in_reasoning = False  # the last block was a reasoning item or a part of it
        self._server_item_ids: set[str] = set()
        self._last_text: tuple[object, Json] | None = None  # the origin and the message of the last text
        self._is_interrupted = False  # the provider did not retain the response

    def render(self, contents: Sequence[Content], *, is_end: bool = True) -> RenderedMessages:
        """Render the next contents, after reading the results in them: some decide how their calls are sent."""
        for content in contents:
            for block in content.blocks:
                if isinstance(block, ToolResponseBlock):
                    self._responses.setdefault(block.call_id, block)
        return super().render(contents, is_end=is_end)

    def add(self, content: Content) -> None:
        """Render the next content: a response as its items, all else as one message and the outputs of calls."""
        if content.speaker == "ai":
            raw = [item for block in content.blocks if isinstance(block, ServerToolBlock) for item in block.raw]
            ids = [item.get(name) for item in raw if isinstance(item, dict) for name in ("id", "call_id")]
            self._server_item_ids = {item_id for value in ids if (item_id := as_text(value))}
            self._is_interrupted = bool(content.metadata.get("interrupted"))
            for block in content.blocks:
                self._add_output(block)
            self._end_response()
            return
        if content.speaker not in ("human", "tool", "system"):
            self.report(Lost(f"a message of the unknown speaker {content.speaker!r} was left out"))
            return
        if content.speaker == "system" and self._add_special_system(content):
            return
        parts: list[Json] = []
        for block in content.blocks:
            if isinstance(block, ToolResponseBlock):
                self._buffer_result(block)
            elif content.speaker == "tool" and isinstance(block, (ImageBlock, FileBlock)):
                part = media_part(block, self.changes)
                parts.append({"type": "input_text", "text": part} if isinstance(part, str) else part)
            else:
                parts += self._input_parts(block, content.speaker)
        if parts:
            self._flush_results()
            match parts:
                case [{"type": "input_text", "text": text, **others}] if not others:
                    said = text
                case _:
                    said = parts
            role = "user"
            if content.speaker == "system":
                role = "developer" if content.metadata.get("role") == "developer" else "system"
            self.append({"role": role, "content": said})

    def has_failure_flag(self, block: ToolResponseBlock) -> bool:
        """Return True if the result is an item of the provider's with a status; only a local shell's is text alone."""
        call = self._calls.get(block.call_id)
        return call is not None and call.item is not None and call.item["type"] != "local_shell_call"

    def finish(self) -> None:
        """Append the last results."""
        self._flush_results()

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
        self._flush_results()
        for item in items:
            self.append(item)
        return True

    def _input_parts(self, block: Block, speaker: str) -> list[Json]:
        if isinstance(block, TextBlock):
            return [{"type": "input_text", "text": block.text, **self.breakpoint_of(block)}] if block.text else []
        if isinstance(block, (ImageBlock, FileBlock)) and speaker != "system":
            part = convert_media(block, self.traits) | self.breakpoint_of(block)
            report_name(block, part, self.changes)
            return [part]
        raw = block.raw if isinstance(block, OpaqueBlock) and self.is_own(block) else None
        if isinstance(raw, dict) and isinstance(raw.get("content"), list):
            return list(raw["content"])  # an unknown part, as the importer keeps it
        if isinstance(block, OpaqueBlock) and not self.is_own(block):
            self.report(Lost(f"a provider's block was left out: {self.reason_not_own(block)}"))
        else:
            self.report(Lost(f"a block of type {block.type!r} in a message of the speaker {speaker!r} was left out"))
        return []

    # ------------------------------------------------------------ items of the model

    def _add_output(self, block: Block) -> None:
        is_own = self.is_own(block)
        item = _reasoning_item(block) if is_own else None
        if item is not None:
            self._add_reasoning(item)
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
            self._buffer_result(block)
        elif isinstance(block, (ServerToolBlock, OpaqueBlock)):
            self._add_raw(block)
        elif isinstance(block, FileBlock) and is_own and "item_id" in block.metadata:
            pass  # a part of the item of the tool that made it
        elif isinstance(block, ReasoningBlock):
            reason = "it has no item to send back" if is_own else self.reason_not_replayed(block, "OpenAI")
            self.report(LeftOut(f"reasoning was left out: {reason}"))
        else:
            self._omit(Lost(f"a block of type {block.type!r} in an assistant message was left out"))

    def _add_reasoning(self, item: Json) -> None:
        """Keep a reasoning item until the item that it led to.

        Without an id the API reads its encrypted content; with an id that it did not retain, it refuses the request
        (NousResearch/hermes-agent#10217, router-for-me/CLIProxyAPI#4285).
        """
        self._in_reasoning, self._last_text = True, None
        # The API accepts neither null in fields of the output nor an item without a summary.
        item = {name: value for name, value in item.items() if value is not None or name not in ("status", "content")}
        if not isinstance(item.get("summary"), list):
            item["summary"] = []
        if self._is_interrupted:
            item.pop("id", None)
        item = without_foreign_id(item)
        if "id" not in item and not item.get("encrypted_content") and (self._is_interrupted or not item.get("content")):
            sentence = "reasoning was left out: the provider did not retain it, and it has no encrypted content"
            self.report(LeftOut(sentence))
            return
        self._pending_reasoning.append(item)

    def _push(self, item: Json, *, is_own: bool) -> None:
        """Append an item of a response, and before it the reasoning that led to it."""
        self._flush_results()
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

    def _omit(self, change: RequestChange) -> None:
        """Report an item that is left out; its reasoning is left out, too."""
        self.report(change)
        self._drop_reasoning()

    def _drop_reasoning(self) -> None:
        if self._pending_reasoning:
            self.report(LeftOut("reasoning was left out: the item that it led to is not sent"))
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
            self.report(InWords("a refusal was sent back as text: without its item's id there is no other form"))
        elif item_id is None and block.metadata.get("citations") and self.is_from_target(block):
            sentence = "the citations of a text were left out: without its item's id there is no field for them"
            self.report(LeftOut(sentence))
        origin = (is_own, block.metadata.get("item_id" if is_own else "provider"))
        if self._last_text is not None and self._last_text[0] == origin:
            last = self._last_text[1]
            if isinstance(last["content"], list):
                last["content"].append(_output_part(block))
            else:  # texts that were streamed are one text, texts that were written separately are lines
                is_streamed = is_own or "provider" in block.metadata
                last["content"] += block.text if is_streamed else f"\n{block.text}"
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
        call = self._calls.setdefault(block.id, _RenderedCall())
        call.target_id, call.item = target_id, item
        self._push(item, is_own=True)
        self._call_places.setdefault(target_id, len(self._call_places))
        return True

    def _add_call(self, block: ToolCallBlock) -> None:
        if self._add_client_item(block):
            return
        is_custom = block.kind == "custom"
        call = self._calls.setdefault(block.id, _RenderedCall())
        call.kind = block.kind
        item: Json = {
            "type": "custom_tool_call" if is_custom else "function_call",
            "call_id": self.ids.call_id(block),
            "name": self.tool_name(block.name),
            "input" if is_custom else "arguments": invalid_arguments(block) or text_or_json(block.parameters),
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
        self._call_places.setdefault(item["call_id"], len(self._call_places))

    def _add_raw(self, block: ServerToolBlock | OpaqueBlock) -> None:
        """Append the provider's own items unchanged; report them if they are another provider's."""
        is_own = self.is_own(block)
        raw = block.raw if isinstance(block, ServerToolBlock) else [block.raw]
        items = [
            item for item in raw if isinstance(item, dict) and (isinstance(item.get("type"), str) or is_reference(item))
        ]
        if is_own and self._is_interrupted and not (items and all("id" not in item for item in items)):
            sentence = "a provider's item was left out: the provider did not retain the response that was cut off"
            self._omit(Lost(sentence))
            return
        if is_own and items:
            for item in items:
                legal = without_foreign_id(item)
                if "id" not in legal and has_required_id(item):
                    self._omit(Lost(f"an item of type {item_type(item)!r} was left out: its id is of another server"))
                elif legal.get("id") in self._sent_item_ids:
                    self.report(LeftOut(f"an item of type {item_type(item)!r} was left out: it was sent already"))
                else:
                    self._push(legal, is_own=True)
            return
        if is_own and isinstance(block, ServerToolBlock) and block.id in self._server_item_ids:
            return  # another block of this response has its item, which ended later
        what = f"the provider's tool {block.name!r}" if isinstance(block, ServerToolBlock) else "a provider's item"
        reason = "it is incomplete" if is_own else self.reason_not_own(block)
        self._omit(Lost(f"{what} was left out: {reason}"))

    # ------------------------------------------------------------ results

    def _buffer_result(self, block: ToolResponseBlock) -> None:
        """Buffer the result of a call, in the form that the call needs."""
        call = self._calls.get(block.call_id) or _RenderedCall()
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

    def _flush_results(self) -> None:
        """Append the buffered results in the order of their calls, and after them those without a call."""
        if not self._results:
            return
        last = len(self._call_places)
        for _, item, content in sorted(self._results, key=lambda result: self._call_places.get(result[0], last)):
            self.append(item, [content])
        self._results, self._call_places = [], {}


def _reasoning_item(block: Block) -> Json | None:
    """Return the provider's reasoning item that a block carries."""
    raw = block.metadata.get("item")
    if isinstance(block, ReasoningBlock):
        raw = block.opaque or raw
        if raw is None and block.signature:  # encrypted content without its item, as a client has kept it
            summary = [{"type": "summary_text", "text": block.text}] if block.text else []
            raw = {"type": "reasoning", "summary": summary, "encrypted_content": block.signature}
    elif isinstance(block, OpaqueBlock):
        raw = block.raw
    return raw if isinstance(raw, dict) and raw.get("type") == "reasoning" else None


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
