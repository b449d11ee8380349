"""Reasoning of a script appears where each official SDK shows it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest
import sdk_clients

from streamkit.testing import Reasoning, Reply, serve

#: The provider, the server's URL as its SDK takes it, the module of the SDK, and the reasoning in one chunk.
SHOWN: list[tuple[str, str, str, Callable[[Any], Any]]] = [
    ("anthropic", "", "anthropic", lambda chunk: getattr(getattr(chunk, "delta", None), "thinking", None)),
    (
        "openai_responses",
        "",
        "openai",
        lambda chunk: chunk.delta if chunk.type == "response.reasoning_summary_text.delta" else None,
    ),
    ("openrouter", "", "openai", lambda chunk: chunk.choices and getattr(chunk.choices[0].delta, "reasoning", None)),
    (
        "deepseek",
        "",
        "openai",
        lambda chunk: chunk.choices and getattr(chunk.choices[0].delta, "reasoning_content", None),
    ),
    ("groq", "/v1", "groq", lambda chunk: chunk.choices[0].delta.reasoning),
    (
        "mistral",
        "/v1",
        "mistralai",
        lambda event: "".join(
            part.text
            for piece in event.data.choices[0].delta.content or ()
            if getattr(piece, "type", None) == "thinking"
            for part in piece.thinking
        ),
    ),
    (
        "gemini",
        "",
        "google.genai",
        lambda chunk: "".join(part.text or "" for part in chunk.candidates[0].content.parts or () if part.thought),
    ),
    (
        "cohere",
        "",
        "cohere",
        lambda event: event.type == "content-delta" and getattr(event.delta.message.content, "thinking", None),
    ),
    ("ollama", "", "ollama", lambda chunk: chunk.message.thinking),
    (
        "bedrock_converse",
        "",
        "boto3",
        lambda event: event.get("contentBlockDelta", {}).get("delta", {}).get("reasoningContent", {}).get("text"),
    ),
]


@pytest.mark.parametrize(("provider", "suffix", "module", "shown"), SHOWN, ids=[row[0] for row in SHOWN])
def test_the_sdk_shows_the_reasoning(provider: str, suffix: str, module: str, shown: Callable[[Any], Any]) -> None:
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        pytest.skip(f"{module} is not installed")
    client = sdk_clients.SDKS.get(provider, sdk_clients.openai_chat)
    with serve(Reply(Reasoning("They ask about Oslo.", signature="c2lnbmVk"), "4 degrees.")) as server:
        url = server.base_url(provider).removesuffix(suffix) if suffix else server.base_url(provider)
        with client(url) as ask:
            reasoning = "".join(text for chunk in ask("m") if (text := shown(chunk)))
    assert reasoning == "They ask about Oslo."
