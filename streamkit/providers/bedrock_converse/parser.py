"""Bedrock ConverseStream events to what they say.

The short path is a delta of text, arguments or reasoning in a block that is open: one decode, a few attributes, one
call of the sink. All else of blocks is ``blocks``'s business; here is what concerns the message: why it stopped, usage,
errors, and messages that come whole.

Usage comes behind ``messageStop``, in ``metadata``. So the reason in ``messageStop`` confirms the turn, and it is
terminated when both were there, in whichever order; a stream that ends without ``metadata`` is whole all the same. Only
a ``messageStop`` that gives no reason terminates by itself.

It does not know of canonical ids, of JSON being complete, of history or of I/O.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import msgspec

from streamkit.calls import StreamError, Usage
from streamkit.events import NormalizedToolChunk
from streamkit.providers import aws_errors
from streamkit.providers.bedrock_converse.content_blocks import ContentBlockReader
from streamkit.providers.bedrock_converse.schema import DECODER, STOP_REASONS, Json
from streamkit.providers.decoding import as_integer, as_text, compact_json, error_message, excerpt, read_json
from streamkit.providers.provider import Sink, Traits

__all__ = ["BedrockConverseParser", "create_parser"]

_decode = DECODER.decode
_EVENTS = ("contentBlockDelta", "contentBlockStart", "contentBlockStop", "messageStart", "messageStop", "metadata")


def create_parser(sink: Sink, traits: Traits) -> BedrockConverseParser:
    """Return a parser for one turn that reports to ``sink``."""
    return BedrockConverseParser(sink)


class BedrockConverseParser:
    """Reads one ConverseStream, or the answer of Converse."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._choice = sink.choice(0)
        self._text = self._choice.text
        self._reasoning = self._choice.reasoning
        self._tool = self._choice.tool
        self._blocks = ContentBlockReader(sink)
        self._text_at = self._blocks.texts.get
        self._thought_at = self._blocks.thoughts.get
        self._call_at = self._blocks.calls.get
        self._stopped = False  # messageStop was there
        self._metered = False  # metadata was there

    def frame(self, name: bytes, data: bytes) -> None:
        """One event; without a name, one as boto3 gives it, or a whole body."""
        if name == b"contentBlockDelta":
            try:
                event = _decode(data)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                self._parse_slow(name, data)
                return
            delta, index = event.delta, event.content_block_index
            if delta is not None and index.__class__ is int:
                text, tool, thought = delta.text, delta.tool_use, delta.reasoning_content
                if text is not None:
                    key = self._text_at(index)
                    if key is not None and text.__class__ is str and tool is None and thought is None:
                        if text:  # Nova sends empty ones, too
                            self._text(text, key)
                        return
                elif tool is not None:
                    text, key = tool.input, self._call_at(index)
                    if key is not None and text.__class__ is str and text and tool.tool_use_id is None:
                        self._tool(NormalizedToolChunk("delta", None, None, None, text, key))
                        return
                elif thought is not None:
                    text, key = thought.text, self._thought_at(index)
                    whole = thought.signature is None and thought.redacted_content is None
                    if key is not None and text.__class__ is str and text and whole:
                        self._reasoning(text, "text", key)
                        return
        self._parse_slow(name, data)

    def end(self) -> None:
        """The stream is over: a block whose stop never came stands as it is."""
        self._blocks.end()

    def chunk(self, data: dict[str, Any]) -> None:
        """One event as boto3 gives it, ``{name: body}``, or the answer of Converse."""
        try:
            data = _plain(data)
        except RecursionError:
            self._sink.fail(StreamError("limit_exceeded", "a chunk is nested too deeply"))
            return
        known = [name for name in data if name in _EVENTS or aws_errors.is_exception(name)]
        for name in known:
            self._event(name, data[name])
        output = data.get("output")
        if known:
            rest = {name: value for name, value in data.items() if name not in known and name != "p"}
            if rest:
                self._sink.unknown(rest)
        elif isinstance(output, dict) and isinstance(output.get("message"), dict):
            self._body(output["message"], data)
        elif (failure := aws_errors.failed_body(data)) is not None:
            self._sink.fail(failure)
        elif data.get("error"):
            self._sink.fail(
                StreamError("provider_error", error_message(data) or "the provider reported an error", data)
            )
        else:
            self._sink.unknown(data)

    # ------------------------------------------------------------ frames that are not a plain delta

    def _parse_slow(self, name: bytes, data: bytes) -> None:
        failure = aws_errors.failure_of_frame(name, data)
        if failure is not None:
            self._sink.fail(failure)
            return
        try:
            raw = read_json(data) if data else {}
        except RecursionError:
            self._sink.fail(StreamError("limit_exceeded", "a frame's JSON is nested too deeply", excerpt(data)))
            return
        except ValueError as error:
            self._sink.fail(StreamError("protocol_error", f"a frame is no JSON ({error})", excerpt(data)))
            return
        if name:
            self._event(name.decode("utf-8", "replace"), raw)
        elif isinstance(raw, dict):
            self.chunk(raw)
        else:
            self._sink.unknown(raw)

    def _event(self, name: str, body: Any) -> None:
        if aws_errors.is_exception(name):
            self._sink.fail(aws_errors.to_stream_error(name, body))
        elif not isinstance(body, dict) or name not in _EVENTS:
            self._sink.unknown({name: body})
        elif name == "contentBlockDelta":
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
            if self._blocks.begun:
                self._blocks.end()
                self._sink.warn("message_restarted", "a message began inside the stream of another; both are kept")
            self._sink.heartbeat()
        elif name == "messageStop":
            self._message_stop(body)
        else:
            self._metadata(body)

    # ------------------------------------------------------------ the message

    def _message_stop(self, body: Json) -> None:
        self._blocks.end()
        more = body.get("additionalModelResponseFields")
        if more:
            self._sink.unknown({"messageStop": {"additionalModelResponseFields": more}})
        reason = body.get("stopReason")
        self._stopped = True
        if reason is None or reason == "":
            self._sink.terminate()
            return
        if isinstance(reason, str):
            self._choice.finish(reason, STOP_REASONS.get(reason, "other"))
        else:
            self._choice.finish(reason if reason.__class__ is int else _written(reason), "other")
        if self._metered:
            self._sink.terminate()

    def _metadata(self, body: Json) -> None:
        self._metered = True
        trace = body.get("trace")
        router = trace.get("promptRouter") if isinstance(trace, dict) else None
        if isinstance(router, dict):
            self._sink.identify(None, as_text(router.get("invokedModelId")))
        self._report(body)
        if self._stopped:
            self._sink.terminate()

    def _report(self, body: Json) -> None:
        """The tokens. The service tells the parts of the prompt apart: ``inputTokens`` is what no cache was used for.

        https://docs.aws_errors.amazon.com/bedrock/latest/userguide/prompt-caching.html
        """
        usage = body.get("usage")
        if not isinstance(usage, dict):
            return
        read, written = as_integer(usage.get("cacheReadInputTokens")), as_integer(usage.get("cacheWriteInputTokens"))
        prompt = [tokens for tokens in (as_integer(usage.get("inputTokens")), read, written) if tokens is not None]
        beside = {name: value for name, value in body.items() if name not in _NOT_BESIDE and value}
        self._sink.usage(
            Usage(
                sum(prompt) if prompt else None,
                as_integer(usage.get("outputTokens")),
                None,
                read,
                written,
                {**usage, **beside},  # metrics, trace, serviceTier: what else is said of how the answer was made
            )
        )

    def _body(self, message: Json, body: Json) -> None:
        """The answer of Converse."""
        content = message.get("content")
        for index, block in enumerate(content if isinstance(content, list) else ()):
            if isinstance(block, dict):
                self._blocks.whole(index, block)
            else:
                self._sink.unknown(block)
        self._metadata(body)
        self._message_stop(body)


_NOT_BESIDE = frozenset({"usage", "p", "output", "stopReason", "additionalModelResponseFields", "ResponseMetadata"})


def _plain(value: Any) -> Any:
    """Plain data with base64 text where boto3 gives bytes; the value itself where there are none."""
    if isinstance(value, dict):
        items = {name: _plain(item) for name, item in value.items()}
        return items if any(items[name] is not item for name, item in value.items()) else value
    if isinstance(value, list):
        elements = [_plain(item) for item in value]
        return elements if any(new is not old for new, old in zip(elements, value, strict=True)) else value
    if isinstance(value, (bytes, bytearray)):
        return b64encode(value).decode()
    return value


def _written(value: Any) -> str:
    try:
        return compact_json(value)
    except (RecursionError, TypeError, ValueError):
        return "something nested too deeply"
