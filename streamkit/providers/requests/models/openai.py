"""Facts about OpenAI's models, which Chat Completions and the Responses API share.

The models' pages (https://platform.openai.com/docs/models) have the limits. Reasoning models refuse sampling settings:
"Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported."
(https://platform.openai.com/docs/guides/latest-model#gpt-5-parameter-compatibility, khoj-ai/khoj#1377).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from streamkit.providers.contract.traits import ModelFacts, SharedField

__all__ = ["OPENAI_FIELDS", "OPENAI_MODELS"]

_MODELS = "https://platform.openai.com/docs/models"
_REASONING = "https://platform.openai.com/docs/guides/reasoning"
_PARAMETERS = "https://platform.openai.com/docs/guides/latest-model#gpt-5-parameter-compatibility"
_SAMPLING = frozenset({"temperature", "top_p", "frequency_penalty", "presence_penalty"})
_WITH_STOP = _SAMPLING | {"stop"}

#: Facts by a pattern of the model's name; the first that matches applies.
OPENAI_MODELS: Final[Mapping[str, ModelFacts]] = {
    r"gpt-5[\d.]*-chat|chatgpt": ModelFacts(source=_MODELS, max_output_tokens=16384, reasoning="none"),
    r"gpt-5\.[6-9]|gpt-[6-9]": ModelFacts(
        source=_PARAMETERS,
        max_output_tokens=128_000,
        refused=_WITH_STOP,
        reasoning="effort",
        efforts=("low", "medium", "high", "xhigh", "max"),
    ),
    r"gpt-5\.": ModelFacts(
        source=_PARAMETERS,
        max_output_tokens=128_000,
        refused=_WITH_STOP,
        reasoning="effort",
        efforts=("low", "medium", "high", "xhigh"),
    ),
    r"gpt-5": ModelFacts(
        source=_PARAMETERS,
        max_output_tokens=128_000,
        refused=_WITH_STOP,
        reasoning="effort",
        efforts=("minimal", "low", "medium", "high"),
        reasoning_is_optional=False,
    ),
    # "Unsupported parameter: 'parallel_tool_calls' is not supported with this model" (openai/openai-agents-python#39)
    r"o1|o3-mini": ModelFacts(
        source=_REASONING,
        max_output_tokens=100_000,
        refused=_SAMPLING | {"parallel_calls"},
        reasoning="effort",
        efforts=("low", "medium", "high"),
        reasoning_is_optional=False,
    ),
    # https://platform.openai.com/docs/api-reference/chat/create#chat-create-stop: "Not supported with latest reasoning
    # models `o3` and `o4-mini`."
    r"o\d|codex": ModelFacts(
        source=_REASONING,
        max_output_tokens=100_000,
        refused=_WITH_STOP,
        reasoning="effort",
        efforts=("low", "medium", "high"),
        reasoning_is_optional=False,
    ),
    r"(?:ft:)?gpt-4\.1": ModelFacts(source=_MODELS, max_output_tokens=32768, reasoning="none"),
    r"(?:ft:)?gpt-4o": ModelFacts(source=_MODELS, max_output_tokens=16384, reasoning="none"),
    r"(?:ft:)?gpt-4-turbo|(?:ft:)?gpt-3\.5": ModelFacts(source=_MODELS, max_output_tokens=4096, reasoning="none"),
    r"(?:ft:)?gpt-4": ModelFacts(source=_MODELS, max_output_tokens=8192, reasoning="none"),
}

#: The fields of Chat Completions and of Responses with one meaning (both of
#: https://platform.openai.com/docs/api-reference, and the types of the SDK).
OPENAI_FIELDS: Final[Mapping[str, SharedField]] = {
    # Who the user is, for the detection of abuse. Of Claude Code it is longer, and refused (looplj/axonhub#1669,
    # maximhq/bifrost#1000). `user` is the older name.
    "safety_identifier": SharedField(("safety_identifier",), accepts=re.compile(r"(?s:.{1,64})")),
    **{
        name: SharedField((name,))
        for name in (
            *("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"),
            *("user", "service_tier", "moderation", "metadata"),
        )
    },
}
