"""The importer of InvokeModel's messages, which are Anthropic's."""

from __future__ import annotations

from streamkit.providers.anthropic.importer import parse_messages

__all__ = ["parse_messages"]
