"""The smallest request that each wire accepts."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

_MESSAGES = {"messages": [{"role": "user", "content": "Hi"}]}
_REQUESTS: dict[str, dict[str, Any]] = {
    "anthropic": {"model": "m", "max_tokens": 100, "stream": True, **_MESSAGES},
    "bedrock_invoke": {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 100, **_MESSAGES},
    "bedrock_converse": {"messages": [{"role": "user", "content": [{"text": "Hi"}]}]},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
    "ollama": {"model": "m", **_MESSAGES},
    "openai_responses": {"model": "m", "input": "Hi", "stream": True},
}


def smallest_request(name: str) -> dict[str, Any]:
    """Return a body that asks a provider for a stream."""
    return deepcopy(_REQUESTS.get(name, {"model": "m", "stream": True, **_MESSAGES}))
