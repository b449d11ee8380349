"""The parser of Anthropic Messages streams.

The fast path is a text, thinking or argument delta of a block that has started: one decode, a few attributes, one call
of the sink. All else about blocks is in ``content_blocks``. This module reads what concerns the message: its id and
model, usage, stop reason, errors, and messages that come complete. ``schema`` has a message's other fields.

It must not depend on canonical ids, on the completeness of JSON, on history or on I/O. ``bedrock_invoke``, whose frames
contain these same events, uses this parser.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from streamkit.calls import StreamError, Usage
from streamkit.ids import normalize_index
from streamkit.json_text import json_size, measure_encoded
from streamkit.providers.anthropic.content_blocks import (
    CALL,
    OPAQUE,
    SERVER_CALL,
    TEXT,
    THINKING,
    AnthropicBlockReader,
)
from streamkit.providers.anthropic.schema import (
    DECODER,
    EVENT_DECODER,
    EVENT_FIELDS,
    INVOCATION_METRICS,
    BlockStart,
    BlockStop,
    InputJsonDelta,
    Json,
    MessageDelta,
    MessageStart,
    MessageStop,
    PlainDelta,
    PlainEvent,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
    encode_message,
    facts_of,
    keep_facts,
)
from streamkit.providers.anthropic.traits import FINISH_REASONS
from streamkit.providers.decoding.decoding import (
    as_integer,
    as_text,
    excerpt,
    frame_error,
    json_or_placeholder,
    read_counts,
    read_json,
    report_unknown_fields,
)
from streamkit.providers.decoding.finish_reasons import is_reason, read_finish_reason
from streamkit.providers.provider import Sink, Traits

__all__ = ["AnthropicParser", "create_parser"]

_decode, _decode_event = DECODER.decode, EVENT_DECODER.decode
_MOST_MERGED = 8192  # what a report of usage may count and still be merged with the next one
_COUNTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
_PINGS = (b"", b"ping")  # some gateways send an empty "data:", or the name of the event as its data


def create_parser(sink: Sink, traits: Traits) -> AnthropicParser:
    """Return a parser for one turn that reports to ``sink``."""
    return AnthropicParser(sink)


class AnthropicParser(AnthropicBlockReader):
    """A parser of one Anthropic Messages stream or of one message that was not streamed."""

    __slots__ = (
        "_billed",
        "_message",
        "_message_id",
        "_other_models",
        "_usage_fields",
    )

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._choice = sink.choice(0)
        self._by_index = {}
        self._latest = self._open_opaque = self._server_tool_names = None
        self._block_count = 0
        self._message: int | Json | None = None  # a hash of the last one that started: a tenth of its memory
        self._message_id: str | None = None
        self._usage_fields: Json = {}  # of each the last value
        self._billed: Sequence[int] = ()  # the counts of the last iterations that were reported
        self._other_models: tuple[str, ...] = ()  # that a warning has named

    def frame(self, name: bytes, data: bytes) -> None:
        """Read one SSE event."""
        event: PlainEvent | None
        try:
            if name == b"content_block_delta":
                event = _decode(data)
            else:
                event = None if name == b"error" else _decode_event(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            event = None
        if event is None or not self._read_plain(event):
            self._parse_slow(name, data)

    def chunk(self, data: dict[str, Any]) -> None:
        """Read one event as plain data, or a complete message."""
        # A delta without a type is read like one as bytes, where only the event's name or its form shows what it is.
        if data.get("type", "content_block_delta") == "content_block_delta":
            try:
                event = msgspec.convert(data, PlainDelta)
            except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
                pass
            else:
                if self._read_plain(event):
                    return
        if data.get("type") == "content_block_delta":
            self._read_delta(data)
        else:
            self._event(data)

    def _read_plain(self, event: PlainEvent) -> bool:
        """Report an event without anything unusual; return False if it has anything, or if its block is not known."""
        if event.__class__ is PlainDelta:
            block = self._by_index.get(event.index)
            if block is None:
                return False
            delta, kind = event.delta, block.kind
            if delta.__class__ is TextDelta:
                text = delta.text
                if kind == TEXT and text:
                    self._choice.text(text, block.key)
                    return True
            elif delta.__class__ is InputJsonDelta:
                text = delta.partial_json
                if kind == CALL and text:
                    block.is_finalized = True  # the input of the block's start does not count once arguments come
                    self._choice.arguments(text, block.key)
                    return True
                if kind == SERVER_CALL and text and not block.is_finalized:
                    self._add_server_arguments(text, block)
                    return True
            elif delta.__class__ is ThinkingDelta:
                text = delta.thinking
                if kind == THINKING and text:
                    self._choice.reasoning(text, "text", block.key)
                    return True
            elif isinstance(delta, SignatureDelta):
                if kind == THINKING:
                    self._add_signature(block, delta.signature)
                return kind == THINKING
            return not text and kind != OPAQUE
        if event.__class__ is BlockStop:
            return self._stop_block(event.index)
        if event.__class__ is BlockStart:
            self._start_block(event.index, event.content_block)
        elif event.__class__ is MessageStart:
            self._start_message(event.message)
        elif event.__class__ is MessageDelta:
            self._report_usage(event.usage)
            context = event.context_management
            fields = event.delta if context is None else {"context_management": context, **event.delta}
            self._read_end(fields, facts_of(fields))
        elif event.__class__ is MessageStop:
            self._stop_message(event.metrics)
        return True

    # ------------------------------------------------------------ frames that are not a plain event

    def _parse_slow(self, name: bytes, data: bytes) -> None:
        """Read a frame that is not a plain delta, or that the strict decoder refuses."""
        try:
            raw = read_json(data)
        except (ValueError, RecursionError) as error:
            if name == b"error":  # the text of a relay
                self._fail(excerpt(data))
            elif name == b"ping" or data.strip() in _PINGS:
                pass  # other wires have pings too, so it shows nothing
            elif data.strip() == b"[DONE]":  # OpenRouter ends its Anthropic streams as it ends its chat streams
                self._sink.terminate()
            elif data.strip():  # not "data:" alone, which some gateways send to keep the connection
                self._sink.fail(frame_error(error, data))
            return
        if name == b"error":
            self._fail(raw.get("error") or raw if isinstance(raw, dict) else raw)
        elif isinstance(raw, dict):
            if name and raw.get("type") is None:
                raw["type"] = name.decode("utf-8", "replace")  # of a relay that has the event's name in SSE alone
            if raw.get("type") == "content_block_delta":
                self._read_delta(raw)
            else:
                self.chunk(raw)
        elif name != b"ping":
            self._sink.unknown(raw)

    def _event(self, raw: Json) -> None:
        """Read an event as plain data, except a ``content_block_delta``, or a complete message."""
        event_type = raw.get("type")
        known = EVENT_FIELDS.get(event_type) if isinstance(event_type, str) else None
        if known is not None:
            report_unknown_fields(self._sink, raw, known)
        if event_type == "content_block_start":
            block = raw.get("content_block")
            if isinstance(block, dict):
                self._start_block(normalize_index(raw.get("index")), block)
            else:
                self._sink.unknown(raw)
        elif event_type == "content_block_stop":
            if not self._stop_block(normalize_index(raw.get("index"))):
                self._sink.unknown(raw)
        elif event_type == "ping":
            pass  # it shows nothing: other wires have it too
        elif event_type == "message_start":
            message = raw.get("message")
            self._report_usage(raw.get("usage"))
            if isinstance(message, dict):
                self._start_message(message)
            elif message is None:  # proxies before Bedrock send null (pydantic/pydantic-ai#5818)
                self._sink.heartbeat()
            else:
                self._sink.unknown(raw)
        elif event_type == "message_delta":
            delta = raw.get("delta")
            if delta is not None and not isinstance(delta, dict):
                self._sink.unknown(raw)
            self._report_usage(raw.get("usage"))
            fields = {**raw, **delta} if isinstance(delta, dict) else raw
            self._read_end(fields, facts_of(fields))
        elif event_type == "message_stop":
            self._report_usage(raw.get("usage"))
            self._stop_message(raw.get(INVOCATION_METRICS))
        elif event_type == "message" or (event_type is None and raw.get("role") == "assistant" and "content" in raw):
            self._complete_message(raw)
        elif event_type == "error" or raw.get("error"):
            self._fail(raw.get("error") or raw)
        else:
            self._sink.unknown(raw)

    def _fail(self, error: Any) -> None:
        text = as_text(error.get("message")) or as_text(error.get("type")) if isinstance(error, dict) else None
        message = text or as_text(error) or "the provider reported an error"
        self._sink.fail(StreamError("provider_error", message, raw=error))

    # ------------------------------------------------------------ the message

    def _start_message(self, message: Json) -> None:
        started: int | Json
        try:
            text = encode_message(message)
            started, size = hash(text), measure_encoded(text)[0]
        except (ValueError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError):
            started, size = message, json_size(message)  # half of a surrogate pair, or nested too deeply
        previous, previous_id, message_id = self._message, self._message_id, as_text(message.get("id"))
        if previous is not None:
            with suppress(RecursionError):
                if previous == started:
                    return
            if message_id is not None and message_id == previous_id:
                self._report_usage(message.get("usage"))
                return
            self._restart()
            warning = f"message {message_id} started within message {previous_id}; both are kept"
            self._sink.warn("message_restarted", warning)
        self._sink.keep(size)
        self._message, self._message_id = started, message_id
        self._read_message(message)

    def _stop_message(self, metrics: Any) -> None:
        if metrics:  # Bedrock's own count of the same tokens, kept in the raw usage
            self._report_usage({INVOCATION_METRICS: metrics})
        self.end()
        self._sink.terminate()

    def _complete_message(self, message: Json) -> None:
        """Read a message that was not streamed, or that repeats the blocks streamed before it."""
        message_id = as_text(message.get("id"))
        if self._by_index and (message_id is None or message_id == self._message_id):
            message = {**message, "content": None}
        elif self._by_index:
            self._start_message(message)
            self.end()
            self._sink.terminate()
            return
        self._read_message(message)
        self.end()
        self._sink.terminate()

    def _read_message(self, message: Json) -> None:
        """Read a message: empty at the start of a stream, complete in a body that was not streamed."""
        facts = facts_of(message)
        self._sink.identify(as_text(message.get("id")), as_text(message.get("model")), facts)
        content = message.get("content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        for index, block in enumerate(content if isinstance(content, list) else ()):
            if isinstance(block, dict) and block:  # an empty one takes 200 times its memory as a block
                self._start_block(index, block, is_complete=True)
                self._stop_block(index)
            else:
                self._sink.unknown(block)
        self._report_usage(message.get("usage"))
        if facts or message.get("stop_reason"):
            self._read_end(message, facts)

    def _read_end(self, fields: Json, facts: Json) -> None:
        """Read the fields of a message or a ``message_delta`` that concern the message's end, and keep its facts."""
        if facts:
            keep_facts(facts, self._sink)
        details = fields.get("stop_details")
        if details:
            if isinstance(details, dict):
                if (explanation := as_text(details.get("explanation"))) is not None:
                    self._choice.refusal(explanation)
                details = dict(sorted(details.items(), key=lambda item: str(item[0])))  # SDK objects reorder the fields
            self._sink.warn("stop_details", f"the provider sent details of its stop: {json_or_placeholder(details)}")
        reason = fields.get("stop_reason")
        if not is_reason(reason):
            return
        self.end()
        self._choice.finish(*read_finish_reason(reason, FINISH_REASONS))

    def _report_usage(self, usage: Any) -> None:
        """Merge a report of usage into the earlier ones and pass the result to the sink.

        Of each field the last value counts, and a field that is absent keeps its value. The vendor counts the parts of
        the prompt separately (``input_tokens`` is what was neither read from the cache nor written to it), so the
        prompt's total is the sum of the merged fields.
        """
        if not isinstance(usage, dict):
            return
        names, known = _COUNTS, self._usage_fields
        if known and json_size(known) > _MOST_MERGED:  # a copy of it with each small report would be quadratic
            known = {name: known[name] for name in names if name in known}
        # A new dict, because earlier reports have the earlier fields.
        if known or None in usage.values():
            sent = {name: value for name, value in usage.items() if value or not (value is None or known.get(name))}
            fields = {**known, **sent}
        else:
            fields = usage.copy()
        self._usage_fields = fields
        counts = read_counts(fields, names)
        if usage.get("iterations"):
            own = [read_counts(each, names) for each in self._own_iterations(usage["iterations"])]
            self._billed = [sum([count or 0 for count in counted]) for counted in zip(*own, strict=True)]
        for position, billed in enumerate(self._billed):
            if billed > (counts[position] or 0):
                counts[position] = billed
        prompt, cache_read, cache_write, output = counts
        if prompt is not None or cache_read is not None or cache_write is not None:
            prompt = (prompt or 0) + (cache_read or 0) + (cache_write or 0)
        details = fields.get("output_tokens_details")
        thinking = as_integer(details.get("thinking_tokens")) if isinstance(details, dict) else None
        if tier := fields.get("service_tier"):
            self._sink.add_response_metadata({"service_tier": tier})
        self._sink.usage(Usage(prompt, output, thinking, cache_read, cache_write, fields))

    def _own_iterations(self, iterations: Any) -> list[Json]:
        """Return the iterations of the response's model, and warn once of each other one, such as an advisor.

        Their sum is what is billed: the counts of the message are without its compactions
        (https://platform.claude.com/docs/en/build-with-claude/compaction). An early report has only the first
        iterations, so that a larger count of the message stands.
        """
        own: list[Json] = []
        for each in iterations if isinstance(iterations, list) else ():
            model = as_text(each.get("model")) if isinstance(each, dict) else None
            if model is not None and model != self._sink.model:
                if model not in self._other_models:
                    self._other_models += (model,)
                    self._sink.warn(
                        "other_model_usage",
                        f"turn.usage is without the tokens of {model[:80]}, asked by the provider; its raw has them",
                    )
            elif isinstance(each, dict):
                own.append(each)
        return own
