"""Facts about Anthropic's models, which Anthropic's API and Converse share.

Thinking has two forms. Models up to 4.5 take a budget: ``{"type": "enabled", "budget_tokens": n}``. Later ones decide
for themselves: ``{"type": "adaptive"}`` with an effort; from 4.7 on they refuse budgets and sampling settings
("thinking.type.enabled" "is not supported for this model", OpenHands/software-agent-sdk#3427; "`temperature` is
deprecated for this model", UKGovernmentBEIS/inspect_ai#3721).

From Opus 4.1 to 4.6, models take a temperature or a `top_p`, also with their default values: "`temperature` and `top_p`
cannot both be specified for this model" (lobehub/lobehub#8683; Sonnet, Haiku and Opus 4.5:
https://platform.claude.com/docs/en/about-claude/models/migrating-to-claude-4, SalesforceAIResearch/MCP-Universe#49;
4.6: OpenHands/OpenHands#12846, Vali-98/ChatterUI#564).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streamkit.providers.model_facts import ModelFacts

__all__ = ["CLAUDE_MODELS"]

_OVERVIEW = "https://platform.claude.com/docs/en/about-claude/models/overview"
_THINKING = "https://platform.claude.com/docs/en/build-with-claude/extended-thinking"
_MIGRATION = "https://platform.claude.com/docs/en/about-claude/models/migration-guide"
_ADAPTIVE = "https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking"

#: Facts by a pattern of the model's name without what platforms add to it; the first that matches applies.
CLAUDE_MODELS: Final[Mapping[str, ModelFacts]] = {
    r"claude-(?:2|instant|3-(?:opus|sonnet|haiku))": ModelFacts(
        source=_OVERVIEW, max_output_tokens=4096, reasoning="none"
    ),
    r"claude-3-5": ModelFacts(source=_OVERVIEW, max_output_tokens=8192, reasoning="none"),
    r"claude-opus-4-1(?!\d)": ModelFacts(
        source=_THINKING, max_output_tokens=32_000, reasoning="budget", temperature_excludes_top_p=True
    ),
    r"claude-opus-4(?:-0)?(?!-\d(?!\d))": ModelFacts(source=_THINKING, max_output_tokens=32_000, reasoning="budget"),
    r"claude-(?:opus|sonnet|haiku)-4-5": ModelFacts(
        source=_THINKING, max_output_tokens=64_000, reasoning="budget", temperature_excludes_top_p=True
    ),
    r"claude-3-7|claude-(?:opus|sonnet|haiku)-4(?!-[6-9])": ModelFacts(
        source=_THINKING, max_output_tokens=64_000, reasoning="budget"
    ),
    r"claude-\w+-4-6": ModelFacts(
        source=_ADAPTIVE,
        max_output_tokens=64_000,
        efforts=("low", "medium", "high", "max"),
        temperature_excludes_top_p=True,
    ),
    r"claude-": ModelFacts(
        source=_MIGRATION,
        max_output_tokens=128_000,
        refused=frozenset({"temperature", "top_p", "top_k"}),
        reasoning="adaptive",
        efforts=("low", "medium", "high", "xhigh", "max"),
        reasoning_is_optional=False,
    ),
}
