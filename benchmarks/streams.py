"""Synthetic turns for the benchmarks, in the form in which each server sends them, one frame in each read.

A turn has reasoning, then text, then calls whose arguments are streamed, in short blocks and long ones. Its frames have
the forms of the recorded streams, in about their shares (``python -m benchmarks forms`` counts both):

- Anthropic pads a frame with 0 to 15 spaces before its last brace; the first delta of a call's arguments is empty.
- OpenAI pads chunks with 0 to 15 characters (``obfuscation``), the deltas of Responses to a multiple of 16.
- Other servers of chat, as OpenRouter, repeat the role in each chunk, send empty texts beside reasoning, comments, and
  no padding. A few, as Perplexity, send the usage in each chunk too and end lines with CRLF, or, as Kimi's, put spaces
  after colons and commas.
- Gemini puts a space after each colon, ends lines with CRLF, and counts the tokens in each chunk; its texts are long.
- Bedrock's padding (``p``) has 4 to 59 characters; Cohere and Ollama have none, and Ollama's times differ.

Lengths of deltas, characters that JSON escapes or that are not ASCII, and numbers vary by a fixed seed.
"""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

__all__ = ["TURNS", "WHOLE_CALLS", "make_turn"]

#: Shares of the deltas of a turn; the rest are arguments.
REASONING, TEXT = 0.2, 0.25
SHORT_BLOCKS = (3, 9)  # deltas of the first blocks of text and of the first call; the others share the rest
WHOLE_CALLS = ("gemini", "ollama")  # wires that have no deltas of arguments

_WORDS = [" the", " of", " and", " weather", " is", " result", ",", ".", "\n", " a", " function", " with", "re"]
_WORDS += [
    "port",
    ' "quoted"',
    " caf\u00e9",
    "ing",
    " parameter",
    ":",
    " 17",
    " \u00b0C",
    " which",
    " therefore",
    "\n\n",
]
_PADDING = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


@dataclass(frozen=True)
class _Content:
    """What a turn contains, each text as its deltas, and what varies beside it."""

    reasoning: list[str]
    texts: list[list[str]]
    calls: list[list[str]]
    vary: random.Random
    tokens: int

    def padding(self, length: int) -> str:
        return "".join(self.vary.choices(_PADDING, k=length))


