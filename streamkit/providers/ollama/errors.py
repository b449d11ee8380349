"""The meaning of Ollama's errors, which are a text. This module must not depend on lines of the stream."""

from __future__ import annotations

from typing import Final

from streamkit.providers.error_rules import ErrorRules, MessageRule

__all__ = ["ERRORS"]

ERRORS: Final = ErrorRules(
    messages=(
        MessageRule("not_found", r"model .{1,200}? not found"),  # "model 'x' not found, try pulling it first"
        # "prompt too long; exceeded max context length by 12 tokens"
        MessageRule("context_overflow", r"prompt too long; exceeded (?:max )?context length"),
        MessageRule("context_overflow", r"exceeds the available context size"),  # of the llama.cpp within
        # Of cloud models: "you have reached your weekly usage limit, upgrade for higher limits"
        # (HomericIntelligence/Scylla#346, continuedev/continue#11444)
        MessageRule("quota_exceeded", r"reached your \w+ usage limit"),
        MessageRule("overloaded", r"server busy|server overloaded"),  # ollama/ollama#15934
    ),
    overflow=("prompt too long; exceeded max context length",),
)
