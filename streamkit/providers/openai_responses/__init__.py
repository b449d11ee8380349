"""OpenAI's Responses API (https://platform.openai.com/docs/api-reference/responses)."""

from __future__ import annotations

from streamkit.providers.openai_responses.traits import TRAITS
from streamkit.providers.provider import Provider

__all__ = ["PROVIDERS"]

PROVIDERS = (Provider(TRAITS, __name__),)
