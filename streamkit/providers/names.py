"""The names of the built-in providers as a type, for the completion of editors.

A function that takes a provider also takes any other text: a registered provider has a name of its own. A test compares
the list with the packages. This module must not depend on providers.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

__all__ = ["ProviderName"]

ProviderName: TypeAlias = Literal[
    "anthropic",
    "azure_openai",
    "bedrock_converse",
    "bedrock_invoke",
    "cerebras",
    "cohere",
    "deepseek",
    "fireworks",
    "gemini",
    "groq",
    "huggingface",
    "kimi",
    "mistral",
    "ollama",
    "openai_chat",
    "openai_compatible",
    "openai_responses",
    "openrouter",
    "perplexity",
    "qwen",
    "together",
    "vllm",
    "xai",
]
