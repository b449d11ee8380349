"""Encoder of Chat Completions streams: a content to the bytes that a server would have streamed.

Wire: https://platform.openai.com/docs/api-reference/chat-streaming

The counterpart of ``parser``: parsing the bytes again gives the same turn. The shapes are those of api.openai.com: a
chunk with the role, deltas of the content, each call as a first delta (index, id, name, empty arguments) and deltas of
its argument text, a chunk with the finish reason, the usage in a chunk without choices, ``[DONE]``. ``ChatDialect``
describes where the streams of a dialect differ. The module must not read a clock: ``created`` is 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from streamkit.calls import FinishReason, Usage
from streamkit.history import (
    Block,
    Content,
    FileBlock,
    OpaqueBlock,
    ReasoningBlock,
    ServerToolBlock,
    TextBlock,
    ToolCallBlock,
)
from streamkit.media import is_url, normalize_data_url, to_data_url
from streamkit.providers.encoding import default_finish_reason, encode_json, raw_call_id, split_text, text_or_json
from streamkit.providers.finish_reasons import invert_finish_reasons
from streamkit.providers.openai_chat.content_reader import reasoning_detail_text
from streamkit.providers.openai_chat.dialects import FINISH_REASONS, ChatDialect
from streamkit.providers.openai_errors import error_body
from streamkit.target_ids import TargetIds

__all__ = ["emit", "error_body", "error_event"]

_FINISH_REASON_NAMES = invert_finish_reasons(FINISH_REASONS)


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
    """Return the stream of one response, an SSE event at a time.

    Args:
        content: the response. Blocks that a chat stream has no field for (another provider's own) are left out.
        traits: the dialect of the stream.
        response_id: the ``id`` of every chunk.
        model: the ``model`` of every chunk.
        finish: the finish reason; None means ``tool_calls`` if the content has calls, else ``stop``.
        usage: the token counts of the usage chunk; without them there is none.
        delta_size: the characters of a delta, at least 1.
    """
    return _StreamEncoder(traits, response_id, model).encode(content, finish, usage, delta_size)


@dataclass(frozen=True, slots=True)
class _ChunkDelta:
    """The content of one chunk: its delta, further fields of its choice and of the chunk itself."""

    delta: dict[str, Any]
    choice: dict[str, Any] = field(default_factory=dict)
    top: dict[str, Any] = field(default_factory=dict)


# ---------------------------------------------------------------- chunks


def error_event(status: int, message: str, code: str | None = None) -> bytes:
    """Return the event that ends a stream with an error, as OpenRouter and other servers send it under status 200."""
    return b"data: %b\n\n" % encode_json(error_body(status, message, code))


class _StreamEncoder:
    """An encoder of one stream: the order of its chunks, and the fields that every chunk repeats."""

    def __init__(self, traits: ChatDialect, response_id: str, model: str) -> None:
        self._traits = traits
        self._response_id = response_id
        self._common_fields = {"id": response_id, "object": "chat.completion.chunk", "created": 0, "model": model}

    def encode(
        self, content: Content, finish: FinishReason | None, usage: Usage | None, delta_size: int
    ) -> Iterator[bytes]:
        """Yield the SSE events of the stream."""
        default_reason = default_finish_reason(content)
        has_text = any(isinstance(block, TextBlock) for block in content.blocks)
        yield from self._first_chunk()
        empty_content = None if default_reason == "tool_calls" and not has_text else ""
        yield self._chunk(_ChunkDelta({"role": "assistant", "content": empty_content, "refusal": None}))
        last: _ChunkDelta | None = None
        for delta in _DeltaEncoder(self._traits, delta_size).encode(content):
            if last is not None:
                yield self._chunk(last)
            last = delta
        if last is not None and not self._traits.finish_in_last_delta:
            yield self._chunk(last)
            last = None
        reason = _FINISH_REASON_NAMES[finish or default_reason]
        yield from self._last_chunks(last or _ChunkDelta({}), reason, usage)
        if self._traits.end_marker:
            yield self._sse_event(self._traits.end_marker.encode())

    def _first_chunk(self) -> Iterator[bytes]:
        if self._traits.first_chunk == "comment":
            yield b": OPENROUTER PROCESSING\n\n"
        elif self._traits.first_chunk == "prompt_filter":
            result = {"prompt_index": 0, "content_filter_results": {"hate": {"filtered": False, "severity": "safe"}}}
            chunk = {"choices": [], "created": 0, "id": "", "model": "", "object": ""}
            yield self._json_event({**chunk, "prompt_filter_results": [result]})

    def _last_chunks(self, last: _ChunkDelta, reason: str, usage: Usage | None) -> Iterator[bytes]:
        position = self._traits.usage_position
        choice, top = dict(last.choice), dict(last.top)
        if reason == "error" and self._traits.error_in_band:
            top["error"] = {"code": 502, "message": "Provider returned error"}
        counts = None if usage is None else self._usage(usage)
        if counts is not None:
            if position == "choice":
                choice["usage"] = counts
            if position in ("finish", "x_groq"):
                top["usage"] = counts
            if position == "x_groq":
                top["x_groq"] = {"id": self._response_id, "usage": counts}
        yield self._chunk(_ChunkDelta(last.delta, choice, top), reason)
        if counts is not None and position == "own":
            yield self._chunk_event({"choices": [], "usage": counts})
        elif counts is not None and position == "again":
            yield self._chunk(_ChunkDelta({"role": "assistant", "content": ""}, top={"usage": counts}), reason)

    def _usage(self, usage: Usage) -> dict[str, Any]:
        prompt, output, reasoning = usage.input_tokens, usage.output_tokens, usage.reasoning_tokens
        cached = {"cached_tokens": usage.cache_read_tokens, "cache_write_tokens": usage.cache_write_tokens}
        total = (prompt or 0) + (output or 0)
        if self._traits.reasoning_excluded_from_output and output is not None and reasoning and reasoning <= output:
            output -= reasoning
        return {
            "prompt_tokens": prompt,
            "completion_tokens": output,
            "total_tokens": total,
            "prompt_tokens_details": {name: count for name, count in cached.items() if count is not None},
            "completion_tokens_details": {} if reasoning is None else {"reasoning_tokens": reasoning},
        }

    def _chunk(self, part: _ChunkDelta, finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": part.delta, "logprobs": None, "finish_reason": finish_reason, **part.choice}
        return self._chunk_event({"choices": [choice], "usage": None, **part.top})

    def _chunk_event(self, fields: dict[str, Any]) -> bytes:
        defaults = {"service_tier": "default", "system_fingerprint": None}
        return self._json_event({**self._common_fields, **defaults, **fields})

    def _json_event(self, chunk: dict[str, Any]) -> bytes:
        return self._sse_event(encode_json(chunk))

    def _sse_event(self, payload: bytes) -> bytes:
        return b"data: %b%b" % (payload, 2 * self._traits.line_end.encode())


# ---------------------------------------------------------------- deltas


class _DeltaEncoder:
    """An encoder of the blocks of one response to deltas: it numbers the calls and keeps their ids unique."""

    def __init__(self, traits: ChatDialect, delta_size: int) -> None:
        self._traits = traits
        self._delta_size = delta_size
        self._ids = TargetIds(traits.id_rule)
        self._call_count = 0

    def encode(self, content: Content) -> Iterator[_ChunkDelta]:
        """Yield the deltas of all blocks, in order."""
        for block in content.blocks:
            yield from self._block(block, is_own=block.metadata.get("provider") == self._traits.name)

    def _block(self, block: Block, *, is_own: bool) -> Iterator[_ChunkDelta]:
        if isinstance(block, TextBlock):
            audio = block.metadata.get("audio") if is_own else None
            if isinstance(audio, dict):
                yield from self._audio_transcript(block, audio)
            else:
                yield from self._text(block, is_own=is_own)
            yield from self._citations(block.metadata.get("citations") if is_own else None)
        elif isinstance(block, ReasoningBlock):
            yield from self._reasoning(block, is_own=is_own)
        elif isinstance(block, ToolCallBlock):
            yield from self._call(block, is_own=is_own)
        elif isinstance(block, FileBlock):
            yield from self._file(block)
        elif isinstance(block, ServerToolBlock) and is_own:
            yield from (_ChunkDelta({"executed_tools": [raw]}) for raw in block.raw if isinstance(raw, dict))
        elif isinstance(block, OpaqueBlock) and is_own and isinstance(block.raw, dict):
            yield _ChunkDelta({"content": [block.raw]})

    def _text(self, block: TextBlock, *, is_own: bool) -> Iterator[_ChunkDelta]:
        name = "refusal" if block.metadata.get("refusal") is True else "content"
        logprobs = block.metadata.get("logprobs") if is_own else None
        choice = {"logprobs": {name: logprobs}} if logprobs else {}
        for text in split_text(block.text, self._delta_size):
            yield _ChunkDelta({name: text}, choice)
            choice = {}

    def _audio_transcript(self, block: TextBlock, audio: dict[str, Any]) -> Iterator[_ChunkDelta]:
        """Yield the transcript of an audio response. Its audio data is another block."""
        if "id" in audio:
            yield _ChunkDelta({"audio": {"id": audio["id"], "transcript": ""}})
        for text in split_text(block.text, self._delta_size):
            yield _ChunkDelta({"audio": {"transcript": text}})
        if "expires_at" in audio:
            yield _ChunkDelta({"audio": {"expires_at": audio["expires_at"]}})

    def _citations(self, citations: Any) -> Iterator[_ChunkDelta]:
        if not isinstance(citations, list) or not citations:
            return
        if self._traits.thinking_parts:  # Mistral's references are parts
            yield _ChunkDelta({"content": citations})
        elif not self._traits.source_lists:
            yield _ChunkDelta({"annotations": citations})
        else:
            addresses = [source for source in citations if isinstance(source, str)]
            results = [source for source in citations if not isinstance(source, str)]
            lists = (("search_results", results), ("citations", addresses))
            yield _ChunkDelta({"content": ""}, top={name: sources for name, sources in lists if sources})

    def _reasoning(self, block: ReasoningBlock, *, is_own: bool) -> Iterator[_ChunkDelta]:
        field_name = self._traits.reasoning_field
        if self._traits.thinking_parts:
            for text in split_text(block.text, self._delta_size):
                yield _ChunkDelta({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]})
            if is_own and block.signature is not None:
                yield _ChunkDelta({"content": [{"type": "thinking", "thinking": [], "signature": block.signature}]})
            return
        details = block.metadata.get("reasoning_details") if is_own else None
        if not isinstance(details, list) and self._traits.reasoning_details:
            kind = "summary" if block.kind == "summary" else "text"
            texts = split_text(block.text, self._delta_size)
            details = [{"type": f"reasoning.{kind}", kind: text, "index": 0} for text in texts]
        if isinstance(details, list):
            # OpenRouter sends each detail twice, as a typed entry and as text; the parser counts it once.
            for detail in details:
                detail_text = reasoning_detail_text(detail) if isinstance(detail, dict) else None
                text_field = {field_name: detail_text} if field_name and detail_text else {}
                yield _ChunkDelta({**text_field, "reasoning_details": [detail]})
        elif field_name:
            for text in split_text(block.text, self._delta_size):
                yield _ChunkDelta({field_name: text})

    def _call(self, block: ToolCallBlock, *, is_own: bool) -> Iterator[_ChunkDelta]:
        raw_id = raw_call_id(block) if is_own else None
        target_id = self._ids.call(block.id, block.name, origin=raw_id)
        index, self._call_count = self._call_count, self._call_count + 1
        raw_arguments = block.metadata.get("raw_arguments")
        text = text_or_json(raw_arguments if isinstance(raw_arguments, str) else block.parameters)
        kind, text_field = ("custom", "input") if block.kind == "custom" else ("function", "arguments")
        is_complete = self._traits.one_chunk_calls
        first: dict[str, Any] = {
            "index": index,
            "id": raw_id or target_id,
            "type": kind,
            kind: {"name": block.name, text_field: text if is_complete else ""},
        }
        if is_own and "extra_content" in block.metadata:
            first["extra_content"] = block.metadata["extra_content"]
        yield _ChunkDelta({"tool_calls": [first]})
        for delta in () if is_complete else split_text(text, self._delta_size):
            yield _ChunkDelta({"tool_calls": [{"index": index, kind: {text_field: delta}}]})

    def _file(self, block: FileBlock) -> Iterator[_ChunkDelta]:
        """Yield audio data in deltas, or an image as OpenRouter sends it. The wire has no field for other files."""
        media_type = block.media_type or ""
        url = block.url or block.data
        if isinstance(block.metadata.get("raw"), dict):
            yield _ChunkDelta({"images": [block.metadata["raw"]]})
        elif media_type.startswith("audio/") and block.data:
            for part in split_text(block.data, max(4, self._delta_size // 4 * 4)):  # each part is complete base64
                yield _ChunkDelta({"audio": {"data": part}})
        elif url and media_type.startswith("image/"):
            if not is_url(url):
                url = normalize_data_url(url) or to_data_url(url, media_type)
            yield _ChunkDelta({"images": [{"type": "image_url", "image_url": {"url": url}}]})
