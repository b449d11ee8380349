"""Parser of Chat Completions streams: one parser for every dialect.

Calls are entries of ``delta.tool_calls``, identified by ``index``. The id and the name come with the first delta, the
arguments as deltas of JSON text. That is what OpenAI sends. Other servers leave out the index, repeat ids and names,
send complete calls, or restate arguments. All of it is passed on as it came, because the accumulator alone assigns a
delta to a call (docs/rules.md, "Assigning a delta to a call"). This module only finds text, reasoning, calls, usage and
errors.

A finish reason does not end the turn: Together sends further calls after it, other servers the usage. ``[DONE]`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import msgspec

from streamkit.calls import CallKind, StreamError, Usage
from streamkit.events import NormalizedToolChunk
from streamkit.providers.decoding import (
    as_integer,
    as_text,
    compact_json,
    convert,
    decode,
    error_message,
    excerpt,
    read_json,
)
from streamkit.providers.openai_chat.content_reader import read_content_parts, read_reasoning
from streamkit.providers.openai_chat.dialects import FINISH_REASONS
from streamkit.providers.openai_chat.extras import ExtrasReader, blocking_filters
from streamkit.providers.openai_chat.schema import Choice, Chunk, Delta, ToolCall
from streamkit.providers.openai_errors import to_stream_error
from streamkit.providers.provider import Traits
from streamkit.providers.sink import ChoiceSink, Sink

__all__ = ["ChatParser", "create_parser"]

_decoder = msgspec.json.Decoder(Chunk)
_decode = _decoder.decode


def create_parser(sink: Sink, traits: Traits) -> ChatParser:
    """Return a parser for one turn that reports to ``sink``."""
    return ChatParser(sink)


class ChatParser:
    """A parser of one Chat Completions stream."""

    __slots__ = ("_choice_sink", "_extras", "_has_legacy_text", "_is_identified", "_sink", "_text", "_tool")

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._choice_sink = sink.choice(0)
        self._text = self._choice_sink.text
        self._tool = self._choice_sink.tool
        self._is_identified = False  # the sink has the response's id and model
        self._extras: ExtrasReader | None = None  # created at the first rare field
        self._has_legacy_text = False

    def frame(self, name: bytes, data: bytes) -> None:
        """Parse one SSE event."""
        try:
            chunk = _decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            if data.strip() == b"[DONE]":
                self._sink.terminate()
                return
            if name == b"error" and not data.lstrip().startswith(b"{"):
                text = data.decode("utf-8", "replace")
                self._sink.fail(StreamError("provider_error", text or "the provider reported an error", raw=text))
                return
            lenient = decode(_decoder, data, self._sink)
            if lenient is None:
                return
            chunk = lenient
        if name == b"error" and chunk.error is None:
            raw = read_json(data)
            self._sink.fail(
                StreamError("provider_error", error_message(raw) or "the provider reported an error", raw=raw)
            )
            return
        self._read(chunk, data)

    def chunk(self, data: dict[str, Any]) -> None:
        """Parse one chunk given as a dict, or a complete ``chat.completion``."""
        chunk = convert(data, Chunk, self._sink)
        if chunk is not None:
            try:
                self._read(chunk, data)
            except RecursionError:  # arguments that are an object of thousands of levels cannot be written as text
                self._sink.fail(StreamError("limit_exceeded", "a chunk is nested too deeply"))

    def end(self) -> None:
        """Do nothing: the parser buffers nothing."""

    def _read(self, chunk: Chunk, raw: Any) -> None:
        choices = chunk.choices
        if choices:
            if not self._is_identified:
                self._identify(chunk)
            for choice in choices:
                delta = choice.delta
                if delta is not None and choice.index == 0:
                    # The fast path: a delta with text alone or calls alone, by far the most frequent ones. Every other
                    # field of Delta is in this condition; a test checks that.
                    content, calls = delta.content, delta.tool_calls
                    if (
                        (calls and content)
                        or (content is not None and content.__class__ is not str)
                        or delta.reasoning_content
                        or delta.reasoning
                        or delta.refusal
                        or delta.reasoning_details
                        or delta.function_call
                        or delta.annotations
                        or delta.images
                        or delta.audio
                        or delta.executed_tools
                        or delta.reasoning_steps
                        or delta.context
                    ):
                        self._read_delta(self._choice_sink, delta)
                    elif calls:
                        self._read_calls(self._tool, calls)
                    elif content:
                        self._text(content)
                    if choice.finish_reason is None and choice.usage is None and choice.logprobs is None:
                        continue
                    self._read_choice_extras(self._choice_sink, 0, choice, delta, raw)
                else:
                    self._read_choice(choice, raw)
        elif choices is not None or (isinstance(chunk.object, str) and chunk.object.startswith("chat.completion")):
            self._sink.heartbeat()
        elif chunk.error is None and chunk.x_groq is None and not _is_usage(chunk.usage):
            if chunk.object == "error":  # vLLM and Mistral: {"object": "error", "message": ...}
                self._sink.fail(to_stream_error(_to_plain(raw)))
            else:
                self._sink.unknown(_to_plain(raw))
            return
        if chunk.usage is not None:
            self._emit_usage(chunk.usage)
        if chunk.citations is not None or chunk.search_results is not None:
            self._extras_reader().read_sources(self._choice_sink, chunk.search_results, chunk.citations)
        if chunk.x_groq is not None or chunk.error is not None:
            self._read_chunk_extras(chunk)

    def _extras_reader(self) -> ExtrasReader:
        if self._extras is None:
            self._extras = ExtrasReader(self._sink)
        return self._extras

    def _identify(self, chunk: Chunk) -> None:
        # Azure's first chunk has an empty id and model; they come with the first choice.
        response_id, model = as_text(chunk.id), as_text(chunk.model)
        self._sink.identify(response_id, model)
        self._is_identified = response_id is not None and model is not None

    def _read_chunk_extras(self, chunk: Chunk) -> None:
        x_groq = chunk.x_groq
        if isinstance(x_groq, dict):
            if x_groq.get("usage") is not None:
                self._emit_usage(x_groq["usage"])
            if x_groq.get("error"):
                self._sink.fail(to_stream_error(x_groq["error"]))
        if chunk.error:
            self._sink.fail(to_stream_error(chunk.error))

    def _emit_usage(self, raw: Any) -> None:
        usage = _parse_usage(raw)
        if usage is not None:
            self._sink.usage(usage)

    def _read_choice(self, choice: Choice, raw: Any) -> None:
        """Read a choice that is not on the fast path: without a delta, or of another number than 0."""
        index = as_integer(choice.index) or 0
        choice_sink = self._choice_sink if index <= 0 else self._sink.choice(index)
        # With a delta the message is not read: it repeats what was streamed (Perplexity).
        delta = choice.delta if choice.delta is not None else choice.message
        if delta is not None:
            self._read_delta(choice_sink, delta)
        elif choice.text.__class__ is str:
            self._read_legacy_text(choice_sink, choice.text)
        elif choice.finish_reason is None and choice.usage is None and choice.logprobs is None:
            self._sink.unknown(_to_plain(raw))  # Azure's late filter results
        self._read_choice_extras(choice_sink, index, choice, delta, raw)

    def _read_legacy_text(self, choice_sink: ChoiceSink, text: str) -> None:
        """Read a choice of the wire before Chat Completions (https://platform.openai.com/docs/api-reference/completions)."""
        if not self._has_legacy_text:
            self._has_legacy_text = True
            self._sink.warn(
                "legacy_completion", "the server sent text completions: it was asked by the path /completions"
            )
        if text:
            choice_sink.text(text)

    def _read_choice_extras(
        self, choice_sink: ChoiceSink, index: int, choice: Choice, delta: Delta | None, raw: Any
    ) -> None:
        """Read the fields of a choice outside its delta: log probabilities, finish reason, usage."""
        if choice.logprobs is not None:
            has_text = delta is not None and bool(delta.content or delta.refusal) and not delta.tool_calls
            self._extras_reader().read_logprobs(choice_sink, index, choice.logprobs, has_text=has_text)
        reason = choice.finish_reason
        if reason.__class__ is not str and reason is not None:
            reason = as_text(reason)
        if reason:
            choice_sink.finish(reason, FINISH_REASONS.get(reason, "other"))
            if reason == "content_filter" and (filters := blocking_filters(_to_plain(raw))):
                self._sink.warn(
                    "content_filtered", f"the provider's content filter stopped the response: {', '.join(filters)}"
                )
        if choice.usage is not None:
            self._emit_usage(choice.usage)

    def _read_delta(self, choice_sink: ChoiceSink, delta: Delta) -> None:
        if delta.reasoning_content or delta.reasoning or delta.reasoning_details:
            read_reasoning(choice_sink, delta)
        if delta.content.__class__ is str:
            if delta.content:
                choice_sink.text(delta.content)
        elif delta.content is not None:
            read_content_parts(choice_sink, delta.content)
        if delta.refusal.__class__ is str and delta.refusal:
            choice_sink.refusal(delta.refusal)
        function = delta.function_call
        if function is not None:
            name, arguments = as_text(function.name), _arguments_text(function.arguments)
            choice_sink.tool(NormalizedToolChunk("delta", None, name, None, arguments, "function_call"))
        if (
            delta.annotations
            or delta.images
            or delta.audio
            or delta.executed_tools
            or delta.reasoning_steps
            or delta.context
        ):
            self._extras_reader().read(choice_sink, delta)
        if delta.tool_calls:
            self._read_calls(choice_sink.tool, delta.tool_calls)

    def _read_calls(self, tool: Callable[[NormalizedToolChunk], None], calls: list[ToolCall]) -> None:
        for position, call in enumerate(calls):
            function = call.function
            if (
                function is not None
                and call.index.__class__ is int
                and (call.id is None or call.id.__class__ is str)
                and (function.name is None or function.name.__class__ is str)
                and function.arguments.__class__ is str
                and call.extra_content is None
            ):
                tool(
                    NormalizedToolChunk("delta", call.id, function.name, None, function.arguments, call.index, position)
                )
            else:
                _read_irregular_call(tool, call, position)


def _read_irregular_call(tool: Callable[[NormalizedToolChunk], None], call: ToolCall, position: int) -> None:
    """Emit a call delta that is not of the frequent form: custom, without index, with leaves of other types."""
    function, custom = call.function, call.custom
    if function is None and custom is None and not call.id:
        return  # padding: {"index": 0, "function": null}
    name: str | None = None
    arguments: str | None = None
    if custom is not None:
        name, arguments = as_text(custom.name), _arguments_text(custom.input)
    elif function is not None:
        name, arguments = as_text(function.name), _arguments_text(function.arguments)
    key: Hashable = call.index if isinstance(call.index, (int, str)) else None
    metadata = {"extra_content": call.extra_content} if call.extra_content is not None else None
    kind: CallKind = "custom" if custom is not None or call.type == "custom" else "function"
    tool(NormalizedToolChunk("delta", as_text(call.id), name, None, arguments, key, position, kind, None, metadata))


def _to_plain(raw: Any) -> Any:
    """Return a chunk as plain data: a dict unchanged, a frame parsed."""
    try:
        return raw if isinstance(raw, dict) else read_json(raw)
    except (ValueError, RecursionError):
        return excerpt(raw)


def _arguments_text(value: Any) -> str | None:
    """Return arguments as text. Some servers send them as an object (Mistral's older models, Ollama's shim)."""
    if value is None or value.__class__ is str:
        return value or None
    return compact_json(value)


def _is_usage(raw: Any) -> bool:
    """Return True if a chunk's usage has a count of this wire; the name of the field is that of other wires too."""
    return isinstance(raw, dict) and ("prompt_tokens" in raw or "completion_tokens" in raw)


def _parse_usage(raw: Any) -> Usage | None:
    """Return the token counts of a ``usage`` object, by the field names of OpenAI and of the other servers.

    ``completion_tokens`` includes the reasoning, unless the total shows that it is counted separately (xAI).
    """
    if not isinstance(raw, dict):
        return None
    prompt, output = as_integer(raw.get("prompt_tokens")), as_integer(raw.get("completion_tokens"))
    prompt_details = raw.get("prompt_tokens_details")
    output_details = raw.get("completion_tokens_details")
    cache_read = cache_write = reasoning = None
    if isinstance(prompt_details, dict):
        cache_read = as_integer(prompt_details.get("cached_tokens"))
        cache_write = as_integer(prompt_details.get("cache_write_tokens"))
    if cache_read is None:
        cache_read = as_integer(raw.get("prompt_cache_hit_tokens"))  # DeepSeek
    if cache_read is None:
        cache_read = as_integer(raw.get("cached_tokens"))  # Moonshot
    if isinstance(output_details, dict):
        reasoning = as_integer(output_details.get("reasoning_tokens"))
    if reasoning is None:
        reasoning = as_integer(raw.get("reasoning_tokens"))
    if reasoning and output is not None and prompt is not None:
        if as_integer(raw.get("total_tokens")) == prompt + output + reasoning:
            output += reasoning
    return Usage(prompt, output, reasoning, cache_read, cache_write, raw)
