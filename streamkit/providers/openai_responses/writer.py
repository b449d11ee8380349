"""The writer of Responses streams: events as the bytes that api.openai.com would have streamed.

Wire: https://platform.openai.com/docs/api-reference/responses-streaming

The counterpart of ``parser``: parsing the bytes again gives the same turn, opaque state byte for byte. Calls are
distinguished by their place in the output, so open calls may alternate. An item with text is open until another item
begins, or until its blocks end if they alternate with others. The module must not read a clock (``created_at`` is 0),
and must not depend on requests or sockets.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, ClassVar, Final

from streamkit.calls import CLIENT_TOOL, FinishReason, ToolCall
from streamkit.events import BlockEnded, Citation, File, LogProbabilities, ReasoningKind
from streamkit.json_text import is_one_object
from streamkit.providers.contract.error_rules import ErrorRules
from streamkit.providers.contract.traits import Traits
from streamkit.providers.decoding.decoding import compact_json
from streamkit.providers.decoding.finish_reasons import invert_finish_reasons
from streamkit.providers.decoding.log_probabilities import openai_log_probabilities
from streamkit.providers.decoding.openai_errors import ERRORS, error_body
from streamkit.providers.openai_responses.client_items import client_call_id, is_client_item
from streamkit.providers.openai_responses.schema import MESSAGE_PHASES, Json
from streamkit.providers.openai_responses.traits import FINISH_REASONS
from streamkit.providers.openai_responses.written_items import (
    OpenItem,
    annotation,
    argument_names,
    arguments_delta,
    call_item,
    client_tool_call,
    empty_response,
    image_item,
    mcp_call,
    usage_fields,
)
from streamkit.providers.writing.call_text import CallText, is_cut
from streamkit.providers.writing.encoding import encode_chunk, encode_sse_event
from streamkit.providers.writing.wire_output import ErrorBody, ServerToolCall, WirePlaces, WriterOptions, paths
from streamkit.providers.writing.writer import Writer

__all__ = ["ResponsesWriter", "create_writer", "error_body", "error_event"]

#: Of each kind of text: the prefix of the events of its text, the prefix of those of its part, the field of the text,
#: and the other fields of the part.
_TEXT_EVENTS: Final[dict[str, tuple[str, str, str, Json]]] = {
    "output_text": ("response.output_text", "response.content_part", "text", {"annotations": [], "logprobs": []}),
    "refusal": ("response.refusal", "response.content_part", "refusal", {}),
    "reasoning_text": ("response.reasoning_text", "response.content_part", "text", {}),
    "summary_text": ("response.reasoning_summary_text", "response.reasoning_summary_part", "text", {}),
}
#: The metadata of a text that its message or its place in the item has.
_ITEM_FIELDS: Final = frozenset({"agent", "content_index", "item_id", "phase", "summary_index"})


class _TextWriter(Writer):
    """A writer that numbers the events, lists the items and writes those with text: messages and reasoning."""

    def __init__(self, traits: Traits, options: WriterOptions) -> None:
        super().__init__(traits, options)
        self._open: OpenItem | None = None  # the last message or reasoning, if another part may follow in it
        self._by_block: dict[int, OpenItem] = {}  # the items of the blocks that have not ended
        self._response: Json = {}  # as it began
        self._logprobs: list[Any] = []  # of the next text

    # ------------------------------------------------------------ events

    def send_event(self, type: str, fields: Json) -> None:
        """Send an event with its number."""
        self.send({"type": type, "sequence_number": self.event_count, **fields})
        self.event_count += 1

    def send_text(self, key: Hashable, make: Callable[..., Json], text: str, source: OpenItem | CallText) -> None:
        """Send a delta; its number is inserted at the end of the encoded event."""
        self.send_delta(key, make, text, source)
        number, self.event_count = self.event_count, self.event_count + 1
        if self._frames:
            self._frames[-1] = b'%b,"sequence_number":%d}\n\n' % (self._frames[-1][:-3], number)

    # ------------------------------------------------------------ items

    def new_id(self, prefix: str) -> str:
        """Return an id for the next item."""
        return f"{prefix}_{str(self._response['id']).removeprefix('resp_')}_{len(self.items)}"

    def add_item(self, item: Json, initial: Json) -> int:
        """Write the start of an item; return its place in the output.

        The fields of ``initial`` differ at its start; ``end_item`` writes the item as it is then.
        """
        index = len(self.items)
        self.items.append(item)
        self.send_event("response.output_item.added", {"output_index": index, "item": {**item, **initial}})
        return index

    def end_item(self, index: int) -> None:
        """Write the end of the item at that place in the output."""
        self.send_event("response.output_item.done", {"output_index": index, "item": self.items[index]})

    def write_item(self, item: Json, initial: Json) -> None:
        """Write an item without deltas."""
        self.close_item()
        self.end_item(self.add_item(item, initial))

    def close_item(self) -> None:
        """Write the end of the message or reasoning that is open, unless the end of its block will come."""
        item, self._open = self._open, None
        if item is not None and item not in self._by_block.values():
            self._close(item)

    def _close(self, item: OpenItem) -> None:
        """Write the end of a message or reasoning."""
        if item is self._open:
            self._open = None
        self._by_block = {block: other for block, other in self._by_block.items() if other is not item}
        self._close_part(item)
        self.end_item(item.index)

    # ------------------------------------------------------------ texts

    def text(self, text: str) -> None:
        """Write a delta of a message's text."""
        self._delta(self._message_part("output_text"), text)

    def refusal(self, text: str) -> None:
        """Write a delta of a message's refusal."""
        self._delta(self._message_part("refusal"), text)

    def reasoning(self, text: str, kind: ReasoningKind) -> None:
        """Write a delta of reasoning: its text, or a summary of it."""
        item = self._reasoning_item()
        self._open_part(item, "reasoning_text" if kind == "text" else "summary_text")
        self._delta(item, text)

    def log_probabilities(self, event: LogProbabilities) -> None:
        """Write log probabilities in a delta without text; before the first text keep them for it."""
        if not (entries := openai_log_probabilities(event)):
            super().log_probabilities(event)
        self._logprobs += entries
        item = self._item("message")
        if self._logprobs and item is not None and item.kind == "output_text":
            self._delta(item, "")

    def _item(self, type: str) -> OpenItem | None:
        """Return the item of the block, or the open one in which the block may be the next part; None if none is."""
        item = self._by_block.get(self.block)
        if item is None and (item := self._open) is not None:
            item = None if item in self._by_block.values() else item  # blocks alternate: each is an item of its own
        return item if item is not None and item.type == type else None

    def _message_part(self, kind: str) -> OpenItem:
        """Return the open message, with an open part of that kind."""
        own = self._own_state or {}
        item, own_id = self._item("message"), own.get("item_id")
        if item is None or (own_id is not None and own_id != item.item["id"]):
            self.close_item()
            message: Json = {"id": own_id if isinstance(own_id, str) else self.new_id("msg"), "type": "message"}
            message |= {"status": "completed", "content": [], "role": "assistant"}
            if own.get("phase") in MESSAGE_PHASES:
                message["phase"] = own["phase"]
            if own.get("agent") is not None:
                message["agent"] = own["agent"]
            item = self._open = OpenItem("message", message)
            item.index = self.add_item(message, {"status": "in_progress", "content": []})
        self._open_part(item, kind)
        return item

    def _reasoning_item(self) -> OpenItem:
        """Return the open reasoning item; open one for another item of the same provider."""
        own = self._own_state or {}
        opaque, item = own.get("opaque"), self._item("reasoning")
        is_other = self._own_state is not None and not ({"summary_index", "content_index"} & own.keys())
        if item is None or (is_other and item.kind is None):
            self.close_item()
            is_own = isinstance(opaque, dict) and opaque.get("type") == "reasoning"
            fields: Json = {"id": self.new_id("rs"), "type": "reasoning", "summary": []}
            item = self._open = OpenItem("reasoning", opaque if is_own and opaque is not None else fields)
            item.is_own = is_own
            item.index = len(self.items)
            self.items.append(item.item)
            start: Json = {"id": item.item.get("id"), "type": "reasoning", "summary": []}
            self.send_event("response.output_item.added", {"output_index": item.index, "item": start})
        return item

    def _open_part(self, item: OpenItem, kind: str) -> None:
        if self.block in self.open_blocks:
            self._by_block[self.block] = item
        if item.kind == kind and (item.block == self.block or item.block not in self.open_blocks):
            item.block = self.block  # the part goes on: its block before has ended
            return
        self._close_part(item)
        item.start_part(kind, self.block)
        _, prefix, field, fields = _TEXT_EVENTS[kind]
        self.send_event(f"{prefix}.added", {**item.position, "part": {"type": kind, **fields, field: ""}})

    def _delta(self, item: OpenItem, text: str) -> None:
        item.texts.append(text)
        if self._logprobs and item.kind == "output_text":
            logprobs, self._logprobs = self._logprobs, []
            item.logprobs += logprobs
            event = self._text_delta(text, item) | {"logprobs": logprobs}
            self.send_event(event.pop("type"), event)
            return
        self.send_text((item.index, item.part_count), self._text_delta, text, item)

    def _text_delta(self, text: str, item: OpenItem) -> Json:
        name = _TEXT_EVENTS[item.kind or ""][0]
        logprobs: Json = {"logprobs": []} if item.kind == "output_text" else {}
        return {"type": f"{name}.delta", **item.position, "delta": text, **logprobs}

    def _close_part(self, item: OpenItem) -> None:
        if item.kind is None:
            return
        name, prefix, field, _ = _TEXT_EVENTS[item.kind]
        logprobs: Json = {"logprobs": item.logprobs} if item.kind == "output_text" else {}
        part = item.end_part()
        self.send_event(f"{name}.done", {**item.position, field: part[field], **logprobs})
        self.send_event(f"{prefix}.done", {**item.position, "part": part})

    def end_block(self, event: BlockEnded) -> None:
        """Write the end of a part, and keep the opaque state of a reasoning for the end of its item."""
        opaque = event.metadata.get("opaque")
        is_item = isinstance(opaque, dict) and opaque.get("type") == "reasoning"
        state = opaque.get("encrypted_content") if is_item and isinstance(opaque, dict) else event.signature
        if event.kind == "reasoning" and (is_item or event.signature):
            item = self._reasoning_item()
            self._close_part(item)
            if not item.is_own:
                if state:
                    item.item["encrypted_content"] = state
                self._close(item)
        elif self._own_state is None and event.metadata.keys() - _ITEM_FIELDS:
            super().end_block(event)
        # Claude splits a text at citations, and the Agents SDK takes the last part of a message for the whole output.
        is_foreign_text = event.kind == "text" and self._own_state is None and "item_id" not in event.metadata
        ended = self._by_block.pop(event.block, self._open)
        if ended is None:
            return
        if not is_foreign_text and ended.block in (event.block, -1):
            self._close_part(ended)
            if ended.type == "message" and event.metadata.get("phase") in MESSAGE_PHASES:
                ended.item["phase"] = event.metadata["phase"]
            if ended.type == "message" and (self._own_state or {}).get("item_id") is None:
                self._close(ended)
                return
        if ended is not self._open and ended not in self._by_block.values():
            self._close(ended)

    def citation(self, event: Citation) -> bool:
        """Write a citation as an annotation of the text."""
        data = event.data
        is_known = self._own_state is not None
        is_own = isinstance(data, dict) and (is_known or data.get("type") == "url_citation")
        if is_own and "url_citation" in data:  # in the form of Chat Completions
            is_own = is_known
        if not is_own and event.url is None:
            self.omit("citation", "citations without an address were left out: the wire has no form for them")
            return False
        item = self._message_part("output_text")
        written = data if is_own else annotation(event.url or "", event.title or "")
        fields = {**item.position, "annotation_index": len(item.annotations), "annotation": written}
        item.annotations.append(written)
        self.send_event("response.output_text.annotation.added", fields)
        return is_own


