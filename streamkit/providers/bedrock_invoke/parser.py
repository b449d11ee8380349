"""The parser of InvokeModelWithResponseStream: the events of a model's vendor in Amazon's frames.

A frame ``chunk`` is ``{"bytes": base64 of one event, "p": padding}``, and as boto3 yields it
``{"chunk": {"bytes": b"..."}}``. Events that are already unpacked, and a message that was not streamed, are read
directly. This module unpacks events and passes them to the parser of their format, which the first event shows
(https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters.html):

- Anthropic's events, without a second decoding;
- chunks of Chat Completions: gpt-oss, Qwen, DeepSeek, Mistral and others;
- the events of ConverseStream: Amazon's Nova;
- Llama's texts.

The last event of every format has Bedrock's own count of tokens. It is used where the format has none.
"""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from streamkit.calls import FinishReason, StreamError, Usage
from streamkit.providers.anthropic import parser as anthropic_parser
from streamkit.providers.anthropic.schema import INVOCATION_METRICS
from streamkit.providers.decoding.decoding import as_integer, excerpt, frame_error, read_json
from streamkit.providers.decoding.finish_reasons import is_reason, read_finish_reason
from streamkit.providers.provider import Parser, Sink, Traits
from streamkit.providers.writing import aws_frames

__all__ = ["BedrockInvokeParser", "create_parser"]


class InvokeChunk(Struct, gc=False):
    """The body of a frame; msgspec decodes the base64."""

    event: bytes = field(name="bytes")


_decode = msgspec.json.Decoder(InvokeChunk).decode


def create_parser(sink: Sink, traits: Traits) -> BedrockInvokeParser:
    """Return a parser for one turn that reports to ``sink``."""
    return BedrockInvokeParser(sink, traits)


class BedrockInvokeParser:
    """A parser of one stream of a model's events in Amazon's frames."""

    def __init__(self, sink: Sink, traits: Traits) -> None:
        self._sink = sink
        self._traits = traits
        self._inner: Parser | None = None  # from the first event on
        self._inner_frame: Callable[[bytes, bytes], None] | None = None  # Anthropic's, once its events are recognized
        self._has_usage = False

    def frame(self, name: bytes, data: bytes) -> None:
        """Read one frame; one without a name is a chunk or an event as JSON."""
        if name == b"chunk":
            try:
                event = _decode(data).event
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                self._parse_slow(name, data)
            else:
                if self._inner_frame is not None:
                    self._inner_frame(b"", event)
                else:
                    self._read_event(event)
        else:
            self._parse_slow(name, data)

    def chunk(self, data: dict[str, Any]) -> None:
        """Read one chunk as boto3 yields it, one of Anthropic's events, or a complete message."""
        is_frame = False
        for name, body in data.items():
            if name == "chunk" and "type" not in data:
                is_frame = True
                self._unpack(body)
            elif aws_frames.is_exception(name):
                is_frame = True
                self._sink.fail(aws_frames.exception_to_error(name, body))
        if is_frame:
            return
        error = aws_frames.error_of_body(data)
        if error is not None:
            self._sink.fail(error)
        else:
            self._pass_on(data)

    def end(self) -> None:
        """Finalize the blocks that have no stop event when the stream ends."""
        if self._inner is not None:
            self._inner.end()

    def _read_event(self, event: bytes) -> None:
        """Read the first event, or one in a form that the fast path does not have, or that is not Anthropic's."""
        if self._inner_frame is not None:
            self._inner_frame(b"", event)
            return
        try:
            raw = read_json(event)
        except (ValueError, RecursionError) as error:
            self._sink.fail(frame_error(error, event))
            return
        if isinstance(raw, dict):
            self._pass_on(raw)
        else:
            self._sink.unknown(raw)

    def _pass_on(self, event: dict[str, Any]) -> None:
        """Pass an event to the parser of its format, which the first one decides."""
        inner = self._inner
        if inner is None:
            inner = self._inner = _parser_for(event, self._sink, self._traits)
            if isinstance(inner, anthropic_parser.AnthropicParser):
                self._inner_frame = inner.frame
        if isinstance(inner, anthropic_parser.AnthropicParser):
            inner.chunk(event)
            return
        metrics = event.get(INVOCATION_METRICS)
        self._has_usage = self._has_usage or bool(event.get("usage") or event.get("metadata"))
        if isinstance(metrics, dict):
            event = {name: value for name, value in event.items() if name != INVOCATION_METRICS}
            if not self._has_usage:
                prompt, output = [as_integer(metrics.get(name)) for name in ("inputTokenCount", "outputTokenCount")]
                self._sink.usage(Usage(prompt, output, raw={INVOCATION_METRICS: metrics}))
        choices = event.get("choices")
        if isinstance(choices, list):
            event = {**event, "choices": [_with_finish_reason(choice) for choice in choices]}
        if event:
            inner.chunk(event)

    def _unpack(self, body: Any) -> None:
        packed = body.get("bytes") if isinstance(body, dict) else None
        if isinstance(packed, str):
            try:
                packed = a2b_base64(packed)
            except ValueError:
                self._sink.fail(
                    StreamError("protocol_error", "a chunk's bytes are not valid base64", raw=excerpt(packed))
                )
                return
        if isinstance(packed, (bytes, bytearray)):
            self._read_event(bytes(packed))
        else:
            self._sink.unknown({"chunk": body})

    def _parse_slow(self, name: bytes, data: bytes) -> None:
        if not name and self._inner is not None and data.strip() == b"[DONE]":  # of a gateway, in SSE
            self._sink.terminate()
            return
        raw, error = aws_frames.read_frame(name, data)
        if error is not None:
            self._sink.fail(error)
        elif name == b"chunk":
            self._unpack(raw)
        elif name:
            self._sink.unknown({name.decode("utf-8", "replace"): raw})
        elif isinstance(raw, dict):
            self.chunk(raw)
        else:
            self._sink.unknown(raw)


