"""Chat Completions: OpenAI's wire, and the dialects of it that other vendors serve.

A dialect is data (`dialects.py`), never a subclass. https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

from streamkit.providers.openai_chat.dialects import DIALECTS
from streamkit.providers.provider import Provider

__all__ = ["PROVIDERS"]

PROVIDERS = tuple(Provider(dialect, __name__) for dialect in DIALECTS)
