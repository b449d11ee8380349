"""Synthetic turns for the benchmarks, in each vendor's documented format, one event in each read.

A turn has reasoning, then text, then two calls whose arguments are streamed, and it varies as real ones do: the length
of a delta, characters that JSON escapes or that are not ASCII, the padding against traffic analysis ("obfuscation"),
sequence numbers and token counts. The variation comes from a fixed seed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator

__all__ = ["TURNS", "deltas_of", "make_turn"]

#: Shares of the deltas of a turn; the rest are arguments.
REASONING, TEXT = 0.2, 0.25

_WORDS: tuple[str, ...] = (
    " the",
    " of",
    " and",
    " weather",
    " is",
    " result",
    ",",
    ".",
    "\n",
    " a",
    " function",
    " with",
    "re",
    "port",
)
_WORDS += (' "quoted"', " caf\u00e9", "ing", " parameter", ":", " 17", " \u00b0C", " which", " therefore", "\n\n")
_PADDING = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


class _Variation:
    """What differs from chunk to chunk."""

    def __init__(self) -> None:
        self._random = random.Random(11)

    def words(self, count: int) -> list[str]:
        """Return deltas of a text."""
        return ["".join(self._random.choices(_WORDS, k=self._random.randint(1, 3))) for _ in range(count)]

    def arguments(self, count: int) -> list[str]:
        """Return the arguments of a call in ``count`` deltas."""
        inner = [json.dumps(text, ensure_ascii=False)[1:-1] for text in self.words(max(0, count - 2))]
        return ['{"text": "', *inner, '"}']

    def padding(self) -> str:
        """Return padding of a varying length, as OpenAI sends it."""
        return "".join(self._random.choices(_PADDING, k=self._random.randint(1, 16)))


def deltas_of(frames: int, calls: int) -> tuple[int, int, int]:
    """Return how many deltas of reasoning, of text and of each call's arguments a turn of about that size has."""
    reasoning, text = int(frames * REASONING), int(frames * TEXT)
    if not calls:
        return reasoning, frames - reasoning, 0
    return reasoning, text, (frames - reasoning - text) // calls


def _data(chunk: object, end: bytes = b"\n\n") -> bytes:
    return b"data: " + json.dumps(chunk, separators=(",", ":"), ensure_ascii=False).encode() + end


def _openai_chat(frames: int, calls: int) -> Iterator[bytes]:
    vary = _Variation()
    reasoning, text, arguments = deltas_of(frames, calls)

    def chunk(delta: dict[str, object], finish: str | None = None, usage: object = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _data(
            {
                "id": "chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG",
                "object": "chat.completion.chunk",
                "created": 1741570283,
                "model": "gpt-4o-2024-08-06",
                "service_tier": "default",
                "system_fingerprint": "fp_fc9f1d7035",
                "choices": [] if usage is not None else [choice],
                "usage": usage,
                "obfuscation": vary.padding(),
            }
        )

    yield chunk({"role": "assistant", "content": "", "refusal": None})
    for delta in vary.words(reasoning):
        yield chunk({"reasoning_content": delta})
    for delta in vary.words(text):
        yield chunk({"content": delta})
    for call in range(calls):
        function = {"name": "write_file", "arguments": ""}
        start = {"index": call, "id": f"call_{call}abcdefghijklmnop", "type": "function", "function": function}
        yield chunk({"tool_calls": [start]})
        for delta in vary.arguments(arguments):
            yield chunk({"tool_calls": [{"index": call, "function": {"arguments": delta}}]})
    yield chunk({}, "tool_calls" if calls else "stop")
    yield chunk({}, usage={"prompt_tokens": 25, "completion_tokens": frames, "total_tokens": frames + 25})
    yield b"data: [DONE]\n\n"


def _anthropic(frames: int, calls: int) -> Iterator[bytes]:
    vary = _Variation()
    reasoning, text, arguments = deltas_of(frames, calls)

    def event(name: str, **fields: object) -> bytes:
        return b"event: " + name.encode() + b"\n" + _data({"type": name, **fields})

    def delta(index: int, **fields: object) -> bytes:
        return event("content_block_delta", index=index, delta=fields)

    message = {"id": "msg_01", "type": "message", "role": "assistant", "content": [], "model": "claude-sonnet-4-5"}
    usage = {"input_tokens": 25, "output_tokens": 1}
    yield event("message_start", message={**message, "stop_reason": None, "usage": usage})
    block: dict[str, object] = {"type": "thinking", "thinking": "", "signature": ""}
    yield event("content_block_start", index=0, content_block=block)
    yield event("ping")
    for words in vary.words(reasoning):
        yield delta(0, type="thinking_delta", thinking=words)
    yield delta(0, type="signature_delta", signature="EqQBCgIYAhIkYTY" * 20)
    yield event("content_block_stop", index=0)
    yield event("content_block_start", index=1, content_block={"type": "text", "text": ""})
    for words in vary.words(text):
        yield delta(1, type="text_delta", text=words)
    yield event("content_block_stop", index=1)
    for call in range(2, calls + 2):
        block = {"type": "tool_use", "id": f"toolu_{call}abcdefghijklmnop", "name": "write_file", "input": {}}
        yield event("content_block_start", index=call, content_block=block)
        for words in vary.arguments(arguments):
            yield delta(call, type="input_json_delta", partial_json=words)
        yield event("content_block_stop", index=call)
    reason = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
    yield event("message_delta", delta=reason, usage={"output_tokens": frames})
    yield event("message_stop")


def _gemini(frames: int, calls: int) -> Iterator[bytes]:
    """Return a turn of text, with complete calls at its end: this wire has no deltas of arguments."""
    vary = _Variation()
    reasoning = int(frames * REASONING)

    def chunk(part: dict[str, object], tokens: int, **more: object) -> bytes:
        content = {"parts": [part], "role": "model"}
        usage = {
            "promptTokenCount": 25,
            "candidatesTokenCount": max(0, tokens - reasoning),  # without the thoughts
            "totalTokenCount": 25 + tokens,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 25}],
            "thoughtsTokenCount": min(tokens, reasoning),
        }
        candidate = {"content": content, "index": 0, **more}
        response = {"candidates": [candidate], "usageMetadata": usage}
        return _data(
            response | {"modelVersion": "gemini-2.5-flash", "responseId": "TR-jaMyVGMjghMIPgPCEuQw"}, b"\r\n\r\n"
        )

    for number, words in enumerate(vary.words(reasoning)):
        yield chunk({"text": words, "thought": True}, number)
    for number, words in enumerate(vary.words(frames - reasoning)):
        yield chunk({"text": words}, reasoning + number)
    for call in range(calls):
        text = "".join(vary.words(40))
        yield chunk({"functionCall": {"name": "write_file", "args": {"text": text}}}, frames + call)
    yield chunk({"text": ""}, frames + calls, finishReason="STOP")


