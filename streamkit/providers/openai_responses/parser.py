"""Parser of Responses streams.

The fast path is a text or argument delta of an item that has started: one decode, a few attributes, one call of the
sink. Everything else about items is in ``item_reader``. This module reads what concerns the response: its id and model,
usage, its end, errors, and responses that come as one body.

It must not depend on canonical ids, on the completeness of JSON, on history or on I/O.
"""

from __future__ import annotations

from typing import Any

import msgspec

from streamkit.calls import Usage
from streamkit.events import NormalizedToolChunk
from streamkit.providers.decoding import as_integer, as_text, convert, excerpt, read_json
from streamkit.providers.lenient_json import frame_error
from streamkit.providers.log_probabilities import read_log_probabilities
from streamkit.providers.openai_errors import to_stream_error
from streamkit.providers.openai_responses.item_reader import ItemReader
from streamkit.providers.openai_responses.schema import (
    DECODER,
    END_STATUSES,
    KNOWN_DELTA_FIELDS,
    KNOWN_RESPONSE_FIELDS,
    LENIENT_DECODER,
    PROGRESS_EVENTS,
    SERVER_DELTA_EVENTS,
    TEXT_DELTA_EVENTS,
    TEXT_DONE_EVENTS,
    Json,
    ResponseStreamEvent,
)
from streamkit.providers.openai_responses.traits import FINISH_REASONS
from streamkit.providers.provider import Traits
from streamkit.providers.sink import Sink
from streamkit.providers.unknown_fields import report_unknown_fields

__all__ = ["ResponsesParser", "create_parser"]

_decode = DECODER.decode
_CALL_DELTA_EVENTS = frozenset({"response.function_call_arguments.delta", "response.custom_tool_call_input.delta"})
_DELTA_EVENTS = _CALL_DELTA_EVENTS | TEXT_DELTA_EVENTS.keys()
_DELTA_EVENT_NAMES = frozenset(name.encode() for name in _DELTA_EVENTS)  # all others are decoded as plain data at once
_PATCH_DELTA_EVENT = "response.apply_patch_call_operation_diff.delta"
_CALL_DONE_EVENTS = {
    "response.function_call_arguments.done": "function_call",
    "response.custom_tool_call_input.done": "custom_tool_call",
}
_SERVER_ARGUMENT_EVENTS = {
    "response.mcp_call_arguments.done": "arguments",
    "response.code_interpreter_call_code.done": "code",
}
_ANNOTATION_EVENTS = ("response.output_text.annotation.added", "response.output_text_annotation.added")
_HEARTBEAT_EVENTS = PROGRESS_EVENTS | {"response.keepalive"}
_PINGS = ("keepalive", "ping")  # other wires have them too, so they show nothing


def create_parser(sink: Sink, traits: Traits) -> ResponsesParser:
    """Return a parser for one turn that reports to ``sink``."""
    return ResponsesParser(sink)


