"""Chat Completions streams -> what they say.

Calls are entries of ``delta.tool_calls``, told apart by ``index``; id and name come with the first piece, arguments as
pieces of JSON text. That is what OpenAI sends. Its imitators leave out the index, repeat ids and names, send whole
calls, restate arguments: all of it is handed on as it came, since which call a piece belongs to is decided once, in
the accumulator. Here only the vocabulary is read: where text, reasoning, calls, usage, errors stand.

A finish reason does not end the turn: Together sends further calls behind it, others the usage. ``[DONE]`` does.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import msgspec

from streamkit.calls import CallKind, FinishReason, StreamError, Usage
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
from streamkit.providers.openai_chat.extras import ExtrasReader, filters_of
from streamkit.providers.openai_chat.schema import Choice, Chunk, Delta, ToolCall
from streamkit.providers.provider import ChoiceSink, Sink, Traits

__all__ = ["ChatParser", "usage_of", "create_parser"]

_decoder = msgspec.json.Decoder(Chunk)
_decode = _decoder.decode

FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",  # Together
    "end_turn": "stop",  # Anthropic behind gateways
    "stop_sequence": "stop",
    "COMPLETE": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "tool_use": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",  # Mistral: the context is full
    "content_filter": "content_filter",
    "sensitive": "content_filter",  # Z.AI
    "refusal": "refusal",
    "pause_turn": "pause",
    "error": "error",
    "insufficient_system_resource": "error",  # DeepSeek
    "network_error": "error",  # Z.AI
}


def create_parser(sink: Sink, traits: Traits) -> ChatParser:
    """Return a parser for one turn that reports to ``sink``."""
    return ChatParser(sink)


class ChatParser:
    """Reads one Chat Completions stream."""

    __slots__ = ("_answer", "_beside", "_known", "_sink", "_text", "_tool")

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._answer = sink.choice(0)
        self._text = self._answer.text
        self._tool = self._answer.tool
        self._known = False  # the response has been identified
        self._beside: ExtrasReader | None = None  # reads what is rare; made when the first of it comes

    def frame(self, name: bytes, data: bytes) -> None:
        """One SSE event."""
        try:
            chunk = _decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            if data.strip() == b"[DONE]":
                self._sink.terminate()
                return
            if name == b"error" and not data.lstrip().startswith(b"{"):
                text = data.decode("utf-8", "replace")
                self._sink.fail(StreamError("provider_error", text or "the provider reported an error", text))
                return
            odd = decode(_decoder, data, self._sink)
            if odd is None:
                return
            chunk = odd
        if name == b"error" and chunk.error is None:
            raw = read_json(data)
            self._sink.fail(StreamError("provider_error", error_message(raw) or "the provider reported an error", raw))
            return
        self._read(chunk, data)

    def chunk(self, data: dict[str, Any]) -> None:
        """One chunk as a dict, or a whole ``chat.completion``."""
        chunk = convert(data, Chunk, self._sink)
        if chunk is not None:
            try:
                self._read(chunk, data)
            except RecursionError:  # arguments that are an object of thousands of levels cannot be written as text
                self._sink.fail(StreamError("limit_exceeded", "a chunk is nested too deeply"))

    def end(self) -> None:
        """The stream is over; nothing waits for that here."""

    def _read(self, chunk: Chunk, raw: Any) -> None:
        choices = chunk.choices
        if choices:
            if not self._known:
                self._identify(chunk)
            for choice in choices:
                delta = choice.delta
                if delta is not None and choice.index == 0:
                    # The two plain kinds of chunk, by far the most frequent ones, take no further step.
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
                        self._read_delta(self._answer, delta)
                    elif calls:
                        self._read_calls(self._tool, calls)
                    elif content:
                        self._text(content)
                    if choice.finish_reason is None and choice.usage is None and choice.logprobs is None:
                        continue
                    self._read_end(self._answer, 0, choice, delta, raw)
                else:
                    self._read_choice(choice, raw)
        elif choices is None and chunk.usage is None and chunk.error is None and chunk.x_groq is None:
            if chunk.object == "error":  # vLLM and Mistral: {"object": "error", "message": ...}
                self._fail(_plain(raw))
                return
            if not isinstance(chunk.object, str) or not chunk.object.startswith("chat.completion"):
                self._sink.unknown(_plain(raw))
                return
        if chunk.usage is not None:
            self._usage(chunk.usage)
        if chunk.citations is not None or chunk.search_results is not None:
            self._extras_reader().sources(self._answer, chunk.search_results, chunk.citations)
        if chunk.x_groq is not None or chunk.error is not None:
            self._read_chunk_extras(chunk)

    def _extras_reader(self) -> ExtrasReader:
        if self._beside is None:
            self._beside = ExtrasReader(self._sink)
        return self._beside

    def _identify(self, chunk: Chunk) -> None:
        # Azure's prelude has an empty id and model; they come with the first choice.
        response_id, model = as_text(chunk.id), as_text(chunk.model)
        self._sink.identify(response_id, model)
        self._known = response_id is not None and model is not None

    def _read_chunk_extras(self, chunk: Chunk) -> None:
        margin = chunk.x_groq
        if isinstance(margin, dict):
            if margin.get("usage") is not None:
                self._usage(margin["usage"])
            if margin.get("error"):
                self._fail(margin["error"])
        if chunk.error:
            self._fail(chunk.error)

    def _fail(self, error: Any) -> None:
        message = error_message({"error": error}) or "the provider reported an error"
        code = error.get("code") if isinstance(error, dict) else None
        status = as_integer(code)
        self._sink.fail(
            StreamError("provider_error", message, error, status if status and 400 <= status < 600 else None)
        )

    def _usage(self, raw: Any) -> None:
        usage = usage_of(raw)
        if usage is not None:
            self._sink.usage(usage)

    def _read_choice(self, choice: Choice, raw: Any) -> None:
        index = as_integer(choice.index) or 0
        answer = self._answer if index <= 0 else self._sink.choice(index)
        # The message is read only where there is no delta: beside one it repeats what was streamed (Perplexity).
        delta = choice.delta if choice.delta is not None else choice.message
        if delta is not None:
            self._read_delta(answer, delta)
        elif choice.finish_reason is None and choice.usage is None and choice.logprobs is None:
            self._sink.unknown(_plain(raw))  # Azure's late filter results, a chunk of the old completions wire
        self._read_end(answer, index, choice, delta, raw)

    def _read_end(self, answer: ChoiceSink, index: int, choice: Choice, delta: Delta | None, raw: Any) -> None:
        if choice.logprobs is not None:
            spoke = delta is not None and bool(delta.content or delta.refusal) and not delta.tool_calls
            self._extras_reader().logprobs(answer, index, choice.logprobs, spoke=spoke)
        reason = choice.finish_reason
        if reason.__class__ is not str and reason is not None:
            reason = as_text(reason)
        if reason:
            answer.finish(reason, FINISH_REASONS.get(reason, "other"))
            if reason == "content_filter" and (filters := filters_of(_plain(raw))):
                self._sink.warn("content_filtered", f"the provider's filter stopped the answer: {', '.join(filters)}")
        if choice.usage is not None:
            self._usage(choice.usage)

    def _read_delta(self, answer: ChoiceSink, delta: Delta) -> None:
        if delta.reasoning_content or delta.reasoning or delta.reasoning_details:
            read_reasoning(answer, delta)
        if delta.content.__class__ is str:
            if delta.content:
                answer.text(delta.content)
        elif delta.content is not None:
            read_content_parts(answer, delta.content)
        if delta.refusal.__class__ is str and delta.refusal:
            answer.refusal(delta.refusal)
        function = delta.function_call
        if function is not None:
            name, arguments = as_text(function.name), _arguments(function.arguments)
            answer.tool(NormalizedToolChunk("delta", None, name, None, arguments, "function_call"))
        if (
            delta.annotations
            or delta.images
            or delta.audio
            or delta.executed_tools
            or delta.reasoning_steps
            or delta.context
        ):
            self._extras_reader().read(answer, delta)
        if delta.tool_calls:
            self._read_calls(answer.tool, delta.tool_calls)

    def _read_calls(self, tool: Any, calls: list[ToolCall]) -> None:
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
                self._read_odd_call(tool, call, position)

    def _read_odd_call(self, tool: Any, call: ToolCall, position: int) -> None:
        function, custom = call.function, call.custom
        if function is None and custom is None and not call.id:
            return  # padding: {"index": 0, "function": null}
        name = as_text(custom.name) if custom is not None else as_text(function.name) if function is not None else None
        arguments = (
            _arguments(custom.input)
            if custom is not None
            else _arguments(function.arguments)
            if function is not None
            else None
        )
        key: Hashable = call.index if isinstance(call.index, (int, str)) else None
        metadata = {"extra_content": call.extra_content} if call.extra_content is not None else None
        kind: CallKind = "custom" if custom is not None or call.type == "custom" else "function"
        tool(NormalizedToolChunk("delta", as_text(call.id), name, None, arguments, key, position, kind, None, metadata))


def _plain(raw: Any) -> Any:
    """A chunk as plain data: what came as a dict, or the JSON of a frame."""
    try:
        return raw if isinstance(raw, dict) else read_json(raw)
    except (ValueError, RecursionError):
        return excerpt(raw)


def _arguments(value: Any) -> str | None:
    """Arguments as text; some servers send them as an object (Mistral's older models, Ollama's shim)."""
    if value is None or value.__class__ is str:
        return value or None
    return compact_json(value)


def usage_of(raw: Any) -> Usage | None:
    """Tokens by the names of Chat Completions and its imitators.

    ``completion_tokens`` holds the reasoning, except where the total says that it stands beside it (xAI).
    """
    if not isinstance(raw, dict):
        return None
    prompt, output = as_integer(raw.get("prompt_tokens")), as_integer(raw.get("completion_tokens"))
    prompt_details = raw.get("prompt_tokens_details")
    output_details = raw.get("completion_tokens_details")
    cached = cache_write = reasoning = None
    if isinstance(prompt_details, dict):
        cached = as_integer(prompt_details.get("cached_tokens"))
        cache_write = as_integer(prompt_details.get("cache_write_tokens"))
    if cached is None:
        cached = as_integer(raw.get("prompt_cache_hit_tokens"))  # DeepSeek
    if cached is None:
        cached = as_integer(raw.get("cached_tokens"))  # Moonshot
    if isinstance(output_details, dict):
        reasoning = as_integer(output_details.get("reasoning_tokens"))
    if reasoning is None:
        reasoning = as_integer(raw.get("reasoning_tokens"))
    if reasoning and output is not None and prompt is not None:
        if as_integer(raw.get("total_tokens")) == prompt + output + reasoning:
            output += reasoning
    return Usage(prompt, output, reasoning, cached, cache_write, raw)
