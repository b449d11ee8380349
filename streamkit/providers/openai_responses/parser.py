"""Responses events to what they say.

The short path is a piece of text or of arguments of an item that has begun: one decode, a few attributes, one call of
the sink. All else of items is ``items``'s business; here is what concerns the response: who answers, usage, how it
ended, errors, and responses that come whole.

It does not know of canonical ids, of JSON being complete, of history or of I/O.
"""

from __future__ import annotations

from typing import Any

import msgspec

from streamkit.calls import StreamError, Usage
from streamkit.events import NormalizedToolChunk
from streamkit.providers.decoding import as_integer, as_text, convert, error_message, excerpt, read_json
from streamkit.providers.openai_responses.item_reader import ItemReader
from streamkit.providers.openai_responses.schema import (
    DECODER,
    END_OF,
    PROGRESS,
    TEXT_DELTAS,
    TEXT_DONES,
    Json,
    ResponseStreamEvent,
)
from streamkit.providers.provider import Sink, Traits

__all__ = ["ResponsesParser", "create_parser"]

_decode = DECODER.decode
_CALL_DELTAS = frozenset({"response.function_call_arguments.delta", "response.custom_tool_call_input.delta"})
_DELTAS = _CALL_DELTAS | TEXT_DELTAS.keys()
_CALL_DONES = {
    "response.function_call_arguments.done": "function_call",
    "response.custom_tool_call_input.done": "custom_tool_call",
}
_SERVER_DONES = {
    "response.mcp_call_arguments.done": "arguments",
    "response.code_interpreter_call_code.done": "code",
}


def create_parser(sink: Sink, traits: Traits) -> ResponsesParser:
    """Return a parser for one turn that reports to ``sink``."""
    return ResponsesParser(sink)


