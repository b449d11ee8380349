"""The parser of Cohere's v2 chat streams.

The fast path is an event in the form that the vendor sends: one decode, a few attributes, one call of the sink. Such an
event has only the fields of ``schema``. All else is read as plain data, so that a field of an unexpected type costs
that field and not the turn, and a field that is not known is reported.

This module must not depend on canonical ids, on the completeness of JSON, on history or on I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from types import NoneType
from typing import Any, ClassVar, TypeAlias

import msgspec

from streamkit.calls import StreamError, Usage
from streamkit.events import NormalizedToolChunk
from streamkit.ids import normalize_index
from streamkit.providers.cohere.schema import (
    CALL_FIELDS,
    CONTENT_FIELDS,
    DECODER,
    DELTA_FIELDS,
    EVENT_FIELDS,
    FUNCTION_FIELDS,
    MESSAGE_FIELDS,
    CallDelta,
    ContentDelta,
    Event,
    Json,
)
from streamkit.providers.cohere.traits import FINISH_REASONS
from streamkit.providers.decoding.decoding import (
    arguments_as_text,
    as_integer,
    as_text,
    error_message,
    excerpt,
    frame_error,
    read_counts,
    read_json,
    report_unknown_fields,
)
from streamkit.providers.decoding.finish_reasons import is_reason, read_finish_reason
from streamkit.providers.decoding.log_probabilities import read_log_probabilities
from streamkit.providers.provider import Sink, Traits

__all__ = ["CohereParser", "create_parser"]

PlainDelta: TypeAlias = tuple[Callable[..., None], str, Hashable, str | None]

_decode = DECODER.decode
#: The one field of the message that an event has an increment of.
_FIELD_OF_EVENT = {
    "content-start": "content",
    "content-delta": "content",
    "tool-plan-delta": "tool_plan",
    "tool-call-start": "tool_calls",
    "tool-call-delta": "tool_calls",
    "citation-start": "citations",
}
#: The kinds of content. A delta has no ``type``.
_CONTENT_KINDS = (None, "", "text", "thinking")


def create_parser(sink: Sink, traits: Traits) -> CohereParser:
    """Return a parser for one turn that reports to ``sink``."""
    return CohereParser(sink)


class CohereParser:
    """A parser of one v2 chat stream, or of a body that was not streamed."""

    padding: ClassVar[None] = None
    unread_number: ClassVar[None] = None

    __slots__ = ("_choice", "_plain", "_sink")

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._choice = sink.choice(0)
        self._plain: PlainDelta | None = None  # the last frame, if it was nothing but a delta

    def frame(self, name: bytes, data: bytes) -> None:
        """Read one SSE event."""
        self._plain = None
        if name == b"error":
            self._parse_slow(name, data)
            return
        try:
            event = _decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self._parse_slow(name, data)
            return
        delta, index = event.delta, event.index
        message = None if delta is None else delta.message
        if message is not None:
            kind = event.type
            if kind == "content-delta":
                content = message.content
                if index is not None and content.__class__ is ContentDelta:
                    text, thinking = content.text, content.thinking
                    if text and thinking is None:
                        self._plain = self._choice.text, text, ("content", index), None
                        self._choice.text(text, ("content", index))
                        return
                    if thinking and text is None:
                        self._plain = self._choice.reasoning, thinking, ("content", index), "text"
                        self._choice.reasoning(thinking, "text", ("content", index))
                        return
            elif kind == "tool-call-delta":
                call = message.tool_calls
                if index is not None and call.__class__ is CallDelta and call.id is None:
                    function = call.function
                    if function is not None and function.name is None and function.arguments:
                        self._plain = self._choice.arguments, function.arguments, ("call", index), None
                        self._choice.arguments(function.arguments, ("call", index))
                        return
            elif kind == "tool-plan-delta" and message.tool_plan:
                self._plain = self._choice.reasoning, message.tool_plan, None, "plan"
                self._choice.reasoning(message.tool_plan, "plan")
                return
        if not self._read_plain_event(event):
            self._parse_slow(name, data)

    def plain_delta(self) -> PlainDelta | None:
        """Implement ``PlainParser.plain_delta``."""
        return self._plain

    def _read_plain_event(self, event: Event) -> bool:
        """Read an event that is no delta, without anything unusual; return False if it is to be read as plain data."""
        kind, index, delta = event.type, event.index, event.delta
        message = None if delta is None else delta.message
        if index is not None:
            if kind == "tool-call-end":
                self._choice.end_block(("call", index))
            elif kind == "content-end":
                self._choice.end_block(("content", index))
            elif kind == "citation-end":
                self._sink.heartbeat()
            elif message is None:
                return False
            elif kind == "tool-call-start":
                call = message.tool_calls
                if not isinstance(call, CallDelta) or (function := call.function) is None:
                    return False
                call_id, name, text = call.id or None, function.name or None, function.arguments or ""
                self._choice.tool(NormalizedToolChunk("start", call_id, name, text, key=("call", index)))
            elif kind == "content-start":
                content = message.content
                if not isinstance(content, ContentDelta) or content.type not in _CONTENT_KINDS:
                    return False
                return not (content.text or content.thinking)
            elif kind == "citation-start":
                for _, citation in _numbered(message.citations):
                    self._choice.citation(citation)
            else:
                return False
        elif kind == "message-start" and message is not None:
            if message.content or message.tool_plan or message.tool_calls or message.citations not in (None, "", []):
                return False
            self._sink.identify(as_text(event.id), None)
        elif kind == "message-end" and delta is not None and not delta.error:
            if event.id:
                self._sink.identify(as_text(event.id), None)
            self._read_end(delta.usage, delta.finish_reason, {})
        else:
            return False
        return True

    def chunk(self, data: dict[str, Any]) -> None:
        """Read one event as plain data, or a body that was not streamed."""
        kind = data.get("type")
        field = _FIELD_OF_EVENT.get(kind) if isinstance(kind, str) else None
        if field is not None:
            message = _message_in(data)
            if message is None:
                self._sink.unknown(data)
            else:
                _report_event_fields(data, self._sink)
                index, starts = normalize_index(data.get("index")), kind == "tool-call-start"
                self._read_message({field: message.get(field)}, index, starts=starts)
                self._read_logprobs(data.get("logprobs"), ("content", index))
        elif kind == "content-end":
            self._choice.end_block(("content", normalize_index(data.get("index"))))
        elif kind == "tool-call-end":
            self._choice.end_block(("call", normalize_index(data.get("index"))))
        elif kind == "citation-end":
            self._sink.heartbeat()
        elif kind == "message-start":
            _report_event_fields(data, self._sink)
            self._sink.identify(as_text(data.get("id")), None)
            self._read_message(_message_in(data) or {}, 0, starts=True, is_complete=True)
        elif kind == "message-end":
            _report_event_fields(data, self._sink)
            if data.get("id"):
                self._sink.identify(as_text(data["id"]), None)
            delta = data.get("delta")
            self._read_ending({**data, **delta} if isinstance(delta, dict) else data)
        elif kind is None and isinstance(data.get("message"), dict) and "done" not in data:  # a line of Ollama has that
            _report_event_fields(data, self._sink)
            self._sink.identify(as_text(data.get("id")), None)
            self._read_message(data["message"], 0, starts=True, is_complete=True)
            self._read_logprobs(data.get("logprobs"), ("content", 0))
            self._read_ending(data)
        elif kind == "error" or data.get("error") or (kind is None and isinstance(data.get("message"), str)):
            self._fail(data)
        else:
            self._sink.unknown(data)  # includes debug, the prompt as the model got it, for which there is no event

    def end(self) -> None:
        """Do nothing: this parser holds nothing back."""

    # ------------------------------------------------------------ frames that are not a plain delta

    def _parse_slow(self, name: bytes, data: bytes) -> None:
        """Read a frame that is not a plain delta, or that the strict decoder refused."""
        try:
            raw = read_json(data)
        except (RecursionError, ValueError) as error:
            if data.strip() == b"[DONE]":
                self._sink.terminate()
            elif name == b"error" and isinstance(error, ValueError):  # the text of a relay
                self._fail({"error": excerpt(data)})
            elif data.strip():  # not "data:" alone, which some gateways send to keep the connection
                self._sink.fail(frame_error(error, data))
            return
        if not isinstance(raw, dict):
            self._sink.unknown(raw)
        elif name == b"error":
            self._fail(raw)
        else:
            if name and raw.get("type") is None:
                raw["type"] = name.decode("utf-8", "replace")  # a relay that names its events in SSE alone
            self.chunk(raw)

    def _read_logprobs(self, logprobs: Any, key: Hashable) -> None:
        """Report log probabilities, and keep them with their text."""
        if logprobs:
            self._choice.log_probabilities(read_log_probabilities(logprobs), logprobs)
            self._choice.add_metadata({"logprobs": logprobs if isinstance(logprobs, list) else [logprobs]}, key)

    def _read_message(self, message: Json, index: Hashable, *, starts: bool = False, is_complete: bool = False) -> None:
        """Read a message: one increment of a stream, an empty one at its start, or all of a body.

        Args:
            message: the message.
            index: the event's index, which is the key of its increments.
            starts: each call is a new one.
            is_complete: no more of its calls will follow.
        """
        plan = message.get("tool_plan")
        if isinstance(plan, str):
            if plan:
                self._choice.reasoning(plan, "plan")
        elif plan is not None:
            self._sink.unknown({"tool_plan": plan})
        for number, part in _numbered(message.get("content")):
            self._read_content(part, ("content", (index, number) if number else index))
        for number, call in _numbered(message.get("tool_calls")):
            key = ("call", (index, number) if number else index)
            self._read_call(call, key, number if isinstance(message["tool_calls"], list) else None, starts=starts)
            if is_complete:
                self._choice.end_block(key)
        for _, citation in _numbered(message.get("citations")):
            self._choice.citation(citation)

    def _read_content(self, part: Any, key: Hashable) -> None:
        if isinstance(part, str):
            part = {"text": part}
        thinking, text = (part.get("thinking"), part.get("text")) if isinstance(part, dict) else (None, None)
        is_known = (
            thinking is not None or text is not None or (isinstance(part, dict) and part.get("type") in _CONTENT_KINDS)
        )
        if not is_known or not isinstance(thinking, (str, NoneType)) or not isinstance(text, (str, NoneType)):
            self._sink.unknown(part)
            return
        if thinking:
            self._choice.reasoning(thinking, "text", key)
        if text:
            self._choice.text(text, key)

    def _read_call(self, call: Any, key: Hashable, position: int | None, *, starts: bool) -> None:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            self._sink.unknown(call)
            return
        call_id, name, arguments = as_text(call.get("id")), as_text(function.get("name")), function.get("arguments")
        text = arguments_as_text(arguments, self._sink)
        if arguments and not text:  # nested too deeply, as was reported
            return
        if starts:
            self._choice.tool(NormalizedToolChunk("start", call_id, name, text, key=key, position=position))
        elif call_id or name or text:
            self._choice.tool(NormalizedToolChunk("delta", call_id, name, None, text, key))

    # ------------------------------------------------------------ the end

    def _read_ending(self, ending: Json) -> None:
        """Read the fields of a ``message-end`` or a body that concern the end."""
        error: Json | None = None
        if ending.get("error"):  # with its error_type
            error = {name: value for name, value in ending.items() if str(name).startswith("error")}
        self._read_end(ending.get("usage"), ending.get("finish_reason"), error)

    def _read_end(self, usage: Any, reason: Any, error: Json | None) -> None:
        """Report usage, finish reason and error, then the end of the stream."""
        self._report_usage(usage)
        if is_reason(reason):
            self._choice.finish(*read_finish_reason(reason, FINISH_REASONS))
        if error:
            self._fail(error)
        self._sink.terminate()

    def _fail(self, raw: Json) -> None:
        self._sink.fail(StreamError("provider_error", error_message(raw) or "the provider reported an error", raw=raw))

    def _report_usage(self, usage: Any) -> None:
        """Report the token counts.

        ``tokens`` counts all input and output of the model, ``billed_units`` only those that are paid for.
        """
        if not isinstance(usage, dict) or not usage:
            return
        tokens, billed = _as_object(usage.get("tokens")), _as_object(usage.get("billed_units"))
        prompt, output, reasoning = read_counts(tokens, ("input_tokens", "output_tokens", "reasoning_tokens"))
        if prompt is None or output is None:
            paid_prompt, paid_output = read_counts(billed, ("input_tokens", "output_tokens"))
            prompt, output = paid_prompt if prompt is None else prompt, paid_output if output is None else output
        self._sink.usage(Usage(prompt, output, reasoning, as_integer(usage.get("cached_tokens")), raw=usage))


def _report_event_fields(event: Json, sink: Sink) -> None:
    """Report the fields of an event, or of a body, that this wire does not have."""
    report_unknown_fields(sink, event, EVENT_FIELDS)
    report_unknown_fields(sink, event.get("delta"), DELTA_FIELDS, "delta.")
    message = _message_in(event) or _as_object(event.get("message"))
    report_unknown_fields(sink, message, MESSAGE_FIELDS, "message.")
    for _, call in _numbered(message.get("tool_calls")):
        function = _as_object(call).get("function")
        if isinstance(function, dict):  # another call is unknown as a whole, as is a part below
            report_unknown_fields(sink, call, CALL_FIELDS, "tool_call.")
            report_unknown_fields(sink, function, FUNCTION_FIELDS, "tool_call.function.")
    for _, part in _numbered(message.get("content")):
        if _as_object(part).keys() & {"text", "thinking"}:
            report_unknown_fields(sink, part, CONTENT_FIELDS, "content.")


def _message_in(event: Json) -> Json | None:
    """Return the message of an event; None if it has none."""
    delta = event.get("delta")
    message = delta.get("message") if isinstance(delta, dict) else None
    return message if isinstance(message, dict) else None


def _numbered(value: Any) -> Iterator[tuple[int, Any]]:
    """Yield the numbered values of a field that is one object in a stream and a list of objects in a body.

    Empty ones are padding: as events they would take 40 times their bytes.
    """
    if isinstance(value, list):
        yield from ((number, item) for number, item in enumerate(value) if item)
    elif value is not None and value != "":
        yield 0, value


def _as_object(value: Any) -> Json:
    """Return a value if it is an object, else an empty object."""
    return value if isinstance(value, dict) else {}
