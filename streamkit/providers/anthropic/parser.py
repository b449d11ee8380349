"""Anthropic Messages chunks to what they say.

The short path is a text, thinking or argument delta of a block that has started: one decode, a few attributes, one
call of the sink. All else of blocks is ``blocks``'s business; here is what concerns the message: who answers, usage,
why it stopped, errors, and messages that come whole.

It does not know of canonical ids, of JSON being complete, of history or of I/O. The later room for Bedrock's
InvokeModel, whose frames hold these same events, reads them with this parser.
"""

from __future__ import annotations

from typing import Any

import msgspec

from streamkit.calls import StreamError, Usage
from streamkit.events import NormalizedToolChunk
from streamkit.providers.anthropic.content_blocks import BlockKind, ContentBlockReader
from streamkit.providers.anthropic.schema import DECODER, STOP_REASONS, Event, Json
from streamkit.providers.decoding import as_integer, as_text, compact_json, convert, excerpt, read_json
from streamkit.providers.provider import Sink, Traits

__all__ = ["AnthropicParser", "create_parser"]

_decode = DECODER.decode
_TEXT, _THINKING, _CALL = BlockKind.TEXT, BlockKind.THINKING, BlockKind.CALL
_WORDS_OF_AN_END = frozenset({"type", "delta", "usage", "stop_reason", "stop_details", "container"})


def create_parser(sink: Sink, traits: Traits) -> AnthropicParser:
    """Return a parser for one turn that reports to ``sink``."""
    return AnthropicParser(sink)


