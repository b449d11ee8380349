"""Facts about requests that several dialects share: settings, names of tools, models, places of foreign state.

This module must not depend on the dialects.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from streamkit.providers.model_facts import ModelFacts

__all__ = [
    "GROQ_MODELS",
    "ILLEGAL_IN_NAME",
    "KIMI_MODELS",
    "MISTRAL_MODELS",
    "OPENAI_SETTINGS",
    "SETTINGS",
    "SETTINGS_WITH_TOP_K",
    "XAI_MODELS",
    "call_state",
    "reasoning_state",
    "signature_state",
]

ILLEGAL_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]")

#: https://platform.openai.com/docs/api-reference/chat/create
SETTINGS = {
    "temperature": ("temperature",),
    "top_p": ("top_p",),
    "stop": ("stop",),
    "seed": ("seed",),
    "frequency_penalty": ("frequency_penalty",),
    "presence_penalty": ("presence_penalty",),
    "parallel_calls": ("parallel_tool_calls",),
}
OPENAI_SETTINGS = {**SETTINGS, "verbosity": ("verbosity",)}

SETTINGS_WITH_TOP_K = {**SETTINGS, "top_k": ("top_k",)}

#: "`reasoning_effort` is not supported with this model" (https://console.groq.com/docs/reasoning)
GROQ_MODELS: Final[Mapping[str, ModelFacts]] = {
    r"openai/gpt-oss": ModelFacts(
        source="https://console.groq.com/docs/reasoning",
        reasoning="effort",
        efforts=("low", "medium", "high"),
        reasoning_is_optional=False,
    ),
    # ``reasoning_effort`` in the SDK groq 1.7: "qwen3 models support `none` to disable reasoning and `default`", and
    # "qwen/qwen3.8-27b additionally supports `low`, `medium`, and `high`"
    r"qwen/qwen3\.8": ModelFacts(
        source="https://console.groq.com/docs/reasoning",
        reasoning="effort",
        efforts=("low", "medium", "high", "default"),
    ),
    r"qwen/qwen3": ModelFacts(
        source="https://console.groq.com/docs/reasoning", reasoning="effort", efforts=("default",)
    ),
    r"": ModelFacts(source="https://console.groq.com/docs/reasoning", reasoning="none"),
}

#: "invalid temperature: only 1 is allowed for this model", "invalid top_p: only 0.95 is allowed for this model"
#: (odysseus-dev/odysseus#3959, CherryHQ/cherry-studio#12731). Without reasoning it is another temperature, so both are
#: left out (HKUDS/nanobot#4967).
KIMI_MODELS: Final[Mapping[str, ModelFacts]] = {
    r"kimi-k(?:2\.[5-9]|[3-9])": ModelFacts(
        source="https://platform.moonshot.ai/docs/guide/kimi-k2-5-quickstart#parameters-differences-in-request-body",
        refused=frozenset({"temperature", "top_p", "frequency_penalty", "presence_penalty"}),
    ),
}

_MISTRAL_REASONING = "https://docs.mistral.ai/inference/conversations/reasoning"
#: "Must be one of (<ReasoningEffort.none: 'none'>, <ReasoningEffort.high: 'high'>)" with status 400 for other efforts
#: (architects-toolkit/SmartHopper#647); models whose reasoning is not adjustable refuse the field
#: (NousResearch/hermes-agent#11243, tontinton/maki#396).
MISTRAL_MODELS: Final[Mapping[str, ModelFacts]] = {
    r"mistral-small-(?:latest|2[6-9]|4)|mistral-medium-(?:latest|2[6-9]|3[-.]5)": ModelFacts(
        source=_MISTRAL_REASONING, reasoning="effort", efforts=("high",)
    ),
    r"mistral-large-4": ModelFacts(source=_MISTRAL_REASONING, reasoning="effort", efforts=("low", "medium", "high")),
    r"zai-glm": ModelFacts(source="vercel/ai#20587", reasoning="effort"),
    r"": ModelFacts(source=_MISTRAL_REASONING, reasoning="none"),
}

#: "presencePenalty, frequencyPenalty and stop are not supported by reasoning models"
_REFUSED_BY_REASONING_GROKS = frozenset({"presence_penalty", "frequency_penalty", "stop"})
XAI_MODELS: Final[Mapping[str, ModelFacts]] = {
    r"grok-3-mini": ModelFacts(
        source="https://docs.x.ai/docs/guides/reasoning",
        refused=_REFUSED_BY_REASONING_GROKS,
        reasoning="effort",
        efforts=("low", "high"),
        reasoning_is_optional=False,
    ),
    r"grok-(?:4|code)": ModelFacts(
        source="https://docs.x.ai/docs/guides/reasoning",
        refused=_REFUSED_BY_REASONING_GROKS,
        reasoning="none",
    ),
}


def reasoning_state(state: str, has_text: bool) -> tuple[str | None, dict[str, Any]]:
    """Return the state as one of OpenRouter's details, which clients that know them send back."""
    return None, {"reasoning_details": [{"type": "reasoning.encrypted", "data": state, "format": "unknown"}]}


def signature_state(state: str, has_text: bool) -> tuple[str | None, dict[str, Any]]:
    """Return the state as the signature of a part of reasoning: ``ThinkChunk.signature`` of Mistral's SDKs."""
    return state, {}


def call_state(state: str) -> dict[str, Any]:
    """Return the state in the place of Google's thought signatures, which clients that know it send back."""
    return {"extra_content": {"streamkit": {"state": state}}}
