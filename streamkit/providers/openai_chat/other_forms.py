"""Chunks of other forms than this wire's, as chunks that the parser reads: gateways' own forms, and lists of messages.

What texts and calls mean is decided by the parser; these readers only rewrite, and return any other chunk unchanged.

**Forms of gateways.** The chunk is within an object of the gateway (SAP, Cline), its text and calls are at its top
(the native API of Cloudflare's Workers AI), its delta is one part of a content, as of Anthropic (the first API of
Snowflake's Cortex), or Anthropic's thinking is in blocks that repeat the text (Portkey). Each has the vendor's types,
its package or a thread as its source.

**Lists of messages.** A choice is several messages: calls that Mistral's server ran, their results, and the text after
them.

Source    https://docs.mistral.ai/cookbooks/mistral-connectors-05-connectors-in-completions ("responses use `messages`
          (array) instead of `message`"); a delta's ``index`` in the SDK mistralai: "If the completion returns multiple
          messages, this is to specify which message this delta is for"; the stream is that of crmne/ruby_llm,
          ``protocols/mistral/multi_completion.rb``, which is tested against the server.

The calls and results are taken out of the chunk, and the rest is read as any other chunk. A call is the server's if its
``metadata`` says so, or if a message with its result follows, because mistralai's objects have no such metadata. So the
calls of such a response wait: those without a result are passed on at the end, as calls of the client. Each completion
of the response has an id and counts its own tokens, so their counts are added up. The finish reason of one whose calls
the server runs does not end the response, and is left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from streamkit.calls import StreamError
from streamkit.events import NormalizedToolChunk
from streamkit.ids import normalize_index
from streamkit.json_text import json_size
from streamkit.providers.contract.sink import ChoiceSink, Sink
from streamkit.providers.decoding.decoding import (
    PART_SIZE,
    as_text,
    compact_json,
    error_message,
    frame_error,
    parse_json_or_text,
    read_json,
)
from streamkit.providers.openai_chat.content_blocks import call_arguments

__all__ = ["MessageListReader", "OtherForms", "read_irregular_frame"]

Json = dict[str, Any]


def read_irregular_frame(name: bytes, data: bytes, sink: Sink) -> dict[str, Any] | None:
    """Return the chunk of a frame as plain data; report a frame without one to the sink, and return None.

    Args:
        name: the name of the event, ``b""`` if it has none.
        data: its data.
        sink: gets the terminator, an error, or what is no object.
    """
    try:
        value = read_json(data)
    except (RecursionError, ValueError) as error:
        text = data.strip()
        if text == b"[DONE]":
            sink.terminate()
        elif name == b"error" and not text.startswith(b"{"):
            message = data.decode("utf-8", "replace")
            sink.fail(StreamError("provider_error", message or "the provider reported an error", raw=message))
        elif text and not text.startswith(b":"):
            # Gateways keep the connection by "data:" alone, or by a comment that they made the data of an event
            # ("data: : OPENROUTER PROCESSING", mnfst/llm-gateway#2053).
            sink.fail(frame_error(error, data))
        return None
    if not isinstance(value, dict):
        sink.unknown(value)
        return None
    if name == b"error" and value.get("error") is None:
        message = error_message(value) or "the provider reported an error"
        sink.fail(StreamError("provider_error", message, raw=value))
        return None
    return value


# ---------------------------------------------------------------- forms of gateways

#: The fields in which a gateway puts a whole chunk or body: SAP's orchestration, now and before its version 2
#: (``CompletionPostResponseStreaming`` of @sap-ai-sdk/orchestration), Cline's bodies (cline/cline#12647), and the
#: bodies of Cloudflare (https://developers.cloudflare.com/workers-ai/get-started/rest-api/).
_ENVELOPES = ("final_result", "orchestration_result", "data", "result")
#: The fields beside it that say nothing more about the response.
_ENVELOPE_FIELDS = frozenset({"request_id", "success", "errors", "messages", *_ENVELOPES})
#: The fields of a chunk of Workers AI (``getMappedStream`` of Cloudflare's workers-ai-provider); ``p`` is padding.
_WORKERS_AI_FIELDS = frozenset({"response", "tool_calls", "usage", "p", "finish_reason"})
#: The fields of a delta of Cortex that repeat another one of it.
_CORTEX_REPEATED = frozenset({"type", "content_list", "text"})
#: Portkey's field of thinking and text, which it reads in a request, too (``content_blocks`` in its npm package 1.15),
#: and the fields of its streamed blocks.
_BLOCKS = "content_blocks"
_BLOCK_FIELDS = frozenset({"thinking", "signature", "data", "text"})


class OtherForms:
    """A reader of one stream's chunks of other forms. It numbers the calls of deltas that have no number.

    Attributes:
        is_last: the chunk ends the response, though this wire's form has no field for it.
    """

    __slots__ = ("_call_count", "_had_empty_usage", "_is_cortex", "is_last")

    def __init__(self) -> None:
        self.is_last: bool = False
        self._is_cortex = False
        self._had_empty_usage = False
        self._call_count = 0

    def rewrite(self, chunk: dict[str, Any]) -> dict[str, Any]:
        """Return a chunk in this wire's form; one of an unknown form unchanged."""
        choices = chunk.get("choices")
        if isinstance(choices, list):
            self._is_cortex = self._is_cortex or any(map(_is_cortex, choices))
            if self._is_cortex:
                return self._rewrite_cortex(chunk)
            return (
                {**chunk, "choices": list(map(_rewrite_blocks, choices))} if any(map(_has_blocks, choices)) else chunk
            )
        for name in _ENVELOPES:
            inner = chunk.get(name)
            if isinstance(inner, dict) and (isinstance(inner.get("choices"), list) or _is_workers_ai(inner)):
                self.is_last = _is_workers_ai(inner)  # a complete body, which has neither a reason nor a terminator
                beside = {field: value for field, value in chunk.items() if field not in _ENVELOPE_FIELDS}
                return beside | self.rewrite(inner)
        if not _is_workers_ai(chunk):
            return chunk
        response = chunk["response"]
        # A number is a token that looks like one; an object is the output of a request with a JSON schema.
        text = response if response is None or isinstance(response, str) else compact_json(response)
        delta = {"content": text, "tool_calls": chunk.get("tool_calls")}
        choice = {"index": 0, "delta": delta, "finish_reason": chunk.get("finish_reason")}
        return {"choices": [choice], "usage": chunk.get("usage")}

    def _rewrite_cortex(self, chunk: dict[str, Any]) -> dict[str, Any]:
        """Return a chunk of Cortex (``StreamingToolUse``, ``ToolUse`` of snowflake.core) with calls of this wire.

        Its stream has neither a finish reason nor a terminator. If ``usage`` is empty at first, as in the tests of
        goose's provider, the chunk with the counts is the last one.
        """
        usage, reason = chunk.get("usage"), chunk.get("finish_reason")
        self.is_last = self._had_empty_usage and isinstance(usage, dict) and bool(usage)
        self._had_empty_usage = self._had_empty_usage or usage == {}
        choices = []
        for choice in chunk["choices"]:
            rewritten = choice
            if isinstance(choice, dict):
                rewritten = {**choice, "finish_reason": choice.get("finish_reason") or reason}
                for place in ("delta", "message"):
                    if isinstance(choice.get(place), dict):
                        rewritten[place] = self._rewrite_part(choice[place])
            choices.append(rewritten)
        return {**{name: value for name, value in chunk.items() if name != "finish_reason"}, "choices": choices}

    def _rewrite_part(self, part: dict[str, Any]) -> dict[str, Any]:
        rest = {name: value for name, value in part.items() if name not in _CORTEX_REPEATED}
        if part.get("type") == "tool_use":
            use = {name: rest.pop(name, None) for name in ("tool_use_id", "name", "input")}
            return {**rest, "tool_calls": [self._call(use)]}
        parts = part.get("content_list")
        calls = []
        for entry in parts if isinstance(parts, list) else ():
            if isinstance(entry, dict) and entry.get("type") == "tool_use":  # complete
                inner = entry.get("tool_use")
                calls.append(self._call(inner if isinstance(inner, dict) else entry))
        return {**rest, "tool_calls": calls} if calls else rest

    def _call(self, use: dict[str, Any]) -> dict[str, Any]:
        """Return a call, or a delta of one, in this wire's form. Only the first delta of a call has its id."""
        if use.get("tool_use_id"):
            self._call_count += 1
        function = {"name": use.get("name"), "arguments": use.get("input")}
        return {"index": self._call_count, "id": use.get("tool_use_id"), "function": function}


