"""What differs by model: limits, settings that a model refuses, and the form in which its reasoning is requested.

`Traits.models` maps patterns of names to `ModelFacts`; each entry names the vendor's page. A model without an entry has
`UNKNOWN_MODEL`: nothing is left out, and settings are written as they are.

Efforts and budgets are translated by Google's table for clients of another vendor
(https://ai.google.dev/gemini-api/docs/openai#thinking): low 1,024 tokens, medium 8,192, high 24,576.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

__all__ = ["EFFORTS", "UNKNOWN_MODEL", "ModelFacts", "budget_for", "effort_for", "nearest_effort"]

#: The efforts of all vendors, from the least to the most.
EFFORTS = ("minimal", "low", "medium", "high", "xhigh", "max")
_BUDGETS = {"minimal": 1024, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 32768, "max": 32768}


class ModelFacts(Struct, frozen=True, kw_only=True):
    """Declared facts of one or several models.

    Attributes:
        source: the vendor's page, or the issue with the refusal.
        max_output_tokens: the most tokens of a response; a request with more is refused. None if unknown.
        refused: the settings that are refused, by their neutral names.
        reasoning: how reasoning is requested: ``none``, the model has none and refuses the setting; ``effort``;
            ``budget``, in tokens; ``adaptive``, the model decides, and a budget is refused; ``any``, in every form
            that the wire has.
        efforts: the efforts that are accepted; empty for any.
        max_budget: the largest budget; None if unknown.
        reasoning_is_optional: reasoning can be turned off.
        temperature_excludes_top_p: a request with both settings is refused.
    """

    source: str
    max_output_tokens: int | None = None
    refused: frozenset[str] = frozenset()
    reasoning: Literal["none", "effort", "budget", "adaptive", "any"] = "any"
    efforts: tuple[str, ...] = ()
    max_budget: int | None = None
    reasoning_is_optional: bool = True
    temperature_excludes_top_p: bool = False


UNKNOWN_MODEL = ModelFacts(source="")


def nearest_effort(effort: str, accepted: Sequence[str]) -> str:
    """Return the accepted effort that is nearest, of two the higher one; an unknown effort unchanged.

    A model that accepts only names that are no degree (``default``) gets the first of them.
    """
    if not accepted or effort in accepted or effort not in EFFORTS:
        return effort
    wanted = EFFORTS.index(effort)
    degrees = [name for name in accepted if name in EFFORTS] or accepted[:1]
    if degrees[0] not in EFFORTS:
        return degrees[0]
    return min(degrees, key=lambda name: (abs(EFFORTS.index(name) - wanted), -EFFORTS.index(name)))


def budget_for(effort: str | None) -> int:
    """Return the budget in tokens for an effort; that of ``medium`` for none and for an unknown one."""
    return _BUDGETS.get(effort or "", _BUDGETS["medium"])


def effort_for(budget: int) -> str:
    """Return the least effort with at least this budget."""
    return next((name for name in ("low", "medium", "high") if _BUDGETS[name] >= budget), "high")