def make_turn(provider: str, frames: int, calls: int = 2, *, reasoning: float = REASONING) -> list[bytes]:
    """Return the reads of a turn of about that many frames.

    Args:
        provider: a key of ``TURNS``.
        frames: the number of deltas.
        calls: the number of calls; without any, the rest of the turn is text.
        reasoning: the share of reasoning; 0 for a turn that has no block of it.
    """
    vary = random.Random(11)

    def words(count: int) -> list[str]:
        most = {"gemini": 24, "anthropic": 4, "bedrock_converse": 4}.get(provider, 2)
        return ["".join(vary.choices(_WORDS, k=vary.randint(1, most))) for _ in range(count)]

    def arguments(count: int) -> list[str]:
        inner = [json.dumps(text, ensure_ascii=False)[1:-1] for text in words(max(0, count - 2))]
        return ['{"text": "', *inner, '"}']

    thoughts = int(frames * reasoning)
    text = int(frames * TEXT) if calls and provider not in WHOLE_CALLS else frames - thoughts
    short = [size for size in SHORT_BLOCKS if size < text / 3]
    sizes = [(frames - thoughts - text) // calls] * calls if calls else []
    if provider in WHOLE_CALLS:
        sizes = [40] * calls
    elif len(sizes) > 1 and sizes[0] > SHORT_BLOCKS[1]:
        sizes[-1] += sizes[0] - SHORT_BLOCKS[1]
        sizes[0] = SHORT_BLOCKS[1]
    texts = [words(size) for size in (*short, text - sum(short))]
    content = _Content(words(thoughts), texts, [arguments(size) for size in sizes], vary, frames)
    return list(TURNS[provider](content))


def _json(chunk: object, separators: tuple[str, str] = (",", ":")) -> bytes:
    return json.dumps(chunk, separators=separators, ensure_ascii=False).encode()


def _openai_chat(content: _Content) -> Iterator[bytes]:
    def chunk(delta: dict[str, object], finish: str | None = None, usage: object = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        data = {
            "id": "chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG",
            "object": "chat.completion.chunk",
            "created": 1741570283,
            "model": "gpt-4o-2024-08-06",
            "service_tier": "default",
            "system_fingerprint": "fp_fc9f1d7035",
            "choices": [] if usage is not None else [choice],
            "usage": usage,
            "obfuscation": content.padding(content.vary.randrange(16)),
        }
        return b"data: " + _json(data) + b"\n\n"

    yield chunk({"role": "assistant", "content": "", "refusal": None})
    for words in content.reasoning:
        yield chunk({"reasoning_content": words})
    for words in (words for block in content.texts for words in block):
        yield chunk({"content": words})
    for call, parts in enumerate(content.calls):
        function = {"name": "write_file", "arguments": ""}
        start = {"index": call, "id": f"call_{call}abcdefghijklmnop", "type": "function", "function": function}
        yield chunk({"tool_calls": [start]})
        for words in parts:
            yield chunk({"tool_calls": [{"index": call, "function": {"arguments": words}}]})
    yield chunk({}, "tool_calls" if content.calls else "stop")
    details = {"completion_tokens_details": {"reasoning_tokens": 0}, "prompt_tokens_details": {"cached_tokens": 0}}
    usage = {"prompt_tokens": 25, "completion_tokens": content.tokens, "total_tokens": content.tokens + 25}
    yield chunk({}, usage=usage | details)
    yield b"data: [DONE]\n\n"


def _openrouter(
    content: _Content, *, line_end: bytes = b"\n", has_usage: bool = False, separators: tuple[str, str] = (",", ":")
) -> Iterator[bytes]:
    tokens = iter(range(1, 10**6))

    def chunk(delta: dict[str, object], finish: str | None = None) -> bytes:
        data: dict[str, object] = {
            "id": "gen-1777319805-xxNVuABVmXTjx5tL2OBX",
            "object": "chat.completion.chunk",
            "created": 1777319805,
            "model": "z-ai/glm-4.6",
            "choices": [{"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": finish}],
        }
        if has_usage or finish:
            count = next(tokens)
            data["usage"] = {"prompt_tokens": 25, "completion_tokens": count, "total_tokens": 25 + count}
        return b"data: " + _json(data, separators) + line_end * 2

    yield b": PROCESSING" + line_end * 2
    yield chunk({"content": ""})
    for words in content.reasoning:
        yield chunk({"content": "", "reasoning": words})
    for words in (words for block in content.texts for words in block):
        yield chunk({"content": words})
    for call, parts in enumerate(content.calls):
        function = {"name": "write_file", "arguments": ""}
        start = {"index": call, "id": f"call_{call}abcdefghijklmnop", "type": "function", "function": function}
        yield chunk({"content": None, "tool_calls": [start]})
        for words in ("", *parts):
            yield chunk({"content": None, "tool_calls": [{"index": call, "function": {"arguments": words}}]})
    yield chunk({"content": ""}, "tool_calls" if content.calls else "stop")
    yield b"data: [DONE]" + line_end * 2


def _anthropic(content: _Content) -> Iterator[bytes]:
    def event(name: str, **fields: object) -> bytes:
        data = _json({"type": name, **fields})[:-1] + b" " * content.vary.randint(0, 15) + b"}"
        return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"

    def block(index: int, start: dict[str, object], kind: str, field: str, deltas: list[str]) -> Iterator[bytes]:
        yield event("content_block_start", index=index, content_block=start)
        if not index:
            yield b'event: ping\ndata: {"type": "ping"}\n\n'
        for words in deltas:
            yield event("content_block_delta", index=index, delta={"type": kind, field: words})
        if kind == "thinking_delta":
            signature = {"type": "signature_delta", "signature": "EqQBCgIYAhIkYTY" * 20}
            yield event("content_block_delta", index=index, delta=signature)
        yield event("content_block_stop", index=index)

    message = {"model": "claude-sonnet-4-5", "id": "msg_01", "type": "message", "role": "assistant", "content": []}
    counts = {"input_tokens": 25, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    cache = {"cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}}
    usage = {**counts, **cache, "output_tokens": 1, "service_tier": "standard"}
    yield event("message_start", message={**message, "stop_reason": None, "stop_sequence": None, "usage": usage})
    first_text = bool(content.reasoning)
    if content.reasoning:
        thinking: dict[str, object] = {"type": "thinking", "thinking": "", "signature": ""}
        yield from block(0, thinking, "thinking_delta", "thinking", content.reasoning)
    for index, words in enumerate(content.texts, first_text):
        yield from block(index, {"type": "text", "text": ""}, "text_delta", "text", words)
    for index, words in enumerate(content.calls, first_text + len(content.texts)):
        call = {"type": "tool_use", "id": f"toolu_{index}abcdefghijklmnop", "name": "write_file", "input": {}}
        yield from block(index, call, "input_json_delta", "partial_json", ["", *words])
    reason = {"stop_reason": "tool_use" if content.calls else "end_turn", "stop_sequence": None}
    yield event("message_delta", delta=reason, usage={**counts, "output_tokens": content.tokens})
    yield event("message_stop")


def _gemini(content: _Content) -> Iterator[bytes]:
    def chunk(part: dict[str, object], tokens: int, thoughts: int, **more: object) -> bytes:
        usage = {
            "promptTokenCount": 25,
            "candidatesTokenCount": tokens,
            "totalTokenCount": 25 + tokens + thoughts,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 25}],
            "thoughtsTokenCount": thoughts,
        }
        candidate = {"content": {"parts": [part], "role": "model"}, **more, "index": 0}
        response = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-2.5-flash"}
        return b"data: " + _json(response | {"responseId": "TR-jaMyVGMjghMIPgPCEuQw"}, (",", ": ")) + b"\r\n\r\n"

    thoughts = tokens = 0
    for words in content.reasoning:
        thoughts += 1 + len(words) // 4
        yield chunk({"text": words, "thought": True}, tokens, thoughts)
    for words in (words for block in content.texts for words in block):
        tokens += 1 + len(words) // 4
        yield chunk({"text": words}, tokens, thoughts)
    for parts in content.calls:
        call = {"name": "write_file", "args": json.loads("".join(parts))}
        yield chunk({"functionCall": call, "thoughtSignature": "CloBvj72" * 30}, tokens, thoughts)
    yield chunk({"text": ""}, tokens, thoughts, finishReason="STOP")


def _openai_responses(content: _Content) -> Iterator[bytes]:
    number = iter(range(10**6))

    def event(name: str, **fields: object) -> bytes:
        data = {"type": name, "sequence_number": next(number), **fields}
        return b"event: " + name.encode() + b"\ndata: " + _json(data) + b"\n\n"

    def delta(name: str, words: str, place: dict[str, object], **more: object) -> bytes:
        return event(name, **place, delta=words, **more, obfuscation=content.padding(-len(words) % 16))

    response = {"id": "resp_0123456789abcdef", "object": "response", "model": "gpt-5", "status": "in_progress"}
    settings = {"created_at": 1741570283, "parallel_tool_calls": True, "temperature": 1.0, "tool_choice": "auto"}
    response |= settings | {"error": None, "reasoning": {"effort": "high", "summary": "detailed"}, "metadata": {}}
    yield event("response.created", response={**response, "output": [], "usage": None})
    yield event("response.in_progress", response={**response, "output": [], "usage": None})
    output: list[object] = []
    if content.reasoning:
        thought: dict[str, object] = {"id": "rs_1", "type": "reasoning", "summary": []}
        yield event("response.output_item.added", output_index=0, item=thought)
        place: dict[str, object] = {"item_id": "rs_1", "output_index": 0, "summary_index": 0}
        summary = {"type": "summary_text", "text": ""}
        yield event("response.reasoning_summary_part.added", **place, part=summary)
        for words in content.reasoning:
            yield delta("response.reasoning_summary_text.delta", words, place)
        summary = {"type": "summary_text", "text": "".join(content.reasoning)}
        yield event("response.reasoning_summary_text.done", **place, text=summary["text"])
        yield event("response.reasoning_summary_part.done", **place, part=summary)
        output.append({**thought, "summary": [summary]})
        yield event("response.output_item.done", output_index=0, item=output[0])
    number_of_message = len(output)
    message: dict[str, object] = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    yield event("response.output_item.added", output_index=number_of_message, item={**message, "status": "in_progress"})
    parts: list[dict[str, object]] = []
    for index, block in enumerate(content.texts):
        place = {"item_id": "msg_1", "output_index": number_of_message, "content_index": index}
        part: dict[str, object] = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        yield event("response.content_part.added", **place, part=part)
        for words in block:
            yield delta("response.output_text.delta", words, place, logprobs=[])
        parts.append({**part, "text": "".join(block)})
        yield event("response.output_text.done", **place, text="".join(block), logprobs=[])
        yield event("response.content_part.done", **place, part=parts[-1])
    message = {**message, "content": parts, "status": "completed"}
    yield event("response.output_item.done", output_index=number_of_message, item=message)
    output.append(message)
    for call, deltas in enumerate(content.calls, len(output)):
        item = {"id": f"fc_{call}", "type": "function_call", "call_id": f"call_{call}", "name": "write_file"}
        yield event(
            "response.output_item.added", output_index=call, item={**item, "arguments": "", "status": "in_progress"}
        )
        place = {"item_id": f"fc_{call}", "output_index": call}
        for words in deltas:
            yield delta("response.function_call_arguments.delta", words, place)
        yield event("response.function_call_arguments.done", **place, arguments="".join(deltas))
        output.append({**item, "arguments": "".join(deltas), "status": "completed"})
        yield event("response.output_item.done", output_index=call, item=output[-1])
    usage = {"input_tokens": 25, "output_tokens": content.tokens, "total_tokens": content.tokens + 25}
    usage_details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    done = {**response, "status": "completed", "output": output, "usage": usage | usage_details}
    yield event("response.completed", response=done)


def _bedrock_converse(content: _Content) -> Iterator[bytes]:
    def event(name: str, **fields: object) -> bytes:
        payload = _json({**fields, "p": _PADDING[: content.vary.randint(4, 59)]})
        headers = b""
        for key, value in ((":event-type", name), (":content-type", "application/json"), (":message-type", "event")):
            headers += bytes([len(key)]) + key.encode() + b"\x07" + len(value).to_bytes(2) + value.encode()
        prelude = (len(headers) + len(payload) + 16).to_bytes(4) + len(headers).to_bytes(4)
        message = prelude + zlib.crc32(prelude).to_bytes(4) + headers + payload
        return message + zlib.crc32(message).to_bytes(4)

    yield event("messageStart", role="assistant")
    for words in content.reasoning:
        yield event("contentBlockDelta", contentBlockIndex=0, delta={"reasoningContent": {"text": words}})
    first_text = bool(content.reasoning)
    if content.reasoning:
        signature = {"reasoningContent": {"signature": "EqQBCgIYAhIkYTY" * 20}}
        yield event("contentBlockDelta", contentBlockIndex=0, delta=signature)
        yield event("contentBlockStop", contentBlockIndex=0)
    for index, block in enumerate(content.texts, first_text):
        for words in block:
            yield event("contentBlockDelta", contentBlockIndex=index, delta={"text": words})
        yield event("contentBlockStop", contentBlockIndex=index)
    for index, deltas in enumerate(content.calls, first_text + len(content.texts)):
        start = {"toolUse": {"name": "write_file", "toolUseId": f"tooluse_{index}abcdefghijklmnop"}}
        yield event("contentBlockStart", contentBlockIndex=index, start=start)
        for words in deltas:
            yield event("contentBlockDelta", contentBlockIndex=index, delta={"toolUse": {"input": words}})
        yield event("contentBlockStop", contentBlockIndex=index)
    yield event("messageStop", stopReason="tool_use" if content.calls else "end_turn")
    usage = {"inputTokens": 25, "outputTokens": content.tokens, "totalTokens": 25 + content.tokens}
    yield event("metadata", metrics={"latencyMs": 791}, usage=usage)


def _cohere(content: _Content) -> Iterator[bytes]:
    def event(name: str, **fields: object) -> bytes:
        return b"event: " + name.encode() + b"\ndata: " + _json({"type": name, **fields}) + b"\n\n"

    def delta(name: str, index: int, **message: object) -> bytes:
        return event(name, index=index, delta={"message": message})

    message = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
    yield event("message-start", id="e6d757a9-f0f3-40fe-9b8a-44cdc3bd18a7", delta={"message": message})
    blocks = [("thinking", content.reasoning), *(("text", block) for block in content.texts)]
    for index, (kind, block) in enumerate((kind, block) for kind, block in blocks if block):
        yield delta("content-start", index, content={"type": kind, kind: ""})
        for words in block:
            yield delta("content-delta", index, content={kind: words})
        yield event("content-end", index=index)
    for index, deltas in enumerate(content.calls):
        function = {"name": "write_file", "arguments": ""}
        call = {"id": f"write_file_{index}wwc00d8v5", "type": "function", "function": function}
        yield delta("tool-call-start", index, tool_calls=call)
        for words in deltas:
            yield delta("tool-call-delta", index, tool_calls={"function": {"arguments": words}})
        yield event("tool-call-end", index=index)
    tokens = {"input_tokens": 25, "output_tokens": content.tokens}
    finish = "TOOL_CALL" if content.calls else "COMPLETE"
    yield event("message-end", delta={"finish_reason": finish, "usage": {"billed_units": tokens, "tokens": tokens}})
    yield b"data: [DONE]\n\n"


def _ollama(content: _Content) -> Iterator[bytes]:
    def line(message: dict[str, object], **more: object) -> bytes:
        time = f"2026-08-06T06:29:48.{content.vary.randrange(10**6):06}Z"
        message = {"role": "assistant", "content": "", **message}
        return _json({"model": "qwen3:4b", "created_at": time, "message": message, **({"done": False} | more)}) + b"\n"

    for words in content.reasoning:
        yield line({"thinking": words})
    for words in (words for block in content.texts for words in block):
        yield line({"content": words})
    for index, parts in enumerate(content.calls):
        function = {"index": index, "name": "write_file", "arguments": json.loads("".join(parts))}
        yield line({"tool_calls": [{"id": f"call_{index}", "function": function}]})
    yield line({}, done=True, done_reason="stop", total_duration=17403128000, eval_count=content.tokens)


TURNS: dict[str, Callable[[_Content], Iterator[bytes]]] = {
    "openai_chat": _openai_chat,
    "openrouter": _openrouter,
    "kimi": partial(_openrouter, separators=(", ", ": ")),
    "perplexity": partial(_openrouter, line_end=b"\r\n", has_usage=True),
    "anthropic": _anthropic,
    "openai_responses": _openai_responses,
    "gemini": _gemini,
    "bedrock_converse": _bedrock_converse,
    "cohere": _cohere,
    "ollama": _ollama,
}