# ---------------------------------------------------------------- the formats of other vendors' models

_CONVERSE_EVENTS: Final = frozenset(
    {"messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata", "output"}
)


def _parser_for(event: dict[str, Any], sink: Sink, traits: Traits) -> Parser:
    """Return the parser of a stream that begins with this event; Anthropic's if it is of no known format."""
    if "choices" in event:
        from streamkit.providers.openai_chat.parser import create_parser as create_chat_parser

        return create_chat_parser(sink, traits)
    if "generation" in event:
        return _LlamaParser(sink)
    if not _CONVERSE_EVENTS.isdisjoint(event):
        from streamkit.providers.bedrock_converse.parser import create_parser as create_converse_parser

        return create_converse_parser(sink, traits)
    return anthropic_parser.create_parser(sink, traits)


def _with_finish_reason(choice: Any) -> Any:
    """Return a choice whose finish reason has the name of Chat Completions.

    DeepSeek's and Mistral's models have ``stop_reason``:
    https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-deepseek.html,
    https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-mistral-chat-completion.html
    """
    if not isinstance(choice, dict) or "stop_reason" not in choice or choice.get("finish_reason") is not None:
        return choice
    renamed = {name: value for name, value in choice.items() if name != "stop_reason"}
    return {**renamed, "finish_reason": choice["stop_reason"]}


class _LlamaParser:
    """A parser of ``{"generation", "prompt_token_count", "generation_token_count", "stop_reason"}``, streamed or not.

    https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-meta.html
    """

    _FINISH_REASONS: Final[dict[str, FinishReason]] = {"stop": "stop", "length": "length"}

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._counts: dict[str, Any] = {}

    def frame(self, name: bytes, data: bytes) -> None:
        """Read one event as bytes."""
        self.chunk(read_json(data))

    def chunk(self, data: dict[str, Any]) -> None:
        """Read one event, or a complete body."""
        text = data.get("generation")
        if text is not None and not isinstance(text, str):
            self._sink.unknown(data)
            return
        self._sink.heartbeat()
        if text:
            self._sink.choice(0).text(text)
        for name in ("prompt_token_count", "generation_token_count"):
            if data.get(name) is not None:
                self._counts[name] = data[name]
        if is_reason(reason := data.get("stop_reason")):
            self._sink.choice(0).finish(*read_finish_reason(reason, self._FINISH_REASONS))
            self.end()
            self._sink.terminate()

    def end(self) -> None:
        """Report the counts of tokens, which the first and the last event have."""
        counts, self._counts = self._counts, {}
        if counts:
            prompt, output = [as_integer(counts.get(f"{name}_token_count")) for name in ("prompt", "generation")]
            self._sink.usage(Usage(prompt, output, raw=counts))