class AnthropicParser:
    """Reads one Anthropic Messages stream, or a body of the not streamed kind."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._choice = sink.choice(0)
        self._text = self._choice.text
        self._reasoning = self._choice.reasoning
        self._tool = self._choice.tool
        self._blocks = ContentBlockReader(sink)
        self._block_at = self._blocks.by_index.get
        self._opening: Json | None = None  # the message of the last message_start
        self._figures: Json = {}  # of each field of usage the last report that says something
        self._container: Any = None

    def frame(self, name: bytes, data: bytes) -> None:
        """One SSE event."""
        try:
            event = _decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self._parse_slow(name, data)
            return
        if event.type == "content_block_delta":
            self._delta(event, data)
        else:
            self._parse_slow(name, data)

    def chunk(self, data: dict[str, Any]) -> None:
        """One event as plain data, or a whole message."""
        if data.get("type") == "content_block_delta":
            self._delta(convert(data, Event, self._sink) or Event(), data)
        else:
            self._event(data)

    def end(self) -> None:
        """The stream is over: a block whose stop never came stands as it is."""
        self._end_blocks()

    def _delta(self, event: Event, source: bytes | Json) -> None:
        delta, index = event.delta, event.index
        if delta is not None and index.__class__ is int:
            block = self._block_at(index)
            if block is not None:
                name, kind = delta.type, block.kind
                if name == "text_delta":
                    text = delta.text
                    if kind is _TEXT and text.__class__ is str and text:
                        self._text(text, block.key)
                        return
                elif name == "input_json_delta":
                    text = delta.partial_json
                    if kind is _CALL and text.__class__ is str and text:
                        block.settled = True  # arguments came: the input of the block's start does not count
                        self._tool(NormalizedToolChunk("delta", None, None, None, text, block.key))
                        return
                elif name == "thinking_delta":
                    text = delta.thinking
                    if kind is _THINKING and text.__class__ is str and text and delta.signature is None:
                        self._reasoning(text, "text", block.key)
                        return
        self._blocks.delta(event, source)

    # ------------------------------------------------------------ frames that are not a plain delta

    def _parse_slow(self, name: bytes, data: bytes) -> None:
        """A frame that is not a plain delta, or not what the strict decoder takes."""
        try:
            raw = read_json(data)
        except (ValueError, RecursionError) as error:
            if name == b"error":  # a relay's own words
                self._fail(excerpt(data))
            elif not data.strip():
                self._sink.heartbeat()  # "data:" alone, which some gateways send to keep the connection
            elif data.strip() == b"[DONE]":  # OpenRouter ends its Anthropic streams as it ends its chat streams
                self._sink.terminate()
            elif isinstance(error, RecursionError):
                self._sink.fail(StreamError("limit_exceeded", "a frame's JSON is nested too deeply", excerpt(data)))
            else:
                self._sink.fail(StreamError("protocol_error", f"a frame is no JSON ({error})", excerpt(data)))
            return
        if name == b"error":
            self._fail(raw.get("error") or raw if isinstance(raw, dict) else raw)
        elif isinstance(raw, dict):
            if name and raw.get("type") is None:
                raw["type"] = name.decode("utf-8", "replace")  # a relay that names its events in SSE alone
            self.chunk(raw)
        else:
            self._sink.unknown(raw)

    def _event(self, raw: Json) -> None:
        kind = raw.get("type")
        if kind == "content_block_start":
            block = raw.get("content_block")
            if isinstance(block, dict):
                self._blocks.start(raw.get("index"), block)
            else:
                self._sink.unknown(raw)
        elif kind == "content_block_stop":
            self._blocks.stop(raw.get("index"), raw)
        elif kind == "ping":
            self._sink.heartbeat()
        elif kind == "message_start":
            self._message_start(raw)
        elif kind == "message_delta":
            self._message_delta(raw)
        elif kind == "message_stop":
            metrics = raw.get("amazon-bedrock-invocationMetrics")
            if metrics:  # Bedrock's own count of the same tokens, kept beside them
                self._report({"amazon-bedrock-invocationMetrics": metrics})
            self._terminate()
        elif kind == "message" or (kind is None and raw.get("role") == "assistant" and "content" in raw):
            self._message(raw)
            self._terminate()
        elif kind == "error" or raw.get("error"):
            self._fail(raw.get("error") or raw)
        else:
            self._sink.unknown(raw)

    def _fail(self, error: Any) -> None:
        said = as_text(error.get("message")) or as_text(error.get("type")) if isinstance(error, dict) else None
        message = said or as_text(error) or "the provider reported an error"
        self._sink.fail(StreamError("provider_error", message, raw=error))

    # ------------------------------------------------------------ the message

    def _message_start(self, raw: Json) -> None:
        message, before = raw.get("message"), self._opening
        if not isinstance(message, dict):  # proxies before Bedrock send null (pydantic/pydantic-ai#5818)
            if message is not None:
                self._sink.unknown(raw)
            return
        if before is not None and _is_same(message, before):
            return
        if before is not None:
            message_id, id_before = as_text(message.get("id")), as_text(before.get("id"))
            if message_id is not None and message_id == id_before:
                self._report(message.get("usage"))
                return
            self._blocks.restart()
            self._sink.warn("message_restarted", f"message {message_id} began within {id_before}; both are kept")
        self._opening = message
        self._message(message)

    def _message(self, message: Json) -> None:
        """A message as it stands: empty where a stream begins, whole in a body that was not streamed."""
        self._sink.identify(as_text(message.get("id")), as_text(message.get("model")))
        content = message.get("content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        for index, block in enumerate(content if isinstance(content, list) else ()):
            if isinstance(block, dict):
                self._blocks.start(index, block, whole=True)
                self._blocks.stop(index, block)
            else:
                self._sink.unknown(block)
        self._report(message.get("usage"))
        self._end(message)

    def _message_delta(self, raw: Json) -> None:
        given = raw.get("delta")
        delta: Json = given if isinstance(given, dict) else {}
        self._report(raw.get("usage"))
        self._end(delta)
        more = any(value for name, value in (*delta.items(), *raw.items()) if name not in _WORDS_OF_AN_END)
        if more or (given and not delta) or self._container is not None:
            self._sink.unknown(raw)  # which stop sequence it was, context_management: there is no word for them

    def _end(self, ending: Json) -> None:
        """What a message says of its end."""
        container = ending.get("container")
        if container:  # its expiry is left out: SDK objects turn it into another form than the wire's
            self._container = {"id": container.get("id")} if isinstance(container, dict) else container
        details = ending.get("stop_details")
        if details:
            if isinstance(details, dict):
                explanation = as_text(details.get("explanation"))
                if explanation is not None:
                    self._choice.refusal(explanation)
                details = dict(
                    sorted(details.items(), key=lambda item: str(item[0]))
                )  # SDK objects have their own order
            self._sink.warn("stop_details", f"the provider says of its stop: {_written(details)}")
        reason = ending.get("stop_reason")
        if reason is None or reason == "":
            return
        self._end_blocks()
        if isinstance(reason, str):
            self._choice.finish(reason, STOP_REASONS.get(reason, "other"))
        else:
            self._choice.finish(reason if reason.__class__ is int else _written(reason), "other")

    def _terminate(self) -> None:
        self._end_blocks()
        self._sink.terminate()

    def _end_blocks(self) -> None:
        self._blocks.end()
        if self._container is not None:
            # Code that waits for a client's tool goes on in this container: the next request must name it, so it is
            # kept with the call (https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/programmatic-tool-calling).
            key = self._blocks.last_call_key()
            if key is not None:
                self._choice.add_metadata({"container": self._container}, key)
                self._container = None

    def _report(self, usage: Any) -> None:
        """Figures are cumulative: a field's last report stands, and a field that is not said again stays as it was.

        The vendor tells the parts of the prompt apart (``input_tokens`` is what was neither read from the cache nor
        written to it), so the sum is made of the merged fields.
        """
        if not isinstance(usage, dict):
            return
        known = self._figures
        for name, value in usage.items():
            if value is not None and (value or not known.get(name)):
                known[name] = value
        read, written = (
            as_integer(known.get("cache_read_input_tokens")),
            as_integer(known.get("cache_creation_input_tokens")),
        )
        prompt = [tokens for tokens in (as_integer(known.get("input_tokens")), read, written) if tokens is not None]
        details = known.get("output_tokens_details")
        reasoning = as_integer(details.get("thinking_tokens")) if isinstance(details, dict) else None
        self._sink.usage(
            Usage(
                sum(prompt) if prompt else None,
                as_integer(known.get("output_tokens")),
                reasoning,
                read,
                written,
                dict(known),
            )
        )


def _is_same(one: Json, other: Json) -> bool:
    try:
        return one == other
    except RecursionError:
        return False


def _written(value: Any) -> str:
    try:
        return compact_json(value)
    except (RecursionError, TypeError, ValueError):
        return "something nested too deeply"
