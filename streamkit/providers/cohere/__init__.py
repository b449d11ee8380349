"""Cohere's chat API, version 2: https://docs.cohere.com/v2/reference/chat-stream."""

from __future__ import annotations

from streamkit.providers.cohere.traits import TRAITS
from streamkit.providers.provider import Provider

__all__ = ["PROVIDERS"]

PROVIDERS = (Provider(TRAITS, __name__),)
