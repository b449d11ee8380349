"""Google's Gemini, on generativelanguage.googleapis.com and on Vertex: https://ai.google.dev/api/generate-content."""

from __future__ import annotations

from streamkit.providers.gemini.traits import TRAITS
from streamkit.providers.provider import Provider

__all__ = ["PROVIDERS"]

PROVIDERS = (Provider(TRAITS, __name__),)
