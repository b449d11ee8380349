"""Chunks of gateways that are not of this wire's form, rewritten as chunks that are.

Four differences: the chunk is within an object of the gateway (SAP, Cline), its text and calls are at its top (the
native API of Cloudflare's Workers AI), its delta is one part of a content, as of Anthropic (the first API of
Snowflake's Cortex), or Anthropic's thinking is in blocks that repeat the text (Portkey). Each has the vendor's types,
its package or a thread as its source. A chunk of any other form is returned unchanged. What its texts and calls mean is
decided by the parser.
"""

from __future__ import annotations

from typing import Any

from streamkit.providers.decoding import compact_json

__all__ = ["OtherForms"]

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