class ResponsesParser:
    """Reads one Responses stream, or a response of the not streamed kind."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._choice = sink.choice(0)
        self._text = self._choice.text
        self._reasoning = self._choice.reasoning
        self._tool = self._choice.tool
        self._items = ItemReader(sink)
        self._texts = self._items.texts
        self._text_at = self._texts.at_hand["text"].get
        self._summary_at = self._texts.at_hand["summary"].get
        self._reasoning_at = self._texts.at_hand["reasoning"].get
        self._call_at = self._items.calls.get
        self._error: str | None = None  # the message of the error that was reported

    def frame(self, name: bytes, data: bytes) -> None:
        """One SSE event."""
        try:
            event = _decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self._parse_slow(name, data)
            return
        kind, text, item_id = event.type, event.delta, event.item_id
        if text.__class__ is str and item_id.__class__ is str and text:
            if kind == "response.output_text.delta":
                part = self._text_at(item_id)
                if part is not None and part.sent == event.content_index:
                    part.add(text)
                    self._text(text, part.key)
                    return
            elif kind == "response.function_call_arguments.delta":
                call = self._call_at(item_id)
                if call is not None:
                    self._tool(NormalizedToolChunk("delta", None, None, None, text, call.key))
                    return
            elif kind == "response.reasoning_summary_text.delta":
                part = self._summary_at(item_id)
                if part is not None and part.sent == event.summary_index:
                    part.add(text)
                    self._reasoning(text, "summary", part.key)
                    return
            elif kind == "response.reasoning_text.delta":
                part = self._reasoning_at(item_id)
                if part is not None and part.sent == event.content_index:
                    part.add(text)
                    self._reasoning(text, "text", part.key)
                    return
            elif kind == "response.custom_tool_call_input.delta":
                call = self._call_at(item_id)
                if call is not None:
                    self._tool(NormalizedToolChunk("delta", None, None, None, text, call.key))
                    return
        if kind in _DELTAS:
            self._delta(event, data)
        else:
            self._parse_slow(name, data)

    def end(self) -> None:
        """The stream is over: an item whose end never came stands as it is."""
        self._items.conclude(None, completed=True)

    def chunk(self, data: dict[str, Any]) -> None:
        """One event as plain data, or a whole response."""
        kind = data.get("type")
        if isinstance(kind, str) and kind in _DELTAS:
            self._delta(convert(data, ResponseStreamEvent, self._sink) or ResponseStreamEvent(), data)
        else:
            self._event(data)

    def _delta(self, event: ResponseStreamEvent, source: bytes | Json) -> None:
        """A delta that the short path left over."""
        text = event.delta
        if isinstance(text, dict):
            text = text.get("text")  # the first published form of the reasoning events
        if not isinstance(text, str):
            self._sink.unknown(_plain(source))
        elif not text:
            self._sink.heartbeat()  # BerriAI/litellm#39288
        elif event.type in _CALL_DELTAS:
            self._items.call_piece(event, text)
        else:
            self._texts.piece(TEXT_DELTAS[event.type], event, text)

    # ------------------------------------------------------------ frames that are not a plain delta

    def _parse_slow(self, name: bytes, data: bytes) -> None:
        """A frame that is not a plain delta, or not what the strict decoder takes."""
        try:
            raw = read_json(data)
        except (ValueError, RecursionError) as error:
            if name == b"error":  # a relay's own words
                self._fail(excerpt(data))
            elif data.strip() == b"[DONE]":  # servers that speak Chat Completions, too, end every stream so
                self._items.conclude(None, completed=True)
                self._sink.terminate()
            elif isinstance(error, RecursionError):
                self._sink.fail(StreamError("limit_exceeded", "a frame's JSON is nested too deeply", excerpt(data)))
            else:
                self._sink.fail(StreamError("protocol_error", f"a frame is no JSON ({error})", excerpt(data)))
            return
        if not isinstance(raw, dict):
            self._sink.unknown(raw)
            return
        if name and raw.get("type") is None and raw.get("object") != "response":
            raw["type"] = name.decode("utf-8", "replace")  # a relay that names its events in SSE alone
        self.chunk(raw)

    def _event(self, raw: Json) -> None:
        kind = raw.get("type")
        if not isinstance(kind, str):
            self._untyped(raw)
        elif kind == "response.output_item.added" or kind == "response.output_item.done":
            item = raw.get("item")
            if not isinstance(item, dict):
                self._sink.unknown(raw)
            elif kind == "response.output_item.added":
                self._items.begin(item, raw.get("output_index"))
            else:
                self._items.end(item, raw.get("output_index"))
        elif kind in TEXT_DONES:
            part, field = TEXT_DONES[kind]
            self._texts.snapshot(part, raw, raw.get(field))
        elif kind in _CALL_DONES:
            self._items.call_snapshot(raw, _CALL_DONES[kind])
        elif kind in ("response.content_part.added", "response.reasoning_summary_part.added"):
            self._texts.begin_part(raw)
        elif kind in ("response.content_part.done", "response.reasoning_summary_part.done"):
            self._texts.end_part(raw)
        elif kind in ("response.created", "response.in_progress", "response.queued"):
            self._identify(raw.get("response"))
        elif kind in END_OF:
            response = raw.get("response")
            self._end(response if isinstance(response, dict) else {}, END_OF[kind])
        else:
            self._rare_event(kind, raw)

    def _rare_event(self, kind: str, raw: Json) -> None:
        if kind in ("response.output_text.annotation.added", "response.output_text_annotation.added"):
            self._texts.cite(raw)
        elif kind in _SERVER_DONES:
            self._items.server_arguments(raw, _SERVER_DONES[kind])
        elif kind == "response.image_generation_call.partial_image":
            self._items.partial_image(raw)
        elif kind in PROGRESS or kind in ("keepalive", "ping", "response.keepalive"):
            self._sink.heartbeat()
        elif kind == "error":
            self._fail(raw.get("error") or {name: value for name, value in raw.items() if name != "type"})
        else:
            self._untyped(raw)

    def _untyped(self, raw: Json) -> None:
        """A response that came whole, an error's body, or something that there is no word for."""
        if raw.get("object") == "response" or (isinstance(raw.get("output"), list) and "type" not in raw):
            self._end(raw, None)
        elif raw.get("error"):
            self._fail(raw["error"])
        else:
            self._sink.unknown(raw)

    # ------------------------------------------------------------ the response

    def _identify(self, response: Any) -> None:
        if isinstance(response, dict):
            self._sink.identify(as_text(response.get("id")), as_text(response.get("model")))

    def _end(self, response: Json, named: str | None) -> None:
        """A response as it stands at its end; *named* is the status that its event has in its name."""
        self._identify(response)
        status = as_text(response.get("status"))
        if named is not None and status not in END_OF.values():
            status = named
        if status in ("in_progress", "queued"):  # the body with which a background response begins
            return
        self._items.conclude(response.get("output"), completed=status in (None, "completed"))
        self._report(response.get("usage"))
        if status in ("failed", "cancelled"):
            if response.get("error") or self._error is None:
                self._fail(response.get("error") or f"the response was {status}")
            self._choice.finish(status, "error")
        elif status == "incomplete":
            self._incomplete(response.get("incomplete_details"))
        elif status == "completed":
            self._choice.finish(status, "stop")
        elif status is not None:
            self._choice.finish(status, "other")
        self._sink.terminate()

    def _incomplete(self, details: Any) -> None:
        reason = as_text(details.get("reason")) if isinstance(details, dict) else None
        if reason == "content_filter":
            self._choice.finish("incomplete", "content_filter")
            return
        if reason not in (None, "max_output_tokens", "max_tokens", "length"):
            self._sink.warn("incomplete_reason", f"the response is incomplete for the reason {reason!r}")
        self._choice.finish("incomplete", "length")  # whatever stopped it, it was cut

    def _fail(self, error: Any) -> None:
        """The provider reports an error; OpenAI says the same one twice, in ``error`` and in ``response.failed``."""
        message = error_message({"error": error}) if error else None
        code = error.get("code") if isinstance(error, dict) else None
        message = message or as_text(code) or "the provider reported an error"
        if message == self._error:
            return
        self._error = message
        status = as_integer(code)
        self._sink.fail(
            StreamError("provider_error", message, error, status if status and 400 <= status < 600 else None)
        )

    def _report(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        given, made = usage.get("input_tokens_details"), usage.get("output_tokens_details")
        given = given if isinstance(given, dict) else {}
        self._sink.usage(
            Usage(
                as_integer(usage.get("input_tokens")),
                as_integer(usage.get("output_tokens")),
                as_integer(made.get("reasoning_tokens")) if isinstance(made, dict) else None,
                as_integer(given.get("cached_tokens")),
                as_integer(given.get("cache_write_tokens")),
                usage,
            )
        )


def _plain(source: bytes | Json) -> Json:
    """The event as plain data."""
    if not isinstance(source, bytes):
        return source
    try:
        value = read_json(source)
    except (ValueError, RecursionError):  # the strict decoder does not look into what it leaves out
        value = None
    return value if isinstance(value, dict) else {"text": excerpt(source)}