def _openai_responses(frames: int, calls: int) -> Iterator[bytes]:
    vary = _Variation()
    number = iter(range(10**6))
    reasoning, text, arguments = deltas_of(frames, calls)

    def event(name: str, **fields: object) -> bytes:
        return b"event: " + name.encode() + b"\n" + _data({"type": name, "sequence_number": next(number), **fields})

    def delta(name: str, words: str, **place: object) -> bytes:
        return event(name, **place, delta=words, obfuscation=vary.padding())

    response = {"id": "resp_0123456789abcdef", "object": "response", "model": "gpt-5", "status": "in_progress"}
    yield event("response.created", response={**response, "output": []})
    yield event("response.in_progress", response={**response, "output": []})
    thought: dict[str, object] = {"id": "rs_1", "type": "reasoning", "summary": []}
    yield event("response.output_item.added", output_index=0, item=thought)
    place: dict[str, object] = {"item_id": "rs_1", "output_index": 0, "summary_index": 0}
    summary = {"type": "summary_text", "text": ""}
    yield event("response.reasoning_summary_part.added", **place, part=summary)
    thoughts = vary.words(reasoning)
    for words in thoughts:
        yield delta("response.reasoning_summary_text.delta", words, **place)
    summary = {"type": "summary_text", "text": "".join(thoughts)}
    yield event("response.reasoning_summary_text.done", **place, text=summary["text"])
    yield event("response.reasoning_summary_part.done", **place, part=summary)
    thought = {**thought, "summary": [summary]}
    yield event("response.output_item.done", output_index=0, item=thought)
    message: dict[str, object] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "in_progress",
        "content": [],
    }
    yield event("response.output_item.added", output_index=1, item=message)
    place = {"item_id": "msg_1", "output_index": 1, "content_index": 0}
    part: dict[str, object] = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    yield event("response.content_part.added", **place, part=part)
    texts = vary.words(text)
    for words in texts:
        yield delta("response.output_text.delta", words, **place, logprobs=[])
    part = {**part, "text": "".join(texts)}
    yield event("response.output_text.done", **place, text=part["text"], logprobs=[])
    yield event("response.content_part.done", **place, part=part)
    message = {**message, "content": [part], "status": "completed"}
    yield event("response.output_item.done", output_index=1, item=message)
    output: list[object] = [thought, message]
    for call in range(2, calls + 2):
        item = {"id": f"fc_{call}", "type": "function_call", "call_id": f"call_{call}", "name": "write_file"}
        begun = {**item, "arguments": "", "status": "in_progress"}
        yield event("response.output_item.added", output_index=call, item=begun)
        place = {"item_id": f"fc_{call}", "output_index": call}
        parts = vary.arguments(arguments)
        for words in parts:
            yield delta("response.function_call_arguments.delta", words, **place)
        yield event("response.function_call_arguments.done", **place, arguments="".join(parts))
        done = {**item, "arguments": "".join(parts), "status": "completed"}
        output.append(done)
        yield event("response.output_item.done", output_index=call, item=done)
    usage = {
        "input_tokens": 25,
        "output_tokens": frames,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": frames + 25,
    }
    yield event("response.completed", response={**response, "status": "completed", "output": output, "usage": usage})


TURNS: dict[str, Callable[[int, int], Iterator[bytes]]] = {
    "openai_chat": _openai_chat,
    "anthropic": _anthropic,
    "openai_responses": _openai_responses,
    "gemini": _gemini,
}


def make_turn(provider: str, frames: int, calls: int = 2) -> list[bytes]:
    """Return the reads of a turn of about that many frames."""
    return list(TURNS[provider](frames, calls))