_PREFERRED: Final[dict[FinishReason, str]] = {"refusal": "incomplete:content_filter", "other": "completed"}
_FINISH_REASON_NAMES: Final = invert_finish_reasons(FINISH_REASONS, preferred=_PREFERRED, default="completed")


def create_writer(traits: Traits, options: WriterOptions) -> ResponsesWriter:
    """Return a writer of one response."""
    return ResponsesWriter(traits, options)


def error_event(status: int, message: str, code: str | None = None) -> bytes:
    """Return the event that ends a stream with an error.

    https://platform.openai.com/docs/api-reference/responses-streaming/error
    """
    fields = _error_fields(error_body(status, message, code)["error"])
    return encode_sse_event("error", {"type": "error", "sequence_number": 0, **fields})


def _error_fields(error: Json) -> Json:
    """Return the fields of an ``error`` event, in the documented form and in that of api.openai.com.

    OpenAI's SDKs raise an exception, and the AI SDK reads the event, if it has an object ``error`` with a code. Without
    it clients that pass over ``response.failed`` show a half response as a complete one (langchain-ai/langchain#39039).
    """
    own = {"param": None, **error}
    own["code"] = own.get("code") or own["type"]
    return {**{name: own.get(name) for name in ("code", "message", "param")}, "error": own}


