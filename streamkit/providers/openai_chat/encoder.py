"""An answer -> the bytes of the Chat Completions stream that it would have been. The counterpart of ``parse``.

Wire      https://platform.openai.com/docs/api-reference/chat-streaming

The shapes are api.openai.com's: a chunk with the role, content in pieces, each call as an opener (index, id, name,
empty arguments) and pieces of its argument text, a chunk with the finish reason, the usage in a chunk without choices,
``[DONE]``. Where a dialect's streams look different, ``ChatFacts`` says how. Nothing here reads a clock: ``created``
is 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from streamkit.calls import FinishReason, Usage
from streamkit.errors import UsageError
from streamkit.history import Content, TextBlock, ToolCallBlock
from streamkit.providers.decoding import compact_json
from streamkit.providers.openai_chat.delta_encoder import ChunkDelta, DeltaEncoder
from streamkit.providers.openai_chat.dialects import ChatDialect

__all__ = ["emit", "error_body"]


def emit(
    content: Content,
    traits: ChatDialect,
    *,
    response_id: str,
    model: str,
    finish: FinishReason | None = None,
    usage: Usage | None = None,
    delta_size: int = 16,
) -> Iterator[bytes]:
    """The stream of one answer, an SSE event at a time.

    Args:
        content: the answer; what a chat stream cannot say (another provider's own blocks) is not said.
        traits: the dialect.
        response_id: the ``id`` of every chunk.
        model: the ``model`` of every chunk.
        finish: None: ``tool_calls`` where the content has calls, else ``stop``.
        usage: the figures of the usage chunk; None: there is none.
        piece: characters of a delta, at least 1.

    Raises:
        UsageError: ``piece`` is below 1.
    """
    if delta_size < 1:
        raise UsageError(f"piece is a number of characters, at least 1, not {delta_size!r}")
    frames = _Frames(traits, {"id": response_id, "object": "chat.completion.chunk", "created": 0, "model": model})
    return frames.of(
        content,
        finish,
        None if usage is None else _usage(usage, apart=traits.reasoning_excluded_from_output),
        delta_size,
    )


class _Frames(NamedTuple):
    """One stream: its dialect, and what every chunk of it repeats."""

    facts: ChatDialect
    head: dict[str, Any]

    def of(
        self, content: Content, finish: FinishReason | None, usage: dict[str, Any] | None, delta_size: int
    ) -> Iterator[bytes]:
        calls = any(isinstance(block, ToolCallBlock) for block in content.blocks)
        silent = calls and not any(isinstance(block, TextBlock) for block in content.blocks)
        yield from self._opening()
        yield self._chunk(ChunkDelta({"role": "assistant", "content": None if silent else "", "refusal": None}))
        last: ChunkDelta | None = None
        for said in DeltaEncoder(self.facts, delta_size).pieces(content):
            if last is not None:
                yield self._chunk(last)
            last = said
        reason = finish or ("tool_calls" if calls else "stop")
        if last is not None and not self.facts.finish_in_last_delta:
            yield self._chunk(last)
            last = None
        yield from self._end(last or ChunkDelta({}), "pause_turn" if reason == "pause" else reason, usage)
        if self.facts.end_marker:
            yield self._event("[DONE]")

    def _opening(self) -> Iterator[bytes]:
        if self.facts.first_chunk == "comment":
            yield b": OPENROUTER PROCESSING\n\n"
        elif self.facts.first_chunk == "prompt_filter":
            verdict = {"prompt_index": 0, "content_filter_results": {"hate": {"filtered": False, "severity": "safe"}}}
            prelude = {"choices": [], "created": 0, "id": "", "model": "", "object": ""}
            yield self._event(compact_json({**prelude, "prompt_filter_results": [verdict]}))

    def _end(self, last: ChunkDelta, reason: str, usage: dict[str, Any] | None) -> Iterator[bytes]:
        place = self.facts.usage_position
        choice, top = dict(last.choice), dict(last.top)
        if reason == "error" and self.facts.error_in_band:
            top["error"] = {"code": 502, "message": "Provider returned error"}
        if usage is not None:
            if place == "choice":
                choice["usage"] = usage
            if place in ("finish", "x_groq"):
                top["usage"] = usage
            if place == "x_groq":
                top["x_groq"] = {"id": self.head["id"], "usage": usage}
        yield self._chunk(ChunkDelta(last.delta, choice, top), reason)
        if usage is not None and place == "own":
            yield self._event(self._text({"choices": [], "usage": usage}))
        elif usage is not None and place == "again":
            yield self._chunk(ChunkDelta({"role": "assistant", "content": ""}, top={"usage": usage}), reason)

    def _chunk(self, said: ChunkDelta, finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": said.delta, "logprobs": None, "finish_reason": finish_reason, **said.choice}
        return self._event(self._text({"choices": [choice], "usage": None, **said.top}))

    def _text(self, fields: dict[str, Any]) -> str:
        return compact_json({**self.head, "service_tier": "default", "system_fingerprint": None, **fields})

    def _event(self, payload: str) -> bytes:
        end = self.facts.line_end * 2
        try:
            return f"data: {payload}{end}".encode()
        except UnicodeEncodeError:  # half of a surrogate pair; JSON can say it, UTF-8 cannot
            return f"data: {json.dumps(json.loads(payload), separators=(',', ':'))}{end}".encode()


def _usage(usage: Usage, *, apart: bool) -> dict[str, Any]:
    prompt, output, reasoning = usage.input_tokens, usage.output_tokens, usage.reasoning_tokens
    cached = {"cached_tokens": usage.cache_read_tokens, "cache_write_tokens": usage.cache_write_tokens}
    total = (prompt or 0) + (output or 0)
    if apart and output is not None and reasoning and reasoning <= output:
        output -= reasoning
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": total,
        "prompt_tokens_details": {name: count for name, count in cached.items() if count is not None},
        "completion_tokens_details": {} if reasoning is None else {"reasoning_tokens": reasoning},
    }


# What OpenAI answers: https://platform.openai.com/docs/guides/error-codes
_ERRORS: dict[int, tuple[str, str | None]] = {
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}


def error_body(status: int, message: str) -> dict[str, Any]:
    """The JSON body of a refused request."""
    kind, code = _ERRORS.get(status, ("server_error" if status >= 500 else "invalid_request_error", None))
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}
