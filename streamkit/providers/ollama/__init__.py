"""Ollama's native API: https://docs.ollama.com/api/chat. Its OpenAI-compatible endpoint is ``openai_compatible``.

The wire sends no response id: give each ``Turn`` a ``turn_key``.
"""

from __future__ import annotations

from streamkit.providers.ollama.traits import TRAITS
from streamkit.providers.provider import Provider

__all__ = ["PROVIDERS"]

PROVIDERS = (Provider(TRAITS, __name__),)
