"""Chunks of gateways that are not of this wire's form, rewritten as chunks that are.

Four differences: the chunk is within an object of the gateway (SAP, Cline), its text and calls are at its top (the
native API of Cloudflare's Workers AI), its delta is one part of a content, as of Anthropic (the first API of
Snowflake's Cortex), or Anthropic's thinking is in blocks that repeat the text (Portkey). Each has the vendor's types,
its package or a thread as its source. A chunk of any other form is returned unchanged. What its texts and calls mean is
decided by the parser.

Reading a frame that is no plain chunk: ``[DONE]``, an error of a relay, or text that is no JSON.

It reports to the sink what is no chunk, and must not depend on the fields of chunks.

Reader of the fields of a chat chunk outside its choices: usage, facts about the response, errors.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from streamkit.calls import StreamError
from streamkit.providers.contract.sink import Sink
from streamkit.providers.decoding.decoding import as_integer, compact_json, error_message, excerpt, read_json
from streamkit.providers.decoding.lenient_json import frame_error
from streamkit.providers.decoding.openai_errors import openai_stream_error
from streamkit.providers.openai_chat.fields import is_usage, parse_usage
from streamkit.providers.openai_chat.schema import (
    CHOICE_RESPONSE_FIELDS,
    RESPONSE_FIELDS,
    SOURCE_FIELDS,
    Choice,
    Chunk,
    PlainChoice,
    PlainChunk,
    PlainGroq,
)

__all__ = [
    "OtherForms",
    "ResponseReader",
    "find_error",
    "read_irregular_frame",
    "start_facts",
    "to_plain",
]


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
        self.is_last = False
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
        return _rewrite_workers_ai(chunk) if _is_workers_ai(chunk) else chunk

    def _rewrite_cortex(self, chunk: dict[str, Any]) -> dict[str, Any]:
        """Return a chunk of Cortex (``StreamingToolUse``, ``ToolUse`` of snowflake.core) with calls of this wire.

        Its stream has neither a finish reason nor a terminator. If ``usage`` is empty at first, as in the tests of
        goose's provider, the chunk with the counts is the last one.
        """
        usage, reason = chunk.get("usage"), chunk.get("finish_reason")
        self.is_last = self._had_empty_usage and isinstance(usage, dict) and bool(usage)
        self._had_empty_usage = self._had_empty_usage or usage == {}
        rewritten = {name: value for name, value in chunk.items() if name != "finish_reason"}
        return {**rewritten, "choices": [self._rewrite_choice(choice, reason) for choice in chunk["choices"]]}

    def _rewrite_choice(self, choice: Any, reason: Any) -> Any:
        if not isinstance(choice, dict):
            return choice
        rewritten = {**choice, "finish_reason": choice.get("finish_reason") or reason}
        for place in ("delta", "message"):
            if isinstance(choice.get(place), dict):
                rewritten[place] = self._rewrite_part(choice[place])
        return rewritten

    def _rewrite_part(self, part: dict[str, Any]) -> dict[str, Any]:
        rest = {name: value for name, value in part.items() if name not in _CORTEX_REPEATED}
        if part.get("type") == "tool_use":
            use = {name: rest.pop(name, None) for name in ("tool_use_id", "name", "input")}
            return {**rest, "tool_calls": [self._call(use)]}
        parts = part.get("content_list")
        complete = [_tool_use(entry) for entry in parts] if isinstance(parts, list) else []
        calls = [self._call(use) for use in complete if use is not None]
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


def _tool_use(part: Any) -> dict[str, Any] | None:
    """Return the complete call of a part of a message; None if it is another part."""
    if not isinstance(part, dict) or part.get("type") != "tool_use":
        return None
    use = part.get("tool_use")
    return use if isinstance(use, dict) else part


def _is_workers_ai(chunk: dict[str, Any]) -> bool:
    return "response" in chunk and _WORKERS_AI_FIELDS.issuperset(chunk)


def _rewrite_workers_ai(chunk: dict[str, Any]) -> dict[str, Any]:
    response = chunk["response"]
    # A number is a token that looks like one; an object is the output of a request with a JSON schema.
    text = response if response is None or isinstance(response, str) else compact_json(response)
    delta = {"content": text, "tool_calls": chunk.get("tool_calls")}
    choice = {"index": 0, "delta": delta, "finish_reason": chunk.get("finish_reason")}
    return {"choices": [choice], "usage": chunk.get("usage")}


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


#: The fields of an error object with its code, if it is the chunk itself.
_CODE_FIELDS = ("code", "error_code", "error_type")
#: The values of these fields that report no error.
_NO_ERROR = (None, "", 0, "0", 200, "200")
_response_facts = attrgetter(*RESPONSE_FIELDS)
_choice_facts = attrgetter(*CHOICE_RESPONSE_FIELDS)


class ResponseReader:
    """A reader of the fields of one response. It reports facts once, though chunks repeat them."""

    __slots__ = ("_choice_facts", "_facts", "_filter_results", "_metadata", "_sink")

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._metadata: dict[str, Any] = {}  # the facts that were reported
        self._facts: Any = None  # the values of RESPONSE_FIELDS in the last chunk that was searched for them
        self._filter_results: dict[str, Any] = {}
        self._choice_facts: Any = None  # the same of CHOICE_RESPONSE_FIELDS and the last choice

    def read_extras(self, chunk: Chunk, raw: dict[str, Any]) -> None:
        """Report the usage in Groq's own field, and errors."""
        x_groq = chunk.x_groq
        if isinstance(x_groq, dict):
            if x_groq.get("usage") is not None:
                self.emit_usage(x_groq["usage"])
            if x_groq.get("error"):
                self._sink.fail(openai_stream_error(x_groq["error"]))
        if chunk.error:
            # text-generation-inference: {"error": "Model is overloaded", "error_type": "overloaded"}
            is_text = isinstance(chunk.error, str) and any(raw.get(name) for name in _CODE_FIELDS)
            self._sink.fail(openai_stream_error(raw if is_text else chunk.error, chunk.status_code))

    def emit_usage(self, raw: Any) -> None:
        """Report the token counts of a ``usage`` object."""
        usage = parse_usage(raw)
        if usage is not None:
            self._sink.usage(usage)

    def read_facts(self, chunk: Chunk | PlainChunk) -> None:
        """Report facts about the response that are new: of its first chunk, and of those with a finish or usage."""
        values = _response_facts(chunk)
        if values != self._facts:
            self._facts = values
            self._keep_metadata(RESPONSE_FIELDS, values)

    def read_choice_facts(self, choice: Choice | PlainChoice) -> None:
        """Report facts about the response that a choice has, if they are new."""
        values = _choice_facts(choice)
        if values != self._choice_facts:
            self._choice_facts = values
            self._keep_metadata(CHOICE_RESPONSE_FIELDS, values)

    def read_filter_results(self, results: Any) -> None:
        """Report what Azure's filters found in the response so far: of each filter the last result."""
        if isinstance(results, dict) and any(self._filter_results.get(name) != results[name] for name in results):
            self._filter_results = {**self._filter_results, **results}
            self._sink.add_response_metadata({"content_filter_results": self._filter_results})

    def _keep_metadata(self, names: tuple[str, ...], values: tuple[Any, ...]) -> None:
        facts = {name: value for name, value in zip(names, values, strict=True) if value not in (None, "")}
        if any(self._metadata.get(name) != value for name, value in facts.items()):
            self._metadata |= facts
            self._sink.add_response_metadata(facts)

    def read_without_choices(self, chunk: Chunk | PlainChunk, raw: Any) -> bool:
        """Return True if a chunk without choices is one of this wire; report any other one."""
        if chunk.choices is not None or (isinstance(chunk.object, str) and chunk.object.startswith("chat.completion")):
            self._sink.heartbeat()
            return True
        if chunk.error is not None or chunk.x_groq is not None or is_usage(chunk.usage):
            return True
        self._sink.unknown(to_plain(raw))
        return False


