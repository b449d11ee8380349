"""The model of the application, on the three wires that its server speaks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from frontends.backend import Backend

from streamkit.execution import CreateStream, RoundContext

MODEL = "judge-model-1"
KEY = "sk-judge-0123456789abcdefghijklmnop"
SYSTEM = "You help people who test front ends."


class Wire(NamedTuple):
    """A wire of the model's server: the provider, the path, the headers, and the settings that each body has."""

    provider: str
    path: str
    headers: dict[str, str]
    settings: dict[str, Any]


WIRES = {
    "anthropic": Wire(
        "anthropic",
        "/v1/messages",
        {"x-api-key": KEY, "anthropic-version": "2023-06-01"},
        {"model": MODEL, "max_tokens": 4096},
    ),
    "chat": Wire("openai_chat", "/v1/chat/completions", {"authorization": f"Bearer {KEY}"}, {"model": MODEL}),
    "gemini": Wire("gemini", f"/v1beta/models/{MODEL}:streamGenerateContent?alt=sse", {"x-goog-api-key": KEY}, {}),
}


def connect(backend: Backend, headers: Mapping[str, str]) -> tuple[str, CreateStream]:
    """Return the provider and the ``create_new_stream`` of a request to the application."""
    wire = WIRES.get(headers.get("x-judge-wire", ""), WIRES["anthropic"])

    def create_new_stream(context: RoundContext) -> Any:
        body = {**wire.settings, **context.request}
        return backend.http.stream("POST", backend.upstream + wire.path, headers=wire.headers, json=body)

    return wire.provider, create_new_stream