def _is_cortex(choice: Any) -> bool:
    """Return True if a choice has a list of parts beside its content."""
    places = [choice.get("delta"), choice.get("message")] if isinstance(choice, dict) else []
    return any(isinstance(place, dict) and isinstance(place.get("content_list"), list) for place in places)


def _has_blocks(choice: Any) -> bool:
    """Return True if a choice has Portkey's blocks."""
    return isinstance(choice, dict) and any(
        isinstance(part, dict) and _BLOCKS in part for part in (choice.get("delta"), choice.get("message"))
    )


def _rewrite_blocks(choice: Any) -> Any:
    """Return a choice with the thinking of Portkey's blocks as ``thinking_blocks``, which keep their ``index``."""
    if not _has_blocks(choice):
        return choice
    rewritten = dict(choice)
    for place in ("delta", "message"):
        part = choice.get(place)
        blocks = part.get(_BLOCKS) if isinstance(part, dict) else None
        if isinstance(blocks, list) and all(map(_is_block, blocks)):
            rest = {name: value for name, value in part.items() if name != _BLOCKS}
            read = [_thinking_block(block, index) for index, block in enumerate(blocks)]
            rewritten[place] = {**rest, "thinking_blocks": [block for block in read if block is not None]}
    return rewritten


def _is_block(block: Any) -> bool:
    if not isinstance(block, dict):
        return False
    delta = block.get("delta")
    if isinstance(delta, dict):
        return _BLOCK_FIELDS.issuperset(delta)
    return block.get("type") in ("thinking", "redacted_thinking", "text")


