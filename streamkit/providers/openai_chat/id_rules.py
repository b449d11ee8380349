"""The ids of calls that the servers of Chat Completions accept."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from msgspec.structs import replace

from streamkit.ids import is_mistral_id, mistral_id_candidates, normalize_to_openai_tool_id
from streamkit.target_ids import IdRule, prefixed_ids

__all__ = ["KIMI_IDS", "MISTRAL_IDS", "OPENAI_IDS", "RULES_OF_MODELS", "SERVER_IDS"]


def _kimi_ids(id: str, name: str, number: int) -> Iterator[str]:
    return (f"functions.{name}:{running}" for running in count(number))


_make_short_ids = prefixed_ids("call_", 40, normalize_to_openai_tool_id)

OPENAI_IDS = IdRule(
    "openai_chat",
    lambda text: 0 < len(text) <= 40,
    _make_short_ids,
    "400 string_above_max_length, at most 40 (agno-agi/agno#5382, microsoft/autogen#6377, vercel/ai#5171)",
)
#: Other servers get back every id that they issued: vLLM's have 46 characters (chatcmpl-tool-...), those of models
#: behind gateways have the model's own form, and LiteLLM puts thought signatures into them: "any client that normalizes
#: ids breaks the next turn" (BerriAI/litellm#16895, #37849).
SERVER_IDS = replace(
    OPENAI_IDS, name="openai_compatible", accepts=bool, source="a server accepts its own ids; else as openai_chat"
)
MISTRAL_IDS = IdRule(
    "mistral",
    is_mistral_id,
    mistral_id_candidates,
    '400 "must be a-z, A-Z, 0-9, with a length of 9" (langchain-ai/langchain#24668, anomalyco/opencode#1680)',
)
KIMI_IDS = IdRule(
    "kimi",
    bool,
    _kimi_ids,
    "the model was trained on functions.{name}:{running index} and degrades on other ids"
    " (vybestack/llxprt-code#713, vllm-project/vllm#21259)",
)
#: Gateways and self-hosted servers pass ids on to these models' templates, which check them.
RULES_OF_MODELS = {"mistral": MISTRAL_IDS, "kimi": KIMI_IDS}