class ResponsesParser:
    """A parser of one Responses stream, or of a response that was not streamed."""

    __slots__ = ("_choice", "_current_calls", "_current_parts", "_error_message", "_facts", "_items", "_sink", "_texts")

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._choice = sink.choice(0)
        self._items = ItemReader(sink)
        self._texts = self._items.texts
        self._current_parts = self._texts.current_parts
        self._current_calls = self._items.current_calls
        self._error_message: str | None = None  # of the error that was reported
        self._facts: Json = {}  # the facts about the response that were reported last

    def frame(self, name: bytes, data: bytes) -> None:
        """Parse one SSE event."""
        if name and name not in _DELTA_EVENT_NAMES:
            self._parse_slow(name, data)
            return
        try:
            event = _decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self._parse_slow(name, data)
            return
        kind, text, item_id = event.type, event.delta, event.item_id
        if event.logprobs and kind in _DELTA_EVENTS:
            self._choice.log_probabilities(read_log_probabilities(event.logprobs), event.logprobs)
        if text.__class__ is str and item_id.__class__ is str and text:
            if kind == "response.output_text.delta":
                part = self._current_parts.get(item_id)
                if part is not None and part.kind == "text" and part.last_index == event.content_index:
                    part.streamed.append(text)
                    self._choice.text(text, part.key)
                    return
            elif kind == "response.function_call_arguments.delta":
                call = self._current_calls.get(item_id)
                if call is not None:
                    self._choice.tool(NormalizedToolChunk("delta", None, None, None, text, call.key))
                    return
            elif kind == "response.reasoning_summary_text.delta":
                part = self._current_parts.get(item_id)
                if part is not None and part.kind == "summary" and part.last_index == event.summary_index:
                    part.streamed.append(text)
                    self._choice.reasoning(text, "summary", part.key)
                    return
            elif kind == "response.reasoning_text.delta":
                part = self._current_parts.get(item_id)
                if part is not None and part.kind == "reasoning" and part.last_index == event.content_index:
                    part.streamed.append(text)
                    self._choice.reasoning(text, "text", part.key)
                    return
            elif kind == "response.custom_tool_call_input.delta":
                call = self._current_calls.get(item_id)
                if call is not None:
                    self._choice.tool(NormalizedToolChunk("delta", None, None, None, text, call.key))
                    return
        if kind in _DELTA_EVENTS:
            self._read_delta(event, data)
        else:
            self._parse_slow(name, data)

    def end(self) -> None:
        """Finalize the items that never ended."""
        self._items.read_final_output(None, is_completed=True)

    def chunk(self, data: dict[str, Any]) -> None:
        """Parse one event given as a dict, or a complete response."""
        kind = data.get("type")
        if isinstance(kind, str) and kind in _DELTA_EVENTS:
            report_unknown_fields(self._sink, data, KNOWN_DELTA_FIELDS)
            if data.get("logprobs"):
                self._choice.log_probabilities(read_log_probabilities(data["logprobs"]), data["logprobs"])
            self._read_delta(convert(data, ResponseStreamEvent, self._sink) or ResponseStreamEvent(), data)
        else:
            self._read_event(data)

    def _read_delta(self, event: ResponseStreamEvent, source: bytes | Json) -> None:
        """Read a delta that is not on the fast path."""
        text = event.delta
        if isinstance(text, dict):
            text = text.get("text")  # the first published form of the reasoning events
        if not isinstance(text, str):
            self._sink.unknown(_to_plain(source))
        elif not text:
            self._sink.heartbeat()  # BerriAI/litellm#39288
        elif event.type in _CALL_DELTA_EVENTS:
            self._items.read_call_delta(event, text)
        else:
            self._texts.read_delta(TEXT_DELTA_EVENTS[event.type], event, text)

    # ------------------------------------------------------------ frames that are not a plain delta

    def _parse_slow(self, name: bytes, data: bytes) -> None:
        """Parse a frame that is not a plain delta, or that the strict decoder rejects."""
        try:
            raw = read_json(data)
        except (ValueError, RecursionError) as error:
            event = _decode_delta(data)
            if event is not None:
                self._read_delta(event, data)
            elif name == b"error":  # text of a relay
                self._fail(excerpt(data))
            elif data.strip() == b"[DONE]":  # servers that implement Chat Completions as well end every stream so
                self._items.read_final_output(None, is_completed=True)
                self._sink.terminate()
            elif data.strip():  # not "data:" alone, which some gateways send to keep the connection
                self._sink.fail(frame_error(error, data))
            return
        if not isinstance(raw, dict):
            self._sink.unknown(raw)
            return
        if name and raw.get("type") is None and raw.get("object") != "response":
            raw["type"] = name.decode("utf-8", "replace")  # a relay that names its events in SSE alone
        self.chunk(raw)

    def _read_event(self, raw: Json) -> None:
        kind = raw.get("type")
        if not isinstance(kind, str):
            self._read_untyped(raw)
        elif kind in SERVER_DELTA_EVENTS:
            report_unknown_fields(self._sink, raw, KNOWN_DELTA_FIELDS)
            self._items.read_server_delta(raw, SERVER_DELTA_EVENTS[kind])
        elif kind == "response.output_item.added" or kind == "response.output_item.done":
            item = raw.get("item")
            if not isinstance(item, dict):
                self._sink.unknown(raw)
            elif kind == "response.output_item.added":
                self._items.start_item(item, raw.get("output_index"))
            else:
                self._items.end_item(item, raw.get("output_index"))
        elif kind in TEXT_DONE_EVENTS:
            part_kind, field = TEXT_DONE_EVENTS[kind]
            self._texts.read_done(part_kind, raw, raw.get(field))
        elif kind in _CALL_DONE_EVENTS:
            self._items.read_call_done(raw, _CALL_DONE_EVENTS[kind])
        elif kind in ("response.content_part.added", "response.reasoning_summary_part.added"):
            self._texts.start_part(raw)
        elif kind in ("response.content_part.done", "response.reasoning_summary_part.done"):
            self._texts.end_part(raw)
        elif kind in ("response.created", "response.in_progress", "response.queued"):
            self._sink.heartbeat()
            self._identify(raw.get("response"))
        elif kind in END_STATUSES:
            response = raw.get("response")
            self._end_response(response if isinstance(response, dict) else {}, END_STATUSES[kind])
        else:
            self._read_rare_event(kind, raw)

    def _read_rare_event(self, kind: str, raw: Json) -> None:
        if kind in _ANNOTATION_EVENTS:
            self._texts.read_annotation(raw)
        elif kind == _PATCH_DELTA_EVENT:
            report_unknown_fields(self._sink, raw, KNOWN_DELTA_FIELDS)
            self._items.read_patch_delta(raw)
        elif kind == "response.shell_call_output_content.delta":
            self._items.read_shell_output(raw)
        elif kind in _SERVER_ARGUMENT_EVENTS:
            self._items.read_server_arguments(raw, _SERVER_ARGUMENT_EVENTS[kind])
        elif kind == "response.image_generation_call.partial_image":
            self._items.read_partial_image(raw)
        elif kind in _HEARTBEAT_EVENTS:
            self._sink.heartbeat()
        elif kind in _PINGS:
            pass
        elif kind == "error":
            error = raw.get("error") or {name: value for name, value in raw.items() if name != "type"}
            self._fail(error, as_integer(raw.get("status")))
        else:
            self._read_untyped(raw)

    def _read_untyped(self, raw: Json) -> None:
        """Read a response that came as one body, the body of an error, or an unknown object."""
        if raw.get("object") == "response" or (isinstance(raw.get("output"), list) and "type" not in raw):
            self._end_response(raw, None)
        elif raw.get("error"):
            self._fail(raw["error"])
        else:
            self._sink.unknown(raw)

    # ------------------------------------------------------------ the response

    def _identify(self, response: Any) -> None:
        if isinstance(response, dict):
            self._sink.identify(as_text(response.get("id")), as_text(response.get("model")))
            names = response.keys() - KNOWN_RESPONSE_FIELDS
            facts = {name: response[name] for name in sorted(names) if response[name] is not None}
            if facts != self._facts:
                self._facts = facts
                self._sink.add_response_metadata(facts)

    def _end_response(self, response: Json, event_status: str | None) -> None:
        """Read the final state of a response; ``event_status`` is the status that its event implies."""
        self._identify(response)
        status = as_text(response.get("status"))
        if event_status is not None and status not in END_STATUSES.values():
            status = event_status
        if status in ("in_progress", "queued"):  # the first body of a background response
            return
        self._items.read_final_output(response.get("output"), is_completed=status in (None, "completed"))
        self._emit_usage(response.get("usage"))
        if status in ("failed", "cancelled"):
            if response.get("error") or self._error_message is None:
                self._fail(response.get("error") or f"the response was {status}")
        if status is not None:
            self._finish(status, response.get("incomplete_details"))
        self._sink.terminate()

    def _finish(self, status: str, details: Any) -> None:
        if status != "incomplete":
            self._choice.finish(status, FINISH_REASONS.get(status, "other"))
            return
        reason = as_text(details.get("reason")) if isinstance(details, dict) else None
        meaning = FINISH_REASONS.get("incomplete" if reason is None else f"incomplete:{reason}")
        if meaning is None:
            self._sink.warn("incomplete_reason", f"the response is incomplete for the unknown reason {reason!r}")
        self._choice.finish(status, meaning or "length")

    def _fail(self, error: Any, status: int | None = None) -> None:
        """Report an error of the provider. OpenAI sends the same one in ``error`` and in ``response.failed``.

        Args:
            error: the error object, or its text.
            status: the HTTP status next to it, which WebSocket relays send.
        """
        reported = to_stream_error(error)
        if reported.status is None and status is not None and 400 <= status < 600:
            reported = msgspec.structs.replace(reported, status=status)
        if reported.message != self._error_message:
            self._error_message = reported.message
            self._sink.fail(reported)

    def _emit_usage(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        input_details, output_details = usage.get("input_tokens_details"), usage.get("output_tokens_details")
        input_details = input_details if isinstance(input_details, dict) else {}
        output_details = output_details if isinstance(output_details, dict) else {}
        self._sink.usage(
            Usage(
                as_integer(usage.get("input_tokens")),
                as_integer(usage.get("output_tokens")),
                as_integer(output_details.get("reasoning_tokens")),
                as_integer(input_details.get("cached_tokens")),
                as_integer(input_details.get("cache_write_tokens")),
                usage,
            )
        )


def _decode_delta(data: bytes) -> ResponseStreamEvent | None:
    """Return a delta in a frame of which only a field that is not read is invalid (an integer of 5,000 digits)."""
    try:
        event = LENIENT_DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return event if event.type in _DELTA_EVENTS else None


def _to_plain(source: bytes | Json) -> Json:
    """Return an event as plain data."""
    if not isinstance(source, bytes):
        return source
    try:
        value = read_json(source)
    except (ValueError, RecursionError):  # the strict decoder does not check the fields that it skips
        value = None
    return value if isinstance(value, dict) else {"text": excerpt(source)}