def _thinking_block(block: dict[str, Any], index: int) -> dict[str, Any] | None:
    """Return one of Portkey's blocks, or a delta of one, as a thinking block; None if it is text."""
    delta = block.get("delta")
    if not isinstance(delta, dict):
        return None if block["type"] == "text" else {**block, "index": index}
    if delta.get("data"):
        return {"type": "redacted_thinking", **delta, "index": block.get("index")}
    if delta.get("thinking") or delta.get("signature"):
        return {"type": "thinking", "thinking": "", **delta, "index": block.get("index")}
    return None


def _is_workers_ai(chunk: dict[str, Any]) -> bool:
    return "response" in chunk and _WORKERS_AI_FIELDS.issuperset(chunk)


# ---------------------------------------------------------------- lists of messages

#: The fields of a call's metadata that only a tool of the server has.
_SERVER_FIELDS = ("tool_type", "integration_id")


class _Call:
    """A call that waits for the end of its message, for its result or for the end of the stream."""

    __slots__ = ("arguments", "choice", "id", "is_reported", "is_server_call", "name", "raw")

    def __init__(self, choice: ChoiceSink) -> None:
        self.choice = choice
        self.id: str | None = None
        self.name: str | None = None
        self.arguments: list[str] = []
        self.is_server_call = False
        self.is_reported = False
        self.raw: Json = {}


