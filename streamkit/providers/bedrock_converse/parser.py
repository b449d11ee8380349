"""The parser of Bedrock ConverseStream.

The fast path is a delta of text, arguments or reasoning in an open block: one decode, a few attributes, one call of the
sink. All else about blocks is in ``content_blocks``. This module reads what concerns the message: its stop reason,
usage, errors, and messages that come complete.

Usage follows ``messageStop``, in ``metadata``. So the reason in ``messageStop`` confirms the turn, and the turn is
terminated when both were received, in either order; a stream that ends without ``metadata`` is complete too. Only a
``messageStop`` without a reason terminates by itself.

It must not depend on canonical ids, on the completeness of JSON, on history or on I/O.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from streamkit.calls import StreamError, Usage
from streamkit.providers.bedrock_converse.content_blocks import ConverseBlockReader
from streamkit.providers.bedrock_converse.schema import DECODER, Json
from streamkit.providers.bedrock_converse.traits import FINISH_REASONS, normalize_model
from streamkit.providers.decoding.decoding import as_text, error_message, read_counts, report_unknown_fields
from streamkit.providers.decoding.finish_reasons import is_reason, read_finish_reason
from streamkit.providers.provider import Sink, Traits
from streamkit.providers.writing import aws_frames
from streamkit.values.media import encode_binary

__all__ = ["BedrockConverseParser", "create_parser"]

_decode = DECODER.decode
_EVENTS = ("contentBlockDelta", "contentBlockStart", "contentBlockStop", "messageStart", "messageStop", "metadata")
#: The fields of each event; ``p`` is padding.
_EVENT_FIELDS: Final = {
    "messageStart": frozenset({"role", "p"}),
    "contentBlockStart": frozenset({"contentBlockIndex", "start", "p"}),
    "contentBlockDelta": frozenset({"contentBlockIndex", "delta", "p"}),
    "contentBlockStop": frozenset({"contentBlockIndex", "p"}),
}
#: Fields of ``messageStop``, ``metadata`` and a complete body that have a place of their own; the last is boto3's.
_READ_ELSEWHERE: Final = frozenset({"stopReason", "usage", "p", "output", "ResponseMetadata"})
#: The others that the service documents (ConverseStreamMetadataEvent and MessageStopEvent in the API reference).
_METADATA: Final = frozenset({"additionalModelResponseFields", "metrics", "trace", "performanceConfig", "serviceTier"})


def create_parser(sink: Sink, traits: Traits) -> BedrockConverseParser:
    """Return a parser for one turn that reports to ``sink``."""
    return BedrockConverseParser(sink)


class BedrockConverseParser:
    """A parser of one ConverseStream, or of one response of Converse."""

    __slots__ = ("_blocks", "_choice", "_has_metadata", "_has_stop", "_sink")

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._choice = sink.choice(0)
        self._blocks = ConverseBlockReader(sink)
        self._has_stop = False  # messageStop was received
        self._has_metadata = False  # metadata was received

    def frame(self, name: bytes, data: bytes) -> None:
        """Read one event; a frame without a name is one as boto3 yields it, or a complete body."""
        if name == b"contentBlockDelta":
            try:
                event = _decode(data)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                pass
            else:
                delta, index = event.delta, event.content_block_index
                text, tool_use, reasoning = delta.text, delta.tool_use, delta.reasoning_content
                if text is not None:
                    key = self._blocks.text_keys.get(index)
                    if key is not None and tool_use is None and reasoning is None:
                        if text:  # Nova sends empty texts too
                            self._choice.text(text, key)
                        return
                elif tool_use is not None:
                    key = self._blocks.call_keys.get(index)
                    if key is not None and reasoning is None and tool_use.input:
                        self._choice.arguments(tool_use.input, key)
                        return
                elif reasoning is not None and reasoning.text:
                    key = self._blocks.reasoning_keys.get(index)
                    if key is not None:
                        self._choice.reasoning(reasoning.text, "text", key)
                        return
        raw, error = aws_frames.read_frame(name, data)
        if error is not None:
            self._sink.fail(error)
        elif name:
            self._event(name.decode("utf-8", "replace"), raw)
        elif isinstance(raw, dict):
            self.chunk(raw)
        else:
            self._sink.unknown(raw)

    def chunk(self, data: dict[str, Any]) -> None:
        """Read one event as boto3 yields it, ``{name: body}``, or a response of Converse."""
        data = encode_binary(data)
        known = [name for name in data if name in _EVENTS or aws_frames.is_exception(name)]
        for name in known:
            self._event(name, data[name])
        output = data.get("output")
        if known:
            rest = {name: value for name, value in data.items() if name not in known and name != "p"}
            if rest:
                self._sink.unknown(rest)
        elif isinstance(output, dict) and isinstance(output.get("message"), dict):
            self._complete_message(output["message"], data)
        elif (error := aws_frames.error_of_body(data)) is not None:
            self._sink.fail(error)
        elif data.get("error"):
            message = error_message(data) or "the provider reported an error"
            self._sink.fail(StreamError("provider_error", message, raw=data))
        else:
            self._sink.unknown(data)

    def end(self) -> None:
        """Finalize the blocks that have no stop event when the stream ends."""
        self._blocks.end()

    def _event(self, name: str, body: Any) -> None:
        """Read an event as plain data."""
        if not isinstance(body, dict) or name not in _EVENTS:
            if aws_frames.is_exception(name):
                self._sink.fail(aws_frames.exception_to_error(name, body))
            else:
                self._sink.unknown({name: body})
            return
        if name in _EVENT_FIELDS:
            report_unknown_fields(self._sink, body, _EVENT_FIELDS[name])
        if name == "contentBlockDelta":
            delta = body.get("delta")
            if isinstance(delta, dict):
                self._blocks.delta(body.get("contentBlockIndex"), delta, {name: body})
            else:
                self._sink.unknown({name: body})
        elif name == "contentBlockStart":
            start = body.get("start")
            if isinstance(start, dict):
                self._blocks.start(body.get("contentBlockIndex"), start)
            elif start is not None:
                self._sink.unknown({name: body})
        elif name == "contentBlockStop":
            self._blocks.stop(body.get("contentBlockIndex"))
        elif name == "messageStart":
            if self._blocks.block_count:
                self._blocks.end()
                self._sink.warn("message_restarted", "a message started inside the stream of another; both are kept")
            self._sink.heartbeat()
        elif name == "messageStop":
            self._read_stop(body)
        else:
            self._read_metadata(body)

    # ------------------------------------------------------------ the message

    def _read_stop(self, body: Json) -> None:
        self._blocks.end()
        self._keep_facts(body)
        reason = body.get("stopReason")
        self._has_stop = True
        if not is_reason(reason):
            self._sink.terminate()
            return
        self._choice.finish(*read_finish_reason(reason, FINISH_REASONS))
        if self._has_metadata:
            self._sink.terminate()

    def _keep_facts(self, body: Json) -> None:
        """Keep the fields that describe the response: a guardrail's trace, metrics, the model's own fields."""
        kept = {str(name): value for name, value in body.items() if name not in _READ_ELSEWHERE and value is not None}
        report_unknown_fields(self._sink, kept, _METADATA)
        if kept:
            self._sink.add_response_metadata(kept)

    def _read_metadata(self, body: Json) -> None:
        self._has_metadata = True
        self._keep_facts(body)
        trace = body.get("trace")
        router = trace.get("promptRouter") if isinstance(trace, dict) else None
        if isinstance(router, dict):
            self._sink.identify(None, as_text(router.get("invokedModelId")))
        self._report_usage(body.get("usage"), is_streamed="output" not in body)
        if self._has_stop:
            self._sink.terminate()

    def _report_usage(self, usage: Any, *, is_streamed: bool) -> None:
        """Report the token counts.

        The service counts the parts of the prompt separately: ``inputTokens`` is what was neither read from the cache
        nor written to it, https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html. In streams of
        OpenAI's models it contains them (earendil-works/pi#8752), but not in a body (maximhq/bifrost#6942). Their total
        counts the cached tokens twice; a total that does not count them shows the same of any other model.
        """
        if not isinstance(usage, dict):
            return
        names = ("inputTokens", "outputTokens", "totalTokens", "cacheReadInputTokens", "cacheWriteInputTokens")
        prompt, output, total, cache_read, cache_write = read_counts(usage, names)
        cached = (cache_read or 0) + (cache_write or 0)
        if prompt is None:
            prompt = None if cache_read is None and cache_write is None else cached
        elif prompt < cached or not (
            total == prompt + (output or 0)
            or (is_streamed and normalize_model(self._sink.model or "").startswith("openai."))
        ):
            prompt += cached
        self._sink.usage(Usage(prompt, output, None, cache_read, cache_write, usage))

    def _complete_message(self, message: Json, body: Json) -> None:
        """Read a response of Converse, which was not streamed."""
        content = message.get("content")
        for index, block in enumerate(content if isinstance(content, list) else ()):
            if isinstance(block, dict):
                self._blocks.read_complete(index, block)
            else:
                self._sink.unknown(block)
        self._read_metadata(body)
        self._read_stop({"stopReason": body.get("stopReason")})
