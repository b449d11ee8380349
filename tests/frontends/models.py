"""The model of the application, on the three wires that its server speaks."""

from __future__ import annotations

from collections.abc import Mapping

from frontends.backend import Backend

from streamkit.bridges import http

MODEL = "judge-model-1"
KEY = "sk-judge-0123456789abcdefghijklmnop"
SYSTEM = "You help people who test front ends."

#: Of the value of the header ``x-judge-wire``, the provider and the path of its base URL.
WIRES = {"anthropic": ("anthropic", ""), "chat": ("openai_chat", "/v1"), "gemini": ("gemini", "")}


def connect(backend: Backend, headers: Mapping[str, str]) -> tuple[str, http.HttpConnection]:
    """Return the provider and the ``create_new_stream`` of a request to the application."""
    provider, path = WIRES.get(headers.get("x-judge-wire", ""), WIRES["anthropic"])
    address = backend.upstream + path
    return provider, http.connect(provider, model=MODEL, api_key=KEY, base_url=address, client=backend.http)
