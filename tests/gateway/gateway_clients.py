"""A request of each client's own, for a stream, and its path; a client in process, and the reading of what it gets."""

from __future__ import annotations

from typing import Any

import anyio
import httpx

from streamkit import Turn
from streamkit.gateway import Upstream

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


def client_of(app: Any, root_path: str = "") -> httpx.AsyncClient:
    """Return an HTTP client of an application, in process."""
    transport = httpx.ASGITransport(app, root_path=root_path)
    return httpx.AsyncClient(transport=transport, base_url="http://gateway")


class Silent:
    """An upstream's response that fails when the test has ended it, and begins until then."""

    def __init__(self) -> None:
        self.asked, self.ended = anyio.Event(), anyio.Event()
        self.upstream = Upstream(provider="anthropic", ask=lambda request: self)

    async def __aenter__(self) -> Any:
        self.asked.set()
        await self.ended.wait()
        raise ConnectionError("no")

    async def __aexit__(self, *_: object) -> None: ...


def read_turn(client: str, data: bytes) -> Turn:
    turn = Turn(client)
    turn.feed(data)
    turn.close()
    return turn
