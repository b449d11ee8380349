"""The requests that InvokeModel refuses; the rules are Anthropic's."""

from __future__ import annotations

from streamkit.providers.anthropic.request_rules import list_rules

__all__ = ["list_rules"]