class ResponsesWriter(_TextWriter):
    """A writer of one response."""

    error_rules: ClassVar[ErrorRules] = ERRORS
    places: ClassVar[WirePlaces | None] = WirePlaces(
        model=paths("response.model", "model"),
        response_id=paths("response.id"),
        items=paths("item", "response.output.*"),
        item_id="item_id",
        item_index="output_index",
        calls=paths("item", "response.output.*"),
        call_id="call_id",
        finish=(),
        finish_reasons=FINISH_REASONS,
        finish_names=_FINISH_REASON_NAMES,
    )
    failed_body: ClassVar[ErrorBody] = staticmethod(error_body)

    has_custom_calls: bool = True
    call_state: ClassVar[frozenset[str]] = frozenset({CLIENT_TOOL, "item_id", "namespace", "status"})

    def __init__(self, traits: Traits, options: WriterOptions) -> None:
        super().__init__(traits, options)
        self._open_tools: set[int] = set()  # the places of their items in the output
        self._cut_calls: list[tuple[CallText, ToolCall]] = []

    # ------------------------------------------------------------ the response

    def begin(self) -> None:
        """Write ``response.created`` and ``response.in_progress``."""
        self._response = {**empty_response(self.response_id or "resp_0", self.model or ""), **self.metadata}
        self.send_event("response.created", {"response": self._response})
        self.send_event("response.in_progress", {"response": self._response})

    def end(self) -> None:
        """Write the last event, with the whole response."""
        for item in dict.fromkeys(self._by_block.values()):
            self._close(item)
        self.close_item()
        for position in list(self._open_tools):
            self.end_item(position)
        status, _, reason = _FINISH_REASON_NAMES["error" if self.error else self.finish_reason].partition(":")
        usage = None if self.usage is None else usage_fields(self.usage)
        details = self.metadata.get("incomplete_details")
        if details is not None and not self.error:
            status = "incomplete"
        response = {**self._response, **self.metadata, "status": status, "output": self.items, "usage": usage}
        if status == "incomplete":
            response["incomplete_details"] = details or {"reason": reason}
        elif status == "failed":
            error = {"code": "server_error", "message": "The server had an error processing your request."}
            kind = "server_error"
            if self.error is not None:
                code, message, name = self.error_fields(self.error)
                kind = error_body(code, message)["error"]["type"]
                error = {"code": name or "server_error", "message": message}
                error = self.own_error({"error": error}, self.error)["error"]
            response["error"] = error
            self.send_event("error", _error_fields({"type": kind, **error}))
        self.send_event(f"response.{status}", {"response": response})

    def encode(self, chunk: Json) -> bytes:
        """Return an event as a server-sent event with its name."""
        return b"event: %b\ndata: %b\n\n" % (chunk["type"].encode(), encode_chunk(chunk))

    def body(self, chunks: list[Json]) -> Json:
        """Return the whole response, which the last event has."""
        return dict(chunks[-1]["response"])

    # ------------------------------------------------------------ calls

    def start_call(self, call: CallText) -> None:
        """Write the start of a call's item."""
        self.close_item()
        own = self._own_state or {}
        asked = own.get("item")
        if isinstance(asked, dict) and is_client_item(asked) and client_call_id(asked):
            call.item = asked
            return
        if call.client_tool is not None:
            call.item = client_tool_call(call.client_tool, call, self.new_id("tsc"))
            return
        prefix = "ctc" if call.ref.kind == "custom" else "fc"
        call.item = call_item(call, own.get("item_id") or self.new_id(prefix), own)
        field, _ = argument_names(call)
        call.position = self.add_item(call.item, {field: "", "status": "in_progress"})

    def add_arguments(self, call: CallText, delta: str) -> None:
        """Write a delta of a call's arguments."""
        self._arguments(call, call.add(delta))

    def _arguments(self, call: CallText, text: str) -> None:
        if text and call.position is not None:
            self.send_text(call.position, arguments_delta, text, call)

    def restate_arguments(self, call: CallText, text: str) -> None:
        """Write the rest of a text that continues the sent one; keep another text for the end of the call."""
        if text.startswith(call.sent):
            self._arguments(call, call.restate(text))
        elif call.ref.kind == "custom" or is_one_object(text):
            call.replace(text)
        else:  # as a snapshot it would not replace the deltas
            call.is_replaced = True

    def end_call(self, call: CallText, final: ToolCall) -> None:
        """Write the whole arguments of a call and the end of its item."""
        if call.position is None:
            if call.client_tool is not None:
                arguments = final.arguments if isinstance(final.arguments, dict) else final.arguments_text
                call.item["arguments"] = arguments
            if final.state == "incomplete":  # it has no end
                item = {**call.item, "status": "in_progress"}
                self.send_event("response.output_item.added", {"output_index": len(self.items), "item": item})
            else:
                self.write_item(call.item, {"status": "in_progress"})
            return
        self._arguments(call, call.finish(final))
        if call.is_replaced and isinstance(final.arguments, dict):
            text = final.arguments_text
            call.replace(text if is_one_object(text) else compact_json(final.arguments))
        field, _ = argument_names(call)
        call.item[field] = call.sent
        if isinstance(namespace := final.metadata.get("namespace"), str):
            call.item["namespace"] = namespace
        if final.state == "incomplete" and call.item["status"] != "in_progress":
            call.item["status"] = "incomplete"
        if final.state == "incomplete" and call.ref.kind == "custom":
            # It has no end: clients run any text that has one, Codex also a script of which half is there.
            self.check_call(call, final)
        elif is_cut(final):
            self._cut_calls.append((call, final))
        else:
            self._end_arguments(call, call.position, final)

    def _end_arguments(self, call: CallText, index: int, final: ToolCall) -> None:
        """Write the end of the arguments of a call and of its item."""
        field, name = argument_names(call)
        position = {"item_id": call.item["id"], "output_index": index}
        self.send_event(f"response.{name}.done", {**position, field: call.sent, "name": call.ref.name})
        self.end_item(index)
        if final.state != "complete":
            self.check_call(call, final)

    def end_cut_calls(self) -> bool:
        """Write the end of the calls that were cut, unless the response failed."""
        if not self.has_failed:
            for call, final in self._cut_calls:
                if call.position is not None:
                    self._end_arguments(call, call.position, final)
        return True

    # ------------------------------------------------------------ server tools, files and items of the provider's own

    def server_tool_call(self, tool: ServerToolCall) -> None:
        """Write the start of a server tool as an ``mcp_call``, which fits any tool."""
        self.close_item()
        item = mcp_call(tool, self.new_id("mcp"))
        tool.position = self.add_item(item, {"status": "in_progress", "output": None})
        self._open_tools.add(tool.position)

    def server_tool_result(self, tool: ServerToolCall, result: Any) -> None:
        """Write the end of a server tool with its result."""
        if tool.position in self._open_tools:
            self._open_tools.remove(tool.position)
            self.items[tool.position] = mcp_call(tool, self.items[tool.position]["id"], result)
            self.end_item(tool.position)

    def file(self, event: File) -> None:
        """Write an image as the result of an image generation; this wire has no other generated files."""
        media_type = event.media_type or "image/png"
        if self._own_state is not None and "item_id" in self._own_state:
            return  # the item of the image has it
        if not event.data or not media_type.startswith("image/"):
            self.omit("file", "a file that is no image with data was left out: the wire has no field for it")
            return
        item = image_item(self.new_id("ig"), event.data, media_type)
        self.write_item(item, {"status": "in_progress", "result": None})

    def provider_block(self, raw: Any, *, is_server_tool: bool) -> None:
        """Write an item of this wire."""
        if not isinstance(raw, dict):
            return
        self.write_item(raw, {"status": "in_progress"} if is_server_tool and "status" in raw else {})
