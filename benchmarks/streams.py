"""Synthetic streams for the benchmarks, in each vendor's documented format, one event in each read."""

from __future__ import annotations

import json
from collections.abc import Callable

TEXTS, DELTAS = 500, 1000  # text deltas, and argument deltas of each of two parallel calls


def _argument_deltas(call: int) -> list[str]:
    """Return the arguments of one call, as DELTAS deltas of about 16 characters."""
    middle = [f"word{number:04} of {call}. " for number in range(DELTAS - 2)]
    return ['{"text":"', *middle, '"}']


def _data(chunk: object, end: bytes = b"\n\n") -> bytes:
    return b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + end


def openai_chat() -> list[bytes]:
    def chunk(delta: dict[str, object], finish: str | None = None) -> bytes:
        return _data(
            {
                "id": "chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG",
                "object": "chat.completion.chunk",
                "created": 1741570283,
                "model": "gpt-4o-2024-08-06",
                "service_tier": "default",
                "system_fingerprint": "fp_fc9f1d7035",
                "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}],
                "usage": None,
                "obfuscation": "x9Kd2",
            }
        )

    events = [chunk({"role": "assistant", "content": ""})]
    events += [chunk({"content": f" token{n}"}) for n in range(TEXTS)]
    for call in (0, 1):
        function = {"name": "write_file", "arguments": ""}
        start = {"index": call, "id": f"call_{call}abcdefghijklmnop", "type": "function", "function": function}
        events.append(chunk({"tool_calls": [start]}))
        events += [
            chunk({"tool_calls": [{"index": call, "function": {"arguments": p}}]}) for p in _argument_deltas(call)
        ]
    events.append(chunk({}, "tool_calls"))
    return [*events, b"data: [DONE]\n\n"]


def anthropic() -> list[bytes]:
    def event(name: str, **fields: object) -> bytes:
        return b"event: " + name.encode() + b"\n" + _data({"type": name, **fields})

    message = {"id": "msg_01", "type": "message", "role": "assistant", "content": [], "model": "claude-sonnet-4-5"}
    usage = {"input_tokens": 25, "output_tokens": 1}
    events = [event("message_start", message={**message, "stop_reason": None, "usage": usage})]
    events.append(event("content_block_start", index=0, content_block={"type": "text", "text": ""}))
    deltas = [{"type": "text_delta", "text": f" token{number}"} for number in range(TEXTS)]
    events += [event("content_block_delta", index=0, delta=delta) for delta in deltas]
    events.append(event("content_block_stop", index=0))
    for call in (1, 2):
        block = {"type": "tool_use", "id": f"toolu_{call}abcdefghijklmnop", "name": "write_file", "input": {}}
        events.append(event("content_block_start", index=call, content_block=block))
        for delta_text in _argument_deltas(call):
            delta = {"type": "input_json_delta", "partial_json": delta_text}
            events.append(event("content_block_delta", index=call, delta=delta))
        events.append(event("content_block_stop", index=call))
    events.append(event("message_delta", delta={"stop_reason": "tool_use"}, usage={"output_tokens": 2500}))
    return [*events, event("message_stop")]


def gemini() -> list[bytes]:
    def chunk(parts: list[object], number: int, **more: object) -> bytes:
        return _data(
            {
                "candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0, **more}],
                "usageMetadata": {
                    "promptTokenCount": 25,
                    "candidatesTokenCount": number,
                    "totalTokenCount": 25 + number,
                    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 25}],
                },
                "modelVersion": "gemini-2.5-flash",
                "responseId": "TR-jaMyVGMjghMIPgPCEuQw",
            },
            b"\r\n\r\n",
        )

    events = [chunk([{"text": f" token{n} and more"}], n) for n in range(TEXTS + 2 * DELTAS)]
    for call in (0, 1):
        part = {"functionCall": {"name": "write_file", "args": {"text": "".join(_argument_deltas(call))[9:-2]}}}
        events.append(chunk([part], 2600 + call))
    return [*events, chunk([{"text": ""}], 2602, finishReason="STOP")]


def openai_responses() -> list[bytes]:
    number = iter(range(10**6))

    def event(name: str, **fields: object) -> bytes:
        return b"event: " + name.encode() + b"\n" + _data({"type": name, "sequence_number": next(number), **fields})

    response = {"id": "resp_0123456789abcdef", "object": "response", "model": "gpt-5", "status": "in_progress"}
    events = [event("response.created", response={**response, "output": []})]
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    events.append(event("response.output_item.added", output_index=0, item=message))
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    events += [
        event("response.output_text.delta", **place, delta=f" token{n}", logprobs=[], obfuscation="x9Kd2")
        for n in range(TEXTS)
    ]
    output: list[object] = []
    for call in (1, 2):
        item = {"id": f"fc_{call}", "type": "function_call", "call_id": f"call_{call}", "name": "write_file"}
        events.append(event("response.output_item.added", output_index=call, item={**item, "arguments": ""}))
        name, place = "response.function_call_arguments.delta", {"item_id": f"fc_{call}", "output_index": call}
        events += [event(name, **place, delta=delta_text, obfuscation="Kd2x9") for delta_text in _argument_deltas(call)]
        done = {**item, "arguments": "".join(_argument_deltas(call)), "status": "completed"}
        output.append(done)
        events.append(event("response.output_item.done", output_index=call, item=done))
    usage = {"input_tokens": 25, "output_tokens": 2500, "total_tokens": 2525}
    final = {**response, "status": "completed", "output": output, "usage": usage}
    return [*events, event("response.completed", response=final)]


STREAMS: dict[str, Callable[[], list[bytes]]] = {
    "openai_chat": openai_chat,
    "anthropic": anthropic,
    "gemini": gemini,
    "openai_responses": openai_responses,
}
