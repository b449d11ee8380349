"""Streams for the tests of execution, as lists of chunks of the Chat Completions wire."""

from __future__ import annotations

import json
from typing import Any

from streamkit import Turn


def answer(
    text: str = "",
    *calls: tuple[str, Any],
    finish: str | None = None,
    usage: tuple[int, int] | None = None,
    refusal: str | None = None,
) -> list[dict[str, Any]]:
    """Return all chunks of a response. A call's arguments are an object, or text that is sent unchanged."""
    deltas: list[dict[str, Any]] = [{"role": "assistant"}]
    if text:
        deltas.append({"content": text})
    if refusal:
        deltas.append({"refusal": refusal})
    for index, (name, arguments) in enumerate(calls):
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        function = {"name": name, "arguments": text}
        deltas.append(
            {"tool_calls": [{"index": index, "id": f"call_{index}", "type": "function", "function": function}]}
        )
    chunks = [chunk({"index": 0, "delta": delta}) for delta in deltas]
    end = chunk({"index": 0, "delta": {}, "finish_reason": finish or ("tool_calls" if calls else "stop")})
    if usage is not None:
        end["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return [*chunks, end]


def chunk(choice: dict[str, Any]) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def as_bytes(chunks: list[dict[str, Any]]) -> list[bytes]:
    """Return the chunks as parts of an event stream, with its terminator."""
    return [*(b"data: " + json.dumps(each).encode() + b"\n\n" for each in chunks), b"data: [DONE]\n\n"]


def closed_turn(*args: Any, key: str = "turn", provider: str = "openai_chat", **more: Any) -> Turn:
    """Return a turn that was fed ``answer(...)`` and closed."""
    turn = Turn(provider, turn_key=key)
    for each in answer(*args, **more):
        turn.feed(each)
    turn.close()
    return turn
