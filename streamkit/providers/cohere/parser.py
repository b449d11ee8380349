"""Cohere v2 chat chunks to what they say.

The short path is a piece of text, of thinking, of the tool plan or of a call's arguments in the form that the vendor
sends: one decode, a few attributes, one call of the sink. All else is read as plain data, so that a field of another
shape than it should have costs that field and not the turn.

It does not know of canonical ids, of JSON being complete, of history or of I/O.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from types import NoneType
from typing import Any

import msgspec

from streamkit.calls import StreamError, Usage
from streamkit.events import NormalizedToolChunk
from streamkit.providers.cohere.schema import DECODER, FINISH_REASONS, Json
from streamkit.providers.decoding import as_integer, as_text, compact_json, error_message, excerpt, read_json
from streamkit.providers.provider import Sink, Traits

__all__ = ["CohereParser", "create_parser"]

_decode = DECODER.decode

#: The one field of the message that an event brings a piece of.
_FIELD_OF_EVENT = {
    "content-start": "content",
    "content-delta": "content",
    "tool-plan-delta": "tool_plan",
    "tool-call-start": "tool_calls",
    "tool-call-delta": "tool_calls",
    "citation-start": "citations",
}
#: The kinds of content there are; a delta does not say which it is.
_CONTENTS = (None, "", "text", "thinking")


def create_parser(sink: Sink, traits: Traits) -> CohereParser:
    """Return a parser for one turn that reports to ``sink``."""
    return CohereParser(sink)


class CohereParser:
    """Reads one Cohere v2 chat stream, or a body of the not streamed kind."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._choice = sink.choice(0)
        self._text = self._choice.text
        self._reasoning = self._choice.reasoning
        self._tool = self._choice.tool

    def frame(self, name: bytes, data: bytes) -> None:
        """One SSE event."""
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
                if content is not None and index.__class__ is int:
                    text, thinking = content.text, content.thinking
                    if thinking is None and text.__class__ is str and text:
                        self._text(text, ("content", index))
                        return
                    if text is None and thinking.__class__ is str and thinking:
                        self._reasoning(thinking, "text", ("content", index))
                        return
            elif kind == "tool-call-delta":
                call = message.tool_calls
                if call is not None and call.id is None and index.__class__ is int:
                    function = call.function
                    if function is not None and function.name is None:
                        text = function.arguments
                        if text.__class__ is str and text:
                            self._tool(NormalizedToolChunk("delta", None, None, None, text, ("call", index)))
                            return
            elif kind == "tool-plan-delta":
                text = message.tool_plan
                if text.__class__ is str and text:
                    self._reasoning(text, "plan")
                    return
        self._parse_slow(name, data)

    def end(self) -> None:
        """The stream is over; nothing waits for that here."""

    def chunk(self, data: dict[str, Any]) -> None:
        """One event as plain data, or a whole body."""
        kind = data.get("type")
        field = _FIELD_OF_EVENT.get(kind) if isinstance(kind, str) else None
        if field is not None:
            message = _message_of(data)
            if message is None:
                self._sink.unknown(data)
            else:
                index, begins = _label(data.get("index")), kind == "tool-call-start"
                self._message({field: message.get(field)}, index, begins=begins)
        elif kind == "content-end":
            self._choice.end_block(("content", _label(data.get("index"))))
        elif kind == "tool-call-end":
            self._choice.end_block(("call", _label(data.get("index"))))
        elif kind == "citation-end":
            self._sink.heartbeat()
        elif kind == "message-start":
            self._sink.identify(as_text(data.get("id")), None)
            self._message(_message_of(data) or {}, 0, begins=True, whole=True)
        elif kind == "message-end":
            self._sink.identify(as_text(data.get("id")), None)
            delta = data.get("delta")
            self._end({**data, **delta} if isinstance(delta, dict) else data)
        elif kind is None and isinstance(data.get("message"), dict):
            self._sink.identify(as_text(data.get("id")), None)
            self._message(data["message"], 0, begins=True, whole=True)
            self._end(data)
        elif kind == "error" or data.get("error") or (kind is None and isinstance(data.get("message"), str)):
            self._fail(data)
        else:
            self._sink.unknown(data)  # debug, too: the prompt as the model saw it, for which there is no word

    # ------------------------------------------------------------ frames that are not a plain delta

    def _parse_slow(self, name: bytes, data: bytes) -> None:
        """A frame that is not a plain delta, or not what the strict decoder takes."""
        try:
            raw = read_json(data)
        except RecursionError:
            self._sink.fail(StreamError("limit_exceeded", "a frame's JSON is nested too deeply", excerpt(data)))
            return
        except ValueError as error:
            if data.strip() == b"[DONE]":
                self._sink.terminate()
            elif name == b"error":  # a relay's own words
                self._fail({"error": excerpt(data)})
            else:
                self._sink.fail(StreamError("protocol_error", f"a frame is no JSON ({error})", excerpt(data)))
            return
        if not isinstance(raw, dict):
            self._sink.unknown(raw)
        elif name == b"error":
            self._fail(raw)
        else:
            if name and raw.get("type") is None:
                raw["type"] = name.decode("utf-8", "replace")  # a relay that names its events in SSE alone
            self.chunk(raw)

    def _message(self, message: Json, index: Hashable, *, begins: bool = False, whole: bool = False) -> None:
        """What a message has so far: one piece in a stream, nothing where that begins, all of it in a body.

        Args:
            message: the message.
            index: the event's own, under which its pieces go.
            begins: a call is a new one.
            whole: nothing of its calls will follow.
        """
        self._plan(message.get("tool_plan"))
        for number, part in _items(message.get("content")):
            self._content(part, ("content", (index, number) if number else index))
        for number, call in _items(message.get("tool_calls")):
            key = ("call", (index, number) if number else index)
            self._call(call, key, begins=begins)
            if whole:
                self._choice.end_block(key)
        for _, citation in _items(message.get("citations")):
            self._choice.citation(citation)

    def _plan(self, plan: Any) -> None:
        if isinstance(plan, str):
            if plan:
                self._reasoning(plan, "plan")
        elif plan is not None:
            self._sink.unknown({"tool_plan": plan})

    def _content(self, part: Any, key: Hashable) -> None:
        if isinstance(part, str):
            part = {"text": part}
        thinking, text = (part.get("thinking"), part.get("text")) if isinstance(part, dict) else (None, None)
        known = thinking is not None or text is not None or (isinstance(part, dict) and part.get("type") in _CONTENTS)
        if not known or not isinstance(thinking, (str, NoneType)) or not isinstance(text, (str, NoneType)):
            self._sink.unknown(part)
            return
        if thinking:
            self._reasoning(thinking, "text", key)
        if text:
            self._text(text, key)

    def _call(self, call: Any, key: Hashable, *, begins: bool) -> None:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            self._sink.unknown(call)
            return
        call_id, name, arguments = as_text(call.get("id")), as_text(function.get("name")), function.get("arguments")
        if arguments is not None and not isinstance(arguments, str):
            try:
                arguments = compact_json(arguments)
            except (RecursionError, TypeError, ValueError):
                self._sink.fail(StreamError("limit_exceeded", "a call's arguments are nested too deeply"))
                return
        if begins:
            self._tool(NormalizedToolChunk("start", call_id, name, arguments, key=key))
        elif call_id or name or arguments:
            self._tool(NormalizedToolChunk("delta", call_id, name, None, arguments, key))

    # ------------------------------------------------------------ the end

    def _end(self, ending: Json) -> None:
        """What an event or a body says of the end, which it is."""
        self._report(ending.get("usage"))
        reason = ending.get("finish_reason")
        if isinstance(reason, str) and reason:
            self._choice.finish(reason, FINISH_REASONS.get(reason, "other"))
        elif reason:
            self._choice.finish(reason if reason.__class__ is int else reason.__class__.__name__, "other")
        if ending.get("error"):  # beside it stands its error_type
            self._fail({name: value for name, value in ending.items() if str(name).startswith("error")})
        self._sink.terminate()

    def _fail(self, raw: Json) -> None:
        self._sink.fail(StreamError("provider_error", error_message(raw) or "the provider reported an error", raw))

    def _report(self, usage: Any) -> None:
        """``tokens`` counts what the model read and wrote; ``billed_units``, less, what is paid for of it."""
        if not isinstance(usage, dict) or not usage:
            return
        tokens, billed = _object(usage.get("tokens")), _object(usage.get("billed_units"))
        prompt, output = as_integer(tokens.get("input_tokens")), as_integer(tokens.get("output_tokens"))
        self._sink.usage(
            Usage(
                as_integer(billed.get("input_tokens")) if prompt is None else prompt,
                as_integer(billed.get("output_tokens")) if output is None else output,
                as_integer(tokens.get("reasoning_tokens")),
                as_integer(usage.get("cached_tokens")),
                raw=usage,
            )
        )


def _message_of(event: Json) -> Json | None:
    delta = event.get("delta")
    message = delta.get("message") if isinstance(delta, dict) else None
    return message if isinstance(message, dict) else None


def _items(value: Any) -> Iterator[tuple[int, Any]]:
    """What stands where a stream has one object and a body a list of them."""
    if isinstance(value, list):
        yield from enumerate(value)
    elif value is not None and value != "":
        yield 0, value


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _label(index: Any) -> Hashable:
    """An index as a key; they should be ints, and whatever else one is, it must not raise."""
    return index if isinstance(index, (int, float, str, NoneType)) else index.__class__.__name__
