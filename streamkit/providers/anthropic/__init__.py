"""Anthropic's Messages API: https://docs.anthropic.com/en/api/messages."""

from __future__ import annotations

from streamkit.providers.anthropic.traits import TRAITS
from streamkit.providers.provider import Provider

__all__ = ["PROVIDERS"]

PROVIDERS = (Provider(TRAITS, __name__),)
