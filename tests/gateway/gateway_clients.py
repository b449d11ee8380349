"""A request of each client's own, for a stream, and its path; and the reading of what a client gets."""

from __future__ import annotations

from typing import Any

from streamkit import Turn

Json = dict[str, Any]

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
QUESTION = "Weather in Oslo and Bergen?"

#: A request of each client's own, for a stream, and its path.
CLIENTS: dict[str, tuple[str, Json]] = {
    "anthropic": (
        "/v1/messages",
        {
            "model": "m", "max_tokens": 100, "stream": True, "messages": [{"role": "user", "content": QUESTION}],
            "tools": [{"name": "weather", "input_schema": CITY}],
        },
    ),
    "openai_chat": (
        "/v1/chat/completions",
        {
            "model": "m", "stream": True, "messages": [{"role": "user", "content": QUESTION}],
            "tools": [{"type": "function", "function": {"name": "weather", "parameters": CITY}}],
        },
    ),
    "openai_responses": (
        "/v1/responses",
        {
            "model": "m", "stream": True, "input": QUESTION,
            "tools": [{"type": "function", "name": "weather", "parameters": CITY, "strict": False}],
        },
    ),
    "gemini": (
        "/v1beta/models/m:streamGenerateContent?alt=sse",
        {
            "contents": [{"role": "user", "parts": [{"text": QUESTION}]}],
            "tools": [{"functionDeclarations": [{"name": "weather", "parametersJsonSchema": CITY}]}],
        },
    ),
    "ollama": (
        "/api/chat",
        {
            "model": "m", "messages": [{"role": "user", "content": QUESTION}],
            "tools": [{"type": "function", "function": {"name": "weather", "parameters": CITY}}],
        },
    ),
    "cohere": (
        "/v2/chat",
        {
            "model": "m", "stream": True, "messages": [{"role": "user", "content": QUESTION}],
            "tools": [{"type": "function", "function": {"name": "weather", "parameters": CITY}}],
        },
    ),
}  # fmt: skip


def read_turn(client: str, data: bytes) -> Turn:
    turn = Turn(client)
    turn.feed(data)
    turn.close()
    return turn
