"""Parser of Responses streams.

The fast path is a text or argument delta of an item that has started: one decode, a few attributes, one call of the
sink. Everything else about items is in ``item_reader``. This module reads what concerns the response: its id and model,
usage, its end, errors, and responses that come as one body.

It must not depend on canonical ids, on the completeness of JSON, on history or on I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from streamkit.calls import Usage
from streamkit.providers.contract.sink import Sink
from streamkit.providers.decoding.decoding import (
    as_integer,
    as_text,
    convert,
    excerpt,
    frame_error,
    read_counts,
    read_json,
    report_unknown_fields,
)
from streamkit.providers.decoding.log_probabilities import read_log_probabilities
from streamkit.providers.decoding.openai_errors import openai_stream_error
from streamkit.providers.openai_responses.item_index import OutputItemIndex
from streamkit.providers.openai_responses.item_reader import CALL_DONE_EVENTS, SERVER_ARGUMENT_EVENTS, ItemReader
from streamkit.providers.openai_responses.schema import (
    DECODER,
    END_STATUSES,
    KNOWN_DELTA_FIELDS,
    KNOWN_RESPONSE_FIELDS,
    LENIENT_DECODER,
    OWN_RESPONSE_FIELDS,
    PROGRESS_EVENTS,
    SERVER_DELTA_EVENTS,
    TEXT_DELTA_EVENTS,
    TEXT_DONE_EVENTS,
    DeltaEvent,
    Json,
    ResponseStreamEvent,
)
from streamkit.providers.openai_responses.traits import FINISH_REASONS
from streamkit.providers.provider import Traits

__all__ = ["ResponsesParser", "create_parser"]

_decode = DECODER.decode
_decode_plain = msgspec.json.Decoder().decode
_CALL_DELTA_EVENTS = frozenset({"response.function_call_arguments.delta", "response.custom_tool_call_input.delta"})
_TEXT_AND_CALL_DELTA_EVENTS = _CALL_DELTA_EVENTS | frozenset(TEXT_DELTA_EVENTS)
_DELTA_EVENTS = _TEXT_AND_CALL_DELTA_EVENTS | frozenset(SERVER_DELTA_EVENTS)
_DELTA_EVENT_NAMES = frozenset(name.encode() for name in _DELTA_EVENTS)  # all others are decoded as plain data at once

_LONGEST_DELTA = 1024  # bytes of an event without a name that is decoded as a delta first


def create_parser(sink: Sink, traits: Traits) -> ResponsesParser:
    """Return a parser for one turn that reports to ``sink``."""
    return ResponsesParser(sink)


class ResponsesParser(ItemReader):
    """A parser of one Responses stream, or of a response that was not streamed."""

    __slots__ = ("_error_message", "_facts", "_is_identified")

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._choice = sink.choice(0)
        self._index = OutputItemIndex(sink)
        self._server_reader = self._client_reader = None
        self._error_message: str | None = None  # of the error that was reported
        self._is_identified = False
        self._facts: Json | None = None  # the facts about the response that were reported last
        sink.join_with(self._join_parts)

    def frame(self, name: bytes, data: bytes) -> None:
        """Parse one SSE event."""
        if name not in _DELTA_EVENT_NAMES if name else len(data) > _LONGEST_DELTA:
            self._parse_other(name, data)
            return
        try:
            event = _decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self._parse_other(name, data)
            return
        kind, text, index = event.type, event.delta, self._index
        if event.logprobs and kind in _TEXT_AND_CALL_DELTA_EVENTS:
            self._choice.log_probabilities(read_log_probabilities(event.logprobs), event.logprobs)
        if kind == index.current_event and event.item_id == index.current_id and text.__class__ is str and text:
            part = index.current_part
            if part is None:
                self._choice.arguments(text, index.current_key)
                return
            part_kind = part.kind
            if part_kind == "summary":
                if event.summary_index == part.last_index:
                    part.streamed.append(text)
                    self._choice.reasoning(text, "summary", part.key)
                    return
            elif event.content_index == part.last_index:
                part.streamed.append(text)
                if part_kind == "text":
                    self._choice.text(text, part.key)
                elif part_kind == "reasoning":
                    self._choice.reasoning(text, "text", part.key)
                else:
                    self._choice.refusal(text, part.key)
                return
        if kind in _DELTA_EVENTS:
            self._read_delta(event, data)
        else:
            self._parse_other(name, data)

    def end(self) -> None:
        """Finalize the items that never ended."""
        self._read_final_output(None, is_completed=True)

    def chunk(self, data: dict[str, Any]) -> None:
        """Parse one event given as a dict, or a complete response."""
        kind = data.get("type")
        if kind.__class__ is not str:
            self._read_untyped(data)
        elif (read := _READERS.get(kind)) is not None:
            read(self, data)
        elif kind in _DELTA_EVENTS:
            report_unknown_fields(self._sink, data, KNOWN_DELTA_FIELDS)
            if data.get("logprobs") and kind in _TEXT_AND_CALL_DELTA_EVENTS:
                self._choice.log_probabilities(read_log_probabilities(data["logprobs"]), data["logprobs"])
            self._read_delta(convert(data, DeltaEvent, self._sink) or DeltaEvent(), data)
        elif kind not in _IGNORED_EVENTS:
            self._read_untyped(data)

    def _read_delta(self, event: ResponseStreamEvent, source: bytes | Json) -> None:
        """Read a delta that is not on the fast path."""
        text, server_types = event.delta, SERVER_DELTA_EVENTS.get(event.type)
        if isinstance(text, dict) and server_types is None:
            text = text.get("text")  # the first published form of the reasoning events
        if not isinstance(text, str):
            self._sink.unknown(_to_plain(source))
        elif not text:
            self._sink.heartbeat()  # BerriAI/litellm#39288
        elif server_types is not None:
            if not self._read_server_delta(event, text, server_types):
                self._sink.unknown(_to_plain(source))
        elif event.type in _CALL_DELTA_EVENTS:
            self._read_call_delta(event, text)
        else:
            self._read_text_delta(TEXT_DELTA_EVENTS[event.type], event, text)

    # ------------------------------------------------------------ frames that are not a plain delta

    def _parse_other(self, name: bytes, data: bytes) -> None:
        """Parse a frame that is not a plain delta, or that the strict decoder rejects."""
        try:
            raw = _decode_plain(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            try:
                raw = read_json(data)
            except (ValueError, RecursionError) as error:
                self._parse_invalid(name, data, error)
                return
        if not isinstance(raw, dict):
            self._sink.unknown(raw)
            return
        kind = raw.get("type")
        if kind.__class__ is str and (read := _READERS.get(kind)) is not None:
            read(self, raw)
            return
        if name and kind is None and raw.get("object") != "response":
            raw["type"] = name.decode("utf-8", "replace")  # a relay that names its events in SSE alone
        self.chunk(raw)

    def _parse_invalid(self, name: bytes, data: bytes, error: Exception) -> None:
        """Parse a frame that is no valid JSON."""
        event = None
        with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            event = LENIENT_DECODER.decode(data)  # only a field that is not read is invalid: an integer of 5,000 digits
        if event is not None and event.type in _TEXT_AND_CALL_DELTA_EVENTS:
            self._read_delta(event, data)
        elif name == b"error":  # text of a relay
            self._fail(excerpt(data))
        elif data.strip() == b"[DONE]":  # servers that implement Chat Completions as well end every stream so
            self._read_final_output(None, is_completed=True)
            self._sink.terminate()
        elif data.strip():  # not "data:" alone, which some gateways send to keep the connection
            self._sink.fail(frame_error(error, data))

    def _read_item(self, raw: Json) -> None:
        item = raw.get("item")
        if not isinstance(item, dict):
            self._sink.unknown(raw)
        elif raw["type"] == "response.output_item.added":
            self._start_item(item, raw.get("output_index"))
        else:
            self._end_item(item, raw.get("output_index"))

    def _read_error(self, raw: Json) -> None:
        error = raw.get("error") or {name: value for name, value in raw.items() if name != "type"}
        self._fail(error, as_integer(raw.get("status")))

    def _read_untyped(self, raw: Json) -> None:
        """Read a response that came as one body, the body of an error, or an unknown object."""
        if raw.get("object") == "response" or (isinstance(raw.get("output"), list) and "type" not in raw):
            self._end_response(raw, None)
        elif raw.get("error") and not _is_of_a_part(raw.get("type")):
            self._fail(raw["error"])
        else:
            self._sink.unknown(raw)

    # ------------------------------------------------------------ the response

    def _start_response(self, raw: Json) -> None:
        self._sink.heartbeat()
        response = raw.get("response")
        if isinstance(response, dict):
            self._identify(response)

    def _identify(self, response: Json) -> None:
        response_id, model = as_text(response.get("id")), as_text(response.get("model"))
        if self._is_identified:
            self._sink.identify(response_id, model)
        else:
            self._is_identified = response_id is not None or model is not None
            facts = dict(response)
            for name in OWN_RESPONSE_FIELDS.intersection(response):
                del facts[name]
            self._sink.identify(response_id, model, facts)
        names = set(response) - KNOWN_RESPONSE_FIELDS  # a view of the keys takes twice as long
        if names:
            facts = {name: response[name] for name in sorted(names) if response[name] is not None}
            if facts and facts != self._facts:
                self._facts = facts
                self._sink.add_response_metadata(facts)

    def _read_end(self, raw: Json) -> None:
        response = raw.get("response")
        self._end_response(response if isinstance(response, dict) else {}, END_STATUSES[raw["type"]])

    def _end_response(self, response: Json, event_status: str | None) -> None:
        """Read the final state of a response; ``event_status`` is the status that its event implies."""
        self._identify(response)
        status = as_text(response.get("status"))
        if event_status is not None and status not in END_STATUSES.values():
            status = event_status
        if status in ("in_progress", "queued"):  # the first body of a background response
            return
        self._read_final_output(response.get("output"), is_completed=status in (None, "completed"))
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
        if reason not in _LIMITS:
            self._sink.add_response_metadata({"incomplete_details": details})
        if meaning is None:
            self._sink.warn("incomplete_reason", f"the response is incomplete for the unknown reason {reason!r}")
        self._choice.finish(status, meaning or "length")

    def _fail(self, error: Any, status: int | None = None) -> None:
        """Report an error of the provider. OpenAI sends the same one in ``error`` and in ``response.failed``.

        Args:
            error: the error object, or its text.
            status: the HTTP status next to it, which WebSocket relays send.
        """
        reported = openai_stream_error(error)
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
        prompt, output, total = read_counts(usage, ("input_tokens", "output_tokens", "total_tokens"))
        reasoning = as_integer(output_details.get("reasoning_tokens"))
        if reasoning and output is not None and prompt is not None:
            if total == prompt + output + reasoning:
                output += reasoning  # counted separately, as xAI does on Chat Completions
        cache_read, cache_write = read_counts(input_details, ("cached_tokens", "cache_write_tokens"))
        self._sink.usage(Usage(prompt, output, reasoning, cache_read, cache_write, usage))


#: The events that are no plain delta, and their methods.
_READERS: dict[str, Callable[[ResponsesParser, Json], None]] = {
    **dict.fromkeys(("response.created", "response.in_progress", "response.queued"), ResponsesParser._start_response),
    **dict.fromkeys(("response.output_item.added", "response.output_item.done"), ResponsesParser._read_item),
    "response.content_part.added": ResponsesParser._start_part,
    "response.content_part.done": ResponsesParser._end_part,
    "response.reasoning_summary_part.added": ResponsesParser._start_part,
    "response.reasoning_summary_part.done": ResponsesParser._end_part,
    "response.output_text.annotation.added": ResponsesParser._read_annotation,
    "response.output_text_annotation.added": ResponsesParser._read_annotation,
    **dict.fromkeys(TEXT_DONE_EVENTS, ResponsesParser._read_text_done),
    **dict.fromkeys(CALL_DONE_EVENTS, ResponsesParser._read_call_done),
    **dict.fromkeys(SERVER_ARGUMENT_EVENTS, ResponsesParser._read_server_arguments),
    "response.apply_patch_call_operation_diff.delta": ResponsesParser._read_patch_delta,
    "response.shell_call_output_content.delta": ResponsesParser._read_shell_output,
    "response.image_generation_call.partial_image": ResponsesParser._read_partial_image,
    **dict.fromkeys((*PROGRESS_EVENTS, "response.keepalive"), lambda parser, raw: parser._sink.heartbeat()),
    **dict.fromkeys(END_STATUSES, ResponsesParser._read_end),
    "error": ResponsesParser._read_error,
}
#: The reasons of an incomplete response whose meaning is a finish reason.
_LIMITS = (None, "max_output_tokens", "content_filter")
_IGNORED_EVENTS = ("keepalive", "ping")  # other wires have them too, so they show nothing


def _is_of_a_part(kind: Any) -> bool:
    """Return True if an event concerns a part of a response, or what a client added to it, so that its error ends none.

    Input that comes too late fails (``response.steer.failed``, ``response.inject.failed``) while the response goes on
    (https://developers.openai.com/api/docs/guides/steering).
    """
    return kind.__class__ is str and kind.startswith("response.") and kind.count(".") > 1


def _to_plain(source: bytes | Json) -> Json:
    """Return an event as plain data."""
    if not isinstance(source, bytes):
        return source
    try:
        value = read_json(source)
    except (ValueError, RecursionError):  # the strict decoder does not check the fields that it skips
        value = None
    return value if isinstance(value, dict) else {"text": excerpt(source)}
