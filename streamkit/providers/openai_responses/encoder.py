"""The writer of Responses streams: events as the bytes that api.openai.com would have streamed.

The counterpart of ``parser``: parsing the bytes again gives the same turn, opaque state byte for byte. Calls are
distinguished by their place in the output, so open calls may alternate. The module must not read a clock
(``created_at`` is 0), and must not depend on requests or sockets.

Wire: https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from streamkit.calls import CLIENT_TOOL, FinishReason, ToolCall
from streamkit.events import File
from streamkit.providers.call_text import CallText, is_cut
from streamkit.providers.encoding import encode_chunk, encode_sse_event
from streamkit.providers.error_rules import ErrorRules
from streamkit.providers.finish_reasons import invert_finish_reasons
from streamkit.providers.openai_errors import ERRORS, error_body
from streamkit.providers.openai_responses.client_items import client_call_id, is_client_item
from streamkit.providers.openai_responses.schema import Json
from streamkit.providers.openai_responses.text_writer import TextWriter
from streamkit.providers.openai_responses.traits import FINISH_REASONS
from streamkit.providers.openai_responses.written_items import (
    USAGE_DETAILS,
    argument_names,
    arguments_delta,
    call_item,
    client_tool_call,
    empty_response,
    image_item,
    mcp_call,
    usage_fields,
)
from streamkit.providers.traits import Traits
from streamkit.providers.wire_writer import ServerToolCall, WriterOptions

__all__ = ["ResponsesWriter", "create_writer", "error_body", "error_event"]

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


class ResponsesWriter(TextWriter):
    """A writer of one response."""

    error_rules: ClassVar[ErrorRules] = ERRORS

    has_custom_calls: bool = True
    call_state: ClassVar[frozenset[str]] = frozenset({CLIENT_TOOL, "item_id", "namespace", "status"})

    def __init__(self, traits: Traits, options: WriterOptions) -> None:
        super().__init__(traits, options)
        self._open_tools: set[int] = set()  # the places of their items in the output
        self._cut_calls: list[tuple[CallText, ToolCall]] = []
        self._images: dict[str | None, int] = {}  # the places of those of which a part was written

    # ------------------------------------------------------------ the response

    def begin(self) -> None:
        """Write ``response.created`` and ``response.in_progress``."""
        self._response = {**empty_response(self.response_id or "resp_0", self.model or ""), **self.metadata}
        self.send_event("response.created", {"response": self._response})
        self.send_event("response.in_progress", {"response": self._response})

    def end(self) -> None:
        """Write the last event, with the whole response."""
        self.close_item()
        for position in list(self._open_tools):
            self.end_item(position)
        status, _, reason = _FINISH_REASON_NAMES["error" if self.error else self.finish_reason].partition(":")
        usage = None if self.usage is None else self.with_own_usage(usage_fields(self.usage))
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

    def with_own_usage(self, fields: Json) -> Json:
        """Return the counts with those of the provider's own report; clients require all of the usual details."""
        own = self.own_usage()
        details = {name: fields[name] | own[name] for name in USAGE_DETAILS if isinstance(own.get(name), dict)}
        return {**fields, **own, **details}

    def encode(self, chunk: Json) -> bytes:
        """Return an event as a server-sent event with its name."""
        return b"event: %b\ndata: %b\n\n" % (chunk["type"].encode(), encode_chunk(chunk))

    def error_body(self, status: int, message: str, code: str | None) -> Json:
        """Return the body of a response that failed."""
        return error_body(status, message, code)

    def body(self, chunks: list[Json]) -> Json:
        """Return the whole response, which the last event has."""
        return dict(chunks[-1]["response"])

    # ------------------------------------------------------------ calls

    def start_call(self, call: CallText) -> None:
        """Write the start of a call's item."""
        self.close_item()
        own = self._own_state or {}
        asked = own.get("item") or call.metadata.get("item")
        if isinstance(asked, dict) and is_client_item(asked) and (self.is_same_wire or client_call_id(asked)):
            call.item = asked
            return
        if (tool := call.metadata.get(CLIENT_TOOL)) is not None:
            call.item = client_tool_call(tool, call, self.new_id("tsc"))
            return
        prefix = "ctc" if call.ref.kind == "custom" else "fc"
        fields = {name: value for name, value in call.metadata.items() if name not in ("item_id", "status")}
        call.item = call_item(call, own.get("item_id") or self.new_id(prefix), {**fields, **own})
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
        else:
            call.replace(text)

    def end_call(self, call: CallText, final: ToolCall) -> None:
        """Write the whole arguments of a call and the end of its item."""
        if call.position is None:
            asked = final.metadata.get("item")
            if self.is_same_wire and isinstance(asked, dict):  # complete now
                call.item = asked
            elif CLIENT_TOOL in call.metadata:
                arguments = final.arguments if isinstance(final.arguments, dict) else final.arguments_text
                call.item["arguments"] = arguments
            if final.state == "incomplete":  # it has no end
                item = {**call.item, "status": "in_progress"}
                self.send_event("response.output_item.added", {"output_index": len(self.items), "item": item})
            else:
                self.write_item(call.item, {"status": "in_progress"})
            return
        self._arguments(call, call.finish(final))
        field, _ = argument_names(call)
        call.item[field] = call.sent
        if isinstance(namespace := final.metadata.get("namespace"), str):
            call.item["namespace"] = namespace
        if final.state == "incomplete" and call.item["status"] != "in_progress":
            call.item["status"] = "incomplete"
        if final.state == "incomplete" and call.ref.kind == "custom" and not self.is_same_wire:
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
        if self.is_same_wire or (self._own_state is not None and "item_id" in self._own_state):
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
        position = self._images.get(raw.get("id"))
        if position is None:
            self.write_item(raw, {"status": "in_progress"} if is_server_tool and "status" in raw else {})
        else:
            self.items[position] = raw
            self.end_item(position)

    def partial_result(self, id: str | None, data: Any) -> None:
        """Write an unfinished image, which the client has asked for."""
        if not isinstance(data, dict) or "partial_image_b64" not in data:
            return
        if (position := self._images.get(id)) is None:
            self.close_item()
            item = {"id": id, "type": "image_generation_call", "status": "in_progress", "result": None}
            position = self._images[id] = self.add_item(item, {})
        place = {"item_id": id, "output_index": position}
        self.send_event("response.image_generation_call.partial_image", {**place, **data})