def start_facts(chunk: Chunk | PlainChunk) -> dict[str, Any]:
    """Return what the first chunk states of the response: its time, Groq's id of the request, the sources so far."""
    facts: dict[str, Any] = {}
    created, groq = as_integer(chunk.created), chunk.x_groq
    if created is not None:
        facts["created"] = created
    if groq is not None:
        names = {"id": groq.id, "seed": groq.seed} if isinstance(groq, PlainGroq) else groq
        known = {name: names[name] for name in ("id", "seed") if names.get(name)} if isinstance(names, dict) else {}
        if known:
            facts["x_groq"] = known
    for name in SOURCE_FIELDS:
        if isinstance(sources := getattr(chunk, name), list) and sources:
            facts[name] = sources
    return facts


def find_error(raw: dict[str, Any]) -> StreamError | None:
    """Return the error of a chunk that has it in another field than ``error``; None if it reports none.

    MiniMax has it in ``base_resp``, under status 200. Others send the error object itself: vLLM and Mistral with
    ``"object": "error"``, DashScope and Baidu with a code and a message, a relay with ``error_type``.
    """
    outcome = raw.get("base_resp")
    if isinstance(outcome, dict) and outcome.get("status_code") not in _NO_ERROR:
        return openai_stream_error(outcome)
    if raw.get("choices") or raw.get("error"):
        return None
    has_code = any(raw.get(name) not in _NO_ERROR for name in _CODE_FIELDS)
    is_report = "error" in (raw.get("object"), raw.get("type")) or raw.get("success") is False
    return openai_stream_error(raw) if is_report or (has_code and error_message(raw)) else None


def to_plain(raw: Any) -> Any:
    """Return a chunk as plain data: a dict unchanged, a frame parsed."""
    try:
        return raw if isinstance(raw, dict) else read_json(raw)
    except (ValueError, RecursionError):
        return excerpt(raw)