class MessageListReader:
    """A reader of the calls and results of one response."""

    __slots__ = (
        "_by_id",
        "_calls",
        "_completion",
        "_counts",
        "_earlier",
        "_message",
        "_result",
        "_server_calls",
        "_sink",
    )

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._calls: dict[tuple[Any, Any, Any], _Call] = {}  # by choice, message and call, those without a result
        self._by_id: dict[str | None, deque[tuple[Any, Any, Any]]] = {}  # their keys
        self._server_calls: list[_Call] = []  # of the open message, as far as their metadata says so
        self._message: tuple[Any, Any] | None = None  # choice and number of the open message
        self._result: Json | None = None  # the message with a result, if that is the open one
        self._completion: str | None = None  # the id of the last completion with counts
        self._counts: Json = {}  # its counts, and the sums of those before it
        self._earlier: Json = {}

    def split(self, chunk: Json) -> Iterator[Json]:
        """Report the calls and results of a chunk, and yield the chunks that remain of it, in order."""
        choices = chunk.get("choices")
        if not isinstance(choices, list) or not any(_is_part_of_list(choice) for choice in choices):
            yield chunk
            return
        rest: list[Any] = []
        beside = _without(chunk, "usage")  # with the first message: a copy for each would be quadratic
        for choice in choices:
            if not _is_part_of_list(choice):
                rest.append(choice)
                continue
            messages = choice.get("messages")
            number = choice.get("index")
            for position, message in enumerate(messages if isinstance(messages, list) else ()):
                if isinstance(message, dict):
                    delta = self._read(number, {**message, "index": position})
                    yield {**beside, "choices": [{"index": number, "delta": delta}]}
                    beside = {}
            rest.append(_without(choice, "messages"))
            if isinstance(choice.get("delta"), dict):
                rest[-1]["delta"] = self._read(number, choice["delta"])
                if self._server_calls:
                    rest[-1].pop("finish_reason", None)
            else:
                rest[-1]["delta"] = {}
        yield {**chunk, "choices": rest, **self._add_usage(chunk)}

    def end(self) -> None:
        """Report the open result, and pass on the calls of the client."""
        self._end_message()
        for key, call in enumerate(self._calls.values()):
            if not call.is_reported:
                arguments = "".join(call.arguments)
                call.choice.tool(NormalizedToolChunk("delta", call.id, call.name, None, arguments, key, key))
        self._calls.clear()

    def _read(self, number: Any, delta: Json) -> Json:
        """Read the calls and the result of a delta; return the rest of it."""
        index = normalize_index(number)
        choice = self._choice(index)
        message = (index, normalize_index(delta.get("index")))
        if message != self._message:
            self._end_message()
            self._message = message
        if delta.get("role") == "tool" or delta.get("tool_call_id") is not None or self._result is not None:
            self._add_result(delta)
            return {}
        calls = delta.get("tool_calls")
        for position, call in enumerate(calls if isinstance(calls, list) else ()):
            if isinstance(call, dict):
                self._add_call(choice, (*message, normalize_index(call.get("index", position))), call)
        return _without(delta, "index", "tool_calls")

    def _add_call(self, choice: ChoiceSink, key: tuple[Any, Any, Any], delta: Json) -> None:
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = _Call(choice)
            self._sink.keep(PART_SIZE)
        function, metadata = delta.get("function"), delta.get("metadata")
        if isinstance(function, dict):
            text = call_arguments(function.get("arguments")) or ""
            call.name = call.name or as_text(function.get("name"))
            if self._sink.keep(len(text)):
                call.arguments.append(text)
        if call.id is None and (call_id := as_text(delta.get("id"))) is not None:
            call.id = call_id
            self._by_id.setdefault(call_id, deque()).append(key)
        is_server_call = isinstance(metadata, dict) and any(metadata.get(name) for name in _SERVER_FIELDS)
        if is_server_call and not call.is_server_call:
            call.is_server_call = True
            self._server_calls.append(call)
        known = call.raw
        new = {name: value for name, value in delta.items() if name != "function" and known.get(name) != value}
        if new and self._sink.keep(json_size(new)):
            known.update(new)

    def _add_result(self, delta: Json) -> None:
        if not self._sink.keep(json_size(delta)):
            return
        if self._result is None:
            self._result = {"content": []}
        content = delta.get("content")
        self._result["content"] += content if isinstance(content, list) else [] if content is None else [content]
        self._result |= _without(delta, "index", "content")

    def _end_message(self) -> None:
        """Report what the open message completes: its result, or its calls of the server's tools."""
        for call in self._server_calls:
            _report_call(call)
        self._server_calls = []
        if self._result is None:
            return
        raw, self._result = self._result, None
        if all(isinstance(part, str) for part in raw["content"]):
            raw["content"] = "".join(raw["content"])
        call_id = as_text(raw.get("tool_call_id"))
        keys = self._by_id.get(call_id)
        if not keys:
            number = self._message[0] if self._message is not None else 0
            self._choice(number).server_tool(call_id, "tool", "result", raw["content"], raw=raw)
            return
        call = self._calls.pop(keys.popleft())
        if not call.is_reported:
            _report_call(call)
        call.choice.server_tool(call_id, call.name or "tool", "result", raw["content"], raw=raw)

    def _choice(self, index: Any) -> ChoiceSink:
        return self._sink.choice(index if isinstance(index, int) and index >= 0 else 0)

    def _add_usage(self, chunk: Json) -> Json:
        """Return the field ``usage`` with the counts of all completions so far; nothing if the chunk has none."""
        usage, completion = chunk.get("usage"), as_text(chunk.get("id"))
        if not isinstance(usage, dict):
            return {}
        if completion != self._completion:
            self._earlier = _sum_counts(self._counts, self._earlier)
            self._completion = completion
        self._counts = usage
        return {"usage": _sum_counts(usage, self._earlier)}


def _report_call(call: _Call) -> None:
    name, arguments = call.name or "tool", "".join(call.arguments)
    raw = {**call.raw, "function": {"name": call.name, "arguments": arguments}}
    call.choice.server_tool(call.id, name, "started")
    call.choice.server_tool(call.id, name, "arguments", parse_json_or_text(arguments), raw=raw)
    call.is_reported = True


def _is_part_of_list(choice: Any) -> bool:
    """Return True if a choice has several messages, or if its delta is of one of several."""
    if not isinstance(choice, dict):
        return False
    delta = choice.get("delta")
    if isinstance(delta, dict):
        return delta.get("index") is not None or delta.get("tool_call_id") is not None
    return bool(choice.get("messages")) and choice.get("message") is None


def _without(value: Json, *names: str) -> Json:
    return {name: element for name, element in value.items() if name not in names}


def _sum_counts(counts: Json, earlier: Json) -> Json:
    """Return the sums of the counts, also of those within details; fields that are no counts as in the first."""
    total = {**earlier, **counts}
    for name, value in counts.items():
        before = earlier.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            total[name] = _sum_counts(value, before)
        elif value.__class__ is int and before.__class__ is int:
            total[name] = value + before
    return total
