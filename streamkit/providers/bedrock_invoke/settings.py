"""The settings of InvokeModel's requests, which are Anthropic's."""

from __future__ import annotations

from streamkit.providers.anthropic.settings import read_settings, write_settings

__all__ = ["read_settings", "write_settings"]
